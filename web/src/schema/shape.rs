//! The kinds of values that many answers show. [`parameters`](super::parameters) has those of requests, which are looser.

pub use super::build::{boolean, integer, null, number, string};
pub use super::parameters::uuid;
use super::{Schema, array, null_or, object, req};

pub fn string_or_null() -> Schema {
    null_or(string())
}

pub fn integer_or_null() -> Schema {
    null_or(integer())
}

pub fn boolean_or_null() -> Schema {
    null_or(boolean())
}

pub fn uuid_or_null() -> Schema {
    null_or(uuid())
}

pub fn strings() -> Schema {
    array(string())
}

/// A time as Nova writes it: UTC, with or without fraction and `Z`. It is no `date-time` of RFC 3339, which must have an
/// offset.
pub fn time() -> Schema {
    string().pattern(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z?$")
}

pub fn time_or_null() -> Schema {
    null_or(time())
}

/// An object whose keys are data.
pub fn map_of(values: Schema) -> Schema {
    object([]).others(values)
}

/// An object whose keys and values are texts: metadata, extra specs, properties.
pub fn pairs() -> Schema {
    map_of(string())
}

/// `[{"rel": "self", "href": "..."}]`
pub fn links() -> Schema {
    array(object([req("rel", string()), req("href", string())]))
}
