//! The log is lost with its backups, and the hosts go on. A new log leaves their guests alone, and can take them over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova::commands::adopt::AdoptionVerdict;
use chronova::commands::host::adopt::{
    AdoptionFacts, GuestAdoption, GuestAdoptionChoices, ToldImage, ToldInterface, ToldNetwork,
};
use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::flavor::{FlavorCatalogueId, FlavorRoot};
use chronova_actors::services::embedded::network::{NetworkCommand, NetworkRoot, SubnetGateway, SubnetRequest};
use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::envelope::{Meta, NewEvent, Position};
use chronova_events::flavor::{FlavorCreated, FlavorEvent};
use chronova_events::ids::{FlavorId, InstanceId, NetworkId, ProjectId, SubnetId};
use chronova_events::instance::{NicInfo, PowerAction};
use chronova_events::network::{NetworkCreated, NetworkSettings, ProviderAttributes};
use chronova_events::store::faulty::FuseStore;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore, Expected};
use chronova_hypervisor::guest::FilterSpec;
use chronova_hypervisor::sim::SimGuest;
use chronova_tests::services::OneImage;
use chronova_tests::world::{Life, Setting, World};
use uuid::Uuid;

use super::{built, id, kinds, resynced, started};

/// The same hosts and services under a new log.
fn under_a_new_log(lost: &World) -> World {
    let (fleet, network, images) = (Arc::clone(&lost.fleet), Arc::clone(&lost.network), Arc::clone(&lost.images));
    World { log: MemoryStore::new(), fleet, network, images, ..World::new(1) }
}

fn guests(world: &World) -> Vec<BTreeMap<InstanceId, SimGuest>> {
    (0..world.fleet.len()).map(|host| world.fleet.guests(host)).collect()
}

async fn judged(world: &World, choices: &GuestAdoptionChoices) -> GuestAdoption {
    GuestAdoption::judge(&*world.log, &world.fleet.drivers(), choices, SystemClock.now()).await.unwrap()
}

/// Adds the flavor of the tests' servers to the log.
async fn add_flavor(world: &World, memory_mib: u64) {
    let flavor = FlavorCreated {
        flavor: FlavorId::new("1"),
        name: "tiny".to_owned(),
        vcpus: 1,
        memory_mib,
        root_gib: 1,
        ephemeral_gib: 0,
        swap_mib: 0,
        rxtx_factor: 1.0,
        public: true,
        disabled: false,
        description: None,
    };
    let event = NewEvent::new(FlavorEvent::from(flavor), SystemClock.now(), &Meta::system("test"));
    world.log.append(&FlavorRoot::stream(&FlavorCatalogueId), Expected::Any, vec![event]).await.unwrap();
}

/// The facts that the definitions do not tell: the content of the image.
fn told() -> AdoptionFacts {
    let image = OneImage::snapshot();
    let told = ToldImage {
        name: image.name,
        checksum: image.checksum,
        format: image.format,
        size: image.size,
        virtual_size: None,
        properties: BTreeMap::new(),
    };
    AdoptionFacts { images: BTreeMap::from([(image.id, told)]), ..AdoptionFacts::default() }
}

/// The choices for a cloud whose network service still has the ports.
fn with_ports_elsewhere() -> GuestAdoptionChoices {
    let nic = |number: u8| {
        let network = Some(NetworkId(Uuid::nil()));
        let addresses = vec![format!("10.0.0.{number}/24")];
        (format!("fa:16:3e:00:00:{number:02x}"), ToldInterface { network, addresses, ..ToldInterface::default() })
    };
    let facts = AdoptionFacts { interfaces: BTreeMap::from([nic(2), nic(3)]), ..told() };
    GuestAdoptionChoices { facts, neutron: true, ..GuestAdoptionChoices::default() }
}

/// Two hosts with a running and a stopped server, and a new log, because the old log is lost. A control plane has
/// started on the new log, so that it knows the hosts.
async fn lost() -> World {
    let old = World::new(2);
    let life = started(&old).await;
    for server in [1, 2] {
        built(&life, id(server)).await;
    }
    life.power(id(2), PowerAction::Stop).await.unwrap();
    life.settled().await;
    life.stop().await;
    let world = under_a_new_log(&old);
    let before = guests(&world);
    let life = started(&world).await;
    resynced(&world, &life, 3).await;
    assert_eq!(guests(&world), before, "the new log changed guests that it does not know");
    assert_eq!(life.status(id(1)), "ABSENT");
    life.stop().await;
    world
}

#[actix_rt::test]
async fn guests_of_a_lost_log_are_left_alone_and_then_become_servers() {
    let world = lost().await;
    add_flavor(&world, 128).await;
    let before = guests(&world);
    let adoption = judged(&world, &with_ports_elsewhere()).await;
    assert!(adoption.report().is_clear(), "{}", adoption.report().json());
    assert_eq!(adoption.write(&*world.log, SystemClock.now()).await.unwrap(), 2);
    assert_eq!(guests(&world), before, "the adoption changed a guest");

    // A repetition finds nothing more to do.
    let head = world.log.head();
    let again = judged(&world, &with_ports_elsewhere()).await;
    assert_eq!(again.report().count(AdoptionVerdict::Skipped), 2, "{}", again.report().json());
    assert_eq!(again.write(&*world.log, SystemClock.now()).await.unwrap(), 0);
    assert_eq!(world.log.head(), head);

    let life = started(&world).await;
    resynced(&world, &life, 3).await;
    assert_eq!((life.status(id(1)), life.status(id(2))), ("ACTIVE", "SHUTOFF"));
    assert_eq!(guests(&world), before, "the new log changed a guest that it has adopted");
    world.check().await;
    life.power(id(2), PowerAction::Start).await.unwrap();
    life.settled().await;
    life.power(id(1), PowerAction::Stop).await.unwrap();
    life.settled().await;
    assert_eq!((life.status(id(1)), life.status(id(2))), ("SHUTOFF", "ACTIVE"), "{:?}", world.faults().await);
    life.migrate(id(2)).await.unwrap();
    life.settled().await;
    life.confirm_resize(id(2)).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(2)), "ACTIVE", "{:?}", world.faults().await);
    world.check().await;
    for server in [1, 2] {
        life.delete(id(server)).await.unwrap();
        life.settled().await;
    }
    assert!(world.fleet.whereabouts().is_empty(), "a deleted server has a guest");
    life.stop().await;
    world.check().await;
}

/// One guest whose server nobody can describe stops the whole adoption.
#[actix_rt::test]
async fn what_nobody_tells_stands_in_the_way() {
    let world = lost().await;
    let first = id(1).to_string();
    let head = world.log.head();
    let adoption = judged(&world, &GuestAdoptionChoices::default()).await;
    let reasons = adoption.report().reasons(&first).join("\n");
    let sizes = "its guest has 1 vCPUs, 128 MiB, a root disk of 1 GiB, 0 GiB ephemeral, 0 MiB swap";
    assert!(reasons.contains(&format!("the log has no flavor tiny ({sizes})")), "{reasons}");
    assert!(reasons.contains("the log has no image 00000000-0000-0000-0000-000000000000"), "{reasons}");
    assert!(!adoption.report().is_clear());
    assert_eq!(adoption.write(&*world.log, SystemClock.now()).await.unwrap(), 0);
    assert_eq!(world.log.head(), head, "an unclear adoption was written");
    // A flavor of the same name with other sizes is another flavor.
    add_flavor(&world, 64).await;
    let adoption = judged(&world, &with_ports_elsewhere()).await;
    assert!(!adoption.report().is_clear());
    let reasons = adoption.report().reasons(&first).join("\n");
    assert!(reasons.contains("the flavor tiny has other sizes than its guest"), "{reasons}");
}

/// The log fails at each append in turn, as in a crash. A repetition writes the rest, and nothing twice.
#[actix_rt::test]
async fn an_interrupted_adoption_continues() {
    let whole = lost().await;
    add_flavor(&whole, 128).await;
    let mut interruptions = 0;
    for fuse in 1..=6 {
        let world = under_a_new_log(&whole);
        for event in whole.log.read_all(Position::START, usize::MAX).await.unwrap() {
            let meta = Arc::clone(&event.meta);
            let copy = NewEvent {
                id: event.id,
                event: Arc::clone(event.event().unwrap()),
                recorded_at: event.recorded_at,
                meta,
            };
            world.log.append(&event.stream, Expected::Any, vec![copy]).await.unwrap();
        }
        let fused = FuseStore::new(Arc::clone(&world.log) as Arc<dyn EventStore>, Some(fuse));
        let first = judged(&world, &with_ports_elsewhere()).await;
        interruptions += usize::from(first.write(&*fused, SystemClock.now()).await.is_err());
        let second = judged(&world, &with_ports_elsewhere()).await;
        assert!(second.report().is_clear(), "{}", second.report().json());
        second.write(&*world.log, SystemClock.now()).await.unwrap();
        let kinds = kinds(&world).await;
        for kind in ["ledger.claimed", "quota.reserved", "instance.build_requested", "instance.adopted"] {
            assert_eq!(kinds.get(kind), Some(&2), "{kind} after a failure at append {fuse}");
        }
    }
    assert!(interruptions > 0, "no append failed");
}

const NETWORK: NetworkId = NetworkId(Uuid::from_u128(0xA));

async fn embedded(world: &World) -> Life {
    let life = world.begin(Setting { embedded_networks: true, ..Setting::default() }).await;
    life.hosts_up(world.fleet.len()).await;
    life
}

async fn network_says(life: &Life, command: NetworkCommand) {
    life.context().gateway.send::<NetworkRoot>(&NETWORK, command, Meta::system("test")).await.unwrap();
    life.settled().await;
}

fn nics(life: &Life) -> Vec<NicInfo> {
    life.instance_now(id(1)).alive().unwrap().nics.clone()
}

/// A host with a server on a network of the embedded service.
async fn on_an_embedded_network() -> (World, NicInfo) {
    let world = World::new(1);
    let life = embedded(&world).await;
    let settings = NetworkSettings { name: "private".to_owned(), ..NetworkSettings::default() };
    let provider =
        ProviderAttributes { network_type: "local".to_owned(), physical_network: None, segmentation_id: None };
    let project = ProjectId::new("p");
    let created = NetworkCreated {
        network: NETWORK,
        project: project.clone(),
        settings,
        provider,
        availability_zone_hints: vec![],
    };
    network_says(&life, NetworkCommand::Create(created)).await;
    let subnet = SubnetRequest {
        subnet: SubnetId(Uuid::from_u128(0xC)),
        project,
        name: String::new(),
        description: String::new(),
        cidr: "10.0.0.0/24".parse().unwrap(),
        gateway: SubnetGateway::Default,
        pools: None,
        dhcp: true,
        dns: vec![],
        host_routes: vec![],
        ipv6_address_mode: None,
        ipv6_ra_mode: None,
        tags: vec![],
    };
    network_says(&life, NetworkCommand::AddSubnet(subnet)).await;
    built(&life, id(1)).await;
    let nic = nics(&life).remove(0);
    life.stop().await;
    (world, nic)
}

/// The networks, filters and cached images of the first host.
#[derive(Debug, Clone, PartialEq)]
struct HostSurroundings {
    networks: BTreeSet<NetworkId>,
    filters: BTreeMap<String, FilterSpec>,
    images: BTreeSet<String>,
}

fn surroundings(world: &World) -> HostSurroundings {
    let fleet = &world.fleet;
    HostSurroundings { networks: fleet.networks(0), filters: fleet.filters(0), images: fleet.images(0) }
}

/// The hosts tell networks, ports and addresses to the embedded network service of the new log.
#[actix_rt::test]
async fn networks_and_ports_come_back_from_the_hosts() {
    let (old, nic) = on_an_embedded_network().await;
    let world = under_a_new_log(&old);
    let (around, before) = (surroundings(&world), guests(&world));
    assert!(!around.filters.is_empty() && around.networks.contains(&NETWORK) && !around.images.is_empty());
    let life = embedded(&world).await;
    resynced(&world, &life, 3).await;
    life.stop().await;
    assert_eq!((surroundings(&world), guests(&world)), (around.clone(), before.clone()));
    add_flavor(&world, 128).await;
    let mut choices = GuestAdoptionChoices { facts: told(), ..GuestAdoptionChoices::default() };
    let adoption = judged(&world, &choices).await;
    assert_eq!(adoption.report().reasons(&NETWORK.to_string()), ["the log does not have it"]);
    let network = ToldNetwork { name: "private".to_owned(), project: "p".to_owned(), shared: false };
    choices.facts.networks.insert(NETWORK, network);
    let adoption = judged(&world, &choices).await;
    let reasons = adoption.report().reasons(&id(1).to_string()).join("\n");
    assert!(reasons.contains("the security groups of its interface"), "{reasons}");
    choices.without_port_security = true;
    let adoption = judged(&world, &choices).await;
    assert!(adoption.report().is_clear(), "{}", adoption.report().json());
    assert_eq!(adoption.write(&*world.log, SystemClock.now()).await.unwrap(), 1);

    let life = embedded(&world).await;
    resynced(&world, &life, 3).await;
    assert_eq!(life.status(id(1)), "ACTIVE");
    let found = nics(&life).remove(0);
    assert_eq!((found.port, found.network, &found.mac), (nic.port, NETWORK, &nic.mac));
    assert_eq!((&found.network_label, &found.fixed_ips), (&nic.network_label, &nic.fixed_ips));
    assert_eq!((surroundings(&world), guests(&world)), (around, before), "the guest or its surroundings changed");
    for (action, status) in [(PowerAction::Stop, "SHUTOFF"), (PowerAction::Start, "ACTIVE")] {
        life.power(id(1), action).await.unwrap();
        life.settled().await;
        assert_eq!(life.status(id(1)), status, "{:?}", world.faults().await);
    }
    life.delete(id(1)).await.unwrap();
    life.settled().await;
    assert!(world.fleet.whereabouts().is_empty());
    life.stop().await;
    world.check().await;
}
