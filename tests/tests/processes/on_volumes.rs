//! Operations on servers with volumes as disks: images, rebuilds, rescues, and leaving their hosts.

use chronova_actors::process::{
    attach_volume, delete_instance, detach_volume, offload, rebuild, rescue, snapshot, unshelve,
};
use chronova_events::ids::InstanceId;
use chronova_events::instance::PowerAction;
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::Life;
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::{Ask, beside_a_volume, built_on_volumes, case, with_a_volume};

fn stopped_on_volumes(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built_on_volumes(life, id).await;
        life.power(id, PowerAction::Stop).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

pub(super) fn shelved_on_volumes(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built_on_volumes(life, id).await;
        life.shelve(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

pub(super) fn shelved_with_a_volume(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        with_a_volume(life, id).await;
        life.shelve(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

pub(super) fn offloaded_with_a_volume(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        shelved_with_a_volume(life, id).await;
        life.offload(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

fn offloaded_beside_a_volume(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        beside_a_volume(life, id).await;
        life.shelve(id).await.unwrap();
        life.settled().await;
        life.offload(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

#[actix_rt::test]
async fn snapshot_of_volumes_is_proven() {
    let ask: Ask = |life, id| async move { life.snapshot(id, None).await.map(drop) }.boxed_local();
    let definition = &snapshot::DEFINITION;
    prove(&Case { definition, ..case(built_on_volumes, ask, "ACTIVE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn rebuild_on_volumes_is_proven() {
    let ask: Ask = |life, id| life.rebuild(id, true).boxed_local();
    let definition = &rebuild::DEFINITION;
    prove(&Case { definition, failed: "ERROR", ..case(built_on_volumes, ask, "ACTIVE", "ACTIVE") }).await;
    prove(&Case { definition, failed: "ERROR", ..case(stopped_on_volumes, ask, "SHUTOFF", "SHUTOFF") }).await;
}

#[actix_rt::test]
async fn rescue_on_volumes_is_proven() {
    let ask: Ask = |life, id| life.rescue(id).boxed_local();
    prove(&Case { definition: &rescue::DEFINITION, ..case(built_on_volumes, ask, "ACTIVE", "RESCUE") }).await;
}

#[actix_rt::test]
async fn shelve_on_volumes_is_proven() {
    let ask: Ask = |life, id| life.shelve(id).boxed_local();
    let definition = &offload::DEFINITION;
    prove(&Case { definition, ..case(built_on_volumes, ask, "ACTIVE", "SHELVED_OFFLOADED") }).await;
}

#[actix_rt::test]
async fn offload_with_volumes_is_proven() {
    let ask: Ask = |life, id| life.offload(id).boxed_local();
    let definition = &offload::DEFINITION;
    prove(&Case { definition, ..case(shelved_with_a_volume, ask, "SHELVED", "SHELVED_OFFLOADED") }).await;
}

#[actix_rt::test]
async fn unshelve_with_volumes_is_proven() {
    let ask: Ask = |life, id| life.unshelve(id).boxed_local();
    let definition = &unshelve::DEFINITION;
    prove(&Case { definition, ..case(shelved_on_volumes, ask, "SHELVED_OFFLOADED", "ACTIVE") }).await;
    prove(&Case { definition, ..case(offloaded_with_a_volume, ask, "SHELVED_OFFLOADED", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn delete_during_unshelve_with_volumes_is_proven() {
    let ask: Ask = |life, id| {
        async move {
            life.unshelve(id).await?;
            life.delete(id).await
        }
        .boxed_local()
    };
    let (definition, half_asked): (_, &[&str]) = (&delete_instance::DEFINITION, &["ACTIVE"]);
    prove(&Case { definition, half_asked, ..case(shelved_on_volumes, ask, "SHELVED_OFFLOADED", "DELETED") }).await;
}

#[actix_rt::test]
async fn delete_during_shelving_on_volumes_is_proven() {
    let ask: Ask = |life, id| {
        async move {
            life.shelve(id).await?;
            life.delete(id).await
        }
        .boxed_local()
    };
    let (definition, half_asked): (_, &[&str]) = (&delete_instance::DEFINITION, &["SHELVED_OFFLOADED"]);
    prove(&Case { definition, half_asked, ..case(built_on_volumes, ask, "ACTIVE", "DELETED") }).await;
}

/// For a server without a host, no host is called, and the volume is still attached to the server.
#[actix_rt::test]
async fn attach_and_detach_without_a_host_are_proven() {
    let away = "SHELVED_OFFLOADED";
    let ask: Ask = |life, id| life.attach(id, 1).boxed_local();
    prove(&Case { definition: &attach_volume::DEFINITION, ..case(offloaded_beside_a_volume, ask, away, away) }).await;
    let ask: Ask = |life, id| life.detach(id, 1).boxed_local();
    prove(&Case { definition: &detach_volume::DEFINITION, ..case(offloaded_with_a_volume, ask, away, away) }).await;
}
