//! `[chronova] event_store`: the engine and the address of the event log.

use std::path::PathBuf;
use std::time::Duration;

use chronova_events::store::levels::EventLevels;
use chronova_events::store::postgres::{PostgresAddress, PostgresOptions};

use super::Config;

/// A valid value of the option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventStoreAddress {
    /// A file in the data folder.
    Sqlite,
    /// A PostgreSQL database: its address in a form that libpq accepts.
    Postgres(String),
}

impl EventStoreAddress {
    /// Parses the option. The error says what to change, but never repeats the address, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refused = |what: &str| Err(format!("[chronova] event_store {what}"));
        if text == "sqlite" {
            return Ok(Self::Sqlite);
        }
        if text.starts_with("esdb:") {
            return refused(
                "names an EventStoreDB, but `chronova serve` cannot keep its log there: set sqlite or postgresql://...",
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
                "is no valid address of a PostgreSQL database (postgresql://USER@HOST/DATABASE): {reason}"
            )),
        }
    }
}

/// The options to open the log at `url`, as commands need them. `serve` also sets `end_process`.
pub fn options(config: &Config, url: String, keys: PathBuf) -> PostgresOptions {
    let own = &config.chronova;
    PostgresOptions {
        keys: Some(keys),
        allow_asynchronous: own.event_store_asynchronous,
        patience: Duration::from_secs(own.event_store_patience.into()),
        lease: Duration::from_secs(own.event_store_lease.into()),
        levels: levels(),
        ..PostgresOptions::at(url, own.event_store_cell.clone())
    }
}

/// The events that this program knows. For the rehearsal of an upgrade, a developer build can pretend to be another
/// version.
fn levels() -> EventLevels {
    let rehearsed = if cfg!(debug_assertions) { std::env::var("CHRONOVA_REHEARSED_LEVEL").ok() } else { None };
    rehearsed.and_then(|text| EventLevels::rehearsed(&text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_an_address_hides_its_password() {
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
