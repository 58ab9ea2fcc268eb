//! Images from their creation to their deletion, and uploads that must be refused.

use chronova_actors::ports::ImageService;
use chronova_actors::services::embedded::image::{ImageCommand, ImageRoot};
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, ProjectId, UploadId};
use chronova_events::store::memory::MemoryStore;
use serde_json::{Value, json};

use super::world::{Answer, GOLDEN, IMAGE_LIMIT, World, id_of, request};

async fn announce(world: &World, token: &str, body: Value) -> String {
    id_of(&world.call(token, "POST", "/image/v2/images", Some(body)).await.expect(201))
}

async fn upload(world: &World, token: &str, id: &str, bytes: impl Into<Vec<u8>>) -> Answer {
    let request = request(token, "PUT", &format!("/image/v2/images/{id}/file"))
        .insert_header(("Content-Type", "application/octet-stream"))
        .set_payload(bytes.into());
    world.send(request).await
}

async fn show(world: &World, token: &str, id: &str) -> Answer {
    world.call(token, "GET", &format!("/image/v2/images/{id}"), None).await
}

async fn patch(world: &World, token: &str, id: &str, operations: Value) -> Answer {
    let request = request(token, "PATCH", &format!("/image/v2/images/{id}"))
        .set_payload(operations.to_string())
        .insert_header(("Content-Type", "application/openstack-images-v2.1-json-patch"));
    world.send(request).await
}

fn raw(name: &str) -> Value {
    json!({"name": name, "disk_format": "raw", "container_format": "bare"})
}

#[actix_web::test]
async fn an_image_from_its_announcement_to_its_end() {
    let world = World::new().await;
    let (project, _, token) = world.tenant("alice", "member").await;
    let mut body = raw("disk");
    body["hw_disk_bus"] = json!("virtio");
    body["tags"] = json!(["b", "a"]);
    let id = announce(&world, &token, body).await;
    let queued = show(&world, &token, &id).await.expect(200);
    assert_eq!((&queued["status"], &queued["visibility"]), (&json!("queued"), &json!("shared")));
    assert_eq!(
        (&queued["size"], &queued["owner"], &queued["tags"]),
        (&Value::Null, &json!(project), &json!(["a", "b"]))
    );
    upload(&world, &token, &id, "hello world").await.expect(204);
    let active = show(&world, &token, &id).await.expect(200);
    assert_eq!((&active["status"], &active["size"]), (&json!("active"), &json!(11)));
    assert_eq!(active["checksum"], "5eb63bbbe01eeed093cb22bb8f5acdc3");
    assert_eq!(active["hw_disk_bus"], "virtio");
    assert_eq!(upload(&world, &token, &id, "again").await.status, 409);
    let file = format!("/image/v2/images/{id}/file");
    let whole = world.call(&token, "GET", &file, None).await;
    assert_eq!((whole.status, whole.bytes.as_slice()), (200, &b"hello world"[..]));
    assert_eq!(whole.header("Content-MD5"), "5eb63bbbe01eeed093cb22bb8f5acdc3");
    let part = world.send(request(&token, "GET", &file).insert_header(("Range", "bytes=6-8"))).await;
    assert_eq!((part.status, part.bytes.as_slice()), (206, &b"wor"[..]));
    assert_eq!(part.header("Content-Range"), "bytes 6-8/11");
    // The image as processes see it.
    let image: ImageId = id.parse().unwrap();
    let found = world.images.find(image, &ProjectId::new(&project), false).await.unwrap();
    assert_eq!((found.format.as_str(), found.size, found.checksum.len()), ("raw", 11, 128));
    assert!(world.images.find(image, &ProjectId::new("other"), false).await.is_err());
    world.call(&token, "DELETE", &format!("/image/v2/images/{id}"), None).await.expect(204);
    assert_eq!(show(&world, &token, &id).await.status, 404);
    assert!(world.files().is_empty());
    let mut again = raw("again");
    again["id"] = json!(id);
    world.call(&token, "POST", "/image/v2/images", Some(again)).await.expect(409);
}

#[actix_web::test]
async fn there_are_no_definitions_of_metadata() {
    let world = World::new().await;
    let (_, _, token) = world.tenant("alice", "member").await;
    let namespaces = world.call(&token, "GET", "/image/v2/metadefs/namespaces?limit=21", None).await.expect(200);
    assert_eq!((&namespaces["namespaces"], namespaces.get("next")), (&json!([]), None));
    let types = world.call(&token, "GET", "/image/v2/metadefs/resource_types", None).await.expect(200);
    assert_eq!(types, json!({"resource_types": []}));
    assert_eq!(world.call("", "GET", "/image/v2/metadefs/namespaces", None).await.status, 401);
}

#[actix_web::test]
async fn a_refused_upload_keeps_the_image_queued_and_stores_no_file() {
    let world = World::new().await;
    let token = world.admin().await;
    let qcow2 = json!({"name": "q", "disk_format": "qcow2", "container_format": "bare"});
    let id = announce(&world, &token, qcow2).await;
    let junk = upload(&world, &token, &id, "no qcow2 at all").await;
    let reason = String::from_utf8_lossy(&junk.bytes).into_owned();
    assert_eq!(junk.status, 415, "{reason}");
    assert!(reason.contains("Image content does not match disk_format: it is ") && reason.contains(", not qcow2."));
    let mut backed = vec![0_u8; 1 << 18];
    backed[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
    backed[15] = 0x80;
    let refused = upload(&world, &token, &id, backed).await;
    assert_eq!(refused.status, 415);
    assert!(String::from_utf8_lossy(&refused.bytes).contains("backing file"));
    let large = announce(&world, &token, raw("large")).await;
    let too_much = vec![0_u8; usize::try_from(IMAGE_LIMIT).unwrap() + 1];
    assert_eq!(upload(&world, &token, &large, too_much).await.status, 413);
    let sized = request(&token, "PUT", &format!("/image/v2/images/{large}/file"))
        .insert_header(("Content-Type", "application/octet-stream"))
        .insert_header(("x-openstack-image-size", "4"))
        .set_payload("12345");
    assert_eq!(world.send(sized).await.status, 400);
    let wrong = request(&token, "PUT", &format!("/image/v2/images/{large}/file")).set_payload("x");
    assert_eq!(world.send(wrong).await.status, 415);
    for id in [&id, &large] {
        assert_eq!(show(&world, &token, id).await.expect(200)["status"], "queued");
    }
    assert!(world.files().is_empty());
    let formless = announce(&world, &token, json!({"name": "n"})).await;
    assert_eq!(upload(&world, &token, &formless, "x").await.status, 400);
    upload(&world, &token, &large, "small").await.expect(204);
}

/// The golden signature of the four bytes `tiny` by the certificate `leaf` with this hash method.
fn golden_signature(method: &str) -> &'static str {
    let all = GOLDEN["signatures"].as_array().unwrap();
    let one = all.iter().find(|one| one["certificate"] == "leaf" && one["method"] == method).unwrap();
    one["signature"].as_str().unwrap()
}

fn signed(method: &str, signature: &str, certificate: &str) -> Value {
    let mut image = raw("signed");
    image["img_signature"] = json!(signature);
    image["img_signature_hash_method"] = json!(method);
    image["img_signature_key_type"] = json!("RSA-PSS");
    image["img_signature_certificate_uuid"] = json!(certificate);
    image
}

/// As in Glance: if the properties of an image describe a signature, the uploaded data must match it. Otherwise the
/// upload is refused and the image is deleted.
#[actix_web::test]
async fn an_upload_with_a_wrong_signature_is_refused_and_its_image_deleted() {
    let world = World::with_certificates().await;
    let (_, _, token) = world.tenant("alice", "member").await;
    let right = signed("SHA-256", golden_signature("SHA-256"), "leaf");
    let id = announce(&world, &token, right.clone()).await;
    upload(&world, &token, &id, "tiny").await.expect(204);
    assert_eq!(show(&world, &token, &id).await.expect(200)["status"], "active");

    let mismatch = "the signature does not match the image's data";
    for (body, content, reason) in [
        (right.clone(), "tony", mismatch),
        (signed("SHA-256", golden_signature("SHA-384"), "leaf"), "tiny", mismatch),
        (signed("SHA-256", golden_signature("SHA-256"), "nobody"), "tiny", "Certificate not found with ID: nobody"),
        (signed("MD5", golden_signature("SHA-256"), "leaf"), "tiny", "Invalid signature hash method: MD5"),
    ] {
        let id = announce(&world, &token, body).await;
        let refused = upload(&world, &token, &id, content).await;
        let told = String::from_utf8_lossy(&refused.bytes).into_owned();
        assert_eq!(refused.status, 400, "{told}");
        assert!(told.contains(reason), "{told}");
        assert_eq!(show(&world, &token, &id).await.status, 404, "{reason}: the image is still there");
    }
    assert_eq!(world.files().len(), 1, "a refused image has a file");

    // A second upload is refused before its signature is read, so it deletes no image.
    let wrong = json!([{"op": "replace", "path": "/img_signature_certificate_uuid", "value": "nobody"}]);
    assert_eq!(patch(&world, &token, &id, wrong).await.status, 200);
    assert_eq!(upload(&world, &token, &id, "tiny").await.status, 409);
    assert_eq!(show(&world, &token, &id).await.expect(200)["status"], "active");

    // Without one of the properties, an image describes no signature.
    let mut part = signed("SHA-256", golden_signature("SHA-384"), "leaf");
    part.as_object_mut().unwrap().remove("img_signature_key_type");
    let id = announce(&world, &token, part).await;
    upload(&world, &token, &id, "tiny").await.expect(204);

    // A cloud without a key manager verifies nothing.
    let world = World::new().await;
    let token = world.admin().await;
    let id = announce(&world, &token, signed("SHA-256", golden_signature("SHA-384"), "leaf")).await;
    upload(&world, &token, &id, "tiny").await.expect(204);
}

#[actix_web::test]
async fn visibility_and_role_decide_who_sees_and_changes_an_image() {
    let world = World::new().await;
    let admin = world.admin().await;
    let (_, _, alice) = world.tenant("alice", "member").await;
    let (bobs, _, bob) = world.tenant("bob", "member").await;
    let (_, _, reader) = world.tenant("rita", "reader").await;
    let id = announce(&world, &alice, raw("mine")).await;
    let seen_by_bob = || world.call(&bob, "GET", "/image/v2/images", None);
    assert_eq!(show(&world, &bob, &id).await.status, 404);
    world.call(&reader, "POST", "/image/v2/images", Some(raw("no"))).await.expect(403);
    // The image is shared with Bob. Bob can show the image by its id. After Bob accepts the offer, his list has the
    // image, too.
    let members = format!("/image/v2/images/{id}/members");
    world.call(&bob, "POST", &members, Some(json!({"member": "x"}))).await.expect(404);
    world.call(&alice, "POST", &members, Some(json!({"member": bobs}))).await.expect(200);
    show(&world, &bob, &id).await.expect(200);
    assert_eq!(seen_by_bob().await.expect(200)["images"], json!([]));
    let answer = format!("{members}/{bobs}");
    world.call(&alice, "PUT", &answer, Some(json!({"status": "accepted"}))).await.expect(403);
    world.call(&bob, "PUT", &answer, Some(json!({"status": "perhaps"}))).await.expect(400);
    world.call(&bob, "PUT", &answer, Some(json!({"status": "accepted"}))).await.expect(200);
    assert_eq!(seen_by_bob().await.expect(200)["images"].as_array().unwrap().len(), 1);
    let rename = json!([{"op": "replace", "path": "/name", "value": "bobs"}]);
    patch(&world, &bob, &id, rename.clone()).await.expect(403);
    world.call(&bob, "DELETE", &format!("/image/v2/images/{id}"), None).await.expect(403);
    // Only an administrator may make the image public.
    let publish = json!([{"op": "replace", "path": "/visibility", "value": "public"}]);
    patch(&world, &alice, &id, publish.clone()).await.expect(403);
    patch(&world, &admin, &id, publish).await.expect(200);
    assert_eq!(world.call(&reader, "GET", "/image/v2/images", None).await.expect(200)["images"][0]["name"], "mine");
    patch(&world, &alice, &id, rename).await.expect(200);
    let owner = json!([{"op": "replace", "path": "/owner", "value": bobs}]);
    patch(&world, &alice, &id, owner).await.expect(403);
}

#[actix_web::test]
async fn patches_are_all_or_nothing() {
    let world = World::new().await;
    let token = world.admin().await;
    let id = announce(&world, &token, raw("p")).await;
    let good = json!([
        {"op": "add", "path": "/os_type", "value": "linux"},
        {"op": "replace", "path": "/min_ram", "value": 64},
        {"op": "add", "path": "/a~1b", "value": "slash"},
        {"op": "replace", "path": "/protected", "value": true},
    ]);
    let shown = patch(&world, &token, &id, good).await.expect(200);
    assert_eq!((&shown["os_type"], &shown["min_ram"], &shown["a/b"]), (&json!("linux"), &json!(64), &json!("slash")));
    world.call(&token, "DELETE", &format!("/image/v2/images/{id}"), None).await.expect(403);
    for (operation, status) in [
        (json!({"op": "replace", "path": "/nothing", "value": "x"}), 409),
        (json!({"op": "remove", "path": "/nothing"}), 409),
        (json!({"op": "remove", "path": "/name"}), 403),
        (json!({"op": "replace", "path": "/status", "value": "active"}), 403),
        (json!({"op": "replace", "path": "/id", "value": "x"}), 403),
        (json!({"op": "replace", "path": "/min_ram", "value": "many"}), 400),
        (json!({"op": "replace", "path": "/visibility", "value": "secret"}), 400),
        (json!({"op": "copy", "path": "/name"}), 400),
        (json!("nonsense"), 400),
    ] {
        let mixed = json!([{"op": "replace", "path": "/name", "value": "changed"}, operation]);
        assert_eq!(patch(&world, &token, &id, mixed).await.status, status, "{operation}");
        assert_eq!(show(&world, &token, &id).await.expect(200)["name"], "p");
    }
    let plain = request(&token, "PATCH", &format!("/image/v2/images/{id}")).set_json(json!([{"op": "x"}]));
    assert_eq!(world.send(plain).await.status, 415);
    let tag = format!("/image/v2/images/{id}/tags/green");
    world.call(&token, "PUT", &tag, None).await.expect(204);
    assert_eq!(show(&world, &token, &id).await.expect(200)["tags"], json!(["green"]));
    world.call(&token, "DELETE", &tag, None).await.expect(204);
    world.call(&token, "DELETE", &tag, None).await.expect(404);
}

#[actix_web::test]
async fn lists_filter_sort_and_page() {
    let world = World::new().await;
    let token = world.admin().await;
    for name in ["c", "a", "b"] {
        let mut body = raw(name);
        body["flavour"] = json!(if name == "b" { "sweet" } else { "sour" });
        announce(&world, &token, body).await;
    }
    let list = |query: &str| {
        let path = format!("/image/v2/images{query}");
        let (world, token) = (&world, &token);
        async move { world.call(token, "GET", &path, None).await }
    };
    let names = |body: &Value| -> String {
        body["images"].as_array().unwrap().iter().map(|image| image["name"].as_str().unwrap()).collect()
    };
    assert_eq!(names(&list("").await.expect(200)), "bac", "newest first");
    assert_eq!(names(&list("?sort=name:asc").await.expect(200)), "abc");
    assert_eq!(names(&list("?flavour=sour&sort=name:asc").await.expect(200)), "ac");
    assert_eq!(names(&list("?name=in:a,b&sort_key=name&sort_dir=desc").await.expect(200)), "ba");
    assert_eq!(names(&list("?status=active").await.expect(200)), "");
    let first = list("?limit=2&sort=name:asc").await.expect(200);
    assert_eq!(names(&first), "ab");
    let next = first["next"].as_str().unwrap().strip_prefix("/v2/images").unwrap().to_owned();
    let second = list(&next).await.expect(200);
    assert_eq!((names(&second), second.get("next")), ("c".to_owned(), None));
    for bad in ["?sort=colour", "?visibility=x", "?size_min=many", "?marker=nowhere", "?limit=-1", "?member_status=x"] {
        assert_eq!(list(bad).await.status, 400, "{bad}");
    }
}

#[actix_web::test]
async fn an_upload_cut_off_by_a_crash_is_given_up_at_the_next_start() {
    let store = MemoryStore::new();
    let world = World::on(store.clone(), tempfile::tempdir().unwrap()).await;
    let token = world.admin().await;
    let (cut, kept) = (announce(&world, &token, raw("cut")).await, announce(&world, &token, raw("kept")).await);
    upload(&world, &token, &kept, "bytes").await.expect(204);
    let context = &world.leader.contexts.steps;
    let start = ImageCommand::StartUpload(UploadId::random());
    context.gateway.send::<ImageRoot>(&cut.parse().unwrap(), start, Meta::system("test")).await.unwrap();
    std::fs::write(world.folder.path().join("images/.half.part"), "half").unwrap();
    std::fs::write(world.folder.path().join("images").join(&cut), "whole, but nobody was told").unwrap();
    let world = World::on(store, world.end().await).await;
    let token = world.admin().await;
    assert_eq!(world.files(), std::slice::from_ref(&kept));
    upload(&world, &token, &cut, "at last").await.expect(204);
    for id in [cut, kept] {
        assert_eq!(show(&world, &token, &id).await.expect(200)["status"], "active");
    }
}
