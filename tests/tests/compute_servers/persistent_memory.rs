//! Servers with virtual persistent memory on simulated hosts that offer it.

use chronova_events::ids::ProviderId;
use chronova_hypervisor::sim::SimUri;
use chronova_tests::compute_api::{ADMIN, Api};
use chronova_tests::world::World;
use serde_json::{Value, json};

const OWNER: &str = "u:p";
const CLASS: &str = "CUSTOM_PMEM_NAMESPACE_6GB";

fn uri(pmem: u32) -> SimUri {
    SimUri { pmem, vcpus: 8, memory_mib: 8192, disk_gib: 100, ..SimUri::new(1) }
}

async fn flavor(api: &Api, id: &str, labels: &str) {
    let flavor = json!({"flavor": {"id": id, "name": id, "ram": 64, "vcpus": 1, "disk": 1}});
    assert_eq!(api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor)).await.status, 200);
    let specs = json!({"extra_specs": {"hw:pmem": labels}});
    let set = api.call("POST", &format!("/flavors/{id}/os-extra_specs"), "2.86", ADMIN, Some(specs)).await;
    assert_eq!(set.status, 200, "{}", set.body);
}

async fn create(api: &Api, name: &str, flavor: &str) -> String {
    let mut wish = Api::wish(name);
    wish["flavorRef"] = json!(flavor);
    api.server(OWNER, wish).await
}

async fn status(api: &Api, id: &str) -> Value {
    api.get(&format!("/servers/{id}"), "2.1").await["server"]["status"].take()
}

#[actix_rt::test]
async fn hosts_offer_namespaces_and_each_label_of_a_flavor_takes_one() {
    let api = Api::start_of(World::of(uri(3)), "", None).await;
    let host = api.world.fleet.uri().host_id(0);
    let path = format!("/placement/resource_providers/{host}/inventories");
    let line = api.ask("GET", &path, "2.1", ADMIN, None).await.body["inventories"][CLASS].clone();
    assert_eq!((&line["total"], &line["max_unit"], &line["allocation_ratio"]), (&json!(3), &json!(3), &json!(1.0)));
    flavor(&api, "two", "6GB,6GB").await;
    flavor(&api, "one", "6GB").await;
    flavor(&api, "other", "HUGE").await;
    let two = create(&api, "two", "two").await;
    assert_eq!(status(&api, &two).await, "ACTIVE");
    let held = api.ask("GET", &format!("/placement/allocations/{two}"), "2.1", ADMIN, None).await.body;
    let held: Vec<&Value> = held["allocations"].as_object().unwrap().values().collect();
    // The namespaces are resources of the host itself, not of a provider below it.
    assert_eq!((held.len(), &held[0]["resources"][CLASS]), (1, &json!(2)));
    let further = create(&api, "further", "two").await;
    assert_eq!(status(&api, &further).await, "ERROR", "two namespaces of three are taken");
    let one = create(&api, "one", "one").await;
    assert_eq!(status(&api, &one).await, "ACTIVE");
    let other = create(&api, "other", "other").await;
    assert_eq!(status(&api, &other).await, "ERROR", "no host has this label");
    assert_eq!(api.call("DELETE", &format!("/servers/{two}"), "2.1", OWNER, None).await.status, 204);
    api.life.settled().await;
    let again = create(&api, "again", "two").await;
    assert_eq!(status(&api, &again).await, "ACTIVE", "the deleted server's namespaces are free");
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_resize_changes_the_namespaces_of_a_server() {
    let api = Api::start_of(World::of(SimUri { hosts: 2, ..uri(1) }), "", None).await;
    flavor(&api, "one", "6GB").await;
    api.flavor("2", 128, 1).await;
    let id = create(&api, "web", "one").await;
    let held = async || {
        let view = |placement: &chronova_projections::placement::Placement| {
            let lines = placement.ledger.providers.values().filter_map(|provider| provider.inventories.get(CLASS));
            lines.map(|line| line.used).sum::<u64>()
        };
        api.life.context().views.placement.read(view)
    };
    assert_eq!(held().await, 1);
    for body in [json!({"resize": {"flavorRef": "2"}}), json!({"confirmResize": null})] {
        let answer = api.call("POST", &format!("/servers/{id}/action"), "2.1", ADMIN, Some(body)).await;
        assert!(matches!(answer.status, 202 | 204), "{} {}", answer.status, answer.body);
        api.life.settled().await;
    }
    assert_eq!(status(&api, &id).await, "ACTIVE");
    assert_eq!(held().await, 0, "the new flavor has no persistent memory");
    let provider = ProviderId(api.world.fleet.uri().host_id(0).0);
    let known = |placement: &chronova_projections::placement::Placement| {
        placement.ledger.knows_class(CLASS) && placement.ledger.providers[&provider].inventories.contains_key(CLASS)
    };
    assert!(api.life.context().views.placement.read(known));
    api.world.check().await;
    api.stop().await;
}
