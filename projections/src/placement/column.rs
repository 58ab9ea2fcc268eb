//! One resource class over all providers: the providers that have it, and their free capacity.

use std::collections::BTreeMap;

use chronova_events::ledger::InventoryLine;

use crate::slots::{Slot, Slots};

/// The free capacity of a class at one provider, and its allocation units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProviderCapacity {
    /// Capacity that is not allocated.
    pub free: u64,
    pub min_unit: u64,
    pub max_unit: u64,
    pub step_size: u64,
}

impl ProviderCapacity {
    pub fn of(line: &InventoryLine) -> Self {
        let has = &line.inventory;
        Self { free: line.free(), min_unit: has.min_unit, max_unit: has.max_unit, step_size: has.step_size.max(1) }
    }

    /// Like [`InventoryLine::admits`].
    pub fn admits(&self, amount: u64) -> bool {
        amount <= self.most()
            && amount >= self.min_unit
            && (self.step_size == 1 || amount.is_multiple_of(self.step_size))
    }

    /// The largest amount that one request can get.
    fn most(&self) -> u64 {
        self.free.min(self.max_unit)
    }

    /// Whether one request can get any amount up to the largest.
    fn is_plain(&self) -> bool {
        self.min_unit <= 1 && self.step_size == 1
    }
}

/// The providers of one resource class. The index puts them on shelves by the largest amount that one request can get
/// from them.
///
/// Providers with about the same largest amount (to an eighth) share a shelf. The requested amount has a shelf, too.
/// Providers on lower shelves do not fit. Providers on higher shelves fit; of these, only providers with unit rules are
/// checked. Each provider on the same shelf is checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProviderColumn {
    members: Slots,
    /// The capacity of each slot. Only the entries of members have a meaning.
    rooms: Vec<ProviderCapacity>,
    shelves: BTreeMap<u16, Slots>,
    /// Members with unit rules, which the shelf alone cannot decide.
    restricted: Slots,
}

/// The shelf of an amount. Shelves grow by eighths of a power of two; amounts below 16 have shelves of their own.
fn shelf(amount: u64) -> u16 {
    if amount < 16 {
        return u16::try_from(amount).unwrap_or(u16::MAX);
    }
    let power = amount.ilog2();
    let eighth = (amount >> (power - 3)) & 7;
    u16::try_from(u64::from(power - 2) * 8 + eighth).unwrap_or(u16::MAX)
}

impl ProviderColumn {
    /// Every provider with an inventory of the class.
    pub fn members(&self) -> &Slots {
        &self.members
    }

    pub fn room(&self, slot: Slot) -> Option<&ProviderCapacity> {
        if self.members.contains(slot) { self.rooms.get(slot as usize) } else { None }
    }

    /// The free capacity of a provider; zero without an inventory of the class.
    pub fn free(&self, slot: Slot) -> u64 {
        self.room(slot).map_or(0, |room| room.free)
    }

    /// The providers that can give `amount` to one request.
    pub fn with_room(&self, amount: u64) -> Slots {
        if amount == 0 {
            // The shelves do not decide about zero, which is below the usual `min_unit`. Requests never ask for zero.
            let mut found = self.members.clone();
            found.retain(|slot| self.rooms[slot as usize].admits(amount));
            return found;
        }
        let own = shelf(amount);
        let mut found = Slots::default();
        let mut doubtful = Slots::default();
        for (shelf, slots) in self.shelves.range(own..) {
            if *shelf == own { &mut doubtful } else { &mut found }.extend_all(slots);
        }
        if !self.restricted.is_empty() {
            let mut restricted = self.restricted.clone();
            restricted.retain_all(&found);
            found.remove_all(&restricted);
            doubtful.extend_all(&restricted);
        }
        doubtful.retain(|slot| self.rooms[slot as usize].admits(amount));
        found.extend_all(&doubtful);
        found
    }

    pub(super) fn set(&mut self, slot: Slot, room: ProviderCapacity) {
        let at = slot as usize;
        if self.rooms.len() <= at {
            self.rooms.resize(at + 1, ProviderCapacity::default());
        }
        let old = self.members.contains(slot).then(|| shelf(self.rooms[at].most()));
        let new = shelf(room.most());
        if old != Some(new) {
            if let Some(old) = old {
                self.take_off(old, slot);
            }
            self.members.insert(slot);
            self.shelves.entry(new).or_default().insert(slot);
        }
        if room.is_plain() {
            self.restricted.remove(slot)
        } else {
            self.restricted.insert(slot)
        };
        self.rooms[at] = room;
    }

    pub(super) fn clear(&mut self, slot: Slot) {
        if self.members.remove(slot) {
            let at = slot as usize;
            self.take_off(shelf(self.rooms[at].most()), slot);
            self.restricted.remove(slot);
            self.rooms[at] = ProviderCapacity::default();
        }
    }

    fn take_off(&mut self, shelf: u16, slot: Slot) {
        if let Some(slots) = self.shelves.get_mut(&shelf) {
            slots.remove(slot);
            if slots.is_empty() {
                self.shelves.remove(&shelf);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shelves_are_in_order_and_never_too_high() {
        let mut last = 0;
        for amount in (0..5_000).chain((13..63).map(|power| 1_u64 << power)).chain([u64::MAX]) {
            let at = shelf(amount);
            assert!(at >= last, "{amount}");
            last = at;
        }
        assert_eq!((shelf(15), shelf(16), shelf(17), shelf(18)), (15, 16, 16, 17));
        assert!(shelf(1024) < shelf(1152) && shelf(1024) == shelf(1151));
    }

    #[test]
    fn providers_with_room_are_those_that_admit_the_amount() {
        let mut column = ProviderColumn::default();
        let room = |free, min_unit, max_unit, step_size| ProviderCapacity { free, min_unit, max_unit, step_size };
        for slot in 0..300_u32 {
            let n = u64::from(slot);
            column.set(slot, room(n * 7, 1 + n % 3 / 2 * 20, if n % 5 == 0 { 64 } else { 4_000 }, 1 + n % 7 / 6 * 3));
        }
        for slot in (0..300).step_by(3) {
            column.set(slot, room(u64::from(slot), 1, 500, 1));
        }
        for slot in (0..300).step_by(11) {
            column.clear(slot);
        }
        for amount in [0, 1, 2, 3, 15, 16, 17, 20, 24, 63, 64, 65, 100, 300, 1_000, 2_000, 2_093, 2_094, 9_999] {
            let found: Vec<Slot> = column.with_room(amount).iter().collect();
            let plain: Vec<Slot> = column
                .members()
                .iter()
                .filter(|slot| column.room(*slot).is_some_and(|room| room.admits(amount)))
                .collect();
            assert_eq!(found, plain, "{amount}");
        }
        assert_eq!((column.free(3), column.free(0), column.free(9_999)), (3, 0, 0));
    }

    #[test]
    fn a_cleared_provider_leaves_nothing_in_the_column() {
        let mut column = ProviderColumn::default();
        column.set(7, ProviderCapacity { free: 9, min_unit: 2, max_unit: 9, step_size: 1 });
        column.clear(7);
        assert_eq!((column.members.len(), column.shelves.len(), column.restricted.len()), (0, 0, 0));
    }
}
