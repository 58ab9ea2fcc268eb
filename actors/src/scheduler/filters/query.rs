//! The hint `query`: a condition in JSON, `["and", [">=", "$free_ram_mb", 1024], ["<", "$num_instances", 10]]`.

use serde_json::Value;

use super::capabilities::attribute;
use super::filter::{Filter, PLAIN};
use crate::scheduler::context::HostState;

/// The longest query, in characters. Each server of a request keeps the query, and the filter evaluates it for each
/// host.
pub const LONGEST: usize = 2_048;
/// The deepest nesting of conditions.
pub const DEEPEST: usize = 16;

/// The depth to which lists and objects are nested in a JSON text.
pub fn depth(text: &str) -> usize {
    let (mut open, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for sign in text.chars() {
        match (quoted, sign) {
            (true, _) if escaped => escaped = false,
            (true, '\\') => escaped = true,
            (_, '"') => quoted = !quoted,
            (false, '[' | '{') => {
                open += 1;
                deepest = deepest.max(open);
            }
            (false, ']' | '}') => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

pub(super) const JSON: Filter = Filter {
    name: "JsonFilter",
    applies: |context| context.hints.query.is_some(),
    passes: |host| match &host.context.hints.query {
        None => true,
        Some(Some(query)) => match evaluate(query, host, DEEPEST) {
            Some(Value::Array(items)) => items.iter().any(truth),
            Some(value) => truth(&value),
            None => false,
        },
        Some(None) => false,
    },
    says: |host| match &host.context.hints.query {
        Some(Some(query)) => format!("it does not meet {query}"),
        _ => "the hint query is not JSON".to_owned(),
    },
    lacks: |_| "no host with room meets the hint query".to_owned(),
    ..PLAIN
};

/// The value of a condition; `None` if the condition is invalid.
fn evaluate(query: &Value, host: &HostState<'_>, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let Value::Array(items) = query else { return None };
    let Some((operator, arguments)) = items.split_first() else { return Some(Value::Bool(true)) };
    let mut cooked: Vec<Value> = Vec::with_capacity(arguments.len());
    for argument in arguments {
        match argument {
            Value::Array(_) => cooked.push(evaluate(argument, host, depth)?),
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => match text.strip_prefix('$') {
                // As in Nova, attributes that the host does not have are left out.
                Some(name) => cooked.extend(attribute(host, &name.split('.').collect::<Vec<_>>())),
                None => cooked.push(argument.clone()),
            },
            Value::Null => {}
            other => cooked.push(other.clone()),
        }
    }
    let all = |compare: fn(&Value, &Value) -> bool| {
        cooked.split_first().is_some_and(|(first, rest)| !rest.is_empty() && rest.iter().all(|one| compare(first, one)))
    };
    Some(match operator.as_str()? {
        "=" => Value::Bool(all(same)),
        "<" => Value::Bool(all(|left, right| less(left, right) == Some(true))),
        ">" => Value::Bool(all(|left, right| less(right, left) == Some(true))),
        "<=" => Value::Bool(all(|left, right| less(right, left) == Some(false))),
        ">=" => Value::Bool(all(|left, right| less(left, right) == Some(false))),
        "in" => Value::Bool(
            cooked
                .split_first()
                .is_some_and(|(first, rest)| !rest.is_empty() && rest.iter().any(|one| same(first, one))),
        ),
        "not" => Value::Array(cooked.iter().map(|one| Value::Bool(!truth(one))).collect()),
        "or" => Value::Bool(cooked.iter().any(truth)),
        "and" => Value::Bool(cooked.iter().all(truth)),
        _ => return None,
    })
}

fn same(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => (left - right).abs() < f64::EPSILON,
        _ => left == right,
    }
}

/// Whether `left` is less than `right`; `None` if they cannot be compared.
fn less(left: &Value, right: &Value) -> Option<bool> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Some(left.as_f64()? < right.as_f64()?),
        (Value::String(left), Value::String(right)) => Some(left < right),
        _ => None,
    }
}

/// The truth value that Python gives to `value`.
fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}
