//! Live migrations with interference: aborts, deletes, failures of hosts and control planes, guests that stop.

use std::time::Duration;

use chronova_actors::instance::InstanceRequest;
use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::{Alive, DeclaredState, LiveStage};
use chronova_events::store::EventStore as _;
use chronova_hypervisor::guest::PowerState;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_projections::migrations::MigrationStatus;
use chronova_tests::world::{Life, World};

mod dead_hosts;

struct Scene {
    world: World,
    life: Life,
    id: InstanceId,
}

impl Scene {
    /// Lets these hosts fail after the guest has moved, but before the control plane has recorded the move.
    async fn lose_after_the_switch_over(&self, hosts: &[usize]) {
        self.world.brakes.hold("migration_state");
        self.world.brakes.reached("migration_state").await;
        self.world.fleet.hold_travellers(false);
        assert!(self.world.fleet.migrating_guests().is_empty());
        for host in hosts {
            self.world.fleet.kill_host(*host);
        }
        self.world.brakes.release("migration_state");
    }

    async fn of(world: World) -> Self {
        let hosts = world.fleet.len();
        let life = world.live(None, None).await;
        life.hosts_up(hosts).await;
        let id = InstanceId::random();
        life.build(id).await.unwrap();
        life.settled().await;
        Self { world, life, id }
    }

    /// A server on one of two hosts, with a running migration that the test lets complete.
    async fn on_the_way() -> Self {
        Self::sent(World::new(2)).await
    }

    async fn sent(world: World) -> Self {
        let scene = Self::of(world).await;
        scene.world.fleet.hold_travellers(true);
        scene.life.live_migrate(scene.id).await.unwrap();
        scene.until(LiveStage::Running).await;
        scene
    }

    fn server(&self) -> Alive {
        self.life.instance_now(self.id).alive().unwrap().clone()
    }

    async fn until(&self, stage: LiveStage) {
        let id = self.id;
        self.life
            .until(|context| {
                context.views.servers.read(|servers| {
                    let row = servers.get(id).unwrap();
                    let moving = row.instance.alive().and_then(|server| server.moving.clone());
                    moving.and_then(|moving| moving.live).is_some_and(|live| live.stage == stage)
                })
            })
            .await;
        if stage == LiveStage::Running {
            while self.world.fleet.migrating_guests().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    /// The fleet's number of a host.
    fn index(&self, host: HostId) -> usize {
        (0..self.world.fleet.len()).find(|index| self.world.fleet.uri().host_id(*index) == host).unwrap()
    }

    fn ends(&self) -> (usize, usize) {
        let moving = self.server().moving.unwrap();
        (self.index(moving.source.host), self.index(moving.target.unwrap().host))
    }

    fn home(&self) -> usize {
        self.index(self.server().placement.unwrap().host)
    }

    async fn arrives(&self) {
        self.world.fleet.hold_travellers(false);
        self.life.settled().await;
    }

    async fn status(&self) -> MigrationStatus {
        self.world.views().await.migrations.read(|view| view.all().next().unwrap().status)
    }

    /// The number of starts of the guest on a host; `None` without a guest.
    fn boots(&self, host: usize) -> Option<u32> {
        self.world.fleet.guests(host).get(&self.id).map(|guest| guest.boots)
    }

    async fn end(self) {
        self.life.stop().await;
        self.world.check().await;
    }

    async fn count(&self, kind: &str) -> usize {
        let events = self.world.log.read_all(chronova_events::envelope::Position::START, usize::MAX).await.unwrap();
        events.iter().filter(|event| &*event.kind == kind).count()
    }
}

#[actix_rt::test]
async fn the_guest_that_arrives_is_the_one_that_left() {
    let scene = Scene::of(World::new(2)).await;
    let home = scene.home();
    scene.life.live_migrate(scene.id).await.unwrap();
    scene.life.settled().await;
    assert_ne!(scene.home(), home);
    assert_eq!((scene.boots(home), scene.boots(scene.home())), (None, Some(1)), "the guest was started again");
    assert_eq!(scene.status().await, MigrationStatus::Completed);
    // Then it migrates back.
    scene.life.live_migrate(scene.id).await.unwrap();
    scene.life.settled().await;
    assert_eq!((scene.home(), scene.boots(home)), (home, Some(1)));
    scene.end().await;
}

#[actix_rt::test]
async fn progress_leaves_few_events() {
    let scene = Scene::of(World::new(2)).await;
    scene.world.fleet.set_travel(Duration::from_millis(2_500));
    scene.life.live_migrate(scene.id).await.unwrap();
    scene.until(LiveStage::Running).await;
    scene.life.settled().await;
    let recorded = scene.count("instance.live_move_progressed").await;
    assert!((1..=3).contains(&recorded), "{recorded}");
    scene.end().await;
}

#[actix_rt::test]
async fn an_abort_leaves_everything_as_it_was() {
    let scene = Scene::on_the_way().await;
    let (source, target) = scene.ends();
    assert!(scene.life.live_migrate(scene.id).await.is_err(), "a second live migration was accepted");
    scene.life.abort_live(scene.id).await.unwrap();
    scene.life.settled().await;
    assert_eq!((scene.boots(source), scene.boots(target)), (Some(1), None));
    assert_eq!(scene.status().await, MigrationStatus::Cancelled);
    assert_eq!(scene.server().fault, None);
    scene.world.fleet.hold_travellers(false);
    scene.life.live_migrate(scene.id).await.unwrap();
    scene.life.settled().await;
    assert_eq!(scene.home(), target);
    scene.end().await;
}

#[actix_rt::test]
async fn live_migrations_beyond_the_limit_wait_and_can_be_aborted() {
    let scene = Scene::on_the_way().await;
    let (source, _) = scene.ends();
    // Builds servers until one is on the same host, because the scheduler prefers the emptier host.
    let mut other = InstanceId::random();
    loop {
        scene.life.build(other).await.unwrap();
        scene.life.until(|context| context.views.processes.read(|view| view.pending().count()) == 1).await;
        if scene.world.fleet.guests(source).contains_key(&other) {
            break;
        }
        other = InstanceId::random();
    }
    scene.life.live_migrate(other).await.unwrap();
    let waits = Scene { id: other, ..scene };
    waits.until(LiveStage::Queued).await;
    assert_eq!(waits.world.fleet.migrating_guests().len(), 1);
    waits.life.abort_live(other).await.unwrap();
    waits.life.until(|context| context.views.processes.read(|view| view.pending().count()) == 1).await;
    assert_eq!(waits.status().await, MigrationStatus::Cancelled);
    // A repeated request succeeds once the first migration has ended.
    waits.life.live_migrate(other).await.unwrap();
    waits.until(LiveStage::Queued).await;
    waits.arrives().await;
    assert_ne!(waits.home(), source);
    waits.end().await;
}

#[actix_rt::test]
async fn a_held_live_migration_is_forced_to_complete() {
    let scene = Scene::on_the_way().await;
    let (_, target) = scene.ends();
    scene.life.force_live(scene.id).await.unwrap();
    scene.life.settled().await;
    assert_eq!((scene.home(), scene.boots(target)), (target, Some(1)));
    assert_eq!(scene.world.fleet.guests(target)[&scene.id].power, PowerState::Running);
    scene.end().await;
}

/// In post-copy the guest runs at its destination before its migration has ended.
#[actix_rt::test]
async fn traffic_follows_a_guest_in_post_copy() {
    let mut world = World::new(2);
    world.options.live.permit_post_copy = true;
    world.fleet.hold_post_copy(true);
    let scene = Scene::sent(world).await;
    let (id, network) = (scene.id, &scene.world.network);
    let (source, target) = scene.ends();
    let [source, target] = [source, target].map(|host| scene.world.fleet.hostname(host));
    assert_eq!((network.host_of(id), network.other_bindings()), (Some(source.clone()), vec![(id, target.clone())]));
    scene.life.force_live(id).await.unwrap();
    while network.host_of(id).as_ref() != Some(&target) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(scene.world.fleet.migrating_guests(), [id], "the migration ended before the test let it");
    assert_eq!(network.other_bindings(), [(id, source)]);
    scene.world.fleet.hold_post_copy(false);
    scene.arrives().await;
    assert_eq!(scene.world.network.host_of(id), Some(target));
    scene.end().await;
}

#[actix_rt::test]
async fn the_time_of_a_live_migration_is_bounded() {
    for forces in [false, true] {
        let mut world = World::new(2);
        (world.options.live.completion_timeout, world.options.live.force_at_timeout) = (1, forces);
        world.fleet.share_storage(true);
        let scene = Scene::of(world).await;
        let home = scene.home();
        scene.world.fleet.hold_travellers(true);
        scene.life.live_migrate(scene.id).await.unwrap();
        scene.life.settled().await;
        let expected = if forces { MigrationStatus::Completed } else { MigrationStatus::Cancelled };
        assert_eq!(scene.status().await, expected);
        assert_eq!(scene.home() == home, !forces);
        scene.end().await;
    }
}

/// SIGHUP sets a timeout for a migration that began without one.
#[actix_rt::test]
async fn a_migration_under_way_follows_a_changed_timeout() {
    let mut world = World::new(2);
    world.options.live.completion_timeout = 0;
    world.fleet.share_storage(true);
    let scene = Scene::of(world).await;
    let home = scene.home();
    scene.world.fleet.hold_travellers(true);
    scene.life.live_migrate(scene.id).await.unwrap();
    scene.life.until(|_| scene.world.fleet.migrating_guests() == [scene.id]).await;
    scene.life.context().completion_timeout.set(1);
    scene.life.settled().await;
    assert_eq!((scene.status().await, scene.home()), (MigrationStatus::Cancelled, home));
    scene.end().await;
}

#[actix_rt::test]
async fn a_delete_ends_a_live_migration() {
    let scene = Scene::on_the_way().await;
    scene.life.delete(scene.id).await.unwrap();
    scene.life.settled().await;
    assert!(scene.life.instance_now(scene.id).alive().is_none());
    assert_eq!(scene.world.fleet.whereabouts().len(), 0);
    scene.end().await;
}

/// The guest has moved when the source fails, but the log does not have the move yet.
#[actix_rt::test]
async fn a_source_may_fail_after_the_switch_over() {
    let scene = Scene::on_the_way().await;
    let (source, target) = scene.ends();
    scene.lose_after_the_switch_over(&[source]).await;
    scene.life.settled().await;
    assert_eq!((scene.home(), scene.boots(target)), (target, Some(1)));
    let carried = || scene.world.fleet.guests(target)[&scene.id].carried;
    assert!(!carried(), "the output was carried while the source was down");
    scene.world.fleet.revive_host(source, true).unwrap();
    scene.life.hosts_up(2).await;
    cleared(&scene).await;
    assert!(carried(), "the output from the source is lost");
    scene.end().await;
}

/// The guest has moved and its new host failed. The server is on that host, not on the source.
#[actix_rt::test]
async fn a_destination_that_fails_after_the_switch_over_keeps_the_server() {
    let scene = Scene::on_the_way().await;
    let (source, target) = scene.ends();
    scene.lose_after_the_switch_over(&[target]).await;
    scene.life.settled().await;
    assert_eq!((scene.home(), scene.boots(source)), (target, None));
    scene.world.fleet.revive_host(target, true).unwrap();
    scene.life.hosts_up(2).await;
    scene.end().await;
}

/// A server can be deleted while its hosts are down. Its leftovers are removed when the hosts are back.
#[actix_rt::test]
async fn a_delete_does_not_wait_for_hosts() {
    let scene = Scene::on_the_way().await;
    let (source, target) = scene.ends();
    scene.world.fleet.kill_host(source);
    scene.world.fleet.kill_host(target);
    scene.life.until(|context| context.views.hosts.read(|view| view.all().all(|host| !host.up))).await;
    scene.life.delete(scene.id).await.unwrap();
    scene.life.settled().await;
    assert!(scene.life.instance_now(scene.id).alive().is_none());
    for host in [source, target] {
        scene.world.fleet.revive_host(host, true).unwrap();
    }
    scene.life.hosts_up(2).await;
    let gone = async {
        while !scene.world.fleet.whereabouts().is_empty() || !scene.world.fleet.leaks().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("leftovers stay");
    scene.end().await;
}

/// The guest has moved, and its old host does not answer. A delete does not wait for that host.
#[actix_rt::test]
async fn a_delete_finds_the_guest_wherever_it_is() {
    for shared in [false, true] {
        let world = World::new(2);
        world.fleet.share_storage(shared);
        let scene = Scene::sent(world).await;
        let (source, target) = scene.ends();
        scene.world.brakes.hold("migration_state");
        scene.world.brakes.reached("migration_state").await;
        scene.world.fleet.hold_travellers(false);
        assert!(scene.world.fleet.migrating_guests().is_empty());
        let silent = FaultPlan::default().with(DriverCall::MigrationState, FaultTrigger::Always, Effect::Refuse);
        scene.world.fleet.set_faults(source, silent);
        scene.world.brakes.release("migration_state");
        scene.life.delete(scene.id).await.unwrap();
        scene.life.settled().await;
        assert!(scene.life.instance_now(scene.id).alive().is_none());
        assert_eq!(scene.boots(target), None, "shared: {shared}");
        scene.world.fleet.set_faults(source, FaultPlan::default());
        scene.end().await;
    }
}

#[actix_rt::test]
async fn a_guest_that_stops_during_a_live_migration_is_stopped() {
    let scene = Scene::on_the_way().await;
    let (source, _) = scene.ends();
    scene.world.fleet.crash_guest(source, scene.id).unwrap();
    scene.life.settled().await;
    let off = scene.life.until(|context| {
        context.views.servers.read(|servers| {
            let row = servers.get(scene.id).unwrap();
            chronova_events::instance::status::of(&row.instance).is_some_and(|status| status.status == "SHUTOFF")
        })
    });
    assert!(off.await);
    assert_eq!(scene.home(), source);
    scene.end().await;
}

/// The hosts continue a migration without the control plane, whether the guest arrives or not.
#[actix_rt::test]
async fn a_migration_continues_without_the_control_plane() {
    for arrives in [true, false] {
        let Scene { world, life, id } = Scene::on_the_way().await;
        life.stop().await;
        if arrives {
            world.fleet.hold_travellers(false);
        }
        let life = world.live(None, None).await;
        life.hosts_up(2).await;
        let scene = Scene { world, life, id };
        if !arrives {
            scene.until(LiveStage::Running).await;
            scene.life.abort_live(id).await.unwrap();
        }
        scene.life.settled().await;
        let expected = if arrives { MigrationStatus::Completed } else { MigrationStatus::Cancelled };
        assert_eq!(scene.status().await, expected);
        assert_eq!(scene.boots(scene.home()), Some(1));
        scene.end().await;
    }
}

#[actix_rt::test]
async fn a_lost_answer_does_not_change_a_live_migration() {
    let scene = Scene::of(World::new(2)).await;
    let home = scene.home();
    scene.world.fleet.set_all_faults(&FaultPlan::default().with(
        DriverCall::StartMigration,
        FaultTrigger::Always,
        Effect::LoseReply,
    ));
    scene.life.live_migrate(scene.id).await.unwrap();
    scene.life.settled().await;
    assert_ne!(scene.home(), home);
    assert_eq!(scene.boots(scene.home()), Some(1));
    scene.end().await;
}

#[actix_rt::test]
async fn an_unsuitable_destination_is_skipped_unless_it_was_requested() {
    let scene = Scene::of(World::new(3)).await;
    let home = scene.home();
    let others: Vec<usize> = (0..3).filter(|host| *host != home).collect();
    let lacks = "Host CPU does not provide required features: avx512f";
    scene.world.fleet.bar(others[0], lacks);
    scene.life.live_migrate(scene.id).await.unwrap();
    scene.life.settled().await;
    assert_eq!(scene.home(), others[1]);

    let barred = scene.world.fleet.hostname(others[0]);
    scene.life.live_migrate_to(scene.id, Some(barred), None).await.unwrap();
    scene.life.settled().await;
    assert_eq!(scene.home(), others[1]);
    let fault = scene.server().fault.unwrap().0;
    assert!(fault.message.contains("avx512f"), "{}", fault.message);
    assert_eq!(scene.status().await, MigrationStatus::Error);
    scene.end().await;
}

#[actix_rt::test]
async fn disks_are_copied_only_where_they_are_not_shared() {
    let scene = Scene::of(World::new(2)).await;
    scene.world.fleet.share_storage(true);
    let home = scene.home();
    scene.life.live_migrate_to(scene.id, None, Some(true)).await.unwrap();
    scene.life.settled().await;
    assert_eq!(scene.home(), home);
    assert!(scene.server().fault.unwrap().0.message.contains("Block migration can not be used with shared storage"));
    scene.life.live_migrate(scene.id).await.unwrap();
    scene.life.settled().await;
    assert_ne!(scene.home(), home);
    scene.world.fleet.share_storage(false);
    scene.life.live_migrate_to(scene.id, None, Some(false)).await.unwrap();
    scene.life.settled().await;
    assert_ne!(scene.home(), home);
    scene.life.live_migrate_to(scene.id, None, Some(true)).await.unwrap();
    scene.life.settled().await;
    assert_eq!(scene.home(), home);
    scene.end().await;
}

#[actix_rt::test]
async fn a_failed_live_migration_leaves_the_server_on_its_host_with_a_reason() {
    let scene = Scene::of(World::new(2)).await;
    let home = scene.home();
    scene.world.fleet.fail_travellers(Some("unable to connect to server at 'h2:49152'"));
    scene.life.live_migrate(scene.id).await.unwrap();
    scene.life.settled().await;
    assert_eq!((scene.home(), scene.boots(home)), (home, Some(1)));
    let fault = scene.server().fault.unwrap().0;
    assert!(fault.details.contains("unable to connect to server at 'h2:49152'"), "{}", fault.details);
    assert_eq!(fault.message, "Live migration failure: the hypervisor ended it.");
    assert_eq!((scene.status().await, scene.life.status(scene.id)), (MigrationStatus::Error, "ACTIVE"));
    scene.end().await;
}

/// Waits until the agent of a host that came back has removed the leftovers.
async fn cleared(scene: &Scene) {
    let clear = async {
        while !scene.world.fleet.leaks().is_empty() || !scene.world.fleet.doubles().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), clear).await.expect("leftovers stay");
    scene.life.settled().await;
}
