//! What people see: P53.

use crate::dead_letters::dead_letters;
use crate::product::{Embedded, Home, STUB_PROFILE, Sent, Setup, sms, via};
use crate::scripted::{Act, Scripted, accepting, answer, refusing};
use crate::standing::Standing;

const TOKEN_IN_PATH: &str = "token-kOhcSbQb";
const KEY_IN_QUERY: &str = "query-SVCsEBmM";
const BEARER: &str = "bearer-TQ0cGB7r";

#[tokio::test(flavor = "multi_thread")]
async fn p53_no_secret_recipient_or_text_is_in_logs_metrics_headers_output_or_the_ledger() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::by(|request, _| {
        if request.body.contains("not found") {
            refusing("404 Not Found")
        } else if request.body.contains("undecodable") {
            Act::Answer(answer("200 OK", "content-encoding: br\r\n", "code 123456")).taking()
        } else if request.body.contains("echo") {
            let echo =
                format!(r#"{{"code":"bad","message":"no such number: +447700900123 {BEARER}"}}"#);
            Act::Answer(answer("400 Bad Request", "", &echo)).not_taking()
        } else if request.body.contains("redirect") {
            let there = format!("location: /{TOKEN_IN_PATH}/person@example.com\r\n");
            Act::Answer(answer("302 Found", &there, "")).not_taking()
        } else if request.body.contains("reset") {
            Act::Reset.not_taking()
        } else {
            accepting()
        }
    })
    .await;
    let url = "/{{ settings.token }}/v1/messages?api_key={{ settings.api_key }}";
    let profile = STUB_PROFILE.replace("/v1/messages", url).replace(
        r#"{ kind = "none" }"#,
        r#"{ kind = "bearer", secret = "env:TEST_BEARER" }"#,
    ) + "\n[settings]\ntoken = \"env:TEST_TOKEN\"\napi_key = \"env:TEST_API_KEY\"\n";
    let mut setup = Setup::new(&kafka, &provider.url())
        .with_profile(&profile)
        .provider("nowhere", &profile, "http://sendonce.invalid")
        .set("RETRY__BASE", "10ms")
        .set("RETRY__BUDGET", "2")
        .set("LOG__LEVEL", "trace");
    for (name, value) in [
        ("TEST_TOKEN", TOKEN_IN_PATH),
        ("TEST_API_KEY", KEY_IN_QUERY),
        ("TEST_BEARER", BEARER),
    ] {
        setup.environment.push((name.to_owned(), value.to_owned()));
    }
    let home = Home::new(&setup);
    let intent = |case: &str| sms(case, &format!("code 123456, {case}"));
    let mut by_mail = intent("by mail");
    by_mail["channel"] = "email".into();
    by_mail["to"] = "person@example.com".into();
    let mut bad = intent("no number");
    bad["to"] = "+447700900123 person@example.com".into();
    let mut reused = intent("accepted");
    reused["content"]["text"] = "another code 123456".into();
    let unreadable = format!("{{\"id\": \"+447700900123\", \"to\": person@example.com, {BEARER}");
    let records = [
        Sent::json(&intent("accepted")).keyed("in order"),
        Sent::json(&by_mail),
        Sent::json(&intent("not found")),
        Sent::json(&intent("undecodable")),
        Sent::json(&intent("echo")),
        Sent::json(&intent("redirect")),
        Sent::json(&intent("reset")),
        Sent::json(&via("nowhere", intent("dns"))),
        Sent::json(&bad),
        Sent::bytes(unreadable),
        Sent::json(&reused).keyed("in order"),
    ];
    kafka.publish(&records).await;
    let worker = home.start(&setup);
    kafka.until_committed().await;
    let metrics = worker.metrics().await.text().to_owned();
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    standing.holds(worker).await;

    let sent = provider.seen_with("accepted");
    assert!(sent[0].line.contains(TOKEN_IN_PATH) && sent[0].line.contains(KEY_IN_QUERY));
    assert_eq!(
        sent[0].header("authorization"),
        Some(format!("Bearer {BEARER}").as_str())
    );
    let letters = dead_letters(&kafka);
    assert_eq!(letters.len(), 8, "{letters:#?}");
    let event = [
        "--event-id",
        "e-1",
        "--channel",
        "sms",
        "--to",
        "+44 7700 900123",
    ];
    let told = home
        .command(&setup)
        .arg("key")
        .args(event)
        .output()
        .expect("a key");
    assert!(told.status.success());
    let refused = [
        "--event-id",
        "e-1",
        "--channel",
        "sms",
        "--to",
        "+447700900123 person@example.com",
    ];
    let not_told = home
        .command(&setup)
        .arg("key")
        .args(refused)
        .output()
        .expect("a refusal");
    assert!(!not_told.status.success());
    let outputs = [told.stdout, told.stderr, not_told.stdout, not_told.stderr].concat();
    let outputs = String::from_utf8(outputs).unwrap();
    let headers: String = letters
        .iter()
        .flat_map(|letter| &letter.headers)
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    let log = home.log();
    assert!(log.contains("TRACE"), "at the noisiest level");
    assert!(home.ledger_holds("undecodable"), "event ids are no secret");
    for private in [
        TOKEN_IN_PATH,
        KEY_IN_QUERY,
        BEARER,
        "7700900123",
        "7700 900123",
        "person@example.com",
        "code 123456",
    ] {
        for (place, text) in [
            ("log", &log),
            ("metrics", &metrics),
            ("headers", &headers),
            ("output", &outputs),
        ] {
            let line = text.lines().find(|line| line.contains(private));
            assert_eq!(line, None, "{private} in the {place}");
        }
        assert!(!home.ledger_holds(private), "{private} in the ledger");
    }
}
