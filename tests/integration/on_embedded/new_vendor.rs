//! A vendor that nobody has heard of is added by one file: nothing of the product knows it, and it is kept to.

use crate::dead_letters::dead_letters;
use crate::product::{Embedded, Home, Sent, Setup, sms};
use crate::scripted::{Act, Scripted, Turn, answer};
use crate::standing::Standing;

/// Everything about it is unlike the profiles that ship: PUT, a form, the key among its fields, an answer of 200 whatever
/// happens, and a word that says what did.
const CUCKOO: &str = r#"
vendor      = "cuckoo"
operation   = "dispatch"
verified    = "documented"
verified_on = "2026-11-30"

[settings]
workspace = "blue nest"

[request]
method  = "PUT"
url     = "https://api.cuckoo.example/v3/{{ settings.workspace }}/dispatch?mode=live"
auth    = { kind = "header", name = "X-Cuckoo-Key", secret = "env:CUCKOO_KEY" }
headers = { X-Cuckoo-Version = "7" }

[request.body]
kind = "form"

[request.body.template]
to    = "{{ to }}"
words = "{{ content.text }}"

[key]
place         = "body /once"
form          = "hash"
max_len       = 40
punctuation   = ""
window        = "1h"
window_source = "documented"
companion     = { header = "X-Cuckoo-Since", first_attempt = "epoch_seconds" }
replay        = { body = "/word", equals = "again" }

[timeouts]
connect = "500ms"
request = "5s"

[accepted]
status = []
id     = "header X-Cuckoo-Egg"

[[rule]]
when  = { status = 200, body = { "/word" = ["laid", "again"] } }
class = "accepted"

[[rule]]
when   = { status = 200, body = { "/word" = "hatching" } }
class  = "in_progress"
wait   = "1s"
reason = "still_working"

[[rule]]
when   = { status = 200, body = { "/word" = "no nest" } }
class  = "rejected"
reason = "recipient_invalid"

[error_code]
body = "/word"
"#;

fn says(word: &str) -> Vec<u8> {
    let body = format!(r#"{{"word":"{word}"}}"#);
    answer("200 OK", "x-cuckoo-egg: egg-1\r\n", &body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_vendor_is_one_file() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::by(|request, before| -> Turn {
        let earlier = before.iter().filter(|one| one.body == request.body).count();
        match (
            request.body.contains("lost"),
            request.body.contains("nowhere"),
            earlier,
        ) {
            (true, _, 0) => Act::Reset.taking(),
            (true, _, 1) => Act::Answer(says("hatching")).not_taking(),
            (true, _, _) => Act::Answer(says("again")).not_taking(),
            (false, true, _) => Act::Answer(says("no nest")).not_taking(),
            (false, false, _) => Act::Answer(says("laid")).taking(),
        }
    })
    .await;
    let mut setup = Setup::new(&kafka, &provider.url())
        .with_profile(CUCKOO)
        .set("RETRY__BASE", "10ms")
        .set("RETRY__CAP", "100ms");
    let secret = ("CUCKOO_KEY".to_owned(), "no-secret".to_owned());
    setup.environment.push(secret);
    let home = Home::new(&setup);
    let cases = ["plain", "lost", "nowhere"];
    let records = cases.map(|case| Sent::json(&sms(case, case)));
    kafka.publish(&records).await;

    let worker = home.start(&setup);
    kafka.until_committed().await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    let ledger = standing.holds(worker).await;

    let seen = provider.seen();
    assert_eq!(seen.len(), 5, "once, three times, once");
    for request in &seen {
        assert_eq!(
            request.line,
            "PUT /v3/blue%20nest/dispatch?mode=live HTTP/1.1"
        );
        assert_eq!(request.header("x-cuckoo-key"), Some("no-secret"));
        assert_eq!(request.header("x-cuckoo-version"), Some("7"));
        let (_, rest) = request.body.split_once("once=").expect("the key");
        let key: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
        assert_eq!(key.len(), 40);
    }
    // More than a second lies between the second and the third.
    let repeats = provider.seen_with("lost");
    let since: Vec<_> = repeats
        .iter()
        .map(|request| request.header("x-cuckoo-since"))
        .collect();
    assert!(since.len() == 3 && since[0].is_some());
    assert!(since.iter().all(|one| *one == since[0]), "{since:?}");
    for case in ["plain", "lost"] {
        let accepted = ledger.story(case).accepted().expect("accepted");
        assert_eq!(accepted.message_id.as_deref(), Some("egg-1"));
        assert_eq!(accepted.flags.replay, case == "lost");
    }
    let letters = dead_letters(&kafka);
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].reason, "rejected");
    assert_eq!(letters[0].header("provider-code"), Some("no nest"));
}
