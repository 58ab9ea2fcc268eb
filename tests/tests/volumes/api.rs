//! The API, as clients of Cinder use it.

use chronova_tests::compute_api::{ADMIN, Answer, Api};
use serde_json::{Value, json};

const MEMBER: &str = "member:p";

async fn ask(api: &Api, token: &str, method: &str, path: &str, body: Value) -> Answer {
    at(api, "3.59", token, method, path, body).await
}

async fn at(api: &Api, version: &str, token: &str, method: &str, path: &str, body: Value) -> Answer {
    let body = Some(body).filter(|body| !body.is_null());
    api.ask(method, &format!("/volume/v3{path}"), &format!("2.1, volume {version}"), token, body).await
}

/// Creates a volume and waits until it is available.
async fn volume(api: &Api, token: &str, mut request: Value) -> String {
    if request.get("size").is_none() {
        request["size"] = json!(1);
    }
    let made = ask(api, token, "POST", "/volumes", json!({"volume": request})).await;
    assert_eq!(made.status, 202, "{:?}", made.body);
    assert_eq!(made.body["volume"]["status"], "creating");
    api.life.settled().await;
    made.body["volume"]["id"].as_str().unwrap().to_owned()
}

async fn show(api: &Api, id: &str) -> Value {
    ask(api, ADMIN, "GET", &format!("/volumes/{id}"), Value::Null).await.body["volume"].clone()
}

async fn act(api: &Api, id: &str, action: Value) -> Answer {
    ask(api, ADMIN, "POST", &format!("/volumes/{id}/action"), action).await
}

#[actix_rt::test]
async fn volumes_are_made_shown_listed_changed_and_deleted() {
    let api = Api::start().await;
    let id = volume(&api, ADMIN, json!({"name": "data", "size": 2, "metadata": {"k": "v"}})).await;
    let seen = show(&api, &id).await;
    for (key, wanted) in [
        ("status", json!("available")),
        ("size", json!(2)),
        ("name", json!("data")),
        ("bootable", json!("false")),
        ("volume_type", json!("__DEFAULT__")),
        ("attachments", json!([])),
        ("encrypted", json!(false)),
        ("metadata", json!({"k": "v"})),
        ("availability_zone", json!("nova")),
        ("shared_targets", json!(false)),
    ] {
        assert_eq!(seen[key], wanted, "{key}");
    }
    assert!(seen["os-vol-host-attr:host"].as_str().unwrap().contains('@'));
    assert!(seen.get("volume_type_id").is_none(), "from 3.63 on");
    let other = volume(&api, ADMIN, json!({"name": "other"})).await;
    let list = ask(&api, ADMIN, "GET", "/volumes/detail?sort=size:desc", Value::Null).await;
    let ids: Vec<&str> = list.body["volumes"].as_array().unwrap().iter().map(|v| v["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&id, &other]);
    let page = ask(&api, ADMIN, "GET", "/volumes?limit=1&with_count=true", Value::Null).await;
    assert_eq!((page.body["volumes"].as_array().unwrap().len(), &page.body["count"]), (1, &json!(2)));
    assert!(page.body["volumes_links"][0]["href"].as_str().unwrap().contains(&format!("marker={other}")));
    let changed = ask(&api, ADMIN, "PUT", &format!("/volumes/{id}"), json!({"volume": {"name": "new"}})).await;
    assert_eq!((changed.status, &changed.body["volume"]["name"]), (200, &json!("new")));
    let set = ask(&api, ADMIN, "POST", &format!("/volumes/{id}/metadata"), json!({"metadata": {"a": "b"}})).await;
    assert_eq!(set.body["metadata"], json!({"a": "b", "k": "v"}));
    let gone = ask(&api, ADMIN, "DELETE", &format!("/volumes/{id}/metadata/c"), Value::Null).await;
    assert_eq!((gone.status, gone.message()), (404, format!("Volume {id} has no metadata with key c.").as_str()));
    assert_eq!(ask(&api, ADMIN, "DELETE", &format!("/volumes/{id}"), Value::Null).await.status, 202);
    api.life.settled().await;
    let gone = ask(&api, ADMIN, "GET", &format!("/volumes/{id}"), Value::Null).await;
    assert_eq!((gone.status, gone.message()), (404, format!("Volume {id} could not be found.").as_str()));
    assert_eq!(gone.body["itemNotFound"]["code"], 404);
    api.stop().await;
}

#[actix_rt::test]
async fn volumes_come_from_images_snapshots_and_volumes() {
    let api = Api::start().await;
    let image = "00000000-0000-0000-0000-000000000000";
    let root = volume(&api, ADMIN, json!({"imageRef": image})).await;
    let seen = show(&api, &root).await;
    assert_eq!((&seen["bootable"], &seen["volume_image_metadata"]["image_id"]), (&json!("true"), &json!(image)));
    let body = json!({"snapshot": {"volume_id": root, "name": "s"}});
    let snapshot = ask(&api, ADMIN, "POST", "/snapshots", body).await;
    assert_eq!(snapshot.status, 202, "{:?}", snapshot.body);
    let snapshot = snapshot.body["snapshot"]["id"].as_str().unwrap().to_owned();
    api.life.settled().await;
    let seen = ask(&api, ADMIN, "GET", &format!("/snapshots/{snapshot}"), Value::Null).await.body;
    assert_eq!((&seen["snapshot"]["status"], &seen["snapshot"]["size"]), (&json!("available"), &json!(1)));
    let copy = volume(&api, ADMIN, json!({"snapshot_id": snapshot, "size": 3})).await;
    let seen = show(&api, &copy).await;
    assert_eq!((&seen["snapshot_id"], &seen["size"], &seen["bootable"]), (&json!(snapshot), &json!(3), &json!("true")));
    let twin = volume(&api, ADMIN, json!({"source_volid": copy, "size": 3})).await;
    assert_eq!(show(&api, &twin).await["source_volid"], json!(copy));
    let body = json!({"volume": {"source_volid": copy, "size": 2}});
    let small = ask(&api, ADMIN, "POST", "/volumes", body).await;
    assert_eq!(small.status, 400);
    assert!(small.message().contains("cannot be smaller than original volume size"), "{}", small.message());
    // A volume with snapshots cannot be deleted, unless the request also deletes them.
    let kept = ask(&api, ADMIN, "DELETE", &format!("/volumes/{root}"), Value::Null).await;
    assert_eq!(kept.status, 400);
    assert!(kept.message().contains("have snapshots"), "{}", kept.message());
    assert_eq!(ask(&api, ADMIN, "DELETE", &format!("/volumes/{root}?cascade=True"), Value::Null).await.status, 202);
    api.life.settled().await;
    assert_eq!(ask(&api, ADMIN, "GET", &format!("/snapshots/{snapshot}"), Value::Null).await.status, 404);
    api.stop().await;
}

#[actix_rt::test]
async fn quotas_are_exact() {
    let api = Api::start().await;
    let set = json!({"quota_set": {"volumes": 2, "gigabytes": 5, "snapshots": 1}});
    let changed = ask(&api, ADMIN, "PUT", "/os-quota-sets/admin", set).await;
    assert_eq!((changed.status, &changed.body["quota_set"]["gigabytes"]), (200, &json!(5)), "{:?}", changed.body);
    let id = volume(&api, ADMIN, json!({"size": 2})).await;
    let over = ask(&api, ADMIN, "POST", "/volumes", json!({"volume": {"size": 4}})).await;
    assert_eq!(over.status, 413);
    assert_eq!(over.body["overLimit"]["code"], 413);
    assert!(over.message().contains("Requested 4G, quota is 5G and 2G has been consumed"), "{}", over.message());
    volume(&api, ADMIN, json!({"size": 1})).await;
    let over = ask(&api, ADMIN, "POST", "/volumes", json!({"volume": {"size": 1}})).await;
    assert!(over.message().contains("Maximum number of volumes allowed (2) exceeded"), "{}", over.message());
    let over = act(&api, &id, json!({"os-extend": {"new_size": 5}})).await;
    assert_eq!(over.status, 413, "{:?}", over.body);
    assert_eq!(act(&api, &id, json!({"os-extend": {"new_size": 4}})).await.status, 202);
    api.life.settled().await;
    assert_eq!(show(&api, &id).await["size"], 4);
    let limits = ask(&api, ADMIN, "GET", "/limits", Value::Null).await.body["limits"]["absolute"].clone();
    let seen = ["maxTotalVolumes", "totalVolumesUsed", "totalGigabytesUsed"].map(|key| limits[key].clone());
    assert_eq!(seen, [json!(2), json!(2), json!(5)]);
    let usage = ask(&api, ADMIN, "GET", "/os-quota-sets/admin?usage=True", Value::Null).await.body;
    assert_eq!(usage["quota_set"]["gigabytes"]["in_use"], 5);
    assert_eq!(ask(&api, ADMIN, "DELETE", "/os-quota-sets/admin", Value::Null).await.status, 200);
    let now = ask(&api, ADMIN, "GET", "/os-quota-sets/admin", Value::Null).await.body;
    assert_eq!(now["quota_set"]["volumes"], 10);
    api.stop().await;
}

#[actix_rt::test]
async fn a_refused_extension_gives_back_no_quota_of_another() {
    let api = Api::start().await;
    let id = volume(&api, ADMIN, json!({"size": 2})).await;
    let extend = |size: u32| act(&api, &id, json!({"os-extend": {"new_size": size}}));
    let (first, second) = futures::future::join(extend(9), extend(5)).await;
    assert!(first.status == 202 || second.status == 202, "{:?} {:?}", first.body, second.body);
    api.life.settled().await;
    let limits = ask(&api, ADMIN, "GET", "/limits", Value::Null).await.body["limits"]["absolute"].clone();
    assert_eq!(
        limits["totalGigabytesUsed"],
        show(&api, &id).await["size"],
        "the quota does not count the whole volume"
    );
    api.stop().await;
}

#[actix_rt::test]
async fn the_use_of_each_volume_type_is_counted() {
    let api = Api::start().await;
    let wish = json!({"volume_type": {"name": "fast"}});
    assert_eq!(ask(&api, ADMIN, "POST", "/types", wish).await.status, 200);
    let fast = volume(&api, ADMIN, json!({"size": 2, "volume_type": "fast"})).await;
    volume(&api, ADMIN, json!({"size": 3, "volume_type": "fast"})).await;
    volume(&api, ADMIN, json!({"size": 1})).await;
    let request = json!({"snapshot": {"volume_id": fast, "name": "then"}});
    assert_eq!(ask(&api, ADMIN, "POST", "/snapshots", request).await.status, 202);
    api.life.settled().await;
    let in_use = async || {
        let usage = ask(&api, ADMIN, "GET", "/os-quota-sets/admin?usage=True", Value::Null).await.body;
        ["volumes_fast", "gigabytes_fast", "snapshots_fast", "volumes___DEFAULT__", "gigabytes___DEFAULT__", "volumes"]
            .map(|name| usage["quota_set"][name]["in_use"].as_u64().unwrap())
    };
    assert_eq!(in_use().await, [2, 7, 1, 1, 1, 3]);
    assert_eq!(ask(&api, ADMIN, "DELETE", &format!("/volumes/{fast}?cascade=True"), Value::Null).await.status, 202);
    api.life.settled().await;
    assert_eq!(in_use().await, [1, 3, 0, 1, 1, 2]);
    let plain = ask(&api, ADMIN, "GET", "/os-quota-sets/admin", Value::Null).await.body;
    assert_eq!(plain["quota_set"]["volumes_fast"], -1);
    api.stop().await;
}

#[actix_rt::test]
async fn an_attachment_is_reserved_connected_and_completed() {
    let api = Api::start().await;
    let id = volume(&api, ADMIN, json!({})).await;
    let host = show(&api, &id).await["os-vol-host-attr:host"].as_str().unwrap().split('@').next().unwrap().to_owned();
    let server = "11111111-2222-4333-8444-555555555555";
    let request = json!({"attachment": {"volume_uuid": id, "instance_uuid": server}});
    assert_eq!(at(&api, "3.26", ADMIN, "POST", "/attachments", request.clone()).await.status, 404, "from 3.27 on");
    let made = ask(&api, ADMIN, "POST", "/attachments", request).await;
    assert_eq!((made.status, &made.body["attachment"]["status"]), (200, &json!("reserved")), "{:?}", made.body);
    let attachment = made.body["attachment"]["id"].as_str().unwrap().to_owned();
    assert_eq!(show(&api, &id).await["status"], "reserved");
    let other = json!({"attachment": {"volume_uuid": id, "instance_uuid": "99999999-2222-4333-8444-555555555555"}});
    let refused = ask(&api, ADMIN, "POST", "/attachments", other).await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.message(), format!("Invalid volume: Volume {id} status must be available or downloading"));
    let path = format!("/attachments/{attachment}");
    let elsewhere = json!({"attachment": {"connector": {"host": "nowhere"}}});
    assert_eq!(ask(&api, ADMIN, "PUT", &path, elsewhere).await.status, 400, "an unknown host was accepted");
    let connector = json!({"attachment": {"connector": {"host": host, "mountpoint": "/dev/vdb"}}});
    let connected = ask(&api, ADMIN, "PUT", &path, connector).await;
    assert_eq!(connected.status, 200, "{:?}", connected.body);
    let way = &connected.body["attachment"]["connection_info"];
    assert_eq!((&way["pool"], &way["volume"]), (&json!("chronova-volumes"), &json!(format!("volume-{id}"))));
    let complete = ask(&api, ADMIN, "POST", &format!("{path}/action"), json!({"os-complete": null})).await;
    assert_eq!(complete.status, 204, "{:?}", complete.body);
    let seen = show(&api, &id).await;
    assert_eq!((&seen["status"], &seen["attachments"][0]["server_id"]), (&json!("in-use"), &json!(server)));
    assert_eq!(seen["attachments"][0]["device"], "/dev/vdb");
    let used = ask(&api, ADMIN, "POST", "/snapshots", json!({"snapshot": {"volume_id": id}})).await;
    assert_eq!(used.status, 400, "a snapshot of a volume in use was made without `force`");
    assert_eq!(act(&api, &id, json!({"os-begin_detaching": null})).await.status, 202);
    assert_eq!(act(&api, &id, json!({"os-begin_detaching": null})).await.status, 400);
    assert_eq!(act(&api, &id, json!({"os-roll_detaching": null})).await.status, 202);
    assert_eq!(ask(&api, ADMIN, "DELETE", &path, Value::Null).await.status, 200);
    assert_eq!(show(&api, &id).await["status"], "available");
    // The connector of a host outside the cloud may have no `host`.
    let initiator = json!({"initiator": "iqn.1993-08.org.debian:01:a", "ip": "192.0.2.7"});
    let request = json!({"attachment": {"volume_uuid": id, "instance_uuid": server, "connector": initiator}});
    let made = ask(&api, ADMIN, "POST", "/attachments", request).await;
    assert_eq!(made.status, 200, "{:?}", made.body);
    assert_eq!(made.body["attachment"]["connection_info"]["volume"], format!("volume-{id}"), "{:?}", made.body);
    api.stop().await;
}

#[actix_rt::test]
async fn the_older_actions_of_attachments_work_too() {
    let api = Api::start().await;
    let id = volume(&api, ADMIN, json!({})).await;
    let server = "11111111-2222-4333-8444-555555555555";
    for (action, status) in [
        (json!({"os-reserve": null}), "reserved"),
        (json!({"os-unreserve": null}), "available"),
        (json!({"os-attach": {"instance_uuid": server, "mountpoint": "/dev/vdc", "mode": "rw"}}), "in-use"),
        (json!({"os-detach": {}}), "available"),
        (json!({"os-reset_status": {"status": "error"}}), "error"),
        (json!({"os-reset_status": {"status": "available", "attach_status": "detached"}}), "available"),
        (json!({"os-set_bootable": {"bootable": true}}), "available"),
        (json!({"os-update_readonly_flag": {"readonly": true}}), "available"),
    ] {
        let done = act(&api, &id, action.clone()).await;
        assert!(done.status < 300, "{action}: {:?}", done.body);
        assert_eq!(show(&api, &id).await["status"], status, "{action}");
    }
    assert_eq!(show(&api, &id).await["bootable"], "true");
    let set = act(&api, &id, json!({"os-set_image_metadata": {"metadata": {"hw_disk_bus": "scsi"}}})).await;
    assert_eq!(set.body["metadata"], json!({"hw_disk_bus": "scsi"}), "{:?}", set.body);
    let way = act(&api, &id, json!({"os-initialize_connection": {"connector": {}}})).await;
    assert_eq!(way.body["connection_info"]["data"]["access_mode"], "ro", "{:?}", way.body);
    let upload = act(&api, &id, json!({"os-volume_upload_image": {"image_name": "n".repeat(256)}})).await;
    assert_eq!(upload.status, 400);
    assert!(upload.body.to_string().contains("image_name: the name has more than 255"), "{:?}", upload.body);
    let retype = act(&api, &id, json!({"os-retype": {"new_type": "__DEFAULT__", "migration_policy": "never"}})).await;
    assert_eq!(retype.status, 400);
    assert_eq!(act(&api, &id, json!({"os-nonsense": {}})).await.status, 400);
    assert_eq!(act(&api, &id, json!({"os-force_delete": null})).await.status, 202);
    api.life.settled().await;
    assert_eq!(ask(&api, ADMIN, "GET", &format!("/volumes/{id}"), Value::Null).await.status, 404);
    api.stop().await;
}

#[actix_rt::test]
async fn types_decide_who_may_share() {
    let api = Api::start().await;
    let listed = ask(&api, MEMBER, "GET", "/types", Value::Null).await;
    assert_eq!(listed.body["volume_types"][0]["name"], "__DEFAULT__", "{:?}", listed.body);
    let request = json!({"volume_type": {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}});
    let made = ask(&api, ADMIN, "POST", "/types", request.clone()).await;
    assert_eq!(made.status, 200, "{:?}", made.body);
    let kind = made.body["volume_type"]["id"].as_str().unwrap().to_owned();
    assert_eq!(ask(&api, ADMIN, "POST", "/types", request).await.status, 409);
    // Horizon asks for these with every list of types.
    let encryption = ask(&api, ADMIN, "GET", &format!("/types/{kind}/encryption"), Value::Null).await;
    assert_eq!((encryption.status, encryption.body), (200, json!({})));
    assert_eq!(ask(&api, MEMBER, "GET", &format!("/types/{kind}/encryption"), Value::Null).await.status, 403);
    let unknown = "/types/33333333-2222-4333-8444-555555555555/encryption";
    assert_eq!(ask(&api, ADMIN, "GET", unknown, Value::Null).await.status, 404);
    assert_eq!(ask(&api, MEMBER, "GET", "/group_types", Value::Null).await.body, json!({"group_types": []}));
    assert_eq!(at(&api, "3.10", MEMBER, "GET", "/group_types", Value::Null).await.status, 404);
    let id = volume(&api, ADMIN, json!({"volume_type": "shared"})).await;
    assert_eq!(show(&api, &id).await["multiattach"], true);
    for server in ["11111111-2222-4333-8444-555555555555", "22222222-2222-4333-8444-555555555555"] {
        let action = json!({"os-attach": {"instance_uuid": server, "mountpoint": "/dev/vdc"}});
        assert_eq!(act(&api, &id, action).await.status, 202);
    }
    assert_eq!(show(&api, &id).await["attachments"].as_array().unwrap().len(), 2);
    assert_eq!(ask(&api, ADMIN, "DELETE", &format!("/types/{kind}"), Value::Null).await.status, 400, "it was deleted");
    let secret = json!({"volume_type": {"name": "secret", "os-volume-type-access:is_public": false}});
    let secret =
        ask(&api, ADMIN, "POST", "/types", secret).await.body["volume_type"]["id"].as_str().unwrap().to_owned();
    assert_eq!(ask(&api, MEMBER, "GET", &format!("/types/{secret}"), Value::Null).await.status, 404);
    let grant = json!({"addProjectAccess": {"project": "p"}});
    assert_eq!(ask(&api, ADMIN, "POST", &format!("/types/{secret}/action"), grant).await.status, 202);
    assert_eq!(ask(&api, MEMBER, "GET", &format!("/types/{secret}"), Value::Null).await.status, 200);
    let access = ask(&api, ADMIN, "GET", &format!("/types/{secret}/os-volume-type-access"), Value::Null).await;
    assert_eq!(access.body["volume_type_access"][0]["project_id"], "p");
    let specs = format!("/types/{kind}/extra_specs");
    assert_eq!(ask(&api, ADMIN, "POST", &specs, json!({"extra_specs": {"a": "b"}})).await.status, 200);
    assert_eq!(ask(&api, ADMIN, "GET", &format!("{specs}/a"), Value::Null).await.body, json!({"a": "b"}));
    assert_eq!(ask(&api, ADMIN, "DELETE", &format!("{specs}/a"), Value::Null).await.status, 202);
    assert_eq!(ask(&api, ADMIN, "DELETE", &format!("{specs}/a"), Value::Null).await.status, 404);
    api.stop().await;
}

#[actix_rt::test]
async fn others_see_nothing_and_may_do_little() {
    let api = Api::start().await;
    let id = volume(&api, ADMIN, json!({})).await;
    for (method, path) in [
        ("GET", format!("/volumes/{id}")),
        ("DELETE", format!("/volumes/{id}")),
        ("GET", format!("/volumes/{id}/metadata")),
    ] {
        assert_eq!(ask(&api, MEMBER, method, &path, Value::Null).await.status, 404, "{method} {path}");
    }
    let list = ask(&api, MEMBER, "GET", "/volumes/detail?all_tenants=1", Value::Null).await;
    assert_eq!(list.body["volumes"], json!([]));
    let own = volume(&api, MEMBER, json!({})).await;
    let reset = json!({"os-reset_status": {"status": "error"}});
    let refused = ask(&api, MEMBER, "POST", &format!("/volumes/{own}/action"), reset).await;
    assert_eq!(refused.status, 403);
    let seen = ask(&api, MEMBER, "GET", &format!("/volumes/{own}"), Value::Null).await.body["volume"].clone();
    assert!(seen.get("os-vol-host-attr:host").is_none() && seen.get("id").is_some());
    let all = ask(&api, ADMIN, "GET", "/volumes?all_tenants=1", Value::Null).await;
    assert_eq!(all.body["volumes"].as_array().unwrap().len(), 2);
    assert_eq!(ask(&api, MEMBER, "GET", "/os-services", Value::Null).await.status, 403);
    api.stop().await;
}

#[actix_rt::test]
async fn invalid_volume_requests_are_refused() {
    let api = Api::start().await;
    for (body, status) in [
        (json!({"volume": {"size": 0}}), 400),
        (json!({"volume": {"size": "x"}}), 400),
        (json!({"volume": {}}), 400),
        (json!({"volume": {"size": 1, "nonsense": 1}}), 400),
        (json!({"size": 1}), 400),
        (json!({"volume": {"size": 1, "volume_type": "none"}}), 404),
        (json!({"volume": {"size": 1, "availability_zone": "moon"}}), 400),
        (json!({"volume": {"size": 1, "multiattach": true}}), 400),
        (json!({"volume": {"size": 1, "snapshot_id": "11111111-2222-4333-8444-555555555555"}}), 404),
        (json!({"volume": {"size": 1, "metadata": {"k": "v".repeat(300)}}}), 400),
    ] {
        let answer = ask(&api, ADMIN, "POST", "/volumes", body.clone()).await;
        assert_eq!(answer.status, status, "{body}: {:?}", answer.body);
        assert!(!answer.message().is_empty(), "{body}");
    }
    assert_eq!(at(&api, "3.99", ADMIN, "GET", "/volumes", Value::Null).await.status, 406);
    assert_eq!(at(&api, "banana", ADMIN, "GET", "/volumes", Value::Null).await.status, 400);
    assert_eq!(ask(&api, ADMIN, "GET", "/nonsense", Value::Null).await.status, 404);
    api.stop().await;
}

#[actix_rt::test]
async fn small_resources_of_the_volume_service_are_listed() {
    let api = Api::start().await;
    for (path, key) in [
        ("/os-availability-zone", "availabilityZoneInfo"),
        ("/os-services", "services"),
        ("/scheduler-stats/get_pools?detail=true", "pools"),
        ("/extensions", "extensions"),
        ("/messages", "messages"),
        ("/backups/detail", "backups"),
        ("/groups", "groups"),
        ("/volume-transfers", "transfers"),
        ("/volumes/summary", "volume-summary"),
        ("/attachments", "attachments"),
        ("/snapshots/detail", "snapshots"),
        ("/types/default", "volume_type"),
        ("/os-quota-class-sets/default", "quota_class_set"),
        ("/admin/volumes", "volumes"),
    ] {
        let answer = ask(&api, ADMIN, "GET", path, Value::Null).await;
        assert_eq!(answer.status, 200, "{path}: {:?}", answer.body);
        assert!(answer.body.get(key).is_some(), "{path}: {:?}", answer.body);
    }
    // python-openstackclient's functional tests look for this one.
    let extensions = ask(&api, ADMIN, "GET", "/extensions", Value::Null).await.body["extensions"].take();
    assert!(extensions.as_array().unwrap().iter().any(|one| one["name"] == "TypesManage"), "{extensions}");
    let versions = api.ask("GET", "/volume/", "2.1", ADMIN, None).await;
    assert_eq!((versions.status, &versions.body["versions"][0]["min_version"]), (300, &json!("3.0")));
    api.stop().await;
}

/// The image property `cinder_img_volume_type`, as Cinder takes it.
#[actix_rt::test]
async fn an_image_chooses_the_type_of_its_volumes() {
    let api = Api::start().await;
    let wish = json!({"volume_type": {"name": "fast"}});
    assert_eq!(ask(&api, ADMIN, "POST", "/types", wish).await.status, 200);
    for (property, wanted, made) in [
        (Some("fast"), None, "fast"),
        (Some("fast"), Some("__DEFAULT__"), "__DEFAULT__"),
        (Some("none"), None, "__DEFAULT__"),
        (None, None, "__DEFAULT__"),
    ] {
        let properties = property.map(|name| ("cinder_img_volume_type", name));
        let image = api.image(properties.as_slice()).await;
        let mut wish = json!({"imageRef": image});
        if let Some(kind) = wanted {
            wish["volume_type"] = json!(kind);
        }
        let id = volume(&api, ADMIN, wish).await;
        assert_eq!(show(&api, &id).await["volume_type"], made, "{property:?} {wanted:?}");
    }
    api.stop().await;
}
