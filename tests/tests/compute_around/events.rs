//! External events: notifications of other services about servers.

use chronova_tests::compute_api::{ADMIN, Answer, Api};
use serde_json::{Value, json};

use super::interfaces::{Cloud, USER, is};

async fn tell(api: &Api, version: &str, events: Value) -> Answer {
    api.call("POST", "/os-server-external-events", version, ADMIN, Some(json!({"events": events}))).await
}

#[actix_rt::test]
async fn each_event_has_its_code() {
    let api = Api::start().await;
    api.flavor("huge", 20_000, 1).await;
    let server = api.server(USER, Api::wish("web")).await;
    let mut request = Api::wish("homeless");
    request["flavorRef"] = json!("huge");
    let homeless = api.server(USER, request).await;
    let none = "11111111-2222-3333-4444-555555555555";
    let event =
        |name: &str, server: &str| json!({"name": name, "server_uuid": server, "tag": "t", "status": "completed"});

    let all = tell(&api, "2.1", json!([event("network-vif-plugged", &server)])).await;
    assert_eq!(all.status, 200);
    let mut expected = event("network-vif-plugged", &server);
    expected["code"] = json!(200);
    assert_eq!(all.body["events"], json!([expected]));

    // As in Nova, the answer is 207 if any event failed, even if none succeeded.
    let some =
        json!([event("network-changed", &server), event("network-changed", none), event("network-changed", &homeless)]);
    let mixed = tell(&api, "2.1", some).await;
    assert_eq!(mixed.status, 207);
    let codes: Vec<_> =
        mixed.body["events"].as_array().unwrap().iter().map(|e| (e["code"].clone(), e["status"].clone())).collect();
    let failed = |code: u16| (json!(code), json!("failed"));
    assert_eq!(codes, [(json!(200), json!("completed")), failed(404), failed(422)]);
    let nothing = tell(&api, "2.1", json!([event("network-changed", none)])).await;
    assert_eq!((nothing.status, &nothing.body["events"][0]["code"]), (207, &json!(404)));
    let untagged = tell(&api, "2.76", json!([{"name": "power-update", "server_uuid": server}])).await;
    assert_eq!((untagged.status, &untagged.body["events"][0]["code"]), (207, &json!(400)));

    for (name, since) in
        [("volume-extended", 51), ("power-update", 76), ("accelerator-request-bound", 82), ("volume-reimaged", 93)]
    {
        let before = tell(&api, &format!("2.{}", since - 1), json!([event(name, &server)])).await;
        is(&before, 400, "is not one of");
        assert_eq!(tell(&api, &format!("2.{since}"), json!([event(name, &server)])).await.status, 200, "{name}");
    }
    is(&tell(&api, "2.1", json!([])).await, 400, "events");
    is(&tell(&api, "2.1", json!([{"name": "network-changed"}])).await, 400, "server_uuid");
    let body = json!({"events": [event("network-changed", &server)]});
    let user = api.call("POST", "/os-server-external-events", "2.1", USER, Some(body)).await;
    is(&user, 403, "os_compute_api:os-server-external-events:create");
    api.stop().await;
}

#[actix_rt::test]
async fn power_updates_start_and_stop() {
    let api = Api::start().await;
    let server = api.server(USER, Api::wish("web")).await;
    let event = |tag: &str| json!([{"name": "power-update", "server_uuid": server, "tag": tag}]);
    let status = async || api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"].take();
    for (tag, expected) in [
        ("POWER_ON", "ACTIVE"),
        ("POWER_OFF", "SHUTOFF"),
        ("POWER_OFF", "SHUTOFF"),
        ("SIDEWAYS", "SHUTOFF"),
        ("POWER_ON", "ACTIVE"),
    ] {
        assert_eq!(tell(&api, "2.76", event(tag)).await.status, 200);
        api.life.settled().await;
        assert_eq!(status().await, expected, "after {tag}");
    }
    let actions = api.get(&format!("/servers/{server}/os-instance-actions"), "2.100").await;
    let names: Vec<_> = actions["instanceActions"].as_array().unwrap().iter().map(|a| a["action"].clone()).collect();
    assert_eq!(names, ["start", "stop", "create"]);
    api.stop().await;
}

#[actix_rt::test]
async fn a_deleted_interface_is_taken_from_the_guest() {
    let cloud = Cloud::start().await;
    let server = cloud.server().await;
    let port = cloud.interfaces(&server).await[0]["port_id"].as_str().unwrap().to_owned();
    let event = json!([{"name": "network-vif-deleted", "server_uuid": server, "tag": port}]);
    assert_eq!(tell(&cloud.api, "2.1", event.clone()).await.status, 200);
    cloud.until_interfaces(&server, 0).await;
    cloud.api.world.check().await;
    // A repeated event has no further effect.
    assert_eq!(tell(&cloud.api, "2.1", event).await.status, 200);
    cloud.api.life.settled().await;
    cloud.api.world.check().await;
    cloud.api.stop().await;
}
