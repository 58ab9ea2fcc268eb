//! Says which operation an event begins, with its process, its task and its name.
//!
//! Each `match` over events lists all of them. So a new event does not compile until its author has decided whether it
//! begins an operation. Events of processes are an exception.

use crate::host::HostEvent;
use crate::ids::{InstanceId, ProcessId, VolumeId};
use crate::instance::{InstanceEvent, MoveKind, PowerAction};
use crate::process::{DiskTask, ProcessEvent, RequestNeed, Task, VolumeWork};
use crate::quota::QuotaEvent;
use crate::registry::Event;
use crate::volume::VolumeEvent;

/// An operation on a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerOperation {
    /// Nova's name, as `os-instance-actions` shows it: `createImage`.
    pub action: &'static str,
    /// The words of `chronova inspect`: `image`.
    pub label: &'static str,
    /// `None`: the event itself is the whole operation.
    pub process: Option<ProcessId>,
    pub task: Option<Task>,
}

/// The process that an event requests, and its task. `key` is the key of the event's stream.
pub fn requested_process(key: &str, event: &Event) -> Option<(ProcessId, Task)> {
    match event {
        Event::InstanceEvent(event) => {
            let operation = server_operation(key.parse().ok()?, event)?;
            operation.process.zip(operation.task)
        }
        Event::VolumeEvent(event) => of_volume(key.parse().ok()?, event),
        Event::HostEvent(event) => of_host(key, event),
        Event::QuotaEvent(event) => of_quota(event),
        Event::ProcessEvent(event) => of_process(event),
        Event::AccessEvent(_)
        | Event::ConsoleEvent(_)
        | Event::ErasureEvent(_)
        | Event::ExternalEvent(_)
        | Event::FlavorEvent(_)
        | Event::FleetEvent(_)
        | Event::HostAggregateEvent(_)
        | Event::IdentityEvent(_)
        | Event::ImageEvent(_)
        | Event::InstallationEvent(_)
        | Event::KeypairEvent(_)
        | Event::LedgerEvent(_)
        | Event::NetworkEvent(_)
        | Event::NetworkQuotaEvent(_)
        | Event::NotificationEvent(_)
        | Event::QuotaClassEvent(_)
        | Event::RouterEvent(_)
        | Event::SecurityGroupEvent(_)
        | Event::ServerGroupEvent(_)
        | Event::VolumeQuotaEvent(_)
        | Event::VolumeTypeEvent(_) => None,
    }
}

/// The operation that an event of a server begins.
pub fn server_operation(instance: InstanceId, event: &InstanceEvent) -> Option<ServerOperation> {
    let (action, label, process, task) = match event {
        InstanceEvent::BuildRequested(asked) => ("create", "create", asked.process, Task::BuildInstance { instance }),
        InstanceEvent::DeleteRequested(asked) => {
            ("delete", "delete", asked.process, Task::DeleteInstance { instance, cancels: asked.cancels })
        }
        // Nova calls both kinds of deletion `delete`.
        InstanceEvent::SoftDeleteRequested(asked) => ("delete", "delete", asked.process, Task::SoftDelete { instance }),
        InstanceEvent::RestoreRequested(asked) => ("restore", "restore", asked.process, Task::Restore { instance }),
        InstanceEvent::PowerRequested(asked) => {
            let action = match asked.action {
                PowerAction::RebootSoft | PowerAction::RebootHard => "reboot",
                other => other.label(),
            };
            (action, asked.action.label(), asked.process, Task::Power { instance, action: asked.action })
        }
        InstanceEvent::CrashDumpRequested(asked) => {
            ("trigger_crash_dump", "crash dump", asked.process, Task::CrashDump { instance })
        }
        InstanceEvent::NicAttachRequested(asked) => {
            let task = Task::AttachInterface { instance, wanted: asked.wanted.clone() };
            ("attach_interface", "attach interface", asked.process, task)
        }
        InstanceEvent::NicDetachRequested(asked) => {
            let task = Task::DetachInterface { instance, port: asked.port };
            ("detach_interface", "detach interface", asked.process, task)
        }
        InstanceEvent::VolumeAttachRequested(asked) => {
            let device = &asked.device;
            let disk = device.volume.zip(device.attachment);
            let disk = disk.map(|(volume, attachment)| DiskTask { instance, device: device.id, volume, attachment });
            return Some(ServerOperation {
                action: "attach_volume",
                label: "attach volume",
                process: Some(asked.process),
                task: disk.map(Task::AttachVolume),
            });
        }
        InstanceEvent::VolumeDetachRequested(asked) => {
            let (device, volume, attachment) = (asked.device, asked.volume, asked.attachment);
            let task = Task::DetachVolume(DiskTask { instance, device, volume, attachment });
            ("detach_volume", "detach volume", asked.process, task)
        }
        InstanceEvent::VolumeSwapRequested(asked) => {
            let (device, volume, attachment) = (asked.device, asked.old, asked.old_attachment);
            let disk = DiskTask { instance, device, volume, attachment };
            let task = Task::SwapVolume { disk, new: asked.new, new_attachment: asked.new_attachment };
            match asked.old == asked.new {
                // The server keeps the volume, with a new attachment.
                true => ("refresh_volume_attachment", "refresh volume attachment", asked.process, task),
                false => ("swap_volume", "swap volume", asked.process, task),
            }
        }
        InstanceEvent::DiskExtensionRequested(asked) => {
            let task = Task::ExtendDisk { instance, volume: asked.volume };
            ("extend_volume", "extend volume", asked.process, task)
        }
        InstanceEvent::SnapshotRequested(asked) => {
            let task = Task::Snapshot { instance, image: asked.image, backup: asked.backup.clone() };
            match asked.backup {
                Some(_) => ("createBackup", "backup", asked.process, task),
                None => ("createImage", "image", asked.process, task),
            }
        }
        InstanceEvent::RebuildRequested(asked) => {
            let (preserve_ephemeral, other_image) = (asked.preserve_ephemeral, asked.other_image);
            ("rebuild", "rebuild", asked.process, Task::Rebuild { instance, preserve_ephemeral, other_image })
        }
        InstanceEvent::RescueRequested(asked) => ("rescue", "rescue", asked.process, Task::Rescue { instance }),
        InstanceEvent::UnrescueRequested(asked) => ("unrescue", "unrescue", asked.process, Task::Unrescue { instance }),
        InstanceEvent::ShelveRequested(asked) => match asked.image {
            Some(image) => ("shelve", "shelve", asked.process, Task::Shelve { instance, image }),
            // A volume-backed server needs no snapshot, because its root disk outlives the guest.
            None => ("shelve", "shelve", asked.process, Task::Offload { instance }),
        },
        InstanceEvent::OffloadRequested(asked) => {
            ("shelveOffload", "offload", asked.process, Task::Offload { instance })
        }
        InstanceEvent::UnshelveRequested(asked) => ("unshelve", "unshelve", asked.process, Task::Unshelve { instance }),
        InstanceEvent::PasswordChangeRequested(asked) => {
            ("changePassword", "password", asked.process, Task::ChangePassword { instance })
        }
        InstanceEvent::MoveRequested(asked) => {
            let (action, label) = match asked.kind {
                MoveKind::Resize => ("resize", "resize"),
                MoveKind::Migrate => ("migrate", "migrate"),
                MoveKind::Live => ("live-migration", "live migration"),
                MoveKind::Evacuate => ("evacuate", "evacuate"),
            };
            (action, label, asked.process, Task::MoveInstance { instance })
        }
        InstanceEvent::LiveMoveRequested(asked) => {
            ("live-migration", "live migration", asked.process, Task::LiveMigrate { instance })
        }
        InstanceEvent::EvacuationRequested(asked) => {
            ("evacuate", "evacuate", asked.process, Task::Evacuate { instance })
        }
        InstanceEvent::ConfirmRequested(asked) => {
            let task = Task::ConfirmResize { instance, migration: asked.migration };
            ("confirmResize", "confirm resize", asked.process, task)
        }
        InstanceEvent::RevertRequested(asked) => {
            let task = Task::RevertResize { instance, migration: asked.migration };
            ("revertResize", "revert resize", asked.process, task)
        }
        InstanceEvent::LiveAbortRequested(_) => {
            return Some(at_once("live_migration_cancel", "abort live migration"));
        }
        InstanceEvent::LiveCompletionForced(_) => {
            return Some(at_once("live_migration_force_complete", "force live migration"));
        }
        InstanceEvent::Locked(_) => return Some(at_once("lock", "lock")),
        InstanceEvent::Unlocked(_) => return Some(at_once("unlock", "unlock")),
        InstanceEvent::Placed(_)
        | InstanceEvent::Unplaced(_)
        | InstanceEvent::NetworkAllocated(_)
        | InstanceEvent::BuildSucceeded(_)
        | InstanceEvent::BuildFailed(_)
        | InstanceEvent::Deleted(_)
        | InstanceEvent::PowerCompleted(_)
        | InstanceEvent::PowerFailed(_)
        | InstanceEvent::PowerObserved(_)
        | InstanceEvent::Renamed(_)
        | InstanceEvent::DescriptionChanged(_)
        | InstanceEvent::HostnameChanged(_)
        | InstanceEvent::DiskConfigChanged(_)
        | InstanceEvent::AccessAddressesChanged(_)
        | InstanceEvent::MetadataReplaced(_)
        | InstanceEvent::TagsReplaced(_)
        | InstanceEvent::StateDeclared(_)
        | InstanceEvent::SoftDeleted(_)
        | InstanceEvent::Restored(_)
        | InstanceEvent::RestoreFailed(_)
        | InstanceEvent::Scheduled(_)
        | InstanceEvent::PersonalErased(_)
        | InstanceEvent::NicAttached(_)
        | InstanceEvent::NicDetached(_)
        | InstanceEvent::NicDetachFailed(_)
        | InstanceEvent::NicsRefreshed(_)
        | InstanceEvent::BlockDevicesMapped(_)
        | InstanceEvent::BlockDevicesPrepared(_)
        | InstanceEvent::VolumeAttached(_)
        | InstanceEvent::VolumeAttachFailed(_)
        | InstanceEvent::VolumeDetached(_)
        | InstanceEvent::VolumeDetachFailed(_)
        | InstanceEvent::VolumeSwapped(_)
        | InstanceEvent::VolumeSwapFailed(_)
        | InstanceEvent::VolumeDeletionChanged(_)
        | InstanceEvent::WorkAdvanced(_)
        | InstanceEvent::SnapshotTaken(_)
        | InstanceEvent::SnapshotFailed(_)
        | InstanceEvent::Rebuilt(_)
        | InstanceEvent::RebuildFailed(_)
        | InstanceEvent::Rescued(_)
        | InstanceEvent::RescueFailed(_)
        | InstanceEvent::Unrescued(_)
        | InstanceEvent::UnrescueFailed(_)
        | InstanceEvent::Shelved(_)
        | InstanceEvent::ShelveFailed(_)
        | InstanceEvent::Offloaded(_)
        | InstanceEvent::Unshelved(_)
        | InstanceEvent::UnshelveFailed(_)
        | InstanceEvent::PasswordChanged(_)
        | InstanceEvent::PasswordChangeFailed(_)
        | InstanceEvent::MoveTargeted(_)
        | InstanceEvent::MoveUntargeted(_)
        | InstanceEvent::MoveAdvanced(_)
        | InstanceEvent::Resized(_)
        | InstanceEvent::MoveFailed(_)
        | InstanceEvent::ResizeConfirmed(_)
        | InstanceEvent::ResizeReverted(_)
        | InstanceEvent::RevertFailed(_)
        | InstanceEvent::LiveMoveAdvanced(_)
        | InstanceEvent::LiveMoveProgressed(_)
        | InstanceEvent::LiveMoved(_)
        | InstanceEvent::LiveMoveAborted(_)
        | InstanceEvent::Evacuated(_)
        | InstanceEvent::FilesGiven(_)
        | InstanceEvent::GuestPasswordPosted(_)
        | InstanceEvent::GuestPasswordCleared(_)
        | InstanceEvent::Adopted(_)
        | InstanceEvent::MigrationAdopted(_)
        | InstanceEvent::MachineTypeRecorded(_)
        | InstanceEvent::MachineTypeChanged(_)
        | InstanceEvent::TpmSecretStored(_)
        | InstanceEvent::ImagePropertiesChanged(_) => return None,
    };
    Some(ServerOperation { action, label, process: Some(process), task: Some(task) })
}

/// An operation that ends with the event that begins it.
fn at_once(action: &'static str, label: &'static str) -> ServerOperation {
    ServerOperation { action, label, process: None, task: None }
}

/// The name of the one event that Nova records for an action; `None` if Nova records none.
pub fn nova_event(action: &str) -> Option<&'static str> {
    Some(match action {
        "create" => "compute__do_build_and_run_instance",
        "delete" => "compute_terminate_instance",
        "start" => "compute_start_instance",
        "stop" => "compute_stop_instance",
        "reboot" => "compute_reboot_instance",
        "restore" => "compute_restore_instance",
        "trigger_crash_dump" => "compute_trigger_crash_dump",
        "pause" => "compute_pause_instance",
        "unpause" => "compute_unpause_instance",
        "suspend" => "compute_suspend_instance",
        "resume" => "compute_resume_instance",
        "attach_interface" => "compute_attach_interface",
        "detach_interface" => "compute_detach_interface",
        "attach_volume" => "compute_attach_volume",
        "detach_volume" => "compute_detach_volume",
        "swap_volume" => "compute_swap_volume",
        "extend_volume" => "compute_extend_volume",
        "resize" | "migrate" => "compute_resize_instance",
        "live-migration" => "compute_live_migration",
        "createImage" => "compute_snapshot_instance",
        "createBackup" => "compute_backup_instance",
        "rebuild" | "evacuate" => "compute_rebuild_instance",
        "rescue" => "compute_rescue_instance",
        "unrescue" => "compute_unrescue_instance",
        "shelve" => "compute_shelve_instance",
        "shelveOffload" => "compute_shelve_offload_instance",
        "unshelve" => "compute_unshelve_instance",
        "changePassword" => "compute_set_admin_password",
        "confirmResize" => "compute_confirm_resize",
        "revertResize" => "compute_revert_resize",
        _ => return None,
    })
}

fn of_volume(volume: VolumeId, event: &VolumeEvent) -> Option<(ProcessId, Task)> {
    let (process, work) = match event {
        VolumeEvent::VolumeCreated(asked) => (asked.process, VolumeWork::Create),
        VolumeEvent::VolumeDeleteRequested(asked) => (asked.process, VolumeWork::Delete { cancels: asked.cancels }),
        VolumeEvent::ExtendRequested(asked) => (asked.process, VolumeWork::Extend { size_gb: asked.size_gb }),
        VolumeEvent::UploadRequested(asked) => (asked.process, VolumeWork::Upload { image: asked.image }),
        VolumeEvent::ReimageRequested(asked) => (asked.process, VolumeWork::Reimage { image: asked.image.snapshot.id }),
        VolumeEvent::VolumeSnapshotRequested(asked) => {
            (asked.process, VolumeWork::CreateSnapshot { snapshot: asked.snapshot })
        }
        VolumeEvent::SnapshotDeleteRequested(asked) => {
            (asked.process, VolumeWork::DeleteSnapshot { snapshot: asked.snapshot })
        }
        VolumeEvent::VolumeReady(_)
        | VolumeEvent::VolumeFailed(_)
        | VolumeEvent::VolumeDescribed(_)
        | VolumeEvent::VolumeFlagged(_)
        | VolumeEvent::ImageMetadataReplaced(_)
        | VolumeEvent::VolumeExtended(_)
        | VolumeEvent::UploadEnded(_)
        | VolumeEvent::AttachmentReserved(_)
        | VolumeEvent::AttachmentConnected(_)
        | VolumeEvent::AttachmentCompleted(_)
        | VolumeEvent::AttachmentReleased(_)
        | VolumeEvent::StatusChanged(_)
        | VolumeEvent::StatusReset(_)
        | VolumeEvent::VolumeDeleted(_)
        | VolumeEvent::SnapshotReady(_)
        | VolumeEvent::VolumeSnapshotFailed(_)
        | VolumeEvent::SnapshotDescribed(_)
        | VolumeEvent::SnapshotReset(_)
        | VolumeEvent::SnapshotDeleted(_)
        | VolumeEvent::VolumeReimaged(_) => return None,
    };
    Some((process, Task::Volume { volume, work }))
}

fn of_host(key: &str, event: &HostEvent) -> Option<(ProcessId, Task)> {
    match event {
        HostEvent::DrainRequested(asked) => Some((asked.process, Task::DrainHost { host: key.parse().ok()? })),
        HostEvent::Registered(_)
        | HostEvent::CapabilitiesChanged(_)
        | HostEvent::CameUp(_)
        | HostEvent::WentDown(_)
        | HostEvent::Enabled(_)
        | HostEvent::Disabled(_)
        | HostEvent::ForcedDown(_)
        | HostEvent::Deregistered(_)
        | HostEvent::DepartureBegun(_)
        | HostEvent::ServerLeft(_)
        | HostEvent::ServerStayed(_)
        | HostEvent::DrainCancelled(_)
        | HostEvent::DrainEnded(_)
        | HostEvent::MaintenanceBegun(_)
        | HostEvent::MaintenanceEnded(_) => None,
    }
}

fn of_quota(event: &QuotaEvent) -> Option<(ProcessId, Task)> {
    match event {
        QuotaEvent::ServersClaimed(claimed) => {
            let (project, instances, group) =
                (claimed.project.clone(), claimed.instances.clone(), claimed.group.clone());
            Some((claimed.process, Task::CreateServers { project, instances, group }))
        }
        QuotaEvent::QuotaClaimed(claimed) => {
            let (instance, asks_for) = (claimed.instance, claimed.asks_for);
            let needs = RequestNeed::Quota(claimed.project.clone());
            Some((claimed.process, Task::AskServer { instance, asks_for, needs }))
        }
        QuotaEvent::QuotaReserved(_)
        | QuotaEvent::QuotaReleased(_)
        | QuotaEvent::LimitsSet(_)
        | QuotaEvent::LimitsReset(_)
        | QuotaEvent::QuotaAdjusted(_)
        | QuotaEvent::QuotaClaimWithdrawn(_) => None,
    }
}

/// The process that its own `Started` event requests; `None` if another event requests the process.
fn of_process(event: &ProcessEvent) -> Option<(ProcessId, Task)> {
    match event {
        ProcessEvent::Started(started) if started.task.asks_for_itself() => {
            Some((started.process, started.task.clone()))
        }
        _ => None,
    }
}
