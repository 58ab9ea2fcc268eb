//! The embedded volume service: the requests of its API and of Compute.
//!
//! Quota is reserved before the volume or snapshot is requested. This service releases the quota after a refusal. A
//! reconciler releases it after a crash, and if it was unknown whether the log has the request. Processes create, copy
//! and remove the volumes' content; see [`super::processes`].

use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{AttachmentId, HostId, ImageId, InstanceId, ProcessId, ProjectId, SnapshotId, VolumeId};
use chronova_events::instance::{BlockSource, DiskWork, InstanceDisk};
use chronova_events::volume::{
    AttachMode, Volume, VolumeCreated, VolumeImage, VolumeRecord, VolumeSnapshotRequested, VolumeSource, VolumeStatus,
};
use chronova_events::volume_type::{DEFAULT_TYPE, VolumeType};
use chronova_hypervisor::volumes;
use chronova_projections::views::Views;
use thiserror::Error;

use super::decide::decide;
use super::{VolumeCommand, VolumeReject, VolumeRoot};
use crate::aggregate::{CommandError, Committed};
use crate::coordination::project_turns::ProjectTurns;
use crate::gateway::CommandGateway;
use crate::instance::InstanceRoot;
use crate::ports::{Connection, ImageService, NewContent, NewSnapshot, NewVolume, PortError};
use crate::services::embedded::volume::quota::{VolumeLimits, VolumeQuotaCommand, VolumeQuotaReject, VolumeQuotaRoot};

const GIB: u64 = 1 << 30;

/// The options of `[volume]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeOptions {
    /// The libvirt pool.
    pub pool: String,
    /// Whether every host that has the pool reaches every volume.
    pub shared: bool,
    pub availability_zone: String,
    pub limits: VolumeLimits,
}

impl Default for VolumeOptions {
    fn default() -> Self {
        Self {
            pool: "chronova-volumes".to_owned(),
            shared: false,
            availability_zone: "nova".to_owned(),
            limits: VolumeLimits::default(),
        }
    }
}

/// Why the service refused a request. If Cinder has the same refusal, the message is Cinder's.
#[derive(Debug, Clone, Error)]
pub enum VolumeError {
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    OverQuota(VolumeQuotaReject),
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    Unavailable(String),
}

impl VolumeError {
    pub(super) fn no_volume(volume: VolumeId) -> Self {
        Self::NotFound(format!("Volume {volume} could not be found."))
    }

    pub(super) fn no_snapshot(snapshot: SnapshotId) -> Self {
        Self::NotFound(format!("Snapshot {snapshot} could not be found."))
    }

    /// The error in the port's type, for compute.
    pub(super) fn port(self) -> PortError {
        match self {
            Self::NotFound(message) => PortError::NotFound(message),
            Self::Invalid(message) => PortError::Invalid(message),
            Self::OverQuota(reject) => PortError::Forbidden(reject.to_string()),
            Self::Conflict(message) => PortError::Conflict(message),
            Self::Unavailable(message) => PortError::Unavailable(message),
        }
    }

    /// A refusal by `volume`.
    pub fn of(volume: VolumeId, error: CommandError<VolumeReject>) -> Self {
        let reject = match error {
            CommandError::Rejected(reject) => reject,
            CommandError::Unavailable(error) => return Self::Unavailable(error.to_string()),
        };
        match reject {
            VolumeReject::NotFound => Self::no_volume(volume),
            VolumeReject::NoSnapshot(_)
            | VolumeReject::NoAttachment(_)
            | VolumeReject::NoMetadata(..)
            | VolumeReject::NoSnapshotMetadata(..) => Self::NotFound(reject.to_string()),
            VolumeReject::IdTaken(_) | VolumeReject::Superseded => Self::Conflict(reject.to_string()),
            VolumeReject::InvalidVolume(_)
            | VolumeReject::InvalidSnapshot(_)
            | VolumeReject::InvalidInput(_)
            | VolumeReject::TooManyPairs(_)
            | VolumeReject::OutOfReach { .. } => Self::Invalid(reject.to_string()),
        }
    }
}

impl From<CommandError<VolumeQuotaReject>> for VolumeError {
    fn from(error: CommandError<VolumeQuotaReject>) -> Self {
        match error {
            CommandError::Rejected(reject) => Self::OverQuota(reject),
            CommandError::Unavailable(error) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<PortError> for VolumeError {
    fn from(error: PortError) -> Self {
        match error {
            PortError::NotFound(message) => Self::NotFound(message),
            PortError::Invalid(message) | PortError::Forbidden(message) => Self::Invalid(message),
            PortError::Conflict(message) | PortError::NotHere(message) => Self::Conflict(message),
            PortError::Unavailable(message) => Self::Unavailable(message),
        }
    }
}

type VolumeResult<T> = Result<T, VolumeError>;

/// The source of a new volume, looked up.
struct VolumeOrigin {
    source: VolumeSource,
    /// The smallest size of the new volume, in GiB.
    least_gb: u32,
    bootable: bool,
    image: Option<VolumeImage>,
    host: Option<HostId>,
    volume_type: Option<Arc<VolumeType>>,
}

/// The embedded volume service.
pub struct EmbeddedVolumes {
    pub(super) gateway: Arc<CommandGateway>,
    pub(super) views: Arc<Views>,
    images: Arc<dyn ImageService>,
    pub options: VolumeOptions,
    extensions: ProjectTurns,
}

impl std::fmt::Debug for EmbeddedVolumes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedVolumes").field("options", &self.options).finish_non_exhaustive()
    }
}

impl EmbeddedVolumes {
    pub fn new(
        gateway: Arc<CommandGateway>,
        views: Arc<Views>,
        images: Arc<dyn ImageService>,
        options: VolumeOptions,
    ) -> Arc<Self> {
        Arc::new(Self { gateway, views, images, options, extensions: ProjectTurns::default() })
    }

    /// The volume's current state, from the log and not from a read model.
    pub async fn look(&self, volume: VolumeId) -> VolumeResult<Arc<VolumeRecord>> {
        let state = self.gateway.look::<VolumeRoot>(&volume).await;
        let state = state.map_err(|error| VolumeError::Unavailable(error.to_string()))?;
        state.here().cloned().ok_or_else(|| VolumeError::no_volume(volume))
    }

    /// Sends a command to a volume.
    pub async fn command(&self, volume: VolumeId, command: VolumeCommand, meta: Arc<Meta>) -> VolumeResult<Committed> {
        let sent = self.gateway.send::<VolumeRoot>(&volume, command, meta).await;
        sent.map_err(|error| VolumeError::of(volume, error))
    }

    async fn quota(&self, project: &ProjectId, command: VolumeQuotaCommand, meta: Arc<Meta>) -> VolumeResult<()> {
        self.gateway.send::<VolumeQuotaRoot>(project, command, meta).await?;
        Ok(())
    }

    /// Reserves quota, then creates the volume. Returns the position of its event.
    pub async fn accept(&self, wanted: NewVolume, is_admin: bool, meta: Arc<Meta>) -> VolumeResult<Position> {
        let origin = self.origin(&wanted, is_admin).await?;
        let kind = self.volume_type(wanted.volume_type.as_deref(), &wanted.project, is_admin, &origin)?;
        let size_gb = sized(&wanted, &origin)?;
        let zone = wanted.availability_zone.clone().unwrap_or_else(|| self.options.availability_zone.clone());
        if zone != self.options.availability_zone {
            return Err(VolumeError::Invalid(format!(
                "Invalid input received: Availability zone '{zone}' is invalid."
            )));
        }
        let created = VolumeCreated {
            volume: wanted.volume,
            process: ProcessId::derive(wanted.volume.0, "create"),
            project: wanted.project.clone(),
            user: wanted.user,
            name: wanted.name,
            description: wanted.description,
            size_gb,
            source: origin.source,
            volume_type: kind.id,
            multiattach: kind.multiattach(),
            availability_zone: zone,
            metadata: wanted.metadata,
            bootable: origin.bootable,
            image: origin.image,
            host: origin.host.or(wanted.host),
        };
        let (volume, project) = (wanted.volume, wanted.project);
        let defaults = self.options.limits;
        let take = VolumeQuotaCommand::TakeVolume { project: project.clone(), volume, size_gb, defaults };
        self.quota(&project, take, Arc::clone(&meta)).await?;
        match self.command(volume, VolumeCommand::Create(Box::new(created)), Arc::clone(&meta)).await {
            Ok(done) => Ok(done.position),
            // The volume may be in the log. If it is not, a reconciler releases the quota.
            Err(error @ VolumeError::Unavailable(_)) => Err(error),
            Err(error) => {
                // If a volume with the id exists, its quota stays, because only unused quota is released.
                if matches!(self.look(volume).await, Err(VolumeError::NotFound(_))) {
                    let release = VolumeQuotaCommand::ReleaseVolume { project: project.clone(), volume };
                    self.quota(&project, release, meta).await?;
                }
                Err(error)
            }
        }
    }

    async fn origin(&self, wanted: &NewVolume, is_admin: bool) -> VolumeResult<VolumeOrigin> {
        let blank = VolumeOrigin {
            source: VolumeSource::Blank,
            least_gb: 1,
            bootable: false,
            image: None,
            host: None,
            volume_type: None,
        };
        match wanted.content {
            NewContent::Blank => Ok(blank),
            NewContent::Image(image) => self.of_image(image, &wanted.project, is_admin, blank).await,
            NewContent::Snapshot(snapshot) => {
                let missing = || VolumeError::no_snapshot(snapshot);
                let of = self.views.volumes.read(|view| view.of_snapshot(snapshot)).ok_or_else(missing)?;
                // The view may lag behind the status that the client has seen.
                let of = self.look(of.created.volume).await?;
                let known = of.snapshots.get(&snapshot);
                let known = known.filter(|known| is_admin || known.requested.project == wanted.project);
                let known = known.ok_or_else(missing)?;
                if known.status.as_str() != "available" {
                    let words = "Invalid snapshot: Originating snapshot status must be one of 'available' values";
                    return Err(VolumeError::Invalid(words.to_owned()));
                }
                let least_gb = known.size_gb;
                let source = VolumeSource::Snapshot { snapshot, of: of.created.volume };
                Ok(VolumeOrigin { source, least_gb, ..self.like(&of) })
            }
            NewContent::Volume(volume) => {
                let of = self.look(volume).await?;
                if !is_admin && of.created.project != wanted.project {
                    return Err(VolumeError::no_volume(volume));
                }
                if !matches!(of.status, VolumeStatus::Available | VolumeStatus::InUse) {
                    return Err(VolumeError::Invalid(
                        "Invalid volume: Originating volume status must be one of 'available, in-use' values"
                            .to_owned(),
                    ));
                }
                Ok(VolumeOrigin { source: VolumeSource::Volume(volume), ..self.like(&of) })
            }
        }
    }

    /// The attributes that a copy of a volume takes over.
    fn like(&self, of: &VolumeRecord) -> VolumeOrigin {
        VolumeOrigin {
            source: VolumeSource::Blank,
            least_gb: of.size_gb,
            bootable: of.bootable,
            image: of.image.clone(),
            host: of.place.as_ref().map(|(host, _)| *host).filter(|_| !self.options.shared),
            volume_type: self.views.volumes.read(|view| view.types.by_id.get(&of.created.volume_type).cloned()),
        }
    }

    async fn of_image(
        &self,
        image: ImageId,
        project: &ProjectId,
        is_admin: bool,
        blank: VolumeOrigin,
    ) -> VolumeResult<VolumeOrigin> {
        let found = self.images.find(image, project, is_admin).await.map_err(|error| match error {
            // Cinder answers that the request is invalid if the image cannot be used.
            PortError::NotFound(_) => VolumeError::Invalid(format!(
                "Invalid image identifier or unable to access requested image. Image {image} could not be found."
            )),
            other => other.into(),
        })?;
        let bytes = found.virtual_size.max(found.size);
        let least_gb = u32::try_from(bytes.div_ceil(GIB)).unwrap_or(u32::MAX).max(1);
        let extra = image_metadata(&found);
        // Cinder ignores a property that names no type, too.
        let named = found.properties.iter().find(|(key, _)| key == "cinder_img_volume_type");
        let volume_type = named.and_then(|(_, name)| self.named_type(name, project, is_admin).ok());
        Ok(VolumeOrigin {
            volume_type,
            source: VolumeSource::Image(image),
            least_gb,
            bootable: true,
            image: Some(VolumeImage { snapshot: found, extra }),
            ..blank
        })
    }

    fn volume_type(
        &self,
        wanted: Option<&str>,
        project: &ProjectId,
        is_admin: bool,
        origin: &VolumeOrigin,
    ) -> VolumeResult<Arc<VolumeType>> {
        match (wanted, &origin.volume_type) {
            (None, Some(of)) => Ok(Arc::clone(of)),
            (None, None) => {
                let default = self.views.volumes.read(|view| view.types.by_id.get(&DEFAULT_TYPE).cloned());
                default.ok_or_else(|| no_type("__DEFAULT__"))
            }
            (Some(text), _) => self.named_type(text, project, is_admin),
        }
    }

    /// A type by its id or its name, if the project may use it.
    pub(super) fn named_type(&self, text: &str, project: &ProjectId, is_admin: bool) -> VolumeResult<Arc<VolumeType>> {
        self.views.volumes.read(|view| {
            let by_id = text.parse().ok().and_then(|id| view.types.by_id.get(&id));
            let known = by_id.or_else(|| view.types.named(text)).filter(|t| is_admin || t.visible_to(project));
            known.cloned().ok_or_else(|| no_type(text))
        })
    }

    /// Requests that an image replaces the volume's content.
    pub async fn accept_reimage(
        &self,
        volume: VolumeId,
        image: ImageId,
        project: &ProjectId,
        process: ProcessId,
        meta: Arc<Meta>,
    ) -> VolumeResult<()> {
        // The volume has accepted this request before, and the image may be gone by now.
        if self.look(volume).await?.reimaged_by == Some(process) {
            return Ok(());
        }
        let snapshot = self.images.find(image, project, true).await?;
        let image = Box::new(VolumeImage { extra: image_metadata(&snapshot), snapshot });
        self.command(volume, VolumeCommand::Reimage { process, image }, meta).await?;
        Ok(())
    }

    /// Reserves quota, then requests the snapshot.
    pub async fn accept_snapshot(
        &self,
        wanted: NewSnapshot,
        is_admin: bool,
        meta: Arc<Meta>,
    ) -> VolumeResult<Position> {
        let of = self.look(wanted.volume).await?;
        // Refuses another project's volume first. If the quota were checked first, its refusal could reveal the
        // volume's size. The volume checks the project again.
        if !is_admin && of.created.project != wanted.project {
            return Err(VolumeError::no_volume(wanted.volume));
        }
        let (volume, snapshot, project) = (wanted.volume, wanted.snapshot, wanted.project.clone());
        let (size_gb, defaults) = (of.size_gb, self.options.limits);
        let take = VolumeQuotaCommand::TakeSnapshot { project: project.clone(), snapshot, size_gb, defaults };
        self.quota(&project, take, Arc::clone(&meta)).await?;
        let asked = VolumeSnapshotRequested {
            volume: wanted.volume,
            snapshot,
            // The id is random and does not derive from the snapshot's id. So a second request, after a deletion, has
            // its own process.
            process: ProcessId::random(),
            project: wanted.project,
            user: wanted.user,
            name: wanted.name,
            description: wanted.description,
            metadata: wanted.metadata,
        };
        let command = VolumeCommand::Snapshot { asked, force: wanted.force, is_admin };
        match self.command(wanted.volume, command, Arc::clone(&meta)).await {
            Ok(done) => Ok(done.position),
            // The snapshot may be in the log. If it is not, a reconciler releases the quota.
            Err(error @ VolumeError::Unavailable(_)) => Err(error),
            Err(error) => {
                // If the snapshot exists from an earlier request, its quota stays, because only unused quota is
                // released.
                let unused = match self.look(volume).await {
                    Ok(of) => !of.snapshots.contains_key(&snapshot),
                    Err(error) => matches!(error, VolumeError::NotFound(_)),
                };
                if unused {
                    let release = VolumeQuotaCommand::ReleaseSnapshot { project: project.clone(), snapshot };
                    self.quota(&project, release, meta).await?;
                }
                Err(error)
            }
        }
    }

    /// Reserves quota, then requests the larger volume. The extensions of a project take turns, and a volume that
    /// cannot be extended now gets no quota. Without these two rules, a second request could give back the quota of an
    /// extension under way.
    pub async fn extend(
        &self,
        volume: VolumeId,
        size_gb: u32,
        attached: bool,
        meta: Arc<Meta>,
    ) -> VolumeResult<Position> {
        let project = self.look(volume).await?.created.project.clone();
        let _turn = self.extensions.turn(&project).await;
        let now = self.look(volume).await?;
        let command = VolumeCommand::Extend { process: ProcessId::random(), size_gb, attached };
        decide(&Volume::Here(Arc::clone(&now)), command.clone())
            .map_err(|reject| VolumeError::of(volume, CommandError::Rejected(reject)))?;
        let defaults = self.options.limits;
        let take = VolumeQuotaCommand::TakeVolume { project: project.clone(), volume, size_gb, defaults };
        self.quota(&project, take, Arc::clone(&meta)).await?;
        match self.command(volume, command, Arc::clone(&meta)).await {
            Ok(done) => Ok(done.position),
            // The request may be in the log.
            Err(error @ VolumeError::Unavailable(_)) => Err(error),
            Err(error) => {
                // The volume has changed since the check, but no extension is under way. If the volume cannot be read
                // now, a reconciler releases the quota.
                let size_gb = match self.look(volume).await {
                    Ok(changed) => changed.size_gb,
                    Err(VolumeError::NotFound(_)) => now.size_gb,
                    Err(_) => return Err(error),
                };
                let shrink = VolumeQuotaCommand::ShrinkVolume { project: project.clone(), volume, size_gb };
                self.quota(&project, shrink, meta).await?;
                Err(error)
            }
        }
    }

    /// Ends an attachment for a client of the volume service. Only Compute may end the attachment of a server. If
    /// others could, the server's guest could still write to the volume after another project has got the volume
    /// (CVE-2023-2088).
    pub async fn release_unused(
        &self,
        volume: VolumeId,
        attachment: AttachmentId,
        meta: Arc<Meta>,
    ) -> VolumeResult<Position> {
        let now = self.look(volume).await?;
        if let Some(instance) = now.attachments.get(&attachment).and_then(|known| known.instance)
            && self.is_used(volume, instance).await?
        {
            return Err(VolumeError::Conflict(format!("Detach volume from instance {instance} using the Compute API")));
        }
        Ok(self.command(volume, VolumeCommand::Release { attachment }, meta).await?.position)
    }

    /// Whether the log says that the server has the volume, or is attaching it.
    async fn is_used(&self, volume: VolumeId, instance: InstanceId) -> VolumeResult<bool> {
        let state = self.gateway.look::<InstanceRoot>(&instance).await;
        let state = state.map_err(|error| VolumeError::Unavailable(error.to_string()))?;
        let uses = |disk: &InstanceDisk| {
            disk.device.volume == Some(volume)
                || disk.device.source == BlockSource::Volume(volume)
                || matches!(disk.work, Some(DiskWork::Swapping { to, .. }) if to == volume)
        };
        Ok(state.alive().is_some_and(|server| server.disks.iter().any(uses)))
    }

    /// Requests the deletion of a volume.
    pub async fn remove(
        &self,
        volume: VolumeId,
        force: bool,
        cascade: bool,
        meta: Arc<Meta>,
    ) -> VolumeResult<Position> {
        let process = ProcessId::random();
        Ok(self.command(volume, VolumeCommand::Delete { process, force, cascade }, meta).await?.position)
    }

    /// Requests the deletion of a snapshot.
    pub async fn remove_snapshot(&self, snapshot: SnapshotId, force: bool, meta: Arc<Meta>) -> VolumeResult<Position> {
        let of = self.views.volumes.read(|view| view.of_snapshot(snapshot));
        let of = of.ok_or_else(|| VolumeError::no_snapshot(snapshot))?;
        let command = VolumeCommand::DeleteSnapshot { snapshot, process: ProcessId::random(), force };
        Ok(self.command(of.created.volume, command, meta).await?.position)
    }

    /// Records the attachment's host and device. Returns how the host reaches the volume.
    pub async fn connection(
        &self,
        volume: VolumeId,
        attachment: AttachmentId,
        (host, device): (&str, Option<&str>),
        mode: AttachMode,
        meta: Arc<Meta>,
    ) -> VolumeResult<(Connection, Position)> {
        let (host, device, shared) = (host.to_owned(), device.map(str::to_owned), self.options.shared);
        let connect = VolumeCommand::Connect { attachment, host, device, mode, shared };
        let done = self.command(volume, connect, meta).await?;
        let now = self.look(volume).await?;
        Ok((self.way_to(&now, mode), done.position))
    }

    /// How hosts reach a volume.
    pub fn way_to(&self, volume: &VolumeRecord, mode: AttachMode) -> Connection {
        let id = volume.created.volume;
        Connection {
            replaced_by: None,
            pool: self.options.pool.clone(),
            volume: volumes::volume(id),
            format: volume.format.clone(),
            serial: id.to_string(),
            readonly: volume.readonly || mode == AttachMode::ReadOnly,
            shareable: volume.created.multiattach,
        }
    }
}

fn no_type(text: &str) -> VolumeError {
    VolumeError::NotFound(format!("Volume type with name {text} could not be found."))
}

/// The Glance metadata that a volume keeps of its image.
fn image_metadata(image: &chronova_events::instance::ImageSnapshot) -> Vec<(String, String)> {
    let own = [
        ("checksum", image.checksum.clone()),
        ("container_format", "bare".to_owned()),
        ("disk_format", image.format.clone()),
        ("image_id", image.id.to_string()),
        ("image_name", image.name.clone()),
        ("min_disk", image.min_disk_gib.to_string()),
        ("min_ram", image.min_memory_mib.to_string()),
        ("size", image.size.to_string()),
    ];
    let mut all: Vec<(String, String)> = own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    all.extend(image.properties.iter().cloned());
    all.sort();
    all
}

/// The size of the new volume. Refuses a size that is smaller than the volume's source.
fn sized(wanted: &NewVolume, origin: &VolumeOrigin) -> VolumeResult<u32> {
    let invalid = |words: String| Err(VolumeError::Invalid(format!("Invalid input received: {words}")));
    let (least, size) = (origin.least_gb, wanted.size_gb);
    match (&origin.source, size) {
        (_, Some(0)) => invalid("Volume size '0' must be an integer and greater than 0".to_owned()),
        (VolumeSource::Blank | VolumeSource::Image(_), None) => {
            invalid("Volume size 'None' must be an integer and greater than 0".to_owned())
        }
        (_, None) => Ok(least),
        (VolumeSource::Snapshot { .. }, Some(size)) if size < least => invalid(format!(
            "Volume size '{size}'GB cannot be smaller than the snapshot size {least}GB. They must be >= original snapshot \
             size."
        )),
        (VolumeSource::Volume(_), Some(size)) if size < least => invalid(format!(
            "Volume size '{size}'GB cannot be smaller than original volume size  {least}GB. They must be >= original \
             volume size."
        )),
        (VolumeSource::Image(_), Some(size)) if size < least => {
            invalid(format!("Size of specified image {least}GB is larger than volume size {size}GB."))
        }
        (VolumeSource::Image(_), Some(size)) => {
            let disk = origin.image.as_ref().map_or(0, |image| image.snapshot.min_disk_gib);
            match size < disk {
                true => {
                    invalid(format!("Volume size {size}GB cannot be smaller than the image minDisk size {disk}GB."))
                }
                false => Ok(size),
            }
        }
        (_, Some(size)) => Ok(size),
    }
}
