//! The sockets: allowed addresses, the limit of connections, and the graceful shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::clock::Clock;
use chronova_events::store::EventStore;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::access::LogUsers;
use super::persistent::PersistentGroups;
use super::served::ServedLog;
use super::service;
use crate::tls::{TlsError, TlsFiles};

/// The most concurrent calls of one connection. Subscriptions have a separate bound.
const MAX_CALLS: u32 = 64;
/// The time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A client that does not answer a ping within this time is disconnected.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// The time that running calls have to end when the server stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// The options of the server.
#[derive(Debug, Clone)]
pub struct LogServerOptions {
    pub listen: Vec<SocketAddr>,
    pub users: LogUsers,
    pub tls: Option<TlsFiles>,
    pub max_connections: usize,
    pub max_subscriptions: usize,
    pub max_append_bytes: usize,
}

#[derive(Debug, Error)]
pub enum LogServerError {
    #[error("{0} can be reached from other machines: without TLS, passwords would be sent unencrypted")]
    Exposed(SocketAddr),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A running server of the log. [`Self::stop`] ends it gracefully; dropping it ends it at once.
#[derive(Debug)]
pub struct LogServer {
    addresses: Vec<SocketAddr>,
    ends: watch::Sender<bool>,
    listeners: JoinSet<()>,
    groups: Arc<PersistentGroups>,
}

impl LogServer {
    /// The addresses that the server listens on, with the ports that the kernel chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Refuses new calls, tells the running calls to end, and waits for them up to [`SHUTDOWN_GRACE`].
    pub async fn stop(mut self) {
        self.ends.send_replace(true);
        while self.listeners.join_next().await.is_some() {}
        self.groups.stopped().await;
    }
}

/// Serves `store` until the server is stopped.
pub async fn serve(
    store: Arc<dyn EventStore>,
    clock: Arc<dyn Clock>,
    options: LogServerOptions,
) -> Result<LogServer, LogServerError> {
    if options.tls.is_none()
        && let Some(exposed) = options.listen.iter().find(|address| !address.ip().is_loopback())
    {
        return Err(LogServerError::Exposed(*exposed));
    }
    let tls = options.tls.as_ref().map(acceptor).transpose()?;
    let (ends, ended) = watch::channel(false);
    let log = Arc::new(ServedLog {
        store,
        clock,
        users: options.users,
        max_append_bytes: options.max_append_bytes,
        subscriptions: Arc::new(Semaphore::new(options.max_subscriptions)),
        ends: ended,
    });
    let groups = PersistentGroups::new(log);
    let places = Arc::new(Semaphore::new(options.max_connections));
    let (mut addresses, mut listeners) = (Vec::new(), JoinSet::new());
    for address in options.listen {
        let failed = |source| LogServerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        addresses.push(listener.local_addr().map_err(failed)?);
        listeners.spawn(accept(listener, tls.clone(), Arc::clone(&groups), Arc::clone(&places)));
    }
    Ok(LogServer { addresses, ends, listeners, groups })
}

fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let mut config = files.server_config()?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections until the server stops, then waits for the open connections.
async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    groups: Arc<PersistentGroups>,
    places: Arc<Semaphore>,
) {
    let mut connections = JoinSet::new();
    let mut ending = groups.log().ending();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = ending.wait() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // For example, the process has no file descriptor left. Descriptors become free again, but an immediate
                // retry would fail.
                tracing::warn!(%error, "accepting a client of the log failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(%peer, "refused a client of the log: the limit of connections is reached");
            continue;
        };
        let (tls, groups) = (tls.clone(), Arc::clone(&groups));
        connections.spawn(async move {
            if let Err(error) = connection(stream, tls, groups).await {
                tracing::debug!(%peer, error, "the connection of a client of the log ended");
            }
            drop(place);
        });
    }
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, async { while connections.join_next().await.is_some() {} }).await;
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, groups: Arc<PersistentGroups>) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let local = stream.local_addr().map_err(|error| error.to_string())?;
    match tls {
        None => talk(stream, local, groups).await,
        Some(tls) => {
            let accepted = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await;
            talk(accepted.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?, local, groups).await
        }
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    local: SocketAddr,
    groups: Arc<PersistentGroups>,
) -> Result<(), String> {
    let mut ending = groups.log().ending();
    let service = service_fn(move |request| {
        let groups = Arc::clone(&groups);
        async move { Ok::<_, std::convert::Infallible>(service::answer(groups, local, request).await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_CALLS)
        .max_header_list_size(16 << 10)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended.map_err(|error| error.to_string()),
        () = ending.wait() => connection.as_mut().graceful_shutdown(),
    }
    connection.await.map_err(|error| error.to_string())
}
