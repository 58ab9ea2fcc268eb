//! Chooses the action on a difference between a host and the log. The functions are pure.

use chronova_events::ids::HostId;
use chronova_events::instance::{Alive, Instance, MoveKind, Moving, OngoingTask, Phase, Power, PowerAction};

/// The action to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResyncAction {
    Nothing,
    /// Read the power state again and record it, because it seems to differ from the recorded state.
    Look,
    /// Remove the guest and its files, because its server is not on this host or was deleted.
    Destroy,
    /// Apply `running_deleted_instance_action` to the guest.
    Reap,
    /// Remove the guest's definition but keep its disks, because the server uses them on a host with the same storage.
    Forget,
    /// Switch the guest off, because its server is being evacuated.
    Pull,
    /// Log a warning and leave the guest alone, because it may belong to another control plane.
    Report,
    /// Log a warning and leave the guest alone, because another generation of the log drove the hosts and may have
    /// moved the server.
    Doubt,
}

/// The action on a guest that `host` has in the power state `seen`. `believed` is the guest's server, as the log knows
/// it.
pub fn found(host: HostId, believed: &Instance, seen: Power) -> ResyncAction {
    let server = match believed {
        Instance::Absent => return ResyncAction::Report,
        Instance::Deleted(_) => return ResyncAction::Reap,
        Instance::Alive(server) => server,
    };
    match &server.placement {
        // A process is moving the server, or the source keeps its guest until the move is confirmed.
        Some(placed) if placed.host != host && server.concerns(host) => ResyncAction::Nothing,
        // `Placed` is recorded before a guest is built. So a guest of a server without `Placed` is left over from a
        // failed attempt.
        None => ResyncAction::Destroy,
        Some(placed) if placed.host != host => ResyncAction::Destroy,
        Some(_) if is_left(server, host) && matches!(seen, Power::Running | Power::Paused) => ResyncAction::Pull,
        // The process that builds or unshelves the server is responsible for the guest until the guest runs.
        Some(_) if matches!(server.phase, Phase::Building { .. } | Phase::Offloaded { .. }) => ResyncAction::Nothing,
        Some(_) if server.power() == seen => ResyncAction::Nothing,
        Some(_) => ResyncAction::Look,
    }
}

/// Whether the process that works on the server records this power state at its end. If the agent recorded it, too, the
/// log would have the same fact twice.
pub fn is_expected(believed: &Instance, seen: Power) -> bool {
    match believed.alive().and_then(|server| server.ongoing) {
        Some(OngoingTask::Delete { .. }) => true,
        Some(OngoingTask::Power { action, .. }) => seen == power_after(action),
        _ => false,
    }
}

fn power_after(action: PowerAction) -> Power {
    match action {
        PowerAction::Stop | PowerAction::Suspend => Power::Shutdown,
        PowerAction::Pause => Power::Paused,
        PowerAction::Start
        | PowerAction::RebootSoft
        | PowerAction::RebootHard
        | PowerAction::Unpause
        | PowerAction::Resume => Power::Running,
    }
}

/// Whether the server is being evacuated from this host. After the evacuation the host's guest is removed.
fn is_left(server: &Alive, host: HostId) -> bool {
    let left =
        |moving: &Moving| moving.kind == MoveKind::Evacuate && moving.source.host == host && moving.target.is_some();
    server.moving.as_deref().is_some_and(left)
}

/// Adapts the action to shared storage. If `shares` is true for the server's host, the server uses the disks found
/// here, so they must stay. `guest` tells whether a guest was found, or only its disks.
pub fn spared(believed: &Instance, remedy: ResyncAction, guest: bool, shares: impl Fn(HostId) -> bool) -> ResyncAction {
    let Instance::Alive(server) = believed else { return remedy };
    let theirs = server.placement.as_ref().is_some_and(|placed| shares(placed.host));
    match (remedy, theirs, guest) {
        (ResyncAction::Destroy, true, true) => ResyncAction::Forget,
        (ResyncAction::Destroy, true, false) => ResyncAction::Nothing,
        _ => remedy,
    }
}

/// Adapts the action to a log whose hosts another generation drove ([`super::doubt`]). The log does not say where its
/// servers were meanwhile. So the agent leaves a guest alone if the log has its server on another host, or says that
/// the server is being evacuated. `is_known` is true if the server is deleted, or if the log created the server or
/// moved it from or to this host after the other generation let go of the hosts. Other changes of the server do not
/// count, because they say nothing about a guest that moved before.
pub fn doubted(remedy: ResyncAction, is_known: impl FnOnce() -> bool) -> ResyncAction {
    let harms = matches!(remedy, ResyncAction::Destroy | ResyncAction::Forget | ResyncAction::Pull);
    if harms && !is_known() { ResyncAction::Doubt } else { remedy }
}

/// The action on a server that has no guest on its host.
pub fn missing(server: &Instance) -> ResyncAction {
    match server.alive() {
        Some(alive)
            if alive.ongoing.is_none() && matches!(alive.phase, Phase::Active { .. } | Phase::Paused { .. }) =>
        {
            ResyncAction::Look
        }
        _ => ResyncAction::Nothing,
    }
}

/// The action on the files that an undefined guest left on `host`.
pub fn orphaned(host: HostId, believed: &Instance) -> ResyncAction {
    match believed {
        Instance::Absent => ResyncAction::Report,
        Instance::Deleted(_) => ResyncAction::Destroy,
        Instance::Alive(server) if server.concerns(host) => ResyncAction::Nothing,
        Instance::Alive(_) => ResyncAction::Destroy,
    }
}
