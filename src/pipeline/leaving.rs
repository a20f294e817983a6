//! Leaves the group when the process ends, whether reading ended as it should or by a panic. What is committed before, and
//! which exit code follows, is not decided here.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::adapters::kafka::consumer::GroupConsumer;

use super::committer::Committer;
use super::tenures::Tenures;

/// Ends all tenures when nobody reads for them any more: nothing new is started and nothing more committed. Resolves once
/// what was in flight is recorded.
pub async fn abandon(tenures: &Tenures) {
    let all = tenures.all();
    let partitions: Vec<_> = all.iter().map(|tenure| tenure.partition.clone()).collect();
    tenures.let_go(&partitions);
    for tenure in all {
        tenure.idle().await;
    }
}

/// Leaves the group, within `patience`. The client's own closing has been seen to hang, so it has a thread and a time of its
/// own. `committer` is gone already where the reading thread panicked.
///
/// The client waits while it closes for an answer to its last rebalance. Nobody polls any more, so `GroupConsumer::close` has
/// to have been called before the consumer is dropped, or it would wait for ever. Returns whether the group was left in time.
pub fn leave(
    consumer: Arc<GroupConsumer>,
    committer: Option<Committer>,
    upkeep: JoinHandle<()>,
    runtime: &Runtime,
    patience: Duration,
) -> bool {
    consumer.close();
    let (told, left) = mpsc::channel();
    let handle = runtime.handle().clone();
    let leaving = std::thread::Builder::new()
        .name("leave".into())
        .spawn(move || {
            if let Some(committer) = committer {
                committer.stop();
            }
            upkeep.abort();
            // An abort is no failure; a panic was logged where it happened.
            let _ = handle.block_on(upkeep);
            drop(consumer);
            // Nobody may wait for this any more.
            let _ = told.send(());
        });
    let in_time = leaving.is_ok() && left.recv_timeout(patience).is_ok();
    if !in_time {
        tracing::warn!("the group was not left in time; it will notice by itself");
    }
    in_time
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use rdkafka::ClientConfig;
    use rdkafka::mocking::MockCluster;
    use uuid::Uuid;

    use super::*;
    use crate::adapters::kafka::consumer::{Beginning, Polled, StartAt};
    use crate::adapters::kafka::oauth::TokenSource;
    use crate::domain::offset_tracker::Settlement;
    use crate::domain::position::{Offset, TopicPartition};
    use crate::domain::time::Timestamp;

    /// A member that has taken its partition up.
    fn member(brokers: String) -> Arc<GroupConsumer> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", brokers)
            .set("group.id", "sendonce")
            .set("enable.auto.commit", "false");
        let consumer = GroupConsumer::new(&config, TokenSource::none(), StartAt::Earliest).unwrap();
        consumer.subscribe(&["send-intents"]).unwrap();
        for _ in 0..300 {
            if let Polled::Assigned(partitions) = consumer.poll(Duration::from_millis(100)) {
                let begin = |partition| (partition, Beginning::Earliest);
                let beginnings: Vec<_> = partitions.into_iter().map(begin).collect();
                consumer.take_up(&beginnings).unwrap();
                return Arc::new(consumer);
            }
        }
        panic!("nothing was assigned");
    }

    #[test]
    fn a_group_whose_reader_has_panicked_is_left_within_the_time() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("send-intents", 1, 1).unwrap();
        let consumer = member(cluster.bootstrap_servers());
        let runtime = Runtime::new().unwrap();
        let held = Arc::clone(&consumer);
        let upkeep = runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        let in_time = leave(consumer, None, upkeep, &runtime, Duration::from_secs(10));
        assert!(in_time);
    }

    #[tokio::test]
    async fn an_abandoned_tenure_commits_nothing_and_waits_for_what_is_in_flight() {
        let tenures = Tenures::default();
        let partition = TopicPartition {
            topic: "send-intents".into(),
            partition: 0,
        };
        let tenure = tenures.begin(partition, Uuid::nil(), Beginning::Earliest);
        tenure.open(Offset(0), Timestamp::EPOCH).unwrap();
        tenure.settle(Offset(0), Settlement::Ignored).unwrap();
        let in_flight = tenure.at_work();
        let mut abandoned = Box::pin(abandon(&tenures));
        assert!((&mut abandoned).now_or_never().is_none());
        assert!(tenure.is_over());
        assert_eq!(tenure.committable(), None);
        drop(in_flight);
        abandoned.await;
    }
}
