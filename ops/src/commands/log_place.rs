//! The log that a command works on, and the data folder beside it.

use std::path::PathBuf;
use std::sync::Arc;

use chronova_events::place::{self, FilePlace, PlaceAddress, S3Access};
use chronova_events::sealed::SealError;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::postgres::{PostgresOptions, PostgresStore, ReadOnlyPostgres};
use chronova_events::store::sqlite::{ReadOnlyLog, SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, StoreError};
use chronova_projections::checkpoint::{CheckpointOptions, Checkpoints};

use super::failure::CommandFailure;
use crate::config::Config;
use crate::config::event_store::{self, EventStoreAddress};

/// The paths of the files in the data directory.
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

    /// The roots of the parts of the Merkle tree over the log.
    pub fn tree(&self) -> PathBuf {
        self.0.join("log.db.tree")
    }

    /// The index of the log for audit queries.
    pub fn index(&self) -> PathBuf {
        self.0.join("log.db.index")
    }

    /// The names of servers, for audit queries.
    pub fn names(&self) -> PathBuf {
        self.0.join("log.db.names")
    }

    /// The legal holds on the log.
    pub fn holds(&self) -> PathBuf {
        self.0.join("log.db.holds")
    }

    /// The archive of the log, unless another folder is named.
    pub fn archive(&self) -> PathBuf {
        self.0.join("archive")
    }

    /// The folder for drafts and cache of an archive in an object store.
    pub fn archive_in_s3(&self) -> PathBuf {
        self.0.join(place::LOCAL)
    }

    /// The folder for drafts and the lock of backups in an object store.
    pub fn backups_in_s3(&self) -> PathBuf {
        self.0.join("backups.s3")
    }

    /// Opens a place of files.
    pub(super) fn open_place(&self, address: &PlaceAddress) -> Result<Arc<dyn FilePlace>, CommandFailure> {
        place::open(address, &self.archive_in_s3())
            .map_err(|error| CommandFailure::Usage(format!("{address}: {error}")))
    }

    /// A file that is there while a restore is not complete.
    pub fn unfinished_restore(&self) -> PathBuf {
        self.0.join("restore.unfinished")
    }

    /// The note by which a copy of the log is recognised.
    pub fn home(&self) -> PathBuf {
        self.0.join("log.db.home")
    }

    /// The folder of the read models' checkpoints.
    pub fn views(&self) -> PathBuf {
        self.0.join("views")
    }

    /// The keys of the checkpoints: the log's keys, or a separate file if the log has none.
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
    /// How to connect to a database; unused if the log is a file.
    pub database: PostgresOptions,
    /// How to reach object stores.
    pub s3: S3Access,
    /// The place of the archive and the key of its manifests, if the configuration names them.
    pub retention_archive: Option<PlaceAddress>,
    pub retention_key: Option<PathBuf>,
}

/// How to reach object stores, by the configuration.
pub fn s3_access(config: &Config) -> S3Access {
    let own = &config.chronova;
    S3Access {
        endpoint: own.s3_endpoint.clone(),
        region: own.s3_region.clone(),
        key_file: own.s3_key_file.clone(),
        ca_file: own.s3_ca_file.clone(),
    }
}

impl LogPlace {
    /// The log that the configuration names.
    pub fn of(config: &Config) -> Result<Self, String> {
        let own = &config.chronova;
        let engine = EventStoreAddress::parse(&own.event_store)?;
        let data = DataDir(own.data_dir.clone());
        let url = match &engine {
            EventStoreAddress::Sqlite => String::new(),
            EventStoreAddress::Postgres(url) => url.clone(),
        };
        let database = event_store::options(config, url, data.keys());
        let s3 = s3_access(config).checked().map_err(|reason| format!("[chronova] s3_*: {reason}"))?;
        let (retention_archive, retention_key) = (own.retention_archive.clone(), own.retention_sign_key.clone());
        Ok(Self { data, engine, database, s3, retention_archive, retention_key })
    }

    /// The place for commands that need no log.
    pub fn none() -> Self {
        let database = PostgresOptions::at(String::new(), String::new());
        let (data, s3) = (DataDir(PathBuf::new()), S3Access::default());
        Self { data, engine: EventStoreAddress::Sqlite, database, s3, retention_archive: None, retention_key: None }
    }

    /// Opens the archive at this address [default: the folder `archive` in the data directory].
    pub(super) fn archive(&self, address: Option<PlaceAddress>) -> Result<Arc<dyn FilePlace>, CommandFailure> {
        let address = address.unwrap_or_else(|| PlaceAddress::Folder(self.data.archive()));
        self.data.open_place(&address.completed(&self.s3).map_err(CommandFailure::Usage)?)
    }

    /// Opens the log for reading, while another process may write to it.
    pub(super) async fn read(&self) -> Result<Arc<dyn EventStore>, StoreError> {
        match &self.engine {
            EventStoreAddress::Sqlite => Ok(ReadOnlyLog::open(self.data.log())?),
            EventStoreAddress::Postgres(_) => Ok(self.read_database().await?),
        }
    }

    /// Like [`LogPlace::read`], but `None` if there is no log.
    pub(super) async fn read_any(&self) -> Result<Option<Arc<dyn EventStore>>, StoreError> {
        if self.engine == EventStoreAddress::Sqlite && !self.data.log().exists() {
            return Ok(None);
        }
        self.read().await.map(Some)
    }

    pub(super) async fn read_database(&self) -> Result<Arc<ReadOnlyPostgres>, StoreError> {
        ReadOnlyPostgres::open(&self.database.url, &self.database.cell, &self.data.keys()).await
    }

    /// Opens the log for writing, so no server may be running.
    pub(super) async fn lock(&self) -> Result<LockedLog, CommandFailure> {
        if let EventStoreAddress::Postgres(_) = &self.engine {
            // Opening would create a missing log.
            drop(self.read_database().await?);
            let busy = || CommandFailure::Usage("a member leads the log in the database".to_owned());
            return Ok(LockedLog::Database(PostgresStore::open_now(&self.database).await?.ok_or_else(busy)?));
        }
        let path = self.data.log();
        drop(ReadOnlyLog::open(&path)?);
        let opened = tokio::task::spawn_blocking(move || SqliteStore::open(path, &SqliteOptions::default())).await;
        Ok(LockedLog::File(opened.map_err(|error| StoreError::Io(error.to_string()))??))
    }

    /// Refuses a log in a database, for commands that write a new log.
    pub(super) fn in_file(&self, command: &str) -> Result<(), CommandFailure> {
        match self.engine {
            EventStoreAddress::Sqlite => Ok(()),
            EventStoreAddress::Postgres(_) => Err(CommandFailure::Usage(format!(
                "{command} writes a log in SQLite: leave out [chronova] event_store, then use chronova log copy"
            ))),
        }
    }

    /// The options of the database; refuses a log in a file.
    pub(super) fn in_database(&self, command: &str) -> Result<&PostgresOptions, CommandFailure> {
        match self.engine {
            EventStoreAddress::Postgres(_) => Ok(&self.database),
            EventStoreAddress::Sqlite => {
                Err(CommandFailure::Usage(format!("{command} needs a log in PostgreSQL: set [chronova] event_store")))
            }
        }
    }
}

/// A log that no server can open while this value lives.
pub(super) enum LockedLog {
    File(Arc<SqliteStore>),
    Database(Arc<PostgresStore>),
}

impl LockedLog {
    pub(super) fn store(&self) -> Arc<dyn EventStore> {
        match self {
            Self::File(store) => Arc::clone(store) as _,
            Self::Database(store) => Arc::clone(store) as _,
        }
    }

    /// Releases the lock, so that servers can open the log again.
    pub(super) async fn release(&self) {
        match self {
            Self::File(store) => store.close().await,
            Self::Database(store) => store.close().await,
        }
    }
}
