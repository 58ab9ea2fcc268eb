//! What a drain does next with a server of its host: pure.
//!
//! A guest that runs or stands still goes live; one that is off is moved as it is, and the move is confirmed. Whatever is
//! being done with a server is waited for; what cannot be moved stays, with a reason that says what to do about it.

use chronova_events::host::{Departure, Leaving};
use chronova_events::ids::HostId;
use chronova_events::instance::{Alive, status};

use crate::instance::actions::{self, Action};
use crate::instance::unsupported::Hardware;
use crate::instance::{Asker, InstanceReject};

/// The drain's right, which an administrator has: locks do not hold it back.
pub const ASKER: Asker = Asker { overrides_lock: true };
/// Ways that are tried with a server before it stays.
const ATTEMPTS: u32 = 2;

/// The host that is emptied.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    pub id: HostId,
    pub hostname: &'a str,
    pub answers: bool,
    /// Nothing new is begun.
    pub cancelled: bool,
}

/// How far a move has come that was written down, as its own record tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Travel {
    /// Nobody heard of it: it is to be asked for.
    NotAsked,
    UnderWay,
    Succeeded,
    Failed {
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Wait,
    /// Write down that it is moved, and how.
    Begin(Departure),
    /// Ask for the move that was written down.
    Ask,
    /// It is elsewhere, and what it left behind is to be removed.
    Confirm,
    Left {
        to: Option<String>,
    },
    Stay {
        reason: String,
    },
}

impl Act {
    fn stay(reason: impl Into<String>) -> Self {
        Self::Stay { reason: reason.into() }
    }
}

/// How a server at rest can be moved, or why it cannot.
pub fn way(site: Site<'_>, server: &Alive) -> Result<Departure, String> {
    let state = status::of_alive(server).vm_state;
    let how = match state {
        _ if !site.answers => return Err(format!("host {} is down: evacuate the server", site.hostname)),
        "active" | "paused" => Departure::Live,
        "stopped" => Departure::Cold,
        "resized" => return Err("it was resized or migrated: confirm or revert that first".to_owned()),
        "suspended" => return Err("it is suspended, its memory is on this host: resume or stop it first".to_owned()),
        "shelved" => return Err("it is shelved and its guest is still here: offload it first".to_owned()),
        "rescued" => return Err("it is in rescue: unrescue it first".to_owned()),
        "soft-delete" => return Err("it is deleted and can be restored: delete it for good, or restore it".to_owned()),
        "error" => return Err("it is in error: rebuild, reboot or delete it first".to_owned()),
        other => return Err(format!("it cannot be moved in vm_state {other}")),
    };
    let action = match how {
        Departure::Live => Action::LiveMigrate,
        Departure::Cold => Action::Migrate,
    };
    actions::admit(server, action, ASKER).map(|()| how).map_err(|reject| why_not(&reject))
}

/// A refusal, for operators.
pub fn why_not(reject: &InstanceReject) -> String {
    match reject {
        InstanceReject::NotSupported { hardware: Hardware::Vtpm, .. } => {
            "it has a TPM, which goes nowhere live".to_owned()
        }
        InstanceReject::NotSupported { hardware: Hardware::Sev, .. } => {
            "its memory is encrypted by this host".to_owned()
        }
        InstanceReject::NotSupported { hardware: Hardware::Accelerators, .. } => {
            "it has accelerators of this host".to_owned()
        }
        other => other.to_string(),
    }
}

/// What comes next with a server on the host that is not on its way.
pub fn first(site: Site<'_>, server: &Alive) -> Act {
    let shown = status::of_alive(server);
    let waiting = server.ongoing.is_some()
        || shown.task_state.is_some()
        || shown.vm_state == "building"
        // What was moved before and declared to be in another state since is confirmed first.
        || (server.moving.is_some() && shown.vm_state != "resized");
    match waiting {
        true => Act::Wait,
        false => way(site, server).map_or_else(Act::stay, Act::Begin),
    }
}

/// What comes next with a server whose move was written down. `None`: the server is gone.
pub fn next(site: Site<'_>, server: Option<&Alive>, leaving: &Leaving, travel: &Travel) -> Act {
    let Some(server) = server else { return Act::Left { to: None } };
    let at_work = server.ongoing.map(|ongoing| ongoing.process());
    if server.moving.as_ref().is_some_and(|moving| moving.migration == leaving.migration) {
        let is_there = status::of_alive(server).vm_state == "resized";
        return if at_work.is_none() && is_there { Act::Confirm } else { Act::Wait };
    }
    match &server.placement {
        Some(placed) if placed.host == site.id => {}
        elsewhere => return Act::Left { to: elsewhere.as_ref().map(|placed| placed.hostname.clone()) },
    }
    if at_work.is_some() || *travel == Travel::UnderWay {
        return Act::Wait;
    }
    let now = first(site, server);
    match (travel, now) {
        (_, Act::Wait) => Act::Wait,
        (Travel::NotAsked, Act::Begin(_)) if site.cancelled => Act::stay("the drain was called off"),
        (Travel::NotAsked, Act::Begin(how)) if how == leaving.how => Act::Ask,
        // It was started or stopped in between: the other way may do.
        (Travel::NotAsked | Travel::Failed { .. }, Act::Begin(how))
            if how != leaving.how && leaving.attempt < ATTEMPTS && !site.cancelled =>
        {
            Act::Begin(how)
        }
        (Travel::Failed { reason }, _) => Act::stay(reason.clone()),
        (Travel::Succeeded, _) => Act::stay("it was moved, and somebody took it back"),
        (_, Act::Stay { reason }) => Act::stay(reason),
        (Travel::NotAsked | Travel::UnderWay, _) => Act::stay("it was started and stopped meanwhile"),
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
    use crate::instance::InstanceCommand as Command;
    use crate::instance::decide::decide;
    use crate::instance::moving::MoveCommand;

    const HERE: HostId = HostId(Uuid::from_u128(1));
    const BUILD: ProcessId = ProcessId(Uuid::from_u128(2));
    const MOVE: ProcessId = ProcessId(Uuid::from_u128(3));
    const SITE: Site<'_> = Site { id: HERE, hostname: "h1", answers: true, cancelled: false };

    fn after(commands: impl IntoIterator<Item = Command>) -> Alive {
        let sample = samples().into_iter().find_map(|event| match event {
            InstanceEvent::BuildRequested(request) => Some(request),
            _ => None,
        });
        let request = BuildRequested { process: BUILD, ..sample.unwrap() };
        let placed =
            Placed { process: BUILD, host: HERE, hostname: "h1".into(), attempt: 1, availability_zone: "nova".into() };
        let built =
            [Command::Build(Box::new(request)), Command::RecordPlaced(placed), Command::RecordBuilt { process: BUILD }];
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
        [Command::Power { process, action, asker: ASKER }, Command::RecordPowerDone { process, action }]
    }

    fn migrating() -> Command {
        Command::Move(Box::new(MoveCommand::Migrate { process: MOVE, host: None, asker: ASKER }))
    }

    fn leaving(how: Departure, attempt: u32) -> Leaving {
        Leaving { how, migration: MOVE, attempt }
    }

    #[test]
    fn each_goes_as_it_can() {
        assert_eq!(first(SITE, &after([])), Act::Begin(Departure::Live));
        assert_eq!(first(SITE, &after(powered(PowerAction::Pause))), Act::Begin(Departure::Live));
        assert_eq!(first(SITE, &after(powered(PowerAction::Stop))), Act::Begin(Departure::Cold));
        let reason = |act| match act {
            Act::Stay { reason } => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason(first(SITE, &after(powered(PowerAction::Suspend)))).contains("suspended"));
        let down = Site { answers: false, ..SITE };
        assert!(reason(first(down, &after([]))).contains("evacuate"));
        let [asked, _] = powered(PowerAction::Stop);
        assert_eq!(first(SITE, &after([asked])), Act::Wait, "somebody works on it");
    }

    #[test]
    fn a_move_is_asked_for_once_and_waited_for() {
        let (live, cold) = (leaving(Departure::Live, 1), leaving(Departure::Cold, 1));
        assert_eq!(next(SITE, Some(&after([])), &live, &Travel::NotAsked), Act::Ask);
        assert_eq!(next(SITE, Some(&after([])), &live, &Travel::UnderWay), Act::Wait);
        let stopped = || after(powered(PowerAction::Stop));
        let asked = after(powered(PowerAction::Stop).into_iter().chain([migrating()]));
        assert_eq!(next(SITE, Some(&asked), &cold, &Travel::NotAsked), Act::Wait, "asked for, and not begun yet");
        assert_eq!(next(SITE, None, &live, &Travel::UnderWay), Act::Left { to: None });
        // Stopped in between: it can go cold.
        assert_eq!(next(SITE, Some(&stopped()), &live, &Travel::NotAsked), Act::Begin(Departure::Cold));
        let failed = Travel::Failed { reason: "no host".into() };
        assert_eq!(next(SITE, Some(&stopped()), &live, &failed), Act::Begin(Departure::Cold));
        assert_eq!(next(SITE, Some(&stopped()), &leaving(Departure::Live, 2), &failed), Act::stay("no host"));
        assert_eq!(next(SITE, Some(&after([])), &live, &failed), Act::stay("no host"));
        let elsewhere = Site { id: HostId(Uuid::from_u128(9)), ..SITE };
        assert_eq!(next(elsewhere, Some(&after([])), &live, &failed), Act::Left { to: Some("h1".into()) });
    }

    #[test]
    fn called_off_nothing_begins() {
        let off = Site { cancelled: true, ..SITE };
        let live = leaving(Departure::Live, 1);
        assert!(matches!(next(off, Some(&after([])), &live, &Travel::NotAsked), Act::Stay { .. }));
        assert_eq!(next(off, Some(&after([])), &live, &Travel::UnderWay), Act::Wait);
        let stopped = after(powered(PowerAction::Stop));
        let failed = Travel::Failed { reason: "no host".into() };
        assert_eq!(next(off, Some(&stopped), &live, &failed), Act::stay("no host"));
    }
}
