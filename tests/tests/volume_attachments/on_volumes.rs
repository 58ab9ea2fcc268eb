//! Servers on root volumes: images, backups, rebuilds, rescues and shelving, and volumes of servers on no host. The
//! messages are Nova's.

#[path = "rescue.rs"]
mod rescue;

use std::sync::Arc;

use chronova_events::ids::{ImageId, InstanceId, VolumeId};
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::compute_api::{ADMIN, Api, IMAGE, NETWORK};
use chronova_tests::world::World;
use chronova_web::compute::{ComputeConfig, ComputeState};
use serde_json::{Value, json};

use super::{OWNER, attachment, call, volume};

/// Creates a server with a root volume from an image, and an empty second volume.
async fn on_volumes(api: &Api) -> String {
    on_volumes_of_type(api, "__DEFAULT__").await
}

async fn on_volumes_of_type(api: &Api, kind: &str) -> String {
    let root = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "volume", "volume_size": 1,
        "boot_index": 0, "delete_on_termination": true, "volume_type": kind});
    let data = json!({"source_type": "blank", "destination_type": "volume", "volume_size": 2, "boot_index": -1});
    let request = json!({"name": "on-volumes", "flavorRef": "1", "networks": [{"uuid": NETWORK}],
        "block_device_mapping_v2": [root, data]});
    api.server(OWNER, request).await
}

async fn act(api: &Api, server: &str, version: &str, body: Value) -> (u16, Value, String) {
    let answer = call(api, "POST", &format!("/servers/{server}/action"), version, Some(body)).await;
    api.life.settled().await;
    answer
}

/// The attached volumes as the volume service shows them, in the order of the server's devices.
async fn volumes(api: &Api, server: &str) -> Vec<Value> {
    let (_, body, _) = call(api, "GET", &format!("/servers/{server}/os-volume_attachments"), "2.1", None).await;
    let mut all = Vec::new();
    for attached in body["volumeAttachments"].as_array().unwrap() {
        let path = format!("/volume/v3/p/volumes/{}", attached["volumeId"].as_str().unwrap());
        all.push(api.ask("GET", &path, "2.1", OWNER, None).await.body["volume"].take());
    }
    all
}

fn words<'a>(volumes: &'a [Value], key: &str) -> Vec<&'a str> {
    volumes.iter().map(|volume| volume[key].as_str().unwrap_or_default()).collect()
}

fn status(api: &Api, server: &str) -> &'static str {
    api.life.status(server.parse::<InstanceId>().unwrap())
}

#[actix_rt::test]
async fn an_image_of_volumes_is_a_list_of_snapshots() {
    let api = Api::start().await;
    let kind = json!({"volume_type": {"name": "fast"}});
    assert_eq!(api.ask("POST", "/volume/v3/admin/types", "2.1", ADMIN, Some(kind)).await.status, 200);
    let server = on_volumes_of_type(&api, "fast").await;
    let request = json!({"createImage": {"name": "whole", "metadata": {"purpose": "proof"}}});
    let (status, body, _) = act(&api, &server, "2.45", request).await;
    assert_eq!(status, 202);
    let id: ImageId = body["image_id"].as_str().unwrap().parse().unwrap();
    let made = api.world.images.made()[&id].clone();
    assert_eq!((made.draft.format.as_str(), made.bytes.as_deref()), ("raw", Some(&b""[..])), "no bytes, and complete");
    let property = |name: &str| made.draft.properties.iter().find(|(key, _)| key == name).map(|(_, text)| text.clone());
    assert_eq!(property("bdm_v2").as_deref(), Some("True"));
    assert_eq!(property("root_device_name").as_deref(), Some("/dev/vda"));
    assert_eq!(property("purpose").as_deref(), Some("proof"));
    let mapping: Value = serde_json::from_str(&property("block_device_mapping").unwrap()).unwrap();
    let parts: Vec<(&Value, &Value, &Value, &Value)> = mapping
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["source_type"], &one["boot_index"], &one["volume_size"], &one["delete_on_termination"]))
        .collect();
    let expected = [
        (&json!("snapshot"), &json!(0), &json!(1), &json!(true)),
        (&json!("snapshot"), &Value::Null, &json!(2), &json!(false)),
    ];
    assert_eq!(parts, expected);
    assert_eq!((&mapping[0]["volume_type"], &mapping[1]["volume_type"]), (&json!("fast"), &Value::Null));
    let listed = api.ask("GET", "/volume/v3/p/snapshots/detail", "2.1", OWNER, None).await.body;
    let mut snapshots: Vec<(&str, &str, &str)> = listed["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["id"].as_str().unwrap(), one["status"].as_str().unwrap(), one["name"].as_str().unwrap()))
        .collect();
    snapshots.sort_unstable();
    let mut named: Vec<&str> =
        mapping.as_array().unwrap().iter().map(|one| one["snapshot_id"].as_str().unwrap()).collect();
    named.sort_unstable();
    assert_eq!(snapshots.iter().map(|one| one.0).collect::<Vec<_>>(), named);
    assert!(snapshots.iter().all(|one| one.1 == "available" && one.2.starts_with("snapshot for ")), "{snapshots:?}");
    assert_eq!(self::status(&api, &server), "ACTIVE");
    api.world.check().await;

    // A server that is created from the image gets volumes from these snapshots.
    let request = json!({"name": "again", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "imageRef": id});
    let again = api.server(OWNER, request).await;
    assert_eq!(self::status(&api, &again), "ACTIVE");
    let shown = api.get(&format!("/servers/{again}"), "2.100").await["server"].take();
    assert_eq!(shown["image"], "");
    let disks = volumes(&api, &again).await;
    let mut from: Vec<&str> = words(&disks, "snapshot_id");
    from.sort_unstable();
    assert_eq!(from, named);
    assert_eq!(words(&disks, "status"), ["in-use", "in-use"]);
    assert_eq!(words(&disks, "volume_type"), ["fast", "__DEFAULT__"]);
    // A user may change the mapping in the image's properties, and so choose another type.
    let mut changed = mapping.clone();
    changed[0]["volume_type"] = json!("__DEFAULT__");
    let changed = changed.to_string();
    let properties = [("bdm_v2", "True"), ("root_device_name", "/dev/vda"), ("block_device_mapping", changed.as_str())];
    let image = api.image(&properties).await;
    let request = json!({"name": "slow", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "imageRef": image});
    let slow = api.server(OWNER, request).await;
    assert_eq!(words(&volumes(&api, &slow).await, "volume_type"), ["__DEFAULT__", "__DEFAULT__"]);
    api.world.check().await;
    api.stop().await;
}

/// Nova's `snapshot_volume_backed`: a running guest is quiesced while its volumes are copied, if its agent supports it.
#[actix_rt::test]
async fn a_guest_is_quiesced_while_its_volumes_are_copied() {
    let api = Api::start().await;
    let made_of = async |properties: &[(&str, &str)]| {
        let image = api.image(properties).await;
        let root = json!({"source_type": "image", "uuid": image, "destination_type": "volume", "volume_size": 1,
            "boot_index": 0});
        let request = json!({"name": "s", "flavorRef": "1", "networks": [{"uuid": NETWORK}],
            "block_device_mapping_v2": [root]});
        api.server(OWNER, request).await
    };
    let host_of = |server: &str| api.life.host_of(&api.world, server.parse().unwrap()).unwrap();
    let request = || json!({"createImage": {"name": "whole"}});
    let complete = |id: &Value| api.world.images.made().contains_key(&id.as_str().unwrap().parse::<ImageId>().unwrap());
    let required = [("os_require_quiesce", "yes")];
    let agent = [("hw_qemu_guest_agent", "yes"), ("os_require_quiesce", "True")];

    // The guest is quiesced from before the first copy until after the last one.
    let server = made_of(&agent).await;
    let id: InstanceId = server.parse().unwrap();
    api.world.brakes.hold("create_volume");
    let path = format!("/servers/{server}/action");
    let (status, body, _) = call(&api, "POST", &path, "2.45", Some(request())).await;
    assert_eq!(status, 202, "{body}");
    api.world.brakes.reached("create_volume").await;
    assert_eq!(api.world.fleet.frozen(), [id]);
    api.world.brakes.release("create_volume");
    api.life.settled().await;
    assert!(complete(&body["image_id"]));
    assert_eq!(api.world.fleet.frozen(), []);

    // The guest is also released when a copy fails.
    api.world.fleet.set_all_faults(&FaultPlan::default().with(
        DriverCall::CreateVolume,
        FaultTrigger::Always,
        Effect::Refuse,
    ));
    let (status, body, _) = act(&api, &server, "2.45", request()).await;
    assert_eq!(status, 202);
    assert!(!complete(&body["image_id"]));
    assert_eq!(api.world.fleet.frozen(), []);
    api.world.fleet.set_all_faults(&FaultPlan::default());

    // The guest's agent does not answer, so no image is made of a guest that requires quiescing.
    api.world.fleet.set_deaf(host_of(&server), id, true).unwrap();
    let (status, body, _) = act(&api, &server, "2.45", request()).await;
    assert_eq!(status, 202);
    assert!(!complete(&body["image_id"]));
    let fault = api.get(&format!("/servers/{server}/os-instance-actions"), "2.1").await;
    assert_eq!(fault["instanceActions"][0]["message"], "Error", "{fault}");
    // Users see the fault, so it has no text of the hypervisor.
    let words = "Failed to quiesce instance: the guest agent did not freeze its file systems.";
    assert_eq!(api.life.fault(id), words);
    api.world.fleet.set_deaf(host_of(&server), id, false).unwrap();

    // A guest that does not require quiescing is copied while it runs.
    let careless = made_of(&[]).await;
    api.world.fleet.set_deaf(host_of(&careless), careless.parse().unwrap(), true).unwrap();
    let (status, body, _) = act(&api, &careless, "2.45", request()).await;
    assert_eq!(status, 202);
    assert!(complete(&body["image_id"]));

    // The next server's image requires quiescing but has no agent. The request is refused at once, unless the guest is
    // stopped.
    let impossible = made_of(&required).await;
    let (status, _, message) = act(&api, &impossible, "2.45", request()).await;
    assert_eq!((status, message.as_str()), (400, "QEMU guest agent is not enabled"));
    assert_eq!(act(&api, &impossible, "2.1", json!({"os-stop": null})).await.0, 202);
    let (status, body, _) = act(&api, &impossible, "2.45", request()).await;
    assert_eq!(status, 202, "{body}");
    assert!(complete(&body["image_id"]));
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn unsupported_actions_of_volume_backed_servers_are_refused() {
    let mut world = World::new(2);
    world.options.volume.limits.snapshots = 1;
    let api = Api::start_of(world, "", None).await;
    let server = on_volumes(&api).await;
    let refused = async |version: &str, body: Value| {
        let (status, _, message) = act(&api, &server, version, body).await;
        (status, message)
    };
    let backup = json!({"createBackup": {"name": "b", "backup_type": "daily", "rotation": 1}});
    let no_backup = "Backup is not supported for volume-backed instances.".to_owned();
    assert_eq!(refused("2.1", backup).await, (400, no_backup));
    let snapshots = "Quota exceeded for resources: snapshots".to_owned();
    assert_eq!(refused("2.45", json!({"createImage": {"name": "i"}})).await, (403, snapshots));
    assert!(api.world.images.made().is_empty(), "a refused request left an image");

    let other = api.image(&[]).await;
    let different =
        format!("Image {other} is unacceptable: Unable to rebuild with a different image for a volume-backed server.");
    assert_eq!(refused("2.92", json!({"rebuild": {"imageRef": other}})).await, (400, different));
    let certs = json!({"rebuild": {"imageRef": IMAGE, "trusted_image_certificates": ["a"]}});
    let no_certs = "Image certificate validation is not supported for volume-backed servers.".to_owned();
    assert_eq!(refused("2.93", certs).await, (400, no_certs));

    let cannot = format!("Instance {server} cannot be rescued: Cannot rescue a volume-backed instance");
    let stable = api.image(&[("hw_rescue_bus", "virtio"), ("hw_rescue_device", "disk")]).await;
    let half = api.image(&[("hw_rescue_device", "disk")]).await;
    let rescue = |image: ImageId| json!({"rescue": {"rescue_image_ref": image}});
    assert_eq!(refused("2.86", rescue(stable)).await, (400, cannot.clone()));
    assert_eq!(refused("2.87", rescue(half)).await, (400, cannot.clone()));
    assert_eq!(refused("2.87", json!({"rescue": null})).await, (400, cannot));
    assert_eq!(status(&api, &server), "ACTIVE");
    // A volume that is not in use although the server has it.
    let data = words(&volumes(&api, &server).await, "id")[1].to_owned();
    let reset = json!({"os-reset_status": {"status": "error"}});
    let path = format!("/volume/v3/admin/volumes/{data}/action");
    assert_eq!(api.ask("POST", &path, "2.1", ADMIN, Some(reset)).await.status, 202);
    let broken = format!("Invalid volume: volume '{data}' status must be 'in-use'. Currently in 'error' status");
    assert_eq!(refused("2.93", json!({"rebuild": {"imageRef": IMAGE}})).await, (400, broken.clone()));
    assert_eq!(refused("2.87", rescue(stable)).await, (409, broken));
    api.stop().await;
}

#[actix_rt::test]
async fn a_rebuild_writes_the_image_to_the_root_volume() {
    let api = Api::start().await;
    let server = on_volumes(&api).await;
    let before = volumes(&api, &server).await;
    let root: VolumeId = before[0]["id"].as_str().unwrap().parse().unwrap();
    let written = async || api.life.volumes.look(root).await.unwrap().reimaged_by.is_some();
    // Until 2.92 the root volume is not written.
    assert_eq!(act(&api, &server, "2.92", json!({"rebuild": {"imageRef": IMAGE}})).await.0, 202);
    assert_eq!((status(&api, &server), written().await), ("ACTIVE", false));
    let other = api.image(&[]).await;
    let (code, body, _) = act(&api, &server, "2.93", json!({"rebuild": {"imageRef": other, "name": "new"}})).await;
    assert_eq!((code, &body["server"]["image"]), (202, &json!("")), "a server on a volume shows an image");
    assert_eq!(status(&api, &server), "ACTIVE");
    assert!(written().await);
    let after = volumes(&api, &server).await;
    assert_eq!(words(&after, "id"), words(&before, "id"), "the server has other volumes");
    assert_eq!(words(&after, "status"), ["in-use", "in-use"]);
    assert_eq!(after[0]["volume_image_metadata"]["image_id"], json!(other));
    api.world.check().await;
    api.stop().await;
}

/// The volume's former content is lost, and its present content is unknown.
#[actix_rt::test]
async fn a_rebuild_that_could_not_write_the_root_volume_can_be_done_again() {
    let api = Api::start().await;
    let server = on_volumes(&api).await;
    let root = words(&volumes(&api, &server).await, "id")[0].to_owned();
    api.world.fleet.set_all_faults(&FaultPlan::default().with(
        DriverCall::CreateVolume,
        FaultTrigger::Always,
        Effect::NoRoom,
    ));
    let rebuild = || json!({"rebuild": {"imageRef": IMAGE}});
    assert_eq!(act(&api, &server, "2.93", rebuild()).await.0, 202);
    assert_eq!(status(&api, &server), "ERROR");
    assert_eq!(words(&volumes(&api, &server).await, "status")[0], "error");
    api.world.fleet.set_all_faults(&FaultPlan::default());
    let reset = json!({"os-reset_status": {"status": "in-use"}});
    let path = format!("/volume/v3/admin/volumes/{root}/action");
    assert_eq!(api.ask("POST", &path, "2.1", ADMIN, Some(reset)).await.status, 202);
    assert_eq!(act(&api, &server, "2.93", rebuild()).await.0, 202);
    assert_eq!(status(&api, &server), "ACTIVE");
    assert_eq!(words(&volumes(&api, &server).await, "status")[0], "in-use");
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn volumes_stay_with_a_server_that_leaves_its_host() {
    let api = Api::start().await;
    let server = on_volumes(&api).await;
    let all = format!("/servers/{server}/os-volume_attachments");
    let free = volume(&api, Some(&server), 1).await;
    let attachment_of = async |volume: &str| -> String {
        let (_, body, _) = call(&api, "GET", &all, "2.89", None).await;
        let listed = body["volumeAttachments"].as_array().unwrap();
        listed.iter().find(|one| one["volumeId"] == volume).unwrap()["attachment_id"].as_str().unwrap().to_owned()
    };
    let before = volumes(&api, &server).await;
    let old = attachment_of(words(&before, "id")[0]).await;
    assert_eq!(act(&api, &server, "2.1", json!({"shelve": null})).await.0, 202);
    assert_eq!(status(&api, &server), "SHELVED_OFFLOADED", "a volume-backed server was not offloaded at once");
    assert!(api.world.images.made().is_empty());
    let kept = volumes(&api, &server).await;
    assert_eq!(words(&kept, "status"), ["reserved", "reserved"]);
    // A volume shows only complete attachments. The list of attachments has the reserved ones, too.
    assert_eq!((&kept[0]["attachments"], &kept[1]["attachments"]), (&json!([]), &json!([])));
    let listed = api.ask("GET", "/volume/v3/p/attachments", "2.1, volume 3.27", OWNER, None).await.body;
    let reserved = listed["attachments"].as_array().unwrap();
    assert_eq!(words(reserved, "status"), ["reserved", "reserved"]);
    assert_eq!(words(reserved, "instance"), [server.as_str(), server.as_str()]);
    let (mut reserved_ids, mut kept_ids) = (words(reserved, "volume_id"), words(&kept, "id"));
    reserved_ids.sort_unstable();
    kept_ids.sort_unstable();
    assert_eq!(reserved_ids, kept_ids);
    let log = api.get(&format!("/servers/{server}/os-instance-actions"), "2.58").await;
    assert_eq!(log["instanceActions"][0]["action"], "shelve");

    // Until 2.19 a shelved server cannot have volumes attached.
    let in_no_state =
        |action: &str| (409, format!("Cannot '{action}' instance {server} while it is in vm_state shelved_offloaded"));
    let (code, _, message) = call(&api, "POST", &all, "2.19", Some(attachment(&free))).await;
    assert_eq!((code, message), in_no_state("attach_volume"));
    let (code, _, message) = call(&api, "DELETE", &format!("{all}/{free}"), "2.19", None).await;
    assert_eq!((code, message), in_no_state("detach_volume"));
    // A tagged attachment is refused, because no host can be asked; an untagged attachment is accepted.
    let tagged = json!({"volumeAttachment": {"volumeId": free, "tag": "t"}});
    let (code, _, message) = call(&api, "POST", &all, "2.60", Some(tagged)).await;
    let words_of = "Tagged volume attachment is not supported for shelved-offloaded instances.";
    assert_eq!((code, message.as_str()), (400, words_of));
    assert_eq!(call(&api, "POST", &all, "2.20", Some(attachment(&free))).await.0, 200);
    api.life.settled().await;
    let now = volumes(&api, &server).await;
    assert_eq!(words(&now, "status"), ["reserved", "reserved", "in-use"]);
    let data = words(&now, "id")[1].to_owned();
    assert_eq!(call(&api, "DELETE", &format!("{all}/{data}"), "2.20", None).await.0, 202);
    api.life.settled().await;
    assert_eq!(volumes(&api, &server).await.len(), 2);
    let root = words(&now, "id")[0];
    let (code, _, message) = call(&api, "DELETE", &format!("{all}/{root}"), "2.60", None).await;
    assert_eq!((code, message.as_str()), (400, "Cannot detach a root device volume"));
    api.world.check().await;

    assert_eq!(act(&api, &server, "2.1", json!({"unshelve": null})).await.0, 202);
    assert_eq!(status(&api, &server), "ACTIVE");
    assert_eq!(words(&volumes(&api, &server).await, "status"), ["in-use", "in-use"]);
    // An unshelve gives the volumes new attachments. So a user without an administrator's rights can renew the
    // connections.
    assert_ne!(attachment_of(root).await, old);
    api.world.check().await;
    api.stop().await;
}

/// A shelved server that is still on its host.
#[actix_rt::test]
async fn a_shelved_server_gets_and_loses_volumes_on_its_host() {
    let api = Api::start().await;
    let server = api.server(OWNER, Api::wish("web")).await;
    let all = format!("/servers/{server}/os-volume_attachments");
    let (new, old) = (volume(&api, Some(&server), 1).await, volume(&api, Some(&server), 1).await);
    assert_eq!(call(&api, "POST", &all, "2.1", Some(attachment(&old))).await.0, 200);
    api.life.settled().await;
    assert_eq!(act(&api, &server, "2.1", json!({"shelve": null})).await.0, 202);
    assert_eq!(status(&api, &server), "SHELVED");
    let in_no_state =
        |action: &str| (409, format!("Cannot '{action}' instance {server} while it is in vm_state shelved"));
    let (code, _, message) = call(&api, "POST", &all, "2.19", Some(attachment(&new))).await;
    assert_eq!((code, message), in_no_state("attach_volume"));
    let (code, _, message) = call(&api, "DELETE", &format!("{all}/{old}"), "2.19", None).await;
    assert_eq!((code, message), in_no_state("detach_volume"));
    assert_eq!(call(&api, "POST", &all, "2.20", Some(attachment(&new))).await.0, 200);
    api.life.settled().await;
    assert_eq!(call(&api, "DELETE", &format!("{all}/{old}"), "2.20", None).await.0, 202);
    api.life.settled().await;
    let now = volumes(&api, &server).await;
    assert_eq!((words(&now, "id"), words(&now, "status")), (vec![new.as_str()], vec!["in-use"]));
    api.world.check().await;
    assert_eq!(act(&api, &server, "2.1", json!({"unshelve": null})).await.0, 202);
    assert_eq!(status(&api, &server), "ACTIVE");
    assert_eq!(words(&volumes(&api, &server).await, "id"), [new.as_str()]);
    api.world.check().await;
    api.stop().await;
}

/// The old path of the actions, which 2.103 removes.
#[actix_rt::test]
async fn images_and_rebuilds_under_their_old_name() {
    let api = Api::start().await;
    let server = api.server(OWNER, Api::wish("plain")).await;
    let path = format!("/os-volumes_boot/{server}/action");
    for body in [json!({"createImage": {"name": "i"}}), json!({"rebuild": {"imageRef": IMAGE}})] {
        assert_eq!(call(&api, "POST", &path, "2.102", Some(body.clone())).await.0, 202);
        api.life.settled().await;
        assert_eq!(call(&api, "POST", &path, "2.103", Some(body)).await.0, 404);
    }
    api.stop().await;
}

#[actix_rt::test]
async fn actions_of_servers_under_their_old_name() {
    let api = Api::start().await;
    let flavor = json!({"flavor": {"id": "2", "name": "two", "ram": 1024, "vcpus": 1, "disk": 10}});
    assert_eq!(api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor)).await.status, 200);
    let server = api.server(OWNER, Api::wish("plain")).await;
    let path = format!("/os-volumes_boot/{server}");
    let (status, body, _) = call(&api, "PUT", &path, "2.102", Some(json!({"server": {"name": "renamed"}}))).await;
    assert_eq!((status, &body["server"]["name"]), (200, &json!("renamed")));
    let resize = json!({"resize": {"flavorRef": "2"}});
    for (body, code, then) in [
        (json!({"os-stop": null}), 202, "SHUTOFF"),
        (json!({"os-start": null}), 202, "ACTIVE"),
        (json!({"reboot": {"type": "HARD"}}), 202, "ACTIVE"),
        (resize.clone(), 202, "VERIFY_RESIZE"),
        (json!({"revertResize": null}), 202, "ACTIVE"),
        (resize, 202, "VERIFY_RESIZE"),
        (json!({"confirmResize": null}), 204, "ACTIVE"),
    ] {
        let (status, answer, _) = call(&api, "POST", &format!("{path}/action"), "2.102", Some(body.clone())).await;
        assert_eq!(status, code, "{body}: {answer}");
        api.life.settled().await;
        assert_eq!(self::status(&api, &server), then, "{body}");
    }
    api.world.check().await;
    api.stop().await;
}

/// With `[cinder] cross_az_attach` off, a server and its volumes must be in one zone.
#[actix_rt::test]
async fn volumes_of_another_zone_can_be_kept_from_servers() {
    let mut world = World::new(2);
    world.options.volume.availability_zone = "az2".to_owned();
    let mut api = Api::start_of(world, "", None).await;
    let config = ComputeConfig { cross_az_attach: false, ..ComputeConfig::default() };
    Arc::get_mut(&mut api.app).unwrap().compute = ComputeState::new(config);
    let server = api.server(OWNER, Api::wish("web")).await;
    let far = volume(&api, Some(&server), 1).await;
    let all = format!("/servers/{server}/os-volume_attachments");
    let (code, _, message) = call(&api, "POST", &all, "2.60", Some(attachment(&far))).await;
    let words = format!(
        "Invalid volume: Instance {server} and volume {far} are not in the same availability_zone. Instance is in \
         nova. Volume is in az2"
    );
    assert_eq!((code, message), (400, words));
    let with = |zone: Option<&str>| {
        let local = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0});
        let disk = json!({"source_type": "volume", "uuid": far, "destination_type": "volume", "boot_index": -1});
        let mut request = Api::wish("zoned");
        request["block_device_mapping_v2"] = json!([local, disk]);
        if let Some(zone) = zone {
            request["availability_zone"] = json!(zone);
        }
        Some(json!({"server": request}))
    };
    let mismatch = "The availability zone between the server and its attached volumes do not match: ";
    let (code, _, message) = call(&api, "POST", "/servers", "2.1", with(Some("nova"))).await;
    let words = format!(
        "{mismatch}Server and volumes are not in the same availability zone. Server is in: nova. Volumes are in: az2."
    );
    assert_eq!((code, message), (400, words));
    // Without a requested zone the server must be in the zone of its volumes, and no host is in that zone.
    let (code, body, _) = call(&api, "POST", "/servers", "2.1", with(None)).await;
    assert_eq!(code, 202);
    api.life.settled().await;
    let id = body["server"]["id"].as_str().unwrap().parse().unwrap();
    let zone = api.life.instance_now(id).alive().unwrap().request.availability_zone.clone();
    assert_eq!(zone.as_deref(), Some("az2"));
    api.world.check().await;
    api.stop().await;
}

/// With `cross_az_attach` on, which is the default, zones do not matter. With it off, volumes of the server's zone fit.
/// Volumes of the default zone bind no server to that zone, but `default_schedule_zone` does.
#[actix_rt::test]
async fn volumes_fit_servers_of_their_zone_and_by_default_of_any_zone() {
    assert!(ComputeConfig::default().cross_az_attach);
    for (cross_az_attach, zone) in [(true, "az2"), (false, "nova")] {
        let mut world = World::new(1);
        world.options.volume.availability_zone = zone.to_owned();
        let mut api = Api::start_of(world, "", None).await;
        let config = ComputeConfig { cross_az_attach, ..ComputeConfig::default() };
        Arc::get_mut(&mut api.app).unwrap().compute = ComputeState::new(config.clone());
        let server = api.server(OWNER, Api::wish("web")).await;
        let own = volume(&api, Some(&server), 1).await;
        let all = format!("/servers/{server}/os-volume_attachments");
        assert_eq!(call(&api, "POST", &all, "2.60", Some(attachment(&own))).await.0, 200, "{zone}");
        api.life.settled().await;
        let with = async |api: &Api, asked: Option<&str>| {
            let local = json!({"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0});
            let held = volume(api, None, 1).await;
            let disk = json!({"source_type": "volume", "uuid": held, "destination_type": "volume", "boot_index": -1});
            let mut request = Api::wish("with");
            request["block_device_mapping_v2"] = json!([local, disk]);
            if let Some(zone) = asked {
                request["availability_zone"] = json!(zone);
            }
            let id = api.server(OWNER, request).await;
            assert_eq!(self::status(api, &id), "ACTIVE", "{zone} {asked:?}");
            let server = api.life.instance_now(id.parse().unwrap());
            server.alive().unwrap().request.availability_zone.clone()
        };
        assert_eq!(with(&api, Some("nova")).await.as_deref(), Some("nova"), "{zone}");
        assert_eq!(with(&api, None).await, None, "{zone}");
        let config = ComputeConfig { default_schedule_zone: Some("nova".to_owned()), ..config };
        Arc::get_mut(&mut api.app).unwrap().compute = ComputeState::new(config);
        assert_eq!(with(&api, None).await.as_deref(), Some("nova"), "{zone}");
        api.world.check().await;
        api.stop().await;
    }
}

/// With `[cinder] cross_az_attach` off, a build creates its new volumes in the server's zone.
#[actix_rt::test]
async fn new_volumes_are_asked_for_in_the_zone_of_their_server() {
    for (across, zoned, works) in [(true, false, true), (false, false, false), (false, true, true)] {
        let mut world = World::new(2);
        world.options.volume.availability_zone = "az2".to_owned();
        world.options.processes.cross_az_attach = across;
        let api = Api::start_of(world, "", None).await;
        if zoned {
            let zone = json!({"aggregate": {"name": "a", "availability_zone": "az2"}});
            assert_eq!(api.call("POST", "/os-aggregates", "2.1", ADMIN, Some(zone)).await.status, 200);
            for host in 0..2 {
                let add = Some(json!({"add_host": {"host": api.world.fleet.hostname(host)}}));
                assert_eq!(api.call("POST", "/os-aggregates/1/action", "2.1", ADMIN, add).await.status, 200);
            }
        }
        let server = on_volumes(&api).await;
        assert_eq!(status(&api, &server), if works { "ACTIVE" } else { "ERROR" });
        if works {
            assert_eq!(words(&volumes(&api, &server).await, "availability_zone"), ["az2", "az2"]);
        } else {
            let fault = api.get(&format!("/servers/{server}"), "2.1").await["server"]["fault"].take();
            let message = fault["message"].as_str().unwrap();
            assert!(message.contains("Availability zone 'nova' is invalid"), "another fault: {fault}");
        }
        api.world.check().await;
        api.stop().await;
    }
}

/// Cinder's event about a volume that has grown under a guest.
#[actix_rt::test]
async fn a_guest_is_told_that_its_volume_has_grown() {
    let api = Api::start().await;
    let server = api.server(OWNER, Api::wish("web")).await;
    let data = volume(&api, Some(&server), 1).await;
    let all = format!("/servers/{server}/os-volume_attachments");
    assert_eq!(call(&api, "POST", &all, "2.60", Some(attachment(&data))).await.0, 200);
    api.life.settled().await;
    let actions =
        async || api.get(&format!("/servers/{server}/os-instance-actions"), "2.58").await["instanceActions"].take();
    let tell = async |tag: &str| {
        let event = json!({"name": "volume-extended", "server_uuid": server, "tag": tag});
        let told =
            api.call("POST", "/os-server-external-events", "2.51", ADMIN, Some(json!({"events": [event]}))).await;
        assert_eq!(told.status, 200);
        api.life.settled().await;
    };
    tell(&data).await;
    let seen = actions().await;
    assert_eq!((&seen[0]["action"], &seen[0]["message"]), (&json!("extend_volume"), &Value::Null));
    // Tags that name no volume of the server: another id, and a text that is no id.
    for tag in ["11111111-2222-3333-4444-555555555555", "t"] {
        tell(tag).await;
        assert_eq!(actions().await, seen, "{tag}");
    }
    api.world.fleet.set_all_faults(&FaultPlan::default().with(
        DriverCall::ResizeDisk,
        FaultTrigger::Always,
        Effect::Refuse,
    ));
    tell(&data).await;
    assert_eq!(actions().await[0]["message"], "Error", "the event did not reach the host");
    api.world.fleet.set_all_faults(&FaultPlan::default());
    api.world.check().await;
    api.stop().await;
}
