//! Tests of [`NetworkService`], the port by which Compute gives servers their interfaces.

use std::sync::Arc;

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::ports::{InterfacesRequest, NetworkService, PortError, PortGrants, ServiceCaller};
use chronova_actors::services::embedded::network::NetworkRoot;
use chronova_actors::services::embedded::network::quota::NetworkQuotaRoot;
use chronova_events::codec;
use chronova_events::envelope::{Meta, NewEvent, Timestamp};
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProjectId};
use chronova_events::instance::{RequestedNetworks, RequestedNic};
use chronova_events::network::Network;
use chronova_events::network_quota::{CountedResource, NetworkLimitsSet, NetworkQuotaEvent, NetworkRoomTaken};
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore as _, Expected};
use chronova_projections::networks::NetworksView;
use chronova_projections::security_groups::SecurityGroupsView;
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::World;

const BOB: &str = "bob:blue";

fn meta() -> Arc<Meta> {
    Meta::system("test")
}

fn blue() -> ProjectId {
    ProjectId::new("blue")
}

fn server(n: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(n))
}

fn networks(world: &World) -> Arc<dyn NetworkService> {
    Arc::clone(&world.context().networks)
}

fn wanted(n: u128, networks: RequestedNetworks) -> InterfacesRequest {
    InterfacesRequest {
        instance: server(n),
        project: blue(),
        hostname: format!("server-{n}"),
        host: "h1".into(),
        availability_zone: "nova".into(),
        networks,
        security_groups: vec!["default".into()],
        grants: PortGrants::default(),
    }
}

fn nic(network: &Value) -> RequestedNic {
    RequestedNic { network: network_id(network), port: None, fixed_ip: None, tag: None }
}

fn network_id(network: &Value) -> Option<NetworkId> {
    network["id"].as_str().unwrap().parse().ok()
}

async fn network(world: &World, name: &str, cidr: &str) -> Value {
    let network = world.make(BOB, "/networks", "network", json!({"name": name})).await;
    let body = json!({"network_id": network["id"], "cidr": cidr, "ip_version": 4, "dns_nameservers": ["9.9.9.9"]});
    world.make(BOB, "/subnets", "subnet", body).await;
    network
}

async fn ports_of(world: &World, n: u128) -> Vec<Value> {
    let body = world.get("admin", &format!("/ports?device_id={}", server(n))).await;
    body["ports"].as_array().unwrap().clone()
}

fn by() -> ServiceCaller {
    ServiceCaller::system("test")
}

#[actix_web::test]
async fn a_repeated_allocation_returns_the_same_interface() {
    let world = World::new().await;
    let private = network(&world, "private", "10.0.0.0/24").await;
    let port = networks(&world);
    let first = port.allocate(wanted(1, RequestedNetworks::Auto), meta()).await.unwrap();
    let again = port.allocate(wanted(1, RequestedNetworks::Auto), meta()).await.unwrap();
    assert_eq!(first, again);
    let [nic] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!((nic.network_label.as_str(), nic.mtu, nic.owned), ("private", 1500, true));
    assert_eq!(nic.security_groups, ["default"]);
    let [fixed] = nic.fixed_ips.as_slice() else { panic!("{nic:?}") };
    assert_eq!((fixed.address.as_str(), fixed.prefix, fixed.dhcp), ("10.0.0.2", 24, true));
    assert_eq!((fixed.gateway.as_deref(), fixed.dns.as_slice()), (Some("10.0.0.1"), &["9.9.9.9".to_owned()][..]));

    let ports = ports_of(&world, 1).await;
    assert_eq!(ports.len(), 1);
    assert_eq!((&ports[0]["status"], &ports[0]["binding:host_id"]), (&json!("ACTIVE"), &json!("h1")));
    assert_eq!((&ports[0]["device_owner"], &ports[0]["network_id"]), (&json!("compute:nova"), &private["id"]));
    assert_eq!(ports[0]["id"], nic.port.to_string());

    for _ in 0..2 {
        port.release(server(1), &blue(), &[], meta()).await.unwrap();
        assert_eq!(ports_of(&world, 1).await.len(), 0);
    }
    world.end().await;
}

#[actix_web::test]
async fn given_ports_are_bound_and_left_behind() {
    let world = World::new().await;
    let (a, b) = (network(&world, "a", "10.0.0.0/24").await, network(&world, "b", "10.1.0.0/24").await);
    let given = world.make(BOB, "/ports", "port", json!({"network_id": b["id"], "name": "mine"})).await;
    let given_id: PortId = given["id"].as_str().unwrap().parse().unwrap();
    let port = networks(&world);
    let nics = vec![
        RequestedNic { fixed_ip: Some("10.0.0.50".into()), tag: Some("first".into()), ..nic(&a) },
        RequestedNic { network: None, port: Some(given_id), fixed_ip: None, tag: None },
    ];
    let asked = RequestedNetworks::These(nics);
    port.check(&blue(), &asked, &[], &by()).await.unwrap();
    let got = port.allocate(wanted(1, asked.clone()), meta()).await.unwrap();
    assert_eq!(got.iter().map(|nic| nic.owned).collect::<Vec<_>>(), [true, false]);
    assert_eq!((got[0].fixed_ips[0].address.as_str(), got[0].tag.as_deref()), ("10.0.0.50", Some("first")));
    assert_eq!(got[1].port, given_id);

    let refused = port.check(&blue(), &asked, &[], &by()).await.unwrap_err();
    assert!(
        matches!(&refused, PortError::Invalid(text) if text == &format!("Fixed IP address 10.0.0.50 is already in use on instance {}.", server(1))),
        "{refused}"
    );
    let taken = RequestedNetworks::These(vec![
        nic(&a),
        RequestedNic { network: None, port: Some(given_id), fixed_ip: None, tag: None },
    ]);
    let refused = port.check(&blue(), &taken, &[], &by()).await.unwrap_err();
    assert!(matches!(&refused, PortError::Conflict(text) if text == &format!("Port {given_id} is still in use.")));
    let refused = port.allocate(wanted(2, taken), meta()).await.unwrap_err();
    assert!(matches!(refused, PortError::Conflict(_)));
    assert_eq!(ports_of(&world, 2).await.len(), 0, "the failed allocation left a port on the first network");

    port.release(server(1), &blue(), &[], meta()).await.unwrap();
    let left = world.get("admin", &format!("/ports/{given_id}")).await;
    assert_eq!((&left["port"]["device_id"], &left["port"]["status"]), (&json!(""), &json!("DOWN")));
    assert_eq!(ports_of(&world, 1).await.len(), 0);
    world.end().await;
}

#[actix_web::test]
async fn impossible_network_requests_get_novas_messages() {
    let world = World::new().await;
    let port = networks(&world);
    let auto = RequestedNetworks::Auto;
    port.check(&blue(), &auto, &[], &by()).await.expect("a server without interfaces, without any network");
    assert_eq!(port.allocate(wanted(1, auto.clone()), meta()).await.unwrap(), []);
    let refused = port.check_auto(&blue(), &by()).await.unwrap_err();
    assert_eq!(refused.to_string(), "Unable to automatically allocate a network for project blue");

    let bare = world.make(BOB, "/networks", "network", json!({"name": "bare"})).await;
    let these = |nic: RequestedNic| RequestedNetworks::These(vec![nic]);
    let refused = port.check(&blue(), &these(nic(&bare)), &[], &by()).await.unwrap_err();
    let message = format!("Network {} requires a subnet in order to boot instances on.", bare["id"].as_str().unwrap());
    assert!(matches!(&refused, PortError::Invalid(text) if *text == message));
    network(&world, "second", "10.0.0.0/24").await;
    let refused = port.check(&blue(), &auto, &[], &by()).await.unwrap_err();
    let message = "Multiple possible networks found, use a Network ID to be more specific.";
    assert!(matches!(&refused, PortError::Conflict(text) if text == message));

    let refused = port.check(&ProjectId::new("red"), &these(nic(&bare)), &[], &by()).await.unwrap_err();
    let message = format!("Network {} could not be found.", bare["id"].as_str().unwrap());
    assert!(matches!(&refused, PortError::Invalid(text) if *text == message));
    let nowhere = RequestedNic { network: None, port: Some(PortId(Uuid::nil())), fixed_ip: None, tag: None };
    let refused = port.check(&blue(), &these(nowhere), &[], &by()).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("Port id {} could not be found.", Uuid::nil()));
    let groups = ["ghost".to_owned()];
    let refused = port.check(&blue(), &RequestedNetworks::None, &groups, &by()).await.unwrap_err();
    assert!(matches!(&refused, PortError::Invalid(text) if text == "Security group ghost not found."));
    for _ in 0..2 {
        world.make(BOB, "/security-groups", "security_group", json!({"name": "twin"})).await;
    }
    let refused = port.check(&blue(), &RequestedNetworks::None, &["twin".to_owned()], &by()).await.unwrap_err();
    assert!(matches!(&refused, PortError::Conflict(_)));
    world.send("admin", "PUT", "/quotas/blue", Some(json!({"quota": {"port": 0}}))).await;
    let refused = port.check(&blue(), &these(nic(&network(&world, "third", "10.3.0.0/24").await)), &[], &by()).await;
    assert!(matches!(refused, Err(PortError::Forbidden(text)) if text == "Maximum number of ports exceeded"));
    world.end().await;
}

/// The operator has set a range for the networks of projects. Requests that leave the choice of the network to the
/// service then create one network for a project that has none.
#[actix_web::test]
async fn a_project_without_a_network_gets_one() {
    let world = World::with_range("10.128.0.0/16").await;
    let (port, caller, project) = (networks(&world), by(), blue());
    let asked = (0..4).map(|_| port.check_auto(&project, &caller));
    for made in futures::future::join_all(asked).await {
        made.unwrap();
    }
    let listed =
        async |token: &str, kind: &str| world.get(token, &format!("/{kind}")).await[kind].as_array().unwrap().clone();
    let made = listed(BOB, "networks").await;
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!((&made[0]["name"], &made[0]["project_id"]), (&json!("auto_allocated_network"), &json!("blue")));
    let nics = port.allocate(wanted(1, RequestedNetworks::Auto), meta()).await.unwrap();
    let [fixed] = nics[0].fixed_ips.as_slice() else { panic!("{nics:?}") };
    assert!(fixed.address.starts_with("10.128.") && fixed.prefix == 24 && fixed.dhcp, "{fixed:?}");

    // Another project gets other addresses.
    port.check_auto(&ProjectId::new("red"), &caller).await.unwrap();
    let subnets = listed("admin", "subnets").await;
    assert_eq!(subnets.len(), 2, "{subnets:?}");
    assert_ne!(subnets[0]["cidr"], subnets[1]["cidr"]);

    // A deleted network is made again. A network that its project has switched off is not.
    port.release(server(1), &project, &[], meta()).await.unwrap();
    let path = format!("/networks/{}", made[0]["id"].as_str().unwrap());
    assert_eq!(world.send(BOB, "DELETE", &path, None).await.0, 204);
    port.check_auto(&project, &caller).await.unwrap();
    let again = listed(BOB, "networks").await;
    assert_eq!(again.len(), 1, "{again:?}");
    assert_ne!(again[0]["id"], made[0]["id"]);
    let path = format!("/networks/{}", again[0]["id"].as_str().unwrap());
    let off = json!({"network": {"admin_state_up": false}});
    assert_eq!(world.send(BOB, "PUT", &path, Some(off)).await.0, 200);
    let unable = |project: &str| format!("Unable to automatically allocate a network for project {project}");
    assert_eq!(port.check_auto(&project, &caller).await.unwrap_err().to_string(), unable("blue"));

    // The network takes quota of its project.
    world.send("admin", "PUT", "/quotas/green", Some(json!({"quota": {"network": 0}}))).await;
    let refused = port.check_auto(&ProjectId::new("green"), &caller).await.unwrap_err();
    assert_eq!(refused.to_string(), unable("green"));
    world.end().await;
}

/// A crash came between the network and its subnet.
#[actix_web::test]
async fn an_automatic_network_without_a_subnet_gets_its_subnet() {
    let world = World::with_range("10.128.0.0/16").await;
    world.make(BOB, "/networks", "network", json!({"name": "auto_allocated_network"})).await;
    networks(&world).check_auto(&blue(), &by()).await.unwrap();
    let subnets = world.get(BOB, "/subnets").await["subnets"].as_array().unwrap().clone();
    assert_eq!((subnets.len(), &subnets[0]["name"]), (1, &json!("auto_allocated_subnet_v4")), "{subnets:?}");
    assert_eq!(world.get(BOB, "/networks").await["networks"].as_array().unwrap().len(), 1);
    world.end().await;
}

#[actix_web::test]
async fn a_taken_address_of_a_shared_network_does_not_name_another_projects_server() {
    let world = World::new().await;
    let private = network(&world, "private", "10.0.0.0/24").await;
    let path = format!("/networks/{}", private["id"].as_str().unwrap());
    assert_eq!(world.send("admin", "PUT", &path, Some(json!({"network": {"shared": true}}))).await.0, 200);
    let port = networks(&world);
    let taken = || RequestedNic { fixed_ip: Some("10.0.0.50".into()), ..nic(&private) };
    port.allocate(wanted(1, RequestedNetworks::These(vec![taken()])), meta()).await.unwrap();
    let named = format!("Fixed IP address 10.0.0.50 is already in use on instance {}.", server(1));
    for (project, words) in [("blue", named.as_str()), ("red", "Fixed IP address 10.0.0.50 is already in use.")] {
        let project = ProjectId::new(project);
        let refused = port.check(&project, &RequestedNetworks::These(vec![taken()]), &[], &by()).await.unwrap_err();
        assert!(matches!(&refused, PortError::Invalid(text) if text == words), "{project}: {refused}");
        let refused = port.check_attach(&project, &taken(), &by()).await.unwrap_err();
        assert!(matches!(&refused, PortError::Conflict(text) if text == words), "{project}: {refused}");
    }
    world.end().await;
}

/// Nova's administrators see the networks of all projects, and may use external ones.
#[actix_web::test]
async fn an_administrators_server_may_be_on_any_projects_network() {
    let world = World::new().await;
    let port = networks(&world);
    let private = network(&world, "private", "10.0.0.0/24").await;
    let red = ProjectId::new("red");
    let of_red = |networks| InterfacesRequest { project: red.clone(), ..wanted(1, networks) };
    let missing = format!("Network {} could not be found.", private["id"].as_str().unwrap());

    let own = RequestedNetworks::These(vec![nic(&private)]);
    assert_eq!(port.check(&red, &own, &[], &by()).await.unwrap_err().to_string(), missing);
    assert_eq!(port.allocate(of_red(own), meta()).await.unwrap_err().to_string(), missing);

    let any = RequestedNetworks::OfAnyProject(vec![nic(&private)]);
    port.check(&red, &any, &[], &by()).await.unwrap();
    let nics = port.allocate(of_red(any), meta()).await.unwrap();
    assert_eq!(nics[0].network, nic(&private).network.unwrap());
    let made = world.get("admin", &format!("/ports/{}", nics[0].port)).await;
    assert_eq!(made["port"]["project_id"], "red", "the port is not in the server's project");

    let nowhere = RequestedNic { network: Some(NetworkId::random()), port: None, fixed_ip: None, tag: None };
    let refused = port.check(&red, &RequestedNetworks::OfAnyProject(vec![nowhere]), &[], &by()).await;
    assert!(matches!(refused, Err(PortError::Invalid(_))), "{refused:?}");
    world.end().await;
}

#[actix_web::test]
async fn a_host_learns_networks_reservations_and_filters() {
    let world = World::new().await;
    let private = network(&world, "private", "10.0.0.0/24").await;
    let web = world.make(BOB, "/security-groups", "security_group", json!({"name": "web"})).await;
    let rule = json!({"security_group_id": web["id"], "direction": "ingress", "protocol": "tcp",
        "port_range_min": 80, "port_range_max": 80});
    world.make(BOB, "/security-group-rules", "security_group_rule", rule).await;
    let port = networks(&world);
    let these = RequestedNetworks::These(vec![nic(&private)]);
    let plain = port.allocate(wanted(1, these.clone()), meta()).await.unwrap();
    let asked = InterfacesRequest { security_groups: vec!["web".into()], ..wanted(2, these.clone()) };
    let in_web = port.allocate(asked, meta()).await.unwrap();
    let elsewhere = InterfacesRequest { host: "h2".into(), ..wanted(3, these) };
    port.allocate(elsewhere, meta()).await.unwrap();

    let real = port.realise(&plain).await.unwrap();
    let [spec] = real.networks.as_slice() else { panic!("{real:?}") };
    assert_eq!((spec.subnets[0].cidr.as_str(), spec.subnets[0].gateway.as_deref()), ("10.0.0.0/24", Some("10.0.0.1")));
    let reserved: Vec<(&str, &str)> = spec.reservations.iter().map(|r| (r.ip.as_str(), r.hostname.as_str())).collect();
    assert_eq!(reserved.len(), 2, "reservations for the guests of the same host: {reserved:?}");
    assert!(reserved.contains(&("10.0.0.2", "server-1")));
    assert_eq!(real.nics[0].tap, format!("tap{}", &plain[0].port.to_string()[..11]));
    let [filter] = real.filters.as_slice() else { panic!("{real:?}") };
    assert_eq!(real.nics[0].filter.as_deref(), Some(filter.name.as_str()));
    assert_eq!((filter.ips.as_slice(), &filter.mac), (&["10.0.0.2".to_owned()][..], &plain[0].mac));
    // The default group allows all outward traffic, and inward traffic only from members of the group.
    assert!(filter.rules.iter().all(|rule| !rule.ingress || rule.remote.is_some()), "{:?}", filter.rules);
    let mut out = filter.rules.iter().filter(|rule| !rule.ingress && !rule.ipv6);
    assert!(out.any(|rule| rule.protocol.is_none() && rule.remote.is_none()), "{:?}", filter.rules);
    let from: Vec<&str> = filter.rules.iter().filter(|r| r.ingress).filter_map(|r| r.remote.as_deref()).collect();
    assert_eq!(from.len(), 2, "addresses of the default group's members on all hosts: {from:?}");
    assert!(from.contains(&"10.0.0.4/32"));

    let real = port.realise(&in_web).await.unwrap();
    let open: Vec<_> = real.filters[0].rules.iter().filter(|rule| rule.ingress).collect();
    assert_eq!((open.len(), open[0].port_min, open[0].remote.as_deref()), (1, Some(80), None));

    let path = format!("/ports/{}", plain[0].port);
    let open = json!({"port": {"port_security_enabled": false, "security_groups": []}});
    assert_eq!(world.send("admin", "PUT", &path, Some(open)).await.0, 200);
    let real = port.realise(&plain).await.unwrap();
    assert_eq!((real.filters.len(), real.nics[0].filter.as_ref()), (0, None));
    world.end().await;
}

#[actix_web::test]
async fn another_process_on_the_same_log_goes_on() {
    let store = MemoryStore::new();
    let world = World::on(Arc::clone(&store)).await;
    let (a, b) = (network(&world, "a", "10.0.0.0/24").await, network(&world, "b", "10.1.0.0/24").await);
    // A process that crashed after it created a port on the first of two networks.
    let half = RequestedNetworks::These(vec![nic(&a)]);
    let before = networks(&world).allocate(wanted(1, half), meta()).await.unwrap();
    world.end().await;

    let world = World::on(Arc::clone(&store)).await;
    let whole = RequestedNetworks::These(vec![nic(&a), nic(&b)]);
    let after = networks(&world).allocate(wanted(1, whole), meta()).await.unwrap();
    assert_eq!((after.len(), &after[0]), (2, &before[0]));
    world.end().await;

    let world = World::on(store).await;
    networks(&world).release(server(1), &blue(), &[], meta()).await.unwrap();
    assert_eq!(world.get("admin", "/ports").await["ports"], json!([]));
    world.end().await;
}

/// Quota that a request reserved long ago, before its process died, keeps no port from being created. This is also so
/// if Compute asks for the port.
#[actix_web::test]
async fn a_new_server_gets_the_quota_of_a_dead_request() {
    let store = MemoryStore::new();
    let world = World::on(Arc::clone(&store)).await;
    network(&world, "private", "10.0.0.0/24").await;
    world.end().await;
    let dead = vec![CountedResource::Port(PortId::random())];
    let events: [NetworkQuotaEvent; 2] = [
        NetworkLimitsSet { project: blue(), limits: vec![("port".to_owned(), 1)] }.into(),
        NetworkRoomTaken { project: blue(), things: dead }.into(),
    ];
    let events = events.map(|event| NewEvent::new(event, Timestamp(1), &meta())).to_vec();
    store.append(&NetworkQuotaRoot::stream(&blue()), Expected::Any, events).await.unwrap();

    let world = World::on(store).await;
    let nics = networks(&world).allocate(wanted(1, RequestedNetworks::Auto), meta()).await.unwrap();
    assert_eq!(nics.len(), 1);
    let refused = networks(&world).allocate(wanted(2, RequestedNetworks::Auto), meta()).await;
    assert!(refused.is_err(), "the limit does not count ports any more");
    world.end().await;
}

#[actix_web::test]
async fn snapshots_and_checkpoints_say_the_same() {
    let world = World::new().await;
    let private = network(&world, "private", "10.0.0.0/24").await;
    let v6 = json!({"network_id": private["id"], "cidr": "fd00::/64", "ip_version": 6});
    world.make(BOB, "/subnets", "subnet", v6).await;
    networks(&world).allocate(wanted(1, RequestedNetworks::Auto), meta()).await.unwrap();
    let context = world.context();
    let state = context.gateway.look::<NetworkRoot>(&network_id(&private).unwrap()).await.unwrap();
    let bytes = codec::encode_snapshot(&state).unwrap();
    assert_eq!(codec::decode_snapshot::<Network>(&bytes).unwrap(), state);
    let kept = context.views.networks.read(|view| serde_json::to_value(view).unwrap());
    let again: NetworksView = serde_json::from_value(kept.clone()).unwrap();
    assert_eq!(serde_json::to_value(&again).unwrap(), kept);
    let kept = context.views.security_groups.read(|view| serde_json::to_value(view).unwrap());
    let again: SecurityGroupsView = serde_json::from_value(kept.clone()).unwrap();
    assert_eq!(serde_json::to_value(&again).unwrap(), kept);
    world.end().await;
}
