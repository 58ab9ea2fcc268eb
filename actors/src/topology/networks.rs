//! The NUMA affinity of networks: the cells of hosts that are near the cards of a network.
//!
//! Nova: `_numa_cells_support_network_metadata`. A guest with NUMA nodes must have a node near each of its networks.
//! One of a network's cells is enough, as in Nova's code. Nova's documentation demands all of them. A network without
//! cells on a host restricts nothing there.

use std::collections::{BTreeMap, BTreeSet};

/// The operator's options. Nova has a configuration file on each host. Here, one file serves all hosts, so the numbers of
/// cells are the same on each host that has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkCells {
    /// `[neutron_physnet_NAME] numa_nodes` of each name in `[neutron] physnets`.
    pub physical: BTreeMap<String, BTreeSet<u32>>,
    /// `[neutron_tunnel] numa_nodes`.
    pub tunnels: BTreeSet<u32>,
}

/// The means by which hosts carry a network.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkCarrier {
    /// A physical network, of this name.
    Physical(String),
    /// Tunnels between hosts (`vxlan`, `gre`, `geneve`).
    Tunnel,
}

impl NetworkCarrier {
    /// `None`: the carrier of the network is unknown. Both arguments are attributes in Neutron: `provider:network_type`
    /// and `provider:physical_network`.
    pub fn of(network_type: &str, physical_network: Option<&str>) -> Option<Self> {
        match (physical_network, network_type) {
            (Some(name), _) => Some(Self::Physical(name.to_owned())),
            (None, "vxlan" | "gre" | "geneve") => Some(Self::Tunnel),
            (None, _) => None,
        }
    }
}

/// The cells that are near a network of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearCells {
    /// The network in words.
    pub network: String,
    pub cells: BTreeSet<u32>,
}

impl NetworkCells {
    pub fn is_empty(&self) -> bool {
        self.physical.is_empty() && self.tunnels.is_empty()
    }

    /// The cells near a guest whose networks have these carriers.
    pub fn near(&self, carriers: &BTreeSet<NetworkCarrier>) -> Vec<NearCells> {
        let of = |carrier: &NetworkCarrier| {
            let (network, cells) = match carrier {
                NetworkCarrier::Physical(name) => (format!("physical network {name}"), self.physical.get(name)?),
                NetworkCarrier::Tunnel => ("tunnelled networks".to_owned(), &self.tunnels),
            };
            (!cells.is_empty()).then(|| NearCells { network, cells: cells.clone() })
        };
        carriers.iter().filter_map(of).collect()
    }
}

/// Whether the cell is near one of the networks.
pub(super) fn is_near(near: &[NearCells], cell: u32) -> bool {
    near.iter().any(|network| network.cells.contains(&cell))
}

/// Checks that a guest on the cells `chosen` of a host with the cells `all` is near each of its networks.
///
/// # Errors
/// The network that the guest is not near.
pub(super) fn admit(near: &[NearCells], all: &[u32], chosen: &[u32]) -> Result<(), String> {
    for NearCells { network, cells } in near {
        let is_there = |on: &[u32]| on.iter().any(|cell| cells.contains(cell));
        if is_there(all) && !is_there(chosen) {
            let cells: Vec<String> = cells.iter().map(u32::to_string).collect();
            return Err(format!("networks: no node of the guest is on a cell near {network} ({})", cells.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::ledger::{FittedNumaCell, HostNumaCell, HostPages};

    use super::*;
    use crate::topology::fit::{FitLimits, fit};
    use crate::topology::{CpuPolicy, GuestNumaNode, GuestNumaTopology, usage};

    /// A host with cells of four dedicated processors.
    fn host(cells: u32) -> Vec<HostNumaCell> {
        let cell = |id: u32| HostNumaCell {
            id,
            shared: vec![],
            dedicated: (4 * id..4 * id + 4).collect(),
            siblings: vec![],
            memory_mib: 4096,
            pages: vec![HostPages { kib: 4, total: 1 << 20 }],
        };
        (0..cells).map(cell).collect()
    }

    /// A guest with nodes of one dedicated CPU, on these networks.
    fn guest(nodes: u32, options: &NetworkCells, carriers: &[NetworkCarrier]) -> GuestNumaTopology {
        let node = |id: u32| GuestNumaNode { floating: [].into(), dedicated: [id].into(), memory_mib: 64 };
        GuestNumaTopology {
            nodes: (0..nodes).map(node).collect(),
            policy: CpuPolicy::Dedicated,
            threads: None,
            emulator: None,
            pages: None,
            realtime: [].into(),
            near: options.near(&carriers.iter().cloned().collect()),
        }
    }

    fn on(host: &[HostNumaCell], guest: &GuestNumaTopology, taken: &[FittedNumaCell]) -> Result<Vec<u32>, String> {
        let cells = usage::cells(host, [taken].into_iter());
        Ok(fit(guest, cells, FitLimits::default())?.into_iter().map(|fitted| fitted.cell).collect())
    }

    /// All processors of a cell, which a guest has.
    fn full(cell: u32) -> FittedNumaCell {
        FittedNumaCell {
            cell,
            floating: vec![],
            pinned: (0..4).map(|cpu| (cpu, 4 * cell + cpu)).collect(),
            emulator: vec![],
            memory_mib: 64,
            page_kib: None,
        }
    }

    fn physical(name: &str) -> NetworkCarrier {
        NetworkCarrier::Physical(name.to_owned())
    }

    /// The example of Nova's documentation: `foo` is at cell 0, and `bar` at the cells 2 and 3.
    fn options() -> NetworkCells {
        NetworkCells {
            physical: [("foo".to_owned(), [0].into()), ("bar".to_owned(), [2, 3].into())].into(),
            tunnels: [1].into(),
        }
    }

    #[test]
    fn a_guest_with_nodes_is_near_each_of_its_networks() {
        let (options, host) = (options(), host(4));
        let of = |nodes: u32, carriers: &[NetworkCarrier]| on(&host, &guest(nodes, &options, carriers), &[]);
        assert_eq!(of(1, &[]), Ok(vec![0]));
        assert_eq!(of(1, &[physical("foo")]), Ok(vec![0]));
        assert_eq!(of(1, &[physical("bar")]), Ok(vec![2]));
        assert_eq!(of(1, &[NetworkCarrier::Tunnel]), Ok(vec![1]));
        assert_eq!(of(2, &[physical("foo"), physical("bar")]), Ok(vec![0, 2]), "one node is near each network");
        let refused = of(1, &[physical("foo"), physical("bar")]).unwrap_err();
        assert!(refused.contains("no node of the guest is on a cell near physical network"), "{refused}");
        assert_eq!(of(1, &[physical("other")]), Ok(vec![0]), "the operator says nothing of this network");
        let away = on(&host, &guest(1, &options, &[physical("bar")]), &[full(2)]);
        assert_eq!(away, Ok(vec![3]), "another cell of the network has room");
        let crowded = on(&host, &guest(1, &options, &[physical("foo")]), &[full(0)]).unwrap_err();
        assert!(crowded.ends_with("near physical network foo (0)"), "{crowded}");
    }

    #[test]
    fn a_network_without_cells_on_a_host_restricts_nothing_there() {
        let small = host(2);
        assert_eq!(on(&small, &guest(1, &options(), &[physical("bar")]), &[]), Ok(vec![0]));
        assert_eq!(on(&small, &guest(2, &options(), &[physical("bar"), NetworkCarrier::Tunnel]), &[]), Ok(vec![0, 1]));
    }

    #[test]
    fn a_physical_network_or_tunnels_carry_a_network() {
        for kind in ["flat", "vlan"] {
            assert_eq!(NetworkCarrier::of(kind, Some("foo")), Some(physical("foo")));
        }
        for kind in ["vxlan", "gre", "geneve"] {
            assert_eq!(NetworkCarrier::of(kind, None), Some(NetworkCarrier::Tunnel));
        }
        assert_eq!(NetworkCarrier::of("local", None), None);
    }
}
