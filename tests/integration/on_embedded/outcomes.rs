//! Did it go out or not: P01.

use crate::dead_letters::dead_letters;
use crate::product::{Embedded, Home, KEYLESS_PROFILE, STUB_PROFILE, Sent, Setup, sms, via};
use crate::scripted::{Act, Scripted, answer};
use crate::standing::Standing;
use crate::stub::{Stub, mix};
use sendonce::stub_provider::{Fault, Options, Scope};

#[tokio::test(flavor = "multi_thread")]
async fn p01_an_answer_that_never_came_is_unknown_without_a_key_and_repeated_under_the_same_key_with_one()
 {
    let kafka = Embedded::with_partitions(1);
    let hangs = Scripted::playing([Act::Hang.taking()]).await;
    let page = "<html><body>504 Gateway Time-out</body></html>";
    let gateway = Act::Answer(answer(
        "504 Gateway Time-out",
        "content-type: text/html\r\n",
        page,
    ));
    let gateway = Scripted::playing([gateway.taking()]).await;
    let keyed = Stub::start(Options {
        faults: mix(&[(Fault::AcceptThenHang, 1.0)]).within(Scope::First),
        ..Options::default()
    })
    .await;
    let setup = Setup::new(&kafka, &hangs.url())
        .with_profile(KEYLESS_PROFILE)
        .provider("gateway", KEYLESS_PROFILE, &gateway.url())
        .provider("keyed", STUB_PROFILE, &keyed.url());
    let home = Home::new(&setup);
    let intents = [
        sms("a", "Your code is 482901"),
        via("gateway", sms("b", "Your code is 482901")),
        via("keyed", sms("c", "Your code is 482901")),
    ];
    kafka.publish(&intents.each_ref().map(Sent::json)).await;

    let worker = home.start(&setup);
    kafka.until_committed().await;
    assert_eq!(worker.count("sendonce_unknown_open", &[]).await, 2);
    let accepted = [("provider", "keyed"), ("outcome", "accepted")];
    assert_eq!(worker.count("sendonce_outcomes_total", &accepted).await, 1);
    let standing = Standing::of(&kafka, &home)
        .scripted(&hangs)
        .scripted(&gateway)
        .stub(&keyed);
    standing.holds(worker).await;

    let letters = dead_letters(&kafka);
    let origins: Vec<i64> = letters.iter().map(|letter| letter.origin.1).collect();
    assert_eq!(origins, [0, 1]);
    for (letter, status) in letters.iter().zip([None, Some("504")]) {
        assert_eq!(letter.reason, "outcome_unknown");
        assert_eq!(letter.header("attempts"), Some("1"));
        assert_eq!(letter.header("status"), status);
        let at = letter
            .header("first-attempt-at")
            .expect("the attempt's time");
        assert_eq!(letter.header("last-attempt-at"), Some(at));
    }
    assert_eq!((hangs.seen().len(), gateway.seen().len()), (1, 1));
    let item = keyed.deliveries().await.remove(0);
    assert!(item.requests >= 2 && item.deliveries == 1, "{item:?}");
    assert_eq!(keyed.stats().await.keys, 1);
}
