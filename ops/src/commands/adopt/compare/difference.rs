//! How two answers differ, and which differences are known.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The places where answers differ: the request and the path in its answer, with an example.
pub type AnswerDifferences = BTreeMap<(String, String), String>;

/// A difference with a known reason. `*` in the path stands for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDifference {
    pub request: String,
    pub path: String,
    pub reason: String,
}

impl KnownDifference {
    pub fn explains(&self, request: &str, path: &str) -> bool {
        self.request == request && matches(&self.path, path)
    }
}

/// The list of known differences. docs/from-nova.md has the same list.
pub fn known_differences() -> Vec<KnownDifference> {
    let lines = include_str!("differences.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let mut parts = line.splitn(3, " | ").map(str::to_owned);
            Some(KnownDifference { request: parts.next()?, path: parts.next()?, reason: parts.next()? })
        })
        .collect()
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            let ends = (0..=text.len()).filter(|at| text.is_char_boundary(*at));
            ends.into_iter().any(|at| matches(rest, &text[at..]))
        }),
    }
}

/// Compares two answers to `request`.
pub fn compare_answers(request: &str, theirs: &Value, ours: &Value, found: &mut AnswerDifferences) {
    AnswerWalk { request, found }.walk("", theirs, ours);
}

struct AnswerWalk<'a> {
    request: &'a str,
    found: &'a mut AnswerDifferences,
}

impl AnswerWalk<'_> {
    fn note(&mut self, path: &str, theirs: &Value, ours: &Value) {
        let short = |value: &Value| value.to_string().chars().take(200).collect::<String>();
        let example = format!("Nova {}, here {}", short(theirs), short(ours));
        self.found.insert((self.request.to_owned(), path.to_owned()), example);
    }

    fn each(&mut self, path: &str, theirs: Option<&Value>, ours: Option<&Value>) {
        match (theirs, ours) {
            (Some(theirs), Some(ours)) => self.walk(path, theirs, ours),
            (theirs, ours) => {
                let absent = json!("absent");
                self.note(path, theirs.unwrap_or(&absent), ours.unwrap_or(&absent));
            }
        }
    }

    fn walk(&mut self, path: &str, theirs: &Value, ours: &Value) {
        match (theirs, ours) {
            (Value::Object(a), Value::Object(b)) => {
                for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                    self.each(&format!("{path}.{}", shape(key)), a.get(key), b.get(key));
                }
            }
            (Value::Array(a), Value::Array(b)) if SETS.iter().any(|name| path.ends_with(name)) => {
                let set = |list: &[Value]| list.iter().map(Value::to_string).collect::<BTreeSet<_>>();
                if set(a) != set(b) {
                    self.note(path, theirs, ours);
                }
            }
            (Value::Array(theirs_list), Value::Array(ours_list)) => match (by_id(theirs_list), by_id(ours_list)) {
                (Some(a), Some(b)) => {
                    let ids = |list: &[Value]| list.iter().map(|one| one["id"].clone()).collect::<Vec<_>>();
                    if ORDERED.contains(&path) && a.len() == b.len() && ids(theirs_list) != ids(ours_list) {
                        self.note(&format!("{path}[] (order)"), &ids(theirs_list).into(), &ids(ours_list).into());
                    }
                    for id in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                        self.each(&format!("{path}[]"), a.get(id).copied(), b.get(id).copied());
                    }
                }
                _ if theirs_list.len() == ours_list.len() => {
                    for (a, b) in theirs_list.iter().zip(ours_list) {
                        self.walk(&format!("{path}[]"), a, b);
                    }
                }
                _ => self.note(path, theirs, ours),
            },
            (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
            (Value::String(a), Value::String(b))
                if path.rsplit('.').next() == Some("href") && address(a) == address(b) => {}
            (a, b) if a == b => {}
            (a, b) => self.note(path, a, b),
        }
    }
}

/// The lists of plain values that are sets. Nova and Placement list them in the order of a database index.
const SETS: [&str; 3] = [".members", ".traits", ".cpu_info.features"];

/// The lists whose order users see. Other lists have the order of a database index.
const ORDERED: [&str; 3] = [".servers", ".flavors", ".server_groups"];

/// The objects of a list by their ids; `None` if an entry has no id, or if two entries have the same id.
fn by_id(list: &[Value]) -> Option<BTreeMap<String, &Value>> {
    let id = |one: &Value| one.get("id").or(one.get("uuid")).filter(|id| !id.is_null()).map(Value::to_string);
    let by: BTreeMap<String, &Value> = list.iter().map(|one| Some((id(one)?, one))).collect::<Option<_>>()?;
    (by.len() == list.len()).then_some(by)
}

/// Replaces a key that is an id by `{id}`, so that one line of the list covers all of them.
fn shape(key: &str) -> &str {
    if uuid::Uuid::parse_str(key).is_ok() { "{id}" } else { key }
}

/// The part of an address behind the service's prefix.
fn address(href: &str) -> &str {
    let path = href.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or(href, |(_, path)| path);
    let path = path.trim_start_matches('/');
    let path = path.strip_prefix("compute/").or(path.strip_prefix("placement/")).unwrap_or(path);
    path.trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_found_by_its_path_and_known_by_a_pattern() {
        let mut found = AnswerDifferences::new();
        let theirs = json!({"servers": [{"id": "a", "x": 1}, {"id": "b", "x": 2}], "only": null});
        let ours = json!({"servers": [{"id": "b", "x": 2}, {"id": "a", "x": 3}]});
        compare_answers("servers", &theirs, &ours, &mut found);
        let paths: Vec<&str> = found.keys().map(|(_, path)| path.as_str()).collect();
        assert_eq!(paths, [".only", ".servers[] (order)", ".servers[].x"]);
        let known = KnownDifference { request: "servers".into(), path: ".a:*.id".into(), reason: String::new() };
        assert!(known.explains("servers", ".a:h.1.id") && !known.explains("servers", ".a:h1.name"));
        assert!(!known.explains("flavors", ".a:h1.id"));
    }

    #[test]
    fn the_order_of_a_set_is_no_difference_but_its_members_are() {
        let mut found = AnswerDifferences::new();
        compare_answers("placement/traits", &json!({"traits": ["A", "B"]}), &json!({"traits": ["B", "A"]}), &mut found);
        assert!(found.is_empty(), "{found:?}");
        compare_answers("placement/traits", &json!({"traits": ["A", "B"]}), &json!({"traits": ["A", "C"]}), &mut found);
        let paths: Vec<&str> = found.keys().map(|(_, path)| path.as_str()).collect();
        assert_eq!(paths, [".traits"]);
    }

    #[test]
    fn each_line_of_the_list_has_three_parts() {
        let lines = include_str!("differences.txt").lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(known_differences().len(), lines);
        assert!(lines > 0);
    }
}
