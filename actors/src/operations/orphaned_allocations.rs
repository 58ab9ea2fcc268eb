//! Allocations whose consumer is neither a server on the provider's host nor a migration that needs them.
//!
//! Chronova's own processes leave no orphaned allocation behind. There are two causes: a heal that a crash interrupts
//! ([`heal_allocations`](super::heal_allocations)), and a client of Placement, which may claim for any consumer.

use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{ConsumerId, HostId, InstanceId, ProcessId, ProviderId};
use chronova_events::ledger::{Allocation, Consumer, Ledger};
use chronova_projections::migrations::MigrationStatus;
use chronova_projections::servers::ServerRow;
use chronova_projections::views::Views;
use thiserror::Error;

use super::{Operations, Queries};
use crate::aggregate::CommandError;
use crate::ledger::{CELL, ConsumerClaim, LedgerCommand, LedgerReject, LedgerRoot, SeenGeneration};

/// The resource classes of servers. An allocation with none of these classes belongs to another service.
const OF_SERVERS: [&str; 8] = [
    "VCPU",
    "MEMORY_MB",
    "DISK_GB",
    "VGPU",
    "NET_BW_EGR_KILOBIT_PER_SEC",
    "NET_BW_IGR_KILOBIT_PER_SEC",
    "PCPU",
    "MEM_ENCRYPTION_CONTEXT",
];

/// The resources that one consumer holds on one provider although it does not need them.
#[derive(Debug, Clone, PartialEq)]
pub struct OrphanedAllocation {
    pub consumer: ConsumerId,
    pub provider: ProviderId,
    pub resources: Vec<(String, u64)>,
}

/// Why an orphaned allocation was not removed.
#[derive(Debug, Error)]
pub enum OrphanReject {
    #[error("the allocation is not orphaned")]
    NotOrphaned,
    #[error(transparent)]
    Ledger(CommandError<LedgerReject>),
}

impl Queries {
    /// The orphaned allocations of one provider, or of all. `None` if there is no such provider.
    pub fn orphaned_allocations(&self, of: Option<ProviderId>) -> Option<Vec<OrphanedAllocation>> {
        orphaned(&self.views, of)
    }
}

/// The orphaned allocations of one provider, or of all. `None` if there is no such provider.
pub(crate) fn orphaned(views: &Views, of: Option<ProviderId>) -> Option<Vec<OrphanedAllocation>> {
    // Placement is read before the servers. A server is recorded before it claims, so the later read finds every server
    // with a claim.
    let held = views.placement.read(|view| {
        let known = of.is_none_or(|provider| view.ledger.providers.contains_key(&provider));
        known.then(|| held_of_servers(&view.ledger, of))
    })?;
    let orphaned = |(consumer, _, root): &HeldBelow| !is_needed(views, &consumer.claim.consumer, *root);
    Some(held.into_iter().filter(orphaned).map(|(consumer, at, _)| orphan(&consumer, at)).collect())
}

/// A consumer, the index of one of its allocations, and the root of this allocation's provider.
type HeldBelow = (Arc<Consumer>, usize, ProviderId);

fn held_of_servers(ledger: &Ledger, of: Option<ProviderId>) -> Vec<HeldBelow> {
    let mut all = Vec::new();
    for consumer in ledger.consumers.values() {
        for (at, held) in consumer.claim.allocations.iter().enumerate() {
            if of.is_none_or(|provider| provider == held.provider) && is_of_servers(held) {
                all.push((Arc::clone(consumer), at, ledger.root_of(held.provider)));
            }
        }
    }
    all
}

fn orphan(consumer: &Consumer, at: usize) -> OrphanedAllocation {
    let held = &consumer.claim.allocations[at];
    OrphanedAllocation {
        consumer: consumer.claim.consumer.clone(),
        provider: held.provider,
        resources: held.resources.clone(),
    }
}

impl Operations {
    /// Removes an orphaned allocation. The consumer keeps its allocations of other providers.
    ///
    /// # Errors
    /// The allocation is not orphaned (any more), or the ledger refuses.
    pub async fn remove_orphan(
        &self,
        consumer: &ConsumerId,
        provider: ProviderId,
        meta: Arc<Meta>,
    ) -> Result<Position, OrphanReject> {
        let orphans = self.queries.orphaned_allocations(Some(provider)).unwrap_or_default();
        let held = self.queries.views.placement.read(|view| view.ledger.consumers.get(consumer).cloned());
        let held = held.filter(|_| orphans.iter().any(|orphan| orphan.consumer == *consumer));
        let held = held.ok_or(OrphanReject::NotOrphaned)?;
        let claim = without(&held, provider);
        let command = LedgerCommand::Allocate { claims: vec![claim] };
        let sent = self.send::<LedgerRoot>(&CELL, command, meta).await.map_err(OrphanReject::Ledger)?;
        Ok(sent.position)
    }
}

fn is_of_servers(held: &Allocation) -> bool {
    held.resources.iter().any(|(class, _)| OF_SERVERS.contains(&class.as_str()))
}

/// Whether the consumer needs its allocation in the tree of the provider `root`. The consumer may be a server, a
/// migration, or a process that changes an interface and holds the interface's resources meanwhile.
fn is_needed(views: &Views, consumer: &ConsumerId, root: ProviderId) -> bool {
    is_migration(views, consumer) || is_process(views, consumer) || is_server(views, consumer, root)
}

fn is_process(views: &Views, consumer: &ConsumerId) -> bool {
    let Ok(id) = consumer.as_str().parse::<ProcessId>() else { return false };
    views.processes.read(|processes| processes.is_pending(id))
}

fn is_server(views: &Views, consumer: &ConsumerId, root: ProviderId) -> bool {
    let Ok(id) = consumer.as_str().parse::<InstanceId>() else { return false };
    let host = HostId(root.0);
    let is_host = views.hosts.read(|hosts| hosts.get(host).is_some());
    views.servers.read(|servers| servers.get(id).is_some_and(|row| belongs(row, host, is_host)))
}

/// Whether the server may need its allocation on `host`. A server with a task under way may need claims on any host. A
/// provider that is no host may be storage that servers of several hosts share.
fn belongs(row: &ServerRow, host: HostId, is_host: bool) -> bool {
    let Some(alive) = row.instance.alive() else { return false };
    let unsettled = alive.ongoing.is_some() || alive.building().is_some() || alive.moving.is_some();
    unsettled || !is_host || alive.placement.as_ref().is_some_and(|placed| placed.host == host)
}

fn is_migration(views: &Views, consumer: &ConsumerId) -> bool {
    use MigrationStatus::{Cancelled, Completed, Confirmed, Error, Failed, Reverted};
    let Ok(id) = consumer.as_str().parse::<ProcessId>() else { return false };
    let ended = |status| matches!(status, Cancelled | Completed | Confirmed | Error | Failed | Reverted);
    views.migrations.read(|migrations| migrations.of_process(id).is_some_and(|found| !ended(found.status)))
}

/// The consumer's claim without its part of `provider`, at the generation that was seen.
fn without(held: &Consumer, provider: ProviderId) -> ConsumerClaim {
    let claim = &held.claim;
    ConsumerClaim {
        consumer: claim.consumer.clone(),
        project: claim.project.clone(),
        user: claim.user.clone(),
        consumer_type: claim.consumer_type.clone(),
        generation: SeenGeneration::Said(Some(held.generation)),
        allocations: claim.allocations.iter().filter(|held| held.provider != provider).cloned().collect(),
    }
}
