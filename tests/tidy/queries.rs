//! Reads the queries of the dashboards and the alerts, just far enough to know which metrics and labels they name.
//! Whether they are right PromQL is for promtool to say (`dashboards/check.sh`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::tree::read;

/// One query, with what is written beside it.
#[derive(Debug, Default)]
pub struct Query {
    pub place: String,
    pub text: String,
    /// Labels that a legend or an annotation shows.
    pub shown: BTreeSet<String>,
}

/// One metric in a query.
#[derive(Debug, PartialEq, Eq)]
pub struct Selector {
    pub name: String,
    /// Labels that it is chosen by, and the value where that is a plain one.
    pub matchers: Vec<(String, Option<String>)>,
}

impl Query {
    /// The metrics of ours that are asked for.
    pub fn selectors(&self) -> Vec<Selector> {
        let name_end = |text: &str| text.find(|next: char| !is_name(next)).unwrap_or(text.len());
        self.text
            .match_indices("sendonce_")
            .filter(|(at, _)| !self.text[..*at].ends_with(is_name))
            .map(|(at, _)| {
                let rest = &self.text[at..];
                let (name, rest) = rest.split_at(name_end(rest));
                let matchers = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                Selector {
                    name: name.to_owned(),
                    matchers: matchers.map_or_else(Vec::new, |(inside, _)| {
                        inside.split(',').map(matcher).collect()
                    }),
                }
            })
            .collect()
    }

    /// The labels that it groups by or shows.
    pub fn labels(&self) -> BTreeSet<String> {
        let groups = ["by (", "by(", "without (", "without("];
        let grouped = groups
            .iter()
            .flat_map(|opening| self.text.split(opening).skip(1));
        grouped
            .filter_map(|rest| rest.split_once(')'))
            .flat_map(|(inside, _)| inside.split(','))
            .map(|label| label.trim().to_owned())
            .chain(self.shown.iter().cloned())
            .collect()
    }
}

/// A matcher's label, and its value where it must equal one that is written out.
fn matcher(text: &str) -> (String, Option<String>) {
    let label: String = text
        .trim()
        .chars()
        .take_while(|next| is_name(*next))
        .collect();
    let value = text.trim()[label.len()..]
        .strip_prefix('=')
        .filter(|value| !value.starts_with('~'));
    let value = value.map(|value| value.trim_matches('"').to_owned());
    (label, value)
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'
}

/// What stands between `before` and `after`, everywhere in the text.
fn between(text: &str, before: &str, after: impl Fn(char) -> bool + Copy) -> BTreeSet<String> {
    let pieces = text.split(before).skip(1);
    pieces
        .map(|piece| {
            piece
                .split(after)
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        })
        .collect()
}

/// Every query of a dashboard: its panels', its annotations' and its variables'.
pub fn of_dashboard(file: &str) -> Vec<Query> {
    fn walk(file: &str, title: &str, value: &Value, found: &mut Vec<Query>) {
        match value {
            Value::Object(fields) => {
                let text = |field: &str| {
                    fields
                        .get(field)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                };
                let title = if text("title").is_empty() {
                    title
                } else {
                    text("title")
                };
                if !text("expr").is_empty() {
                    let legend = format!("{}{}", text("legendFormat"), text("titleFormat"));
                    found.push(Query {
                        place: format!("{file}: {title}"),
                        text: text("expr").to_owned(),
                        shown: between(&legend, "{{", |next| next == '}'),
                    });
                }
                if let Some(asked) = text("definition").strip_prefix("label_values(") {
                    let (metric, label) = asked
                        .trim_end_matches(')')
                        .split_once(',')
                        .expect("metric, label");
                    found.push(Query {
                        place: format!("{file}: variable {}", text("name")),
                        text: metric.to_owned(),
                        shown: BTreeSet::from([label.trim().to_owned()]),
                    });
                }
                fields
                    .values()
                    .for_each(|field| walk(file, title, field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(file, title, item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let dashboard = serde_json::from_str(&read(file)).expect("JSON");
    let mut found = Vec::new();
    walk(file, "", &dashboard, &mut found);
    found
}

/// Every rule of an alerts file: from one `- alert:` to the next.
pub fn of_alerts(file: &str) -> Vec<Query> {
    let text = read(file);
    let rules = text.split("- alert: ").skip(1);
    rules
        .map(|rule| Query {
            place: format!("{file}: {}", rule.lines().next().unwrap_or_default()),
            text: rule
                .split("annotations:")
                .next()
                .unwrap_or_default()
                .to_owned(),
            shown: between(rule, "$labels.", |next| !is_name(next)),
        })
        .collect()
}

/// Every series that the tests of the alerts make up.
pub fn of_alert_tests(file: &str) -> Vec<Query> {
    let text = read(file);
    let series = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- series: "));
    series
        .map(|series| Query {
            place: file.to_owned(),
            text: series.to_owned(),
            shown: BTreeSet::new(),
        })
        .collect()
}

#[test]
fn a_querys_metrics_and_labels_are_found() {
    let query = Query {
        place: String::new(),
        text: r#"sum by (le, provider) (rate(sendonce_a_bucket{kind="x", other=~"$y"}[5m])) / up{job="sendonce"} > sendonce_b"#
            .to_owned(),
        shown: between("{{provider}} of {{ instance }}", "{{", |next| next == '}'),
    };
    let label = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));

    assert_eq!(
        query.selectors(),
        [
            Selector {
                name: "sendonce_a_bucket".to_owned(),
                matchers: vec![label("kind", Some("x")), label("other", None)],
            },
            Selector {
                name: "sendonce_b".to_owned(),
                matchers: vec![]
            },
        ]
    );
    assert_eq!(
        query.labels().into_iter().collect::<Vec<_>>(),
        ["instance", "le", "provider"]
    );
}
