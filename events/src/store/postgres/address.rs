//! Checks the address of a database without a connection.

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

/// Whether the store can use an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresAddress {
    Usable,
    /// It asks for TLS, which is not supported.
    NeedsTls,
    /// It is not in the form that libpq takes.
    Invalid,
}

impl PostgresAddress {
    pub fn check(text: &str) -> Self {
        match text.parse::<Config>().map(|config| config.get_ssl_mode()) {
            Ok(SslMode::Require) => Self::NeedsTls,
            Ok(_) => Self::Usable,
            Err(_) => Self::Invalid,
        }
    }
}
