//! `chronova adopt`: takes over a running Nova without touching its guests.
//!
//! The command reads the databases of Nova and Placement, judges each object in them, and writes one log. The log has
//! the same ids and times, so the API answers as Nova did. `docs/from-nova.md` lists the differences. Each kind of
//! object has a file that turns its rows into events.
//!
//! An adoption is complete or does nothing: one obstacle stops it, unless the operator leaves the object out. The
//! command writes the log into a folder beside the data folder. When the log is complete, that folder replaces the data
//! folder. Guests, disks, ports and volumes do not change, because the command connects to no host.

mod actions;
mod aggregates;
mod args;
mod cells;
mod claims;
pub mod compare;
mod disks;
mod flavors;
mod groups;
mod history;
mod hosts;
mod keypairs;
mod migrations;
mod nics;
mod providers;
mod quotas;
mod report;
mod servers;
mod sources;
mod undo;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, ProcessId, ServerGroupId};
use chronova_events::ledger::ProviderAdopted;

use super::{CommandFailure, Exit, LogPlace};
use crate::nova::database::{NovaDatabase, NovaDatabases};
use crate::nova::objects::NovaObjectError;
use crate::nova::rows::NovaValueError;
use hosts::AdoptedHosts;
use servers::AdoptedServer;

pub use args::{AdoptArgs, DEFAULT_MAX_MEMORY, DEFAULT_URI, ReportForm};
pub use history::AdoptionHistory;
pub use report::{AdoptedThing, AdoptionFinding, AdoptionReport, AdoptionVerdict};
pub use sources::{AdoptionChange, AdoptionReading, AdoptionSource, RunningService};
pub(super) use undo::adopted_until;

/// The choices of the operator.
#[derive(Debug, Clone)]
pub struct AdoptionChoices {
    pub leave_out: Vec<String>,
    pub uri: String,
}

impl Default for AdoptionChoices {
    fn default() -> Self {
        Self { leave_out: Vec::new(), uri: DEFAULT_URI.to_owned() }
    }
}

/// Why a row cannot be adopted, in words for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unadoptable {
    reason: String,
    way_out: &'static str,
}

impl Unadoptable {
    fn new(reason: impl Into<String>, way_out: &'static str) -> Self {
        Self { reason: reason.into(), way_out }
    }
}

const REPAIR_ROW: &str = "repair the row, or leave it out";

impl From<NovaValueError> for Unadoptable {
    fn from(error: NovaValueError) -> Self {
        Self::new(error.to_string(), REPAIR_ROW)
    }
}

impl From<NovaObjectError> for Unadoptable {
    fn from(error: NovaObjectError) -> Self {
        Self::new(error.to_string(), REPAIR_ROW)
    }
}

/// The state of an adoption while it judges the databases.
struct Adoption<'a> {
    databases: &'a NovaDatabases,
    choices: &'a AdoptionChoices,
    history: AdoptionHistory,
    report: AdoptionReport,
    meta: Arc<Meta>,
    hosts: AdoptedHosts,
    servers: BTreeMap<InstanceId, AdoptedServer>,
    /// The migrations that have allocations of their own in Placement, with their servers.
    moves: BTreeMap<ProcessId, InstanceId>,
    /// The servers of groups with a policy that a claim must not break.
    strict_groups: BTreeMap<InstanceId, ServerGroupId>,
    /// The adopted providers. Their generations are known only when all allocations are read.
    adopted_providers: Vec<ProviderAdopted>,
    /// The providers on which each consumer has allocations. A server on a host must be among the consumers.
    held: BTreeMap<String, BTreeSet<uuid::Uuid>>,
}

impl<'a> Adoption<'a> {
    fn api(&self) -> &'a dyn NovaDatabase {
        self.databases.api.as_ref()
    }

    fn placement(&self) -> &'a dyn NovaDatabase {
        self.databases.placement.as_ref()
    }

    /// The databases of the cells with a name for each: cell 0 first.
    fn cells(&self) -> impl Iterator<Item = (String, &'a dyn NovaDatabase)> + use<'a> {
        let databases = self.databases;
        let others = databases.cells.iter().enumerate();
        std::iter::once(("cell0".to_owned(), databases.cell0.as_ref()))
            .chain(others.map(|(number, cell)| (format!("cell {}", number + 1), cell.as_ref())))
    }
}

/// Judges a cloud, and collects the events of its log. The log is complete only if the report is clear.
pub fn judge(databases: &NovaDatabases, choices: &AdoptionChoices) -> (AdoptionReport, AdoptionHistory) {
    let mut adoption = Adoption {
        databases,
        choices,
        history: AdoptionHistory::default(),
        report: AdoptionReport::new(choices.leave_out.iter().cloned()),
        meta: Meta::system(undo::ADOPTER),
        hosts: AdoptedHosts::default(),
        servers: BTreeMap::new(),
        moves: BTreeMap::new(),
        strict_groups: BTreeMap::new(),
        adopted_providers: Vec::new(),
        held: BTreeMap::new(),
    };
    cells::check(&mut adoption);
    flavors::adopt(&mut adoption);
    keypairs::adopt(&mut adoption);
    quotas::adopt(&mut adoption);
    hosts::adopt(&mut adoption);
    aggregates::adopt(&mut adoption);
    providers::adopt(&mut adoption);
    claims::look(&mut adoption);
    servers::adopt(&mut adoption);
    groups::adopt(&mut adoption);
    claims::adopt(&mut adoption);
    migrations::adopt(&mut adoption);
    (adoption.report, adoption.history)
}

/// Reads the databases that the arguments name, and judges the cloud. A row that changed meanwhile is an obstacle. If
/// the log is `kept`, a service of Nova that may still run is an obstacle, too.
async fn read_and_judge(args: &AdoptArgs, kept: bool) -> Result<(AdoptionReport, AdoptionHistory), CommandFailure> {
    let mut reading = AdoptionReading::open(args).await?;
    reading.begin().await?;
    let databases = reading.read().await?;
    reading.begin().await?;
    let changes = reading.changes(&databases).await?;
    let choices = AdoptionChoices { leave_out: args.leave_out.clone(), uri: args.uri.clone() };
    let (mut report, history) = judge(&databases, &choices);
    unrest(&mut report, &changes);
    if kept {
        for RunningService { database, service, seconds } in reading.running(&databases) {
            let reason = format!("{service} reported {seconds} s ago");
            report.obstacle(AdoptedThing::Cell, &database, reason, "stop it, and wait for a minute");
        }
    }
    reading.close().await;
    Ok((report, history))
}

/// The report names this many changes of each database.
const MOST_CHANGES: usize = 20;

/// Reports the rows that changed while the databases were read.
pub fn unrest(report: &mut AdoptionReport, changes: &[AdoptionChange]) {
    let mut by: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for AdoptionChange { database, change } in changes {
        by.entry(database).or_default().push(format!("while it was read, {change}"));
    }
    for (database, mut reasons) in by {
        if let Some(more @ 1..) = reasons.len().checked_sub(MOST_CHANGES) {
            reasons.truncate(MOST_CHANGES);
            reasons.push(format!("while it was read, {more} more rows changed"));
        }
        for reason in reasons {
            let way_out = "stop Nova's services, then run adopt again; a check may be repeated without that";
            report.obstacle(AdoptedThing::Cell, database, reason, way_out);
        }
    }
}

/// Undoes an adoption, or judges the cloud and writes its log. With `--check` or `--dry-run`, writes no log.
pub async fn run(args: &AdoptArgs, place: &LogPlace, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    place.in_file("adopt")?;
    let data = &place.data;
    if args.undo {
        // The lock keeps every control plane from opening the log until the log is set aside.
        let log = place.lock().await?;
        return undo::run(data, log.store(), out).await;
    }
    let writes = !args.check && !args.compare.dry_run;
    if writes {
        write::is_free(data)?;
    }
    let (report, history) = read_and_judge(args, writes).await?;
    if args.compare.dry_run && report.is_clear() {
        return Box::pin(compare::run(&args.compare, args.output, history, out)).await;
    }
    match args.output {
        ReportForm::Table => report.print(out)?,
        ReportForm::Json => writeln!(out, "{}", report.json())?,
    }
    if !report.is_clear() {
        if writes {
            writeln!(out, "nothing was written")?;
        }
        return Ok(Exit::No);
    }
    if writes {
        let events = history.len();
        write::log(data, history).await?;
        if args.output == ReportForm::Table {
            writeln!(out, "adopted: {events} events in {}", data.log().display())?;
        }
    }
    Ok(Exit::Yes)
}
