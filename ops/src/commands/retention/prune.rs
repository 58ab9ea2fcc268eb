//! `chronova log prune`: moves old events out of the log's file into the archive.
//!
//! | step | does | after a crash |
//! |---|---|---|
//! | reach | finds how far events may leave: policy, newest checkpoint, legal holds | nothing has changed |
//! | prove | rebuilds the read models from the log, and compares them with the checkpoint | nothing has changed |
//! | archive | continues the archive | the next run goes on after the last whole segment |
//! | keep | writes a snapshot of each stream that a start may load, and compares it | the snapshots stay, and change nothing |
//! | move | compares some thousand events in the archive with the file, removes them from the file, repeats | the next run goes on |
//!
//! The checkpoint is proved because the next starts depend on it: without it, they fold the archived events again. For
//! the same reason the states of streams are kept ([`super::states`]).

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use chronova_events::envelope::{Position, Timestamp};
use chronova_events::place::PlaceAddress;
use chronova_events::store::sqlite::retention::MovePace;
use chronova_events::store::sqlite::{ReadOnlyLog, SqliteStore};
use chronova_events::store::{EventStore, StoreError};
use chronova_projections::checkpoint::OpenedViews;

use super::super::audit::archive::{extend, manifests};
use super::super::log_place::LockedLog;
use super::super::moments::MomentArg;
use super::super::progress_line::ProgressLine;
use super::super::rebuild::{RebuildArgs, compare};
use super::super::{CommandFailure, DataDir, Exit, LogPlace};
pub use super::reach::RetentionPolicy;
use super::reach::{LogFacts, PruneReach};
use super::states;
use crate::config::event_store::EventStoreAddress;

/// The number of differences between checkpoint and log that are shown.
const DIFFERENCES: usize = 5;

#[derive(Debug, Clone, Default, clap::Args)]
#[command(group(clap::ArgGroup::new("policy").required(true).multiple(true).args(["older_than", "keep_size"])))]
pub struct LogPruneArgs {
    /// Move events that are older: 90d, or a time before which they were recorded
    #[arg(long, value_name = "AGE|TIME")]
    pub older_than: Option<MomentArg>,
    /// Move the oldest events until the used part of the log's file has at most this size: 10GiB, 500MiB
    #[arg(long, value_name = "SIZE")]
    pub keep_size: Option<KeptSize>,
    /// The archive's folder, or s3://BUCKET/PREFIX [default: retention_archive of the configuration, the archive that the
    /// log names, or `archive` in the data directory]
    #[arg(long, value_name = "PLACE")]
    pub archives: Option<PlaceAddress>,
    /// Sign the manifests with this private key, in PEM: see `chronova audit keygen` [default:
    /// retention_sign_key of the configuration]
    #[arg(long, value_name = "FILE")]
    pub sign_key: Option<PathBuf>,
    /// Only say which events would be moved
    #[arg(long)]
    pub dry_run: bool,
}

/// A size on the command line, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptSize(pub u64);

impl FromStr for KeptSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("", 0)];
        let found = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(*unit)?, *shift)));
        let size = found.and_then(|(number, shift)| number.trim().parse::<u64>().ok()?.checked_mul(1 << shift));
        size.map(Self).ok_or_else(|| format!("`{text}` is no size: give 10GiB, 500MiB or a number of bytes"))
    }
}

/// A run on an open log.
#[derive(Debug)]
pub struct LogPrune<'a> {
    pub log: &'a Arc<SqliteStore>,
    pub data: &'a DataDir,
    /// The complete address of the archive, unless the log names one.
    pub archives: Option<PlaceAddress>,
    pub sign_key: Option<&'a Path>,
    pub policy: RetentionPolicy,
    /// Fewer events than this stay in the file.
    pub least: u64,
    pub pace: MovePace,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PruneEnd {
    /// No event may leave the file.
    Nothing,
    /// This many events left the file.
    Moved(u64),
    /// The checkpoint differs from the log, so nothing was moved.
    Different,
}

/// Moves the events that `args` select.
pub async fn run(
    args: &LogPruneArgs,
    place: &LogPlace,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    in_file(place)?;
    let policy = RetentionPolicy {
        before: args.older_than.map(|when| when.resolve(now)),
        keep_bytes: args.keep_size.map(|KeptSize(bytes)| bytes),
        at_most: None,
    };
    if args.dry_run {
        return plan(&place.data, policy, out).await;
    }
    let log = lock(place).await?;
    let archives = args.archives.clone().or_else(|| place.retention_archive.clone());
    let archives = archives.map(|address| address.completed(&place.s3)).transpose();
    let archives = archives.map_err(CommandFailure::Usage)?;
    let sign_key = args.sign_key.as_deref().or(place.retention_key.as_deref());
    let run =
        LogPrune { log: &log, data: &place.data, archives, sign_key, policy, least: 1, pace: MovePace::default() };
    let done = run.run(now, out).await;
    log.close().await;
    match done? {
        PruneEnd::Nothing | PruneEnd::Moved(_) => Ok(Exit::Yes),
        PruneEnd::Different => Ok(Exit::No),
    }
}

/// Refuses a log in a database.
pub fn in_file(place: &LogPlace) -> Result<(), CommandFailure> {
    match place.engine {
        EventStoreAddress::Sqlite => Ok(()),
        EventStoreAddress::Postgres(_) => Err(CommandFailure::Usage(
            "a log in PostgreSQL keeps all its events: only a log in SQLite can read its first events from an archive"
                .to_owned(),
        )),
    }
}

/// Opens the log for writing.
pub async fn lock(place: &LogPlace) -> Result<Arc<SqliteStore>, CommandFailure> {
    match place.lock().await {
        Ok(LockedLog::File(log)) => Ok(log),
        Ok(LockedLog::Database(_)) => in_file(place).and(Err(CommandFailure::Store(StoreError::Closed))),
        Err(CommandFailure::Store(locked @ StoreError::Locked { .. })) => Err(CommandFailure::Usage(format!(
            "{locked}: a running server moves old events by itself, see [chronova] retention_days and retention_size"
        ))),
        Err(failure) => Err(failure),
    }
}

/// Says which events would be moved.
async fn plan(data: &DataDir, policy: RetentionPolicy, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let log = ReadOnlyLog::open(data.log())?;
    let facts = LogFacts { archived: log.archived().await?, size: log.size().await? };
    let opened = checkpoint(data, &*log, out).await?;
    PruneReach::of(&*log, &facts, &opened, policy).await?.tell(out)?;
    tell_size(&facts, out)?;
    writeln!(out, "nothing was moved: this was a dry run")?;
    Ok(Exit::Yes)
}

/// The newest checkpoint of this log.
async fn checkpoint(
    data: &DataDir,
    store: &dyn EventStore,
    out: &mut dyn Write,
) -> Result<OpenedViews, CommandFailure> {
    let opened = data.checkpoints(store)?.open(store).await;
    let opened = opened.map_err(|error| CommandFailure::Usage(error.to_string()))?;
    for remark in opened.remarks() {
        writeln!(out, "{remark}")?;
    }
    Ok(opened)
}

fn tell_size(facts: &LogFacts, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let size = facts.size;
    writeln!(out, "the log's file uses {} bytes, and has {} bytes for later events", size.used, size.free)?;
    Ok(())
}

impl LogPrune<'_> {
    /// Moves the events that the policy names, and tells the steps.
    pub async fn run(&self, now: Timestamp, out: &mut dyn Write) -> Result<PruneEnd, CommandFailure> {
        let store: &dyn EventStore = &**self.log;
        self.name_archive(out).await?;
        states::renew(self.log).await?;
        let facts = self.facts().await?;
        let opened = checkpoint(self.data, store, out).await?;
        let holds = store.holds()?;
        let reach = PruneReach::of(store, &facts, &opened, self.policy).await?;
        reach.tell(out)?;
        let (Some(found), true) = (&opened.from, reach.events() >= self.least.max(1)) else {
            return Ok(PruneEnd::Nothing);
        };
        let args = RebuildArgs { replace: false, limit: DIFFERENCES };
        if compare(&args, store, &opened, found, out).await? != Exit::Yes {
            writeln!(out, "nothing was moved: `chronova rebuild --replace` writes a right checkpoint")?;
            return Ok(PruneEnd::Different);
        }
        let here = || PlaceAddress::Folder(self.data.archive());
        let address = self.archives.clone().or(facts.archived.archive).unwrap_or_else(here);
        let archive = self.data.open_place(&address)?;
        let _locked = extend(store, &*archive, reach.to.0, now, (self.sign_key, &mut *out)).await?;
        // An older program moved events without keeping the states of their streams.
        let unkept = if facts.archived.first.is_some() { reach.from } else { Position::START };
        let kept = states::keep(self.log, unkept, reach.to).await?;
        writeln!(out, "kept: the states of {kept} streams are in the file")?;
        let mut progress = ProgressLine::new("moves events into the archive", reach.from.0, reach.to.0);
        let tell = |at: Position| {
            progress.at(at.0);
            // A hold that was set meanwhile may keep the next events.
            if store.holds().is_ok_and(|now| now == holds) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let end = if store.holds()? == holds {
            self.log.move_at_pace(reach.to, archive, self.pace, tell).await?.position
        } else {
            reach.from
        };
        drop(progress);
        if end < reach.to {
            writeln!(out, "stopped at position {end}: the legal holds have changed; run the command again")?;
        }
        writeln!(out, "moved: positions 1 to {end} are in {address}")?;
        tell_size(&self.facts().await?, out)?;
        Ok(PruneEnd::Moved(end.0.saturating_sub(reach.from.0)))
    }

    /// Notes another address in the log, if the archive was moved there.
    async fn name_archive(&self, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let (Some(address), known) = (&self.archives, self.log.archived().await?) else { return Ok(()) };
        let whole = match address {
            PlaceAddress::Folder(folder) => std::path::absolute(folder).ok().map(PlaceAddress::Folder),
            in_s3 @ PlaceAddress::S3(_) => Some(in_s3.clone()),
        };
        let is_there = address.folder().is_none_or(Path::is_dir);
        if known.archive.is_none() || known.archive == whole || !is_there {
            return Ok(());
        }
        let archive = self.data.open_place(address)?;
        if manifests(&*archive)?.last().is_some_and(|newest| newest.last >= known.end.position.0) {
            self.log.move_to_archive(known.end.position, archive, |_| ControlFlow::Continue(())).await?;
            writeln!(out, "the log reads its archive in {address} from now on")?;
        }
        Ok(())
    }

    async fn facts(&self) -> Result<LogFacts, CommandFailure> {
        Ok(LogFacts { archived: self.log.archived().await?, size: self.log.size().await? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!("10GiB".parse(), Ok(KeptSize(10 << 30)));
        assert_eq!("500 MiB".parse(), Ok(KeptSize(500 << 20)));
        assert_eq!("4096".parse(), Ok(KeptSize(4_096)));
        for wrong in ["", "GiB", "10GB", "-1", "99999999TiB"] {
            assert!(wrong.parse::<KeptSize>().is_err(), "{wrong}");
        }
    }
}
