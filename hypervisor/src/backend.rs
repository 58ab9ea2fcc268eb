//! Opens the drivers of the URIs in `[chronova] hypervisors`. The table of back ends maps URI schemes to drivers.

use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::driver::Driver;
use crate::options::LibvirtOptions;
use crate::sim::{JournalError, SimFleet, SimUri, SimUriError};

/// The options of all kinds of hosts.
#[derive(Debug, Clone, Default)]
pub struct DriverOptions {
    pub libvirt: LibvirtOptions,
    /// The folder in which simulated fleets store their state, so that the state survives this process. `None`: fleets
    /// keep their state in memory only.
    pub sim_state_dir: Option<PathBuf>,
    /// Whether the hosts of a simulated fleet share one volume pool, as `[volume] shared` says of real hosts. Ignored
    /// without `sim_state_dir`.
    pub sim_shares_volumes: bool,
}

#[derive(Debug, Error)]
pub enum UriError {
    #[error("{0:?} is not a hypervisor URI (expected for example qemu:///system or sim://10)")]
    NotAUri(String),
    #[error("the hypervisor driver of {scheme:?} is not supported; use {known}")]
    UnknownDriver { scheme: String, known: String },
    #[error("{uri:?} is not a simulated fleet: {reason}")]
    Sim { uri: String, reason: SimUriError },
    #[error("the state of {uri:?} cannot be kept")]
    SimState { uri: String, source: JournalError },
}

/// The drivers that a back end opens for a URI, one for each host.
type OpenedDrivers = Result<Vec<Arc<dyn Driver>>, UriError>;

/// One kind of hypervisor.
struct HypervisorBackend {
    /// The schemes of the back end's URIs: the text up to `://` or `+`.
    schemes: &'static [&'static str],
    /// Returns the URI of each host without connecting to the host.
    hosts: fn(&str) -> Result<Vec<String>, UriError>,
    open: fn(&str, &DriverOptions) -> OpenedDrivers,
}

/// Every back end of this build. A new back end is a module and a line here.
const BACKENDS: &[HypervisorBackend] = &[
    #[cfg(feature = "libvirt")]
    HypervisorBackend {
        schemes: &["qemu", "test"],
        hosts: |uri| Ok(vec![crate::libvirt::without_credentials(uri)]),
        open: |uri, options| Ok(vec![Arc::new(crate::libvirt::LibvirtDriver::new(uri, &options.libvirt))]),
    },
    HypervisorBackend {
        schemes: &["sim"],
        hosts: |uri| {
            let parsed = simulated(uri)?;
            Ok((0..parsed.hosts).map(|host| format!("sim://{}", parsed.hostname(host))).collect())
        },
        open: |uri, options| Ok(fleet(uri, options)?.drivers()),
    },
];

/// Opens the drivers of one URI: one host, or all hosts of a `sim://N` fleet. Each driver connects in the background.
///
/// # Errors
/// The text is not a URI. Or no back end of this build has its scheme. Or a simulated fleet refuses its options, or
/// cannot keep its state.
pub fn open(uri: &str, options: &DriverOptions) -> OpenedDrivers {
    (backend_of(uri)?.open)(uri, options)
}

/// Returns the URIs of the drivers that [`open`] would return, but opens no driver.
///
/// # Errors
/// The text is not a URI. Or no back end of this build has its scheme. Or a simulated fleet refuses its options.
pub fn hosts(uri: &str) -> Result<Vec<String>, UriError> {
    (backend_of(uri)?.hosts)(uri)
}

fn backend_of(uri: &str) -> Result<&'static HypervisorBackend, UriError> {
    let (scheme, _) = uri.split_once("://").ok_or_else(|| UriError::NotAUri(uri.to_owned()))?;
    let scheme = scheme.split('+').next().unwrap_or_default();
    let found = BACKENDS.iter().find(|backend| backend.schemes.contains(&scheme));
    found.ok_or_else(|| UriError::UnknownDriver { scheme: scheme.to_owned(), known: known_schemes() })
}

/// Lists the schemes of this build: `qemu, test or sim`.
fn known_schemes() -> String {
    let all: Vec<&str> = BACKENDS.iter().flat_map(|backend| backend.schemes).copied().collect();
    match all.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

fn simulated(uri: &str) -> Result<SimUri, UriError> {
    uri.parse().map_err(|reason| UriError::Sim { uri: uri.to_owned(), reason })
}

fn fleet(uri: &str, options: &DriverOptions) -> Result<Arc<SimFleet>, UriError> {
    let parsed = simulated(uri)?;
    let kept = |source| UriError::SimState { uri: uri.to_owned(), source };
    match &options.sim_state_dir {
        Some(directory) if options.sim_shares_volumes => {
            SimFleet::open_with_shared_volumes(parsed, directory).map_err(kept)
        }
        Some(directory) => SimFleet::open(parsed, directory).map_err(kept),
        None => Ok(SimFleet::new(parsed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn uris_open_drivers() {
        let options = DriverOptions::default();
        let open = |uri: &str| open(uri, &options).map(|drivers| drivers.len());
        assert!(matches!(open("sim://3?seed=1"), Ok(3)));
        #[cfg(feature = "libvirt")]
        assert!(matches!(open("test:///default"), Ok(1)));
        assert!(matches!(open("qemu"), Err(UriError::NotAUri(_))));
        assert!(matches!(open("xen:///"), Err(UriError::UnknownDriver { .. })));
        #[cfg(feature = "libvirt")]
        assert_eq!(
            open("xen:///").map_err(|error| error.to_string()),
            Err("the hypervisor driver of \"xen\" is not supported; use qemu, test or sim".to_owned())
        );
        assert!(matches!(open("sim://0"), Err(UriError::Sim { .. })));
        for uri in ["sim://3?name=a", if cfg!(feature = "libvirt") { "test:///default" } else { "sim://1" }] {
            let opened = super::open(uri, &options).unwrap_or_default();
            let opened: Vec<String> = opened.iter().map(|driver| driver.uri().to_owned()).collect();
            assert_eq!(hosts(uri).unwrap_or_default(), opened);
        }
    }
}
