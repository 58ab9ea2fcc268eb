//! Finds the messages in a stream of bytes. JSON-RPC over a stream has no lengths and no separators: a message ends
//! with the bracket that closes its first one.

use bytes::{Buf as _, BytesMut};
use serde_json::Value;
use thiserror::Error;

/// The deepest nesting that is accepted. The deepest message of the protocol, an update with maps, has eight levels.
const DEEPEST: u32 = 64;

/// Why the stream cannot be read any further.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum OvsdbFrameError {
    #[error("the database sent a message of more than {0} bytes")]
    TooLong(usize),
    #[error("the database sent what is not JSON: {0}")]
    NotJson(String),
}

/// Collects bytes until a message is complete. Each byte is looked at once.
#[derive(Debug)]
pub(super) struct OvsdbFrames {
    pub(super) bytes: BytesMut,
    limit: usize,
    /// How many of the bytes are examined.
    examined: usize,
    depth: u32,
    in_text: bool,
    escaped: bool,
}

impl OvsdbFrames {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: BytesMut::new(), limit, examined: 0, depth: 0, in_text: false, escaped: false }
    }

    /// The next complete message; `None`: more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<Value>, OvsdbFrameError> {
        while let Some(byte) = self.bytes.get(self.examined).copied() {
            self.examined += 1;
            if self.in_text {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_text = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'{' | b'[' if self.depth < DEEPEST => self.depth += 1,
                b'{' | b'[' => return Err(OvsdbFrameError::NotJson("it is nested too deeply".to_owned())),
                b'}' | b']' if self.depth > 1 => self.depth -= 1,
                b'}' | b']' if self.depth == 1 && self.examined > self.limit => break,
                b'}' | b']' if self.depth == 1 => return self.take().map(Some),
                _ if self.depth == 0 && byte.is_ascii_whitespace() => {
                    self.bytes.advance(self.examined);
                    self.examined = 0;
                }
                _ if self.depth == 0 => return Err(OvsdbFrameError::NotJson(format!("it begins with byte {byte}"))),
                b'"' => self.in_text = true,
                _ => {}
            }
        }
        if self.examined > self.limit { Err(OvsdbFrameError::TooLong(self.limit)) } else { Ok(None) }
    }

    fn take(&mut self) -> Result<Value, OvsdbFrameError> {
        let message = self.bytes.split_to(self.examined);
        (self.examined, self.depth) = (0, 0);
        serde_json::from_slice(&message).map_err(|error| OvsdbFrameError::NotJson(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn all(frames: &mut OvsdbFrames, bytes: &[u8]) -> Vec<Value> {
        frames.bytes.extend_from_slice(bytes);
        std::iter::from_fn(|| frames.next().unwrap()).collect()
    }

    #[test]
    fn messages_are_found_whatever_the_pieces_are() {
        let text = r#" {"id":1,"result":["a\"}","[",{"\\":[]}]}{"id":2}  [] "#.as_bytes();
        let wanted = vec![json!({"id": 1, "result": ["a\"}", "[", {"\\": []}]}), json!({"id": 2}), json!([])];
        for size in 1..=text.len() {
            let mut frames = OvsdbFrames::new(1000);
            let found: Vec<Value> = text.chunks(size).flat_map(|piece| all(&mut frames, piece)).collect();
            assert_eq!(found, wanted, "in pieces of {size}");
        }
    }

    #[test]
    fn a_message_that_is_too_long_or_not_json_ends_the_stream() {
        let mut frames = OvsdbFrames::new(8);
        assert_eq!(all(&mut frames, b"{\"id\":1}"), [json!({"id": 1})]);
        frames.bytes.extend_from_slice(b"{\"id\":1234");
        assert_eq!(frames.next(), Err(OvsdbFrameError::TooLong(8)));
        for wrong in ["nonsense", "]", "{\"a\" 1}", &"[".repeat(100)] {
            let mut frames = OvsdbFrames::new(1000);
            frames.bytes.extend_from_slice(wrong.as_bytes());
            assert!(matches!(frames.next(), Err(OvsdbFrameError::NotJson(_))), "{wrong}");
        }
    }
}
