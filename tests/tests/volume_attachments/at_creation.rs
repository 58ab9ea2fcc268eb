//! The block devices of new servers: existing volumes, multiattach volumes, and mappings in images. [`local_disks`] has
//! the local disks.

use chronova_actors::ports::ImageDraft;
use chronova_actors::services::embedded::volume::VolumeCommand;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, ProcessId, ProjectId};
use chronova_hypervisor::guest::ImageFormat;
use chronova_tests::compute_api::{ADMIN, Api, IMAGE, NETWORK};
use chronova_tests::world::World;
use serde_json::{Value, json};

use super::{OWNER, attachment, call, volume};

mod local_disks;

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

/// Creates an image without content.
async fn announced(api: &Api, name: &str, format: &str) -> ImageId {
    let image = ImageId::random();
    let draft = ImageDraft {
        image,
        name: name.to_owned(),
        owner: ProjectId::new("p"),
        format: format.to_owned(),
        min_disk_gib: 0,
        min_memory_mib: 0,
        properties: vec![],
    };
    api.life.context().images.create(draft, Meta::system("test")).await.unwrap();
    image
}

/// The volume's zone does not matter by default (`[cinder] cross_az_attach`, as in Nova).
#[actix_rt::test]
async fn an_existing_volume_is_attached_to_a_new_server() {
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
    let mut request = Api::wish("web");
    request["block_device_mapping_v2"] = json!([image, given]);
    let server = api.server(OWNER, request).await;
    assert_eq!(api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"], "ACTIVE");
    let found = attached(&api, &server).await;
    assert_eq!((found.len(), &found[0]["volumeId"], &found[0]["tag"]), (1, &json!(data), &json!("data")), "{found:?}");
    assert_eq!((&found[0]["device"], &found[0]["delete_on_termination"]), (&json!("/dev/vdb"), &json!(false)));
    let now = volume_now(&api, &data).await;
    assert_eq!((&now["status"], &now["attachments"][0]["server_id"]), (&json!("in-use"), &json!(server)));
    assert_eq!(now["availability_zone"], "elsewhere");
    // An existing volume cannot be attached twice. The flavor has no swap, so a request for swap is refused.
    let mut request = Api::wish("other");
    request["block_device_mapping_v2"] = json!([{"source_type": "volume", "uuid": data, "destination_type": "volume",
        "boot_index": 0}]);
    request.as_object_mut().unwrap().remove("imageRef");
    let (status, _, message) = call(&api, "POST", "/servers", "2.1", Some(json!({"server": request}))).await;
    assert_eq!(status, 400, "{message}");
    let mut request = Api::wish("swapped");
    request["block_device_mapping_v2"] = json!([
        {"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0}, blank]);
    let (status, _, message) = call(&api, "POST", "/servers", "2.1", Some(json!({"server": request}))).await;
    assert_eq!(status, 400, "{message}");
    delete(&api, &server).await;
    assert_eq!(volume_now(&api, &data).await["status"], "available", "the volume was not kept after the server");
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn volumes_are_given_in_the_older_syntax_too() {
    // A volume is on one host, so a server with two volumes needs both on the same host.
    let api = Api::start_of(World::new(1), "", None).await;
    let (kept, lost) = (volume(&api, None, 1).await, volume(&api, None, 1).await);
    let request = json!({"name": "old", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "imageRef": IMAGE,
    "block_device_mapping": [
        {"device_name": "vdb", "volume_id": kept, "delete_on_termination": "0"},
        {"device_name": "vdc", "volume_id": lost, "delete_on_termination": true},
    ]});
    let server = api.server(OWNER, request).await;
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

/// A user installs a system from a CD-ROM image onto a volume. `shutdown=preserve` of the client is
/// `delete_on_termination` off, in the older syntax and in the newer one.
#[actix_rt::test]
async fn a_server_from_an_iso_keeps_its_data_volume_as_requested() {
    let api = Api::start_of(World::new(1), "", None).await;
    let image = announced(&api, "installer", "iso").await;
    let content = futures::stream::iter([Ok(bytes::Bytes::from_static(b"a CD-ROM"))]);
    api.life.context().images.upload(image, Box::pin(content), Meta::system("test")).await.unwrap();
    for (older, kept) in [(true, true), (true, false), (false, true), (false, false)] {
        let data = volume(&api, None, 1).await;
        let mut request = Api::wish("install");
        request["imageRef"] = json!(image);
        let mapping = match older {
            true => json!([{"device_name": "vdb", "volume_id": data, "delete_on_termination": !kept}]),
            false => json!([
                {"source_type": "image", "uuid": image, "destination_type": "local", "boot_index": 0},
                {"source_type": "volume", "uuid": data, "destination_type": "volume", "boot_index": -1,
                    "delete_on_termination": !kept}]),
        };
        request[if older { "block_device_mapping" } else { "block_device_mapping_v2" }] = mapping;
        let server = api.server(OWNER, request).await;
        let shown = api.get(&format!("/servers/{server}"), "2.1").await["server"].take();
        assert_eq!(shown["status"], "ACTIVE", "{shown}");
        let guest = api.world.brakes.guest(server.parse().unwrap()).unwrap();
        assert_eq!(guest.root.unwrap().image.format, ImageFormat::Iso);
        assert_eq!(guest.volumes.len(), 1, "the guest has no disk to install on");
        let now = volume_now(&api, &data).await;
        assert_eq!((&now["status"], &now["bootable"]), (&json!("in-use"), &json!("false")));
        delete(&api, &server).await;
        let left = api.ask("GET", &format!("/volume/v3/p/volumes/{data}"), "2.1", OWNER, None).await;
        assert_eq!(left.status, if kept { 200 } else { 404 }, "{older} {kept}");
    }
    api.world.check().await;
    api.stop().await;
}

/// A user installs a system from a CD-ROM image onto an empty volume, makes an image of the volume, and boots from the
/// image.
#[actix_rt::test]
async fn an_installed_volume_becomes_an_image_that_boots() {
    let api = Api::start_of(World::new(1), "", None).await;
    let installer = announced(&api, "installer", "iso").await;
    let content = futures::stream::iter([Ok(bytes::Bytes::from_static(b"a CD-ROM"))]);
    api.life.context().images.upload(installer, Box::pin(content), Meta::system("test")).await.unwrap();
    let mut request = Api::wish("install");
    request["imageRef"] = json!(installer);
    request["block_device_mapping_v2"] = json!([
        {"source_type": "image", "uuid": installer, "destination_type": "local", "boot_index": 0},
        {"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": -1,
            "delete_on_termination": false}]);
    let server = api.server(OWNER, request).await;
    assert_eq!(api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"], "ACTIVE");
    let guest = api.world.brakes.guest(server.parse().unwrap()).unwrap();
    assert_eq!(guest.root.unwrap().image.format, ImageFormat::Iso);
    assert_eq!(guest.volumes.len(), 1, "the guest has no disk to install on");
    let disk = attached(&api, &server).await[0]["volumeId"].as_str().unwrap().to_owned();
    // A volume that is attached after the installation cannot be booted either.
    let later = volume(&api, None, 1).await;
    let path = format!("/servers/{server}/os-volume_attachments");
    assert_eq!(call(&api, "POST", &path, "2.1", Some(attachment(&later))).await.0, 200);
    api.life.settled().await;
    for volume in [&disk, &later] {
        let now = volume_now(&api, volume).await;
        assert_eq!((&now["status"], &now["bootable"]), (&json!("in-use"), &json!("false")));
    }
    delete(&api, &server).await;
    assert_eq!(volume_now(&api, &disk).await["status"], "available");

    let image = announced(&api, "installed", "raw").await;
    let upload = VolumeCommand::Upload { process: ProcessId::random(), image, force: false };
    api.life.volumes.command(disk.parse().unwrap(), upload, Meta::system("test")).await.unwrap();
    api.life.settled().await;
    assert!(api.world.images.made()[&image].bytes.is_some(), "the volume was not uploaded");
    let mut request = Api::wish("installed");
    request["imageRef"] = json!(image);
    let server = api.server(OWNER, request).await;
    assert_eq!(api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"], "ACTIVE");
    let root = api.world.brakes.guest(server.parse().unwrap()).unwrap().root.unwrap();
    assert_eq!((root.image.id, root.image.format), (image, ImageFormat::Raw));
    delete(&api, &server).await;
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
    // Each server has its own complete read-write attachment, and each guest has a shareable disk.
    let mut attachments = std::collections::BTreeSet::new();
    for server in [&one, &two] {
        let (_, body, _) = call(&api, "GET", &format!("/servers/{server}/os-volume_attachments"), "2.89", None).await;
        let id = body["volumeAttachments"][0]["attachment_id"].as_str().unwrap().to_owned();
        let path = format!("/volume/v3/p/attachments/{id}");
        let shown = api.ask("GET", &path, "2.1, volume 3.27", OWNER, None).await.body;
        let shown = &shown["attachment"];
        assert_eq!((&shown["volume_id"], &shown["instance"]), (&json!(shared), &json!(server)));
        assert_eq!((&shown["status"], &shown["attach_mode"]), (&json!("attached"), &json!("rw")));
        assert!(shown["attached_at"].as_str().unwrap().starts_with("20"), "{shown}");
        attachments.insert(id);
    }
    assert_eq!(attachments.len(), 2);
    let disks = api.world.brakes.disks();
    assert_eq!(disks.len(), 2);
    assert!(disks.iter().all(|(_, disk)| disk.shareable && !disk.readonly && disk.serial == shared), "{disks:?}");
    api.world.check().await;
    // The volume cannot be swapped while two servers have it.
    let other = volume(&api, Some(&one), 1).await;
    let path = format!("/servers/{one}/os-volume_attachments/{shared}");
    let swapped = api.call("PUT", &path, "2.85", ADMIN, Some(attachment(&other))).await;
    let words = "Swapping multi-attach volumes with more than one read/write attachment is not supported.";
    assert_eq!((swapped.status, swapped.message()), (400, words));
    // A third server is offloaded, so no host can be asked whether it supports multiattach. Once the server is
    // unshelved and stopped, it has a host.
    let three = api.server(OWNER, Api::wish("three")).await;
    for body in [json!({"shelve": null}), json!({"shelveOffload": null})] {
        let done = api.call("POST", &format!("/servers/{three}/action"), "2.1", ADMIN, Some(body)).await;
        assert_eq!(done.status, 202, "{}", done.body);
        api.life.settled().await;
    }
    let words = "Attaching multiattach volumes is not supported for shelved-offloaded instances.";
    assert_eq!(take(&three, "2.60").await, (400, words.to_owned()));
    let back =
        api.call("POST", &format!("/servers/{three}/action"), "2.1", OWNER, Some(json!({"unshelve": null}))).await;
    assert_eq!(back.status, 202);
    api.life.settled().await;
    let stop =
        api.call("POST", &format!("/servers/{three}/action"), "2.1", OWNER, Some(json!({"os-stop": null}))).await;
    assert_eq!(stop.status, 202);
    api.life.settled().await;
    assert_eq!(take(&three, "2.60").await.0, 200);
    delete(&api, &three).await;
    api.world.check().await;
    // One server detaches the volume; the other keeps it until its deletion.
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

/// A server may boot from a multiattach volume, from 2.60 on.
#[actix_rt::test]
async fn a_server_boots_from_a_multiattach_volume() {
    let api = Api::start_of(World::new(1), "", None).await;
    let ask = async |token: &str, path: &str, body: Value| {
        api.ask("POST", &format!("/volume/v3/{path}"), "2.1", token, Some(body)).await
    };
    let kind = json!({"volume_type": {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}});
    assert_eq!(ask(ADMIN, "admin/types", kind).await.status, 200);
    let request = json!({"volume": {"size": 1, "volume_type": "shared", "imageRef": IMAGE}});
    let made = ask(OWNER, "p/volumes", request).await;
    assert_eq!(made.status, 202, "{:?}", made.body);
    let root = made.body["volume"]["id"].as_str().unwrap().to_owned();
    api.life.settled().await;
    let request = json!({"server": {"name": "b", "flavorRef": "1", "networks": [{"uuid": NETWORK}],
        "block_device_mapping_v2": [{"source_type": "volume", "uuid": root, "destination_type": "volume", "boot_index": 0}]}});
    let (status, _, message) = call(&api, "POST", "/servers", "2.59", Some(request.clone())).await;
    assert_eq!(status, 400);
    assert!(message.contains("2.60"), "{message}");
    // Two servers of one request cannot have it.
    let mut several = request.clone();
    several["server"]["min_count"] = json!(2);
    let (status, _, message) = call(&api, "POST", "/servers", "2.60", Some(several)).await;
    assert_eq!((status, message.as_str()), (400, "Cannot attach one or more volumes to multiple instances"));
    for _ in 0..2 {
        let (status, body, message) = call(&api, "POST", "/servers", "2.60", Some(request.clone())).await;
        assert_eq!(status, 202, "{message}");
        api.life.settled().await;
        let id = body["server"]["id"].as_str().unwrap();
        assert_eq!(api.get(&format!("/servers/{id}"), "2.1").await["server"]["status"], "ACTIVE");
        let spec = api.world.brakes.guest(id.parse().unwrap()).unwrap();
        assert!(spec.volumes[0].shareable && spec.volumes[0].boot_order == Some(1), "{:?}", spec.volumes);
    }
    assert_eq!(volume_now(&api, &root).await["attachments"].as_array().unwrap().len(), 2);
    api.world.check().await;
    api.stop().await;
}

/// A volume's bus and device type reach the guest; its name is the next one of the bus, whatever the request says.
#[actix_rt::test]
async fn guests_see_volumes_on_the_requested_bus_and_as_the_requested_device_type() {
    let mut world = World::new(1);
    world.options.volume.shared = true;
    let api = Api::start_of(world, "", None).await;
    let root = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0});
    let cases = [
        (json!({"disk_bus": "usb"}), ("usb", "disk", "sda")),
        (json!({"disk_bus": "scsi", "device_type": "disk", "device_name": "/dev/vdq"}), ("scsi", "disk", "sdb")),
        (json!({"disk_bus": "ide", "device_type": "disk"}), ("ide", "disk", "hda")),
        (json!({"device_type": "cdrom"}), ("ide", "cdrom", "hdb")),
        (json!({"device_type": "floppy"}), ("fdc", "floppy", "fda")),
        (json!({"device_type": "lun"}), ("scsi", "lun", "sdc")),
        (json!({"boot_index": null}), ("virtio", "disk", "vdb")),
    ];
    let mut disks = vec![root];
    for (more, _) in &cases {
        let mut disk = json!({"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": -1,
            "delete_on_termination": true});
        disk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        disks.push(disk);
    }
    let mut request = Api::wish("buses");
    request["block_device_mapping_v2"] = json!(disks);
    let server = api.server(OWNER, request).await;
    assert_eq!(api.get(&format!("/servers/{server}"), "2.1").await["server"]["status"], "ACTIVE");
    let spec = api.world.brakes.guest(server.parse().unwrap()).unwrap();
    let mut seen: Vec<_> = spec.volumes.iter().map(|disk| (&*disk.bus, &*disk.kind, &*disk.device)).collect();
    let mut expected: Vec<_> = cases.iter().map(|(_, expected)| *expected).collect();
    seen.sort_unstable();
    expected.sort_unstable();
    assert_eq!(seen, expected);
    let shown = attached(&api, &server).await;
    let mut names: Vec<_> = shown.iter().map(|one| one["device"].as_str().unwrap().to_owned()).collect();
    let mut expected: Vec<_> = cases.iter().map(|(_, (.., name))| format!("/dev/{name}")).collect();
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected, "the API shows other names");
    delete(&api, &server).await;
    api.world.check().await;
    api.stop().await;
}

/// The mappings in an image's properties have the bounds that the schema gives to those of a request.
#[actix_rt::test]
async fn the_disks_of_an_image_are_checked_like_those_of_a_request() {
    let api = Api::start().await;
    let disk = |key: &str, value: Value| {
        let mut disk = json!({"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": -1,
            "delete_on_termination": true});
        disk[key] = value;
        disk
    };
    let text = |key: &str| format!("Block Device Mapping is Invalid: {key} is not a text of at most 255 characters.");
    let cases = [
        (disk("device_type", json!("l".repeat(256))), 400, text("device_type")),
        (disk("guest_format", json!("x".repeat(256))), 400, text("guest_format")),
        (disk("tag", json!(7)), 400, text("tag")),
        (
            disk("source_type", json!("file")),
            400,
            "Block Device Mapping is Invalid: Invalid source_type field.".to_owned(),
        ),
        (disk("disk_bus", json!("bus")), 400, "Block Device Mapping is Invalid.".to_owned()),
        (disk("device_type", json!("lun")), 202, String::new()),
    ];
    for (disk, expected, words) in cases {
        let mapping = json!([disk]).to_string();
        let image = api.image(&[("block_device_mapping", &mapping), ("bdm_v2", "true")]).await;
        let request = json!({"name": "x", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "imageRef": image});
        let (status, _, message) = call(&api, "POST", "/servers", "2.1", Some(json!({"server": request}))).await;
        assert_eq!((status, message), (expected, words), "{disk}");
    }
    api.life.settled().await;
    api.stop().await;
}

/// `[compute] max_disk_devices_to_attach` limits new servers and later attachments.
#[actix_rt::test]
async fn the_disks_of_a_server_are_limited() {
    let mut world = World::new(2);
    world.options.servers.max_disk_devices = Some(2);
    let mut api = Api::start_of(world, "", None).await;
    let config = chronova_web::compute::ComputeConfig { max_disk_devices: Some(2), ..Default::default() };
    std::sync::Arc::get_mut(&mut api.app).unwrap().compute = chronova_web::compute::ComputeState::new(config);
    let root = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0});
    let data = || {
        json!({"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": -1,
        "delete_on_termination": true})
    };
    let with = |volumes: usize| {
        let mut request = Api::wish("disks");
        let disks = std::iter::once(root.clone()).chain(std::iter::repeat_with(data).take(volumes));
        request["block_device_mapping_v2"] = Value::Array(disks.collect());
        request
    };
    let reason = "The maximum allowed number of disk devices (2) to attach to a single instance has been exceeded.";
    let three = api.server(OWNER, with(2)).await;
    let shown = api.get(&format!("/servers/{three}"), "2.1").await["server"].take();
    assert_eq!(shown["status"], "ERROR");
    assert_eq!(shown["fault"]["message"], format!("Build of instance {three} aborted: {reason}"));
    delete(&api, &three).await;
    api.world.check().await;
    let two = api.server(OWNER, with(1)).await;
    assert_eq!(api.get(&format!("/servers/{two}"), "2.1").await["server"]["status"], "ACTIVE");
    let more = volume(&api, Some(&two), 1).await;
    let path = format!("/servers/{two}/os-volume_attachments");
    let (status, _, message) = call(&api, "POST", &path, "2.1", Some(attachment(&more))).await;
    assert_eq!((status, message.as_str()), (403, reason));
    api.world.check().await;
    api.stop().await;
}

/// The older syntax, in which the device name marks the root disk: in a request, and in an image's properties.
#[actix_rt::test]
async fn the_older_syntax_boots_from_the_root_device_name() {
    let api = Api::start_of(World::new(1), "", None).await;
    let bootable = async |name: &str| {
        let request = json!({"volume": {"size": 1, "name": name, "imageRef": IMAGE}});
        let made = api.ask("POST", "/volume/v3/p/volumes", "2.1", OWNER, Some(request)).await;
        api.life.settled().await;
        made.body["volume"]["id"].as_str().unwrap().to_owned()
    };
    let root = bootable("root").await;
    let request = json!({"name": "old", "flavorRef": "1", "networks": [{"uuid": NETWORK}],
        "block_device_mapping": [{"device_name": "/dev/vda", "volume_id": root, "delete_on_termination": true}]});
    let server = api.server(OWNER, request).await;
    let shown = api.get(&format!("/servers/{server}"), "2.3").await["server"].take();
    assert_eq!((&shown["status"], &shown["image"]), (&json!("ACTIVE"), &json!("")), "{shown}");
    assert_eq!(shown["os-extended-volumes:volumes_attached"], json!([{"id": root, "delete_on_termination": true}]));
    let spec = api.world.brakes.guest(server.parse().unwrap()).unwrap();
    assert!(spec.root.is_none() && spec.volumes[0].boot_order == Some(1) && spec.volumes[0].device == "vda");
    // A snapshot of the volume, and an image with both forms of mappings.
    let snapshot = json!({"snapshot": {"volume_id": root, "force": true}});
    let made = api.ask("POST", "/volume/v3/p/snapshots", "2.1", OWNER, Some(snapshot)).await;
    assert_eq!(made.status, 202, "{:?}", made.body);
    let snapshot = made.body["snapshot"]["id"].as_str().unwrap().to_owned();
    api.life.settled().await;
    // A request may name a snapshot and a size.
    let sized = json!([{"device_name": "/dev/vda", "snapshot_id": snapshot, "volume_size": 2,
        "delete_on_termination": true}]);
    let request =
        json!({"name": "sized", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "block_device_mapping": sized});
    let server = api.server(OWNER, request).await;
    let volumes = attached(&api, &server).await;
    let copy = volume_now(&api, volumes[0]["volumeId"].as_str().unwrap()).await;
    assert_eq!((volumes.len(), &copy["snapshot_id"], &copy["size"]), (1, &json!(snapshot), &json!(2)));
    delete(&api, &server).await;
    let old = json!([{"device_name": "/dev/vda", "snapshot_id": snapshot, "delete_on_termination": true}]).to_string();
    let new = json!([{"source_type": "snapshot", "uuid": snapshot, "destination_type": "volume", "boot_index": 0,
        "device_name": "/dev/vda", "delete_on_termination": true}])
    .to_string();
    for (properties, form) in [
        (vec![("block_device_mapping", old.as_str()), ("root_device_name", "/dev/vda")], "old"),
        (vec![("block_device_mapping", new.as_str()), ("bdm_v2", "true"), ("root_device_name", "/dev/vda")], "new"),
    ] {
        let image = api.image(&properties).await;
        let request = json!({"name": form, "flavorRef": "1", "networks": [{"uuid": NETWORK}], "imageRef": image});
        let server = api.server(OWNER, request).await;
        let shown = api.get(&format!("/servers/{server}"), "2.1").await["server"].take();
        assert_eq!((&shown["status"], &shown["image"]), (&json!("ACTIVE"), &json!("")), "{form}: {shown}");
        let volumes = attached(&api, &server).await;
        assert_eq!((volumes.len(), &volumes[0]["device"]), (1, &json!("/dev/vda")), "{form}");
        let root = volume_now(&api, volumes[0]["volumeId"].as_str().unwrap()).await;
        assert_eq!((&root["snapshot_id"], &root["bootable"]), (&json!(snapshot), &json!("true")), "{form}");
        delete(&api, &server).await;
    }
    api.world.check().await;
    // A mapping with the name of one of the image's devices replaces that device.
    let both = json!([
        {"source_type": "snapshot", "uuid": snapshot, "destination_type": "volume", "boot_index": 0,
            "device_name": "/dev/vda", "delete_on_termination": true},
        {"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": -1,
            "device_name": "/dev/vdb", "delete_on_termination": true}])
    .to_string();
    let image =
        api.image(&[("block_device_mapping", &both), ("bdm_v2", "true"), ("root_device_name", "/dev/vda")]).await;
    let other = bootable("other").await;
    let request = json!({"name": "instead", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "imageRef": image,
        "block_device_mapping_v2": [
            {"source_type": "image", "uuid": image, "destination_type": "local", "boot_index": 0},
            {"source_type": "volume", "uuid": other, "destination_type": "volume", "boot_index": -1,
                "device_name": "/dev/vdb"}]});
    let (status, body, message) = call(&api, "POST", "/servers", "2.1", Some(json!({"server": request}))).await;
    assert_eq!(status, 202, "{message}");
    api.life.settled().await;
    let instead = body["server"]["id"].as_str().unwrap().to_owned();
    let volumes = attached(&api, &instead).await;
    let on =
        |device: &str| volumes.iter().find(|one| one["device"] == device).map(|one| one["volumeId"].clone()).unwrap();
    assert_eq!((volumes.len(), on("/dev/vdb")), (2, json!(other)), "{volumes:?}");
    let root = on("/dev/vda");
    assert_eq!(volume_now(&api, root.as_str().unwrap()).await["snapshot_id"], json!(snapshot));
    api.stop().await;
}

/// With `[scheduler] query_placement_for_image_type_support`, a host must support the format of a server's image. The
/// format does not matter if the root disk is a volume that is made of the image.
#[actix_rt::test]
async fn the_format_of_an_image_binds_no_server_on_a_volume() {
    let mut world = World::new(1);
    world.options.scheduler.prefilters.query_placement_for_image_type_support = true;
    // The images of the world have this format.
    world.options.hosts.excluded_image_types = vec!["raw".to_owned()];
    let api = Api::start_of(world, "", None).await;
    let root = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "volume", "volume_size": 1,
        "boot_index": 0, "delete_on_termination": true});
    let on_volume = json!({"name": "on-volume", "flavorRef": "1", "networks": [{"uuid": NETWORK}],
        "block_device_mapping_v2": [root]});
    for (request, status) in [(Api::wish("local"), "ERROR"), (on_volume, "ACTIVE")] {
        let id = api.server(OWNER, request.clone()).await;
        assert_eq!(api.get(&format!("/servers/{id}"), "2.1").await["server"]["status"], status, "{request}");
    }
    api.world.check().await;
    api.stop().await;
}
