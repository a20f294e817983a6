use super::*;

#[test]
fn a_null_value_is_ignored_and_an_empty_one_refused() {
    let rules = IntakeRules::default();
    let read = |value| {
        decode(
            &RecordView {
                value,
                headers: &[],
            },
            &rules,
        )
    };
    assert_eq!(read(None), Decoded::Ignored(IgnoredReason::Tombstone));
    let fault = Fault::new(Detail::EmptyValue, "the whole value");
    assert_eq!(read(Some(b"")), Decoded::Refused(fault.into()));
}
