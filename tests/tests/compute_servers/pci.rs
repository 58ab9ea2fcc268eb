//! PCI devices through the API: refusals with their messages, and the providers of devices in Placement.

use chronova_events::ids::{ImageId, InstanceId};
use chronova_tests::compute_api::{ADMIN, Answer, Api};
use chronova_tests::pci::{PciTracking, devices};
use chronova_tests::world::World;
use serde_json::{Value, json};

const OWNER: &str = "u:p";

async fn start(hosts: usize, devices: &str, tracking: PciTracking) -> Api {
    Api::start_of(World::with_pci(hosts, devices, tracking), "", None).await
}

async fn flavor(api: &Api, id: &str, devices: &str) {
    let flavor = json!({"flavor": {"id": id, "name": id, "ram": 64, "vcpus": 1, "disk": 1}});
    assert_eq!(api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor)).await.status, 200);
    let specs = json!({"extra_specs": {"pci_passthrough:alias": devices}});
    let made = api.call("POST", &format!("/flavors/{id}/os-extra_specs"), "2.1", ADMIN, Some(specs)).await;
    assert_eq!(made.status, 200, "{}", made.body);
}

async fn create(api: &Api, name: &str, flavor: &str, image: Option<ImageId>) -> Answer {
    let mut request = Api::wish(name);
    request["flavorRef"] = json!(flavor);
    if let Some(image) = image {
        request["imageRef"] = json!(image);
    }
    let answer = api.call("POST", "/servers", "2.1", OWNER, Some(json!({"server": request}))).await;
    api.life.settled().await;
    answer
}

async fn act(api: &Api, id: &str, body: Value) -> Answer {
    let answer = api.call("POST", &format!("/servers/{id}/action"), "2.95", ADMIN, Some(body)).await;
    api.life.settled().await;
    answer
}

fn id_of(created: &Answer) -> String {
    created.body["server"]["id"].as_str().unwrap_or_else(|| panic!("{}", created.body)).to_owned()
}

#[actix_rt::test]
async fn an_unknown_alias_is_refused_with_the_request() {
    let api = start(1, "10de:1eb8", PciTracking::Untracked).await;
    flavor(&api, "tpu", "tpu:1").await;
    flavor(&api, "many", "gpu:300").await;
    flavor(&api, "gpu", "gpu:1").await;
    let refused = create(&api, "one", "tpu", None).await;
    assert_eq!((refused.status, refused.message()), (400, "PCI alias tpu is not defined"));
    let refused = create(&api, "two", "many", None).await;
    assert_eq!(refused.status, 400);
    assert!(refused.message().contains("requests 300 devices; a server may have 256"), "{}", refused.body);
    let image = api.image(&[("hw_pci_numa_affinity_policy", "near")]).await;
    let refused = create(&api, "three", "gpu", Some(image)).await;
    assert_eq!(refused.status, 400);
    assert!(refused.message().contains("Invalid PCI NUMA affinity policy"), "{}", refused.body);
    let id = id_of(&create(&api, "four", "gpu", None).await);
    let refused = act(&api, &id, json!({"resize": {"flavorRef": "tpu"}})).await;
    assert_eq!((refused.status, refused.message()), (400, "PCI alias tpu is not defined"));
    assert_eq!(api.get(&format!("/servers/{id}"), "2.1").await["server"]["status"], "ACTIVE");
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_server_with_devices_is_not_suspended_and_not_migrated_live() {
    let api = start(2, "10de:1eb8", PciTracking::Untracked).await;
    flavor(&api, "gpu", "gpu:1").await;
    let id = id_of(&create(&api, "one", "gpu", None).await);
    let refused = act(&api, &id, json!({"suspend": null})).await;
    let message = format!("Operation 'suspend' not supported for instance ({id}) with PCI devices.");
    assert_eq!((refused.status, refused.message()), (400, message.as_str()));
    let live = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
    assert_eq!(act(&api, &id, live).await.status, 202, "the API itself refuses the live migration");
    let instance: InstanceId = id.parse().unwrap();
    assert_eq!(api.get(&format!("/servers/{id}"), "2.1").await["server"]["status"], "ACTIVE");
    assert_eq!(devices(&api.world.fleet, instance).len(), 1);
    assert_eq!(act(&api, &id, json!({"pause": null})).await.status, 202);
    assert_eq!(api.get(&format!("/servers/{id}"), "2.1").await["server"]["status"], "PAUSED");
    api.world.check().await;
    api.stop().await;
}
