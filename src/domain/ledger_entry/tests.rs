//! Decides that a story is the same whatever order its entries come in, and that results only raise it.

use proptest::prelude::*;

use super::*;
use crate::domain::position::{Offset, TopicPartition};

const ORIGINS: i64 = 3;

fn position(offset: i64) -> Position {
    Position {
        partition: TopicPartition {
            topic: "send-intents".into(),
            partition: 0,
        },
        offset: Offset(offset),
    }
}

/// Few values of everything, so that entries meet.
fn subjects() -> impl Strategy<Value = Subject> {
    (0..2_u8, 0..ORIGINS, 0..2_i64).prop_map(|(content, offset, recorded_at)| Subject {
        event_id: Some("order-7".into()),
        key: IdempotencyKey::from_upstream("order-7"),
        fingerprint: IntentFingerprint([content; 32]),
        origin: position(offset),
        recorded_at: Timestamp::from_millis(recorded_at),
    })
}

fn renderings() -> impl Strategy<Value = Rendering> {
    (0..2_u8).prop_map(|version| Rendering {
        provider: "captifi".into(),
        profile: ProfileHash([version; 32]),
        request: RequestFingerprint([version; 32]),
    })
}

fn answers() -> impl Strategy<Value = Answered> {
    (
        prop::sample::select(Verdict::ALL.to_vec()),
        any::<bool>(),
        prop::option::of(prop::sample::select(vec![202, 500])),
        prop::option::of(0..3_i64),
    )
        .prop_map(|(verdict, heard, status, due)| Answered {
            verdict,
            flags: Flags {
                replay: heard,
                ..Flags::default()
            },
            heard,
            status,
            provider_code: None,
            message_id: status.map(|status| format!("SM{status}").into()),
            detail: "status".into(),
            due: due.map(Timestamp::from_millis),
        })
}

fn facts() -> impl Strategy<Value = Fact> {
    prop_oneof![
        (1..3_u32, 0..4_i64, renderings()).prop_map(|(attempt, deadline, rendering)| {
            Fact::Started {
                attempt,
                deadline: Timestamp::from_millis(deadline),
                rendering,
            }
        }),
        (1..3_u32, answers()).prop_map(|(attempt, answer)| Fact::Answered { attempt, answer }),
        prop::sample::select(Reason::ALL.to_vec()).prop_map(|reason| Fact::DeadLettering {
            reason,
            detail: reason.name().into(),
        }),
        (0..ORIGINS).prop_map(|offset| Fact::DeadLettered {
            at: position(offset)
        }),
    ]
}

fn entries() -> impl Strategy<Value = Entry> {
    (subjects(), 0..4_i64, 0..2_u32, 0..2_u128, facts()).prop_map(
        |(subject, at, round, writer, fact)| Entry {
            subject,
            at: Timestamp::from_millis(at),
            round,
            writer: Writer(Uuid::from_u128(writer)),
            fact,
        },
    )
}

fn told(entries: &[Entry]) -> Story {
    let (first, rest) = entries.split_first().unwrap();
    rest.iter().fold(Story::beginning(first), |story, entry| {
        Story::continued(Some(&story), entry)
    })
}

proptest! {
    /// Oracle: the story told by the same entries, each once, in the order in which they were drawn.
    #[test]
    fn the_order_of_entries_and_repeats_change_nothing(
        (drawn, shuffled) in prop::collection::vec(entries(), 1..12).prop_flat_map(|drawn| {
            let twice = drawn.iter().chain(&drawn).cloned().collect::<Vec<_>>();
            (Just(drawn), Just(twice).prop_shuffle())
        }),
    ) {
        prop_assert_eq!(told(&shuffled), told(&drawn));
    }

    #[test]
    fn results_only_raise_what_is_known(drawn in prop::collection::vec(entries(), 2..12)) {
        for end in 1..drawn.len() {
            let (before, after) = (told(&drawn[..end]), told(&drawn[..=end]));
            for (id, facts) in before.attempts.iter() {
                let Some(known) = &facts.answered else { continue };
                let now = after.attempts.get(id).unwrap().answered.as_ref().unwrap();
                prop_assert!(known.order() <= now.order());
                prop_assert!(known.verdict != Verdict::Accepted || now.verdict == Verdict::Accepted);
            }
        }
    }

    #[test]
    fn an_acceptance_beats_everything(drawn in prop::collection::vec(entries(), 1..12)) {
        let accepted = drawn.iter().any(|entry| match &entry.fact {
            Fact::Answered { answer, .. } => answer.verdict == Verdict::Accepted,
            Fact::Started { .. } | Fact::DeadLettering { .. } | Fact::DeadLettered { .. } => false,
        });
        let story = told(&drawn);
        prop_assert_eq!(matches!(story.standing(), Standing::Accepted(_)), accepted);
        prop_assert!(story.is_settled() || !accepted);
    }

    /// Oracle: the rendering and the moment of the least start of all.
    #[test]
    fn the_earliest_start_pins_the_rendering(drawn in prop::collection::vec(entries(), 1..12)) {
        let starts = drawn.iter().filter_map(|entry| match &entry.fact {
            Fact::Started { rendering, .. } => Some((entry.at, rendering)),
            Fact::Answered { .. } | Fact::DeadLettering { .. } | Fact::DeadLettered { .. } => None,
        });
        let story = told(&drawn);
        let pinned = story.first_start().map(|first| first.at).zip(story.rendering.as_ref());
        prop_assert_eq!(pinned, starts.min());
    }
}

#[test]
fn a_story_that_nobody_ended_is_open_and_a_later_round_opens_it_again() {
    let subject = Subject {
        event_id: None,
        key: None,
        fingerprint: IntentFingerprint([0; 32]),
        origin: position(0),
        recorded_at: Timestamp::EPOCH,
    };
    let entry = |round, fact| Entry {
        subject: subject.clone(),
        at: Timestamp::EPOCH,
        round,
        writer: Writer(Uuid::nil()),
        fact,
    };
    let reason = Reason::Malformed;
    let detail: Arc<str> = "json".into();
    let cause = DeadCause {
        since: Timestamp::EPOCH,
        reason,
        detail: Arc::clone(&detail),
    };
    let mut story = Story::beginning(&entry(0, Fact::DeadLettering { reason, detail }));
    assert_eq!(story.standing(), Standing::DeadLettering(&cause));
    assert!(!story.is_settled());
    story.fold(&entry(0, Fact::DeadLettered { at: position(9) }));
    assert_eq!(story.standing(), Standing::DeadLettered(&cause));
    assert!(story.is_settled());
    let answer = Answered {
        verdict: Verdict::Unknown,
        flags: Flags::default(),
        heard: false,
        status: None,
        provider_code: None,
        message_id: None,
        detail: "read_timeout".into(),
        due: None,
    };
    story.fold(&entry(1, Fact::Answered { attempt: 1, answer }));
    assert_eq!(story.standing(), Standing::Open);
    assert_eq!(story.round(), 1);
}
