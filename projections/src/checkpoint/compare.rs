//! Finds the exact differences between two sets of read models.

use serde_json::Value;

use crate::Projection;
use crate::views::{View, ViewVisitor, Views};

/// Lists the differences between two sets of read models, at most `limit` lines of `name/path: left | right`.
pub fn differences(left: &Views, right: &Views, limit: usize) -> Vec<String> {
    let mut comparison = Comparison { limit, found: Vec::new() };
    left.each(right, &mut comparison);
    comparison.found.truncate(limit);
    comparison.found
}

struct Comparison {
    limit: usize,
    found: Vec<String>,
}

impl ViewVisitor for Comparison {
    fn visit<P: Projection>(&mut self, left: &View<P>, right: &View<P>) {
        if self.found.len() >= self.limit {
            return;
        }
        let (left, right) = (left.share(), right.share());
        // Equal states have equal checkpoint bytes. The JSON only shows where two states differ.
        let bytes = |view: &P| chronova_events::codec::encode_snapshot(view).ok();
        let (a, b) = (bytes(&left), bytes(&right));
        if a.is_some() && a == b {
            return;
        }
        match (serde_json::to_value(&*left), serde_json::to_value(&*right)) {
            (Ok(a), Ok(b)) => compare(P::NAME, Some(&a), Some(&b), self.limit, &mut self.found),
            // This error is reported, because two read models that cannot be written as JSON would otherwise look
            // equal.
            _ => self.found.push(format!("{}: cannot be written as JSON", P::NAME)),
        }
    }
}

fn compare(path: &str, left: Option<&Value>, right: Option<&Value>, limit: usize, found: &mut Vec<String>) {
    if left == right || found.len() >= limit {
        return;
    }
    match (left, right) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                compare(&format!("{path}/{key}"), a.get(key), b.get(key), limit, found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                compare(&format!("{path}/{index}"), a.get(index), b.get(index), limit, found);
            }
        }
        _ => found.push(format!("{path}: {} | {}", brief(left), brief(right))),
    }
}

/// Formats a value as one short line.
fn brief(value: Option<&Value>) -> String {
    const LONGEST: usize = 160;
    let Some(value) = value else { return "(absent)".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn compared(left: &Value, right: &Value, limit: usize) -> Vec<String> {
        let mut found = Vec::new();
        compare("v", Some(left), Some(right), limit, &mut found);
        found
    }

    #[test]
    fn differences_name_the_path_and_both_values() {
        let (left, right) = (json!({"a": {"b": [1, 2]}, "c": 1}), json!({"a": {"b": [1, 3, 4]}, "d": null}));
        let expected = ["v/a/b/1: 2 | 3", "v/a/b/2: (absent) | 4", "v/c: 1 | (absent)", "v/d: (absent) | null"];
        assert_eq!(compared(&left, &right, 10), expected);
        assert_eq!(compared(&left, &right, 1).len(), 1);
        assert!(compared(&left, &left.clone(), 10).is_empty());
    }
}
