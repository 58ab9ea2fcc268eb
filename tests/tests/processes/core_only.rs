//! A host with a driver that has only the core. Servers are built, deleted, started, stopped and rebooted on it. Every
//! other operation is refused with a message that says what the host cannot do.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_actors::instance::InstanceRequest;
use chronova_events::envelope::Position;
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::{BuildRequested, PowerAction, RequestedNetworks};
use chronova_events::process::ProcessEvent;
use chronova_events::registry::Event;
use chronova_events::store::EventStore as _;
use chronova_hypervisor::capability::{Capability, offered_by};
use chronova_hypervisor::sim::{CoreOnly, DriverCall};
use chronova_tests::world::{ADMIN, Life, Setting, World, build_request};

async fn world() -> (World, Life, InstanceId) {
    let world = World::new(1);
    let life = world.begin(Setting { core_only: true, ..Setting::default() }).await;
    life.hosts_up(1).await;
    let id = InstanceId::random();
    let request = BuildRequested { networks: RequestedNetworks::None, ..build_request(id) };
    life.build_of(request).await.unwrap();
    life.settled().await;
    assert_eq!((life.status(id), life.fault(id)), ("ACTIVE", String::new()));
    (world, life, id)
}

/// The messages of all steps that failed, in the order of the log.
async fn refusals(world: &World) -> Vec<String> {
    let events = world.log.read_all(Position::START, usize::MAX).await.unwrap();
    let message = |event: &Event| match event {
        Event::ProcessEvent(ProcessEvent::StepFailed(failed)) => Some(failed.fault.message.clone()),
        _ => None,
    };
    events.iter().filter_map(|event| message(event.event().unwrap().as_ref())).collect()
}

#[test]
fn the_core_driver_offers_no_optional_part_and_the_simulated_host_all() {
    let fleet = World::new(1).fleet;
    let all = fleet.drivers().remove(0);
    let everything: Vec<Capability> = offered_by(all.as_ref()).into_iter().collect();
    assert_eq!(everything, Capability::ALL);
    assert!(offered_by(CoreOnly::around(all).as_ref()).is_empty());
}

#[actix_rt::test]
async fn servers_are_built_stopped_started_rebooted_and_deleted() {
    let (world, life, id) = world().await;
    for (action, shown) in [
        (PowerAction::Stop, "SHUTOFF"),
        (PowerAction::Start, "ACTIVE"),
        (PowerAction::RebootSoft, "ACTIVE"),
        (PowerAction::RebootHard, "ACTIVE"),
    ] {
        life.power(id, action).await.unwrap();
        life.settled().await;
        assert_eq!((life.status(id), life.fault(id)), (shown, String::new()), "{action:?}");
    }
    life.delete(id).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id), "DELETED");
    assert!(world.fleet.guests(0).is_empty());
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn an_operation_that_the_host_does_not_support_is_refused_before_any_change() {
    let (world, life, id) = world().await;
    // Requests whose processes need an optional part of the driver, and the words of the refusal. A failed rebuild leaves
    // the server in ERROR, as in Nova, so it comes last.
    let asked = async |words: &str, answer: Result<(), String>, status: &str| {
        answer.unwrap();
        life.settled().await;
        let refusals = refusals(&world).await;
        assert_eq!(refusals.last().map(String::as_str), Some(&*format!("Host sim-0001 cannot {words}.")));
        assert_eq!(life.status(id), status, "{words}");
        refusals.len()
    };
    // Here a step of the process finds that the driver lacks the part. Only some servers need the part of a snapshot,
    // and the refusal of a password has Nova's words.
    life.snapshot(id, None).await.unwrap();
    life.settled().await;
    assert_eq!((refusals(&world).await, life.status(id)), (vec!["The hypervisor refused.".to_owned()], "ACTIVE"));
    life.change_password(id, "s3cret").await.unwrap();
    life.settled().await;
    assert_eq!(refusals(&world).await.last().map(String::as_str), Some("Unable to set password on instance"));

    let dump = InstanceRequest::TriggerCrashDump { process: ProcessId::random(), asker: ADMIN };
    let counts = [
        asked("pause or suspend guests", life.power(id, PowerAction::Pause).await, "ACTIVE").await,
        asked("inspect or interrupt a running guest", life.instance(id, dump).await, "ACTIVE").await,
        asked("pause or suspend guests", life.power(id, PowerAction::Suspend).await, "ACTIVE").await,
        asked("redefine a guest (rebuild, rescue)", life.rescue(id).await, "ACTIVE").await,
        asked("attach or detach interfaces", life.attach_nic(id).await, "ACTIVE").await,
        asked("attach or detach volumes", life.attach(id, 1).await, "ACTIVE").await,
        asked("move disks between hosts", life.migrate(id).await, "ACTIVE").await,
        asked("migrate running guests", life.live_migrate(id).await, "ACTIVE").await,
        asked("redefine a guest (rebuild, rescue)", life.rebuild(id, false).await, "ERROR").await,
    ];
    assert_eq!(counts, [3, 4, 5, 6, 7, 8, 9, 10, 11], "a refusal is missing or there twice");
    for call in [
        DriverCall::Pause,
        DriverCall::Suspend,
        DriverCall::Stop,
        DriverCall::CopyRoot,
        DriverCall::SetPassword,
        DriverCall::AttachDisk,
    ] {
        assert_eq!(world.fleet.calls(call), 0, "{call:?} reached the host");
    }

    life.delete(id).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id), "DELETED", "the refused operations block the delete");
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_server_with_interfaces_is_not_built_there() {
    let world = World::new(1);
    let life = world.begin(Setting { core_only: true, ..Setting::default() }).await;
    life.hosts_up(1).await;
    let id = InstanceId::random();
    life.build(id).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id), "ERROR");
    assert!(world.fleet.guests(0).is_empty());
    life.stop().await;
    world.check().await;
}

/// The traits of the optional parts are Nova's. A flavor that requires one finds only hosts whose driver has the part.
#[actix_rt::test]
async fn a_flavor_finds_only_hosts_whose_driver_has_the_part_that_it_requires() {
    let (world, life, id) = world().await;
    let here = life.context().views.placement.read(|view| {
        let hosts = view.ledger.providers.values();
        hosts.flat_map(|provider| provider.traits.clone()).collect::<BTreeSet<String>>()
    });
    assert!(here.contains("COMPUTE_NODE") && here.contains("COMPUTE_TRUSTED_CERTS"), "{here:?}");
    let parts: Vec<&str> = Capability::ALL.iter().flat_map(|part| part.traits()).copied().collect();
    assert_eq!(parts.len(), 7, "{parts:?}");
    assert!(parts.iter().all(|name| !here.contains(*name)), "the host claims a part that its driver lacks: {here:?}");
    life.delete(id).await.unwrap();
    life.settled().await;
    life.stop().await;

    let whole = World::new(1);
    for (world, core_only, status) in [(world, true, "ERROR"), (whole, false, "ACTIVE")] {
        let life = world.begin(Setting { core_only, ..Setting::default() }).await;
        life.hosts_up(1).await;
        let id = InstanceId::random();
        let mut request = BuildRequested { networks: RequestedNetworks::None, ..build_request(id) };
        let specs = parts.iter().map(|name| (format!("trait:{name}"), "required".to_owned()));
        Arc::make_mut(&mut request.flavor).extra_specs = specs.collect();
        life.build_of(request).await.unwrap();
        life.settled().await;
        assert_eq!(life.status(id), status, "{}", life.fault(id));
        life.stop().await;
        world.check().await;
    }
}
