//! Erases personal data from an append-only log: each field is sealed, and its key can be destroyed.
//!
//! The personal fields of an event ([`fields`] lists them) are encrypted before the event is stored. The key belongs to
//! the user or server that the fields are about (the [`DataSubject`]). The keys are stored outside the log, in a small
//! file of their own ([`keys`]). An erasure destroys the subject's keys. The stored bytes do not change, so checksums,
//! hashes and copies of the log stay valid. In all copies of the log, backups and archives included, the fields can no
//! longer be read, unless somebody kept an older copy of the file of keys.
//!
//! Invariants:
//! * In memory an event is not encrypted; the payload types do not know of sealing. The codec of stored bytes
//!   ([`codec::SEALED`]) marks them as sealed. So older, unsealed events can still be read, but cannot be erased.
//! * A key becomes durable before the event that it seals ([`encode`] returns after the key was written and flushed).
//! * An erased field reads as its erased form (`[erased]`, nothing, an empty list), so every fold stays total.
//!
//! The cipher is XChaCha20-Poly1305, because its nonces are so long that random nonces never repeat in practice. The
//! stream, the kind, the version and the unsealed part of the payload are authenticated with the sealed part. So nobody
//! can move the sealed part elsewhere.

pub mod fields;
pub mod keys;
pub mod whole;

use std::sync::Arc;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use thiserror::Error;

use crate::codec::{self, CodecError};
use crate::envelope::StreamId;
use crate::ids::{InstanceId, UserId};
use crate::registry::{DecodeError, Event};
use fields::{EraseFields, ExtractedFields, PutFields, TakeFields};
use keys::{KeyLookup, KeyRing, KeySlot, RingId};

/// The replacement for an erased text.
pub const ERASED: &str = "[erased]";

/// The first byte of sealed payloads.
const FORMAT: u8 = 1;
const NONCE: usize = 24;
/// The size of the header in bytes: format, ring, slot, nonce, and the `u32` with the length of the sealed part.
const HEADER: usize = 1 + 16 + 8 + NONCE + 4;

/// The subject of personal fields. All fields of one subject are erased together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataSubject {
    /// A user: their name, attributes, key pairs, application credentials and access rules, and the records of their
    /// access.
    User(UserId),
    /// A server: its names, description, metadata, tags, user data and files, the reason of its lock, its copy of a
    /// public key, and its posted password.
    Server(InstanceId),
    /// All persons. A cache of the log, such as a checkpoint of the read models, repeats the data of all persons. So
    /// one key of this subject encrypts the whole cache. See [`whole`].
    Caches,
}

impl std::fmt::Display for DataSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(user) => write!(f, "user {user}"),
            Self::Server(server) => write!(f, "server {server}"),
            Self::Caches => f.write_str("caches of the log"),
        }
    }
}

#[derive(Debug, Error)]
pub enum SealError {
    #[error("the keys of personal fields in {path} cannot be used: {reason}")]
    Keys {
        path: String,
        reason: String,
        /// Whether more free disk space would help.
        full: bool,
    },
    #[error("personal fields cannot be sealed: {0}")]
    Encode(#[from] CodecError),
}

/// Whether the personal fields of a stored event can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Personal {
    /// The event has no personal fields, or they are not encrypted (older events, or a back end without keys).
    Clear,
    /// The fields are sealed, and their key exists.
    Sealed,
    /// The key was destroyed on purpose.
    Erased,
    /// The key is not in the file of keys: the file was lost or replaced by another one.
    Lost,
}

/// The stored bytes of a payload, and the codec that decodes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPayload {
    pub codec: u8,
    pub data: Vec<u8>,
}

/// Encodes `event` for `stream`, in a version that can express it. Seals its personal fields if there are `keys`.
///
/// May block for a flush to disk if the subject has no key yet ([`needs_key`] tells).
pub fn encode(
    keys: Option<&KeyRing>,
    stream: &StreamId,
    event: &Event,
    version: u16,
) -> Result<StoredPayload, SealError> {
    let subject = keys.and_then(|keys| Some((keys, fields::subject(stream, event)?)));
    let Some((keys, subject)) = subject else {
        return Ok(StoredPayload { codec: codec::BINCODE_2, data: payload(event, version)? });
    };
    let (mut blank, mut take) = (event.clone(), TakeFields::default());
    fields::visit(&mut blank, &mut take);
    if take.is_empty() {
        return Ok(StoredPayload { codec: codec::BINCODE_2, data: payload(event, version)? });
    }
    let clear = payload(&blank, version)?;
    let (slot, key) = keys.current(&subject)?;
    let nonce = keys::random::<NONCE>().map_err(|reason| keys.failure(reason, false))?;
    let secret = codec::encode(&take.taken)?;
    let bound = bound(stream, event.kind(), version, &clear);
    let sealed = XChaCha20Poly1305::new((&key.0).into())
        .encrypt(XNonce::from_slice(&nonce), Payload { msg: &secret, aad: &bound })
        .map_err(|_| CodecError::Encode("the cipher refused".to_owned()))?;
    let length = u32::try_from(sealed.len()).map_err(|_| CodecError::Encode("too long".to_owned()))?;
    let mut data = Vec::with_capacity(HEADER + sealed.len() + clear.len());
    data.push(FORMAT);
    data.extend_from_slice(&keys.ring().0);
    data.extend_from_slice(&slot.0.to_le_bytes());
    data.extend_from_slice(&nonce);
    data.extend_from_slice(&length.to_le_bytes());
    data.extend_from_slice(&sealed);
    data.extend_from_slice(&clear);
    Ok(StoredPayload { codec: codec::SEALED, data })
}

fn payload(event: &Event, version: u16) -> Result<Vec<u8>, CodecError> {
    let cannot = || Err(CodecError::Encode(format!("version {version} of {} cannot express the event", event.kind())));
    event.encode_as(version).unwrap_or_else(cannot)
}

/// Whether [`encode`] would have to write a key, and so wait for the disk.
pub fn needs_key(keys: Option<&KeyRing>, stream: &StreamId, event: &Event) -> bool {
    keys.is_some_and(|keys| fields::subject(stream, event).is_some_and(|subject| !keys.knows(&subject)))
}

/// The parts of a stored payload.
struct SealedParts<'a> {
    ring: RingId,
    slot: KeySlot,
    nonce: &'a [u8],
    sealed: &'a [u8],
    clear: &'a [u8],
}

impl<'a> SealedParts<'a> {
    fn of(data: &'a [u8]) -> Option<Self> {
        let (header, rest) = data.split_at_checked(HEADER)?;
        let length = u32::from_le_bytes(header[HEADER - 4..].try_into().ok()?);
        let (sealed, clear) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        (header[0] == FORMAT).then_some(())?;
        Some(Self {
            ring: RingId(header[1..17].try_into().ok()?),
            slot: KeySlot(u64::from_le_bytes(header[17..25].try_into().ok()?)),
            nonce: &header[25..25 + NONCE],
            sealed,
            clear,
        })
    }

    fn lookup(&self, keys: Option<&KeyRing>) -> KeyLookup {
        keys.map_or(KeyLookup::Lost, |keys| keys.look_up(self.ring, self.slot))
    }
}

/// The unsealed part of a stored payload, which can be read without any key.
pub fn clear_part(codec: u8, data: &[u8]) -> &[u8] {
    match codec {
        codec::SEALED => SealedParts::of(data).map_or(&[], |parts| parts.clear),
        _ => data,
    }
}

/// Whether the personal fields of a stored payload can be read with `keys`.
pub fn state(keys: Option<&KeyRing>, codec: u8, data: &[u8]) -> Personal {
    if codec != codec::SEALED {
        return Personal::Clear;
    }
    match SealedParts::of(data).map(|parts| parts.lookup(keys)) {
        Some(KeyLookup::Key(_)) => Personal::Sealed,
        Some(KeyLookup::Destroyed) => Personal::Erased,
        Some(KeyLookup::Lost) | None => Personal::Lost,
    }
}

/// Decodes a stored payload of any codec. Fields with a destroyed or lost key are in their erased form.
pub fn decode(
    keys: Option<&Arc<KeyRing>>,
    stream: &StreamId,
    kind: &str,
    version: u16,
    codec: u8,
    data: &[u8],
) -> Result<Event, DecodeError> {
    if codec != codec::SEALED {
        return Event::decode(kind, version, codec, data);
    }
    let damaged = |source| DecodeError::Damaged { kind: kind.to_owned(), version, source };
    let parts =
        SealedParts::of(data).ok_or_else(|| damaged(CodecError::Decode("the sealed part is cut short".to_owned())))?;
    let mut event = Event::decode(kind, version, codec::BINCODE_2, parts.clear)?;
    if let KeyLookup::Key(key) = parts.lookup(keys.map(Arc::as_ref)) {
        let bound = bound(stream, kind, version, parts.clear);
        let opened = XChaCha20Poly1305::new((&key.0).into())
            .decrypt(XNonce::from_slice(parts.nonce), Payload { msg: parts.sealed, aad: &bound });
        // The log has verified the bytes. So if the decryption fails, another key sealed the fields, and the fields are
        // lost.
        if let Ok(secret) = opened {
            let taken: ExtractedFields = codec::decode(codec::BINCODE_2, &secret).map_err(damaged)?;
            fields::visit(&mut event, &mut PutFields(taken));
        }
    }
    Ok(event)
}

/// The data that is authenticated with the sealed part.
fn bound(stream: &StreamId, kind: &str, version: u16, clear: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(stream.as_str().len() + kind.len() + clear.len() + 4);
    bytes.extend_from_slice(stream.as_str().as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(kind.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(clear);
    bytes
}

/// Replaces the personal fields of a server's request by their erased form, as the server's fold does at an erasure.
pub fn erase_request(request: &mut crate::instance::BuildRequested) {
    fields::build_requested(request, &mut EraseFields);
}

/// A copy of the event with its personal fields in their erased form, for readers who must not see them.
pub fn without_personal(event: &Event) -> Event {
    let mut event = event.clone();
    fields::visit(&mut event, &mut EraseFields);
    event
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::instance::{InstanceEvent, Renamed};
    use crate::registry::samples;

    /// The stream of the sample.
    fn stream_of(event: &Event) -> StreamId {
        let key = match event {
            Event::InstanceEvent(_) => uuid::Uuid::from_u128(1).to_string(),
            Event::KeypairEvent(_) => "u".to_owned(),
            _ => "main".to_owned(),
        };
        StreamId::new(event.kind().split_once('.').unwrap().0, key)
    }

    fn open(keys: &Arc<KeyRing>, event: &Event, stored: &StoredPayload) -> Event {
        let (kind, version) = (event.kind(), event.version());
        decode(Some(keys), &stream_of(event), kind, version, stored.codec, &stored.data).unwrap()
    }

    #[test]
    fn every_sample_round_trips_and_is_erased_with_its_key() {
        let keys = KeyRing::in_memory().unwrap();
        let mut sealed = 0;
        for event in samples() {
            let stream = stream_of(&event);
            let stored = encode(Some(&keys), &stream, &event, event.version()).unwrap();
            assert_eq!(open(&keys, &event, &stored), event, "{}", event.kind());
            if stored.codec == codec::BINCODE_2 {
                continue;
            }
            sealed += 1;
            assert_eq!(state(Some(&keys), stored.codec, &stored.data), Personal::Sealed);
            let subject = fields::subject(&stream, &event).unwrap();
            assert!(keys.destroy(&subject, keys.next()).unwrap() > 0);
            assert_eq!(state(Some(&keys), stored.codec, &stored.data), Personal::Erased);
            assert_eq!(open(&keys, &event, &stored), without_personal(&event), "{}", event.kind());
            assert_ne!(without_personal(&event), event);
        }
        assert!(sealed > 8, "{sealed}");
    }

    #[test]
    fn sealed_text_is_not_in_the_stored_bytes() {
        let keys = KeyRing::in_memory().unwrap();
        let event = Event::from(InstanceEvent::from(Renamed { name: "annas-laptop".into() }));
        let stored = encode(Some(&keys), &stream_of(&event), &event, event.version()).unwrap();
        assert!(!stored.data.windows(5).any(|window| window == b"annas"));
        assert!(event.encode().unwrap().windows(5).any(|window| window == b"annas"));
        // Two encodings of the same event differ, so nobody can see that the events are equal.
        assert_ne!(encode(Some(&keys), &stream_of(&event), &event, event.version()).unwrap(), stored);
    }

    #[test]
    fn another_key_file_or_stream_opens_nothing() {
        let (keys, others) = (KeyRing::in_memory().unwrap(), KeyRing::in_memory().unwrap());
        let event = Event::from(InstanceEvent::from(Renamed { name: "web".into() }));
        let stored = encode(Some(&keys), &stream_of(&event), &event, event.version()).unwrap();
        assert_eq!(state(Some(&others), stored.codec, &stored.data), Personal::Lost);
        assert_eq!(open(&others, &event, &stored), without_personal(&event));
        let elsewhere = StreamId::new("instance", uuid::Uuid::from_u128(2));
        let moved = decode(Some(&keys), &elsewhere, event.kind(), 1, stored.codec, &stored.data).unwrap();
        assert_eq!(moved, without_personal(&event));
        assert!(decode(Some(&keys), &elsewhere, event.kind(), 1, codec::SEALED, &stored.data[..40]).is_err());
    }

    #[test]
    fn without_keys_nothing_is_encrypted() {
        let event = Event::from(InstanceEvent::from(Renamed { name: "web".into() }));
        let stored = encode(None, &stream_of(&event), &event, event.version()).unwrap();
        assert_eq!((stored.codec, stored.data), (codec::BINCODE_2, event.encode().unwrap()));
    }
}
