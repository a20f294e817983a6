//! Decides which intents a rehearsal publishes. Each has a recipient of its own, so that whoever counts deliveries by
//! recipient counts intents, whatever the keys are.

use serde_json::json;

/// One intent before it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cue {
    /// Its event id, which is also the record's key.
    pub id: String,
    /// Whom it is for.
    pub recipient: String,
    /// The record's value.
    pub value: String,
}

/// Bytes of one record, with the broker's own, that no cue and no dead letter of one exceeds.
pub const RECORD_BYTES_MAX: u64 = 2_048;

/// The intent of a number.
pub fn cue(number: u64) -> Cue {
    let (id, recipient) = (
        format!("rehearsal-{number:07}"),
        format!("recipient-{number:07}@example.com"),
    );
    let text = format!(
        "Your login code is {:06}. It is valid for ten minutes. Do not pass it on: we never ask for it.",
        number % 1_000_000
    );
    let value = json!({"id": id, "source": "rehearsal", "channel": "email", "to": recipient, "content": {"text": text}}).to_string();
    Cue {
        id,
        recipient,
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cue_is_an_intent_with_a_recipient_of_its_own() {
        assert_eq!(
            cue(42).value,
            r#"{"channel":"email","content":{"text":"Your login code is 000042. It is valid for ten minutes. Do not pass it on: we never ask for it."},"id":"rehearsal-0000042","source":"rehearsal","to":"recipient-0000042@example.com"}"#
        );
        assert_ne!(cue(1).recipient, cue(2).recipient);
    }
}
