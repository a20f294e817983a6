//! Decides which values of a JSON document a profile means: JSON Pointer (RFC 6901), with `*` for "any element".
//! It does not know what a value at that place says.

use serde_json::{Number, Value};

/// A place in a JSON document, or several: `/error/code`, `/details/*/errorCode`. The empty pointer is the whole document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    steps: Box<[Step]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A member of an object, or an element of an array where the name is an index.
    Named {
        name: Box<str>,
        index: Option<usize>,
    },
    /// Every element of an array and every member of an object.
    Any,
}

impl Pointer {
    /// Reads a pointer; the error says what is wrong with it.
    ///
    /// # Errors
    ///
    /// If it neither is empty nor begins with `/`, or if a `~` is not followed by `0` or `1`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Ok(Self { steps: [].into() });
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err("a JSON Pointer begins with a slash");
        };
        let steps = rest.split('/').map(Step::parse).collect::<Result<_, _>>()?;
        Ok(Self { steps })
    }

    /// The first value at this place, in document order.
    pub fn first<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        let mut found = None;
        self.any(document, |value| {
            found = Some(value);
            true
        });
        found
    }

    /// Whether `test` holds for any value at this place. Stops at the first that it holds for.
    pub fn any<'v>(&self, document: &'v Value, mut test: impl FnMut(&'v Value) -> bool) -> bool {
        visit(&self.steps, document, &mut test)
    }

    /// The names on the way, or `None` if one of them is `*`.
    pub fn names(&self) -> Option<Vec<&str>> {
        self.steps
            .iter()
            .map(|step| match step {
                Step::Named { name, .. } => Some(&**name),
                Step::Any => None,
            })
            .collect()
    }
}

impl Step {
    fn parse(token: &str) -> Result<Self, &'static str> {
        if token == "*" {
            return Ok(Self::Any);
        }
        let mut escapes = token.split('~').skip(1);
        if !escapes.all(|rest| rest.starts_with(['0', '1'])) {
            return Err("in a JSON Pointer a tilde is written ~0 and a slash ~1");
        }
        let canonical_index = token == "0" || !token.starts_with('0');
        Ok(Self::Named {
            name: token.replace("~1", "/").replace("~0", "~").into(),
            index: token
                .bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| token.parse().ok())
                .flatten()
                .filter(|_| canonical_index),
        })
    }
}

fn visit<'v>(steps: &[Step], value: &'v Value, test: &mut impl FnMut(&'v Value) -> bool) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return test(value);
    };
    match (step, value) {
        (Step::Any, Value::Array(items)) => items.iter().any(|item| visit(rest, item, test)),
        (Step::Any, Value::Object(members)) => {
            members.values().any(|member| visit(rest, member, test))
        }
        (Step::Named { index, .. }, Value::Array(items)) => index
            .and_then(|index| items.get(index))
            .is_some_and(|item| visit(rest, item, test)),
        (Step::Named { name, .. }, Value::Object(members)) => members
            .get(&**name)
            .is_some_and(|member| visit(rest, member, test)),
        (_, Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => false,
    }
}

/// The canonical text of a single value: `21211` and `"21211"` have the same. `None` for null, arrays and objects.
/// Numbers keep the digits that were sent.
pub fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(Number::as_str(number)),
        Value::Bool(true) => Some("true"),
        Value::Bool(false) => Some("false"),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found<'v>(pointer: &str, document: &'v Value) -> Vec<&'v Value> {
        let mut all = Vec::new();
        Pointer::parse(pointer).unwrap().any(document, |value| {
            all.push(value);
            false
        });
        all
    }

    #[test]
    fn the_examples_of_rfc_6901_section_5() {
        let document = json!({
            "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3,
            "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8,
        });
        assert_eq!(found("", &document), [&document]);
        assert_eq!(found("/foo/0", &document), [&json!("bar")]);
        for (pointer, value) in [
            ("/", 0),
            ("/a~1b", 1),
            ("/c%d", 2),
            ("/e^f", 3),
            ("/g|h", 4),
            ("/i\\j", 5),
            ("/k\"l", 6),
            ("/ ", 7),
            ("/m~0n", 8),
        ] {
            assert_eq!(found(pointer, &document), [&json!(value)], "{pointer}");
        }
    }

    #[test]
    fn a_star_means_any_element_or_member() {
        let document = json!({"details": [{"code": 1}, {"other": 2}, {"code": 3}], "map": {"a": {"x": 4}, "b": {"x": 5}}});
        assert_eq!(found("/details/*/code", &document), [&json!(1), &json!(3)]);
        assert_eq!(found("/map/*/x", &document), [&json!(4), &json!(5)]);
        assert_eq!(found("/nothing/*", &document), Vec::<&Value>::new());
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let document = json!({"list": [1], "text": "x", "01": "named"});
        for pointer in [
            "/list/1",
            "/list/00",
            "/list/-",
            "/text/0",
            "/absent",
            "/list/99999999999999999999999",
        ] {
            assert_eq!(found(pointer, &document), Vec::<&Value>::new(), "{pointer}");
        }
        assert_eq!(found("/01", &document), [&json!("named")]);
    }

    #[test]
    fn a_pointer_that_is_none_is_refused() {
        assert!(Pointer::parse("error/code").is_err());
        assert!(Pointer::parse("/a~2b").is_err());
        assert!(Pointer::parse("/a~").is_err());
    }

    #[test]
    fn numbers_and_texts_compare_alike_and_keep_their_digits() {
        let document: Value =
            serde_json::from_str(r#"[21211, "21211", 1.50, 900719925474099312345, true, null]"#)
                .unwrap();
        let texts: Vec<_> = document.as_array().unwrap().iter().map(text_of).collect();
        assert_eq!(
            texts,
            [
                Some("21211"),
                Some("21211"),
                Some("1.50"),
                Some("900719925474099312345"),
                Some("true"),
                None
            ]
        );
    }
}
