//! The suite of images on the embedded image service, on real Glance, and on a service that breaks a promise.

use std::sync::Arc;
use std::time::Duration;

use chronova_actors::ports::{ImageDraft, ImageService, PortError};
use chronova_actors::services::external::keystone::KeptUserToken;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, ProjectId, RequestId};
use chronova_tests::ports::broken_images::{BrokenImages, ImageFault};
use chronova_tests::ports::embedded_images::EmbeddedImageStage;
use chronova_tests::ports::image_resources;
use chronova_tests::ports::images::{self, CASES, ImageCase, ImageStage as _};
use chronova_tests::ports::real_glance::RealGlance;

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

/// The log has the start of an upload, but its reply is lost. The process repeats the step.
#[actix_rt::test]
async fn an_upload_whose_start_has_no_answer_is_repeated() {
    let stage = EmbeddedImageStage::new().await;
    let image = ImageId::random();
    let draft = ImageDraft {
        image,
        name: "snapshot".to_owned(),
        owner: ProjectId::new("p"),
        format: "raw".to_owned(),
        min_disk_gib: 0,
        min_memory_mib: 0,
        properties: Vec::new(),
    };
    stage.images.create(draft, Meta::system("test")).await.unwrap();
    let upload = async || {
        let bytes = futures::stream::iter([Ok(bytes::Bytes::from_static(b"content"))]);
        stage.images.upload(image, Box::pin(bytes), Meta::system("test")).await
    };
    stage.log.lose_reply("image");
    assert!(matches!(upload().await, Err(PortError::Unavailable(_))));
    stage.log.answer_again();
    let repeated = async {
        loop {
            match upload().await {
                Err(PortError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(1)).await,
                ended => return ended,
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), repeated).await.unwrap().unwrap();
    // A further repetition finds the stored image.
    upload().await.unwrap();
    stage.stop().await;
}

#[actix_rt::test]
async fn real_glance_keeps_every_promise() {
    let Some(stage) = RealGlance::start().unwrap() else {
        eprintln!("skipped: Glance is not installed (setup_packages openstack)");
        return;
    };
    for (name, case) in all() {
        if let Err(broken) = case(stage.images.as_ref(), &stage).await {
            panic!("{name}: {broken:#}");
        }
    }
    takes_an_expired_token_that_is_vouched_for(&stage).await;
}

/// Creates, uploads and deletes an image for a user whose token has expired meanwhile. Uses the Glance of the suite,
/// because a start takes half a minute.
async fn takes_an_expired_token_that_is_vouched_for(stage: &RealGlance) {
    let project = stage.project().await;
    let request = RequestId::new("req-expired");
    let token = stage.expired(&project).await.unwrap();
    stage.tokens.keep(&request, KeptUserToken { token, project: Some(project.clone()) }, std::time::Instant::now());
    let meta = Arc::new(Meta { request_id: Some(request), ..(*Meta::system("test")).clone() });
    let work = async |images: &dyn ImageService| {
        let wanted = images::draft(&project);
        let image = wanted.image;
        images.create(wanted, Arc::clone(&meta)).await?;
        images.upload(image, images::bytes("content"), Arc::clone(&meta)).await?;
        images.delete(image, Arc::clone(&meta)).await
    };
    assert_eq!(work(stage.images.as_ref()).await, Ok(()));
    let alone = stage.client_that_vouches_for_nobody().unwrap();
    let refused = work(alone.as_ref()).await;
    assert!(
        matches!(&refused, Err(PortError::Forbidden(words)) if words.contains("send_service_user_token")),
        "{refused:?}"
    );
}

#[actix_rt::test]
async fn an_image_service_that_breaks_a_promise_fails_its_case() {
    let faults = [
        (ImageFault::ShowsAll, "shows_an_image_to_its_owner_alone"),
        (ImageFault::ShowsAll, "shows_an_image_as_its_user_sees_it"),
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
