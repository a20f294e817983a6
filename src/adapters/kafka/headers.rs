//! Decides which of a record's headers can be read. It does not know what the others mean for the record.
//!
//! Kafka's protocol calls a header's name a string, and no broker looks at its bytes: some clients send any. rdkafka unwraps
//! what is no UTF-8 (`BorrowedHeaders::try_get`, rdkafka 0.39.0), on the thread that reads, and that again after each
//! restart; so each header is asked for behind `catch_unwind`. It is the one part of a record that is so: key, value and a
//! header's value come as bytes, the timestamp as a number, and the topic is one that we named ourselves.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use rdkafka::message::Headers;

/// So many headers of one record may fail to be read. After that the rest are left out without being looked at: each costs
/// an unwinding and a line in the log, and a record can hold hundreds of thousands.
const UNREADABLE_MAX: usize = 16;

/// A header's name and value.
type Named = (String, Option<Bytes>);

/// The headers that can be read, in order, and how many others there are.
pub(super) fn readable(headers: &impl Headers) -> (Vec<Named>, usize) {
    let count = headers.count();
    let mut found = Vec::with_capacity(count);
    let mut unreadable = 0;
    for index in 0..count {
        let header = catch_unwind(AssertUnwindSafe(|| {
            let header = headers.try_get(index)?;
            Some((
                header.key.to_owned(),
                header.value.map(Bytes::copy_from_slice),
            ))
        }));
        match header {
            Ok(Some(header)) => found.push(header),
            Ok(None) | Err(_) => unreadable += 1,
        }
        if unreadable >= UNREADABLE_MAX {
            break;
        }
    }
    let others = count.saturating_sub(found.len());
    (found, others)
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Header;

    use super::*;

    /// Headers that are read as rdkafka does it: a name that is no UTF-8 is unwrapped.
    struct Raw(Vec<&'static [u8]>);

    impl Headers for Raw {
        fn count(&self) -> usize {
            self.0.len()
        }

        fn try_get(&self, index: usize) -> Option<Header<'_, &[u8]>> {
            let key = std::str::from_utf8(self.0.get(index)?).unwrap();
            let value = Some(&b"v"[..]).filter(|_| key != "null");
            Some(Header { key, value })
        }
    }

    #[test]
    fn a_name_that_is_no_utf_8_costs_its_own_header_alone() {
        let (found, others) = readable(&Raw(vec![b"a", b"x\xff", b"null", b"\xc3", b"a"]));
        let value = || Some(Bytes::from_static(b"v"));
        let named = |name: &str, value| (name.to_owned(), value);
        assert_eq!(
            found,
            [
                named("a", value()),
                named("null", None),
                named("a", value())
            ]
        );
        assert_eq!(others, 2);
    }

    #[test]
    fn of_very_many_unreadable_headers_the_rest_is_counted_and_not_looked_at() {
        let mut names: Vec<&[u8]> = vec![b"a"];
        names.extend([&b"\xff"[..]; 1_000]);
        names.push(b"b");
        let (found, others) = readable(&Raw(names));
        assert_eq!((found.len(), others), (1, 1_001));
    }
}
