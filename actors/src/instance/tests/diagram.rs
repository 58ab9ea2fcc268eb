//! Computes every state that a server can reach by any commands.

use super::*;

/// A readable name of a state.
fn name(state: &Instance) -> String {
    let server = match state {
        Instance::Absent => return "absent".to_owned(),
        Instance::Deleted(_) => return "deleted".to_owned(),
        Instance::Alive(server) => server,
    };
    let phase = match server.phase {
        Phase::Building { .. } => "building",
        Phase::Active { .. } => "active",
        Phase::Stopped { .. } => "stopped",
        Phase::Error { .. } => "error",
        Phase::Paused { .. } => "paused",
        Phase::Suspended { .. } => "suspended",
        Phase::SoftDeleted { .. } => "soft-deleted",
        Phase::Rescued { .. } => "rescued",
        Phase::Shelved { .. } => "shelved",
        Phase::Offloaded { .. } => "offloaded",
        Phase::Resized { .. } => "resized",
    };
    match server.ongoing {
        None => phase.to_owned(),
        Some(OngoingTask::Delete { .. }) => format!("{phase}, deleting"),
        Some(OngoingTask::SoftDelete { .. }) => format!("{phase}, soft-deleting"),
        Some(OngoingTask::Restore { .. }) => format!("{phase}, restoring"),
        Some(OngoingTask::Move { .. }) if server.moving.as_ref().is_some_and(|moving| moving.live.is_some()) => {
            format!("{phase}, migrating")
        }
        Some(OngoingTask::Move { .. }) => format!("{phase}, moving"),
        Some(OngoingTask::Confirm { .. }) => format!("{phase}, confirming"),
        Some(OngoingTask::Revert { .. }) => format!("{phase}, reverting"),
        Some(OngoingTask::Power { action, .. }) => format!("{phase}, {action:?}"),
        Some(OngoingTask::Snapshot { backup: false, .. }) => format!("{phase}, being copied"),
        Some(OngoingTask::Snapshot { backup: true, .. }) => format!("{phase}, being backed up"),
        Some(OngoingTask::Rebuild { .. }) => format!("{phase}, rebuilding"),
        Some(OngoingTask::Rescue { .. }) => format!("{phase}, rescuing"),
        Some(OngoingTask::Unrescue { .. }) => format!("{phase}, unrescuing"),
        Some(OngoingTask::Shelve { .. }) => format!("{phase}, shelving"),
        Some(OngoingTask::Offload { .. }) => format!("{phase}, offloading"),
        Some(OngoingTask::Unshelve { .. }) => format!("{phase}, unshelving"),
        Some(OngoingTask::ChangePassword { .. }) => format!("{phase}, changing the password"),
    }
}

/// All commands that can come in this state, if the processes work as designed.
fn commands(state: &Instance) -> Vec<Command> {
    let mut all = vec![
        build(),
        delete(),
        Record::Placed(placed()).into(),
        Record::Built { process: BUILD }.into(),
        Record::Deleted { process: DELETE }.into(),
        seen(Power::Running),
        seen(Power::Shutdown),
        declare(DeclaredState::Active),
        declare(DeclaredState::Error),
        soft_delete(),
        Record::SoftDeleted { process: SOFT_DELETE }.into(),
        restore(),
        Record::Restored { process: RESTORE }.into(),
        Record::RestoreFailed { process: RESTORE, fault: fault() }.into(),
    ];
    all.extend(work::commands(state));
    // A build records its failure only after it has released the host.
    match state.alive().is_some_and(|server| server.placement.is_some()) {
        true => all.push(Record::Unplaced { process: BUILD, host: HOST, reason: String::new() }.into()),
        false => all.push(Record::BuildFailed { process: BUILD, fault: fault() }.into()),
    }
    for action in ACTIONS {
        all.extend([power(action), done(POWER, action), failed(POWER, action)]);
    }
    // The server is built once it has a host.
    let unplaced = state.alive().is_some_and(|server| server.placement.is_none());
    all.retain(|command| !(unplaced && matches!(command, Command::Record(Record::Built { .. }))));
    // A process records its own action.
    let ongoing = state.alive().and_then(|server| server.ongoing);
    all.retain(|command| match (command, ongoing) {
        (Command::Record(Record::PowerDone { action, .. } | Record::PowerFailed { action, .. }), Some(ongoing)) => {
            matches!(ongoing, OngoingTask::Power { action: now, .. } if now == *action)
        }
        _ => true,
    });
    all
}

/// Describes the part of a state that decisions depend on. Two states with the same description lead to the same
/// decisions.
fn kind_of(state: &Instance) -> String {
    let flags = state.alive().map(|server| {
        let (built, build) = (server.launched_at.is_some(), server.building().is_some());
        (server.power(), server.placement.is_some(), built, build, server.ongoing.map(|ongoing| ongoing.process()))
    });
    format!("{} {flags:?}", name(state))
}

/// Compares `states.txt` with the code.
#[test]
fn the_reachable_states_are_those_of_states_txt() {
    let mut lines: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut open = VecDeque::from([Instance::Absent]);
    while let Some(state) = open.pop_front() {
        for command in commands(&state) {
            let Ok(events) = decide(&state, command) else { continue };
            for event in events {
                let mut next = state.clone();
                next.evolve(&event, Timestamp(7));
                let kind = event.kind().trim_start_matches("instance.");
                if name(&next) != name(&state) {
                    lines.entry(name(&state)).or_default().insert(format!("{kind} -> {}", name(&next)));
                }
                if seen.insert(kind_of(&next)) {
                    open.push_back(next);
                }
            }
        }
    }
    let mut drawn = String::new();
    for (from, edges) in lines {
        drawn.extend([from.as_str(), "\n"]);
        for edge in edges {
            drawn.extend(["    ", &edge, "\n"]);
        }
    }
    assert_eq!(drawn, include_str!("../states.txt"), "\n{drawn}");
}
