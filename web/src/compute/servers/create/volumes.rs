//! Checks that the volumes, snapshots and images for a server's disks exist, and that the caller may use them.

use chronova_actors::instance::disks;
use chronova_actors::operations::Queries;
use chronova_actors::ports::{PortError, ServiceCaller, VolumeInfo};
use chronova_events::ids::{ImageId, ProjectId, VolumeId};
use chronova_events::instance::{
    BlockDevice, BlockDevicesMapped, BlockLocation, BlockSource, FlavorSnapshot, ImageSnapshot,
};

use super::devices::{self, MappedDevice};
use super::request::CreateServerRequest;
use crate::compute::{reject, versions};
use crate::ctx::Ctx;
use crate::fault::Fault;

const GIB: u64 = 1 << 30;

/// The requested disks of a server.
pub(super) struct RequestedDisks {
    /// `None`: neither the request nor its image has mappings, so image and flavor determine the disks.
    pub mapped: Option<BlockDevicesMapped>,
    /// Whether the root disk is a volume.
    pub volume_backed: bool,
    /// The image whose properties determine the hardware. It is the server's image, or the image from which the root
    /// volume was created.
    pub boot_image: Option<ImageSnapshot>,
    /// The size in GiB of a root disk that is a new volume.
    pub root_size: Option<u32>,
}

/// The caller's identity for the volume and image services.
struct VolumeCaller<'a> {
    queries: &'a Queries,
    project: &'a ProjectId,
    is_admin: bool,
    caller: ServiceCaller,
}

/// Reads the disks and looks up the boot disk.
pub(super) async fn plan(
    ctx: &Ctx,
    queries: &Queries,
    request: &CreateServerRequest,
    project: &ProjectId,
    flavor: &FlavorSnapshot,
    image: Option<&ImageSnapshot>,
) -> Result<(Vec<MappedDevice>, RequestedDisks), Fault> {
    if request.mappings.given {
        ctx.authorize_rule("os_compute_api:servers:create:attach_volume", &ctx.own_target())?;
    }
    let volume_caller =
        VolumeCaller { queries, project, is_admin: ctx.caller().is_admin, caller: ctx.service_caller() };
    let all = devices::all(&request.mappings, image, flavor, request.max_count)?;
    let root = all.iter().find(|one| one.device.is_root()).map(|one| one.device.clone());
    let volume_backed = root.as_ref().is_some_and(BlockDevice::is_volume);
    let boot_image = match &root {
        Some(root) if root.is_volume() && image.is_none() => volume_caller.boot_image(root).await?,
        _ => image.cloned(),
    };
    let root_size = root.filter(BlockDevice::is_volume).and_then(|root| root.size);
    // The mappings that an image brings are recorded, too.
    let recorded = request.mappings.given || all.iter().any(|one| one.device.is_volume());
    let mapped = recorded.then(|| BlockDevicesMapped { devices: vec![], image: None });
    Ok((all, RequestedDisks { mapped, volume_backed, boot_image, root_size }))
}

/// Makes the last checks, completes the disks, and returns the server's zone.
pub(super) async fn admit(
    ctx: &Ctx,
    queries: &Queries,
    project: &ProjectId,
    flavor: &FlavorSnapshot,
    mut all: Vec<MappedDevice>,
    disks: &mut RequestedDisks,
    zone: Option<String>,
) -> Result<Option<String>, Fault> {
    let volume_caller =
        VolumeCaller { queries, project, is_admin: ctx.caller().is_admin, caller: ctx.service_caller() };
    let zone = in_zone(ctx, &volume_caller, &all, zone).await?;
    devices::check_boot_order(&all)?;
    for one in &mut all {
        volume_caller.check(ctx, &mut one.device, disks.boot_image.as_ref()).await?;
        devices::check_bus(&one.device)?;
    }
    devices::check_local(&mut all, flavor, ctx.app.compute.config.max_local_block_devices)?;
    if let Some(mapped) = &mut disks.mapped {
        let mut list: Vec<BlockDevice> = all.into_iter().map(|one| one.device).collect();
        disks::name_all(disks.boot_image.as_ref(), &mut list);
        mapped.devices = list;
        mapped.image = disks.boot_image.clone().filter(|_| disks.volume_backed);
    }
    Ok(zone)
}

/// Without `cross_az_attach`, all volumes must be in the server's zone. A server without a requested zone gets the
/// volumes' zone, unless that zone is `[DEFAULT] default_availability_zone`. Source: Nova's
/// `_validate_vol_az_for_create`.
async fn in_zone(
    ctx: &Ctx,
    volume_caller: &VolumeCaller<'_>,
    all: &[MappedDevice],
    zone: Option<String>,
) -> Result<Option<String>, Fault> {
    if ctx.app.compute.config.cross_az_attach {
        return Ok(zone);
    }
    let mut zones = Vec::new();
    for one in all {
        if let BlockSource::Volume(id) = one.device.source {
            zones.push(volume_caller.volume(id).await?.availability_zone);
        }
    }
    let Some(theirs) = zones.first().cloned() else { return Ok(zone) };
    if zones.iter().any(|other| *other != theirs) {
        return Err(mismatch(&format!("Volumes are in different availability zones: {}", zones.join(","))));
    }
    match zone {
        None if theirs == volume_caller.queries.server_options.availability_zone => Ok(None),
        None => Ok(Some(theirs)),
        Some(own) if own == theirs => Ok(Some(own)),
        Some(own) => Err(mismatch(&format!(
            "Server and volumes are not in the same availability zone. Server is in: {own}. Volumes are in: {theirs}"
        ))),
    }
}

fn mismatch(reason: &str) -> Fault {
    Fault::bad_request(reject::other_zone(reason))
}

fn failed(kind: &str, id: impl std::fmt::Display) -> Fault {
    Fault::bad_request(format!("Block Device Mapping is Invalid: failed to get {kind} {id}."))
}

/// The refusal after a failed look-up: 503 if the volume service does not answer, otherwise 400.
fn lost(error: &PortError, kind: &str, id: impl std::fmt::Display) -> Fault {
    match error {
        PortError::Unavailable(reason) => Fault::unavailable("The volume service does not answer.").caused_by(reason),
        _ => failed(kind, id),
    }
}

impl VolumeCaller<'_> {
    async fn image(&self, id: ImageId) -> Result<ImageSnapshot, Fault> {
        self.queries.images.find_as(id, self.project, &self.caller).await.map_err(|error| match error {
            PortError::Unavailable(_) => reject::image(error),
            _ => failed("image", id),
        })
    }

    /// Finds the image of a root volume, as Nova's `get_bdm_image_metadata` does.
    async fn boot_image(&self, root: &BlockDevice) -> Result<Option<ImageSnapshot>, Fault> {
        let of_volume = async |volume: VolumeId| self.queries.volumes.find(volume, self.project, self.is_admin).await;
        match root.source {
            BlockSource::Image(id) => self.image(id).await.map(Some),
            BlockSource::Volume(volume) => {
                let info = of_volume(volume).await.map_err(|error| lost(&error, "volume", volume))?;
                match info.bootable {
                    true => Ok(info.image),
                    false => Err(Fault::bad_request(format!("Block Device {volume} is not bootable."))),
                }
            }
            BlockSource::Snapshot(id) => {
                let found = self.queries.volumes.find_snapshot(id, self.project, self.is_admin).await;
                let snapshot = found.map_err(|error| lost(&error, "snapshot", id))?;
                // If the snapshot's volume was deleted, the source image is unknown.
                Ok(of_volume(snapshot.volume).await.ok().and_then(|info| info.image))
            }
            BlockSource::Blank => Ok(None),
        }
    }

    async fn volume(&self, id: VolumeId) -> Result<VolumeInfo, Fault> {
        self.queries.volumes.find(id, self.project, self.is_admin).await.map_err(|error| match error {
            PortError::NotFound(_) => Fault::bad_request(format!("Volume {id} could not be found.")),
            other => lost(&other, "volume", id),
        })
    }

    async fn check(&self, ctx: &Ctx, device: &mut BlockDevice, known: Option<&ImageSnapshot>) -> Result<(), Fault> {
        if let Some(kind) = &device.volume_type {
            let named = self.queries.volumes.find_type(kind, self.project, self.is_admin).await;
            device.volume_type = Some(named.map_err(|error| match error {
                PortError::Unavailable(reason) => {
                    Fault::unavailable("The volume service does not answer.").caused_by(reason)
                }
                _ => Fault::bad_request(format!("Volume type {kind} could not be found.")),
            })?);
        }
        match device.source {
            BlockSource::Image(id) => {
                if known.is_none_or(|image| image.id != id) {
                    self.image(id).await?;
                }
                match device.place == BlockLocation::Volume && device.size.unwrap_or(0) == 0 {
                    true => Err(Fault::bad_request(
                        "Images with destination_type 'volume' need to have a non-zero size specified",
                    )),
                    false => Ok(()),
                }
            }
            BlockSource::Volume(id) => self.check_volume(ctx, device, id).await,
            BlockSource::Snapshot(id) => {
                let found = self.queries.volumes.find_snapshot(id, self.project, self.is_admin).await;
                let snapshot = found.map_err(|error| lost(&error, "snapshot", id))?;
                device.size = device.size.filter(|size| *size > 0).or(Some(snapshot.size_gb));
                Ok(())
            }
            BlockSource::Blank if device.is_volume() && device.size.unwrap_or(0) == 0 => {
                Err(Fault::bad_request("Blank volumes (source: 'blank', dest: 'volume') need to have non-zero size"))
            }
            BlockSource::Blank => Ok(()),
        }
    }

    async fn check_volume(&self, ctx: &Ctx, device: &mut BlockDevice, id: VolumeId) -> Result<(), Fault> {
        let info = self.volume(id).await?;
        if info.multiattach && !versions::volumes_may_be_shared(ctx.version) {
            return Err(reject::multiattach());
        }
        if !info.is_reservable() {
            return Err(Fault::bad_request(format!("Invalid volume: {}", reject::not_reservable(id, &info.status))));
        }
        device.size = Some(info.size_gb);
        device.volume = Some(id);
        Ok(())
    }
}

/// Refuses a new root volume that is smaller than the image's minimum (Nova's `VolumeSmallerThanMinDisk`).
pub(super) fn check_min_disk(disks: &RequestedDisks) -> Result<(), Fault> {
    let (Some(image), Some(size)) = (&disks.boot_image, disks.root_size) else { return Ok(()) };
    let (size, least) = (u64::from(size) * GIB, u64::from(image.min_disk_gib) * GIB);
    match least > size {
        true => Err(Fault::bad_request(format!(
            "Volume is smaller than the minimum size specified in image metadata. Volume size is {size} bytes, minimum \
             size is {least} bytes."
        ))),
        false => Ok(()),
    }
}
