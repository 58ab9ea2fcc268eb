//! Readers for the fields of typed bodies: `#[serde(default, deserialize_with = "typed::text")]`.
//!
//! The schema has validated the body before, in the words of the API. So most of these readers never fail, but treat a
//! value of another type as absent. If a reader fails (`number`), the answer says that the body is malformed.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;

use super::parameters::{is_true, to_integer};

/// A string; a value of another type counts as absent.
pub fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::String(text) => Some(text),
        _ => None,
    })
}

/// A string without its white space at both ends; a value of another type counts as absent.
pub fn trimmed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(text(from)?.map(|text| text.trim().to_owned()))
}

/// A field for which absent, `null` and a value mean three different things.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SentField<T> {
    #[default]
    Nothing,
    Null,
    Value(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SentField<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(from)?.map_or(Self::Null, Self::Value))
    }
}

impl<T> SentField<T> {
    /// `Some(None)` for `null`, `Some(Some(value))` for a value, and `None` when the field is absent.
    pub fn mentioned(self) -> Option<Option<T>> {
        match self {
            Self::Nothing => None,
            Self::Null => Some(None),
            Self::Value(value) => Some(Some(value)),
        }
    }
}

/// A field that is present, with any value.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Whether the value is true, or a word that Nova takes for true.
pub fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(is_true(&Value::deserialize(from)?))
}

/// Whether the value is true, or a word that Nova takes for true. The field may be absent.
pub fn some_flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    flag(from).map(Some)
}

/// An integer, or a string with its digits; any other value counts as absent.
pub fn integer<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    Ok(to_integer(&Value::deserialize(from)?))
}

/// An integer, or a string with its digits, within the bounds of `T`.
pub fn number<'de, D: Deserializer<'de>, T: TryFrom<i64>>(from: D) -> Result<T, D::Error> {
    let number = to_integer(&Value::deserialize(from)?).and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| D::Error::custom("no integer within bounds"))
}

/// Keys and strings in the order in which they were sent. A value that is no string becomes an empty string.
pub fn pairs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, String)>, D::Error> {
    let Value::Object(map) = Value::deserialize(from)? else { return Ok(Vec::new()) };
    let text = |value: Value| if let Value::String(text) = value { text } else { String::new() };
    Ok(map.into_iter().map(|(key, value)| (key, text(value))).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Everything {
        #[serde(deserialize_with = "text")]
        text: Option<String>,
        #[serde(deserialize_with = "trimmed")]
        trimmed: Option<String>,
        sent: SentField<String>,
        #[serde(deserialize_with = "flag")]
        flag: bool,
        #[serde(deserialize_with = "integer")]
        integer: Option<i64>,
        #[serde(deserialize_with = "number")]
        number: u32,
        #[serde(deserialize_with = "pairs")]
        pairs: Vec<(String, String)>,
    }

    #[test]
    fn missing_fields_are_absent() {
        assert_eq!(Everything::deserialize(&json!({})).unwrap(), Everything::default());
        let of_other_forms =
            json!({"text": 1, "trimmed": null, "flag": 1, "integer": "x", "pairs": null, "unknown": true});
        assert_eq!(Everything::deserialize(&of_other_forms).unwrap(), Everything::default());
    }

    #[test]
    fn accepted_spellings_are_read() {
        let body = json!({
            "text": " a ", "trimmed": " a ", "sent": null, "flag": "Yes", "integer": "-7", "number": "7",
            "pairs": {"b": "2", "a": 1},
        });
        let read = Everything::deserialize(&body).unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let wanted = Everything {
            text: Some(" a ".to_owned()),
            trimmed: Some("a".to_owned()),
            sent: SentField::Null,
            flag: true,
            integer: Some(-7),
            number: 7,
            pairs: vec![pair("b", "2"), pair("a", "")],
        };
        assert_eq!(read, wanted);
        assert!(Everything::deserialize(&json!({"number": -1})).is_err());
        assert!(Everything::deserialize(&json!({"number": null})).is_err());
    }
}
