//! The options of the HTTP server.

use std::time::Duration;

use crate::tls::ServedCertificate;

/// The time limits of clients. A slower client is disconnected, because the number of connections is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// The limit of the TLS handshake, and of the head of a request from its first byte on.
    pub head: Duration,
    /// The limit between two requests; `None` closes a connection after each answer. A graceful shutdown also waits for
    /// idle connections.
    pub idle: Option<Duration>,
    /// A client that reads no byte of its answer for this long is disconnected. Zero leaves the timeout to the kernel.
    pub stalled: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        // Clients poll every five seconds. If a connection ended at that moment, their next request would fail.
        let (head, idle) = (Duration::from_secs(10), Some(Duration::from_secs(8)));
        Self { head, idle, stalled: Duration::from_mins(15) }
    }
}

/// The options of the HTTP server.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    pub workers: usize,
    pub patience: ClientTimeouts,
    /// `[DEFAULT] graceful_shutdown_timeout`: how long requests under way may take during shutdown; zero means without
    /// limit.
    pub graceful: Duration,
    /// The certificate and key of the secure listeners.
    pub tls: Option<ServedCertificate>,
    /// The certificate and key of the listeners that serve only the console gateway, if these listeners have their own.
    pub proxies_tls: Option<ServedCertificate>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        let patience = ClientTimeouts::default();
        Self { workers: 0, patience, graceful: Duration::from_mins(3), tls: None, proxies_tls: None }
    }
}

impl HttpOptions {
    /// The time limit in the server's whole seconds.
    pub(super) fn shutdown_seconds(&self) -> u64 {
        if self.graceful.is_zero() { u64::MAX } else { self.graceful.as_secs().max(1) }
    }
}
