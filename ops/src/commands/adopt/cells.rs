//! Checks that the databases have the necessary tables and every server that Nova maps to a cell, and that Nova
//! schedules no server at the moment.

use std::collections::BTreeSet;

use super::Adoption;
use super::report::AdoptedThing;
use crate::nova::database::rows;

/// A database without one of these tables is refused, because it is another database.
const API: &[&str] = &["flavors", "instance_mappings", "request_specs", "cell_mappings"];
const CELL: &[&str] = &["instances", "compute_nodes", "services", "block_device_mapping", "instance_extra"];
const PLACEMENT: &[&str] = &["resource_providers", "inventories", "allocations", "consumers"];

pub(super) fn check(adoption: &mut Adoption<'_>) {
    let databases =
        [("nova_api".to_owned(), adoption.api(), API), ("placement".to_owned(), adoption.placement(), PLACEMENT)];
    let cells: Vec<_> = adoption.cells().map(|(name, cell)| (name, cell, CELL)).collect();
    for (name, database, tables) in databases.into_iter().chain(cells) {
        adoption.report.see(AdoptedThing::Cell, &name, "");
        for table in tables.iter().filter(|table| database.table(table).is_none()) {
            let reason = format!("the database has no table {table}");
            adoption.report.obstacle(AdoptedThing::Cell, &name, reason, "give the dump of this database, all tables");
        }
    }
    builds(adoption);
    mappings(adoption);
}

/// Refuses servers that Nova has not scheduled yet: they are in no cell.
fn builds(adoption: &mut Adoption<'_>) {
    for row in rows(adoption.api(), "build_requests") {
        let id = row.text("instance_uuid").unwrap_or("?");
        adoption.report.see(AdoptedThing::Server, id, "");
        if !adoption.report.leaves_out(AdoptedThing::Server, id) {
            let reason = "it is being scheduled (build_requests)";
            adoption.report.obstacle(AdoptedThing::Server, id, reason, "wait until it is built, or delete it");
        }
    }
}

/// Checks that a cell has each server that a user can see.
fn mappings(adoption: &mut Adoption<'_>) {
    let known: BTreeSet<&str> = adoption
        .cells()
        .flat_map(|(_, cell)| rows(cell, "instances").filter_map(|row| row.text("uuid")))
        .chain(rows(adoption.api(), "build_requests").filter_map(|row| row.text("instance_uuid")))
        .collect();
    for row in rows(adoption.api(), "instance_mappings") {
        let id = row.text("instance_uuid").unwrap_or("?");
        if known.contains(id) || row.flag("queued_for_delete") {
            continue;
        }
        adoption.report.see(AdoptedThing::Server, id, "");
        if !adoption.report.leaves_out(AdoptedThing::Server, id) {
            let reason = "instance_mappings names it, and no cell has it";
            adoption.report.obstacle(AdoptedThing::Server, id, reason, "give the dump of its cell, or delete the row");
        }
    }
}
