//! The scheduler hook: the operator's own program that judges hosts.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronova_actors::services::external::http::{CallOptions, ServiceClient, TlsTrust};
use chronova_actors::services::external::scheduler_hook::HttpSchedulerHook;

use crate::config::Config;

/// The hook that the configuration names; `None`: there is none.
pub(super) fn open(config: &Config) -> Result<Option<Arc<HttpSchedulerHook>>> {
    let section = &config.scheduler_hook;
    let Some(url) = section.url.clone() else { return Ok(None) };
    let tls = TlsTrust { ca_file: section.cafile.clone(), ..TlsTrust::default() };
    let timeout = Duration::from_secs(section.timeout.into());
    let calls = CallOptions { name: "scheduler_hook", timeout, retries: 0, tls };
    let client = ServiceClient::new(calls).context("[scheduler_hook]")?;
    Ok(Some(HttpSchedulerHook::new(client, url)))
}
