//! Volumes that are there already, given to servers with their creation; and those that several servers have.

use chronova_tests::compute_api::{ADMIN, Api, IMAGE, NETWORK};
use chronova_tests::world::World;
use serde_json::{Value, json};

use super::super::{OWNER, attachment, call, volume};

async fn volume_now(api: &Api, id: &str) -> Value {
    api.ask("GET", &format!("/volume/v3/p/volumes/{id}"), "2.1", OWNER, None).await.body["volume"].take()
}

async fn attached(api: &Api, server: &str) -> Vec<Value> {
    let (_, body, _) = call(api, "GET", &format!("/servers/{server}/os-volume_attachments"), "2.85", None).await;
    body["volumeAttachments"].as_array().unwrap().clone()
}

async fn delete(api: &Api, server: &str) {
    assert_eq!(call(api, "DELETE", &format!("/servers/{server}"), "2.1", None).await.0, 204);
    api.life.settled().await;
}

/// Of whatever zone the volume is, where nobody forbids it (`[cinder] cross_az_attach`, Nova's default).
#[actix_rt::test]
async fn a_volume_that_is_there_comes_along_with_a_new_server() {
    let mut world = World::new(2);
    world.options.volume.availability_zone = "elsewhere".to_owned();
    let api = Api::start_of(world, "", None).await;
    let data = volume(&api, None, 1).await;
    let image = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0,
        "device_name": "/dev/vda", "disk_bus": "virtio", "device_type": "disk", "delete_on_termination": true});
    let given = json!({"source_type": "volume", "uuid": data, "destination_type": "volume", "boot_index": -1,
        "device_name": "/dev/vdb", "disk_bus": "virtio", "device_type": "disk", "tag": "data"});
    let blank = json!({"source_type": "blank", "destination_type": "local", "boot_index": -1, "volume_size": 1,
        "guest_format": "swap"});
    let mut wish = Api::wish("web");
    wish["block_device_mapping_v2"] = json!([image, given]);
    let server = api.server(OWNER, wish).await;
    assert_eq!(api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"], "ACTIVE");
    let found = attached(&api, &server).await;
    assert_eq!((found.len(), &found[0]["volumeId"], &found[0]["tag"]), (1, &json!(data), &json!("data")), "{found:?}");
    assert_eq!((&found[0]["device"], &found[0]["delete_on_termination"]), (&json!("/dev/vdb"), &json!(false)));
    let now = volume_now(&api, &data).await;
    assert_eq!((&now["status"], &now["attachments"][0]["server_id"]), (&json!("in-use"), &json!(server)));
    assert_eq!(now["availability_zone"], "elsewhere");
    // A volume that is there has no room for a second one; swap is bounded by the flavor, which has none.
    let mut wish = Api::wish("other");
    wish["block_device_mapping_v2"] = json!([{"source_type": "volume", "uuid": data, "destination_type": "volume",
        "boot_index": 0}]);
    wish.as_object_mut().unwrap().remove("imageRef");
    let (status, _, message) = call(&api, "POST", "/servers", "2.1", Some(json!({"server": wish}))).await;
    assert_eq!(status, 400, "{message}");
    let mut wish = Api::wish("swapped");
    wish["block_device_mapping_v2"] = json!([
        {"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0}, blank]);
    let (status, _, message) = call(&api, "POST", "/servers", "2.1", Some(json!({"server": wish}))).await;
    assert_eq!(status, 400, "{message}");
    delete(&api, &server).await;
    assert_eq!(volume_now(&api, &data).await["status"], "available", "it outlives the server");
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn volumes_are_given_in_the_older_syntax_too() {
    // One host: a volume is on one, and so is a server with two of them.
    let api = Api::start_of(World::new(1), "", None).await;
    let (kept, lost) = (volume(&api, None, 1).await, volume(&api, None, 1).await);
    let wish = json!({"name": "old", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "imageRef": IMAGE,
    "block_device_mapping": [
        {"device_name": "vdb", "volume_id": kept, "delete_on_termination": "0"},
        {"device_name": "vdc", "volume_id": lost, "delete_on_termination": true},
    ]});
    let server = api.server(OWNER, wish).await;
    assert_eq!(api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"], "ACTIVE");
    let found = attached(&api, &server).await;
    let seen: Vec<_> = found.iter().map(|one| (&one["volumeId"], &one["device"])).collect();
    assert_eq!(seen, [(&json!(kept), &json!("/dev/vdb")), (&json!(lost), &json!("/dev/vdc"))]);
    delete(&api, &server).await;
    assert_eq!(volume_now(&api, &kept).await["status"], "available");
    let gone = api.ask("GET", &format!("/volume/v3/p/volumes/{lost}"), "2.1", OWNER, None).await;
    assert_eq!(gone.status, 404);
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn one_volume_serves_several_servers() {
    let api = Api::start_of(World::new(1), "", None).await;
    let volumes = async |token: &str, path: &str, body: Value| {
        api.ask("POST", &format!("/volume/v3/{path}"), "2.1", token, Some(body)).await
    };
    let kind = json!({"volume_type": {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}});
    assert_eq!(volumes(ADMIN, "admin/types", kind).await.status, 200);
    let made = volumes(OWNER, "p/volumes", json!({"volume": {"size": 1, "volume_type": "shared"}})).await;
    assert_eq!(made.status, 202, "{:?}", made.body);
    let shared = made.body["volume"]["id"].as_str().unwrap().to_owned();
    api.life.settled().await;
    let (one, two) = (api.server(OWNER, Api::wish("one")).await, api.server(OWNER, Api::wish("two")).await);
    let take = async |server: &str, version: &str| {
        let path = format!("/servers/{server}/os-volume_attachments");
        let (status, _, message) = call(&api, "POST", &path, version, Some(attachment(&shared))).await;
        api.life.settled().await;
        (status, message)
    };
    let (status, message) = take(&one, "2.59").await;
    assert_eq!(status, 400);
    assert!(message.contains("2.60"), "{message}");
    assert_eq!(take(&one, "2.60").await.0, 200);
    assert_eq!(take(&two, "2.60").await.0, 200);
    let now = volume_now(&api, &shared).await;
    assert_eq!((&now["status"], now["attachments"].as_array().unwrap().len()), (&json!("in-use"), 2));
    for server in [&one, &two] {
        assert_eq!(attached(&api, server).await[0]["volumeId"], json!(shared));
    }
    api.world.check().await;
    // One lets go of it; the other has it until its own end.
    let path = format!("/servers/{one}/os-volume_attachments/{shared}");
    assert_eq!(call(&api, "DELETE", &path, "2.60", None).await.0, 202);
    api.life.settled().await;
    assert_eq!(volume_now(&api, &shared).await["status"], "in-use");
    assert_eq!(attached(&api, &one).await, Vec::<Value>::new());
    delete(&api, &two).await;
    assert_eq!(volume_now(&api, &shared).await["status"], "available");
    api.world.check().await;
    api.stop().await;
}

/// Scratch disks and swap come from the flavor, and a server may divide them otherwise.
#[actix_rt::test]
async fn scratch_disks_and_swap_are_made_and_end_with_the_server() {
    let api = Api::start().await;
    let flavor = json!({"flavor": {"id": "scratch", "name": "scratch", "ram": 512, "vcpus": 1, "disk": 1,
        "OS-FLV-EXT-DATA:ephemeral": 2, "swap": 512}});
    assert_eq!(api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor)).await.status, 200);
    let blank = |more: Value| {
        let mut disk = json!({"source_type": "blank", "destination_type": "local", "boot_index": -1});
        disk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        disk
    };
    let root = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0});
    let one = blank(json!({"volume_size": 1}));
    let swap = blank(json!({"guest_format": "swap", "volume_size": 256}));
    let wishes = [None, Some(json!([root, one, swap]))];
    for devices in wishes {
        let mut wish = Api::wish("scratch");
        wish["flavorRef"] = json!("scratch");
        if let Some(devices) = devices {
            wish["block_device_mapping_v2"] = devices;
        }
        let server = api.server(OWNER, wish).await;
        assert_eq!(api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"], "ACTIVE");
        let path = format!("/placement/allocations/{server}");
        let held = api.ask("GET", &path, "1.39", ADMIN, None).await.body;
        let held = held["allocations"].as_object().unwrap().values().next().unwrap().clone();
        assert_eq!(held["resources"]["DISK_GB"], 4, "1 + 2, and half a GiB that is counted as one");
        delete(&api, &server).await;
        api.world.check().await;
    }
    let mut wish = Api::wish("too much");
    wish["flavorRef"] = json!("scratch");
    wish["block_device_mapping_v2"] = json!([root, one, one, one]);
    assert_eq!(call(&api, "POST", "/servers", "2.1", Some(json!({"server": wish}))).await.0, 400);
    api.stop().await;
}
