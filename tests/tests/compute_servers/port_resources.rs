//! Servers with ports that request resources, through the API.

use chronova_events::ids::{ConsumerId, InstanceId};
use chronova_tests::bandwidth::{KILOBITS, bridge_of, held, port};
use chronova_tests::compute_api::{ADMIN, Api};
use serde_json::{Value, json};

const USER: &str = "alice:web";

fn wish(name: &str, port: u64) -> Value {
    let mut wish = Api::wish(name);
    wish["networks"] = json!([{"port": self::port(port).to_string()}]);
    json!({"server": wish})
}

#[actix_rt::test]
async fn ports_that_request_resources_need_microversion_2_72() {
    let api = Api::start().await;
    api.life.add_bridges(KILOBITS).await;
    let create = async |version: &str, n: u64| api.call("POST", "/servers", version, USER, Some(wish("qos", n))).await;
    let refused = create("2.71", 1).await;
    let expected = "Creating servers with ports having resource requests, like a port with a QoS minimum bandwidth \
                    policy, is not supported until microversion 2.72.";
    assert_eq!((refused.status, refused.message()), (400, expected));
    let ordinary = api.call("POST", "/servers", "2.71", USER, Some(json!({"server": Api::wish("plain")}))).await;
    assert_eq!(ordinary.status, 202, "{}", ordinary.body);

    let made = create("2.72", 1).await;
    assert_eq!(made.status, 202, "{}", made.body);
    api.life.settled().await;
    let id = made.body["server"]["id"].as_str().unwrap();
    let server = api.call("GET", &format!("/servers/{id}"), "2.72", ADMIN, None).await.body["server"].take();
    assert_eq!(server["status"], "ACTIVE", "{server}");
    // The bandwidth is part of the server's own allocations.
    let instance: InstanceId = id.parse().unwrap();
    let allocated = api.life.context().views.placement.read(|view| {
        let held = held(&view.ledger, &ConsumerId::new(id));
        held.into_iter()
            .map(|(provider, amount)| (view.ledger.providers[&provider].parent, provider, amount))
            .collect::<Vec<_>>()
    });
    let [(Some(host), bridge, KILOBITS)] = allocated[..] else { panic!("{allocated:?}") };
    assert_eq!(bridge, bridge_of(host));
    assert_eq!(api.life.host_of(&api.world, instance).map(|at| api.world.fleet.uri().host_id(at).0), Some(host.0));

    // Each host has bandwidth for one port.
    for (n, status) in [(2, "ACTIVE"), (3, "ERROR")] {
        let made = create("2.90", n).await;
        assert_eq!(made.status, 202, "{}", made.body);
        api.life.settled().await;
        let id: InstanceId = made.body["server"]["id"].as_str().unwrap().parse().unwrap();
        assert_eq!(api.life.status(id), status);
    }
    let Api { world, life, .. } = api;
    life.stop().await;
    world.check().await;
}
