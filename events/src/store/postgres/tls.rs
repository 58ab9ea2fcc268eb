//! TLS to the database, by the rustls that the whole program uses.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::unchecked_certificate::UncheckedCertificate;

/// The TLS configuration. `roots` is the file of trusted certificates. Without it every certificate is accepted, as
/// libpq does with `sslmode=require`.
pub(super) fn client_config(roots: Option<&str>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let Some(path) = roots else {
        let anybody = Arc::new(UncheckedCertificate(provider));
        let builder = builder.dangerous().with_custom_certificate_verifier(anybody);
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let failed = |reason: String| format!("sslrootcert {path} cannot be used: {reason}");
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let mut trusted = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        trusted.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    if trusted.is_empty() {
        return Err(failed("there is no certificate in it".to_owned()));
    }
    Ok(Arc::new(builder.with_root_certificates(trusted).with_no_client_auth()))
}

/// Opens the connections of one address.
#[derive(Clone)]
pub(super) struct DatabaseTls(pub(super) Arc<ClientConfig>);

/// Opens one connection to the host of that name.
pub(super) struct DatabaseTlsTo(Arc<ClientConfig>, ServerName<'static>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for DatabaseTls {
    type Stream = DatabaseTlsStream<S>;
    type TlsConnect = DatabaseTlsTo;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<DatabaseTlsTo> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(DatabaseTlsTo(Arc::clone(&self.0), name))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for DatabaseTlsTo {
    type Stream = DatabaseTlsStream<S>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<DatabaseTlsStream<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { Ok(DatabaseTlsStream(TlsConnector::from(self.0).connect(self.1, stream).await?)) })
    }
}

/// An encrypted connection.
pub(super) struct DatabaseTlsStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for DatabaseTlsStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for DatabaseTlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for DatabaseTlsStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
