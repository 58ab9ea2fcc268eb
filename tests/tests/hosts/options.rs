//! Options for hosts and their guests.

use std::collections::BTreeSet;

use chronova_actors::hosts::options::DeletedGuests;
use chronova_actors::instance::{CallerRights, InstanceRequest, InstanceRoot};
use chronova_actors::ledger::{CELL, LedgerCommand, LedgerRoot};
use chronova_actors::provider_config::{ProviderConfigEntry, ProviderConfigs, ProviderIdentification};
use chronova_events::envelope::Meta;
use chronova_events::ids::{ProcessId, ProviderId};
use chronova_events::ledger::Inventory;
use chronova_hypervisor::driver::StopMode;

use super::*;

#[actix_rt::test]
async fn guests_start_again_with_their_host_if_configured() {
    let mut world = World::new(1);
    world.options.hosts.resume_guests = true;
    let life = started(&world).await;
    for n in 1..=3 {
        built(&life, id(n)).await;
    }
    life.power(id(2), PowerAction::Stop).await.unwrap();
    life.settled().await;
    world.fleet.kill_host(0);
    life.until(|_| !up(&life, &world, 0)).await;
    world.fleet.revive_host(0, false).unwrap();
    for n in [1, 3] {
        life.until(|_| world.fleet.guests(0)[&id(n)].power == PowerState::Running).await;
        life.settled().await;
        assert_eq!(life.status(id(n)), "ACTIVE");
    }
    assert_eq!((life.status(id(2)), world.fleet.guests(0)[&id(2)].power), ("SHUTOFF", PowerState::Shutdown));
    life.stop().await;
    world.check().await;
}

/// The host got its power back while no control plane was running.
#[actix_rt::test]
async fn guests_start_again_when_the_control_plane_does() {
    let mut world = World::new(1);
    world.options.hosts.resume_guests = true;
    let life = started(&world).await;
    built(&life, id(1)).await;
    life.stop().await;
    world.fleet.kill_host(0);
    world.fleet.revive_host(0, false).unwrap();
    let life = started(&world).await;
    life.until(|_| world.fleet.guests(0)[&id(1)].power == PowerState::Running).await;
    life.settled().await;
    assert_eq!(life.status(id(1)), "ACTIVE");
    life.stop().await;
    world.check().await;
}

/// A host with a running guest did not lose power, so its other guest ended by itself.
#[actix_rt::test]
async fn a_guest_that_ended_while_its_host_was_away_is_a_stopped_server() {
    let mut world = World::new(1);
    world.options.hosts.resume_guests = true;
    let life = started(&world).await;
    built(&life, id(1)).await;
    built(&life, id(2)).await;
    life.stop().await;
    world.fleet.crash_guest(0, id(1)).unwrap();
    let life = started(&world).await;
    life.shows(id(1), "SHUTOFF").await;
    resynced(&world, &life, 2).await;
    life.settled().await;
    assert_eq!((life.status(id(1)), life.status(id(2))), ("SHUTOFF", "ACTIVE"));
    life.stop().await;
    world.check().await;
}

/// A crash came after the first guest was started again and before the second was. Once the first runs, the host looks
/// like one that did not lose power.
#[actix_rt::test]
async fn the_next_control_plane_starts_the_guests_that_are_still_off() {
    let mut world = World::new(1);
    world.options.hosts.resume_guests = true;
    let life = started(&world).await;
    built(&life, id(1)).await;
    built(&life, id(2)).await;
    let (process, asker) = (ProcessId::random(), CallerRights { overrides_lock: true });
    let reboot = InstanceRequest::Power { process, action: PowerAction::RebootHard, asker };
    life.context().gateway.send::<InstanceRoot>(&id(1), reboot, Meta::system("host-boot")).await.unwrap();
    life.settled().await;
    let actions = |life: &Life| life.context().views.servers.read(|view| view.get(id(1)).unwrap().actions.len());
    let before = actions(&life);
    life.stop().await;
    world.fleet.crash_guest(0, id(2)).unwrap();
    let life = started(&world).await;
    life.until(|_| world.fleet.guests(0)[&id(2)].power == PowerState::Running).await;
    life.settled().await;
    assert_eq!((life.status(id(1)), life.status(id(2))), ("ACTIVE", "ACTIVE"));
    assert_eq!(actions(&life), before, "a guest that runs was rebooted");
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn each_option_for_guests_of_deleted_servers_is_applied() {
    for (action, left, runs) in [
        (DeletedGuests::Reap, false, false),
        (DeletedGuests::Log, true, true),
        (DeletedGuests::Shutdown, true, false),
        (DeletedGuests::Noop, true, true),
    ] {
        let mut world = World::new(1);
        world.options.hosts.deleted_guests = action;
        let life = started(&world).await;
        built(&life, id(1)).await;
        life.delete(id(1)).await.unwrap();
        life.settled().await;
        world.brakes.take_stops();
        world.fleet.drivers()[0].spawn(&stray(1)).await.unwrap();
        resynced(&world, &life, 3).await;
        let guests = world.fleet.guests(0);
        assert_eq!(guests.contains_key(&id(1)), left, "{action:?}");
        assert_eq!(guests.get(&id(1)).is_some_and(|guest| guest.power == PowerState::Running), runs, "{action:?}");
        let stops = world.brakes.take_stops();
        assert_eq!(stops, if action == DeletedGuests::Shutdown { vec![StopMode::Hard] } else { vec![] }, "{action:?}");
        life.stop().await;
    }
}

#[actix_rt::test]
async fn a_new_host_is_disabled_at_first_if_configured() {
    let mut world = World::new(2);
    let life = world.begin(Setting { hosts: Some(1), ..Setting::default() }).await;
    life.hosts_up(1).await;
    life.stop().await;
    world.options.hosts.enable_new_services = false;
    let life = started(&world).await;
    let seen = |index| {
        let host = world.fleet.uri().host_id(index);
        let known = life.context().views.hosts.read(|hosts| hosts.get(host).cloned()).unwrap();
        (known.enabled, known.disabled_reason)
    };
    assert_eq!(seen(0), (true, None), "a known host was disabled");
    assert_eq!(seen(1), (false, Some("New compute service disabled due to config option.".to_owned())));
    built(&life, id(1)).await;
    assert_eq!(life.host_of(&world, id(1)), Some(0));
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn concurrent_images_on_a_host_are_limited() {
    for (at_once, expected) in [(1, 1), (2, 2), (0, 3)] {
        let mut world = World::new(1);
        world.options.hosts.max_concurrent_snapshots = at_once;
        let life = started(&world).await;
        for n in 1..=3 {
            built(&life, id(n)).await;
        }
        world.brakes.hold("copy_root");
        for n in 1..=3 {
            life.snapshot(id(n), None).await.unwrap();
        }
        life.until(|_| world.brakes.count("copy_root") == expected).await;
        resynced(&world, &life, 2).await;
        assert_eq!(world.brakes.count("copy_root"), expected, "{at_once} at a time");
        world.brakes.release("copy_root");
        life.settled().await;
        for n in 1..=3 {
            assert_eq!((life.status(id(n)), life.fault(id(n))), ("ACTIVE", String::new()));
        }
        life.stop().await;
        world.check().await;
    }
}

/// `max_concurrent_builds` of 0 means no limit.
#[actix_rt::test]
async fn concurrent_builds_are_limited_unless_the_option_is_0() {
    for (at_once, expected) in [(1, 1), (0, 4)] {
        let mut world = World::new(1);
        world.options.hosts.max_concurrent_builds = at_once;
        let life = started(&world).await;
        world.brakes.hold("spawn");
        for n in 1..=4 {
            life.build(id(n)).await.unwrap();
        }
        life.until(|_| world.brakes.count("spawn") == expected).await;
        resynced(&world, &life, 2).await;
        assert_eq!(world.brakes.count("spawn"), expected, "{at_once} at a time");
        world.brakes.release("spawn");
        life.settled().await;
        life.stop().await;
        world.check().await;
    }
}

/// Entries of `[compute] provider_config_location` for all hosts, and for one.
fn provider_configs(world: &World) -> ProviderConfigs {
    let entry = |identification, class: &str, name: &str| {
        let (class, total) = (class.to_owned(), 3);
        let one =
            Inventory { class, total, reserved: 0, min_unit: 1, max_unit: 3, step_size: 1, allocation_ratio: 1.0 };
        let traits = BTreeSet::from([name.to_owned()]);
        ProviderConfigEntry { source: "a.yaml".to_owned(), identification, inventories: vec![one], traits }
    };
    let named = ProviderIdentification::Name(world.fleet.hostname(1));
    let entries = vec![
        entry(ProviderIdentification::ComputeNode, "CUSTOM_LICENCE", "CUSTOM_PLAIN"),
        entry(named, "CUSTOM_SLOT", "CUSTOM_FAST"),
    ];
    ProviderConfigs { entries }
}

/// The custom classes and traits of a host.
fn custom(life: &Life, world: &World, host: usize) -> Vec<String> {
    let provider = ProviderId(world.fleet.uri().host_id(host).0);
    life.context().views.placement.read(|view| {
        let Some(known) = view.ledger.providers.get(&provider) else { return vec![] };
        let names = known.inventories.keys().chain(&known.traits);
        names.filter(|name| name.starts_with("CUSTOM_")).cloned().collect()
    })
}

#[actix_rt::test]
async fn hosts_have_what_provider_configs_add_as_long_as_the_entry_is_there() {
    let mut world = World::new(2);
    world.options.hosts.provider_configs = Arc::new(provider_configs(&world));
    let life = started(&world).await;
    assert_eq!(custom(&life, &world, 0), ["CUSTOM_LICENCE", "CUSTOM_PLAIN"]);
    assert_eq!(custom(&life, &world, 1), ["CUSTOM_SLOT", "CUSTOM_FAST"]);
    // A client of Placement takes an addition away. The next comparison of the host with the log brings it back.
    let provider = ProviderId(world.fleet.uri().host_id(1).0);
    let taken = LedgerCommand::DeleteInventory { provider, class: "CUSTOM_SLOT".to_owned() };
    life.context().gateway.send::<LedgerRoot>(&CELL, taken, Meta::system("test")).await.unwrap();
    life.until(|_| custom(&life, &world, 1) == ["CUSTOM_SLOT", "CUSTOM_FAST"]).await;
    resynced(&world, &life, 2).await;
    let applied = kinds(&world).await["ledger.provider_config_applied"];
    assert_eq!(applied, 2, "an unchanged file is recorded");
    life.stop().await;
    world.options.hosts.provider_configs = Arc::default();
    let life = started(&world).await;
    life.until(|_| (0..2).all(|host| custom(&life, &world, host).is_empty())).await;
    life.stop().await;
    world.check().await;
}

/// A host that two entries name is kept out, with the reason in the log. Other hosts work.
#[actix_rt::test]
async fn a_host_that_two_provider_configs_name_is_not_registered() {
    let mut world = World::new(2);
    let mut configs = provider_configs(&world);
    let id = ProviderIdentification::Id(ProviderId(world.fleet.uri().host_id(1).0));
    configs.entries.push(ProviderConfigEntry { identification: id, ..configs.entries[1].clone() });
    world.options.hosts.provider_configs = Arc::new(configs);
    let life = world.live(None, None).await;
    // Both hosts have a provider, because a host reports its resources first.
    life.hosts_up_of(1, 2).await;
    resynced(&world, &life, 2).await;
    assert!(up(&life, &world, 0) && !up(&life, &world, 1));
    life.stop().await;
}
