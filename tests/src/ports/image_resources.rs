//! The promises that every implementation of [`ImageResources`] keeps.

use chronova_actors::ports::{ImageDraft, ImageListRequest, ImageResources, ImageService, PortError, PropertyChange};
use chronova_events::envelope::Meta;
use chronova_events::ids::ImageId;
use futures::FutureExt as _;

use super::images::{ImageCase, ImageStage, draft, made};
use super::promise;

/// The cases of the suite.
pub const CASES: &[(&str, ImageCase)] = &[
    ("shows_images_of_any_status_to_their_owner", |port, stage| shows(port, stage).boxed()),
    ("lists_images_newest_first", |port, stage| lists(port, stage).boxed()),
    ("changes_properties_for_the_owner_alone", |port, stage| changes(port, stage).boxed()),
    ("deletes_images_for_the_owner_alone", |port, stage| deletes(port, stage).boxed()),
];

fn resources(port: &dyn ImageService) -> anyhow::Result<&dyn ImageResources> {
    port.resources().ok_or_else(|| anyhow::anyhow!("the service offers no images of users"))
}

fn is_missing<T>(answer: &Result<T, PortError>) -> bool {
    matches!(answer, Err(PortError::NotFound(_)))
}

async fn shows(service: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let (port, own, other) = (resources(service)?, stage.project().await, stage.project().await);
    let wanted = draft(&own);
    service.create(wanted.clone(), Meta::system("conformance")).await?;
    let queued = port.show(wanted.image, &stage.user(&own).await).await?;
    promise!(
        (queued.status.as_str(), queued.size) == ("queued", None),
        "an image without bytes is not queued, or has a size: {queued:?}"
    );
    promise!(queued.name == Some(wanted.name.clone()), "the image has another name: {queued:?}");
    promise!(
        (queued.min_disk_gib, queued.min_memory_mib) == (3, 64),
        "the image has another minimum of disk or memory: {queued:?}"
    );
    promise!(wanted.properties.iter().all(|one| queued.properties.contains(one)), "properties are lost: {queued:?}");
    let active = port.show(made(service, draft(&own)).await?, &stage.user(&own).await).await?;
    promise!(
        (active.status.as_str(), active.size) == ("active", Some(7)),
        "an image of seven bytes is not active, or has another size: {active:?}"
    );
    let foreign = port.show(wanted.image, &stage.user(&other).await).await;
    promise!(is_missing(&foreign), "another project sees the image: {foreign:?}");
    Ok(())
}

async fn lists(service: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let (port, own, other) = (resources(service)?, stage.project().await, stage.project().await);
    let (first, second) = (made(service, draft(&own)).await?, made(service, draft(&own)).await?);
    made(service, draft(&other)).await?;
    let all = ImageListRequest::default();
    let listed: Vec<ImageId> = port.list(&all, &stage.user(&own).await).await?.iter().map(|image| image.id).collect();
    promise!(listed == [second, first], "the list is not the project's two images, newest first: {listed:?}");
    let nonsense = ImageListRequest { visibility: Some("nonsense".to_owned()), member_status: None };
    let refused = port.list(&nonsense, &stage.user(&own).await).await;
    promise!(
        matches!(refused, Err(PortError::Invalid(_))),
        "an unknown visibility is not refused as invalid: {refused:?}"
    );
    Ok(())
}

async fn changes(service: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let (port, own, other) = (resources(service)?, stage.project().await, stage.project().await);
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let properties = vec![pair("a", "1"), pair("b", "2")];
    let image = made(service, ImageDraft { properties, ..draft(&own) }).await?;
    let change = PropertyChange { remove: vec!["a".to_owned()], set: vec![pair("b", "3"), pair("c", "4")] };
    let foreign = port.change_properties(image, change.clone(), &stage.user(&other).await).await;
    promise!(is_missing(&foreign), "another project changes the image: {foreign:?}");
    port.change_properties(image, change, &stage.user(&own).await).await?;
    let now = port.show(image, &stage.user(&own).await).await?.properties;
    promise!(now.iter().all(|(key, _)| key != "a"), "a removed property is still there: {now:?}");
    promise!([pair("b", "3"), pair("c", "4")].iter().all(|one| now.contains(one)), "properties are lost: {now:?}");
    Ok(())
}

async fn deletes(service: &dyn ImageService, stage: &dyn ImageStage) -> anyhow::Result<()> {
    let (port, own, other) = (resources(service)?, stage.project().await, stage.project().await);
    let image = made(service, draft(&own)).await?;
    let foreign = port.delete(image, &stage.user(&other).await).await;
    promise!(is_missing(&foreign), "another project deletes the image: {foreign:?}");
    port.delete(image, &stage.user(&own).await).await?;
    let gone = port.show(image, &stage.user(&own).await).await;
    promise!(is_missing(&gone), "a deleted image is shown: {gone:?}");
    Ok(())
}
