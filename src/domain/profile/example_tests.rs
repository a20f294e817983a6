//! The example profile: every field there is, and what each refuses.

use super::tests::faults_of;
use super::*;

/// A profile with every field there is, each with what it means.
const EXAMPLE: &str = include_str!("../../../config/provider-example.toml");

/// Every place in `value`, under its key path: `visit` may put something else there.
pub(super) fn every_place(
    value: &toml::Value,
    path: &str,
    visit: &mut impl FnMut(&str, &toml::Value),
) {
    match value {
        toml::Value::Table(table) => {
            for (name, member) in table {
                let path = join(path, name);
                visit(&path, member);
                every_place(member, &path, visit);
            }
        }
        toml::Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                visit(&path, item);
                every_place(item, &path, visit);
            }
        }
        toml::Value::String(_)
        | toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_) => {}
    }
}

/// The example with `change` made to the value at `place`.
fn changed(place: &str, change: &dyn Fn(&mut toml::Value)) -> String {
    changed_in(EXAMPLE, place, change)
}

/// A profile's text with `change` made to the value at `place`.
pub(super) fn changed_in(text: &str, place: &str, change: &dyn Fn(&mut toml::Value)) -> String {
    fn descend(
        value: &mut toml::Value,
        path: &str,
        place: &str,
        change: &dyn Fn(&mut toml::Value),
    ) {
        if path == place {
            return change(value);
        }
        match value {
            toml::Value::Table(table) => {
                for (name, member) in table.iter_mut() {
                    descend(member, &join(path, name), place, change);
                }
            }
            toml::Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    descend(item, &format!("{path}[{index}]"), place, change);
                }
            }
            toml::Value::String(_)
            | toml::Value::Integer(_)
            | toml::Value::Float(_)
            | toml::Value::Boolean(_)
            | toml::Value::Datetime(_) => {}
        }
    }
    let mut whole: toml::Value = toml::Value::Table(text.parse().unwrap());
    descend(&mut whole, "", place, change);
    toml::to_string(&whole).unwrap()
}

#[test]
fn the_example_has_every_field_and_each_refuses_what_it_cannot_be() {
    Profile::parse(EXAMPLE).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let example = toml::Value::Table(EXAMPLE.parse().unwrap());
    let date = toml::Value::Datetime("2026-11-30".parse().unwrap());
    let mut places = Vec::new();
    every_place(&example, "", &mut |place, _| places.push(place.to_owned()));
    assert!(places.len() > 100);
    for place in places {
        let faults = faults_of(&changed(&place, &|value| *value = date.clone()));
        let named = faults.iter().any(|fault| {
            let (path, _) = fault.split_once(": ").unwrap();
            place.starts_with(path) || path.starts_with(&place)
        });
        assert!(named, "{place}: {faults:?}");
    }
}

#[test]
fn every_table_of_the_example_refuses_a_field_that_nobody_knows() {
    let example = toml::Value::Table(EXAMPLE.parse().unwrap());
    let mut tables = vec![String::new()];
    every_place(&example, "", &mut |place, _| tables.push(place.to_owned()));
    let surplus = toml::Value::Table("surplus = 1".parse().unwrap());
    let mut refused = 0;
    for place in tables {
        // The author's own names: any are allowed here.
        if [
            "settings",
            "request.headers",
            "rule[0].when.header",
            "lookup.headers",
        ]
        .contains(&place.as_str())
            || place.starts_with("request.body.template")
        {
            continue;
        }
        let text = changed(&place, &|value| {
            if let (Some(table), Some(surplus)) = (value.as_table_mut(), surplus.as_table()) {
                table.extend(surplus.clone());
            }
        });
        let faults = faults_of(&text);
        if text.contains("surplus") {
            refused += 1;
            assert!(!faults.is_empty(), "{place}");
            assert!(faults[0].starts_with(&place), "{place}: {faults:?}");
        }
    }
    assert!(refused >= 20, "{refused}");
}
