//! How many SMS a text takes, as the real binary keeps to it: P59.

use crate::dead_letters::dead_letters;
use crate::product::{Embedded, Home, KEYLESS_PROFILE, SOON, Sent, Setup, publish, sms};
use crate::scripted::{Scripted, accepting};
use crate::standing::Standing;

#[tokio::test(flavor = "multi_thread")]
async fn p59_a_text_of_too_many_sms_is_set_aside_before_any_attempt() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::playing([accepting()]).await;
    let limit = "[limits.segments]\nmax = 2\ntext = \"{{ content.text }}\"";
    let profile = format!("{KEYLESS_PROFILE}\n{limit}\n");
    let setup = Setup::new(&kafka, &provider.url()).with_profile(&profile);
    let home = Home::new(&setup);
    let fits = format!("{}|\r\nБ", "л".repeat(130));
    let records = [
        sms("gsm", &"a".repeat(307)),
        sms("ucs", &"漢".repeat(135)),
        sms("fits", &fits),
    ];
    publish(&kafka, "send-intents", &records.each_ref().map(Sent::json)).await;
    let worker = home.start(&setup);
    kafka
        .until_committed_to_the_end("sendonce", "send-intents", SOON)
        .await;
    let standing = Standing::of(&kafka, &home).scripted(&provider);
    standing.holds(worker).await;

    let seen = provider.seen();
    assert_eq!(seen.len(), 1, "nothing is sent of what is too long");
    let body: serde_json::Value = serde_json::from_str(&seen[0].body).expect("JSON");
    assert_eq!(body["content"]["text"], fits.as_str(), "unaltered");
    let letters = dead_letters(&kafka);
    assert_eq!(letters.len(), 2);
    for letter in &letters {
        assert_eq!(letter.reason, "too_large");
        assert_eq!(letter.header("detail"), Some("too_long"));
        assert_eq!(letter.header("attempts"), Some("0"));
    }
}
