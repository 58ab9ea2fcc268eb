//! The decisions of a server.
//!
//! The table of [`super::actions`] says which action is allowed in which state.

use chronova_events::envelope::Timestamp;
use chronova_events::ids::ProcessId;
use chronova_events::instance::{
    AccessAddressesChanged, Alive, BuildFailed, BuildSucceeded, CrashDumpRequested, DeleteRequested, Deleted,
    DescriptionChanged, DiskConfigChanged, GuestPasswordCleared, GuestPasswordPosted, HostnameChanged, Instance,
    InstanceEvent, Locked, MetadataReplaced, NicDetachFailed, NudgeRequested, OngoingTask, PersonalErased, Phase,
    PowerAction, PowerCompleted, PowerFailed, PowerObserved, PowerRequested, Renamed, RestoreFailed, RestoreRequested,
    Restored, SoftDeleteRequested, SoftDeleted, StateDeclared, TagsReplaced, Unlocked, Unplaced, status,
};

use super::actions::{ServerAction, admit, check_lock};
use super::commands::{InstanceChange, InstanceCommand};
use super::decision::{CallerRights, InstanceDecision, InstanceReject, one};
use super::{interfaces, labels, moving, volumes, work};

pub fn decide(state: &Instance, command: InstanceCommand) -> InstanceDecision {
    let (server, command) = match (state, command) {
        (Instance::Absent, InstanceCommand::Build(request)) => return one(*request),
        (Instance::Absent, InstanceCommand::BuildWith { request, mapped, files }) => {
            let more = mapped.map(|mapped| (*mapped).into()).into_iter().chain(files.map(Into::into));
            return Ok(std::iter::once((*request).into()).chain(more).collect());
        }
        (Instance::Absent, _) => return Err(InstanceReject::NotFound),
        (Instance::Alive(_) | Instance::Deleted(_), InstanceCommand::Erase { erasure }) => {
            return one(PersonalErased { erasure });
        }
        (Instance::Deleted(_), InstanceCommand::RecordDeleted { .. }) => return Ok(vec![]),
        (Instance::Deleted(_), _) => return Err(InstanceReject::NotFound),
        (Instance::Alive(server), command) => (server, command),
    };
    match command {
        InstanceCommand::Build(request) | InstanceCommand::BuildWith { request, .. } => {
            match server.request.process == request.process {
                true => Ok(vec![]),
                false => Err(InstanceReject::Exists),
            }
        }
        InstanceCommand::Delete { process, force, asker } => delete(server, process, force, asker),
        InstanceCommand::SoftDelete { process, asker } => soft_delete(server, process, asker),
        InstanceCommand::Restore { process, asker } => {
            admit(server, ServerAction::Restore, asker).and_then(|()| one(RestoreRequested { process }))
        }
        InstanceCommand::Reclaim { process, deleted_by } => reclaim(server, process, deleted_by),
        InstanceCommand::TriggerCrashDump { process, asker } => {
            admit(server, ServerAction::TriggerCrashDump, asker).and_then(|()| one(CrashDumpRequested { process }))
        }
        InstanceCommand::Nudge { process, asker } => {
            admit(server, ServerAction::Nudge, asker).and_then(|()| one(NudgeRequested { process }))
        }
        InstanceCommand::DeclareState { state } => one(StateDeclared { state }),
        InstanceCommand::InjectNetworkInfo { asker } => {
            admit(server, ServerAction::InjectNetworkInfo, asker).map(|()| vec![])
        }
        InstanceCommand::AttachNic { process, wanted, asker } => interfaces::attach(server, process, wanted, asker),
        InstanceCommand::DetachNic { process, port, asker } => interfaces::detach(server, process, port, asker),
        InstanceCommand::LoseNic { process, port } => interfaces::lose(server, process, port),
        InstanceCommand::RefreshNics { nics } => interfaces::refresh(server, &nics),
        InstanceCommand::Power { process, action, asker } => power(server, process, action, asker),
        InstanceCommand::Change { changes, asker } => change(server, changes, asker),
        InstanceCommand::Volume(command) => volumes::decide(server, command),
        InstanceCommand::Lock { lock: wanted } => lock(server, wanted),
        InstanceCommand::Unlock { by_admin } => unlock(server, by_admin),
        InstanceCommand::PostGuestPassword { password } => post_guest_password(server, password),
        InstanceCommand::ClearGuestPassword => match server.guest_password {
            Some(_) => one(GuestPasswordCleared {}),
            None => Ok(vec![]),
        },
        InstanceCommand::Work(command) => work::decide(server, *command),
        InstanceCommand::Move(command) => moving::decide(server, *command),
        record => record_of(server, record),
    }
}

fn delete(server: &Alive, process: ProcessId, force: bool, asker: CallerRights) -> InstanceDecision {
    admit(server, if force { ServerAction::ForceDelete } else { ServerAction::Delete }, asker)?;
    // A second delete repeats the first: Nova answers 204 to both.
    if matches!(server.ongoing, Some(OngoingTask::Delete { .. })) {
        return Ok(vec![]);
    }
    one(DeleteRequested { process, cancels: server.interruptible() })
}

/// Nova deletes a server for good if it was never active.
fn soft_delete(server: &Alive, process: ProcessId, asker: CallerRights) -> InstanceDecision {
    match admit(server, ServerAction::SoftDelete, asker) {
        Err(InstanceReject::NeverLaunched { .. }) => return delete(server, process, false, asker),
        other => other?,
    }
    // There is no guest to power off and on again.
    if server.is_offloaded() {
        return delete(server, process, false, asker);
    }
    // Only a server on one host and with one flavor can be restored.
    if server.moving.is_some() {
        let (attribute, value) = match status::of_alive(server) {
            status::Status { task_state: Some(task), .. } => ("task_state", task),
            shown => ("vm_state", shown.vm_state),
        };
        return Err(InstanceReject::NotInState { action: "delete", attribute, value });
    }
    // The same request, repeated.
    let ends = matches!(server.ongoing, Some(OngoingTask::Delete { .. } | OngoingTask::SoftDelete { .. }));
    match ends || (server.is_soft_deleted() && server.ongoing.is_none()) {
        true => Ok(vec![]),
        false => one(SoftDeleteRequested { process }),
    }
}

fn reclaim(server: &Alive, process: ProcessId, deleted_by: Timestamp) -> InstanceDecision {
    match (server.phase, server.ongoing) {
        (Phase::SoftDeleted { since, .. }, None) if since <= deleted_by => {
            one(DeleteRequested { process, cancels: None })
        }
        _ => Ok(vec![]),
    }
}

fn power(server: &Alive, process: ProcessId, action: PowerAction, asker: CallerRights) -> InstanceDecision {
    admit(server, action.into(), asker)?;
    one(PowerRequested { process, action })
}

fn change(server: &Alive, changes: Vec<InstanceChange>, asker: CallerRights) -> InstanceDecision {
    check_lock(server, asker)?;
    let now = &server.request;
    let mut events: Vec<InstanceEvent> = Vec::new();
    for change in changes {
        match change {
            InstanceChange::Name(name) if name != now.name => events.push(Renamed { name }.into()),
            InstanceChange::Description(description) if description != now.description => {
                events.push(DescriptionChanged { description }.into());
            }
            InstanceChange::Hostname(hostname) if hostname != now.hostname => {
                events.push(HostnameChanged { hostname }.into());
            }
            InstanceChange::DiskConfig(disk_config) if disk_config != now.disk_config => {
                events.push(DiskConfigChanged { disk_config }.into());
            }
            InstanceChange::AccessAddresses { v4, v6 } if (&v4, &v6) != (&now.access_ip_v4, &now.access_ip_v6) => {
                events.push(AccessAddressesChanged { access_ip_v4: v4, access_ip_v6: v6 }.into());
            }
            InstanceChange::Metadata(change) => {
                let metadata = labels::metadata(server, change)?;
                if metadata != now.metadata {
                    events.push(MetadataReplaced { metadata }.into());
                }
            }
            InstanceChange::Tags(change) => {
                let tags = labels::tags(server, change)?;
                if tags != now.tags {
                    events.push(TagsReplaced { tags }.into());
                }
            }
            // It has this state already.
            _ => {}
        }
    }
    Ok(events)
}

/// Nova's `API.lock`: an owner's lock changes nothing about a server that is locked, an administrator's takes it over.
fn lock(server: &Alive, wanted: Locked) -> InstanceDecision {
    match server.lock.is_some() && !wanted.by_admin {
        true => Ok(vec![]),
        false => one(wanted),
    }
}

fn unlock(server: &Alive, by_admin: bool) -> InstanceDecision {
    match &server.lock {
        None => Ok(vec![]),
        Some(lock) if lock.by_admin && !by_admin => Err(InstanceReject::Locked),
        Some(_) => one(Unlocked {}),
    }
}

/// As Nova has it, an empty one is none.
fn post_guest_password(server: &Alive, password: String) -> InstanceDecision {
    match server.guest_password {
        Some(_) => Err(InstanceReject::GuestPasswordKept),
        None if password.is_empty() => Ok(vec![]),
        None => one(GuestPasswordPosted { password }),
    }
}

fn record_of(server: &Alive, command: InstanceCommand) -> InstanceDecision {
    let built_by = server.building();
    let placed_by = server.placing();
    let at_work = server.ongoing.map(|ongoing| ongoing.process());
    let turn = |of: Option<ProcessId>, process| match of == Some(process) {
        true => Ok(()),
        false => Err(InstanceReject::Superseded),
    };
    match command {
        InstanceCommand::RecordPlaced(placed) => {
            if server.placement.as_ref().is_some_and(|now| now.host == placed.host && now.process == placed.process) {
                return Ok(vec![]);
            }
            turn(placed_by, placed.process)?;
            one(placed)
        }
        InstanceCommand::RecordScheduled { placed, scheduled } => {
            turn(placed_by, scheduled.process)?;
            match placed {
                Some(placed) if server.placement.as_ref().is_some_and(|now| now.host == placed.host) => Ok(vec![]),
                Some(placed) => Ok(vec![(*scheduled).into(), placed.into()]),
                None => one(*scheduled),
            }
        }
        InstanceCommand::RecordUnplaced { process, host, reason } => {
            if server.placement.is_none() {
                return Ok(vec![]);
            }
            turn(placed_by, process)?;
            one(Unplaced { process, host, reason })
        }
        InstanceCommand::RecordNetwork(allocated) => {
            if server.nics == allocated.nics && !allocated.nics.is_empty() {
                return Ok(vec![]);
            }
            turn(built_by, allocated.process)?;
            one(allocated)
        }
        InstanceCommand::RecordBuilt { process } => match server.launched_at {
            Some(_) if server.request.process == process => Ok(vec![]),
            _ => turn(built_by, process).and_then(|()| one(BuildSucceeded { process })),
        },
        InstanceCommand::RecordBuildFailed { process, fault } => match server.phase {
            Phase::Error { .. } if server.request.process == process => Ok(vec![]),
            _ => turn(built_by, process).and_then(|()| one(BuildFailed { process, fault })),
        },
        InstanceCommand::RecordDeleted { process } => turn(at_work, process).and_then(|()| one(Deleted { process })),
        InstanceCommand::RecordSoftDeleted { process } => match at_work == Some(process) {
            true => one(SoftDeleted { process }),
            false => Ok(vec![]),
        },
        InstanceCommand::RecordRestored { process } => match at_work == Some(process) {
            true => one(Restored { process }),
            false => Ok(vec![]),
        },
        InstanceCommand::RecordRestoreFailed { process, fault } => match at_work == Some(process) {
            true => one(RestoreFailed { process, fault }),
            false => Ok(vec![]),
        },
        InstanceCommand::RecordPowerDone { process, action } => match at_work == Some(process) {
            true => one(PowerCompleted { process, action }),
            // Done before, or overtaken: the record has no effect.
            false => Ok(vec![]),
        },
        InstanceCommand::RecordPowerFailed { process, action, fault } => match at_work == Some(process) {
            true => one(PowerFailed { process, action, fault }),
            false => Ok(vec![]),
        },
        InstanceCommand::RecordNicAttached { process, nic } => interfaces::attached(server, process, nic),
        InstanceCommand::RecordNicDetached { process, port } => interfaces::detached(server, process, port),
        InstanceCommand::RecordNicDetachFailed { process, port, fault } => {
            one(NicDetachFailed { process, port, fault })
        }
        InstanceCommand::Observe { host, power } => {
            let here = server.placement.as_ref().is_some_and(|placed| placed.host == host);
            // While a guest migrates, a report of either host says nothing about its state.
            let on_way = server.moving.as_ref().is_some_and(|moving| moving.live.is_some());
            match here && !on_way && placed_by.is_none() && server.power() != power {
                true => one(PowerObserved { host, power }),
                false => Ok(vec![]),
            }
        }
        InstanceCommand::Build(_)
        | InstanceCommand::BuildWith { .. }
        | InstanceCommand::Volume(_)
        | InstanceCommand::Delete { .. }
        | InstanceCommand::Power { .. }
        | InstanceCommand::SoftDelete { .. }
        | InstanceCommand::Restore { .. }
        | InstanceCommand::Reclaim { .. }
        | InstanceCommand::TriggerCrashDump { .. }
        | InstanceCommand::Nudge { .. }
        | InstanceCommand::DeclareState { .. }
        | InstanceCommand::InjectNetworkInfo { .. }
        | InstanceCommand::AttachNic { .. }
        | InstanceCommand::DetachNic { .. }
        | InstanceCommand::LoseNic { .. }
        | InstanceCommand::RefreshNics { .. }
        | InstanceCommand::Change { .. }
        | InstanceCommand::Lock { .. }
        | InstanceCommand::Unlock { .. }
        | InstanceCommand::PostGuestPassword { .. }
        | InstanceCommand::ClearGuestPassword
        | InstanceCommand::Work(_)
        | InstanceCommand::Move(_)
        | InstanceCommand::Erase { .. } => Ok(vec![]),
    }
}
