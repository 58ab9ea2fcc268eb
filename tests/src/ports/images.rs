//! The promises that every implementation of [`ImageService`] keeps.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use chronova_actors::ports::{ImageDraft, ImageService, PortError, ServiceCaller};
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId};
use chronova_events::instance::ImageSnapshot;
use chronova_hypervisor::driver::ByteStream;
use chronova_hypervisor::guest::{ImageFormat, ImageRef};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};

use super::promise;

/// Creates the resources of a case, without the port.
#[async_trait]
pub trait ImageStage: Send + Sync {
    /// A project that has no images yet.
    async fn project(&self) -> ProjectId;

    /// A user of the project, who is no administrator.
    async fn user(&self, project: &ProjectId) -> ServiceCaller;
}

pub type ImageCase = for<'a> fn(&'a dyn ImageService, &'a dyn ImageStage) -> BoxFuture<'a, anyhow::Result<()>>;

/// The cases of the suite.
pub const CASES: &[(&str, ImageCase)] = &[
    ("shows_an_image_to_its_owner_alone", |port, stage| shows(port, stage).boxed()),
    ("shows_an_image_as_its_user_sees_it", |port, stage| shows_users(port, stage).boxed()),
    ("gives_out_no_image_without_bytes", |port, stage| withholds(port, stage).boxed()),
    ("keeps_the_bytes_of_an_image", |port, stage| keeps_bytes(port, stage).boxed()),
    ("reads_nothing_for_an_image_that_has_its_bytes", |port, stage| uploads_once(port, stage).boxed()),
    ("takes_another_upload_after_a_broken_one", |port, stage| uploads_again(port, stage).boxed()),
    ("forgets_deleted_images", |port, stage| deletes(port, stage).boxed()),
    ("tells_backups_newest_first", |port, stage| tells_backups(port, stage).boxed()),
    ("believes_no_backup_of_another_owner", |port, stage| believes_owners(port, stage).boxed()),
];

fn meta() -> Arc<Meta> {
    Meta::system("conformance")
}

pub fn draft(owner: &ProjectId) -> ImageDraft {
    ImageDraft {
        image: ImageId::random(),
        name: "disk".to_owned(),
        owner: owner.clone(),
        format: "raw".to_owned(),
        min_disk_gib: 3,
        min_memory_mib: 64,
        properties: vec![("hw_disk_bus".to_owned(), "virtio".to_owned())],
    }
}

fn backup(owner: &ProjectId, server: InstanceId, kind: &str) -> ImageDraft {
    let property = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let properties = vec![
        property("backup_type", kind),
        property("image_type", "backup"),
        property("instance_uuid", &server.to_string()),
    ];
    ImageDraft { properties, ..draft(owner) }
}

pub fn bytes(text: &'static str) -> ByteStream {
    Box::pin(futures::stream::iter([Ok(Bytes::from_static(text.as_bytes()))]))
}

/// An upload that fails half-way.
fn broken() -> ByteStream {
    let gone = std::io::Error::other("the sender went away");
    Box::pin(futures::stream::iter([Ok(Bytes::from_static(b"half")), Err(gone)]))
}

pub(super) async fn made(port: &dyn ImageService, draft: ImageDraft) -> anyhow::Result<ImageId> {
    let image = draft.image;
    port.create(draft, meta()).await?;
    port.upload(image, bytes("content"), meta()).await?;
    Ok(image)
}

async fn read(port: &dyn ImageService, found: &ImageSnapshot) -> anyhow::Result<Vec<u8>> {
    let wanted = ImageRef {
        id: found.id,
        checksum: found.checksum.clone(),
        format: ImageFormat::Raw,
        size: found.size,
        virtual_size: found.virtual_size,
    };
    let mut stream = port.open(&wanted).await?;
    let mut all = Vec::new();
    while let Some(chunk) = stream.next().await {
        all.extend_from_slice(&chunk?);
    }
    Ok(all)
}

async fn shows(port: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let (own, other) = (stage.project().await, stage.project().await);
    let wanted = draft(&own);
    let image = made(port, wanted.clone()).await?;
    let found = port.find(image, &own, false).await?;
    promise!(found.name == wanted.name, "the image has another name: {found:?}");
    promise!(found.format == wanted.format, "the image has another format: {found:?}");
    promise!(
        (found.min_disk_gib, found.min_memory_mib) == (3, 64),
        "the image needs another disk or memory: {found:?}"
    );
    promise!(wanted.properties.iter().all(|one| found.properties.contains(one)), "properties are lost: {found:?}");
    let foreign = port.find(image, &other, false).await;
    promise!(matches!(foreign, Err(PortError::NotFound(_))), "another project finds the image: {foreign:?}");
    promise!(port.find(image, &other, true).await.is_ok(), "an administrator does not find the image");
    let unknown = port.find(ImageId::random(), &own, true).await;
    promise!(
        matches!(unknown, Err(PortError::NotFound(_))),
        "an image that does not exist is not refused as missing: {unknown:?}"
    );
    Ok(())
}

async fn shows_users(port: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let (own, other) = (stage.project().await, stage.project().await);
    let image = made(port, draft(&own)).await?;
    let found = port.find_as(image, &own, &stage.user(&own).await).await?;
    promise!(found == port.find(image, &own, false).await?, "the user sees another image: {found:?}");
    let foreign = port.find_as(image, &other, &stage.user(&other).await).await;
    promise!(matches!(foreign, Err(PortError::NotFound(_))), "a user of another project finds the image: {foreign:?}");
    Ok(())
}

async fn withholds(port: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let own = stage.project().await;
    let wanted = draft(&own);
    let image = wanted.image;
    port.create(wanted, meta()).await?;
    let queued = port.find(image, &own, false).await;
    promise!(matches!(queued, Err(PortError::Invalid(_))), "an image without bytes is given out: {queued:?}");
    let format = port.format_of(image, &meta()).await?;
    promise!(format == "raw", "an image without bytes has another format: {format}");
    Ok(())
}

async fn keeps_bytes(port: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let own = stage.project().await;
    let image = made(port, draft(&own)).await?;
    let found = port.find(image, &own, false).await?;
    promise!(found.size == 7, "the image has another size than seven bytes: {found:?}");
    let content = read(port, &found).await?;
    promise!(content == b"content", "the image has other bytes: {content:?}");
    let stale = ImageSnapshot { checksum: "of other bytes".to_owned(), ..found };
    promise!(read(port, &stale).await.is_err(), "bytes with another checksum are given out");
    Ok(())
}

async fn uploads_once(port: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let own = stage.project().await;
    let image = made(port, draft(&own)).await?;
    let again = port.upload(image, broken(), meta()).await;
    promise!(again.is_ok(), "a second upload to an image fails: {again:?}");
    let content = read(port, &port.find(image, &own, false).await?).await?;
    promise!(content == b"content", "a second upload changes the bytes: {content:?}");
    Ok(())
}

async fn uploads_again(port: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let own = stage.project().await;
    let wanted = draft(&own);
    let image = wanted.image;
    port.create(wanted, meta()).await?;
    promise!(port.upload(image, broken(), meta()).await.is_err(), "half of the bytes are taken for all");
    promise!(port.find(image, &own, false).await.is_err(), "an image with half of its bytes is given out");
    port.upload(image, bytes("content"), meta()).await?;
    let content = read(port, &port.find(image, &own, false).await?).await?;
    promise!(content == b"content", "the image has other bytes: {content:?}");
    let unknown = port.upload(ImageId::random(), bytes("content"), meta()).await;
    promise!(
        matches!(unknown, Err(PortError::NotFound(_))),
        "bytes for an image that does not exist are not refused as missing: {unknown:?}"
    );
    Ok(())
}

async fn deletes(port: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let own = stage.project().await;
    let empty = draft(&own);
    let queued = empty.image;
    port.create(empty, meta()).await?;
    let image = made(port, draft(&own)).await?;
    let found = port.find(image, &own, false).await?;
    for id in [queued, image] {
        port.delete(id, meta()).await?;
        let gone = port.find(id, &own, true).await;
        promise!(matches!(gone, Err(PortError::NotFound(_))), "a deleted image is found: {gone:?}");
        let again = port.delete(id, meta()).await;
        promise!(matches!(again, Err(PortError::NotFound(_))), "a deleted image is deleted again: {again:?}");
    }
    promise!(read(port, &found).await.is_err(), "the bytes of a deleted image are given out");
    Ok(())
}

async fn tells_backups(port: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let (own, server) = (stage.project().await, InstanceId::random());
    let first = made(port, backup(&own, server, "daily")).await?;
    let second = made(port, backup(&own, server, "daily")).await?;
    made(port, backup(&own, server, "weekly")).await?;
    made(port, backup(&own, InstanceId::random(), "daily")).await?;
    made(port, draft(&own)).await?;
    port.create(backup(&own, server, "daily"), meta()).await?;
    let backups = port.backups(first, server, "daily").await?;
    promise!(backups == [second, first], "the list is not the two daily backups with bytes, newest first: {backups:?}");
    port.delete(second, meta()).await?;
    let backups = port.backups(first, server, "daily").await?;
    promise!(backups == [first], "the list is not the one daily backup that is left: {backups:?}");
    let nobody = port.backups(second, server, "daily").await?;
    promise!(nobody.is_empty(), "a deleted image finds backups: {nobody:?}");
    Ok(())
}

async fn believes_owners(port: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let (own, other, server) = (stage.project().await, stage.project().await, InstanceId::random());
    let mine = made(port, backup(&own, server, "daily")).await?;
    let theirs = made(port, backup(&other, server, "daily")).await?;
    let backups = port.backups(mine, server, "daily").await?;
    promise!(!backups.contains(&theirs), "an image of another project counts as a backup: {backups:?}");
    Ok(())
}
