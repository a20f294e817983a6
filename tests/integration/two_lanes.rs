//! Login codes beside a marketing list at one provider that answers when a test lets it: a case for any broker.

use crate::kafka_view::Kafka;
use crate::product::{Home, SOON, STUB_PROFILE, Sent, Setup, patient, publish, sms};
use crate::scripted::{Gate, Scripted, Seen, accepting_after};
use crate::worker::Worker;

/// Letters that are published before the first code.
pub const LETTERS: usize = 3_000;
/// Codes that are published once no more letters find room.
pub const CODES: usize = 20;
/// Requests in flight at once.
const IN_FLIGHT: usize = 4;
/// Of 400 places the letters have 37 at these weights and borrow, but for half of the 362 that are the codes'.
const LETTERS_OPEN: u64 = 400 - 181;

/// The two lanes, and the provider of both.
pub struct TwoLanes<'a> {
    kafka: &'a Kafka,
    codes: &'a str,
    letters: &'a str,
    gate: Gate,
    /// Who takes what is sent.
    pub provider: Scripted,
}

impl<'a> TwoLanes<'a> {
    /// Codes and letters in these topics.
    pub async fn new(kafka: &'a Kafka, codes: &'a str, letters: &'a str) -> Self {
        let gate = Gate::closed();
        let provider = Scripted::playing([accepting_after(&gate)]).await;
        Self {
            kafka,
            codes,
            letters,
            gate,
            provider,
        }
    }

    /// `setup` with both lanes, in which a code counts as much as ten letters.
    pub fn lanes(&self, setup: Setup) -> Setup {
        setup
            .with_profile(&patient(STUB_PROFILE))
            .set("KAFKA__WEIGHT", "10")
            .set("LANE__MARKETING__TOPIC", self.letters)
            .set("INTENTS__OPEN_MAX", "400")
            .set("DISPATCH__CONCURRENCY", &IN_FLIGHT.to_string())
    }

    /// Publishes the letters, and the codes behind them. Returns once the codes have been read too: nothing has been answered.
    pub async fn publish_to(&self, worker: &Worker) {
        let records = |what: &str, count: usize| -> Vec<Sent> {
            let record =
                |n: usize| Sent::json(&sms(&format!("{what}-{n}"), &format!("{what} {n}.")));
            (0..count).map(record).collect()
        };
        let open = async |topic: &str, count: u64| {
            let of_topic = [("topic", topic)];
            worker
                .until_count("sendonce_open_intents", &of_topic, count)
                .await;
        };
        publish(self.kafka, self.letters, &records("letter", LETTERS)).await;
        open(self.letters, LETTERS_OPEN).await;
        publish(self.kafka, self.codes, &records("code", CODES)).await;
        open(self.codes, CODES as u64).await;
    }

    /// Lets the provider answer, and waits until all has been sent.
    pub async fn until_sent(&self, group: &str) {
        self.gate.open();
        for topic in [self.codes, self.letters] {
            self.kafka
                .until_committed_to_the_end(group, topic, 3 * SOON)
                .await;
        }
    }

    /// How many letters were sent before the last code: those in flight when the codes came, the one that had the next place,
    /// those whose turn it was, and as many as may pass a code on its way.
    pub fn assert_few_letters_went_before_the_codes(&self) {
        let seen = self.provider.seen();
        assert_eq!(seen.len(), LETTERS + CODES);
        let is_code = |request: &Seen| request.body.contains("code ");
        let last_code = seen.iter().rposition(is_code).expect("a code");
        let letters = last_code + 1 - CODES;
        let turns = CODES / 10 + 1;
        assert!(
            letters <= IN_FLIGHT + 1 + turns + IN_FLIGHT,
            "{letters} letters went before the last code"
        );
    }
}

/// A home for a worker with both lanes, and the worker.
pub fn start(setup: &Setup) -> (Home, Worker) {
    let home = Home::new(setup);
    let worker = home.start(setup);
    (home, worker)
}
