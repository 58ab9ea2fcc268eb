//! The suite of images on the embedded image service, and on one that breaks a promise.

use std::sync::Arc;

use chronova_actors::ports::ImageService;
use chronova_tests::ports::broken_images::{BrokenImages, ImageFault};
use chronova_tests::ports::embedded_images::EmbeddedImageStage;
use chronova_tests::ports::image_resources;
use chronova_tests::ports::images::{CASES, ImageCase};

fn all() -> impl Iterator<Item = &'static (&'static str, ImageCase)> {
    CASES.iter().chain(image_resources::CASES)
}

fn case(named: &str) -> ImageCase {
    all().find(|(name, _)| *name == named).unwrap_or_else(|| panic!("no case is called {named}")).1
}

#[actix_rt::test]
async fn the_embedded_image_service_keeps_every_promise() {
    for (name, case) in all() {
        let stage = EmbeddedImageStage::new().await;
        if let Err(broken) = case(stage.images.as_ref(), &stage).await {
            panic!("{name}: {broken:#}");
        }
        stage.stop().await;
    }
}

#[actix_rt::test]
async fn an_image_service_that_breaks_a_promise_fails_its_case() {
    let faults = [
        (ImageFault::ShowsAll, "shows_an_image_to_its_owner_alone"),
        (ImageFault::ShowsEmpty, "gives_out_no_image_without_bytes"),
        (ImageFault::ReadsStale, "keeps_the_bytes_of_an_image"),
        (ImageFault::UploadsOnlyOnce, "reads_nothing_for_an_image_that_has_its_bytes"),
        (ImageFault::TakesHalf, "takes_another_upload_after_a_broken_one"),
        (ImageFault::DeletesNothing, "forgets_deleted_images"),
        (ImageFault::TurnsBackups, "tells_backups_newest_first"),
        (ImageFault::BelievesAll, "believes_no_backup_of_another_owner"),
        (ImageFault::ShowsAllUsers, "shows_images_of_any_status_to_their_owner"),
        (ImageFault::ListsOldestFirst, "lists_images_newest_first"),
        (ImageFault::RemovesNoProperty, "changes_properties_for_the_owner_alone"),
        (ImageFault::DeletesForAll, "deletes_images_for_the_owner_alone"),
    ];
    for (fault, named) in faults {
        let stage = EmbeddedImageStage::new().await;
        let broken = BrokenImages::new(Arc::clone(&stage.images) as Arc<dyn ImageService>, fault);
        let judged = case(named)(&broken, &stage).await;
        assert!(judged.is_err(), "{fault:?} passes {named}");
        stage.stop().await;
    }
}
