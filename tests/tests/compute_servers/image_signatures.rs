//! Signatures of images in every operation that reads an image: create, rebuild, rescue, unshelve, volumes, and images
//! that are cached before a build. Moves read images by their checksum alone.

use std::sync::Arc;

use chronova_actors::image_signatures::SignatureOptions;
use chronova_events::ids::{ImageId, InstanceId};
use chronova_tests::compute_api::{ADMIN, Answer, Api, IMAGE};
use chronova_tests::memory_certificates::{GoldenSignature, MemoryCertificates, golden_signature};
use chronova_tests::world::World;
use serde_json::{Value, json};

const OWNER: &str = "u:p";
/// The certificates that link the golden leaf to its root.
const CHAIN: [&str; 3] = ["root", "middle-a", "middle-b"];
const MISMATCH: &str = "Signature verification for the image failed: the signature does not match the image's data.";
const UNSIGNED: &str = "Signature verification for the image failed: Required image properties for signature verification do \
                        not exist. Cannot verify signature. Missing property: img_signature_uuid.";

/// A cloud with a key manager and these options.
async fn cloud(hosts: usize, options: SignatureOptions) -> (Api, Arc<MemoryCertificates>) {
    let mut world = World::new(hosts);
    let certificates = Arc::<MemoryCertificates>::default();
    world.certificates = Some(Arc::clone(&certificates));
    let defaults = options.trusted(&[]).to_vec();
    world.options.signatures = options;
    let mut api = Api::start_of(world, "", None).await;
    let config = &mut Arc::get_mut(&mut api.app).unwrap().compute.config;
    (config.unchecked_certificates, config.has_certificates) = (false, true);
    config.default_trusted_certificates = defaults;
    (api, certificates)
}

fn verifying() -> SignatureOptions {
    SignatureOptions { verify: true, ..SignatureOptions::default() }
}

fn wrong(method: &str) -> GoldenSignature {
    GoldenSignature { method: method.to_owned(), ..golden_signature("leaf", "SHA-384") }
}

/// An image with the content that was signed, and with this signature.
async fn image(api: &Api, signature: &GoldenSignature) -> ImageId {
    api.image_of(b"tiny", &signature.properties()).await
}

fn wish(image: ImageId) -> Value {
    let mut wish = Api::wish("signed");
    wish["imageRef"] = json!(image);
    wish
}

async fn ask(api: &Api, server: Value) -> Answer {
    let made = api.call("POST", "/servers", "2.63", OWNER, Some(json!({"server": server}))).await;
    api.life.settled().await;
    made
}

async fn create(api: &Api, server: Value) -> String {
    let made = ask(api, server).await;
    made.body["server"]["id"].as_str().unwrap_or_else(|| panic!("{} {}", made.status, made.body)).to_owned()
}

async fn act(api: &Api, id: &str, body: Value) -> Answer {
    let answer = api.call("POST", &format!("/servers/{id}/action"), "2.87", ADMIN, Some(body)).await;
    api.life.settled().await;
    assert!(matches!(answer.status, 200 | 202 | 204), "{} {}", answer.status, answer.body);
    answer
}

async fn shown(api: &Api, id: &str) -> Value {
    api.get(&format!("/servers/{id}"), "2.63").await["server"].take()
}

/// The server's status, and the message of its fault.
async fn state(api: &Api, id: &str) -> (String, String) {
    let shown = shown(api, id).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&shown["status"]), text(&shown["fault"]["message"]))
}

fn active() -> (String, String) {
    ("ACTIVE".to_owned(), String::new())
}

fn error(message: String) -> (String, String) {
    ("ERROR".to_owned(), message)
}

fn aborted(id: &str, reason: &str) -> (String, String) {
    error(format!("Build of instance {id} aborted: {reason}"))
}

async fn delete(api: &Api, id: &str) {
    assert_eq!(api.call("DELETE", &format!("/servers/{id}"), "2.1", ADMIN, None).await.status, 204);
    api.life.settled().await;
}

#[actix_rt::test]
async fn a_server_is_built_only_from_a_rightly_signed_image() {
    let (api, certificates) = cloud(1, verifying()).await;
    // The first round runs before the host's cache has a verified image, the second one afterwards.
    for round in 0..2 {
        let bad = create(&api, wish(image(&api, &wrong("SHA-256")).await)).await;
        assert_eq!(state(&api, &bad).await, aborted(&bad, MISMATCH), "{round}");
        let unsigned = create(&api, Api::wish("unsigned")).await;
        assert_eq!(state(&api, &unsigned).await, aborted(&unsigned, UNSIGNED), "{round}");
        certificates.silence(true);
        let late = create(&api, wish(image(&api, &golden_signature("leaf", "SHA-256")).await)).await;
        let unread = "Signature verification for the image failed: Unable to retrieve certificate with ID: leaf.";
        assert_eq!(state(&api, &late).await, aborted(&late, unread), "{round}");
        certificates.silence(false);
        assert_eq!(api.world.fleet.whereabouts().len(), round, "a refused server has a guest");
        assert_eq!(api.world.fleet.images(0).len(), round, "a refused image is on the host");
        let method = ["SHA-256", "SHA-512"][round];
        let good = create(&api, wish(image(&api, &golden_signature("leaf", method)).await)).await;
        assert_eq!(state(&api, &good).await, active());
        for id in [bad, unsigned, late] {
            delete(&api, &id).await;
        }
    }
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_rebuild_and_a_rescue_verify_their_images() {
    let (api, _) = cloud(1, verifying()).await;
    let good = image(&api, &golden_signature("leaf", "SHA-256")).await;
    let bad = image(&api, &wrong("SHA-256")).await;
    let id = create(&api, wish(good)).await;
    assert_eq!(state(&api, &id).await, active());
    for rescue in [json!({"rescue_image_ref": bad}), json!({"rescue_image_ref": IMAGE})] {
        act(&api, &id, json!({"rescue": rescue})).await;
        assert_eq!(state(&api, &id).await, active(), "a rescue with a refused image leaves the server as it was");
    }
    let actions = api.get(&format!("/servers/{id}/os-instance-actions"), "2.63").await;
    let rescue = actions["instanceActions"].as_array().unwrap().iter().find(|one| one["action"] == "rescue").unwrap();
    assert_eq!(rescue["message"], "Error");
    act(&api, &id, json!({"rescue": {"rescue_image_ref": good}})).await;
    assert_eq!(state(&api, &id).await.0, "RESCUE");
    act(&api, &id, json!({"unrescue": null})).await;
    act(&api, &id, json!({"rebuild": {"imageRef": bad}})).await;
    assert_eq!(state(&api, &id).await, error(MISMATCH.to_owned()));
    act(&api, &id, json!({"rebuild": {"imageRef": IMAGE}})).await;
    assert_eq!(state(&api, &id).await, error(UNSIGNED.to_owned()));
    // Moves put the recorded image on other hosts without another check.
    let shown = api.get(&format!("/servers/{id}"), "2.63").await["server"]["image"].take();
    assert_eq!(shown["id"], json!(good), "a refused image is recorded");
    act(&api, &id, json!({"rebuild": {"imageRef": good}})).await;
    assert_eq!(state(&api, &id).await, active());
    delete(&api, &id).await;
    api.world.check().await;
    api.stop().await;
}

/// As in Nova, a shelved server's image has no signature, because a snapshot does not inherit the properties.
#[actix_rt::test]
async fn an_unshelve_verifies_the_shelved_image() {
    let (api, _) = cloud(1, verifying()).await;
    let id = create(&api, wish(image(&api, &golden_signature("leaf", "SHA-256")).await)).await;
    act(&api, &id, json!({"shelve": null})).await;
    // On its host, the server has its own disk, which no image replaces.
    act(&api, &id, json!({"unshelve": null})).await;
    assert_eq!(state(&api, &id).await, active());
    act(&api, &id, json!({"shelve": null})).await;
    act(&api, &id, json!({"shelveOffload": null})).await;
    for _ in 0..2 {
        act(&api, &id, json!({"unshelve": null})).await;
        assert_eq!(state(&api, &id).await.0, "SHELVED_OFFLOADED");
        assert_eq!(api.world.fleet.whereabouts().len(), 0);
    }
    let actions = api.get(&format!("/servers/{id}/os-instance-actions"), "2.63").await;
    assert_eq!(actions["instanceActions"][0]["message"], "Error");
    delete(&api, &id).await;
    api.world.check().await;
    api.stop().await;
}

/// The checksum proves that a move puts the same content on the other host. So a move does not need the certificate.
#[actix_rt::test]
async fn moves_need_no_certificate() {
    let (api, certificates) = cloud(2, verifying()).await;
    let id = create(&api, wish(image(&api, &golden_signature("leaf", "SHA-256")).await)).await;
    certificates.silence(true);
    let at = || api.world.fleet.whereabouts()[&id.parse::<InstanceId>().unwrap()].clone();
    let before = at();
    act(&api, &id, json!({"migrate": null})).await;
    act(&api, &id, json!({"confirmResize": null})).await;
    let between = at();
    assert_ne!(between, before);
    act(&api, &id, json!({"os-migrateLive": {"host": null, "block_migration": "auto"}})).await;
    assert_ne!(at(), between);
    assert_eq!(state(&api, &id).await, active());
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn volumes_and_cached_images_are_verified() {
    let (api, _) = cloud(1, verifying()).await;
    let good = image(&api, &golden_signature("leaf", "SHA-256")).await;
    let bad = image(&api, &wrong("SHA-256")).await;
    let volume = async |image: ImageId| {
        let body = json!({"volume": {"size": 1, "imageRef": image}});
        let made = api.ask("POST", "/volume/v3/p/volumes", "2.1", OWNER, Some(body)).await;
        api.life.settled().await;
        let path = format!("/volume/v3/p/volumes/{}", made.body["volume"]["id"].as_str().unwrap());
        api.ask("GET", &path, "2.1", OWNER, None).await.body["volume"]["status"].take()
    };
    assert_eq!(volume(bad).await, "error");
    assert_eq!(volume(IMAGE.parse().unwrap()).await, "error");
    assert_eq!(api.world.fleet.images(0).len(), 0);
    let made = json!({"aggregate": {"name": "a", "availability_zone": null}});
    let made = api.call("POST", "/os-aggregates", "2.1", ADMIN, Some(made)).await;
    let path = format!("/os-aggregates/{}", made.body["aggregate"]["id"]);
    let host = json!({"add_host": {"host": api.world.fleet.hostname(0)}});
    assert_eq!(api.call("POST", &format!("{path}/action"), "2.1", ADMIN, Some(host)).await.status, 200);
    let holds = || api.world.fleet.images(0).len();
    let cache = json!({"cache": [{"id": bad}, {"id": IMAGE}]});
    assert_eq!(api.call("POST", &format!("{path}/images"), "2.81", ADMIN, Some(cache)).await.status, 202);
    let cache = json!({"cache": [{"id": bad}, {"id": good}]});
    assert_eq!(api.call("POST", &format!("{path}/images"), "2.81", ADMIN, Some(cache)).await.status, 202);
    api.life.until(|_| holds() == 1).await;
    assert_eq!(volume(good).await, "available");
    assert_eq!(volume(bad).await, "error", "the image in the cache hides a wrong signature");
    api.stop().await;
}

#[actix_rt::test]
async fn trusted_certificates_force_the_checks_and_default_ones_are_recorded() {
    let (api, _) = cloud(1, SignatureOptions::default()).await;
    let good = image(&api, &golden_signature("leaf", "SHA-256")).await;
    let with = |ids: &[&str], mut body: Value| {
        body["trusted_image_certificates"] = json!(ids);
        body
    };
    let untrusted = "Image signature certificate validation failed for certificate: leaf. Certificate chain building failed. \
                     Could not locate the signing certificate for the base certificate in the set of trusted certificates.";
    let id = create(&api, with(&["root"], wish(good))).await;
    assert_eq!(state(&api, &id).await, aborted(&id, untrusted));
    let unsigned = create(&api, with(&CHAIN, Api::wish("unsigned"))).await;
    assert_eq!(state(&api, &unsigned).await, aborted(&unsigned, UNSIGNED));
    let id = create(&api, with(&CHAIN, wish(good))).await;
    assert_eq!(state(&api, &id).await, active());
    act(&api, &id, json!({"rebuild": with(&["impostor"], json!({"imageRef": good}))})).await;
    assert_eq!(state(&api, &id).await, error(untrusted.to_owned()));
    let volume = json!([{"boot_index": 0, "uuid": good, "source_type": "image", "destination_type": "volume",
        "volume_size": 1}]);
    let mut on_volume = with(&CHAIN, Api::wish("volume"));
    on_volume["block_device_mapping_v2"] = volume;
    on_volume.as_object_mut().unwrap().remove("imageRef");
    let refused = ask(&api, on_volume).await;
    let words = "Image certificate validation is not supported when booting from volume";
    assert_eq!((refused.status, refused.message()), (400, words));
    api.stop().await;

    let defaults = CHAIN.map(str::to_owned).to_vec();
    let both =
        SignatureOptions { verify: true, validate_certificates: true, default_trusted: defaults, unchecked: false };
    let (api, _) = cloud(1, both.clone()).await;
    let good = image(&api, &golden_signature("leaf", "SHA-256")).await;
    let id = create(&api, wish(good)).await;
    assert_eq!(state(&api, &id).await, active());
    assert_eq!(shown(&api, &id).await["trusted_image_certificates"], json!(CHAIN));
    let mut on_volume = Api::wish("volume");
    on_volume["block_device_mapping_v2"] = json!([{"boot_index": 0, "uuid": good, "source_type": "image",
        "destination_type": "volume", "volume_size": 1}]);
    on_volume.as_object_mut().unwrap().remove("imageRef");
    let refused = ask(&api, on_volume).await;
    assert_eq!((refused.status, refused.message()), (400, words), "no volume is verified");
    act(&api, &id, json!({"rebuild": with(&["impostor"], json!({"imageRef": good}))})).await;
    assert_eq!(state(&api, &id).await, error(untrusted.to_owned()));
    act(&api, &id, json!({"rebuild": {"imageRef": good, "trusted_image_certificates": null}})).await;
    assert_eq!(state(&api, &id).await, active());
    assert_eq!(shown(&api, &id).await["trusted_image_certificates"], json!(CHAIN));
    api.stop().await;

    let (api, _) = cloud(1, SignatureOptions { default_trusted: Vec::new(), ..both }).await;
    let good = image(&api, &golden_signature("leaf", "SHA-256")).await;
    let id = create(&api, wish(good)).await;
    let none = "Image signature certificate validation enabled, but no trusted certificate IDs were provided. Unable to \
                validate the certificate used to verify the image signature.";
    assert_eq!(state(&api, &id).await, aborted(&id, none));
    api.stop().await;
}
