//! A connection to PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use chronova_events::store::postgres::PostgresConnection;
use futures::StreamExt as _;
use tokio::time::timeout;
use tokio_postgres::{Error, SimpleQueryMessage};

use super::{LiveLink, RowSink};
use crate::nova::address::{NovaDatabaseAddress, encoded};

/// How long the server may be silent in a statement.
const SILENT: Duration = Duration::from_mins(2);

pub(super) struct PostgresLink {
    connection: PostgresConnection,
    has_begun: bool,
}

impl PostgresLink {
    pub(super) async fn open(address: &NovaDatabaseAddress) -> Result<Self, String> {
        let connection = PostgresConnection::open(&url(address)).await.map_err(|error| error.to_string())?;
        Ok(Self { connection, has_begun: false })
    }
}

/// The address in libpq's form.
fn url(address: &NovaDatabaseAddress) -> String {
    let account = address.user.as_deref().map(|user| match &address.password {
        Some(password) => format!("{}:{}@", encoded(user), encoded(password)),
        None => format!("{}@", encoded(user)),
    });
    let host = match address.option("host") {
        Some(folder) => encoded(folder),
        None if address.host.contains(':') => format!("[{}]", address.host),
        None => address.host.clone(),
    };
    let port = address.port.map(|port| format!(":{port}")).unwrap_or_default();
    let options = ["sslmode", "sslrootcert"].into_iter().filter_map(|name| Some((name, address.option(name)?)));
    let options: Vec<String> = options.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let query = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
    format!("postgresql://{}{host}{port}/{}{query}", account.unwrap_or_default(), encoded(&address.database))
}

#[async_trait]
impl LiveLink for PostgresLink {
    /// The transaction sees the database as of its first query, so `SELECT 1` follows at once.
    async fn begin(&mut self) -> Result<(), String> {
        let end = if self.has_begun { "COMMIT; " } else { "SET datestyle = 'ISO, YMD'; SET timezone = 'UTC'; " };
        let sql = format!("{end}BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1");
        within(self.connection.client().batch_execute(&sql)).await?;
        self.has_begun = true;
        Ok(())
    }

    /// Rows come one by one as text. So the values are those of a dump, letter by letter.
    async fn each(&mut self, sql: &str, take: &mut RowSink<'_>) -> Result<(), String> {
        let rows = within(self.connection.client().simple_query_raw(sql)).await?;
        let mut rows = std::pin::pin!(rows);
        loop {
            let next = async { rows.next().await.transpose() };
            match within(next).await? {
                Some(SimpleQueryMessage::Row(row)) => {
                    take((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())?;
                }
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    async fn close(self: Box<Self>) {
        // A failure is harmless: the end of the connection also ends the transaction.
        let _ = within(self.connection.client().batch_execute("COMMIT")).await;
    }

    fn quoted(&self, name: &str) -> String {
        format!("\"{}\"", name.replace('"', "\"\""))
    }

    fn clock(&self) -> &'static str {
        "timezone('utc', now())"
    }

    /// `information_schema` hides the constraints of tables from an account that may only read the tables. So this
    /// statement and that of `keys` read the catalogue.
    fn columns(&self) -> &'static str {
        "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
         WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v') \
         AND a.attnum > 0 AND NOT a.attisdropped AND has_table_privilege(c.oid, 'SELECT') \
         ORDER BY c.relname, a.attnum"
    }

    fn keys(&self) -> &'static str {
        "SELECT c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid \
         JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place) ON true \
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum \
         WHERE i.indisprimary AND c.relnamespace = current_schema()::regnamespace ORDER BY c.relname, k.place"
    }
}

async fn within<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match timeout(SILENT, answer).await {
        Ok(answer) => answer.map_err(|error| PostgresConnection::explained(&error)),
        Err(_) => Err(format!("the server was silent for {} s", SILENT.as_secs())),
    }
}
