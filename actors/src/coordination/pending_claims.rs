//! Scheduling decisions that are not in the read models yet. Schedulers in two members would not see each other's
//! claims, and would choose the same host.
//!
//! The scheduler decides again before the read models show its last decision. It reads the pending claims here, so that
//! not all decisions choose the same host. Correctness never needs these entries, because the ledger decides. Each
//! entry is removed as soon as the read models show it.

use std::collections::{BTreeMap, HashMap};

use chronova_events::envelope::Position;
use chronova_events::ids::{InstanceId, ProviderId, ServerGroupId};
use chronova_events::ledger::{Allocation, FittedNumaCell, HeldPciDevice};
use chronova_projections::fleet::{Slot, Slots};

/// One pending decision.
#[derive(Debug, Clone)]
pub struct PendingClaim {
    pub slot: Slot,
    pub server: Option<InstanceId>,
    /// The amounts that the claim takes of the host's own provider, by resource class.
    pub resources: Vec<(String, u64)>,
    /// The amounts that the claim takes of other providers, for example of providers below the host's.
    pub elsewhere: Vec<Allocation>,
    /// The part of the host's NUMA cells that the guest will probably get.
    pub fitted: Vec<FittedNumaCell>,
    /// The PCI devices that the guest will probably get.
    pub devices: Vec<HeldPciDevice>,
    pub group: Option<ServerGroupId>,
    /// The claim's position in the log; `None` until it is recorded.
    pub claimed_at: Option<Position>,
    /// The placement's position in the log; `None` until it is recorded.
    pub placed_at: Option<Position>,
}

/// The pending claims on one host, summed up.
#[derive(Debug, Clone, Default)]
pub struct PendingLoad {
    pub resources: BTreeMap<String, u64>,
    pub servers: u32,
}

#[derive(Debug, Default)]
pub struct PendingClaims {
    entries: BTreeMap<u64, PendingClaim>,
    next: u64,
    touched: Slots,
    burdens: HashMap<Slot, PendingLoad>,
    /// The amounts of providers that are no hosts.
    elsewhere: BTreeMap<ProviderId, BTreeMap<String, u64>>,
}

impl PendingClaims {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The oldest pending decision.
    pub fn oldest(&self) -> Option<u64> {
        self.entries.keys().next().copied()
    }

    pub fn newest(&self) -> Option<u64> {
        self.entries.keys().next_back().copied()
    }

    pub fn add(&mut self, entry: PendingClaim) -> u64 {
        self.next += 1;
        self.load(&entry);
        self.entries.insert(self.next, entry);
        self.next
    }

    pub fn remove(&mut self, ticket: u64) {
        if self.entries.remove(&ticket).is_some() {
            self.rebuild();
        }
    }

    /// Notes that the claim is in the log, at `position`.
    pub fn claimed(&mut self, ticket: u64, position: Position) {
        if let Some(entry) = self.entries.get_mut(&ticket) {
            entry.claimed_at = Some(position);
        }
    }

    /// Notes that the placement is in the log, at `position`.
    pub fn placed(&mut self, ticket: u64, position: Position) {
        if let Some(entry) = self.entries.get_mut(&ticket) {
            entry.placed_at = Some(position);
        }
    }

    /// `seen` is the position of the read models. Removes each entry with a placement at or before `seen`. Clears the
    /// amounts of each entry with a claim at or before `seen`.
    pub fn forget(&mut self, seen: Position) {
        let mut changed = false;
        self.entries.retain(|_, entry| {
            let holds_amounts = !(entry.resources.is_empty() && entry.elsewhere.is_empty());
            let holds_parts = !(entry.fitted.is_empty() && entry.devices.is_empty());
            if entry.claimed_at.is_some_and(|at| at <= seen) && (holds_amounts || holds_parts) {
                entry.resources.clear();
                entry.elsewhere.clear();
                entry.fitted.clear();
                entry.devices.clear();
                changed = true;
            }
            let stays = entry.placed_at.is_none_or(|at| at > seen);
            changed |= !stays;
            stays
        });
        if changed {
            self.rebuild();
        }
    }

    /// The pending claims on a host.
    pub fn on(&self, slot: Slot) -> Option<&PendingLoad> {
        if self.touched.contains(slot) { self.burdens.get(&slot) } else { None }
    }

    /// The amount in pending claims of a provider that is no host.
    pub fn of_provider(&self, provider: ProviderId, class: &str) -> u64 {
        self.elsewhere.get(&provider).and_then(|of| of.get(class)).copied().unwrap_or(0)
    }

    /// The hosts with pending claims for members of a group.
    pub fn members(&self, group: ServerGroupId) -> impl Iterator<Item = Slot> + '_ {
        self.entries.values().filter(move |entry| entry.group == Some(group)).map(|entry| entry.slot)
    }

    /// The pending claims on a host's NUMA cells.
    pub fn fitted(&self, slot: Slot) -> impl Iterator<Item = &[FittedNumaCell]> {
        self.entries.values().filter(move |entry| entry.slot == slot).map(|entry| entry.fitted.as_slice())
    }

    /// The PCI devices of a host in pending claims.
    pub fn devices(&self, slot: Slot) -> impl Iterator<Item = &HeldPciDevice> {
        self.entries.values().filter(move |entry| entry.slot == slot).flat_map(|entry| &entry.devices)
    }

    fn load(&mut self, entry: &PendingClaim) {
        self.touched.insert(entry.slot);
        let burden = self.burdens.entry(entry.slot).or_default();
        burden.servers += 1;
        for (class, amount) in &entry.resources {
            *burden.resources.entry(class.clone()).or_default() += amount;
        }
        for held in &entry.elsewhere {
            let of = self.elsewhere.entry(held.provider).or_default();
            for (class, amount) in &held.resources {
                *of.entry(class.clone()).or_default() += amount;
            }
        }
    }

    fn rebuild(&mut self) {
        self.touched = Slots::default();
        self.burdens.clear();
        self.elsewhere.clear();
        let entries = std::mem::take(&mut self.entries);
        for entry in entries.values() {
            self.load(entry);
        }
        self.entries = entries;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entry(slot: Slot) -> PendingClaim {
        let resources = vec![("VCPU".to_owned(), 2)];
        PendingClaim {
            slot,
            server: None,
            resources,
            elsewhere: vec![],
            fitted: vec![],
            devices: vec![],
            group: None,
            claimed_at: None,
            placed_at: None,
        }
    }

    #[test]
    fn claims_in_the_read_models_are_not_pending() {
        let mut pending = PendingClaims::default();
        let (first, second) = (pending.add(entry(3)), pending.add(entry(3)));
        let cpus = |pending: &PendingClaims| {
            pending.on(3).map(|burden| (burden.servers, burden.resources.get("VCPU").copied()))
        };
        assert_eq!(cpus(&pending), Some((2, Some(4))));
        pending.claimed(first, Position(7));
        pending.forget(Position(6));
        assert_eq!(cpus(&pending), Some((2, Some(4))));
        pending.forget(Position(7));
        assert_eq!(cpus(&pending), Some((2, Some(2))), "the read models show the claim, but not the placement");
        pending.placed(first, Position(8));
        pending.forget(Position(8));
        assert_eq!(cpus(&pending), Some((1, Some(2))));
        pending.remove(second);
        assert!(pending.on(3).is_none() && pending.is_empty());
    }

    #[test]
    fn a_claim_that_takes_nothing_of_its_host_is_forgotten_too() {
        let provider = ProviderId(uuid::Uuid::from_u128(9));
        let elsewhere = vec![Allocation { provider, resources: vec![("VGPU".to_owned(), 1)] }];
        let mut pending = PendingClaims::default();
        let ticket = pending.add(PendingClaim { resources: vec![], elsewhere, ..entry(3) });
        assert_eq!(pending.of_provider(provider, "VGPU"), 1);
        pending.claimed(ticket, Position(7));
        pending.forget(Position(7));
        assert_eq!(pending.of_provider(provider, "VGPU"), 0);
    }

    #[test]
    fn a_claim_of_devices_alone_is_forgotten_too() {
        let device = HeldPciDevice { address: "0000:81:00.1".parse().unwrap(), alias: "gpu".to_owned(), tracked: None };
        let mut pending = PendingClaims::default();
        let ticket = pending.add(PendingClaim { resources: vec![], devices: vec![device], ..entry(3) });
        assert_eq!(pending.devices(3).count(), 1);
        pending.claimed(ticket, Position(7));
        pending.forget(Position(7));
        assert_eq!(pending.devices(3).count(), 0);
    }
}
