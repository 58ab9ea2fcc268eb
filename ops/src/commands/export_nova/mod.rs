//! `chronova export nova`: the way back to Nova after the first change.
//!
//! The command compares the log at the end of the adoption with the log now. It writes the differences as SQL for
//! Nova's and Placement's databases, which still have the rows of the adoption. It lists each change that the SQL
//! cannot express. If there is such a change, the command writes files only with `--partial`.
//!
//! The statements name rows by UUIDs, because the log does not have the numbers of rows. In a cell without the server,
//! a statement changes nothing. So the same file is for every cell.

mod allocations;
mod servers;
mod sql;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use chronova_events::envelope::{Cause, Position};
use chronova_events::ids::{ConsumerId, HostId, InstanceId, ProcessId};
use chronova_events::store::EventStore;
use clap::Args;

use super::{CommandFailure, Exit, adopt, log_pages, rebuild};
use sql::SqlFile;

#[derive(Debug, Args)]
pub struct NovaExportArgs {
    /// The folder of the SQL files, which must not exist.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Write the files although some changes cannot be written; they are listed.
    #[arg(long)]
    pub partial: bool,
}

/// The SQL of an export, and the changes that it lacks.
#[derive(Debug, Default)]
struct NovaExport {
    /// For cell 0 and for each cell.
    cells: SqlFile,
    api: SqlFile,
    placement: SqlFile,
    /// The number of servers and consumers whose changes are written.
    written: usize,
    lacks: Vec<String>,
    /// Servers and migrations that the SQL leaves out. Their allocations are left out, too.
    unwritten: BTreeSet<ConsumerId>,
    /// The hosts of the adoption. Nova does not know any other host.
    hosts: BTreeSet<HostId>,
}

impl NovaExport {
    /// Notes that the changes of a server are not written.
    fn lacks_server(&mut self, id: InstanceId, migrations: impl IntoIterator<Item = ProcessId>, lack: String) {
        self.unwritten.insert(ConsumerId::new(id.to_string()));
        self.unwritten.extend(migrations.into_iter().map(|id| ConsumerId::new(id.to_string())));
        self.lacks.push(lack);
    }
}

/// Events that need no SQL of their own. They follow from exported changes of servers and consumers, or Nova computes
/// their effect itself.
const FOLLOWING: [&str; 13] = [
    // Records of access change nothing.
    "access.",
    "instance.",
    "ledger.claimed",
    "ledger.released",
    "ledger.allocations_replaced",
    "ledger.group_member_placed",
    "ledger.guest_fitted",
    "ledger.pci_devices_claimed",
    "process.",
    "quota.reserved",
    "quota.released",
    "quota.adjusted",
    "quota.claim",
];

/// The kinds of changes by users that no SQL is written for, with their numbers.
async fn others(store: &dyn EventStore, after: Position) -> Result<BTreeMap<String, usize>, CommandFailure> {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    log_pages::walk(store, after, Position::END, |event| {
        let by_user = matches!(event.meta.cause, Cause::User { .. });
        if by_user && !FOLLOWING.iter().any(|known| event.kind.starts_with(known)) {
            *kinds.entry(event.kind.to_string()).or_default() += 1;
        }
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    Ok(kinds)
}

async fn compare(store: &dyn EventStore) -> Result<NovaExport, CommandFailure> {
    let adopted = adopt::adopted_until(store).await?;
    let before = rebuild::fold(store, adopted).await?;
    let now = rebuild::fold(store, Position::END).await?;
    let hosts = before.hosts.read(|hosts| hosts.all().map(|host| host.id).collect());
    let mut export = NovaExport { hosts, ..NovaExport::default() };
    let ids: BTreeSet<_> = now.servers.read(|servers| servers.all().map(|row| row.id).collect());
    for id in ids {
        let row = |views: &chronova_projections::views::Views| views.servers.read(|servers| servers.get(id).cloned());
        match (row(&before), row(&now)) {
            (Some(before), Some(now)) => servers::export(&before, &now, &mut export),
            (None, Some(now)) if now.instance.alive().is_some() => {
                let name = now.server().map_or("", |server| server.request.name.as_str());
                let lack = format!("server {id} ({name}) was created here: delete it, or create it again in Nova");
                export.lacks_server(id, servers::migration(&now), lack);
            }
            _ => {}
        }
    }
    let ledger = |views: &chronova_projections::views::Views| views.placement.read(|view| view.ledger.clone());
    allocations::export(&ledger(&before), &ledger(&now), &mut export);
    for (kind, count) in others(store, adopted).await? {
        export.lacks.push(format!("{count} events {kind}: repeat the change in Nova"));
    }
    Ok(export)
}

/// Writes the files into a folder beside `out`, and renames it. They have personal data and secrets of users, so only
/// their owner may read them.
fn write(out: &Path, export: &NovaExport) -> Result<(), CommandFailure> {
    let failed = |path: &Path, error| CommandFailure::File { path: path.to_owned(), error };
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(".writing");
    let making = out.with_file_name(name);
    DirBuilder::new().mode(0o700).create(&making).map_err(|error| failed(&making, error))?;
    let files = [("cells.sql", &export.cells), ("nova_api.sql", &export.api), ("placement.sql", &export.placement)];
    for (name, file) in files {
        let path = making.join(name);
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = created.and_then(|mut to| to.write_all(file.text().as_bytes()).and_then(|()| to.sync_all()));
        written.map_err(|error| failed(&path, error))?;
    }
    std::fs::rename(&making, out).map_err(|error| failed(out, error))
}

pub async fn run(args: &NovaExportArgs, store: &dyn EventStore, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    if args.out.exists() {
        return Err(CommandFailure::Usage(format!("{} exists: name a new folder", args.out.display())));
    }
    let export = compare(store).await?;
    for lack in &export.lacks {
        writeln!(out, "not written: {lack}")?;
    }
    if !export.lacks.is_empty() && !args.partial {
        writeln!(
            out,
            "nothing was written: resolve the changes above, or accept with --partial that Nova does not get them"
        )?;
        return Ok(Exit::No);
    }
    write(&args.out, &export)?;
    writeln!(out, "{} changes of servers and consumers are in {}", export.written, args.out.display())?;
    Ok(Exit::Yes)
}
