//! Adopts migrations that have ended, and resizes that wait for their confirmation. A migration under way stops the
//! adoption.

use std::collections::BTreeMap;

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::instance::InstanceRoot;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{FlavorId, HostId, InstanceId, ProcessId, ProjectId, UserId};
use chronova_events::instance::{
    AdoptedEnd, AdoptedMove, AdoptedOutcome, FlavorSnapshot, InstanceEvent, LiveProgress, MigrationAdopted, MoveKind,
    Placed,
};
use serde_json::Value;

use super::hosts::AdoptedHosts;
use super::report::AdoptedThing;
use super::{Adoption, Unadoptable};
use crate::nova::database::{live_rows, rows};
use crate::nova::objects;
use crate::nova::rows::NovaRow;

/// The statuses of a migration that has ended.
const OVER: &[&str] = &["confirmed", "reverted", "completed", "done", "error", "failed", "cancelled"];

/// Refuses a server that is being moved.
pub(super) fn at_rest(rows: &[NovaRow<'_>]) -> Result<(), Unadoptable> {
    for row in rows.iter().filter(|row| !row.is_deleted()) {
        let status = row.text("status").unwrap_or("unknown");
        if OVER.contains(&status) || status == "finished" {
            continue;
        }
        let (kind, id) = (row.text("migration_type").unwrap_or("migration"), row.text("uuid").unwrap_or("?"));
        let reason = format!("its {kind} {id} is {status}");
        return Err(Unadoptable::new(reason, "wait until it ends, or abort it and wait"));
    }
    Ok(())
}

/// The move of a resized server, and the time since which it waits for its confirmation.
pub(super) fn resting(
    instance: InstanceId,
    rows: &[NovaRow<'_>],
    flavors: &Value,
    target: &Placed,
    hosts: &AdoptedHosts,
    old_vm_state: Option<&str>,
) -> Result<(AdoptedMove, Timestamp), Unadoptable> {
    let way_out = "confirm or revert the resize, or leave the server out";
    let finished = rows.iter().rev().find(|row| row.text("status") == Some("finished") && !row.is_deleted());
    let row = finished.ok_or_else(|| Unadoptable::new("it is resized, and no migration of it is finished", way_out))?;
    let flavor = |which: &str| -> Result<FlavorSnapshot, Unadoptable> {
        objects::flavor(&flavors[which])
            .map_err(|_| Unadoptable::new(format!("it is resized, and its {which} flavor is not known"), way_out))
    };
    let kind = match row.text("migration_type") {
        Some("migration") => MoveKind::Migrate,
        _ => MoveKind::Resize,
    };
    let source = row.required("source_compute")?;
    let from = hosts.find(source, row.words("source_node"));
    let from =
        from.ok_or_else(|| Unadoptable::new(format!("it was moved from {source}, which is not adopted"), way_out))?;
    let migration = match row.uuid("uuid")? {
        Some(uuid) => ProcessId(uuid),
        None => ProcessId::derive(instance.0, "adopted move"),
    };
    let moved = AdoptedMove {
        migration,
        kind,
        was_active: old_vm_state.is_none_or(|state| state == "active"),
        source: Placed { host: from.id, hostname: from.hostname.clone(), ..target.clone() },
        target: target.clone(),
        old_flavor: flavor("old")?,
        new_flavor: flavor("cur")?,
    };
    Ok((moved, row.updated_at()?))
}

/// The rows of each server, oldest first.
pub(super) fn by_server<'a>(rows: impl Iterator<Item = NovaRow<'a>>) -> BTreeMap<&'a str, Vec<NovaRow<'a>>> {
    let mut by: BTreeMap<&str, Vec<NovaRow<'a>>> = BTreeMap::new();
    for row in rows {
        if let Some(server) = row.text("instance_uuid") {
            by.entry(server).or_default().push(row);
        }
    }
    by
}

/// Adopts the migrations of adopted servers, in the order of their numbers.
pub(super) fn adopt(adoption: &mut Adoption<'_>) {
    let flavors: BTreeMap<&str, &str> =
        rows(adoption.api(), "flavors").filter_map(|row| Some((row.text("id")?, row.text("flavorid")?))).collect();
    let mut all = Vec::new();
    for (_, database) in adoption.cells() {
        for row in live_rows(database, "migrations").filter(|row| !row.flag("hidden")) {
            let known = row.uuid("instance_uuid").ok().flatten().map(InstanceId);
            let Some(server) = known.filter(|server| adoption.servers.contains_key(server)) else { continue };
            let id = row.words("uuid").or(row.text("id")).unwrap_or("?");
            adoption.report.see(AdoptedThing::Migration, id, row.text("migration_type").unwrap_or_default());
            if adoption.report.leaves_out(AdoptedThing::Migration, id) {
                continue;
            }
            match migration(&row, server, &flavors, &adoption.hosts) {
                Ok(adopted) => all.push((server, adopted)),
                Err(error) => adoption.report.obstacle(AdoptedThing::Migration, id, error.reason, error.way_out),
            }
        }
    }
    all.sort_by_key(|(_, adopted)| adopted.number);
    for (server, adopted) in all {
        let (stream, meta) = (InstanceRoot::stream(&server), adoption.meta.clone());
        adoption.history.push_last(stream, adopted.updated_at, &meta, InstanceEvent::from(adopted));
    }
}

fn migration(
    row: &NovaRow<'_>,
    server: InstanceId,
    flavors: &BTreeMap<&str, &str>,
    hosts: &AdoptedHosts,
) -> Result<MigrationAdopted, Unadoptable> {
    let number = row.small("id")?;
    let flavor = |column: &str| {
        let number = row.text(column).unwrap_or_default();
        // A purged flavor has no id any more, so its number takes the place of the id.
        FlavorId::new(flavors.get(number).copied().unwrap_or(number))
    };
    let (old_flavor, new_flavor) = (flavor("old_instance_type_id"), flavor("new_instance_type_id"));
    let kind = match row.text("migration_type") {
        Some("migration") => MoveKind::Migrate,
        Some("live-migration") => MoveKind::Live,
        Some("evacuation") => MoveKind::Evacuate,
        Some("resize") => MoveKind::Resize,
        _ if old_flavor == new_flavor => MoveKind::Migrate,
        _ => MoveKind::Resize,
    };
    let outcome = match row.required("status")? {
        "finished" => AdoptedOutcome::Finished,
        "confirmed" => AdoptedOutcome::Confirmed,
        "reverted" => AdoptedOutcome::Reverted,
        "completed" => AdoptedOutcome::Completed,
        "done" => AdoptedOutcome::Done,
        "error" => AdoptedOutcome::Error,
        "failed" => AdoptedOutcome::Failed,
        "cancelled" => AdoptedOutcome::Cancelled,
        // If a server is deleted during a migration, the migration never ends in Nova. It counts as failed.
        _ => AdoptedOutcome::Failed,
    };
    let amount = |column: &str| row.count(column).map(Option::unwrap_or_default);
    let id =
        row.uuid("uuid")?.map_or_else(|| ProcessId::derive(server.0, &format!("adopted move {number}")), ProcessId);
    Ok(MigrationAdopted {
        migration: id,
        number: number.into(),
        kind,
        outcome,
        source: end(hosts, row.required("source_compute")?, row.words("source_node")),
        target: row.words("dest_compute").map(|service| end(hosts, service, row.words("dest_node"))),
        old_flavor,
        new_flavor,
        user: row.words("user_id").map(UserId::new),
        project: row.words("project_id").map(ProjectId::new),
        created_at: row.created_at()?,
        updated_at: row.updated_at()?,
        progress: LiveProgress {
            memory_total: amount("memory_total")?,
            memory_processed: amount("memory_processed")?,
            memory_remaining: amount("memory_remaining")?,
            disk_total: amount("disk_total")?,
            disk_processed: amount("disk_processed")?,
            disk_remaining: amount("disk_remaining")?,
        },
    })
}

/// A host that is not adopted keeps its name, and gets an id that no other host has.
fn end(hosts: &AdoptedHosts, service: &str, node: Option<&str>) -> AdoptedEnd {
    match hosts.find(service, node) {
        Some(host) => AdoptedEnd { host: host.id, hostname: host.hostname.clone() },
        None => {
            let hostname = node.unwrap_or(service).to_owned();
            AdoptedEnd { host: HostId::derive(uuid::Uuid::nil(), &hostname), hostname }
        }
    }
}
