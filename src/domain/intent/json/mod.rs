//! Decides what counts as JSON (RFC 8259), more strictly than its library: every member once, bounded depth, nothing
//! behind the value, and numbers kept as they are written. It does not know what a document means.
//!
//! A byte order mark at the start is stepped over, as section 8.1 allows: it cannot change the meaning. Of a number
//! only the exponent's spelling is lost: `1E3`, `1e3` and `1e+3` are all kept as `1e+3`.

use std::cell::RefCell;
use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::pointer;
use super::refusal::{Detail, Fault};

/// serde_json reads no deeper than 127 levels; a higher limit of ours has no effect.
pub const DEPTH_LIMIT: usize = 127;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// With its feature `arbitrary_precision`, serde_json hands out numbers that fit no 64-bit integer as a map with one
/// member of this name.
const NUMBER_TOKEN: &str = "$serde_json::private::Number";

/// How all names begin that serde_json gives a meaning of its own.
const RESERVED: &str = "$serde_json::private::";

/// Reads `bytes`, whose outermost array or object is level 1 of `depth_max`. Places are told relative to `base`.
pub fn read(bytes: &[u8], depth_max: usize, base: &str) -> Result<Value, Fault> {
    let unmarked = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let text = std::str::from_utf8(unmarked).map_err(|error| {
        let skipped = bytes.len().saturating_sub(unmarked.len());
        let offset = error.valid_up_to().saturating_add(skipped);
        let place = format!("{}, byte {offset}", pointer::named(base));
        Fault::new(Detail::InvalidUtf8, place)
    })?;
    read_text(text, depth_max, base)
}

fn read_text(text: &str, depth_max: usize, base: &str) -> Result<Value, Fault> {
    if text.trim_ascii().is_empty() {
        return Err(Fault::new(Detail::EmptyValue, pointer::named(base)));
    }
    if text.contains(RESERVED) {
        return Err(Fault::new(Detail::ReservedName, pointer::named(base)));
    }
    let trace = RefCell::new(Trace::default());
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let node = Node {
        levels_left: depth_max.min(DEPTH_LIMIT),
        trace: &trace,
    };
    node.deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| trace.into_inner().fault(base, error.line(), error.column()))
}

/// What is known of a fault while the reader climbs out of the document.
#[derive(Default)]
struct Trace {
    detail: Option<Detail>,
    /// From the fault outward.
    steps: Vec<Step>,
}

enum Step {
    Member(String),
    Item(usize),
}

impl Trace {
    fn fault(self, base: &str, line: usize, column: usize) -> Fault {
        // Where the syntax is broken, what stands in a name's place may have been meant for a value.
        let member = match self.detail {
            Some(_) => pointer::member,
            None => pointer::member_of_the_contract,
        };
        let place = self
            .steps
            .iter()
            .rev()
            .fold(base.to_owned(), |place, step| match step {
                Step::Member(name) => member(&place, name),
                Step::Item(index) => pointer::item(&place, *index),
            });
        let place = format!("{}, line {line}, column {column}", pointer::named(&place));
        Fault::new(self.detail.unwrap_or(Detail::InvalidJson), place)
    }
}

/// Reads one value.
#[derive(Clone, Copy)]
struct Node<'a> {
    levels_left: usize,
    trace: &'a RefCell<Trace>,
}

impl Node<'_> {
    fn inside<E: de::Error>(self) -> Result<Self, E> {
        match self.levels_left.checked_sub(1) {
            Some(levels_left) => Ok(Self {
                levels_left,
                ..self
            }),
            None => Err(self.refuse(Detail::TooDeep)),
        }
    }

    fn refuse<E: de::Error>(self, detail: Detail) -> E {
        self.trace.borrow_mut().detail = Some(detail);
        E::custom(detail)
    }

    fn climb(self, step: Step) {
        self.trace.borrow_mut().steps.push(step);
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, integer: u64) -> Result<Value, E> {
        Ok(Value::Number(integer.into()))
    }

    fn visit_i64<E>(self, integer: i64) -> Result<Value, E> {
        Ok(Value::Number(integer.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut array = Vec::new();
        loop {
            match items.next_element_seed(inside) {
                Ok(Some(item)) => array.push(item),
                Ok(None) => return Ok(Value::Array(array)),
                Err(error) => {
                    self.climb(Step::Item(array.len()));
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut next = members.next_key_seed(NameSeed)?;
        if matches!(next, Some(Name::Number)) {
            let text: String = members.next_value()?;
            return text
                .parse()
                .map(Value::Number)
                .map_err(|_| self.refuse(Detail::InvalidJson));
        }
        let inside = self.inside()?;
        let mut object = Map::new();
        while let Some(Name::Member(name)) = next {
            let fault = if name.starts_with(RESERVED) {
                Some(Detail::ReservedName)
            } else if object.contains_key(&name) {
                Some(Detail::DuplicateField)
            } else {
                None
            };
            if let Some(detail) = fault {
                self.climb(Step::Member(name));
                return Err(self.refuse(detail));
            }
            match members.next_value_seed(inside) {
                Ok(value) => object.insert(name, value),
                Err(error) => {
                    self.climb(Step::Member(name));
                    return Err(error);
                }
            };
            next = members.next_key_seed(NameSeed)?;
        }
        Ok(Value::Object(object))
    }
}

/// A member's name, or the mark by which serde_json hands out a number.
enum Name {
    Member(String),
    Number,
}

struct NameSeed;

impl<'de> DeserializeSeed<'de> for NameSeed {
    type Value = Name;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Name, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NameSeed {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    /// A name as it stands in the text, or the mark. The text does not hold the mark: that has been looked for.
    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name, E> {
        Ok(if name == NUMBER_TOKEN {
            Name::Number
        } else {
            Name::Member(name.to_owned())
        })
    }

    /// A name with escapes in it, which therefore is no mark, whatever it spells.
    fn visit_str<E>(self, name: &str) -> Result<Name, E> {
        Ok(Name::Member(name.to_owned()))
    }
}

/// An integer's exact digits, or `None` if `number` is written with a fraction or an exponent, or is `-0`, which some
/// readers take for `0` and some do not.
pub fn integer(number: &Number) -> Option<&str> {
    let text = number.as_str();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    (whole && text != "-0").then_some(text)
}

#[cfg(test)]
mod tests;
