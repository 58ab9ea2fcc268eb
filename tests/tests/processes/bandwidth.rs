//! Servers with ports that request bandwidth, with a crash after every append. At each end the world's check requires
//! that every server has the bandwidth of its ports on its host, and that the bindings name the provider.

use chronova_actors::aggregate::CommandError;
use chronova_actors::ledger::{CELL, LedgerCommand, LedgerRoot, Reserve, ServerClaim};
use chronova_actors::operations::heal_allocations::{HealReject, HealRequest, HealedServer};
use chronova_actors::ports::PortError;
use chronova_actors::process::{attach_interface, detach_interface};
use chronova_events::envelope::Meta;
use chronova_events::ids::{ConsumerId, InstanceId, ProjectId, ProviderId, UserId};
use chronova_events::instance::PowerAction;
use chronova_events::ledger::{Allocation, Claimed, Inventory};
use chronova_tests::bandwidth::{CLASS, KILOBITS, bridge_of, held, port};
use chronova_tests::gpus::request_with_specs;
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::{Life, World};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::cases::{
    after, building, deleting, evacuating, id, ledger, migrating_live, moving, offloaded_after, reverting, unshelving,
};
use super::{Ask, case};

fn bridged(life: &Life, _: InstanceId) -> LocalBoxFuture<'_, ()> {
    life.add_bridges(2 * KILOBITS).boxed_local()
}

fn build(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.build_with_bandwidth(id, port(1)).boxed_local()
}

fn attach(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.attach_bandwidth(id, port(1)).boxed_local()
}

fn migrate(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.migrate(id).boxed_local()
}

/// A server with a port that requests bandwidth.
fn built(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, bridged, build)
}

/// A server with an ordinary port.
fn plain(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, bridged, |life, id| life.build(id).boxed_local())
}

fn attached(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, plain, attach)
}

fn moved(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, built, migrate)
}

fn offloaded(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    offloaded_after(life, id, built)
}

#[actix_rt::test]
async fn build_with_bandwidth_is_proven() {
    prove(&Case { before: bridged, ..building(build) }).await;
}

#[actix_rt::test]
async fn delete_with_bandwidth_is_proven() {
    prove(&deleting(built)).await;
}

#[actix_rt::test]
async fn attachment_of_a_port_with_bandwidth_is_proven() {
    let case = case(plain, attach, "ACTIVE", "ACTIVE");
    prove(&Case { definition: &attach_interface::DEFINITION, ..case }).await;
}

#[actix_rt::test]
async fn detachment_of_a_port_with_bandwidth_is_proven() {
    let ask: Ask = |life, id| life.detach_nic(id).boxed_local();
    prove(&Case { definition: &detach_interface::DEFINITION, ..case(attached, ask, "ACTIVE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn migration_with_bandwidth_is_proven() {
    prove(&moving(built, migrate)).await;
}

#[actix_rt::test]
async fn revert_with_bandwidth_is_proven() {
    prove(&reverting(moved)).await;
}

#[actix_rt::test]
async fn evacuation_with_bandwidth_is_proven() {
    prove(&evacuating(built)).await;
}

#[actix_rt::test]
async fn unshelving_with_bandwidth_is_proven() {
    prove(&unshelving(offloaded)).await;
}

#[actix_rt::test]
async fn live_migration_with_bandwidth_is_proven() {
    prove(&migrating_live(built)).await;
}

/// Two hosts have bandwidth for two ports each.
#[actix_rt::test]
async fn ports_get_bandwidth_of_their_host_as_long_as_it_lasts() {
    let world = World::new(2);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    life.add_bridges(2 * KILOBITS).await;
    for n in 1..=5 {
        life.build_with_bandwidth(id(u128::from(n)), port(n)).await.unwrap();
        life.settled().await;
    }
    let status: Vec<&str> = (1..=5).map(|n| life.status(id(n))).collect();
    assert_eq!(status, ["ACTIVE", "ACTIVE", "ACTIVE", "ACTIVE", "ERROR"]);
    assert!(life.fault(id(5)).starts_with("No valid host was found."), "{}", life.fault(id(5)));
    // The host of a server has no bandwidth left for one more port.
    life.attach_bandwidth(id(1), port(6)).await.unwrap();
    life.settled().await;
    let consumer = ConsumerId::new(id(1).to_string());
    let host = ProviderId(world.fleet.uri().host_id(life.host_of(&world, id(1)).unwrap()).0);
    assert_eq!(ledger(&life, |ledger| held(ledger, &consumer)), [(bridge_of(host), KILOBITS)]);
    // After another server on this host is deleted, the host has bandwidth for the port.
    let neighbour = (2..=4).map(id).find(|other| life.host_of(&world, *other) == life.host_of(&world, id(1))).unwrap();
    life.delete(neighbour).await.unwrap();
    life.settled().await;
    life.attach_bandwidth(id(1), port(6)).await.unwrap();
    life.settled().await;
    assert_eq!(ledger(&life, |ledger| held(ledger, &consumer)), [(bridge_of(host), 2 * KILOBITS)]);
    life.detach_nic(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!(ledger(&life, |ledger| held(ledger, &consumer)), [(bridge_of(host), KILOBITS)]);
    let used = ledger(&life, |ledger| ledger.providers[&bridge_of(host)].inventories[CLASS].used);
    assert_eq!(used, KILOBITS);
    life.stop().await;
    world.check().await;
}

/// `placement heal_allocations`: the bindings of the ports name the providers.
#[actix_rt::test]
async fn a_heal_gives_ports_their_bandwidth_back() {
    let world = World::new(1);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    life.add_bridges(2 * KILOBITS).await;
    life.build_with_bandwidth(id(1), port(1)).await.unwrap();
    life.settled().await;
    let consumer = ConsumerId::new(id(1).to_string());
    let before = ledger(&life, |ledger| ledger.consumers[&consumer].claim.allocations.clone());
    let lose = async || {
        let release = LedgerCommand::Release { consumer: consumer.clone() };
        let sent = life.context().gateway.send::<LedgerRoot>(&CELL, release, Meta::system("test")).await;
        let position = sent.unwrap().position;
        life.until(|context| context.views.position() >= position).await;
    };
    let heal = async |request: HealRequest| {
        let healed = life.operations().heal_allocations(id(1), request, Meta::system("test")).await;
        let (healed, position) = healed.unwrap();
        life.until(|context| context.views.position() >= position).await;
        healed
    };
    lose().await;
    assert_eq!(heal(HealRequest::default()).await, HealedServer::Created(before.clone()));
    let forced = heal(HealRequest { force: true, ..HealRequest::default() }).await;
    assert_eq!(forced, HealedServer::Updated(before.clone()), "a forced heal keeps the bandwidth");
    assert_eq!(heal(HealRequest::default()).await, HealedServer::UpToDate);
    lose().await;
    let HealedServer::Created(without) = heal(HealRequest { skips_ports: true, ..HealRequest::default() }).await else {
        panic!("nothing was healed")
    };
    assert_eq!(without.len() + 1, before.len(), "the bandwidth was to be left out");
    heal(HealRequest { force: true, ..HealRequest::default() }).await;

    // A task may claim or release allocations itself, so a server in a task is not healed.
    lose().await;
    world.brakes.hold("stop");
    life.power(id(1), PowerAction::Stop).await.unwrap();
    world.brakes.reached("stop").await;
    assert_eq!(heal(HealRequest::default()).await, HealedServer::InTask("powering-off"));
    world.brakes.release("stop");
    life.settled().await;
    assert_eq!(heal(HealRequest::default()).await, HealedServer::Created(before));
    life.stop().await;
    world.check().await;
}

async fn tell(life: &Life, command: LedgerCommand) {
    let sent = life.context().gateway.send::<LedgerRoot>(&CELL, command, Meta::system("test")).await;
    let position = sent.unwrap().position;
    life.until(|context| context.views.position() >= position).await;
}

/// A claim of another consumer.
fn claim(consumer: &str, provider: ProviderId, class: &str, amount: u64) -> LedgerCommand {
    let claim = Claimed {
        consumer: ConsumerId::new(consumer),
        project: ProjectId::new("other"),
        user: UserId::new("other"),
        consumer_type: None,
        allocations: vec![Allocation { provider, resources: vec![(class.to_owned(), amount)] }],
    };
    LedgerCommand::ClaimAll { claims: vec![ServerClaim { claim, group: None, guest: None }] }
}

/// `placement heal_allocations` of a port whose binding names no provider: the heal makes the binding name the only
/// provider that fits. If the claim is refused, the binding names no provider again.
#[actix_rt::test]
async fn a_heal_names_the_only_provider_that_fits_a_port() {
    let world = World::new(1);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    life.add_bridges(2 * KILOBITS).await;
    life.build_with_bandwidth(id(1), port(1)).await.unwrap();
    life.settled().await;
    let consumer = ConsumerId::new(id(1).to_string());
    let before = ledger(&life, |ledger| ledger.consumers[&consumer].claim.allocations.clone());
    let (bridge, nobody) = (world.network.given_to(port(1)), Meta::system("test"));
    assert!(bridge.is_some());
    tell(&life, LedgerCommand::Release { consumer: consumer.clone() }).await;
    life.context().networks.name_providers(&[(port(1), None)], &nobody).await.unwrap();
    let heal = async |request: HealRequest| {
        let healed = life.operations().heal_allocations(id(1), request, Meta::system("test")).await;
        if let Ok((_, position)) = &healed {
            let position = *position;
            life.until(|context| context.views.position() >= position).await;
        }
        healed.map(|(healed, _)| healed)
    };
    let dry = heal(HealRequest { dry_run: true, ..HealRequest::default() }).await.unwrap();
    assert_eq!((dry, world.network.given_to(port(1))), (HealedServer::Created(before.clone()), None));

    // The network service does not answer questions about ports. A heal that skips ports does not ask the network
    // service.
    world.network.hide_requests(true);
    let unread = heal(HealRequest::default()).await;
    assert!(matches!(unread, Err(HealReject::Ports(PortError::Unavailable(_)))), "{unread:?}");
    let alone = heal(HealRequest { skips_ports: true, dry_run: true, ..HealRequest::default() }).await;
    assert!(matches!(alone, Ok(HealedServer::Created(_))), "{alone:?}");
    world.network.hide_requests(false);
    // The network service refuses to change the binding.
    world.network.limit_namings(Some(0));
    let unnamed = heal(HealRequest::default()).await;
    assert!(matches!(unnamed, Err(HealReject::PortsNotUpdated(_))), "{unnamed:?}");
    world.network.limit_namings(None);

    // Others have all processors of the host, so the claim is refused after the binding was written.
    let root = ledger(&life, |ledger| ledger.providers.values().find(|known| known.parent.is_none()).unwrap().id);
    let mut others = Vec::new();
    loop {
        let amount = ledger(&life, |ledger| {
            let line = &ledger.providers[&root].inventories["VCPU"];
            line.free().min(line.inventory.max_unit)
        });
        if amount == 0 {
            break;
        }
        let other = id(100 + u128::try_from(others.len()).unwrap()).to_string();
        tell(&life, claim(&other, root, "VCPU", amount)).await;
        others.push(other);
    }
    let refused = heal(HealRequest::default()).await;
    assert!(matches!(refused, Err(HealReject::Ledger(CommandError::Rejected(_)))), "{refused:?}");
    assert_eq!(world.network.given_to(port(1)), None, "the binding names a provider that gives nothing");
    // The network service accepts the provider's name, but then refuses to remove it.
    world.network.limit_namings(Some(1));
    let named = heal(HealRequest::default()).await;
    let Err(HealReject::PortsNotRestored { ports, .. }) = &named else { panic!("{named:?}") };
    assert_eq!(*ports, port(1).to_string());
    world.network.limit_namings(None);
    life.context().networks.name_providers(&[(port(1), None)], &nobody).await.unwrap();
    for other in others {
        tell(&life, LedgerCommand::Release { consumer: ConsumerId::new(other) }).await;
    }

    // With a second bridge, nobody knows which one the port uses.
    let second = ProviderId::derive(root.0, "second");
    let inventories = ledger(&life, |ledger| {
        let lines = ledger.providers[&bridge_of(root)].inventories.values();
        lines.map(|line| line.inventory.clone()).collect::<Vec<_>>()
    });
    let name = format!("{root}:second");
    tell(&life, LedgerCommand::CreateProvider { provider: second, name, parent: Some(root) }).await;
    let set = |inventories| LedgerCommand::SetInventories {
        provider: second,
        generation: None,
        inventories,
        reserve: Reserve::All,
    };
    tell(&life, set(inventories.clone())).await;
    assert!(matches!(heal(HealRequest::default()).await, Err(HealReject::NestedResources("port"))));
    tell(&life, set(Vec::new())).await;

    assert_eq!(heal(HealRequest::default()).await.unwrap(), HealedServer::Created(before.clone()));
    assert_eq!(world.network.given_to(port(1)), bridge);

    // The server's own allocations say which bridge it is.
    tell(&life, set(inventories)).await;
    life.context().networks.name_providers(&[(port(1), None)], &nobody).await.unwrap();
    let forced = heal(HealRequest { force: true, ..HealRequest::default() }).await.unwrap();
    assert_eq!(forced, HealedServer::Updated(before));
    assert_eq!(world.network.given_to(port(1)), bridge);
    life.stop().await;
    world.check().await;
}

/// As in Nova, `placement heal_allocations` does not heal resources of a provider below the host, except those of ports.
#[actix_rt::test]
async fn a_heal_takes_no_resources_of_a_provider_below_the_host() {
    let world = World::new(1);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let root = ledger(&life, |ledger| ledger.providers.values().find(|known| known.parent.is_none()).unwrap().id);
    let (card, class) = (ProviderId::derive(root.0, "card"), "CUSTOM_SLOT");
    let slots = Inventory {
        class: class.to_owned(),
        total: 4,
        reserved: 0,
        min_unit: 1,
        max_unit: 4,
        step_size: 1,
        allocation_ratio: 1.0,
    };
    tell(&life, LedgerCommand::CreateClass { name: class.to_owned() }).await;
    let name = format!("{root}:card");
    tell(&life, LedgerCommand::CreateProvider { provider: card, name, parent: Some(root) }).await;
    let set = LedgerCommand::SetInventories {
        provider: card,
        generation: None,
        inventories: vec![slots],
        reserve: Reserve::All,
    };
    tell(&life, set).await;
    life.build_of(request_with_specs(id(1), &[("resources:CUSTOM_SLOT", "1")])).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(1)), "ACTIVE", "{}", life.fault(id(1)));
    let consumer = ConsumerId::new(id(1).to_string());
    let is_on_card = |ledger: &chronova_events::ledger::Ledger| {
        ledger.consumers[&consumer].claim.allocations.iter().any(|held| held.provider == card)
    };
    assert!(ledger(&life, is_on_card), "the card gives nothing");
    tell(&life, LedgerCommand::Release { consumer: consumer.clone() }).await;
    let healed = life.operations().heal_allocations(id(1), HealRequest::default(), Meta::system("test")).await;
    assert!(matches!(healed, Err(HealReject::Ledger(CommandError::Rejected(_)))), "{healed:?}");
    assert!(ledger(&life, |ledger| !ledger.consumers.contains_key(&consumer)), "a part is healed");
    life.stop().await;
}
