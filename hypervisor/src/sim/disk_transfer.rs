//! Moves disks between simulated hosts. The bytes are really sent, so that a broken stream is detected.

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::InstanceId;
use futures::{StreamExt as _, stream};

use super::SimHost;
use super::faults::DriverCall;
use super::machine::SimMachine;
use super::machine::moves::CONTENT;
use crate::capability::disk_transfer::{DiskFile, DiskTransfer};
use crate::driver::{ByteStream, DriverError, DriverResult};
use crate::guest::{GuestSpec, ImageRef};

impl SimHost {
    /// The machine with the set-aside copy of the guest's disk, if all hosts share storage.
    fn elsewhere_kept(&self, instance: InstanceId) -> Option<usize> {
        let others = (0..self.fleet.len()).filter(|host| *host != self.index && self.fleet.has_shared_storage());
        others.into_iter().find(|host| self.fleet.machine(*host).kept.contains(&instance))
    }
}

#[async_trait]
impl DiskTransfer for SimHost {
    async fn disk_files(&self, instance: InstanceId) -> DriverResult<Vec<DiskFile>> {
        let mut disks = self.perform(DriverCall::DiskFiles, |machine| Ok(machine.disk_files(instance))).await?;
        if !disks.iter().any(DiskFile::is_kept) && self.elsewhere_kept(instance).is_some() {
            disks.push(SimMachine::kept_file());
        }
        Ok(disks)
    }

    async fn read_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<ByteStream> {
        let elsewhere = disk.is_kept() && self.elsewhere_kept(instance).is_some();
        self.perform(
            DriverCall::ReadDisk,
            |machine| if elsewhere { Ok(()) } else { machine.require_disk(instance, disk) },
        )
        .await?;
        Ok(Box::pin(stream::iter([Ok(Bytes::from_static(CONTENT))])))
    }

    async fn read_image(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        let bytes = self.perform(DriverCall::ReadImage, |machine| machine.image_content(image)).await?;
        Ok(Box::pin(stream::iter([Ok(bytes)])))
    }

    async fn receive_disk(&self, instance: InstanceId, disk: &DiskFile, mut content: ByteStream) -> DriverResult<()> {
        let failed = |message: String| DriverError::Failed { call: "receive_disk", message };
        let mut size = 0_u64;
        while let Some(chunk) = content.next().await {
            size += chunk.map_err(|error| failed(error.to_string()))?.len() as u64;
        }
        if size != disk.size {
            return Err(failed(format!("{size} bytes arrived instead of {}", disk.size)));
        }
        if !disk.is_kept() {
            self.fleet.touch(self.index, DriverCall::ReceiveDisk, instance, true);
        }
        self.perform(DriverCall::ReceiveDisk, |machine| machine.take_disk(instance, disk)).await
    }

    async fn remove_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<()> {
        self.perform(DriverCall::RemoveDisk, |machine| machine.remove_disk(instance, disk)).await?;
        match self.elsewhere_kept(instance).filter(|_| disk.is_kept()) {
            Some(other) => self.fleet.machine(other).remove_disk(instance, disk),
            None => Ok(()),
        }
    }

    async fn provide(&self, guest: &GuestSpec) -> DriverResult<()> {
        self.fleet.touch(self.index, DriverCall::Provide, guest.instance, false);
        self.perform(DriverCall::Provide, |machine| machine.provide(guest)).await
    }

    async fn install(&self, guest: &GuestSpec, on: bool) -> DriverResult<()> {
        let shared = self.fleet.has_shared_storage();
        self.fleet.touch(self.index, DriverCall::Install, guest.instance, true);
        self.perform(DriverCall::Install, |machine| machine.install(guest, on, shared)).await
    }
}
