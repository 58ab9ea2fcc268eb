//! Rescues of servers on root volumes.

use chronova_tests::compute_api::Api;
use serde_json::json;

use super::super::set_traits;
use super::{act, on_volumes, status};

#[actix_rt::test]
async fn a_rescue_leaves_the_volumes_in_their_places() {
    let api = Api::start().await;
    let server = on_volumes(&api).await;
    let stable = api.image(&[("hw_rescue_bus", "virtio"), ("hw_rescue_device", "disk")]).await;
    let rescue = json!({"rescue": {"rescue_image_ref": stable, "adminPass": "s3cret"}});
    let (code, body, _) = act(&api, &server, "2.87", rescue).await;
    assert_eq!((code, &body["adminPass"]), (200, &json!("s3cret")));
    assert_eq!(status(&api, &server), "RESCUE");
    api.world.check().await;
    assert_eq!(act(&api, &server, "2.87", json!({"unrescue": null})).await.0, 202);
    assert_eq!(status(&api, &server), "ACTIVE");
    api.world.check().await;
    api.stop().await;
}

/// A host reports the trait only if its driver can rescue servers on root volumes.
#[actix_rt::test]
async fn a_host_without_the_trait_rescues_no_server_on_volumes() {
    let api = Api::start().await;
    let server = on_volumes(&api).await;
    let stable = api.image(&[("hw_rescue_bus", "virtio"), ("hw_rescue_device", "disk")]).await;
    let rescue = json!({"rescue": {"rescue_image_ref": stable}});
    let traits = set_traits(&api, &server, vec![]).await;
    let (code, _, message) = act(&api, &server, "2.87", rescue.clone()).await;
    let unable = format!("Instance {server} cannot be rescued: Host unable to rescue a volume-backed instance");
    assert_eq!((code, message), (400, unable));
    assert_eq!(status(&api, &server), "ACTIVE");
    set_traits(&api, &server, traits).await;
    assert_eq!(act(&api, &server, "2.87", rescue).await.0, 200);
    assert_eq!(status(&api, &server), "RESCUE");
    api.world.check().await;
    api.stop().await;
}
