//! Starts the guests of a host that lost its power: Nova's `[DEFAULT] resume_guests_state_on_host_boot`.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, InstanceId, ProcessId};
use chronova_events::instance::{Alive, OngoingTask, Phase, Power, PowerAction};
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::guest::{GuestStatus, PowerState};

use crate::hosts::context::HostContext;
use crate::instance::{CallerRights, InstanceRequest, InstanceRoot};

/// Requests a hard reboot of each guest that ran on the host and does not run now. The agent calls this before it
/// records these guests as stopped.
///
/// A host on which any guest runs was not powered off. Its other guests ended by themselves, and are not started. A
/// guest does not count as running while a hard reboot starts it. So after a crash between two requests, the next run
/// continues with the remaining guests. If a hard reboot has ended by then, the remaining guests stay off and are
/// recorded as stopped.
pub(super) async fn guests(context: &HostContext, host: HostId, driver: &Arc<dyn Driver>) {
    let Ok(found) = driver.guests().await else { return };
    let runs = |guest: &GuestStatus| matches!(guest.power, PowerState::Running | PowerState::Paused);
    if found.iter().any(|guest| runs(guest) && !is_rebooting(context, guest.instance)) {
        return;
    }
    for instance in due(context, host) {
        tracing::info!(%host, %instance, "starting a guest that ran when its host went down");
        let command = InstanceRequest::Power {
            process: ProcessId::random(),
            action: PowerAction::RebootHard,
            asker: CallerRights { overrides_lock: true },
        };
        let sent = context.gateway.send::<InstanceRoot>(&instance, command, Meta::system("host-boot")).await;
        if let Err(error) = sent {
            tracing::warn!(%instance, %error, "cannot start a guest after its host came back");
        }
    }
}

/// Whether a hard reboot of the server is under way.
fn is_rebooting(context: &HostContext, instance: InstanceId) -> bool {
    context.views.servers.read(|servers| {
        let ongoing = servers.get(instance).and_then(|row| row.instance.alive()).and_then(|server| server.ongoing);
        matches!(ongoing, Some(OngoingTask::Power { action: PowerAction::RebootHard, .. }))
    })
}

/// A server that another generation of the log may have moved to another host is left alone. Otherwise two guests could
/// use the same disk.
fn due(context: &HostContext, host: HostId) -> BTreeSet<InstanceId> {
    context.views.servers.read(|servers| {
        let here = servers.on_host(host).filter(|row| row.instance.alive().is_some_and(ran));
        let here = here.filter(|row| context.knows_place_of(row, host));
        here.map(|row| row.id).collect()
    })
}

/// Whether the log says that the server runs, and no process works on it.
fn ran(server: &Alive) -> bool {
    matches!(server.phase, Phase::Active { power: Power::Running })
        && server.ongoing.is_none()
        && server.moving.is_none()
}
