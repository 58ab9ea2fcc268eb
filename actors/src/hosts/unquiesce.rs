//! Unquiesces the guests of a host that was away.
//!
//! A process that makes an image of a running server may quiesce the guest: the guest's agent freezes the file systems
//! until the copy has begun. If the host goes away meanwhile, the process ends, and nobody else unfreezes the guest. A
//! crash of the control plane may prevent the unfreezing. So the next start unfreezes the guests whose last image
//! failed.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::{Alive, Phase, Power};
use chronova_hypervisor::driver::{Driver, DriverError};
use chronova_projections::servers::ServerRow;
use chronova_projections::views::Views;
use tokio::time::{sleep, timeout};

use crate::hosts::context::HostContext;
use crate::process::imaging;

/// The longest wait for the agent inside one guest.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two checks whether a process still works on the server.
const PAUSE: Duration = Duration::from_secs(1);

/// Thaws the guests that a process may have left frozen: after a host was away (`was_away`), all guests with an agent.
/// Otherwise the control plane has started, and only guests whose last image failed are thawed. Each guest has its own
/// task in the background, because an agent that does not answer takes seconds. The call is harmless if nothing is
/// frozen.
pub(super) fn guests(context: &HostContext, host: HostId, driver: &Arc<dyn Driver>, was_away: bool) {
    let on_host = |server: &Alive| server.placement.as_ref().is_some_and(|at| at.host == host);
    let due: Vec<InstanceId> = context.views.servers.read(|servers| {
        let rows = servers.on_host(host).filter(|row| row.instance.alive().is_some_and(|it| on_host(it) && is_due(it)));
        rows.filter(|row| was_away || lost_its_image(row)).map(|row| row.id).collect()
    });
    for instance in due {
        tokio::spawn(thaw(Arc::clone(&context.views), host, Arc::clone(driver), instance));
    }
}

/// Waits until no process works on the server, because that process may have quiesced the guest.
async fn thaw(views: Arc<Views>, host: HostId, driver: Arc<dyn Driver>, instance: InstanceId) {
    loop {
        let row = views.servers.read(|servers| servers.get(instance).cloned());
        let Some(server) = row.as_ref().and_then(|row| row.instance.alive()) else { return };
        if !is_due(server) || server.placement.as_ref().is_none_or(|at| at.host != host) {
            return;
        }
        if server.ongoing.is_none() {
            break;
        }
        sleep(PAUSE).await;
    }
    let Some(agent) = driver.guest_agent() else { return };
    match timeout(PATIENCE, agent.thaw(instance)).await {
        Ok(Ok(()) | Err(DriverError::NoAgent | DriverError::NoSuchGuest(_))) => {}
        Ok(Err(error)) => tracing::warn!(%host, %instance, %error, "the guest may still be quiesced"),
        Err(_) => tracing::warn!(%host, %instance, "the guest may still be quiesced: its agent does not answer"),
    }
}

/// Whether the newest action on the server is an image that failed.
fn lost_its_image(row: &ServerRow) -> bool {
    let failed = row.actions.last().filter(|action| action.succeeded == Some(false));
    failed.is_some_and(|action| matches!(action.name.as_str(), "createImage" | "createBackup"))
}

/// Whether the server runs and its image declares a guest agent.
fn is_due(server: &Alive) -> bool {
    matches!(server.phase, Phase::Active { power: Power::Running }) && imaging::is_set(server, "hw_qemu_guest_agent")
}
