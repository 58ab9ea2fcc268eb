//! One connection to the database. It is opened, watched and replaced within time limits.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Statement};

use super::address::DatabaseAddress;
use super::tls::DatabaseTls;
use crate::error_chain::ErrorChain;
use crate::store::StoreError;

/// How long one attempt to connect, or one statement, may take before the connection is dropped.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);

/// A connection. Dropping it ends the task that drives the connection.
pub(super) struct DatabaseLink {
    pub(super) client: Client,
    /// The statement is prepared once, so that an append is one round trip.
    append: OnceCell<Statement>,
    task: AbortHandle,
}

impl Drop for DatabaseLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl DatabaseLink {
    pub(super) async fn open(address: &DatabaseAddress) -> Result<Arc<Self>, StoreError> {
        let connecting = async {
            match &address.tls {
                Some(tls) => {
                    let (client, connection) = address.config.connect(DatabaseTls(Arc::clone(tls))).await?;
                    Ok((client, tokio::spawn(attend(connection))))
                }
                None => {
                    let (client, connection) = address.config.connect(NoTls).await?;
                    Ok((client, tokio::spawn(attend(connection))))
                }
            }
        };
        let connected = tokio::time::timeout(DEADLINE, connecting).await;
        let connected = connected.map_err(|_| StoreError::Io("the database does not answer".to_owned()))?;
        let (client, task) = connected.map_err(|error: tokio_postgres::Error| explain(&error))?;
        let link = Arc::new(Self { client, append: OnceCell::new(), task: task.abort_handle() });
        link.set("SET synchronous_commit = on; SET client_min_messages = warning").await?;
        Ok(link)
    }

    /// Sets options of the session.
    pub(super) async fn set(&self, sql: &str) -> Result<(), StoreError> {
        within(self.client.batch_execute(sql)).await
    }
}

impl DatabaseLink {
    /// The statement that appends; `sql` is the same at every call.
    pub(super) async fn append(&self, sql: &str) -> Result<&Statement, StoreError> {
        self.append.get_or_try_init(|| within(self.client.prepare(sql))).await
    }
}

/// Drives a connection until it ends.
async fn attend<S, T>(mut connection: Connection<S, T>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match std::future::poll_fn(|context| connection.poll_message(context)).await {
            // "canceling wait for synchronous replication": the commit that the database reports next may not be
            // replicated. The connection ends here, so that the writer asks for the outcome of the commit.
            Some(Ok(AsyncMessage::Notice(notice))) if notice.code().code() == "01000" => {
                tracing::warn!(%notice, "the database may not have replicated a commit of the log");
                return;
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return,
        }
    }
}

/// The answer of one statement; an error if the database refuses the statement, or if its outcome is unknown.
pub(super) async fn within<T>(
    statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(DEADLINE, statement).await {
        Ok(answer) => answer.map_err(|error| explain(&error)),
        Err(_) => Err(StoreError::Io(format!("the database did not answer within {} s", DEADLINE.as_secs()))),
    }
}

/// The error in the words of the database or of the connection.
pub(super) fn explain(error: &tokio_postgres::Error) -> StoreError {
    match error.as_db_error() {
        Some(refused) if refused.code().code() == "53100" => StoreError::Full,
        Some(refused) => StoreError::Io(format!(
            "the database refused the request: {} ({})",
            refused.message(),
            refused.code().code()
        )),
        None => StoreError::Io(format!("the database: {}", ErrorChain(error))),
    }
}
