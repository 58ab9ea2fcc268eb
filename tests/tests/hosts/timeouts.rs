//! Options of time: builds, reboots and rescues that take too long, and the periods of a host's checks. Also excluded
//! image types.

use std::time::Duration;

use chronova_actors::hosts::options::HostOptions;
use chronova_actors::process::context::StepContext;

use super::*;

/// A time for which no test waits.
const LONG: Duration = Duration::from_hours(1);

#[actix_rt::test]
async fn a_build_that_takes_too_long_fails_before_its_next_step_and_leaves_nothing() {
    for (timeout, status) in [(Duration::from_secs(1), "ERROR"), (Duration::ZERO, "ACTIVE"), (LONG, "ACTIVE")] {
        let mut world = World::new(2);
        world.options.processes.build_timeout = timeout;
        let life = started(&world).await;
        world.brakes.hold("spawn:answer");
        life.build(id(1)).await.unwrap();
        life.until(|_| world.brakes.count("spawn:answer") == 1).await;
        if timeout < LONG && !timeout.is_zero() {
            tokio::time::sleep(timeout + Duration::from_millis(100)).await;
        }
        world.brakes.release("spawn:answer");
        life.settled().await;
        assert_eq!(life.status(id(1)), status, "{timeout:?}");
        if status == "ERROR" {
            assert_eq!(life.fault(id(1)), "Instance build timed out. Set to error state.");
            assert_eq!(world.fleet.whereabouts().len(), 0, "the guest is left");
            assert!(world.network.holders().is_empty(), "its ports are left");
        }
        life.stop().await;
        world.check().await;
    }
}

/// The guest does not react to a soft reboot.
#[actix_rt::test]
async fn a_soft_reboot_that_takes_too_long_becomes_a_hard_one() {
    for (timeout, hard) in [(Duration::from_millis(20), 1), (Duration::ZERO, 0), (LONG, 0)] {
        let mut world = World::new(1);
        world.options.reconcile.reboot_timeout = timeout;
        let life = started(&world).await;
        built(&life, id(1)).await;
        world.brakes.hold("reboot_soft");
        world.brakes.hold("redefine");
        life.power(id(1), PowerAction::RebootSoft).await.unwrap();
        life.until(|_| world.brakes.count("reboot_soft") == 1).await;
        if hard == 1 {
            life.shows(id(1), "HARD_REBOOT").await;
        } else {
            resynced(&world, &life, 3).await;
            assert_eq!(life.status(id(1)), "REBOOT", "{timeout:?}");
        }
        world.brakes.release("redefine");
        world.brakes.release("reboot_soft");
        life.settled().await;
        assert_eq!(world.fleet.calls(DriverCall::Redefine), hard, "{timeout:?}");
        assert_eq!((life.status(id(1)), life.fault(id(1))), ("ACTIVE", String::new()));
        life.stop().await;
        world.check().await;
    }
}

#[actix_rt::test]
async fn a_rescue_that_lasts_too_long_ends() {
    for (timeout, ends) in [(Duration::from_millis(20), true), (Duration::ZERO, false), (LONG, false)] {
        let mut world = World::new(1);
        world.options.reconcile.rescue_timeout = timeout;
        let life = started(&world).await;
        built(&life, id(1)).await;
        life.rescue(id(1)).await.unwrap();
        if ends {
            let unrescued = |kinds: BTreeMap<String, usize>| kinds.contains_key("instance.unrescued");
            while !unrescued(kinds(&world).await) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        } else {
            life.settled().await;
            resynced(&world, &life, 3).await;
            assert_eq!(life.status(id(1)), "RESCUE", "{timeout:?}");
        }
        life.settled().await;
        assert_eq!(life.status(id(1)), if ends { "ACTIVE" } else { "RESCUE" });
        life.stop().await;
        world.check().await;
    }
}

/// An announcement of the host and a comparison with the log both find a guest that ended. Each of them has an option
/// that turns it off.
#[actix_rt::test]
async fn power_states_follow_events_and_comparisons_as_the_options_say() {
    for (events, compares, status) in [(true, false, "SHUTOFF"), (false, true, "SHUTOFF"), (false, false, "ACTIVE")] {
        let mut world = World::new(1);
        world.options.hosts.follows_guests = events;
        if !compares {
            world.options.hosts.power_sync = None;
        }
        let life = started(&world).await;
        built(&life, id(1)).await;
        world.fleet.crash_guest(0, id(1)).unwrap();
        if status == "SHUTOFF" {
            life.shows(id(1), "SHUTOFF").await;
        }
        resynced(&world, &life, 3).await;
        assert_eq!(life.status(id(1)), status, "events: {events}, comparisons: {compares}");
        life.stop().await;
        // A host that connects is compared with the log even if the option is off.
        let life = started(&world).await;
        life.shows(id(1), "SHUTOFF").await;
        life.stop().await;
        world.check().await;
    }
}

/// If the server was deleted within the last period, its guest is removed without waiting for the next search.
#[actix_rt::test]
async fn guests_of_deleted_servers_are_removed_unless_the_search_is_off() {
    for (period, left) in [(Some(LONG), false), (None, true), (Some(Duration::from_millis(1)), false)] {
        let mut world = World::new(1);
        world.options.hosts.deleted_poll = period;
        let life = started(&world).await;
        built(&life, id(1)).await;
        life.delete(id(1)).await.unwrap();
        life.settled().await;
        world.fleet.drivers()[0].spawn(&stray(1)).await.unwrap();
        resynced(&world, &life, 3).await;
        assert_eq!(world.fleet.guests(0).contains_key(&id(1)), left, "{period:?}");
        life.stop().await;
    }
}

#[actix_rt::test]
async fn a_host_is_down_after_the_configured_time_without_an_answer() {
    let mut world = World::new(1);
    world.options.hosts.down_time = LONG;
    let life = started(&world).await;
    world.fleet.set_faults(0, always(DriverCall::Usage, Effect::Refuse));
    let before = world.fleet.calls(DriverCall::Usage);
    life.until(|_| world.fleet.calls(DriverCall::Usage) > before + 5).await;
    assert!(up(&life, &world, 0), "the host is down before its hour has passed");
    life.stop().await;
    let plain = HostOptions::default();
    assert_eq!((plain.heartbeat, plain.down_after()), (Duration::from_secs(10), Duration::from_mins(1)));
    // As in Nova, a time that is not above the period of heartbeats becomes 2.5 periods.
    let mut options = world.options.hosts.clone();
    (options.heartbeat, options.down_time) = (Duration::from_secs(10), Duration::from_secs(10));
    assert_eq!(options.down_after(), Duration::from_secs(25));
    options.down_time = Duration::from_secs(11);
    assert_eq!(options.down_after(), Duration::from_secs(11));
}

#[actix_rt::test]
async fn a_failed_allocation_of_interfaces_is_tried_again_as_often_as_configured() {
    for (retries, status) in [(2, "ACTIVE"), (1, "ERROR"), (0, "ERROR")] {
        let mut world = World::new(1);
        world.options.processes.network_retries = retries;
        world.options.processes.network_pause = Duration::from_millis(1);
        world.network.refuse_allocations(2);
        let life = started(&world).await;
        built(&life, id(1)).await;
        assert_eq!(life.status(id(1)), status, "{retries} retries");
        life.stop().await;
        world.check().await;
    }
}

/// As in Nova, nothing but the timeout ends the wait for the network.
#[actix_rt::test]
async fn a_network_service_that_does_not_answer_only_delays_a_build() {
    for (unanswered, timeout, status) in [(6, LONG, "ACTIVE"), (u32::MAX, Duration::from_millis(50), "ERROR")] {
        let mut world = World::new(1);
        world.options.processes.vif_plugging_timeout = timeout;
        world.network.leave_unanswered(unanswered);
        let life = started(&world).await;
        built(&life, id(1)).await;
        assert_eq!(life.status(id(1)), status, "{unanswered} questions without an answer");
        if status == "ERROR" {
            assert!(life.fault(id(1)).contains("Failed to allocate the network(s)"), "{}", life.fault(id(1)));
        }
        life.stop().await;
        world.check().await;
    }
}

#[actix_rt::test]
async fn hosts_offer_no_image_types_that_are_excluded() {
    let mut world = World::new(1);
    world.options.hosts.excluded_image_types = vec!["iso".to_owned()];
    let life = started(&world).await;
    let types = || {
        life.context().views.placement.read(|view| {
            let provider = view.ledger.providers.values().next().unwrap();
            let types = provider.traits.iter().filter_map(|name| name.strip_prefix("COMPUTE_IMAGE_TYPE_"));
            types.map(str::to_owned).collect::<Vec<_>>()
        })
    };
    assert_eq!(types(), ["QCOW2", "RAW"]);
    life.stop().await;
    // The next control plane has no such option.
    world.options.hosts.excluded_image_types.clear();
    let life = started(&world).await;
    let offered = |context: &StepContext| {
        context.views.placement.read(|view| {
            view.ledger.providers.values().next().is_some_and(|host| host.traits.contains("COMPUTE_IMAGE_TYPE_ISO"))
        })
    };
    life.until(offered).await;
    life.stop().await;
}
