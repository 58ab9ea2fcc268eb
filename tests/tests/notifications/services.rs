//! Notifications of changes of services.

use super::*;

/// The fields of Nova's `ServiceStatusPayload` 1.1.
const FIELDS: &str = "availability_zone binary disabled disabled_reason forced_down host last_seen_up report_count topic \
                      uuid version";

#[actix_rt::test]
async fn a_change_of_a_service_is_notified_as_service_update() {
    let api = Api::start_of(World::new(2), "", None).await;
    let service = api.get("/os-services?binary=nova-compute", "2.53").await["services"][0].take();
    let path = format!("/os-services/{}", service["id"].as_str().unwrap());
    for change in [
        json!({"status": "disabled", "disabled_reason": "repair"}),
        json!({"status": "enabled"}),
        json!({"forced_down": true}),
        json!({"forced_down": false}),
    ] {
        let changed = api.call("PUT", &path, "2.53", ADMIN, Some(change)).await;
        assert_eq!(changed.status, 200, "{}", changed.body);
    }
    // The changes of the service are older than this server. So once the broker has the server's messages, it has those
    // of the service, too.
    lived(&api).await;
    let all = all_since(&api.life, options(NotificationFormat::Both), Position::START).await;
    let mine: Vec<&OutgoingNotification> =
        all.iter().filter(|message| message.event_type == "service.update").collect();
    assert!(mine.iter().all(|message| message.routing_key == "versioned_notifications.info"), "{mine:?}");
    let messages: Vec<Value> = mine.into_iter().map(opened).collect();
    let mut states = Vec::new();
    for message in &messages {
        assert_eq!(message["publisher_id"], json!(format!("nova-compute:{}", service["host"].as_str().unwrap())));
        assert!(message["_context_user_id"].is_string(), "{message}");
        let payload = &message["payload"];
        let object = ["namespace", "name", "version"].map(|part| payload[format!("nova_object.{part}")].clone());
        assert_eq!(object, [json!("nova"), json!("ServiceStatusPayload"), json!("1.1")]);
        let data = payload["nova_object.data"].as_object().unwrap();
        let fields: BTreeSet<&str> = data.keys().map(String::as_str).collect();
        assert_eq!(fields, FIELDS.split_whitespace().collect());
        assert_eq!([&data["host"], &data["uuid"]], [&service["host"], &service["id"]]);
        assert_eq!([&data["binary"], &data["topic"]], [&json!("nova-compute"), &json!("compute")]);
        assert!(data["report_count"].is_number() && data["version"].is_number() && data["last_seen_up"].is_string());
        states.push(["disabled", "disabled_reason", "forced_down"].map(|key| data[key].clone()));
    }
    let state = |disabled: bool, reason: Option<&str>, down: bool| [json!(disabled), json!(reason), json!(down)];
    assert_eq!(
        states,
        [
            state(true, Some("repair"), false),
            state(false, None, false),
            state(false, None, true),
            state(false, None, false)
        ]
    );
    // The unversioned form has no notification `service.update`.
    let older = all_since(&api.life, options(NotificationFormat::Unversioned), Position::START).await;
    assert!(older.iter().all(|message| message.event_type != "service.update"));
    api.life.stop().await;
}
