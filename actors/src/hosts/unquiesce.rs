//! Unquiesces the guests of a host that was away.
//!
//! An image of a running server quiesces its guest: the guest agent freezes the file systems until the copy has begun.
//! If the host goes away meanwhile, the process of the image ends without it, and nobody else unfreezes the guest.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::{Alive, Phase, Power};
use chronova_hypervisor::driver::{Driver, DriverError};
use tokio::time::timeout;

use crate::hosts::context::HostContext;
use crate::process::imaging;

/// The longest wait for the agent inside one guest.
const PATIENCE: Duration = Duration::from_secs(30);

/// Thaws the guests that an image may have frozen. Runs in the background, because an agent that does not answer takes
/// seconds. An agent accepts the call if nothing is frozen.
pub(super) fn guests(context: &HostContext, host: HostId, driver: &Arc<dyn Driver>) {
    let due = due(context, host);
    if due.is_empty() {
        return;
    }
    let driver = Arc::clone(driver);
    tokio::spawn(async move {
        for instance in due {
            let Some(agent) = driver.guest_agent() else { return };
            match timeout(PATIENCE, agent.thaw(instance)).await {
                Ok(Ok(()) | Err(DriverError::NoAgent | DriverError::NoSuchGuest(_))) => {}
                Ok(Err(error)) => tracing::warn!(%host, %instance, %error, "the guest may still be quiesced"),
                Err(_) => {
                    tracing::warn!(%host, %instance, "the guest may still be quiesced: its agent does not answer");
                }
            }
        }
    });
}

/// The running servers on the host whose image declares a guest agent. A server with a process is left out, because
/// that process may be the one that has quiesced the guest.
fn due(context: &HostContext, host: HostId) -> Vec<InstanceId> {
    let is_due = |server: &Alive| {
        matches!(server.phase, Phase::Active { power: Power::Running })
            && server.ongoing.is_none()
            && imaging::is_set(server, "hw_qemu_guest_agent")
    };
    context.views.servers.read(|servers| {
        servers.on_host(host).filter(|row| row.instance.alive().is_some_and(is_due)).map(|row| row.id).collect()
    })
}
