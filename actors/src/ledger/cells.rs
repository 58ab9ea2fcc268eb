//! NUMA cells: hosts report them, and guests get parts of them.
//!
//! The ledger assigns free dedicated processors in the append that records the claim. So two claims never get the same
//! dedicated processor.

use std::collections::BTreeMap;

use chronova_events::ids::{ConsumerId, ProviderId};
use chronova_events::ledger::{FittedNumaCell, GuestFitted, Inventory, Ledger, LedgerEvent};

use super::commands::GuestClaim;
use super::decision::LedgerReject;
use crate::pci::assign::FreePci;
use crate::topology::GuestNumaTopology;
use crate::topology::fit::{CellDevices, FitLimits, fit_beside};
use crate::topology::host::HostNumaCells;
use crate::topology::usage;

/// The resource classes of processors. After a change of its configuration, a host may report a class that it did not
/// report before, or no longer report one.
pub(super) const CLASSES: [&str; 2] = ["PCPU", "VCPU"];

pub(super) fn replaced(state: &Ledger, provider: ProviderId, found: &HostNumaCells) -> Option<LedgerEvent> {
    let event = found.event(provider);
    // A host that never reported cells has none to remove.
    let known = state.cells.get(&provider).map(|known| &**known);
    let same = known.map_or(event.cells.is_empty(), |known| *known == event);
    (!same).then(|| event.into())
}

/// Removes a class that the host does not report any more. A class in use stays, but nothing more of it can be
/// allocated. If the host's last report did not have the class either, a client of Placement may have added the
/// inventory, so it stays. But if all of it is reserved, an earlier report gave it up, so it is removed when nothing of
/// it is in use.
pub(super) fn give_up(state: &Ledger, host: ProviderId, class: &str, merged: &mut BTreeMap<String, Inventory>) {
    let Some(line) = state.providers.get(&host).and_then(|known| known.inventories.get(class)) else { return };
    let told = state.cells.get(&host).is_some_and(|known| {
        known.cells.iter().any(|cell| !if class == "PCPU" { &cell.dedicated } else { &cell.shared }.is_empty())
    });
    if !told && line.inventory.reserved < line.inventory.total {
        return;
    }
    match (line.used, merged.get_mut(class)) {
        (0, _) => {
            merged.remove(class);
        }
        (_, Some(inventory)) => inventory.reserved = inventory.total,
        (_, None) => {}
    }
}

/// The part of the host's cells that a guest gets. `others`: the parts that other guests in the same command have
/// already got.
pub(super) fn fit(
    state: &Ledger,
    consumer: ConsumerId,
    (guest, topology): (&GuestClaim, &GuestNumaTopology),
    free: Option<&FreePci<'_>>,
    others: &[GuestFitted],
) -> Result<GuestFitted, LedgerReject> {
    let provider = guest.host;
    let refused = |reason: String| LedgerReject::CellsDoNotFit { host: provider, reason };
    let host = state.cells.get(&provider).ok_or_else(|| refused("the host reports no NUMA cells".to_owned()))?;
    let beside = others.iter().filter(|other| other.provider == provider).map(|other| other.cells.as_slice());
    let cells = usage::cells(&host.cells, held(state, provider).chain(beside));
    let devices = CellDevices { free, requests: &guest.devices };
    let cells = fit_beside(topology, cells, bounds(state, provider, guest.packs), devices).map_err(refused)?;
    Ok(GuestFitted { consumer, provider, cells })
}

/// The parts of the host's cells that guests already have.
pub fn held(state: &Ledger, host: ProviderId) -> impl Iterator<Item = &[FittedNumaCell]> {
    state.fitted.get(&host).into_iter().flat_map(|here| here.values()).map(|cells| cells.as_slice())
}

/// The limits for a guest on the host's cells. The allocation ratios are those of the host's inventories. With `packs`,
/// guests fill one cell after another.
pub fn bounds(state: &Ledger, host: ProviderId, packs: bool) -> FitLimits {
    let ratio = |class: &str| {
        let line = state.providers.get(&host)?.inventories.get(class)?;
        Some(line.inventory.allocation_ratio)
    };
    FitLimits { cpu_ratio: ratio("VCPU").unwrap_or(1.0), memory_ratio: ratio("MEMORY_MB").unwrap_or(1.0), packs }
}

/// The event that moves the part of the cells from `from` to `to`. `to` loses a part that it had, even if `from` has
/// none: the part belonged to the flavor that the server leaves. `None` if neither `from` nor `to` has a part.
pub(super) fn handed_over(state: &Ledger, from: &ConsumerId, to: ConsumerId) -> Option<LedgerEvent> {
    let theirs = state.fitting(from).map(|fitting| (fitting.host, fitting.cells.to_vec()));
    let (provider, cells) = theirs.or_else(|| state.fitting(&to).map(|own| (own.host, Vec::new())))?;
    Some(GuestFitted { consumer: to, provider, cells }.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::ledger::LedgerCommand::{self, ClaimAll, Release, SetAside, TakeBack};
    use crate::ledger::decide::decide;
    use crate::ledger::decide::tests::given;
    use crate::ledger::{ReportedPci, ServerClaim};
    use crate::topology::host::CpuSets;
    use crate::topology::{CpuPolicy, GuestNumaNode, GuestNumaTopology};
    use chronova_events::ledger::{Allocation, Claimed, InventoryLine};
    use chronova_hypervisor::pinning::NumaCell;
    use uuid::Uuid;

    fn id() -> ProviderId {
        ProviderId(Uuid::from_u128(1))
    }

    /// A report of a host with `dedicated` dedicated processors in one cell.
    fn host(dedicated: u32) -> LedgerCommand {
        let cell =
            NumaCell { id: 0, cpus: (0..6).collect(), siblings: vec![], memory_mib: 8192, pages: vec![(4, 2_097_152)] };
        let sets =
            CpuSets { shared: Some([4, 5].into()), dedicated: (dedicated > 0).then(|| (0..dedicated).collect()) };
        let line = |class: &str, total| Inventory {
            class: class.into(),
            total,
            reserved: 0,
            min_unit: 1,
            max_unit: total,
            step_size: 1,
            allocation_ratio: 1.0,
        };
        let lines = [line("PCPU", dedicated.into()), line("VCPU", 2)];
        LedgerCommand::Report {
            provider: id(),
            name: "h1".into(),
            inventories: lines.into_iter().filter(|line| line.total > 0).collect(),
            traits: vec![],
            cells: HostNumaCells::of(&[cell], &sets).unwrap(),
            pci: ReportedPci::default(),
        }
    }

    fn wants(server: &str, cpus: u32) -> ServerClaim {
        let resources = vec![("PCPU".to_owned(), u64::from(cpus))];
        let node = GuestNumaNode { floating: [].into(), dedicated: (0..cpus).collect(), memory_mib: 64 };
        let topology = GuestNumaTopology {
            nodes: vec![node],
            policy: CpuPolicy::Dedicated,
            threads: None,
            emulator: None,
            pages: None,
            realtime: [].into(),
            near: vec![],
        };
        ServerClaim {
            claim: Claimed {
                consumer: ConsumerId::new(server),
                project: "p".into(),
                user: "u".into(),
                consumer_type: None,
                allocations: vec![Allocation { provider: id(), resources }],
            },
            group: None,
            guest: Some(GuestClaim { host: id(), topology: Some(Arc::new(topology)), devices: vec![], packs: true }),
        }
    }

    fn claim(claims: impl IntoIterator<Item = ServerClaim>) -> LedgerCommand {
        ClaimAll { claims: claims.into_iter().collect() }
    }

    fn processors(state: &Ledger, consumer: &str) -> Vec<u32> {
        let fitting = state.fitting(&ConsumerId::new(consumer));
        fitting.iter().flat_map(|fitting| fitting.cells.iter()).flat_map(FittedNumaCell::taken).collect()
    }

    #[test]
    fn no_two_guests_get_one_processor() {
        let together = given([host(4), claim([wants("a", 2), wants("b", 2)])]);
        assert_eq!((processors(&together, "a"), processors(&together, "b")), (vec![0, 1], vec![2, 3]));
        let repeated = decide(&together, claim([wants("a", 2)])).unwrap();
        assert_eq!(repeated, vec![], "a repeated claim keeps its processor");
        let freed = given([
            host(4),
            claim([wants("a", 2), wants("b", 2)]),
            Release { consumer: ConsumerId::new("a") },
            claim([wants("c", 1)]),
        ]);
        assert_eq!((processors(&freed, "a"), processors(&freed, "c")), (vec![], vec![0]));
    }

    #[test]
    fn a_claim_that_fits_the_inventory_and_no_cell_is_refused() {
        let mut scattered = wants("a", 2);
        if let Some(guest) = &mut scattered.guest {
            let mut topology = (**guest.topology.as_ref().unwrap()).clone();
            topology.nodes = topology.nodes.into_iter().flat_map(|node| [node.clone(), node]).collect();
            guest.topology = Some(Arc::new(topology));
        }
        let refused = decide(&given([host(4)]), claim([scattered])).unwrap_err();
        assert!(matches!(refused, LedgerReject::CellsDoNotFit { .. }), "{refused}");
    }

    #[test]
    fn a_move_holds_the_processors_on_both_hosts() {
        let (server, migration) = (ConsumerId::new("s"), ConsumerId::new("m"));
        let aside = SetAside { server: server.clone(), migration: migration.clone() };
        let moved = || given([host(4), claim([wants("s", 2)]), aside.clone(), claim([wants("s", 1)])]);
        assert_eq!((processors(&moved(), "m"), processors(&moved(), "s")), (vec![0, 1], vec![2]));
        let back = given([
            host(4),
            claim([wants("s", 2)]),
            aside.clone(),
            claim([wants("s", 1)]),
            TakeBack { server, migration: migration.clone(), host: id() },
        ]);
        assert_eq!(
            (processors(&back, "m"), processors(&back, "s")),
            (vec![], vec![0, 1]),
            "the server gets its old processors back"
        );
        let done =
            given([host(4), claim([wants("s", 2)]), aside, claim([wants("s", 1)]), Release { consumer: migration }]);
        assert_eq!((processors(&done, "m"), processors(&done, "s")), (vec![], vec![2]));
        assert_eq!(done.fitted.len(), 1);
    }

    /// The resize on one host to a flavor with dedicated CPUs is reverted, so the CPUs are free again.
    #[test]
    fn a_revert_to_a_flavor_without_dedicated_cpus_frees_those_of_the_new_one() {
        let (server, migration) = (ConsumerId::new("s"), ConsumerId::new("m"));
        let plain = ServerClaim { guest: None, ..wants("s", 1) };
        let moved = [
            host(4),
            claim([plain]),
            SetAside { server: server.clone(), migration: migration.clone() },
            claim([wants("s", 2)]),
            TakeBack { server, migration, host: id() },
        ];
        let state = given(moved);
        assert_eq!(processors(&state, "s"), Vec::<u32>::new());
        assert!(state.fitted.is_empty());
    }

    #[test]
    fn a_class_that_is_not_reported_any_more_is_removed_when_unused() {
        let inventory = |state: &Ledger| state.providers[&id()].inventories.get("PCPU").map(InventoryLine::free);
        assert_eq!(inventory(&given([host(4), host(0)])), None);
        let used = given([host(4), claim([wants("a", 1)]), host(0)]);
        assert_eq!(inventory(&used), Some(0), "nothing more is allocated of the class");
        assert_eq!(decide(&used, host(0)).unwrap(), vec![], "an unchanged report records nothing");
        assert!(decide(&used, claim([wants("b", 1)])).is_err());
    }
}
