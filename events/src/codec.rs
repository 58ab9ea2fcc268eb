//! How payloads become bytes: bincode 2, standard configuration, through serde.
//!
//! bincode is positional. Never reorder, insert, skip or default a field of a payload that was released: make a new
//! version (see [`crate::registry`]). The golden files under `events/golden` fail when bytes drift.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The only codec so far; stored beside each event so that another one can be added.
pub const BINCODE_2: u8 = 1;

/// A payload larger than this is refused at the append: 1 MiB is sixteen times the largest `user_data`.
pub const MAX_PAYLOAD: usize = 1 << 20;

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
    let config = bincode::config::standard().with_limit::<MAX_PAYLOAD>();
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

pub fn decode_snapshot<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    bincode::serde::decode_from_slice(bytes, bincode::config::standard())
        .map(|(value, _)| value)
        .map_err(|e| CodecError::Decode(e.to_string()))
}
