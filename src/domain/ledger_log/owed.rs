//! Decides what a machine tells the log of a story on its disk that the log may lack: because the process died between the disk
//! and the log, or because the ledger was not replicated before.

use std::sync::Arc;

use crate::domain::ledger_entry::{Entry, Fact, Story, Writer};

/// How much of a story the log may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owing {
    /// What has happened. Decisions come from the log, and a start that is not in the log was not followed by a request.
    Results,
    /// All of it: this ledger has never been replicated.
    Everything,
}

/// The entries to append, by a tenure named `writer` that is the owner. What the log has already counts once.
pub fn owed(story: &Story, owing: Owing, writer: Writer) -> Vec<Entry> {
    let entry = |round, writer, fact| Entry {
        subject: story.subject.clone(),
        at: story.updated_at,
        round,
        writer,
        fact,
    };
    let mut entries = Vec::new();
    for (id, facts) in story.attempts.iter() {
        let is_told = facts.answered.is_some() || owing == Owing::Everything;
        if let (Some(started), Some(rendering), true) = (facts.started, &story.rendering, is_told) {
            let fact = Fact::Started {
                attempt: id.attempt,
                deadline: started.deadline,
                rendering: rendering.clone(),
            };
            let at = started.at;
            entries.push(Entry {
                at,
                ..entry(id.round, id.writer, fact)
            });
        }
        if let Some(answer) = &facts.answered {
            let fact = Fact::Answered {
                attempt: id.attempt,
                answer: answer.clone(),
            };
            entries.push(entry(id.round, id.writer, fact));
        }
    }
    for (round, dead) in &story.dead {
        if let (Some(cause), Owing::Everything) = (&dead.cause, owing) {
            let fact = Fact::DeadLettering {
                reason: cause.reason,
                detail: Arc::clone(&cause.detail),
            };
            let at = cause.since;
            entries.push(Entry {
                at,
                ..entry(*round, writer, fact)
            });
        }
        if let Some(at) = &dead.at {
            let fact = Fact::DeadLettered { at: at.clone() };
            entries.push(entry(*round, writer, fact));
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::domain::attempt::{Flags, Verdict};
    use crate::domain::dead_letter::Reason;
    use crate::domain::idempotency_key::{
        IdempotencyKey, IntentFingerprint, ProfileHash, RequestFingerprint,
    };
    use crate::domain::ledger_entry::{Answered, Rendering, Subject};
    use crate::domain::position::{Offset, Position, TopicPartition};
    use crate::domain::time::Timestamp;

    const EARLIER: Writer = Writer(Uuid::from_u128(1));
    const OWNER: Writer = Writer(Uuid::from_u128(2));
    const AT: Timestamp = Timestamp::from_millis(1_792_567_620_000);

    fn position(topic: &str) -> Position {
        Position {
            partition: TopicPartition {
                topic: topic.into(),
                partition: 3,
            },
            offset: Offset(181),
        }
    }

    fn entry(round: u32, after_seconds: u64, fact: Fact) -> Entry {
        Entry {
            subject: Subject {
                event_id: Some("e-1".into()),
                key: Some(IdempotencyKey::derived(Uuid::nil())),
                fingerprint: IntentFingerprint([0; 32]),
                origin: position("send-intents"),
                recorded_at: AT,
            },
            at: AT.plus(Duration::from_secs(after_seconds)),
            round,
            writer: EARLIER,
            fact,
        }
    }

    fn started(attempt: u32) -> Fact {
        Fact::Started {
            attempt,
            deadline: AT.plus(Duration::from_secs(40)),
            rendering: Rendering {
                provider: "p".into(),
                profile: ProfileHash([0; 32]),
                request: RequestFingerprint([0; 32]),
            },
        }
    }

    fn answered(attempt: u32, verdict: Verdict) -> Fact {
        let answer = Answered {
            verdict,
            flags: Flags::default(),
            heard: true,
            status: None,
            provider_code: None,
            message_id: None,
            detail: "test".into(),
            due: None,
        };
        Fact::Answered { attempt, answer }
    }

    /// One attempt that was answered, one that was not, a dead letter, and a second round.
    fn story() -> Story {
        let entries = [
            entry(0, 0, started(1)),
            entry(0, 1, answered(1, Verdict::Unknown)),
            entry(0, 2, started(2)),
            entry(
                0,
                3,
                Fact::DeadLettering {
                    reason: Reason::OutcomeUnknown,
                    detail: "budget".into(),
                },
            ),
            entry(
                0,
                4,
                Fact::DeadLettered {
                    at: position("send-intents.dlq"),
                },
            ),
            entry(1, 5, started(1)),
            entry(1, 6, answered(1, Verdict::Accepted)),
        ];
        let mut story = Story::beginning(&entries[0]);
        entries.iter().for_each(|entry| story.fold(entry));
        story
    }

    fn told(owing: Owing) -> Story {
        let entries = owed(&story(), owing, OWNER);
        let mut told = Story::beginning(&entries[0]);
        entries.iter().for_each(|entry| told.fold(entry));
        told
    }

    #[test]
    fn everything_makes_the_same_story_elsewhere() {
        assert_eq!(told(Owing::Everything), story());
    }

    #[test]
    fn results_are_all_but_decisions_and_starts_without_an_answer() {
        let told = told(Owing::Results);
        assert_eq!(told.accepted(), story().accepted());
        assert_eq!(told.attempts.len(), 2);
        assert_eq!(told.dead[&0].at, Some(position("send-intents.dlq")));
        assert_eq!(told.dead[&0].cause, None);
    }

    #[test]
    fn decisions_are_told_in_the_owner_s_name_and_facts_in_their_maker_s() {
        for entry in owed(&story(), Owing::Everything, OWNER) {
            match entry.fact {
                Fact::Started { .. } | Fact::Answered { .. } => assert_eq!(entry.writer, EARLIER),
                Fact::DeadLettering { .. } | Fact::DeadLettered { .. } => {
                    assert_eq!(entry.writer, OWNER);
                }
            }
        }
    }
}
