//! The operator's commands that read the log: `audit`, `inspect`, `rebuild`. `host` calls the running server.
//!
//! They work beside a running server (the log is opened for reading only) and change no event. Exit codes for scripts:
//! 0 yes, 1 no (not found, not equal), 2 the command failed. Each command is a function of a store and a writer, so
//! that golden files can check its output.

pub mod audit;
pub mod host;
pub mod inspect;
pub mod log_pages;
pub mod policy;
pub mod rebuild;
pub mod schedule;
pub mod verify;
pub mod when;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chronova_events::clock::{Clock, SystemClock};
use chronova_events::envelope::Recorded;
use chronova_events::registry::DecodeError;
use chronova_events::sealed::SealError;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::sqlite::{ReadOnlyLog, SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, StoreError};
use chronova_projections::checkpoint::{CheckpointOptions, Checkpoints};
use chronova_projections::runner::ProjectionError;
use thiserror::Error;

/// Where things are in the data directory.
#[derive(Debug, Clone)]
pub struct DataDir(pub PathBuf);

impl DataDir {
    /// The event log.
    pub fn log(&self) -> PathBuf {
        self.0.join("log.db")
    }

    /// The keys of the log's personal fields.
    pub fn keys(&self) -> PathBuf {
        self.0.join("log.db.keys")
    }

    /// The archive of the log, unless another folder is named.
    pub fn archive(&self) -> PathBuf {
        self.0.join("archive")
    }

    /// The folder of the read models' checkpoint.
    pub fn views(&self) -> PathBuf {
        self.0.join("views")
    }

    /// The keys of the checkpoints: those of the log, or, where the log has none, a file of their own.
    pub fn keys_of_views(&self, store: &dyn EventStore) -> Result<Arc<KeyRing>, SealError> {
        match store.keys() {
            Some(keys) => Ok(Arc::clone(keys)),
            None => KeyRing::open(self.0.join("views.keys")),
        }
    }

    /// The checkpoints of the read models of the log `store`.
    pub fn checkpoints(&self, store: &dyn EventStore) -> Result<Arc<Checkpoints>, CommandFailure> {
        let keys = self.keys_of_views(store).map_err(StoreError::from)?;
        Ok(Checkpoints::new(self.views(), CheckpointOptions::default(), keys))
    }
}

/// Why a command failed, as text for people.
#[derive(Debug, Error)]
pub enum CommandFailure {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the event at position {position} cannot be read")]
    Decode {
        position: u64,
        #[source]
        source: DecodeError,
    },
    #[error("the read models cannot be built")]
    ReadModels(#[from] ProjectionError),
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
    #[error("{0}")]
    Usage(String),
}

impl CommandFailure {
    fn decode(recorded: &Recorded, source: DecodeError) -> Self {
        Self::Decode { position: recorded.position.0, source }
    }
}

/// The exit code that a script reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Yes = 0,
    No = 1,
    /// The command failed.
    Failed = 2,
}

/// The commands with their arguments.
#[derive(Debug)]
pub enum OperatorCommand {
    Audit(audit::AuditArgs),
    AuditErase(audit::erase::EraseArgs),
    AuditExport(audit::export::ExportArgs),
    AuditVerifyExport(audit::export::ExportVerifyArgs),
    AuditKeygen(audit::export::keys::ExportKeysArgs),
    AuditArchive(audit::archive::ArchiveArgs),
    AuditVerifyArchive(audit::archive::ArchiveVerifyArgs),
    Inspect(inspect::InspectArgs),
    Rebuild(rebuild::RebuildArgs),
    Verify(verify::VerifyArgs),
    Head(verify::HeadArgs),
    Schedule(Box<(schedule::ScheduleArgs, schedule::Rules)>),
}

/// Runs a command on the log in `data`, with its output on standard output and its errors on standard error.
pub async fn run(command: OperatorCommand, data: &DataDir) -> Exit {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match execute(command, data, &mut out).await.and_then(|exit| Ok(out.flush().map(|()| exit)?)) {
        Ok(exit) => exit,
        // `chronova audit | head`: the reader has closed the pipe.
        Err(CommandFailure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Yes,
        Err(failure) => {
            let mut text = format!("chronova: {failure}");
            let mut cause = std::error::Error::source(&failure);
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            // There is nowhere to report a failure of this.
            let _ = writeln!(io::stderr(), "{text}");
            Exit::Failed
        }
    }
}

async fn execute(command: OperatorCommand, data: &DataDir, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let now = SystemClock.now();
    match command {
        OperatorCommand::Audit(audit::AuditArgs { archive: Some(folder), .. }) if !folder.is_dir() => {
            Err(CommandFailure::Usage(format!("{} is no folder", folder.display())))
        }
        OperatorCommand::Audit(args) if args.archive.is_some() => {
            let keys = KeyRing::open_read_only(data.keys()).map_err(StoreError::from)?;
            audit::archive::list(&args, &args.archive.clone().unwrap_or_default(), &keys, now, out)
        }
        OperatorCommand::AuditExport(args) => audit::export::run(&args, &*read(&data.log())?, now, out).await,
        OperatorCommand::AuditVerifyExport(args) => audit::export::verify(&args, out),
        OperatorCommand::AuditKeygen(args) => audit::export::keys::run(&args, out),
        OperatorCommand::AuditArchive(args) => {
            let folder = args.out.clone().unwrap_or_else(|| data.archive());
            audit::archive::run(&args, &*read(&data.log())?, &folder, now, out).await
        }
        OperatorCommand::AuditVerifyArchive(args) => {
            let folder = args.folder.unwrap_or_else(|| data.archive());
            let store = if data.log().exists() { Some(read(&data.log())?) } else { None };
            audit::archive::verify(store.as_deref(), &folder, out).await
        }
        OperatorCommand::Audit(args) => audit::run(&args, &*read(&data.log())?, now, out).await,
        OperatorCommand::AuditErase(args) => {
            let store = lock(&data.log()).await.map_err(|error| match error {
                StoreError::Locked { .. } => CommandFailure::Usage(format!(
                    "{error}: while a server runs, ask it instead, with POST /chronova/v1/erasures"
                )),
                error => error.into(),
            })?;
            let checkpoints = data.checkpoints(&*store)?;
            audit::erase::run(&args, store, checkpoints, out).await
        }
        OperatorCommand::Inspect(args) => inspect::run(&args, &*read(&data.log())?, now, out).await,
        OperatorCommand::Verify(args) => verify::run(&args, data, out).await,
        OperatorCommand::Head(args) => verify::head(&args, &data.log(), out).await,
        OperatorCommand::Schedule(asked) => {
            let (args, rules) = *asked;
            schedule::run(&args, &rules, &*read(&data.log())?, now, out).await
        }
        OperatorCommand::Rebuild(args) => {
            let store = if args.replace { lock(&data.log()).await? } else { read(&data.log())? };
            rebuild::run(&args, &*store, &*data.checkpoints(&*store)?, out).await
        }
    }
}

fn read(path: &Path) -> Result<Arc<dyn EventStore>, StoreError> {
    Ok(ReadOnlyLog::open(path)?)
}

/// Opens the log for writing, so no server may be running.
async fn lock(path: &Path) -> Result<Arc<dyn EventStore>, StoreError> {
    // Opening would create a missing log.
    drop(ReadOnlyLog::open(path)?);
    let path = path.to_owned();
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(path, &SqliteOptions::default())).await;
    Ok(opened.map_err(|error| StoreError::Io(error.to_string()))??)
}
