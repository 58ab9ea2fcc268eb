//! The port through which processes and the compute API use volumes. The embedded volume service and the client of a
//! real Cinder implement the port.
//!
//! The service only accepts long calls (`create`, `create_snapshot`, `reimage`, `delete`, `delete_snapshot`). The
//! caller polls `find` until the status shows the result.
//!
//! Every change is idempotent under an id that the caller proposes (derived from the process's id): a repeated call
//! changes nothing. The embedded service takes the proposed id. Cinder chooses its own, so the caller uses the id in
//! the answer. The client of Cinder finds volumes and snapshots by the proposed id, but not attachments. A repeated
//! `reserve` returns the server's incomplete attachment. `release_others` also ends attachments with ids that the
//! caller never received.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::ids::{
    AttachmentId, HostId, ImageId, InstanceId, ProcessId, ProjectId, SnapshotId, UserId, VolumeId,
};
use chronova_events::instance::ImageSnapshot;
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::guest::NetworkDisk;

use super::{PortError, ServiceCaller};
use crate::hosts::doubt::CopyDoubt;

/// The fields of a volume that a server's owner may see.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeInfo {
    pub id: VolumeId,
    pub project: ProjectId,
    pub user: UserId,
    pub name: String,
    pub description: Option<String>,
    pub size_gb: u32,
    /// Cinder's status: `creating`, `available`, `reserved`, `in-use`, `detaching`, `error`, ...
    pub status: String,
    pub bootable: bool,
    pub multiattach: bool,
    pub encrypted: bool,
    pub readonly: bool,
    pub availability_zone: String,
    /// The type's name.
    pub volume_type: String,
    pub metadata: Vec<(String, String)>,
    pub snapshot: Option<SnapshotId>,
    pub source: Option<VolumeId>,
    /// The image that the content came from, with the image properties that the volume keeps.
    pub image: Option<ImageSnapshot>,
    pub attachments: Vec<AttachmentInfo>,
    /// The only host that reaches the volume; `None` if every host does.
    pub host: Option<HostId>,
    pub created_at: Timestamp,
}

impl VolumeInfo {
    /// Whether the volume can be reserved for a server now.
    pub fn is_reservable(&self) -> bool {
        let shared = self.multiattach && matches!(self.status.as_str(), "in-use" | "reserved" | "attaching");
        shared || matches!(self.status.as_str(), "available" | "downloading")
    }
}

/// One attachment of a volume.
#[derive(Debug, Clone, PartialEq)]
pub struct AttachmentInfo {
    pub id: AttachmentId,
    pub instance: Option<InstanceId>,
    /// The host name; `None` before `connect`.
    pub host: Option<String>,
    /// The device's name, for example `/dev/vdb`; `None` until it is known.
    pub device: Option<String>,
    /// Whether `complete` was called, so that the guest has the volume.
    pub attached: bool,
}

/// A snapshot of a volume.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotInfo {
    pub id: SnapshotId,
    pub volume: VolumeId,
    pub project: ProjectId,
    pub name: String,
    pub description: Option<String>,
    pub size_gb: u32,
    /// Cinder's status: `creating`, `available`, `deleting`, `error`, ...
    pub status: String,
    pub metadata: Vec<(String, String)>,
    pub created_at: Timestamp,
}

/// The source of a new volume's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewContent {
    Blank,
    Image(ImageId),
    Snapshot(SnapshotId),
    Volume(VolumeId),
}

/// A new volume.
#[derive(Debug, Clone, PartialEq)]
pub struct NewVolume {
    /// The id that the caller proposes.
    pub volume: VolumeId,
    pub project: ProjectId,
    pub user: UserId,
    pub name: String,
    pub description: Option<String>,
    /// The size in GiB; `None` means the size of its source.
    pub size_gb: Option<u32>,
    pub content: NewContent,
    /// The name or id of the type; `None` means the type of its source, or else the default type.
    pub volume_type: Option<String>,
    pub availability_zone: Option<String>,
    pub metadata: Vec<(String, String)>,
    /// The host that must reach the volume; `None` if the service may choose.
    pub host: Option<HostId>,
}

/// A new snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSnapshot {
    /// The id that the caller proposes.
    pub snapshot: SnapshotId,
    pub volume: VolumeId,
    pub project: ProjectId,
    pub user: UserId,
    pub name: String,
    pub description: Option<String>,
    /// Whether to create the snapshot even while a server has the volume.
    pub force: bool,
    pub metadata: Vec<(String, String)>,
}

/// How a host reaches an attached volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The new attachment, if the service had to replace the attachment that the caller named.
    pub replaced_by: Option<AttachmentId>,
    /// The name of the libvirt pool. If QEMU reaches the disk over the network: the name of the Ceph pool, the iSCSI
    /// target or the NFS export.
    pub pool: String,
    pub volume: String,
    /// `raw` or `qcow2`.
    pub format: String,
    /// The disk's serial number in the guest: the volume's id. `volume` may have the id of another volume in its name.
    pub serial: String,
    pub readonly: bool,
    /// Whether several guests may have the volume at the same time (`<shareable/>`).
    pub shareable: bool,
}

/// The exchange of a server's volume for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeExchange {
    pub old: VolumeId,
    pub new: VolumeId,
    /// The server's attachment to the new volume.
    pub attachment: AttachmentId,
}

/// The volume service's own work with the two volumes of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationPair {
    /// It does not migrate the old volume.
    Neither,
    /// It migrates the old volume to the new one, and waits for [`VolumeService::end_migration`].
    This,
    /// It migrates the old volume to another volume.
    OldElsewhere,
}

/// An operation on volumes or snapshots that a user requests through Compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserVolumeCall {
    List,
    Show(VolumeId),
    Create,
    Delete(VolumeId),
    ListSnapshots,
    ShowSnapshot(SnapshotId),
    CreateSnapshot(VolumeId),
    DeleteSnapshot(SnapshotId),
}

/// The volume service. Its refusals have Cinder's messages. `Invalid` is Cinder's 400, and `Forbidden` includes an
/// exceeded quota.
#[async_trait]
pub trait VolumeService: Send + Sync + 'static {
    /// Refuses an operation that the service's own policy denies the user: `Forbidden`, or `NotFound`. The ids are those
    /// that the service itself uses. This call changes nothing.
    async fn check_user(&self, call: UserVolumeCall, caller: &ServiceCaller) -> Result<(), PortError>;

    /// The volume, if `project` may see it.
    async fn find(&self, volume: VolumeId, project: &ProjectId, is_admin: bool) -> Result<VolumeInfo, PortError>;

    /// The volumes of `project`, or of all projects if `all` is set; newest first.
    async fn list(&self, project: &ProjectId, all: bool) -> Result<Vec<VolumeInfo>, PortError>;

    async fn find_snapshot(
        &self,
        snapshot: SnapshotId,
        project: &ProjectId,
        is_admin: bool,
    ) -> Result<SnapshotInfo, PortError>;

    /// The snapshots of `project`, or of all projects if `all` is set; newest first.
    async fn list_snapshots(&self, project: &ProjectId, all: bool) -> Result<Vec<SnapshotInfo>, PortError>;

    /// Accepts a new volume, and reserves quota. The volume is `creating`, and then `available` or `error`. Without
    /// `is_admin`, the volume's project must be allowed to see the source and to use the type.
    async fn create(&self, wanted: NewVolume, is_admin: bool, meta: Arc<Meta>) -> Result<VolumeInfo, PortError>;

    /// Accepts the deletion of a volume. Succeeds if the volume is already gone.
    async fn delete(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Accepts a new snapshot. The snapshot is `creating`, and then `available` or `error`. Without `is_admin`, a
    /// volume that is not in the snapshot's project is `NotFound`.
    async fn create_snapshot(
        &self,
        wanted: NewSnapshot,
        is_admin: bool,
        meta: Arc<Meta>,
    ) -> Result<SnapshotInfo, PortError>;

    /// Accepts the deletion of a snapshot. Succeeds if the snapshot is already gone.
    async fn delete_snapshot(&self, snapshot: SnapshotId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Accepts a request to replace the volume's content by an image while the guest is off. The volume is
    /// `downloading`, and then has its old status, or `error`. A repeated call of the same process changes nothing.
    async fn reimage(
        &self,
        volume: VolumeId,
        image: ImageId,
        project: &ProjectId,
        process: ProcessId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError>;

    /// The name of a volume type that `project` may use.
    async fn find_type(&self, id_or_name: &str, project: &ProjectId, is_admin: bool) -> Result<String, PortError>;

    /// The number of snapshots that `project` may still create; `None` is no limit.
    async fn snapshots_left(&self, project: &ProjectId) -> Result<Option<u64>, PortError>;

    /// Reserves the volume for a server, and returns the id of the attachment. The service may use `proposed` as that
    /// id. The volume becomes `reserved`. `Invalid` if the volume's status does not allow it.
    async fn reserve(
        &self,
        proposed: AttachmentId,
        volume: VolumeId,
        instance: InstanceId,
        meta: Arc<Meta>,
    ) -> Result<AttachmentId, PortError>;

    /// Names the host and the device, and returns the connection of the host to the volume. The volume becomes
    /// `attaching`.
    async fn connect(
        &self,
        volume: VolumeId,
        attachment: AttachmentId,
        host: &str,
        device: Option<&str>,
        meta: Arc<Meta>,
    ) -> Result<Connection, PortError>;

    /// Notes that the guest has the volume. The volume becomes `in-use`.
    async fn complete(&self, volume: VolumeId, attachment: AttachmentId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Marks the volume as `detaching`. `Invalid` unless it is `in-use`.
    async fn begin_detaching(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Cancels a detachment. The volume is `in-use` again.
    async fn roll_detaching(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Ends an attachment, complete or not. The volume is `available` again after its last attachment. Succeeds if the
    /// attachment is already gone.
    async fn release(&self, volume: VolumeId, attachment: AttachmentId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Ends the attachments of the volume to this server, except those in `keep`. Succeeds if there are no such
    /// attachments, or if the volume does not exist.
    async fn release_others(
        &self,
        volume: VolumeId,
        instance: InstanceId,
        keep: &[AttachmentId],
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        let known = match self.find(volume, &ProjectId::new(""), true).await {
            Ok(info) => info.attachments,
            Err(PortError::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        for other in known.iter().filter(|known| known.instance == Some(instance) && !keep.contains(&known.id)) {
            self.release(volume, other.id, Arc::clone(&meta)).await?;
        }
        Ok(())
    }

    /// The service's own work with the two volumes. A service that migrates no attached volumes answers
    /// [`MigrationPair::Neither`].
    async fn standing_of(&self, _old: VolumeId, _new: VolumeId) -> Result<MigrationPair, PortError> {
        Ok(MigrationPair::Neither)
    }

    /// Tells the service that an exchange has ended. After a success, the caller has already completed the new
    /// attachment and ended the old one. After a failure (`failed`), the caller has already ended the new one. Returns
    /// the id of the guest's volume from now on. If the service moved the volume, that is `old`, and the new attachment
    /// belongs to `old`. A repeated call has the same result. If the service did not request the exchange, the call
    /// does nothing.
    async fn end_migration(
        &self,
        exchange: VolumeExchange,
        failed: bool,
        _meta: Arc<Meta>,
    ) -> Result<VolumeId, PortError> {
        Ok(if failed { exchange.old } else { exchange.new })
    }

    /// How QEMU reaches a connected volume over the network; `None`: through the pool that `connect` named. The result
    /// may hold a password, so callers do not record it. They call this function each time a guest gets the volume.
    async fn network_disk(
        &self,
        _volume: VolumeId,
        _attachment: AttachmentId,
        _host: &str,
        _meta: Arc<Meta>,
    ) -> Result<Option<NetworkDisk>, PortError> {
        Ok(None)
    }

    /// Removes the leftovers of deleted volumes from a host that answers. A service that keeps no volume on compute
    /// hosts has nothing to do. `doubt`: a volume from before that moment may be on this host although the log has it
    /// elsewhere.
    async fn sweep_host(&self, _host: HostId, _driver: &Arc<dyn Driver>, _doubt: CopyDoubt) {}
}

/// The implementation for a deployment without a volume service. It refuses every call.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoVolumeService;

fn none<T>() -> Result<T, PortError> {
    Err(PortError::Unavailable("There is no volume service.".to_owned()))
}

#[async_trait]
impl VolumeService for NoVolumeService {
    async fn check_user(&self, _: UserVolumeCall, _: &ServiceCaller) -> Result<(), PortError> {
        none()
    }

    async fn find(&self, _: VolumeId, _: &ProjectId, _: bool) -> Result<VolumeInfo, PortError> {
        none()
    }

    async fn list(&self, _: &ProjectId, _: bool) -> Result<Vec<VolumeInfo>, PortError> {
        none()
    }

    async fn find_snapshot(&self, _: SnapshotId, _: &ProjectId, _: bool) -> Result<SnapshotInfo, PortError> {
        none()
    }

    async fn list_snapshots(&self, _: &ProjectId, _: bool) -> Result<Vec<SnapshotInfo>, PortError> {
        none()
    }

    async fn create(&self, _: NewVolume, _: bool, _: Arc<Meta>) -> Result<VolumeInfo, PortError> {
        none()
    }

    async fn delete(&self, _: VolumeId, _: Arc<Meta>) -> Result<(), PortError> {
        none()
    }

    async fn create_snapshot(&self, _: NewSnapshot, _: bool, _: Arc<Meta>) -> Result<SnapshotInfo, PortError> {
        none()
    }

    async fn delete_snapshot(&self, _: SnapshotId, _: Arc<Meta>) -> Result<(), PortError> {
        none()
    }

    async fn reimage(
        &self,
        _: VolumeId,
        _: ImageId,
        _: &ProjectId,
        _: ProcessId,
        _: Arc<Meta>,
    ) -> Result<(), PortError> {
        none()
    }

    async fn find_type(&self, _: &str, _: &ProjectId, _: bool) -> Result<String, PortError> {
        none()
    }

    async fn snapshots_left(&self, _: &ProjectId) -> Result<Option<u64>, PortError> {
        none()
    }

    async fn reserve(
        &self,
        _: AttachmentId,
        _: VolumeId,
        _: InstanceId,
        _: Arc<Meta>,
    ) -> Result<AttachmentId, PortError> {
        none()
    }

    async fn connect(
        &self,
        _: VolumeId,
        _: AttachmentId,
        _: &str,
        _: Option<&str>,
        _: Arc<Meta>,
    ) -> Result<Connection, PortError> {
        none()
    }

    async fn complete(&self, _: VolumeId, _: AttachmentId, _: Arc<Meta>) -> Result<(), PortError> {
        none()
    }

    async fn begin_detaching(&self, _: VolumeId, _: Arc<Meta>) -> Result<(), PortError> {
        none()
    }

    async fn roll_detaching(&self, _: VolumeId, _: Arc<Meta>) -> Result<(), PortError> {
        none()
    }

    async fn release(&self, _: VolumeId, _: AttachmentId, _: Arc<Meta>) -> Result<(), PortError> {
        none()
    }
}
