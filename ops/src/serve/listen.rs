//! The server's listeners, and the URLs that its users get, from the addresses in the configuration.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context as _, Result, bail};
use chronova_web::console::{self, ConsoleConfig};
use chronova_web::server::{HttpOptions, Listener, Offer};
use chronova_web::service::Service;
use chronova_web::tls::{ServedCertificate, TlsFiles};

use crate::config::targets::Targets;
use crate::config::{Config, Words};

/// Every address to listen on. Listeners for all services come first.
pub fn listeners(config: &Config) -> Result<Vec<Listener>> {
    let own = &config.chronova;
    let groups: [(&Words, Option<Service>); 8] = [
        (&own.listen, None),
        (&own.compute_listen, Some(Service::Compute)),
        (&own.placement_listen, Some(Service::Placement)),
        (&own.identity_listen, Some(Service::Identity)),
        (&own.image_listen, Some(Service::Image)),
        (&own.network_listen, Some(Service::Network)),
        (&own.volume_listen, Some(Service::Volume)),
        (&own.metadata_listen, Some(Service::Metadata)),
    ];
    let tls = tls(config)?.is_some();
    let mut all = Vec::new();
    for (words, only) in groups {
        let api = if only == Some(Service::Metadata) { "metadata" } else { "osapi_compute" };
        let is_novas = matches!(only, Some(Service::Compute | Service::Metadata));
        if is_novas && !config.default.enabled_apis.iter().any(|enabled| enabled == api) {
            continue;
        }
        let secure = tls && config.default.enabled_ssl_apis.iter().any(|enabled| enabled == api);
        let in_novas_words = in_novas_words(config, only).filter(|_| words.0.is_empty());
        for word in words.0.iter().cloned().chain(in_novas_words) {
            all.push(Listener { address: resolve(&word)?, offer: only.map_or(Offer::All, Offer::Only), secure });
        }
    }
    let (vnc, spice, serial) = (&config.vnc, &config.spice, &config.serial_console);
    let proxies = [
        host_and_port(&vnc.novncproxy_host, vnc.novncproxy_port),
        host_and_port(&spice.html5proxy_host, spice.html5proxy_port),
        host_and_port(&serial.serialproxy_host, serial.serialproxy_port),
    ];
    let own = proxies_tls(config)?.is_some();
    for word in proxies.into_iter().flatten() {
        let apis = tls && config.default.enabled_ssl_apis.iter().any(|enabled| enabled == "osapi_compute");
        let secure = own || apis;
        if config.default.ssl_only && !secure {
            bail!("[DEFAULT] ssl_only: the listener {word} of the consoles needs a certificate: set [DEFAULT] cert");
        }
        let address = resolve_to(&word, |address| address.is_ipv6() || !config.default.source_is_ipv6)?;
        let listener = Listener { address, offer: Offer::Consoles, secure };
        // The token names the kind of the console, so all kinds may share one listener.
        if !all.contains(&listener) {
            all.push(listener);
        }
    }
    if !all.iter().any(|listener| listener.offer == Offer::All) {
        bail!("[chronova] listen is empty: set at least one HOST:PORT");
    }
    if config.api.auth_strategy == "noauth2"
        && let Some(open) = all.iter().find(|listener| !listener.address.ip().is_loopback())
    {
        bail!(
            "[api] auth_strategy = noauth2 trusts every caller, so it listens on loopback only, not on {}",
            open.address
        );
    }
    Ok(all)
}

/// A listener from Nova's options.
fn in_novas_words(config: &Config, only: Option<Service>) -> Option<String> {
    let default = &config.default;
    let (host, port) = match only? {
        Service::Compute => (&default.osapi_compute_listen, default.osapi_compute_listen_port),
        Service::Metadata => (&default.metadata_listen, default.metadata_listen_port),
        _ => return None,
    };
    host_and_port(host, port)
}

/// `HOST:PORT`; `None` without a port.
fn host_and_port(host: &str, port: Option<u16>) -> Option<String> {
    let port = port.filter(|port| *port != 0)?;
    Some(if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    })
}

/// The files for TLS, if they are configured.
fn tls(config: &Config) -> Result<Option<TlsFiles>> {
    let wsgi = &config.wsgi;
    match (&wsgi.ssl_cert_file, &wsgi.ssl_key_file) {
        (Some(certificate), Some(key)) => {
            let (certificate, key) = (certificate.clone(), key.clone());
            Ok(Some(TlsFiles { certificate, key, client_ca: wsgi.ssl_ca_file.clone() }))
        }
        (None, None) if wsgi.ssl_ca_file.is_none() => Ok(None),
        (None, None) => bail!("[wsgi] ssl_ca_file needs ssl_cert_file and ssl_key_file"),
        _ => bail!("[wsgi] ssl_cert_file and ssl_key_file go together"),
    }
}

/// The files for TLS on the listeners of Nova's console proxies, if they have their own.
fn proxies_tls(config: &Config) -> Result<Option<TlsFiles>> {
    let default = &config.default;
    match (&default.cert, &default.key) {
        (Some(certificate), key) => {
            let key = key.as_ref().unwrap_or(certificate).clone();
            Ok(Some(TlsFiles { certificate: certificate.clone(), key, client_ca: None }))
        }
        (None, Some(_)) => bail!("[DEFAULT] key is the key of [DEFAULT] cert, which is not set"),
        (None, None) => Ok(None),
    }
}

/// The options of the listeners.
pub fn serving(config: &Config, targets: &Targets) -> Result<HttpOptions> {
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let tls = tls(config)?.map(ServedCertificate::open).transpose()?;
    let open = |files| match config.console.ssl_minimum_version.as_str() {
        "tlsv1_3" => ServedCertificate::open_for_newest(files),
        _ => ServedCertificate::open(files),
    };
    let proxies_tls = proxies_tls(config)?.map(open).transpose()?;
    Ok(HttpOptions { workers, tls, proxies_tls, ..targets.serving.clone() })
}

fn resolve(word: &str) -> Result<SocketAddr> {
    resolve_to(word, |_| true)
}

/// The first address that `preferred` accepts, or else the first address.
fn resolve_to(word: &str, preferred: impl Fn(&SocketAddr) -> bool) -> Result<SocketAddr> {
    let found = word.to_socket_addrs().with_context(|| format!("cannot listen on {word:?}: not HOST:PORT"))?;
    let found: Vec<SocketAddr> = found.collect();
    let chosen = found.iter().find(|address| preferred(address)).or(found.first());
    chosen.copied().with_context(|| format!("{word:?} has no address"))
}

/// The URL under which clients reach the first listener that serves everything.
pub fn public_url(config: &Config, listeners: &[Listener]) -> String {
    if let Some(url) = &config.chronova.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    let Some(first) = listeners.iter().find(|listener| listener.offer == Offer::All) else { return String::new() };
    let (address, scheme) = (first.address, if first.secure { "https" } else { "http" });
    match address.ip().is_unspecified() {
        true => format!("{scheme}://{}:{}", config.chronova.public_host, address.port()),
        false => format!("{scheme}://{address}"),
    }
}

/// Sends users to this server's gateway if the URL of a console is the default. The default is the URL of Nova's proxy,
/// which does not run here. A browser opens a serial console by WebSocket.
pub fn consoles(config: &Config, consoles: &mut ConsoleConfig) {
    let (nova, gateway) = (ConsoleConfig::default(), gateway(config));
    let send = |url: &mut String, nova: &str, page: &str| {
        if let Some(gateway) = gateway.as_ref().filter(|_| url == nova) {
            *url = format!("{gateway}{page}");
        }
    };
    send(&mut consoles.novnc_url, &nova.novnc_url, "/vnc_auto.html?path=console");
    send(&mut consoles.spice_html5_url, &nova.spice_html5_url, "/spice_auto.html?path=console");
    send(&mut consoles.serial_url, &nova.serial_url, "");
    if let Some(rest) = consoles.serial_url.strip_prefix("http") {
        consoles.serial_url = format!("ws{rest}");
    }
}

/// The URL of the console gateway. `None` if the listeners are not valid, or if none of them serves all APIs.
fn gateway(config: &Config) -> Option<String> {
    let url = public_url(config, &listeners(config).ok()?);
    (!url.is_empty()).then(|| format!("{url}{}", console::PATH))
}

#[cfg(test)]
mod tests;
