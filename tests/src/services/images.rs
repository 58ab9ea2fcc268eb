//! An image service that has the same small image under every id.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use chronova_actors::ports::{ImageDraft, ImageService, PortError};
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId};
use chronova_events::instance::ImageSnapshot;
use chronova_hypervisor::driver::{ByteStream, DriverResult, ImageSource};
use chronova_hypervisor::guest::ImageRef;
use futures::StreamExt;
use sha2::{Digest, Sha512};
use uuid::Uuid;

const SHA512_OF_TINY: &str = "3f78b24ef73cc8180982787d6db8ade488fa91dbbab294e4fd747a5e0d05c770\
    263589ae093a8c54e71ed13f84f583c37ad9fe232047f20c9e0780fbfcb99056";

/// An image's content.
#[derive(Debug)]
pub struct Plain(pub Bytes);

#[async_trait]
impl ImageSource for Plain {
    async fn open(&self, _: &ImageRef) -> DriverResult<ByteStream> {
        Ok(Box::pin(futures::stream::iter([Ok(self.0.clone())])))
    }
}

/// An image service with the same small image under every id, except for [`NO_IMAGE`] and the images that it created.
#[derive(Debug, Default)]
pub struct OneImage {
    made: Mutex<BTreeMap<ImageId, Made>>,
}

/// An image of a server's disk.
#[derive(Debug, Clone)]
pub struct Made {
    pub draft: ImageDraft,
    pub bytes: Option<Bytes>,
    /// The position of this image in the order of creation.
    pub number: usize,
}

/// The number in a draft's property `virtual_gib`; 1 without it.
fn virtual_gib(draft: &ImageDraft) -> u64 {
    draft.properties.iter().find(|(key, _)| key == "virtual_gib").map_or(1, |(_, value)| value.parse().unwrap())
}

impl OneImage {
    pub fn snapshot() -> ImageSnapshot {
        ImageSnapshot {
            id: ImageId(Uuid::nil()),
            name: "tiny".to_owned(),
            checksum: SHA512_OF_TINY.to_owned(),
            format: "raw".to_owned(),
            size: 4,
            virtual_size: 4,
            min_memory_mib: 0,
            min_disk_gib: 0,
            properties: vec![],
        }
    }

    /// The images that were created and are not deleted.
    pub fn made(&self) -> BTreeMap<ImageId, Made> {
        self.made.lock().unwrap().clone()
    }

    /// The created images without data.
    pub fn unfinished(&self) -> Vec<ImageId> {
        self.made().into_iter().filter(|(_, made)| made.bytes.is_none()).map(|(id, _)| id).collect()
    }

    fn bytes(&self, image: ImageId) -> Option<Bytes> {
        self.made.lock().unwrap().get(&image).and_then(|made| made.bytes.clone())
    }
}

#[async_trait]
impl ImageSource for OneImage {
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        let bytes = self.bytes(image.id).unwrap_or(Bytes::from_static(b"tiny"));
        Ok(Box::pin(futures::stream::iter([Ok(bytes)])))
    }
}

#[async_trait]
impl ImageService for OneImage {
    async fn find(&self, image: ImageId, _: &ProjectId, _: bool) -> Result<ImageSnapshot, PortError> {
        if image == NO_IMAGE {
            return Err(PortError::NotFound(format!("Image {image} could not be found.")));
        }
        let made = self.made.lock().unwrap();
        let Some(made) = made.get(&image) else { return Ok(Self::snapshot()) };
        let bytes = made.bytes.as_ref().ok_or_else(|| PortError::Invalid(format!("Image {image} is not active.")))?;
        Ok(ImageSnapshot {
            id: image,
            name: made.draft.name.clone(),
            checksum: format!("{:x}", Sha512::digest(bytes)),
            format: made.draft.format.clone(),
            size: bytes.len() as u64,
            virtual_size: virtual_gib(&made.draft) << 30,
            min_memory_mib: made.draft.min_memory_mib,
            min_disk_gib: made.draft.min_disk_gib,
            properties: made.draft.properties.clone(),
        })
    }

    async fn create(&self, draft: ImageDraft, _: Arc<Meta>) -> Result<(), PortError> {
        let mut made = self.made.lock().unwrap();
        let number = made.values().map(|made| made.number + 1).max().unwrap_or(0);
        made.insert(draft.image, Made { draft, bytes: None, number });
        Ok(())
    }

    async fn format_of(&self, image: ImageId, _: &Arc<Meta>) -> Result<String, PortError> {
        let made = self.made.lock().unwrap();
        let made = made.get(&image).ok_or_else(|| PortError::NotFound(image.to_string()))?;
        Ok(made.draft.format.clone())
    }

    async fn upload(&self, image: ImageId, mut bytes: ByteStream, _: Arc<Meta>) -> Result<(), PortError> {
        let mut all = Vec::new();
        while let Some(chunk) = bytes.next().await {
            all.extend_from_slice(&chunk.map_err(|error| PortError::Unavailable(error.to_string()))?);
        }
        let mut made = self.made.lock().unwrap();
        let made = made.get_mut(&image).ok_or_else(|| PortError::NotFound(image.to_string()))?;
        made.bytes.get_or_insert(Bytes::from(all));
        Ok(())
    }

    async fn delete(&self, image: ImageId, _: Arc<Meta>) -> Result<(), PortError> {
        let gone = || PortError::NotFound(image.to_string());
        self.made.lock().unwrap().remove(&image).map(drop).ok_or_else(gone)
    }

    async fn backups(&self, like: ImageId, instance: InstanceId, kind: &str) -> Result<Vec<ImageId>, PortError> {
        let Some(like) = self.made().remove(&like) else { return Ok(Vec::new()) };
        let wanted = [("instance_uuid", instance.to_string()), ("backup_type", kind.to_owned())];
        let says = |made: &Made| {
            wanted
                .iter()
                .all(|(name, value)| made.draft.properties.iter().any(|(key, has)| key == name && has == value))
        };
        let mut found: Vec<_> = self
            .made()
            .into_iter()
            .filter(|(_, made)| made.bytes.is_some() && made.draft.owner == like.draft.owner && says(made))
            .collect();
        found.sort_by_key(|(_, made)| std::cmp::Reverse(made.number));
        Ok(found.into_iter().map(|(id, _)| id).collect())
    }
}

/// The only id without an image.
pub const NO_IMAGE: ImageId = ImageId(Uuid::from_u128(0xdead));
