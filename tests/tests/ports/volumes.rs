//! The suite of volumes on the embedded volume service, on real Cinder, and on a service that breaks a promise.

use std::sync::Arc;

use chronova_actors::ports::VolumeService;
use chronova_tests::ports::broken_volumes::{BrokenVolumes, VolumeFault};
use chronova_tests::ports::embedded_volumes::EmbeddedVolumeStage;
use chronova_tests::ports::real_cinder::RealCinder;
use chronova_tests::ports::volumes::{CASES, VolumeCase};

fn case(named: &str) -> VolumeCase {
    CASES.iter().find(|(name, _)| *name == named).unwrap_or_else(|| panic!("no case is called {named}")).1
}

#[actix_rt::test]
async fn the_embedded_volume_service_keeps_every_promise() {
    for (name, case) in CASES {
        let stage = EmbeddedVolumeStage::new().await;
        if let Err(broken) = case(stage.volumes.as_ref(), &stage).await {
            panic!("{name}: {broken:#}");
        }
        stage.stop().await;
    }
}

#[actix_rt::test]
async fn real_cinder_keeps_every_promise() {
    let Some(stage) = RealCinder::start().unwrap() else {
        eprintln!("skipped: Cinder is not installed (setup_packages cinder)");
        return;
    };
    for (name, case) in CASES {
        if let Err(broken) = case(stage.volumes.as_ref(), &stage).await {
            panic!("{name}: {broken:#}");
        }
    }
}

#[actix_rt::test]
async fn a_volume_service_that_breaks_a_promise_fails_its_case() {
    let faults = [
        (VolumeFault::MakesAgain, "makes_a_volume_once"),
        (VolumeFault::ShowsAll, "shows_a_volume_to_its_project_alone"),
        (VolumeFault::DeletesOnce, "accepts_a_second_delete_of_a_volume"),
        (VolumeFault::CompletesNothing, "attaches_step_by_step"),
        (VolumeFault::ConnectsAgain, "repeats_each_step_of_an_attachment"),
        (VolumeFault::ReservesForAll, "gives_a_volume_to_one_server_at_a_time"),
        (VolumeFault::ReleasesNothing, "releases_an_attachment_that_was_not_completed"),
        (VolumeFault::ReleasesAll, "ends_the_other_attachments_of_one_server"),
        (VolumeFault::DetachesFree, "detaches_only_used_volumes_and_deletes_only_free_ones"),
        (VolumeFault::CopiesAnything, "copies_snapshots"),
        (VolumeFault::MakesOfAnything, "makes_volumes_of_snapshots"),
        (VolumeFault::SweepsAll, "leaves_what_lives_on_a_swept_host"),
    ];
    for (fault, named) in faults {
        let stage = EmbeddedVolumeStage::new().await;
        let volumes = Arc::clone(&stage.volumes) as Arc<dyn VolumeService>;
        let judged = case(named)(&BrokenVolumes { volumes, fault }, &stage).await;
        assert!(judged.is_err(), "{fault:?} passes {named}");
        stage.stop().await;
    }
}
