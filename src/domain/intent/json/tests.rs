use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<Value, (Detail, String)> {
    super::read(text.as_bytes(), 8, "").map_err(|fault| (fault.detail, fault.place))
}

fn fault(text: &str) -> (Detail, String) {
    read(text).unwrap_err()
}

#[test]
fn numbers_keep_their_digits() {
    let numbers = "[0,7,-7,-0,18446744073709551616,123456789012345678901234567890,-9223372036854775809,1.0,-0.50,\
        0.1000000000000000055511151231257827,1e+3,2e-7,1e+400]";
    assert_eq!(read(numbers).unwrap().to_string(), numbers);
    assert_eq!(
        read("[1E3,1e3,1e+03]").unwrap().to_string(),
        "[1e+3,1e+3,1e+03]"
    );
}

#[test]
fn an_integer_is_told_by_how_it_is_written() {
    let integer = |text: &str| {
        let value = read(text).unwrap();
        super::integer(value.as_number()?).map(str::to_owned)
    };
    for whole in [
        "0",
        "7",
        "-7",
        "123456789012345678901234567890",
        "-123456789012345678901234567890",
    ] {
        assert_eq!(integer(whole).as_deref(), Some(whole));
    }
    for other in ["1.0", "1e3", "1E3", "-0", "-0.0", "0.5", "1e+400"] {
        assert_eq!(integer(other), None, "{other}");
    }
}

#[test]
fn a_member_that_comes_twice_is_refused_wherever_it_is_and_however_it_is_spelled() {
    use Detail::DuplicateField;
    let place = |text: &str| {
        let (detail, place) = fault(text);
        assert_eq!(detail, DuplicateField, "{text}");
        place
    };
    assert_eq!(place(r#"{"to":1,"to":1}"#), "/to, line 1, column 12");
    assert_eq!(place(r#"{"to":1,"t\u006f":2}"#), "/to, line 1, column 17");
    assert_eq!(
        place("{\"content\":{\n \"items\":[0,{\"a\":1,\"b\":2,\"a\":3}]}}"),
        "/content/items/1/a, line 2, column 28"
    );
    assert_eq!(
        place(r#"{"+447700900123":{"x":1,"x":2}}"#),
        "/*/x, line 1, column 27"
    );
}

#[test]
fn a_fault_of_the_syntax_is_told_with_its_place_and_without_its_text() {
    use Detail::{EmptyValue, InvalidJson};
    for (text, detail, place) in [
        ("", EmptyValue, "the whole value"),
        (" \n", EmptyValue, "the whole value"),
        ("\u{FEFF}", EmptyValue, "the whole value"),
        ("{", InvalidJson, "the whole value, line 1, column 1"),
        (r#"{"to":"#, InvalidJson, "/to, line 1, column 6"),
        (
            r#"{"to":"+447700900123"#,
            InvalidJson,
            "/to, line 1, column 20",
        ),
        (
            r#"{"content":{"text":secret}}"#,
            InvalidJson,
            "/content/*, line 1, column 20",
        ),
        (
            r#"{"a":1,}"#,
            InvalidJson,
            "the whole value, line 1, column 8",
        ),
        (
            r#"{"a":1} {"b":2}"#,
            InvalidJson,
            "the whole value, line 1, column 9",
        ),
        ("{}\0", InvalidJson, "the whole value, line 1, column 3"),
        (
            r#"{'a':1}"#,
            InvalidJson,
            "the whole value, line 1, column 2",
        ),
        ("{\"a\":\"\n\"}", InvalidJson, "/*, line 2, column 0"),
        (r#"{"a":"\ud800"}"#, InvalidJson, "/*, line 1, column 13"),
        (
            r#"{"content":{"a":{"tok-SECRET"}}}"#,
            InvalidJson,
            "/content/*/*, line 1, column 30",
        ),
        (r#"{"a":[01]}"#, InvalidJson, "/*/0, line 1, column 8"),
        (r#"{"a":NaN}"#, InvalidJson, "/*, line 1, column 6"),
        (
            r#"{"a":1 // b"#,
            InvalidJson,
            "the whole value, line 1, column 8",
        ),
    ] {
        assert_eq!(fault(text), (detail, place.to_owned()), "{text}");
    }
}

#[test]
fn bytes_that_are_no_utf8_are_told_by_their_offset() {
    let fault = |bytes: &[u8]| {
        let fault = super::read(bytes, 8, "").unwrap_err();
        (fault.detail, fault.place)
    };
    let at = |offset: usize| {
        (
            Detail::InvalidUtf8,
            format!("the whole value, byte {offset}"),
        )
    };
    assert_eq!(fault(b"\xFF\xFE"), at(0));
    assert_eq!(fault(b"{\"a\":\"\xC3\x28\"}"), at(6));
    assert_eq!(fault(b"\xEF\xBB\xBF{\"\xFF\""), at(5));
    assert_eq!(fault(b"{\"a\":\"\xED\xA0\x80\"}"), at(6));
}

#[test]
fn a_byte_order_mark_is_stepped_over_once() {
    assert_eq!(read("\u{FEFF}[1]").unwrap().to_string(), "[1]");
    assert_eq!(fault("\u{FEFF}\u{FEFF}[1]").0, Detail::InvalidJson);
}

#[test]
fn depth_is_bounded_and_numbers_are_no_depth() {
    assert!(read("[[[[[[[1.5]]]]]]]").is_ok());
    assert!(read("[[[[[[[[1.5]]]]]]]]").is_ok());
    assert_eq!(fault("[[[[[[[[[1.5]]]]]]]]]").0, Detail::TooDeep);
    assert_eq!(fault("[[[[[[[[{}]]]]]]]]").0, Detail::TooDeep);
    assert_eq!(
        fault(r#"{"a":{"b":[[[[[[[]]]]]]]}}"#).1,
        "/a/b/0/0/0/0/0/0, line 1, column 18"
    );
    let deep = "[".repeat(100_000);
    assert_eq!(
        super::read(deep.as_bytes(), usize::MAX, "")
            .unwrap_err()
            .detail,
        Detail::InvalidJson
    );
    let most = format!("{}{}", "[".repeat(DEPTH_LIMIT), "]".repeat(DEPTH_LIMIT));
    assert!(super::read(most.as_bytes(), usize::MAX, "").is_ok());
    assert_eq!(
        super::read(most.as_bytes(), DEPTH_LIMIT - 1, "")
            .unwrap_err()
            .detail,
        Detail::TooDeep
    );
    assert_eq!(
        super::read(b"[]", 0, "").unwrap_err().detail,
        Detail::TooDeep
    );
}

#[test]
fn the_librarys_own_names_cannot_be_smuggled_in() {
    for text in [
        r#"{"a":{"$serde_json::private::Number":"1"}}"#,
        r#"{"a":{"\u0024serde_json::private::Number":"1"}}"#,
        r#"{"a":{"b":0,"$serde_json::private\u003a:Number":"x"}}"#,
        r#"{"$serde_json::private::RawValue":"1"}"#,
        r#"{"a":"$serde_json::private::Number"}"#,
    ] {
        assert_eq!(fault(text).0, Detail::ReservedName, "{text}");
    }
}

/// JSON of every kind, with numbers as they come from other languages.
fn document() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        "-?[1-9][0-9]{0,40}(\\.[0-9]{1,20})?(e[+-][0-9]{1,3})?",
    ];
    let scalar = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        number,
        any::<String>().prop_map(|text| Value::from(text).to_string()),
    ];
    scalar.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6)
                .prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::btree_map(any::<String>(), inner, 0..6).prop_map(|members| {
                let members: Vec<String> = members
                    .iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    /// Oracle: the library's own reader, which is right wherever ours accepts, and the text itself.
    #[test]
    fn what_is_read_is_what_was_written(text in document()) {
        let value = super::read(text.as_bytes(), 100, "").unwrap();
        prop_assert_eq!(&value, &serde_json::from_str::<Value>(&text).unwrap());
        prop_assert_eq!(value.to_string().len(), text.len());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let ours = super::read(&bytes, 100, "").is_ok();
        prop_assert!(!ours || serde_json::from_slice::<Value>(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes)).is_ok());
    }

    #[test]
    fn a_document_cut_anywhere_is_refused(text in document(), at in any::<prop::sample::Index>()) {
        let text = format!("[{text}]");
        let bytes = text.as_bytes();
        prop_assert!(super::read(&bytes[..at.index(bytes.len())], 100, "").is_err());
    }
}
