//! Plans the next action of a drain on one server of its host. All functions are pure.
//!
//! A drain live-migrates a guest that is running or paused. It cold-migrates a server that is off, and confirms the
//! migration. It waits until a server's task has ended. A server that cannot be moved stays, and the drain records the
//! reason.

use chronova_events::host::{Departure, LeavingServer};
use chronova_events::ids::HostId;
use chronova_events::instance::{Alive, status};

use crate::instance::actions::{self, ServerAction};
use crate::instance::unsupported::HostBoundHardware;
use crate::instance::{CallerRights, InstanceReject};

/// The rights of a drain. It is an administrator's request, so locks do not stop it.
pub const ASKER: CallerRights = CallerRights { overrides_lock: true };
/// The number of moves that a drain tries for a server before the server stays.
const ATTEMPTS: u32 = 2;

/// The host that is being drained.
#[derive(Debug, Clone, Copy)]
pub struct DrainedHost<'a> {
    pub id: HostId,
    pub hostname: &'a str,
    pub answers: bool,
    /// Whether the drain was cancelled, and so begins no further move.
    pub cancelled: bool,
}

/// The progress of a recorded move, from its own stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MoveProgress {
    /// The move was not requested yet.
    NotAsked,
    UnderWay,
    Succeeded,
    Failed {
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainAction {
    Wait,
    /// Record the move and its kind.
    Begin(Departure),
    /// Request the recorded move.
    Ask,
    /// Confirm the move, because the server is on its new host.
    Confirm,
    Left {
        to: Option<String>,
    },
    Stay {
        reason: String,
    },
}

impl DrainAction {
    fn stay(reason: impl Into<String>) -> Self {
        Self::Stay { reason: reason.into() }
    }
}

/// The kind of move of a server without a task, or the reason why none is possible.
pub fn way(site: DrainedHost<'_>, server: &Alive) -> Result<Departure, String> {
    let state = status::of_alive(server).vm_state;
    let how = match state {
        _ if !site.answers => return Err(format!("host {} is down: evacuate the server", site.hostname)),
        "active" | "paused" => Departure::Live,
        "stopped" => Departure::Cold,
        "resized" => return Err("it was resized or migrated: confirm or revert that first".to_owned()),
        "suspended" => return Err("it is suspended, its memory is on this host: resume it first".to_owned()),
        "shelved" => return Err("it is shelved and its guest is still here: offload it first".to_owned()),
        "rescued" => return Err("it is in rescue: unrescue it first".to_owned()),
        "soft-delete" => return Err("it is deleted and can be restored: delete it for good, or restore it".to_owned()),
        "error" => return Err("it is in error: rebuild, reboot or delete it first".to_owned()),
        other => return Err(format!("it cannot be moved in vm_state {other}")),
    };
    let action = match how {
        Departure::Live => ServerAction::LiveMigrate,
        Departure::Cold => ServerAction::Migrate,
    };
    actions::admit(server, action, ASKER).map(|()| how).map_err(|reject| why_not(&reject))
}

/// The text of a refusal, for operators: the reason, and the remedy.
pub fn why_not(reject: &InstanceReject) -> String {
    match reject {
        InstanceReject::NotSupported { hardware: HostBoundHardware::Vtpm, .. } => {
            "it has a TPM, and only users of its project can read the passphrase: let one of them migrate it".to_owned()
        }
        InstanceReject::NotSupported { hardware: HostBoundHardware::Sev, .. } => {
            "its memory is encrypted by this host: stop it, and drain the host again".to_owned()
        }
        InstanceReject::NotSupported { hardware: HostBoundHardware::PciDevices, .. } => {
            "it has PCI devices of this host: stop it, and drain the host again".to_owned()
        }
        InstanceReject::NotSupported { hardware: HostBoundHardware::Accelerators, .. } => {
            "it has accelerators of this host: shelve it".to_owned()
        }
        other => other.to_string(),
    }
}

/// The next action on a server that is on the host and has no move yet.
pub fn first(site: DrainedHost<'_>, server: &Alive) -> DrainAction {
    let shown = status::of_alive(server);
    let waiting = server.ongoing.is_some()
        || shown.task_state.is_some()
        || shown.vm_state == "building"
        // An earlier move that a reset of the state left unconfirmed must be confirmed first.
        || (server.moving.is_some() && shown.vm_state != "resized");
    match waiting {
        true => DrainAction::Wait,
        false => way(site, server).map_or_else(DrainAction::stay, DrainAction::Begin),
    }
}

/// The next action on a server with a recorded move. `server` is `None` if it was deleted.
pub fn next(
    site: DrainedHost<'_>,
    server: Option<&Alive>,
    leaving: &LeavingServer,
    travel: &MoveProgress,
) -> DrainAction {
    let Some(server) = server else { return DrainAction::Left { to: None } };
    let at_work = server.ongoing.map(|ongoing| ongoing.process());
    if server.moving.as_ref().is_some_and(|moving| moving.migration == leaving.migration) {
        let is_there = status::of_alive(server).vm_state == "resized";
        return if at_work.is_none() && is_there { DrainAction::Confirm } else { DrainAction::Wait };
    }
    match &server.placement {
        Some(placed) if placed.host == site.id => {}
        elsewhere => return DrainAction::Left { to: elsewhere.as_ref().map(|placed| placed.hostname.clone()) },
    }
    if at_work.is_some() || *travel == MoveProgress::UnderWay {
        return DrainAction::Wait;
    }
    let now = first(site, server);
    match (travel, now) {
        (_, DrainAction::Wait) => DrainAction::Wait,
        (MoveProgress::NotAsked, DrainAction::Begin(_)) if site.cancelled => {
            DrainAction::stay("the drain was cancelled")
        }
        (MoveProgress::NotAsked, DrainAction::Begin(how)) if how == leaving.how => DrainAction::Ask,
        // The server was started or stopped in between, so the other kind of move may succeed.
        (MoveProgress::NotAsked | MoveProgress::Failed { .. }, DrainAction::Begin(how))
            if how != leaving.how && leaving.attempt < ATTEMPTS && !site.cancelled =>
        {
            DrainAction::Begin(how)
        }
        (MoveProgress::Failed { reason }, _) => DrainAction::stay(reason.clone()),
        (MoveProgress::Succeeded, _) => {
            DrainAction::stay("it was moved away, and then back to this host: drain the host again")
        }
        (_, DrainAction::Stay { reason }) => DrainAction::stay(reason),
        (MoveProgress::NotAsked | MoveProgress::UnderWay, _) => {
            DrainAction::stay("it was started and stopped while it waited to be moved: drain the host again")
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold as _;
    use chronova_events::ids::ProcessId;
    use chronova_events::instance::{BuildRequested, Instance, InstanceEvent, Placed, PowerAction, samples};
    use uuid::Uuid;

    use super::*;
    use crate::instance::decide::decide;
    use crate::instance::{InstanceCommand as Command, InstanceRecord, InstanceRequest, MoveRequest};

    const HERE: HostId = HostId(Uuid::from_u128(1));
    const BUILD: ProcessId = ProcessId(Uuid::from_u128(2));
    const MOVE: ProcessId = ProcessId(Uuid::from_u128(3));
    const SITE: DrainedHost<'_> = DrainedHost { id: HERE, hostname: "h1", answers: true, cancelled: false };

    fn after(commands: impl IntoIterator<Item = Command>) -> Alive {
        let sample = samples().into_iter().find_map(|event| match event {
            InstanceEvent::BuildRequested(request) => Some(request),
            _ => None,
        });
        let request = BuildRequested { process: BUILD, ..sample.unwrap() };
        let placed =
            Placed { process: BUILD, host: HERE, hostname: "h1".into(), attempt: 1, availability_zone: "nova".into() };
        let built: [Command; 3] = [
            InstanceRequest::Build { request: Box::new(request), mapped: None, files: None }.into(),
            InstanceRecord::Placed(placed).into(),
            InstanceRecord::Built { process: BUILD }.into(),
        ];
        let mut state = Instance::Absent;
        for command in built.into_iter().chain(commands) {
            for event in decide(&state, command).unwrap() {
                state.evolve(&event, Timestamp(7));
            }
        }
        state.alive().unwrap().clone()
    }

    fn powered(action: PowerAction) -> [Command; 2] {
        let process = ProcessId(Uuid::from_u128(4));
        let (asked, done) =
            (InstanceRequest::Power { process, action, asker: ASKER }, InstanceRecord::PowerDone { process, action });
        [asked.into(), done.into()]
    }

    fn migrating() -> Command {
        InstanceRequest::from(MoveRequest::Migrate { process: MOVE, host: None, asker: ASKER }).into()
    }

    fn leaving(how: Departure, attempt: u32) -> LeavingServer {
        LeavingServer { how, migration: MOVE, attempt }
    }

    #[test]
    fn each_server_gets_the_fitting_kind_of_move() {
        assert_eq!(first(SITE, &after([])), DrainAction::Begin(Departure::Live));
        assert_eq!(first(SITE, &after(powered(PowerAction::Pause))), DrainAction::Begin(Departure::Live));
        assert_eq!(first(SITE, &after(powered(PowerAction::Stop))), DrainAction::Begin(Departure::Cold));
        let reason = |act| match act {
            DrainAction::Stay { reason } => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason(first(SITE, &after(powered(PowerAction::Suspend)))).contains("suspended"));
        let down = DrainedHost { answers: false, ..SITE };
        assert!(reason(first(down, &after([]))).contains("evacuate"));
        let [asked, _] = powered(PowerAction::Stop);
        assert_eq!(first(SITE, &after([asked])), DrainAction::Wait, "another process owns the server's task");
    }

    #[test]
    fn a_refusal_names_a_remedy() {
        for hardware in [
            HostBoundHardware::Vtpm,
            HostBoundHardware::Sev,
            HostBoundHardware::Accelerators,
            HostBoundHardware::PciDevices,
        ] {
            let told = why_not(&InstanceReject::NotSupported { operation: "live-migration", hardware });
            assert!(told.split_once(": ").is_some_and(|(_, remedy)| remedy.contains("it")), "{told}");
        }
        let moved = next(SITE, Some(&after([])), &leaving(Departure::Live, 1), &MoveProgress::Succeeded);
        assert_eq!(moved, DrainAction::stay("it was moved away, and then back to this host: drain the host again"));
    }

    #[test]
    fn a_drain_requests_each_move_once_and_waits_for_it() {
        let (live, cold) = (leaving(Departure::Live, 1), leaving(Departure::Cold, 1));
        assert_eq!(next(SITE, Some(&after([])), &live, &MoveProgress::NotAsked), DrainAction::Ask);
        assert_eq!(next(SITE, Some(&after([])), &live, &MoveProgress::UnderWay), DrainAction::Wait);
        let stopped = || after(powered(PowerAction::Stop));
        let asked = after(powered(PowerAction::Stop).into_iter().chain([migrating()]));
        assert_eq!(
            next(SITE, Some(&asked), &cold, &MoveProgress::NotAsked),
            DrainAction::Wait,
            "a requested move is not requested again"
        );
        assert_eq!(next(SITE, None, &live, &MoveProgress::UnderWay), DrainAction::Left { to: None });
        // The server was stopped in between, so a cold migration is possible.
        assert_eq!(next(SITE, Some(&stopped()), &live, &MoveProgress::NotAsked), DrainAction::Begin(Departure::Cold));
        let failed = MoveProgress::Failed { reason: "no host".into() };
        assert_eq!(next(SITE, Some(&stopped()), &live, &failed), DrainAction::Begin(Departure::Cold));
        assert_eq!(next(SITE, Some(&stopped()), &leaving(Departure::Live, 2), &failed), DrainAction::stay("no host"));
        assert_eq!(next(SITE, Some(&after([])), &live, &failed), DrainAction::stay("no host"));
        let elsewhere = DrainedHost { id: HostId(Uuid::from_u128(9)), ..SITE };
        assert_eq!(next(elsewhere, Some(&after([])), &live, &failed), DrainAction::Left { to: Some("h1".into()) });
    }

    #[test]
    fn a_cancelled_drain_begins_no_move() {
        let off = DrainedHost { cancelled: true, ..SITE };
        let live = leaving(Departure::Live, 1);
        assert!(matches!(next(off, Some(&after([])), &live, &MoveProgress::NotAsked), DrainAction::Stay { .. }));
        assert_eq!(next(off, Some(&after([])), &live, &MoveProgress::UnderWay), DrainAction::Wait);
        let stopped = after(powered(PowerAction::Stop));
        let failed = MoveProgress::Failed { reason: "no host".into() };
        assert_eq!(next(off, Some(&stopped), &live, &failed), DrainAction::stay("no host"));
    }
}
