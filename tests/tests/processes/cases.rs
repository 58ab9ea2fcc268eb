//! Cases and helpers that the tests of guests with special hardware share.

use std::collections::BTreeMap;
use std::fmt::Debug;

use chronova_actors::process::{
    build_instance, confirm_resize, delete_instance, evacuate, live_migrate, move_instance, rebuild, revert_resize,
    unshelve,
};
use chronova_events::ids::InstanceId;
use chronova_events::ledger::Ledger;
use chronova_tests::process_harness::Case;
use chronova_tests::world::Life;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use uuid::Uuid;

use super::{Ask, Before, case, nothing};

/// After `before`, requests one thing more, and waits for its end.
pub(super) fn after(life: &Life, id: InstanceId, before: Before, ask: Ask) -> LocalBoxFuture<'_, ()> {
    async move {
        before(life, id).await;
        ask(life, id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

/// After `before`, shelves and offloads the server.
pub(super) fn offloaded_after(life: &Life, id: InstanceId, before: Before) -> LocalBoxFuture<'_, ()> {
    async move {
        before(life, id).await;
        life.shelve(id).await.unwrap();
        life.settled().await;
        life.offload(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

pub(super) fn building(ask: Ask) -> Case {
    Case { definition: &build_instance::DEFINITION, failed: "ERROR", ..case(nothing, ask, "ABSENT", "ACTIVE") }
}

pub(super) fn deleting(before: Before) -> Case {
    let ask: Ask = |life, id| life.delete(id).boxed_local();
    Case { definition: &delete_instance::DEFINITION, failed: "DELETED", ..case(before, ask, "ACTIVE", "DELETED") }
}

/// A resize or a cold migration.
pub(super) fn moving(before: Before, ask: Ask) -> Case {
    Case { definition: &move_instance::DEFINITION, ..case(before, ask, "ACTIVE", "VERIFY_RESIZE") }
}

pub(super) fn reverting(before: Before) -> Case {
    let ask: Ask = |life, id| life.revert_resize(id).boxed_local();
    Case { definition: &revert_resize::DEFINITION, ..case(before, ask, "VERIFY_RESIZE", "ACTIVE") }
}

pub(super) fn confirming(before: Before) -> Case {
    let ask: Ask = |life, id| life.confirm_resize(id).boxed_local();
    Case { definition: &confirm_resize::DEFINITION, ..case(before, ask, "VERIFY_RESIZE", "ACTIVE") }
}

pub(super) fn migrating_live(before: Before) -> Case {
    let ask: Ask = |life, id| life.live_migrate(id).boxed_local();
    Case { definition: &live_migrate::DEFINITION, ..case(before, ask, "ACTIVE", "ACTIVE") }
}

pub(super) fn evacuating(before: Before) -> Case {
    let ask: Ask = |life, id| life.evacuate(id).boxed_local();
    Case { definition: &evacuate::DEFINITION, failed: "ERROR", ..case(before, ask, "ACTIVE", "ACTIVE") }
}

pub(super) fn unshelving(before: Before) -> Case {
    let ask: Ask = |life, id| life.unshelve(id).boxed_local();
    Case { definition: &unshelve::DEFINITION, ..case(before, ask, "SHELVED_OFFLOADED", "ACTIVE") }
}

pub(super) fn rebuilding(before: Before) -> Case {
    let ask: Ask = |life, id| life.rebuild(id, false).boxed_local();
    Case { definition: &rebuild::DEFINITION, failed: "ERROR", ..case(before, ask, "ACTIVE", "ACTIVE") }
}

pub(super) fn id(n: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(n))
}

pub(super) fn ledger<T>(life: &Life, read: impl FnOnce(&Ledger) -> T) -> T {
    life.context().views.placement.read(|view| read(&view.ledger))
}

/// Moves a server with one device between two hosts, and deletes it at the end. `resize` requests one device more.
/// `devices` reads the devices of the server's guests by host. A live migration is refused.
pub(super) async fn devices_follow_moves<T: Debug + PartialEq>(
    life: &Life,
    server: InstanceId,
    resize: Ask,
    devices: impl Fn() -> BTreeMap<usize, Vec<T>>,
) {
    let first = devices();
    assert!(first.len() == 1 && first.values().all(|devices| devices.len() == 1), "{first:?}");
    let source = *first.keys().next().unwrap();
    resize(life, server).await.unwrap();
    life.settled().await;
    let both = devices();
    assert_eq!((both[&source].len(), both[&(1 - source)].len()), (1, 2), "expected: 1 at the source, 2 at the target");
    life.revert_resize(server).await.unwrap();
    life.settled().await;
    assert_eq!(devices(), first, "the revert gave the server another device");

    life.migrate(server).await.unwrap();
    life.settled().await;
    life.confirm_resize(server).await.unwrap();
    life.settled().await;
    let target = devices();
    assert_eq!(target.keys().copied().collect::<Vec<_>>(), [1 - source]);
    life.live_migrate(server).await.unwrap();
    life.settled().await;
    assert_eq!(devices(), target, "a live migration must be refused");
    life.delete(server).await.unwrap();
    life.settled().await;
}
