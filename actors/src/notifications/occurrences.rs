//! Maps each event of a server to its notifications. The names are Nova's. Versioned notifications are named like
//! `instance.power_on.start`. Unversioned notifications are named like `compute.instance.power_on.start`. Not every
//! action has unversioned notifications.

use chronova_events::ids::{ImageId, VolumeId};
use chronova_events::instance::{
    Alive, BlockDevice, DiskWork, FaultInfo, FlavorSnapshot, Instance, InstanceDisk, InstanceEvent, LiveStage,
    MoveKind, MoveStage, PowerAction, Scheduled, status,
};

use super::options::StateChangeUpdates;
use super::server_history::ServerMoment;

/// The part of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionPhase {
    Start,
    End,
    Error,
}

impl ActionPhase {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
            Self::Error => "error",
        }
    }
}

/// The data that a payload has in addition to the server's data.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ActionDetails {
    Plain,
    Create,
    Volume(VolumeId),
    VolumeSwap {
        old: VolumeId,
        new: VolumeId,
    },
    ResizePrep(Box<FlavorSnapshot>),
    Snapshot(ImageId),
    Rescue(ImageId),
    Rebuild,
    /// The scheduler selects a host for this flavor. Such a notification is the scheduler's, not the server's.
    Scheduling {
        flavor: Box<FlavorSnapshot>,
        attempt: u32,
    },
    /// `instance.update`, with the states before the event.
    Update(Box<StateBefore>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct StateBefore {
    pub vm_state: Option<&'static str>,
    pub task_state: Option<&'static str>,
    /// The name before the event, if the event changed the name.
    pub name: Option<String>,
}

/// One notification of an event.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Occurrence {
    /// Nova's name of the action: `power_on`.
    pub action: &'static str,
    pub phase: Option<ActionPhase>,
    /// The name after `compute.instance.`: `power_on.start`; `None` if there is no unversioned notification.
    pub legacy: Option<&'static str>,
    pub details: ActionDetails,
    pub fault: Option<FaultInfo>,
    /// Whether the payload shows the server's state before the event, not the state after it.
    pub as_before: bool,
    /// The host that the notification names as its publisher; `None`: the server's host, or the API if the server has
    /// none.
    pub publisher: Option<String>,
}

use ActionPhase::{End, Error, Start};

fn of(action: &'static str, phase: ActionPhase, legacy: &'static str) -> Occurrence {
    let legacy = Some(legacy).filter(|name| !name.is_empty());
    let (details, fault, as_before, publisher) = (ActionDetails::Plain, None, false, None);
    Occurrence { action, phase: Some(phase), legacy, details, fault, as_before, publisher }
}

impl Occurrence {
    fn with(mut self, details: ActionDetails) -> Self {
        self.details = details;
        self
    }

    fn failed(mut self, fault: &FaultInfo) -> Self {
        self.fault = Some(fault.clone());
        self
    }

    fn before(mut self) -> Self {
        self.as_before = true;
        self
    }

    fn published_by(mut self, host: Option<String>) -> Self {
        self.publisher = host;
        self
    }

    /// Whether the scheduler sends the notification.
    pub(super) fn is_scheduling(&self) -> bool {
        matches!(self.details, ActionDetails::Scheduling { .. })
    }

    /// The same notification without a phase, for example `instance.lock`.
    fn at_once(mut self) -> Self {
        self.phase = None;
        self
    }
}

/// The notifications of an event: those of the action in Nova's order, then `instance.update`. Nova sends
/// `instance.update` earlier.
pub(super) fn occurrences(
    event: &InstanceEvent,
    moment: &ServerMoment,
    updates: StateChangeUpdates,
) -> Vec<Occurrence> {
    let mut all = actions(event, moment);
    all.extend(update(event, moment, updates));
    all
}

fn actions(event: &InstanceEvent, moment: &ServerMoment) -> Vec<Occurrence> {
    use InstanceEvent as E;
    // Nova notifies nobody of a renewed attachment.
    if renews_attachment(event, moment) {
        return vec![];
    }
    let volume = |device: &BlockDevice| device.volume.map_or(ActionDetails::Plain, ActionDetails::Volume);
    let known = |id| volume_of(&moment.before, id).map_or(ActionDetails::Plain, ActionDetails::Volume);
    let one = match event {
        E::Scheduled(scheduled) => return scheduling(scheduled, moment),
        E::BuildRequested(_) => of("create", Start, "create.start").with(ActionDetails::Create),
        E::BuildSucceeded(_) => of("create", End, "create.end").with(ActionDetails::Create),
        E::BuildFailed(failed) => of("create", Error, "create.error").with(ActionDetails::Create).failed(&failed.fault),
        E::DeleteRequested(_) => {
            return [of("delete", Start, "delete.start")].into_iter().chain(shutdown(moment, Start)).collect();
        }
        E::Deleted(_) => return shutdown(moment, End).into_iter().chain([of("delete", End, "delete.end")]).collect(),
        E::PowerRequested(asked) => power(asked.action, Start),
        E::PowerCompleted(done) => power(done.action, End),
        E::PowerFailed(failed) if is_reboot(failed.action) => of("reboot", Error, "reboot.error").failed(&failed.fault),
        E::SoftDeleteRequested(_) => of("soft_delete", Start, "soft_delete.start"),
        E::SoftDeleted(_) => of("soft_delete", End, "soft_delete.end"),
        E::RestoreRequested(_) => of("restore", Start, "restore.start"),
        E::Restored(_) => of("restore", End, "restore.end"),
        E::Locked(_) => of("lock", End, "").at_once(),
        E::Unlocked(_) => of("unlock", End, "").at_once(),
        E::CrashDumpRequested(_) => of("trigger_crash_dump", Start, ""),
        E::NicAttachRequested(_) => of("interface_attach", Start, ""),
        E::NicAttached(_) => of("interface_attach", End, ""),
        E::NicDetachRequested(_) => of("interface_detach", Start, ""),
        E::NicDetached(_) => of("interface_detach", End, ""),
        E::VolumeAttachRequested(asked) => of("volume_attach", Start, "").with(volume(&asked.device)),
        E::VolumeAttached(done) => of("volume_attach", End, "volume.attach").with(volume(&done.device)),
        E::VolumeAttachFailed(failed) => {
            of("volume_attach", Error, "").with(known(failed.device)).failed(&failed.fault)
        }
        E::VolumeDetachRequested(asked) => of("volume_detach", Start, "").with(ActionDetails::Volume(asked.volume)),
        E::VolumeDetached(done) => of("volume_detach", End, "volume.detach").with(known(done.device)),
        E::VolumeSwapRequested(asked) => {
            let details = ActionDetails::VolumeSwap { old: asked.old, new: asked.new };
            of("volume_swap", Start, "").with(details)
        }
        E::VolumeSwapped(done) => of("volume_swap", End, "").with(swapped(&moment.before, &done.device)),
        E::SnapshotRequested(asked) => {
            of("snapshot", Start, "snapshot.start").with(ActionDetails::Snapshot(asked.image))
        }
        E::SnapshotTaken(taken) => of("snapshot", End, "snapshot.end").with(ActionDetails::Snapshot(taken.image)),
        E::RebuildRequested(_) => of("rebuild", Start, "rebuild.start").with(ActionDetails::Rebuild),
        E::Rebuilt(_) => of("rebuild", End, "rebuild.end").with(ActionDetails::Rebuild),
        E::RebuildFailed(failed) => {
            of("rebuild", Error, "rebuild.error").with(ActionDetails::Rebuild).failed(&failed.fault)
        }
        E::RescueRequested(asked) => of("rescue", Start, "rescue.start").with(ActionDetails::Rescue(asked.image.id)),
        E::Rescued(_) => of("rescue", End, "rescue.end").with(rescue_image(&moment.after)),
        E::UnrescueRequested(_) => of("unrescue", Start, "unrescue.start"),
        E::Unrescued(_) => of("unrescue", End, "unrescue.end"),
        E::ShelveRequested(_) => of("shelve", Start, "shelve.start"),
        E::Shelved(_) => of("shelve", End, "shelve.end"),
        E::OffloadRequested(_) => of("shelve_offload", Start, "shelve_offload.start"),
        E::Offloaded(_) => of("shelve_offload", End, "shelve_offload.end"),
        E::UnshelveRequested(_) => of("unshelve", Start, "unshelve.start"),
        E::Unshelved(_) => of("unshelve", End, "unshelve.end"),
        _ => return moves(event, moment),
    };
    vec![one]
}

/// The notifications about a decision of the scheduler. As in Nova, there is no end if no host was found.
fn scheduling(scheduled: &Scheduled, moment: &ServerMoment) -> Vec<Occurrence> {
    let Some(server) = moment.after.known() else { return vec![] };
    let flavor = new_flavor(&moment.after).unwrap_or_else(|| (*server.request.flavor).clone());
    let details = ActionDetails::Scheduling { flavor: Box::new(flavor), attempt: scheduled.attempt };
    let start = of("select_destinations", Start, "select_destinations.start").with(details.clone());
    let end = of("select_destinations", End, "select_destinations.end").with(details);
    let end = scheduled.chosen.map(|_| end);
    std::iter::once(start).chain(end).collect()
}

/// The notification about the shutdown of the guest during a delete. `None` if the server was on no host.
fn shutdown(moment: &ServerMoment, phase: ActionPhase) -> Option<Occurrence> {
    placed_on(&moment.before)?;
    Some(match phase {
        Start => of("shutdown", Start, "shutdown.start"),
        _ => of("shutdown", End, "shutdown.end").before(),
    })
}

fn is_reboot(action: PowerAction) -> bool {
    matches!(action, PowerAction::RebootSoft | PowerAction::RebootHard)
}

fn power(action: PowerAction, phase: ActionPhase) -> Occurrence {
    let is_start = phase == Start;
    let legacy = |start: &'static str, end: &'static str| if is_start { start } else { end };
    match action {
        PowerAction::Start => of("power_on", phase, legacy("power_on.start", "power_on.end")),
        PowerAction::Stop => of("power_off", phase, legacy("power_off.start", "power_off.end")),
        PowerAction::RebootSoft | PowerAction::RebootHard => of("reboot", phase, legacy("reboot.start", "reboot.end")),
        PowerAction::Pause => of("pause", phase, legacy("pause.start", "pause.end")),
        PowerAction::Unpause => of("unpause", phase, legacy("unpause.start", "unpause.end")),
        PowerAction::Suspend => of("suspend", phase, legacy("suspend.start", "suspend.end")),
        PowerAction::Resume => of("resume", phase, legacy("resume.start", "resume.end")),
    }
}

fn moves(event: &InstanceEvent, moment: &ServerMoment) -> Vec<Occurrence> {
    use InstanceEvent as E;
    match event {
        E::MoveRequested(asked) if matches!(asked.kind, MoveKind::Resize | MoveKind::Migrate) => {
            let details = ActionDetails::ResizePrep(Box::new(asked.new_flavor.clone()));
            vec![of("resize_prep", Start, "resize.prep.start").with(details)]
        }
        E::MoveAdvanced(advanced) => match advanced.stage {
            MoveStage::Preparing => vec![],
            MoveStage::Migrating => {
                let prepared = match new_flavor(&moment.after) {
                    Some(flavor) => ActionDetails::ResizePrep(Box::new(flavor)),
                    None => ActionDetails::Plain,
                };
                let prep = of("resize_prep", End, "resize.prep.end").with(prepared).before();
                vec![prep, of("resize", Start, "resize.start")]
            }
            MoveStage::Migrated => vec![of("resize", End, "resize.end")],
            MoveStage::Finishing => vec![of("resize_finish", Start, "finish_resize.start")],
        },
        E::Resized(_) => vec![of("resize_finish", End, "finish_resize.end")],
        E::MoveFailed(failed) if is_resize(&moment.before) => {
            vec![of("resize", Error, "resize.error").failed(&failed.fault)]
        }
        E::ConfirmRequested(_) => vec![of("resize_confirm", Start, "resize.confirm.start")],
        E::ResizeConfirmed(_) => vec![of("resize_confirm", End, "resize.confirm.end")],
        E::RevertRequested(_) => vec![of("resize_revert", Start, "resize.revert.start")],
        E::ResizeReverted(_) => vec![of("resize_revert", End, "resize.revert.end")],
        E::EvacuationRequested(_) => vec![of("evacuate", Start, "evacuate").at_once()],
        E::Evacuated(_) => vec![of("rebuild", End, "rebuild.end").with(ActionDetails::Rebuild)],
        _ => live_moves(event, moment),
    }
}

fn live_moves(event: &InstanceEvent, moment: &ServerMoment) -> Vec<Occurrence> {
    use InstanceEvent as E;
    let target = target_of(&moment.before);
    match event {
        E::LiveMoveAdvanced(advanced) => match advanced.stage {
            LiveStage::Preparing => {
                vec![of("live_migration_pre", Start, "live_migration.pre.start").published_by(target)]
            }
            LiveStage::Running => vec![of("live_migration_pre", End, "live_migration.pre.end").published_by(target)],
            LiveStage::Finishing => {
                vec![of("live_migration_post", Start, "live_migration._post.start")]
            }
            LiveStage::Accepted | LiveStage::Queued => vec![],
        },
        E::LiveMoved(_) => vec![
            of("live_migration_post_dest", Start, "live_migration.post.dest.start")
                .before()
                .published_by(target.clone()),
            of("live_migration_post_dest", End, "live_migration.post.dest.end").published_by(target),
            of("live_migration_post", End, "live_migration._post.end").published_by(source_of(&moment.before)),
        ],
        E::LiveMoveAborted(_) => vec![
            of("live_migration_rollback", Start, "live_migration._rollback.start").before(),
            of("live_migration_rollback", End, "live_migration._rollback.end"),
        ],
        E::LiveAbortRequested(_) => vec![of("live_migration_abort", Start, "live.migration.abort.start")],
        E::LiveCompletionForced(_) => vec![
            of("live_migration_force_complete", Start, "live.migration.force.complete.start").before(),
            of("live_migration_force_complete", End, "live.migration.force.complete.end"),
        ],
        _ => vec![],
    }
}

/// `instance.update`, as `[notifications] notify_on_state_change` says.
fn update(event: &InstanceEvent, moment: &ServerMoment, updates: StateChangeUpdates) -> Option<Occurrence> {
    if updates == StateChangeUpdates::Never {
        return None;
    }
    let (before, after) = (status::of(&moment.before), status::of(&moment.after));
    let vm = |shown: &Option<status::Status>| shown.as_ref().map(|shown| shown.vm_state);
    let task = |shown: &Option<status::Status>| shown.as_ref().and_then(|shown| shown.task_state);
    let renamed = matches!(event, InstanceEvent::Renamed(_));
    let changed =
        vm(&before) != vm(&after) || (updates == StateChangeUpdates::VmAndTaskState && task(&before) != task(&after));
    let name = moment.before.known().filter(|_| renamed).map(|server| server.request.name.clone());
    let state = StateBefore { vm_state: vm(&before).or(vm(&after)), task_state: task(&before), name };
    (changed || renamed).then(|| Occurrence {
        legacy: Some("update"),
        ..of("update", End, "").with(ActionDetails::Update(Box::new(state))).at_once()
    })
}

fn disk_of(instance: &Instance, device: chronova_events::ids::BlockDeviceId) -> Option<&InstanceDisk> {
    instance.known()?.disks.iter().find(|disk| disk.device.id == device)
}

fn volume_of(instance: &Instance, device: chronova_events::ids::BlockDeviceId) -> Option<VolumeId> {
    disk_of(instance, device)?.device.volume
}

/// Whether the event swaps a volume for itself, which renews the attachment.
fn renews_attachment(event: &InstanceEvent, moment: &ServerMoment) -> bool {
    match event {
        InstanceEvent::VolumeSwapRequested(asked) => asked.old == asked.new,
        InstanceEvent::VolumeSwapped(done) => {
            disk_of(&moment.before, done.device.id).is_some_and(InstanceDisk::renews_attachment)
        }
        _ => false,
    }
}

fn swapped(before: &Instance, device: &BlockDevice) -> ActionDetails {
    // After a migration by the volume service, the server has the old id again.
    let new = match disk_of(before, device.id).and_then(|disk| disk.work) {
        Some(DiskWork::Swapping { to, .. }) => Some(to),
        _ => device.volume,
    };
    match (volume_of(before, device.id), new) {
        (Some(old), Some(new)) => ActionDetails::VolumeSwap { old, new },
        _ => ActionDetails::Plain,
    }
}

fn rescue_image(instance: &Instance) -> ActionDetails {
    let image = instance.known().and_then(|server| server.rescue.as_ref());
    image.map_or(ActionDetails::Plain, |image| ActionDetails::Rescue(image.id))
}

fn moving(instance: &Instance) -> Option<&chronova_events::instance::Moving> {
    instance.known().and_then(|server: &Alive| server.moving.as_deref())
}

fn new_flavor(instance: &Instance) -> Option<FlavorSnapshot> {
    moving(instance).map(|moving| moving.new_flavor.clone())
}

fn is_resize(instance: &Instance) -> bool {
    moving(instance).is_some_and(|moving| matches!(moving.kind, MoveKind::Resize | MoveKind::Migrate))
}

fn target_of(instance: &Instance) -> Option<String> {
    Some(moving(instance)?.target.as_ref()?.hostname.clone())
}

fn source_of(instance: &Instance) -> Option<String> {
    Some(moving(instance)?.source.hostname.clone())
}

pub(super) fn placed_on(instance: &Instance) -> Option<&str> {
    Some(instance.known()?.placement.as_ref()?.hostname.as_str())
}
