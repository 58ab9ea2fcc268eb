//! Volumes of servers through the Compute API: attach, show, update, swap, detach. Servers on volumes, valid and
//! refused block device mappings, and the old proxy APIs of the volume service.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use chronova_actors::ledger::{CELL, LedgerCommand, LedgerRoot};
use chronova_actors::process::context::StepContext;
use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, ProviderId};
use chronova_events::instance::{BlockDevice, BlockSource};
use chronova_tests::compute_api::{ADMIN, Api, IMAGE, NETWORK};
use chronova_tests::world::World;
use serde_json::{Value, json};

mod at_creation;
mod on_volumes;
mod quiesced;
mod shared;

const OWNER: &str = "u:p";

/// Creates a volume of the owner's project, on the host of a server or on any host.
async fn volume(api: &Api, beside: Option<&str>, size_gb: u32) -> String {
    api.life.data_volume(("p", "u"), beside, size_gb).await.to_string()
}

async fn call(api: &Api, method: &str, path: &str, version: &str, body: Option<Value>) -> (u16, Value, String) {
    let answer = api.call(method, path, version, OWNER, body).await;
    let message = answer.message().to_owned();
    (answer.status, answer.body, message)
}

/// Replaces the traits of the server's host, and returns the old ones.
async fn set_traits(api: &Api, server: &str, traits: Vec<String>) -> Vec<String> {
    let host = api.life.host_of(&api.world, server.parse().unwrap()).unwrap();
    let provider = ProviderId(api.world.fleet.uri().host_id(host).0);
    let seen = |context: &StepContext| {
        let all = context.views.placement.read(|view| view.ledger.providers[&provider].traits.clone());
        all.into_iter().collect::<Vec<String>>()
    };
    let before = seen(api.life.context());
    let command = LedgerCommand::SetTraits { provider, generation: None, traits: traits.clone() };
    api.life.context().gateway.send::<LedgerRoot>(&CELL, command, Meta::system("test")).await.unwrap();
    assert!(api.life.until(|context| seen(context) == traits).await);
    before
}

fn attachment(volume: &str) -> Value {
    json!({"volumeAttachment": {"volumeId": volume}})
}

#[actix_rt::test]
async fn a_volumes_way_through_a_server() {
    let api = Api::start().await;
    let server = api.server(OWNER, Api::wish("web")).await;
    let all = format!("/servers/{server}/os-volume_attachments");
    let one = volume(&api, Some(&server), 1).await;
    for (version, field, value) in [("2.48", "tag", json!("db")), ("2.78", "delete_on_termination", json!(true))] {
        let mut early = attachment(&one);
        early["volumeAttachment"][field] = value;
        let (status, _, message) = call(&api, "POST", &all, version, Some(early)).await;
        assert!(status == 400 && message.contains("was unexpected)"), "{field} at {version}: {status} {message}");
    }
    let request = json!({"volumeAttachment": {"volumeId": one, "device": "/dev/vdz", "tag": "db", "delete_on_termination": true}});
    let (status, body, _) = call(&api, "POST", &all, "2.79", Some(request)).await;
    let expected = json!({"id": one, "serverId": server, "volumeId": one, "device": "/dev/vdb", "tag": "db",
        "delete_on_termination": true});
    assert_eq!((status, &body["volumeAttachment"]), (200, &expected), "not the next free name");
    api.life.settled().await;

    // The fields of each version.
    let keys = async |version: &str| -> Vec<String> {
        let (_, body, _) = call(&api, "GET", &format!("{all}/{one}"), version, None).await;
        body["volumeAttachment"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys("2.1").await, ["id", "volumeId", "serverId", "device"]);
    assert_eq!(keys("2.69").await, keys("2.1").await);
    assert_eq!(keys("2.70").await, ["id", "volumeId", "serverId", "device", "tag"]);
    assert_eq!(keys("2.79").await, ["id", "volumeId", "serverId", "device", "tag", "delete_on_termination"]);
    let last = ["volumeId", "serverId", "device", "tag", "delete_on_termination", "attachment_id", "bdm_uuid"];
    assert_eq!(keys("2.89").await, last);
    let (_, listed, _) = call(&api, "GET", &all, "2.89", None).await;
    assert_eq!(listed["volumeAttachments"][0].as_object().unwrap().keys().collect::<Vec<_>>(), last);
    assert_eq!(call(&api, "GET", &all, "2.79", None).await.1["volumeAttachments"], json!([expected]));
    let shown = api.get(&format!("/servers/{server}"), "2.3").await["server"].take();
    let attached = json!([{"id": one, "delete_on_termination": true}]);
    assert_eq!(shown["os-extended-volumes:volumes_attached"], attached);
    let shown = api.get(&format!("/servers/{server}"), "2.1").await["server"].take();
    assert_eq!(shown["os-extended-volumes:volumes_attached"], json!([{"id": one}]));

    // Repeated attachments, and unknown volumes.
    let (status, _, message) = call(&api, "POST", &all, "2.60", Some(attachment(&one))).await;
    let words = format!("Invalid volume: volume {one} is already attached to instances: {server}");
    assert_eq!((status, message), (400, words));
    let (status, _, message) = call(&api, "POST", &all, "2.60", Some(attachment(IMAGE))).await;
    assert_eq!((status, message), (404, format!("Volume {IMAGE} could not be found.")));
    let (status, _, message) = call(&api, "GET", &format!("{all}/{IMAGE}"), "2.1", None).await;
    assert_eq!((status, message), (404, format!("Instance {server} is not attached to volume {IMAGE}")));

    // Changes of an attachment. Only callers with the right may swap its volume.
    let change = |request: Value| {
        let mut body = json!({"volumeAttachment": {"volumeId": one}});
        body["volumeAttachment"].as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
        Some(body)
    };
    let path = format!("{all}/{one}");
    let kept = || change(json!({"delete_on_termination": false}));
    let refused = api.call("PUT", &path, "2.84", ADMIN, kept()).await;
    assert!(refused.status == 400 && refused.message().contains("was unexpected)"), "{}", refused.body);
    assert_eq!(call(&api, "PUT", &path, "2.85", kept()).await.0, 202);
    api.life.settled().await;
    let (_, body, _) = call(&api, "GET", &path, "2.85", None).await;
    assert_eq!(body["volumeAttachment"]["delete_on_termination"], false, "{body}");
    let (status, _, message) = call(&api, "PUT", &path, "2.85", change(json!({"tag": "other"}))).await;
    assert_eq!((status, message.as_str()), (400, "The tag property is not mutable"));
    let two = volume(&api, Some(&server), 2).await;
    assert_eq!(call(&api, "PUT", &path, "2.1", Some(attachment(&two))).await.0, 403);
    let small = api.call("PUT", &path, "2.1", ADMIN, Some(attachment(IMAGE))).await;
    assert_eq!(small.status, 400, "an unknown volume in the body does not get 400");
    let swapped = api.call("PUT", &path, "2.1", ADMIN, Some(attachment(&two))).await;
    assert_eq!(swapped.status, 202, "{:?}", swapped.body);
    api.life.settled().await;
    let (_, body, _) = call(&api, "GET", &all, "2.1", None).await;
    assert_eq!(body["volumeAttachments"][0]["volumeId"], *two);
    assert_eq!(body["volumeAttachments"][0]["device"], "/dev/vdb");

    // Detachments; from 2.101 on attachments are asynchronous.
    assert_eq!(call(&api, "DELETE", &format!("{all}/{two}"), "2.1", None).await.0, 202);
    api.life.settled().await;
    let (status, body, _) = call(&api, "POST", &all, "2.101", Some(attachment(&one))).await;
    assert_eq!((status, body), (202, Value::Null));
    api.life.settled().await;
    let log = api.get(&format!("/servers/{server}/os-instance-actions"), "2.58").await;
    let actions = log["instanceActions"].as_array().unwrap();
    let names: Vec<&str> = actions.iter().map(|action| action["action"].as_str().unwrap()).collect();
    assert_eq!(names, ["attach_volume", "detach_volume", "swap_volume", "attach_volume", "create"]);
    assert!(actions.iter().all(|action| action["message"].is_null()), "{actions:?}");

    // The requested name is that of another disk: the volume gets the next free one.
    let request = json!({"volumeAttachment": {"volumeId": two, "device": "/dev/vdb"}});
    let (status, body, _) = call(&api, "POST", &all, "2.60", Some(request)).await;
    assert_eq!((status, &body["volumeAttachment"]["device"]), (200, &json!("/dev/vdc")), "{body}");
    api.life.settled().await;
    api.world.check().await;
    api.stop().await;
}

/// The volume is in use, or available again, shortly before the server has the record.
#[actix_rt::test]
async fn a_volume_is_detached_and_attached_as_soon_as_its_status_allows() {
    let api = Api::start().await;
    let server = api.server(OWNER, Api::wish("web")).await;
    let all = format!("/servers/{server}/os-volume_attachments");
    let one = volume(&api, Some(&server), 1).await;
    let views = &api.life.context().views;
    let until = async |status: &str| {
        while chronova_tests::volumes::word(views, one.parse().unwrap()) != status {
            tokio::task::yield_now().await;
        }
    };
    for round in 0..20 {
        let (status, _, message) = call(&api, "POST", &all, "2.1", Some(attachment(&one))).await;
        assert_eq!(status, 200, "{round}: {message}");
        until("in-use").await;
        let (status, _, message) = call(&api, "DELETE", &format!("{all}/{one}"), "2.1", None).await;
        assert_eq!(status, 202, "{round}: {message}");
        until("available").await;
    }
    api.life.settled().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_server_on_volumes() {
    let api = Api::start().await;
    let disk = |kind: &str, more: Value| {
        let mut disk = json!({"source_type": kind, "destination_type": "volume"});
        disk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        disk
    };
    let image = api.image(&[]).await;
    let root = disk("image", json!({"uuid": image, "volume_size": 3, "boot_index": 0, "delete_on_termination": true}));
    let kind = json!({"volume_type": {"name": "fast"}});
    assert_eq!(api.ask("POST", "/volume/v3/admin/types", "2.1", ADMIN, Some(kind)).await.status, 200);
    let data = disk("blank", json!({"volume_size": 2, "boot_index": -1, "tag": "data", "volume_type": "fast"}));
    let request = json!({"name": "on-volumes", "flavorRef": "1", "networks": [{"uuid": NETWORK}],
        "block_device_mapping_v2": [root, data]});
    let server = api.server(OWNER, request).await;
    let shown = api.get(&format!("/servers/{server}"), "2.100").await["server"].take();
    assert_eq!((&shown["status"], &shown["image"]), (&json!("ACTIVE"), &json!("")), "{shown}");
    assert_eq!(shown["OS-EXT-SRV-ATTR:root_device_name"], "/dev/vda");
    let volumes = shown["os-extended-volumes:volumes_attached"].as_array().unwrap().clone();
    let kept: Vec<&Value> = volumes.iter().map(|volume| &volume["delete_on_termination"]).collect();
    assert_eq!(kept, [&json!(true), &json!(false)]);
    let claims = api.world.views().await.placement.read(|view| {
        view.ledger.consumers.values().filter(|consumer| format!("{consumer:?}").contains("DISK_GB")).count()
    });
    assert_eq!(claims, 0, "a root disk on a volume claims DISK_GB");
    let all = format!("/servers/{server}/os-volume_attachments");
    let root = volumes[0]["id"].as_str().unwrap();
    // The root volume is made from the image, with the requested size.
    let made = api.ask("GET", &format!("/volume/v3/p/volumes/{root}"), "2.1", OWNER, None).await.body["volume"].take();
    assert_eq!((&made["size"], &made["bootable"], &made["status"]), (&json!(3), &json!("true"), &json!("in-use")));
    assert_eq!(made["attachments"][0]["server_id"], json!(server));
    assert_eq!(made["volume_image_metadata"]["image_id"], json!(image));
    let (status, _, message) = call(&api, "DELETE", &format!("{all}/{root}"), "2.1", None).await;
    assert_eq!((status, message.as_str()), (400, "Cannot detach a root device volume"));
    api.world.check().await;

    assert_eq!(call(&api, "DELETE", &format!("/servers/{server}"), "2.1", None).await.0, 204);
    api.life.settled().await;
    let (_, left, _) = call(&api, "GET", "/os-volumes", "2.35", None).await;
    let left: Vec<(&Value, &Value)> =
        left["volumes"].as_array().unwrap().iter().map(|volume| (&volume["id"], &volume["status"])).collect();
    assert_eq!(left, [(&volumes[1]["id"], &json!("available"))], "the volume to keep is not the only one left");
    let path = format!("/volume/v3/p/volumes/{}", volumes[1]["id"].as_str().unwrap());
    let kept = api.ask("GET", &path, "2.1", OWNER, None).await.body["volume"].take();
    assert_eq!((&kept["volume_type"], &kept["size"]), (&json!("fast"), &json!(2)));
    api.world.check().await;
    api.stop().await;
}

/// One device of each kind is the same in the request, in the log, in the guest and in the answers of the API.
#[actix_rt::test]
async fn every_kind_of_device_is_the_same_in_request_log_and_guest() {
    let api = Api::start_of(World::new(1), "", None).await;
    let flavor = json!({"flavor": {"id": "scratch", "name": "scratch", "ram": 512, "vcpus": 1, "disk": 1,
        "OS-FLV-EXT-DATA:ephemeral": 3, "swap": 256}});
    assert_eq!(api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor)).await.status, 200);
    let (data, other) = (volume(&api, None, 1).await, volume(&api, None, 1).await);
    let snapshot = json!({"snapshot": {"volume_id": other, "name": "moment"}});
    let made = api.ask("POST", "/volume/v3/p/snapshots", "2.1", OWNER, Some(snapshot)).await;
    assert_eq!(made.status, 202, "{:?}", made.body);
    api.life.settled().await;
    let (snapshot, image) = (made.body["snapshot"]["id"].clone(), json!(api.image(&[]).await));
    // Source, its id, place, boot index, size, format, whether it is deleted with the server, tag.
    let kinds = [
        json!(["image", IMAGE, "local", 0, null, null, true, null]),
        json!(["blank", null, "local", null, 3, "ext4", true, null]),
        json!(["blank", null, "local", null, 256, "swap", true, null]),
        json!(["volume", data, "volume", null, null, null, false, "kept"]),
        json!(["snapshot", snapshot, "volume", null, 2, null, true, null]),
        json!(["image", image, "volume", null, 1, null, true, null]),
        json!(["blank", null, "volume", null, 2, null, false, "empty"]),
    ];
    let keys = [
        "source_type",
        "uuid",
        "destination_type",
        "boot_index",
        "volume_size",
        "guest_format",
        "delete_on_termination",
        "tag",
    ];
    let mapping = |kind: &Value| {
        let values = kind.as_array().unwrap().iter().cloned();
        let given = keys.into_iter().map(str::to_owned).zip(values);
        let mut mapping: serde_json::Map<String, Value> = given.filter(|(_, value)| !value.is_null()).collect();
        mapping.entry("boot_index").or_insert(json!(-1));
        Value::Object(mapping)
    };
    let mut request = Api::wish("all");
    request["flavorRef"] = json!("scratch");
    request["block_device_mapping_v2"] = kinds.iter().map(mapping).collect();
    let server = api.server(OWNER, request).await;
    assert_eq!(api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"], "ACTIVE");

    let id: InstanceId = server.parse().unwrap();
    let devices: Vec<BlockDevice> =
        api.life.instance_now(id).alive().unwrap().disks.iter().map(|disk| disk.device.clone()).collect();
    let recorded = |device: &BlockDevice| {
        let (source, uuid) = match &device.source {
            BlockSource::Blank => ("blank", None),
            BlockSource::Image(id) => ("image", Some(id.to_string())),
            BlockSource::Snapshot(id) => ("snapshot", Some(id.to_string())),
            BlockSource::Volume(id) => ("volume", Some(id.to_string())),
        };
        let place = if device.is_volume() { "volume" } else { "local" };
        // The size of an existing volume, and that of the flavor's root disk, are not in the request.
        let size = device.size.filter(|_| source != "volume" && !device.is_root());
        json!([
            source,
            uuid,
            place,
            device.boot_index,
            size,
            device.guest_format,
            device.delete_on_termination,
            device.tag
        ])
    };
    let sorted = |all: Vec<Value>| {
        let mut texts: Vec<String> = all.iter().map(Value::to_string).collect();
        texts.sort();
        texts
    };
    assert_eq!(sorted(devices.iter().map(recorded).collect()), sorted(kinds.to_vec()), "the record differs");
    // The log alone gives the same devices.
    let folded =
        api.world.views().await.servers.read(|servers| servers.get(id).unwrap().server().unwrap().disks.clone());
    assert_eq!(folded, api.life.instance_now(id).alive().unwrap().disks);

    let guest = api.world.brakes.guest(id).unwrap();
    assert_eq!((guest.root.unwrap().size_gib, guest.ephemerals_gib, guest.swap_mib), (1, vec![3], 256));
    let volumes: Vec<&BlockDevice> = devices.iter().filter(|device| device.is_volume()).collect();
    let mut serials: Vec<String> = guest.volumes.iter().map(|disk| disk.serial.clone()).collect();
    let mut known: Vec<String> = volumes.iter().map(|device| device.volume.unwrap().to_string()).collect();
    serials.sort();
    known.sort();
    assert_eq!((serials.len(), &serials), (4, &known), "the guest has other volumes than the record");
    let (_, body, _) = call(&api, "GET", &format!("/servers/{server}/os-volume_attachments"), "2.89", None).await;
    let shown = body["volumeAttachments"].as_array().unwrap();
    assert_eq!(shown.len(), 4);
    for device in volumes {
        let volume = device.volume.unwrap().to_string();
        let row = shown.iter().find(|row| row["volumeId"] == *volume).unwrap();
        assert_eq!(
            (&row["tag"], &row["delete_on_termination"]),
            (&json!(device.tag), &json!(device.delete_on_termination))
        );
        let disk = guest.volumes.iter().find(|disk| disk.serial == volume).unwrap();
        assert_eq!(row["device"], json!(format!("/dev/{}", disk.device)));
    }
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn mappings_that_are_refused() {
    let api = Api::start().await;
    let bdm = |devices: Value| json!({"block_device_mapping_v2": devices});
    let local = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0});
    let blank = |more: Value| {
        let mut disk = json!({"source_type": "blank", "destination_type": "local", "boot_index": -1});
        disk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        disk
    };
    let to_volume = |more: Value| {
        let mut disk = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "volume", "boot_index": 0});
        disk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        disk
    };
    let sized = json!({"volume_size": 1});
    // Version, with or without an image, the mapping, the message.
    let cases: Vec<(&str, bool, Value, &str)> = vec![
        ("2.1", false, bdm(json!([local])), "Mapping image to local is not supported."),
        ("2.1", true, bdm(json!([blank(json!({}))])), "Boot sequence for the instance and image/block device mapping"),
        ("2.1", true, bdm(json!([local, to_volume(sized.clone())])), "Boot sequence for the instance"),
        ("2.1", false, bdm(json!([to_volume(json!({"volume_size": 1, "boot_index": 1}))])), "Boot sequence"),
        // The boot indexes have a gap.
        ("2.1", true, bdm(json!([local, to_volume(json!({"volume_size": 1, "boot_index": 2}))])), "Boot sequence"),
        ("2.1", false, bdm(json!([to_volume(json!({}))])), "need to have a non-zero size specified"),
        (
            "2.1",
            false,
            bdm(json!([{"source_type": "volume", "destination_type": "volume", "boot_index": 0}])),
            "Missing device UUID.",
        ),
        ("2.1", true, bdm(json!([local, blank(json!({"uuid": IMAGE}))])), "Invalid device UUID."),
        (
            "2.1",
            true,
            bdm(json!([local, blank(json!({"destination_type": "volume"}))])),
            "Blank volumes (source: 'blank', dest: 'volume') need to have non-zero size",
        ),
        (
            "2.67",
            true,
            bdm(json!([local, blank(json!({"volume_type": "fast"}))])),
            "Specifying a volume_type with destination_type=local is not supported.",
        ),
        (
            "2.66",
            false,
            bdm(json!([to_volume(json!({"volume_size": 1, "volume_type": "fast"}))])),
            "('volume_type' was unexpected)",
        ),
        ("2.41", false, bdm(json!([to_volume(json!({"volume_size": 1, "tag": "t"}))])), "('tag' was unexpected)"),
        (
            "2.1",
            true,
            bdm(json!([local, blank(json!({"volume_size": 9}))])),
            "Ephemeral disks requested are larger than the instance type allows.",
        ),
        (
            "2.1",
            true,
            bdm(json!([local, blank(json!({"guest_format": "swap", "volume_size": 9}))])),
            "Swap drive requested is larger than instance type allows.",
        ),
        (
            "2.1",
            true,
            bdm(json!([local, blank(json!({"guest_format": "swap"})), blank(json!({"guest_format": "swap"}))])),
            "More than one swap drive requested.",
        ),
        (
            "2.1",
            true,
            bdm(json!([local, blank(json!({})), blank(json!({})), blank(json!({}))])),
            "You specified more local devices than the limit allows",
        ),
        (
            "2.1",
            true,
            bdm(json!([local, to_volume(json!({"volume_size": 1, "boot_index": -1, "disk_bus": "floppy"}))])),
            "Block Device Mapping is Invalid.",
        ),
        (
            "2.1",
            false,
            bdm(json!([{"source_type": "volume", "uuid": IMAGE, "destination_type": "volume", "boot_index": 0}])),
            "failed to get volume",
        ),
        (
            "2.1",
            false,
            bdm(json!([{"source_type": "snapshot", "uuid": IMAGE, "destination_type": "volume", "boot_index": 0}])),
            "failed to get snapshot",
        ),
        (
            "2.67",
            false,
            bdm(json!([to_volume(json!({"volume_size": 1, "volume_type": "nobody-has-it"}))])),
            "Volume type nobody-has-it could not be found.",
        ),
        ("2.1", true, json!({"block_device_mapping": [{"device_name": "vdb"}]}), "Unrecognized legacy format."),
        (
            "2.1",
            true,
            json!({"block_device_mapping": [{"device_name": "vdb", "volume_id": IMAGE}], "block_device_mapping_v2": [local]}),
            "Using different block_device_mapping syntaxes is not allowed in the same request.",
        ),
        (
            "2.1",
            true,
            bdm(json!([local, to_volume(json!({"volume_size": 1, "boot_index": -1, "device_name": "/dev/vda"}))])),
            "The volume cannot be assigned the same device name as the root device vda",
        ),
    ];
    for (version, with_image, more, words) in cases {
        let mut request = json!({"name": "x", "flavorRef": "1", "networks": [{"uuid": NETWORK}]});
        if with_image {
            request["imageRef"] = json!(IMAGE);
        }
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, _, message) = call(&api, "POST", "/servers", version, Some(json!({"server": request}))).await;
        assert!(status == 400 && message.contains(words), "{more} at {version}: {status} {message}, not {words}");
    }
    assert_eq!(api.get("/servers?all_tenants=1", "2.1").await["servers"], json!([]), "a refused request made a server");
    // A boot volume must be bootable. One volume cannot go to two servers of one request.
    let empty = volume(&api, None, 1).await;
    let from = |count: u32| {
        json!({"server": {"name": "x", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "min_count": count,
            "block_device_mapping_v2": [
                {"source_type": "volume", "uuid": empty, "destination_type": "volume", "boot_index": 0}]}})
    };
    let (status, _, message) = call(&api, "POST", "/servers", "2.1", Some(from(1))).await;
    assert_eq!((status, message), (400, format!("Block Device {empty} is not bootable.")));
    let (status, _, message) = call(&api, "POST", "/servers", "2.1", Some(from(2))).await;
    assert_eq!((status, message.as_str()), (400, "Cannot attach one or more volumes to multiple instances"));
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn old_names_of_volumes_snapshots_and_servers() {
    let api = Api::start().await;
    let request = json!({"volume": {"size": 1, "display_name": "old", "metadata": {"a": "b"}}});
    let (status, made, _) = call(&api, "POST", "/os-volumes", "2.35", Some(request)).await;
    assert_eq!(status, 200, "{made}");
    api.life.settled().await;
    let id = made["volume"]["id"].as_str().unwrap();
    let (_, shown, _) = call(&api, "GET", &format!("/os-volumes/{id}"), "2.1", None).await;
    assert_eq!((&shown["volume"]["status"], &shown["volume"]["attachments"]), (&json!("available"), &json!([{}])));
    let request = json!({"snapshot": {"volume_id": id, "display_name": "then"}});
    let (status, made, _) = call(&api, "POST", "/os-snapshots", "2.1", Some(request)).await;
    assert_eq!((status, &made["snapshot"]["volumeId"]), (200, &json!(id)), "{made}");
    api.life.settled().await;
    let snapshot = made["snapshot"]["id"].as_str().unwrap();
    let (_, listed, _) = call(&api, "GET", "/os-snapshots/detail", "2.1", None).await;
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(call(&api, "DELETE", &format!("/os-snapshots/{snapshot}"), "2.1", None).await.0, 202);
    api.life.settled().await;
    assert_eq!(call(&api, "GET", &format!("/os-snapshots/{snapshot}"), "2.1", None).await.0, 404);
    assert_eq!(call(&api, "DELETE", &format!("/os-volumes/{id}"), "2.1", None).await.0, 202);
    api.life.settled().await;
    assert_eq!(call(&api, "GET", &format!("/os-volumes/{id}"), "2.36", None).await.0, 404);

    let request = json!({"server": Api::wish("booted")});
    let (status, made, _) = call(&api, "POST", "/os-volumes_boot", "2.102", Some(request)).await;
    assert_eq!(status, 202, "{made}");
    api.life.settled().await;
    let server = made["server"]["id"].as_str().unwrap();
    let (_, shown, _) = call(&api, "GET", &format!("/os-volumes_boot/{server}"), "2.1", None).await;
    assert_eq!(shown["server"]["status"], "ACTIVE");
    assert_eq!(call(&api, "GET", &format!("/os-volumes_boot/{server}"), "2.103", None).await.0, 404);

    let request = json!({"snapshot": {"volume_id": IMAGE, "create_info": {"snapshot_id": "s", "type": "qcow2", "new_file": "f"}}});
    let assisted = api.call("POST", "/os-assisted-volume-snapshots", "2.1", ADMIN, Some(request)).await;
    let words = format!("No volume Block Device Mapping with id {IMAGE}.");
    assert_eq!((assisted.status, assisted.message()), (400, words.as_str()));
    api.world.check().await;
    api.stop().await;
}

/// A rescue disk takes space on the host. A flavor with a disk of 0 claims no such space, so the size of the root
/// volume limits the rescue disk.
#[actix_rt::test]
async fn a_rescue_disk_is_no_larger_than_the_root_volume() {
    let api = Api::start().await;
    api.flavor("diskless", 512, 0).await;
    let root = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "volume", "volume_size": 1,
        "boot_index": 0});
    let request = json!({"name": "diskless", "flavorRef": "diskless", "networks": [{"uuid": NETWORK}],
        "block_device_mapping_v2": [root]});
    let server = api.server(OWNER, request).await;
    let status = || api.life.status(server.parse().unwrap());
    let rescue = async |more: &[(&str, &str)]| {
        let stable = [("hw_rescue_bus", "virtio"), ("hw_rescue_device", "disk")];
        let image = api.image(&[&stable[..], more].concat()).await;
        let body = Some(json!({"rescue": {"rescue_image_ref": image}}));
        let answer = call(&api, "POST", &format!("/servers/{server}/action"), "2.87", body).await;
        api.life.settled().await;
        answer
    };
    let words = format!(
        "Instance {server} cannot be rescued: the rescue image has 2147483648 bytes, the root volume 1073741824. \
         Choose a smaller image."
    );
    let (code, _, message) = rescue(&[("virtual_gib", "2")]).await;
    assert_eq!((code, message), (400, words));
    assert_eq!(status(), "ACTIVE");
    assert_eq!(rescue(&[]).await.0, 200);
    assert_eq!(status(), "RESCUE");
    api.stop().await;
}

#[actix_rt::test]
async fn a_volume_out_of_reach_names_no_host() {
    let api = Api::start().await;
    let group = json!({"server_group": {"name": "apart", "policies": ["anti-affinity"]}});
    let (status, group, _) = call(&api, "POST", "/os-server-groups", "2.1", Some(group)).await;
    assert_eq!(status, 200, "{group}");
    let mut servers = Vec::new();
    for name in ["one", "two"] {
        let hints = json!({"group": group["server_group"]["id"]});
        let body = Some(json!({"server": Api::wish(name), "os:scheduler_hints": hints}));
        let (status, made, _) = call(&api, "POST", "/servers", "2.1", body).await;
        assert_eq!(status, 202, "{made}");
        api.life.settled().await;
        servers.push(made["server"]["id"].as_str().unwrap().to_owned());
    }
    let far = volume(&api, Some(&servers[0]), 1).await;
    let path = format!("/servers/{}/os-volume_attachments", servers[1]);
    let (status, _, message) = call(&api, "POST", &path, "2.60", Some(attachment(&far))).await;
    let words = format!("Invalid volume: only one host can reach volume {far}, and the server is on another one.");
    assert_eq!((status, message), (400, words));
    api.stop().await;
}
