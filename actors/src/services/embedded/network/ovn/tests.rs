#![allow(clippy::unwrap_used, clippy::expect_used)]
//! The wanted rows of a small cloud, and their way into a database.

mod service;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Meta, NewEvent, StreamId, Timestamp};
use chronova_events::ids::{
    FloatingIpId, NetworkId, PortId, ProjectId, RouterId, SecurityGroupId, SecurityGroupRuleId, SubnetId,
};
use chronova_events::network::{
    AddressPair, AllocationPool, Association, FLOATING_IP_OWNER, FixedAddress, FloatingIpAllocated,
    FloatingIpAssociated, FloatingIpSettings, HostRoute, Ipv6Mode, NetworkCreated, NetworkDeleted, NetworkEvent,
    NetworkSettings, PortBinding, PortCreated, PortDeleted, PortReaddressed, PortSettings, ProviderAttributes,
    SubnetAdded, SubnetSettings, SubnetSettingsReplaced,
};
use chronova_events::registry::Event;
use chronova_events::router::{
    GATEWAY_OWNER, INTERFACE_OWNER, RouterCreated, RouterDeleted, RouterEvent, RouterSettings,
};
use chronova_events::security_group::{
    Direction, Ethertype, GroupCreated, GroupSettings, RuleAdded, RuleRemoved, RuleTraffic, SecurityGroupEvent,
};
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore as _, Expected};
use chronova_events::tags::TagsChange;
use chronova_projections::views::Views;
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use super::rows::{WantedCell, WantedRow};
use super::wanted::NorthboundSources;
use super::{OvnOptions, OvnPlace, OvnPlane, admits, difference, wanted};
use crate::ports::{NetworkPlane as _, PlaneRemovals, PortError};
use crate::services::external::http::TlsTrust;
use crate::services::external::ovsdb::fake::FakeOvsdb;
use crate::services::external::ovsdb::{OvsdbRemote, OvsdbRow, OvsdbValue};

/// Only a hang reaches the limit.
const LONG: Duration = Duration::from_mins(1);

const fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

const INNER: NetworkId = NetworkId(id(0x1));
const INNER_SUBNET: SubnetId = SubnetId(id(0x2));
const GUEST: PortId = PortId(id(0x3));
const GROUP: SecurityGroupId = SecurityGroupId(id(0x4));
const OUTSIDE: NetworkId = NetworkId(id(0x6));
const OUTSIDE_SUBNET: SubnetId = SubnetId(id(0x7));
const ROUTER: RouterId = RouterId(id(0x8));
const INTERFACE: PortId = PortId(id(0x9));
const GATEWAY: PortId = PortId(id(0xa));
/// A second interface of the router, on the physical network.
const WIRED: PortId = PortId(id(0x31));
const FLOATING: FloatingIpId = FloatingIpId(id(0xb));
const FLOATING_PORT: PortId = PortId(id(0xc));
const SSH: SecurityGroupRuleId = SecurityGroupRuleId(id(0xd));

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn project() -> ProjectId {
    ProjectId::new("p")
}

fn options() -> OvnOptions {
    OvnOptions {
        bridge: "br-int".to_owned(),
        gateway_chassis: vec!["h1".to_owned(), "h2".to_owned()],
        tunnel_mtu: 1442,
    }
}

/// A log with its read models.
struct Cloud {
    log: Arc<MemoryStore>,
    views: Arc<Views>,
}

impl Cloud {
    fn empty() -> Self {
        Self { log: MemoryStore::new(), views: Arc::new(Views::new()) }
    }

    async fn tell(&self, stream: &StreamId, event: impl Into<Event>) {
        let new = NewEvent::new(event, Timestamp(1), &Meta::system("test"));
        self.log.append(stream, Expected::Any, vec![new]).await.unwrap();
        let batch = self.log.read_all(self.views.position(), 100).await.unwrap();
        self.views.apply(&batch).unwrap();
    }

    async fn network(&self, network: NetworkId, event: impl Into<NetworkEvent>) {
        let event: NetworkEvent = event.into();
        self.tell(&StreamId::new("network", network), event).await;
    }

    async fn router(&self, event: impl Into<RouterEvent>) {
        let event: RouterEvent = event.into();
        self.tell(&StreamId::new("router", ROUTER), event).await;
    }

    async fn groups(&self, event: impl Into<SecurityGroupEvent>) {
        let event: SecurityGroupEvent = event.into();
        self.tell(&StreamId::new("security_group", project()), event).await;
    }

    async fn port(&self, network: NetworkId, port: PortId, mac: &str, address: (SubnetId, &str), with: PortSettings) {
        let interfaces = [(INTERFACE, INTERFACE_OWNER), (WIRED, INTERFACE_OWNER), (GATEWAY, GATEWAY_OWNER)];
        let special = interfaces.into_iter().chain([(FLOATING_PORT, FLOATING_IP_OWNER)]).collect::<Vec<_>>();
        let owner = special.iter().find(|(id, _)| *id == port).map_or("compute:nova", |(_, owner)| *owner);
        let device =
            if matches!(owner, INTERFACE_OWNER | GATEWAY_OWNER) { ROUTER.to_string() } else { id(5).to_string() };
        let host = if port == GUEST { "h1" } else { "" };
        let created = PortCreated {
            network,
            port,
            project: project(),
            mac: mac.to_owned(),
            addresses: vec![FixedAddress { subnet: address.0, address: ip(address.1) }],
            settings: with,
            binding: PortBinding { device, owner: owner.to_owned(), host: host.to_owned() },
            made_for: None,
        };
        self.network(network, created).await;
    }

    /// A guest on a network behind a router, with a group of three rules and a floating address.
    async fn furnished() -> Self {
        let cloud = Self::empty();
        for (network, subnet, cidr, name, physical) in [
            (INNER, INNER_SUBNET, "10.0.0.0/24", "private", None),
            (OUTSIDE, OUTSIDE_SUBNET, "203.0.113.0/24", "outside", Some("physnet1".to_owned())),
        ] {
            let external = physical.is_some();
            let created = NetworkCreated {
                network,
                project: project(),
                settings: NetworkSettings { name: name.to_owned(), external, ..NetworkSettings::default() },
                provider: ProviderAttributes {
                    network_type: if external { "flat" } else { "local" }.to_owned(),
                    physical_network: physical,
                    segmentation_id: None,
                },
                availability_zone_hints: vec![],
            };
            cloud.network(network, created).await;
            let added = SubnetAdded {
                network,
                subnet,
                project: project(),
                cidr: cidr.parse().unwrap(),
                ipv6_address_mode: None,
                ipv6_ra_mode: None,
                settings: subnet_settings(external),
            };
            cloud.network(network, added).await;
        }
        let settings =
            GroupSettings { name: "web".to_owned(), description: String::new(), stateful: true, tags: vec![] };
        cloud.groups(GroupCreated { group: GROUP, project: project(), settings }).await;
        cloud.rule(SSH, Direction::Ingress, Some(("tcp", 22, 22, "192.0.2.0/24"))).await;
        cloud.rule(SecurityGroupRuleId(id(0xe)), Direction::Egress, None).await;
        cloud
            .groups(RuleAdded {
                rule: SecurityGroupRuleId(id(0xf)),
                group: GROUP,
                project: project(),
                description: String::new(),
                traffic: traffic(Direction::Ingress, None, Some(GROUP)),
            })
            .await;
        let guest = PortSettings {
            security_groups: vec![GROUP],
            allowed_address_pairs: vec![AddressPair { address: "10.0.0.200".to_owned(), mac: None }],
            ..PortSettings::default()
        };
        cloud.port(INNER, GUEST, "fa:16:3e:00:00:03", (INNER_SUBNET, "10.0.0.5"), guest).await;
        let settings = RouterSettings { name: "edge".to_owned(), ..RouterSettings::default() };
        cloud
            .router(RouterCreated { router: ROUTER, project: project(), settings, availability_zone_hints: vec![] })
            .await;
        let open = || PortSettings { port_security: false, ..PortSettings::default() };
        cloud.port(INNER, INTERFACE, "fa:16:3e:00:00:09", (INNER_SUBNET, "10.0.0.1"), open()).await;
        cloud.port(OUTSIDE, GATEWAY, "fa:16:3e:00:00:0a", (OUTSIDE_SUBNET, "203.0.113.2"), open()).await;
        let address = (OUTSIDE_SUBNET, "203.0.113.5");
        cloud.port(OUTSIDE, FLOATING_PORT, "fa:16:3e:00:00:0c", address, open()).await;
        let allocated = FloatingIpAllocated {
            network: OUTSIDE,
            floating_ip: FLOATING,
            project: project(),
            port: FLOATING_PORT,
            address: FixedAddress { subnet: OUTSIDE_SUBNET, address: ip("203.0.113.5") },
            settings: FloatingIpSettings::default(),
        };
        cloud.network(OUTSIDE, allocated).await;
        let association =
            Association { network: INNER, port: GUEST, subnet: INNER_SUBNET, address: ip("10.0.0.5"), router: ROUTER };
        cloud.network(OUTSIDE, FloatingIpAssociated { network: OUTSIDE, floating_ip: FLOATING, association }).await;
        cloud
    }

    async fn rule(&self, rule: SecurityGroupRuleId, direction: Direction, what: Option<Allowed<'_>>) {
        let traffic = traffic(direction, what, None);
        let description = String::new();
        self.groups(RuleAdded { rule, group: GROUP, project: project(), description, traffic }).await;
    }
}

/// Protocol, first and last port, prefix of the other end.
type Allowed<'a> = (&'a str, u16, u16, &'a str);

fn traffic(direction: Direction, what: Option<Allowed<'_>>, remote_group: Option<SecurityGroupId>) -> RuleTraffic {
    RuleTraffic {
        direction,
        ethertype: Ethertype::Ipv4,
        protocol: what.map(|what| what.0.to_owned()),
        port_min: what.map(|what| what.1),
        port_max: what.map(|what| what.2),
        remote_prefix: what.map(|what| what.3.to_owned()),
        remote_group,
    }
}

fn subnet_settings(external: bool) -> SubnetSettings {
    let (gateway, first, last) = match external {
        true => ("203.0.113.1", "203.0.113.2", "203.0.113.254"),
        false => ("10.0.0.1", "10.0.0.2", "10.0.0.254"),
    };
    SubnetSettings {
        name: String::new(),
        description: String::new(),
        gateway: Some(ip(gateway)),
        dhcp: !external,
        dns: vec![ip("192.0.2.53")],
        pools: vec![AllocationPool { start: ip(first), end: ip(last) }],
        host_routes: vec![],
        tags: vec![],
    }
}

/// The wanted rows as text.
fn shown(cloud: &Cloud, options: &OvnOptions) -> String {
    let mut text = String::new();
    for (key, row) in wanted::wanted(&NorthboundSources::of(&cloud.views), options) {
        writeln!(text, "{} {}", key.table.name(), key.mark).unwrap();
        for (column, cell) in &row.cells {
            let value = match cell {
                WantedCell::Value(value) => value.to_json().to_string(),
                WantedCell::Rows(rows) => rows.iter().map(|row| row.mark.as_str()).collect::<Vec<_>>().join(", "),
                WantedCell::Row(row) => row.as_ref().map_or("none", |row| row.mark.as_str()).to_owned(),
            };
            writeln!(text, "  {column}: {value}").unwrap();
        }
        if let Some(title) = row.title {
            writeln!(text, "  title: {title}").unwrap();
        }
    }
    text
}

#[tokio::test]
async fn the_rows_of_a_cloud_are_these() {
    let cloud = Cloud::furnished().await;
    expectorate::assert_contents("src/services/embedded/network/ovn/golden.txt", &shown(&cloud, &options()));
}

#[tokio::test]
async fn without_a_gateway_chassis_a_router_has_no_gateway() {
    let cloud = Cloud::furnished().await;
    let rows = shown(&cloud, &OvnOptions { gateway_chassis: vec![], ..options() });
    assert!(rows.contains(&format!("router-port/{INTERFACE}")), "{rows}");
    for absent in ["Gateway_Chassis ", "NAT ", "Logical_Router_Static_Route ", "203.0.113.2", &GATEWAY.to_string()] {
        assert!(!rows.contains(absent), "{absent}: {rows}");
    }
}

#[tokio::test]
async fn a_router_routes_centrally_on_a_physical_network() {
    let cloud = Cloud::furnished().await;
    let central = r#"["reside-on-redirect-chassis","true"]"#;
    assert!(!shown(&cloud, &options()).contains(central));
    let open = PortSettings { port_security: false, ..PortSettings::default() };
    cloud.port(OUTSIDE, WIRED, "fa:16:3e:00:00:31", (OUTSIDE_SUBNET, "203.0.113.9"), open).await;
    let rows = shown(&cloud, &options());
    assert_eq!(rows.matches(central).count(), 1, "{rows}");
}

#[tokio::test]
async fn host_routes_carry_the_default_route_with_them() {
    let cloud = Cloud::furnished().await;
    let route = HostRoute { destination: "192.0.2.0/24".to_owned(), nexthop: "10.0.0.9".to_owned() };
    let settings = SubnetSettings { host_routes: vec![route], ..subnet_settings(false) };
    let (settings, tags) = TagsChange::between(&[], settings);
    cloud.network(INNER, SubnetSettingsReplaced { network: INNER, subnet: INNER_SUBNET, settings, tags }).await;
    let rows = shown(&cloud, &options());
    let routes = r#"["classless_static_route","{192.0.2.0/24,10.0.0.9, 0.0.0.0/0,10.0.0.1}"]"#;
    assert!(rows.contains(routes), "{rows}");
}

#[tokio::test]
async fn ipv6_comes_by_advertisements_and_dhcp() {
    for (mode, word, served) in [
        (Ipv6Mode::Slaac, "slaac", false),
        (Ipv6Mode::Stateless, "dhcpv6_stateless", true),
        (Ipv6Mode::Stateful, "dhcpv6_stateful", true),
    ] {
        let cloud = Cloud::furnished().await;
        let subnet = SubnetId(id(0x20));
        let settings = SubnetSettings {
            gateway: Some(ip("2001:db8::1")),
            dns: vec![ip("2001:db8::53")],
            pools: vec![AllocationPool { start: ip("2001:db8::2"), end: ip("2001:db8::ffff") }],
            ..subnet_settings(false)
        };
        let added = SubnetAdded {
            network: INNER,
            subnet,
            project: project(),
            cidr: "2001:db8::/64".parse().unwrap(),
            ipv6_address_mode: Some(mode),
            ipv6_ra_mode: Some(mode),
            settings,
        };
        cloud.network(INNER, added).await;
        let addresses = vec![
            FixedAddress { subnet: INNER_SUBNET, address: ip("10.0.0.1") },
            FixedAddress { subnet, address: ip("2001:db8::1") },
        ];
        let mac = "fa:16:3e:00:00:09".to_owned();
        cloud.network(INNER, PortReaddressed { network: INNER, port: INTERFACE, mac, addresses }).await;
        let rows = shown(&cloud, &options());
        let advertised = format!(r#"["map",[["address_mode","{word}"],["mtu","1442"],["send_periodic","true"]]]"#);
        assert!(rows.contains(&advertised), "{rows}");
        assert!(rows.contains(r#"networks: ["set",["10.0.0.1/24","2001:db8::1/64"]]"#), "{rows}");
        assert_eq!(rows.contains(&format!("DHCP_Options subnet/{subnet}")), served, "{word}: {rows}");
        let stateless = rows.contains(r#"["dhcpv6_stateless","true"]"#);
        assert_eq!(stateless, mode == Ipv6Mode::Stateless, "{rows}");
    }
}

#[test]
fn the_hosts_of_a_port_are_compared_whole() {
    let with = |chassis: &str| {
        let options = OvsdbValue::texts([("requested-chassis".to_owned(), chassis.to_owned())]);
        OvsdbRow::from([("options".to_owned(), options)])
    };
    assert!(admits(&with("h1,h2"), "h2") && admits(&with("h1"), "h1"));
    assert!(!admits(&with("h10,h2"), "h1") && !admits(&OvsdbRow::new(), "h1"));
}

// ---------------------------------------------------------------------------------------------------- with a database

async fn connected(server: &FakeOvsdb) -> Arc<OvnPlane> {
    let remote = OvsdbRemote::Tcp { host: "127.0.0.1".to_owned(), port: server.address.port() };
    let place = OvnPlace {
        remotes: vec![remote],
        trust: TlsTrust { insecure: true, ..TlsTrust::default() },
        connect_timeout: LONG,
        probe_interval: LONG,
    };
    let plane = OvnPlane::start(options(), place).unwrap();
    until(&plane, |plane| plane.trouble().is_none()).await;
    plane
}

async fn until(plane: &OvnPlane, is: impl Fn(&OvnPlane) -> bool) {
    let mut changes = plane.changes();
    let seen = async {
        while !is(plane) {
            changes.changed().await.unwrap();
        }
    };
    timeout(LONG, seen).await.expect("the database stays as it was");
}

/// Compares until nothing differs. Returns the number of transactions.
async fn settle(plane: &OvnPlane, cloud: &Cloud, removals: &mut PlaneRemovals) -> usize {
    for sent in 0..20 {
        if plane.conform(&cloud.views, removals).await.unwrap() {
            return sent;
        }
    }
    panic!("each comparison finds a difference");
}

async fn settled(plane: &OvnPlane, cloud: &Cloud) -> usize {
    settle(plane, cloud, &mut PlaneRemovals::default()).await
}

fn marks(server: &FakeOvsdb, table: &str) -> BTreeSet<String> {
    let mark = |row: OvsdbRow| row.get("external_ids")?.text_at("chronova:row").map(str::to_owned);
    server.rows(table).into_iter().filter_map(mark).collect()
}

/// The id of the row with this name.
fn named(server: &FakeOvsdb, table: &str, name: &str) -> Value {
    let state = server.state.lock().unwrap();
    let is = |row: &OvsdbRow| row.get("name").and_then(|value| value.as_text()) == Some(name);
    let (uuid, _) = state.tables[table].iter().find(|(_, row)| is(row)).unwrap();
    json!(["uuid", uuid.to_string()])
}

fn of(row: &Value) -> Value {
    json!([["_uuid", "==", row]])
}

#[tokio::test]
async fn a_database_gets_all_rows_at_once_and_then_nothing() {
    let (server, cloud) = (FakeOvsdb::start().await, Cloud::furnished().await);
    let plane = connected(&server).await;
    assert_eq!(settled(&plane, &cloud).await, 1);
    assert_eq!(settled(&plane, &cloud).await, 0, "a second comparison finds a difference");
    assert_eq!(server.state.lock().unwrap().transactions, 1);
    let ports = [format!("physical/{OUTSIDE}"), format!("port/{GUEST}"), format!("port/{INTERFACE}")];
    let ports: BTreeSet<String> = ports.into_iter().chain([format!("port/{GATEWAY}")]).collect();
    assert_eq!(marks(&server, "Logical_Switch_Port"), ports);
    assert_eq!(marks(&server, "Port_Group"), BTreeSet::from([format!("group/{GROUP}"), "group/drop".to_owned()]));
    assert_eq!(server.rows("ACL").len(), 7);
    assert_eq!(server.rows("NAT").len(), 2);
}

#[tokio::test]
async fn what_others_change_in_the_rows_of_chronova_is_mended() {
    let (server, cloud) = (FakeOvsdb::start().await, Cloud::furnished().await);
    let plane = connected(&server).await;
    settled(&plane, &cloud).await;
    let guest = named(&server, "Logical_Switch_Port", &GUEST.to_string());
    let switch = named(&server, "Logical_Switch", &format!("chronova-{INNER}"));
    let before = server.state.lock().unwrap().tables.clone();
    let mut changes = plane.changes();
    changes.mark_unchanged();
    server
        .change(vec![
            json!({"op": "update", "table": "Logical_Switch_Port", "where": of(&guest), "row": {"enabled": false}}),
            json!({"op": "mutate", "table": "Logical_Switch_Port", "where": of(&guest),
                   "mutations": [["external_ids", "insert", ["map", [["other:note", "kept"]]]]]}),
            json!({"op": "insert", "table": "Logical_Switch_Port", "uuid-name": "other", "row": {"name": "other"}}),
            json!({"op": "mutate", "table": "Logical_Switch", "where": of(&switch),
                   "mutations": [["ports", "insert", ["named-uuid", "other"]]]}),
        ])
        .await;
    timeout(LONG, changes.changed()).await.unwrap().unwrap();
    assert_eq!(settled(&plane, &cloud).await, 1);
    let names: BTreeSet<String> = server
        .rows("Logical_Switch_Port")
        .iter()
        .filter_map(|row| row.get("name")?.as_text().map(str::to_owned))
        .collect();
    assert!(names.contains("other"), "the port of another program is gone: {names:?}");
    let notes = server
        .rows("Logical_Switch_Port")
        .into_iter()
        .filter_map(|row| row.get("external_ids").and_then(|ids| ids.text_at("other:note")).map(str::to_owned));
    assert_eq!(notes.collect::<Vec<_>>(), ["kept"]);
    let after = server.state.lock().unwrap().tables.clone();
    for table in ["ACL", "Port_Group", "DHCP_Options", "Logical_Router", "NAT"] {
        assert_eq!(before[table], after[table], "{table}");
    }
    let guest: Uuid = guest[1].as_str().unwrap().parse().unwrap();
    assert_eq!(after["Logical_Switch_Port"][&guest]["enabled"].to_json(), json!(true));
}

#[tokio::test]
async fn one_transaction_updates_only_so_many_rows() {
    let (server, cloud) = (FakeOvsdb::start().await, Cloud::furnished().await);
    let plane = connected(&server).await;
    settled(&plane, &cloud).await;
    let guest = named(&server, "Logical_Switch_Port", &GUEST.to_string());
    let router = named(&server, "Logical_Router", &format!("chronova-{ROUTER}"));
    let mut changes = plane.changes();
    changes.mark_unchanged();
    let disable =
        |table: &str, row: &Value| json!({"op": "update", "table": table, "where": of(row), "row": {"enabled": false}});
    server.change(vec![disable("Logical_Switch_Port", &guest), disable("Logical_Router", &router)]).await;
    timeout(LONG, changes.changed()).await.unwrap().unwrap();
    let (rows, tables) = (wanted::wanted(&NorthboundSources::of(&cloud.views), &options()), plane.client.copy().tables);
    let count = |most: usize| difference::difference(&rows, &tables, &|_| true, most).len();
    assert_eq!([1, 2_000].map(count), [1, 2]);
    assert_eq!(settled(&plane, &cloud).await, 1);
}

#[test]
fn a_name_has_no_character_that_the_database_refuses() {
    let title = |name: &str| WantedRow::default().titled(name).title;
    assert_eq!([title("a\0b"), title("\0"), title("")], [Some("ab".to_owned()), None, None]);
}

#[tokio::test]
async fn a_lost_row_comes_back_with_what_refers_to_it() {
    let (server, cloud) = (FakeOvsdb::start().await, Cloud::furnished().await);
    let plane = connected(&server).await;
    settled(&plane, &cloud).await;
    let (guest, switch) = (
        named(&server, "Logical_Switch_Port", &GUEST.to_string()),
        named(&server, "Logical_Switch", &format!("chronova-{INNER}")),
    );
    let mut changes = plane.changes();
    changes.mark_unchanged();
    let lose = json!({"op": "mutate", "table": "Logical_Switch", "where": of(&switch),
                      "mutations": [["ports", "delete", guest]]});
    server.change(vec![lose]).await;
    timeout(LONG, changes.changed()).await.unwrap().unwrap();
    assert!(!marks(&server, "Logical_Switch_Port").contains(&format!("port/{GUEST}")));
    assert_eq!(settled(&plane, &cloud).await, 1);
    let again = named(&server, "Logical_Switch_Port", &GUEST.to_string());
    let uuid: Uuid = again[1].as_str().unwrap().parse().unwrap();
    let members = server.rows("Port_Group").iter().filter(|row| row["ports"].rows().any(|port| port == uuid)).count();
    assert_eq!(members, 2, "the port is in its group and in the group that drops");
}

#[tokio::test]
async fn what_the_log_deletes_leaves_no_row() {
    let (server, cloud) = (FakeOvsdb::start().await, Cloud::furnished().await);
    let plane = connected(&server).await;
    settled(&plane, &cloud).await;
    cloud.groups(RuleRemoved { rule: SSH, group: GROUP }).await;
    assert_eq!(settled(&plane, &cloud).await, 1);
    assert!(!marks(&server, "ACL").contains(&format!("rule/{SSH}")));
    cloud.network(INNER, PortDeleted { network: INNER, port: GUEST }).await;
    assert_eq!(settled(&plane, &cloud).await, 1);
    assert!(server.rows("Port_Group").is_empty(), "the last port of the groups is gone");
    assert_eq!(marks(&server, "NAT"), BTreeSet::from([format!("snat/{ROUTER}/{INNER_SUBNET}")]));
    cloud.router(RouterDeleted { router: ROUTER }).await;
    for (network, port) in [(INNER, INTERFACE), (OUTSIDE, GATEWAY), (OUTSIDE, FLOATING_PORT)] {
        cloud.network(network, PortDeleted { network, port }).await;
    }
    for network in [INNER, OUTSIDE] {
        cloud.network(network, NetworkDeleted { network }).await;
    }
    assert_eq!(settled(&plane, &cloud).await, 1);
    let left: usize = server.state.lock().unwrap().tables.values().map(std::collections::BTreeMap::len).sum();
    assert_eq!(left, 0, "{:?}", server.state.lock().unwrap().tables);
}

#[tokio::test]
async fn on_a_copy_only_rows_that_this_log_wanted_are_removed() {
    let (server, original) = (FakeOvsdb::start().await, Cloud::furnished().await);
    let plane = connected(&server).await;
    settled(&plane, &original).await;
    let copy = Cloud::empty();
    let mut removals = PlaneRemovals::default();
    removals.only_own();
    assert_eq!(settle(&plane, &copy, &mut removals).await, 0, "the rows of the original would be removed");
    // The copy may remove the rows that it has wanted once.
    assert_eq!(settle(&plane, &original, &mut removals).await, 0);
    assert_eq!(settle(&plane, &copy, &mut removals).await, 1);
    assert!(server.rows("Logical_Switch").is_empty());
}

#[tokio::test]
async fn a_database_that_was_away_gets_what_changed_meanwhile() {
    let (server, cloud) = (FakeOvsdb::start().await, Cloud::furnished().await);
    let plane = connected(&server).await;
    settled(&plane, &cloud).await;
    server.hang_up().await;
    until(&plane, |plane| plane.trouble().is_some()).await;
    let refused = plane.conform(&cloud.views, &mut PlaneRemovals::default()).await;
    assert!(matches!(refused, Err(PortError::Unavailable(_))), "{refused:?}");
    cloud.groups(RuleRemoved { rule: SSH, group: GROUP }).await;
    until(&plane, |plane| plane.trouble().is_none()).await;
    assert_eq!(settled(&plane, &cloud).await, 1);
    assert!(!marks(&server, "ACL").contains(&format!("rule/{SSH}")));
}

#[tokio::test]
async fn a_port_carries_traffic_when_ovn_says_so() {
    let (server, cloud) = (FakeOvsdb::start().await, Cloud::furnished().await);
    let plane = connected(&server).await;
    assert!(!plane.carries(GUEST), "the database has no such port");
    settled(&plane, &cloud).await;
    assert!(!plane.carries(GUEST) && !plane.wait_for(&[GUEST], Duration::ZERO, super::is_up).await);
    assert!(plane.wait_for(&[GUEST], LONG, |row| admits(row, "h1")).await);
    let guest = named(&server, "Logical_Switch_Port", &GUEST.to_string());
    let up = json!({"op": "update", "table": "Logical_Switch_Port", "where": of(&guest), "row": {"up": true}});
    server.change(vec![up]).await;
    assert!(plane.wait_for(&[GUEST], LONG, super::is_up).await);
    assert!(plane.carries(GUEST));
    assert_eq!(settled(&plane, &cloud).await, 0, "the state of a port is not a difference");
}
