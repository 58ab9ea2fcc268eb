//! A connection to MySQL or MariaDB.

use std::time::Duration;

use async_trait::async_trait;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, DriverError, Error, OptsBuilder, SslOpts, Value};
use tokio::time::timeout;

use super::{LiveLink, RowSink};
use crate::nova::address::NovaDatabaseAddress;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the server may be silent in a statement.
const SILENT: Duration = Duration::from_mins(2);
/// The server's code for a variable that it does not have.
const UNKNOWN_VARIABLE: u16 = 1193;

pub(super) struct MySqlLink {
    connection: Conn,
}

impl MySqlLink {
    pub(super) async fn open(address: &NovaDatabaseAddress) -> Result<Self, String> {
        let mut options = OptsBuilder::default()
            .ip_or_hostname(address.host.clone())
            .tcp_port(address.port.unwrap_or(3306))
            .user(address.user.clone())
            .pass(address.password.clone())
            .db_name(Some(address.database.clone()))
            // Only the address decides whether the connection uses a socket.
            .prefer_socket(false)
            .socket(address.option("unix_socket").map(str::to_owned))
            .init(vec![
                "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ".to_owned(),
                "SET SESSION time_zone = '+00:00'".to_owned(),
                // The reader converts rows while the server waits.
                "SET SESSION net_write_timeout = 3600".to_owned(),
            ]);
        if let Some(path) = address.option("ssl_ca") {
            let roots = vec![std::path::PathBuf::from(path).into()];
            options = options.ssl_opts(SslOpts::default().with_disable_built_in_roots(true).with_root_certs(roots));
        }
        let mut opened = match timeout(CONNECT, Conn::new(options)).await {
            Ok(connected) => connected.map(|connection| Self { connection }).map_err(|error| explained(&error))?,
            Err(_) => return Err(format!("it did not answer within {} s", CONNECT.as_secs())),
        };
        opened.wait_for_the_cluster().await?;
        Ok(opened)
    }

    /// In a Galera cluster, lets each transaction wait until this member has the writes of the others. Otherwise the
    /// last writes of Nova's services may be missing. A server that knows no Galera has no such variable.
    async fn wait_for_the_cluster(&mut self) -> Result<(), String> {
        match timeout(SILENT, self.connection.query_drop("SET SESSION wsrep_sync_wait = 1")).await {
            Ok(Err(Error::Server(refused))) if refused.code == UNKNOWN_VARIABLE => Ok(()),
            Ok(set) => set.map_err(|error| explained(&error)),
            Err(_) => Err(format!("the server was silent for {} s", SILENT.as_secs())),
        }
    }
}

#[async_trait]
impl LiveLink for MySqlLink {
    async fn begin(&mut self) -> Result<(), String> {
        let begun = self.connection.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
        within(begun).await
    }

    /// Rows come one by one in the text protocol. So the values are those of a dump, letter by letter.
    async fn each(&mut self, sql: &str, take: &mut RowSink<'_>) -> Result<(), String> {
        let mut rows = within(self.connection.query_iter(sql)).await?;
        while let Some(row) = within(rows.next()).await? {
            take(row.unwrap().into_iter().map(text).collect())?;
        }
        Ok(())
    }

    async fn close(self: Box<Self>) {
        // The server ends the connection anyway if this fails.
        let _ = within(self.connection.disconnect()).await;
    }

    fn quoted(&self, name: &str) -> String {
        format!("`{}`", name.replace('`', "``"))
    }

    fn clock(&self) -> &'static str {
        "UTC_TIMESTAMP()"
    }

    fn columns(&self) -> &'static str {
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE() \
         ORDER BY table_name, ordinal_position"
    }

    /// `table_constraints` is empty for an account that may only read, so the name of the constraint says which is the
    /// primary key.
    fn keys(&self) -> &'static str {
        "SELECT table_name, column_name FROM information_schema.key_column_usage \
         WHERE table_schema = DATABASE() AND constraint_name = 'PRIMARY' ORDER BY table_name, ordinal_position"
    }
}

async fn within<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match timeout(SILENT, answer).await {
        Ok(answer) => answer.map_err(|error| explained(&error)),
        Err(_) => Err(format!("the server was silent for {} s", SILENT.as_secs())),
    }
}

/// A binary column may hold invalid UTF-8; no column that the adoption reads is binary.
fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(
            String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        ),
        other => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}

/// The error in words that say what to change. The server never repeats a password.
fn explained(error: &Error) -> String {
    match error {
        Error::Server(refused) => match refused.code {
            1045 | 1698 => format!("the user or the password is wrong: {}", refused.message),
            1044 | 1142 | 1143 => format!("the user has no right to read it: {}", refused.message),
            1047 => format!("this member of the cluster is not ready, take another: {}", refused.message),
            1053 | 1927 => format!("the server closed the connection: {}", refused.message),
            1049 => format!("there is no such database: {}", refused.message),
            _ => format!("the server refused ({}): {}", refused.code, refused.message),
        },
        Error::Io(error) => format!("the connection failed or was lost: {error}"),
        Error::Driver(DriverError::ConnectionClosed) => "the server closed the connection".to_owned(),
        other => other.to_string(),
    }
}
