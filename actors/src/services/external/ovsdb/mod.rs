//! A client of databases that speak the Open vSwitch Database Management Protocol (RFC 7047).
//!
//! A task keeps one connection. It copies the monitored tables into memory, and carries out transactions. Invariants:
//!  - everything is bounded: the connection, an answer, a silence, the size of a message, the waiting transactions;
//!  - after any error, the connection is dropped. The task connects again, to the next address of the list, after a
//!    random pause that grows. The copy stays as it was until then, and is replaced as a whole;
//!  - a transaction is refused at once while there is no connection. If the connection is lost before its answer, its
//!    outcome is unknown, and the next copy shows it;
//!  - the task ends with its client.

mod frames;
mod remote;
mod session;
mod values;

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};

pub use self::remote::{InvalidRemote, OvsdbRemote, read_remotes};
pub use self::values::{MalformedOvsdb, OvsdbAtom, OvsdbRow, OvsdbTable, OvsdbTables, OvsdbValue, storable};
use super::http::{TlsTrust, TrustError};

/// Which database, and how to reach it.
#[derive(Debug, Clone)]
pub struct OvsdbOptions {
    /// The members of the database's cluster.
    pub remotes: Vec<OvsdbRemote>,
    /// The certificates for `ssl` addresses.
    pub trust: TlsTrust,
    pub database: &'static str,
    /// The tables and columns to copy.
    pub monitored: &'static [(&'static str, &'static [&'static str])],
    /// How long a connection may take, with the first copy of the tables.
    pub connect_timeout: Duration,
    /// How long an answer may take.
    pub answer_timeout: Duration,
    /// After a silence of this length the client asks whether the server still runs. After another one it drops the
    /// connection.
    pub probe_interval: Duration,
    /// The longest message that is accepted, in bytes. The first copy of all tables is one message.
    pub longest_message: usize,
}

/// Whether there is a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OvsdbConnection {
    /// There is none, for this reason.
    Lost(String),
    Connected(OvsdbRemote),
}

/// The state of the client at one moment.
#[derive(Debug, Clone)]
pub struct OvsdbCopy {
    pub connection: OvsdbConnection,
    /// The tables as the database last showed them. Empty before the first connection.
    pub tables: Arc<OvsdbTables>,
}

/// Why a transaction has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OvsdbFailure {
    /// There is no connection, or it was lost. The transaction may have been carried out.
    #[error("the database does not answer: {0}")]
    Unavailable(String),
    /// The database has refused the whole transaction.
    #[error("the database refused a transaction: {0}")]
    Refused(String),
}

/// A transaction that waits for the connection's task.
struct OvsdbCall {
    operations: Vec<Value>,
    answer: oneshot::Sender<Result<(), OvsdbFailure>>,
}

/// The client. Its task ends when the client is dropped.
pub struct OvsdbClient {
    calls: mpsc::Sender<OvsdbCall>,
    copy: watch::Receiver<OvsdbCopy>,
    changes: watch::Receiver<u64>,
}

impl std::fmt::Debug for OvsdbClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OvsdbClient")
    }
}

impl OvsdbClient {
    /// Starts the task. Needs a tokio runtime.
    ///
    /// # Errors
    /// The certificates cannot be used.
    pub fn start(options: OvsdbOptions) -> Result<Self, TrustError> {
        let tls = Arc::new(options.trust.client_config()?);
        let (calls, waiting) = mpsc::channel(session::MOST_WAITING);
        let connection = OvsdbConnection::Lost("there was no connection yet".to_owned());
        let (publish, copy) = watch::channel(OvsdbCopy { connection, tables: Arc::default() });
        let (count, changes) = watch::channel(0);
        let shown = session::ShownCopy { publish, count };
        tokio::spawn(session::keep(options, tls, waiting, shown));
        Ok(Self { calls, copy, changes })
    }

    /// The present state.
    pub fn copy(&self) -> OvsdbCopy {
        self.copy.borrow().clone()
    }

    /// The tables of [`copy`](Self::copy).
    pub fn tables(&self) -> Arc<OvsdbTables> {
        Arc::clone(&self.copy.borrow().tables)
    }

    /// A number that grows with each change of [`copy`](Self::copy).
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Carries out the operations (RFC 7047, section 5.2), all of them or none. When this returns, [`copy`](Self::copy)
    /// may lack their effect for a moment.
    pub async fn transact(&self, operations: Vec<Value>) -> Result<(), OvsdbFailure> {
        let (answer, result) = oneshot::channel();
        let gone = || OvsdbFailure::Unavailable("the connection's task has ended".to_owned());
        self.calls.send(OvsdbCall { operations, answer }).await.map_err(|_| gone())?;
        result.await.unwrap_or_else(|_| Err(gone()))
    }
}
