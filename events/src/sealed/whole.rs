//! Encrypts whole files: caches that repeat personal data of the log.
//!
//! A cache cannot be sealed field by field as events are, because it is one structure about all persons. So all its
//! bytes are encrypted under the key of [`DataSubject::Caches`] in the log's key file. Every erasure destroys that key.
//! So nobody can read an older copy of the cache any more, whichever person was erased. Later files have a new key.
//!
//! A file has several parts. A part is a sequence of pieces of at most [`PIECE`] bytes, each followed by the tag of its
//! cipher. The nonce of a piece consists of the file's own random bytes, its part and its number. So no two pieces of
//! these files share a nonce. The tag also authenticates `bound`, and whether the piece is the last of its part. So
//! every piece that was left out, moved or cut off is detected.

use std::io::{self, Write};

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};
use thiserror::Error;

use super::keys::{KeyLookup, KeyRing, KeySlot, RingId, SealingKey, random};
use super::{DataSubject, SealError};

/// The largest number of plaintext bytes in a piece.
const PIECE: usize = 1 << 16;
/// The number of bytes that the cipher adds to a piece.
const TAG: usize = 16;

/// The id of a file's key, and the file's part of the nonces. Both stand unencrypted at the start of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealMark {
    ring: RingId,
    slot: KeySlot,
    nonce: [u8; 16],
}

impl SealMark {
    /// The length of a mark in a file, in bytes.
    pub const BYTES: usize = 40;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.ring.0);
        bytes[16..24].copy_from_slice(&self.slot.0.to_le_bytes());
        bytes[24..].copy_from_slice(&self.nonce);
        bytes
    }

    /// Reads the mark at the beginning of `bytes`.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..Self::BYTES)?;
        Some(Self {
            ring: RingId(bytes[..16].try_into().ok()?),
            slot: KeySlot(u64::from_le_bytes(bytes[16..24].try_into().ok()?)),
            nonce: bytes[24..].try_into().ok()?,
        })
    }
}

/// Why a sealed file cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unopened {
    #[error("its key was destroyed by an erasure")]
    Erased,
    #[error("its key is not in the file of keys")]
    Lost,
}

/// The key of one file.
pub struct WholeSeal {
    mark: SealMark,
    cipher: XChaCha20Poly1305,
}

impl std::fmt::Debug for WholeSeal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WholeSeal").field("mark", &self.mark).finish_non_exhaustive()
    }
}

impl WholeSeal {
    /// The key for a new file. If there is none yet, this creates one and waits for the disk.
    pub fn begin(keys: &KeyRing) -> Result<Self, SealError> {
        let (slot, key) = keys.current(&DataSubject::Caches)?;
        Self::with(keys, slot, &key)
    }

    /// Like [`Self::begin`], for programs that may not write to the file of keys. `None` if there is no key yet.
    pub fn with_known(keys: &KeyRing) -> Result<Option<Self>, SealError> {
        let newest = keys.newest_of(&DataSubject::Caches)?;
        newest.map(|(slot, key)| Self::with(keys, slot, &key)).transpose()
    }

    fn with(keys: &KeyRing, slot: KeySlot, key: &SealingKey) -> Result<Self, SealError> {
        let nonce = random::<16>().map_err(|reason| keys.failure(reason, false))?;
        let mark = SealMark { ring: keys.ring(), slot, nonce };
        Ok(Self { mark, cipher: XChaCha20Poly1305::new((&key.0).into()) })
    }

    /// The key of an existing file.
    pub fn of(keys: &KeyRing, mark: SealMark) -> Result<Self, Unopened> {
        match keys.look_up(mark.ring, mark.slot) {
            KeyLookup::Key(key) => Ok(Self { mark, cipher: XChaCha20Poly1305::new((&key.0).into()) }),
            KeyLookup::Destroyed => Err(Unopened::Erased),
            KeyLookup::Lost => Err(Unopened::Lost),
        }
    }

    pub fn mark(&self) -> SealMark {
        self.mark
    }

    fn nonce(&self, part: u32, piece: u32) -> XNonce {
        let mut nonce = [0; 24];
        nonce[..16].copy_from_slice(&self.mark.nonce);
        nonce[16..20].copy_from_slice(&part.to_le_bytes());
        nonce[20..].copy_from_slice(&piece.to_le_bytes());
        nonce.into()
    }

    /// Returns a writer that encrypts part number `part` into `out` and authenticates `bound` with it.
    pub fn writer<'a, W: Write>(&'a self, part: u32, bound: &'a [u8], out: W) -> SealingWriter<'a, W> {
        SealingWriter { seal: self, part, bound, piece: 0, clear: Vec::with_capacity(PIECE), out }
    }

    /// Decrypts a part; `None` if the sealed bytes or `bound` were changed.
    pub fn open(&self, part: u32, bound: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let pieces = sealed.len().div_ceil(PIECE + TAG);
        let mut clear = Vec::with_capacity(sealed.len().checked_sub(pieces.checked_mul(TAG)?)?);
        for (number, piece) in sealed.chunks(PIECE + TAG).enumerate() {
            let (text, tag) = piece.split_at_checked(piece.len().checked_sub(TAG)?)?;
            let begin = clear.len();
            clear.extend_from_slice(text);
            let nonce = self.nonce(part, u32::try_from(number).ok()?);
            let bound = bound_with(bound, number + 1 == pieces);
            let tag = Tag::from_slice(tag);
            self.cipher.decrypt_in_place_detached(&nonce, &bound, &mut clear[begin..], tag).ok()?;
        }
        (pieces > 0).then_some(clear)
    }
}

fn bound_with(bound: &[u8], last: bool) -> Vec<u8> {
    [bound, &[u8::from(last)]].concat()
}

/// Encrypts the written bytes, piece by piece. Only a part that was [finished](Self::finish) can be opened.
pub struct SealingWriter<'a, W> {
    seal: &'a WholeSeal,
    part: u32,
    bound: &'a [u8],
    piece: u32,
    clear: Vec<u8>,
    out: W,
}

impl<W> std::fmt::Debug for SealingWriter<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealingWriter").field("part", &self.part).finish_non_exhaustive()
    }
}

impl<W: Write> SealingWriter<'_, W> {
    fn seal(&mut self, last: bool) -> io::Result<()> {
        let nonce = self.seal.nonce(self.part, self.piece);
        let bound = bound_with(self.bound, last);
        let tag = self
            .seal
            .cipher
            .encrypt_in_place_detached(&nonce, &bound, &mut self.clear)
            .map_err(|_| io::Error::other("the cipher refused"))?;
        self.out.write_all(&self.clear)?;
        self.out.write_all(&tag)?;
        self.clear.clear();
        self.piece = self.piece.checked_add(1).ok_or_else(|| io::Error::other("a part is too long to be sealed"))?;
        Ok(())
    }

    /// Writes the last piece.
    pub fn finish(mut self) -> io::Result<()> {
        self.seal(true)
    }
}

impl<W: Write> Write for SealingWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Only `finish` knows which piece is the last, so a full piece waits until more bytes follow.
        if self.clear.len() == PIECE {
            self.seal(false)?;
        }
        let taken = bytes.len().min(PIECE - self.clear.len());
        self.clear.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sealed(seal: &WholeSeal, part: u32, clear: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = seal.writer(part, b"name", &mut out);
        writer.write_all(clear).unwrap();
        writer.finish().unwrap();
        out
    }

    #[test]
    fn several_lengths_round_trip_and_no_plaintext_is_stored() {
        let keys = KeyRing::in_memory().unwrap();
        let seal = WholeSeal::begin(&keys).unwrap();
        for length in [0, 1, 100, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 7] {
            let clear = b"secret".repeat(length / 6 + 1)[..length].to_vec();
            let out = sealed(&seal, 3, &clear);
            assert!(!out.windows(6).any(|window| window == b"secret"));
            let again = WholeSeal::of(&keys, SealMark::of(&seal.mark().to_bytes()).unwrap()).unwrap();
            assert_eq!(again.open(3, b"name", &out), Some(clear), "{length}");
        }
    }

    #[test]
    fn moved_missing_or_changed_pieces_are_detected() {
        let keys = KeyRing::in_memory().unwrap();
        let seal = WholeSeal::begin(&keys).unwrap();
        let out = sealed(&seal, 1, &vec![7; 3 * PIECE]);
        assert_eq!(seal.open(2, b"name", &out), None);
        assert_eq!(seal.open(1, b"other", &out), None);
        assert_eq!(seal.open(1, b"name", &out[..2 * (PIECE + TAG)]), None, "the last piece is missing");
        assert_eq!(seal.open(1, b"name", &[]), None);
        assert_eq!(seal.open(1, b"name", &out[..5]), None);
        let swapped = [&out[PIECE + TAG..2 * (PIECE + TAG)], &out[..PIECE + TAG], &out[2 * (PIECE + TAG)..]].concat();
        assert_eq!(seal.open(1, b"name", &swapped), None);
        for at in [0, PIECE, PIECE + TAG, out.len() - 1] {
            let mut changed = out.clone();
            changed[at] ^= 1;
            assert_eq!(seal.open(1, b"name", &changed), None, "{at}");
        }
    }

    #[test]
    fn an_erasure_destroys_the_key_of_earlier_files() {
        let keys = KeyRing::in_memory().unwrap();
        let before = WholeSeal::begin(&keys).unwrap().mark();
        assert_eq!(keys.destroy(&DataSubject::Caches, keys.next()).unwrap(), 1);
        assert_eq!(WholeSeal::of(&keys, before).unwrap_err(), Unopened::Erased);
        let after = WholeSeal::begin(&keys).unwrap().mark();
        assert!(WholeSeal::of(&keys, after).is_ok());
        assert_eq!(WholeSeal::of(&KeyRing::in_memory().unwrap(), after).unwrap_err(), Unopened::Lost);
    }
}
