//! Several topics of intents on real brokers, which create them.

use super::place::Place;
use crate::kafka_cluster::shared;
use crate::two_lanes::{TwoLanes, start};

#[tokio::test(flavor = "multi_thread")]
async fn lanes_are_created_with_their_dead_letters_and_codes_pass_a_backlog_of_letters() {
    let Some(kafka) = shared() else { return };
    let place = Place::without_topics(kafka, "lanes-codes");
    let lanes = TwoLanes::new(kafka, "lanes-codes", "lanes-letters").await;
    let setup = lanes
        .lanes(place.setup(&lanes.provider.url()))
        .set("KAFKA__CREATE_TOPICS", "true")
        .set("KAFKA__PARTITIONS", "3");
    let (_home, worker) = start(&setup);
    worker.until_ready().await;
    for topic in ["codes", "codes.dlq", "letters", "letters.dlq"] {
        let partitions = kafka.watermarks(&format!("lanes-{topic}"));
        assert_eq!(partitions.len(), 3, "{topic}");
    }
    lanes.publish_to(&worker).await;
    lanes.until_sent("lanes-codes").await;
    lanes.assert_few_letters_went_before_the_codes();
}
