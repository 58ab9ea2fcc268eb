//! Evacuation: refusals, destinations, and the leftovers on the old host.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::InstanceId;
use chronova_hypervisor::sim::DriverCall;
use chronova_tests::compute_api::{ADMIN, Api, IMAGE, NETWORK};
use chronova_tests::world::World;
use serde_json::{Value, json};

const OWNER: &str = "u:p";

struct Scene {
    api: Api,
    id: String,
    home: String,
}

impl Scene {
    async fn new(hosts: usize) -> Self {
        Self::of(World::new(hosts)).await
    }

    async fn of(mut world: World) -> Self {
        world.options.volume.shared = true;
        let api = Api::start_of(world, "", None).await;
        let id = api.server(OWNER, Api::wish("web")).await;
        let home = host(&api, &id).await;
        Self { api, id, home }
    }

    fn index(&self, name: &str) -> usize {
        (0..self.api.world.fleet.len()).find(|host| self.api.world.fleet.hostname(*host) == name).unwrap()
    }

    fn instance(&self) -> InstanceId {
        self.id.parse().unwrap()
    }

    async fn ask(&self, version: &str, request: Value) -> (u16, Value, String) {
        let path = format!("/servers/{}/action", self.id);
        let answer = self.api.call("POST", &path, version, ADMIN, Some(json!({"evacuate": request}))).await;
        let message = answer.message().to_owned();
        (answer.status, answer.body, message)
    }

    async fn shown(&self) -> Value {
        self.api.get(&format!("/servers/{}", self.id), "2.46").await["server"].take()
    }

    async fn migration(&self) -> Value {
        self.api.get("/os-migrations?migration_type=evacuation", "2.59").await["migrations"][0].take()
    }

    /// Lets the host fail. Its guests are lost, unless a test revives the host with them. Returns when the API shows
    /// the host as down.
    async fn lose(&self, name: &str) {
        self.api.world.fleet.kill_host(self.index(name));
        self.up(name, false).await;
    }

    async fn up(&self, name: &str, wanted: bool) {
        let is = |context: &chronova_actors::process::context::StepContext| {
            context.views.hosts.read(|hosts| hosts.named(name).is_some_and(|host| host.up == wanted))
        };
        assert!(self.api.life.until(is).await);
    }

    async fn ends_well(self) {
        self.api.life.settled().await;
        self.api.life.stop().await;
        self.api.world.check().await;
    }
}

async fn host(api: &Api, id: &str) -> String {
    let shown = api.get(&format!("/servers/{id}"), "2.46").await["server"].take();
    shown["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned()
}

#[actix_rt::test]
async fn a_server_leaves_a_dead_host_and_what_it_left_is_removed_when_that_is_back() {
    let scene = Scene::new(2).await;
    let before = scene.shown().await;
    scene.lose(&scene.home).await;
    let (status, body, _) = scene.ask("2.14", json!({})).await;
    assert_eq!((status, body), (200, Value::Null));
    scene.api.life.settled().await;
    let now = scene.shown().await;
    assert_eq!((&now["status"], &now["OS-EXT-STS:power_state"]), (&json!("ACTIVE"), &json!(1)));
    assert_ne!(now["OS-EXT-SRV-ATTR:host"], scene.home);
    for key in
        ["id", "name", "user_id", "tenant_id", "addresses", "image", "flavor", "metadata", "config_drive", "key_name"]
    {
        assert_eq!(now[key], before[key], "{key}");
    }
    // The hosts share no storage, so the new host made a new disk.
    assert_ne!(scene.api.world.fleet.calls(DriverCall::Provide), 0);
    let row = scene.migration().await;
    let left = async |host: &str| {
        let path = format!("/os-migrations?source_compute={host}&migration_type=evacuation");
        scene.api.get(&path, "2.59").await["migrations"].as_array().unwrap().len()
    };
    assert_eq!((left(&scene.home).await, left(now["OS-EXT-SRV-ATTR:host"].as_str().unwrap()).await), (1, 0));
    let path = format!("/os-migrations?source_compute={}&migration_type=resize", scene.home);
    assert_eq!(scene.api.get(&path, "2.59").await["migrations"], json!([]), "an evacuation is no resize");
    assert_eq!((&row["status"], &row["source_compute"]), (&json!("done"), &json!(scene.home)));
    assert_eq!((&row["dest_compute"], &row["old_instance_type_id"]), (&now["OS-EXT-SRV-ATTR:host"], &Value::Null));
    let path = format!("/placement/allocations/{}", scene.id);
    let held = scene.api.ask("GET", &path, "1.28", ADMIN, None).await.body["allocations"].as_object().unwrap().len();
    assert_eq!(held, 1, "the server has not exactly one claim");
    let actions = scene.api.get(&format!("/servers/{}/os-instance-actions", scene.id), "2.58").await;
    assert_eq!(actions["instanceActions"][0]["action"], "evacuate");

    // The old host had only lost its network, so its guests survived. The control plane removes these guests before it
    // marks the host as up.
    let old = scene.index(&scene.home);
    assert_eq!(scene.api.world.fleet.whereabouts()[&scene.instance()].len(), 2);
    scene.api.world.fleet.revive_host(old, true).unwrap();
    scene.up(&scene.home, true).await;
    assert_eq!(scene.api.world.fleet.twins(), []);
    assert_eq!(scene.api.world.fleet.whereabouts()[&scene.instance()].len(), 1);
    scene.api.life.settled().await;
    assert_eq!(scene.migration().await["status"], "completed");
    let path = format!("/placement/resource_providers/{}/allocations", scene.api.world.fleet.uri().host_id(old));
    let held = scene.api.ask("GET", &path, "1.28", ADMIN, None).await.body["allocations"].take();
    assert_eq!(held, json!({}), "the old host has allocations");
    scene.ends_well().await;
}

#[actix_rt::test]
async fn invalid_evacuations_are_refused() {
    let scene = Scene::new(3).await;
    let (home, id) = (scene.home.clone(), scene.id.clone());
    let refused = async |version: &str, request: Value| {
        let (status, _, message) = scene.ask(version, request).await;
        (status, message)
    };
    assert_eq!(refused("2.14", json!({})).await, (400, format!("Compute service of {home} is still in use.")));
    let unknown = refused("2.14", json!({"host": "nowhere"})).await;
    assert_eq!(unknown, (404, "Compute host nowhere not found.".to_owned()));
    let same = refused("2.14", json!({"host": home})).await;
    assert_eq!(same, (400, "The target host can't be the same one.".to_owned()));
    let nowhere = refused("2.29", json!({"force": true})).await;
    assert_eq!(nowhere, (400, "Can't force to a non-provided destination".to_owned()));
    assert_eq!(refused("2.68", json!({"force": false})).await.0, 400, "2.68 accepts force");
    assert_eq!(refused("2.13", json!({})).await.0, 400, "2.13 accepts a request without onSharedStorage");
    assert_eq!(refused("2.14", json!({"onSharedStorage": false})).await.0, 400, "2.14 accepts onSharedStorage");
    let password = refused("2.1", json!({"onSharedStorage": true, "adminPass": "p"})).await;
    assert_eq!(password, (400, "admin password can't be changed on existing disk".to_owned()));
    let path = format!("/servers/{id}/action");
    let user = scene.api.call("POST", &path, "2.14", OWNER, Some(json!({"evacuate": {}}))).await;
    assert_eq!(user.status, 403);
    for (body, state) in [(json!({"pause": null}), "paused"), (json!({"unpause": null}), "active")] {
        assert_eq!(scene.api.call("POST", &path, "2.1", ADMIN, Some(body)).await.status, 202);
        scene.api.life.settled().await;
        if state == "paused" {
            let words = format!("Cannot 'evacuate' instance {id} while it is in vm_state paused");
            assert_eq!(refused("2.14", json!({})).await, (409, words));
        }
    }

    // Until 2.13 the answer has a password, which is null for shared storage. Here the hosts share no storage, so the
    // server ends in error.
    scene.lose(&home).await;
    let (status, body, _) = scene.ask("2.1", json!({"onSharedStorage": "True"})).await;
    assert_eq!((status, body), (200, json!({"adminPass": null})));
    scene.api.life.settled().await;
    let now = scene.shown().await;
    assert_eq!((&now["status"], &now["OS-EXT-SRV-ATTR:host"]), (&json!("ERROR"), &json!(home)));
    assert_eq!(now["fault"]["message"], "Invalid state of instance files on shared storage");
    assert_eq!(scene.migration().await["status"], "failed");
    let (status, body, _) = scene.ask("2.1", json!({"onSharedStorage": false, "adminPass": "secret"})).await;
    assert_eq!((status, &body["adminPass"]), (200, &json!("secret")));
    scene.api.life.settled().await;
    assert_eq!(scene.shown().await["status"], "ACTIVE");
    scene.api.world.fleet.revive_host(scene.index(&home), false).unwrap();
    scene.up(&home, true).await;
    scene.ends_well().await;
}

/// Evacuations to named hosts, of stopped servers, with volumes, and with shared storage.
#[actix_rt::test]
async fn evacuated_servers_reach_the_requested_host_with_their_disks() {
    let world = World::new(3);
    world.fleet.share_storage(true);
    let scene = Scene::of(world).await;
    let root = json!({"boot_index": 0, "uuid": IMAGE, "source_type": "image", "destination_type": "volume",
        "volume_size": 1, "delete_on_termination": true});
    let request = json!({"name": "v", "flavorRef": "1", "networks": [{"uuid": NETWORK}], "block_device_mapping_v2": [root],
        "availability_zone": format!("nova:{}", scene.home)});
    let volume_backed = scene.api.server(ADMIN, request).await;
    assert_eq!(host(&scene.api, &volume_backed).await, scene.home);
    scene.lose(&scene.home).await;
    let others: Vec<String> =
        (0..3).map(|host| scene.api.world.fleet.hostname(host)).filter(|name| *name != scene.home).collect();
    let ids: BTreeMap<&str, &str> = [(scene.id.as_str(), "2.95"), (volume_backed.as_str(), "2.29")].into();
    for (id, version) in &ids {
        let path = format!("/servers/{id}/action");
        let body = json!({"evacuate": {"host": others[1]}});
        assert_eq!(scene.api.call("POST", &path, version, ADMIN, Some(body)).await.status, 200);
    }
    scene.api.life.settled().await;
    // No request said that the hosts share storage. They do, so nothing made a new disk.
    assert_eq!(scene.api.world.fleet.calls(DriverCall::Provide), 0);
    let console = json!({"os-getConsoleOutput": {}});
    for (id, version) in &ids {
        let now = scene.api.get(&format!("/servers/{id}"), "2.46").await["server"].take();
        let wanted = if *version == "2.95" { "SHUTOFF" } else { "ACTIVE" };
        assert_eq!((&now["status"], &now["OS-EXT-SRV-ATTR:host"]), (&json!(wanted), &json!(others[1])), "{now}");
        let log = scene.api.call("POST", &format!("/servers/{id}/action"), "2.1", ADMIN, Some(console.clone())).await;
        assert_eq!(log.status, 200, "{:?}", log.body);
        // A guest that has not been started on its host has written nothing. As in Nova, an empty log is no error.
        assert_eq!(log.body["output"] == "", wanted == "SHUTOFF", "{:?}", log.body);
    }
    let guests = scene.api.world.fleet.guests(scene.index(&others[1]));
    assert_eq!(guests[&volume_backed.parse().unwrap()].volumes.len(), 1);
    scene.api.world.fleet.revive_host(scene.index(&scene.home), true).unwrap();
    scene.up(&scene.home, true).await;
    scene.ends_well().await;
}

/// An unshelve deletes the shelve image, so an evacuation recreates the disk from the server's own image.
#[actix_rt::test]
async fn a_server_that_was_shelved_before_leaves_a_dead_host() {
    let scene = Scene::new(2).await;
    let image = scene.shown().await["image"].take();
    let path = format!("/servers/{}/action", scene.id);
    for body in [json!({"shelve": null}), json!({"unshelve": null})] {
        assert_eq!(scene.api.call("POST", &path, "2.1", ADMIN, Some(body)).await.status, 202);
        scene.api.life.settled().await;
    }
    let home = host(&scene.api, &scene.id).await;
    scene.lose(&home).await;
    assert_eq!(scene.ask("2.14", json!({})).await.0, 200);
    scene.api.life.settled().await;
    scene.api.world.fleet.revive_host(scene.index(&home), false).unwrap();
    scene.up(&home, true).await;
    let now = scene.shown().await;
    assert_eq!((&now["status"], &now["image"]), (&json!("ACTIVE"), &image));
    scene.ends_well().await;
}

/// The host dies while it caches the image of a rebuild, or copies the disk of a shelve. The evacuation does not wait
/// for that operation, and the operation undoes its own work.
#[actix_rt::test]
async fn a_server_leaves_a_dead_host_during_a_rebuild_or_a_shelve() {
    for (held, body) in
        [("ensure_image", json!({"rebuild": {"imageRef": IMAGE}})), ("copy_root", json!({"shelve": null}))]
    {
        let scene = Scene::new(2).await;
        let before = scene.shown().await;
        let brakes = &scene.api.world.brakes;
        brakes.hold(held);
        let path = format!("/servers/{}/action", scene.id);
        assert_eq!(scene.api.call("POST", &path, "2.1", ADMIN, Some(body)).await.status, 202, "{held}");
        brakes.reached(held).await;
        scene.lose(&scene.home).await;
        let (status, _, message) = scene.ask("2.14", json!({})).await;
        assert_eq!((status, message.as_str()), (200, ""), "{held}");
        brakes.release(held);
        scene.api.life.settled().await;
        let now = scene.shown().await;
        assert_eq!((&now["status"], &now["image"]), (&json!("ACTIVE"), &before["image"]), "{held}: {now}");
        assert_ne!(now["OS-EXT-SRV-ATTR:host"], scene.home, "{held}");
        assert!(scene.api.world.images.made().is_empty(), "{held}: the image of the shelve is left");
        scene.api.world.fleet.revive_host(scene.index(&scene.home), false).unwrap();
        scene.up(&scene.home, true).await;
        scene.ends_well().await;
    }
}

/// `nova host-evacuate`: the client asks for the servers of all hosts whose name matches, and evacuates one by one.
#[actix_rt::test]
async fn a_client_evacuates_all_servers_of_hosts_by_a_pattern() {
    let scene = Scene::new(3).await;
    let second = scene.api.server(OWNER, Api::wish("more")).await;
    let third = scene.api.server(OWNER, Api::wish("other")).await;
    let ids = [scene.id.clone(), second, third];
    let mut homes = Vec::new();
    for id in &ids {
        homes.push(host(&scene.api, id).await);
    }
    let dead = scene.home.clone();
    let target = (0..3).map(|host| scene.api.world.fleet.hostname(host)).find(|name| *name != dead).unwrap();
    scene.lose(&dead).await;
    // The pattern is a part of the name, so it matches all hosts here. `--strict` leaves only the equal name.
    let search = async |pattern: &str| {
        let path = format!("/os-hypervisors?hypervisor_hostname_pattern={pattern}&with_servers=true");
        scene.api.get(&path, "2.53").await["hypervisors"].as_array().unwrap().clone()
    };
    let prefix = dead.split('-').next().unwrap();
    assert_eq!(search(prefix).await.len(), 3);
    let matching = search(&dead).await;
    let strict = matching.iter().find(|found| found["hypervisor_hostname"] == json!(dead)).unwrap();
    let servers: BTreeSet<&str> =
        strict["servers"].as_array().unwrap().iter().map(|server| server["uuid"].as_str().unwrap()).collect();
    let at_home = ids.iter().zip(&homes).filter(|(_, home)| **home == dead);
    let expected: BTreeSet<&str> = at_home.map(|(id, _)| id.as_str()).collect();
    assert_eq!(servers, expected);
    for id in &servers {
        let body = json!({"evacuate": {"host": target}});
        let answer = scene.api.call("POST", &format!("/servers/{id}/action"), "2.29", ADMIN, Some(body)).await;
        assert_eq!(answer.status, 200, "{:?}", answer.body);
    }
    // As with the client, the servers of hosts that are up are refused one by one, and the others go on.
    for (id, home) in ids.iter().zip(&homes).filter(|(_, home)| **home != dead) {
        let answer = scene
            .api
            .call("POST", &format!("/servers/{id}/action"), "2.29", ADMIN, Some(json!({"evacuate": {}})))
            .await;
        assert_eq!((answer.status, answer.message()), (400, &*format!("Compute service of {home} is still in use.")));
    }
    scene.api.life.settled().await;
    for (id, home) in ids.iter().zip(&homes) {
        let wanted = if *home == dead { &target } else { home };
        assert_eq!(host(&scene.api, id).await, *wanted);
    }
    scene.api.world.fleet.revive_host(scene.index(&dead), false).unwrap();
    scene.up(&dead, true).await;
    scene.ends_well().await;
}
