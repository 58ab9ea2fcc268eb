//! The security handshake of RFB, the protocol of VNC (RFC 6143, section 7.1): with the guest's host, and with the
//! viewer.
//!
//! The gateway itself does the handshake with the host, because viewers in browsers have no client certificates. It
//! chooses the first of `[vnc] auth_schemes` that the host offers. With `vencrypt`, the host and the gateway then speak
//! TLS. An authority in `vencrypt_ca_certs` must have signed the host's certificate, and the gateway shows its own
//! certificate. The viewer gets no security from RFB, because the token has authorized the viewer, and HTTPS protects
//! its connection.
//!
//! | step with the host | bytes |
//! |---|---|
//! | both name version 3.8 | 12 each |
//! | the host lists its types of security, and the gateway chooses one | count, types; type |
//! | VeNCrypt: both name its version 0.2, and the host accepts the version | 2 each; 0 |
//! | VeNCrypt: the host lists its subtypes, the gateway chooses X509None, and the host accepts the subtype | count, 4 each; 4; 1 |
//! | VeNCrypt: TLS begins | |
//!
//! The host's result of the handshake is the first message that the viewer gets from the host.

use std::io;
use std::sync::Arc;

use actix_web::rt;
use bytes::{Bytes, BytesMut};
use chronova_hypervisor::capability::consoles::SerialLine;
use futures::{StreamExt as _, stream};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::connection;
use super::vnc_security::{VncScheme, VncSecurity};
use crate::tls::TlsError;

/// The only supported version of RFB, as each side names it.
const VERSION: [u8; 12] = *b"RFB 003.008\n";
/// The types of security with their numbers in RFB.
const NO_SECURITY: u8 = 1;
const VENCRYPT: u8 = 19;
/// The subtype of VeNCrypt with certificates and without passwords. The subtypes without certificates do not protect
/// against somebody between the gateway and the host.
const X509_NONE: u32 = 260;
/// The longest reason of a host that is repeated in a log, in bytes.
const LONGEST_REASON: u32 = 1 << 10;

/// The number of a scheme in RFB.
fn number(scheme: VncScheme) -> u8 {
    match scheme {
        VncScheme::None => NO_SECURITY,
        VncScheme::Vencrypt => VENCRYPT,
    }
}

/// Why the handshake with a host failed.
#[derive(Debug, Error)]
pub(super) enum RfbError {
    #[error("{0}")]
    Broken(#[from] io::Error),
    #[error("the host speaks {0:?} instead of RFB 3.8")]
    Version(String),
    #[error("the host refuses the connection: {0:?}")]
    Refused(String),
    #[error("the host offers the types of security {0:?}, and [vnc] auth_schemes has none of them")]
    NoScheme(Vec<u8>),
    #[error("the host's VeNCrypt is not version 0.2")]
    VencryptVersion,
    #[error("the host's VeNCrypt has no certificates (X509None): it offers {0:?}")]
    NoCertificates(Vec<u32>),
    #[error("{0}")]
    Tls(#[from] TlsError),
}

/// Does the handshake with the host, and returns the stream of its screen for a viewer.
pub(super) async fn open<S>(mut socket: S, host: &str, security: &VncSecurity) -> Result<SerialLine, RfbError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Ok(for_viewer(match choose(&mut socket, &security.schemes).await? {
        VncScheme::None => connection::over(socket),
        VncScheme::Vencrypt => connection::over(vencrypt(socket, host, security).await?),
    }))
}

/// Agrees on the version and on a type of security.
async fn choose<S>(host: &mut S, schemes: &[VncScheme]) -> Result<VncScheme, RfbError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut version = [0; VERSION.len()];
    host.read_exact(&mut version).await?;
    if version != VERSION {
        return Err(RfbError::Version(String::from_utf8_lossy(&version).trim_end().to_owned()));
    }
    host.write_all(&VERSION).await?;
    let count = host.read_u8().await?;
    if count == 0 {
        let length = host.read_u32().await?.min(LONGEST_REASON);
        let mut reason = Vec::new();
        host.take(u64::from(length)).read_to_end(&mut reason).await?;
        return Err(RfbError::Refused(String::from_utf8_lossy(&reason).into_owned()));
    }
    let mut offered = vec![0; usize::from(count)];
    host.read_exact(&mut offered).await?;
    let Some(scheme) = schemes.iter().copied().find(|scheme| offered.contains(&number(*scheme))) else {
        return Err(RfbError::NoScheme(offered));
    };
    host.write_all(&[number(scheme)]).await?;
    Ok(scheme)
}

/// Does VeNCrypt's own handshake, and then that of TLS.
async fn vencrypt<S>(mut host: S, name: &str, security: &VncSecurity) -> Result<TlsStream<S>, RfbError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // The files may be on a slow disk, and this thread serves other consoles.
    let files = security.clone();
    let config = tokio::task::spawn_blocking(move || files.client_config()).await.map_err(io::Error::from)??;
    let mut version = [0; 2];
    host.read_exact(&mut version).await?;
    if version != [0, 2] {
        return Err(RfbError::VencryptVersion);
    }
    host.write_all(&version).await?;
    if host.read_u8().await? != 0 {
        return Err(RfbError::VencryptVersion);
    }
    let mut subtypes = Vec::new();
    for _ in 0..host.read_u8().await? {
        subtypes.push(host.read_u32().await?);
    }
    if !subtypes.contains(&X509_NONE) {
        return Err(RfbError::NoCertificates(subtypes));
    }
    host.write_all(&X509_NONE.to_be_bytes()).await?;
    // No document of VeNCrypt has this byte, but QEMU sends it. The value 1 means that TLS begins.
    if host.read_u8().await? != 1 {
        return Err(RfbError::NoCertificates(subtypes));
    }
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    Ok(TlsConnector::from(Arc::new(config)).connect(name, host).await?)
}

/// The stream of a host's screen for a viewer. First, the viewer gets the version and the offer of no security. After
/// its choice, the stream is that of the host.
fn for_viewer(host: SerialLine) -> SerialLine {
    let SerialLine { input: to_host, output } = host;
    let (input, typed) = mpsc::channel(connection::DEPTH);
    let (greeting, greeted) = mpsc::channel::<io::Result<Bytes>>(2);
    rt::spawn(async move {
        let mut viewer = ViewerInput { typed, held: BytesMut::new() };
        if let Err(error) = greet(&mut viewer, &greeting).await {
            // The stream ends with this error. A viewer that is gone does not receive it.
            let _ = greeting.send(Err(error)).await;
            return;
        }
        // The host's stream follows when the greeting's channel is closed.
        drop(greeting);
        while let Some(piece) = viewer.next().await {
            if to_host.send(piece).await.is_err() {
                break;
            }
        }
    });
    let greeting = stream::unfold(greeted, |mut greeted| async move { Some((greeted.recv().await?, greeted)) });
    SerialLine { input, output: Box::pin(greeting.chain(output)) }
}

/// Does the handshake with a viewer.
async fn greet(viewer: &mut ViewerInput, to_viewer: &mpsc::Sender<io::Result<Bytes>>) -> io::Result<()> {
    let send = async |bytes: &'static [u8]| {
        let sent = to_viewer.send(Ok(Bytes::from_static(bytes))).await;
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    };
    send(&VERSION).await?;
    if viewer.take(VERSION.len()).await? != VERSION[..] {
        return Err(io::Error::other("the viewer does not speak RFB 3.8"));
    }
    send(&[1, NO_SECURITY]).await?;
    if viewer.take(1).await? != [NO_SECURITY][..] {
        return Err(io::Error::other("the viewer chooses a type of security that is not offered"));
    }
    Ok(())
}

/// The bytes of a viewer, in any pieces.
struct ViewerInput {
    typed: mpsc::Receiver<Bytes>,
    held: BytesMut,
}

impl ViewerInput {
    /// The next `length` bytes.
    async fn take(&mut self, length: usize) -> io::Result<BytesMut> {
        while self.held.len() < length {
            let piece = self.typed.recv().await.ok_or(io::ErrorKind::UnexpectedEof)?;
            self.held.extend_from_slice(&piece);
        }
        Ok(self.held.split_to(length))
    }

    /// The next piece; `None` when the viewer is gone.
    async fn next(&mut self) -> Option<Bytes> {
        match self.held.is_empty() {
            true => self.typed.recv().await,
            false => Some(self.held.split().freeze()),
        }
    }
}

#[cfg(test)]
mod tests;
