//! Decides how several fields become one run of bytes that can be split in one way only, so that no two different
//! lists of fields hash alike: each field behind its length.

/// The length that marks an absent field, which so differs from an empty one.
const ABSENT: u32 = u32::MAX;

/// Feeds `fields` to `sink`, each behind its length in 4 bytes big-endian.
pub(super) fn feed<'a>(
    fields: impl IntoIterator<Item = Option<&'a [u8]>>,
    mut sink: impl FnMut(&[u8]),
) {
    for field in fields {
        match field {
            // No record is that long: what is 4 GiB or more would only be hashed behind a wrong length.
            Some(bytes) => {
                let len = u32::try_from(bytes.len()).unwrap_or(ABSENT - 1);
                sink(&len.to_be_bytes());
                sink(bytes);
            }
            None => sink(&ABSENT.to_be_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(fields: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        feed(fields.iter().copied(), |run| bytes.extend_from_slice(run));
        bytes
    }

    #[test]
    fn absent_empty_and_shifted_fields_all_differ() {
        assert_eq!(
            fed(&[Some(b"ab"), None, Some(b"")]),
            b"\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0"
        );
        assert_ne!(
            fed(&[Some(b"ab"), Some(b"c")]),
            fed(&[Some(b"a"), Some(b"bc")])
        );
        assert_ne!(fed(&[Some(b""), None]), fed(&[None, Some(b"")]));
    }
}
