//! Decides what stands between `{{` and `}}`: a plain path such as `content.text`, which is looked up without an engine
//! and hands values over as they came, or any other minijinja expression. There is no clock and there are no dice in either.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{Environment, ErrorKind, Expression, UndefinedBehavior};
use serde_json::{Map, Value};

use super::key::short;
use crate::domain::idempotency_key::IdempotencyKey;
use crate::domain::intent::Intent;

/// The names that an expression may read.
#[derive(Clone, Copy)]
pub(in crate::domain) struct Names<'a> {
    pub(in crate::domain) intent: &'a Intent,
    /// The key as an expression sees it.
    pub(in crate::domain) key: &'a str,
    /// The key itself: the reference of an intent that has none of its own, and what is shortened.
    pub(in crate::domain) own_key: &'a IdempotencyKey,
    pub(in crate::domain) settings: &'a BTreeMap<String, String>,
}

/// What an expression came to.
pub(in crate::domain) enum Found<'a> {
    /// None or null: the field is left out.
    Absent,
    /// Text of ours or the intent's.
    Text(Cow<'a, str>),
    /// A value of the intent's content, with its numbers as they were written.
    Json(Cow<'a, Value>),
    /// The whole content.
    Content(&'a Map<String, Value>),
}

/// Why an expression has no value. Tells nothing of the intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::domain) enum NoValue {
    /// It names something that the intent lacks.
    Undefined,
    /// It cannot be computed from these values.
    Failed,
    /// It computes a number that JSON cannot write, or bytes.
    NotJson,
}

/// One compiled expression.
pub(in crate::domain) struct Hole {
    plan: Plan,
}

enum Plan {
    /// A path that is looked up as it is.
    Path(Root, Box<[Box<str>]>),
    /// Anything else, and the names it reads.
    Computed(Expression<'static, 'static>, Box<[Root]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Root {
    Id,
    To,
    From,
    Content,
    Template,
    Reference,
    Key,
    KeyShort,
    Settings,
}

impl Root {
    const ALL: [(&'static str, Self); 9] = [
        ("id", Self::Id),
        ("to", Self::To),
        ("from", Self::From),
        ("content", Self::Content),
        ("template", Self::Template),
        ("reference", Self::Reference),
        ("key", Self::Key),
        ("key_short", Self::KeyShort),
        ("settings", Self::Settings),
    ];

    fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, root)| *root)
    }

    fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, root)| *root == self);
        found.map_or("", |(name, _)| name)
    }
}

/// The one engine: what minijinja has built in, without its look at the whole context.
static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut engine = Environment::new();
    engine.remove_global("debug");
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_debug(false);
    engine
});

impl Hole {
    /// Compiles `source`; the error says what is wrong with it. `settings` are the names that may follow `settings.`.
    pub(super) fn compile(
        source: &str,
        settings: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let source = source.trim();
        if let Some((root, rest)) = plain_path(source) {
            let unknown = match (root, rest.split_first()) {
                (Root::Settings, Some((name, []))) => !settings.contains_key(&**name),
                (Root::Settings, _) => true,
                (Root::Template, Some((name, []))) => !matches!(&**name, "name" | "version"),
                (Root::Template | Root::Content, _) => false,
                (_, None) => false,
                (_, Some(_)) => true,
            };
            if unknown {
                return Err(format!("{source} names nothing that a profile can read"));
            }
            let plan = Plan::Path(root, rest);
            return Ok(Self { plan });
        }
        let compiled = ENGINE
            .compile_expression_owned(source.to_owned())
            .map_err(|error| match error.detail() {
                Some(detail) => format!("is no expression: {detail}"),
                None => format!("is no expression: {}", error.kind()),
            })?;
        let mut names: Vec<_> = compiled.undeclared_variables(false).into_iter().collect();
        names.sort_unstable();
        let mut roots = Vec::new();
        for name in names {
            match Root::named(&name) {
                Some(root) => roots.push(root),
                None if ENGINE.globals().any(|(global, _)| global == name) => {}
                None => return Err(format!("{name} names nothing that a profile can read")),
            }
        }
        // The engine's list lacks what is sliced (minijinja 3.1.0, compiler/meta.rs): a name that is written in the
        // expression is given to it all the same.
        for (name, root) in Root::ALL {
            if source.contains(name) && !roots.contains(&root) {
                roots.push(root);
            }
        }
        let plan = Plan::Computed(compiled, roots.into());
        let hole = Self { plan };
        hole.try_out()?;
        Ok(hole)
    }

    /// Looks the value up, or computes it.
    pub(in crate::domain) fn fill<'a>(&self, names: &Names<'a>) -> Result<Found<'a>, NoValue> {
        match &self.plan {
            Plan::Path(root, rest) => look_up(*root, rest, names),
            Plan::Computed(expression, roots) => compute(expression, roots, names),
        }
    }

    /// Unknown filters and tests are found at load and not by the first message: everything that fails in an expression
    /// for want of an intent is let pass here.
    fn try_out(&self) -> Result<(), String> {
        let Plan::Computed(expression, _) = &self.plan else {
            return Ok(());
        };
        let nothing = minijinja::Value::from_pairs::<[(&str, minijinja::Value); 0], _, _>([]);
        let Err(error) = expression.eval(nothing) else {
            return Ok(());
        };
        let unknown = [
            ErrorKind::UnknownFilter,
            ErrorKind::UnknownTest,
            ErrorKind::UnknownFunction,
            ErrorKind::UnknownMethod,
        ];
        match unknown.contains(&error.kind()) {
            true => Err(format!(
                "is no expression: {}",
                error.detail().unwrap_or("something in it is unknown")
            )),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for Hole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.plan {
            Plan::Path(root, rest) => write!(f, "{}.{}", root.name(), rest.join(".")),
            Plan::Computed(..) => f.write_str("(computed)"),
        }
    }
}

/// `content.order.id`, if `source` is nothing but names and dots and begins with a name of ours.
fn plain_path(source: &str) -> Option<(Root, Box<[Box<str>]>)> {
    let mut names = source.split('.');
    let root = Root::named(names.next()?)?;
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let rest: Vec<Box<str>> = names
        .map(|name| is_name(name).then(|| name.into()))
        .collect::<Option<_>>()?;
    Some((root, rest.into()))
}

fn look_up<'a>(root: Root, rest: &[Box<str>], names: &Names<'a>) -> Result<Found<'a>, NoValue> {
    let intent = names.intent;
    let text = |text: &'a str| Ok(Found::Text(Cow::Borrowed(text)));
    let optional = |value: Option<&'a str>| value.map_or(Ok(Found::Absent), text);
    match root {
        Root::Id => text(&intent.event_id.0),
        Root::To => text(intent.recipient.expose()),
        Root::From => optional(intent.from.as_deref()),
        Root::Reference => {
            let own_key = names.own_key.as_str();
            text(intent.reference.as_deref().unwrap_or(own_key))
        }
        Root::Key => text(names.key),
        Root::KeyShort => Ok(Found::Text(Cow::Owned(short(names.own_key)))),
        Root::Settings => {
            let name = rest.first().ok_or(NoValue::Undefined)?;
            let value = names.settings.get(&**name).ok_or(NoValue::Undefined)?;
            text(value)
        }
        Root::Template => match (&intent.template, rest.first().map(|name| &**name)) {
            (None, _) => Ok(Found::Absent),
            (Some(template), Some("name")) => text(&template.name),
            (Some(template), Some(_)) => optional(template.version.as_deref()),
            (Some(template), None) => {
                let mut whole = Map::new();
                whole.insert("name".into(), Value::from(&*template.name));
                if let Some(version) = template.version.as_deref() {
                    whole.insert("version".into(), Value::from(version));
                }
                Ok(Found::Json(Cow::Owned(Value::Object(whole))))
            }
        },
        Root::Content => {
            let Some((first, deeper)) = rest.split_first() else {
                return Ok(Found::Content(&intent.content));
            };
            let mut value = intent.content.get(&**first).ok_or(NoValue::Undefined)?;
            for name in deeper {
                value = value.get(&**name).ok_or(NoValue::Undefined)?;
            }
            match value {
                Value::Null => Ok(Found::Absent),
                Value::String(value) => text(value),
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    Ok(Found::Json(Cow::Borrowed(value)))
                }
            }
        }
    }
}

fn compute<'a>(
    expression: &Expression<'static, 'static>,
    roots: &[Root],
    names: &Names<'a>,
) -> Result<Found<'a>, NoValue> {
    let context =
        minijinja::Value::from_pairs(roots.iter().map(|root| (root.name(), given(*root, names))));
    let value = expression.eval(context).map_err(|error| {
        if error.kind() == ErrorKind::UndefinedError {
            NoValue::Undefined
        } else {
            NoValue::Failed
        }
    })?;
    Ok(match taken(&value)? {
        Value::Null => Found::Absent,
        Value::String(text) => Found::Text(Cow::Owned(text)),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Found::Json(Cow::Owned(other))
        }
    })
}

/// What an expression sees under the name `root`.
fn given(root: Root, names: &Names<'_>) -> minijinja::Value {
    match root {
        Root::Settings => minijinja::Value::from(names.settings.clone()),
        Root::Id
        | Root::To
        | Root::From
        | Root::Content
        | Root::Template
        | Root::Reference
        | Root::Key
        | Root::KeyShort => match look_up(root, &[], names) {
            Ok(Found::Text(text)) => minijinja::Value::from(text.into_owned()),
            Ok(Found::Json(value)) => lent(&value),
            Ok(Found::Content(members)) => lent_members(members),
            Ok(Found::Absent) | Err(_) => minijinja::Value::from(()),
        },
    }
}

/// A number that the engine's own numbers cannot hold exactly. It can be printed and passed on, not computed with.
#[derive(Debug)]
struct ExactNumber(Box<str>);

impl Object for ExactNumber {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn lent(value: &Value) -> minijinja::Value {
    match value {
        Value::Null => minijinja::Value::from(()),
        Value::Bool(value) => minijinja::Value::from(*value),
        Value::Number(number) => {
            let text = number.as_str();
            match text.parse::<i64>() {
                Ok(whole) if whole.to_string() == text => minijinja::Value::from(whole),
                Ok(_) | Err(_) => minijinja::Value::from_object(ExactNumber(text.into())),
            }
        }
        Value::String(text) => minijinja::Value::from(text.as_str()),
        Value::Array(items) => items.iter().map(lent).collect(),
        Value::Object(members) => lent_members(members),
    }
}

fn lent_members(members: &Map<String, Value>) -> minijinja::Value {
    let members: BTreeMap<String, minijinja::Value> = members
        .iter()
        .map(|(name, member)| (name.clone(), lent(member)))
        .collect();
    minijinja::Value::from(members)
}

fn taken(value: &minijinja::Value) -> Result<Value, NoValue> {
    if let Some(number) = value.downcast_object_ref::<ExactNumber>() {
        return serde_json::from_str(&number.0).map_err(|_| NoValue::NotJson);
    }
    match value.kind() {
        ValueKind::Undefined => Err(NoValue::Undefined),
        ValueKind::None => Ok(Value::Null),
        ValueKind::Bool => Ok(Value::Bool(value.is_true())),
        ValueKind::Number if value.is_integer() => {
            serde_json::from_str(&value.to_string()).map_err(|_| NoValue::NotJson)
        }
        ValueKind::Number => f64::try_from(value.clone())
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map(Value::Number)
            .ok_or(NoValue::NotJson),
        ValueKind::String => Ok(Value::String(value.as_str().unwrap_or_default().to_owned())),
        ValueKind::Seq | ValueKind::Iterable => value
            .try_iter()
            .map_err(|_| NoValue::Failed)?
            .map(|item| taken(&item))
            .collect(),
        ValueKind::Map => {
            let mut members = Map::new();
            for name in value.try_iter().map_err(|_| NoValue::Failed)? {
                let member = value.get_item(&name).map_err(|_| NoValue::Failed)?;
                let name = name.as_str().ok_or(NoValue::NotJson)?;
                members.insert(name.to_owned(), taken(&member)?);
            }
            Ok(Value::Object(members))
        }
        ValueKind::Bytes | ValueKind::Plain | ValueKind::Invalid | _ => Err(NoValue::NotJson),
    }
}
