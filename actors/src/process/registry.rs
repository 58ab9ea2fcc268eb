//! The one table of processes: which definition each task has. An embedded service's are in its own folder.

use chronova_events::process::{Task, VolumeWork};

use super::definition::Definition;
use super::{
    attach_interface, attach_volume, build_instance, change_password, confirm_resize, crash_dump, create_servers,
    delete_instance, detach_interface, detach_volume, drain_host, evacuate, live_migrate, move_instance, offload,
    power, rebuild, rescue, restore, revert_resize, shelve, snapshot, soft_delete, swap_volume, unrescue, unshelve,
};
use crate::services::embedded::volume::processes as volume;

macro_rules! processes {
    ($($task:pat => $definition:path),+ $(,)?) => {
        /// The definition of a task.
        pub fn definition(task: &Task) -> &'static Definition {
            match task {
                $($task => &$definition),+
            }
        }

        /// Every definition, and where it is: for those who prove that each has a proof.
        pub const ALL: &[(&str, &Definition)] = &[$((stringify!($definition), &$definition)),+];
    };
}

processes! {
    Task::BuildInstance { .. } => build_instance::DEFINITION,
    Task::DeleteInstance { .. } => delete_instance::DEFINITION,
    Task::Power { .. } => power::DEFINITION,
    Task::CrashDump { .. } => crash_dump::DEFINITION,
    Task::SoftDelete { .. } => soft_delete::DEFINITION,
    Task::Restore { .. } => restore::DEFINITION,
    Task::Volume { work: VolumeWork::Create, .. } => volume::create::DEFINITION,
    Task::Volume { work: VolumeWork::Delete { .. }, .. } => volume::delete::DEFINITION,
    Task::Volume { work: VolumeWork::Extend { .. }, .. } => volume::extend::DEFINITION,
    Task::Volume { work: VolumeWork::CreateSnapshot { .. }, .. } => volume::snapshot::CREATE,
    Task::Volume { work: VolumeWork::DeleteSnapshot { .. }, .. } => volume::snapshot::DELETE,
    Task::Volume { work: VolumeWork::Upload { .. }, .. } => volume::upload::DEFINITION,
    Task::Volume { work: VolumeWork::Reimage { .. }, .. } => volume::reimage::DEFINITION,
    Task::AttachInterface { .. } => attach_interface::DEFINITION,
    Task::DetachInterface { .. } => detach_interface::DEFINITION,
    Task::AttachVolume(_) => attach_volume::DEFINITION,
    Task::DetachVolume(_) => detach_volume::DEFINITION,
    Task::SwapVolume { .. } => swap_volume::DEFINITION,
    Task::Snapshot { .. } => snapshot::DEFINITION,
    Task::Rebuild { .. } => rebuild::DEFINITION,
    Task::Rescue { .. } => rescue::DEFINITION,
    Task::Unrescue { .. } => unrescue::DEFINITION,
    Task::Shelve { .. } => shelve::DEFINITION,
    Task::Offload { .. } => offload::DEFINITION,
    Task::Unshelve { .. } => unshelve::DEFINITION,
    Task::ChangePassword { .. } => change_password::DEFINITION,
    Task::MoveInstance { .. } => move_instance::DEFINITION,
    Task::ConfirmResize { .. } => confirm_resize::DEFINITION,
    Task::RevertResize { .. } => revert_resize::DEFINITION,
    Task::LiveMigrate { .. } => live_migrate::DEFINITION,
    Task::Evacuate { .. } => evacuate::DEFINITION,
    Task::DrainHost { .. } => drain_host::DEFINITION,
    Task::CreateServers { .. } => create_servers::DEFINITION,
}
