//! The messages of python-jsonschema, and how each service wraps them.

use serde_json::Value;

use super::python::{list, repr, text};
use super::{Dialect, PathStep, SchemaViolation};
use crate::fault::Fault;
use crate::service::Service;

/// The keywords that look at one value and one argument only.
pub(super) const SIMPLE: &[&str] = &[
    "type",
    "enum",
    "const",
    "required",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// The message if `instance` violates a keyword of [`SIMPLE`].
pub(super) fn simple(keyword: &str, value: &Value, instance: &Value) -> Option<String> {
    let size = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
    let limit = value.as_u64().unwrap_or(u64::MAX);
    let says = |words: &str| Some(format!("{} {words}", repr(instance)));
    match (keyword, instance) {
        ("type", _) => {
            let kinds = match value {
                Value::Array(kinds) => kinds.as_slice(),
                one => std::slice::from_ref(one),
            };
            let fits = kinds.iter().filter_map(Value::as_str).any(|kind| is_a(instance, kind));
            if fits { None } else { says(&format!("is not of type {}", list(kinds))) }
        }
        ("enum", _) => {
            let fits = value.as_array().into_iter().flatten().any(|allowed| same(allowed, instance));
            if fits { None } else { says(&format!("is not one of {}", repr(value))) }
        }
        ("const", _) => (!same(value, instance)).then(|| format!("{} was expected", repr(value))),
        ("required", Value::Object(map)) => value
            .as_array()?
            .iter()
            .find(|name| name.as_str().is_some_and(|name| !map.contains_key(name)))
            .map(|name| format!("{} is a required property", repr(name))),
        ("minLength", Value::String(text)) if size(text.chars().count()) < limit => says("is too short"),
        ("maxLength", Value::String(text)) if size(text.chars().count()) > limit => says("is too long"),
        ("minItems", Value::Array(items)) if size(items.len()) < limit => says("is too short"),
        ("maxItems", Value::Array(items)) if size(items.len()) > limit => says("is too long"),
        ("uniqueItems", Value::Array(items)) if value == &Value::Bool(true) => {
            let repeated =
                items.iter().enumerate().any(|(index, item)| items[..index].iter().any(|seen| same(seen, item)));
            if repeated { says("has non-unique elements") } else { None }
        }
        ("minProperties", Value::Object(map)) if size(map.len()) < limit => says("does not have enough properties"),
        ("maxProperties", Value::Object(map)) if size(map.len()) > limit => says("has too many properties"),
        _ => None,
    }
}

/// The message if `instance` violates `minimum`, `maximum` or their exclusive forms.
pub(super) fn limit(keyword: &str, value: &Value, instance: &Value, dialect: Dialect) -> Option<String> {
    let bound = value.as_f64()?;
    let (number, shown) = match (instance, dialect) {
        (Value::Number(number), _) => (number.as_f64()?, instance.clone()),
        (Value::String(text), Dialect::Nova) => from_text(text)?,
        _ => return None,
    };
    let words = match keyword {
        "minimum" if number < bound => "is less than the minimum of",
        "maximum" if number > bound => "is greater than the maximum of",
        "exclusiveMinimum" if number <= bound => "is less than or equal to the minimum of",
        "exclusiveMaximum" if number >= bound => "is greater than or equal to the maximum of",
        _ => return None,
    };
    Some(format!("{} {words} {}", repr(&shown), repr(value)))
}

/// The number that a text holds, as Python's `int()` and `float()` read it.
fn from_text(text: &str) -> Option<(f64, Value)> {
    let text = text.trim();
    if let Ok(integer) = text.parse::<i64>() {
        return Some((text.parse().ok()?, Value::from(integer)));
    }
    let float: f64 = text.parse().ok()?;
    (!float.is_nan()).then(|| (float, Value::from(float)))
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        // Since draft 6 a float without fraction is an integer.
        "integer" => match value {
            Value::Number(number) => {
                number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
            }
            _ => false,
        },
        _ => false,
    }
}

/// Equality as in JSON Schema: 1 equals 1.0, but 1 does not equal true.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if a.total_cmp(&b).is_eq())
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

pub(super) fn under_none(instance: &Value) -> String {
    format!("{} is not valid under any of the given schemas", repr(instance))
}

pub(super) fn under_several(instance: &Value, first: &Value, others: &[&Value]) -> String {
    let all = others.iter().copied().chain([first]);
    format!("{} is valid under each of {}", repr(instance), list(all))
}

pub(super) fn under_not(instance: &Value, schema: &Value) -> String {
    format!("{} should not be valid under {}", repr(instance), repr(schema))
}

pub(super) fn pattern(instance: &Value, pattern: &Value) -> String {
    format!("{} does not match {}", repr(instance), repr(pattern))
}

pub(super) fn format(instance: &Value, name: &Value) -> String {
    format!("{} is not a {}", repr(instance), repr(name))
}

pub(super) fn additional(mut names: Vec<&str>, mut patterns: Vec<&str>) -> String {
    names.sort_unstable();
    let quoted = |names: &[&str]| names.iter().map(|name| repr(&Value::from(*name))).collect::<Vec<_>>().join(", ");
    if patterns.is_empty() {
        let verb = if names.len() == 1 { "was" } else { "were" };
        format!("Additional properties are not allowed ({} {verb} unexpected)", quoted(&names))
    } else {
        patterns.sort_unstable();
        let verb = if names.len() == 1 { "does" } else { "do" };
        format!("{} {verb} not match any of the regexes: {}", quoted(&names), quoted(&patterns))
    }
}

impl SchemaViolation {
    /// The refusal of a body, in the service's words.
    pub fn body_fault(&self, service: Service) -> Fault {
        match service {
            Service::Compute | Service::Volume | Service::Metadata | Service::Chronova => {
                self.nova("field/attribute", self.path.last())
            }
            Service::Placement => Fault::bad_request(format!("JSON does not validate: {}", self.report())),
            Service::Identity => Fault::bad_request(match self.path.as_slice() {
                [] => self.message.clone(),
                path => format!("Invalid input for field '{}': {}", slashed(path), self.message),
            }),
            Service::Image => Fault::bad_request(format!("Provided object does not match schema: {}", self.message)),
            Service::Network => Fault::bad_request(match self.path.last() {
                Some(step) => format!("Invalid input for {}. Reason: {}.", shown(step), self.message),
                None => format!("Invalid input. Reason: {}.", self.message),
            })
            .key("HTTPBadRequest"),
        }
    }

    /// The refusal of a query string.
    pub fn query_fault(&self, service: Service) -> Fault {
        match service {
            Service::Compute | Service::Volume | Service::Metadata | Service::Chronova => {
                self.nova("query parameters", self.path.first())
            }
            Service::Placement => Fault::bad_request(format!("Invalid query string parameters: {}", self.report())),
            Service::Identity | Service::Image | Service::Network => self.body_fault(service),
        }
    }

    fn nova(&self, what: &str, step: Option<&PathStep>) -> Fault {
        if let Some(explanation) = &self.explanation {
            return Fault::bad_request(format!(
                "An invalid 'name' value was provided. The name must be: {explanation}"
            ));
        }
        Fault::bad_request(match step {
            Some(step) => {
                format!("Invalid input for {what} {}. Value: {}. {}", shown(step), text(&self.instance), self.message)
            }
            None => self.message.clone(),
        })
    }

    /// The violation as python-jsonschema prints it, with the schema and the refused value.
    fn report(&self) -> String {
        let (_, way) = self.schema_path.split_last().unwrap_or((&self.keyword, &[]));
        let way: Vec<String> = way.iter().map(|step| index_or_name(step)).collect();
        let place: Vec<String> = self
            .path
            .iter()
            .map(|step| match step {
                PathStep::Key(key) => repr(&Value::from(key.as_str())),
                PathStep::Index(index) => index.to_string(),
            })
            .collect();
        let (way, place) = (bracketed(&way), bracketed(&place));
        format!(
            "{}\n\nFailed validating {} in schema{way}:\n    {}\n\nOn instance{place}:\n    {}",
            self.message,
            repr(&Value::from(self.keyword.as_str())),
            repr(&self.schema),
            repr(&self.instance),
        )
    }
}

/// Joins steps as Python writes indices: `['properties'][0]`.
fn bracketed(steps: &[String]) -> String {
    if steps.is_empty() { String::new() } else { format!("[{}]", steps.join("][")) }
}

fn index_or_name(step: &str) -> String {
    if step.bytes().all(|b| b.is_ascii_digit()) { step.to_owned() } else { repr(&Value::from(step)) }
}

fn shown(step: &PathStep) -> String {
    match step {
        PathStep::Key(key) => key.clone(),
        PathStep::Index(index) => index.to_string(),
    }
}

fn slashed(path: &[PathStep]) -> String {
    path.iter().map(shown).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use serde_json::json;

    use super::super::Validator;
    use super::*;

    fn nova(schema: Value, instance: &Value) -> String {
        let validator = Validator::compile(schema, Dialect::Nova).unwrap();
        validator.check(instance).unwrap_err().body_fault(Service::Compute).message
    }

    #[test]
    fn speaks_as_python_jsonschema() {
        let server = json!({
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 3}, "min": {"type": ["integer", "string"], "minimum": 1}},
            "required": ["name"],
            "additionalProperties": false,
        });
        let body = json!({"type": "object", "properties": {"server": server}, "required": ["server"]});
        let cases = [
            (json!({}), "'server' is a required property"),
            (json!([]), "[] is not of type 'object'"),
            (
                json!({"server": {}}),
                "Invalid input for field/attribute server. Value: {}. 'name' is a required property",
            ),
            (json!({"server": {"name": ""}}), "Invalid input for field/attribute name. Value: . '' is too short"),
            (
                json!({"server": {"name": "abcd"}}),
                "Invalid input for field/attribute name. Value: abcd. 'abcd' is too long",
            ),
            (
                json!({"server": {"name": 1}}),
                "Invalid input for field/attribute name. Value: 1. 1 is not of type 'string'",
            ),
            (
                json!({"server": {"name": "a", "foo": 1}}),
                "Invalid input for field/attribute server. Value: {'name': 'a', 'foo': 1}. Additional properties are not allowed ('foo' was unexpected)",
            ),
            (
                json!({"server": {"name": "a", "min": "0"}}),
                "Invalid input for field/attribute min. Value: 0. 0 is less than the minimum of 1",
            ),
            (
                json!({"server": {"name": "a", "min": null}}),
                "Invalid input for field/attribute min. Value: None. None is not of type 'integer', 'string'",
            ),
        ];
        for (instance, message) in cases {
            assert_eq!(nova(body.clone(), &instance), message);
        }
    }

    #[test]
    fn names_explain_themselves() {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string", "format": "name"}}});
        assert_eq!(
            nova(schema, &json!({"name": " x"})),
            "An invalid 'name' value was provided. The name must be: printable characters. Can not start or end with whitespace."
        );
    }

    #[test]
    fn choices_and_patterns() {
        let schema = json!({"patternProperties": {"^[a-z]+$": {"type": "string"}}, "additionalProperties": false});
        assert_eq!(nova(schema, &json!({"A": 1, "B": 2})), "'A', 'B' do not match any of the regexes: '^[a-z]+$'");
        let schema = json!({"oneOf": [{"type": "string"}, {"type": "null"}]});
        assert_eq!(nova(schema, &json!(1)), "1 is not valid under any of the given schemas");
        let schema = json!({"enum": ["a", "b"]});
        assert_eq!(nova(schema, &json!("c")), "'c' is not one of ['a', 'b']");
        let schema = json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true});
        assert_eq!(nova(schema.clone(), &json!(["a", "a"])), "['a', 'a'] has non-unique elements");
        assert_eq!(
            nova(schema, &json!(["a", 1])),
            "Invalid input for field/attribute 1. Value: 1. 1 is not of type 'string'"
        );
    }

    #[test]
    fn queries_name_the_parameter() {
        let schema = json!({"type": "object", "properties": {"limit": {"type": "array", "items": {"type": "string", "pattern": "^[0-9]*$"}}}});
        let validator = Validator::compile(schema, Dialect::Nova).unwrap();
        let fault = validator.check(&json!({"limit": ["x"]})).unwrap_err().query_fault(Service::Compute);
        assert_eq!(fault.message, "Invalid input for query parameters limit. Value: x. 'x' does not match '^[0-9]*$'");
    }

    #[test]
    fn placement_gets_the_whole_report() {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 2}}});
        let validator = Validator::compile(schema, Dialect::Plain).unwrap();
        let fault = validator.check(&json!({"name": "abc"})).unwrap_err().body_fault(Service::Placement);
        assert!(fault.message.starts_with("JSON does not validate: 'abc' is too long\n\nFailed validating 'maxLength' in schema['properties']['name']:"), "{}", fault.message);
        assert!(fault.message.ends_with("On instance['name']:\n    'abc'"));
    }
}
