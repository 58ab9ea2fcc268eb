//! Disks and volumes of a moved server: on one host, on another, and back.

use chronova_actors::reconcile::unconfirmed_moves;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{InstanceId, VolumeId};
use chronova_events::instance::Phase;
use chronova_tests::compute_api::{ADMIN, Api, IMAGE, NETWORK};
use chronova_tests::world::World;
use serde_json::{Value, json};

const OWNER: &str = "u:p";

async fn api(change: impl FnOnce(&mut World)) -> Api {
    let mut world = World::new(2);
    world.options.volume.shared = true;
    change(&mut world);
    let api = Api::start_of(world, "", None).await;
    api.flavor("2", 1024, 2).await;
    api
}

async fn act(api: &Api, id: &str, body: Value) -> (u16, String) {
    let answer = api.call("POST", &format!("/servers/{id}/action"), "2.1", OWNER, Some(body)).await;
    let seen = (answer.status, answer.message().to_owned());
    api.life.settled().await;
    seen
}

async fn shown(api: &Api, id: &str) -> Value {
    api.get(&format!("/servers/{id}"), "2.46").await["server"].take()
}

fn resize(flavor: &str) -> Value {
    json!({"resize": {"flavorRef": flavor}})
}

fn confirm() -> Value {
    json!({"confirmResize": null})
}

fn revert() -> Value {
    json!({"revertResize": null})
}

/// Creates an empty volume, on the host of `beside` if given.
async fn volume(api: &Api, beside: Option<&str>) -> String {
    api.life.data_volume(("p", "u"), beside, 1).await.to_string()
}

async fn attach(api: &Api, server: &str, volume: &str) -> u16 {
    let path = format!("/servers/{server}/os-volume_attachments");
    let body = json!({"volumeAttachment": {"volumeId": volume}});
    let status = api.call("POST", &path, "2.1", OWNER, Some(body)).await.status;
    api.life.settled().await;
    status
}

/// The hosts to which the volume is attached.
fn hosts_of(api: &Api, volume: &str) -> Vec<String> {
    let volume = volume.parse::<VolumeId>().unwrap();
    let known = api.life.context().views.volumes.read(|view| view.of(None));
    let record = known.into_iter().find(|known| known.created.volume == volume).unwrap();
    assert!(record.attachments.values().all(|attachment| attachment.complete));
    record.attachments.values().map(|attachment| attachment.host.clone().unwrap()).collect()
}

/// The volumes that the guest on the server's host has.
fn plugged(api: &Api, server: &str) -> Vec<String> {
    let id = server.parse::<InstanceId>().unwrap();
    let home = api.life.instance_now(id).alive().unwrap().placement.clone().unwrap().hostname;
    let at = (0..api.world.fleet.len()).find(|host| api.world.fleet.hostname(*host) == home).unwrap();
    api.world.fleet.guests(at)[&id].volumes.iter().cloned().collect()
}

async fn allocated(api: &Api, server: &str) -> Value {
    let path = format!("/placement/allocations/{server}");
    let allocations = api.ask("GET", &path, "1.28", ADMIN, None).await.body["allocations"].take();
    allocations.as_object().unwrap().values().next().unwrap()["resources"].clone()
}

async fn ends_well(api: Api) {
    api.life.stop().await;
    api.world.check().await;
}

#[actix_rt::test]
async fn a_resize_on_the_same_host_keeps_the_old_disk_until_it_is_confirmed() {
    let api = api(|world| world.options.processes.allow_resize_to_same_host = true).await;
    let server = api.server(OWNER, Api::wish("web")).await;
    let home = shown(&api, &server).await["OS-EXT-SRV-ATTR:host"].clone();
    let services = api.get("/os-services?binary=nova-compute", "2.53").await["services"].take();
    for other in services.as_array().unwrap().iter().filter(|service| service["host"] != home) {
        let path = format!("/os-services/{}", other["id"].as_str().unwrap());
        let disabled = api.call("PUT", &path, "2.53", ADMIN, Some(json!({"status": "disabled"}))).await;
        assert_eq!(disabled.status, 200);
    }
    api.life.settled().await;
    let id = server.parse::<InstanceId>().unwrap();
    for (ask, status, flavor) in [(revert(), 202, "1"), (confirm(), 204, "2")] {
        assert_eq!(act(&api, &server, resize("2")).await.0, 202);
        let now = shown(&api, &server).await;
        assert_eq!((&now["status"], &now["OS-EXT-SRV-ATTR:host"]), (&json!("VERIFY_RESIZE"), &home));
        assert_eq!(api.world.fleet.kept(), [id]);
        assert_eq!(allocated(&api, &server).await["MEMORY_MB"], 1024);
        api.world.check().await;
        assert_eq!(act(&api, &server, ask).await.0, status);
        let now = shown(&api, &server).await;
        assert_eq!((&now["status"], &now["flavor"]["id"]), (&json!("ACTIVE"), &json!(flavor)));
        assert_eq!(api.world.fleet.kept(), []);
    }
    // A migration needs another host, and there is none.
    let path = format!("/servers/{server}/action");
    assert_eq!(api.call("POST", &path, "2.1", ADMIN, Some(json!({"migrate": null}))).await.status, 202);
    api.life.settled().await;
    assert_eq!(shown(&api, &server).await["status"], "ACTIVE");
    assert_eq!(api.get("/os-migrations", "2.59").await["migrations"][0]["status"], "error");
    ends_well(api).await;
}

#[actix_rt::test]
async fn an_unconfirmed_resize_is_confirmed_after_the_configured_time() {
    let api = api(|world| world.options.reconcile.resize_confirm_window = std::time::Duration::from_millis(1)).await;
    let server = api.server(OWNER, Api::wish("web")).await;
    let home = shown(&api, &server).await["OS-EXT-SRV-ATTR:host"].clone();
    assert_eq!(act(&api, &server, resize("2")).await.0, 202);
    let id = server.parse::<InstanceId>().unwrap();
    assert!(
        api.life
            .until(|context| context
                .views
                .migrations
                .read(|view| view.all().all(|row| row.status.word() == "confirmed")))
            .await
    );
    api.life.settled().await;
    assert_eq!(api.life.status(id), "ACTIVE");
    let now = shown(&api, &server).await;
    assert_eq!(now["flavor"]["id"], "2");
    assert_ne!(now["OS-EXT-SRV-ATTR:host"], home);
    ends_well(api).await;
}

/// A move is due for its confirmation when it is as old as `resize_confirm_window`. Without a window, which is the
/// default, no move becomes due by its age.
#[actix_rt::test]
async fn a_resize_is_not_confirmed_before_its_time() {
    let api = api(|_| {}).await;
    assert!(api.world.options.reconcile.resize_confirm_window.is_zero());
    let server = api.server(OWNER, Api::wish("web")).await;
    assert_eq!(act(&api, &server, resize("2")).await.0, 202);
    let id = server.parse::<InstanceId>().unwrap();
    let Phase::Resized { since, .. } = api.life.instance_now(id).alive().unwrap().phase else {
        panic!("the server is not resized");
    };
    let due = |moved_by: Option<i64>| unconfirmed_moves::plan(&api.life.context().views, moved_by.map(Timestamp));
    assert_eq!((due(None), due(Some(since.0 - 1)), due(Some(since.0))), (vec![], vec![], vec![id]));
    ends_well(api).await;
}

#[actix_rt::test]
async fn volumes_follow_their_server_and_come_back_with_it() {
    let api = api(|_| {}).await;
    let server = api.server(OWNER, Api::wish("web")).await;
    let (first, second) = (volume(&api, None).await, volume(&api, None).await);
    assert_eq!(attach(&api, &server, &first).await, 200);
    let host = |shown: &Value| shown["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned();
    let home = host(&shown(&api, &server).await);
    assert_eq!(act(&api, &server, resize("2")).await.0, 202);
    let away = host(&shown(&api, &server).await);
    assert_ne!(away, home);
    assert_eq!((hosts_of(&api, &first), plugged(&api, &server)), (vec![away.clone()], vec![first.clone()]));
    api.world.check().await;

    // A volume that is attached between resize and revert stays with the server.
    assert_eq!(attach(&api, &server, &second).await, 200);
    let mut both = vec![first.clone(), second.clone()];
    both.sort();
    assert_eq!(act(&api, &server, revert()).await.0, 202);
    assert_eq!(host(&shown(&api, &server).await), home);
    assert_eq!((hosts_of(&api, &first), hosts_of(&api, &second)), (vec![home.clone()], vec![home.clone()]));
    assert_eq!(plugged(&api, &server), both);

    // A detached volume does not come back.
    assert_eq!(act(&api, &server, resize("2")).await.0, 202);
    let path = format!("/servers/{server}/os-volume_attachments/{first}");
    assert_eq!(api.call("DELETE", &path, "2.1", OWNER, None).await.status, 202);
    api.life.settled().await;
    assert_eq!(act(&api, &server, revert()).await.0, 202);
    assert_eq!((hosts_of(&api, &first), plugged(&api, &server)), (vec![], vec![second.clone()]));
    assert_eq!(act(&api, &server, resize("2")).await.0, 202);
    assert_eq!(act(&api, &server, confirm()).await.0, 204);
    assert_eq!(hosts_of(&api, &second), [host(&shown(&api, &server).await)]);
    ends_well(api).await;
}

#[actix_rt::test]
async fn a_server_stays_where_its_volume_is() {
    let api = api(|world| world.options.volume.shared = false).await;
    let server = api.server(OWNER, Api::wish("web")).await;
    let own = volume(&api, Some(&server)).await;
    assert_eq!(attach(&api, &server, &own).await, 200);
    let home = shown(&api, &server).await["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned();
    assert_eq!(act(&api, &server, resize("2")).await.0, 202);
    let now = shown(&api, &server).await;
    assert_eq!((&now["status"], &now["flavor"]["id"]), (&json!("ACTIVE"), &json!("1")));
    assert!(now["fault"].is_null() || now["fault"]["message"].as_str().unwrap().contains("No valid host"), "{now}");
    assert_eq!((hosts_of(&api, &own), plugged(&api, &server)), (vec![home], vec![own]));
    ends_well(api).await;
}

#[actix_rt::test]
async fn a_server_on_a_volume_takes_no_room_for_a_disk() {
    let api = api(|_| {}).await;
    api.flavor("zero", 512, 0).await;
    let root = json!({"boot_index": 0, "uuid": IMAGE, "source_type": "image", "destination_type": "volume",
        "volume_size": 1, "delete_on_termination": true});
    let request = json!({"name": "web", "flavorRef": "2", "networks": [{"uuid": NETWORK}],
        "block_device_mapping_v2": [root]});
    let server = api.server(OWNER, request).await;
    // A volume-backed server can be resized to a smaller disk, or to none.
    for flavor in ["1", "zero", "2"] {
        assert_eq!(act(&api, &server, resize(flavor)).await, (202, String::new()), "{flavor}");
        let now = shown(&api, &server).await;
        assert_eq!(now["status"], "VERIFY_RESIZE", "{now}");
        assert!(allocated(&api, &server).await["DISK_GB"].is_null());
        assert_eq!(plugged(&api, &server).len(), 1);
        assert_eq!(act(&api, &server, confirm()).await.0, 204);
    }
    assert_eq!(act(&api, &server, resize("zero")).await.0, 202);
    assert_eq!(act(&api, &server, revert()).await.0, 202);
    assert_eq!(shown(&api, &server).await["flavor"]["id"], "2");
    ends_well(api).await;
}
