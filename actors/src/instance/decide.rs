//! The decisions of a server.
//!
//! The table of [`super::actions`] says which action is allowed in which state.

use chronova_events::envelope::Timestamp;
use chronova_events::ids::ProcessId;
use chronova_events::instance::{
    AccessAddressesChanged, Alive, BuildFailed, BuildSucceeded, CrashDumpRequested, DeleteRequested, Deleted,
    DescriptionChanged, DiskConfigChanged, GuestPasswordCleared, GuestPasswordPosted, HostnameChanged, Instance,
    InstanceEvent, Locked, MetadataReplaced, NicDetachFailed, OngoingTask, PersonalErased, Phase, PowerAction,
    PowerCompleted, PowerFailed, PowerObserved, PowerRequested, Renamed, RestoreFailed, RestoreRequested, Restored,
    SoftDeleteRequested, SoftDeleted, StateDeclared, TagsReplaced, TpmSecretStored, Unlocked, Unplaced, status,
};

use super::actions::{ServerAction, admit, check_lock};
use super::decision::{CallerRights, InstanceDecision, InstanceReject, one};
use super::records::InstanceRecord;
use super::requests::{InstanceChange, InstanceRequest};
use super::{InstanceCommand, image_properties, interfaces, labels, machine, moving, volumes, work};

pub fn decide(state: &Instance, command: InstanceCommand) -> InstanceDecision {
    match (command, state) {
        (InstanceCommand::Request(request), Instance::Absent) => begin(request),
        (InstanceCommand::Record(_), Instance::Absent) => Err(InstanceReject::NotFound),
        (InstanceCommand::Request(request), Instance::Alive(server)) => request_of(server, request),
        (InstanceCommand::Record(record), Instance::Alive(server)) => record_of(server, record),
        (InstanceCommand::Request(InstanceRequest::Erase { erasure }), Instance::Deleted(_)) => {
            one(PersonalErased { erasure })
        }
        (InstanceCommand::Record(InstanceRecord::Deleted { .. }), Instance::Deleted(_)) => Ok(vec![]),
        (InstanceCommand::Request(_) | InstanceCommand::Record(_), Instance::Deleted(_)) => {
            Err(InstanceReject::NotFound)
        }
    }
}

fn begin(request: InstanceRequest) -> InstanceDecision {
    match request {
        InstanceRequest::Build { request, mapped, files } => {
            let more = mapped.map(|mapped| (*mapped).into()).into_iter().chain(files.map(Into::into));
            Ok(std::iter::once((*request).into()).chain(more).collect())
        }
        _ => Err(InstanceReject::NotFound),
    }
}

fn request_of(server: &Alive, request: InstanceRequest) -> InstanceDecision {
    match request {
        InstanceRequest::Build { request, .. } => match server.request.process == request.process {
            true => Ok(vec![]),
            false => Err(InstanceReject::Exists),
        },
        InstanceRequest::Delete { process, force, asker } => delete(server, process, force, asker),
        InstanceRequest::SoftDelete { process, asker } => soft_delete(server, process, asker),
        InstanceRequest::Restore { process, asker } => {
            admit(server, ServerAction::Restore, asker).and_then(|()| one(RestoreRequested { process }))
        }
        InstanceRequest::Reclaim { process, deleted_by } => reclaim(server, process, deleted_by),
        InstanceRequest::TriggerCrashDump { process, asker } => {
            admit(server, ServerAction::TriggerCrashDump, asker).and_then(|()| one(CrashDumpRequested { process }))
        }
        InstanceRequest::DeclareState { state } => one(StateDeclared { state }),
        InstanceRequest::ChangeMachineType { machine_type, force } => machine::change(server, machine_type, force),
        InstanceRequest::InjectNetworkInfo { asker } => {
            admit(server, ServerAction::InjectNetworkInfo, asker).map(|()| vec![])
        }
        InstanceRequest::AttachNic { process, wanted, asker } => interfaces::attach(server, process, wanted, asker),
        InstanceRequest::DetachNic { process, port, asker } => interfaces::detach(server, process, port, asker),
        InstanceRequest::LoseNic { process, port } => interfaces::lose(server, process, port),
        InstanceRequest::Power { process, action, asker } => power(server, process, action, asker),
        InstanceRequest::RebootDue { process, overtakes } => reboot_due(server, process, overtakes),
        InstanceRequest::Change { changes, asker } => change(server, changes, asker),
        InstanceRequest::SetImageProperties { properties } => image_properties::change(server, properties),
        InstanceRequest::Volume(request) => volumes::decide(server, request),
        InstanceRequest::Lock { lock: wanted } => lock(server, wanted),
        InstanceRequest::Unlock { by_admin } => unlock(server, by_admin),
        InstanceRequest::PostGuestPassword { password } => post_guest_password(server, password),
        InstanceRequest::ClearGuestPassword => match server.guest_password {
            Some(_) => one(GuestPasswordCleared {}),
            None => Ok(vec![]),
        },
        InstanceRequest::Work(request) => work::decide(server, *request),
        InstanceRequest::Move(request) => moving::decide(server, *request),
        InstanceRequest::Erase { erasure } => one(PersonalErased { erasure }),
    }
}

fn delete(server: &Alive, process: ProcessId, force: bool, asker: CallerRights) -> InstanceDecision {
    admit(server, if force { ServerAction::ForceDelete } else { ServerAction::Delete }, asker)?;
    // A second delete changes nothing. Nova, too, answers 204 to both.
    if matches!(server.ongoing, Some(OngoingTask::Delete { .. })) {
        return Ok(vec![]);
    }
    one(DeleteRequested { process, cancels: server.interruptible() })
}

/// Soft-deletes the server. As in Nova, a server that was never active is deleted for good.
fn soft_delete(server: &Alive, process: ProcessId, asker: CallerRights) -> InstanceDecision {
    match admit(server, ServerAction::SoftDelete, asker) {
        Err(InstanceReject::NeverLaunched { .. }) => return delete(server, process, false, asker),
        other => other?,
    }
    // An offloaded server has no guest to power off and on again, so it is deleted for good, too.
    if server.is_offloaded() {
        return delete(server, process, false, asker);
    }
    // A server with a move that has not ended has two hosts or two flavors, so it could not be restored.
    if server.moving.is_some() {
        let (attribute, value) = match status::of_alive(server) {
            status::Status { task_state: Some(task), .. } => ("task_state", task),
            shown => ("vm_state", shown.vm_state),
        };
        return Err(InstanceReject::NotInState { action: "delete", attribute, value });
    }
    // The server is already soft-deleted, or a process is deleting it, so this request changes nothing.
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
    volumes::check_connected(server, action.into())?;
    one(PowerRequested { process, action })
}

/// Nova's `_poll_rebooting_instances`. The operator's reboot overrides a lock.
fn reboot_due(server: &Alive, process: ProcessId, overtakes: ProcessId) -> InstanceDecision {
    match server.ongoing {
        Some(OngoingTask::Power { process: soft, action: PowerAction::RebootSoft }) if soft == overtakes => {
            power(server, process, PowerAction::RebootHard, CallerRights { overrides_lock: true })
        }
        _ => Ok(vec![]),
    }
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
            // The server already has this state.
            _ => {}
        }
    }
    Ok(events)
}

/// As in Nova's `API.lock`, an owner's lock does not change a locked server. An administrator's lock replaces any lock.
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

/// As in Nova, posting an empty password changes nothing.
fn post_guest_password(server: &Alive, password: String) -> InstanceDecision {
    match server.guest_password {
        Some(_) => Err(InstanceReject::GuestPasswordKept),
        None if password.is_empty() => Ok(vec![]),
        None => one(GuestPasswordPosted { password }),
    }
}

fn record_of(server: &Alive, record: InstanceRecord) -> InstanceDecision {
    let built_by = server.building();
    let placed_by = server.placing();
    let at_work = server.ongoing.map(|ongoing| ongoing.process());
    let turn = |of: Option<ProcessId>, process| match of == Some(process) {
        true => Ok(()),
        false => Err(InstanceReject::Superseded),
    };
    match record {
        InstanceRecord::Placed(placed) => {
            if server.placement.as_ref().is_some_and(|now| now.host == placed.host && now.process == placed.process) {
                return Ok(vec![]);
            }
            turn(placed_by, placed.process)?;
            one(placed)
        }
        InstanceRecord::Scheduled { placed, scheduled, network, machine_type } => {
            turn(placed_by, scheduled.process)?;
            match placed {
                Some(placed) if server.placement.as_ref().is_some_and(|now| now.host == placed.host) => Ok(vec![]),
                Some(placed) => {
                    let network = network.map(InstanceEvent::from);
                    let machine = machine::on_placement(server, machine_type).map(InstanceEvent::from);
                    Ok([(*scheduled).into(), placed.into()].into_iter().chain(machine).chain(network).collect())
                }
                None => one(*scheduled),
            }
        }
        InstanceRecord::MachineType { machine_type } => machine::record(server, machine_type),
        InstanceRecord::TpmSecret { secret, reference } => match server.tpm {
            Some(_) => Ok(vec![]),
            None => one(TpmSecretStored { secret, reference }),
        },
        InstanceRecord::Unplaced { process, host, reason } => {
            if server.placement.is_none() {
                return Ok(vec![]);
            }
            turn(placed_by, process)?;
            one(Unplaced { process, host, reason })
        }
        InstanceRecord::Network(allocated) => {
            if server.has_interfaces(&allocated.nics) {
                return Ok(vec![]);
            }
            turn(built_by, allocated.process)?;
            one(allocated)
        }
        InstanceRecord::Built { process } => match server.launched_at {
            Some(_) if server.request.process == process => Ok(vec![]),
            _ => turn(built_by, process).and_then(|()| one(BuildSucceeded { process })),
        },
        InstanceRecord::BuildFailed { process, fault } => match server.phase {
            Phase::Error { .. } if server.request.process == process => Ok(vec![]),
            _ => turn(built_by, process).and_then(|()| one(BuildFailed { process, fault })),
        },
        InstanceRecord::Deleted { process } => turn(at_work, process).and_then(|()| one(Deleted { process })),
        InstanceRecord::SoftDeleted { process } => match at_work == Some(process) {
            true => one(SoftDeleted { process }),
            false => Ok(vec![]),
        },
        InstanceRecord::Restored { process } => match at_work == Some(process) {
            true => one(Restored { process }),
            false => Ok(vec![]),
        },
        InstanceRecord::RestoreFailed { process, fault } => match at_work == Some(process) {
            true => one(RestoreFailed { process, fault }),
            false => Ok(vec![]),
        },
        InstanceRecord::PowerDone { process, action } => match at_work == Some(process) {
            true => one(PowerCompleted { process, action }),
            // The record is a repetition, or another request has overtaken the task. Either way, it has no effect.
            false => Ok(vec![]),
        },
        InstanceRecord::PowerFailed { process, action, fault } => match at_work == Some(process) {
            true => one(PowerFailed { process, action, fault }),
            false => Ok(vec![]),
        },
        InstanceRecord::NicAttached { process, nic } => interfaces::attached(server, process, nic),
        InstanceRecord::NicDetached { process, port } => interfaces::detached(server, process, port),
        InstanceRecord::NicDetachFailed { process, port, fault } => match server.detaching.contains(&(process, port)) {
            true => one(NicDetachFailed { process, port, fault }),
            false => Ok(vec![]),
        },
        InstanceRecord::NicsRefreshed { nics } => interfaces::refresh(server, &nics),
        InstanceRecord::PowerObserved { host, power } => {
            let here = server.placement.as_ref().is_some_and(|placed| placed.host == host);
            // During a live migration, neither host's report about its guest says whether the server runs.
            let on_way = server.moving.as_ref().is_some_and(|moving| moving.live.is_some());
            match here && !on_way && placed_by.is_none() && server.power() != power {
                true => one(PowerObserved { host, power }),
                false => Ok(vec![]),
            }
        }
        InstanceRecord::Volume(record) => volumes::record(server, record),
        InstanceRecord::Work(record) => work::record(server, record),
        InstanceRecord::Move(record) => moving::record(server, *record),
    }
}
