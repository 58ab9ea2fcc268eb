//! How the metadata service knows which guest asks.

use crate::secret::Secret;

/// How guests are known.
#[derive(Debug, Clone, Default)]
pub struct MetadataConfig {
    /// `[neutron] metadata_proxy_shared_secret`, where `service_metadata_proxy` is on: nobody but the proxy is believed.
    pub proxy_secret: Option<Secret>,
    /// `[api] use_forwarded_for`: believe `X-Forwarded-For` of trusted proxies.
    pub use_forwarded_for: bool,
}
