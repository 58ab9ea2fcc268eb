//! The operator's commands that read the log: `audit`, `inspect`, `rebuild`. `host` calls the running server.
//!
//! They work beside a running server (the log is opened for reading only) and change no event. Exit codes for scripts:
//! 0 yes, 1 no (not found, not equal), 2 the command failed. Each command is a function of a store and a writer, so
//! that golden files can check its output.

pub mod audit;
pub mod host;
pub mod inspect;
pub mod log_pages;
pub mod moments;
pub mod policy;
pub mod rebuild;
pub mod schedule;
pub mod verify;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use chronova_events::clock::{Clock, SystemClock};
use chronova_events::envelope::Recorded;
use chronova_events::registry::DecodeError;
use chronova_events::sealed::SealError;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::postgres::ReadOnlyPostgres;
use chronova_events::store::sqlite::{ReadOnlyLog, SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, StoreError};
use chronova_projections::checkpoint::{CheckpointOptions, Checkpoints};
use chronova_projections::runner::ProjectionError;
use thiserror::Error;

use crate::config::Config;
use crate::config::event_store::EventStoreAddress;

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

/// The log that a command works on: the engine, and the data folder beside it.
#[derive(Debug, Clone)]
pub struct LogPlace {
    pub data: DataDir,
    pub engine: EventStoreAddress,
    /// The name of the log in a database.
    pub cell: String,
}

impl LogPlace {
    /// The log that the configuration names.
    pub fn of(config: &Config) -> Result<Self, String> {
        let own = &config.chronova;
        let engine = EventStoreAddress::parse(&own.event_store)?;
        Ok(Self { data: DataDir(own.data_dir.clone()), engine, cell: own.event_store_cell.clone() })
    }

    /// No log, for commands that need none.
    pub fn none() -> Self {
        Self { data: DataDir(PathBuf::new()), engine: EventStoreAddress::Sqlite, cell: String::new() }
    }

    /// Opens the log beside its writer.
    async fn read(&self) -> Result<Arc<dyn EventStore>, StoreError> {
        match &self.engine {
            EventStoreAddress::Sqlite => Ok(ReadOnlyLog::open(self.data.log())?),
            EventStoreAddress::Postgres(url) => Ok(ReadOnlyPostgres::open(url, &self.cell, &self.data.keys()).await?),
        }
    }

    /// As [`LogPlace::read`], if there is a log at all.
    async fn read_any(&self) -> Result<Option<Arc<dyn EventStore>>, StoreError> {
        if self.engine == EventStoreAddress::Sqlite && !self.data.log().exists() {
            return Ok(None);
        }
        self.read().await.map(Some)
    }

    /// Opens the log for writing, so no server may be running.
    async fn lock(&self, command: &str) -> Result<Arc<dyn EventStore>, CommandFailure> {
        self.in_sqlite(command)?;
        let path = self.data.log();
        // Opening would create a missing log.
        drop(ReadOnlyLog::open(&path)?);
        let opened = tokio::task::spawn_blocking(move || SqliteStore::open(path, &SqliteOptions::default())).await;
        Ok(opened.map_err(|error| StoreError::Io(error.to_string()))??)
    }

    /// Refuses a command that works on files.
    fn in_sqlite(&self, command: &str) -> Result<(), CommandFailure> {
        match self.engine {
            EventStoreAddress::Sqlite => Ok(()),
            EventStoreAddress::Postgres(_) => Err(CommandFailure::Usage(format!(
                "{command} works on a log in SQLite, and [chronova] event_store names a database"
            ))),
        }
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

/// Runs a command on the log at `place`, with its output on standard output and its errors on standard error.
pub async fn run(command: OperatorCommand, place: &LogPlace) -> Exit {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match execute(command, place, &mut out).await.and_then(|exit| Ok(out.flush().map(|()| exit)?)) {
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

async fn execute(command: OperatorCommand, place: &LogPlace, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    let data = &place.data;
    let now = SystemClock.now();
    match command {
        OperatorCommand::Audit(audit::AuditArgs { archive: Some(folder), .. }) if !folder.is_dir() => {
            Err(CommandFailure::Usage(format!("{} is no folder", folder.display())))
        }
        OperatorCommand::Audit(args) if args.archive.is_some() => {
            let keys = KeyRing::open_read_only(data.keys()).map_err(StoreError::from)?;
            audit::archive::list(&args, &args.archive.clone().unwrap_or_default(), &keys, now, out)
        }
        OperatorCommand::AuditExport(args) => audit::export::run(&args, &*place.read().await?, now, out).await,
        OperatorCommand::AuditVerifyExport(args) => audit::export::verify(&args, out),
        OperatorCommand::AuditKeygen(args) => audit::export::keys::run(&args, out),
        OperatorCommand::AuditArchive(args) => {
            let folder = args.out.clone().unwrap_or_else(|| data.archive());
            audit::archive::run(&args, &*place.read().await?, &folder, now, out).await
        }
        OperatorCommand::AuditVerifyArchive(args) => {
            let folder = args.folder.unwrap_or_else(|| data.archive());
            let store = place.read_any().await?;
            audit::archive::verify(store.as_deref(), &folder, out).await
        }
        OperatorCommand::Audit(args) => audit::run(&args, &*place.read().await?, now, out).await,
        OperatorCommand::AuditErase(args) => {
            let store = place.lock("audit erase").await.map_err(|failure| match failure {
                CommandFailure::Store(StoreError::Locked { .. }) | CommandFailure::Usage(_) => CommandFailure::Usage(
                    format!("{failure}: while a server runs, ask it instead, with POST /chronova/v1/erasures"),
                ),
                failure => failure,
            })?;
            let checkpoints = data.checkpoints(&*store)?;
            audit::erase::run(&args, store, checkpoints, out).await
        }
        OperatorCommand::Inspect(args) => inspect::run(&args, &*place.read().await?, now, out).await,
        OperatorCommand::Verify(args) => {
            place.in_sqlite("audit verify")?;
            verify::run(&args, data, out).await
        }
        OperatorCommand::Head(args) => verify::head(&args, &*place.read().await?, out).await,
        OperatorCommand::Schedule(asked) => {
            let (args, rules) = *asked;
            schedule::run(&args, &rules, &*place.read().await?, now, out).await
        }
        OperatorCommand::Rebuild(args) => {
            let store = if args.replace { place.lock("rebuild --replace").await? } else { place.read().await? };
            rebuild::run(&args, &*store, &*data.checkpoints(&*store)?, out).await
        }
    }
}
