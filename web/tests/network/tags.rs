//! Tags of network resources, and the bytes of the log that they cost.

use std::sync::Arc;

use chronova_events::envelope::Position;
use chronova_events::store::EventStore;
use chronova_events::store::memory::MemoryStore;
use serde_json::{Value, json};

use super::world::World;

const BOB: &str = "bob:blue";

/// The number of payload bytes that were recorded after `from`.
async fn bytes_after(store: &MemoryStore, from: Position) -> usize {
    store.read_all(from, 10_000).await.unwrap().iter().map(|event| event.data.len()).sum()
}

#[actix_web::test]
async fn tags_are_few_and_a_change_of_one_writes_one() {
    let store = MemoryStore::new();
    let world = World::on(Arc::clone(&store)).await;
    let private = world.make(BOB, "/networks", "network", json!({"name": "private"})).await;
    let subnet = json!({"network_id": private["id"], "cidr": "10.0.0.0/24", "ip_version": 4});
    let subnet = world.make(BOB, "/subnets", "subnet", subnet).await;
    let port = world.make(BOB, "/ports", "port", json!({"network_id": private["id"]})).await;
    let router = world.make(BOB, "/routers", "router", json!({"name": "edge"})).await;
    let group = world.make(BOB, "/security-groups", "security_group", json!({"name": "web"})).await;
    let tag = |number: usize| format!("{number:03}{}", "t".repeat(252));
    let full: Vec<String> = (0..50).map(tag).collect();
    for (collection, thing) in [
        ("networks", &private),
        ("subnets", &subnet),
        ("ports", &port),
        ("routers", &router),
        ("security-groups", &group),
    ] {
        let path = format!("/{collection}/{}/tags", thing["id"].as_str().unwrap());
        let too_many: Vec<String> = (0..51).map(tag).collect();
        let refused = world.refused(BOB, "PUT", &path, Some(json!({"tags": too_many}))).await;
        assert_eq!(refused.0, 400, "{path}: 51 tags");
        let long = format!("{path}/{}", "x".repeat(256));
        assert_eq!(world.refused(BOB, "PUT", &long, None).await.0, 400, "{path}: a tag of 256 characters");
        assert_eq!(world.send(BOB, "PUT", &path, Some(json!({"tags": full}))).await.0, 200);
        assert_eq!(world.refused(BOB, "PUT", &format!("{path}/more"), None).await.0, 400, "{path}: the 51st tag");
        let more = Some(json!({"tags": ["more"]}));
        assert_eq!(world.refused(BOB, "POST", &path, more).await.0, 400, "{path}: the 51st tag");

        let before = store.head();
        assert_eq!(world.send(BOB, "DELETE", &format!("{path}/{}", tag(7)), None).await.0, 204);
        assert_eq!(world.send(BOB, "PUT", &format!("{path}/more"), None).await.0, 201);
        let written = bytes_after(&store, before).await;
        assert!(written < 1_000, "{path}: a change of two of 50 tags wrote {written} bytes");
        let shown = world.get(BOB, &path).await;
        assert_eq!(shown["tags"].as_array().unwrap().len(), 50, "{path}");
        assert!(shown["tags"].as_array().unwrap().contains(&json!("more")), "{path}");
    }
    world.end().await;

    // The port has the same tags after a replay of the log.
    let world = World::on(store).await;
    let path = format!("/ports/{}/tags", port["id"].as_str().unwrap());
    let kept = world.get(BOB, &path).await;
    let mut expected: Vec<String> = full.iter().filter(|known| **known != tag(7)).cloned().collect();
    expected.push("more".to_owned());
    expected.sort();
    assert_eq!(kept["tags"], json!(expected));
    world.end().await;
}

#[actix_web::test]
async fn lists_among_settings_are_bounded() {
    let world = World::new().await;
    for (path, key) in [("/networks", "network"), ("/routers", "router")] {
        let zones = |count: usize| json!({"name": "n", "availability_zone_hints": vec!["nova"; count]});
        let refused = world.refused(BOB, "POST", path, Some(json!({key: zones(37)}))).await;
        assert_eq!(refused, (400, "HTTPBadRequest".to_owned()), "{path}");
        let made = world.make(BOB, path, key, zones(36)).await;
        assert_eq!(made["availability_zone_hints"].as_array().unwrap().len(), 36, "{path}");
    }
    let private = world.make(BOB, "/networks", "network", json!({"name": "private"})).await;
    let subnet = |extra: Value| {
        let mut body = json!({"network_id": private["id"], "cidr": "10.0.0.0/16", "ip_version": 4});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"subnet": body})
    };
    let routes = |count: usize| -> Vec<Value> {
        (0..count).map(|n| json!({"destination": format!("192.0.2.{n}/32"), "nexthop": "10.0.0.9"})).collect()
    };
    let pools = |count: usize| -> Vec<Value> {
        (0..count).map(|n| json!({"start": format!("10.0.{n}.5"), "end": format!("10.0.{n}.6")})).collect()
    };
    for wrong in [json!({"host_routes": routes(21)}), json!({"allocation_pools": pools(101)})] {
        assert_eq!(world.refused(BOB, "POST", "/subnets", Some(subnet(wrong))).await.0, 400);
    }
    let most = json!({"host_routes": routes(20), "allocation_pools": pools(100)});
    let made = world.make(BOB, "/subnets", "subnet", subnet(most)["subnet"].clone()).await;
    let path = format!("/subnets/{}", made["id"].as_str().unwrap());
    let change = json!({"subnet": {"host_routes": routes(21)}});
    assert_eq!(world.refused(BOB, "PUT", &path, Some(change)).await.0, 400);

    let port = world.make(BOB, "/ports", "port", json!({"network_id": private["id"]})).await;
    let path = format!("/ports/{}", port["id"].as_str().unwrap());
    let options = |count: usize| -> Value {
        let all: Vec<Value> = (0..count).map(|n| json!({"opt_name": format!("o{n}"), "opt_value": "1"})).collect();
        json!({"port": {"extra_dhcp_opts": all}})
    };
    assert_eq!(world.refused(BOB, "PUT", &path, Some(options(51))).await.0, 400);
    assert_eq!(world.send(BOB, "PUT", &path, Some(options(50))).await.0, 200);
    let pairs = |count: usize| -> Value {
        let all: Vec<Value> = (0..count).map(|n| json!({"ip_address": format!("10.0.9.{n}")})).collect();
        json!({"port": {"allowed_address_pairs": all}})
    };
    let refused = world.refused(BOB, "PUT", &path, Some(pairs(11))).await;
    assert_eq!(refused, (400, "AllowedAddressPairExhausted".to_owned()));
    assert_eq!(world.send(BOB, "PUT", &path, Some(pairs(10))).await.0, 200);
    let addresses = |count: usize| json!({"port": {"fixed_ips": vec![json!({"subnet_id": made["id"]}); count]}});
    assert_eq!(world.refused(BOB, "PUT", &path, Some(addresses(51))).await.0, 400);
    assert_eq!(world.send(BOB, "PUT", &path, Some(addresses(50))).await.0, 200);
    let tags = |count: usize| json!({"port": {"tags": (0..count).map(|n| format!("t{n}")).collect::<Vec<_>>()}});
    assert_eq!(world.refused(BOB, "PUT", &path, Some(tags(51))).await.0, 400);
    assert_eq!(world.send(BOB, "PUT", &path, Some(tags(50))).await.0, 200);
    world.end().await;
}
