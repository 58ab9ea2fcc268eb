//! The types of the fields of instance actions and their events, as in Nova's API reference
//! (`api-ref/source/os-instance-actions.inc`). A field may be null only if the reference says so.

use std::time::Duration;

use chronova_tests::compute_api::{ADMIN, Api};
use chronova_tests::world::World;
use serde_json::{Value, json};

const USER: &str = "alice:web";

/// The type of a field in Nova's reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldType {
    Text,
    TextOrNull,
    Time,
    TimeOrNull,
    Null,
    List,
}

impl FieldType {
    fn admits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.as_str().is_some_and(|text| !text.is_empty()),
            Self::TextOrNull => value.is_null() || value.is_string(),
            Self::Time => value.as_str().is_some_and(is_time),
            Self::TimeOrNull => value.is_null() || value.as_str().is_some_and(is_time),
            Self::Null => value.is_null(),
            Self::List => value.is_array(),
        }
    }
}

/// `2018-04-25T01:26:36.341290`
fn is_time(text: &str) -> bool {
    let form: String = text.chars().map(|sign| if sign.is_ascii_digit() { '0' } else { sign }).collect();
    form == "0000-00-00T00:00:00.000000"
}

/// A field, its type, and the first version that has it.
type FieldRow = (&'static str, FieldType, u32);

const ACTION: [FieldRow; 8] = [
    ("action", FieldType::Text, 1),
    ("instance_uuid", FieldType::Text, 1),
    ("request_id", FieldType::Text, 1),
    // Null for actions that no user requested.
    ("user_id", FieldType::TextOrNull, 1),
    ("project_id", FieldType::TextOrNull, 1),
    ("start_time", FieldType::Time, 1),
    ("message", FieldType::TextOrNull, 1),
    ("updated_at", FieldType::Time, 58),
];

const EVENT: [FieldRow; 8] = [
    ("event", FieldType::Text, 1),
    ("start_time", FieldType::Time, 1),
    ("finish_time", FieldType::TimeOrNull, 1),
    ("result", FieldType::TextOrNull, 1),
    ("traceback", FieldType::Null, 1),
    ("host", FieldType::Text, 62),
    ("hostId", FieldType::Text, 62),
    ("details", FieldType::TextOrNull, 84),
];

/// Checks that the object has exactly the fields of this version, with their types.
#[track_caller]
fn has_types(object: &Value, rows: &[FieldRow], more: &[&str], minor: u32) {
    let known: Vec<&FieldRow> = rows.iter().filter(|(_, _, since)| *since <= minor).collect();
    for (name, kind, _) in &known {
        let value = object.get(*name).unwrap_or_else(|| panic!("no {name} at 2.{minor}: {object}"));
        assert!(kind.admits(value), "{name} at 2.{minor} is no {kind:?}: {object}");
    }
    let expected = |name: &str| known.iter().any(|(known, ..)| *known == name) || more.contains(&name);
    let other: Vec<&String> = object.as_object().unwrap().keys().filter(|name| !expected(name)).collect();
    assert_eq!(other, Vec::<&String>::new(), "at 2.{minor}: {object}");
}

/// Creates a server whose build fails. Creates another server, locks, unlocks, resizes and deletes it; Chronova
/// confirms the resize. Returns the ids of both.
async fn servers(api: &Api) -> [String; 2] {
    api.flavor("2", 1024, 2).await;
    api.flavor("huge", 900_000, 1).await;
    let lift = json!({"quota_set": {"ram": -1}});
    assert_eq!(api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, Some(lift)).await.status, 200);
    let mut wish = Api::wish("homeless");
    wish["flavorRef"] = json!("huge");
    let homeless = api.server(USER, wish).await;
    let server = api.server(USER, Api::wish("one")).await;
    for action in [json!({"lock": null}), json!({"unlock": null}), json!({"resize": {"flavorRef": "2"}})] {
        let path = format!("/servers/{server}/action");
        assert_eq!(api.call("POST", &path, "2.1", USER, Some(action.clone())).await.status, 202, "{action}");
        api.life.settled().await;
    }
    let is_confirmed = api
        .life
        .until(|context| context.views.migrations.read(|view| view.all().all(|row| row.status.word() == "confirmed")));
    assert!(is_confirmed.await);
    api.life.settled().await;
    assert_eq!(api.call("DELETE", &format!("/servers/{server}"), "2.1", USER, None).await.status, 204);
    api.life.settled().await;
    [homeless, server]
}

#[actix_rt::test]
async fn actions_and_events_have_the_types_of_novas_reference() {
    let mut world = World::new(2);
    world.options.reconcile.resize_confirm_window = Duration::from_millis(1);
    let api = Api::start_of(world, "", None).await;
    let mut names = Vec::new();
    for id in servers(&api).await {
        // Before 2.21 the actions of a deleted server are not found.
        for minor in [21, 50, 51, 57, 58, 61, 62, 83, 84, 90] {
            let version = format!("2.{minor}");
            let path = format!("/servers/{id}/os-instance-actions");
            let listed = api.get(&path, &version).await["instanceActions"].take();
            for action in listed.as_array().unwrap() {
                has_types(action, &ACTION, &[], minor);
                assert_eq!(action["instance_uuid"], json!(id));
                let one = format!("{path}/{}", action["request_id"].as_str().unwrap());
                let shown = api.get(&one, &version).await["instanceAction"].take();
                has_types(&shown, &ACTION, &["events"], minor);
                assert_eq!((&shown["action"], &shown["start_time"]), (&action["action"], &action["start_time"]));
                assert!(FieldType::List.admits(&shown["events"]), "{shown}");
                for event in shown["events"].as_array().unwrap() {
                    has_types(event, &EVENT, &[], minor);
                }
                names.push((action["action"].as_str().unwrap().to_owned(), action["user_id"].is_null()));
            }
        }
    }
    let has = |name: &str, of_nobody: bool| names.contains(&(name.to_owned(), of_nobody));
    assert!(has("confirmResize", true), "no action is without a user: {names:?}");
    assert!(has("create", false) && has("lock", false) && has("resize", false) && has("delete", false), "{names:?}");
    api.stop().await;
}
