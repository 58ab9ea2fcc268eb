#![allow(clippy::unwrap_used, clippy::expect_used)]
//! Tests of the form: given these events, a command leads to these events or this refusal.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::ids::{
    FloatingIpId, InstanceId, NetworkId, PortId, ProjectId, RouterId, SecurityGroupId, SubnetId,
};
use chronova_events::network::{
    AddressPair, AllocationPool, Association, FixedAddress, FloatingIpSettings, Ipv6Mode, Network, NetworkCreated,
    NetworkEvent, NetworkSettings, Port, PortBinding, PortDeleted, PortSettings, ProviderAttributes,
};
use chronova_events::router::{GATEWAY_OWNER, INTERFACE_OWNER};
use chronova_events::security_group::default_group;
use proptest::prelude::*;
use uuid::Uuid;

use super::decide::decide;
use super::{
    DeviceGroupsChange, FixedIpRequest, FloatingIpPatch, FloatingIpRequest, NetworkCommand, NetworkPatch,
    NetworkReject, PortPatch, PortRequest, SubnetGateway, SubnetPatch, SubnetRequest,
};

fn network() -> NetworkId {
    NetworkId(Uuid::from_u128(1))
}

fn subnet(n: u128) -> SubnetId {
    SubnetId(Uuid::from_u128(100 + n))
}

fn port(n: u128) -> PortId {
    PortId(Uuid::from_u128(1_000 + n))
}

fn server(n: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(5_000 + n))
}

fn project() -> ProjectId {
    ProjectId::new("p")
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn create() -> NetworkCommand {
    NetworkCommand::Create(NetworkCreated {
        network: network(),
        project: project(),
        settings: NetworkSettings { name: "private".into(), ..NetworkSettings::default() },
        provider: ProviderAttributes { network_type: "local".into(), physical_network: None, segmentation_id: None },
        availability_zone_hints: vec![],
    })
}

fn wanted_subnet(n: u128, cidr: &str) -> SubnetRequest {
    SubnetRequest {
        subnet: subnet(n),
        project: project(),
        name: String::new(),
        description: String::new(),
        cidr: cidr.parse().unwrap(),
        gateway: SubnetGateway::Default,
        pools: None,
        dhcp: true,
        dns: vec![],
        host_routes: vec![],
        ipv6_address_mode: None,
        ipv6_ra_mode: None,
        tags: vec![],
    }
}

fn add(n: u128, cidr: &str) -> NetworkCommand {
    NetworkCommand::AddSubnet(wanted_subnet(n, cidr))
}

fn wanted_port(n: u128) -> PortRequest {
    PortRequest {
        port: port(n),
        project: project(),
        mac: None,
        addresses: None,
        settings: PortSettings::default(),
        port_security: None,
        security_groups: None,
        binding: PortBinding::default(),
        made_for: None,
    }
}

fn at(subnet: Option<SubnetId>, address: Option<&str>) -> FixedIpRequest {
    FixedIpRequest { subnet, address: address.map(ip) }
}

fn port_with(n: u128, addresses: Vec<FixedIpRequest>) -> NetworkCommand {
    NetworkCommand::CreatePort(PortRequest { addresses: Some(addresses), ..wanted_port(n) })
}

fn made_for(n: u128, instance: InstanceId) -> NetworkCommand {
    let binding = PortBinding { device: instance.to_string(), owner: "compute:nova".into(), host: "h1".into() };
    NetworkCommand::CreatePort(PortRequest { binding, made_for: Some(instance), ..wanted_port(n) })
}

/// Builds a state by commands. Every command must be accepted.
#[derive(Default)]
struct Given(Network);

impl Given {
    fn and(mut self, command: NetworkCommand) -> Self {
        let events = decide(&self.0, command).expect("accepted");
        for event in &events {
            self.0.evolve(event, Timestamp(7));
        }
        self
    }

    fn when(&self, command: NetworkCommand) -> Result<Vec<NetworkEvent>, NetworkReject> {
        decide(&self.0, command)
    }

    fn addresses(&self, n: u128) -> Vec<String> {
        self.0.ports[&port(n)].addresses().iter().map(|fixed| fixed.address.to_string()).collect()
    }
}

fn a_network() -> Given {
    Given::default().and(create())
}

fn with_subnet() -> Given {
    a_network().and(add(1, "10.0.0.0/24"))
}

#[test]
fn a_network_is_created_once_and_its_id_is_never_reused() {
    assert_eq!(a_network().when(create()), Err(NetworkReject::IdTaken(network().to_string())));
    let gone = a_network().and(NetworkCommand::Delete);
    assert_eq!(gone.when(create()), Err(NetworkReject::IdTaken(network().to_string())));
    assert_eq!(gone.when(NetworkCommand::Delete), Err(NetworkReject::NotFound));
    assert_eq!(gone.when(NetworkCommand::ReleaseDevice { device: server(1), project: project() }), Ok(vec![]));
}

#[test]
fn a_change_without_effect_records_no_event() {
    let same = NetworkPatch { name: Some("private".into()), ..NetworkPatch::default() };
    assert_eq!(a_network().when(NetworkCommand::Change(same)), Ok(vec![]));
    let small = NetworkPatch { mtu: Some(10), ..NetworkPatch::default() };
    assert!(matches!(a_network().when(NetworkCommand::Change(small)), Err(NetworkReject::InvalidInput(_))));
}

#[test]
fn a_shared_network_with_others_ports_stays_shared() {
    let shared = |shared| NetworkCommand::Change(NetworkPatch { shared: Some(shared), ..NetworkPatch::default() });
    let others = PortRequest { project: ProjectId::new("other"), ..wanted_port(1) };
    let given = a_network().and(shared(true));
    assert!(given.when(shared(false)).is_ok());
    let binding = PortBinding { owner: INTERFACE_OWNER.into(), ..PortBinding::default() };
    let interface = PortRequest { project: ProjectId::new("other"), binding, ..wanted_port(2) };
    let given = given.and(NetworkCommand::CreatePort(interface));
    assert!(given.when(shared(false)).is_ok(), "the interface of another project's router keeps the network shared");
    let given = given.and(NetworkCommand::CreatePort(others));
    assert_eq!(given.when(shared(false)), Err(NetworkReject::SharedInUse(network())));
}

#[test]
fn a_subnet_gets_neutrons_defaults() {
    let given = with_subnet().and(add(2, "10.0.1.8/31")).and(add(3, "fd00::/64"));
    let settings = |n| given.0.subnets[&subnet(n)].added.settings.clone();
    assert_eq!(settings(1).gateway, Some(ip("10.0.0.1")));
    assert_eq!(settings(1).pools, [AllocationPool { start: ip("10.0.0.2"), end: ip("10.0.0.254") }]);
    assert_eq!(settings(2).pools, [AllocationPool { start: ip("10.0.1.9"), end: ip("10.0.1.9") }]);
    assert_eq!(settings(3).pools, [AllocationPool { start: ip("fd00::2"), end: ip("fd00::ffff:ffff:ffff:ffff") }]);
    let middle = SubnetRequest { gateway: SubnetGateway::At(ip("10.9.0.100")), ..wanted_subnet(4, "10.9.0.0/24") };
    let given = given.and(NetworkCommand::AddSubnet(middle));
    let pools = &given.0.subnets[&subnet(4)].added.settings.pools;
    assert_eq!(pools[0].end, ip("10.9.0.99"));
    assert_eq!(pools[1].start, ip("10.9.0.101"));
}

#[test]
fn pools_and_gateways_are_checked() {
    let pool = |start: &str, end: &str| AllocationPool { start: ip(start), end: ip(end) };
    let try_pools = |pools: Vec<AllocationPool>| {
        let wanted = SubnetRequest { pools: Some(pools), ..wanted_subnet(1, "10.0.0.0/24") };
        a_network().when(NetworkCommand::AddSubnet(wanted))
    };
    assert!(try_pools(vec![pool("10.0.0.10", "10.0.0.20"), pool("10.0.0.30", "10.0.0.40")]).is_ok());
    let refused = |pools| try_pools(pools).unwrap_err();
    assert!(matches!(
        refused(vec![pool("10.0.0.15", "10.0.0.30"), pool("10.0.0.10", "10.0.0.20")]),
        NetworkReject::OverlappingPools { .. }
    ));
    assert!(matches!(refused(vec![pool("10.0.0.9", "10.0.0.8")]), NetworkReject::InvalidPool(_)));
    assert!(matches!(refused(vec![pool("10.0.0.9", "10.0.1.8")]), NetworkReject::PoolOutOfBounds { .. }));
    assert!(matches!(refused(vec![pool("10.0.0.2", "10.0.0.255")]), NetworkReject::PoolOutOfBounds { .. }));
    assert!(matches!(refused(vec![pool("10.0.0.1", "10.0.0.9")]), NetworkReject::GatewayInPool { .. }));
    let broadcast = SubnetRequest { gateway: SubnetGateway::At(ip("10.0.0.255")), ..wanted_subnet(1, "10.0.0.0/24") };
    let refused = a_network().when(NetworkCommand::AddSubnet(broadcast));
    assert!(matches!(refused, Err(NetworkReject::InvalidInput(_))));
}

#[test]
fn subnets_do_not_overlap_and_only_empty_ones_are_deleted() {
    assert!(matches!(with_subnet().when(add(2, "10.0.0.128/25")), Err(NetworkReject::InvalidInput(_))));
    let given = with_subnet().and(NetworkCommand::CreatePort(wanted_port(1)));
    let remove = NetworkCommand::RemoveSubnet { subnet: subnet(1) };
    assert_eq!(given.when(remove.clone()), Err(NetworkReject::SubnetInUse(subnet(1))));
    assert!(matches!(given.when(NetworkCommand::Delete), Err(NetworkReject::NetworkInUse(..))));
    let given = given.and(NetworkCommand::DeletePort { port: port(1) });
    assert_eq!(given.when(remove).unwrap().len(), 1);
    assert_eq!(given.when(NetworkCommand::Delete).unwrap().len(), 2, "the subnet is deleted with the network");
}

#[test]
fn smaller_pools_keep_allocated_addresses() {
    let pools = Some(vec![AllocationPool { start: ip("10.0.0.50"), end: ip("10.0.0.51") }]);
    let patch = SubnetPatch { pools, ..SubnetPatch::default() };
    let given = with_subnet()
        .and(NetworkCommand::CreatePort(wanted_port(1)))
        .and(NetworkCommand::ChangeSubnet { subnet: subnet(1), patch })
        .and(NetworkCommand::CreatePort(wanted_port(2)))
        .and(NetworkCommand::CreatePort(wanted_port(3)));
    assert_eq!(given.addresses(1), ["10.0.0.2"]);
    assert_eq!(given.addresses(2), ["10.0.0.50"]);
    let full = given.when(NetworkCommand::CreatePort(wanted_port(4)));
    assert_eq!(full, Err(NetworkReject::NoMoreAddresses(network())));
}

#[test]
fn a_port_gets_an_address_of_each_version() {
    let slaac = SubnetRequest {
        ipv6_address_mode: Some(Ipv6Mode::Slaac),
        ipv6_ra_mode: Some(Ipv6Mode::Slaac),
        ..wanted_subnet(2, "fd00::/64")
    };
    let given = with_subnet()
        .and(NetworkCommand::AddSubnet(slaac))
        .and(add(3, "fd01::/64"))
        .and(NetworkCommand::CreatePort(PortRequest { mac: Some("fa:16:3e:11:22:33".into()), ..wanted_port(1) }));
    assert_eq!(given.addresses(1), ["10.0.0.2", "fd01::2", "fd00::f816:3eff:fe11:2233"]);
    assert_eq!(given.0.ports[&port(1)].settings().security_groups, [default_group(&project())]);
}

#[test]
fn a_port_needs_no_address_for_its_groups_and_a_port_of_the_network_is_trusted() {
    let given = a_network().and(NetworkCommand::CreatePort(wanted_port(1)));
    assert_eq!(given.addresses(1), [""; 0]);
    assert_eq!(given.0.ports[&port(1)].settings().security_groups, [default_group(&project())]);
    let secured = |port_security| NetworkCommand::ChangePort {
        port: port(1),
        patch: PortPatch { port_security: Some(port_security), ..PortPatch::default() },
    };
    assert_eq!(given.when(secured(false)), Err(NetworkReject::PortHasGroups));
    let binding = PortBinding { owner: "network:dhcp".into(), ..PortBinding::default() };
    let given = with_subnet().and(NetworkCommand::CreatePort(PortRequest { binding, ..wanted_port(1) }));
    assert!(given.0.ports[&port(1)].settings().security_groups.is_empty());
    let groups = Some(vec![SecurityGroupId(Uuid::from_u128(9))]);
    let open = PortRequest { port_security: Some(false), security_groups: groups, ..wanted_port(2) };
    assert_eq!(given.when(NetworkCommand::CreatePort(open)), Err(NetworkReject::GroupsNeedSecurity));
}

#[test]
fn requested_addresses_are_allocated_or_refused_by_name() {
    let given = with_subnet().and(add(2, "10.0.2.0/24")).and(port_with(1, vec![at(None, Some("10.0.0.77"))]));
    let refused = |n, addresses| given.when(port_with(n, addresses)).unwrap_err();
    let taken = NetworkReject::AddressInUse { network: network(), address: ip("10.0.0.77") };
    assert_eq!(refused(2, vec![at(Some(subnet(1)), Some("10.0.0.77"))]), taken);
    assert_eq!(refused(2, vec![at(None, Some("10.7.0.1"))]), NetworkReject::NotInNetwork(ip("10.7.0.1")));
    assert_eq!(refused(2, vec![at(Some(subnet(2)), Some("10.0.0.5"))]), NetworkReject::NotInSubnet(ip("10.0.0.5")));
    assert_eq!(refused(2, vec![at(None, Some("10.0.0.255"))]), NetworkReject::NotInSubnet(ip("10.0.0.255")));
    assert!(matches!(refused(2, vec![at(Some(subnet(9)), None)]), NetworkReject::InvalidInput(_)));
    assert!(matches!(refused(2, vec![at(None, None)]), NetworkReject::InvalidInput(_)));
    let several = vec![at(Some(subnet(1)), None), at(Some(subnet(1)), None), at(None, Some("10.0.0.3"))];
    let given = given.and(port_with(2, several));
    assert_eq!(given.addresses(2), ["10.0.0.3", "10.0.0.2", "10.0.0.4"]);
}

#[test]
fn macs_derive_from_the_port_and_are_unique() {
    let given = with_subnet().and(NetworkCommand::CreatePort(wanted_port(1)));
    let mac = given.0.ports[&port(1)].created.mac.clone();
    assert!(mac.starts_with("fa:16:3e:") && mac.len() == 17);
    let same = NetworkCommand::CreatePort(PortRequest { mac: Some(mac.clone()), ..wanted_port(2) });
    assert_eq!(given.when(same), Err(NetworkReject::MacInUse { network: network(), mac: mac.clone() }));
    let given = given.and(NetworkCommand::DeletePort { port: port(1) }).and(NetworkCommand::CreatePort(wanted_port(1)));
    assert_eq!(given.0.ports[&port(1)].created.mac, mac, "the same port gets the same MAC");
}

#[test]
fn a_repeated_allocation_is_harmless_and_may_move() {
    let given = with_subnet().and(made_for(1, server(1)));
    assert_eq!(given.when(made_for(1, server(1))), Ok(vec![]));
    let elsewhere = match made_for(1, server(1)) {
        NetworkCommand::CreatePort(mut wanted) => {
            wanted.binding.host = "h2".into();
            NetworkCommand::CreatePort(wanted)
        }
        other => other,
    };
    assert!(
        matches!(given.when(elsewhere).unwrap().as_slice(), [NetworkEvent::PortBound(bound)] if bound.binding.host == "h2")
    );
    assert!(matches!(given.when(made_for(1, server(2))), Err(NetworkReject::IdTaken(_))));
}

#[test]
fn a_given_port_is_bound_to_one_device_and_survives_it() {
    let bind = |n| NetworkCommand::BindPort {
        port: port(1),
        project: project(),
        binding: PortBinding { device: server(n).to_string(), owner: "compute:nova".into(), host: "h1".into() },
    };
    let given = with_subnet().and(NetworkCommand::CreatePort(wanted_port(1))).and(bind(1)).and(made_for(2, server(1)));
    assert_eq!(given.when(bind(1)), Ok(vec![]));
    assert_eq!(given.when(bind(2)), Err(NetworkReject::PortInUse(port(1))));
    let given = given.and(NetworkCommand::ReleaseDevice { device: server(1), project: project() });
    assert_eq!(given.0.ports.keys().copied().collect::<Vec<_>>(), [port(1)]);
    assert_eq!(*given.0.ports[&port(1)].binding(), PortBinding::default());
    assert_eq!(given.when(NetworkCommand::ReleaseDevice { device: server(1), project: project() }), Ok(vec![]));
    assert!(given.when(bind(2)).is_ok());
    let stranger = match bind(2) {
        NetworkCommand::BindPort { port, binding, .. } => {
            NetworkCommand::BindPort { port, binding, project: ProjectId::new("other") }
        }
        other => other,
    };
    assert_eq!(given.when(stranger), Err(NetworkReject::PortNotFound(port(1))));
}

#[test]
fn a_router_has_one_gateway_in_a_network() {
    let gateway = |n, router: u128| {
        let device = RouterId(Uuid::from_u128(router)).to_string();
        let binding = PortBinding { device, owner: GATEWAY_OWNER.into(), host: String::new() };
        NetworkCommand::CreatePort(PortRequest { binding, security_groups: Some(vec![]), ..wanted_port(n) })
    };
    let given = with_subnet().and(gateway(1, 7));
    assert!(matches!(given.when(gateway(2, 7)), Err(NetworkReject::GatewayExists { .. })));
    assert!(given.when(gateway(2, 8)).is_ok(), "another router");
    let given = given.and(NetworkCommand::DeletePort { port: port(1) });
    assert!(given.when(gateway(2, 7)).is_ok(), "the first gateway is gone");
}

#[test]
fn a_port_of_another_project_is_not_released() {
    let given = with_subnet().and(made_for(1, server(1)));
    let release = |project| NetworkCommand::ReleasePort { device: server(1), project, port: port(1) };
    assert_eq!(given.when(release(ProjectId::new("other"))), Ok(vec![]));
    let deleted = PortDeleted { network: network(), port: port(1) };
    assert_eq!(given.when(release(project())), Ok(vec![deleted.into()]));
}

#[test]
fn a_port_changes_its_addresses_and_keeps_those_it_names() {
    let given = with_subnet().and(port_with(1, vec![at(None, Some("10.0.0.9"))]));
    let change = |addresses| NetworkCommand::ChangePort {
        port: port(1),
        patch: PortPatch { addresses: Some(addresses), ..PortPatch::default() },
    };
    assert_eq!(given.when(change(vec![at(None, Some("10.0.0.9"))])), Ok(vec![]));
    assert_eq!(
        given.when(change(vec![at(Some(subnet(1)), None)])),
        Ok(vec![]),
        "the present address in the subnet stays"
    );
    let given = given.and(change(vec![at(None, Some("10.0.0.10"))]));
    assert_eq!(given.0.ports[&port(1)].addresses(), [FixedAddress { subnet: subnet(1), address: ip("10.0.0.10") }]);
    assert!(given.when(port_with(2, vec![at(None, Some("10.0.0.9"))])).is_ok(), "the old address is free");
    let none = given.and(change(vec![])).0.ports[&port(1)].clone();
    assert_eq!(
        (none.addresses().len(), none.settings().security_groups.len()),
        (0, 1),
        "its group stays, as in Neutron"
    );
}

#[test]
fn a_group_applies_to_all_ports_of_a_server_or_to_none() {
    let group = SecurityGroupId(Uuid::from_u128(99));
    let change = |project, applies| {
        NetworkCommand::ChangeDeviceGroups(DeviceGroupsChange { device: server(1), project, group, applies })
    };
    let two = with_subnet().and(made_for(1, server(1))).and(made_for(2, server(1))).and(made_for(3, server(2)));
    let having = |given: &Given| -> Vec<PortId> {
        let has = |port: &&Arc<Port>| port.settings().security_groups.contains(&group);
        given.0.ports.values().filter(has).map(|port| port.created.port).collect()
    };
    assert_eq!(
        two.when(change(ProjectId::new("other"), true)),
        Ok(vec![]),
        "a group of another project changes no port"
    );
    assert_eq!(two.when(change(project(), true)).unwrap().len(), 2, "one append changes both ports");
    let applied = two.and(change(project(), true));
    assert_eq!(having(&applied), [port(1), port(2)]);
    assert_eq!(applied.when(change(project(), true)), Ok(vec![]), "repeated");
    assert_eq!(having(&applied.and(change(project(), false))), []);

    let open = PortPatch { port_security: Some(false), security_groups: Some(vec![]), ..PortPatch::default() };
    let mixed = with_subnet().and(made_for(1, server(1))).and(made_for(2, server(1)));
    let mixed = mixed.and(NetworkCommand::ChangePort { port: port(2), patch: open });
    assert_eq!(mixed.when(change(project(), true)), Err(NetworkReject::GroupsNeedSecurity));
}

#[test]
fn address_pairs_need_port_security() {
    let pairs = Some(vec![AddressPair { address: "10.0.0.200".into(), mac: None }]);
    let patch = PortPatch { allowed_address_pairs: pairs, ..PortPatch::default() };
    let open = PortRequest { port_security: Some(false), ..wanted_port(1) };
    let given = with_subnet().and(NetworkCommand::CreatePort(open));
    let refused = given.when(NetworkCommand::ChangePort { port: port(1), patch });
    assert_eq!(refused, Err(NetworkReject::PairsNeedSecurity));
}

proptest! {
    /// For any commands in any order, no two ports have the same address or MAC. A full network refuses cleanly, and
    /// freed addresses can be allocated again.
    #[test]
    fn no_address_is_allocated_twice(steps in prop::collection::vec((0_u8..5, 0_u128..12, 0_u8..16), 1..80)) {
        let mut given = a_network().and(add(1, "10.0.0.0/28"));
        for (what, n, last) in steps {
            let address = format!("10.0.0.{last}");
            let command = match what {
                0 => NetworkCommand::CreatePort(wanted_port(n)),
                1 => made_for(n, server(n % 3)),
                2 => port_with(n, vec![at(None, Some(&address)), at(Some(subnet(1)), None)]),
                3 => NetworkCommand::ReleaseDevice { device: server(n % 3), project: project() },
                _ => NetworkCommand::DeletePort { port: port(n) },
            };
            match given.when(command) {
                Ok(events) => events.iter().for_each(|event| given.0.evolve(event, Timestamp(1))),
                Err(NetworkReject::NoMoreAddresses(_)) => {
                    let ipam = given.0.ipam(subnet(1)).unwrap();
                    prop_assert!(ipam.held().filter(|(address, _)| **address != ip("10.0.0.1")).count() + 1 >= 13);
                }
                Err(_) => {}
            }
            let held: Vec<IpAddr> =
                given.0.ports.values().flat_map(|port| port.addresses()).map(|fixed| fixed.address).collect();
            let distinct: BTreeSet<IpAddr> = held.iter().copied().collect();
            prop_assert_eq!(held.len(), distinct.len());
            let ipam: BTreeSet<IpAddr> = given.0.ipam(subnet(1)).unwrap().held().map(|(address, _)| *address).collect();
            prop_assert_eq!(&ipam, &distinct, "the allocated addresses are those of the ports");
            let macs: BTreeSet<&String> = given.0.ports.values().map(|port| &port.created.mac).collect();
            prop_assert_eq!(macs.len(), given.0.ports.len());
        }
        for n in 0..12 {
            if given.0.ports.contains_key(&port(n)) {
                given = given.and(NetworkCommand::DeletePort { port: port(n) });
            }
        }
        for n in 20..33 {
            given = given.and(NetworkCommand::CreatePort(wanted_port(n)));
        }
        prop_assert_eq!(given.when(NetworkCommand::CreatePort(wanted_port(50))), Err(NetworkReject::NoMoreAddresses(network())));
    }
}

fn floating(n: u128) -> FloatingIpId {
    FloatingIpId(Uuid::from_u128(7_000 + n))
}

/// An external network with two free addresses.
fn outside() -> Given {
    let external = NetworkPatch { external: Some(true), ..NetworkPatch::default() };
    a_network().and(NetworkCommand::Change(external)).and(add(1, "203.0.113.0/30")).and(NetworkCommand::ChangeSubnet {
        subnet: subnet(1),
        patch: SubnetPatch {
            gateway: Some(None),
            pools: Some(vec![pool("203.0.113.1", "203.0.113.2")]),
            ..SubnetPatch::default()
        },
    })
}

fn pool(start: &str, end: &str) -> AllocationPool {
    AllocationPool { start: ip(start), end: ip(end) }
}

fn wanted_floating(n: u128) -> FloatingIpRequest {
    FloatingIpRequest {
        floating_ip: floating(n),
        port: port(500 + n),
        project: project(),
        address: None,
        settings: FloatingIpSettings::default(),
        association: None,
        limit: -1,
        elsewhere: 0,
    }
}

fn allocate(n: u128) -> NetworkCommand {
    NetworkCommand::AllocateFloatingIp(wanted_floating(n))
}

/// A fixed address of another network's port.
fn fixed(n: u128) -> Association {
    Association {
        network: NetworkId(Uuid::from_u128(2)),
        port: port(n),
        subnet: subnet(9),
        address: ip("10.0.0.5"),
        router: RouterId(Uuid::from_u128(3)),
    }
}

fn give(n: u128, to: Option<Association>) -> NetworkCommand {
    let patch = FloatingIpPatch { association: Some(to), ..FloatingIpPatch::default() };
    NetworkCommand::ChangeFloatingIp { floating_ip: floating(n), patch }
}

#[test]
fn floating_addresses_come_from_the_pools_until_they_are_empty() {
    let given = outside().and(allocate(1)).and(allocate(2));
    let addresses: Vec<String> = given.0.floating_ips.values().map(|one| one.address().to_string()).collect();
    assert_eq!(addresses, ["203.0.113.1", "203.0.113.2"]);
    assert_eq!(given.0.ports.len(), 2, "each floating address has a port");
    assert_eq!(given.when(allocate(3)), Err(NetworkReject::NoMoreAddresses(network())));
    assert_eq!(given.when(allocate(1)), Err(NetworkReject::IdTaken(floating(1).to_string())));
    let release = |n| NetworkCommand::ReleaseFloatingIp { floating_ip: floating(n) };
    let given = given.and(release(1));
    assert_eq!(given.when(release(1)), Ok(vec![]), "a repeated release is harmless");
    assert_eq!(given.0.ports.len(), 1);
    let requested = FixedIpRequest { subnet: None, address: Some(ip("203.0.113.2")) };
    let requested = FloatingIpRequest { address: Some(requested), ..wanted_floating(3) };
    let in_use = NetworkReject::AddressInUse { network: network(), address: ip("203.0.113.2") };
    assert_eq!(given.when(NetworkCommand::AllocateFloatingIp(requested)), Err(in_use));
    assert_eq!(given.and(allocate(3)).0.floating_ips[&floating(3)].address(), ip("203.0.113.1"));

    assert_eq!(with_subnet().when(allocate(1)), Err(NetworkReject::NotExternal(network())));
    let external = NetworkPatch { external: Some(true), ..NetworkPatch::default() };
    let bare = a_network().and(NetworkCommand::Change(external));
    assert_eq!(bare.when(allocate(1)), Err(NetworkReject::NoIpv4(network())));
}

#[test]
fn floating_addresses_of_a_project_are_limited() {
    let within = |limit, elsewhere| {
        NetworkCommand::AllocateFloatingIp(FloatingIpRequest { limit, elsewhere, ..wanted_floating(2) })
    };
    let given = outside().and(allocate(1));
    assert_eq!(given.when(within(1, 0)), Err(NetworkReject::OverQuota("floatingip")));
    assert_eq!(given.when(within(2, 1)), Err(NetworkReject::OverQuota("floatingip")));
    assert!(given.when(within(2, 0)).is_ok() && given.when(within(-1, 99)).is_ok());
}

#[test]
fn a_fixed_address_has_one_floating_address() {
    let given = outside().and(allocate(1)).and(allocate(2)).and(give(1, Some(fixed(1))));
    assert_eq!(given.when(give(1, Some(fixed(1)))), Ok(vec![]));
    assert!(matches!(given.when(give(2, Some(fixed(1)))), Err(NetworkReject::AlreadyAssociated { .. })));
    assert!(given.when(give(2, Some(fixed(2)))).is_ok());
    let end = |n| {
        let Association { port, address, .. } = fixed(n);
        NetworkCommand::DisassociateFloatingIp { floating_ip: floating(1), port, address }
    };
    assert_eq!(given.when(end(2)), Ok(vec![]), "an association with another port stays");
    let other = Association { address: ip("10.0.0.6"), ..fixed(1) };
    let moved = outside().and(allocate(1)).and(give(1, Some(other)));
    assert_eq!(moved.when(end(1)), Ok(vec![]), "an association with another address of the port stays");
    let given = given.and(end(1));
    assert_eq!((given.when(end(1)), given.when(give(1, None))), (Ok(vec![]), Ok(vec![])));
    assert!(given.when(give(2, Some(fixed(1)))).is_ok());
    assert_eq!(given.when(give(9, None)), Err(NetworkReject::FloatingIpNotFound(floating(9))));
}

#[test]
fn an_external_network_with_floating_addresses_stays_external() {
    let inside = || NetworkCommand::Change(NetworkPatch { external: Some(false), ..NetworkPatch::default() });
    assert!(outside().when(inside()).is_ok());
    let given = outside().and(allocate(1));
    assert_eq!(given.when(inside()), Err(NetworkReject::ExternalInUse(network())));
    let gone = given.when(NetworkCommand::Delete).unwrap();
    assert_eq!(gone.len(), 4, "the unassociated address, its port, the subnet, the network: {gone:?}");
    let given = given.and(give(1, Some(fixed(1))));
    assert!(matches!(given.when(NetworkCommand::Delete), Err(NetworkReject::NetworkInUse(..))));
    assert_eq!(
        given.when(NetworkCommand::RemoveSubnet { subnet: subnet(1) }),
        Err(NetworkReject::SubnetInUse(subnet(1)))
    );
}
