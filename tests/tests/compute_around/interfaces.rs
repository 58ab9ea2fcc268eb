//! Interfaces that are attached and detached through the API, and ports that the embedded network service changes.

use std::sync::Arc;

use chronova_events::store::EventStore;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_projections::history::{History, HistoryOptions};
use chronova_tests::compute_api::{ADMIN, Answer, Api, IMAGE};
use chronova_tests::world::{Setting, World};
use serde_json::{Value, json};

pub(super) const USER: &str = "alice:web";

/// A cloud with the network `private` (10.1.0.0/24) of the user's project.
pub(super) struct Cloud {
    pub(super) api: Api,
    pub(super) network: String,
}

impl Cloud {
    pub(super) async fn start() -> Self {
        Self::start_in(World::new(2)).await
    }

    pub(super) async fn start_in(world: World) -> Self {
        let life = world.begin(Setting { embedded_networks: true, ..Setting::default() }).await;
        life.hosts_up(2).await;
        let store = Arc::clone(&world.log) as Arc<dyn EventStore>;
        let history = History::new(store, Arc::clone(&life.context().views), None, HistoryOptions::default());
        let api = Api::around(world, life, "", history);
        api.flavor("1", 512, 1).await;
        let mut cloud = Self { api, network: String::new() };
        cloud.network = cloud.network("private", "10.1.0.0/24").await;
        cloud
    }

    pub(super) async fn neutron(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.api.ask(method, &format!("/network/v2.0{path}"), "2.1", USER, body).await
    }

    pub(super) async fn network(&self, name: &str, cidr: &str) -> String {
        let made = self.neutron("POST", "/networks", Some(json!({"network": {"name": name}}))).await;
        assert_eq!(made.status, 201, "{:?}", made.body);
        let id = made.body["network"]["id"].as_str().unwrap().to_owned();
        let subnet = json!({"network_id": id, "cidr": cidr, "ip_version": 4});
        assert_eq!(self.neutron("POST", "/subnets", Some(json!({"subnet": subnet}))).await.status, 201);
        id
    }

    async fn port(&self, network: &str) -> String {
        let made = self.neutron("POST", "/ports", Some(json!({"port": {"network_id": network}}))).await;
        assert_eq!(made.status, 201, "{:?}", made.body);
        made.body["port"]["id"].as_str().unwrap().to_owned()
    }

    pub(super) async fn server(&self) -> String {
        let request = json!({"name": "web", "imageRef": IMAGE, "flavorRef": "1", "networks": [{"uuid": self.network}]});
        self.api.server(USER, request).await
    }

    pub(super) async fn attach(&self, server: &str, version: &str, request: Value) -> Answer {
        let body = Some(json!({"interfaceAttachment": request}));
        self.api.call("POST", &format!("/servers/{server}/os-interface"), version, USER, body).await
    }

    pub(super) async fn act(&self, server: &str, version: &str, body: Value) -> Answer {
        self.api.call("POST", &format!("/servers/{server}/action"), version, USER, Some(body)).await
    }

    pub(super) async fn show(&self, server: &str) -> Value {
        self.api.get(&format!("/servers/{server}"), "2.100").await["server"].take()
    }

    /// The addresses of a network, as the server shows them.
    pub(super) async fn addresses(&self, server: &str, network: &str) -> Vec<String> {
        let shown = self.show(server).await;
        let list = shown["addresses"][network].as_array().cloned().unwrap_or_default();
        list.iter().map(|one| one["addr"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) async fn interfaces(&self, server: &str) -> Vec<Value> {
        let list = self.api.get(&format!("/servers/{server}/os-interface"), "2.70").await;
        list["interfaceAttachments"].as_array().unwrap().clone()
    }

    /// Waits until the server shows `count` interfaces, because a change of a port reaches the server asynchronously.
    pub(super) async fn until_interfaces(&self, server: &str, count: usize) {
        let id = server.parse().unwrap();
        let views = &self.api.life.context().views;
        let now = || views.servers.read(|rows| rows.get(id).unwrap().server().unwrap().nics.len());
        assert!(self.api.life.until(|_| now() == count).await);
        self.api.life.settled().await;
    }
}

pub(super) fn is(answer: &Answer, status: u16, words: &str) {
    assert!(answer.status == status && answer.message().contains(words), "{} {}", answer.status, answer.body);
}

/// A user finds servers by addresses of version 4, and from 2.5 on by those of version 6.
#[actix_rt::test]
async fn servers_are_found_by_their_addresses() {
    let cloud = Cloud::start().await;
    let four = cloud.server().await;
    let network =
        cloud.neutron("POST", "/networks", Some(json!({"network": {"name": "six"}}))).await.body["network"].take();
    let subnet = json!({"subnet": {"network_id": network["id"], "cidr": "fd00:6::/64", "ip_version": 6}});
    assert_eq!(cloud.neutron("POST", "/subnets", Some(subnet)).await.status, 201);
    let request = json!({"name": "six", "imageRef": IMAGE, "flavorRef": "1", "networks": [{"uuid": network["id"]}]});
    let six = cloud.api.server(USER, request).await;
    let found = async |version: &str, query: &str| {
        let answer = cloud.api.call("GET", &format!("/servers?{query}"), version, USER, None).await;
        let servers = answer.body["servers"].as_array().unwrap().clone();
        let mut ids: Vec<String> = servers.iter().map(|server| server["id"].as_str().unwrap().to_owned()).collect();
        ids.sort_unstable();
        ids
    };
    let mut both = vec![four.clone(), six.clone()];
    both.sort_unstable();
    assert_eq!(found("2.5", "ip6=fd00").await, [six]);
    assert_eq!(found("2.5", "ip6=10.1.0").await, Vec::<String>::new());
    assert_eq!(found("2.4", "ip6=fd00").await, both);
    assert_eq!(found("2.4", "ip=10.1.0").await, [four]);
    cloud.api.stop().await;
}

#[actix_rt::test]
async fn interfaces_come_and_go() {
    let cloud = Cloud::start().await;
    let other = cloud.network("other", "10.2.0.0/24").await;
    let server = cloud.server().await;

    // An attachment by network and address, with a tag. Answers show the tag from 2.70 on.
    let request = json!({"net_id": other, "fixed_ips": [{"ip_address": "10.2.0.77"}], "tag": "db"});
    is(&cloud.attach(&server, "2.48", request.clone()).await, 400, "Additional properties are not allowed");
    let made = cloud.attach(&server, "2.70", request).await;
    assert_eq!(made.status, 200, "{:?}", made.body);
    let shown = &made.body["interfaceAttachment"];
    assert_eq!(
        (&shown["net_id"], &shown["tag"], &shown["port_state"]),
        (&json!(other), &json!("db"), &json!("ACTIVE"))
    );
    assert_eq!(shown["fixed_ips"][0]["ip_address"], "10.2.0.77");
    let first = shown["port_id"].as_str().unwrap().to_owned();
    assert_eq!(cloud.addresses(&server, "other").await, ["10.2.0.77"], "the server does not show the address at once");
    let listed = cloud.interfaces(&server).await;
    assert!(listed.iter().any(|it| it["port_id"] == first.as_str() && it["tag"] == "db"), "{listed:?}");
    let one = cloud.api.get(&format!("/servers/{server}/os-interface/{first}"), "2.70").await;
    assert_eq!(one["interfaceAttachment"]["tag"], "db");

    // An attachment by port, at a version without tags.
    let port = cloud.port(&other).await;
    let made = cloud.attach(&server, "2.1", json!({"port_id": port})).await;
    assert_eq!((made.status, &made.body["interfaceAttachment"]["port_id"]), (200, &json!(port)));
    assert!(made.body["interfaceAttachment"].get("tag").is_none());
    is(&cloud.attach(&server, "2.1", json!({"port_id": port})).await, 409, &format!("Port {port} is still in use."));
    assert_eq!(cloud.interfaces(&server).await.len(), 3);
    cloud.api.world.check().await;

    // A port that was created for the server is deleted with its interface; the user's own port stays.
    for id in [&first, &port] {
        let gone = cloud.api.call("DELETE", &format!("/servers/{server}/os-interface/{id}"), "2.1", USER, None).await;
        assert_eq!(gone.status, 202, "{:?}", gone.body);
        cloud.api.life.settled().await;
    }
    assert_eq!(cloud.neutron("GET", &format!("/ports/{first}"), None).await.status, 404);
    let kept = cloud.neutron("GET", &format!("/ports/{port}"), None).await;
    assert_eq!((kept.status, &kept.body["port"]["device_id"]), (200, &json!("")));
    assert_eq!(cloud.interfaces(&server).await.len(), 1);
    assert_eq!(cloud.addresses(&server, "other").await, [""; 0]);
    cloud.api.world.check().await;

    let actions = cloud.api.get(&format!("/servers/{server}/os-instance-actions"), "2.100").await;
    let names: Vec<_> = actions["instanceActions"].as_array().unwrap().iter().map(|a| a["action"].clone()).collect();
    let [detach, attach] = [json!("detach_interface"), json!("attach_interface")];
    assert_eq!(names, [detach.clone(), detach, attach.clone(), attach, json!("create")]);
    // Attached interfaces are deleted with the server.
    assert_eq!(cloud.attach(&server, "2.1", json!({"net_id": other})).await.status, 200);
    assert_eq!(cloud.api.call("DELETE", &format!("/servers/{server}"), "2.1", USER, None).await.status, 204);
    cloud.api.life.settled().await;
    cloud.api.world.check().await;
    cloud.api.stop().await;
}

#[actix_rt::test]
async fn without_network_or_port_there_must_be_one_network() {
    let cloud = Cloud::start().await;
    let server = cloud.server().await;
    let path = format!("/servers/{server}/os-interface");
    let empty = cloud.api.call("POST", &path, "2.1", USER, Some(json!({"interfaceAttachment": {}}))).await;
    assert_eq!((empty.status, &empty.body["interfaceAttachment"]["net_id"]), (200, &json!(cloud.network)));
    let nothing = cloud.api.call("POST", &path, "2.1", USER, Some(json!({}))).await;
    assert_eq!(nothing.status, 200, "{:?}", nothing.body);
    cloud.network("other", "10.2.0.0/24").await;
    is(&cloud.attach(&server, "2.1", json!({})).await, 400, "More than one possible network found.");
    cloud.api.world.check().await;
    cloud.api.stop().await;
}

/// Neutron shows administrators the networks of all projects.
#[actix_rt::test]
async fn an_administrator_attaches_any_projects_network() {
    let cloud = Cloud::start().await;
    let request = json!({"interfaceAttachment": {"net_id": cloud.network}});
    let on_no_network = json!({"name": "bare", "imageRef": IMAGE, "flavorRef": "1", "networks": "none"});
    for (user, status) in [("eve:other", 404), (ADMIN, 200)] {
        let server = cloud.api.server(user, on_no_network.clone()).await;
        let path = format!("/servers/{server}/os-interface");
        let answer = cloud.api.call("POST", &path, "2.49", user, Some(request.clone())).await;
        assert_eq!(answer.status, status, "{:?}", answer.body);
        if status == 200 {
            let port = answer.body["interfaceAttachment"]["port_id"].as_str().unwrap();
            let path = format!("/network/v2.0/ports/{port}");
            let port = cloud.api.ask("GET", &path, "2.1", ADMIN, None).await;
            assert_eq!(port.body["port"]["project_id"], "admin", "the port belongs to the server's project");
        }
    }
    cloud.api.world.check().await;
    cloud.api.stop().await;
}

#[actix_rt::test]
async fn refused_interface_attachments_get_novas_messages() {
    let cloud = Cloud::start().await;
    let server = cloud.server().await;
    let unknown = "11111111-2222-3333-4444-555555555555";
    let (net, port) = (cloud.network.as_str(), cloud.port(&cloud.network).await);
    for (request, status, words) in [
        (json!({"net_id": net, "port_id": port}), 400, "Must not input both network_id and port_id"),
        (json!({"fixed_ips": [{"ip_address": "10.1.0.9"}]}), 400, "Must input network_id when request IP address"),
        (json!({"net_id": unknown}), 404, "could not be found."),
        (json!({"port_id": unknown}), 404, "Port id 11111111-2222-3333-4444-555555555555 could not be found."),
        (json!({"net_id": "x"}), 400, "is not a 'uuid'"),
        (json!({"net_id": net, "fixed_ips": []}), 400, "fixed_ips"),
        (json!({"net_id": net, "tag": "a,b"}), 400, "does not match"),
    ] {
        is(&cloud.attach(&server, "2.49", request.clone()).await, status, words);
    }
    let held = cloud.addresses(&server, "private").await.remove(0);
    let taken = cloud.attach(&server, "2.49", json!({"net_id": net, "fixed_ips": [{"ip_address": held}]})).await;
    is(&taken, 409, &format!("Fixed IP address {held} is already in use on instance {server}."));
    let path = format!("/servers/{server}/os-interface/{unknown}");
    let gone = cloud.api.call("DELETE", &path, "2.49", USER, None).await;
    is(&gone, 404, "could not be found.");
    let other = cloud.api.call("DELETE", &path, "2.49", "eve:other", None).await;
    is(&other, 404, "Instance");
    let nobody =
        cloud.api.call("POST", &format!("/servers/{unknown}/os-interface"), "2.1", USER, Some(json!({}))).await;
    is(&nobody, 404, "Instance");

    // A suspended server refuses changes of its interfaces, and so does a locked one.
    let interface = cloud.interfaces(&server).await[0]["port_id"].as_str().unwrap().to_owned();
    let path = format!("/servers/{server}/os-interface/{interface}");
    assert_eq!(cloud.act(&server, "2.1", json!({"suspend": null})).await.status, 202);
    cloud.api.life.settled().await;
    let words = |action: &str| format!("Cannot '{action}' instance {server} while it is in vm_state suspended");
    is(&cloud.attach(&server, "2.1", json!({"net_id": net})).await, 409, &words("attach_interface"));
    is(&cloud.api.call("DELETE", &path, "2.1", USER, None).await, 409, &words("detach_interface"));
    assert_eq!(cloud.act(&server, "2.1", json!({"resume": null})).await.status, 202);
    cloud.api.life.settled().await;
    assert_eq!(cloud.act(&server, "2.1", json!({"lock": null})).await.status, 202);
    is(&cloud.attach(&server, "2.1", json!({"net_id": net})).await, 409, "is locked");
    is(&cloud.api.call("DELETE", &path, "2.1", USER, None).await, 409, "is locked");
    is(&cloud.act(&server, "2.1", json!({"addFixedIp": {"networkId": net}})).await, 409, "is locked");
    cloud.api.world.check().await;
    cloud.api.stop().await;
}

#[actix_rt::test]
async fn an_interface_change_that_the_host_or_the_guest_refuses_is_undone() {
    let cloud = Cloud::start().await;
    let server = cloud.server().await;
    let ports = async || cloud.neutron("GET", "/ports", None).await.body["ports"].as_array().unwrap().len();
    let before = ports().await;
    cloud.api.world.fleet.set_all_faults(&FaultPlan::default().with(
        DriverCall::AttachNic,
        FaultTrigger::Always,
        Effect::Refuse,
    ));
    let refused = cloud.attach(&server, "2.1", json!({"net_id": cloud.network})).await;
    is(&refused, 500, &format!("Failed to attach network adapter device to {server}"));
    assert_eq!(ports().await, before, "the port of the failed attachment is left");
    cloud.api.world.fleet.set_all_faults(&FaultPlan::default());
    assert_eq!(cloud.show(&server).await["status"], "ACTIVE");

    // If the guest does not release the interface, the server keeps it.
    let host = cloud.api.life.host_of(&cloud.api.world, server.parse().unwrap()).unwrap();
    cloud.api.world.fleet.set_clings(host, server.parse().unwrap(), true).unwrap();
    let interface = cloud.interfaces(&server).await[0]["port_id"].as_str().unwrap().to_owned();
    let path = format!("/servers/{server}/os-interface/{interface}");
    assert_eq!(cloud.api.call("DELETE", &path, "2.1", USER, None).await.status, 202);
    cloud.api.life.settled().await;
    assert_eq!(cloud.interfaces(&server).await.len(), 1);
    let actions = cloud.api.get(&format!("/servers/{server}/os-instance-actions"), "2.100").await;
    assert_eq!(actions["instanceActions"][0]["message"], "Error");
    cloud.api.world.check().await;
    // A stopped guest cannot refuse.
    assert_eq!(cloud.act(&server, "2.1", json!({"os-stop": null})).await.status, 202);
    cloud.api.life.settled().await;
    assert_eq!(cloud.api.call("DELETE", &path, "2.1", USER, None).await.status, 202);
    cloud.api.life.settled().await;
    assert_eq!(cloud.interfaces(&server).await.len(), 0);
    cloud.api.world.check().await;
    cloud.api.stop().await;
}

#[actix_rt::test]
async fn fixed_addresses_are_added_and_removed_until_2_43() {
    let cloud = Cloud::start().await;
    let server = cloud.server().await;
    let add = json!({"addFixedIp": {"networkId": cloud.network}});
    assert_eq!(cloud.act(&server, "2.43", add.clone()).await.status, 202);
    let two = cloud.addresses(&server, "private").await;
    assert_eq!(two.len(), 2, "{two:?}");
    let remove = json!({"removeFixedIp": {"address": two[1]}});
    assert_eq!(cloud.act(&server, "2.43", remove.clone()).await.status, 202);
    assert_eq!(cloud.addresses(&server, "private").await, two[..1]);
    is(&cloud.act(&server, "2.43", remove.clone()).await, 400, "does not have fixed IP");
    is(&cloud.act(&server, "2.1", json!({"addFixedIp": {"networkId": "x"}})).await, 404, "Network could not be found");
    for gone in [add, remove] {
        assert_eq!(cloud.act(&server, "2.44", gone).await.status, 404);
    }
    cloud.api.world.check().await;
    cloud.api.stop().await;
}

#[actix_rt::test]
async fn changes_in_the_network_service_show_in_the_server() {
    let cloud = Cloud::start().await;
    let server = cloud.server().await;
    let rename = Some(json!({"network": {"name": "renamed"}}));
    assert_eq!(cloud.neutron("PUT", &format!("/networks/{}", cloud.network), rename).await.status, 200);
    let id = server.parse().unwrap();
    let label = |context: &chronova_actors::process::context::StepContext| {
        context.views.servers.read(|rows| rows.get(id).unwrap().server().unwrap().nics[0].network_label.clone())
    };
    assert!(cloud.api.life.until(|context| label(context) == "renamed").await);
    assert_eq!(cloud.addresses(&server, "renamed").await.len(), 1);
    // Deleting a port in the network service also removes the server's interface.
    let port = cloud.interfaces(&server).await[0]["port_id"].as_str().unwrap().to_owned();
    assert_eq!(cloud.neutron("DELETE", &format!("/ports/{port}"), None).await.status, 204);
    cloud.until_interfaces(&server, 0).await;
    assert_eq!(cloud.show(&server).await["addresses"], json!({}));
    cloud.api.stop().await;
}

/// From 2.37 on a request says `auto` or `none`, or lists networks by their UUIDs. `auto` uses the project's network.
#[actix_rt::test]
async fn a_request_may_leave_the_network_to_the_cloud() {
    let cloud = Cloud::start().await;
    let create = async |version: &str, token: &str, networks: Value| {
        let request = json!({"name": "web", "imageRef": IMAGE, "flavorRef": "1", "networks": networks});
        let answer = cloud.api.call("POST", "/servers", version, token, Some(json!({"server": request}))).await;
        cloud.api.life.settled().await;
        answer
    };
    for (word, count) in [("auto", 1), ("none", 0)] {
        assert_eq!(create("2.36", USER, json!(word)).await.status, 400, "2.36 accepts {word}");
        let made = create("2.37", USER, json!(word)).await;
        assert_eq!(made.status, 202, "{word}: {:?}", made.body);
        let server = made.body["server"]["id"].as_str().unwrap().to_owned();
        assert_eq!(cloud.addresses(&server, "private").await.len(), count, "{word}");
        assert_eq!(cloud.interfaces(&server).await.len(), count, "{word}");
    }
    assert_eq!(create("2.37", USER, json!([{"uuid": "private"}])).await.status, 400, "a name is no UUID");
    // The project `other` has no network, and this cloud cannot create one for `auto`.
    let alone = create("2.37", "eve:other", json!("auto")).await;
    is(&alone, 400, "Unable to automatically allocate a network for project other");
    cloud.api.stop().await;
}
