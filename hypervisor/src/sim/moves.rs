//! Moves between simulated hosts: the bytes of a disk really travel, so that a torn stream is seen.

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::InstanceId;
use futures::{StreamExt as _, stream};

use super::SimHost;
use super::faults::Call;
use super::machine::moves::CONTENT;
use crate::driver::{ByteStream, DriverError, DriverResult};
use crate::guest::{GuestSpec, ImageRef};
use crate::moves::{DiskFile, Moves};

#[async_trait]
impl Moves for SimHost {
    async fn disk_files(&self, instance: InstanceId) -> DriverResult<Vec<DiskFile>> {
        self.perform(Call::DiskFiles, |machine| Ok(machine.disk_files(instance))).await
    }

    async fn read_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<ByteStream> {
        self.perform(Call::ReadDisk, |machine| machine.require_disk(instance, disk)).await?;
        Ok(Box::pin(stream::iter([Ok(Bytes::from_static(CONTENT))])))
    }

    async fn read_image(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        let bytes = self.perform(Call::ReadImage, |machine| machine.image_content(image)).await?;
        Ok(Box::pin(stream::iter([Ok(bytes)])))
    }

    async fn receive_disk(&self, instance: InstanceId, disk: &DiskFile, mut content: ByteStream) -> DriverResult<()> {
        let failed = |message: String| DriverError::Failed { call: "receive_disk", message };
        let mut size = 0_u64;
        while let Some(chunk) = content.next().await {
            size += chunk.map_err(|error| failed(error.to_string()))?.len() as u64;
        }
        if size != disk.size {
            return Err(failed(format!("{size} bytes came instead of {}", disk.size)));
        }
        self.perform(Call::ReceiveDisk, |machine| machine.take_disk(instance, disk)).await
    }

    async fn remove_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<()> {
        self.perform(Call::RemoveDisk, |machine| machine.remove_disk(instance, disk)).await
    }

    async fn provide(&self, guest: &GuestSpec) -> DriverResult<()> {
        self.perform(Call::Provide, |machine| machine.provide(guest)).await
    }

    async fn install(&self, guest: &GuestSpec, on: bool) -> DriverResult<()> {
        let shared = self.fleet.has_shared_storage();
        self.perform(Call::Install, |machine| machine.install(guest, on, shared)).await
    }
}
