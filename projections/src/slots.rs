//! Sets of hosts or providers as bits. The number of a row in its table is the index of its bit.
//!
//! To intersect or unite two sets of ten thousand slots, the code reads about 160 machine words of each. So the indexes
//! of [`crate::fleet`] and [`crate::placement`] answer with sets and not with lists.

use serde::{Deserialize, Serialize};

/// The number of a host or provider as long as it exists.
pub type Slot = u32;

/// A set of slots.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub struct Slots {
    /// The last word is never zero, so that equal sets have equal words.
    words: Vec<u64>,
    len: usize,
}

const BITS: usize = u64::BITS as usize;

fn place(slot: Slot) -> (usize, u64) {
    (slot as usize / BITS, 1 << (slot as usize % BITS))
}

impl Slots {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn contains(&self, slot: Slot) -> bool {
        let (word, bit) = place(slot);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Adds the slot. Returns whether it is new.
    pub fn insert(&mut self, slot: Slot) -> bool {
        let (word, bit) = place(slot);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.len += usize::from(new);
        new
    }

    /// Removes the slot. Returns whether it was in the set.
    pub fn remove(&mut self, slot: Slot) -> bool {
        let (word, bit) = place(slot);
        let Some(bits) = self.words.get_mut(word).filter(|bits| **bits & bit != 0) else { return false };
        *bits &= !bit;
        self.len -= 1;
        self.trim();
        true
    }

    pub fn set(&mut self, slot: Slot, is_in: bool) {
        if is_in {
            self.insert(slot)
        } else {
            self.remove(slot)
        };
    }

    /// Keeps the intersection with `other`.
    pub fn retain_all(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= theirs;
        }
        self.recount();
    }

    /// Becomes the union with `other`.
    pub fn extend_all(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
        self.recount();
    }

    /// Keeps the slots that `other` lacks.
    pub fn remove_all(&mut self, other: &Self) {
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= !theirs;
        }
        self.recount();
    }

    pub fn retain(&mut self, keep: impl Fn(Slot) -> bool) {
        for (at, word) in self.words.iter_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                if !keep(number(at, bit)) {
                    *word &= !(1 << bit);
                }
            }
        }
        self.recount();
    }

    /// The slots in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(number(at, bit))
            })
        })
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    fn recount(&mut self) {
        self.trim();
        self.len = self.words.iter().map(|word| word.count_ones() as usize).sum();
    }
}

#[allow(clippy::cast_possible_truncation)] // slots are made as u32
fn number(word: usize, bit: usize) -> Slot {
    (word * BITS + bit) as Slot
}

impl From<Vec<u64>> for Slots {
    fn from(words: Vec<u64>) -> Self {
        let mut set = Self { words, len: 0 };
        set.recount();
        set
    }
}

impl From<Slots> for Vec<u64> {
    fn from(set: Slots) -> Self {
        set.words
    }
}

impl PartialEq for Slots {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for Slots {}

impl FromIterator<Slot> for Slots {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::default();
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of(slots: &[Slot]) -> Slots {
        slots.iter().copied().collect()
    }

    fn list(slots: &Slots) -> Vec<Slot> {
        slots.iter().collect()
    }

    #[test]
    fn sets_are_intersected_and_united() {
        let (a, b) = (of(&[0, 63, 64, 200]), of(&[63, 64, 65]));
        let both = |with: fn(&mut Slots, &Slots)| {
            let mut set = a.clone();
            with(&mut set, &b);
            assert_eq!(set.len(), list(&set).len());
            list(&set)
        };
        assert_eq!(both(Slots::retain_all), [63, 64]);
        assert_eq!(both(Slots::extend_all), [0, 63, 64, 65, 200]);
        assert_eq!(both(Slots::remove_all), [0, 200]);
        assert_eq!(both(|set, other| set.retain(|slot| !other.contains(slot))), [0, 200]);
    }

    #[test]
    fn a_set_without_a_removed_member_equals_one_that_never_had_it() {
        let mut set = of(&[1, 1000]);
        assert!(set.remove(1000) && !set.remove(1000) && !set.insert(1));
        assert_eq!(set, of(&[1]));
        assert_eq!((set.len(), set.contains(1000), set.is_empty()), (1, false, false));
        set.retain(|_| false);
        assert_eq!(set, Slots::default());
    }

    #[test]
    fn agrees_with_a_plain_set() {
        let (mut set, mut plain) = (Slots::default(), BTreeSet::new());
        let mut number = 1_u32;
        for _ in 0..2_000 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let slot = (number >> 8) % 500;
            match number >> 31 {
                0 => assert_eq!(set.insert(slot), plain.insert(slot)),
                _ => assert_eq!(set.remove(slot), plain.remove(&slot)),
            }
            assert_eq!(set.len(), plain.len());
        }
        assert_eq!(list(&set), plain.into_iter().collect::<Vec<_>>());
    }
}
