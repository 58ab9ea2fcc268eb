//! The driver's calls that attach volumes to guests, detach them and swap them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use chronova_events::ids::InstanceId;
use tokio::time::sleep;

use super::guest_requests::DISK_POLL;
use super::host::LibvirtDriver;
use super::{disks, domain, pool, secrets};
use crate::capability::VolumeAttachment;
use crate::domain_xml::HostFacts;
use crate::driver::{DriverError, DriverResult};
use crate::guest::VolumeDisk;

/// How often a copy for a swap may begin again.
const COPY_ATTEMPTS: u32 = 3;

/// Says what the host lacks if its QEMU was built or installed without the driver for the volume.
fn explained(error: DriverError, disk: &VolumeDisk) -> DriverError {
    match (&error, &disk.network) {
        (DriverError::Failed { message, .. }, Some(network))
            if message.contains("Unknown driver") || message.contains("does not accept value") =>
        {
            let protocol = network.protocol();
            DriverError::Unsupported(format!(
                "its QEMU cannot connect to volumes by {protocol} (Debian's package qemu-block-extra): {message}"
            ))
        }
        _ => error,
    }
}

#[async_trait]
impl VolumeAttachment for LibvirtDriver {
    async fn attach_disk(&self, instance: InstanceId, disk: &VolumeDisk) -> DriverResult<()> {
        let known = self.known().await?;
        let (disk, direct_io) = (disk.clone(), Arc::clone(&self.direct_io));
        self.change("disk attachment", instance, self.options.call_deadline, move |connect, options| {
            let domain = domain::require(connect, instance)?;
            pool::look_for(connect, options, std::slice::from_ref(&disk))?;
            let facts = HostFacts { direct_io: direct_io.load(Ordering::Relaxed), ..known.facts.clone() };
            let attached = match disks::attach(&domain, &disk, &facts) {
                Err(DriverError::Failed { message, .. }) if facts.direct_io && message.contains("O_DIRECT") => {
                    direct_io.store(false, Ordering::Relaxed);
                    disks::forget(&domain, &disk.serial)?;
                    disks::attach(&domain, &disk, &HostFacts { direct_io: false, ..facts })
                }
                result => result,
            };
            attached.map_err(|error| explained(error, &disk)).inspect_err(|_| {
                if let Err(error) = secrets::forget(connect, &disk.serial) {
                    tracing::debug!(%error, "the secret of a volume stays on its host");
                }
            })
        })
        .await
    }

    async fn detach_disk(&self, instance: InstanceId, serial: &str) -> DriverResult<()> {
        let forgotten = serial.to_owned();
        self.change("disk detachment", instance, self.options.call_deadline, move |connect, _| {
            disks::forget(&domain::require(connect, instance)?, &forgotten)
        })
        .await?;
        self.wait_for_detachment(instance, serial).await?;
        let forgotten = serial.to_owned();
        self.call("secret", move |connect, _| secrets::forget(connect, &forgotten)).await
    }

    async fn swap_disk(&self, instance: InstanceId, old: &str, new: &VolumeDisk) -> DriverResult<()> {
        let known = self.known().await?;
        let mut begun = 0;
        loop {
            let (old, new) = (old.to_owned(), new.clone());
            let facts = HostFacts { direct_io: self.direct_io.load(Ordering::Relaxed), ..known.facts.clone() };
            let step = self.call("disk exchange", move |connect, options| {
                pool::look_for(connect, options, std::slice::from_ref(&new))?;
                disks::exchange(connect, &domain::require(connect, instance)?, &old, &new, &facts)
            });
            match step.await? {
                disks::Exchange::Done => return Ok(()),
                // A copy that fails, for example for lack of space, ends without an error.
                disks::Exchange::Begun if begun == COPY_ATTEMPTS => {
                    let message =
                        "the host gave up each copy of the volume: see the log of the guest's QEMU".to_owned();
                    return Err(DriverError::Failed { call: "disk exchange", message });
                }
                disks::Exchange::Begun => begun += 1,
                disks::Exchange::Copying => {}
            }
            sleep(DISK_POLL).await;
        }
    }

    async fn abandon_swap(&self, instance: InstanceId, old: &str) -> DriverResult<()> {
        let old = old.to_owned();
        self.call("disk exchange", move |connect, _| match domain::lookup(connect, instance)? {
            Some(guest) => disks::abandon(&guest, &old),
            None => Ok(()),
        })
        .await
    }

    async fn resize_disk(&self, instance: InstanceId, serial: &str, size: u64) -> DriverResult<()> {
        let serial = serial.to_owned();
        self.call("disk resize", move |connect, _| disks::resize(&domain::require(connect, instance)?, &serial, size))
            .await
    }

    async fn disks(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        self.ask("disks", move |connect, _| disks::serials(&domain::require(connect, instance)?)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::NetworkDisk;

    #[test]
    fn a_host_without_the_block_driver_says_what_it_lacks() {
        let mut disk = VolumeDisk {
            serial: "1".to_owned(),
            pool: "p".to_owned(),
            volume: "v".to_owned(),
            network: Some(NetworkDisk::Nfs { host: "h".to_owned(), path: "/p".to_owned() }),
            format: "raw".to_owned(),
            readonly: false,
            shareable: false,
            device: "vdb".to_owned(),
            bus: "virtio".to_owned(),
            kind: "disk".to_owned(),
            boot_order: None,
        };
        let said = |message: &str, disk: &VolumeDisk| {
            explained(DriverError::Failed { call: "disk attachment", message: message.to_owned() }, disk)
        };
        let lacking = said("unable to execute QEMU command 'blockdev-add': Unknown driver 'nfs'", &disk);
        assert!(matches!(&lacking, DriverError::Unsupported(text) if text.contains("by nfs (Debian")), "{lacking}");
        assert!(matches!(said("Permission denied", &disk), DriverError::Failed { .. }));
        disk.network = None;
        assert!(matches!(said("Unknown driver 'x'", &disk), DriverError::Failed { .. }));
    }
}
