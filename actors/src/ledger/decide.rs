//! The decisions of the ledger: whether a claim fits, and whether a provider may change.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::ProviderId;
use chronova_events::ledger::{
    Inventory, InventoryReplaced, Ledger, LedgerEvent, ProviderCreated, Released, ResourceClassCreated, TraitsReplaced,
};
use chronova_hypervisor::pmem::CLASS_PREFIX;

use super::commands::LedgerCommand;
use super::decision::LedgerReject;
use super::{allocations, cells, claims, inventories, mdevs, mirror, moves, names, pci, provider_config, providers};

pub fn decide(state: &Ledger, command: LedgerCommand) -> Result<Vec<LedgerEvent>, LedgerReject> {
    match command {
        LedgerCommand::Report { provider, name, inventories, traits, cells: found, pci: devices } => {
            let gpus = mdevs::reported(state, provider, &name, devices.mdevs.as_deref())?;
            let devices = pci::reported(state, provider, &name, devices)?;
            let mut events = report(state, provider, name, inventories, traits)?;
            events.extend(cells::replaced(state, provider, &found));
            events.extend(devices.into_iter().chain(gpus));
            Ok(events)
        }
        LedgerCommand::IfKnown { provider, command } => match state.providers.contains_key(&provider) {
            true => decide(state, *command),
            false => Ok(vec![]),
        },
        LedgerCommand::ApplyProviderConfig { host, configs } => match state.providers.contains_key(&host) {
            true => provider_config::applied(state, host, &configs),
            false => Ok(vec![]),
        },
        LedgerCommand::AdjustTraits { provider, add, remove } => {
            Ok(mirror::adjust_traits(state, provider, add, &remove))
        }
        LedgerCommand::AdjustAggregates { provider, add, remove } => {
            Ok(mirror::adjust_aggregates(state, provider, add, &remove))
        }
        LedgerCommand::ImposeRatios { provider, ratios } => Ok(mirror::impose_ratios(state, provider, &ratios)),
        LedgerCommand::ClaimAll { claims } => claims::admit(state, claims),
        LedgerCommand::Release { consumer } => Ok(match state.consumers.contains_key(&consumer) {
            true => vec![Released { consumer }.into()],
            false => vec![],
        }),
        LedgerCommand::SetAside { server, migration } => Ok(moves::set_aside(state, server, migration)),
        LedgerCommand::TakeBack { server, migration, host } => Ok(moves::take_back(state, &server, migration, host)),
        LedgerCommand::ClaimForPort { server, host, request } => pci::claim_for_port(state, server, host, &request),
        LedgerCommand::ReleaseOfPort { server, port } => Ok(pci::release_of_port(state, server, port)),
        LedgerCommand::SetPartAside { server, part, allocations } => {
            Ok(moves::set_part_aside(state, &server, part, allocations))
        }
        LedgerCommand::JoinPart { server, part } => Ok(moves::join_part(state, &server, part)),
        LedgerCommand::CreateProvider { provider, name, parent } => providers::create(state, provider, name, parent),
        LedgerCommand::UpdateProvider { provider, name, parent } => providers::update(state, provider, name, parent),
        LedgerCommand::DeleteProvider { provider } => providers::delete(state, provider),
        LedgerCommand::SetTraits { provider, generation, traits } => {
            providers::set_traits(state, provider, generation, traits)
        }
        LedgerCommand::SetAggregates { provider, generation, aggregates, spellings } => {
            providers::set_aggregates(state, provider, generation, aggregates, spellings)
        }
        LedgerCommand::SetInventories { provider, generation, inventories, reserve } => {
            inventories::set(state, provider, generation, inventories, reserve)
        }
        LedgerCommand::AddInventory { provider, inventory, reserve } => {
            inventories::add(state, provider, inventory, reserve)
        }
        LedgerCommand::UpdateInventory { provider, generation, inventory, reserve } => {
            inventories::update(state, provider, generation, inventory, reserve)
        }
        LedgerCommand::DeleteInventory { provider, class } => inventories::delete(state, provider, &class),
        LedgerCommand::Allocate { claims } => allocations::allocate(state, claims),
        LedgerCommand::Deallocate { consumer } => allocations::deallocate(state, consumer),
        LedgerCommand::Reshape { inventories, claims } => allocations::reshape(state, inventories, claims),
        LedgerCommand::CreateClass { name } => names::create_class(state, name),
        LedgerCommand::RenameClass { from, to } => names::rename_class(state, from, to),
        LedgerCommand::DeleteClass { name } => names::delete_class(state, name),
        LedgerCommand::CreateTrait { name } => Ok(names::create_trait(state, name)),
        LedgerCommand::DeleteTrait { name } => names::delete_trait(state, name),
    }
}

/// Whether the class is for guests with encrypted memory, or for persistent memory. As in Nova, a host that cannot have
/// such guests has no inventory of the class.
fn is_optional(class: &str) -> bool {
    class == "MEM_ENCRYPTION_CONTEXT" || class.starts_with(CLASS_PREFIX)
}

fn report(
    state: &Ledger,
    provider: ProviderId,
    name: String,
    inventories: Vec<Inventory>,
    traits: Vec<String>,
) -> Result<Vec<LedgerEvent>, LedgerReject> {
    let mut events = Vec::new();
    let known = state.providers.get(&provider);
    if known.is_none() {
        if state.named(&name).is_some() {
            return Err(LedgerReject::NameTaken(name));
        }
        events.push(ProviderCreated { provider, name, parent: None }.into());
    }
    // Custom classes and traits that others added are left alone.
    let mut merged: BTreeMap<String, Inventory> = known
        .map(|known| known.inventories.iter().map(|(class, line)| (class.clone(), line.inventory.clone())).collect())
        .unwrap_or_default();
    let before = merged.clone();
    let reported: BTreeSet<String> = inventories.iter().map(|inventory| inventory.class.clone()).collect();
    for mut inventory in inventories {
        // Keeps an existing ratio. A client of Placement has set it, or it is the class's initial ratio.
        if let Some(had) = merged.get(&inventory.class) {
            inventory.allocation_ratio = had.allocation_ratio;
        }
        merged.insert(inventory.class.clone(), inventory);
    }
    // The host no longer reports these classes of processors.
    for class in cells::CLASSES.iter().filter(|class| !reported.contains(**class)) {
        cells::give_up(state, provider, class, &mut merged);
    }
    let lost = merged.keys().filter(|class| is_optional(class) && !reported.contains(*class));
    for class in lost.cloned().collect::<Vec<_>>() {
        let used = known.and_then(|known| known.inventories.get(&class)).is_some_and(|line| line.used > 0);
        match (used, merged.get_mut(&class)) {
            // A class in use stays, but nothing more of it can be allocated.
            (true, Some(inventory)) => inventory.reserved = inventory.total,
            _ => drop(merged.remove(&class)),
        }
    }
    let unknown = reported.iter().filter(|class| !state.knows_class(class));
    events.extend(unknown.map(|class| LedgerEvent::from(ResourceClassCreated { name: class.clone() })));
    if merged != before {
        events.push(InventoryReplaced { provider, inventories: merged.into_values().collect() }.into());
    }
    let had = known.map(|known| known.traits.clone()).unwrap_or_default();
    let mut has = had.clone();
    has.extend(traits);
    if has != had {
        events.push(TraitsReplaced { provider, traits: has.into_iter().collect() }.into());
    }
    Ok(events)
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::commands::{ReportedPci, ServerClaim};
    use super::*;
    use crate::topology::host::HostNumaCells;
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;
    use chronova_events::ids::{ConsumerId, ProjectId, UserId};
    use chronova_events::ledger::{Allocation, Claimed};

    pub(in crate::ledger) fn given(commands: impl IntoIterator<Item = LedgerCommand>) -> Ledger {
        let mut state = Ledger::default();
        for command in commands {
            for event in decide(&state, command).unwrap() {
                state.evolve(&event, Timestamp(0));
            }
        }
        state
    }

    pub(in crate::ledger) fn host(total: u64) -> LedgerCommand {
        let vcpu = Inventory {
            class: "VCPU".into(),
            total,
            reserved: 0,
            min_unit: 1,
            max_unit: total,
            step_size: 1,
            allocation_ratio: 2.0,
        };
        let provider = ProviderId(uuid::Uuid::from_u128(1));
        let cells = HostNumaCells::default();
        let (name, pci) = ("h1".into(), ReportedPci::default());
        LedgerCommand::Report { provider, name, inventories: vec![vcpu], traits: vec![], cells, pci }
    }

    pub(in crate::ledger) fn claim(consumer: &str, amount: u64) -> LedgerCommand {
        let claim = Claimed {
            consumer: ConsumerId::new(consumer),
            project: ProjectId::new("p"),
            user: UserId::new("u"),
            consumer_type: None,
            allocations: vec![Allocation {
                provider: ProviderId(uuid::Uuid::from_u128(1)),
                resources: vec![("VCPU".into(), amount)],
            }],
        };
        LedgerCommand::ClaimAll { claims: vec![ServerClaim { claim, group: None, guest: None }] }
    }

    fn release(consumer: &str) -> LedgerCommand {
        LedgerCommand::Release { consumer: ConsumerId::new(consumer) }
    }

    #[test]
    fn capacity_is_total_less_reserved_times_ratio() {
        let full = given([host(2), claim("a", 2), claim("b", 2)]);
        assert!(matches!(decide(&full, claim("c", 1)), Err(LedgerReject::DoesNotFit { .. })));
        let freed = given([host(2), claim("a", 2), claim("b", 2), release("a")]);
        assert_eq!(decide(&freed, claim("c", 2)).unwrap().len(), 1);
    }

    #[test]
    fn a_host_that_reports_no_encrypted_guests_any_more_offers_none() {
        let with = |encrypted: Option<u64>| {
            let LedgerCommand::Report { provider, name, mut inventories, traits, cells, pci } = host(2) else {
                unreachable!()
            };
            let line = |total| Inventory {
                class: "MEM_ENCRYPTION_CONTEXT".into(),
                total,
                max_unit: total,
                ..inventories[0].clone()
            };
            let line = encrypted.map(line);
            inventories.extend(line);
            LedgerCommand::Report { provider, name, inventories, traits, cells, pci }
        };
        let claim = || {
            let LedgerCommand::ClaimAll { mut claims } = claim("a", 1) else { unreachable!() };
            claims[0].claim.allocations[0].resources.push(("MEM_ENCRYPTION_CONTEXT".into(), 1));
            LedgerCommand::ClaimAll { claims }
        };
        let of = |state: &Ledger| {
            let provider = &state.providers[&ProviderId(uuid::Uuid::from_u128(1))];
            provider
                .inventories
                .get("MEM_ENCRYPTION_CONTEXT")
                .map(|line| (line.inventory.total, line.inventory.reserved))
        };
        assert_eq!(of(&given([with(Some(15))])), Some((15, 0)));
        assert_eq!(of(&given([with(Some(15)), with(None)])), None);
        let used = given([with(Some(15)), claim(), with(None)]);
        assert_eq!(of(&used), Some((15, 15)), "a guest has encrypted memory");
        assert_eq!(decide(&used, with(None)), Ok(vec![]), "an unchanged report records nothing");
        assert_eq!(of(&given([with(Some(15)), claim(), with(None), with(Some(15))])), Some((15, 0)));
    }

    #[test]
    fn one_claim_may_not_exceed_max_unit() {
        assert!(matches!(decide(&given([host(2)]), claim("a", 3)), Err(LedgerReject::DoesNotFit { .. })));
    }

    #[test]
    fn repeating_is_harmless_and_a_different_claim_is_refused() {
        let state = given([host(4), claim("a", 2)]);
        assert_eq!(decide(&state, claim("a", 2)).unwrap(), vec![]);
        assert!(matches!(decide(&state, claim("a", 3)), Err(LedgerReject::HoldsOther(_))));
        assert_eq!(decide(&state, host(4)).unwrap(), vec![]);
        assert_eq!(decide(&state, release("nobody")).unwrap(), vec![]);
    }

    #[test]
    fn a_late_report_does_not_create_the_provider_of_a_removed_host() {
        let provider = ProviderId(uuid::Uuid::from_u128(1));
        let again = |total| LedgerCommand::IfKnown { provider, command: Box::new(host(total)) };
        let removed = given([host(4), LedgerCommand::DeleteProvider { provider }]);
        assert_eq!(decide(&removed, again(4)), Ok(vec![]));
        assert_eq!(decide(&Ledger::default(), again(4)), Ok(vec![]));
        let known = given([host(4)]);
        assert_eq!(decide(&known, again(8)), decide(&known, host(8)));
        assert_ne!(decide(&known, again(8)), Ok(vec![]));
    }

    #[test]
    fn an_inventory_that_shrinks_keeps_its_allocations() {
        let state = given([host(4), claim("a", 4), host(1)]);
        let line = &state.providers.values().next().unwrap().inventories["VCPU"];
        assert_eq!((line.used, line.free()), (4, 0));
    }
}
