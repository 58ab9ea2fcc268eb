//! A host with a driver that has only the core. Servers are built, deleted, started, stopped and rebooted on it. Every
//! other operation is refused with a message that says what the host cannot do.

use chronova_events::ids::InstanceId;
use chronova_events::instance::{BuildRequested, PowerAction, RequestedNetworks};
use chronova_hypervisor::capability::{Capability, offered_by};
use chronova_hypervisor::sim::DriverCall;
use chronova_tests::core_only::CoreOnly;
use chronova_tests::world::{Life, Setting, World, build_request};

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
    life.power(id, PowerAction::Pause).await.unwrap();
    life.settled().await;
    assert_eq!(life.fault(id), "Host sim-0001 cannot pause or suspend guests.");
    assert_eq!((life.status(id), world.fleet.calls(DriverCall::Pause)), ("ACTIVE", 0), "the guest was paused");

    life.rescue(id).await.unwrap();
    life.settled().await;
    assert_eq!(life.fault(id), "Host sim-0001 cannot redefine a guest (rebuild, rescue).");

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
