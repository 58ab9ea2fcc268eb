//! Nova's view of a server: derives `vm_state`, `task_state`, `power_state` and `status`.
//!
//! Source: nova `api/openstack/common.py` (`_STATE_MAP`), `compute/vm_states.py`, `compute/task_states.py`.

use super::imaging::WorkStage;
use super::moving::MoveStage;
use super::ongoing::OngoingTask;
use super::payloads::{Power, PowerAction};
use super::state::{Alive, Instance, Phase, Stage};

/// The status values that the API shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// For example `ACTIVE` or `BUILD`.
    pub status: &'static str,
    pub vm_state: &'static str,
    pub task_state: Option<&'static str>,
    /// Nova's number of the power state.
    pub power_state: u8,
    /// 100 for `ACTIVE`, otherwise 0. Only notifications have this value; the API always shows 0.
    pub progress: u8,
}

/// Every `vm_state` of a server that is not deleted.
pub const VM_STATES: [&str; 11] = [
    "building",
    "active",
    "paused",
    "suspended",
    "stopped",
    "error",
    "soft-delete",
    "rescued",
    "shelved",
    "shelved_offloaded",
    "resized",
];

/// Every `task_state`.
pub const TASK_STATES: [&str; 37] = [
    "scheduling",
    "networking",
    "spawning",
    "powering-on",
    "powering-off",
    "rebooting",
    "rebooting_hard",
    "pausing",
    "unpausing",
    "suspending",
    "resuming",
    "deleting",
    "soft-deleting",
    "restoring",
    "image_snapshot_pending",
    "image_snapshot",
    "image_backup",
    "image_pending_upload",
    "image_uploading",
    "rebuilding",
    "rebuild_block_device_mapping",
    "rebuild_spawning",
    "rescuing",
    "unrescuing",
    "shelving",
    "shelving_image_pending_upload",
    "shelving_image_uploading",
    "shelving_offloading",
    "unshelving",
    "updating_password",
    "resize_prep",
    "resize_migrating",
    "resize_migrated",
    "resize_finish",
    "resize_confirming",
    "resize_reverting",
    "migrating",
];

/// Nova's number of a power state.
pub fn power_number(power: Power) -> u8 {
    match power {
        Power::NoState => 0,
        Power::Running => 1,
        Power::Paused => 3,
        Power::Shutdown => 4,
        Power::Crashed => 6,
        Power::Suspended => 7,
    }
}

/// The status values of a server; `None` for a server that was never requested.
pub fn of(instance: &Instance) -> Option<Status> {
    match instance {
        Instance::Absent => None,
        Instance::Alive(alive) => Some(of_alive(alive)),
        Instance::Deleted(alive) => {
            let power_state = power_number(alive.power());
            Some(Status { status: "DELETED", vm_state: "deleted", task_state: None, power_state, progress: 0 })
        }
    }
}

pub fn of_alive(alive: &Alive) -> Status {
    let vm_state = match alive.phase {
        Phase::Building { .. } => "building",
        Phase::Active { .. } => "active",
        Phase::Stopped { .. } => "stopped",
        Phase::Error { .. } => "error",
        Phase::Paused { .. } => "paused",
        Phase::Suspended { .. } => "suspended",
        Phase::SoftDeleted { .. } => "soft-delete",
        Phase::Rescued { .. } => "rescued",
        Phase::Shelved { .. } => "shelved",
        Phase::Offloaded { .. } => "shelved_offloaded",
        Phase::Resized { .. } => "resized",
    };
    let task_state = task(alive);
    let status = status_word(vm_state, task_state);
    let progress = if status == "ACTIVE" { 100 } else { 0 };
    Status { status, vm_state, task_state, power_state: power_number(alive.power()), progress }
}

/// The `status` of a `vm_state` and a `task_state`.
pub fn status_word(vm_state: &str, task_state: Option<&str>) -> &'static str {
    match (vm_state, task_state) {
        ("active", Some("rebooting")) => "REBOOT",
        ("active", Some("rebooting_hard")) => "HARD_REBOOT",
        ("active", Some("updating_password")) => "PASSWORD",
        ("active" | "stopped" | "error", Some("rebuilding" | "rebuild_block_device_mapping" | "rebuild_spawning")) => {
            "REBUILD"
        }
        ("active" | "stopped", Some("resize_prep" | "resize_migrating" | "resize_migrated" | "resize_finish")) => {
            "RESIZE"
        }
        ("active" | "paused", Some("migrating")) => "MIGRATING",
        ("resized", Some("resize_reverting")) => "REVERT_RESIZE",
        ("resized", _) => "VERIFY_RESIZE",
        ("building", _) => "BUILD",
        ("active", _) => "ACTIVE",
        ("stopped", _) => "SHUTOFF",
        ("paused", _) => "PAUSED",
        ("suspended", _) => "SUSPENDED",
        ("soft-delete", _) => "SOFT_DELETED",
        ("rescued", _) => "RESCUE",
        ("shelved", _) => "SHELVED",
        ("shelved_offloaded", _) => "SHELVED_OFFLOADED",
        _ => "ERROR",
    }
}

fn task(alive: &Alive) -> Option<&'static str> {
    match (alive.ongoing, alive.phase) {
        (Some(OngoingTask::Delete { .. }), _) => Some("deleting"),
        (Some(OngoingTask::SoftDelete { .. }), _) => Some("soft-deleting"),
        (Some(OngoingTask::Restore { .. }), _) => Some("restoring"),
        (Some(OngoingTask::Power { action, .. }), _) => Some(match action {
            PowerAction::Start => "powering-on",
            PowerAction::Stop => "powering-off",
            PowerAction::RebootSoft => "rebooting",
            PowerAction::RebootHard => "rebooting_hard",
            PowerAction::Pause => "pausing",
            PowerAction::Unpause => "unpausing",
            PowerAction::Suspend => "suspending",
            PowerAction::Resume => "resuming",
        }),
        (Some(OngoingTask::Snapshot { backup, stage, .. }), _) => Some(match (stage, backup) {
            (WorkStage::PendingUpload, _) => "image_pending_upload",
            (WorkStage::Uploading, _) => "image_uploading",
            (_, true) => "image_backup",
            (WorkStage::Begun, false) => "image_snapshot_pending",
            (_, false) => "image_snapshot",
        }),
        (Some(OngoingTask::Rebuild { stage, .. }), _) => Some(match stage {
            WorkStage::Disks => "rebuild_block_device_mapping",
            WorkStage::Spawning => "rebuild_spawning",
            _ => "rebuilding",
        }),
        (Some(OngoingTask::Rescue { .. }), _) => Some("rescuing"),
        (Some(OngoingTask::Unrescue { .. }), _) => Some("unrescuing"),
        (Some(OngoingTask::Shelve { stage, .. }), _) => Some(match stage {
            WorkStage::PendingUpload => "shelving_image_pending_upload",
            WorkStage::Uploading => "shelving_image_uploading",
            _ => "shelving",
        }),
        (Some(OngoingTask::Offload { .. }), _) => Some("shelving_offloading"),
        (Some(OngoingTask::Unshelve { stage, .. }), _) => Some(match stage {
            WorkStage::Spawning => "spawning",
            _ => "unshelving",
        }),
        (Some(OngoingTask::ChangePassword { .. }), _) => Some("updating_password"),
        (Some(OngoingTask::Confirm { .. }), _) => Some("resize_confirming"),
        (Some(OngoingTask::Revert { .. }), _) => Some("resize_reverting"),
        (Some(OngoingTask::Move { .. }), _) if alive.moving.as_ref().is_some_and(|moving| moving.live.is_some()) => {
            Some("migrating")
        }
        (Some(OngoingTask::Move { .. }), _)
            if alive.moving.as_ref().is_some_and(|moving| moving.evacuation.is_some()) =>
        {
            Some(match alive.moving.as_ref().map(|moving| moving.stage) {
                None | Some(MoveStage::Preparing) => "rebuilding",
                Some(MoveStage::Migrating | MoveStage::Migrated) => "rebuild_block_device_mapping",
                Some(MoveStage::Finishing) => "rebuild_spawning",
            })
        }
        (Some(OngoingTask::Move { .. }), _) => Some(match alive.moving.as_ref().map(|moving| moving.stage) {
            None | Some(MoveStage::Preparing) => "resize_prep",
            Some(MoveStage::Migrating) => "resize_migrating",
            Some(MoveStage::Migrated) => "resize_migrated",
            Some(MoveStage::Finishing) => "resize_finish",
        }),
        (None, Phase::Building { stage, .. }) => Some(match stage {
            Stage::Scheduling => "scheduling",
            Stage::Networking => "networking",
            Stage::Spawning => "spawning",
        }),
        (None, _) => None,
    }
}
