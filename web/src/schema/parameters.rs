//! The kinds of values that many bodies share, as Nova defines them.

use serde_json::json;

use super::{Schema, array, integer, object, one_of, string};

/// The largest value of an integer column in Nova's database.
const MAX_INT: i64 = 0x7FFF_FFFF;

/// A name: printable, not empty, without white space at either end.
pub fn name() -> Schema {
    string().format("name").min_length(1).max_length(255)
}

/// The name of an availability zone.
pub fn az_name() -> Schema {
    string().format("az_name").min_length(1).max_length(255)
}

/// Host names and hypervisor names.
pub fn hostname() -> Schema {
    string().min_length(1).max_length(255).pattern("^[a-zA-Z0-9-._]*$")
}

pub fn uuid() -> Schema {
    string().format("uuid")
}

/// A UUID or an empty text.
pub fn uuid_or_empty() -> Schema {
    one_of([uuid(), string().max_length(0)])
}

pub fn ipv4() -> Schema {
    string().format("ipv4")
}

pub fn ipv6() -> Schema {
    string().format("ipv6")
}

/// An IPv4 or IPv6 address.
pub fn ip_address() -> Schema {
    string().with("oneOf", json!([{"format": "ipv4"}, {"format": "ipv6"}]))
}

pub fn cidr() -> Schema {
    string().format("cidr")
}

pub fn base64() -> Schema {
    string().format("base64")
}

pub fn date_time() -> Schema {
    string().format("date-time")
}

/// A filter that is a regular expression.
pub fn regex() -> Schema {
    string().format("regex")
}

/// A truth value in any of the spellings that Nova takes (see [`is_true`]).
pub fn loose_boolean() -> Schema {
    loose_boolean_or([])
}

/// A truth value as in [`loose_boolean`], or one of these words.
pub fn loose_boolean_or<const N: usize>(words: [&str; N]) -> Schema {
    let mut values = json!([
        true, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes", false, "False", "FALSE", "false",
        "0", "OFF", "Off", "off", "NO", "No", "no"
    ]);
    if let Some(values) = values.as_array_mut() {
        values.extend(words.map(|word| json!(word)));
    }
    Schema::default().types(["boolean", "string"]).one_among(values)
}

/// Converts a value that [`loose_boolean`] accepted to a boolean.
pub fn is_true(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Bool(truth) => *truth,
        serde_json::Value::String(text) => {
            matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "on" | "yes" | "t" | "y")
        }
        _ => false,
    }
}

fn loose_integer(pattern: &str) -> Schema {
    integer().types(["integer", "string"]).pattern(pattern)
}

/// A number above zero, or a text that holds one.
pub fn positive_integer() -> Schema {
    loose_integer("^[0-9]*$").min(1).min_length(1)
}

/// A number from zero on, or a text that holds one.
pub fn non_negative_integer() -> Schema {
    loose_integer("^[0-9]*$").min(0).min_length(1)
}

/// A quota limit; -1 means unlimited.
pub fn quota_limit() -> Schema {
    loose_integer("^-?[0-9]+$").min(-1).max(MAX_INT)
}

/// A size in a flavor or of a volume, from 1 to 2^31-1.
pub fn flavor_positive() -> Schema {
    loose_integer("^[0-9]+$").min(1).max(MAX_INT)
}

/// A size in a flavor, from 0 to 2^31-1.
pub fn flavor_non_negative() -> Schema {
    loose_integer("^[0-9]+$").min(0).max(MAX_INT)
}

/// The metadata of a server, or of the image that an action of the server creates.
pub fn metadata() -> Schema {
    object([]).pattern_property("^[a-zA-Z0-9-_:. ]{1,255}$", string().max_length(255))
}

/// One tag of a server.
pub fn tag() -> Schema {
    string().min_length(1).max_length(60).pattern("^[^,/]*$")
}

/// All tags of a server.
pub fn tags() -> Schema {
    array(tag()).max_items(50)
}

/// The number in a value that [`positive_integer`] (or a similar schema) accepted.
pub fn to_integer(value: &serde_json::Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}
