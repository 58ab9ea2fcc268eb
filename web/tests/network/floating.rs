//! Routers and floating addresses, as clients use them.

use std::sync::Arc;

use chronova_actors::runtime::{Leadership, Member};
use chronova_events::store::memory::MemoryStore;
use serde_json::{Value, json};

use super::world::World;

const ADMIN: &str = "admin:admin";
const BOB: &str = "bob:blue";
const EVE: &str = "eve:red";

fn id(thing: &Value) -> String {
    thing["id"].as_str().unwrap().to_owned()
}

/// A network with a subnet.
async fn network(world: &World, token: &str, cidr: &str, settings: Value) -> (Value, Value) {
    let network = world.make(token, "/networks", "network", settings).await;
    let subnet = json!({"network_id": network["id"], "cidr": cidr, "ip_version": 4});
    (network, world.make(token, "/subnets", "subnet", subnet).await)
}

/// An external network, a network of Bob, and Bob's router between them.
struct Town {
    world: World,
    public: Value,
    subnet: Value,
    router: Value,
    private: Value,
}

impl Town {
    async fn new(world: World, cidr: &str) -> Self {
        let external = json!({"name": "public", "router:external": true, "project_id": "operators"});
        let (public, _) = network(&world, ADMIN, cidr, external).await;
        let (private, subnet) = network(&world, BOB, "10.0.0.0/24", json!({"name": "private"})).await;
        let gateway = json!({"network_id": public["id"]});
        let router = json!({"name": "edge", "external_gateway_info": gateway});
        let router = world.make(BOB, "/routers", "router", router).await;
        let town = Self { world, public, subnet, router, private };
        let (status, body) = town.interface("add", json!({"subnet_id": town.subnet["id"]})).await;
        assert_eq!((status, &body["subnet_ids"]), (200, &json!([town.subnet["id"]])), "{body}");
        town
    }

    async fn interface(&self, what: &str, body: Value) -> (u16, Value) {
        let path = format!("/routers/{}/{what}_router_interface", id(&self.router));
        self.world.send(BOB, "PUT", &path, Some(body)).await
    }

    async fn port(&self) -> Value {
        self.world.make(BOB, "/ports", "port", json!({"network_id": self.private["id"]})).await
    }

    async fn floating(&self, extra: Value) -> Value {
        self.world.make(BOB, "/floatingips", "floatingip", self.request(extra)).await
    }

    fn request(&self, mut extra: Value) -> Value {
        let mut request = json!({"floating_network_id": self.public["id"]});
        request.as_object_mut().unwrap().append(extra.as_object_mut().unwrap());
        request
    }

    async fn refused(&self, token: &str, extra: Value) -> (u16, String) {
        let body = json!({"floatingip": self.request(extra)});
        self.world.refused(token, "POST", "/floatingips", Some(body)).await
    }

    async fn give(&self, floating: &Value, change: Value) -> (u16, Value) {
        let path = format!("/floatingips/{}", id(floating));
        self.world.send(BOB, "PUT", &path, Some(json!({"floatingip": change}))).await
    }
}

#[actix_web::test]
async fn a_floating_address_stands_for_a_port() {
    let town = Town::new(World::new().await, "203.0.113.0/24").await;
    let gateway = &town.router["external_gateway_info"];
    assert_eq!(gateway["external_fixed_ips"][0]["ip_address"], "203.0.113.2");
    let (port, other) = (town.port().await, town.port().await);
    let floating = town.floating(json!({"description": "of the shop"})).await;
    assert_eq!(floating["floating_ip_address"], "203.0.113.3");
    assert_eq!((&floating["status"], &floating["port_id"]), (&json!("DOWN"), &Value::Null));

    let (status, body) = town.give(&floating, json!({"port_id": port["id"]})).await;
    let given = &body["floatingip"];
    assert_eq!((status, &given["fixed_ip_address"]), (200, &port["fixed_ips"][0]["ip_address"]), "{body}");
    assert_eq!((&given["router_id"], &given["description"]), (&town.router["id"], &json!("of the shop")));
    assert_eq!(given["port_details"]["mac_address"], port["mac_address"]);
    assert_eq!(given["status"], "DOWN", "no agent routes the address");
    let second = town.floating(json!({})).await;
    let (status, body) = town.give(&second, json!({"port_id": port["id"]})).await;
    assert_eq!((status, &body["NeutronError"]["type"]), (409, &json!("FloatingIPPortAlreadyAssociated")));
    assert_eq!(town.give(&floating, json!({"port_id": other["id"]})).await.0, 200, "a move to another port");
    assert_eq!(town.give(&second, json!({"port_id": port["id"]})).await.0, 200);
    for (query, count) in [
        (format!("port_id={}", id(&other)), 1),
        ("floating_ip_address=203.0.113.3".to_owned(), 1),
        (format!("router_id={}", id(&town.router)), 2),
        ("status=ACTIVE".to_owned(), 0),
    ] {
        let found = town.world.get(BOB, &format!("/floatingips?{query}")).await;
        assert_eq!(found["floatingips"].as_array().unwrap().len(), count, "{query}: {found}");
    }
    let (_, body) = town.give(&floating, json!({"description": "moved"})).await;
    assert_eq!(body["floatingip"]["port_id"], other["id"], "an attribute that the body does not name has changed");
    let (_, body) = town.give(&floating, json!({"port_id": null})).await;
    assert_eq!((&body["floatingip"]["port_id"], &body["floatingip"]["router_id"]), (&Value::Null, &Value::Null));

    // Deleting the port ends the association; the floating address stays allocated.
    assert_eq!(town.world.send(BOB, "DELETE", &format!("/ports/{}", id(&port)), None).await.0, 204);
    let path = format!("/floatingips/{}", id(&second));
    let shown = town.world.get(BOB, &path).await;
    assert_eq!(
        (&shown["floatingip"]["port_id"], &shown["floatingip"]["fixed_ip_address"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(town.world.send(BOB, "DELETE", &path, None).await.0, 204);
    assert_eq!(town.world.refused(BOB, "GET", &path, None).await, (404, "FloatingIPNotFound".into()));
    town.world.end().await;
}

#[actix_web::test]
async fn invalid_floating_addresses_are_refused_as_in_neutron() {
    let town = Town::new(World::new().await, "203.0.113.0/29").await;
    let port = town.port().await;
    let refused = async |extra: Value| town.refused(BOB, extra).await;
    let bad = (400, "BadRequest".to_owned());
    assert_eq!(refused(json!({"fixed_ip_address": "10.0.0.2"})).await, bad);
    assert_eq!(refused(json!({"port_id": port["id"], "fixed_ip_address": "10.0.0.99"})).await, bad);
    let inner = json!({"floating_network_id": town.private["id"], "port_id": port["id"]});
    assert_eq!(refused(inner).await, bad, "a floating address of a network that is not external");
    assert_eq!(refused(json!({"floating_ip_address": "203.0.113.5"})).await, (403, "PolicyNotAuthorized".into()));
    assert_eq!(refused(json!({"port_id": "3d2f4a5c-0000-0000-0000-000000000000"})).await, (404, "PortNotFound".into()));
    assert_eq!(refused(json!({"colour": "red"})).await, (400, "HTTPBadRequest".into()));
    let (_, unreachable) = network(&town.world, BOB, "10.7.0.0/24", json!({"name": "island"})).await;
    let island = json!({"network_id": unreachable["network_id"]});
    let island = town.world.make(BOB, "/ports", "port", island).await;
    let none = (404, "ExternalGatewayForFloatingIPNotFound".to_owned());
    assert_eq!(refused(json!({"port_id": island["id"]})).await, none);

    // Only administrators may make a network external, because floating addresses come from external networks.
    let own = json!({"network": {"name": "pool", "router:external": true}});
    let denied = town.world.refused(BOB, "POST", "/networks", Some(own)).await;
    assert_eq!(denied, (403, "PolicyNotAuthorized".into()));
    // Administrators may choose an address; other callers get the next free one. The external network has five
    // addresses, and the router's gateway uses one of them.
    let chosen =
        json!({"floatingip": town.request(json!({"floating_ip_address": "203.0.113.6", "project_id": "blue"}))});
    assert_eq!(town.world.send(ADMIN, "POST", "/floatingips", Some(chosen.clone())).await.0, 201);
    let again = town.world.refused(ADMIN, "POST", "/floatingips", Some(chosen)).await;
    assert_eq!(again, (409, "IpAddressInUse".into()));
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(town.floating(json!({})).await);
    }
    assert_eq!(refused(json!({})).await, (409, "IpAddressGenerationFailure".into()));
    assert_eq!(town.world.get(EVE, "/floatingips").await["floatingips"], json!([]));
    let theirs = format!("/floatingips/{}", id(&all[0]));
    for method in ["GET", "PUT", "DELETE"] {
        let body = (method == "PUT").then(|| json!({"floatingip": {"port_id": null}}));
        assert_eq!(town.world.refused(EVE, method, &theirs, body).await, (404, "FloatingIPNotFound".into()));
    }

    // The project gets exactly as many addresses as its quota allows.
    assert_eq!(town.world.send(BOB, "DELETE", &theirs, None).await.0, 204);
    let limit = Some(json!({"quota": {"floatingip": 3}}));
    assert_eq!(town.world.send(ADMIN, "PUT", "/quotas/blue", limit).await.0, 200);
    assert_eq!(refused(json!({})).await, (409, "OverQuota".into()));
    let details = town.world.get(BOB, "/quotas/blue/details").await;
    assert_eq!(details["quota"]["floatingip"], json!({"limit": 3, "used": 3, "reserved": 0}));

    // While the address is associated, nobody can delete the router's interface and gateway, the external network, or
    // the address's own port.
    let associated = town.give(&all[1], json!({"port_id": port["id"]})).await;
    assert_eq!(associated.0, 200, "{}", associated.1);
    let (status, body) = town.interface("remove", json!({"subnet_id": town.subnet["id"]})).await;
    assert_eq!((status, &body["NeutronError"]["type"]), (409, &json!("RouterInterfaceInUseByFloatingIP")));
    let router = format!("/routers/{}", id(&town.router));
    let clear = || Some(json!({"router": {"external_gateway_info": {}}}));
    let needed = town.world.refused(BOB, "PUT", &router, clear()).await;
    assert_eq!(needed, (409, "RouterExternalGatewayInUseByFloatingIp".into()));
    let inward = json!({"network": {"router:external": false}});
    let network = format!("/networks/{}", id(&town.public));
    assert_eq!(town.world.refused(ADMIN, "PUT", &network, Some(inward)).await, (409, "ExternalNetworkInUse".into()));
    assert_eq!(town.world.refused(ADMIN, "DELETE", &network, None).await, (409, "NetworkInUse".into()));
    let held = town.world.get(ADMIN, "/ports?device_owner=network:floatingip").await;
    let held = &held["ports"][0];
    assert_eq!((&held["status"], &held["project_id"]), (&json!("N/A"), &json!("")));
    let by_itself = town.world.refused(ADMIN, "DELETE", &format!("/ports/{}", id(held)), None).await;
    assert_eq!(by_itself, (409, "ServicePortInUse".into()));
    town.world.end().await;
}

#[actix_web::test]
async fn concurrent_requests_never_exceed_the_floating_address_quota() {
    let town = Town::new(World::new().await, "203.0.113.0/24").await;
    let external = json!({"name": "other", "router:external": true, "project_id": "operators"});
    let (other, _) = network(&town.world, ADMIN, "198.51.100.0/24", external).await;
    town.world.send(ADMIN, "PUT", "/quotas/blue", Some(json!({"quota": {"floatingip": 5}}))).await;
    let ask = async |n: usize| {
        let network = if n.is_multiple_of(2) { &town.public } else { &other };
        let request = json!({"floatingip": {"floating_network_id": network["id"]}});
        town.world.send(BOB, "POST", "/floatingips", Some(request)).await.0
    };
    let all = futures::future::join_all((0..16).map(ask)).await;
    assert_eq!(all.iter().filter(|status| **status == 201).count(), 5, "{all:?}");
    assert!(all.iter().all(|status| matches!(status, 201 | 409)), "{all:?}");
    town.world.end().await;
}

/// As in Neutron, only ports of guests keep a network shared.
#[actix_web::test]
async fn a_shared_network_with_another_projects_gateway_can_be_unshared() {
    let town = Town::new(World::new().await, "203.0.113.0/24").await;
    let path = format!("/networks/{}", id(&town.public));
    for shared in [true, false] {
        let body = json!({"network": {"shared": shared}});
        let (status, body) = town.world.send(ADMIN, "PUT", &path, Some(body)).await;
        assert_eq!((status, &body["network"]["shared"]), (200, &json!(shared)), "{body}");
    }
    let router = town.world.get(BOB, &format!("/routers/{}", id(&town.router))).await;
    assert_eq!(
        router["router"]["external_gateway_info"]["network_id"], town.public["id"],
        "the router lost its gateway"
    );
    town.world.end().await;
}

#[actix_web::test]
async fn parallel_requests_give_a_router_one_gateway() {
    let town = Town::new(World::new().await, "203.0.113.0/24").await;
    let router = town.world.make(BOB, "/routers", "router", json!({"name": "hill"})).await;
    let path = format!("/routers/{}", id(&router));
    let body = json!({"router": {"external_gateway_info": {"network_id": town.public["id"]}}});
    let ask = async |_: usize| town.world.send(BOB, "PUT", &path, Some(body.clone())).await.0;
    let all = futures::future::join_all((0..8).map(ask)).await;
    assert!(all.contains(&200) && all.iter().all(|status| matches!(status, 200 | 409)), "{all:?}");
    let gateways = town.world.get(ADMIN, "/ports?device_owner=network:router_gateway").await;
    assert_eq!(gateways["ports"].as_array().unwrap().len(), 2, "one of each router: {gateways}");
    town.world.end().await;
}

#[actix_web::test]
async fn a_router_stands_between_networks() {
    let town = Town::new(World::new().await, "203.0.113.0/24").await;
    let path = format!("/routers/{}", id(&town.router));
    let ports = town.world.get(BOB, &format!("/ports?device_id={}", id(&town.router))).await;
    assert_eq!(ports["ports"].as_array().unwrap().len(), 1, "the ports that the owner sees: {ports}");
    assert_eq!(ports["ports"][0]["fixed_ips"][0]["ip_address"], "10.0.0.1");
    let (status, body) = town.interface("add", json!({"subnet_id": town.subnet["id"]})).await;
    assert_eq!((status, &body["NeutronError"]["type"]), (400, &json!("BadRequest")), "{body}");
    let (_, twin) = network(&town.world, BOB, "10.0.0.128/25", json!({"name": "twin"})).await;
    let (status, body) = town.interface("add", json!({"subnet_id": twin["id"]})).await;
    assert_eq!(status, 400, "{body}");
    assert!(body["NeutronError"]["message"].as_str().unwrap().contains("overlaps"), "{body}");
    let (inner, _) = network(&town.world, BOB, "10.9.0.0/24", json!({"name": "inner"})).await;
    let port = town.world.make(BOB, "/ports", "port", json!({"network_id": inner["id"]})).await;
    assert_eq!(town.interface("add", json!({"port_id": port["id"]})).await.0, 200);
    let (status, body) = town.interface("add", json!({"port_id": port["id"]})).await;
    assert_eq!((status, &body["NeutronError"]["type"]), (409, &json!("PortInUse")));
    assert_eq!(town.world.refused(BOB, "DELETE", &path, None).await, (409, "RouterInUse".into()));
    assert_eq!(town.world.refused(EVE, "GET", &path, None).await, (404, "RouterNotFound".into()));
    let (hers, _) = network(&town.world, EVE, "10.8.0.0/24", json!({"name": "hers"})).await;
    let stolen = json!({"port": {"network_id": hers["id"], "device_id": town.router["id"], "device_owner": "network:router_interface"}});
    let refused = town.world.refused(EVE, "POST", "/ports", Some(stolen)).await;
    assert_eq!(refused, (403, "PolicyNotAuthorized".into()));

    let named = json!({"router": {"name": "brink", "admin_state_up": false}});
    let (status, body) = town.world.send(BOB, "PUT", &path, Some(named)).await;
    assert_eq!((status, &body["router"]["name"]), (200, &json!("brink")));
    assert_eq!(body["router"]["external_gateway_info"]["network_id"], town.public["id"], "the router lost its gateway");
    let snat = json!({"router": {"external_gateway_info": {"network_id": town.public["id"], "enable_snat": false}}});
    assert_eq!(town.world.refused(BOB, "PUT", &path, Some(snat.clone())).await, (403, "PolicyNotAuthorized".into()));
    let (_, body) = town.world.send(ADMIN, "PUT", &path, Some(snat)).await;
    assert_eq!(body["router"]["external_gateway_info"]["enable_snat"], false);
    assert_eq!(town.world.send(BOB, "PUT", &format!("{path}/tags/blue"), None).await.0, 201);
    assert_eq!(town.world.get(BOB, "/routers?tags=blue").await["routers"][0]["id"], town.router["id"]);

    let inside = json!({"router": {"external_gateway_info": {"network_id": town.private["id"]}}});
    assert_eq!(town.world.refused(BOB, "POST", "/routers", Some(inside)).await, (400, "BadRequest".into()));
    assert_eq!(town.world.get(BOB, "/routers").await["routers"].as_array().unwrap().len(), 1, "a second router exists");
    let ports = town.world.get(BOB, &format!("/ports?device_id={}", id(&town.router))).await;
    for port in ports["ports"].as_array().unwrap() {
        assert_eq!(town.interface("remove", json!({"port_id": port["id"]})).await.0, 200);
    }
    let (status, body) = town.interface("remove", json!({"subnet_id": town.subnet["id"]})).await;
    assert_eq!((status, &body["NeutronError"]["type"]), (404, &json!("RouterInterfaceNotFoundForSubnet")));
    assert_eq!(town.world.send(BOB, "DELETE", &path, None).await.0, 204);
    let network = format!("/networks/{}", id(&town.public));
    assert_eq!(town.world.send(ADMIN, "DELETE", &network, None).await.0, 204, "a gateway still uses the network");
    town.world.end().await;
}

/// If a process crashes between the deletion of a port and the end of its association, the next process ends the
/// association.
#[actix_web::test]
async fn a_floating_address_left_associated_by_a_crash_is_repaired() {
    let store = MemoryStore::new();
    let town = Town::new(World::on(Arc::clone(&store)).await, "203.0.113.0/24").await;
    let port = town.port().await;
    let floating = town.floating(json!({"port_id": port["id"]})).await;
    assert_eq!(floating["port_id"], port["id"]);
    let (network, gone) = (town.private["id"].clone(), port["id"].clone());
    town.world.end().await;

    // A process that deletes the port and crashes at once.
    let views = chronova_projections::views::Views::new();
    let clock = Arc::new(chronova_events::clock::SystemClock);
    let member = Member::start(Arc::clone(&store) as _, clock, views).await.unwrap();
    let leadership = Leadership::take(&member, 1).unwrap();
    let network = network.as_str().unwrap().parse().unwrap();
    let delete = chronova_actors::services::embedded::network::NetworkCommand::DeletePort {
        port: gone.as_str().unwrap().parse().unwrap(),
    };
    let meta = chronova_events::envelope::Meta::system("test");
    leadership
        .gateway
        .send::<chronova_actors::services::embedded::network::NetworkRoot>(&network, delete, meta)
        .await
        .unwrap();
    leadership.gateway.stop();

    let world = World::on(store).await;
    let shown = world.get(BOB, &format!("/floatingips/{}", id(&floating))).await;
    assert_eq!(shown["floatingip"]["port_id"], Value::Null);
    let plan = || chronova_actors::services::embedded::network::reconcile::floating_ips::plan(&world.context().views);
    for _ in 0..1_000 {
        if plan().is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(plan().is_empty(), "the log still has the association: {:?}", plan());
    world.end().await;
}
