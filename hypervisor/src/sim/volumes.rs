//! The volume service's volumes on a simulated machine: their sizes, and a line of text as their content.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::InstanceId;

use super::SimHost;
use super::faults::DriverCall;
use super::journal::SimChange;
use super::machine::SimMachine;
use crate::capability::volume_store::{PoolStatus, PoolVolume, VolumeContent, VolumeStore};
use crate::driver::{ByteStream, DriverError, DriverResult};

const GIB: u64 = 1 << 30;
/// The number of bytes that a reader of a volume gets: the text, followed by zeros.
const SECTOR: usize = 512;

/// The size in bytes and the content of each volume, by name.
#[derive(Debug, Clone, Default)]
pub(super) struct SimPool(Arc<Mutex<BTreeMap<String, (u64, String)>>>);

impl SimPool {
    /// Ignores poisoning. A thread panics only between two changes, and the pool is consistent then.
    pub(super) fn all(&self) -> MutexGuard<'_, BTreeMap<String, (u64, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimMachine {
    pub(super) fn apply_to_volumes(&mut self, change: &SimChange) {
        match change {
            SimChange::Volume { name, size, content } => {
                self.volumes.all().insert(name.clone(), (*size, content.clone()));
            }
            SimChange::NoVolume(name) => {
                self.volumes.all().remove(name);
            }
            _ => {}
        }
    }

    /// The changes that give the present volumes.
    pub(super) fn volume_changes(&self) -> Vec<SimChange> {
        let change = |(name, (size, content)): (&String, &(u64, String))| SimChange::Volume {
            name: name.clone(),
            size: *size,
            content: content.clone(),
        };
        self.volumes.all().iter().map(change).collect()
    }

    fn pool_status(&self) -> PoolStatus {
        let used: u64 = self.volumes.all().values().map(|(size, _)| size).sum();
        let capacity = self.uri.disk_gib * GIB;
        PoolStatus {
            name: "chronova-volumes".to_owned(),
            format: "raw".to_owned(),
            capacity,
            free: capacity.saturating_sub(used),
        }
    }

    fn volume(&self, call: DriverCall, name: &str) -> DriverResult<(u64, String)> {
        let missing = || DriverError::Failed { call: call.name(), message: format!("volume {name} is not there") };
        self.volumes.all().get(name).cloned().ok_or_else(missing)
    }

    fn create_volume(&mut self, name: &str, size: u64, content: &VolumeContent) -> DriverResult<()> {
        self.delete_volume(name)?;
        if size > self.pool_status().free {
            return Err(DriverError::NoRoom(format!("volume {name} does not fit")));
        }
        let content = match content {
            VolumeContent::Blank => "blank".to_owned(),
            VolumeContent::Image(image) if !self.has_image(image) => {
                let reason = "it is not in the host's cache".to_owned();
                return Err(DriverError::BadImage { image: image.id.to_string(), reason });
            }
            VolumeContent::Image(image) => format!("image {}", image.checksum),
            VolumeContent::Copy { of, .. } => self.volume(DriverCall::CreateVolume, of)?.1,
        };
        self.change(&SimChange::Volume { name: name.to_owned(), size, content })
    }

    fn delete_volume(&mut self, name: &str) -> DriverResult<()> {
        let known = self.volumes.all().contains_key(name);
        if known { self.change(&SimChange::NoVolume(name.to_owned())) } else { Ok(()) }
    }

    fn resize_volume(&mut self, name: &str, size: u64) -> DriverResult<()> {
        let (now, content) = self.volume(DriverCall::ResizeVolume, name)?;
        if now >= size {
            return Ok(());
        }
        if size - now > self.pool_status().free {
            return Err(DriverError::NoRoom(format!("volume {name} does not fit")));
        }
        self.change(&SimChange::Volume { name: name.to_owned(), size, content })
    }
}

#[async_trait]
impl VolumeStore for SimHost {
    async fn volume_pool(&self) -> DriverResult<PoolStatus> {
        self.perform(DriverCall::VolumePool, |machine| Ok(machine.pool_status())).await
    }

    async fn volumes(&self) -> DriverResult<Vec<PoolVolume>> {
        self.perform(DriverCall::Volumes, |machine| {
            let all = machine.volumes.all();
            Ok(all.iter().map(|(name, (size, _))| PoolVolume { name: name.clone(), size: *size }).collect())
        })
        .await
    }

    async fn create_volume(&self, name: &str, size: u64, content: &VolumeContent) -> DriverResult<()> {
        self.perform(DriverCall::CreateVolume, |machine| machine.create_volume(name, size, content)).await
    }

    async fn delete_volume(&self, name: &str) -> DriverResult<()> {
        self.perform(DriverCall::DeleteVolume, |machine| machine.delete_volume(name)).await
    }

    async fn resize_volume(&self, name: &str, size: u64, _: Option<InstanceId>) -> DriverResult<()> {
        self.perform(DriverCall::ResizeVolume, |machine| machine.resize_volume(name, size)).await
    }

    async fn read_volume(&self, name: &str, _: Option<InstanceId>) -> DriverResult<ByteStream> {
        let (_, content) =
            self.perform(DriverCall::ReadVolume, |machine| machine.volume(DriverCall::ReadVolume, name)).await?;
        let mut bytes = content.into_bytes();
        bytes.resize(SECTOR.max(bytes.len()), 0);
        Ok(Box::pin(futures::stream::iter([Ok(Bytes::from(bytes))])))
    }
}
