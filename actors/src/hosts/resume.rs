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

/// After this time, a reboot of an earlier run says nothing about the present boot of the host.
const ONE_BOOT_MICROS: i64 = 60 * 60 * 1_000_000;

/// Requests a hard reboot of guests that ran on the host and do not run now, before they are recorded as stopped.
///
/// A host on which any guest runs was not powered off. Its other guests ended by themselves, and are not started. A
/// guest does not count as running while a hard reboot starts it, or if this function has started it in the last hour.
/// So after a crash between two requests, the next run continues with the other guests.
pub(super) async fn guests(context: &HostContext, host: HostId, driver: &Arc<dyn Driver>) {
    let Ok(found) = driver.guests().await else { return };
    let runs = |guest: &&GuestStatus| matches!(guest.power, PowerState::Running | PowerState::Paused);
    let running: BTreeSet<InstanceId> = found.iter().filter(runs).map(|guest| guest.instance).collect();
    if running.iter().any(|guest| !is_rebooting(context, *guest) && !is_started(context, *guest)) {
        return;
    }
    let due = due(context, host);
    for &instance in due.difference(&running) {
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

/// Whether the newest action on the server is a recent reboot that no user requested.
fn is_started(context: &HostContext, instance: InstanceId) -> bool {
    let now = context.clock.now();
    context.views.servers.read(|servers| {
        let newest = servers.get(instance).and_then(|row| row.actions.last());
        newest.is_some_and(|action| {
            let is_recent = now.0.saturating_sub(action.started_at.0) <= ONE_BOOT_MICROS;
            action.name == "reboot" && action.user.is_none() && is_recent
        })
    })
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
