//! The life cycle of a server.
//!
//! ```text
//!                BuildRequested
//!                      v
//!                +----------+   BuildFailed    +-------+
//!                | Building |----------------->| Error |
//!                +----------+                  +-------+
//!                      | BuildSucceeded            |
//!                      v                           |
//!   PowerCompleted  +--------+  PowerObserved      |
//!   (start) +------>| Active |------+              |
//!           |       +--------+      v              |
//!           |           |       +---------+        |
//!           +-----------|-------| Stopped |        |
//!                       |       +---------+        |
//!                       |            |             |
//!                       +------------+-------------+
//!                                    | DeleteRequested (from anywhere), then Deleted
//!                                    v
//!                               +---------+
//!                               | Deleted |
//!                               +---------+
//! ```
//!
//! A move leads from `Active` or `Stopped` to `Resized`. A confirmation or a revert leads back. A live migration
//! changes the host and not the state. From `Active`, a pause leads to `Paused` and a suspension to `Suspended`; an
//! unpause, a resume or a hard reboot leads back. A rescue leads to `Rescued` and an unrescue back. Shelving leads to
//! `Shelved`, and offloading from there to `Offloaded`. An unshelve leads from `Shelved` or `Offloaded` to `Active`. A
//! soft delete leads to `SoftDeleted`, and a restore from there to `Active`.
//!
//! While a process works on the server, `ongoing` names the process and its task. Nova's four fields (`vm_state`,
//! `task_state`, `power_state`, `status`) are derived in [`status`] and never stored.

mod adopted;
mod block;
mod evacuation;
mod guest_data;
mod image_properties;
mod imaging;
mod interfaces;
mod live;
mod machine;
mod moving;
pub(crate) mod older;
mod ongoing;
mod operator;
mod payloads;
mod queries;
mod rebuild;
mod rescue;
mod scheduled;
mod shelving;
mod soft_delete;
mod state;
pub mod status;

pub use adopted::{
    Adopted, AdoptedAction, AdoptedActionEvent, AdoptedEnd, AdoptedMove, AdoptedOutcome, AdoptedState, MigrationAdopted,
};
pub use block::{
    BlockConnection, BlockDevice, BlockDevicesMapped, BlockDevicesPrepared, BlockLocation, BlockSource,
    DiskExtensionRequested, DiskWork, InstanceDisk, VolumeAttachFailed, VolumeAttachRequested, VolumeAttached,
    VolumeDeletionChanged, VolumeDetachFailed, VolumeDetachRequested, VolumeDetached, VolumeSwapFailed,
    VolumeSwapRequested, VolumeSwapped, disk_key,
};
pub use evacuation::{Evacuated, Evacuation, EvacuationRequested};
pub use guest_data::{
    FilesGiven, GuestPasswordCleared, GuestPasswordPosted, PasswordChangeFailed, PasswordChangeRequested,
    PasswordChanged,
};
pub use image_properties::ImagePropertiesChanged;
pub use imaging::{Rotation, SnapshotFailed, SnapshotRequested, SnapshotTaken, WorkAdvanced, WorkStage};
pub use interfaces::{
    NicAttachRequested, NicAttached, NicDetachFailed, NicDetachRequested, NicDetached, NicsRefreshed,
};
pub use live::{
    LiveAbortRequested, LiveCompletionForced, LiveMigrationState, LiveMoveAborted, LiveMoveAdvanced,
    LiveMoveProgressed, LiveMoveRequested, LiveMoved, LiveProgress, LiveStage,
};
pub use machine::{MachineTypeChanged, MachineTypeRecorded, TpmSecretStored};
pub use moving::{
    ConfirmRequested, MoveAdvanced, MoveFailed, MoveKind, MoveRequested, MoveStage, MoveTargeted, MoveUntargeted,
    Moving, ResizeConfirmed, ResizeReverted, Resized, RevertFailed, RevertRequested,
};
pub use ongoing::OngoingTask;
pub use operator::{CrashDumpRequested, DeclaredState, StateDeclared};
pub use payloads::*;
pub use rebuild::{FormerImage, RebuildFailed, RebuildRequested, Rebuilt};
pub use rescue::{RescueFailed, RescueRequested, Rescued, UnrescueFailed, UnrescueRequested, Unrescued};
pub use scheduled::*;
pub use shelving::{
    OffloadRequested, Offloaded, ShelveFailed, ShelveRequested, Shelved, UnshelveFailed, UnshelveRequested, Unshelved,
};
pub use soft_delete::{RestoreFailed, RestoreRequested, Restored, SoftDeleteRequested, SoftDeleted};
pub use state::{Alive, Instance, Phase, Stage};

noun! {
    /// Events of a server.
    InstanceEvent = "instance" {
        /// A user asked for a server. The event has the request and the properties that were looked up for it.
        BuildRequested = "build_requested" @ 2 from { 1 => older::BuildRequestedV1 },
        /// A host was selected and its resources claimed.
        Placed = "placed" @ 1,
        /// The server gave up its host: another attempt follows, or the build ends.
        Unplaced = "unplaced" @ 1,
        /// The ports through which the server is connected.
        NetworkAllocated = "network_allocated" @ 1,
        /// The guest runs.
        BuildSucceeded = "build_succeeded" @ 1,
        /// The build failed; everything claimed for it was released.
        BuildFailed = "build_failed" @ 1,
        /// A user asked to delete the server.
        DeleteRequested = "delete_requested" @ 1,
        /// The server is deleted.
        Deleted = "deleted" @ 1,
        /// A user asked for a start, stop, reboot, pause, unpause, suspend or resume.
        PowerRequested = "power_requested" @ 1,
        /// The requested power operation is complete.
        PowerCompleted = "power_completed" @ 1,
        /// The requested power operation failed.
        PowerFailed = "power_failed" @ 1,
        /// The guest's power state changed by itself.
        PowerObserved = "power_observed" @ 1,
        /// The display name was changed.
        Renamed = "renamed" @ 1,
        /// The description was changed or removed.
        DescriptionChanged = "description_changed" @ 1,
        /// The hostname was changed.
        HostnameChanged = "hostname_changed" @ 1,
        /// How a resize treats the disk was changed.
        DiskConfigChanged = "disk_config_changed" @ 1,
        /// The access addresses (`accessIPv4`, `accessIPv6`) were changed.
        AccessAddressesChanged = "access_addresses_changed" @ 1,
        /// The metadata is now this.
        MetadataReplaced = "metadata_replaced" @ 1,
        /// The tags are now these.
        TagsReplaced = "tags_replaced" @ 1,
        /// The server was locked.
        Locked = "locked" @ 1,
        /// The server was unlocked.
        Unlocked = "unlocked" @ 1,
        /// An administrator reset the server's state.
        StateDeclared = "state_declared" @ 1,
        /// A user asked for a crash dump: the guest gets an NMI.
        CrashDumpRequested = "crash_dump_requested" @ 1,
        /// A user asked to delete the server softly: it can be restored for a while.
        SoftDeleteRequested = "soft_delete_requested" @ 1,
        /// The server is soft-deleted: its guest is off.
        SoftDeleted = "soft_deleted" @ 1,
        /// A user asked to restore a soft-deleted server.
        RestoreRequested = "restore_requested" @ 1,
        /// The server is restored.
        Restored = "restored" @ 1,
        /// The restore failed; the server stays soft-deleted.
        RestoreFailed = "restore_failed" @ 1,
        /// The scheduler chose a host, or found none. The event has its reasons.
        Scheduled = "scheduled" @ 1,
        /// The personal fields of all earlier events of this server were erased.
        PersonalErased = "personal_erased" @ 1,
        /// A user asked to attach a network interface.
        NicAttachRequested = "nic_attach_requested" @ 1,
        /// The interface is attached to the guest.
        NicAttached = "nic_attached" @ 1,
        /// A user asked to detach an interface, or the network service deleted its port.
        NicDetachRequested = "nic_detach_requested" @ 1,
        /// The interface is detached.
        NicDetached = "nic_detached" @ 1,
        /// The guest did not release the interface; the server keeps it.
        NicDetachFailed = "nic_detach_failed" @ 1,
        /// The network service changed the interfaces, which are now these.
        NicsRefreshed = "nics_refreshed" @ 1,
        /// The requested block devices, beyond the disks of image and flavor.
        BlockDevicesMapped = "block_devices_mapped" @ 1,
        /// A build, or a process that moves the server off or onto a host, prepared or released the volumes.
        BlockDevicesPrepared = "block_devices_prepared" @ 1,
        /// A user asked to attach a volume to the server.
        VolumeAttachRequested = "volume_attach_requested" @ 1,
        /// The volume is attached to the guest.
        VolumeAttached = "volume_attached" @ 1,
        /// The volume could not be attached; it is available again.
        VolumeAttachFailed = "volume_attach_failed" @ 1,
        /// A user asked to detach a volume from the server.
        VolumeDetachRequested = "volume_detach_requested" @ 1,
        /// The volume is detached from the guest.
        VolumeDetached = "volume_detached" @ 1,
        /// The volume could not be detached; the guest keeps it.
        VolumeDetachFailed = "volume_detach_failed" @ 1,
        /// A user asked to swap one of the server's volumes for another one.
        VolumeSwapRequested = "volume_swap_requested" @ 1,
        /// The swap is complete: the guest has the new volume.
        VolumeSwapped = "volume_swapped" @ 1,
        /// The swap failed: the guest keeps the old volume.
        VolumeSwapFailed = "volume_swap_failed" @ 1,
        /// A volume's `delete_on_termination` was changed.
        VolumeDeletionChanged = "volume_deletion_changed" @ 1,
        /// The volume service told that one of the server's volumes has grown.
        DiskExtensionRequested = "disk_extension_requested" @ 1,
        /// A user asked for an image of the server's disk.
        SnapshotRequested = "snapshot_requested" @ 1,
        /// The operation under way reached its next stage.
        WorkAdvanced = "work_advanced" @ 1,
        /// The image has its data.
        SnapshotTaken = "snapshot_taken" @ 1,
        /// The image failed; nothing is left of it.
        SnapshotFailed = "snapshot_failed" @ 1,
        /// A user asked to rebuild the server from an image.
        RebuildRequested = "rebuild_requested" @ 2 from { 1 => older::RebuildRequestedV1 },
        /// The server is rebuilt.
        Rebuilt = "rebuilt" @ 1,
        /// The server could not be rebuilt.
        RebuildFailed = "rebuild_failed" @ 1,
        /// A user asked to rescue the server: start it from a rescue disk.
        RescueRequested = "rescue_requested" @ 1,
        /// The server runs from the rescue disk.
        Rescued = "rescued" @ 1,
        /// The rescue failed; the server is unchanged.
        RescueFailed = "rescue_failed" @ 1,
        /// A user asked to unrescue the server.
        UnrescueRequested = "unrescue_requested" @ 1,
        /// The server runs from its own disks again.
        Unrescued = "unrescued" @ 1,
        /// The unrescue failed.
        UnrescueFailed = "unrescue_failed" @ 1,
        /// A user asked to shelve the server.
        ShelveRequested = "shelve_requested" @ 2 from { 1 => older::ShelveRequestedV1 },
        /// The server is shelved: it is off, and its disk is kept as an image.
        Shelved = "shelved" @ 1,
        /// The server could not be shelved.
        ShelveFailed = "shelve_failed" @ 1,
        /// The shelved server is about to be offloaded from its host.
        OffloadRequested = "offload_requested" @ 1,
        /// The shelved server is offloaded: it is on no host.
        Offloaded = "offloaded" @ 1,
        /// A user asked to unshelve a server.
        UnshelveRequested = "unshelve_requested" @ 1,
        /// The server is unshelved.
        Unshelved = "unshelved" @ 1,
        /// The unshelve failed; the server stays shelved.
        UnshelveFailed = "unshelve_failed" @ 1,
        /// A user asked for a new password of the guest's administrator.
        PasswordChangeRequested = "password_change_requested" @ 1,
        /// The guest has the new password.
        PasswordChanged = "password_changed" @ 1,
        /// The password change failed.
        PasswordChangeFailed = "password_change_failed" @ 1,
        /// A user asked for a resize or a cold migration.
        MoveRequested = "move_requested" @ 1,
        /// A destination was selected and its resources claimed.
        MoveTargeted = "move_targeted" @ 1,
        /// The destination was released. Another attempt follows, or the move ends.
        MoveUntargeted = "move_untargeted" @ 1,
        /// The move reached its next stage.
        MoveAdvanced = "move_advanced" @ 1,
        /// The server is at its destination and waits to be confirmed or reverted.
        Resized = "resized" @ 1,
        /// The move failed; the server keeps its host and flavor.
        MoveFailed = "move_failed" @ 1,
        /// A user confirmed the move, or the time to revert it is over.
        ConfirmRequested = "confirm_requested" @ 1,
        /// The move is confirmed: nothing is left at the source.
        ResizeConfirmed = "resize_confirmed" @ 1,
        /// A user asked to revert the move.
        RevertRequested = "revert_requested" @ 1,
        /// The move is reverted: the server has its old host and flavor.
        ResizeReverted = "resize_reverted" @ 1,
        /// The revert failed; the server stays at its destination.
        RevertFailed = "revert_failed" @ 1,
        /// A user asked for a live migration.
        LiveMoveRequested = "live_move_requested" @ 1,
        /// The live migration reached its next stage.
        LiveMoveAdvanced = "live_move_advanced" @ 1,
        /// The progress of the live migration, in bytes.
        LiveMoveProgressed = "live_move_progressed" @ 1,
        /// An abort of the live migration was requested, by a user or by its timeout.
        LiveAbortRequested = "live_abort_requested" @ 1,
        /// A user asked to force the live migration to complete, even if the guest is paused for it.
        LiveCompletionForced = "live_completion_forced" @ 1,
        /// The live migration is complete: the guest runs at its destination.
        LiveMoved = "live_moved" @ 1,
        /// The live migration was aborted; the server stays on its source host.
        LiveMoveAborted = "live_move_aborted" @ 1,
        /// A user asked to evacuate the server from a host that is down.
        EvacuationRequested = "evacuation_requested" @ 1,
        /// The evacuated server is rebuilt at its destination.
        Evacuated = "evacuated" @ 2 from { 1 => evacuation::EvacuatedV1 },
        /// The injected files (personality) of the guest.
        FilesGiven = "files_given" @ 1,
        /// The guest posted a password for its owner.
        GuestPasswordPosted = "guest_password_posted" @ 1,
        /// The posted password was cleared.
        GuestPasswordCleared = "guest_password_cleared" @ 1,
        /// The server was taken over from another control plane. The event has its state, and the actions on it there.
        Adopted = "adopted" @ 1,
        /// An ended migration of the server was taken over from another control plane.
        MigrationAdopted = "migration_adopted" @ 1,
        /// The machine type of the server's guest, which later starts keep.
        MachineTypeRecorded = "machine_type_recorded" @ 1,
        /// An operator gave the server another machine type, which its guest has from its next start on.
        MachineTypeChanged = "machine_type_changed" @ 1,
        /// The key manager has the passphrase of the server's emulated TPM.
        TpmSecretStored = "tpm_secret_stored" @ 1,
        /// An operator changed image properties of the server, which its guest has from its next start on.
        ImagePropertiesChanged = "image_properties_changed" @ 1,
    }
}
