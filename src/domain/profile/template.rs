//! Decides the shape of a request's body and texts: the structure is the profile's, values only ever fill leaves of it,
//! so that no value can break JSON or add a field. It does not know where in a request a shape stands.

use std::collections::BTreeMap;

use toml::Value;

use super::expression::Hole;
use super::pointer::Pointer;
use super::section::{Faults, join, list_of};

/// A text with holes: `https://…/{{ settings.account_sid }}/Messages.json`.
#[derive(Debug)]
pub(in crate::domain) struct Text {
    /// Where it stands in the profile, for faults.
    pub(in crate::domain) path: Box<str>,
    pub(in crate::domain) parts: Box<[Part]>,
}

#[derive(Debug)]
pub(in crate::domain) enum Part {
    Literal(Box<str>),
    Hole(Hole),
}

impl Text {
    /// The hole, if the text is exactly one `{{ expression }}` and nothing else.
    pub(in crate::domain) fn sole_hole(&self) -> Option<&Hole> {
        match &*self.parts {
            [Part::Hole(hole)] => Some(hole),
            [Part::Literal(_)] | [] | [_, _, ..] => None,
        }
    }

    /// The text itself, if it has no hole.
    pub(in crate::domain) fn literal(&self) -> Option<&str> {
        match &*self.parts {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            [Part::Hole(_)] | [_, _, ..] => None,
        }
    }
}

/// A body of JSON.
#[derive(Debug)]
pub(in crate::domain) enum Node {
    /// JSON without holes, already written.
    Fixed(Box<[u8]>),
    /// A leaf with holes.
    Leaf(Text),
    /// The key, as it goes on the wire.
    WireKey,
    /// Fields in the order of their names.
    Object(Vec<Field>),
    Array(Vec<Node>),
}

#[derive(Debug)]
pub(in crate::domain) struct Field {
    pub(in crate::domain) name: Box<str>,
    /// The name as JSON, with its colon.
    pub(in crate::domain) written: Box<[u8]>,
    pub(in crate::domain) node: Node,
}

/// One field of a form. A hole that comes to a list repeats it.
#[derive(Debug)]
pub(in crate::domain) struct FormField {
    pub(in crate::domain) name: Box<str>,
    pub(in crate::domain) value: FormValue,
}

#[derive(Debug)]
pub(in crate::domain) enum FormValue {
    Text(Text),
    WireKey,
}

/// Compiles texts and trees; notes what cannot be.
pub(super) struct Compiler<'a> {
    pub(super) faults: &'a Faults,
    pub(super) settings: &'a BTreeMap<String, String>,
}

impl Compiler<'_> {
    pub(super) fn text(&self, path: &str, source: &str) -> Text {
        let mut parts = Vec::new();
        let mut rest = source;
        while let Some((literal, after)) = rest.split_once("{{") {
            self.literal(path, literal, &mut parts);
            let Some(end) = end_of_hole(after) else {
                self.faults.add(path, "a {{ lacks its }}");
                rest = "";
                break;
            };
            let (inside, after) = after.split_at(end);
            match Hole::compile(inside, self.settings) {
                Ok(hole) => parts.push(Part::Hole(hole)),
                Err(problem) => self.faults.add(path, problem),
            }
            rest = after.strip_prefix("}}").unwrap_or(after);
        }
        self.literal(path, rest, &mut parts);
        Text {
            path: path.into(),
            parts: parts.into(),
        }
    }

    fn literal(&self, path: &str, literal: &str, parts: &mut Vec<Part>) {
        if ["{%", "{#", "}}"].iter().any(|mark| literal.contains(mark)) {
            self.faults.add(
                path,
                "only {{ expressions }} are filled in; {%, {# and a lone }} are not allowed",
            );
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.into()));
        }
    }

    pub(super) fn json(&self, path: &str, value: &Value) -> Node {
        let fixed = |json: serde_json::Value| Node::Fixed(json.to_string().into_bytes().into());
        match value {
            Value::String(source) => {
                let text = self.text(path, source);
                match text.literal() {
                    Some(literal) => fixed(literal.into()),
                    None => Node::Leaf(text),
                }
            }
            Value::Integer(number) => fixed((*number).into()),
            Value::Float(number) if number.is_finite() => fixed((*number).into()),
            Value::Boolean(flag) => fixed((*flag).into()),
            Value::Float(_) | Value::Datetime(_) => {
                self.faults
                    .add(path, "JSON has no such value; write it as text");
                fixed(serde_json::Value::Null)
            }
            Value::Array(items) => Node::Array(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.json(&format!("{path}[{index}]"), item))
                    .collect(),
            ),
            Value::Table(table) => Node::Object(
                table
                    .iter()
                    .map(|(name, member)| Field::new(name, self.json(&join(path, name), member)))
                    .collect(),
            ),
        }
    }

    pub(super) fn form(&self, path: &str, table: &toml::Table) -> Vec<FormField> {
        let mut fields = Vec::new();
        for (name, value) in table {
            let path = join(path, name);
            for value in list_of(value) {
                let text = match value {
                    Value::String(source) => self.text(&path, source),
                    Value::Integer(number) => self.text(&path, &number.to_string()),
                    Value::Boolean(flag) => self.text(&path, &flag.to_string()),
                    Value::Float(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
                        self.faults
                            .add(&path, "a field of a form is text, or a list of texts");
                        continue;
                    }
                };
                fields.push(FormField {
                    name: name.as_str().into(),
                    value: FormValue::Text(text),
                });
            }
        }
        fields
    }
}

impl Field {
    pub(super) fn new(name: &str, node: Node) -> Self {
        let mut written = serde_json::Value::from(name).to_string();
        written.push(':');
        Self {
            name: name.into(),
            written: written.into_bytes().into(),
            node,
        }
    }
}

impl Node {
    /// Puts the key at `pointer`, making the objects on the way; the error says why it cannot stand there.
    pub(super) fn place_key(&mut self, pointer: &Pointer) -> Result<(), &'static str> {
        let names = pointer.names().ok_or("a place has no *")?;
        if names.is_empty() {
            return Err("the key cannot be the whole body");
        }
        let mut node = self;
        for name in names {
            node = match node {
                Self::Object(fields) => {
                    let at = match fields.binary_search_by(|field| (*field.name).cmp(name)) {
                        Ok(at) => at,
                        Err(at) => {
                            fields.insert(at, Field::new(name, Self::Object(Vec::new())));
                            at
                        }
                    };
                    let field = fields.get_mut(at).ok_or("the place is not there")?;
                    &mut field.node
                }
                Self::Array(items) => name
                    .parse()
                    .ok()
                    .and_then(|index: usize| items.get_mut(index))
                    .ok_or("the body's template has no such element")?,
                Self::Fixed(_) | Self::Leaf(_) | Self::WireKey => {
                    return Err("the body's template has a value on the way to it");
                }
            };
        }
        match node {
            Self::Object(fields) if fields.is_empty() => {
                *node = Self::WireKey;
                Ok(())
            }
            Self::Object(_) | Self::Array(_) | Self::Fixed(_) | Self::Leaf(_) | Self::WireKey => {
                Err("the body's template already has a value there")
            }
        }
    }
}

/// Where the `}}` of a hole begins: quotes and inner braces do not end it.
fn end_of_hole(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') if depth > 0 => depth -= 1,
            (None, '}') if text.get(at..).is_some_and(|rest| rest.starts_with("}}")) => {
                return Some(at);
            }
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(source: &str) -> (Text, Vec<String>) {
        let faults = Faults::default();
        let compiler = Compiler {
            faults: &faults,
            settings: &BTreeMap::from([("account".to_owned(), String::new())]),
        };
        let text = compiler.text("t", source);
        let faults = faults
            .into_list()
            .iter()
            .map(|fault| fault.problem.clone())
            .collect();
        (text, faults)
    }

    #[test]
    fn text_is_split_at_its_holes() {
        let (text, faults) = compile("a {{ content.x }}b{{to}}");
        assert_eq!(faults, Vec::<String>::new());
        assert_eq!(
            format!("{:?}", text.parts),
            r#"[Literal("a "), Hole(content.x), Literal("b"), Hole(to.)]"#
        );
    }

    #[test]
    fn braces_and_quotes_inside_a_hole_do_not_end_it() {
        for source in [
            r#"{{ content.x | default("}}") }}"#,
            r#"{{ content.x | default('\'}}') }}"#,
            r#"{{ {"a": {"b": content.x}} }}"#,
        ] {
            let (text, faults) = compile(source);
            assert_eq!(faults, Vec::<String>::new(), "{source}");
            assert!(text.sole_hole().is_some(), "{source}");
        }
    }

    #[test]
    fn what_cannot_be_read_or_computed_is_refused_at_load() {
        for (source, problem) in [
            ("{{ contnt.x }}", "names nothing that a profile can read"),
            ("{{ metadata.x }}", "names nothing that a profile can read"),
            ("{{ to.x }}", "names nothing that a profile can read"),
            (
                "{{ template.title }}",
                "names nothing that a profile can read",
            ),
            ("{{ settings }}", "names nothing that a profile can read"),
            (
                "{{ settings.absent }}",
                "names nothing that a profile can read",
            ),
            ("{{ debug() }}", "names nothing that a profile can read"),
            ("{{ now() }}", "names nothing that a profile can read"),
            ("{{ to | shout }}", "is no expression"),
            ("{{ to +  }}", "is no expression"),
            ("{{ }}", "is no expression"),
            ("{{ to", "lacks its"),
            ("{% if to %}x{% endif %}", "only {{ expressions }}"),
            ("{# note #}", "only {{ expressions }}"),
            ("x }}", "only {{ expressions }}"),
        ] {
            let (_, faults) = compile(source);
            assert!(
                faults.iter().any(|fault| fault.contains(problem)),
                "{source}: {faults:?}"
            );
        }
    }
}
