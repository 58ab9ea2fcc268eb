//! The outcome of a decision about a server, and the caller's rights that it depends on.

use chronova_events::ids::{PortId, VolumeId};
use chronova_events::instance::InstanceEvent;
use thiserror::Error;

/// The events of a decision, or the refusal.
pub(super) type InstanceDecision = Result<Vec<InstanceEvent>, InstanceReject>;

/// A decision with one event.
pub(super) fn one(event: impl Into<InstanceEvent>) -> InstanceDecision {
    Ok(vec![event.into()])
}

/// The caller's rights that the decision needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerRights {
    /// The policy `os-lock-server:unlock:unlock_override` lets the caller work on locked servers.
    pub overrides_lock: bool,
}

/// Hardware that binds a server to its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostBoundHardware {
    /// A TPM: only users of the server's project can read its secret.
    Vtpm,
    /// Memory that the host encrypts.
    Sev,
    /// Accelerators that Cyborg manages.
    Accelerators,
    /// PCI devices of the host.
    PciDevices,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InstanceReject {
    #[error("the server could not be found")]
    NotFound,
    #[error("the server exists already")]
    Exists,
    #[error("the server is locked")]
    Locked,
    /// Nova's message: Cannot 'action' instance while it is in `attribute` `value`.
    #[error("cannot {action} while the server is in {attribute} {value}")]
    NotInState { action: &'static str, attribute: &'static str, value: &'static str },
    /// Nova's `OperationNotSupportedForVTPM`, and its counterparts for other hardware.
    #[error("{operation} is not supported for servers with {hardware:?}")]
    NotSupported { operation: &'static str, hardware: HostBoundHardware },
    /// Nova's `check_instance_host`.
    #[error("the server is on no host")]
    NotReady,
    /// Nova's `must_have_launched`: there never was a guest to work on.
    #[error("cannot {action}: the server never ran")]
    NeverLaunched { action: &'static str },
    #[error("the server has no port {0}")]
    NoSuchPort(PortId),
    /// Nova's `MigrationNotFoundByStatus`.
    #[error("the server was not moved")]
    NotMoved,
    /// Nova's `MigrationNotFoundForInstance`.
    #[error("the server has no such migration")]
    NoSuchMigration,
    /// Nova's `InvalidMigrationState`.
    #[error("cannot {action}: the migration is {state}")]
    MigrationInState { state: &'static str, action: &'static str },
    #[error("a server has at most {limit} metadata items")]
    TooMuchMetadata { limit: usize },
    #[error("the guest has posted a password already")]
    GuestPasswordKept,
    #[error("the server has no metadata item of this name")]
    NoSuchMetadata,
    /// Nova's `InvalidImagePropertyName`.
    #[error("there is no image property {name:?}")]
    UnknownImageProperty { name: String },
    #[error("image property {name} cannot be {value:?}")]
    BadImageProperty { name: String, value: String },
    #[error("image property {name} cannot be {value:?} on a machine of type {machine}")]
    UnfitImageProperty { name: String, value: String, machine: String },
    #[error("the server has no image whose properties it keeps")]
    WithoutImage,
    #[error("a server has at most {limit} tags")]
    TooManyTags { limit: usize },
    #[error("the server has no tag {tag:?}")]
    NoSuchTag { tag: String },
    #[error("volume {volume} is attached already")]
    VolumeAttached { volume: VolumeId },
    #[error("volume {volume} is not attached")]
    VolumeNotAttached { volume: VolumeId },
    /// The volume is being attached, detached or swapped.
    #[error("another request is changing volume {volume} of the server")]
    VolumeBusy { volume: VolumeId },
    #[error("volume {volume} is the root disk")]
    RootVolume { volume: VolumeId },
    #[error("a server has at most {limit} disks")]
    TooManyDisks { limit: usize },
    /// Nova's `UnsupportedMachineType` and `InvalidMachineTypeUpdate`.
    #[error("machine type {from:?} cannot become {to:?}")]
    MachineType { from: String, to: String },
    /// A record comes from a process that does not own the server's task now, or an earlier move must end before the
    /// requested move.
    #[error("another process is at work on the server")]
    Superseded,
}
