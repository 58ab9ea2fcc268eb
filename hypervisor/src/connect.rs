//! From a word of `[chronova] hypervisors` to drivers.

use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::driver::Driver;
use crate::libvirt::LibvirtDriver;
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
    #[error("the hypervisor driver of {0:?} is not supported; use qemu, test or sim")]
    UnknownDriver(String),
    #[error("{uri:?} is not a simulated fleet: {reason}")]
    Sim { uri: String, reason: SimUriError },
    #[error("the state of {uri:?} cannot be kept")]
    SimState { uri: String, source: JournalError },
}

/// The drivers of one URI: one host, or as many as a `sim://N` fleet has. Connecting happens in the background.
pub fn open(uri: &str, options: &DriverOptions) -> Result<Vec<Arc<dyn Driver>>, UriError> {
    let (scheme, _) = uri.split_once("://").ok_or_else(|| UriError::NotAUri(uri.to_owned()))?;
    match scheme.split('+').next().unwrap_or_default() {
        "qemu" | "test" => Ok(vec![Arc::new(LibvirtDriver::new(uri, &options.libvirt))]),
        "sim" => Ok(fleet(uri, options)?.drivers()),
        other => Err(UriError::UnknownDriver(other.to_owned())),
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
        assert!(matches!(open("test:///default"), Ok(1)));
        assert!(matches!(open("qemu"), Err(UriError::NotAUri(_))));
        assert!(matches!(open("xen:///"), Err(UriError::UnknownDriver(_))));
        assert!(matches!(open("sim://0"), Err(UriError::Sim { .. })));
    }
}
