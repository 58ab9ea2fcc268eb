//! Volumes: copies of other projects' volumes, detaching from servers, and private types.

use chronova_tests::compute_api::{ADMIN, Api};
use serde_json::{Value, json};

use super::{OWNER, STRANGER, is, volume, volume_api};

#[actix_rt::test]
async fn a_volume_of_another_project_cannot_be_copied() {
    let api = Api::start().await;
    let id = volume(&api, OWNER).await;
    for force in [false, true] {
        let request = json!({"snapshot": {"volume_id": id, "display_name": "s", "force": force}});
        let stolen = api.call("POST", "/os-snapshots", "2.1", STRANGER, Some(request.clone())).await;
        is(&stolen, 400, &format!("Volume {id} could not be found."));
        let request = json!({"snapshot": {"volume_id": id, "force": force}});
        is(&volume_api(&api, STRANGER, "POST", "/snapshots", request).await, 404, "could not be found");
    }
    api.life.settled().await;
    for token in [OWNER, STRANGER] {
        let all = volume_api(&api, token, "GET", "/snapshots/detail", Value::Null).await;
        assert_eq!(all.body["snapshots"], json!([]), "{token}");
    }
    let request = json!({"snapshot": {"volume_id": id, "display_name": "own"}});
    assert_eq!(api.call("POST", "/os-snapshots", "2.1", OWNER, Some(request)).await.status, 200);
    // A snapshot that an administrator makes of a volume belongs to the volume's owner.
    let request = json!({"snapshot": {"volume_id": id, "display_name": "theirs"}});
    api.life.settled().await;
    let made = api.call("POST", "/os-snapshots", "2.1", ADMIN, Some(request)).await;
    assert_eq!(made.status, 200, "{}", made.body);
    api.life.settled().await;
    let all = volume_api(&api, OWNER, "GET", "/snapshots", Value::Null).await;
    assert_eq!(all.body["snapshots"].as_array().unwrap().len(), 2);
    let none = api.call("GET", "/os-snapshots", "2.1", ADMIN, None).await;
    assert_eq!(none.body["snapshots"], json!([]));
    api.stop().await;
}

/// CVE-2023-2088: a disk that a guest still has would be attached to the next server.
#[actix_rt::test]
async fn an_attached_volume_is_detached_through_its_server_only() {
    let api = Api::start().await;
    let server = api.server(OWNER, Api::wish("web")).await;
    let id = api.life.data_volume(("web", "owner"), Some(&server), 1).await;
    let path = format!("/servers/{server}/os-volume_attachments");
    let request = json!({"volumeAttachment": {"volumeId": id}});
    let made = api.call("POST", &path, "2.89", OWNER, Some(request)).await;
    assert_eq!(made.status, 200, "{}", made.body);
    api.life.settled().await;
    let has = api.call("GET", &path, "2.89", OWNER, None).await;
    let attachment = has.body["volumeAttachments"][0]["attachment_id"].as_str().unwrap().to_owned();
    let one = format!("/attachments/{attachment}");
    let action = format!("/volumes/{id}/action");
    for token in [OWNER, ADMIN] {
        let words = "using the Compute API";
        is(&volume_api(&api, token, "DELETE", &one, Value::Null).await, 409, words);
        is(&volume_api(&api, token, "POST", &action, json!({"os-detach": {}})).await, 409, words);
        is(
            &volume_api(&api, token, "POST", &action, json!({"os-detach": {"attachment_id": attachment}})).await,
            409,
            words,
        );
    }
    is(&volume_api(&api, ADMIN, "POST", &action, json!({"os-force_detach": {}})).await, 409, "using the Compute API");
    let kept = volume_api(&api, OWNER, "GET", &format!("/volumes/{id}"), Value::Null).await;
    assert_eq!(kept.body["volume"]["status"], "in-use");
    assert_eq!(volume_api(&api, OWNER, "DELETE", &format!("/volumes/{id}"), Value::Null).await.status, 400);
    // Services may detach the volume.
    let path = format!("/volume/v3{one}");
    let service = api.ask_as("DELETE", &path, "2.1, volume 3.59", OWNER, Some("member,service"), None).await;
    assert_eq!(service.status, 200, "{}", service.body);
    api.stop().await;
}

#[actix_rt::test]
async fn a_private_volume_type_is_usable_only_by_projects_with_access() {
    let api = Api::start().await;
    let kind = json!({"volume_type": {"name": "secret", "os-volume-type-access:is_public": false}});
    let kind = volume_api(&api, ADMIN, "POST", "/types", kind).await.body["volume_type"]["id"].clone();
    for named in [json!("secret"), kind.clone()] {
        let request = json!({"volume": {"size": 1, "volume_type": named}});
        let refused = api.call("POST", "/os-volumes", "2.1", STRANGER, Some(request)).await;
        is(&refused, 404, "could not be found");
    }
    let none = volume_api(&api, STRANGER, "GET", "/volumes", Value::Null).await;
    assert_eq!(none.body["volumes"], json!([]));
    let grant = json!({"addProjectAccess": {"project": "web"}});
    let path = format!("/types/{}/action", kind.as_str().unwrap());
    assert_eq!(volume_api(&api, ADMIN, "POST", &path, grant).await.status, 202);
    let request = json!({"volume": {"size": 1, "volume_type": "secret"}});
    let made = api.call("POST", "/os-volumes", "2.1", OWNER, Some(request.clone())).await;
    assert_eq!((made.status, &made.body["volume"]["volumeType"]), (200, &json!("secret")), "{}", made.body);
    assert_eq!(api.call("POST", "/os-volumes", "2.1", ADMIN, Some(request)).await.status, 200);
    api.stop().await;
}
