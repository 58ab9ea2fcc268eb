//! Encodes payloads as bytes: bincode 2 in its standard configuration, through serde.
//!
//! bincode is positional. Never reorder, insert, skip or default a field of a released payload: define a new version
//! (see [`crate::registry`]). The tests of the golden files under `events/golden` fail when bytes change.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The plain codec. The codec of each event is stored beside it.
pub const BINCODE_2: u8 = 1;

/// [`BINCODE_2`] with sealed personal fields, see [`crate::sealed`].
pub const SEALED: u8 = 2;

/// The largest size of a payload. The append refuses a larger one. The limit of 1 MiB is sixteen times the largest
/// `user_data`.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// The limit for decoding one payload, so that a damaged length cannot exhaust memory. bincode counts sizes in memory:
/// a number of one byte on disk counts as eight. So the limit must be well above [`MAX_PAYLOAD`].
const DECODE_LIMIT: usize = 16 * MAX_PAYLOAD;

#[derive(Debug, Error, PartialEq, Eq)]
pub enum CodecError {
    #[error("payload cannot be encoded: {0}")]
    Encode(String),
    #[error("payload cannot be decoded: {0}")]
    Decode(String),
    #[error("{0} bytes follow the payload")]
    Trailing(usize),
    #[error("codec {0} is not known to this version")]
    UnknownCodec(u8),
}

pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    bincode::serde::encode_to_vec(value, bincode::config::standard()).map_err(|e| CodecError::Encode(e.to_string()))
}

pub fn decode<T: DeserializeOwned>(codec: u8, bytes: &[u8]) -> Result<T, CodecError> {
    if codec != BINCODE_2 {
        return Err(CodecError::UnknownCodec(codec));
    }
    let config = bincode::config::standard().with_limit::<DECODE_LIMIT>();
    let (value, used) =
        bincode::serde::decode_from_slice(bytes, config).map_err(|e| CodecError::Decode(e.to_string()))?;
    match bytes.len() - used {
        0 => Ok(value),
        rest => Err(CodecError::Trailing(rest)),
    }
}

/// Encodes a snapshot, which may be larger than a payload.
pub fn encode_snapshot<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    encode(value)
}

/// Encodes a snapshot that may be too large to hold twice in memory.
pub fn write_snapshot<T: Serialize>(value: &T, mut out: impl std::io::Write) -> Result<usize, CodecError> {
    bincode::serde::encode_into_std_write(value, &mut out, bincode::config::standard())
        .map_err(|e| CodecError::Encode(e.to_string()))
}

pub fn decode_snapshot<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    bincode::serde::decode_from_slice(bytes, bincode::config::standard())
        .map(|(value, _)| value)
        .map_err(|e| CodecError::Decode(e.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_largest_payload_of_the_smallest_numbers_decodes() {
        let numbers = vec![1_u64; MAX_PAYLOAD - 5];
        let bytes = encode(&numbers).unwrap();
        assert_eq!(bytes.len(), MAX_PAYLOAD);
        assert_eq!(decode::<Vec<u64>>(BINCODE_2, &bytes).unwrap(), numbers);
    }

    #[test]
    fn damage_is_an_error_and_takes_no_memory() {
        let bytes = encode(&("text".to_owned(), 7_u32)).unwrap();
        assert!(matches!(decode::<(String, u32)>(BINCODE_2, &bytes[..4]), Err(CodecError::Decode(_))));
        assert_eq!(decode::<String>(BINCODE_2, &bytes), Err(CodecError::Trailing(1)));
        assert_eq!(decode::<String>(9, &bytes), Err(CodecError::UnknownCodec(9)));
        let absurd = [253, 255, 255, 255, 255, 255, 255, 255, 127];
        assert!(matches!(decode::<Vec<u8>>(BINCODE_2, &absurd), Err(CodecError::Decode(_))));
        assert!(matches!(decode::<String>(BINCODE_2, &absurd), Err(CodecError::Decode(_))));
    }
}
