//! Adopts allocations: the resources of providers that servers, migrations and other consumers hold.
//!
//! An allocation whose server or migration is neither adopted nor left out would hold capacity for ever, so it stops
//! the adoption.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::envelope::Timestamp;
use chronova_events::ids::{ConsumerId, InstanceId, ProcessId, ProjectId, ProviderId, UserId};
use chronova_events::ledger::{Allocation, Claimed, ConsumerAdopted, GroupMemberPlaced, LedgerEvent};
use uuid::Uuid;

use super::history::HistoryPart;
use super::providers::{names, stream};
use super::report::AdoptedThing;
use super::{Adoption, REPAIR_ROW, Unadoptable};
use crate::nova::database::{rows, rows_by};
use crate::nova::rows::NovaRow;

/// The tables that resolve the numbers in the rows of consumers and allocations, and the allocations by consumer.
struct ClaimParts<'a> {
    providers: BTreeMap<&'a str, &'a str>,
    classes: BTreeMap<&'a str, &'a str>,
    projects: BTreeMap<&'a str, &'a str>,
    users: BTreeMap<&'a str, &'a str>,
    types: BTreeMap<&'a str, &'a str>,
    allocations: BTreeMap<&'a str, Vec<NovaRow<'a>>>,
    /// The servers of migrations. While a server moves, its migration holds the allocations of the host that it leaves.
    moving: BTreeMap<&'a str, &'a str>,
}

impl<'a> ClaimParts<'a> {
    fn of(adoption: &Adoption<'a>) -> Self {
        let database = adoption.placement();
        Self {
            providers: names(database, "resource_providers", "uuid"),
            classes: names(database, "resource_classes", "name"),
            projects: names(database, "projects", "external_id"),
            users: names(database, "users", "external_id"),
            types: names(database, "consumer_types", "name"),
            allocations: rows_by(database, "allocations", "consumer_id"),
            moving: adoption
                .cells()
                .flat_map(|(_, cell)| rows(cell, "migrations"))
                .filter_map(|row| Some((row.text("uuid")?, row.text("instance_uuid")?)))
                .collect(),
        }
    }

    /// The server to which the consumer's allocations belong. For a migration, that is the server that moves. Otherwise
    /// it is the consumer itself.
    fn server_of(&self, consumer: &'a str) -> &'a str {
        self.moving.get(consumer).copied().unwrap_or(consumer)
    }
}

/// Records the providers on which each consumer has allocations, for the check of servers.
pub(super) fn look(adoption: &mut Adoption<'_>) {
    let parts = ClaimParts::of(adoption);
    for (consumer, allocations) in &parts.allocations {
        let of =
            allocations.iter().filter_map(|row| parts.providers.get(row.text("resource_provider_id")?)?.parse().ok());
        adoption.held.insert((*consumer).to_owned(), of.collect());
    }
}

pub(super) fn adopt(adoption: &mut Adoption<'_>) {
    let parts = ClaimParts::of(adoption);
    let mut seen = BTreeSet::new();
    for row in rows(adoption.placement(), "consumers") {
        let id = row.text("uuid").unwrap_or("?");
        if !parts.allocations.contains_key(id) {
            continue;
        }
        adoption.report.see(AdoptedThing::Consumer, id, "");
        if adoption.report.leaves_out(AdoptedThing::Consumer, id) || is_left_out(adoption, &parts, id) {
            continue;
        }
        if !seen.insert(id) {
            adoption.report.obstacle(AdoptedThing::Consumer, id, "its UUID occurs twice", REPAIR_ROW);
            continue;
        }
        let claim = claim(&row, &parts).and_then(|(claimed, adopted)| {
            refuse_orphan(adoption, parts.server_of(id), &claimed)?;
            Ok((claimed, adopted))
        });
        match claim {
            Ok((claimed, adopted)) => record(adoption, claimed, adopted),
            Err(error) => adoption.report.obstacle(AdoptedThing::Consumer, id, error.reason, error.way_out),
        }
    }
    without_consumer(adoption, &parts, &seen);
    for adopted in std::mem::take(&mut adoption.adopted_providers) {
        let (at, meta) = (adopted.updated_at, adoption.meta.clone());
        adoption.history.push(HistoryPart::Claims, stream(), at, &meta, LedgerEvent::from(adopted));
    }
}

/// Whether the server of these allocations is left out. If so, the report says that the allocations are left out, too.
fn is_left_out<'a>(adoption: &mut Adoption<'a>, parts: &ClaimParts<'a>, id: &'a str) -> bool {
    let of = parts.server_of(id);
    let server = adoption.choices.leave_out.iter().any(|left| left == of);
    if server {
        let reason = "its server is left out";
        adoption.report.find(AdoptedThing::Consumer, id, super::AdoptionVerdict::LeftOut, reason, "");
    }
    server
}

/// Reports allocations without a row in `consumers`. Placement itself does not show them.
fn without_consumer<'a>(adoption: &mut Adoption<'a>, parts: &ClaimParts<'a>, seen: &BTreeSet<&str>) {
    let known: BTreeSet<&str> = rows(adoption.placement(), "consumers").filter_map(|row| row.text("uuid")).collect();
    for id in parts.allocations.keys().filter(|id| !seen.contains(*id) && !known.contains(*id)) {
        adoption.report.see(AdoptedThing::Consumer, id, "");
        if !adoption.report.leaves_out(AdoptedThing::Consumer, id) && !is_left_out(adoption, parts, id) {
            let reason = "it has allocations, and no row in consumers";
            adoption.report.obstacle(
                AdoptedThing::Consumer,
                id,
                reason,
                "run placement-manage db online_data_migrations",
            );
        }
    }
}

fn claim(row: &NovaRow<'_>, parts: &ClaimParts<'_>) -> Result<(Claimed, ConsumerAdopted), Unadoptable> {
    let id = row.required_uuid("uuid")?.to_string();
    let named = |by: &BTreeMap<&str, &str>, column: &str, wanted| {
        let found = row.text(column).and_then(|number| by.get(number).map(|name| (*name).to_owned()));
        found.ok_or_else(|| row.wrong(column, wanted))
    };
    let consumer_type = match row.words("consumer_type_id") {
        None => None,
        Some(_) => Some(named(&parts.types, "consumer_type_id", "the number of a consumer type")?),
    };
    let mut by_provider: BTreeMap<ProviderId, BTreeMap<String, u64>> = BTreeMap::new();
    for row in parts.allocations.get(row.required("uuid")?).into_iter().flatten() {
        let provider = row.text("resource_provider_id").and_then(|number| parts.providers.get(number)?.parse().ok());
        let class = row.text("resource_class_id").and_then(|number| parts.classes.get(number));
        let (provider, class): (ProviderId, _) = (
            provider.ok_or_else(|| row.wrong("resource_provider_id", "the number of a provider"))?,
            class.ok_or_else(|| row.wrong("resource_class_id", "the number of a resource class"))?,
        );
        let held = by_provider.entry(provider).or_default().entry((*class).to_owned()).or_default();
        *held = held.saturating_add(row.small("used")?.into());
    }
    let allocations = by_provider.into_iter();
    let claimed = Claimed {
        consumer: ConsumerId::new(&id),
        project: ProjectId::new(named(&parts.projects, "project_id", "the number of a project")?),
        user: UserId::new(named(&parts.users, "user_id", "the number of a user")?),
        consumer_type,
        allocations: allocations
            .map(|(provider, amounts)| Allocation { provider, resources: amounts.into_iter().collect() })
            .collect(),
    };
    let adopted = ConsumerAdopted {
        consumer: claimed.consumer.clone(),
        generation: row.count("generation")?.unwrap_or(0),
        created_at: row.created_at()?,
        updated_at: row.updated_at()?,
    };
    Ok((claimed, adopted))
}

/// Refuses an orphan: an allocation of a server or migration that Chronova does not adopt.
fn refuse_orphan(adoption: &Adoption<'_>, server: &str, claimed: &Claimed) -> Result<(), Unadoptable> {
    let foreign = claimed.consumer_type.as_deref().is_some_and(|kind| !matches!(kind, "INSTANCE" | "MIGRATION"));
    let uuid: Option<Uuid> = claimed.consumer.as_str().parse().ok();
    let is_ours = uuid.is_some_and(|uuid| {
        adoption.servers.contains_key(&InstanceId(uuid)) || adoption.moves.contains_key(&ProcessId(uuid))
    });
    // The report already names the server as the obstacle, so it does not name the allocation.
    let waits = adoption.report.is_in_the_way(AdoptedThing::Server, server);
    if is_ours || foreign || waits {
        return Ok(());
    }
    let way_out = "delete it (nova-manage placement audit --delete), or leave it out";
    Err(Unadoptable::new("orphan allocation: no server and no open migration has this id", way_out))
}

fn record(adoption: &mut Adoption<'_>, claimed: Claimed, adopted: ConsumerAdopted) {
    let (at, meta) = (adopted.updated_at, adoption.meta.clone());
    let member = member(adoption, &claimed);
    let mut push = |at: Timestamp, event: LedgerEvent| {
        adoption.history.push(HistoryPart::Claims, stream(), at, &meta, event);
    };
    push(at, claimed.into());
    if let Some(member) = member {
        push(at, member.into());
    }
    push(at, adopted.into());
}

/// The event that records the server as a placed member of its group, so that the next claim keeps the group's policy.
fn member(adoption: &Adoption<'_>, claimed: &Claimed) -> Option<GroupMemberPlaced> {
    let server = claimed.consumer.as_str().parse().map(InstanceId).ok()?;
    let group = *adoption.strict_groups.get(&server)?;
    let host = adoption.servers.get(&server)?.host?;
    Some(GroupMemberPlaced { group, consumer: claimed.consumer.clone(), provider: ProviderId(host.0) })
}
