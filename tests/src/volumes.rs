//! Volumes in a simulated world: their invariants, and requests for them.

use std::collections::BTreeSet;

use chronova_actors::instance::InstanceVolumeRequest as Disks;
use chronova_actors::ports::{ImageDraft, NewContent, NewSnapshot, NewVolume, PortError, VolumeService as _};
use chronova_actors::services::embedded::volume::VolumeCommand;
use chronova_events::envelope::Meta;
use chronova_events::ids::{
    AttachmentId, BlockDeviceId, HostId, ImageId, InstanceId, ProcessId, ProjectId, SnapshotId, UserId, VolumeId,
};
use chronova_events::instance::{BlockDevice, BlockDevicesMapped, BlockLocation, BlockSource, BuildRequested};
use chronova_events::volume::{AttachMode, SnapshotStatus, VolumeStatus};
use chronova_hypervisor::sim::SimFleet;
use chronova_hypervisor::volumes;
use chronova_projections::views::Views;

use crate::volume_kind::VolumeKind;
use crate::world::{ADMIN, Life, build_request, user_meta};

/// Invariants when no work is under way: the hosts have exactly the volumes in the log, and quota use equals the
/// existing volumes. Only guests of servers in rescue have a rescue disk.
pub fn check(views: &Views, fleet: &SimFleet) {
    let (mut known, mut holders) = (BTreeSet::new(), BTreeSet::new());
    for volume in views.volumes.read(|view| view.of(None)) {
        let id = volume.created.volume;
        assert!(volume.ongoing.is_none(), "{id} is stuck in {:?}", volume.status);
        holders.insert(volumes::volume(id));
        holders.extend(volume.snapshots.keys().map(|snapshot| volumes::snapshot(*snapshot)));
        let Some((host, _)) = &volume.place else {
            assert_eq!(volume.status, VolumeStatus::Error, "{id} has no host");
            continue;
        };
        let host = (0..fleet.len()).find(|index| fleet.uri().host_id(*index) == *host).unwrap();
        known.insert((host, volumes::volume(id)));
        for (snapshot, now) in &volume.snapshots {
            assert!(now.process.is_none(), "{snapshot} is stuck in {:?}", now.status);
            if now.status == SnapshotStatus::Available {
                known.insert((host, volumes::snapshot(*snapshot)));
            }
        }
    }
    let there = (0..fleet.len()).flat_map(|host| fleet.volumes(host).into_keys().map(move |name| (host, name)));
    assert_eq!(there.collect::<BTreeSet<_>>(), known, "the hosts have other volumes than the log");
    let held: BTreeSet<String> = views.volumes.read(|view| {
        let of = |quota: &chronova_events::volume_quota::VolumeQuota| {
            let volumes = quota.volumes.keys().map(|id| volumes::volume(*id));
            volumes.chain(quota.snapshots.keys().map(|id| volumes::snapshot(*id))).collect::<Vec<_>>()
        };
        view.quotas.values().flat_map(of).collect()
    });
    assert_eq!(held, holders, "quota use differs from the existing volumes");
    let rescued = (0..fleet.len()).flat_map(|host| fleet.guests(host)).filter(|(_, guest)| guest.rescued);
    let has_rescue_disk: Vec<InstanceId> = rescued.map(|(id, _)| id).collect();
    let in_rescue = |id| views.servers.read(|view| view.get(id)?.server().map(|server| server.rescue.is_some()));
    for id in has_rescue_disk {
        assert_eq!(in_rescue(id), Some(true), "the guest of {id} has a rescue disk and its server is not in rescue");
    }
}

/// Checks that guests, servers and volumes agree about attached disks.
pub fn check_disks(views: &Views, fleet: &SimFleet, kind: &VolumeKind) {
    let mut plugged = Vec::new();
    let mut attached = BTreeSet::new();
    let (mut servers, mut away) = (BTreeSet::new(), BTreeSet::new());
    views.servers.read(|view| {
        for row in view.all() {
            servers.insert(row.id);
            let Some(server) = row.instance.alive() else { continue };
            if server.placement.is_none() {
                away.insert(row.id);
            }
            for disk in &server.disks {
                assert_eq!(disk.work, None, "{} is stuck with a disk", row.id);
                let connected = disk.device.connection.is_some();
                assert!(!connected || server.placement.is_some(), "{} has a connection and no host", row.id);
                if let (Some(connection), true) = (&disk.device.connection, server.placement.is_some()) {
                    plugged.push((row.id, connection.disk_key().to_owned()));
                }
                let volume = disk.device.volume.map(|volume| kind.content_of(volume));
                attached.extend(disk.device.attachment.map(|attachment| (row.id, volume, attachment)));
            }
        }
    });
    plugged.sort();
    // A guest that was resized or migrated is on two hosts until the move is confirmed.
    let seen: BTreeSet<_> = fleet.disks().into_iter().collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), plugged, "guests have other volumes than their servers");
    let mut kept = BTreeSet::new();
    for volume in views.volumes.read(|view| view.of(None)) {
        for (id, attachment) in &volume.attachments {
            // Some volume tests attach volumes to servers that never existed.
            if let Some(instance) = attachment.instance.filter(|instance| servers.contains(instance)) {
                let whole = attachment.complete || away.contains(&instance);
                assert!(whole, "the attachment of {instance} to {} is incomplete", volume.created.volume);
                // If the service chooses ids, an offloaded server may keep an attachment that a crash left incomplete.
                let lost = kind.chooses_ids() && !attachment.complete;
                assert!(
                    lost || attachment.host.is_none() || !away.contains(&instance),
                    "{instance} has no host, but its attachment has one"
                );
                kept.insert((instance, Some(volume.created.volume), *id));
            }
        }
    }
    assert_eq!(kept, attached, "volumes and servers have different attachments");
}

/// The status of a volume with at most one snapshot, in a few words.
pub fn word(views: &Views, id: VolumeId) -> &'static str {
    let Some(volume) = views.volumes.read(|view| view.get(id)) else { return "ABSENT" };
    match volume.snapshots.values().next().map(|snapshot| snapshot.status) {
        Some(SnapshotStatus::Available) => "snapshot",
        Some(SnapshotStatus::Error) => "snapshot in error",
        Some(_) => "snapshot under way",
        None if volume.status == VolumeStatus::Available && volume.size_gb > 1 => "larger",
        None => volume.status.as_str(),
    }
}

/// A request for an empty volume of one GiB, on `host` if given.
fn empty_volume(volume: VolumeId, (project, user): (&str, &str), host: Option<HostId>) -> NewVolume {
    NewVolume {
        volume,
        project: ProjectId::new(project),
        user: UserId::new(user),
        name: "data".to_owned(),
        description: None,
        size_gb: Some(1),
        content: NewContent::Blank,
        volume_type: None,
        availability_zone: None,
        metadata: vec![],
        host,
    }
}

/// The id of the snapshot that the tests of a volume use.
pub fn snapshot_of(id: VolumeId) -> SnapshotId {
    SnapshotId::derive(id.0, "snapshot")
}

/// The id of the nth volume that a test attaches to a server.
pub fn nth_volume(instance: InstanceId, n: u32) -> VolumeId {
    VolumeId::derive(instance.0, &format!("volume-{n}"))
}

/// A requested disk on a volume. `n` gives the id and the device name of the disk. If `n` is even, the volume is
/// deleted with its server.
pub fn mapped(source: BlockSource, boot_index: Option<u32>, n: u32) -> BlockDevice {
    let id = BlockDeviceId(uuid::Uuid::from_u128(u128::from(n) + 0xD15C));
    BlockDevice {
        boot_index,
        size: Some(1),
        device_name: Some(format!("/dev/vd{}", ['a', 'b', 'c', 'd'][n as usize])),
        delete_on_termination: n.is_multiple_of(2),
        volume: match source {
            BlockSource::Volume(volume) => Some(volume),
            _ => None,
        },
        ..BlockDevice::new(id, source, BlockLocation::Volume)
    }
}

impl Life {
    /// Requests a server with a root volume from an image, and an empty volume that is not deleted with it.
    pub async fn build_on_volumes(&self, instance: InstanceId) -> Result<(), String> {
        let image = crate::services::OneImage::snapshot();
        let devices = vec![mapped(BlockSource::Image(image.id), Some(0), 0), mapped(BlockSource::Blank, None, 1)];
        let request = BuildRequested { image: None, ..build_request(instance) };
        let mapped = BlockDevicesMapped { devices, image: Some(image) };
        self.build_mapped(request, mapped).await
    }

    /// Creates an empty volume and waits until it is available. It is on the host of the server `beside`, or on any
    /// host.
    pub async fn data_volume(&self, owner: (&str, &str), beside: Option<&str>, size_gb: u32) -> VolumeId {
        let host = beside.map(|server| {
            let now = self.instance_now(server.parse().unwrap());
            now.alive().unwrap().placement.as_ref().unwrap().host
        });
        let id = VolumeId::random();
        let wanted = NewVolume { size_gb: Some(size_gb), ..empty_volume(id, owner, host) };
        self.volumes.accept(wanted, true, Meta::system("test")).await.unwrap();
        self.settled().await;
        id
    }

    /// Creates a volume on the server's host and waits until it is available.
    pub async fn volume_beside(&self, instance: InstanceId, n: u32) {
        let now = self.instance_now(instance);
        let server = now.alive().unwrap();
        let host = server.placement.as_ref().unwrap().host;
        let owner = (server.request.project.as_str(), server.request.user.as_str());
        let wanted =
            NewVolume { name: format!("volume {n}"), ..empty_volume(nth_volume(instance, n), owner, Some(host)) };
        self.volumes.accept(wanted, true, user_meta()).await.unwrap();
        self.settled().await;
    }

    pub async fn attach(&self, instance: InstanceId, n: u32) -> Result<(), String> {
        let volume = nth_volume(instance, n);
        let attachment = Some(AttachmentId::derive(volume.0, "attachment"));
        let device = mapped(BlockSource::Volume(volume), None, n);
        let device = Box::new(BlockDevice { attachment, device_name: None, ..device });
        let process = ProcessId::random();
        self.disk(instance, Disks::Attach { process, device, limit: None, asker: ADMIN }).await
    }

    pub async fn detach(&self, instance: InstanceId, n: u32) -> Result<(), String> {
        let (process, volume) = (ProcessId::random(), nth_volume(instance, n));
        self.disk(instance, Disks::Detach { process, volume, asker: ADMIN }).await
    }

    pub async fn swap(&self, instance: InstanceId, old: u32, new: u32) -> Result<(), String> {
        let (process, old, new) = (ProcessId::random(), nth_volume(instance, old), nth_volume(instance, new));
        let new_attachment = AttachmentId::derive(new.0, "swap");
        self.disk(instance, Disks::Swap { process, old, new, new_attachment, asker: ADMIN }).await
    }

    /// Requests a new attachment of the server's first volume.
    pub async fn refresh(&self, instance: InstanceId) -> Result<(), String> {
        let now = self.instance_now(instance);
        let volume = now.alive().and_then(|server| server.disks.iter().find_map(|disk| disk.device.volume));
        let (process, volume) = (ProcessId::random(), volume.ok_or("the server has no volume")?);
        let new_attachment = AttachmentId::derive(process.0, "attachment");
        self.disk(instance, Disks::Refresh { process, volume, new_attachment }).await
    }

    async fn disk(&self, instance: InstanceId, request: Disks) -> Result<(), String> {
        self.instance(instance, request).await
    }

    pub async fn volume(&self, id: VolumeId, content: NewContent) -> Result<(), String> {
        let wanted = NewVolume { content, ..empty_volume(id, ("p", "u"), None) };
        self.volumes.accept(wanted, true, user_meta()).await.map(drop).map_err(|error| error.to_string())
    }

    pub async fn remove_volume(&self, id: VolumeId, force: bool, cascade: bool) -> Result<(), String> {
        let removed = self.volumes.remove(id, force, cascade, user_meta()).await;
        removed.map(drop).map_err(|error| error.to_string())
    }

    pub async fn extend_volume(&self, id: VolumeId) -> Result<(), String> {
        self.volumes.extend(id, 2, false, user_meta()).await.map(drop).map_err(|error| error.to_string())
    }

    pub async fn snapshot_volume(&self, id: VolumeId, force: bool) -> Result<(), String> {
        let wanted = NewSnapshot {
            snapshot: snapshot_of(id),
            volume: id,
            project: ProjectId::new("p"),
            user: UserId::new("u"),
            name: "snapshot".to_owned(),
            description: None,
            force,
            metadata: vec![],
        };
        self.volumes.accept_snapshot(wanted, true, user_meta()).await.map(drop).map_err(|error| error.to_string())
    }

    /// Sets the snapshot's status, as an operator's reset does.
    pub async fn reset_snapshot(&self, id: VolumeId, status: SnapshotStatus) -> Result<(), String> {
        let reset = VolumeCommand::ResetSnapshot { snapshot: snapshot_of(id), status };
        self.volumes.command(id, reset, user_meta()).await.map(drop).map_err(|error| error.to_string())
    }

    /// Ends all attachments of the volume, as an operator's reset with `detached` does.
    pub async fn reset_attachments(&self, id: VolumeId) -> Result<(), String> {
        let reset = VolumeCommand::Reset { status: Some(VolumeStatus::Available), detached: true };
        self.volumes.command(id, reset, user_meta()).await.map(drop).map_err(|error| error.to_string())
    }

    /// Reserves the server's volume once more, as if the answer to an earlier call had been lost.
    pub async fn reserve_again(&self, id: VolumeId, instance: InstanceId) -> Result<(), String> {
        let reserved = self.volumes.reserve(AttachmentId::random(), id, instance, user_meta()).await;
        reserved.map(drop).map_err(|error| error.to_string())
    }

    pub async fn remove_snapshot(&self, id: VolumeId) -> Result<(), String> {
        let removed = self.volumes.remove_snapshot(snapshot_of(id), false, user_meta()).await;
        removed.map(drop).map_err(|error| error.to_string())
    }

    pub async fn upload_volume(&self, id: VolumeId) -> Result<(), String> {
        let (process, image) = (ProcessId::random(), ImageId::random());
        let draft = ImageDraft {
            image,
            name: "of-a-volume".to_owned(),
            owner: ProjectId::new("p"),
            format: "raw".to_owned(),
            min_disk_gib: 0,
            min_memory_mib: 0,
            properties: Vec::new(),
        };
        let words = |error: PortError| error.to_string();
        let images = &self.context().images;
        images.create(draft, user_meta()).await.map_err(words)?;
        // The image has data before the upload, because the world's checks refuse an image without data.
        let bytes = futures::stream::iter([Ok(bytes::Bytes::from_static(b"old"))]);
        images.upload(image, Box::pin(bytes), user_meta()).await.map_err(words)?;
        let upload = VolumeCommand::Upload { process, image, force: false };
        self.volumes.command(id, upload, user_meta()).await.map(drop).map_err(|error| error.to_string())
    }

    pub async fn reimage_volume(&self, id: VolumeId) -> Result<(), String> {
        let (image, process) = (crate::services::OneImage::snapshot().id, ProcessId::random());
        let asked = self.volumes.reimage(id, image, &ProjectId::new("p"), process, user_meta()).await;
        asked.map_err(|error| error.to_string())
    }

    /// Attaches a volume as Compute does: reserves it, connects it to its host, and completes the attachment.
    pub async fn attach_volume(&self, id: VolumeId, instance: InstanceId) -> Result<AttachmentId, String> {
        let attachment = AttachmentId::derive(id.0, &instance.to_string());
        let (port, words) = (&self.volumes, |error: chronova_actors::ports::PortError| error.to_string());
        let known = port.look(id).await.map_err(|error| error.to_string())?;
        let host = known.place.clone().map(|(_, hostname)| hostname).unwrap_or_default();
        port.reserve(attachment, id, instance, user_meta()).await.map_err(words)?;
        let device = Some("/dev/vdb");
        let way = port.connect(id, attachment, &host, device, user_meta()).await.map_err(words)?;
        assert_eq!((way.serial.as_str(), way.readonly), (id.to_string().as_str(), false));
        port.complete(id, attachment, user_meta()).await.map_err(words)?;
        assert_eq!(AttachMode::ReadWrite, port.look(id).await.unwrap().attachments[&attachment].mode);
        Ok(attachment)
    }
}
