//! The options by which the metadata service identifies guests.

use std::path::PathBuf;

use crate::secret::Secret;

/// The options for identifying guests.
#[derive(Debug, Clone)]
pub struct MetadataConfig {
    /// `[neutron] metadata_proxy_shared_secret`, if `service_metadata_proxy` is on. If the secret is set, only requests
    /// of the proxy are answered.
    pub proxy_secret: Option<Secret>,
    /// `[api] use_forwarded_for`: believe `X-Forwarded-For` and `X-Neutron-Network-ID` of trusted proxies.
    pub use_forwarded_for: bool,
    /// The kernel's table of IPv4 neighbours and their interfaces.
    pub neighbours: PathBuf,
}

impl Default for MetadataConfig {
    fn default() -> Self {
        Self { proxy_secret: None, use_forwarded_for: false, neighbours: PathBuf::from("/proc/net/arp") }
    }
}
