//! Attaches, detaches and exchanges the volumes of a server.
//!
//! Each operation checks the server and the volume early, and sends the request to the server. A process does the rest
//! (`attach_volume`, `detach_volume`, `swap_volume`). If it fails, the server's instance actions show the failure. The
//! checks come in the order of Nova's `compute/api.py`. If several checks refuse, the user gets the refusal of the
//! first.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{AttachmentId, BlockDeviceId, InstanceId, ProcessId, ProviderId, VolumeId};
use chronova_events::instance::{Alive, BlockDevice, BlockLocation, BlockSource, DiskWork, status};
use thiserror::Error;

use super::{Operations, ServerCall};
use crate::aggregate::CommandError;
use crate::instance::actions::ServerAction;
use crate::instance::{InstanceReject, InstanceVolumeRequest};
use crate::ports::{MigrationPair, PortError, VolumeInfo};

/// How long a request waits for the record of what the volume service has completed.
const PATIENCE: Duration = Duration::from_secs(3);

/// The request to attach a volume to a server.
#[derive(Debug, Clone)]
pub struct AttachVolumeRequest {
    pub volume: VolumeId,
    pub tag: Option<String>,
    /// Whether the request has a tag, even `null`.
    pub tagged: bool,
    pub delete_on_termination: bool,
    pub terms: VolumeTerms,
    /// `[compute] max_disk_devices_to_attach`; `None` means no limit.
    pub most_disks: Option<usize>,
    /// `[cinder] cross_az_attach`.
    pub across_zones: bool,
}

/// The rights that the microversion of a request gives for volumes.
#[derive(Debug, Clone, Copy)]
pub struct VolumeTerms {
    /// Whether shelved servers may attach and detach volumes.
    pub shelved_servers: bool,
    /// Whether multiattach volumes are allowed.
    pub shared_volumes: bool,
}

/// Why an operation on a server's volumes was refused.
#[derive(Debug, Clone, Error)]
pub enum ServerVolumeReject {
    #[error(transparent)]
    Server(#[from] CommandError<InstanceReject>),
    #[error("volume {volume}: {error}")]
    Volume { volume: VolumeId, error: PortError },
    /// The error is about the new volume of an exchange.
    #[error("new volume {volume}: {error}")]
    NewVolume { volume: VolumeId, error: PortError },
    #[error("volume {volume} is attached to {holders:?} already")]
    HeldElsewhere { volume: VolumeId, holders: Vec<InstanceId> },
    #[error("a volume cannot be attached with a tag while the server is offloaded")]
    TaggedOnNoHost,
    #[error("a multiattach volume cannot be attached while the server is offloaded")]
    SharedOnNoHost,
    #[error("the microversion of the request does not support multiattach volumes")]
    SharedUnknown,
    #[error("the server's host cannot share the multiattach volume {volume}")]
    SharedUnsupported { volume: VolumeId },
    #[error("volume {volume} is in zone {theirs}, but the server is in zone {own}")]
    OtherZone { volume: VolumeId, own: String, theirs: String },
    #[error("volume {volume} is {status}")]
    NotReservable { volume: VolumeId, status: String },
    /// `host` is the only host that reaches the volume.
    #[error("only host {host} can reach volume {volume}")]
    OutOfReach { volume: VolumeId, host: String },
    #[error("volume {volume} is attached to no guest")]
    NotInUse { volume: VolumeId },
    #[error("the old volume is attached to another server")]
    OldElsewhere,
    #[error("the new volume is attached already")]
    NewAttached,
    #[error("the new volume is smaller than the old one")]
    NewTooSmall,
    #[error("the volume service migrates volume {volume} to another volume")]
    OldMigrates { volume: VolumeId },
    #[error("the old volume is attached to several servers")]
    OldShared,
}

impl From<InstanceReject> for ServerVolumeReject {
    fn from(reject: InstanceReject) -> Self {
        Self::Server(CommandError::Rejected(reject))
    }
}

impl Operations {
    /// Requests the attachment of a volume. Read models at the returned position show the device's name.
    ///
    /// # Errors
    /// The state of the server or of the volume does not allow the attachment. Or the server cannot reach the volume.
    /// Or the volume service refuses, or the log is not available.
    pub async fn attach_volume(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        request: AttachVolumeRequest,
    ) -> Result<Position, ServerVolumeReject> {
        check_shelved(call.server, ServerAction::AttachVolume, request.terms)?;
        call.admit(ServerAction::AttachVolume)?;
        let volume = self.volume_of(&call, request.volume).await?;
        check_free(call.server, &volume)?;
        check_on_host(call.server, &volume, request.tagged)?;
        if volume.multiattach && !request.terms.shared_volumes {
            return Err(ServerVolumeReject::SharedUnknown);
        }
        if !request.across_zones {
            self.check_zone(call.server, &volume)?;
        }
        if !volume.is_reservable() {
            return Err(ServerVolumeReject::NotReservable { volume: volume.id, status: volume.status });
        }
        self.check_reach(call.server, &volume)?;
        self.check_shareable(call.server, &volume)?;
        if let Some(DiskWork::Detaching(process)) = work_on(call.server, volume.id) {
            self.until_ended(process).await?;
        }
        let (limit, device) = (request.most_disks, Box::new(device(request, &volume)));
        let attach = InstanceVolumeRequest::Attach { process: ProcessId::random(), device, limit, asker: call.asker };
        Ok(self.ask_server(meta, call.id, attach).await?)
    }

    /// Requests the detachment of a volume.
    ///
    /// # Errors
    /// The server does not have the volume, or cannot release it, for example because it is the root disk. Or the
    /// volume service refuses, or the log is not available.
    pub async fn detach_volume(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        volume: VolumeId,
        terms: VolumeTerms,
    ) -> Result<Position, ServerVolumeReject> {
        check_shelved(call.server, ServerAction::DetachVolume, terms)?;
        let found = self.volume_of(&call, volume).await?;
        let disk = call.server.disk_of(volume).ok_or(InstanceReject::VolumeNotAttached { volume })?;
        if disk.device.is_root() {
            return Err(InstanceReject::RootVolume { volume }.into());
        }
        call.admit(ServerAction::DetachVolume)?;
        // An offloaded server does not use its volumes; they are only reserved for it.
        if found.status != "in-use" && !call.server.is_offloaded() {
            return Err(ServerVolumeReject::NotInUse { volume });
        }
        if let Some(DiskWork::Attaching(process)) = work_on(call.server, volume) {
            self.until_ended(process).await?;
        }
        let detach = InstanceVolumeRequest::Detach { process: ProcessId::random(), volume, asker: call.asker };
        Ok(self.ask_server(meta, call.id, detach).await?)
    }

    /// Requests that `new` replaces `old` in the guest, with a copy of the content.
    ///
    /// # Errors
    /// The server does not have the old volume, or cannot have the new one. Or the volume service refuses, or the log
    /// is not available.
    pub async fn swap_volume(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        (old, new): (VolumeId, VolumeId),
    ) -> Result<Position, ServerVolumeReject> {
        let old_volume = self.volume_of(&call, old).await?;
        let new_volume = self.find_volume(&call, new).await;
        let new_volume = new_volume.map_err(|error| ServerVolumeReject::NewVolume { volume: new, error })?;
        call.admit(ServerAction::SwapVolume)?;
        let pair = self.queries.volumes.standing_of(old, new).await;
        let pair = pair.map_err(|error| ServerVolumeReject::Volume { volume: old, error })?;
        check_exchange(call.id, &old_volume, &new_volume, pair)?;
        self.check_reach(call.server, &new_volume)?;
        if let Some(DiskWork::Attaching(process)) = work_on(call.server, old) {
            self.until_ended(process).await?;
        }
        let (process, new_attachment) = (ProcessId::random(), AttachmentId::random());
        let swap = InstanceVolumeRequest::Swap { process, old, new, new_attachment, asker: call.asker };
        Ok(self.ask_server(meta, call.id, swap).await?)
    }

    /// The volume service shows a volume as in use or available shortly before the server records its attachment or
    /// detachment. Waits for the end of this process, so that a client that has seen the status can continue.
    async fn until_ended(&self, process: ProcessId) -> Result<(), ServerVolumeReject> {
        self.process_end(process, PATIENCE).await.map_err(CommandError::<InstanceReject>::Unavailable)?;
        Ok(())
    }

    /// The volume, as the server's project sees it.
    async fn find_volume(&self, call: &ServerCall<'_>, volume: VolumeId) -> Result<VolumeInfo, PortError> {
        self.queries.volumes.find(volume, &call.server.request.project, call.is_admin).await
    }

    async fn volume_of(&self, call: &ServerCall<'_>, volume: VolumeId) -> Result<VolumeInfo, ServerVolumeReject> {
        self.find_volume(call, volume).await.map_err(|error| ServerVolumeReject::Volume { volume, error })
    }

    fn check_zone(&self, server: &Alive, volume: &VolumeInfo) -> Result<(), ServerVolumeReject> {
        let placed = server.placement.as_ref().map(|placed| &placed.availability_zone);
        let default = &self.queries.server_options.availability_zone;
        let own = placed.or(server.request.availability_zone.as_ref()).unwrap_or(default);
        if *own == volume.availability_zone {
            return Ok(());
        }
        let (own, theirs) = (own.clone(), volume.availability_zone.clone());
        Err(ServerVolumeReject::OtherZone { volume: volume.id, own, theirs })
    }

    /// If only one host reaches the volume, checks that the server is on that host.
    fn check_reach(&self, server: &Alive, volume: &VolumeInfo) -> Result<(), ServerVolumeReject> {
        let here = server.placement.as_ref().map(|placed| placed.host);
        let (Some(only), Some(here)) = (volume.host, here) else { return Ok(()) };
        if only == here {
            return Ok(());
        }
        let name = self.queries.views.hosts.read(|hosts| hosts.get(only).map(|host| host.hostname.clone()));
        Err(ServerVolumeReject::OutOfReach { volume: volume.id, host: name.unwrap_or_else(|| only.to_string()) })
    }

    /// A multiattach volume needs a host with the trait [`SHARES_VOLUMES`].
    fn check_shareable(&self, server: &Alive, volume: &VolumeInfo) -> Result<(), ServerVolumeReject> {
        let Some(placed) = server.placement.as_ref().filter(|_| volume.multiattach) else { return Ok(()) };
        let provider = ProviderId(placed.host.0);
        let shares = self.queries.views.placement.read(|view| {
            let known = view.ledger.providers.get(&provider);
            known.is_some_and(|known| known.traits.contains(SHARES_VOLUMES))
        });
        match shares {
            true => Ok(()),
            false => Err(ServerVolumeReject::SharedUnsupported { volume: volume.id }),
        }
    }
}

/// The trait of hosts whose driver can give a volume to several guests.
const SHARES_VOLUMES: &str = "COMPUTE_VOLUME_MULTI_ATTACH";

/// Refuses shelved servers if the microversion does not allow them. This check comes before all others.
fn check_shelved(server: &Alive, action: ServerAction, terms: VolumeTerms) -> Result<(), InstanceReject> {
    let value = status::of_alive(server).vm_state;
    match terms.shelved_servers || !matches!(value, "shelved" | "shelved_offloaded") {
        true => Ok(()),
        false => Err(InstanceReject::NotInState { action: action.name(), attribute: "vm_state", value }),
    }
}

/// Refuses a volume that the server already has, unless it is being detached. Refuses a volume that any server has,
/// unless the volume is multiattach.
fn check_free(server: &Alive, volume: &VolumeInfo) -> Result<(), ServerVolumeReject> {
    let holders: Vec<_> = volume.attachments.iter().filter_map(|attachment| attachment.instance).collect();
    if !volume.multiattach && !holders.is_empty() {
        return Err(ServerVolumeReject::HeldElsewhere { volume: volume.id, holders });
    }
    let leaves = matches!(work_on(server, volume.id), Some(DiskWork::Detaching(_)));
    match server.disk_of(volume.id).is_some() && !leaves {
        true => Err(InstanceReject::VolumeAttached { volume: volume.id }.into()),
        false => Ok(()),
    }
}

/// The work of a process on the server's disk that is this volume.
fn work_on(server: &Alive, volume: VolumeId) -> Option<DiskWork> {
    server.disk_of(volume).and_then(|disk| disk.work)
}

/// Refuses tags and multiattach volumes for an offloaded server, as Nova does, because without a host it is unknown
/// whether they are possible.
fn check_on_host(server: &Alive, volume: &VolumeInfo, tagged: bool) -> Result<(), ServerVolumeReject> {
    match server.is_offloaded() {
        true if tagged => Err(ServerVolumeReject::TaggedOnNoHost),
        true if volume.multiattach => Err(ServerVolumeReject::SharedOnNoHost),
        _ => Ok(()),
    }
}

fn check_exchange(
    server: InstanceId,
    old: &VolumeInfo,
    new: &VolumeInfo,
    pair: MigrationPair,
) -> Result<(), ServerVolumeReject> {
    if old.attachments.iter().all(|attachment| attachment.instance != Some(server)) {
        return Err(ServerVolumeReject::OldElsewhere);
    }
    if !new.attachments.is_empty() {
        return Err(ServerVolumeReject::NewAttached);
    }
    if new.size_gb < old.size_gb {
        return Err(ServerVolumeReject::NewTooSmall);
    }
    if pair == MigrationPair::OldElsewhere {
        return Err(ServerVolumeReject::OldMigrates { volume: old.id });
    }
    // Cinder shows a volume that it migrates to another type as `retyping`, although a server has it.
    if old.status != "in-use" && !(old.status == "retyping" && pair == MigrationPair::This) {
        return Err(ServerVolumeReject::NotInUse { volume: old.id });
    }
    match old.attachments.len() > 1 {
        true => Err(ServerVolumeReject::OldShared),
        false => Ok(()),
    }
}

fn device(request: AttachVolumeRequest, volume: &VolumeInfo) -> BlockDevice {
    BlockDevice {
        size: Some(volume.size_gb),
        delete_on_termination: request.delete_on_termination,
        tag: request.tag,
        volume: Some(volume.id),
        attachment: Some(AttachmentId::random()),
        ..BlockDevice::new(BlockDeviceId::random(), BlockSource::Volume(volume.id), BlockLocation::Volume)
    }
}

#[cfg(test)]
mod tests {
    use chronova_events::envelope::Timestamp;
    use chronova_events::ids::{ProjectId, UserId};
    use uuid::Uuid;

    use super::*;
    use crate::ports::AttachmentInfo;

    const SERVER: InstanceId = InstanceId(Uuid::nil());

    fn volume(status: &str, holder: Option<InstanceId>) -> VolumeInfo {
        let attached = |instance| AttachmentInfo {
            id: AttachmentId(Uuid::nil()),
            instance: Some(instance),
            host: None,
            device: None,
            attached: true,
        };
        VolumeInfo {
            id: VolumeId(Uuid::nil()),
            project: ProjectId::new("p"),
            user: UserId::new("u"),
            name: "data".to_owned(),
            description: None,
            size_gb: 1,
            status: status.to_owned(),
            bootable: false,
            multiattach: false,
            encrypted: false,
            readonly: false,
            availability_zone: "nova".to_owned(),
            volume_type: "fast".to_owned(),
            metadata: vec![],
            snapshot: None,
            source: None,
            image: None,
            attachments: holder.into_iter().map(attached).collect(),
            host: None,
            created_at: Timestamp(0),
        }
    }

    #[test]
    fn a_volume_that_cinder_retypes_is_exchanged_for_its_target_alone() {
        use MigrationPair::{Neither, OldElsewhere, This};
        let new = volume("available", None);
        for (status, pair, refusal) in [
            ("in-use", Neither, ""),
            ("in-use", This, ""),
            ("retyping", This, ""),
            ("retyping", Neither, "is attached to no guest"),
            ("detaching", This, "is attached to no guest"),
            ("in-use", OldElsewhere, "to another volume"),
            ("retyping", OldElsewhere, "to another volume"),
        ] {
            let told = match check_exchange(SERVER, &volume(status, Some(SERVER)), &new, pair) {
                Err(reject) => reject.to_string(),
                Ok(()) => String::new(),
            };
            assert_eq!(told.is_empty(), refusal.is_empty(), "{status} {pair:?}: {told}");
            assert!(told.ends_with(refusal), "{status} {pair:?}: {told}");
        }
        let larger = VolumeInfo { size_gb: 2, ..volume("retyping", Some(SERVER)) };
        assert!(matches!(check_exchange(SERVER, &larger, &new, This), Err(ServerVolumeReject::NewTooSmall)));
        assert!(matches!(
            check_exchange(SERVER, &volume("retyping", None), &new, This),
            Err(ServerVolumeReject::OldElsewhere)
        ));
    }
}
