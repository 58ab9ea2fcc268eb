//! Sets of hosts, one bit each: intersecting the hosts with a trait, in an aggregate and in a zone is a few machine
//! words, however many hosts there are.

use serde::{Deserialize, Serialize};

/// A host's place in the fleet's tables; for ever the same.
pub type Slot = u32;

const BITS: u32 = u64::BITS;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slots(Vec<u64>);

impl Slots {
    pub fn insert(&mut self, slot: Slot) {
        let word = word(slot);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit(slot);
    }

    pub fn remove(&mut self, slot: Slot) {
        if let Some(word) = self.0.get_mut(word(slot)) {
            *word &= !bit(slot);
        }
        // One form for one set: a rebuilt set equals the live one.
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    pub fn set(&mut self, slot: Slot, is_in: bool) {
        if is_in { self.insert(slot) } else { self.remove(slot) }
    }

    pub fn contains(&self, slot: Slot) -> bool {
        self.0.get(word(slot)).is_some_and(|word| word & bit(slot) != 0)
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Keeps what is in `other` too.
    pub fn keep(&mut self, other: &Self) {
        self.0.truncate(other.0.len());
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine &= theirs;
        }
    }

    /// Gives up what is in `other`.
    pub fn drop_all(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine &= !theirs;
        }
    }

    pub fn add_all(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.0.iter().zip(0_u32..).flat_map(|(word, index)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let at = left.trailing_zeros();
                (at < BITS).then(|| {
                    left &= left - 1;
                    index * BITS + at
                })
            })
        })
    }
}

impl FromIterator<Slot> for Slots {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::default();
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

const fn word(slot: Slot) -> usize {
    (slot / BITS) as usize
}

const fn bit(slot: Slot) -> u64 {
    1 << (slot % BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_behave_as_sets() {
        let mut set: Slots = [3, 64, 130, 3].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 64, 130]);
        assert_eq!((set.len(), set.contains(64), set.contains(65), set.contains(9_999)), (3, true, false, false));
        set.remove(130);
        assert_eq!(set, [3, 64].into_iter().collect(), "one form for one set");
        let mut both = set.clone();
        both.keep(&[64, 700].into_iter().collect());
        assert_eq!(both.iter().collect::<Vec<_>>(), [64]);
        both.add_all(&[700].into_iter().collect());
        both.drop_all(&[64].into_iter().collect());
        assert_eq!(both.iter().collect::<Vec<_>>(), [700]);
        assert!(!both.is_empty());
    }
}
