//! Key pairs of both kinds: imported, and generated (until 2.91).

use base64::Engine as _;
use chronova_tests::compute_api::{ADMIN, Answer, Api};
use serde_json::{Value, json};

use super::interfaces::{USER, is};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG0bTWZyLQGKlW5yQmNzFq9hJ1mX5x0yQ1V2kT3dYv3x me@home";

async fn make(api: &Api, version: &str, body: Value) -> Answer {
    api.call("POST", "/os-keypairs", version, USER, Some(json!({"keypair": body}))).await
}

#[actix_rt::test]
async fn certificates_are_made_and_imported() {
    let api = Api::start().await;
    is(&make(&api, "2.1", json!({"name": "c", "type": "x509"})).await, 400, "Additional properties are not allowed");
    let made = make(&api, "2.2", json!({"name": "c", "type": "x509"})).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let pair = &made.body["keypair"];
    assert_eq!((&pair["type"], &pair["user_id"]), (&json!("x509"), &json!("alice")));
    let certificate = pair["public_key"].as_str().unwrap();
    assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----\n"), "{certificate}");
    let fingerprint = pair["fingerprint"].as_str().unwrap();
    assert_eq!(fingerprint.split(':').count(), 20, "the fingerprint is not a SHA-1: {fingerprint}");
    let private = base64::engine::general_purpose::STANDARD.decode(pair["private_key"].as_str().unwrap()).unwrap();
    assert_eq!(private[0], 0x30, "the private key is not a PKCS#12 file");

    // An imported key pair keeps its fingerprint.
    let imported = make(&api, "2.2", json!({"name": "d", "type": "x509", "public_key": certificate})).await;
    assert_eq!((imported.status, &imported.body["keypair"]["fingerprint"]), (201, &pair["fingerprint"]));
    assert!(imported.body["keypair"].get("private_key").is_none());
    let shown = api.call("GET", "/os-keypairs/c", "2.2", USER, None).await;
    assert_eq!((&shown.body["keypair"]["type"], shown.body["keypair"].get("private_key")), (&json!("x509"), None));

    let broken = make(&api, "2.2", json!({"name": "e", "type": "x509", "public_key": "ssh-rsa AAAA"})).await;
    is(&broken, 400, "Keypair data is invalid: failed to generate X509 fingerprint. Error message: ");
    let wrong = make(&api, "2.2", json!({"name": "e", "type": "ssh", "public_key": certificate})).await;
    is(&wrong, 400, "Keypair data is invalid");
    is(&make(&api, "2.92", json!({"name": "e", "type": "x509"})).await, 400, "'public_key' is a required property");
    api.stop().await;
}

#[actix_rt::test]
async fn pairs_of_others_names_and_pages() {
    let api = Api::start().await;
    let made = make(&api, "2.1", json!({"name": "one"})).await;
    assert_eq!(made.status, 200, "{:?}", made.body);
    let private = made.body["keypair"]["private_key"].as_str().unwrap();
    assert!(private.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----"));
    let public = made.body["keypair"]["public_key"].clone();
    for (version, name, status) in [
        ("2.91", "a.b", 400),
        ("2.92", "a.b@c", 201),
        ("2.92", "a b_c-d", 201),
        ("2.92", "a/b", 400),
        ("2.92", "one", 409),
    ] {
        let answer = make(&api, version, json!({"name": name, "public_key": public})).await;
        assert_eq!(answer.status, status, "{name} at {version}: {:?}", answer.body);
    }
    // From 2.10 on, callers with the right can create key pairs for another user.
    let body = json!({"keypair": {"name": "theirs", "public_key": public, "user_id": "bob"}});
    let other =
        async |version: &str, who: &str| api.call("POST", "/os-keypairs", version, who, Some(body.clone())).await;
    is(&other("2.9", ADMIN).await, 400, "Additional properties are not allowed");
    is(&other("2.10", USER).await, 403, "os_compute_api:os-keypairs:create");
    assert_eq!(other("2.10", ADMIN).await.status, 201);
    let bobs = api.call("GET", "/os-keypairs?user_id=bob", "2.10", ADMIN, None).await;
    assert_eq!(bobs.body["keypairs"][0]["keypair"]["name"], "theirs");
    is(&api.call("GET", "/os-keypairs?user_id=bob", "2.10", USER, None).await, 403, "os-keypairs:index");

    let page = api.call("GET", "/os-keypairs?limit=1", "2.35", USER, None).await;
    assert_eq!(page.body["keypairs"].as_array().unwrap().len(), 1);
    assert_eq!(page.body["keypairs_links"][0]["rel"], "next");
    let all = api.call("GET", "/os-keypairs?limit=1", "2.34", USER, None).await;
    assert_eq!(all.body["keypairs"].as_array().unwrap().len(), 3, "version 2.34 must ignore the limit of a page");
    api.stop().await;
}

/// Clients compare a key with their own file, so its line end must not be lost.
#[actix_rt::test]
async fn an_imported_key_keeps_every_byte() {
    let api = Api::start().await;
    for (name, end) in [("bare", ""), ("line", "\n"), ("lines", "\n\n"), ("dos", "\r\n"), ("blank", " \n")] {
        let text = format!("{KEY}{end}");
        for version in ["2.1", "2.92"] {
            let name = format!("{name}-{}", version.len());
            let made = make(&api, version, json!({"name": name, "public_key": text})).await;
            assert!(matches!(made.status, 200 | 201), "{name}: {:?}", made.body);
            assert_eq!(made.body["keypair"]["public_key"], json!(text), "created {name}");
            let shown = api.call("GET", &format!("/os-keypairs/{name}"), version, USER, None).await.body;
            assert_eq!(shown["keypair"]["public_key"], json!(text), "shown {name}");
            let listed = api.call("GET", "/os-keypairs", version, USER, None).await.body;
            let pairs = listed["keypairs"].as_array().unwrap();
            let found = pairs.iter().find(|pair| pair["keypair"]["name"] == json!(name)).unwrap();
            assert_eq!(found["keypair"]["public_key"], json!(text), "listed {name}");
        }
    }
    api.stop().await;
}
