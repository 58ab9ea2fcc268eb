//! The event log of a control plane, in the engine that `[chronova] event_store` names.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chronova_events::store::postgres::{ClusterMember, MemberName, PostgresOptions, PostgresStore};
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, StoreError};

use super::{identity, private};
use crate::commands::{DataDir, log_home};
use crate::config::Config;
use crate::config::event_store::{self, EventStoreAddress};

/// The log. Unless this member follows, no other process writes to the log.
#[derive(Clone)]
pub(super) enum EventLog {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl EventLog {
    /// Opens the log. In PostgreSQL, waits while another member leads. A `member` of a cluster follows the leader's log
    /// instead.
    pub(super) async fn open(config: &Config, sqlite: &SqliteOptions, member: Option<&MemberName>) -> Result<Self> {
        let data = DataDir(config.chronova.data_dir.clone());
        private::close(&data.0).with_context(|| format!("cannot use the data folder {}", data.0.display()))?;
        if data.unfinished_restore().exists() {
            bail!("a restore to {} was not completed: run `chronova backup restore` again", data.0.display());
        }
        match EventStoreAddress::parse(&config.chronova.event_store).map_err(anyhow::Error::msg)? {
            EventStoreAddress::Sqlite => {
                let opened = Self::file(&data.log(), sqlite)?;
                log_home::settle(&data, &*opened.store()).await?;
                Ok(opened)
            }
            EventStoreAddress::Postgres(url) => Self::database(config, &data, url, member).await,
        }
    }

    fn file(path: &Path, options: &SqliteOptions) -> Result<Self> {
        let opened = SqliteStore::open(path, options);
        Ok(Self::Sqlite(opened.with_context(|| format!("cannot open the event log {}", path.display()))?))
    }

    async fn database(config: &Config, data: &DataDir, url: String, member: Option<&MemberName>) -> Result<Self> {
        if data.log().exists() {
            bail!(
                "the data folder holds the log of a control plane on SQLite, which [chronova] event_store would leave \
                 behind: name another data_dir, or set event_store = sqlite ({})",
                data.log().display()
            );
        }
        let options = PostgresOptions { end_process: true, ..event_store::options(config, url, data.keys()) };
        let opened = match member {
            Some(name) => {
                let member = ClusterMember { name: name.clone(), secret: identity::secret_mark(config)? };
                PostgresStore::join(&options, member).await
            }
            None => PostgresStore::open(&options).await,
        };
        Ok(Self::Postgres(opened.context("cannot open the event log in PostgreSQL")?))
    }

    /// The store, if the log is in PostgreSQL.
    pub(super) fn postgres(&self) -> Option<&Arc<PostgresStore>> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(store) => Some(store),
        }
    }

    pub(super) fn store(&self) -> Arc<dyn EventStore> {
        match self {
            Self::Sqlite(store) => Arc::clone(store) as _,
            Self::Postgres(store) => Arc::clone(store) as _,
        }
    }

    /// Checks that the log can acknowledge appends.
    pub(super) fn health(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(store) => store.health(),
            Self::Postgres(store) => store.health(),
        }
    }

    /// How long this leader must not work on hosts yet, because the lease of an earlier leader lasts.
    pub(super) fn hosts_after(&self) -> Duration {
        self.postgres().map_or(Duration::ZERO, |store| store.hosts_after())
    }

    /// Writes pending appends, and releases the log, so that another process can lead.
    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }
}
