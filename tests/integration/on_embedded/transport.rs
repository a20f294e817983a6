//! HTTP and the network: P14, P17, P19, P20, and P23 on the wire.

use std::time::Duration;

use crate::dead_letters::{dead_letters, reasons};
use crate::product::{
    Embedded, Home, KEYLESS_PROFILE, STUB_PROFILE, Sent, Setup, free_port, sms, via,
};
use crate::scripted::{Act, Scripted, accepting, answer, refusing};
use crate::standing::Standing;

#[tokio::test(flavor = "multi_thread")]
async fn p14_a_connection_that_ends_as_we_write_makes_no_duplicate_with_a_key_or_without() {
    let kafka = Embedded::with_partitions(1);
    let close_when_idle =
        || Act::AnswerAndClose(answer("201 Created", "", r#"{"id":"m"}"#)).taking();
    let reset_at_first = || {
        Scripted::by(|request, before| {
            let known =
                request.key().is_some() && before.iter().any(|one| one.key() == request.key());
            if known {
                accepting()
            } else {
                Act::Reset.taking()
            }
        })
    };
    let (plain_closes, keyed_closes) = (
        Scripted::playing([close_when_idle()]).await,
        Scripted::playing([close_when_idle()]).await,
    );
    let (plain_resets, keyed_resets) = (reset_at_first().await, reset_at_first().await);
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let setup = Setup::new(&kafka, &keyed_closes.url())
        .provider("keyed-resets", STUB_PROFILE, &keyed_resets.url())
        .provider("plain-closes", KEYLESS_PROFILE, &plain_closes.url())
        .provider("plain-resets", KEYLESS_PROFILE, &plain_resets.url())
        .provider("plain-refused", KEYLESS_PROFILE, &nobody)
        .set("RETRY__BASE", "10ms")
        .set("RETRY__CAP", "100ms")
        // Two intents alone with a provider that is not there are to come to the end of their budgets.
        .set("BREAKER__ANSWERS", "1000")
        .set("BREAKER__IN_ROW", "1000");
    let home = Home::new(&setup);
    // One Kafka key a provider: each event comes when the connection has gone idle.
    let events = |provider: &str, count: usize| -> Vec<Sent> {
        let event = |n| {
            via(
                provider,
                sms(&format!("{provider}-{n}"), &format!("{provider} {n}")),
            )
        };
        (0..count)
            .map(|n| Sent::json(&event(n)).keyed(provider))
            .collect()
    };
    let records = [
        events("stub", 100),
        events("plain-closes", 100),
        events("keyed-resets", 5),
        events("plain-resets", 5),
        events("plain-refused", 2),
    ];
    kafka.publish(&records.concat()).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let ended = async |provider: &str, outcome: &str| {
        let labels = [("provider", provider), ("outcome", outcome)];
        worker.count("sendonce_outcomes_total", &labels).await
    };
    assert_eq!(ended("stub", "accepted").await, 100);
    assert_eq!(ended("keyed-resets", "accepted").await, 5);
    let accepted = ended("plain-closes", "accepted").await;
    assert_eq!(accepted + ended("plain-closes", "dead_lettered").await, 100);
    assert!(accepted > 0);
    let refused = [("provider", "plain-refused"), ("verdict", "not_sent")];
    assert_eq!(worker.count("sendonce_attempts_total", &refused).await, 16);
    Standing::of(&kafka, &home)
        .scripted(&keyed_closes)
        .scripted(&keyed_resets)
        .scripted(&plain_closes)
        .scripted(&plain_resets)
        .holds(worker)
        .await;

    assert!(
        plain_closes.connections() >= 100,
        "the server closed after each answer"
    );
    assert_eq!(plain_resets.seen().len(), 5, "never repeated");
    assert_eq!(keyed_resets.seen().len(), 10, "repeated under the same key");
    for letter in dead_letters(&kafka) {
        let reason = match letter.header("provider") {
            Some("plain-refused") => "retries_exhausted",
            _ => "outcome_unknown",
        };
        assert_eq!(letter.reason, reason, "{letter:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p17_redirects_are_not_followed_and_interim_answers_are_no_answers() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::by(|request, _| {
        let elsewhere = |status, place| {
            Act::Answer(answer(status, &format!("location: {place}\r\n"), "")).not_taking()
        };
        let interim =
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n";
        if request.line.starts_with("GET") {
            Act::Answer(answer("200 OK", "content-type: text/html\r\n", "<form>")).not_taking()
        } else if request.body.contains("login") {
            elsewhere("302 Found", "/a-login-page")
        } else if request.body.contains("slash") {
            elsewhere("301 Moved Permanently", "/v1/messages/")
        } else if request.body.contains("interim") {
            let last = answer("202 Accepted", "", r#"{"id":"msg-1"}"#);
            Act::Answer([interim.as_bytes(), &last].concat()).taking()
        } else {
            refusing("417 Expectation Failed")
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url());
    let home = Home::new(&setup);
    let records = ["login", "slash", "interim", "417"].map(|text| Sent::json(&sms(text, text)));
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    let ledger = standing.holds(worker).await;

    let seen = provider.seen();
    assert_eq!(seen.len(), 4, "one request each: {seen:#?}");
    assert!(
        seen.iter()
            .all(|request| request.line == "POST /v1/messages HTTP/1.1")
    );
    assert!(
        seen.iter()
            .all(|request| request.header("expect").is_none())
    );
    let accepted = ledger.story("interim").accepted().expect("accepted");
    assert_eq!(accepted.message_id.as_deref(), Some("msg-1"));
    let redirected = ("outcome_unknown", "unexpected_redirect");
    let letters = dead_letters(&kafka);
    assert_eq!(
        reasons(&letters),
        [redirected, redirected, ("rejected", "refused")]
    );
    assert!(!home.log().contains("a-login-page"));
}

#[tokio::test(flavor = "multi_thread")]
async fn p19_a_body_that_is_cut_packed_endless_or_no_json_changes_no_acceptance() {
    let kafka = Embedded::with_partitions(1);
    let marker = "do not keep this";
    let provider = Scripted::by(move |request, _| {
        let taken =
            |headers: &str, body: &str| Act::Answer(answer("202 Accepted", headers, body)).taking();
        let html = "content-type: text/html\r\n";
        let page = format!("<html>{marker}</html>");
        if request.body.contains("(i)") {
            taken("", "\u{FEFF}{\"id\":\"msg-1\"}")
        } else if request.body.contains("(ii)") {
            let cut = format!(
                "HTTP/1.1 202 Accepted\r\ncontent-length: 400\r\n\r\n{{\"text\":\"{marker}"
            );
            Act::AnswerAndClose(cut.into_bytes()).taking()
        } else if request.body.contains("(iii)") {
            taken("content-encoding: gzip\r\n", marker)
        } else if request.body.contains("(iv)") {
            Act::Answer(answer("502 Bad Gateway", html, &page)).not_taking()
        } else if request.body.contains("(v)") {
            let head = "HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n";
            Act::Endless(
                head.into(),
                format!("400\r\n{}\r\n", "x".repeat(1024)).into(),
            )
            .taking()
        } else if request.body.contains("(vi)") {
            Act::Answer(answer("400 Bad Request", html, &page)).not_taking()
        } else {
            taken("", "null")
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url())
        .with_profile(KEYLESS_PROFILE)
        .set("LOG__LEVEL", "debug");
    let home = Home::new(&setup);
    let cases = ["(i)", "(ii)", "(iii)", "(iv)", "(v)", "(vi)", "(vii)"];
    kafka
        .publish(&cases.map(|case| Sent::json(&sms(case, case))))
        .await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let absent = worker.count("sendonce_message_ids_absent_total", &[]).await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    let ledger = standing.holds(worker).await;

    assert_eq!(provider.seen().len(), 7, "one request each");
    let id = |case| {
        ledger
            .story(case)
            .accepted()
            .expect("accepted")
            .message_id
            .as_deref()
    };
    assert_eq!(id("(i)"), Some("msg-1"));
    for case in ["(ii)", "(iii)", "(v)", "(vii)"] {
        assert_eq!(id(case), None);
    }
    assert_eq!(absent, 4);
    let letters = dead_letters(&kafka);
    assert_eq!(
        reasons(&letters),
        [("outcome_unknown", "no_key"), ("rejected", "refused")]
    );
    let endless = &provider.seen_with("(v)")[0];
    let after = provider.seen();
    let after = after
        .iter()
        .filter(|one| one.connection == endless.connection && one.at > endless.at);
    assert_eq!(after.count(), 0, "its connection is not used again");
    let written = provider.endless_bytes();
    assert!(
        written < 16 * 1024 * 1024,
        "{written} bytes were read, or lie in sockets"
    );
    assert!(!home.log().contains(marker));
    assert!(!home.ledger_holds(marker));
}

#[tokio::test(flavor = "multi_thread")]
async fn p20_an_acceptance_without_an_id_is_one_and_is_counted() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::by(|request, _| {
        let taken = |status, headers, body| Act::Answer(answer(status, headers, body)).taking();
        if request.body.contains("in a header") {
            taken("202 Accepted", "x-message-id: abc\r\n", "")
        } else if request.body.contains("nowhere") {
            taken("202 Accepted", "", "")
        } else if request.body.contains("location") {
            taken("201 Created", "location: /v1/messages/7\r\n", "")
        } else {
            taken("200 OK", "", "{}")
        }
    })
    .await;
    let profile = KEYLESS_PROFILE.replace(r#""/id""#, r#""header X-Message-ID""#);
    let setup = Setup::new(&kafka, &provider.url()).with_profile(&profile);
    let home = Home::new(&setup);
    let cases = ["in a header", "nowhere", "location", "in an object"];
    kafka
        .publish(&cases.map(|case| Sent::json(&sms(case, case))))
        .await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let absent = worker
        .count("sendonce_message_ids_absent_total", &[("provider", "stub")])
        .await;
    assert_eq!(absent, 3);
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    let ledger = standing.holds(worker).await;

    assert_eq!(provider.seen().len(), 4);
    let ids = cases.map(|case| {
        let accepted = ledger.story(case).accepted().expect("accepted");
        assert_eq!(accepted.flags.id_absent, accepted.message_id.is_none());
        accepted.message_id.as_deref()
    });
    assert_eq!(ids, [Some("abc"), None, None, None]);
    assert!(dead_letters(&kafka).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn p23_no_attempt_is_made_before_the_wait_that_a_429_names() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::by(|request, before| {
        if before.iter().any(|one| one.key() == request.key()) {
            return accepting();
        }
        let throttled = |headers: &str| {
            Act::Answer(answer("429 Too Many Requests", headers, "{}")).not_taking()
        };
        if request.body.contains("seconds") {
            throttled("retry-after: 2\r\n")
        } else if request.body.contains("decimal") {
            throttled("retry-after: 1.5\r\n")
        } else if request.body.contains("twice") {
            throttled("retry-after: 1\r\nretry-after: 2\r\n")
        } else if request.body.contains("date") {
            // A date has no fractions of a second: at least two are left of these three.
            let then = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
            let since = Duration::from_millis(then.as_millisecond().try_into().unwrap());
            let date = httpdate::fmt_http_date(std::time::UNIX_EPOCH + since);
            throttled(&format!("retry-after: {date}\r\n"))
        } else {
            throttled("retry-after: soon\r\n")
        }
    })
    .await;
    let setup = Setup::new(&kafka, &provider.url()).set("RETRY__BASE", "100ms");
    let home = Home::new(&setup);
    let cases = ["seconds", "decimal", "twice", "date", "no number"];
    kafka
        .publish(&cases.map(|case| Sent::json(&sms(case, case))))
        .await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    Standing::of(&kafka, &home)
        .scripted(&provider)
        .holds(worker)
        .await;

    for case in cases {
        let seen = provider.seen_with(case);
        assert_eq!(seen.len(), 2, "{case}");
        // Due times are kept in whole milliseconds.
        let waited = seen[1].at - seen[0].at + Duration::from_millis(1);
        let least = if case == "no number" { 0 } else { 2 };
        assert!(waited >= Duration::from_secs(least), "{case}: {waited:?}");
    }
}
