//! What follows where the provider can be asked.

use super::*;

const DELAY: Duration = Duration::from_secs(30);

fn asked(key: Option<KeyTerms>) -> Terms {
    Terms {
        lookup: Some(LookupTerms {
            delay: DELAY,
            keeps: 24 * HOUR,
        }),
        ..terms(key)
    }
}

fn keyed_and_asked() -> Terms {
    asked(keyed().key)
}

impl Told {
    /// Folds in what a look-up at `now` proves.
    fn found(mut self, finding: &Finding, terms: &Terms, now: Timestamp) -> Self {
        let told = reconciled(self.story.as_ref().unwrap(), finding, terms, now, half());
        for (id, answer) in told {
            let attempt = id.attempt;
            self.add(now, Fact::Answered { attempt, answer });
        }
        self
    }
}

fn present() -> Finding {
    Finding::Present(Some("m-1".to_owned()))
}

fn timeouts(terms: &Terms, count: u64) -> Told {
    (0..count).fold(Told::nothing(), |told, n| {
        told.attempt(terms, at(900 * n), &timed_out())
    })
}

#[test]
fn without_a_key_an_unknown_outcome_is_looked_up_once_its_request_is_over_and_has_had_time_to_show()
{
    let terms = asked(None);
    let told = timeouts(&terms, 1);
    // Deadline 40 s, transport bound 10 s, delay 30 s.
    assert_eq!(
        told.next(&terms, &limits(), at(79)),
        Step::Wait { until: at(80) }
    );
    assert_eq!(
        line(&told.next(&terms, &limits(), at(80))),
        "look up (no_key)"
    );
}

#[test]
fn what_another_owner_had_begun_is_over_by_our_own_clock_only_after_we_took_over() {
    let terms = asked(None);
    let told = timeouts(&terms, 1);
    let by = |writer, since| Limits {
        owner: Some(Owner { writer, since }),
        ..limits()
    };
    let other = Writer(Uuid::from_u128(7));
    // Taken over at 60: a request that began before may last to 100, its bound to 110, and 30 for it to show.
    let until = at(60 + 40 + 10 + 30);
    for now in [at(80), at(139)] {
        assert_eq!(
            told.next(&terms, &by(other, at(60)), now),
            Step::Wait { until }
        );
    }
    assert_eq!(
        line(&told.next(&terms, &by(other, at(60)), until)),
        "look up (no_key)"
    );
    // What it had begun itself ends by its own deadline.
    let own = by(Writer(Uuid::nil()), at(60));
    assert_eq!(line(&told.next(&terms, &own, at(80))), "look up (no_key)");
}

#[test]
fn a_wait_that_another_owner_was_asked_for_is_not_undercut_by_a_clock_that_differs_by_a_minute() {
    let terms = keyed();
    for (verdict, skew) in [(Verdict::Throttled, 60), (Verdict::Unknown, 0)] {
        let told = Told::nothing().attempt(&terms, at(0), &heard(verdict));
        let Step::Wait { until } = told.next(&terms, &limits(), at(2)) else {
            panic!("it was not asked to wait");
        };
        let owner = |writer| Limits {
            owner: Some(Owner {
                writer,
                since: at(1),
            }),
            ..limits()
        };
        let own = told.next(&terms, &owner(Writer(Uuid::nil())), at(2));
        assert_eq!(own, Step::Wait { until });
        let foreign = told.next(&terms, &owner(Writer(Uuid::from_u128(7))), at(2));
        let until = until.plus(Duration::from_secs(skew));
        assert_eq!(foreign, Step::Wait { until });
    }
}

#[test]
fn present_is_accepted_and_settles() {
    let terms = asked(None);
    let told = timeouts(&terms, 1).found(&present(), &terms, at(80));
    assert_eq!(told.next(&terms, &limits(), at(80)), Step::Settle);
    let accepted = told.story.as_ref().unwrap().accepted().unwrap();
    assert_eq!(accepted.message_id.as_deref(), Some("m-1"));
    assert_eq!(&*accepted.detail, "reconciled");
    let without_id = timeouts(&terms, 1).found(&Finding::Present(None), &terms, at(80));
    assert!(
        without_id
            .story
            .unwrap()
            .accepted()
            .unwrap()
            .flags
            .id_absent
    );
}

#[test]
fn absent_is_not_sent_and_tried_again_with_the_next_number() {
    let terms = asked(None);
    let told = timeouts(&terms, 1).found(&Finding::Absent, &terms, at(80));
    assert!(!told.story.as_ref().unwrap().may_have_been_taken());
    let Step::Wait { until } = told.next(&terms, &limits(), at(80)) else {
        panic!("a backoff comes first");
    };
    assert_eq!(line(&told.next(&terms, &limits(), until)), "start 2");
}

#[test]
fn what_proves_nothing_changes_nothing() {
    let terms = asked(None);
    for finding in [Finding::NotYet, Finding::Nothing("status")] {
        let told = timeouts(&terms, 1).found(&finding, &terms, at(80));
        assert_eq!(
            line(&told.next(&terms, &limits(), at(80))),
            "look up (no_key)"
        );
    }
}

#[test]
fn with_a_key_an_unknown_outcome_is_first_repeated_and_looked_up_when_the_budget_is_used() {
    let terms = keyed_and_asked();
    let told = timeouts(&terms, 7);
    assert_eq!(line(&told.next(&terms, &limits(), at(6_300))), "start 8");
    let told = timeouts(&terms, 8);
    assert_eq!(
        line(&told.next(&terms, &limits(), at(7_200))),
        "look up (budget)"
    );
}

#[test]
fn a_proved_absence_is_worth_one_more_series_and_no_second_one() {
    let terms = keyed_and_asked();
    let mut told = timeouts(&terms, 8).found(&Finding::Absent, &terms, at(7_200));
    for n in 8..16 {
        let step = told.next(&terms, &limits(), at(900 * n + 100));
        assert_eq!(line(&step), format!("start {}", n + 1));
        told = told.attempt(&terms, at(900 * n + 100), &timed_out());
    }
    assert_eq!(
        line(&told.next(&terms, &limits(), at(14_400))),
        "look up (budget)"
    );
    let told = told.found(&Finding::Absent, &terms, at(14_400));
    assert_eq!(
        line(&told.next(&terms, &limits(), at(14_400))),
        "set aside retries_exhausted (budget)"
    );
}

#[test]
fn a_window_that_is_over_is_looked_up_and_an_absence_lets_it_go_on() {
    let terms = keyed_and_asked();
    let day = 24 * 3_600;
    let told = Told::nothing().attempt(&terms, at(0), &timed_out());
    assert_eq!(
        line(&told.next(&terms, &limits(), at(day - 60))),
        "look up (window_closed)"
    );
    let told = told.found(&Finding::Absent, &terms, at(day - 60));
    assert_eq!(line(&told.next(&terms, &limits(), at(day))), "start 2");
}

#[test]
fn an_attempt_that_the_provider_may_have_forgotten_proves_nothing_by_its_absence() {
    let terms = asked(None);
    let told = timeouts(&terms, 1);
    let day = 24 * 3_600;
    assert_eq!(
        line(&told.next(&terms, &limits(), at(day - 1))),
        "look up (no_key)"
    );
    assert_eq!(
        line(&told.next(&terms, &limits(), at(day))),
        "set aside outcome_unknown (no_key)"
    );
}

#[test]
fn a_stored_error_or_a_burned_key_ends_the_series_even_if_nothing_was_taken() {
    let terms = keyed_and_asked();
    let burned = Flags {
        burned: true,
        ..Flags::default()
    };
    let last_word = Flags {
        last_word: true,
        ..Flags::default()
    };
    for (flags, detail) in [(burned, "key_burned"), (last_word, "stored_error")] {
        let came = Came::To(Verdict::Unknown, true, flags);
        let told = Told::nothing().attempt(&terms, at(0), &came);
        assert_eq!(
            line(&told.next(&terms, &limits(), at(900))),
            format!("look up ({detail})")
        );
        let told = told.found(&Finding::Absent, &terms, at(900));
        assert_eq!(
            line(&told.next(&terms, &limits(), at(900))),
            format!("set aside retries_exhausted ({detail})")
        );
    }
}

#[test]
fn an_expired_intent_with_an_open_question_is_asked_about_and_never_sent_again() {
    let terms = keyed_and_asked();
    let late = Limits {
        expires_at: Some(at(600)),
        ..limits()
    };
    let told = timeouts(&terms, 1);
    assert_eq!(
        line(&told.next(&terms, &late, at(900))),
        "look up (expires_at)"
    );
    let absent = timeouts(&terms, 1).found(&Finding::Absent, &terms, at(900));
    assert_eq!(
        line(&absent.next(&terms, &late, at(900))),
        "set aside expired (expires_at)"
    );
}

/// An answer that comes after all beats what a look-up said of it.
#[test]
fn a_late_acceptance_beats_an_absence() {
    let terms = asked(None);
    let told = timeouts(&terms, 1).found(&Finding::Absent, &terms, at(80));
    let mut accepted = Told::nothing().attempt(&terms, at(0), &heard(Verdict::Accepted));
    let answer = accepted.story.take().unwrap().accepted().unwrap().clone();
    let mut told = told;
    told.add(at(90), Fact::Answered { attempt: 1, answer });
    assert_eq!(told.next(&terms, &limits(), at(90)), Step::Settle);
}
