//! Decides how a place in a document is written: a JSON pointer (RFC 6901) that shows the names of fields and never
//! what could be personal. A name that does not look like a field's is shown as `*`.

/// The longest member name that is still taken for a field's.
const NAME_LEN_MAX: usize = 40;

/// Names of fields, whoever publishes: those of config/intent.schema.json, CloudEvents' and the outbox's.
const OF_THE_CONTRACT: [&str; 19] = [
    "channel",
    "content",
    "data",
    "data_base64",
    "expires_at",
    "from",
    "id",
    "idempotency_key",
    "metadata",
    "name",
    "payload",
    "provider",
    "reference",
    "schema",
    "source",
    "specversion",
    "template",
    "to",
    "version",
];

/// `parent` with one more step, to the member `name`.
pub fn member(parent: &str, name: &str) -> String {
    format!("{parent}/{}", shown(name))
}

/// The same where a name may be anything: those that the contract with publishers names are shown, all others as `*`.
pub fn member_of_the_contract(parent: &str, name: &str) -> String {
    let shown = if OF_THE_CONTRACT.contains(&name) {
        name
    } else {
        "*"
    };
    format!("{parent}/{shown}")
}

/// `parent` with one more step, to the item at `index`.
pub fn item(parent: &str, index: usize) -> String {
    format!("{parent}/{index}")
}

/// What to call a place: the pointer, or words for the whole document.
pub fn named(pointer: &str) -> &str {
    if pointer.is_empty() {
        "the whole value"
    } else {
        pointer
    }
}

/// `name`, or `*` if it does not look like a field's: telephone numbers, addresses and tokens do not.
pub fn shown(name: &str) -> &str {
    let mut bytes = name.bytes();
    let starts = bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
    let goes_on = bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if starts && goes_on && name.len() <= NAME_LEN_MAX {
        name
    } else {
        "*"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_the_published_schema_is_shown_even_where_the_syntax_is_broken() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("../../../config/intent.schema.json")).unwrap();
        let mut names = Vec::new();
        fields(&schema, &mut names);
        assert!(names.len() >= 14, "{names:?}");
        for name in names {
            assert_eq!(member_of_the_contract("", name), format!("/{name}"));
        }
        assert_eq!(
            member_of_the_contract("/content", "tok-SECRET"),
            "/content/*"
        );
    }

    /// The names of all fields that a schema knows.
    fn fields<'a>(schema: &'a serde_json::Value, names: &mut Vec<&'a str>) {
        if let Some(known) = schema["properties"].as_object() {
            names.extend(known.keys().map(String::as_str));
        }
        let inner = schema.as_object().into_iter().flat_map(|map| map.values());
        inner.for_each(|inner| fields(inner, names));
    }

    #[test]
    fn a_pointer_shows_names_of_fields_and_nothing_personal() {
        assert_eq!(member("/content", "first_name"), "/content/first_name");
        assert_eq!(member("", "expire_at"), "/expire_at");
        assert_eq!(item("/content/items", 3), "/content/items/3");
        for personal in [
            "+447700900123",
            "447700900123",
            "person@example.com",
            "https://example.com/hook",
            "a/b",
            "",
            "Bearer abc",
            "name\r\nX-Evil: 1",
        ] {
            assert_eq!(member("", personal), "/*");
        }
        assert_eq!(member("", &"a".repeat(41)), "/*");
    }
}
