//! Floating addresses through Nova's proxies, and in the views of servers.

use chronova_tests::compute_api::{ADMIN, Answer};
use serde_json::{Value, json};

use super::interfaces::{Cloud, USER, is};

/// A cloud whose network is connected to an external network with four free addresses.
pub(super) struct Town {
    pub(super) cloud: Cloud,
    public: String,
    router: String,
}

impl Town {
    async fn start() -> Self {
        let cloud = Cloud::start().await;
        let pools = cloud.api.call("GET", "/os-floating-ip-pools", "2.35", USER, None).await;
        assert_eq!(pools.body, json!({"floating_ip_pools": []}));
        Self::around(cloud).await
    }

    pub(super) async fn around(cloud: Cloud) -> Self {
        let external = json!({"network": {"name": "public", "router:external": true, "project_id": "operators"}});
        let public = made(&cloud, ADMIN, "/networks", "network", external).await;
        let subnet = json!({"subnet": {"network_id": public, "cidr": "203.0.113.0/29", "ip_version": 4}});
        made(&cloud, ADMIN, "/subnets", "subnet", subnet).await;
        let gateway = json!({"router": {"external_gateway_info": {"network_id": public}}});
        let router = made(&cloud, USER, "/routers", "router", gateway).await;
        let town = Self { cloud, public, router };
        town.route(&town.cloud.network).await;
        town
    }

    /// Connects the network to the external network by a router.
    async fn route(&self, network: &str) {
        let subnets = self.cloud.neutron("GET", &format!("/subnets?network_id={network}"), None).await;
        let subnet = json!({"subnet_id": subnets.body["subnets"][0]["id"]});
        let path = format!("/routers/{}/add_router_interface", self.router);
        let added = self.cloud.neutron("PUT", &path, Some(subnet)).await;
        assert_eq!(added.status, 200, "{:?}", added.body);
    }

    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.cloud.api.call(method, path, "2.35", USER, body).await
    }

    async fn allocate(&self) -> Value {
        let made = self.ask("POST", "/os-floating-ips", Some(json!({"pool": "public"}))).await;
        assert_eq!(made.status, 200, "{:?}", made.body);
        made.body["floating_ip"].clone()
    }

    async fn add(&self, server: &str, request: Value) -> Answer {
        self.cloud.act(server, "2.43", json!({"addFloatingIp": request})).await
    }

    async fn remove(&self, server: &str, address: &Value) -> Answer {
        self.cloud.act(server, "2.43", json!({"removeFloatingIp": {"address": address}})).await
    }

    async fn show(&self, floating: &Value) -> Value {
        let path = format!("/os-floating-ips/{}", floating["id"].as_str().unwrap());
        self.ask("GET", &path, None).await.body["floating_ip"].take()
    }
}

async fn made(cloud: &Cloud, token: &str, path: &str, key: &str, body: Value) -> String {
    let made = cloud.api.ask("POST", &format!("/network/v2.0{path}"), "2.1", token, Some(body)).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    made.body[key]["id"].as_str().unwrap().to_owned()
}

#[actix_rt::test]
async fn a_server_gets_a_floating_address_and_shows_it() {
    let town = Town::start().await;
    let cloud = &town.cloud;
    let (server, other) = (cloud.server().await, cloud.server().await);
    assert_eq!(
        town.ask("GET", "/os-floating-ip-pools", None).await.body,
        json!({"floating_ip_pools": [{"name": "public"}]})
    );
    let floating = town.allocate().await;
    let address = &floating["ip"];
    assert_eq!((&floating["pool"], &floating["instance_id"]), (&json!("public"), &Value::Null));
    let fixed = cloud.addresses(&server, "private").await.remove(0);

    assert_eq!(town.add(&server, json!({"address": address})).await.status, 202);
    let shown = town.show(&floating).await;
    assert_eq!((&shown["fixed_ip"], &shown["instance_id"]), (&json!(fixed), &json!(server)));
    for key in ["id", "ip", "pool"] {
        assert_eq!(shown[key], floating[key], "{key}");
    }
    assert_eq!(town.ask("GET", "/os-floating-ips", None).await.body, json!({"floating_ips": [shown]}));
    let addresses = cloud.show(&server).await["addresses"]["private"].take();
    assert_eq!(
        addresses,
        json!([
            {"addr": fixed, "version": 4, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": addresses[0]["OS-EXT-IPS-MAC:mac_addr"]},
            {"addr": address, "version": 4, "OS-EXT-IPS:type": "floating", "OS-EXT-IPS-MAC:mac_addr": addresses[0]["OS-EXT-IPS-MAC:mac_addr"]},
        ])
    );
    let ips = town.ask("GET", &format!("/servers/{server}/ips/private"), None).await.body;
    assert_eq!(ips, json!({"private": [{"addr": fixed, "version": 4}, {"addr": address, "version": 4}]}));
    let listed = town.ask("GET", "/servers/detail", None).await.body;
    let of = |id: &str| {
        listed["servers"].as_array().unwrap().iter().find(|one| one["id"] == id).unwrap()["addresses"]["private"]
            .clone()
    };
    assert_eq!((of(&server).as_array().unwrap().len(), of(&other).as_array().unwrap().len()), (2, 1));
    // Simulated hosts route the floating address, so it is ACTIVE.
    let neutron = cloud.neutron("GET", &format!("/floatingips/{}", floating["id"].as_str().unwrap()), None).await;
    assert_eq!(neutron.body["floatingip"]["status"], "ACTIVE");
    // As in Nova, the filter searches fixed addresses only.
    for (wanted, count) in [(json!(fixed), 1), (address.clone(), 0)] {
        let found = town.ask("GET", &format!("/servers?ip={}", wanted.as_str().unwrap()), None).await;
        assert_eq!(found.body["servers"].as_array().unwrap().len(), count, "{wanted}");
    }

    // Adding the address to another server moves the address, without a request to the first server.
    let wrong = town.remove(&other, address).await;
    is(&wrong, 409, &format!("Floating IP {} is not associated with instance {other}.", address.as_str().unwrap()));
    assert_eq!(town.add(&other, json!({"address": address})).await.status, 202);
    assert_eq!(cloud.addresses(&server, "private").await, std::slice::from_ref(&fixed));
    assert_eq!(cloud.addresses(&other, "private").await.len(), 2);
    // A fixed address has at most one floating address of a pool.
    let second = town.allocate().await;
    is(&town.add(&other, json!({"address": second["ip"]})).await, 400, "as that fixed IP already has a floating IP");
    assert_eq!(town.remove(&other, address).await.status, 202);
    is(&town.remove(&other, address).await, 409, "is not associated with instance");
    assert_eq!(cloud.addresses(&other, "private").await.len(), 1);

    // A deleted server's floating address is disassociated; a rescued server keeps its own.
    let given = town.add(&server, json!({"address": second["ip"], "fixed_address": fixed})).await;
    assert_eq!(given.status, 202, "{:?}", given.body);
    assert_eq!(cloud.act(&server, "2.43", json!({"rescue": null})).await.status, 200);
    cloud.api.life.settled().await;
    assert_eq!(cloud.addresses(&server, "private").await.len(), 2);
    assert_eq!(town.remove(&server, &second["ip"]).await.status, 202);
    assert_eq!(town.add(&server, json!({"address": second["ip"]})).await.status, 202);
    assert_eq!(town.ask("DELETE", &format!("/servers/{server}"), None).await.status, 204);
    cloud.api.life.settled().await;
    assert_eq!(town.show(&second).await["instance_id"], Value::Null);
    let views = &cloud.api.life.context().views;
    let tidy = || chronova_actors::services::embedded::network::reconcile::floating_ips::plan(views).is_empty();
    assert!(cloud.api.life.until(|_| tidy()).await, "the log still has the association");

    // The address is given to the server's port. Neutron finds the port by the server's id.
    let ports = cloud.neutron("GET", &format!("/ports?device_id={other}"), None).await.body["ports"].take();
    assert_eq!(ports.as_array().unwrap().len(), 1, "{ports}");
    let path = format!("/floatingips/{}", second["id"].as_str().unwrap());
    let give = json!({"floatingip": {"port_id": ports[0]["id"]}});
    assert_eq!(cloud.neutron("PUT", &path, Some(give)).await.status, 200);
    cloud.api.life.settled().await;
    let listed = town.ask("GET", "/servers/detail", None).await.body["servers"][0].take();
    let listed = listed["addresses"]["private"].as_array().unwrap();
    assert!(listed.len() == 2 && listed.iter().any(|one| one["addr"] == second["ip"]), "{listed:?}");

    // Releasing the address also removes it from its server, and the pool has it again.
    for floating in [&floating, &second] {
        let path = format!("/os-floating-ips/{}", floating["id"].as_str().unwrap());
        assert_eq!(town.ask("DELETE", &path, None).await.status, 202);
        is(&town.ask("DELETE", &path, None).await, 404, "Floating IP not found for ID");
    }
    assert_eq!(cloud.addresses(&other, "private").await.len(), 1);
    cloud.api.life.settled().await;
    let mut pool = Vec::new();
    for _ in 0..4 {
        pool.push(town.allocate().await["ip"].clone());
    }
    assert!(pool.contains(address) && pool.contains(&second["ip"]), "{pool:?}");
    town.cloud.api.stop().await;
}

#[actix_rt::test]
async fn invalid_floating_address_requests_get_novas_messages() {
    let town = Town::start().await;
    let cloud = &town.cloud;
    let server = cloud.server().await;
    let ask = async |pool: Value| town.ask("POST", "/os-floating-ips", Some(pool)).await;
    is(&ask(json!({"pool": "elsewhere"})).await, 404, "Floating IP pool not found.");
    is(&ask(Value::Null).await, 404, "Floating IP pool not found.");
    for method in ["GET", "DELETE"] {
        is(&town.ask(method, "/os-floating-ips/7", None).await, 404, "Floating IP not found for ID 7");
    }
    let bare = json!({"network": {"name": "bare", "router:external": true, "project_id": "operators"}});
    made(cloud, ADMIN, "/networks", "network", bare).await;
    is(&ask(json!({"pool": "bare"})).await, 400, "does not contain any IPv4 subnet");

    let quota = async |limit: i64| {
        let body = json!({"quota": {"floatingip": limit}});
        let set = cloud.api.ask("PUT", "/network/v2.0/quotas/web", "2.1", ADMIN, Some(body)).await;
        assert_eq!(set.status, 200, "{:?}", set.body);
    };
    quota(1).await;
    let floating = town.allocate().await;
    is(&ask(json!({"pool": "public"})).await, 403, "IP allocation over quota in pool public.");
    quota(-1).await;
    for _ in 0..3 {
        town.allocate().await;
    }
    is(&ask(json!({"pool": town.public})).await, 404, &format!("No more floating IPs in pool {}.", town.public));

    let fixed = cloud.addresses(&server, "private").await.remove(0);
    for (request, status, words) in [
        (json!({"address": "192.0.2.1"}), 404, "floating IP not found"),
        (json!({"address": "192.0.2.1", "fixed_address": fixed}), 404, "floating IP not found"),
        (
            json!({"address": floating["ip"], "fixed_address": "10.9.9.9"}),
            400,
            "Specified fixed address not assigned to instance",
        ),
        (json!({"address": "x"}), 400, "is not"),
    ] {
        is(&town.add(&server, request).await, status, words);
    }
    is(&town.remove(&server, &json!("192.0.2.1")).await, 404, "Floating IP not found for address 192.0.2.1.");
    is(&town.remove(&server, &floating["ip"]).await, 409, "is not associated with instance");
    // Without a router there is no association.
    let path = format!("/routers/{}/remove_router_interface", town.router);
    let subnets = cloud.neutron("GET", &format!("/subnets?network_id={}", cloud.network), None).await;
    let subnet = json!({"subnet_id": subnets.body["subnets"][0]["id"]});
    assert_eq!(cloud.neutron("PUT", &path, Some(subnet)).await.status, 200);
    let unreachable = town.add(&server, json!({"address": floating["ip"]})).await;
    is(
        &unreachable,
        400,
        &format!("Unable to associate floating IP {} to fixed IP {fixed}", floating["ip"].as_str().unwrap()),
    );
    for path in ["/os-floating-ips", "/os-floating-ip-pools"] {
        assert_eq!(cloud.api.call("GET", path, "2.36", USER, None).await.status, 404);
    }
    let gone = cloud.act(&server, "2.44", json!({"removeFloatingIp": {"address": floating["ip"]}})).await;
    assert_eq!(gone.status, 404);
    // Other projects' addresses are not found.
    let eve = |method: &'static str, path: String| {
        let api = &cloud.api;
        async move { api.call(method, &path, "2.35", "eve:red", None).await }
    };
    let path = format!("/os-floating-ips/{}", floating["id"].as_str().unwrap());
    is(&eve("GET", path.clone()).await, 404, "Floating IP not found for ID");
    is(&eve("DELETE", path).await, 404, "Floating IP not found for ID");
    assert_eq!(eve("GET", "/os-floating-ips".to_owned()).await.body, json!({"floating_ips": []}));
    town.cloud.api.stop().await;
}
