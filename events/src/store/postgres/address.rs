//! The address of a database in libpq's form, with TLS by rustls.
//!
//! | `sslmode` | encrypted | the server's certificate |
//! |---|---|---|
//! | none, `disable`, `prefer` | no | |
//! | `require` | yes | if `sslrootcert` is given: signed by it, and for the host's name |
//! | `verify-ca`, `verify-full` | yes | signed by `sslrootcert`, and for the host's name |

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_rustls::rustls::ClientConfig;

use super::tls;
use crate::store::StoreError;

/// How long each host of an address may take to accept a connection, unless the address has a `connect_timeout`.
const ONE_HOST: Duration = Duration::from_secs(2);
/// A host that confirms nothing for this time counts as lost.
const SILENT: Duration = Duration::from_secs(10);

/// Whether the store can use an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostgresAddress {
    Usable,
    /// The reason. It repeats nothing of the address, which may contain a password.
    Unusable(&'static str),
}

impl PostgresAddress {
    /// Checks the address without a connection.
    pub fn check(text: &str) -> Self {
        match split(text) {
            Ok(_) => Self::Usable,
            Err(reason) => Self::Unusable(reason),
        }
    }
}

/// A parsed address: all that a connection needs.
#[derive(Debug, Clone)]
pub(super) struct DatabaseAddress {
    pub(super) config: Config,
    /// `None`: not encrypted.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

pub(super) fn parse(url: &str) -> Result<DatabaseAddress, StoreError> {
    let failed = |reason: String| StoreError::Io(format!("the address of the database: {reason}"));
    let (mut config, mode, roots) = split(url).map_err(|reason| failed(reason.to_owned()))?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(ONE_HOST);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENT);
    }
    let tls = match mode {
        TlsMode::Off => None,
        TlsMode::Encrypts => Some(tls::client_config(roots.as_deref()).map_err(failed)?),
    };
    Ok(DatabaseAddress { config, tls })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TlsMode {
    Off,
    Encrypts,
}

/// Splits an address into the part that `tokio-postgres` understands and the options that it does not know.
fn split(text: &str) -> Result<(Config, TlsMode, Option<String>), &'static str> {
    let (mut known, mut verifies, mut roots) = (Vec::new(), false, None);
    let mut sort = |pair: &str| match pair.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
        Some(("sslmode", "verify-full" | "verify-ca")) => {
            verifies = true;
            known.push("sslmode=require".to_owned());
        }
        Some(("sslrootcert", path)) => roots = Some(decoded(path.trim_matches('\''))),
        _ => known.push(pair.to_owned()),
    };
    let is_url = text.starts_with("postgresql://") || text.starts_with("postgres://");
    let known = match text.split_once('?') {
        Some((place, query)) if is_url => {
            query.split('&').for_each(&mut sort);
            format!("{place}?{}", known.join("&"))
        }
        _ if is_url => text.to_owned(),
        // An address of the form `name=value ...`.
        _ => {
            words(text).into_iter().for_each(&mut sort);
            known.join(" ")
        }
    };
    let config: Config =
        known.parse().map_err(|_| "it is not in the form that libpq takes, or has an option that is not supported")?;
    let mode = match config.get_ssl_mode() {
        SslMode::Require => TlsMode::Encrypts,
        _ => TlsMode::Off,
    };
    match (mode, verifies, &roots) {
        (_, true, None) => {
            Err("sslmode=verify-ca and sslmode=verify-full need sslrootcert, the file of the certificates to trust")
        }
        (TlsMode::Off, _, Some(_)) => Err("sslrootcert needs sslmode=require, verify-ca or verify-full"),
        _ => Ok((config, mode, roots)),
    }
}

/// The parts of a text between its blanks. A part can have blanks between `'` and `'`, and `\` before any character.
fn words(text: &str) -> Vec<&str> {
    let (mut quoted, mut escaped) = (false, false);
    let ends = move |c: char| {
        let ends = c.is_whitespace() && !quoted && !escaped;
        quoted ^= c == '\'' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    };
    text.split(ends).filter(|word| !word.is_empty()).collect()
}

/// Undoes the percent encoding of a URL.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, more)) = rest.split_first() {
        let hex = (*first == b'%').then(|| more.get(..2).and_then(|hex| std::str::from_utf8(hex).ok())).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_determines_encryption_and_trusted_certificates() {
        let (_, mode, roots) = split("postgresql://u:p@h1,h2/d?target_session_attrs=read-write").unwrap();
        assert_eq!((mode, roots), (TlsMode::Off, None));
        for address in [
            "postgresql://u:p@h/d?sslmode=verify-full&sslrootcert=%2Fetc%2Fa%20b.pem",
            "postgresql://u:p@h/d?sslrootcert=/etc/a b.pem&sslmode=require",
        ] {
            let (config, mode, roots) = split(address).unwrap();
            assert_eq!((mode, roots.as_deref()), (TlsMode::Encrypts, Some("/etc/a b.pem")));
            assert_eq!((config.get_user(), config.get_dbname()), (Some("u"), Some("d")));
        }
        let (config, mode, roots) = split("host=h user=u sslmode=verify-full sslrootcert=/a.pem dbname=d").unwrap();
        assert_eq!((mode, roots.as_deref(), config.get_dbname()), (TlsMode::Encrypts, Some("/a.pem"), Some("d")));
        let (config, mode, roots) =
            split(r"host=h  user=u password='it\'s sslmode=verify-full x' sslmode=require sslrootcert='/a b.pem'")
                .unwrap();
        assert_eq!(config.get_password(), Some(b"it's sslmode=verify-full x".as_slice()));
        assert_eq!((mode, roots.as_deref()), (TlsMode::Encrypts, Some("/a b.pem")));
        for bad in
            ["host=h sslmode=verify-full", "host=h sslrootcert=/a.pem", "postgresql://h:x/d", "host=h sslmode=no"]
        {
            assert!(split(bad).is_err(), "{bad}");
        }
    }
}
