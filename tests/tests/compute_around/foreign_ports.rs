//! Ports of one project that impersonate, or conflict with, those of another project's servers.

use chronova_tests::compute_api::{ADMIN, Answer, IMAGE};
use chronova_web::metadata::MetadataConfig;
use serde_json::{Value, json};

use super::interfaces::{USER, is};
use super::metadata::{META, Service8775};

const EVE: &str = "eve:red";

async fn neutron(service: &Service8775, token: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
    service.cloud.api.ask(method, &format!("/network/v2.0{path}"), "2.1", token, body).await
}

async fn made(service: &Service8775, token: &str, path: &str, key: &str, request: Value) -> Value {
    let mut answer = neutron(service, token, "POST", path, Some(json!({key: request}))).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.body[key].take()
}

/// A network with a subnet.
async fn network(service: &Service8775, token: &str, settings: Value, cidr: &str) -> String {
    let network = made(service, token, "/networks", "network", settings).await;
    let subnet = json!({"network_id": network["id"], "cidr": cidr, "ip_version": 4});
    made(service, token, "/subnets", "subnet", subnet).await;
    network["id"].as_str().unwrap().to_owned()
}

async fn port(service: &Service8775, id: &str) -> Value {
    neutron(service, ADMIN, "GET", &format!("/ports/{id}"), None).await.body["port"].take()
}

#[actix_rt::test]
async fn a_foreign_port_that_names_a_server_is_none_of_its_ports() {
    let service = Service8775::start(MetadataConfig::default()).await;
    let (server, address) = service.server("2.100", json!({"user_data": "c2VjcmV0"})).await;
    let hers = network(&service, EVE, json!({"name": "hers"}), "10.66.0.0/24").await;
    let spy = made(&service, EVE, "/security-groups", "security_group", json!({"name": "spy"})).await;
    let request = json!({"network_id": hers, "device_id": server, "security_groups": [spy["id"]]});
    let fake = made(&service, EVE, "/ports", "port", request).await;
    let (fake_id, from) = (fake["id"].as_str().unwrap(), fake["fixed_ips"][0]["ip_address"].as_str().unwrap());

    // The metadata service neither answers the port nor accepts its password.
    for path in [META, "/openstack/latest/user_data", "/openstack/latest/password", "/latest/meta-data/"] {
        assert_eq!(service.get(from, path).await.status, 404, "{path}");
    }
    let posted = service.ask("POST", "/openstack/latest/password", from, &[], "hers").await;
    assert_eq!(posted.status, 404);
    let posted = service.ask("POST", "/openstack/latest/password", &address, &[], "own").await;
    assert_eq!(posted.status, 200, "the guest's own password is refused");
    assert_eq!(service.get(&address, "/openstack/latest/user_data").await.text(), "secret");

    // The server's groups are those of its own ports only.
    let groups = service.cloud.show(&server).await["security_groups"].take();
    assert_eq!(groups, json!([{"name": "default"}]));
    let web = made(&service, USER, "/security-groups", "security_group", json!({"name": "web"})).await;
    let add = service.cloud.act(&server, "2.1", json!({"addSecurityGroup": {"name": "web"}})).await;
    assert_eq!(add.status, 202, "{:?}", add.body);
    assert_eq!(port(&service, fake_id).await["security_groups"], json!([spy["id"]]));
    let remove = service.cloud.act(&server, "2.1", json!({"removeSecurityGroup": {"name": "web"}})).await;
    assert_eq!(remove.status, 202, "{:?}", remove.body);
    assert_ne!(web["id"], spy["id"]);

    // The port is neither moved nor deleted with the server.
    assert_eq!(service.cloud.act(&server, "2.1", json!({"shelve": null})).await.status, 202);
    service.cloud.api.life.settled().await;
    assert_eq!(service.cloud.act(&server, "2.1", json!({"unshelve": null})).await.status, 202);
    service.cloud.api.life.settled().await;
    let now = port(&service, fake_id).await;
    assert_eq!((&now["binding:host_id"], &now["device_owner"]), (&json!(""), &json!("")));
    let gone = service.cloud.api.call("DELETE", &format!("/servers/{server}"), "2.1", USER, None).await;
    assert_eq!(gone.status, 204);
    service.cloud.api.life.settled().await;
    assert_eq!(port(&service, fake_id).await["device_id"], json!(server), "the server's work changed Eve's port");
    assert_eq!(port(&service, fake_id).await["revision_number"], fake["revision_number"]);
    service.cloud.api.stop().await;
}

#[actix_rt::test]
async fn a_port_on_an_external_network_is_no_way_around_the_policy() {
    let service = Service8775::start(MetadataConfig::default()).await;
    let external = json!({"name": "public", "router:external": true});
    let public = network(&service, ADMIN, external, "203.0.113.0/24").await;
    let ready = made(&service, USER, "/ports", "port", json!({"network_id": public})).await;
    let words = format!("It is not allowed to create an interface on external network {public}");
    let ask = async |nic: Value| {
        let request = json!({"name": "out", "imageRef": IMAGE, "flavorRef": "1", "networks": [nic]});
        service.cloud.api.call("POST", "/servers", "2.100", USER, Some(json!({"server": request}))).await
    };
    is(&ask(json!({"uuid": public})).await, 403, &words);
    is(&ask(json!({"port": ready["id"]})).await, 403, &words);
    let (server, _) = service.server("2.100", json!({})).await;
    is(&service.cloud.attach(&server, "2.70", json!({"port_id": ready["id"]})).await, 403, &words);
    service.cloud.api.stop().await;
}

/// The Network API denies the same choice (`create_port:fixed_ips:ip_address`).
#[actix_rt::test]
async fn only_the_owner_of_a_shared_network_chooses_addresses_in_it() {
    let service = Service8775::start(MetadataConfig::default()).await;
    let shared = network(&service, ADMIN, json!({"name": "office", "shared": true}), "10.9.0.0/24").await;
    let words = "Policy doesn't allow create_port:fixed_ips:ip_address to be performed.";
    let port = json!({"network_id": shared, "fixed_ips": [{"ip_address": "10.9.0.77"}]});
    let port = neutron(&service, USER, "POST", "/ports", Some(json!({"port": port}))).await;
    assert_eq!(port.status, 403, "{:?}", port.body);
    let request = json!({"name": "a", "imageRef": IMAGE, "flavorRef": "1",
        "networks": [{"uuid": shared, "fixed_ip": "10.9.0.77"}]});
    let body = Some(json!({"server": request}));
    is(&service.cloud.api.call("POST", "/servers", "2.100", USER, body).await, 403, words);
    let (server, _) = service.server("2.100", json!({})).await;
    let chosen = json!({"net_id": shared, "fixed_ips": [{"ip_address": "10.9.0.77"}]});
    is(&service.cloud.attach(&server, "2.70", chosen).await, 403, words);
    let any = service.cloud.attach(&server, "2.70", json!({"net_id": shared})).await;
    assert_eq!(any.status, 200, "{:?}", any.body);
    service.cloud.api.stop().await;
}

#[actix_rt::test]
async fn a_network_with_the_same_addresses_takes_no_metadata_from_another() {
    let service = Service8775::start(MetadataConfig { use_forwarded_for: true, ..MetadataConfig::default() }).await;
    let (server, address) = service.server("2.100", json!({})).await;
    let hers = network(&service, EVE, json!({"name": "twin"}), "10.1.0.0/24").await;
    let request = json!([{"uuid": hers, "fixed_ip": address}]);
    let request = json!({"name": "twin", "imageRef": IMAGE, "flavorRef": "1", "networks": request});
    let twin = service.cloud.api.server(EVE, request).await;

    // A proxy that serves one network sends the network's id, as Neutron's proxies do.
    let ask = async |from: &str, network: &str| {
        let headers = [("X-Forwarded-For", address.as_str()), ("X-Neutron-Network-ID", network)];
        let answer = service.ask("GET", META, from, &headers, "").await;
        (answer.status == 200).then(|| answer.json()["uuid"].as_str().unwrap().to_owned())
    };
    let (mine, theirs) = (service.cloud.network.clone(), hers);
    assert_eq!(ask("192.0.2.7", &mine).await, Some(server.clone()));
    assert_eq!(ask("192.0.2.7", &theirs).await, Some(twin));
    assert_eq!(ask("192.0.2.7", "no network").await, None);
    assert_eq!(ask("192.0.2.8", &mine).await, None, "the headers of an untrusted client are believed");
    assert_eq!(ask(&address, &mine).await, None, "the headers of a guest are believed");
    service.cloud.api.stop().await;
}

#[actix_rt::test]
async fn a_guest_behind_a_bridge_is_in_the_network_of_the_bridge() {
    let table = tempfile::NamedTempFile::new().unwrap();
    let neighbours = table.path().to_owned();
    let service = Service8775::start(MetadataConfig { neighbours, ..MetadataConfig::default() }).await;
    let (server, address) = service.server("2.100", json!({})).await;
    let hers = network(&service, EVE, json!({"name": "twin"}), "10.1.0.0/24").await;
    let behind = async |interfaces: &[&str]| {
        let head = "IP address       HW type     Flags       HW address            Mask     Device\n";
        let line =
            |name: &&str| format!("{address}         0x1         0x2         fa:16:3e:00:00:01     *        {name}\n");
        let lines: String = interfaces.iter().map(line).collect();
        std::fs::write(table.path(), format!("{head}{lines}")).unwrap();
        let answer = service.get(&address, META).await;
        (answer.status == 200).then(|| answer.json()["uuid"].as_str().unwrap().to_owned())
    };
    let bridge = |network: &str| chronova_hypervisor::volumes::bridge_name(network.parse().unwrap());
    let (mine, theirs) = (bridge(&service.cloud.network), bridge(&hers));
    assert_eq!(behind(&[]).await, Some(server.clone()));
    assert_eq!(
        behind(&["eth0"]).await,
        Some(server.clone()),
        "an interface that is no network's bridge hides the server"
    );
    assert_eq!(behind(&[&mine]).await, Some(server.clone()));
    assert_eq!(behind(&[&theirs]).await, None, "a spoofed address from another network gets metadata");

    let request = json!([{"uuid": hers, "fixed_ip": address}]);
    let request = json!({"name": "twin", "imageRef": IMAGE, "flavorRef": "1", "networks": request});
    let twin = service.cloud.api.server(EVE, request).await;
    assert_eq!(behind(&[&mine]).await, Some(server));
    assert_eq!(behind(&[&theirs]).await, Some(twin));
    assert_eq!(behind(&["eth0"]).await, None, "an address of two networks gets metadata without a bridge");
    assert_eq!(behind(&[&mine, &theirs]).await, None);
    service.cloud.api.stop().await;
}
