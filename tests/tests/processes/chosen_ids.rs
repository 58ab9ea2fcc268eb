//! The processes on volumes with a service that chooses ids itself, as Cinder does.

use chronova_actors::process::{
    attach_volume, build_instance, delete_instance, detach_volume, offload, refresh_volume, swap_volume, unshelve,
};
use chronova_tests::process_harness::{Case, prove};
use futures::FutureExt;

use super::on_volumes::{offloaded_with_a_volume, shelved_on_volumes, shelved_with_a_volume, stopped_with_a_volume};
use super::{Ask, beside_a_volume, built_on_volumes, case, nothing, with_a_volume, with_two_volumes};

/// A case whose volume service chooses ids.
fn chosen(case: &Case) -> Case {
    Case { choosing_volumes: true, ..*case }
}

#[actix_rt::test]
async fn build_with_chosen_ids_is_proven() {
    let ask: Ask = |life, id| life.build_on_volumes(id).boxed_local();
    let definition = &build_instance::DEFINITION;
    prove(&chosen(&Case { definition, failed: "ERROR", ..case(nothing, ask, "ABSENT", "ACTIVE") })).await;
}

#[actix_rt::test]
async fn delete_with_chosen_ids_is_proven() {
    let ask: Ask = |life, id| life.delete(id).boxed_local();
    let definition = &delete_instance::DEFINITION;
    prove(&chosen(&Case { definition, ..case(built_on_volumes, ask, "ACTIVE", "DELETED") })).await;
}

#[actix_rt::test]
async fn attach_with_chosen_ids_is_proven() {
    let ask: Ask = |life, id| life.attach(id, 1).boxed_local();
    let definition = &attach_volume::DEFINITION;
    prove(&chosen(&Case { definition, ..case(beside_a_volume, ask, "ACTIVE", "ACTIVE") })).await;
}

#[actix_rt::test]
async fn detach_with_chosen_ids_is_proven() {
    let ask: Ask = |life, id| life.detach(id, 1).boxed_local();
    let definition = &detach_volume::DEFINITION;
    prove(&chosen(&Case { definition, ..case(with_a_volume, ask, "ACTIVE", "ACTIVE") })).await;
}

#[actix_rt::test]
async fn swap_with_chosen_ids_is_proven() {
    let ask: Ask = |life, id| life.swap(id, 1, 2).boxed_local();
    let definition = &swap_volume::DEFINITION;
    prove(&chosen(&Case { definition, ..case(with_two_volumes, ask, "ACTIVE", "ACTIVE") })).await;
}

#[actix_rt::test]
async fn refresh_with_chosen_ids_is_proven() {
    let ask: Ask = |life, id| life.refresh(id).boxed_local();
    let definition = &refresh_volume::DEFINITION;
    prove(&chosen(&Case { definition, ..case(stopped_with_a_volume, ask, "SHUTOFF", "SHUTOFF") })).await;
}

#[actix_rt::test]
async fn offload_and_unshelve_with_chosen_ids_are_proven() {
    let ask: Ask = |life, id| life.offload(id).boxed_local();
    let definition = &offload::DEFINITION;
    prove(&chosen(&Case { definition, ..case(shelved_with_a_volume, ask, "SHELVED", "SHELVED_OFFLOADED") })).await;
    let ask: Ask = |life, id| life.unshelve(id).boxed_local();
    let definition = &unshelve::DEFINITION;
    prove(&chosen(&Case { definition, ..case(shelved_on_volumes, ask, "SHELVED_OFFLOADED", "ACTIVE") })).await;
    prove(&chosen(&Case { definition, ..case(offloaded_with_a_volume, ask, "SHELVED_OFFLOADED", "ACTIVE") })).await;
}
