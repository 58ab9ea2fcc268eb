//! Names the optional parts of a driver that a process cannot do without, so that a host that lacks one refuses before
//! the first step has done anything.
//!
//! A process that may go to another host, or that needs a part for some servers only, names none: its steps ask for the
//! part when they come to it.

use chronova_events::instance::PowerAction;
use chronova_events::process::Task;
use chronova_hypervisor::capability::Capability;
use chronova_hypervisor::driver::Driver;

fn of(task: &Task) -> &'static [Capability] {
    match task {
        Task::Power { action, .. } => match action {
            PowerAction::Pause | PowerAction::Unpause | PowerAction::Suspend | PowerAction::Resume => {
                &[Capability::Suspension]
            }
            PowerAction::Start | PowerAction::Stop | PowerAction::RebootSoft | PowerAction::RebootHard => &[],
        },
        Task::CrashDump { .. } | Task::NudgeInstance { .. } => &[Capability::Troubleshooting],
        Task::AttachInterface { .. } | Task::DetachInterface { .. } => &[Capability::InterfaceAttachment],
        Task::AttachVolume(_) | Task::DetachVolume(_) | Task::SwapVolume { .. } => &[Capability::VolumeAttachment],
        Task::Rebuild { .. } | Task::Rescue { .. } | Task::Unrescue { .. } => &[Capability::Redefinition],
        Task::MoveInstance { .. } => &[Capability::DiskTransfer],
        Task::LiveMigrate { .. } => &[Capability::LiveMigration],
        Task::CreateServers { .. }
        | Task::BuildInstance { .. }
        | Task::DeleteInstance { .. }
        | Task::SoftDelete { .. }
        | Task::Restore { .. }
        | Task::Volume { .. }
        | Task::Snapshot { .. }
        | Task::Shelve { .. }
        | Task::Offload { .. }
        | Task::Unshelve { .. }
        | Task::ChangePassword { .. }
        | Task::ConfirmResize { .. }
        | Task::RevertResize { .. }
        | Task::Evacuate { .. }
        | Task::DrainHost { .. } => &[],
    }
}

/// Whether the task needs any part at all.
pub(super) fn any(task: &Task) -> bool {
    !of(task).is_empty()
}

/// The first part that the task needs and the driver does not offer.
pub(super) fn missing(task: &Task, driver: &dyn Driver) -> Option<Capability> {
    of(task).iter().copied().find(|need| !need.is_offered_by(driver))
}
