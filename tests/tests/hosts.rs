//! Hosts that register, fail, return, refuse calls or report wrong states, and the servers on them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "hosts/copies.rs"]
mod copies;
#[path = "hosts/host_gate.rs"]
mod host_gate;
#[path = "hosts/lost_log.rs"]
mod lost_log;
#[path = "hosts/options.rs"]
mod options;
#[path = "hosts/timeouts.rs"]
mod timeouts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chronova_actors::process::interference::{Interference, InterferenceVerdict, StepDirection};
use chronova_events::envelope::{Position, Timestamp};
use chronova_events::fold::Fold;
use chronova_events::ids::InstanceId;
use chronova_events::instance::{Power, PowerAction};
use chronova_events::ledger::Ledger;
use chronova_events::registry::Event;
use chronova_events::store::EventStore;
use chronova_hypervisor::guest::{GuestSpec, PowerState};
use chronova_hypervisor::pinning::Pinning;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger, SimUri};
use chronova_tests::world::{Life, Setting, World};
use futures::future::join_all;
use uuid::Uuid;

const NO_VALID_HOST: &str = "No valid host was found. There are not enough hosts available";

fn id(n: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(n))
}

/// Nova's `MaxRetriesExceeded`.
fn exhausted(instance: InstanceId) -> String {
    format!(
        "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance \
         {instance}."
    )
}

async fn started(world: &World) -> Life {
    let life = world.live(None, None).await;
    life.hosts_up(world.fleet.len()).await;
    life
}

async fn built(life: &Life, instance: InstanceId) {
    life.build(instance).await.unwrap();
    assert!(life.settled().await);
}

/// The number of events of each kind in the log.
async fn kinds(world: &World) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for recorded in world.log.read_all(Position::START, 100_000).await.unwrap() {
        *kinds.entry(recorded.kind.to_string()).or_default() += 1;
    }
    kinds
}

/// Waits until the hosts have listed their guests often enough for `times` more comparisons of each host with the log.
async fn resynced(world: &World, life: &Life, times: u64) {
    let before = world.fleet.calls(DriverCall::Guests);
    let wanted = before + (times + 1) * world.fleet.len() as u64;
    life.until(|_| world.fleet.calls(DriverCall::Guests) >= wanted).await;
}

fn always(call: DriverCall, effect: Effect) -> FaultPlan {
    FaultPlan::default().with(call, FaultTrigger::Always, effect)
}

fn first(call: DriverCall, effect: Effect) -> FaultPlan {
    FaultPlan::default().with(call, FaultTrigger::Nth(1), effect)
}

fn up(life: &Life, world: &World, host: usize) -> bool {
    let host = world.fleet.uri().host_id(host);
    life.context().views.hosts.read(|hosts| hosts.get(host).is_some_and(|host| host.up))
}

#[actix_rt::test]
async fn a_host_is_registered_once_with_its_inventory_and_a_heartbeat_leaves_no_trace() {
    let world = World::new(2);
    for _ in 0..2 {
        let life = started(&world).await;
        resynced(&world, &life, 2).await;
        life.stop().await;
    }
    let kinds = kinds(&world).await;
    let expected = [
        ("host.registered", 2),
        ("ledger.host_cells_replaced", 2),
        ("ledger.inventory_replaced", 2),
        ("ledger.provider_created", 2),
        ("ledger.traits_replaced", 2),
    ];
    assert_eq!(kinds, expected.map(|(kind, times)| (kind.to_owned(), times)).into());
    let views = world.views().await;
    let numbers: Vec<u64> = views.hosts.read(|hosts| hosts.all().map(|host| host.number).collect());
    assert!(numbers.len() == 2 && numbers[0] != numbers[1], "{numbers:?}");
    let capacity = views.placement.read(|view| {
        let lines = view.ledger.providers.values().next().unwrap().inventories.clone();
        lines.into_iter().map(|(class, line)| (class, line.inventory.capacity())).collect::<Vec<_>>()
    });
    let expected = [("DISK_GB", 100), ("MEMORY_MB", 8192 - 512), ("VCPU", 8 * 4)];
    assert_eq!(capacity, expected.map(|(class, amount)| (class.to_owned(), amount)));
}

#[actix_rt::test]
async fn a_new_host_gets_a_number_that_no_other_has() {
    let world = World::of(SimUri::new(5));
    // Some hosts register in one life, and others in a later one.
    for hosts in [1, 3, 5] {
        let life = world.begin(Setting { hosts: Some(hosts), ..Setting::default() }).await;
        life.hosts_up_of(hosts, hosts).await;
        life.stop().await;
    }
    let views = world.views().await;
    let mut numbers: Vec<u64> = views.hosts.read(|hosts| hosts.all().map(|host| host.number).collect());
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 5);
}

#[actix_rt::test]
async fn a_dead_host_is_down_and_avoided_until_it_is_back() {
    let world = World::new(2);
    let life = started(&world).await;
    world.fleet.kill_host(0);
    life.until(|_| !up(&life, &world, 0)).await;
    for n in 1..=3 {
        built(&life, id(n)).await;
        assert_eq!(life.host_of(&world, id(n)), Some(1));
    }
    world.fleet.revive_host(0, true).unwrap();
    life.until(|_| up(&life, &world, 0)).await;
    built(&life, id(4)).await;
    assert_eq!(life.host_of(&world, id(4)), Some(0), "the server is not on the emptier host");
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_host_that_stops_answering_is_down_after_missed_heartbeats() {
    let world = World::new(1);
    let life = started(&world).await;
    world.fleet.set_faults(0, always(DriverCall::Usage, Effect::Refuse));
    life.until(|_| !up(&life, &world, 0)).await;
    built(&life, id(1)).await;
    assert_eq!(life.status(id(1)), "ERROR");
    assert!(life.fault(id(1)).starts_with(NO_VALID_HOST), "{}", life.fault(id(1)));
    world.fleet.set_faults(0, FaultPlan::default());
    life.until(|_| up(&life, &world, 0)).await;
    built(&life, id(2)).await;
    assert_eq!(life.status(id(2)), "ACTIVE");
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_host_that_is_no_longer_configured_is_down_from_the_start() {
    let world = World::new(2);
    started(&world).await.stop().await;
    let life = world.begin(Setting { hosts: Some(1), ..Setting::default() }).await;
    life.until(|_| up(&life, &world, 0) && !up(&life, &world, 1)).await;
    let reason = world.fleet.uri().host_id(1);
    let reason = life.context().views.hosts.read(|hosts| hosts.get(reason).unwrap().down_reason.clone());
    assert_eq!(reason.as_deref(), Some("it is not configured any more"));
    for n in 1..=3 {
        built(&life, id(n)).await;
        assert_eq!(life.host_of(&world, id(n)), Some(0));
    }
    life.stop().await;
    let life = started(&world).await;
    built(&life, id(9)).await;
    assert_eq!(life.host_of(&world, id(9)), Some(1), "the host is not used again");
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_guest_that_stops_by_itself_is_a_stopped_server() {
    let world = World::new(1);
    let life = started(&world).await;
    built(&life, id(1)).await;
    world.fleet.crash_guest(0, id(1)).unwrap();
    life.shows(id(1), "SHUTOFF").await;
    life.power(id(1), PowerAction::Start).await.unwrap();
    life.shows(id(1), "ACTIVE").await;
    life.settled().await;
    assert_eq!(world.fleet.guests(0)[&id(1)].power, PowerState::Running);
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_power_failure_of_the_host_stops_its_servers() {
    let world = World::new(1);
    let life = started(&world).await;
    built(&life, id(1)).await;
    world.fleet.kill_host(0);
    life.until(|_| !up(&life, &world, 0)).await;
    assert_eq!(life.status(id(1)), "ACTIVE", "the status changed before the host answered");
    world.fleet.revive_host(0, false).unwrap();
    life.shows(id(1), "SHUTOFF").await;
    life.stop().await;
    world.check().await;
}

/// A host fails to report its capabilities if, for example, it lacks a CPU model that the options name.
#[actix_rt::test]
async fn a_host_that_does_not_say_what_guests_can_have_is_not_registered() {
    let world = World::new(1);
    world.fleet.set_faults(0, always(DriverCall::Capabilities, Effect::Refuse));
    let life = world.live(None, None).await;
    life.until(|_| world.fleet.calls(DriverCall::Capabilities) > 2).await;
    assert_eq!(life.context().views.hosts.read(|hosts| hosts.all().count()), 0);
    assert!(life.context().views.placement.read(|view| view.ledger.providers.is_empty()));
    // The agent asks the host again, which now reports its capabilities.
    world.fleet.set_faults(0, FaultPlan::default());
    life.hosts_up(1).await;
    life.stop().await;
}

/// After a power failure, the volume is still the server's. A reboot brings it into the guest again.
#[actix_rt::test]
async fn a_power_failure_of_the_host_loses_no_volume() {
    let world = World::new(1);
    let life = started(&world).await;
    built(&life, id(1)).await;
    life.volume_beside(id(1), 1).await;
    life.attach(id(1), 1).await.unwrap();
    life.settled().await;
    let of_guest = || world.fleet.guests(0)[&id(1)].volumes.len();
    let of_server =
        || life.instance_now(id(1)).alive().unwrap().disks.iter().filter(|disk| disk.device.is_volume()).count();
    assert_eq!((of_guest(), of_server()), (1, 1));
    world.fleet.kill_host(0);
    life.until(|_| !up(&life, &world, 0)).await;
    world.fleet.revive_host(0, false).unwrap();
    life.shows(id(1), "SHUTOFF").await;
    assert_eq!(of_server(), 1, "the server has lost its volume");
    life.power(id(1), PowerAction::RebootHard).await.unwrap();
    life.shows(id(1), "ACTIVE").await;
    life.settled().await;
    assert_eq!((of_guest(), of_server()), (1, 1), "the guest came back without its volume");
    assert_eq!(world.brakes.guest(id(1)).unwrap().volumes.len(), 1, "the new definition lacks the volume");
    life.detach(id(1), 1).await.unwrap();
    life.settled().await;
    assert_eq!((of_guest(), of_server()), (0, 0), "the volume cannot be detached any more");
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_guest_that_vanished_is_stopped_and_made_again_at_the_start() {
    let world = World::new(2);
    let life = started(&world).await;
    built(&life, id(1)).await;
    let host = life.host_of(&world, id(1)).unwrap();
    world.fleet.lose_guest(host, id(1)).unwrap();
    life.shows(id(1), "SHUTOFF").await;
    life.power(id(1), PowerAction::Start).await.unwrap();
    life.shows(id(1), "ACTIVE").await;
    life.settled().await;
    assert_eq!(world.fleet.guests(host)[&id(1)].power, PowerState::Running, "the guest is not on its old host");
    life.stop().await;
    world.check().await;
}

/// Somebody has changed the guest's definition on its host, or the definition names something that the host has lost.
#[actix_rt::test]
async fn a_guest_that_does_not_start_as_it_is_defined_is_defined_again() {
    for (action, call) in [(PowerAction::RebootHard, DriverCall::RebootHard), (PowerAction::Start, DriverCall::Start)] {
        let world = World::new(1);
        let life = started(&world).await;
        built(&life, id(1)).await;
        life.power(id(1), PowerAction::Stop).await.unwrap();
        life.shows(id(1), "SHUTOFF").await;
        life.settled().await;
        let refused = always(call, Effect::Refuse);
        world.fleet.set_all_faults(&refused.with(DriverCall::Redefine, FaultTrigger::Nth(1), Effect::Refuse));
        life.power(id(1), action).await.unwrap();
        life.settled().await;
        assert_eq!((life.status(id(1)), life.fault(id(1))), ("ACTIVE", String::new()), "{action:?}");
        assert_eq!(world.fleet.guests(0)[&id(1)].power, PowerState::Running, "{action:?}");
        assert_eq!(world.fleet.calls(DriverCall::Redefine), 2, "{action:?}");
        // If the other definition does not start either, the server stays off and says why the first one did not start.
        life.power(id(1), PowerAction::Stop).await.unwrap();
        life.shows(id(1), "SHUTOFF").await;
        life.settled().await;
        world.fleet.set_all_faults(&always(call, Effect::Refuse).with(
            DriverCall::Redefine,
            FaultTrigger::Always,
            Effect::Refuse,
        ));
        life.power(id(1), action).await.unwrap();
        life.settled().await;
        assert_eq!(life.status(id(1)), "SHUTOFF", "{action:?}");
        assert!(!life.fault(id(1)).is_empty(), "{action:?}");
        world.fleet.set_all_faults(&FaultPlan::default());
        life.stop().await;
        world.check().await;
    }
}

/// As in Nova, a rescued server refuses a reboot. Its guest comes back when it is unrescued.
#[actix_rt::test]
async fn a_rescued_guest_that_vanished_is_made_again_by_an_unrescue() {
    let world = World::new(2);
    let life = started(&world).await;
    built(&life, id(1)).await;
    let host = life.host_of(&world, id(1)).unwrap();
    life.rescue(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!((life.status(id(1)), world.fleet.guests(host)[&id(1)].rescued), ("RESCUE", true));
    world.fleet.lose_guest(host, id(1)).unwrap();
    life.until(|_| life.instance_now(id(1)).alive().unwrap().power() == Power::Shutdown).await;
    assert!(life.power(id(1), PowerAction::RebootHard).await.is_err(), "a rescued server was rebooted");
    life.unrescue(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(1)), "ACTIVE");
    let guest = world.fleet.guests(host).remove(&id(1)).unwrap();
    assert_eq!((guest.power, guest.rescued), (PowerState::Running, false));
    life.stop().await;
    world.check().await;
}

/// A guest without a server.
fn stray(n: u128) -> GuestSpec {
    GuestSpec {
        instance: id(n),
        domain_name: format!("stray-{n}"),
        display_name: "stray".to_owned(),
        flavor_name: "tiny".to_owned(),
        project: "p".into(),
        user: "u".into(),
        vcpus: 1,
        memory_mib: 128,
        root: None,
        ephemerals_gib: vec![],
        swap_mib: 0,
        volumes: vec![],
        nics: vec![],
        config_drive: None,
        hardware: vec![],
        rescue: None,
        pinning: Pinning::default(),
        devices: vec![],
        mdevs: vec![],
        tpm_secret: None,
    }
}

#[actix_rt::test]
async fn a_server_is_deleted_while_its_host_is_dead_and_its_guest_when_the_host_is_back() {
    let world = World::new(1);
    let life = started(&world).await;
    built(&life, id(1)).await;
    world.fleet.kill_host(0);
    life.until(|_| !up(&life, &world, 0)).await;
    life.delete(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(1)), "DELETED");
    assert_eq!(world.fleet.guests(0).len(), 1, "the guest on the dead host is gone");
    world.fleet.revive_host(0, true).unwrap();
    life.until(|_| world.fleet.guests(0).is_empty()).await;
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn the_guest_of_a_deleted_server_is_removed_and_an_unknown_guest_stays() {
    let world = World::new(2);
    let life = started(&world).await;
    built(&life, id(1)).await;
    life.delete(id(1)).await.unwrap();
    life.settled().await;
    let drivers = world.fleet.drivers();
    drivers[1].spawn(&stray(1)).await.unwrap();
    drivers[1].spawn(&stray(77)).await.unwrap();
    life.until(|_| !world.fleet.guests(1).contains_key(&id(1))).await;
    resynced(&world, &life, 3).await;
    assert_eq!(world.fleet.guests(1).into_keys().collect::<Vec<_>>(), [id(77)]);
    assert_eq!(world.fleet.guests(1)[&id(77)].power, PowerState::Running, "the unknown guest was stopped");
    assert_eq!(life.status(id(77)), "ABSENT");
    life.stop().await;
}

#[actix_rt::test]
async fn a_guest_on_another_host_than_its_server_is_removed() {
    let world = World::new(2);
    let life = started(&world).await;
    built(&life, id(1)).await;
    let here = life.host_of(&world, id(1)).unwrap();
    world.fleet.drivers()[1 - here].spawn(&stray(1)).await.unwrap();
    life.until(|_| world.fleet.whereabouts()[&id(1)] == [here]).await;
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn disks_left_behind_are_removed() {
    let world = World::new(1);
    let life = started(&world).await;
    built(&life, id(1)).await;
    world.fleet.set_faults(0, first(DriverCall::Destroy, Effect::Tear));
    life.delete(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(1)), "DELETED");
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_build_that_fails_on_one_host_succeeds_on_another() {
    for effect in [Effect::Refuse, Effect::NoRoom, Effect::Tear, Effect::DieBefore, Effect::DieAfter] {
        let world = World::new(2);
        world.fleet.set_faults(0, always(DriverCall::Spawn, effect));
        let life = started(&world).await;
        built(&life, id(1)).await;
        assert_eq!((life.status(id(1)), life.host_of(&world, id(1))), ("ACTIVE", Some(1)), "{effect:?}");
        assert_eq!(world.fleet.calls(DriverCall::Spawn), 2, "{effect:?}: the attempts are not two");
        if !world.fleet.is_alive(0) {
            world.fleet.revive_host(0, true).unwrap();
        }
        resynced(&world, &life, 2).await;
        life.stop().await;
        world.check().await;
    }
}

#[actix_rt::test]
async fn a_build_that_fails_on_all_hosts_ends_in_error_after_bounded_attempts() {
    for (hosts, attempts) in [(1, 1), (2, 2), (5, 3)] {
        let world = World::new(hosts);
        world.fleet.set_all_faults(&always(DriverCall::Spawn, Effect::NoRoom));
        let life = started(&world).await;
        built(&life, id(1)).await;
        assert_eq!((life.status(id(1)), life.fault(id(1))), ("ERROR", exhausted(id(1))), "{hosts} hosts");
        assert_eq!(world.fleet.calls(DriverCall::Spawn), attempts, "{hosts} hosts");
        life.stop().await;
        world.check().await;
    }
}

#[actix_rt::test]
async fn without_retries_the_user_learns_what_the_host_said() {
    let mut world = World::new(2);
    world.options.processes.max_attempts = 1;
    world.fleet.set_all_faults(&always(DriverCall::Spawn, Effect::Refuse));
    let life = started(&world).await;
    built(&life, id(1)).await;
    assert_eq!((life.status(id(1)), life.fault(id(1)).as_str()), ("ERROR", "The hypervisor refused."));
    assert_eq!(world.fleet.calls(DriverCall::Spawn), 1);
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn without_hosts_no_valid_host_is_found() {
    let world = World::new(1);
    world.fleet.kill_host(0);
    let life = world.live(None, None).await;
    built(&life, id(1)).await;
    assert_eq!(life.status(id(1)), "ERROR");
    assert!(life.fault(id(1)).starts_with(NO_VALID_HOST), "{}", life.fault(id(1)));
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_lost_reply_makes_no_second_guest_and_leaves_none() {
    let world = World::new(2);
    world.fleet.set_all_faults(&first(DriverCall::Spawn, Effect::LoseReply));
    let life = started(&world).await;
    built(&life, id(1)).await;
    let status = life.status(id(1));
    assert!(status == "ACTIVE" || status == "ERROR", "{status}");
    assert_eq!(world.fleet.doubles(), []);
    built(&life, id(2)).await;
    assert_eq!(life.status(id(2)), "ACTIVE");
    world.fleet.set_all_faults(&first(DriverCall::Destroy, Effect::LoseReply).with(
        DriverCall::Destroy,
        FaultTrigger::Nth(2),
        Effect::LoseReply,
    ));
    for n in [1, 2] {
        life.delete(id(n)).await.unwrap();
    }
    life.settled().await;
    assert_eq!((life.status(id(1)), life.status(id(2))), ("DELETED", "DELETED"));
    assert!(world.fleet.whereabouts().is_empty());
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn claims_never_exceed_capacity_however_many_builds_there_are_at_once() {
    const REQUESTS: u128 = 50;
    let uri = SimUri { vcpus: 4, memory_mib: 8192, disk_gib: 100, ..SimUri::new(3) };
    let mut world = World::of(uri);
    world.options.hosts.cpu_allocation_ratio = 1.0;
    let life = started(&world).await;
    for requested in join_all((1..=REQUESTS).map(|n| life.build(id(n)))).await {
        requested.unwrap();
    }
    life.settled().await;
    let active = (1..=REQUESTS).filter(|n| life.status(id(*n)) == "ACTIVE").count();
    assert_eq!(active, 12, "the active servers are not as many as the CPUs");
    for n in (1..=REQUESTS).filter(|n| life.status(id(*n)) != "ACTIVE") {
        assert_eq!(life.status(id(n)), "ERROR");
        assert!(life.fault(id(n)).starts_with(NO_VALID_HOST), "{}", life.fault(id(n)));
    }
    life.stop().await;
    world.check().await;
    let mut ledger = Ledger::default();
    for recorded in world.log.read_all(Position::START, 100_000).await.unwrap() {
        let Event::LedgerEvent(event) = recorded.event().unwrap().as_ref() else { continue };
        ledger.evolve(event, Timestamp(0));
        for line in ledger.providers.values().flat_map(|provider| provider.inventories.values()) {
            assert!(line.used <= line.inventory.capacity(), "at {}: {line:?}", recorded.position);
        }
    }
}

/// The list of a host's guests is read before a server is built there, and evaluated afterwards.
#[actix_rt::test]
async fn an_outdated_list_of_guests_does_not_stop_a_new_server() {
    let world = World::new(1);
    let life = started(&world).await;
    world.brakes.hold("guests:answer");
    world.brakes.reached("guests:answer").await;
    built(&life, id(1)).await;
    assert_eq!(life.status(id(1)), "ACTIVE");
    world.brakes.release("guests:answer");
    resynced(&world, &life, 2).await;
    life.stop().await;
    let kinds = kinds(&world).await;
    assert_eq!(kinds.get("instance.power_observed"), None, "the outdated list of guests was recorded");
    world.check().await;
}

/// A start finds that its guest is missing and creates it again. Meanwhile a delete finds no guest to remove.
#[actix_rt::test]
async fn a_guest_recreated_during_its_delete_is_removed() {
    let mut world = World::new(1);
    // Only the start process itself can remove the guest here, because the next comparison is an hour away.
    world.options.hosts.resync = std::time::Duration::from_hours(1);
    (world.options.hosts.power_sync, world.options.hosts.deleted_poll) = (None, None);
    let life = started(&world).await;
    built(&life, id(1)).await;
    world.fleet.lose_guest(0, id(1)).unwrap();
    life.shows(id(1), "SHUTOFF").await;
    world.brakes.hold("spawn");
    life.power(id(1), PowerAction::Start).await.unwrap();
    world.brakes.reached("spawn").await;
    life.delete(id(1)).await.unwrap();
    life.shows(id(1), "DELETED").await;
    world.brakes.release("spawn");
    life.settled().await;
    life.stop().await;
    world.check().await;
}

/// Panics in the first `spawn_guest` step, which ends the task of the step's process.
struct Breaks(AtomicBool);

impl Interference for Breaks {
    fn judge(&self, _: &'static str, step: &'static str, _: StepDirection) -> InterferenceVerdict {
        assert!(step != "spawn_guest" || self.0.swap(true, Ordering::SeqCst), "a mistake in a step");
        InterferenceVerdict::Pass
    }
}

#[actix_rt::test]
async fn a_process_that_broke_goes_on_without_a_restart() {
    let world = World::new(1);
    let breaks = Arc::new(Breaks(AtomicBool::new(false)));
    let life = world.live(None, Some(Arc::clone(&breaks) as Arc<dyn Interference>)).await;
    life.hosts_up(1).await;
    built(&life, id(1)).await;
    assert!(breaks.0.load(Ordering::SeqCst), "no step panicked");
    assert_eq!(life.status(id(1)), "ACTIVE");
    life.stop().await;
    world.check().await;
}
