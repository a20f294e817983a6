//! What answers mean, end to end: an error inside a 200 (P03), at a provider that says it in text and at a shipped profile that
//! says it in JSON; and an error that means accepted (V43), at another.

use crate::dead_letters::dead_letters;
use crate::product::{Embedded, Home, KEYLESS_PROFILE, Sent, Setup, sms, via};
use crate::scripted::{Act, Scripted, Turn, answer};
use crate::standing::Standing;

/// The profile as it ships.
const VONAGE: &str = include_str!("../../../config/providers/vonage.toml");

/// Likewise.
const LINE: &str = include_str!("../../../config/providers/line.toml");

/// A provider of words: the status says nothing.
fn in_words() -> String {
    let silent = KEYLESS_PROFILE.replace("status = [200, 201, 202]", "status = []");
    let code = "body = [\"/code\", \"/error/code\", \"/type\"]";
    silent.replace(code, "text = '^ERROR:([0-9]+)'")
        + r"
[[rule]]
when  = { status = 200, text = '^ERROR:' }
class = 'rejected'
[[rule]]
when  = { status = 200, text = '^OK' }
class = 'accepted'
"
}

fn of_status(status: &str) -> Act {
    let body = format!(r#"{{"messages":[{{"status":"{status}","message-id":"m-{status}"}}]}}"#);
    Act::Answer(answer("200 OK", "", &body))
}

#[tokio::test(flavor = "multi_thread")]
async fn p03_an_error_inside_a_200_is_no_acceptance_in_text_or_in_json() {
    let kafka = Embedded::with_partitions(1);
    let words = Scripted::by(|request, _| -> Turn {
        match request.body.contains("good") {
            true => Act::Answer(answer("200 OK", "", "OK 7")).taking(),
            false => Act::Answer(answer("200 OK", "", "ERROR:14")).not_taking(),
        }
    })
    .await;
    let vonage = Scripted::by(|request, before| -> Turn {
        let again = before.iter().any(|one| one.body == request.body);
        match (request.body.contains("slow+down"), again) {
            (false, _) => of_status("29").not_taking(),
            (true, false) => of_status("1").not_taking(),
            (true, true) => of_status("0").taking(),
        }
    })
    .await;
    let mut setup = Setup::new(&kafka, &words.url())
        .with_profile(&in_words())
        .provider("vonage", VONAGE, &vonage.url());
    for name in ["VONAGE_API_KEY", "VONAGE_API_SECRET"] {
        setup.environment.push((name.to_owned(), "none".to_owned()));
    }
    let home = Home::new(&setup);
    let intents = [
        sms("words", "refused"),
        sms("good", "good"),
        via("vonage", sms("refused", "refused")),
        via("vonage", sms("slow", "slow down")),
    ];
    kafka.publish(&intents.each_ref().map(Sent::json)).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    for provider in ["stub", "vonage"] {
        let accepted = [("provider", provider), ("outcome", "accepted")];
        let count = worker.count("sendonce_outcomes_total", &accepted).await;
        assert_eq!(count, 1, "{provider}");
    }
    let standing = Standing::of(&kafka, &home)
        .scripted(&words)
        .scripted(&vonage);
    let ledger = standing.holds(worker).await;

    assert_eq!((words.seen().len(), vonage.seen().len()), (2, 3));
    let slow = ledger.story("slow").accepted().expect("accepted");
    assert_eq!(slow.message_id.as_deref(), Some("m-0"));
    let letters = dead_letters(&kafka);
    let told: Vec<_> = letters
        .iter()
        .map(|letter| (letter.reason.as_str(), letter.header("provider-code")))
        .collect();
    assert_eq!(told, [("rejected", Some("14")), ("rejected", Some("29"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn v43_a_conflict_that_means_accepted_ends_the_series_where_line_took_it_before() {
    let kafka = Embedded::with_partitions(1);
    let taken = "x-line-accepted-request-id: r-1\r\n";
    let body = r#"{"message":"The retry key is already accepted","sentMessages":[{"id":"461"}]}"#;
    let conflict = Act::Answer(answer("409 Conflict", taken, body)).not_taking();
    let line = Scripted::playing([Act::Reset.taking(), conflict]).await;
    let mut setup = Setup::new(&kafka, &line.url())
        .with_profile(LINE)
        .set("RETRY__BASE", "10ms");
    let token = ("LINE_CHANNEL_ACCESS_TOKEN".to_owned(), "none".to_owned());
    setup.environment.push(token);
    let home = Home::new(&setup);
    kafka
        .publish(&[Sent::json(&sms("lost", "Your code is 482901"))])
        .await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let standing = Standing::of(&kafka, &home).scripted(&line);
    let ledger = standing.holds(worker).await;

    let seen = line.seen();
    let keys: Vec<_> = seen
        .iter()
        .map(|request| request.header("x-line-retry-key"))
        .collect();
    assert_eq!(keys.len(), 2);
    assert!(keys[0].is_some() && keys[0] == keys[1], "{keys:?}");
    let accepted = ledger.story("lost").accepted().expect("accepted");
    assert_eq!(accepted.message_id.as_deref(), Some("461"));
    assert!(accepted.flags.replay);
    assert!(dead_letters(&kafka).is_empty());
}
