//! Attacks of a project on the networks of another project, and on hosts.

use chronova_events::store::memory::MemoryStore;
use chronova_web::config::WebConfig;
use serde_json::{Value, json};

use super::world::World;

const ADMIN: &str = "admin:admin";
const BOB: &str = "bob:blue";
const EVE: &str = "eve:red";

fn id(thing: &Value) -> String {
    thing["id"].as_str().unwrap().to_owned()
}

fn forbidden() -> (u16, String) {
    (403, "PolicyNotAuthorized".to_owned())
}

/// A network with a subnet.
async fn network(world: &World, token: &str, cidr: &str, settings: Value) -> (Value, Value) {
    let network = world.make(token, "/networks", "network", settings).await;
    let subnet = json!({"network_id": network["id"], "cidr": cidr, "ip_version": 4});
    (network, world.make(token, "/subnets", "subnet", subnet).await)
}

#[actix_web::test]
async fn a_router_takes_no_gateway_address_of_a_foreign_subnet() {
    let world = World::new().await;
    let (shared, foreign) = network(&world, ADMIN, "10.50.0.0/24", json!({"name": "all", "shared": true})).await;
    let (_, outside) = network(&world, ADMIN, "203.0.113.0/24", json!({"router:external": true})).await;
    let router = world.make(EVE, "/routers", "router", json!({"name": "hers"})).await;
    let path = format!("/routers/{}/add_router_interface", id(&router));
    for subnet in [&foreign, &outside] {
        let (status, body) = world.send(EVE, "PUT", &path, Some(json!({"subnet_id": subnet["id"]}))).await;
        assert_eq!((status, &body["NeutronError"]["type"]), (400, &json!("BadRequest")), "{body}");
        let message = body["NeutronError"]["message"].as_str().unwrap();
        assert!(message.contains("is not owned by project making the request"), "{message}");
    }
    assert_eq!(world.get(ADMIN, "/ports").await["ports"], json!([]), "a refused request left a port");

    // The owner of a network does not own the ports that other projects have in it.
    let (own, _) = network(&world, EVE, "10.51.0.0/24", json!({"name": "own", "shared": false})).await;
    let given = json!({"network_id": own["id"], "project_id": "blue"});
    let given = world.make(ADMIN, "/ports", "port", given).await;
    assert_eq!(world.refused(EVE, "PUT", &path, Some(json!({"port_id": given["id"]}))).await, forbidden());

    // As in Neutron, the caller's own port on a shared network may be an interface, because it has an ordinary address.
    let port = world.make(EVE, "/ports", "port", json!({"network_id": shared["id"]})).await;
    let (status, body) = world.send(EVE, "PUT", &path, Some(json!({"port_id": port["id"]}))).await;
    assert_eq!((status, &body["port_id"]), (200, &port["id"]), "{body}");
    let (status, body) = world.send(ADMIN, "PUT", &path, Some(json!({"subnet_id": outside["id"]}))).await;
    assert_eq!(status, 200, "an administrator was refused: {body}");
    world.end().await;
}

#[actix_web::test]
async fn only_its_owner_adds_subnets_to_a_network() {
    let world = World::new().await;
    let (shared, _) = network(&world, ADMIN, "10.50.0.0/24", json!({"name": "all", "shared": true})).await;
    let (external, _) = network(&world, ADMIN, "203.0.113.0/24", json!({"router:external": true})).await;
    for network in [&shared, &external] {
        let request = json!({"subnet": {"network_id": network["id"], "cidr": "10.66.0.0/24", "ip_version": 4}});
        assert_eq!(world.refused(EVE, "POST", "/subnets", Some(request.clone())).await, forbidden());
        assert_eq!(world.send(ADMIN, "POST", "/subnets", Some(request)).await.0, 201);
    }
    network(&world, EVE, "10.66.0.0/24", json!({"name": "own"})).await;
    world.end().await;
}

#[actix_web::test]
async fn projects_cannot_set_a_device_owner_of_the_network_service() {
    let world = World::new().await;
    let (private, _) = network(&world, BOB, "10.0.0.0/24", json!({"name": "private"})).await;
    let port = world.make(BOB, "/ports", "port", json!({"network_id": private["id"]})).await;
    let path = format!("/ports/{}", id(&port));
    for owner in ["network:dhcp", "network:router_interface", "network:floatingip"] {
        let made = json!({"port": {"network_id": private["id"], "device_owner": owner}});
        assert_eq!(world.refused(BOB, "POST", "/ports", Some(made)).await, forbidden(), "{owner}");
        let change = json!({"port": {"device_owner": owner}});
        assert_eq!(world.refused(BOB, "PUT", &path, Some(change)).await, forbidden(), "{owner}");
    }
    let compute = json!({"port": {"device_owner": "compute:nova", "device_id": "mine"}});
    assert_eq!(world.send(BOB, "PUT", &path, Some(compute)).await.0, 200);
    let dhcp = json!({"port": {"device_owner": "network:dhcp"}});
    assert_eq!(world.send(ADMIN, "PUT", &path, Some(dhcp)).await.0, 200);
    world.end().await;
}

/// As in Neutron, an update needs the rule of each attribute that it names, even if the value is the default.
#[actix_web::test]
async fn projects_cannot_reset_what_only_administrators_set() {
    let world = World::new().await;
    let (given, _) =
        network(&world, ADMIN, "10.0.0.0/24", json!({"name": "given", "project_id": "blue", "shared": true})).await;
    for (name, value) in [("shared", json!(false)), ("router:external", json!(false)), ("is_default", json!(true))] {
        let path = format!("/networks/{}", id(&given));
        assert_eq!(
            world.refused(BOB, "PUT", &path, Some(json!({"network": {name: value}}))).await,
            forbidden(),
            "{name}"
        );
    }
    let first = json!({"network": {"name": "n", "is_default": true}});
    assert_eq!(world.refused(BOB, "POST", "/networks", Some(first)).await, forbidden());
    network(&world, BOB, "10.1.0.0/24", json!({"name": "own", "shared": false, "is_default": false})).await;

    let bound = json!({"network_id": given["id"], "project_id": "blue", "binding:host_id": "h1"});
    let path = format!("/ports/{}", id(&world.make(ADMIN, "/ports", "port", bound).await));
    for (name, value) in
        [("binding:host_id", json!("")), ("binding:host_id", json!(null)), ("binding:profile", json!({}))]
    {
        assert_eq!(world.refused(BOB, "PUT", &path, Some(json!({"port": {name: value}}))).await, forbidden(), "{name}");
    }
    assert_eq!(world.get(ADMIN, &path).await["port"]["binding:host_id"], "h1");
    assert_eq!(world.send(BOB, "PUT", &path, Some(json!({"port": {"name": "mine"}}))).await.0, 200);
    world.end().await;
}

#[actix_web::test]
async fn subnets_avoid_loopback_link_local_and_multicast_ranges() {
    let world = World::new().await;
    let network = world.make(BOB, "/networks", "network", json!({"name": "private"})).await;
    let subnet = |cidr: &str| {
        let version = if cidr.contains(':') { 6 } else { 4 };
        json!({"subnet": {"network_id": network["id"], "cidr": cidr, "ip_version": version}})
    };
    for cidr in [
        "127.0.0.0/8",
        "127.53.0.0/16",
        "0.0.0.0/0",
        "0.0.0.0/8",
        "169.254.169.254/32",
        "169.254.0.0/16",
        "168.0.0.0/7",
        "224.0.0.0/4",
        "239.1.0.0/16",
        "255.255.255.0/24",
        "::1/128",
        "::/0",
        "ff05::/64",
        "fe80::/64",
        "::ffff:7f00:0/104",
    ] {
        let refused = world.refused(BOB, "POST", "/subnets", Some(subnet(cidr))).await;
        assert_eq!(refused, (400, "InvalidInput".to_owned()), "{cidr}");
    }
    // Such gateways must be refused, because the bridge of a host gets the gateway's address.
    for gateway in ["127.0.0.1", "169.254.169.254", "224.0.0.1"] {
        let mut request = subnet("10.0.0.0/24");
        request["subnet"]["gateway_ip"] = json!(gateway);
        let refused = world.refused(BOB, "POST", "/subnets", Some(request)).await;
        assert_eq!(refused, (400, "InvalidInput".to_owned()), "{gateway}");
    }
    for cidr in ["10.0.0.0/24", "198.51.100.0/24", "fd00::/64"] {
        assert_eq!(world.send(BOB, "POST", "/subnets", Some(subnet(cidr))).await.0, 201, "{cidr}");
    }
    world.end().await;
}

#[actix_web::test]
async fn subnets_of_projects_keep_out_of_reserved_networks() {
    let reserved_networks = vec!["192.0.2.0/24".parse().unwrap()];
    let config = WebConfig { reserved_networks, ..WebConfig::default() };
    let world = World::with(MemoryStore::new(), config).await;
    let network = world.make(BOB, "/networks", "network", json!({"name": "private"})).await;
    let subnet = |cidr: &str| json!({"subnet": {"network_id": network["id"], "cidr": cidr, "ip_version": 4}});
    let invalid = || (400, "InvalidInput".to_owned());
    for cidr in ["192.0.2.0/24", "192.0.2.128/25", "192.0.0.0/16"] {
        assert_eq!(world.refused(BOB, "POST", "/subnets", Some(subnet(cidr))).await, invalid(), "{cidr}");
    }
    let mut request = subnet("10.0.0.0/24");
    request["subnet"]["gateway_ip"] = json!("192.0.2.1");
    assert_eq!(world.refused(BOB, "POST", "/subnets", Some(request)).await, invalid());
    let made = world.make(BOB, "/subnets", "subnet", subnet("10.0.0.0/24")["subnet"].clone()).await;
    let change = json!({"subnet": {"gateway_ip": "192.0.2.1"}});
    assert_eq!(world.refused(BOB, "PUT", &format!("/subnets/{}", id(&made)), Some(change)).await, invalid());
    assert_eq!(world.send(ADMIN, "POST", "/subnets", Some(subnet("192.0.2.0/24"))).await.0, 201);
    world.end().await;
}
