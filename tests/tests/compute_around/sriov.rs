//! Servers with ports that are PCI devices of their hosts, through the API and on the embedded network service.

use chronova_events::ids::InstanceId;
use chronova_tests::compute_api::{ADMIN, IMAGE};
use chronova_tests::pci::{PciTracking, devices};
use chronova_tests::world::World;
use serde_json::{Value, json};

use super::interfaces::{Cloud, USER, is};

/// Two hosts, each with a card that has two virtual functions.
async fn start() -> Cloud {
    Cloud::start_in(World::with_pci(2, "8086:1572/154c*2", PciTracking::Untracked)).await
}

async fn made(cloud: &Cloud, path: &str, key: &str, request: Value) -> Value {
    let asked = Some(json!({key: request}));
    // Only a service may set the profile of a port.
    let roles = Some("admin,service");
    let mut answer = cloud.api.ask_as("POST", &format!("/network/v2.0{path}"), "2.1", ADMIN, roles, asked).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.body[key].take()
}

/// A VLAN of the project on a physical network.
async fn vlan(cloud: &Cloud, physical: &str, segment: u32) -> String {
    let settings = json!({"name": "fast", "project_id": "web", "provider:network_type": "vlan",
        "provider:physical_network": physical, "provider:segmentation_id": segment});
    let network = made(cloud, "/networks", "network", settings).await;
    let subnet = json!({"network_id": network["id"], "cidr": format!("10.{segment}.0.0/24"), "ip_version": 4,
        "project_id": "web"});
    made(cloud, "/subnets", "subnet", subnet).await;
    network["id"].as_str().unwrap().to_owned()
}

async fn port(cloud: &Cloud, network: &str, vnic: &str, profile: Value) -> String {
    let request = json!({"network_id": network, "project_id": "web", "binding:vnic_type": vnic,
        "binding:profile": profile});
    made(cloud, "/ports", "port", request).await["id"].as_str().unwrap().to_owned()
}

async fn shown(cloud: &Cloud, port: &str) -> Value {
    cloud.api.ask("GET", &format!("/network/v2.0/ports/{port}"), "2.1", ADMIN, None).await.body["port"].take()
}

fn wish(port: &str) -> Value {
    json!({"name": "fast", "imageRef": IMAGE, "flavorRef": "1", "networks": [{"port": port}]})
}

/// The devices of the server's guest, without their domain.
fn has(cloud: &Cloud, server: &str) -> Vec<String> {
    let instance: InstanceId = server.parse().unwrap();
    let all = devices(&cloud.api.world.fleet, instance);
    all.into_values().flatten().map(|address| address.to_string()[5..].to_owned()).collect()
}

#[actix_rt::test]
async fn a_direct_port_has_the_device_of_its_server_in_its_profile() {
    let cloud = start().await;
    let network = vlan(&cloud, "physnet1", 100).await;
    let own = json!({"own": "key"});
    let first = port(&cloud, &network, "direct", own.clone()).await;
    let server = cloud.api.server(USER, wish(&first)).await;
    assert_eq!(cloud.show(&server).await["status"], "ACTIVE");
    assert_eq!(has(&cloud, &server), ["10:01.0"]);
    let bound = shown(&cloud, &first).await;
    assert_eq!((&bound["binding:vif_type"], &bound["binding:vnic_type"]), (&json!("hw_veb"), &json!("direct")));
    let expected = json!({
        "own": "key", "pci_vendor_info": "8086:154c", "pci_slot": "0000:10:01.0", "physical_network": "physnet1",
        "pf_mac_address": "02:51:00:10:00:00", "vf_num": 0, "card_serial_number": "SIM0010",
    });
    assert_eq!(bound["binding:profile"], expected);

    // One more port gets the other function, and a third one finds none.
    let second = port(&cloud, &network, "direct", json!({})).await;
    let attached = cloud.attach(&server, "2.70", json!({"port_id": second})).await;
    assert_eq!(attached.status, 200, "{:?}", attached.body);
    assert_eq!(has(&cloud, &server).len(), 2);
    assert_eq!(shown(&cloud, &second).await["binding:profile"]["pci_slot"], "0000:10:01.1");
    let third = port(&cloud, &network, "direct", json!({})).await;
    let refused = cloud.attach(&server, "2.70", json!({"port_id": third})).await;
    is(&refused, 400, "Failed to claim PCI device for port");
    assert_eq!((shown(&cloud, &third).await["device_id"].clone(), has(&cloud, &server).len()), (json!(""), 2));

    // A detached port gives its device back.
    let path = format!("/servers/{server}/os-interface/{second}");
    assert_eq!(cloud.api.call("DELETE", &path, "2.1", USER, None).await.status, 202);
    cloud.until_interfaces(&server, 1).await;
    assert_eq!(
        (has(&cloud, &server), shown(&cloud, &second).await["binding:profile"].clone()),
        (vec!["10:01.0".to_owned()], json!({}))
    );

    // The server moves, and its port gets a device of the new host.
    let moved = cloud
        .api
        .call("POST", &format!("/servers/{server}/action"), "2.95", ADMIN, Some(json!({"migrate": null})))
        .await;
    assert_eq!(moved.status, 202, "{:?}", moved.body);
    cloud.api.life.settled().await;
    assert_eq!(cloud.act(&server, "2.1", json!({"confirmResize": null})).await.status, 204);
    cloud.api.life.settled().await;
    assert_eq!(cloud.show(&server).await["status"], "ACTIVE");
    assert_eq!(has(&cloud, &server), ["10:01.0"]);

    let gone = cloud.api.call("DELETE", &format!("/servers/{server}"), "2.1", USER, None).await;
    assert_eq!(gone.status, 204);
    cloud.api.life.settled().await;
    let left = shown(&cloud, &first).await;
    assert_eq!((&left["device_id"], &left["binding:profile"]), (&json!(""), &own));
    cloud.api.world.check().await;
    cloud.api.stop().await;
}

/// The next port on the card needs the address of the card.
#[actix_rt::test]
async fn a_port_gives_the_mac_address_of_its_card_back() {
    let cloud = Cloud::start_in(World::with_pci(2, "15b3:1019/101a*1", PciTracking::Untracked)).await;
    let network = vlan(&cloud, "physnet1", 103).await;
    let card = json!("02:51:00:10:00:00");
    for _ in 0..2 {
        let port = port(&cloud, &network, "direct-physical", json!({})).await;
        let before = shown(&cloud, &port).await["mac_address"].clone();
        let server = cloud.api.server(USER, wish(&port)).await;
        assert_eq!(cloud.show(&server).await["status"], "ACTIVE");
        let bound = shown(&cloud, &port).await;
        assert_eq!((&bound["mac_address"], &bound["binding:profile"]["device_mac_address"]), (&card, &card));
        let gone = cloud.api.call("DELETE", &format!("/servers/{server}"), "2.1", USER, None).await;
        assert_eq!(gone.status, 204);
        cloud.api.life.settled().await;
        let left = shown(&cloud, &port).await;
        assert_eq!((&left["mac_address"], &left["binding:profile"]), (&before, &json!({})));
    }
    cloud.api.stop().await;
}

#[actix_rt::test]
async fn a_port_on_another_physical_network_finds_no_host() {
    let cloud = start().await;
    let network = vlan(&cloud, "physnet2", 101).await;
    for (vnic, profile) in [("direct", json!({})), ("vdpa", json!({})), ("remote-managed", json!({}))] {
        let port = port(&cloud, &network, vnic, profile).await;
        let server = cloud.api.server(USER, wish(&port)).await;
        let now = cloud.show(&server).await;
        assert_eq!(now["status"], "ERROR", "{vnic}");
        let message = now["fault"]["message"].as_str().unwrap();
        assert!(message.contains("PCI devices of the kind that flavor and ports ask for"), "{message}");
    }
    // Nothing on the hosts sets the trust mode of a function.
    let near = vlan(&cloud, "physnet1", 102).await;
    let trusting = port(&cloud, &near, "direct", json!({"trusted": "true"})).await;
    let server = cloud.api.server(USER, wish(&trusting)).await;
    assert_eq!(cloud.show(&server).await["status"], "ERROR");
    cloud.api.stop().await;
}
