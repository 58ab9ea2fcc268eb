//! Volumes that several servers may have.

use chronova_tests::compute_api::{ADMIN, Api};
use chronova_tests::world::World;
use serde_json::{Value, json};

use super::{OWNER, attachment, call, set_traits};

/// A driver that cannot share a volume does not report the trait.
#[actix_rt::test]
async fn a_host_without_the_trait_gets_no_multiattach_volume() {
    let api = Api::start_of(World::new(1), "", None).await;
    let ask = async |token: &str, path: &str, body: Value| {
        api.ask("POST", &format!("/volume/v3/{path}"), "2.1", token, Some(body)).await
    };
    let kind = json!({"volume_type": {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}});
    assert_eq!(ask(ADMIN, "admin/types", kind).await.status, 200);
    let server = api.server(OWNER, Api::wish("web")).await;
    let made = ask(OWNER, "p/volumes", json!({"volume": {"size": 1, "volume_type": "shared"}})).await;
    assert_eq!(made.status, 202, "{:?}", made.body);
    api.life.settled().await;
    let shared = made.body["volume"]["id"].as_str().unwrap().to_owned();
    let path = format!("/servers/{server}/os-volume_attachments");
    let take = async || {
        let (status, _, message) = call(&api, "POST", &path, "2.60", Some(attachment(&shared))).await;
        api.life.settled().await;
        (status, message)
    };
    let traits = set_traits(&api, &server, vec![]).await;
    let words = format!("Volume {shared} has 'multiattach' set, which is not supported for this instance.");
    assert_eq!(take().await, (409, words));
    set_traits(&api, &server, traits).await;
    assert_eq!(take().await.0, 200);
    api.world.check().await;
    api.stop().await;
}
