//! The hosts' inventories of one resource class, with an index of the hosts by their free capacity.

use std::collections::BTreeSet;

use chronova_events::ledger::Inventory;
use serde::{Deserialize, Serialize};

use crate::slots::{Slot, Slots};

/// One host's inventory of a class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HostInventory {
    pub total: u64,
    pub reserved: u64,
    pub allocation_ratio: f64,
    pub min_unit: u64,
    pub max_unit: u64,
    pub step_size: u64,
    /// The amount that may be allocated: total minus reserved, times the allocation ratio.
    pub capacity: u64,
    pub used: u64,
}

impl HostInventory {
    fn of(inventory: &Inventory, used: u64) -> Self {
        Self {
            total: inventory.total,
            reserved: inventory.reserved,
            allocation_ratio: inventory.allocation_ratio,
            min_unit: inventory.min_unit,
            max_unit: inventory.max_unit,
            step_size: inventory.step_size.max(1),
            capacity: inventory.capacity(),
            used,
        }
    }

    pub fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    /// Whether `amount` fits beside the allocated amount and `pending`, by Placement's rules.
    pub fn admits(&self, amount: u64, pending: u64) -> bool {
        amount >= self.min_unit
            && amount <= self.max_unit
            && amount.is_multiple_of(self.step_size)
            && amount.saturating_add(pending) <= self.free()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostResourceColumn {
    lines: Vec<Option<HostInventory>>,
    has: Slots,
    by_free: BTreeSet<(u64, Slot)>,
}

impl HostResourceColumn {
    pub fn line(&self, slot: Slot) -> Option<&HostInventory> {
        self.lines.get(slot as usize)?.as_ref()
    }

    /// The hosts with an inventory of the class.
    pub fn has(&self) -> &Slots {
        &self.has
    }

    /// The hosts with at least `amount` free, the emptiest first.
    pub fn roomiest(&self, amount: u64) -> impl Iterator<Item = Slot> + '_ {
        self.by_free.range((amount, 0)..).rev().map(|(_, slot)| *slot)
    }

    /// The hosts with at least `amount` free, the fullest first.
    pub fn tightest(&self, amount: u64) -> impl Iterator<Item = Slot> + '_ {
        self.by_free.range((amount, 0)..).map(|(_, slot)| *slot)
    }

    /// The hosts with less than `amount` free, the emptiest first.
    pub fn without_room(&self, amount: u64) -> impl Iterator<Item = Slot> + '_ {
        self.by_free.range(..(amount, 0)).rev().map(|(_, slot)| *slot)
    }

    pub(super) fn replace(&mut self, slot: Slot, inventory: Option<&Inventory>) {
        let old = self.line(slot).copied();
        if let Some(old) = old {
            self.by_free.remove(&(old.free(), slot));
        }
        let used = old.map_or(0, |old| old.used);
        let at = slot as usize;
        match inventory {
            Some(inventory) => {
                let line = HostInventory::of(inventory, used);
                self.by_free.insert((line.free(), slot));
                if self.lines.len() <= at {
                    self.lines.resize(at + 1, None);
                }
                self.lines[at] = Some(line);
                self.has.insert(slot);
            }
            None => {
                if let Some(line) = self.lines.get_mut(at) {
                    *line = None;
                }
                self.has.remove(slot);
            }
        }
    }

    pub(super) fn take(&mut self, slot: Slot, amount: u64) {
        self.change(slot, |used| used.saturating_add(amount));
    }

    pub(super) fn give_back(&mut self, slot: Slot, amount: u64) {
        self.change(slot, |used| used.saturating_sub(amount));
    }

    fn change(&mut self, slot: Slot, used: impl FnOnce(u64) -> u64) {
        let Some(Some(line)) = self.lines.get_mut(slot as usize) else { return };
        let before = line.free();
        line.used = used(line.used);
        let after = line.free();
        if before != after {
            self.by_free.remove(&(before, slot));
            self.by_free.insert((after, slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(total: u64) -> Inventory {
        let class = "VCPU".to_owned();
        Inventory { class, total, reserved: 1, min_unit: 1, max_unit: total, step_size: 1, allocation_ratio: 2.0 }
    }

    #[test]
    fn hosts_are_ordered_by_their_free_capacity() {
        let mut column = HostResourceColumn::default();
        for (slot, total) in [(0, 4), (1, 8), (2, 2)] {
            column.replace(slot, Some(&inventory(total)));
        }
        assert_eq!(column.roomiest(0).collect::<Vec<_>>(), [1, 0, 2]);
        column.take(1, 13);
        assert_eq!(column.roomiest(2).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(column.tightest(2).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(column.without_room(2).collect::<Vec<_>>(), [1]);
        column.give_back(1, 13);
        column.replace(1, Some(&inventory(1)));
        column.replace(0, None);
        assert_eq!(column.roomiest(0).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(column.has().iter().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn an_inventory_admits_the_amounts_that_placement_admits() {
        let line = HostInventory::of(&Inventory { step_size: 2, min_unit: 2, ..inventory(8) }, 4);
        // The capacity is (8 - 1) x 2 = 14, and 4 are used.
        assert!(line.admits(8, 0) && line.admits(8, 2));
        assert!(!line.admits(8, 4), "the pending amount must count");
        assert!(!line.admits(3, 0) && !line.admits(0, 0) && !line.admits(10, 0));
    }
}
