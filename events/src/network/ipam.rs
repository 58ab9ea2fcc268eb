//! Finds the free addresses of a subnet.
//!
//! The free addresses of the pools are stored as disjoint intervals. So the cost of finding, allocating and releasing
//! an address is logarithmic in the number of gaps, whatever the size of the subnet. An allocation takes the first free
//! address after the last allocated address. So a released address is reused as late as possible, because other guests
//! may still remember its former owner.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::payloads::AllocationPool;
use crate::ids::PortId;

/// The addresses of one subnet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Ipam {
    /// The free addresses of the pools, as intervals from first to last address. Intervals do not overlap. They touch
    /// only where two pools touch.
    free: BTreeMap<IpAddr, IpAddr>,
    /// The port that holds each address, in a pool or not.
    held: BTreeMap<IpAddr, PortId>,
    pools: Vec<AllocationPool>,
    /// The next search begins at this address. It follows the address that the last search chose.
    cursor: Option<IpAddr>,
}

impl Ipam {
    pub fn new(pools: Vec<AllocationPool>) -> Self {
        let mut ipam = Self::default();
        ipam.set_pools(pools);
        ipam
    }

    /// Replaces the pools. Held addresses stay held.
    pub fn set_pools(&mut self, pools: Vec<AllocationPool>) {
        self.free.clear();
        for pool in &pools {
            self.free.insert(pool.start, pool.end);
        }
        self.pools = pools;
        for address in self.held.keys().copied().collect::<Vec<_>>() {
            self.remove_free(address);
        }
    }

    /// The address that is allocated next.
    pub fn next(&self) -> Option<IpAddr> {
        let Some(cursor) = self.cursor else { return self.free.keys().next().copied() };
        match self.interval_of(cursor) {
            Some(_) => Some(cursor),
            None => self.free.range(cursor..).next().or_else(|| self.free.iter().next()).map(|(start, _)| *start),
        }
    }

    pub fn holder(&self, address: IpAddr) -> Option<PortId> {
        self.held.get(&address).copied()
    }

    pub fn held(&self) -> impl Iterator<Item = (&IpAddr, &PortId)> {
        self.held.iter()
    }

    pub fn held_count(&self) -> usize {
        self.held.len()
    }

    pub fn take(&mut self, address: IpAddr, port: PortId) {
        if self.next() == Some(address) {
            self.cursor = successor(address);
        }
        self.held.insert(address, port);
        self.remove_free(address);
    }

    pub fn give_back(&mut self, address: IpAddr) {
        if self.held.remove(&address).is_none() || !self.in_pools(address) {
            return;
        }
        // Two pools may touch, so a joined interval may span two pools. This is harmless: all its addresses are in a
        // pool.
        let mut interval = (address, address);
        if let Some(before) = predecessor(address)
            && let Some((start, _)) = self.interval_of(before)
        {
            self.free.remove(&start);
            interval.0 = start;
        }
        if let Some(after) = successor(address)
            && let Some(end) = self.free.remove(&after)
        {
            interval.1 = end;
        }
        self.free.insert(interval.0, interval.1);
    }

    fn in_pools(&self, address: IpAddr) -> bool {
        self.pools.iter().any(|pool| pool.start <= address && address <= pool.end)
    }

    fn interval_of(&self, address: IpAddr) -> Option<(IpAddr, IpAddr)> {
        let (start, end) = self.free.range(..=address).next_back()?;
        (address <= *end).then_some((*start, *end))
    }

    fn remove_free(&mut self, address: IpAddr) {
        let Some((start, end)) = self.interval_of(address) else { return };
        self.free.remove(&start);
        if let Some(before) = predecessor(address)
            && start <= before
        {
            self.free.insert(start, before);
        }
        if let Some(after) = successor(address)
            && after <= end
        {
            self.free.insert(after, end);
        }
    }
}

fn successor(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => u32::from(v4).checked_add(1).map(|n| Ipv4Addr::from(n).into()),
        IpAddr::V6(v6) => u128::from(v6).checked_add(1).map(|n| Ipv6Addr::from(n).into()),
    }
}

fn predecessor(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => u32::from(v4).checked_sub(1).map(|n| Ipv4Addr::from(n).into()),
        IpAddr::V6(v6) => u128::from(v6).checked_sub(1).map(|n| Ipv6Addr::from(n).into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn v4(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn port(n: u32) -> PortId {
        PortId(uuid::Uuid::from_u128(u128::from(n)))
    }

    #[test]
    fn a_freed_address_is_reused_last() {
        let mut ipam = Ipam::new(vec![AllocationPool { start: v4(2), end: v4(4) }]);
        for n in 2..=3 {
            let next = ipam.next().unwrap();
            assert_eq!(next, v4(n));
            ipam.take(next, port(u32::from(n)));
        }
        ipam.give_back(v4(2));
        assert_eq!(ipam.next(), Some(v4(4)));
        ipam.take(v4(4), port(4));
        assert_eq!(ipam.next(), Some(v4(2)));
        ipam.take(v4(2), port(2));
        assert_eq!(ipam.next(), None);
    }

    #[test]
    fn addresses_outside_the_pools_are_held_but_never_given_out() {
        let mut ipam = Ipam::new(vec![AllocationPool { start: v4(10), end: v4(10) }]);
        ipam.take(v4(99), port(1));
        assert_eq!(ipam.holder(v4(99)), Some(port(1)));
        ipam.give_back(v4(99));
        ipam.take(v4(10), port(1));
        assert_eq!(ipam.next(), None);
    }

    proptest! {
        /// The model is a set of held addresses.
        #[test]
        fn never_gives_out_twice(steps in prop::collection::vec((0_u8..4, 0_u8..=40), 1..200)) {
            let pools = vec![AllocationPool { start: v4(2), end: v4(9) }, AllocationPool { start: v4(10), end: v4(12) }, AllocationPool { start: v4(20), end: v4(31) }];
            let in_pool = |n: u8| (2..=12).contains(&n) || (20..=31).contains(&n);
            let mut ipam = Ipam::new(pools.clone());
            let mut held = BTreeSet::new();
            for (n, (what, last)) in (0_u32..).zip(steps) {
                match what {
                    0 | 1 => match ipam.next() {
                        Some(address) => {
                            prop_assert!(held.insert(address), "{address} was held");
                            ipam.take(address, port(n));
                        }
                        None => prop_assert!((0..=40).filter(|n| in_pool(*n)).all(|n| held.contains(&v4(n)))),
                    },
                    2 if !held.contains(&v4(last)) => {
                        held.insert(v4(last));
                        ipam.take(v4(last), port(n));
                    }
                    _ => {
                        held.remove(&v4(last));
                        ipam.give_back(v4(last));
                    }
                }
                prop_assert_eq!(ipam.held().map(|(a, _)| *a).collect::<BTreeSet<_>>(), held.clone());
                let mut rebuilt = ipam.clone();
                rebuilt.set_pools(pools.clone());
                let free = |ipam: &Ipam| (0..=40).map(v4).filter(|a| ipam.interval_of(*a).is_some()).collect::<Vec<_>>();
                prop_assert_eq!(free(&rebuilt), free(&ipam));
            }
        }
    }
}
