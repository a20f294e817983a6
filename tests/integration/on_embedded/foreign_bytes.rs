//! Records that no Rust client can write: here the bytes of one produce request, sent over a socket of the test's own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::dead_letters::dead_letters;
use crate::product::{Embedded, Home, SOON, Sent, Setup, code, sms};
use crate::scripted::{Scripted, accepting};

/// A signed number as a record has it (Protocol Buffers' zigzag encoding).
fn varint(out: &mut Vec<u8>, number: usize) {
    let mut left = number << 1;
    while left >= 0x80 {
        out.push(u8::try_from(left & 0x7f).expect("seven bits") | 0x80);
        left >>= 7;
    }
    out.push(u8::try_from(left).expect("seven bits"));
}

fn sized(out: &mut Vec<u8>, bytes: &[u8]) {
    varint(out, bytes.len());
    out.extend(bytes);
}

fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).expect("short").to_be_bytes()
}

/// CRC-32C (RFC 3720, appendix B.4), bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0x82F6_3B78 * (crc & 1));
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// A batch of one record (Kafka's record format, version 2).
fn batch(key: &[u8], value: &[u8], headers: &[(&[u8], &[u8])], at_ms: i64) -> Vec<u8> {
    let mut record = vec![0, 0, 0]; // attributes, and no distance from the batch's time and offset
    sized(&mut record, key);
    sized(&mut record, value);
    varint(&mut record, headers.len());
    for (name, value) in headers {
        sized(&mut record, name);
        sized(&mut record, value);
    }
    let mut checked = Vec::new();
    checked.extend([0; 6]); // attributes, last offset
    checked.extend(at_ms.to_be_bytes());
    checked.extend(at_ms.to_be_bytes());
    checked.extend([0xff; 14]); // no producer's id, epoch, sequence
    checked.extend(1_u32.to_be_bytes());
    sized(&mut checked, &record);
    let mut rest = vec![0xff, 0xff, 0xff, 0xff, 2]; // leader's epoch, format
    rest.extend(crc32c(&checked).to_be_bytes());
    rest.extend(checked);
    let mut batch = vec![0; 8];
    batch.extend(length(&rest));
    batch.extend(rest);
    batch
}

/// Produces `batch` to partition 0 of `send-intents` (Produce, version 7), and waits for the acknowledgement.
fn produce(kafka: &Embedded, batch: &[u8]) {
    let mut request = vec![0, 0, 0, 7, 0, 0, 0, 1]; // which request, version, number
    request.extend([0xff, 0xff, 0xff, 0xff]); // no client's name, no transaction
    request.extend([0, 1, 0, 0, 0x75, 0x30]); // the leader's acknowledgement, within 30 s
    request.extend([0, 0, 0, 1, 0, 12]);
    request.extend(b"send-intents");
    request.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    request.extend(length(batch));
    request.extend(batch);
    let mut broker = TcpStream::connect(kafka.bootstrap()).expect("a broker");
    broker.set_read_timeout(Some(SOON)).expect("a time");
    broker.write_all(&length(&request)).expect("it takes it");
    broker.write_all(&request).expect("it takes it");
    // Length, number, topics, name, partitions, partition: then the error.
    let mut answer = [0; 4 + 4 + 4 + 2 + 12 + 4 + 4 + 2];
    broker.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[answer.len() - 2..], [0, 0], "no error: {answer:?}");
}

/// Kafka's protocol calls a header's name a string, and no broker looks at its bytes: C and Go clients send any.
#[tokio::test(flavor = "multi_thread")]
async fn a_header_whose_name_is_no_utf_8_costs_its_record_alone() {
    let kafka = Embedded::with_partitions(1);
    let provider = Scripted::by(|_, _| accepting()).await;
    let setup = Setup::new(&kafka, &provider.url());
    let home = Home::new(&setup);
    let value = sms("e-1", "hello").to_string();
    let headers: [(&[u8], &[u8]); 3] = [(b"before", b"1"), (b"x\xff", b"lost"), (b"after", b"2")];
    let now_ms = jiff::Timestamp::now().as_millisecond();
    produce(&kafka, &batch(b"k", value.as_bytes(), &headers, now_ms));
    kafka
        .publish(&[Sent::json(&sms("e-2", "world")).keyed("k")])
        .await;

    let mut worker = home.start(&setup);
    kafka.until_committed().await;
    worker.term();
    assert_eq!(code(worker.ended(SOON).await), 0);

    let seen = provider.seen();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].body.contains("world"));
    let letters = dead_letters(&kafka);
    let [letter] = &letters[..] else {
        panic!("one dead letter: {letters:?}");
    };
    let told = (letter.reason.as_str(), letter.detail.as_str());
    let detail = "unreadable_header at 1 of the headers, left out: a name must be UTF-8";
    assert_eq!(told, ("malformed", detail));
    assert_eq!(letter.key.as_deref(), Some(&b"k"[..]));
    assert_eq!(letter.value.as_deref(), Some(value.as_bytes()));
    let kept = ["before", "after"].map(|name| letter.headers.get(name).map(String::as_str));
    assert_eq!(kept, [Some("1"), Some("2")]);
}
