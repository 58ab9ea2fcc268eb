//! Packet filters of running guests follow their security groups, on the embedded network service.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use chronova_actors::services::embedded::network::security_group::{SecurityGroupCommand, SecurityGroupRoot};
use chronova_actors::services::embedded::network::{
    NetworkCommand, NetworkRoot, PortPatch, SubnetGateway, SubnetRequest,
};
use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProjectId, SecurityGroupId, SecurityGroupRuleId, SubnetId};
use chronova_events::instance::PowerAction;
use chronova_events::network::{NetworkCreated, NetworkSettings, ProviderAttributes};
use chronova_events::security_group::{
    Direction, Ethertype, GroupCreated, GroupSettings, RuleAdded, RuleTraffic, default_group,
};
use chronova_hypervisor::guest::{FilterSpec, NetworkSpec};
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::world::{Life, Setting, World, build_request};
use uuid::Uuid;

fn id(n: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(n))
}

fn project() -> ProjectId {
    ProjectId::new("p")
}

const NETWORK: NetworkId = NetworkId(Uuid::from_u128(0xA));
const WEB: SecurityGroupId = SecurityGroupId(Uuid::from_u128(0xB));

/// A life on the embedded network service.
async fn life(world: &World) -> Life {
    let life = world.begin(Setting { embedded_networks: true, ..Setting::default() }).await;
    life.hosts_up(world.fleet.len()).await;
    life
}

/// A world with one host and one network, and its first life.
async fn begun() -> (World, Life) {
    let world = World::new(1);
    let life = begun_in(&world).await;
    (world, life)
}

/// The first life of a world, with one network.
async fn begun_in(world: &World) -> Life {
    let life = life(world).await;
    let settings = NetworkSettings { name: "private".to_owned(), ..NetworkSettings::default() };
    let provider =
        ProviderAttributes { network_type: "local".to_owned(), physical_network: None, segmentation_id: None };
    let network = NETWORK;
    let created = NetworkCreated { network, project: project(), settings, provider, availability_zone_hints: vec![] };
    network_says(&life, NetworkCommand::Create(created)).await;
    let subnet = SubnetRequest {
        subnet: SubnetId(Uuid::from_u128(0xC)),
        project: project(),
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
    life
}

async fn network_says(life: &Life, command: NetworkCommand) {
    life.context().gateway.send::<NetworkRoot>(&NETWORK, command, Meta::system("test")).await.unwrap();
    life.settled().await;
}

async fn groups_say(life: &Life, command: SecurityGroupCommand) {
    life.context().gateway.send::<SecurityGroupRoot>(&project(), command, Meta::system("test")).await.unwrap();
}

/// Adds a rule that allows TCP to `port`, from anywhere or from the members of a group.
async fn let_in(life: &Life, group: SecurityGroupId, port: u16, remote_group: Option<SecurityGroupId>) {
    let traffic = RuleTraffic {
        direction: Direction::Ingress,
        ethertype: Ethertype::Ipv4,
        protocol: Some("tcp".to_owned()),
        port_min: Some(port),
        port_max: Some(port),
        remote_prefix: None,
        remote_group,
    };
    let rule = RuleAdded { rule: rule_for(port), group, project: project(), description: String::new(), traffic };
    groups_say(life, SecurityGroupCommand::AddRules { rules: vec![rule], limit: -1 }).await;
}

fn rule_for(port: u16) -> SecurityGroupRuleId {
    SecurityGroupRuleId(Uuid::from_u128(port.into()))
}

async fn make_web(life: &Life) {
    let settings = GroupSettings { name: "web".to_owned(), description: String::new(), stateful: true, tags: vec![] };
    let created = GroupCreated { group: WEB, project: project(), settings };
    groups_say(life, SecurityGroupCommand::Create { created, limit: -1 }).await;
}

async fn change_port(life: &Life, server: u128, patch: PortPatch) {
    network_says(life, NetworkCommand::ChangePort { port: port_of(server), patch }).await;
}

fn port_of(server: u128) -> PortId {
    PortId::derive(id(server).0, "port-0")
}

async fn built(life: &Life, server: u128) {
    life.build(id(server)).await.unwrap();
    assert!(life.settled().await);
    assert_eq!(life.status(id(server)), "ACTIVE", "{}", life.fault(id(server)));
}

fn filter(world: &World, server: u128) -> FilterSpec {
    world.fleet.filters(0).remove(&format!("chronova-{}", port_of(server))).expect("the guest has no filter")
}

/// The allowed sources of TCP to `port`.
fn comes_in(world: &World, server: u128, port: u16) -> Vec<Option<String>> {
    let rules = filter(world, server).rules;
    rules.into_iter().filter(|rule| rule.ingress && rule.port_min == Some(port)).map(|rule| rule.remote).collect()
}

/// The number of addresses from which the filter allows all traffic: those of the members of the guest's own groups.
fn friends(world: &World, server: u128) -> usize {
    let rules = filter(world, server).rules;
    rules.iter().filter(|rule| rule.ingress && rule.port_min.is_none() && rule.remote.is_some()).count()
}

fn default() -> SecurityGroupId {
    default_group(&project())
}

#[actix_rt::test]
async fn a_running_guests_filter_follows_the_rules_of_its_group() {
    let (world, life) = begun().await;
    built(&life, 1).await;
    assert_eq!(comes_in(&world, 1, 22), []);
    let_in(&life, default(), 22, None).await;
    life.until(|_| comes_in(&world, 1, 22) == [None]).await;
    groups_say(&life, SecurityGroupCommand::RemoveRule { rule: rule_for(22) }).await;
    life.until(|_| comes_in(&world, 1, 22).is_empty()).await;
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_rule_that_names_a_group_follows_its_members() {
    let (world, life) = begun().await;
    built(&life, 1).await;
    let alone = friends(&world, 1);
    built(&life, 2).await;
    life.until(|_| friends(&world, 1) == alone + 1).await;
    life.delete(id(2)).await.unwrap();
    life.until(|_| friends(&world, 1) == alone).await;

    // The guest is not in this group, but a rule of the guest's group names it.
    make_web(&life).await;
    let_in(&life, default(), 5432, Some(WEB)).await;
    built(&life, 3).await;
    assert_eq!(comes_in(&world, 1, 5432), [], "the empty group lets somebody in");
    change_port(&life, 3, PortPatch { security_groups: Some(vec![WEB]), ..PortPatch::default() }).await;
    life.until(|_| comes_in(&world, 1, 5432).len() == 1 && friends(&world, 1) == alone).await;
    change_port(&life, 3, PortPatch { security_groups: Some(vec![default()]), ..PortPatch::default() }).await;
    life.until(|_| comes_in(&world, 1, 5432).is_empty() && friends(&world, 1) == alone + 1).await;
    life.settled().await;
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_guest_taken_out_of_all_its_groups_loses_their_rules() {
    let (world, life) = begun().await;
    built(&life, 1).await;
    let_in(&life, default(), 22, None).await;
    life.until(|_| comes_in(&world, 1, 22) == [None]).await;
    change_port(&life, 1, PortPatch { security_groups: Some(vec![]), ..PortPatch::default() }).await;
    life.until(|_| filter(&world, 1).rules.is_empty()).await;
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn filters_of_a_guest_are_updated_only_after_its_build() {
    let (world, life) = begun().await;
    world.brakes.hold("spawn");
    life.build(id(1)).await.unwrap();
    world.brakes.reached("spawn").await;
    let calls = world.fleet.calls(DriverCall::EnsureFilter);
    let_in(&life, default(), 22, None).await;
    tokio::time::sleep(10 * world.options.reconcile.filter_pause).await;
    assert_eq!(world.fleet.calls(DriverCall::EnsureFilter), calls, "a filter was updated during the build");
    assert_eq!(comes_in(&world, 1, 22), []);
    world.brakes.release("spawn");
    life.until(|_| comes_in(&world, 1, 22) == [None]).await;
    life.settled().await;
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_change_that_affects_no_filter_calls_no_host() {
    let (world, life) = begun().await;
    make_web(&life).await;
    built(&life, 1).await;
    let_in(&life, default(), 22, None).await;
    life.until(|_| comes_in(&world, 1, 22) == [None]).await;
    let calls = world.fleet.calls(DriverCall::EnsureFilter);
    // These changes affect no guest: a rule of a group without members, another name, the same groups again.
    let_in(&life, WEB, 80, None).await;
    change_port(&life, 1, PortPatch { name: Some("eth0".to_owned()), ..PortPatch::default() }).await;
    change_port(&life, 1, PortPatch { security_groups: Some(vec![default()]), ..PortPatch::default() }).await;
    tokio::time::sleep(5 * world.options.reconcile.filter_pause).await;
    // This change affects a guest. Its effect on the guest shows that the reconciler has also seen the changes above.
    let_in(&life, default(), 443, None).await;
    life.until(|_| comes_in(&world, 1, 443) == [None]).await;
    assert_eq!(world.fleet.calls(DriverCall::EnsureFilter), calls + 1);
    life.stop().await;
}

#[actix_rt::test]
async fn a_host_that_was_down_gets_the_changed_filters_when_it_is_back() {
    let (world, life) = begun().await;
    built(&life, 1).await;
    let_in(&life, default(), 22, None).await;
    life.until(|_| comes_in(&world, 1, 22) == [None]).await;
    world.fleet.kill_host(0);
    life.until(|context| context.views.hosts.read(|hosts| hosts.all().all(|host| !host.up))).await;
    groups_say(&life, SecurityGroupCommand::RemoveRule { rule: rule_for(22) }).await;
    tokio::time::sleep(5 * world.options.reconcile.filter_pause).await;
    world.fleet.revive_host(0, true).unwrap();
    life.until(|_| comes_in(&world, 1, 22).is_empty()).await;

    world
        .fleet
        .set_faults(0, FaultPlan::default().with(DriverCall::EnsureFilter, FaultTrigger::Always, Effect::Refuse));
    let_in(&life, default(), 80, None).await;
    tokio::time::sleep(5 * world.options.reconcile.filter_pause).await;
    world.fleet.set_faults(0, FaultPlan::default());
    life.until(|_| comes_in(&world, 1, 80) == [None]).await;
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_change_of_filters_interrupted_by_a_crash_is_completed_after_the_restart() {
    let (world, first) = begun().await;
    built(&first, 1).await;
    world.brakes.hold("ensure_filter");
    let_in(&first, default(), 22, None).await;
    world.brakes.reached("ensure_filter").await;
    first.store.blow();
    world.brakes.release("ensure_filter");
    first.stop().await;
    assert_eq!(comes_in(&world, 1, 22), [], "the first life updated the filter");
    let second = life(&world).await;
    second.until(|_| comes_in(&world, 1, 22) == [None]).await;
    second.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_deleted_guest_takes_its_filter_along() {
    let (world, life) = begun().await;
    built(&life, 1).await;
    assert_eq!(build_request(id(1)).security_groups, ["default"]);
    assert_eq!(world.fleet.filters(0).len(), 1);
    life.delete(id(1)).await.unwrap();
    life.settled().await;
    let_in(&life, default(), 22, None).await;
    tokio::time::sleep(5 * world.options.reconcile.filter_pause).await;
    assert!(world.fleet.filters(0).is_empty());
    life.stop().await;
    world.check().await;
}

/// Somebody has removed the filter on the host.
#[actix_rt::test]
async fn a_hard_reboot_defines_the_filter_again() {
    let (world, life) = begun().await;
    built(&life, 1).await;
    // The reconciler updates the filter once after the build, and then only after changes.
    let_in(&life, default(), 22, None).await;
    life.until(|_| comes_in(&world, 1, 22) == [None]).await;
    let own = filter(&world, 1);
    world.fleet.drivers()[0].networks().unwrap().remove_filter(&own.name).await.unwrap();
    life.power(id(1), PowerAction::RebootSoft).await.unwrap();
    life.settled().await;
    assert!(world.fleet.filters(0).is_empty(), "something else than a hard reboot defines filters");
    life.power(id(1), PowerAction::RebootHard).await.unwrap();
    life.settled().await;
    assert_eq!(filter(&world, 1), own);
    life.stop().await;
    world.check().await;
}

/// With shared storage, both hosts have the guest's disks. Only the host of the guest may have the filter.
#[actix_rt::test]
async fn a_live_migration_on_one_storage_leaves_one_filter() {
    let world = World::new(2);
    world.fleet.share_storage(true);
    let life = begun_in(&world).await;
    built(&life, 1).await;
    let home = life.host_of(&world, id(1)).unwrap();
    let filters = |host: usize| world.fleet.filters(host).len();
    world.fleet.fail_travellers(Some("unable to connect"));
    life.live_migrate(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!(life.host_of(&world, id(1)), Some(home));
    assert!(life.fault(id(1)).contains("the hypervisor ended it"), "{}", life.fault(id(1)));
    assert_eq!((filters(home), filters(1 - home)), (1, 0), "the destination keeps the filter of a failed migration");
    world.fleet.fail_travellers(None);
    life.live_migrate(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!(life.host_of(&world, id(1)), Some(1 - home), "{}", life.fault(id(1)));
    assert_eq!((filters(home), filters(1 - home)), (0, 1), "the source keeps the filter of the guest");
    life.stop().await;
    world.check().await;
}

/// The reconciler's call to the host is running while the server is deleted.
#[actix_rt::test]
async fn a_filter_that_is_updated_during_a_delete_does_not_stay() {
    let (world, life) = begun().await;
    built(&life, 1).await;
    let_in(&life, default(), 22, None).await;
    life.until(|_| comes_in(&world, 1, 22) == [None]).await;
    world.brakes.hold("ensure_filter");
    let_in(&life, default(), 80, None).await;
    world.brakes.reached("ensure_filter").await;
    life.delete(id(1)).await.unwrap();
    life.settled().await;
    assert!(world.fleet.filters(0).is_empty(), "the delete left the filter");
    let calls = world.fleet.calls(DriverCall::EnsureFilter);
    world.brakes.release("ensure_filter");
    life.until(|_| world.fleet.calls(DriverCall::EnsureFilter) > calls).await;
    tokio::time::sleep(5 * world.options.reconcile.filter_pause).await;
    assert!(world.fleet.filters(0).is_empty(), "the late update created the filter again");
    life.stop().await;
    world.check().await;
}

/// The network is deleted while the host does not answer. The control plane stops before the host answers again.
#[actix_rt::test]
async fn a_network_deleted_before_a_restart_is_removed_from_its_host_afterwards() {
    let (world, first) = begun().await;
    built(&first, 1).await;
    assert!(world.fleet.networks(0).contains(&NETWORK));
    first.delete(id(1)).await.unwrap();
    assert!(first.settled().await);
    let refusal = FaultPlan::default().with(DriverCall::RemoveNetwork, FaultTrigger::Always, Effect::Refuse);
    world.fleet.set_faults(0, refusal);
    network_says(&first, NetworkCommand::Delete).await;
    first.until(|_| world.fleet.calls(DriverCall::RemoveNetwork) > 0).await;
    first.stop().await;
    assert!(world.fleet.networks(0).contains(&NETWORK));
    // Another program's network, which this log does not know.
    let foreign = NetworkId(Uuid::from_u128(0xF));
    let spec = NetworkSpec { network: foreign, mtu: 0, subnets: vec![], reservations: vec![] };
    world.fleet.set_faults(0, FaultPlan::default());
    world.fleet.drivers()[0].networks().unwrap().ensure_network(&spec).await.unwrap();
    let second = life(&world).await;
    second.until(|_| !world.fleet.networks(0).contains(&NETWORK)).await;
    assert!(world.fleet.networks(0).contains(&foreign));
    second.stop().await;
    world.check().await;
}
