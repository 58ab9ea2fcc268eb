//! Checks that each database has all tables, that every cell is given, and that each cell has the servers that Nova
//! maps to it. Also checks that Nova schedules no server at the moment.

use std::collections::BTreeSet;

use super::Adoption;
use super::report::AdoptedThing;
use crate::nova::connections::CELL0;
use crate::nova::database::{live_rows, rows};
use crate::nova::schema::{API_TABLES, CELL_TABLES, PLACEMENT_TABLES};

pub(super) fn check(adoption: &mut Adoption<'_>) {
    let databases = [
        ("nova_api".to_owned(), adoption.api(), API_TABLES),
        ("placement".to_owned(), adoption.placement(), PLACEMENT_TABLES),
    ];
    let cells: Vec<_> = adoption.cells().map(|(name, cell)| (name, cell, CELL_TABLES)).collect();
    for (name, database, tables) in databases.into_iter().chain(cells) {
        adoption.report.see(AdoptedThing::Cell, &name, "");
        // A dump lacks the tables that its account may not read.
        for table in tables.iter().filter(|table| database.table(table.name).is_none()) {
            let reason = format!("the database has no table {}", table.name);
            adoption.report.obstacle(AdoptedThing::Cell, &name, reason, "give the dump of this database, all tables");
        }
    }
    all_given(adoption);
    builds(adoption);
    mappings(adoption);
}

/// The name of the list of cells in the report.
const MAPPED: &str = "cell_mappings";

/// Refuses a list of databases that lacks a cell. Otherwise nothing would show that a cell without servers is missing,
/// and its hosts would be lost.
fn all_given(adoption: &mut Adoption<'_>) {
    let mapped = live_rows(adoption.api(), MAPPED).filter(|row| row.text("uuid") != Some(CELL0)).count();
    let given = adoption.databases.cells.len();
    if mapped == given {
        return;
    }
    adoption.report.see(AdoptedThing::Cell, MAPPED, "");
    if !adoption.report.leaves_out(AdoptedThing::Cell, MAPPED) {
        let reason = format!("it names {mapped} cells besides cell 0, and {given} are given");
        adoption.report.obstacle(AdoptedThing::Cell, MAPPED, reason, "give --cell for each, or delete the unused cell");
    }
}

/// Refuses servers that Nova has not scheduled yet, because they are in no cell.
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
