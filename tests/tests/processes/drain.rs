//! Draining a host: with one server in the harness, and with three servers in different states and a crash after every
//! append.

use chronova_actors::process::drain_host;
use chronova_events::host::Drain;
use chronova_events::instance::PowerAction;
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::{Setting, World};
use futures::FutureExt;

use super::cases::id;
use super::{Ask, built, case, stopped};

#[actix_rt::test]
async fn drain_is_proven() {
    let ask: Ask = |life, id| life.drain_host_of(id).boxed_local();
    let definition = &drain_host::DEFINITION;
    prove(&Case { definition, ..case(built, ask, "ACTIVE", "ACTIVE") }).await;
    prove(&Case { definition, ..case(stopped, ask, "SHUTOFF", "SHUTOFF") }).await;
}

const THREE: [(u128, &str); 3] = [(1, "ACTIVE"), (2, "PAUSED"), (3, "SHUTOFF")];

/// Three servers on the first of two hosts: one running, one paused, one stopped.
async fn three() -> World {
    let world = World::new(2);
    let life = world.begin(Setting { hosts: Some(1), ..Setting::default() }).await;
    life.hosts_up_of(1, 1).await;
    for (number, _) in THREE {
        life.build(id(number)).await.unwrap();
    }
    life.settled().await;
    life.power(id(2), PowerAction::Pause).await.unwrap();
    life.power(id(3), PowerAction::Stop).await.unwrap();
    life.settled().await;
    life.stop().await;
    world
}

/// Drains the first host, with or without a crash after an append. Returns the number of appends.
async fn emptied(fuse: Option<u64>) -> u64 {
    let world = three().await;
    let life = world.live(fuse, None).await;
    life.hosts_up(2).await;
    let first = world.fleet.uri().host_id(0);
    let acknowledged = life.drain(first, 2).await.is_ok();
    life.settled().await;
    let appends = life.store.appends();
    life.stop().await;

    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    life.settled().await;
    life.stop().await;
    world.check().await;
    let views = world.views().await;
    let host = views.hosts.read(|hosts| hosts.get(first).unwrap().clone());
    assert_eq!(host.drain.is_some(), !host.enabled, "a drain and a disabled service are not recorded together");
    if acknowledged {
        let drain: &Drain = host.drain.as_deref().expect("the acknowledged drain is lost");
        assert!(drain.ended_at.is_some() && drain.leaving.is_empty(), "{fuse:?} {drain:?}");
        assert_eq!((drain.left.len(), &drain.stays), (3, &std::collections::BTreeMap::new()), "{fuse:?}");
        assert!(world.fleet.guests(0).is_empty(), "{fuse:?}: a guest is left");
    }
    for (number, status) in THREE {
        let story = world.story().await;
        assert_eq!(story.iter().find(|(server, _)| *server == id(number)), Some(&(id(number), status)), "{fuse:?}");
    }
    appends
}

#[actix_rt::test]
async fn a_host_gets_empty_whenever_the_control_plane_dies() {
    let appends = emptied(None).await;
    let step = if std::env::var_os("CHRONOVA_SOAK").is_some() { 1 } else { 5 };
    for fuse in (1..=appends).step_by(step) {
        emptied(Some(fuse)).await;
    }
}
