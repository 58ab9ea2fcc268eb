//! The driver's calls that attach volumes to guests, detach them and swap them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::ids::InstanceId;
use tokio::time::sleep;

use super::gates::GatePermit;
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

impl LibvirtDriver {
    /// Keeps the secrets of these volumes on the host until the permits are dropped. The guest that gets the volumes
    /// needs their secrets, but no definition names the volumes yet. All callers take the permits in the same order, so
    /// that two callers never wait for each other.
    pub(super) async fn hold_secrets(
        &self,
        disks: &[VolumeDisk],
        call: &'static str,
        deadline: Duration,
    ) -> DriverResult<Vec<GatePermit>> {
        self.hold(disks.iter().flat_map(secrets::passing).map(str::to_owned).collect(), call, deadline).await
    }

    /// Enters the gates of these keys, in their order.
    async fn hold(
        &self,
        keys: BTreeSet<String>,
        call: &'static str,
        deadline: Duration,
    ) -> DriverResult<Vec<GatePermit>> {
        let mut held = Vec::with_capacity(keys.len());
        for key in keys {
            held.push(self.volumes.enter(&key, call, deadline).await?);
        }
        Ok(held)
    }

    /// Removes the secret of a volume unless a guest of the host has the volume or gets it.
    async fn forget_secret(&self, serial: String) -> DriverResult<()> {
        let pass = self.volumes.enter(&serial, "secret", self.options.call_deadline).await?;
        self.call("secret", move |connect, _| {
            let _until_done = pass;
            secrets::forget(connect, &serial)
        })
        .await
    }

    /// Removes the secrets of the volumes of a guest that is gone. A secret that stays ends with libvirtd.
    pub(super) async fn forget_secrets(&self, serials: Vec<String>) {
        for serial in serials {
            if let Err(error) = self.forget_secret(serial).await {
                tracing::debug!(%error, "the secret of a volume stays on its host");
            }
        }
    }
}

#[async_trait]
impl VolumeAttachment for LibvirtDriver {
    async fn attach_disk(&self, instance: InstanceId, disk: &VolumeDisk) -> DriverResult<()> {
        let known = self.known().await?;
        let (disk, direct_io) = (disk.clone(), Arc::clone(&self.direct_io));
        // Another guest's detachment must not remove the volume's secrets between their definition and their use. The
        // two keys differ after Cinder has moved the volume.
        let keys = BTreeSet::from([disk.serial.clone(), disk.key().to_owned()]);
        let pass = self.hold(keys, "disk attachment", self.options.call_deadline).await?;
        self.change("disk attachment", instance, self.options.call_deadline, move |connect, options| {
            let _until_done = pass;
            let domain = domain::require(connect, instance)?;
            pool::look_for(connect, options, std::slice::from_ref(&disk))?;
            let facts = HostFacts { direct_io: direct_io.load(Ordering::Relaxed), ..known.facts.clone() };
            let attached = match disks::attach(&domain, &disk, &facts) {
                Err(DriverError::Failed { message, .. }) if facts.direct_io && message.contains("O_DIRECT") => {
                    direct_io.store(false, Ordering::Relaxed);
                    disks::forget(&domain, disk.key())?;
                    disks::attach(&domain, &disk, &HostFacts { direct_io: false, ..facts })
                }
                result => result,
            };
            attached.map_err(|error| explained(error, &disk)).inspect_err(|_| {
                for key in BTreeSet::from([disk.serial.as_str(), disk.key()]) {
                    if let Err(error) = secrets::forget(connect, key) {
                        tracing::debug!(%error, "the secret of a volume stays on its host");
                    }
                }
            })
        })
        .await
    }

    async fn detach_disk(&self, instance: InstanceId, key: &str) -> DriverResult<()> {
        let forgotten = key.to_owned();
        self.change("disk detachment", instance, self.options.call_deadline, move |connect, _| {
            disks::forget(&domain::require(connect, instance)?, &forgotten)
        })
        .await?;
        self.wait_for_detachment(instance, key).await?;
        // A password has the serial as its key, and only disks that their serial identifies have one.
        self.forget_secret(key.to_owned()).await
    }

    async fn swap_disk(&self, instance: InstanceId, old: &str, new: &VolumeDisk) -> DriverResult<()> {
        // Before the host gets the passphrase, which nothing would remove again.
        if new.passphrase().is_some() {
            return Err(disks::no_encrypted_swap());
        }
        let known = self.known().await?;
        let mut begun = 0;
        loop {
            let (old, new) = (old.to_owned(), new.clone());
            let facts = HostFacts { direct_io: self.direct_io.load(Ordering::Relaxed), ..known.facts.clone() };
            let held = std::slice::from_ref(&new);
            let secrets = self.hold_secrets(held, "disk exchange", self.options.call_deadline).await?;
            let step = self.call("disk exchange", move |connect, options| {
                let _until_done = secrets;
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

    async fn resize_disk(&self, instance: InstanceId, key: &str, size: u64) -> DriverResult<()> {
        let key = key.to_owned();
        self.call("disk resize", move |connect, _| disks::resize(&domain::require(connect, instance)?, &key, size))
            .await
    }

    async fn disks(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        self.ask("disks", move |connect, _| disks::keys(&domain::require(connect, instance)?)).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::guest::{DiskPassword, NetworkDisk};
    use crate::options::LibvirtOptions;

    fn disk(network: Option<NetworkDisk>) -> VolumeDisk {
        VolumeDisk {
            serial: "457eb676-33da-42ec-9a8c-9293d545c337".to_owned(),
            pool: "p".to_owned(),
            volume: "v".to_owned(),
            network,
            format: "raw".to_owned(),
            readonly: false,
            shareable: false,
            device: "vdb".to_owned(),
            bus: "virtio".to_owned(),
            kind: "disk".to_owned(),
            boot_order: None,
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_secret_stays_while_another_guest_gets_its_volume() {
        let driver = LibvirtDriver::new("test:///default", &LibvirtOptions::default());
        let shared = disk(Some(NetworkDisk::Iscsi {
            portal: "h:3260".to_owned(),
            target: "iqn.2010-10.org.openstack:volume-8".to_owned(),
            lun: 1,
            initiator: "iqn.h".to_owned(),
            chap: Some(("u".to_owned(), DiskPassword::new("p"))),
        }));
        // The first call waits until the driver has connected to its host. The later calls then need no time for this.
        driver.forget_secret(shared.serial.clone()).await.unwrap();
        let disks = [shared.clone(), shared.clone(), disk(None)];
        let held = driver.hold_secrets(&disks, "spawn", Duration::from_mins(1)).await.unwrap();
        assert_eq!(held.len(), 1, "one permit for each secret");
        let forgotten = driver.forget_secret(shared.serial.clone());
        let early = tokio::time::timeout(Duration::from_millis(20), forgotten).await;
        assert!(early.is_err(), "the secret is forgotten before the guest has its volume");
        assert!(driver.volumes.try_enter(&shared.serial).is_none());
        drop(held);
        driver.forget_secret(shared.serial.clone()).await.unwrap();
        assert!(driver.volumes.try_enter(&shared.serial).is_some());
    }

    #[test]
    fn a_host_without_the_block_driver_says_what_it_lacks() {
        let mut disk = disk(Some(NetworkDisk::Nfs { host: "h".to_owned(), path: "/p".to_owned() }));
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
