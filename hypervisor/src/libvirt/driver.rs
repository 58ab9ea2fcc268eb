//! The core of the driver: a host's properties and usage, and the life cycle of its guests.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::ids::InstanceId;
use virt::connect::Connect;

use super::host::LibvirtDriver;
use super::storage::{self, HostStorage};
use super::{capabilities, definition, domain, managed_save, watch};
use crate::capability::{
    Consoles, DeviceLocations, DiskSnapshots, DiskTransfer, EmulatedTpm, GuestAgent, GuestDefinitions, ImageCache,
    InterfaceAttachment, LiveMigration, OwnerMark, Redefinition, SharedStorage, StorageCleanup, Suspension,
    Troubleshooting, VirtualNetworks, VolumeAttachment, VolumeStore, offers,
};
use crate::domain_xml::HostFacts;
use crate::driver::{Driver, DriverError, DriverResult, ImageSource, SignalStream, StopMode};
use crate::guest::{GuestSpec, GuestStatus, HostCapabilities, HostUsage, ImageRef};
use crate::options::LibvirtOptions;

#[async_trait]
impl Driver for LibvirtDriver {
    fn uri(&self) -> &str {
        &self.uri
    }

    async fn capabilities(&self) -> DriverResult<HostCapabilities> {
        let known = self.known().await?;
        let uri = self.uri.clone();
        self.ask("capabilities", move |connect, options| capabilities::capabilities(connect, options, &known, &uri))
            .await
    }

    async fn usage(&self) -> DriverResult<HostUsage> {
        let ours = self.link.guests_known().ours.clone();
        self.ask("usage", move |connect, options| capabilities::usage(connect, options, &ours)).await
    }

    async fn ensure_image(&self, image: &ImageRef, source: Arc<dyn ImageSource>) -> DriverResult<()> {
        if storage::may_have_image(&self.options, image) {
            let (wanted, places) = (image.clone(), source.places(image).await);
            let adopt = move |connect: &Connect, options: &LibvirtOptions| {
                let site = HostStorage::new(connect, options);
                match places {
                    Ok(places) => site.adopt_image(&wanted, &places),
                    // The storage or the cache may have the image. If neither has it, the source says what is wrong.
                    Err(_) => site.keeps_image(&wanted),
                }
            };
            if self.call("image lookup", adopt).await? {
                return Ok(());
            }
        }
        self.images.ensure(&self.link, &self.threads, &self.options, image, source).await
    }

    async fn spawn(&self, guest: &GuestSpec) -> DriverResult<()> {
        let known = self.known().await?;
        let (spec, link) = (guest.clone(), Arc::clone(&self.link));
        let direct_io = Arc::clone(&self.direct_io);
        let deadline = self.making();
        let secrets = self.hold_secrets(&guest.volumes, "spawn", deadline).await?;
        self.change("spawn", guest.instance, deadline, move |connect, options| {
            let _until_done = secrets;
            // The register must not know the guest before the guest is defined. Events that arrive until then concern
            // an earlier guest with this id.
            link.guests_known().forget(spec.instance);
            let facts = HostFacts { direct_io: direct_io.load(Ordering::Relaxed), ..known.facts.clone() };
            if definition::spawn(connect, options, &facts, &spec)? == definition::HostFinding::NoDirectIo {
                direct_io.store(false, Ordering::Relaxed);
            }
            link.guests_known().ours.insert(spec.instance);
            Ok(())
        })
        .await
    }

    async fn destroy(&self, instance: InstanceId) -> DriverResult<()> {
        let link = Arc::clone(&self.link);
        let destroyed = self.change("destroy", instance, self.making(), move |connect, options| {
            if domain::lookup(connect, instance)?.is_some() {
                link.guests_known().leave(instance);
            }
            let mut attached = Vec::new();
            let removed = definition::destroy(connect, options, instance, &mut attached);
            Ok((attached, removed.inspect_err(|_| link.guests_known().forget(instance))))
        });
        let (attached, removed) = destroyed.await?;
        self.forget_secrets(attached).await;
        removed
    }

    async fn start(&self, instance: InstanceId) -> DriverResult<()> {
        self.change("start", instance, self.options.call_deadline, move |connect, _| {
            domain::start(&domain::require(connect, instance)?)
        })
        .await
    }

    async fn stop(&self, instance: InstanceId, mode: StopMode) -> DriverResult<()> {
        if let StopMode::Graceful { timeout_seconds } = mode
            && self.shut_down(instance, Duration::from_secs(timeout_seconds.into())).await?
        {
            return Ok(());
        }
        self.change("power off", instance, self.options.call_deadline, move |connect, _| {
            domain::pull(&domain::require(connect, instance)?)
        })
        .await
    }

    /// Nova's soft reboot: a shutdown by the guest itself, and then a start.
    async fn reboot_soft(&self, instance: InstanceId, timeout_seconds: u32) -> DriverResult<()> {
        if !self.shut_down(instance, Duration::from_secs(timeout_seconds.into())).await? {
            let message = format!("the guest did not react within {timeout_seconds} s");
            return Err(DriverError::Failed { call: "soft reboot", message });
        }
        self.start(instance).await
    }

    async fn reboot_hard(&self, instance: InstanceId) -> DriverResult<()> {
        self.change("hard reboot", instance, self.options.call_deadline, move |connect, _| {
            let domain = domain::require(connect, instance)?;
            domain::pull(&domain)?;
            managed_save::forget(&domain)?;
            domain::start(&domain)
        })
        .await
    }

    async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus> {
        self.ask("guest", move |connect, _| domain::one(connect, instance)).await
    }

    async fn guests(&self) -> DriverResult<Vec<GuestStatus>> {
        let link = Arc::clone(&self.link);
        self.ask("guests", move |connect, _| {
            let known = link.guests_known().ours.clone();
            let guests = domain::list(connect, &known)?;
            link.guests_known().ours.extend(guests.iter().map(|guest| guest.instance));
            Ok(guests)
        })
        .await
    }

    fn watch(&self) -> SignalStream {
        watch::stream(&self.link)
    }

    offers! {
        consoles: Consoles,
        device_locations: DeviceLocations,
        disk_transfer: DiskTransfer,
        emulated_tpm: EmulatedTpm,
        guest_agent: GuestAgent,
        guest_definitions: GuestDefinitions,
        image_cache: ImageCache,
        interfaces: InterfaceAttachment,
        live_migration: LiveMigration,
        networks: VirtualNetworks,
        owner_mark: OwnerMark,
        redefinition: Redefinition,
        shared_storage: SharedStorage,
        snapshots: DiskSnapshots,
        storage_cleanup: StorageCleanup,
        suspension: Suspension,
        troubleshooting: Troubleshooting,
        volume_attachment: VolumeAttachment,
        volume_store: VolumeStore,
    }
}
