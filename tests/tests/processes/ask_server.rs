//! Requests that claim quota or create an image before they reach their server. Wherever the control plane crashes, the
//! claim or the image belongs to the server's own process, or nothing is left of it. No reconciler has to give anything
//! back.

use std::sync::Arc;

use chronova_actors::process::ask_server;
use chronova_actors::process::interference::{Interference, InterferenceVerdict, StepDirection};
use chronova_actors::quota::DefaultLimits;
use chronova_events::ids::InstanceId;
use chronova_events::instance::FlavorSnapshot;
use chronova_events::store::EventStore as _;
use chronova_tests::moves::larger;
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::{Life, World};
use futures::FutureExt;

use super::moves::resized_down;
use super::{Ask, built, case, soft_deleted, stopped};

const HOSTS: usize = 2;

/// Turns `case` into the case of a request that waits for its process.
fn asking(case: &Case) -> Case {
    Case { definition: &ask_server::DEFINITION, waits: true, unrecorded: true, ..*case }
}

#[actix_rt::test]
async fn a_request_for_another_flavor_is_proven() {
    let ask: Ask = |life, id| life.resize(id).boxed_local();
    let case = Case { failed_after: &["VERIFY_RESIZE"], ..case(stopped, ask, "SHUTOFF", "VERIFY_RESIZE") };
    prove(&asking(&case)).await;
}

#[actix_rt::test]
async fn a_request_for_the_larger_flavor_of_before_is_proven() {
    let ask: Ask = |life, id| life.revert_resize(id).boxed_local();
    let case = Case { failed_after: &["ACTIVE"], ..case(resized_down, ask, "VERIFY_RESIZE", "ACTIVE") };
    prove(&asking(&case)).await;
}

#[actix_rt::test]
async fn a_request_for_a_deleted_server_is_proven() {
    let ask: Ask = |life, id| life.restore(id).boxed_local();
    let case = Case { failed_after: &["ACTIVE"], ..case(soft_deleted, ask, "SOFT_DELETED", "ACTIVE") };
    prove(&asking(&case)).await;
}

#[actix_rt::test]
async fn a_request_for_an_image_is_proven() {
    let ask: Ask = |life, id| async move { life.snapshot(id, None).await.map(drop) }.boxed_local();
    prove(&asking(&case(built, ask, "ACTIVE", "ACTIVE"))).await;
}

#[actix_rt::test]
async fn a_request_for_shelving_is_proven() {
    let ask: Ask = |life, id| life.shelve(id).boxed_local();
    let case = Case { failed_after: &["SHELVED"], ..case(built, ask, "ACTIVE", "SHELVED") };
    prove(&asking(&case)).await;
}

/// A world with a server that runs.
async fn with_a_server() -> (World, InstanceId) {
    let (world, id) = (World::new(HOSTS), InstanceId::random());
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    built(&life, id).await;
    life.stop().await;
    (world, id)
}

/// The cores and MiB that all projects use.
pub(super) fn held(life: &Life) -> (u64, u64) {
    let sum = |one: (u64, u64), other: (u64, u64)| (one.0 + other.0, one.1 + other.1);
    let views = &life.context().views;
    views.quotas.read(|view| view.by_project.values().map(|quota| (quota.cores, quota.memory_mib)).fold((0, 0), sum))
}

/// Both requests claim quota before the server refuses one of them. The refused request gives back its own claim before
/// its answer, and does not touch the other claim.
#[actix_rt::test]
async fn one_of_two_concurrent_resizes_is_refused_and_its_quota_released() {
    let (world, id) = with_a_server().await;
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    let largest = FlavorSnapshot { vcpus: 4, ..larger() };
    let (large, largest) = futures::join!(life.resize_to(id, larger()), life.resize_to(id, largest));
    let cores = match (large.is_ok(), largest.is_ok()) {
        (true, false) => 2,
        (false, true) => 4,
        neither => panic!("{neither:?}: {large:?}, {largest:?}"),
    };
    life.until(|context| context.views.position() >= life.store.head()).await;
    assert_eq!(held(&life), (cores, 256));
    assert!(life.settled().await);
    life.stop().await;
    assert_eq!(world.given_back_by_reconcilers().await, 0);
    world.check().await;
}

#[actix_rt::test]
async fn a_request_beyond_the_quota_does_not_reach_the_server() {
    let (world, id) = with_a_server().await;
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    let before = held(&life);
    let limits = DefaultLimits { cores: 1, ..DefaultLimits::NONE };
    let refused = life.resize_within(id, larger(), limits).await.unwrap_err();
    assert_eq!(refused, "quota exceeded");
    assert_eq!(held(&life), before);
    assert!(life.settled().await);
    assert_eq!(life.status(id), "ACTIVE");
    life.stop().await;
    world.check().await;
}

/// The server has moved to a smaller flavor. Its revert needs quota for the larger one. Without enough quota, the
/// revert changes nothing.
#[actix_rt::test]
async fn a_revert_beyond_the_quota_does_not_reach_the_server() {
    let (world, id) = (World::new(HOSTS), InstanceId::random());
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    resized_down(&life, id).await;
    let before = held(&life);
    let limits = |cores| DefaultLimits { cores, ..DefaultLimits::NONE };
    assert_eq!(life.revert_within(id, limits(1)).await.unwrap_err(), "quota exceeded");
    assert!(life.settled().await);
    assert_eq!((life.status(id), held(&life)), ("VERIFY_RESIZE", before));
    life.revert_within(id, limits(2)).await.unwrap();
    assert!(life.settled().await);
    assert_eq!((life.status(id), held(&life)), ("ACTIVE", (2, 256)));
    life.stop().await;
    assert_eq!(world.given_back_by_reconcilers().await, 0);
    world.check().await;
}

/// A confirmation and a revert race. The request that the server refuses does not change the quota.
#[actix_rt::test]
async fn a_confirmation_and_a_revert_leave_the_quota_of_the_winner() {
    let (world, id) = (World::new(HOSTS), InstanceId::random());
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    resized_down(&life, id).await;
    let (confirmed, reverted) = futures::join!(life.confirm_resize(id), life.revert_resize(id));
    let expected = match (confirmed.is_ok(), reverted.is_ok()) {
        (true, false) => (1, 64),
        (false, true) => (2, 256),
        neither => panic!("{neither:?}: {confirmed:?}, {reverted:?}"),
    };
    assert!(life.settled().await);
    assert_eq!((life.status(id), held(&life)), ("ACTIVE", expected));
    life.stop().await;
    assert_eq!(world.given_back_by_reconcilers().await, 0);
    world.check().await;
}

/// A broken process: the request fails and gives nothing back. The harness must detect that.
struct Forgetful;

impl Interference for Forgetful {
    fn judge(&self, process: &'static str, step: &'static str, way: StepDirection) -> InterferenceVerdict {
        match (process, step, way) {
            ("ask_server", "ask", StepDirection::Run) => InterferenceVerdict::FailBefore,
            ("ask_server", "take", StepDirection::Undo) => InterferenceVerdict::Skip,
            _ => InterferenceVerdict::Pass,
        }
    }
}

#[actix_rt::test]
async fn the_checks_detect_a_process_that_undoes_nothing() {
    let (world, id) = with_a_server().await;
    let life = world.live(None, Some(Arc::new(Forgetful))).await;
    life.hosts_up(HOSTS).await;
    assert!(life.resize(id).await.is_err());
    assert!(life.snapshot(id, None).await.is_err());
    assert!(life.settled().await);
    life.stop().await;
    assert_eq!(world.given_back_by_reconcilers().await, 1, "the checks do not see the lost claim");
    assert_eq!(world.images.unfinished().len(), 1, "the checks do not see the lost image");
}
