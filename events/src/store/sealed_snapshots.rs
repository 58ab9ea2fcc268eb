//! Encrypts snapshots of streams. A snapshot repeats personal fields of its stream, so all its bytes are encrypted.
//!
//! The key is that of [`crate::sealed::DataSubject::Caches`]. An erasure destroys it, so the snapshots in an older copy
//! of the log reveal nothing about an erased person. A snapshot that cannot be opened is ignored.

use super::{StoreError, StreamSnapshot};
use crate::envelope::{Revision, StreamId};
use crate::sealed::keys::KeyRing;
use crate::sealed::whole::{SealMark, WholeSeal};

/// Binds sealed bytes to their stream and revision: nobody can use them for another stream or revision.
fn bound(stream: &StreamId, revision: Revision, state_version: u32) -> Vec<u8> {
    let numbers = [revision.0.to_le_bytes().as_slice(), &state_version.to_le_bytes()].concat();
    [numbers.as_slice(), stream.as_str().as_bytes()].concat()
}

/// Encrypts a snapshot. May wait for the disk if the log has no key for caches yet.
pub(super) fn seal(keys: &KeyRing, stream: &StreamId, clear: &StreamSnapshot) -> Result<StreamSnapshot, StoreError> {
    use std::io::Write;
    let seal = WholeSeal::begin(keys)?;
    let bound = bound(stream, clear.revision, clear.state_version);
    let mut bytes = seal.mark().to_bytes().to_vec();
    let mut writer = seal.writer(0, &bound, &mut bytes);
    let written = writer.write_all(&clear.bytes).and_then(|()| writer.finish());
    written.map_err(|error| StoreError::Io(format!("a snapshot cannot be sealed: {error}")))?;
    Ok(StreamSnapshot { revision: clear.revision, state_version: clear.state_version, bytes })
}

/// Decrypts a snapshot. `None`: its key is gone, or the bytes were not sealed for this stream and revision.
pub(super) fn open(keys: &KeyRing, stream: &StreamId, sealed: &StreamSnapshot) -> Option<StreamSnapshot> {
    let mark = SealMark::of(&sealed.bytes)?;
    let seal = WholeSeal::of(keys, mark).ok()?;
    let bound = bound(stream, sealed.revision, sealed.state_version);
    let bytes = seal.open(0, &bound, &sealed.bytes[SealMark::BYTES..])?;
    Some(StreamSnapshot { revision: sealed.revision, state_version: sealed.state_version, bytes })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sealed::DataSubject;

    fn snapshot(bytes: &[u8]) -> StreamSnapshot {
        StreamSnapshot { revision: Revision(3), state_version: 1, bytes: bytes.to_vec() }
    }

    #[test]
    fn a_sealed_snapshot_opens_only_for_its_stream_and_revision() {
        let keys = KeyRing::in_memory().unwrap();
        let (here, there) = (StreamId::new("instance", "a"), StreamId::new("instance", "b"));
        for clear in [Vec::new(), b"anna".to_vec(), vec![7; 200_000]] {
            let sealed = seal(&keys, &here, &snapshot(&clear)).unwrap();
            assert_eq!(open(&keys, &here, &sealed), Some(snapshot(&clear)));
            assert_eq!(open(&keys, &there, &sealed), None);
            assert_eq!(open(&keys, &here, &StreamSnapshot { revision: Revision(4), ..sealed.clone() }), None);
            assert_eq!(open(&keys, &here, &StreamSnapshot { state_version: 2, ..sealed }), None);
        }
        let before = seal(&keys, &here, &snapshot(b"anna")).unwrap();
        keys.destroy(&DataSubject::Caches, keys.next()).unwrap();
        assert_eq!(open(&keys, &here, &before), None);
        assert_eq!(open(&keys, &here, &snapshot(b"anna, in clear")), None);
    }
}
