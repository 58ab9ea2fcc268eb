//! The image service of a chaos run. It is in memory and survives crashes of the control plane, as a real Glance would.
//!
//! A run does not use the embedded image service, because that service writes files on threads that wait for the disk.
//! With those threads, the order of events would not depend on the seed alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chronova_actors::ports::{ImageDraft, ImageService, PortError};
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId};
use chronova_events::instance::ImageSnapshot;
use chronova_hypervisor::driver::{ByteStream, DriverError, DriverResult, ImageSource};
use chronova_hypervisor::guest::ImageRef;
use futures::StreamExt as _;
use sha2::{Digest as _, Sha512};

/// The data of every image that is not a snapshot of a server.
const TINY: &[u8] = b"tiny";

#[derive(Debug, Clone)]
struct ChaosImage {
    draft: ImageDraft,
    bytes: Option<Bytes>,
    /// The place of the image in the order of creation. A new image gets the highest number of all existing images,
    /// plus one.
    number: u64,
}

/// The images of the run. An id without an entry is a public image of a few bytes.
#[derive(Debug, Default)]
pub(super) struct ChaosImages {
    made: Mutex<BTreeMap<ImageId, ChaosImage>>,
    deleted: Mutex<BTreeSet<ImageId>>,
}

impl ChaosImages {
    fn made(&self) -> MutexGuard<'_, BTreeMap<ImageId, ChaosImage>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deleted(&self) -> MutexGuard<'_, BTreeSet<ImageId>> {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Images that have no data yet.
    pub(super) fn unfinished(&self) -> Vec<ImageId> {
        self.made().iter().filter(|(_, image)| image.bytes.is_none()).map(|(id, _)| *id).collect()
    }
}

fn gone(image: ImageId) -> PortError {
    PortError::NotFound(format!("Image {image} could not be found."))
}

#[async_trait]
impl ImageSource for ChaosImages {
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        let bad = |reason: &str| DriverError::BadImage { image: image.id.to_string(), reason: reason.to_owned() };
        if self.deleted().contains(&image.id) {
            return Err(bad("it is gone"));
        }
        let known = self.made().get(&image.id).map(|image| image.bytes.clone());
        let bytes = known.unwrap_or(Some(Bytes::from_static(TINY))).ok_or_else(|| bad("it has no bytes"))?;
        Ok(Box::pin(futures::stream::iter([Ok(bytes)])))
    }
}

#[async_trait]
impl ImageService for ChaosImages {
    async fn find(&self, image: ImageId, _: &ProjectId, _: bool) -> Result<ImageSnapshot, PortError> {
        if self.deleted().contains(&image) {
            return Err(gone(image));
        }
        let known = self.made().get(&image).cloned();
        let (name, format, bytes, properties) = match known {
            None => ("tiny".to_owned(), "raw".to_owned(), Bytes::from_static(TINY), vec![]),
            Some(ChaosImage { draft, bytes: Some(bytes), .. }) => (draft.name, draft.format, bytes, draft.properties),
            Some(_) => return Err(PortError::Invalid(format!("Image {image} is not active."))),
        };
        let size = bytes.len() as u64;
        Ok(ImageSnapshot {
            id: image,
            name,
            checksum: format!("{:x}", Sha512::digest(&bytes)),
            virtual_size: if format == "raw" { size } else { 1 << 30 },
            format,
            size,
            min_memory_mib: 0,
            min_disk_gib: 0,
            properties,
        })
    }

    async fn format_of(&self, image: ImageId, _: &Arc<Meta>) -> Result<String, PortError> {
        self.made().get(&image).map(|made| made.draft.format.clone()).ok_or_else(|| gone(image))
    }

    async fn create(&self, draft: ImageDraft, _: Arc<Meta>) -> Result<(), PortError> {
        let mut made = self.made();
        let number = made.values().map(|image| image.number + 1).max().unwrap_or(0);
        self.deleted().remove(&draft.image);
        made.insert(draft.image, ChaosImage { draft, bytes: None, number });
        Ok(())
    }

    async fn upload(&self, image: ImageId, mut bytes: ByteStream, _: Arc<Meta>) -> Result<(), PortError> {
        let mut all = Vec::new();
        while let Some(chunk) = bytes.next().await {
            all.extend_from_slice(&chunk.map_err(|error| PortError::Unavailable(error.to_string()))?);
        }
        self.made().get_mut(&image).ok_or_else(|| gone(image))?.bytes.get_or_insert(all.into());
        Ok(())
    }

    async fn delete(&self, image: ImageId, _: Arc<Meta>) -> Result<(), PortError> {
        self.made().remove(&image).ok_or_else(|| gone(image))?;
        self.deleted().insert(image);
        Ok(())
    }

    async fn backups(&self, like: ImageId, instance: InstanceId, kind: &str) -> Result<Vec<ImageId>, PortError> {
        let server = instance.to_string();
        let says = |image: &ChaosImage, name: &str, value: &str| {
            image.draft.properties.iter().any(|(key, has)| key == name && has == value)
        };
        let made = self.made();
        let Some(like) = made.get(&like) else { return Ok(Vec::new()) };
        let mut found: Vec<(u64, ImageId)> = made
            .iter()
            .filter(|(_, image)| image.bytes.is_some() && image.draft.owner == like.draft.owner)
            .filter(|(_, image)| says(image, "instance_uuid", &server) && says(image, "backup_type", kind))
            .map(|(id, image)| (image.number, *id))
            .collect();
        found.sort_unstable_by(|one, other| other.cmp(one));
        Ok(found.into_iter().map(|(_, id)| id).collect())
    }
}
