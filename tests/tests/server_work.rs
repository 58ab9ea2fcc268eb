//! Images of servers, rebuild, rescue, shelve and passwords, through the API: answers at each version, refusals with
//! their messages, and the resulting state of the server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "server_work/live.rs"]
mod live;

use std::time::Duration;

use chronova_events::ids::{ImageId, InstanceId};
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::compute_api::{ADMIN, Answer, Api, IMAGE};
use chronova_tests::services::{NO_IMAGE, OneImage};
use chronova_tests::world::World;
use serde_json::{Value, json};

const USER: &str = "alice:web";

/// A user's server, and the requests to it.
struct Subject<'a> {
    api: &'a Api,
    id: String,
    path: String,
}

impl<'a> Subject<'a> {
    async fn new(api: &'a Api, server_request: Value) -> Self {
        let id = api.server(USER, server_request).await;
        let path = format!("/servers/{id}");
        Self { api, id, path }
    }

    async fn ask_as(&self, token: &str, version: &str, body: Value) -> Answer {
        self.api.call("POST", &format!("{}/action", self.path), version, token, Some(body)).await
    }

    async fn ask(&self, version: &str, body: Value) -> Answer {
        self.ask_as(USER, version, body).await
    }

    /// Sends an action that must be accepted, and waits until it has ended.
    async fn done(&self, body: Value) {
        let answer = self.ask("2.100", body.clone()).await;
        assert!([200, 202].contains(&answer.status), "{body}: {:?}", answer.body);
        self.api.life.settled().await;
    }

    async fn refused(&self, body: Value, status: u16, words: &str) {
        let answer = self.ask("2.100", body.clone()).await;
        assert_eq!((answer.status, answer.message()), (status, words), "{body}");
    }

    async fn shown(&self) -> Value {
        self.api.get(&self.path, "2.100").await["server"].take()
    }

    async fn status(&self) -> String {
        self.shown().await["status"].as_str().unwrap().to_owned()
    }

    fn instance(&self) -> InstanceId {
        self.id.parse().unwrap()
    }

    async fn actions(&self) -> Vec<String> {
        let log = self.api.get(&format!("{}/os-instance-actions", self.path), "2.58").await;
        log["instanceActions"].as_array().unwrap().iter().map(|a| a["action"].as_str().unwrap().to_owned()).collect()
    }
}

fn property<'a>(properties: &'a [(String, String)], name: &str) -> Option<&'a str> {
    properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// `[libvirt] snapshot_image_format`: the image's record and the copy on the host have the same format.
#[actix_rt::test]
async fn images_of_servers_have_the_configured_format() {
    for (format, begins) in [("raw", "raw "), ("qcow2", "QFI")] {
        let mut world = World::new(2);
        world.options.servers.snapshot_format = format.to_owned();
        let api = Api::start_of(world, "", None).await;
        let server = Subject::new(&api, Api::wish("web")).await;
        for action in [json!({"createImage": {"name": "snap"}}), json!({"shelve": null})] {
            assert_eq!(server.ask("2.45", action).await.status, 202);
            api.life.settled().await;
        }
        let made = api.world.images.made();
        assert_eq!(made.len(), 2);
        for image in made.values() {
            assert_eq!(image.draft.format, format);
            assert!(image.bytes.as_ref().unwrap().starts_with(begins.as_bytes()), "{format}");
        }
        api.stop().await;
    }
}

#[actix_rt::test]
async fn images_are_made_of_servers() {
    let api = Api::start().await;
    let server = Subject::new(&api, Api::wish("web")).await;
    let action = || json!({"createImage": {"name": "snap", "metadata": {"purpose": "proof"}}});
    let old = server.ask("2.44", action()).await;
    assert_eq!((old.status, &old.body), (202, &Value::Null));
    let location = old.location.unwrap();
    let first: ImageId = location.rsplit('/').next().unwrap().parse().unwrap();
    assert!(location.contains("/image"), "{location}: not the image service's own address");
    // The server accepts the next operation once this operation has ended.
    api.life.settled().await;
    let made = api.world.images.made();
    let made = &made[&first];
    assert!(made.bytes.is_some() && made.draft.name == "snap" && made.draft.format == "qcow2");
    assert_eq!((made.draft.min_disk_gib, made.draft.owner.as_str()), (1, "web"));
    let says = |name: &str| property(&made.draft.properties, name).unwrap_or_default().to_owned();
    assert_eq!(
        (says("instance_uuid"), says("image_type"), says("purpose")),
        (server.id.clone(), "snapshot".into(), "proof".into())
    );
    assert_eq!(
        (says("base_image_ref").as_str(), says("user_id").as_str()),
        ("00000000-0000-0000-0000-000000000000", "alice")
    );

    let new = server.ask("2.45", action()).await;
    assert_eq!((new.status, new.location), (202, None));
    let second: ImageId = new.body["image_id"].as_str().unwrap().parse().unwrap();
    api.life.settled().await;
    assert_eq!(api.world.images.made().len(), 2);
    assert_ne!(first, second);

    // A server that is created from the image has the disk of the first server.
    let server_request = json!({"name": "copy", "imageRef": second.to_string(), "flavorRef": "1", "networks": "none"});
    let copy = Subject::new(&api, server_request).await;
    assert_eq!(copy.status().await, "ACTIVE");

    // A lock prevents changes, and an image changes nothing.
    server.done(json!({"lock": null})).await;
    assert_eq!(server.ask("2.1", json!({"createImage": {"name": "locked"}})).await.status, 202);
    api.life.settled().await;
    server.done(json!({"unlock": null})).await;

    // Until 2.38 the quota of metadata items limits the properties of an image.
    let many: Value = (0..129).map(|n| (format!("k{n}"), json!("v"))).collect::<serde_json::Map<_, _>>().into();
    let action = json!({"createImage": {"name": "x", "metadata": many}});
    let refused = server.ask("2.38", action.clone()).await;
    assert_eq!((refused.status, refused.message()), (403, "Image metadata limit exceeded"));
    assert_eq!(server.ask("2.39", action).await.status, 202);
    api.life.settled().await;

    // A failure leaves no image, and does not change the server.
    let before = api.world.images.made().len();
    api.world.fleet.set_all_faults(&FaultPlan::default().with(
        DriverCall::CopyRoot,
        FaultTrigger::Always,
        Effect::Refuse,
    ));
    assert_eq!(server.ask("2.45", json!({"createImage": {"name": "no"}})).await.status, 202);
    api.life.settled().await;
    assert_eq!((server.status().await.as_str(), api.world.images.made().len()), ("ACTIVE", before));
    let log = api.get(&format!("{}/os-instance-actions", server.path), "2.58").await;
    assert_eq!(
        (&log["instanceActions"][0]["action"], &log["instanceActions"][0]["message"]),
        (&json!("createImage"), &json!("Error"))
    );
    // The images outlive the server.
    assert_eq!(api.call("DELETE", &server.path, "2.1", USER, None).await.status, 204);
    api.life.settled().await;
    assert_eq!(api.world.images.made().len(), before);
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn only_the_newest_backups_are_kept() {
    let api = Api::start().await;
    let server = Subject::new(&api, Api::wish("web")).await;
    let backup =
        |kind: &str, rotation: Value| json!({"createBackup": {"name": "b", "backup_type": kind, "rotation": rotation}});
    let mut daily = Vec::new();
    for _ in 0..3 {
        let answer = server.ask("2.45", backup("daily", json!(2))).await;
        assert_eq!((answer.status, &answer.location), (202, &None), "{:?}", answer.body);
        daily.push(answer.body["image_id"].as_str().unwrap().parse::<ImageId>().unwrap());
        api.life.settled().await;
    }
    let weekly = server.ask("2.44", backup("weekly", json!("1"))).await;
    assert_eq!((weekly.status, weekly.body), (202, Value::Null));
    let weekly: ImageId = weekly.location.unwrap().rsplit('/').next().unwrap().parse().unwrap();
    api.life.settled().await;
    let kept: Vec<ImageId> = api.world.images.made().into_keys().collect();
    let mut expected = vec![daily[1], daily[2], weekly];
    expected.sort();
    assert_eq!(kept, expected, "the backups are not the newest of each kind");
    let made = api.world.images.made();
    assert_eq!(property(&made[&weekly].draft.properties, "image_type"), Some("backup"));
    assert_eq!(property(&made[&weekly].draft.properties, "backup_type"), Some("weekly"));
    // Nova: no `Location` if the rotation deletes the backup at once.
    let none = server.ask("2.44", backup("daily", json!(0))).await;
    assert_eq!((none.status, none.location), (202, None));
    api.life.settled().await;
    assert_eq!(api.world.images.made().into_keys().collect::<Vec<_>>(), [weekly]);
    // Until 2.38 the quota of metadata items limits the properties of a backup, too.
    let many: Value = (0..129).map(|n| (format!("k{n}"), json!("v"))).collect::<serde_json::Map<_, _>>().into();
    let mut action = backup("daily", json!(0));
    action["createBackup"]["metadata"] = many;
    let refused = server.ask("2.38", action.clone()).await;
    assert_eq!((refused.status, refused.message()), (403, "Image metadata limit exceeded"));
    assert_eq!(server.ask("2.39", action).await.status, 202);
    api.life.settled().await;
    for rotation in [json!(-1), json!("x"), json!(null)] {
        assert_eq!(server.ask("2.45", backup("daily", rotation)).await.status, 400);
    }
    assert_eq!(server.actions().await[0], "createBackup");
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_rebuild_replaces_the_disk_and_settings_of_a_server_on_its_host() {
    let api = Api::start().await;
    let key = json!({"keypair": {"name": "mine", "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q a@b"}});
    assert!([200, 201].contains(&api.call("POST", "/os-keypairs", "2.2", USER, Some(key)).await.status));
    let server = Subject::new(&api, Api::wish("web")).await;
    let before = server.shown().await;
    let host = api.life.host_of(&api.world, server.instance()).unwrap();
    let disks = |api: &Api| api.world.fleet.guests(host)[&server.instance()].disks;
    assert_eq!(disks(&api), 1);

    let action = json!({"rebuild": {
        "imageRef": IMAGE, "name": "anew", "adminPass": "seekr3t", "metadata": {"a": "b"}, "description": "told",
        "key_name": "mine", "user_data": "ZWNobw==", "hostname": "other", "accessIPv4": "1.2.3.4"
    }});
    // The answer shows the server's present state; the operation is still under way.
    api.world.brakes.hold("redefine");
    let answer = server.ask("2.100", action).await;
    api.world.brakes.release("redefine");
    assert_eq!(answer.status, 202, "{:?}", answer.body);
    assert!(answer.location.unwrap().ends_with(&server.path));
    let told = &answer.body["server"];
    assert_eq!(
        (&told["status"], &told["adminPass"], &told["user_data"]),
        (&json!("REBUILD"), &json!("seekr3t"), &json!("ZWNobw=="))
    );
    assert!(told.get("OS-EXT-SRV-ATTR:user_data").is_none());
    api.life.settled().await;
    let now = server.shown().await;
    for (field, value) in [
        ("status", json!("ACTIVE")),
        ("name", json!("anew")),
        ("description", json!("told")),
        ("metadata", json!({"a": "b"})),
        ("key_name", json!("mine")),
        ("OS-EXT-SRV-ATTR:hostname", json!("other")),
        ("accessIPv4", json!("1.2.3.4")),
        ("addresses", before["addresses"].clone()),
        ("hostId", before["hostId"].clone()),
    ] {
        assert_eq!(now[field], value, "{field}");
    }
    assert_eq!(disks(&api), 2, "the rebuild kept the disk");
    assert_eq!(server.actions().await, ["rebuild", "create"]);

    // `null` differs from an absent field. A server that is off stays off.
    server.done(json!({"os-stop": null})).await;
    server.done(json!({"rebuild": {"imageRef": IMAGE, "key_name": null}})).await;
    let now = server.shown().await;
    assert_eq!(
        (&now["status"], &now["key_name"], &now["metadata"]),
        (&json!("SHUTOFF"), &Value::Null, &json!({"a": "b"}))
    );

    // Fields by version: a key from 2.54, user data from 2.57 on, and the full view from 2.75 on.
    for (version, key, data, full) in [
        ("2.53", false, false, false),
        ("2.54", true, false, false),
        ("2.57", true, true, false),
        ("2.75", true, true, true),
    ] {
        let answer = server.ask(version, json!({"rebuild": {"imageRef": IMAGE}})).await;
        let has = |field: &str| answer.body["server"].get(field).is_some();
        assert_eq!((has("key_name"), has("user_data"), has("OS-EXT-STS:vm_state")), (key, data, full), "{version}");
        assert!(has("adminPass") && has("id"));
        api.life.settled().await;
    }
    for (version, field) in [("2.18", "description"), ("2.53", "key_name"), ("2.56", "user_data"), ("2.89", "hostname")]
    {
        let action = json!({"rebuild": {"imageRef": IMAGE, field: "eA=="}});
        assert_eq!(server.ask(version, action).await.status, 400, "{field} at {version}");
    }
    let files = json!({"rebuild": {"imageRef": IMAGE, "personality": [{"path": "/a", "contents": "YQ=="}]}});
    assert_eq!(server.ask("2.57", files.clone()).await.status, 400, "2.57 accepts files");
    assert_eq!(server.ask("2.56", files).await.status, 202);
    api.life.settled().await;

    server.refused(json!({"rebuild": {"imageRef": NO_IMAGE.to_string()}}), 400, "Cannot find image for rebuild").await;
    server
        .refused(json!({"rebuild": {"imageRef": IMAGE, "key_name": "nobody's"}}), 400, "Invalid key_name provided.")
        .await;
    server.done(json!({"os-start": null})).await;
    server.done(json!({"pause": null})).await;
    let words = format!("Cannot 'rebuild' instance {} while it is in vm_state paused", server.id);
    server.refused(json!({"rebuild": {"imageRef": IMAGE}}), 409, &words).await;
    server.done(json!({"unpause": null})).await;

    // A failed rebuild leaves the server in error; from there it can be rebuilt again.
    api.world.fleet.set_all_faults(&FaultPlan::default().with(
        DriverCall::Redefine,
        FaultTrigger::Always,
        Effect::Refuse,
    ));
    server.done(json!({"rebuild": {"imageRef": IMAGE}})).await;
    let now = server.shown().await;
    assert_eq!((&now["status"], &now["fault"]["code"]), (&json!("ERROR"), &json!(500)));
    api.world.fleet.set_all_faults(&FaultPlan::default());
    server.done(json!({"rebuild": {"imageRef": IMAGE}})).await;
    assert_eq!(server.status().await, "ACTIVE");
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_rescued_server_runs_from_another_disk() {
    let api = Api::start().await;
    let server = Subject::new(&api, Api::wish("web")).await;
    let host = api.life.host_of(&api.world, server.instance()).unwrap();
    let rescued = |api: &Api| api.world.fleet.guests(host)[&server.instance()].rescued;
    let words = format!("Requested rescue image '{NO_IMAGE}' is not supported");
    server.refused(json!({"rescue": {"rescue_image_ref": NO_IMAGE.to_string()}}), 400, &words).await;
    let other = api.image(&[]).await;
    let answer = server.ask("2.1", json!({"rescue": {"adminPass": "MySecretPass", "rescue_image_ref": other}})).await;
    assert_eq!((answer.status, &answer.body), (200, &json!({"adminPass": "MySecretPass"})));
    api.life.settled().await;
    let shown = server.shown().await;
    assert_eq!((&shown["status"], &shown["OS-EXT-STS:vm_state"]), (&json!("RESCUE"), &json!("rescued")));
    assert!(rescued(&api));
    let image = || api.life.instance_now(server.instance()).alive().unwrap().rescue.as_ref().unwrap().id;
    assert_eq!(image(), other);
    let words = format!("Cannot 'rescue' instance {} while it is in vm_state rescued", server.id);
    server.refused(json!({"rescue": null}), 409, &words).await;
    server.done(json!({"unrescue": null})).await;
    assert_eq!(server.status().await, "ACTIVE");
    assert!(!rescued(&api));
    let words = format!("Cannot 'unrescue' instance {} while it is in vm_state active", server.id);
    server.refused(json!({"unrescue": null}), 409, &words).await;
    let large = api.image(&[("virtual_gib", "2")]).await;
    let words = format!(
        "Instance {} cannot be rescued: the rescue image has 2147483648 bytes, the flavor's disk 1073741824. \
         Choose a smaller image.",
        server.id
    );
    server.refused(json!({"rescue": {"rescue_image_ref": large}}), 400, &words).await;
    // Without parameters, the rescue uses the server's own image and a generated password.
    let answer = server.ask("2.1", json!({"rescue": null})).await;
    assert_eq!(answer.body["adminPass"].as_str().unwrap().len(), 12);
    api.life.settled().await;
    assert_eq!(image(), OneImage::snapshot().id);
    server.done(json!({"unrescue": null})).await;

    // A rescue that fails leaves the server running from its own disk.
    let nth = api.world.fleet.calls(DriverCall::Redefine);
    api.world.fleet.set_all_faults(&FaultPlan::default().with(
        DriverCall::Redefine,
        FaultTrigger::Nth(nth + 1),
        Effect::Refuse,
    ));
    server.done(json!({"rescue": null})).await;
    assert_eq!((server.status().await.as_str(), rescued(&api)), ("ACTIVE", false));
    assert_eq!(server.actions().await[0], "rescue");
    assert!(
        server.api.get(&format!("{}/os-instance-actions", server.path), "2.58").await["instanceActions"][0]["message"]
            == "Error"
    );
    // A delete during a rescue leaves nothing behind.
    server.done(json!({"rescue": null})).await;
    assert_eq!(api.call("DELETE", &server.path, "2.1", USER, None).await.status, 204);
    api.life.settled().await;
    api.world.check().await;
    api.stop().await;
}

/// An administrator has reset the server's state. A soft reboot that becomes a hard one keeps the rescue disk, and a hard
/// reboot ends the rescue.
#[actix_rt::test]
async fn a_soft_reboot_of_a_rescued_guest_keeps_its_rescue_disk() {
    let api = Api::start().await;
    let server = Subject::new(&api, Api::wish("web")).await;
    let host = api.life.host_of(&api.world, server.instance()).unwrap();
    let rescued = || api.world.fleet.guests(host)[&server.instance()].rescued;
    server.done(json!({"rescue": null})).await;
    let reset = json!({"os-resetState": {"state": "active"}});
    assert_eq!(server.ask_as(ADMIN, "2.1", reset).await.status, 202);
    api.life.settled().await;
    let refused = FaultPlan::default().with(DriverCall::RebootSoft, FaultTrigger::Always, Effect::Refuse);
    api.world.fleet.set_all_faults(&refused);
    for (kind, keeps) in [("SOFT", true), ("HARD", false)] {
        server.done(json!({"reboot": {"type": kind}})).await;
        assert_eq!((server.status().await.as_str(), rescued()), ("ACTIVE", keeps), "{kind}");
    }
    assert_eq!(api.world.fleet.calls(DriverCall::RebootHard), 1);
    api.stop().await;
}

#[actix_rt::test]
async fn a_shelved_server_comes_back_where_there_is_room() {
    let mut world = World::new(2);
    world.options.servers.shelved_offload = Some(Duration::ZERO);
    let api = Api::start_of(world, "", None).await;
    let server = Subject::new(&api, Api::wish("web")).await;
    let before = server.shown().await;
    server.done(json!({"shelve": null})).await;
    let shown = server.shown().await;
    assert_eq!(
        (&shown["status"], &shown["OS-EXT-STS:vm_state"]),
        (&json!("SHELVED_OFFLOADED"), &json!("shelved_offloaded"))
    );
    assert_eq!((&shown["OS-EXT-SRV-ATTR:host"], &shown["hostId"]), (&Value::Null, &json!("")));
    assert_eq!(shown["addresses"], before["addresses"], "the server has other addresses");
    let made = api.world.images.made();
    let (_, image) = made.first_key_value().unwrap();
    assert_eq!(image.draft.name, "web-shelved");
    let allocations = api.ask("GET", &format!("/placement/allocations/{}", server.id), "2.1", ADMIN, None).await;
    assert_eq!(allocations.body["allocations"], json!({}));
    api.world.check().await;

    // The destination: from 2.77 on a zone, from 2.91 on a host, which only administrators may choose.
    for (version, body, token, status, words) in [
        ("2.76", json!({"availability_zone": "moon"}), USER, 202, ""),
        ("2.77", json!({"availability_zone": "moon"}), USER, 400, "The requested availability zone is not available"),
        ("2.77", json!({"availability_zone": "nova"}), USER, 202, ""),
        ("2.77", json!({"host": "sim-0"}), USER, 400, ""),
        ("2.90", json!({"availability_zone": null}), USER, 400, ""),
        ("2.91", json!({"host": "nowhere"}), ADMIN, 400, "Compute host nowhere could not be found."),
        ("2.91", json!({"host": api.world.fleet.hostname(1)}), USER, 403, ""),
    ] {
        let answer = server.ask_as(token, version, json!({"unshelve": body})).await;
        assert_eq!(answer.status, status, "{version} {body}: {:?}", answer.body);
        assert!(words.is_empty() || answer.message() == words, "{:?}", answer.body);
        api.life.settled().await;
        if status == 202 {
            assert_eq!(server.status().await, "ACTIVE", "{version} {body}");
            assert!(api.world.images.made().is_empty(), "the unshelve left the image");
            server.done(json!({"shelve": null})).await;
        }
    }
    // The server keeps the zone of its last unshelve, until `null` frees it.
    assert_eq!(server.shown().await["pinned_availability_zone"], "nova");
    for host in [1, 0] {
        let name = api.world.fleet.hostname(host);
        let action = json!({"unshelve": {"host": name, "availability_zone": null}});
        assert_eq!(server.ask_as(ADMIN, "2.91", action).await.status, 202);
        api.life.settled().await;
        let shown = server.shown().await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], name);
        assert_eq!(shown["pinned_availability_zone"], Value::Null);
        server.done(json!({"shelve": null})).await;
    }
    let elsewhere = json!({"unshelve": {"host": api.world.fleet.hostname(0), "availability_zone": "nova"}});
    assert_eq!(server.ask_as(ADMIN, "2.91", elsewhere).await.status, 202);
    api.life.settled().await;
    assert_eq!(server.shown().await["pinned_availability_zone"], "nova");
    let words = format!(
        "Specifying an availability zone or a host when unshelving server \"{}\" with status \"active\" is not \
         supported. The server status must be SHELVED_OFFLOADED.",
        server.id
    );
    let refused = server.ask_as(ADMIN, "2.91", json!({"unshelve": {"availability_zone": "nova"}})).await;
    assert_eq!(refused.status, 409, "{words}");

    // No host has room, so the server stays shelved and its disk is kept.
    server.done(json!({"shelve": null})).await;
    api.world.fleet.set_all_faults(&FaultPlan::default().with(DriverCall::Spawn, FaultTrigger::Always, Effect::NoRoom));
    server.done(json!({"unshelve": null})).await;
    assert_eq!((server.status().await.as_str(), api.world.images.made().len()), ("SHELVED_OFFLOADED", 1));
    api.world.check().await;
    api.world.fleet.set_all_faults(&FaultPlan::default());
    server.done(json!({"unshelve": null})).await;
    assert_eq!(server.status().await, "ACTIVE");
    assert_eq!(server.actions().await[..2], ["unshelve", "unshelve"]);
    // The guest is created again from the same disk.
    let host = api.life.host_of(&api.world, server.instance()).unwrap();
    api.world.fleet.lose_guest(host, server.instance()).unwrap();
    api.life.shows(server.instance(), "SHUTOFF").await;
    server.done(json!({"os-start": null})).await;
    assert_eq!(server.status().await, "ACTIVE");
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_shelved_server_that_is_on_its_host_is_only_started() {
    let api = Api::start().await;
    let server = Subject::new(&api, Api::wish("web")).await;
    server.done(json!({"shelve": null})).await;
    assert_eq!(server.status().await, "SHELVED");
    let refused = server.ask("2.77", json!({"unshelve": {"availability_zone": "nova"}})).await;
    assert_eq!(refused.status, 409);
    assert!(refused.message().contains("with status \"shelved\""), "{:?}", refused.body);
    assert_eq!(server.ask("2.1", json!({"shelveOffload": null})).await.status, 403, "a user may offload");
    server.done(json!({"unshelve": null})).await;
    assert_eq!(server.status().await, "ACTIVE");
    assert!(api.world.images.made().is_empty());
    server.done(json!({"shelve": null})).await;
    assert_eq!(server.ask_as(ADMIN, "2.1", json!({"shelveOffload": null})).await.status, 202);
    api.life.settled().await;
    assert_eq!(server.status().await, "SHELVED_OFFLOADED");
    // A delete also removes its disk.
    assert_eq!(api.call("DELETE", &server.path, "2.1", USER, None).await.status, 204);
    api.life.settled().await;
    assert!(api.world.images.made().is_empty());
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_password_reaches_the_guest_and_nothing_else() {
    const SECRET: &str = "correct horse battery staple";
    let api = Api::start().await;
    let server = Subject::new(&api, Api::wish("web")).await;
    let action = || json!({"changePassword": {"adminPass": SECRET}});
    let without = FaultPlan::default().with(DriverCall::SetPassword, FaultTrigger::Always, Effect::NoAgent);
    api.world.fleet.set_all_faults(&without);
    server.refused(action(), 409, "QEMU guest agent is not enabled").await;
    assert_eq!(server.status().await, "ACTIVE");
    api.world.fleet.set_all_faults(&FaultPlan::default());
    // Simulated hosts set the password without an agent, as Nova's fake driver does.
    server.done(action()).await;

    // An image with the properties for a guest agent and for the name of the administrator.
    let id = InstanceId::random();
    let mut request = chronova_tests::world::build_request(id);
    request.project = chronova_events::ids::ProjectId::new("web");
    request.number = 77;
    let properties = &mut std::sync::Arc::make_mut(request.image.as_mut().unwrap()).properties;
    properties.push(("hw_qemu_guest_agent".to_owned(), "yes".to_owned()));
    properties.push(("os_admin_user".to_owned(), "boss".to_owned()));
    api.life.build_of(request).await.unwrap();
    api.life.settled().await;
    let server = Subject { api: &api, id: id.to_string(), path: format!("/servers/{id}") };
    let answer = server.ask("2.1", action()).await;
    assert_eq!((answer.status, &answer.body), (202, &Value::Null), "{:?}", answer.body);
    let host = api.life.host_of(&api.world, id).unwrap();
    let told = api.world.fleet.guests(host)[&id].password.clone();
    assert_eq!(told, Some(("boss".to_owned(), SECRET.to_owned())));
    assert!(!api.world.trail().await.contains(SECRET), "an event has the password");
    api.life.settled().await;
    assert_eq!(server.actions().await[0], "changePassword");

    // No agent answers: `notImplemented` with Nova's message.
    api.world.fleet.set_deaf(host, id, true).unwrap();
    server.refused(action(), 501, "Unable to set password on instance").await;
    api.world.fleet.set_deaf(host, id, false).unwrap();
    api.world.fleet.set_all_faults(&FaultPlan::default().with(
        DriverCall::SetPassword,
        FaultTrigger::Always,
        Effect::Refuse,
    ));
    let words = format!("Failed to set admin password on {id} because error setting admin password");
    server.refused(action(), 409, &words).await;
    api.life.settled().await;
    server.done(json!({"os-stop": null})).await;
    let words = format!("Cannot 'changePassword' instance {id} while it is in vm_state stopped");
    server.refused(action(), 409, &words).await;
    api.world.check().await;
    api.stop().await;
}

/// In Nova, these actions have the rule `project_member_or_admin`, except `shelveOffload`.
#[actix_rt::test]
async fn readers_and_other_projects_cannot_change_servers() {
    let api = Api::start().await;
    let server = Subject::new(&api, Api::wish("web")).await;
    for body in [
        json!({"createImage": {"name": "x"}}),
        json!({"createBackup": {"name": "x", "backup_type": "d", "rotation": 1}}),
        json!({"rebuild": {"imageRef": IMAGE}}),
        json!({"rescue": null}),
        json!({"unrescue": null}),
        json!({"shelve": null}),
        json!({"shelveOffload": null}),
        json!({"unshelve": null}),
        json!({"changePassword": {"adminPass": "x"}}),
    ] {
        let stranger = server.ask_as("bob:other", "2.100", body.clone()).await;
        assert_eq!(
            (stranger.status, stranger.message()),
            (404, format!("Instance {} could not be found.", server.id).as_str()),
            "{body}"
        );
        let path = format!("/compute/v2.1{}/action", server.path);
        let reader = api.ask_as("POST", &path, "2.100", USER, Some("reader"), Some(body.clone())).await;
        assert_eq!(reader.status, 403, "{body}: {:?}", reader.body);
        assert!(reader.message().starts_with("Policy doesn't allow os_compute_api:"), "{body}: {:?}", reader.body);
    }
    api.life.settled().await;
    assert_eq!((server.actions().await, server.status().await), (vec!["create".to_owned()], "ACTIVE".to_owned()));
    assert!(api.world.images.made().is_empty(), "a refused action has made an image");
    api.stop().await;
}
