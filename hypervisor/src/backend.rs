//! From a URI of `[chronova] hypervisors` to drivers: the table of back ends, by URI scheme.

use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::driver::Driver;
use crate::options::LibvirtOptions;
use crate::sim::{JournalError, SimFleet, SimUri, SimUriError};

/// Options of every kind of host.
#[derive(Debug, Clone, Default)]
pub struct DriverOptions {
    pub libvirt: LibvirtOptions,
    /// Where simulated fleets keep what is on them, so that they survive this process; `None` is memory.
    pub sim_state_dir: Option<PathBuf>,
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

/// The drivers that a back end makes for a URI: one for each host.
type OpenedDrivers = Result<Vec<Arc<dyn Driver>>, UriError>;

/// One kind of hypervisor.
struct HypervisorBackend {
    /// The schemes of its URIs: the text up to `://` or `+`.
    schemes: &'static [&'static str],
    open: fn(&str, &DriverOptions) -> OpenedDrivers,
}

/// Every back end of this build. A new one is a module and a line here.
const BACKENDS: &[HypervisorBackend] = &[
    #[cfg(feature = "libvirt")]
    HypervisorBackend {
        schemes: &["qemu", "test"],
        open: |uri, options| Ok(vec![Arc::new(crate::libvirt::LibvirtDriver::new(uri, &options.libvirt))]),
    },
    HypervisorBackend { schemes: &["sim"], open: |uri, options| Ok(fleet(uri, options)?.drivers()) },
];

/// The drivers of one URI: one host, or as many as a `sim://N` fleet has. Connecting happens in the background.
///
/// # Errors
/// Text that is no URI, a scheme that no back end of this build has, or options of a simulated fleet that it refuses.
pub fn open(uri: &str, options: &DriverOptions) -> OpenedDrivers {
    let (scheme, _) = uri.split_once("://").ok_or_else(|| UriError::NotAUri(uri.to_owned()))?;
    let scheme = scheme.split('+').next().unwrap_or_default();
    match BACKENDS.iter().find(|backend| backend.schemes.contains(&scheme)) {
        Some(backend) => (backend.open)(uri, options),
        None => Err(UriError::UnknownDriver { scheme: scheme.to_owned(), known: known_schemes() }),
    }
}

/// `qemu, test or sim`.
fn known_schemes() -> String {
    let all: Vec<&str> = BACKENDS.iter().flat_map(|backend| backend.schemes).copied().collect();
    match all.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

fn fleet(uri: &str, options: &DriverOptions) -> Result<Arc<SimFleet>, UriError> {
    let parsed: SimUri = uri.parse().map_err(|reason| UriError::Sim { uri: uri.to_owned(), reason })?;
    match &options.sim_state_dir {
        Some(directory) => {
            SimFleet::open(parsed, directory).map_err(|source| UriError::SimState { uri: uri.to_owned(), source })
        }
        None => Ok(SimFleet::new(parsed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn words_become_drivers() {
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
    }
}
