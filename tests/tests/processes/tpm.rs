//! Guests with an emulated TPM: built, started, moved and deleted, with a crash after every append. At each end the
//! world's check requires that no host keeps a passphrase, and that every secret belongs to an existing server. A
//! simulated TPM starts only with the passphrase of its first start.

use std::sync::Arc;

use chronova_actors::process::{power, restore};
use chronova_events::ids::InstanceId;
use chronova_events::instance::PowerAction;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::{Life, World, build_request};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use uuid::Uuid;

use super::cases::{after, building, confirming, deleting, moving, reverting};
use super::{Ask, case, nothing};

fn build(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    async move {
        let mut request = build_request(id);
        let flavor = Arc::make_mut(&mut request.flavor);
        flavor.extra_specs = vec![("hw:tpm_version".to_owned(), "2.0".to_owned())];
        life.build_of(request).await
    }
    .boxed_local()
}

fn migrate(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.migrate(id).boxed_local()
}

fn built(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, nothing, build)
}

fn moved(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, built, migrate)
}

fn stopped(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built(life, id).await;
        life.power(id, PowerAction::Stop).await.unwrap();
    }
    .boxed_local()
}

fn suspended(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built(life, id).await;
        life.power(id, PowerAction::Suspend).await.unwrap();
    }
    .boxed_local()
}

fn soft_deleted(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, built, |life, id| life.soft_delete(id).boxed_local())
}

async fn prove_tpm(case: Case) {
    prove(&Case { tpm: true, ..case }).await;
}

#[actix_rt::test]
async fn build_of_a_guest_with_a_tpm_is_proven() {
    prove_tpm(building(build)).await;
}

#[actix_rt::test]
async fn starts_of_a_guest_with_a_tpm_are_proven() {
    let start: Ask = |life, id| life.power(id, PowerAction::Start).boxed_local();
    let case_of = |before, ask, from| Case { failed_after: &["ACTIVE"], ..case(before, ask, from, "ACTIVE") };
    prove_tpm(Case { definition: &power::DEFINITION, ..case_of(stopped, start, "SHUTOFF") }).await;
    let resume: Ask = |life, id| life.power(id, PowerAction::Resume).boxed_local();
    prove_tpm(Case { definition: &power::DEFINITION, ..case_of(suspended, resume, "SUSPENDED") }).await;
}

#[actix_rt::test]
async fn restore_of_a_guest_with_a_tpm_is_proven() {
    let ask: Ask = |life, id| life.restore(id).boxed_local();
    prove_tpm(Case { definition: &restore::DEFINITION, ..case(soft_deleted, ask, "SOFT_DELETED", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn cold_moves_of_a_guest_with_a_tpm_are_proven() {
    prove_tpm(moving(built, migrate)).await;
    prove_tpm(Case { one_storage: true, ..moving(built, migrate) }).await;
    prove_tpm(confirming(moved)).await;
    prove_tpm(reverting(moved)).await;
}

#[actix_rt::test]
async fn delete_of_a_guest_with_a_tpm_is_proven() {
    prove_tpm(deleting(built)).await;
}

/// The start of the guest fails, and then the first attempt to take the passphrase from the host fails, too.
#[actix_rt::test]
async fn no_host_keeps_a_passphrase_after_a_failed_start() {
    let id = InstanceId(Uuid::from_u128(0xCAFE));
    let world = World::with_tpms(2);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    built(&life, id).await;
    let source = life.host_of(&world, id).unwrap();
    life.migrate(id).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id), "VERIFY_RESIZE");
    let next = FaultTrigger::Nth(world.fleet.calls_of(source, DriverCall::DropPassphrase) + 1);
    let faults = FaultPlan::default().with(DriverCall::Install, FaultTrigger::Always, Effect::Refuse);
    world.fleet.set_faults(source, faults.with(DriverCall::DropPassphrase, next, Effect::Refuse));
    life.revert_resize(id).await.unwrap();
    life.settled().await;
    assert_eq!(world.fleet.struck().get(&Effect::Refuse), Some(&2), "not both calls were refused");
    assert_eq!(world.fleet.passphrases(), [], "a host keeps the passphrase of a TPM");
    life.stop().await;
}
