//! Wherever the control plane crashes, either all servers of one request exist, or none. Their quota is correct without
//! the help of a reconciler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chronova_actors::instance::creation::{CreateReject, CreateServersRequest, GroupToJoin};
use chronova_actors::process::create_servers;
use chronova_actors::process::interference::{Interference, InterferenceVerdict, StepDirection};
use chronova_actors::quota::{DefaultLimits, QuotaReject};
use chronova_actors::server_group::{ServerGroupCommand, ServerGroupReject, ServerGroupRoot};
use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{InstanceId, ProjectId, ServerGroupId, UserId};
use chronova_events::server_group::{ServerGroupCreated, ServerGroupPolicy};
use chronova_events::store::EventStore;
use chronova_tests::creation::create_request;
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::{Life, World};
use futures::future::LocalBoxFuture;
use futures::{FutureExt, StreamExt, stream};
use uuid::Uuid;

use super::{Ask, case};

const HOSTS: usize = 2;
/// The number of worlds that run concurrently. The builds of an incomplete request wait for seconds, so one world after
/// the other would take too long.
const AT_ONCE: usize = 8;
const GROUP: ServerGroupId = ServerGroupId(Uuid::from_u128(0x6_0000));

/// A server group in the project of the requests.
fn grouped(life: &Life, _: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        let project = ProjectId::new("p");
        let group = ServerGroupCreated {
            group: GROUP,
            project: project.clone(),
            user: UserId::new("u"),
            name: "g".to_owned(),
            policy: ServerGroupPolicy::SoftAffinity,
            max_server_per_host: None,
        };
        let create = ServerGroupCommand::Create { group, limit: -1 };
        life.context().gateway.send::<ServerGroupRoot>(&project, create, Meta::system("test")).await.unwrap();
    }
    .boxed_local()
}

fn in_group(count: u32, limit: i64) -> CreateServersRequest {
    let group = Some(GroupToJoin { project: ProjectId::new("p"), group: GROUP, limit });
    CreateServersRequest { group, ..create_request(count) }
}

#[actix_rt::test]
async fn create_servers_is_proven() {
    let ask: Ask = |life, _| {
        async move { life.create(in_group(3, -1)).await.map(|_| ()).map_err(|error| error.to_string()) }.boxed_local()
    };
    prove(&Case {
        unrecorded: true,
        definition: &create_servers::DEFINITION,
        failed_after: &["DELETED"],
        half_asked: &["DELETED"],
        waits: true,
        ..case(grouped, ask, "ABSENT", "ACTIVE")
    })
    .await;
}

/// A world with registered hosts and a server group.
async fn furnished() -> World {
    let world = World::new(HOSTS);
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    grouped(&life, InstanceId(Uuid::nil())).await;
    life.settled().await;
    life.stop().await;
    world
}

/// Runs another life until no work is running. Then all servers of the request exist, or none. Returns their number.
async fn all_or_none(world: &World, count: usize, at: &str) -> usize {
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    assert!(life.settled().await);
    life.stop().await;
    world.check().await;
    assert_eq!(world.given_back_by_reconcilers().await, 0, "{at}: reconcilers gave back what the process took");
    let story = world.story().await;
    let active = story.iter().filter(|(_, status)| *status == "ACTIVE").count();
    let deleted = story.iter().filter(|(_, status)| *status == "DELETED").count();
    assert_eq!(active + deleted, story.len(), "{at}: {story:?}");
    assert!(active == 0 || (active == count && deleted == 0), "{at}: {active} of {count} servers, {deleted} deleted");
    let views = world.views().await;
    let members = views.server_groups.read(|groups| groups.get(GROUP).map_or(0, |group| group.members.len()));
    assert!(members == active || members == 0, "{at}: {members} members, {active} servers");
    active
}

/// The number of events of this kind in the log.
async fn count_of(world: &World, kind: &str) -> usize {
    let events = world.log.read_all(Position::START, usize::MAX).await.unwrap();
    events.iter().filter_map(|event| event.event().ok()).filter(|event| event.kind() == kind).count()
}

/// Pauses every build, so that all appends of a life belong to the creation.
struct NoBuilds;

impl Interference for NoBuilds {
    fn judge(&self, process: &'static str, _: &'static str, way: StepDirection) -> InterferenceVerdict {
        match (process, way) {
            ("build_instance", StepDirection::Run) => InterferenceVerdict::Hold,
            _ => InterferenceVerdict::Pass,
        }
    }
}

/// Crashes the control plane after this append, while it creates the servers.
async fn dies_creating(count: u32, fuse: u64) -> World {
    let world = furnished().await;
    let life = world.live(None, Some(Arc::new(NoBuilds))).await;
    life.hosts_up(HOSTS).await;
    life.store.arm(Some(fuse));
    let created = life.create(in_group(count, -1)).await;
    assert!(matches!(created, Err(CreateReject::Unavailable(_))), "at append {fuse}: {created:?}");
    life.stop().await;
    world
}

#[actix_rt::test]
async fn fifty_servers_are_all_there_or_none_after_a_crash() {
    const COUNT: u32 = 50;
    let proofs = stream::iter([1, 2, 3, 4, 20, 45, 50]).map(async |fuse| {
        let world = dies_creating(COUNT, fuse).await;
        assert_eq!(all_or_none(&world, COUNT as usize, &format!("append {fuse}")).await, 0);
        assert_eq!(count_of(&world, "quota.claimed").await, 1);
    });
    proofs.buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// The life that undoes the work of the first life also crashes, after every append.
#[actix_rt::test]
async fn a_crash_while_a_creation_is_undone_changes_nothing() {
    // The crash comes after an append in the midst of the creation.
    let first = 5;
    let world = dies_creating(4, first).await;
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    assert!(life.settled().await);
    let appends = life.store.appends();
    life.stop().await;
    assert!(appends > 10, "the second life has too little to undo");
    let proofs = stream::iter(1..=appends).map(async |fuse| {
        let world = dies_creating(4, first).await;
        let life = world.live(Some(fuse), None).await;
        life.hosts_up(HOSTS).await;
        life.settled().await;
        life.stop().await;
        assert_eq!(all_or_none(&world, 4, &format!("append {fuse} of the second life")).await, 0);
    });
    proofs.buffer_unordered(AT_ONCE).collect::<()>().await;
}

#[actix_rt::test]
async fn a_creation_that_succeeds_records_one_claim_and_its_servers() {
    let world = furnished().await;
    let before = world.log.head();
    let life = world.live(None, Some(Arc::new(NoBuilds))).await;
    life.hosts_up(HOSTS).await;
    let created = life.create(create_request(1)).await.unwrap();
    assert_eq!(created.len(), 1);
    life.stop().await;
    let events = world.log.read_all(before, usize::MAX).await.unwrap();
    let kinds: Vec<_> = events.iter().filter_map(|event| event.event().ok()).map(|event| event.kind()).collect();
    let ours: Vec<_> = kinds.iter().filter(|kind| !kind.starts_with("host.") && !kind.starts_with("ledger.")).collect();
    assert_eq!(ours[..2], [&"quota.claimed", &"instance.build_requested"], "{kinds:?}");
    assert!(ours[2..].iter().all(|kind| **kind == "process.started"), "more than the build began: {kinds:?}");
    assert!(ours.len() <= 3, "{kinds:?}");
}

#[actix_rt::test]
async fn a_group_without_room_gets_no_member_and_quota_is_given_back() {
    let world = furnished().await;
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    let refused = life.create(in_group(3, 2)).await;
    assert!(matches!(refused, Err(CreateReject::Group(ServerGroupReject::TooManyMembers(2)))), "{refused:?}");
    let held =
        life.context().views.quotas.read(|view| view.by_project.values().map(|quota| quota.held.len()).sum::<usize>());
    assert_eq!(held, 0, "quota is still held at the answer");
    life.stop().await;
    assert_eq!(all_or_none(&world, 3, "refused").await, 0);
    assert_eq!(world.story().await, []);
}

#[actix_rt::test]
async fn quota_bounds_a_request_before_anything_is_made() {
    const BILLION: u32 = 1_000_000_000;
    let world = furnished().await;
    let life = world.live(None, None).await;
    life.hosts_up(HOSTS).await;
    let limits = DefaultLimits { instances: 2, ..DefaultLimits::NONE };
    let request =
        CreateServersRequest { min_count: BILLION, max_count: BILLION, defaults: limits, ..create_request(1) };
    let refused = life.create(request.clone()).await;
    assert!(matches!(refused, Err(CreateReject::Quota(QuotaReject::Exceeded(_)))), "{refused:?}");
    assert_eq!(count_of(&world, "quota.claimed").await, 0);
    let created = life.create(CreateServersRequest { min_count: 1, ..request }).await.unwrap();
    assert_eq!(created.len(), 2);
    assert!(life.settled().await);
    life.stop().await;
    world.check().await;
}

/// Pauses the creation until the test releases it.
struct HeldCreation(AtomicBool);

impl Interference for HeldCreation {
    fn judge(&self, process: &'static str, step: &'static str, _: StepDirection) -> InterferenceVerdict {
        match (process, step) == ("create_servers", "record_servers") && self.0.load(Ordering::SeqCst) {
            true => InterferenceVerdict::Hold,
            false => InterferenceVerdict::Pass,
        }
    }
}

#[actix_rt::test]
async fn a_client_that_goes_away_changes_nothing() {
    let world = furnished().await;
    let held = Arc::new(HeldCreation(AtomicBool::new(true)));
    let life = world.live(None, Some(Arc::clone(&held) as Arc<dyn Interference>)).await;
    life.hosts_up(HOSTS).await;
    let gone = tokio::time::timeout(Duration::from_millis(20), life.create(create_request(3))).await;
    assert!(gone.is_err(), "the client waited for its answer");
    held.0.store(false, Ordering::SeqCst);
    life.until(|context| context.views.servers.read(|servers| servers.all().count()) == 3).await;
    assert!(life.settled().await);
    life.stop().await;
    assert_eq!(all_or_none(&world, 3, "nobody waited").await, 3);
}

/// A broken process: the request fails and releases nothing. The harness must detect it.
struct Forgetful;

impl Interference for Forgetful {
    fn judge(&self, process: &'static str, step: &'static str, way: StepDirection) -> InterferenceVerdict {
        match (process, step, way) {
            ("create_servers", "record_servers", StepDirection::Run) => InterferenceVerdict::FailBefore,
            ("create_servers", "hold_quota", StepDirection::Undo) => InterferenceVerdict::Skip,
            _ => InterferenceVerdict::Pass,
        }
    }
}

#[actix_rt::test]
async fn quota_that_the_process_forgets_is_seen_to_be_given_back_by_a_reconciler() {
    let world = furnished().await;
    let life = world.live(None, Some(Arc::new(Forgetful))).await;
    life.hosts_up(HOSTS).await;
    assert!(life.create(create_request(3)).await.is_err());
    assert!(life.settled().await);
    life.stop().await;
    assert_eq!(world.given_back_by_reconcilers().await, 3, "the checks do not see the lost claims");
}
