//! Serves the log to clients of EventStoreDB, if the configuration turns this on.

use std::net::ToSocketAddrs;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use chronova_events::clock::SystemClock;
use chronova_events::store::EventStore;
use chronova_web::eventstoredb::{LogServer, LogServerOptions, LogUsers, serve};
use chronova_web::tls::TlsFiles;

use crate::config::Config;
use crate::config::options::eventstoredb::EventStoreDb;

/// Serves `store`; `None` if no address is configured.
pub(super) async fn open(config: &Config, store: Arc<dyn EventStore>) -> Result<Option<LogServer>> {
    let Some(options) = options(config)? else { return Ok(None) };
    let server = serve(store, Arc::new(SystemClock), options).await.context("[eventstoredb]")?;
    for address in server.addresses() {
        tracing::info!(%address, "the event log is served to clients of EventStoreDB");
    }
    Ok(Some(server))
}

fn options(config: &Config) -> Result<Option<LogServerOptions>> {
    let own = &config.eventstoredb;
    if own.listen.0.is_empty() {
        return Ok(None);
    }
    let mut listen = Vec::with_capacity(own.listen.0.len());
    for word in &own.listen.0 {
        let mut found =
            word.to_socket_addrs().with_context(|| format!("[eventstoredb] listen: {word:?} is not HOST:PORT"))?;
        listen.push(found.next().with_context(|| format!("[eventstoredb] listen: {word:?} has no address"))?);
    }
    let tls = match (&own.tls_certificate, &own.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(TlsFiles { certificate: certificate.clone(), key: key.clone(), client_ca: None })
        }
        (None, None) => None,
        _ => bail!("[eventstoredb] tls_certificate and tls_key must be set together"),
    };
    let users = LogUsers::parse(&own.users.0).context("[eventstoredb] users")?;
    let &EventStoreDb { max_connections, max_subscriptions, max_append_bytes, .. } = own;
    Ok(Some(LogServerOptions { listen, users, tls, max_connections, max_subscriptions, max_append_bytes }))
}
