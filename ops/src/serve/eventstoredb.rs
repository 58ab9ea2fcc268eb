//! The log for clients of EventStoreDB, where the configuration asks for it.

use std::net::ToSocketAddrs;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use chronova_events::clock::SystemClock;
use chronova_events::store::EventStore;
use chronova_web::eventstoredb::{Options, Server, Users, serve};
use chronova_web::tls::TlsFiles;

use crate::config::Config;
use crate::config::options::eventstoredb::EventStoreDb;

/// Serves `store`; `None` where nothing is configured to listen.
pub(super) async fn open(config: &Config, store: Arc<dyn EventStore>) -> Result<Option<Server>> {
    let Some(options) = options(config)? else { return Ok(None) };
    let server = serve(store, Arc::new(SystemClock), options).await.context("[eventstoredb]")?;
    for address in server.addresses() {
        tracing::info!(%address, "the event log is served to clients of EventStoreDB");
    }
    Ok(Some(server))
}

fn options(config: &Config) -> Result<Option<Options>> {
    let own = &config.eventstoredb;
    if own.listen.0.is_empty() {
        return Ok(None);
    }
    let mut listen = Vec::with_capacity(own.listen.0.len());
    for word in &own.listen.0 {
        let mut found =
            word.to_socket_addrs().with_context(|| format!("[eventstoredb] listen: {word:?} is no HOST:PORT"))?;
        listen.push(found.next().with_context(|| format!("[eventstoredb] listen: {word:?} has no address"))?);
    }
    let tls = match (&own.tls_certificate, &own.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(TlsFiles { certificate: certificate.clone(), key: key.clone(), client_ca: None })
        }
        (None, None) => None,
        _ => bail!("[eventstoredb] tls_certificate and tls_key go together"),
    };
    let users = Users::parse(&own.users.0).context("[eventstoredb] users")?;
    let &EventStoreDb { max_connections, max_subscriptions, max_append_bytes, .. } = own;
    Ok(Some(Options { listen, users, tls, max_connections, max_subscriptions, max_append_bytes }))
}
