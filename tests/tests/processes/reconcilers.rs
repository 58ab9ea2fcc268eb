//! Reconcilers: when they run, their repairs, and their metrics.

use std::time::Duration;

use chronova_actors::ports::NewContent;
use chronova_actors::reconcile::run_counts::TallyReading;
use chronova_actors::services::embedded::volume::quota::{VolumeLimits, VolumeQuotaCommand, VolumeQuotaRoot};
use chronova_events::envelope::{Meta, NewEvent, StreamId};
use chronova_events::ids::{InstanceId, ProcessId, ProjectId, VolumeId};
use chronova_events::instance::{Adopted, AdoptedState, BuildRequested, InstanceEvent, Placed, Power, samples};
use chronova_events::quota::{QuotaEvent, QuotaReserved};
use chronova_events::registry::NounEvent as _;
use chronova_events::store::{EventStore as _, Expected};
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::process_harness::swept;
use chronova_tests::world::{Life, World};
use uuid::Uuid;

/// A server that is never requested.
const NEVER_BUILT: InstanceId = InstanceId(Uuid::from_u128(0xFADE));

/// Reserves quota and never releases it. An older version did so when it crashed.
async fn reserve(life: &Life) {
    let project = ProjectId::new("acme");
    let stream = StreamId::new("quota", &project);
    let reserved = QuotaReserved { project, instances: vec![NEVER_BUILT], cores: 1, memory_mib: 512 };
    let event = NewEvent::new(QuotaEvent::from(reserved), life.context().clock.now(), &Meta::system("test"));
    life.store.append(&stream, Expected::Any, vec![event]).await.unwrap();
}

async fn until_nothing_is_reserved(life: &Life) {
    life.until(|context| {
        let caught_up = context.views.position() >= life.store.head();
        caught_up && context.views.quotas.read(|view| view.by_project.values().all(|quota| quota.held.is_empty()))
    })
    .await;
}

fn tally(life: &Life, name: &str) -> TallyReading {
    life.leader.reconcilers().iter().find(|tally| tally.name == name).unwrap().read()
}

#[actix_rt::test]
async fn leaked_quota_is_released_after_two_periodic_runs() {
    let world = World::new(1);
    let life = world.live(None, None).await;
    let before = tally(&life, "quota-leaks");
    reserve(&life).await;
    until_nothing_is_reserved(&life).await;
    let after = tally(&life, "quota-leaks");
    assert!(after.runs > before.runs, "the first run already repaired: {before:?}, {after:?}");
    assert_eq!(after.failures, 0);
    life.stop().await;
}

#[actix_rt::test]
async fn leaked_quota_is_released_at_start_before_the_first_request() {
    let mut world = World::new(1);
    world.options.reconcile.period = Duration::from_hours(1);
    let life = world.live(None, None).await;
    reserve(&life).await;
    life.stop().await;
    let life = world.live(None, None).await;
    let at_start = tally(&life, "quota-leaks");
    assert_eq!((at_start.runs, at_start.failures, at_start.last_run.is_some()), (1, 0, true));
    until_nothing_is_reserved(&life).await;
    assert_eq!(tally(&life, "quota-leaks").runs, 1);
    assert_eq!(tally(&life, "unconfirmed-moves").runs, 0, "a reconciler without AT_START ran before its period");
    life.stop().await;
}

/// A crash, or a client that disconnects, may end a request between the quota and the volume.
#[actix_rt::test]
async fn quota_for_an_extension_that_never_began_is_released() {
    let world = World::new(1);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let (project, volume) = (ProjectId::new("p"), VolumeId(Uuid::from_u128(0xF00D)));
    life.volume(volume, NewContent::Blank).await.unwrap();
    life.settled().await;
    let defaults = VolumeLimits::default();
    let take = VolumeQuotaCommand::TakeVolume { project: project.clone(), volume, size_gb: 7, defaults };
    let taken = life.context().gateway.send::<VolumeQuotaRoot>(&project, take, Meta::system("test")).await.unwrap();
    let held = || life.context().views.volumes.read(|view| view.quotas[&project].volumes[&volume]);
    life.until(|context| context.views.position() >= taken.position && held() == 1).await;
    assert_eq!(tally(&life, "volume-quota").failures, 0);
    life.stop().await;
    world.check().await;
}

/// Another control plane built the server, and recorded no machine type.
#[actix_rt::test]
async fn a_server_without_a_machine_type_gets_one_when_the_service_starts() {
    let world = World::new(1);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let (id, process, host) = (InstanceId::random(), ProcessId::random(), world.fleet.uri().host_id(0));
    let sample = |kind: &str| samples().into_iter().find(|event| event.kind() == kind).unwrap();
    let InstanceEvent::BuildRequested(mut asked) = sample("instance.build_requested") else { panic!() };
    (asked.instance, asked.process, asked.image) = (id, process, None);
    let (away, its_build) = (InstanceId::random(), ProcessId::random());
    let of_other = BuildRequested { instance: away, process: its_build, number: asked.number + 1, ..asked.clone() };
    let hostname = world.fleet.hostname(0);
    let placed = Placed { process, host, hostname, attempt: 1, availability_zone: "nova".into() };
    let now = life.context().clock.now();
    let adopted = Adopted {
        build: process,
        state: AdoptedState::Active,
        power: Power::Running,
        launched_at: Some(now),
        fault: None,
        shelved: None,
        rescue: None,
        moving: None,
        actions: vec![],
    };
    // A shelved server that is on no host gets no machine type by itself.
    let (state, power) = (AdoptedState::Offloaded, Power::Shutdown);
    let offloaded = Adopted { build: its_build, state, power, ..adopted.clone() };
    let found = [asked.into(), placed.into(), InstanceEvent::from(adopted)];
    for (server, events) in [(id, Vec::from(found)), (away, vec![of_other.into(), InstanceEvent::from(offloaded)])] {
        let news = events.into_iter().map(|event| NewEvent::new(event, now, &Meta::system("test"))).collect();
        life.store.append(&StreamId::new("instance", server), Expected::Any, news).await.unwrap();
    }
    life.stop().await;
    let life = world.live(None, None).await;
    let recorded = || life.instance_now(id).alive().and_then(|server| server.machine_type.clone());
    life.until(|_| recorded().is_some()).await;
    assert_eq!(recorded().as_deref(), Some("pc"));
    let shelved = life.instance_now(away);
    let shelved = shelved.alive().unwrap();
    assert!(shelved.is_offloaded() && shelved.machine_type.is_none(), "{:?}", shelved.machine_type);
    assert_eq!(tally(&life, "machine-types").failures, 0);
    life.stop().await;
}

#[actix_rt::test]
async fn a_failed_repair_is_counted_as_a_failure() {
    let mut world = World::new(1);
    world.options.image_cache = swept(Duration::ZERO);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let seen = tally(&life, "image-cache").runs;
    life.until(|_| tally(&life, "image-cache").runs > seen + 1).await;
    assert_eq!(tally(&life, "image-cache").failures, 0);
    world
        .fleet
        .set_faults(0, FaultPlan::default().with(DriverCall::CachedImages, FaultTrigger::Always, Effect::Refuse));
    life.until(|_| tally(&life, "image-cache").failures > 1).await;
    life.stop().await;
}
