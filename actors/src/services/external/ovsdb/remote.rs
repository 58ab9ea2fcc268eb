//! The addresses of a database, and connections to them.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// The port of OVN's northbound database.
const NORTHBOUND: u16 = 6641;

/// One address of a database, in the form of OVN's programs: `tcp:10.0.0.1:6641`, `ssl:[2001:db8::1]:6641` or
/// `unix:/run/ovn/ovnnb_db.sock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OvsdbRemote {
    Tcp { host: String, port: u16 },
    Ssl { host: String, port: u16 },
    Unix(PathBuf),
}

/// The text is not the address of a database.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not tcp:HOST:PORT, ssl:HOST:PORT or unix:PATH")]
pub struct InvalidRemote(String);

impl FromStr for OvsdbRemote {
    type Err = InvalidRemote;

    fn from_str(text: &str) -> Result<Self, InvalidRemote> {
        let wrong = || InvalidRemote(text.to_owned());
        let (kind, rest) = text.trim().split_once(':').ok_or_else(wrong)?;
        if rest.is_empty() {
            return Err(wrong());
        }
        if kind == "unix" {
            return Ok(Self::Unix(PathBuf::from(rest)));
        }
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                (host, port.strip_prefix(':'))
            }
            None => match rest.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let port = port.map_or(Ok(NORTHBOUND), str::parse).map_err(|_| wrong())?;
        let host = host.to_owned();
        match kind {
            _ if host.is_empty() => Err(wrong()),
            "tcp" => Ok(Self::Tcp { host, port }),
            "ssl" => Ok(Self::Ssl { host, port }),
            _ => Err(wrong()),
        }
    }
}

impl std::fmt::Display for OvsdbRemote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, host, port) = match self {
            Self::Unix(path) => return write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } => ("tcp", host, port),
            Self::Ssl { host, port } => ("ssl", host, port),
        };
        if host.contains(':') { write!(f, "{kind}:[{host}]:{port}") } else { write!(f, "{kind}:{host}:{port}") }
    }
}

/// Reads a comma-separated list of the addresses of one cluster's members.
pub fn read_remotes(text: &str) -> Result<Vec<OvsdbRemote>, InvalidRemote> {
    text.split(',').map(str::parse).collect()
}

/// The two directions of a connection.
pub(super) trait OvsdbStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> OvsdbStream for S {}

pub(super) async fn connect(remote: &OvsdbRemote, tls: &Arc<ClientConfig>) -> std::io::Result<Box<dyn OvsdbStream>> {
    match remote {
        OvsdbRemote::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        OvsdbRemote::Tcp { host, port } => Ok(Box::new(dial(host, *port).await?)),
        OvsdbRemote::Ssl { host, port } => {
            let name = ServerName::try_from(host.clone()).map_err(std::io::Error::other)?;
            let stream = dial(host, *port).await?;
            Ok(Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?))
        }
    }
}

async fn dial(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn addresses_have_the_form_of_ovns_programs() {
        let tcp = |host: &str, port| OvsdbRemote::Tcp { host: host.to_owned(), port };
        let ssl = |host: &str, port| OvsdbRemote::Ssl { host: host.to_owned(), port };
        for (text, wanted) in [
            ("tcp:10.0.0.1:6641", tcp("10.0.0.1", 6641)),
            ("tcp:central", tcp("central", 6641)),
            ("ssl:[2001:db8::1]:16641", ssl("2001:db8::1", 16641)),
            ("unix:/run/ovn/ovnnb_db.sock", OvsdbRemote::Unix("/run/ovn/ovnnb_db.sock".into())),
        ] {
            let read: OvsdbRemote = text.parse().unwrap();
            assert_eq!(read, wanted, "{text}");
            assert_eq!(read.to_string().parse(), Ok(wanted));
        }
        assert_eq!(read_remotes("tcp:a:1,tcp:b:2").unwrap(), [tcp("a", 1), tcp("b", 2)]);
        for wrong in
            ["", "tcp:", "unix:", "10.0.0.1:6641", "http:a:1", "tcp:a:b", "tcp::1", "ssl:[::1:6641", "tcp:a:1,"]
        {
            assert!(read_remotes(wrong).is_err(), "{wrong}");
        }
    }
}
