//! The cost of hostile requests for lists.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::World;

const BOB: &str = "bob:blue";

/// The processor time of this thread, which other work of the machine does not change.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

/// The minimum of five measurements, because other work on the thread only adds time.
async fn cost(world: &World, path: &str) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..5 {
        let before = processor_time();
        world.get(BOB, path).await;
        least = least.min(processor_time().checked_sub(before).unwrap());
    }
    least
}

#[actix_web::test]
async fn lists_cost_no_more_than_in_proportion_to_their_parameters() {
    let world = World::new().await;
    for number in 0..30 {
        world.make(BOB, "/networks", "network", json!({"name": format!("n{number}")})).await;
    }
    let query = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<Vec<_>>().join("&");
    let kinds: [(&str, &dyn Fn(usize) -> String); 5] = [
        ("names that are no attributes", &|n| format!("k{n}=1")),
        ("values of one name", &|n| format!("name=v{n}")),
        ("one field over and over", &|_| "fields=id".to_owned()),
        ("tags", &|n| format!("not-tags-any=t{n}")),
        ("one sort key over and over", &|_| "sort_key=status".to_owned()),
    ];
    for (kind, one) in kinds {
        let few = cost(&world, &format!("/networks?{}", query(300, one))).await;
        let many = cost(&world, &format!("/networks?{}", query(2_400, one))).await;
        assert!(many < few * 24, "{kind}: eight times the parameters cost {many:?} after {few:?}");
    }
    world.end().await;
}

#[actix_web::test]
async fn a_repeated_filter_value_lists_a_resource_once() {
    let world = World::new().await;
    let network = world.make(BOB, "/networks", "network", json!({"name": "private"})).await;
    let subnet = json!({"network_id": network["id"], "cidr": "10.0.0.0/24", "ip_version": 4});
    world.make(BOB, "/subnets", "subnet", subnet).await;
    let port = json!({"network_id": network["id"], "device_id": "d"});
    let port = world.make(BOB, "/ports", "port", port).await;
    let id = |thing: &Value| thing["id"].as_str().unwrap().to_owned();
    for (key, path) in [
        ("networks", format!("/networks?id={0}&id={0}", id(&network))),
        ("ports", format!("/ports?id={0}&id={0}", id(&port))),
        ("ports", "/ports?device_id=d&device_id=d".to_owned()),
    ] {
        assert_eq!(world.get(BOB, &path).await[key].as_array().unwrap().len(), 1, "{path}");
    }
    world.end().await;
}
