//! Quotas under many parallel requests.

use std::sync::Arc;

use chronova_events::store::memory::MemoryStore;
use futures::future::join_all;
use serde_json::{Value, json};

use super::world::World;

const ADMIN: &str = "admin:admin";
const BOB: &str = "bob:blue";

/// The body of one of many requests, by its number.
type NthRequest<'a> = &'a dyn Fn(usize) -> Value;

async fn limit(world: &World, limits: Value) {
    assert_eq!(world.send(ADMIN, "PUT", "/quotas/blue", Some(json!({"quota": limits}))).await.0, 200);
}

/// Sends twelve requests in parallel, and returns the ids of the created resources. The requests that create nothing
/// must be refused because of the quota.
async fn race(world: &World, path: &str, key: &str, request: impl Fn(usize) -> Value) -> Vec<String> {
    let asked = (0..12).map(|number| {
        let body = json!({key: request(number)});
        async move { world.send(BOB, "POST", path, Some(body)).await }
    });
    let mut made = Vec::new();
    for (status, body) in join_all(asked).await {
        match status {
            201 => made.push(body[key]["id"].as_str().unwrap().to_owned()),
            _ => assert_eq!((status, &body["NeutronError"]["type"]), (409, &json!("OverQuota")), "{body}"),
        }
    }
    made
}

#[actix_web::test]
async fn concurrent_requests_never_exceed_the_network_quotas() {
    let store = MemoryStore::new();
    let mut world = World::on(Arc::clone(&store)).await;
    let base = world.make(BOB, "/networks", "network", json!({"name": "base"})).await;
    let subnet = json!({"network_id": base["id"], "cidr": "10.200.0.0/24", "ip_version": 4});
    world.make(BOB, "/subnets", "subnet", subnet).await;
    limit(&world, json!({"network": 3, "subnet": 3, "port": 2, "router": 2})).await;
    let network = |_: usize| json!({"name": "n"});
    let subnet = |n: usize| json!({"network_id": base["id"], "cidr": format!("10.{n}.0.0/24"), "ip_version": 4});
    let port = |_: usize| json!({"network_id": base["id"]});
    let router = |_: usize| json!({"name": "r"});
    let kinds: [(&str, &str, NthRequest<'_>, usize); 4] = [
        ("/networks", "network", &network, 2),
        ("/subnets", "subnet", &subnet, 2),
        ("/ports", "port", &port, 2),
        ("/routers", "router", &router, 2),
    ];
    for round in 0..2 {
        for (path, key, request, room) in kinds {
            let made = race(&world, path, key, request).await;
            assert_eq!(made.len(), room, "{path} in round {round}");
            // A deleted resource frees its quota.
            for id in made {
                assert_eq!(world.send(BOB, "DELETE", &format!("{path}/{id}"), None).await.0, 204);
            }
        }
        // Another process on the same log computes the same usage.
        world.end().await;
        world = World::on(Arc::clone(&store)).await;
    }
    world.end().await;
}

#[actix_web::test]
async fn refused_requests_release_their_quota() {
    let world = World::new().await;
    let base = world.make(BOB, "/networks", "network", json!({"name": "base"})).await;
    let subnet = json!({"network_id": base["id"], "cidr": "10.0.0.0/24", "ip_version": 4});
    let subnet = world.make(BOB, "/subnets", "subnet", subnet).await;
    limit(&world, json!({"subnet": 2, "port": 1})).await;
    for _ in 0..3 {
        let overlapping = json!({"subnet": {"network_id": base["id"], "cidr": "10.0.0.0/25", "ip_version": 4}});
        assert_eq!(world.refused(BOB, "POST", "/subnets", Some(overlapping)).await, (400, "InvalidInput".into()));
        let outside = json!({"port": {"network_id": base["id"], "fixed_ips": [{"ip_address": "192.0.2.1"}]}});
        assert_eq!(world.refused(BOB, "POST", "/ports", Some(outside)).await, (400, "InvalidIpForNetwork".into()));
    }
    let second = json!({"network_id": base["id"], "cidr": "10.1.0.0/24", "ip_version": 4});
    world.make(BOB, "/subnets", "subnet", second).await;
    let port = world.make(BOB, "/ports", "port", json!({"network_id": base["id"]})).await;
    assert_eq!(port["fixed_ips"][0]["subnet_id"], subnet["id"]);
    // Deleting a network deletes its subnets and frees their quota.
    assert_eq!(world.send(BOB, "DELETE", &format!("/ports/{}", port["id"].as_str().unwrap()), None).await.0, 204);
    assert_eq!(world.send(BOB, "DELETE", &format!("/networks/{}", base["id"].as_str().unwrap()), None).await.0, 204);
    let next = world.make(BOB, "/networks", "network", json!({"name": "next"})).await;
    for number in 0..2 {
        let cidr = format!("10.{number}.0.0/24");
        let body = json!({"network_id": next["id"], "cidr": cidr, "ip_version": 4});
        world.make(BOB, "/subnets", "subnet", body).await;
    }
    world.end().await;
}
