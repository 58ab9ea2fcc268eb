//! A connection to a database that holds no log. Its address and its TLS have the same form as those of a log.

use std::sync::Arc;

use tokio_postgres::{Client, Error};

use super::address;
use super::link::{DatabaseLink, explain};
use crate::store::StoreError;

/// A connection. It ends when this value is dropped.
pub struct PostgresConnection(Arc<DatabaseLink>);

impl std::fmt::Debug for PostgresConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PostgresConnection")
    }
}

impl PostgresConnection {
    /// Connects to the database of this address, which `address.rs` describes.
    ///
    /// # Errors
    /// The database cannot be reached, or refuses. The message has no password.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Ok(Self(DatabaseLink::open(&address::parse(url)?).await?))
    }

    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// The error in the words of the database or of the connection.
    pub fn explained(error: &Error) -> String {
        explain(error).to_string()
    }
}
