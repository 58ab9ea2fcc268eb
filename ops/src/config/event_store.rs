//! `[chronova] event_store`: the engine of the event log, and where it is.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronova_events::store::postgres::{PostgresAddress, PostgresOptions};
use chronova_web::cluster::ClusterSecret;

use super::Config;

/// A valid value of the option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventStoreAddress {
    /// A file in the data folder.
    Sqlite,
    /// A database, in the form that libpq takes.
    Postgres(String),
}

impl EventStoreAddress {
    /// The error says what to change, and repeats nothing: the address may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refused = |what: &str| Err(format!("[chronova] event_store {what}"));
        if text == "sqlite" {
            return Ok(Self::Sqlite);
        }
        if text.starts_with("esdb:") {
            return refused(
                "names an EventStoreDB, and serve cannot keep its log there: set sqlite or postgresql://...",
            );
        }
        let is_url = text.starts_with("postgresql://") || text.starts_with("postgres://");
        if !is_url && !text.contains("host=") {
            return refused(
                "is neither sqlite nor the address of a PostgreSQL database (postgresql://USER@HOST/DATABASE)",
            );
        }
        match PostgresAddress::check(text) {
            PostgresAddress::Usable => Ok(Self::Postgres(text.to_owned())),
            PostgresAddress::Unusable(reason) => refused(&format!(
                "is no valid address of a PostgreSQL database: {reason} (postgresql://USER@HOST/DATABASE)"
            )),
        }
    }
}

/// How the database at `url` is opened, by one process that does not drive hosts.
pub fn options(config: &Config, url: String, keys: PathBuf) -> Result<PostgresOptions> {
    let own = &config.chronova;
    Ok(PostgresOptions {
        keys: Some(keys),
        allow_asynchronous: own.event_store_asynchronous,
        patience: Duration::from_secs(own.event_store_patience.into()),
        lease: Duration::from_secs(own.event_store_lease.into()),
        secret: secret(config)?.map(|secret| secret.derive("mark in the database")),
        ..PostgresOptions::at(url, own.event_store_cell.clone())
    })
}

/// What `[cluster] secret_file` holds.
pub fn secret(config: &Config) -> Result<Option<ClusterSecret>> {
    let Some(file) = &config.cluster.secret_file else { return Ok(None) };
    let bytes = std::fs::read(file).with_context(|| format!("[cluster] secret_file: {}", file.display()))?;
    let secret = ClusterSecret::new(bytes.trim_ascii());
    let least = ClusterSecret::SHORTEST;
    let secret =
        secret.with_context(|| format!("[cluster] secret_file: {} has fewer than {least} bytes", file.display()))?;
    Ok(Some(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood_or_refused_without_their_password() {
        assert_eq!(EventStoreAddress::parse("sqlite"), Ok(EventStoreAddress::Sqlite));
        let secure = "postgresql://u:secret@h1,h2/d?sslmode=verify-full&sslrootcert=/a&target_session_attrs=read-write";
        for good in ["postgresql://u:secret@h/d", "postgres://h/d", "host=/run/postgresql user=u dbname=d", secure] {
            assert_eq!(EventStoreAddress::parse(good), Ok(EventStoreAddress::Postgres(good.to_owned())));
        }
        for (bad, expected) in [
            ("", "neither"),
            ("mysql://u:secret@h/d", "neither"),
            ("esdb://h", "EventStoreDB"),
            ("postgresql://u:secret@h/d?sslmode=verify-full", "sslrootcert"),
            ("postgresql://u:secret@h:port/d", "no valid address"),
        ] {
            let told = EventStoreAddress::parse(bad).unwrap_err();
            assert!(told.contains(expected) && !told.contains("secret"), "{bad}: {told}");
        }
    }
}
