//! Events that other programs append to the same log, in streams of their own.
//!
//! Chronova does not interpret the content of these events. No fold and no read model reads that content. The log
//! orders and checks the events, and every audit shows them. Their streams have categories that Chronova does not use
//! (see [`is_ours`]).

use std::fmt::Write;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::registry::{NounEvent, is_noun};

noun! {
    /// Events of other programs.
    ExternalEvent = "external" {
        /// Another program recorded an event of its own.
        ExternalRecorded = "recorded" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExternalRecorded {
    /// The other program's event type, for example `OrderPlaced`.
    pub event_type: String,
    /// `application/json`, or `application/octet-stream` for anything else.
    pub content_type: String,
    pub data: ExternalBytes,
    /// The other program's metadata of the event, in the format of that program.
    pub metadata: ExternalBytes,
}

/// Bytes of another program. Valid UTF-8 is shown as text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExternalBytes(pub Bytes);

impl Serialize for ExternalBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_bytes(&self.0);
        }
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.serialize_str(&hexadecimal(&self.0)),
        }
    }
}

impl<'de> Deserialize<'de> for ExternalBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Bytes::deserialize(deserializer).map(Self)
    }
}

/// Formats bytes as `hex:00ff10`.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold("hex:".to_owned(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether streams of this category belong to Chronova. Each noun stores its events in the category of the same name.
/// Other events are refused there, because the noun's fold applies every event of a stream.
pub fn is_ours(category: &str) -> bool {
    category != ExternalEvent::NOUN && is_noun(category)
}

/// One example of each event.
pub fn samples() -> Vec<ExternalEvent> {
    vec![
        ExternalRecorded {
            event_type: "OrderPlaced".into(),
            content_type: "application/json".into(),
            data: ExternalBytes(Bytes::from_static(b"{\"order\":7}")),
            metadata: ExternalBytes(Bytes::from_static(&[0, 255])),
        }
        .into(),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::registry::Event;

    #[test]
    fn text_is_shown_as_text_and_bytes_as_digits() {
        let event = Event::from(samples().remove(0));
        assert_eq!(event.json()["data"], "{\"order\":7}");
        assert_eq!(event.json()["metadata"], "hex:00ff");
    }

    #[test]
    fn nouns_are_categories_of_chronova_and_other_words_are_not() {
        assert!(is_ours("instance") && is_ours("security_group"));
        assert!(!is_ours("external") && !is_ours("orders") && !is_ours("") && !is_ours("Instance"));
    }
}
