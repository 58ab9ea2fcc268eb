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
//! A move leads from `Active` or `Stopped` to `Resized`, and a confirmation or a revert from there back. A live
//! migration changes the host and not the state.
//! From `Active` a pause leads to `Paused` and a suspension to `Suspended`; each has its way back, and a hard reboot leads
//! out of both. A rescue leads to `Rescued` and back, shelving to `Shelved`, from there offloading to `Offloaded`, and
//! unshelving from either back to `Active`.
//!
//! While a process works on the server, `ongoing` says which. Nova's quadruple (`vm_state`, `task_state`, `power_state`,
//! `status`) is derived in [`status`], never stored.

mod block;
mod evacuation;
mod imaging;
mod interfaces;
mod live;
mod moving;
pub(crate) mod older;
mod ongoing;
mod operator;
mod password;
mod payloads;
mod rebuild;
mod rescue;
mod scheduled;
mod shelving;
mod soft_delete;
mod state;
pub mod status;
mod told;

pub use block::{
    BlockConnection, BlockDevice, BlockDevicesMapped, BlockDevicesPrepared, BlockPlace, BlockSource, Disk, DiskWork,
    VolumeAttachFailed, VolumeAttachRequested, VolumeAttached, VolumeDeletionChanged, VolumeDetachFailed,
    VolumeDetachRequested, VolumeDetached, VolumeSwapFailed, VolumeSwapRequested, VolumeSwapped,
};
pub use evacuation::{Evacuated, Evacuation, EvacuationRequested};
pub use imaging::{Rotation, SnapshotFailed, SnapshotRequested, SnapshotTaken, WorkAdvanced, WorkStage};
pub use interfaces::{
    NicAttachRequested, NicAttached, NicDetachFailed, NicDetachRequested, NicDetached, NicsRefreshed,
};
pub use live::{
    Live, LiveAbortRequested, LiveCompletionForced, LiveMoveAborted, LiveMoveAdvanced, LiveMoveProgressed,
    LiveMoveRequested, LiveMoved, LiveProgress, LiveStage,
};
pub use moving::{
    ConfirmRequested, MoveAdvanced, MoveFailed, MoveKind, MoveRequested, MoveStage, MoveTargeted, MoveUntargeted,
    Moving, ResizeConfirmed, ResizeReverted, Resized, RevertFailed, RevertRequested,
};
pub use ongoing::Ongoing;
pub use operator::{CrashDumpRequested, DeclaredState, StateDeclared};
pub use password::{PasswordChangeFailed, PasswordChangeRequested, PasswordChanged};
pub use payloads::*;
pub use rebuild::{Former, RebuildFailed, RebuildRequested, Rebuilt};
pub use rescue::{RescueFailed, RescueRequested, Rescued, UnrescueFailed, UnrescueRequested, Unrescued};
pub use scheduled::*;
pub use shelving::{
    OffloadRequested, Offloaded, ShelveFailed, ShelveRequested, Shelved, UnshelveFailed, UnshelveRequested, Unshelved,
};
pub use soft_delete::{RestoreFailed, RestoreRequested, Restored, SoftDeleteRequested, SoftDeleted};
pub use state::{Alive, Instance, Phase, Stage};
pub use told::{FilesGiven, GuestPasswordCleared, GuestPasswordPosted};

noun! {
    /// Events of a server.
    InstanceEvent = "instance" {
        /// A user asked for a server: the request, with the properties that were looked up at that moment.
        BuildRequested = "build_requested" @ 2 from { 1 => older::BuildRequestedV1 },
        /// A host was chosen and its resources claimed.
        Placed = "placed" @ 1,
        /// The host was given up (another attempt or the end follows).
        Unplaced = "unplaced" @ 1,
        /// The ports through which the server is connected.
        NetworkAllocated = "network_allocated" @ 1,
        /// The guest runs.
        BuildSucceeded = "build_succeeded" @ 1,
        /// The server could not be built; everything taken for it was given back.
        BuildFailed = "build_failed" @ 1,
        /// A user asked to delete the server.
        DeleteRequested = "delete_requested" @ 1,
        /// Nothing of the server is left.
        Deleted = "deleted" @ 1,
        /// A user asked for a start, a stop, a reboot, a pause, a suspension, or the end of either.
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
        /// The addresses given for use by tools that know no ports were changed.
        AccessAddressesChanged = "access_addresses_changed" @ 1,
        /// The metadata is now this.
        MetadataReplaced = "metadata_replaced" @ 1,
        /// The tags are now these.
        TagsReplaced = "tags_replaced" @ 1,
        /// The server was locked against changes.
        Locked = "locked" @ 1,
        /// The lock was taken off.
        Unlocked = "unlocked" @ 1,
        /// An administrator reset the server's state.
        StateDeclared = "state_declared" @ 1,
        /// A user asked for a crash dump: the guest gets an NMI.
        CrashDumpRequested = "crash_dump_requested" @ 1,
        /// A user asked to delete the server softly: it can be restored for a while.
        SoftDeleteRequested = "soft_delete_requested" @ 1,
        /// The server is soft-deleted: its guest is off.
        SoftDeleted = "soft_deleted" @ 1,
        /// A user asked for a deleted server back.
        RestoreRequested = "restore_requested" @ 1,
        /// The server is back.
        Restored = "restored" @ 1,
        /// The server could not be brought back; it is deleted as before.
        RestoreFailed = "restore_failed" @ 1,
        /// The scheduler decided where the server goes, or that it goes nowhere, and why.
        Scheduled = "scheduled" @ 1,
        /// The personal fields of all events of this server so far were erased.
        PersonalErased = "personal_erased" @ 1,
        /// A user asked for one more network interface.
        NicAttachRequested = "nic_attach_requested" @ 1,
        /// The server has one more interface, and its guest, too.
        NicAttached = "nic_attached" @ 1,
        /// A user asked to detach an interface, or the network service deleted its port.
        NicDetachRequested = "nic_detach_requested" @ 1,
        /// The server has the interface no more.
        NicDetached = "nic_detached" @ 1,
        /// The guest did not release the interface; the server keeps it.
        NicDetachFailed = "nic_detach_failed" @ 1,
        /// The network service changed something about the interfaces: they are these now.
        NicsRefreshed = "nics_refreshed" @ 1,
        /// The disks that the server was asked for with, beyond those of its image and flavor.
        BlockDevicesMapped = "block_devices_mapped" @ 1,
        /// The server's volumes were made, reserved, connected, or given back: by a build, or as it leaves or finds its host.
        BlockDevicesPrepared = "block_devices_prepared" @ 1,
        /// A user asked for a volume to become a disk of the server.
        VolumeAttachRequested = "volume_attach_requested" @ 1,
        /// The guest has the volume.
        VolumeAttached = "volume_attached" @ 1,
        /// The guest could not be given the volume; it is free again.
        VolumeAttachFailed = "volume_attach_failed" @ 1,
        /// A user asked for a volume to be taken from the server.
        VolumeDetachRequested = "volume_detach_requested" @ 1,
        /// The guest does not have the volume any more.
        VolumeDetached = "volume_detached" @ 1,
        /// The guest kept the volume.
        VolumeDetachFailed = "volume_detach_failed" @ 1,
        /// A user asked to swap one of the server's volumes for another one.
        VolumeSwapRequested = "volume_swap_requested" @ 1,
        /// The guest has the other volume.
        VolumeSwapped = "volume_swapped" @ 1,
        /// The guest goes on with the volume that it had.
        VolumeSwapFailed = "volume_swap_failed" @ 1,
        /// A volume's `delete_on_termination` was changed.
        VolumeDeletionChanged = "volume_deletion_changed" @ 1,
        /// A user asked for an image of the server's disk.
        SnapshotRequested = "snapshot_requested" @ 1,
        /// Work under way has come to its next stage.
        WorkAdvanced = "work_advanced" @ 1,
        /// The image has its data.
        SnapshotTaken = "snapshot_taken" @ 1,
        /// The image could not be made; nothing is left of it.
        SnapshotFailed = "snapshot_failed" @ 1,
        /// A user asked to rebuild the server from an image.
        RebuildRequested = "rebuild_requested" @ 2 from { 1 => older::RebuildRequestedV1 },
        /// The server is rebuilt.
        Rebuilt = "rebuilt" @ 1,
        /// The server could not be rebuilt.
        RebuildFailed = "rebuild_failed" @ 1,
        /// A user asked for the server to be started from a rescue disk.
        RescueRequested = "rescue_requested" @ 1,
        /// The server runs from the rescue disk.
        Rescued = "rescued" @ 1,
        /// The server could not be started from the rescue disk; it is what it was.
        RescueFailed = "rescue_failed" @ 1,
        /// A user asked to unrescue the server.
        UnrescueRequested = "unrescue_requested" @ 1,
        /// The server runs from its own disk again.
        Unrescued = "unrescued" @ 1,
        /// The rescue could not be ended.
        UnrescueFailed = "unrescue_failed" @ 1,
        /// A user asked to shelve the server.
        ShelveRequested = "shelve_requested" @ 2 from { 1 => older::ShelveRequestedV1 },
        /// The server is off, and its disk is kept as an image.
        Shelved = "shelved" @ 1,
        /// The server could not be shelved.
        ShelveFailed = "shelve_failed" @ 1,
        /// The shelved server is about to be offloaded from its host.
        OffloadRequested = "offload_requested" @ 1,
        /// The shelved server is offloaded: it is on no host.
        Offloaded = "offloaded" @ 1,
        /// A user asked to unshelve a server.
        UnshelveRequested = "unshelve_requested" @ 1,
        /// The server is back.
        Unshelved = "unshelved" @ 1,
        /// The server could not be brought back; it is shelved as before.
        UnshelveFailed = "unshelve_failed" @ 1,
        /// A user asked for a new password of the guest's administrator.
        PasswordChangeRequested = "password_change_requested" @ 1,
        /// The guest has the new password.
        PasswordChanged = "password_changed" @ 1,
        /// The guest has no new password.
        PasswordChangeFailed = "password_change_failed" @ 1,
        /// A user asked for another flavor or another host.
        MoveRequested = "move_requested" @ 1,
        /// A destination was chosen and its resources claimed.
        MoveTargeted = "move_targeted" @ 1,
        /// The destination was given up (another attempt or the end follows).
        MoveUntargeted = "move_untargeted" @ 1,
        /// The move has come to its next stage.
        MoveAdvanced = "move_advanced" @ 1,
        /// The server is at its destination and waits to be confirmed or reverted.
        Resized = "resized" @ 1,
        /// The server could not be moved; it is where and what it was.
        MoveFailed = "move_failed" @ 1,
        /// A user confirmed the move, or the time to revert it is over.
        ConfirmRequested = "confirm_requested" @ 1,
        /// Nothing is left at the source.
        ResizeConfirmed = "resize_confirmed" @ 1,
        /// A user asked to revert the move.
        RevertRequested = "revert_requested" @ 1,
        /// The server is where and what it was before the move.
        ResizeReverted = "resize_reverted" @ 1,
        /// The move could not be reverted; the server is at its destination.
        RevertFailed = "revert_failed" @ 1,
        /// A user asked for a live migration.
        LiveMoveRequested = "live_move_requested" @ 1,
        /// The live migration has come to its next stage.
        LiveMoveAdvanced = "live_move_advanced" @ 1,
        /// The progress of the live migration, in bytes.
        LiveMoveProgressed = "live_move_progressed" @ 1,
        /// A user asked to abort the live migration.
        LiveAbortRequested = "live_abort_requested" @ 1,
        /// A user asked to force the live migration to complete, even if the guest is paused for it.
        LiveCompletionForced = "live_completion_forced" @ 1,
        /// The guest runs at its destination, and so the server is there.
        LiveMoved = "live_moved" @ 1,
        /// The live migration was aborted; the server is where it was.
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
    }
}
