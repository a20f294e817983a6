use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::config::Sources;
use crate::domain::lanes::Lane;

type Admitting = Pin<Box<dyn Future<Output = Pass>>>;

/// The account of a provider that nobody sends to here.
fn account(concurrency: usize) -> Arc<Account> {
    let profiles = concat!(env!("CARGO_MANIFEST_DIR"), "/config/providers");
    let text = format!(
        "[routes]\nsms = \"generic\"\n\n[providers]\ndirectory = \"{profiles}\"\n\n[dispatch]\nconcurrency = {concurrency}\n"
    );
    let sources = Sources {
        file: Some(("sendonce.toml".into(), text)),
        environment: Vec::new(),
    };
    let config = Config::from_sources(&sources).expect("it can be meant");
    let metrics = Metrics::new(["generic"], ["send-intents"]).expect("well declared");
    let accounts = Accounts::open(&config, &metrics).expect("accounts");
    accounts.of("generic").expect("it is routed to")
}

fn admitting(account: &Arc<Account>, number: u64, outages: u32) -> Admitting {
    let (account, lane) = (Arc::clone(account), Lane::default());
    let precedence = Precedence::Send { outages };
    Box::pin(async move { account.admit(ReadOrder { lane, number }, precedence).await })
}

fn poll(admitting: &mut Admitting) -> Option<Pass> {
    let mut context = Context::from_waker(Waker::noop());
    match admitting.as_mut().poll(&mut context) {
        Poll::Ready(pass) => Some(pass),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn who_is_refused_stands_at_the_gate_and_of_those_behind_the_first_read_goes_first() {
    let account = account(8);
    let probe = poll(&mut admitting(&account, 0, 1)).expect("it finds out");
    let mut waiting: Vec<(u64, Admitting)> = [5, 4, 3]
        .map(|number| (number, admitting(&account, number, 0)))
        .into();
    assert!(waiting.iter_mut().all(|(_, one)| poll(one).is_none()));
    drop(probe);
    let mut came = Vec::new();
    while let Some(at) = waiting.iter_mut().position(|(_, one)| poll(one).is_some()) {
        came.push(waiting.remove(at).0);
    }
    assert_eq!(came, [5, 3, 4]);
}

#[tokio::test]
async fn who_waits_for_a_place_does_not_pass_one_who_has_come_to_the_gate() {
    let account = account(2);
    let first = poll(&mut admitting(&account, 0, 0)).expect("it walks in");
    let probe = poll(&mut admitting(&account, 1, 1)).expect("it finds out");
    let (mut earlier, mut later) = (admitting(&account, 5, 0), admitting(&account, 7, 0));
    assert!(poll(&mut earlier).is_none() && poll(&mut later).is_none());
    drop(first);
    assert!(
        poll(&mut earlier).is_none(),
        "it has a place and is refused"
    );
    drop(probe);
    assert!(
        poll(&mut later).is_none(),
        "it goes behind the one at the gate"
    );
    assert!(poll(&mut earlier).is_some());
    assert!(poll(&mut later).is_some());
}
