//! What to do about a difference between a host and the log. Pure.

use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::{Alive, Instance, MoveKind, Moving, Phase, Power};

/// What the log says of a server that was found on a host, or that should be there.
#[derive(Debug, Clone, Copy)]
pub enum Believed<'a> {
    /// The log has never heard of it.
    Unknown,
    Known(&'a Instance),
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    Nothing,
    /// The power state seems to be another one than recorded: look closer and record what is seen.
    Look,
    /// Remove the guest: its server lives elsewhere.
    Destroy,
    /// Do with the guest what is to be done with those of deleted servers.
    Reap,
    /// Remove the guest's definition, not its disks: they are those of the server, which lives on a host that has the same
    /// storage.
    Forget,
    /// Switch the guest off: its server is being made anew elsewhere.
    Pull,
    /// Not ours to touch, but worth a warning: perhaps the log of another control plane knows it.
    Report,
}

/// A guest was found on `host`, in state `seen`.
pub fn found(host: HostId, believed: Believed<'_>, seen: Power) -> Remedy {
    let server = match believed {
        Believed::Unknown | Believed::Known(Instance::Absent) => return Remedy::Report,
        Believed::Known(Instance::Deleted(_)) => return Remedy::Reap,
        Believed::Known(Instance::Alive(server)) => server,
    };
    match &server.placement {
        // The other end of a move is somebody's work, or kept until the move is confirmed.
        Some(placed) if placed.host != host && server.concerns(host) => Remedy::Nothing,
        // Placed is recorded before a guest is made: a guest without it is left over from an attempt given up.
        None => Remedy::Destroy,
        Some(placed) if placed.host != host => Remedy::Destroy,
        Some(_) if is_left(server, host) && matches!(seen, Power::Running | Power::Paused) => Remedy::Pull,
        // Its process has the word until it runs.
        Some(_) if matches!(server.phase, Phase::Building { .. } | Phase::Offloaded { .. }) => Remedy::Nothing,
        Some(_) if server.power() == seen => Remedy::Nothing,
        Some(_) => Remedy::Look,
    }
}

/// Whether the server is being made anew elsewhere because this host was down. Its guest is removed when that is done.
fn is_left(server: &Alive, host: HostId) -> bool {
    let left =
        |moving: &Moving| moving.kind == MoveKind::Evacuate && moving.source.host == host && moving.target.is_some();
    server.moving.as_deref().is_some_and(left)
}

/// The same remedy, where `shares` says that a host has this one's storage: disks that are seen here are those of a server
/// that lives there.
pub fn spared(believed: Believed<'_>, remedy: Remedy, guest: bool, shares: impl Fn(HostId) -> bool) -> Remedy {
    let Believed::Known(Instance::Alive(server)) = believed else { return remedy };
    let theirs = server.placement.as_ref().is_some_and(|placed| shares(placed.host));
    match (remedy, theirs, guest) {
        (Remedy::Destroy, true, true) => Remedy::Forget,
        (Remedy::Destroy, true, false) => Remedy::Nothing,
        _ => remedy,
    }
}

/// A server that should be on `host` has no guest there.
pub fn missing(server: &Instance) -> Remedy {
    match server.alive() {
        Some(alive)
            if alive.ongoing.is_none() && matches!(alive.phase, Phase::Active { .. } | Phase::Paused { .. }) =>
        {
            Remedy::Look
        }
        _ => Remedy::Nothing,
    }
}

/// A volume of a guest that is not defined is left on `host`.
pub fn orphaned(host: HostId, believed: Believed<'_>, _instance: InstanceId) -> Remedy {
    match believed {
        Believed::Unknown | Believed::Known(Instance::Absent) => Remedy::Report,
        Believed::Known(Instance::Deleted(_)) => Remedy::Destroy,
        Believed::Known(Instance::Alive(server)) if server.concerns(host) => Remedy::Nothing,
        Believed::Known(Instance::Alive(_)) => Remedy::Destroy,
    }
}
