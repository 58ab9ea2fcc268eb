//! Guests with virtual GPUs: built, moved and reverted, with a crash after every append. At each end the world's check
//! requires that every guest has the virtual GPUs that the ledger has allocated.

use std::collections::BTreeSet;

use chronova_actors::instance::creation::CreateServersRequest;
use chronova_actors::ledger::{CELL, LedgerCommand, LedgerRoot};
use chronova_actors::mdev::provider_name;
use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, ProviderId};
use chronova_events::instance::PowerAction;
use chronova_events::ledger::Ledger;
use chronova_tests::creation::create_request;
use chronova_tests::gpus::{gpus, request_with_specs};
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::{Life, World};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::cases::{
    after, building, confirming, deleting, devices_follow_moves, evacuating, id, ledger, moving, offloaded_after,
    reverting, unshelving,
};
use super::nothing;

fn build(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.build_with_gpus(id, 1).boxed_local()
}

fn resize(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.resize_with_gpus(id).boxed_local()
}

fn built(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, nothing, build)
}

fn resized(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, built, resize)
}

fn offloaded(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    offloaded_after(life, id, built)
}

async fn prove_with_gpus(case: Case) {
    prove(&Case { gpus: true, ..case }).await;
}

#[actix_rt::test]
async fn build_with_a_virtual_gpu_is_proven() {
    prove_with_gpus(building(build)).await;
}

#[actix_rt::test]
async fn delete_of_a_guest_with_a_virtual_gpu_is_proven() {
    prove_with_gpus(deleting(built)).await;
}

#[actix_rt::test]
async fn resize_of_a_guest_with_a_virtual_gpu_is_proven() {
    prove_with_gpus(moving(built, resize)).await;
}

#[actix_rt::test]
async fn revert_of_a_resize_with_virtual_gpus_is_proven() {
    prove_with_gpus(reverting(resized)).await;
}

#[actix_rt::test]
async fn confirmation_of_a_resize_with_virtual_gpus_is_proven() {
    prove_with_gpus(confirming(resized)).await;
}

#[actix_rt::test]
async fn evacuation_of_a_guest_with_a_virtual_gpu_is_proven() {
    prove_with_gpus(evacuating(built)).await;
}

#[actix_rt::test]
async fn unshelving_of_a_guest_with_a_virtual_gpu_is_proven() {
    prove_with_gpus(unshelving(offloaded)).await;
}

/// The provider of a physical GPU; the first one is at 0000:80:00.0.
fn gpu_of(world: &World, life: &Life, host: usize, address: &str) -> ProviderId {
    let name = provider_name(&world.fleet.hostname(host), address.parse().unwrap());
    ledger(life, |ledger| ledger.named(&name)).unwrap()
}

fn used(life: &Life, gpu: ProviderId) -> u64 {
    ledger(life, |ledger| ledger.providers[&gpu].inventories["VGPU"].used)
}

#[actix_rt::test]
async fn virtual_gpus_follow_their_server() {
    let world = World::with_gpus(2, "nvidia-35*3");
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    life.build_with_gpus(id(1), 1).await.unwrap();
    life.settled().await;
    let first = gpus(&world.fleet, id(1));
    let source = *first.keys().next().unwrap();
    assert_eq!(first[&source].len(), 1, "{first:?}");
    assert_eq!(used(&life, gpu_of(&world, &life, source, "0000:80:00.0")), 1);

    // The guest keeps its virtual GPU.
    life.power(id(1), PowerAction::Stop).await.unwrap();
    life.settled().await;
    life.power(id(1), PowerAction::Start).await.unwrap();
    life.settled().await;
    life.rescue(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!((life.status(id(1)), gpus(&world.fleet, id(1))), ("RESCUE", first.clone()));
    life.unrescue(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!((life.status(id(1)), gpus(&world.fleet, id(1))), ("ACTIVE", first.clone()));

    life.power(id(1), PowerAction::Suspend).await.unwrap();
    life.settled().await;
    assert_eq!((life.status(id(1)), gpus(&world.fleet, id(1))), ("SUSPENDED", first.clone()));
    life.power(id(1), PowerAction::Resume).await.unwrap();
    life.settled().await;
    assert_eq!((life.status(id(1)), gpus(&world.fleet, id(1))), ("ACTIVE", first.clone()));

    devices_follow_moves(&life, id(1), resize, || gpus(&world.fleet, id(1))).await;
    for host in [0, 1] {
        assert_eq!(used(&life, gpu_of(&world, &life, host, "0000:80:00.0")), 0, "a server still has a virtual GPU");
    }
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn one_physical_gpu_serves_all_of_a_request() {
    let world = World::with_gpus(1, "nvidia-35*4,nvidia-35*4");
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    life.build_with_gpus(id(1), 5).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(1)), "ERROR", "no GPU has five");
    assert!(life.fault(id(1)).starts_with("No valid host was found."), "{}", life.fault(id(1)));
    for n in [2, 3] {
        life.build_with_gpus(id(n), 4).await.unwrap();
    }
    life.settled().await;
    assert_eq!((life.status(id(2)), life.status(id(3))), ("ACTIVE", "ACTIVE"));
    let parents = [2, 3].map(|n| gpus(&world.fleet, id(n))[&0][0].parent.to_string());
    assert!(
        parents.contains(&"0000:80:00.0".to_owned()) && parents.contains(&"0000:81:00.0".to_owned()),
        "{parents:?}"
    );
    life.build_with_gpus(id(4), 1).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(4)), "ERROR", "all virtual GPUs are taken");
    life.stop().await;
    world.check().await;
}

/// The claims of one request are one command. The second decision must see the first one, which no view shows yet.
#[actix_rt::test]
async fn servers_of_one_request_get_different_gpus() {
    let world = World::with_gpus(1, "nvidia-35*4,nvidia-35*4");
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let template = request_with_specs(id(0), &[("resources:VGPU", "4")]);
    let created = life.create(CreateServersRequest { template, ..create_request(2) }).await.unwrap();
    life.settled().await;
    let parents: BTreeSet<String> =
        created.iter().map(|id| gpus(&world.fleet, *id)[&0][0].parent.to_string()).collect();
    assert_eq!(parents.len(), 2, "{parents:?}");
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_trait_of_a_gpu_selects_it() {
    let world = World::with_gpus(1, "nvidia-35*4,nvidia-35*4");
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let (provider, name) = (gpu_of(&world, &life, 0, "0000:81:00.0"), "CUSTOM_NVIDIA_11".to_owned());
    let traits = vec![name.clone()];
    for command in
        [LedgerCommand::CreateTrait { name }, LedgerCommand::SetTraits { provider, generation: None, traits }]
    {
        life.context().gateway.send::<LedgerRoot>(&CELL, command, Meta::system("test")).await.unwrap();
    }
    let specs = [("resources:VGPU", "1"), ("trait:CUSTOM_NVIDIA_11", "required")];
    life.build_of(request_with_specs(id(1), &specs)).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(1)), "ACTIVE");
    assert_eq!(gpus(&world.fleet, id(1))[&0][0].parent.to_string(), "0000:81:00.0");
    // The driver chooses the model of the guest's CPU by the traits that it gets, so it gets those of all groups.
    let grouped = [("resources1:VGPU", "1"), ("trait1:CUSTOM_NVIDIA_11", "required")];
    life.build_of(request_with_specs(id(2), &grouped)).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(2)), "ACTIVE", "{}", life.fault(id(2)));
    assert_eq!(gpus(&world.fleet, id(2))[&0][0].parent.to_string(), "0000:81:00.0");
    for n in [1, 2] {
        let given = world.brakes.guest(id(n)).unwrap().hardware;
        let wanted = ("trait:CUSTOM_NVIDIA_11".to_owned(), "required".to_owned());
        assert!(given.contains(&wanted), "server {n}: {given:?}");
    }
    life.stop().await;
    world.check().await;
}

/// The GPU already has virtual GPUs of the old type, so it can have none of the new type.
#[actix_rt::test]
async fn another_type_finds_no_room_beside_the_old_one() {
    let world = World::with_gpus(1, "nvidia-35*4/nvidia-36*2");
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    life.build_with_gpus(id(1), 1).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(1)), "ACTIVE");
    life.stop().await;
    let world = world.offering_gpus("nvidia-36");
    let life = world.live(None, None).await;
    let total = |ledger: &Ledger, gpu: ProviderId| ledger.providers[&gpu].inventories["VGPU"].inventory.total;
    life.hosts_up(1).await;
    let gpu = gpu_of(&world, &life, 0, "0000:80:00.0");
    life.until(|context| context.views.placement.read(|view| total(&view.ledger, gpu) == 1)).await;
    life.build_with_gpus(id(2), 1).await.unwrap();
    life.settled().await;
    assert_eq!((life.status(id(1)), life.status(id(2))), ("ACTIVE", "ERROR"));
    assert!(life.fault(id(2)).starts_with("No valid host was found."), "{}", life.fault(id(2)));
    life.stop().await;
}
