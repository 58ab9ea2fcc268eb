//! The query string as an ordered list of pairs: repeated keys stay repeated.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::fault::Fault;

/// A decoded query string.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Decodes percent signs and plus signs.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        actix_web::web::Query::<Vec<(String, String)>>::from_query(text)
            .map(|pairs| Self { pairs: pairs.into_inner() })
            .map_err(|error| Fault::malformed().caused_by(error))
    }

    pub fn from_pairs(pairs: Vec<(String, String)>) -> Self {
        Self { pairs }
    }

    pub fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    pub fn has(&self, key: &str) -> bool {
        self.first(key).is_some()
    }

    pub fn first(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// The last value of a key. If a client gives a key twice, Nova uses this value (webob's `GET.get`).
    pub fn last(&self, key: &str) -> Option<&str> {
        self.pairs.iter().rfind(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Drops the keys for which `keep` returns false.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.pairs.retain(|(key, _)| keep(key));
    }

    /// `?a=1&a=2` as `{"a": ["1", "2"]}`: the form in which Nova validates query strings.
    pub fn as_lists(&self) -> Value {
        let mut map: Map<String, Value> = Map::new();
        for (key, value) in &self.pairs {
            let list = map.entry(key.clone()).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(items) = list {
                items.push(Value::String(value.clone()));
            }
        }
        Value::Object(map)
    }

    /// `?a=1` as `{"a": "1"}`: the form in which Placement validates query strings. The last value of a key is used.
    pub fn as_single(&self) -> Value {
        let mut map = Map::new();
        for (key, value) in &self.pairs {
            map.insert(key.clone(), Value::String(value.clone()));
        }
        Value::Object(map)
    }

    /// Encodes pairs as a query string, for `next` links.
    pub fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
        let mut text = String::new();
        for (key, value) in pairs {
            if !text.is_empty() {
                text.push('&');
            }
            percent_encode(key, &mut text);
            text.push('=');
            percent_encode(value, &mut text);
        }
        text
    }
}

/// Drops repeated sort keys. They have no effect, but each would cost a comparison for each pair of rows.
pub(crate) fn drop_repeated(keys: &mut Vec<(String, bool)>) {
    let mut seen = BTreeSet::new();
    keys.retain(|(key, _)| seen.insert(key.clone()));
}

/// Encodes everything but RFC 3986's unreserved characters.
pub fn percent_encode(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Decodes one path segment; `None` when it is not UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match (first, tail) {
            (b'%', [high, low, after @ ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| (high << 4 | low, after)),
            _ => None,
        };
        let (byte, after) = escaped.unwrap_or((*first, tail));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn keeps_repetitions_in_order() {
        let query = Query::parse("a=1&b=x%20y+z&a=2&flag=").unwrap();
        assert_eq!(query.as_lists(), json!({"a": ["1", "2"], "b": ["x y z"], "flag": [""]}));
        assert_eq!(query.as_single(), json!({"a": "2", "b": "x y z", "flag": ""}));
        assert_eq!((query.first("a"), query.last("a"), query.first("c")), (Some("1"), Some("2"), None));
        assert_eq!(Query::encode([("a b", "ü/")]), "a%20b=%C3%BC%2F");
    }

    #[test]
    fn decodes_segments() {
        assert_eq!(percent_decode("a%2Fb%zz").as_deref(), Some("a/b%zz"));
        assert_eq!(percent_decode("%ff"), None);
    }
}
