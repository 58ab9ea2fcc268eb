//! A part of the index: for a range of positions, which events have which terms.
//!
//! The terms of a part are sorted, and stored in chunks. The directory has the first term of each chunk. Each chunk and
//! the directory have a checksum over their content and their place, so a lookup that finds no term is as reliable as
//! one that finds a term. A part is never changed. Parts are written in the order of positions. So an update of the
//! index writes only the new part, and changes no page of older parts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::AuditIndexError;
use super::terms::{self, Term};
use crate::chain::EventHash;
use crate::codec;
use crate::envelope::{Position, Recorded, Timestamp};

/// The largest number of events in a part. A part stores each event in two bytes, as its place in the block.
pub(super) const LARGEST: u64 = 65_536;
/// A chunk ends when it has this many bytes, so that it fills one page of SQLite.
const CHUNK: usize = 3_600;
/// The bytes of a list with a bit for each event of a block. A list of places is always shorter.
const BITS: usize = 8_192;
/// The bytes of a chunk before its terms: checksum, number of terms.
const HEAD: usize = 8;
/// The bytes of a term in a chunk: the term, and where its list ends.
const ENTRY: usize = 12;

/// The place of a part, which every checksum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartPlace {
    /// The random id of the index.
    pub index: u128,
    pub first: u64,
    pub last: u64,
}

impl PartPlace {
    fn checksum(&self, number: u32, content: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.index.to_le_bytes());
        hasher.update(&self.first.to_le_bytes());
        hasher.update(&self.last.to_le_bytes());
        hasher.update(&number.to_le_bytes());
        hasher.update(content);
        hasher.finalize()
    }

    /// The content of stored bytes, which begin with their checksum.
    fn check<'a>(&self, number: u32, stored: &'a [u8]) -> Result<&'a [u8], AuditIndexError> {
        let (sum, content) = stored.split_at_checked(4).ok_or_else(|| self.damaged())?;
        match sum == self.checksum(number, content).to_le_bytes() {
            true => Ok(content),
            false => Err(self.damaged()),
        }
    }

    fn damaged(&self) -> AuditIndexError {
        AuditIndexError::Damaged(format!("the part from {} to {} is damaged", self.first, self.last))
    }

    fn sealed(&self, number: u32, mut stored: Vec<u8>) -> Vec<u8> {
        let sum = self.checksum(number, &stored[4..]);
        stored[..4].copy_from_slice(&sum.to_le_bytes());
        stored
    }
}

/// The chunk number in the checksum of a directory. No chunk has this number.
const DIRECTORY: u32 = u32::MAX;

/// The content of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartDirectory {
    /// The chain's hash before the first event.
    pub before: [u8; 32],
    /// The chain's hash at the last event.
    pub hash: [u8; 32],
    /// The earliest and the latest time of recording in each step of the part.
    pub times: Vec<(i64, i64)>,
    pub kinds: Vec<String>,
    pub categories: Vec<String>,
    /// The first term of each chunk.
    pub chunks: Vec<Term>,
}

impl PartDirectory {
    pub(super) fn read(place: &PartPlace, stored: &[u8]) -> Result<Self, AuditIndexError> {
        let content = place.check(DIRECTORY, stored)?;
        codec::decode(codec::BINCODE_2, content).map_err(|_| place.damaged())
    }

    /// The number of the chunk that has the term, if any has it.
    pub(super) fn chunk_of(&self, term: Term) -> Option<u32> {
        let after = self.chunks.partition_point(|first| *first <= term);
        u32::try_from(after.checked_sub(1)?).ok()
    }
}

/// The lists of some consecutive terms.
pub(super) struct PartChunk {
    stored: Vec<u8>,
    terms: usize,
}

impl PartChunk {
    pub(super) fn read(place: &PartPlace, number: u32, stored: Vec<u8>) -> Result<Self, AuditIndexError> {
        let content = place.check(number, &stored)?;
        let terms = content.first_chunk().map_or(0, |count| u32::from_le_bytes(*count) as usize);
        let chunk = Self { stored, terms };
        // The checksum is right, so only a fault of this program could have written such a chunk.
        let ends =
            (0..terms).all(|nth| chunk.range(nth).is_some_and(|(from, to)| from <= to && to <= chunk.stored.len()));
        if ends { Ok(chunk) } else { Err(place.damaged()) }
    }

    fn number(&self, at: usize) -> Option<u32> {
        self.stored.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn term(&self, nth: usize) -> Term {
        let at = HEAD + nth * ENTRY;
        self.stored.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    fn range(&self, nth: usize) -> Option<(usize, usize)> {
        let lists = HEAD + self.terms * ENTRY;
        let end = |nth: usize| Some(lists + self.number(HEAD + nth * ENTRY + 8)? as usize);
        Some((if nth == 0 { lists } else { end(nth - 1)? }, end(nth)?))
    }

    fn list(&self, nth: usize) -> &[u8] {
        self.range(nth).map_or(&[], |(from, to)| &self.stored[from..to])
    }

    /// Adds the events that have the term.
    pub(super) fn add_to(&self, term: Term, found: &mut PlaceSet) {
        let (mut low, mut high) = (0, self.terms);
        while low < high {
            let middle = low.midpoint(high);
            if self.term(middle) < term { low = middle + 1 } else { high = middle }
        }
        if low < self.terms && self.term(low) == term {
            found.add(self.list(low));
        }
    }

    /// Calls `each` with every term and event.
    pub(super) fn each(&self, mut each: impl FnMut(Term, u16)) {
        for nth in 0..self.terms {
            let (term, list) = (self.term(nth), self.list(nth));
            if list.len() == BITS {
                let mut places = PlaceSet::none();
                places.add(list);
                places.places().for_each(|place| each(term, place));
            } else {
                list.as_chunks::<2>().0.iter().for_each(|place| each(term, u16::from_le_bytes(*place)));
            }
        }
    }
}

/// A set of events of one block, by their places in it.
#[derive(Clone)]
pub(super) struct PlaceSet(Box<[u64; BITS / 8]>);

impl PlaceSet {
    pub(super) fn none() -> Self {
        Self(Box::new([0; BITS / 8]))
    }

    pub(super) fn insert_range(&mut self, places: std::ops::Range<u64>) {
        for place in places {
            self.insert(place);
        }
    }

    fn insert(&mut self, place: u64) {
        if let Some(word) = usize::try_from(place / 64).ok().and_then(|word| self.0.get_mut(word)) {
            *word |= 1 << (place % 64);
        }
    }

    /// Adds a stored list.
    fn add(&mut self, list: &[u8]) {
        if list.len() == BITS {
            for (word, bytes) in self.0.iter_mut().zip(list.as_chunks::<8>().0) {
                *word |= u64::from_le_bytes(*bytes);
            }
            return;
        }
        for place in list.as_chunks::<2>().0 {
            self.insert(u64::from(u16::from_le_bytes(*place)));
        }
    }

    pub(super) fn intersect(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(other.0.iter()) {
            *word &= other;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn places(&self) -> impl Iterator<Item = u16> {
        self.0.iter().zip((0_u16..).step_by(64)).flat_map(|(word, base)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = u16::try_from(rest.trailing_zeros()).ok().filter(|bit| *bit < 64)?;
                rest &= rest - 1;
                Some(base + bit)
            })
        })
    }
}

/// A part with its chunks, as it is stored.
pub(super) struct EncodedPart {
    pub place: PartPlace,
    pub directory: Vec<u8>,
    pub chunks: Vec<Vec<u8>>,
}

/// A part as it was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredPart {
    pub place: PartPlace,
    pub directory: PartDirectory,
    pub chunks: Vec<Vec<u8>>,
}

/// Collects the events of a part.
pub(super) struct PartBuilder {
    pub first: u64,
    pub last: u64,
    before: EventHash,
    hash: EventHash,
    times: Vec<(i64, i64)>,
    kinds: BTreeSet<String>,
    categories: BTreeSet<String>,
    postings: Vec<(Term, u16)>,
}

impl PartBuilder {
    /// A part whose first event is at position `first`. `before` is the chain's hash before that event.
    pub(super) fn new(first: u64, before: EventHash) -> Self {
        Self {
            first,
            last: first - 1,
            before,
            hash: before,
            times: Vec::new(),
            kinds: BTreeSet::new(),
            categories: BTreeSet::new(),
            postings: Vec::new(),
        }
    }

    /// Adds the next event. `step` is the number of events that share an entry of the times.
    pub(super) fn add(&mut self, recorded: &Recorded, step: u64) -> Result<(), AuditIndexError> {
        let Position(position) = recorded.position;
        let hash = recorded.hash.ok_or(AuditIndexError::NoChain)?;
        if position != self.last + 1 {
            return Err(AuditIndexError::Damaged(format!("position {} is missing", self.last + 1)));
        }
        let Timestamp(time) = recorded.recorded_at;
        match self.times.last_mut() {
            Some((earliest, latest)) if !(position - self.first).is_multiple_of(step) => {
                (*earliest, *latest) = ((*earliest).min(time), (*latest).max(time));
            }
            _ => self.times.push((time, time)),
        }
        if !self.kinds.contains(&*recorded.kind) {
            self.kinds.insert(recorded.kind.to_string());
        }
        if !self.categories.contains(recorded.stream.category()) {
            self.categories.insert(recorded.stream.category().to_owned());
        }
        let mut terms = BTreeSet::new();
        terms::of_event(recorded, &mut terms);
        let place = place_of(position);
        self.postings.extend(terms.into_iter().map(|term| (term, place)));
        (self.last, self.hash) = (position, hash);
        Ok(())
    }

    /// Adds the next part, from its directory and its chunks.
    pub(super) fn add_part(&mut self, place: &PartPlace, directory: PartDirectory, chunks: &[PartChunk]) {
        self.times.extend(directory.times);
        self.kinds.extend(directory.kinds);
        self.categories.extend(directory.categories);
        for chunk in chunks {
            chunk.each(|term, place| self.postings.push((term, place)));
        }
        (self.last, self.hash) = (place.last, EventHash(directory.hash));
    }

    /// The stored form.
    pub(super) fn encode(mut self, index: u128) -> Result<EncodedPart, AuditIndexError> {
        let place = PartPlace { index, first: self.first, last: self.last };
        self.postings.sort_unstable();
        let (mut firsts, mut chunks, mut open) = (Vec::new(), Vec::new(), OpenChunk::default());
        for list in self.postings.chunk_by(|one, next| one.0 == next.0) {
            if open.is_full() {
                chunks.push(std::mem::take(&mut open).close(&place, chunks.len()));
            }
            if open.entries.is_empty() {
                firsts.push(list[0].0);
            }
            open.add(list);
        }
        if !open.entries.is_empty() {
            chunks.push(open.close(&place, chunks.len()));
        }
        let directory = PartDirectory {
            before: self.before.0,
            hash: self.hash.0,
            times: self.times,
            kinds: self.kinds.into_iter().collect(),
            categories: self.categories.into_iter().collect(),
            chunks: firsts,
        };
        let content = codec::encode(&directory).map_err(|error| AuditIndexError::Io(error.to_string()))?;
        let directory = place.sealed(DIRECTORY, [vec![0; 4], content].concat());
        Ok(EncodedPart { place, directory, chunks })
    }
}

/// The place of an event in its block.
#[expect(clippy::cast_possible_truncation, reason = "the remainder is less than 65,536")]
fn place_of(position: u64) -> u16 {
    ((position - 1) % LARGEST) as u16
}

/// A chunk that is being filled.
#[derive(Default)]
struct OpenChunk {
    entries: Vec<(Term, u32)>,
    lists: Vec<u8>,
}

impl OpenChunk {
    fn is_full(&self) -> bool {
        self.lists.len() + self.entries.len() * ENTRY >= CHUNK
    }

    fn add(&mut self, list: &[(Term, u16)]) {
        if list.len() * 2 < BITS {
            self.lists.extend(list.iter().flat_map(|(_, place)| place.to_le_bytes()));
        } else {
            let mut set = PlaceSet::none();
            for (_, place) in list {
                set.insert(u64::from(*place));
            }
            self.lists.extend(set.0.iter().flat_map(|word| word.to_le_bytes()));
        }
        self.entries.push((list[0].0, u32::try_from(self.lists.len()).unwrap_or(u32::MAX)));
    }

    fn close(self, place: &PartPlace, number: usize) -> Vec<u8> {
        let mut stored = vec![0; 4];
        stored.extend(u32::try_from(self.entries.len()).unwrap_or(u32::MAX).to_le_bytes());
        for (term, end) in &self.entries {
            stored.extend(term.to_le_bytes());
            stored.extend(end.to_le_bytes());
        }
        stored.extend(self.lists);
        place.sealed(u32::try_from(number).unwrap_or(DIRECTORY), stored)
    }
}
