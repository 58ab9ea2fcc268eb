//! From a word of `[chronova] hypervisors` to drivers.

use std::sync::Arc;

use thiserror::Error;

use crate::driver::Driver;
use crate::libvirt::LibvirtDriver;
use crate::options::LibvirtOptions;

/// Options of every kind of host.
#[derive(Debug, Clone, Default)]
pub struct DriverOptions {
    pub libvirt: LibvirtOptions,
}

#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum UriError {
    #[error("{0:?} is not a hypervisor URI (expected for example qemu:///system or sim://10)")]
    NotAUri(String),
    #[error("the hypervisor driver of {0:?} is not supported; use qemu, test or sim")]
    UnknownDriver(String),
}

/// The drivers of one URI: one host, or as many as a `sim://N` fleet has. Connecting happens in the background.
pub fn open(uri: &str, options: &DriverOptions) -> Result<Vec<Arc<dyn Driver>>, UriError> {
    let (scheme, _) = uri.split_once("://").ok_or_else(|| UriError::NotAUri(uri.to_owned()))?;
    match scheme.split('+').next().unwrap_or_default() {
        "qemu" | "test" => Ok(vec![Arc::new(LibvirtDriver::new(uri, &options.libvirt))]),
        other => Err(UriError::UnknownDriver(other.to_owned())),
    }
}
