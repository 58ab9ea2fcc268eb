//! Resize and cold migration through the API, their refusals, and the list of migrations.

use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::compute_api::{ADMIN, Api};
use serde_json::{Value, json};

const USER: &str = "alice:web";

struct Moved {
    api: Api,
    id: String,
}

impl Moved {
    async fn server() -> Self {
        let api = Api::start().await;
        api.flavor("2", 1024, 2).await;
        let id = api.server(USER, Api::wish("web")).await;
        Self { api, id }
    }

    async fn act(&self, version: &str, token: &str, body: Value) -> (u16, String) {
        let path = format!("/servers/{}/action", self.id);
        let answer = self.api.call("POST", &path, version, token, Some(body)).await;
        (answer.status, answer.message().to_owned())
    }

    async fn done(&self, body: Value, status: u16) {
        let (seen, message) = self.act("2.1", USER, body.clone()).await;
        assert_eq!(seen, status, "{body}: {message}");
        self.api.life.settled().await;
    }

    async fn shown(&self) -> Value {
        self.api.get(&format!("/servers/{}", self.id), "2.46").await["server"].take()
    }

    async fn refused(&self, body: Value) -> (u16, String) {
        self.act("2.1", USER, body).await
    }

    async fn usages(&self) -> (Value, Value) {
        let limits = self.api.call("GET", "/limits", "2.1", USER, None).await.body;
        let used = &limits["limits"]["absolute"];
        (used["totalCoresUsed"].clone(), used["totalRAMUsed"].clone())
    }
}

fn resize(flavor: &str) -> Value {
    json!({"resize": {"flavorRef": flavor}})
}

#[actix_rt::test]
async fn a_resize_is_confirmed_and_another_reverted() {
    let moved = Moved::server().await;
    let home = moved.shown().await["OS-EXT-SRV-ATTR:host"].clone();
    moved.api.world.brakes.hold("stop");
    assert_eq!(moved.act("2.1", USER, resize("2")).await.0, 202);
    moved.api.world.brakes.reached("stop").await;
    assert_eq!(moved.shown().await["status"], "RESIZE");
    moved.api.world.brakes.release("stop");
    moved.api.life.settled().await;
    let shown = moved.shown().await;
    assert_eq!((&shown["status"], &shown["OS-EXT-STS:vm_state"]), (&json!("VERIFY_RESIZE"), &json!("resized")));
    assert_eq!(shown["flavor"]["id"], "2");
    let away = shown["OS-EXT-SRV-ATTR:host"].clone();
    assert_ne!(away, home);
    assert_eq!(moved.usages().await, (json!(1), json!(1024)));
    let words = format!("Cannot 'resize' instance {} while it is in vm_state resized", moved.id);
    assert_eq!(moved.refused(resize("1")).await, (409, words));
    moved.done(json!({"confirmResize": null}), 204).await;
    let shown = moved.shown().await;
    assert_eq!((&shown["status"], &shown["OS-EXT-SRV-ATTR:host"]), (&json!("ACTIVE"), &away));

    // A revert restores flavor and host; the disk keeps its size.
    moved.api.flavor("3", 2048, 2).await;
    moved.done(resize("3"), 202).await;
    assert_eq!(moved.usages().await.1, json!(2048));
    moved.done(json!({"revertResize": null}), 202).await;
    let shown = moved.shown().await;
    assert_eq!((&shown["status"], &shown["flavor"]["id"]), (&json!("ACTIVE"), &json!("2")));
    assert_eq!(shown["OS-EXT-SRV-ATTR:host"], away);
    assert_eq!(moved.usages().await.1, json!(1024));

    let actions = moved.api.get(&format!("/servers/{}/os-instance-actions", moved.id), "2.58").await;
    let names: Vec<&Value> =
        actions["instanceActions"].as_array().unwrap().iter().map(|action| &action["action"]).collect();
    assert_eq!(names, ["revertResize", "resize", "confirmResize", "resize", "create"]);
    let request = actions["instanceActions"][3]["request_id"].as_str().unwrap();
    let path = format!("/servers/{}/os-instance-actions/{request}", moved.id);
    let events = moved.api.get(&path, "2.84").await["instanceAction"]["events"].take();
    let events: Vec<&Value> = events.as_array().unwrap().iter().map(|event| &event["event"]).collect();
    assert!(
        events.contains(&&json!("copy_disks")) && events.contains(&&json!("compute_resize_instance")),
        "{events:?}"
    );
    let (id, world) = (moved.id.clone(), moved.api);
    let deleted = world.call("DELETE", &format!("/servers/{id}"), "2.1", USER, None).await;
    assert_eq!(deleted.status, 204);
    world.life.settled().await;
    let world = {
        world.life.stop().await;
        world.world
    };
    world.check().await;
    assert!(world.fleet.whereabouts().is_empty());
}

/// As in Nova, usage falls as soon as the server has a smaller flavor. A revert then needs quota for the larger one.
#[actix_rt::test]
async fn a_smaller_flavor_frees_quota_before_it_is_confirmed() {
    let moved = Moved::server().await;
    moved.api.flavor("3", 2048, 2).await;
    moved.done(resize("3"), 202).await;
    moved.done(json!({"confirmResize": null}), 204).await;
    assert_eq!(moved.usages().await.1, json!(2048));
    moved.done(resize("2"), 202).await;
    assert_eq!(moved.shown().await["status"], "VERIFY_RESIZE");
    assert_eq!(moved.usages().await.1, json!(1024));

    let limit = async |ram: u32| {
        let limits = Some(json!({"quota_set": {"ram": ram}}));
        assert_eq!(moved.api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, limits).await.status, 200);
    };
    limit(2047).await;
    let words = "Quota exceeded for ram: Requested 1024, but already used 1024 of 2047 ram";
    let revert = || json!({"revertResize": null});
    assert_eq!(moved.refused(revert()).await, (403, words.to_owned()));
    let path = format!("/servers/{}/action", moved.id);
    let refused = moved.api.call("POST", &path, "2.1", USER, Some(revert())).await.body;
    assert_eq!(refused["forbidden"]["code"], 403, "{refused}");
    moved.api.life.settled().await;
    assert_eq!(moved.shown().await["status"], "VERIFY_RESIZE");
    assert_eq!(moved.usages().await.1, json!(1024), "the refused revert kept quota");

    limit(2048).await;
    moved.done(revert(), 202).await;
    let shown = moved.shown().await;
    assert_eq!((&shown["status"], &shown["flavor"]["id"]), (&json!("ACTIVE"), &json!("3")));
    assert_eq!(moved.usages().await.1, json!(2048));
    moved.api.world.check().await;
    moved.api.stop().await;
}

/// A server keeps its copy of the flavor, also when it moves. Only a resize takes a flavor as it is now.
#[actix_rt::test]
async fn a_resize_takes_a_flavor_as_it_is_now() {
    let moved = Moved::server().await;
    moved.api.flavor("3", 1024, 2).await;
    let set = async |flavor: &str, shares: &str| {
        let specs = Some(json!({"extra_specs": {"quota:cpu_shares": shares}}));
        let path = format!("/flavors/{flavor}/os-extra_specs");
        assert_eq!(moved.api.call("POST", &path, "2.1", ADMIN, specs).await.status, 200);
    };
    let has = async || {
        let shown = moved.api.get(&format!("/servers/{}", moved.id), "2.47").await;
        shown["server"]["flavor"]["extra_specs"]["quota:cpu_shares"].clone()
    };
    set("2", "100").await;
    set("3", "300").await;
    moved.done(resize("2"), 202).await;
    moved.done(json!({"confirmResize": null}), 204).await;
    assert_eq!(has().await, "100");
    set("2", "200").await;
    assert_eq!(moved.act("2.56", ADMIN, json!({"migrate": null})).await.0, 202);
    moved.api.life.settled().await;
    moved.done(json!({"confirmResize": null}), 204).await;
    assert_eq!(has().await, "100", "a migration took the changed flavor");
    for (flavor, shares) in [("3", "300"), ("2", "200")] {
        moved.done(resize(flavor), 202).await;
        moved.done(json!({"confirmResize": null}), 204).await;
        assert_eq!(has().await, shares, "the resize to {flavor} did not take its present values");
    }
    moved.api.stop().await;
}

#[actix_rt::test]
async fn invalid_resizes_are_refused() {
    let moved = Moved::server().await;
    let refused = moved.refused(resize("1")).await;
    assert_eq!(refused, (400, "When resizing, instances must change flavor!".to_owned()));
    assert_eq!(moved.refused(resize("nope")).await, (400, "Flavor nope could not be found.".to_owned()));
    moved.api.flavor("zero", 512, 0).await;
    let words = "Server disk was unable to be resized because: Resize to zero disk flavor is not allowed.";
    assert_eq!(moved.refused(resize("zero")).await, (400, words.to_owned()));
    let not_moved = format!("Cannot 'confirmResize' instance {} while it is in vm_state active", moved.id);
    assert_eq!(moved.refused(json!({"confirmResize": null})).await, (409, not_moved));
    moved.api.flavor("huge", 60_000, 1).await;
    let (status, message) = moved.refused(resize("huge")).await;
    assert_eq!(status, 403);
    assert_eq!(message, "Quota exceeded for ram: Requested 59488, but already used 512 of 51200 ram");
    assert_eq!(moved.refused(json!({"resize": {}})).await.0, 400);

    // A smaller disk is refused, and nothing is left of the attempt.
    moved.done(resize("2"), 202).await;
    moved.done(json!({"confirmResize": null}), 204).await;
    moved.done(resize("1"), 202).await;
    let shown = moved.shown().await;
    assert_eq!((&shown["status"], &shown["flavor"]["id"]), (&json!("ACTIVE"), &json!("2")));
    let newest = moved.api.get("/os-migrations", "2.80").await["migrations"][0].take();
    assert_eq!(newest["status"], "error");
    let world = {
        moved.api.life.stop().await;
        moved.api.world
    };
    world.check().await;
}

/// The hosts cannot copy the disk, as in Nova without trust between the hosts.
#[actix_rt::test]
async fn a_migration_whose_disks_cannot_be_copied_fails_with_the_reason() {
    let moved = Moved::server().await;
    let home = moved.shown().await["OS-EXT-SRV-ATTR:host"].clone();
    let refusing = FaultPlan::default().with(DriverCall::ReadDisk, FaultTrigger::Always, Effect::Refuse);
    moved.api.world.fleet.set_all_faults(&refusing);
    assert_eq!(moved.act("2.56", ADMIN, json!({"migrate": null})).await.0, 202);
    moved.api.life.settled().await;
    assert_eq!(moved.api.life.fault(moved.id.parse().unwrap()), "The hypervisor refused.");
    let shown = moved.shown().await;
    assert_eq!((&shown["status"], &shown["OS-EXT-SRV-ATTR:host"]), (&json!("ACTIVE"), &home));
    assert_eq!(moved.api.get("/os-migrations", "2.59").await["migrations"][0]["status"], "error");
    let path = format!("/servers/{}/os-instance-actions", moved.id);
    let action = moved.api.get(&path, "2.84").await["instanceActions"][0].take();
    assert_eq!((&action["action"], &action["message"]), (&json!("migrate"), &json!("Error")));
    moved.api.world.fleet.set_all_faults(&FaultPlan::default());
    moved.api.life.settled().await;
    moved.api.world.check().await;
    moved.api.stop().await;
}

#[actix_rt::test]
async fn a_cold_migration_goes_to_the_requested_host() {
    let moved = Moved::server().await;
    let migrate = |host: Option<&Value>| match host {
        Some(host) => json!({"migrate": {"host": host}}),
        None => json!({"migrate": null}),
    };
    let (status, _) = moved.act("2.56", USER, migrate(None)).await;
    assert_eq!(status, 403, "a user may migrate a server");
    let home = moved.shown().await["OS-EXT-SRV-ATTR:host"].clone();
    let same = moved.act("2.56", ADMIN, migrate(Some(&home))).await;
    assert_eq!(same, (400, "Cannot migrate to the host where the server exists.".to_owned()));
    let unknown = moved.act("2.56", ADMIN, migrate(Some(&json!("nowhere")))).await;
    assert_eq!(unknown, (400, "Compute host nowhere could not be found.".to_owned()));
    let hosts: Vec<Value> = moved.api.get("/os-services?binary=nova-compute", "2.1").await["services"]
        .as_array()
        .unwrap()
        .iter()
        .map(|service| service["host"].clone())
        .collect();
    let other = hosts.iter().find(|host| **host != home).unwrap();
    moved.done(json!({"os-stop": null}), 202).await;
    assert_eq!(moved.act("2.56", ADMIN, migrate(Some(other))).await.0, 202);
    moved.api.life.settled().await;
    let shown = moved.shown().await;
    assert_eq!((&shown["status"], &shown["OS-EXT-SRV-ATTR:host"]), (&json!("VERIFY_RESIZE"), other));
    assert_eq!(shown["OS-EXT-STS:power_state"], 4, "the migration started the stopped server");

    // The list of migrations, and its fields at each version.
    let list = moved.api.get("/os-migrations", "2.80").await["migrations"].take();
    let row = &list[0];
    assert_eq!(
        (&row["id"], &row["status"], &row["migration_type"]),
        (&json!(1), &json!("finished"), &json!("migration"))
    );
    assert_eq!((&row["source_compute"], &row["dest_compute"]), (&home, other));
    // `dest_host` is the address of the destination, not its name.
    let hypervisors = moved.api.get("/os-hypervisors/detail", "2.53").await["hypervisors"].take();
    let there = hypervisors.as_array().unwrap().iter().find(|one| one["service"]["host"] == *other).unwrap();
    assert!(there["host_ip"].is_string(), "{there}");
    assert_eq!(row["dest_host"], there["host_ip"]);
    assert_eq!((&row["user_id"], &row["project_id"]), (&json!("admin"), &json!("admin")));
    assert_eq!(row["instance_uuid"], json!(moved.id));
    let keys = |version: &'static str| {
        let (api, id) = (&moved.api, &moved.id);
        async move {
            let path = format!("/os-migrations?instance_uuid={id}");
            let list = api.get(&path, version).await["migrations"].take();
            list[0].as_object().unwrap().keys().cloned().collect::<Vec<String>>()
        }
    };
    let has = |keys: &[String], name: &str| keys.iter().any(|key| key == name);
    let (oldest, typed, named) = (keys("2.1").await, keys("2.23").await, keys("2.59").await);
    assert!(!has(&oldest, "migration_type") && has(&typed, "migration_type"));
    assert!(!has(&typed, "uuid") && has(&named, "uuid") && !has(&named, "user_id"));
    let empty = |query: &'static str| {
        let api = &moved.api;
        async move { api.get(&format!("/os-migrations?{query}"), "2.80").await["migrations"] == json!([]) }
    };
    assert!(empty("status=error").await && empty("migration_type=resize").await && empty("host=nowhere").await);
    assert!(empty("user_id=bob").await && empty("changes-before=2001-01-01").await && empty("hidden=1").await);
    assert!(!empty("status=finished").await && !empty("user_id=admin").await);
    assert!(empty("project_id=other").await && !empty("project_id=admin").await);
    assert!(empty("changes-since=2101-01-01").await && !empty("changes-since=2001-01-01").await);
    assert!(
        !empty("changes-before=2101-01-01").await && !empty("changes-since=2001-01-01&changes-before=2101-01-01").await
    );
    let updated = row["updated_at"].as_str().unwrap();
    let until = moved.api.get(&format!("/os-migrations?changes-before={updated}"), "2.66").await["migrations"].take();
    assert_eq!(until[0]["id"], row["id"], "`changes-before` excludes its own time");
    let before = async |version: &str, query: &str| {
        moved.api.call("GET", &format!("/os-migrations?{query}"), version, ADMIN, None).await.status
    };
    assert_eq!(before("2.58", "changes-since=2101-01-01").await, 200, "an unknown filter is refused");
    for (version, query) in [
        ("2.59", "changes-before=2101-01-01"),
        ("2.79", "project_id=admin"),
        ("2.66", "changes-since=2101-01-01&changes-before=2001-01-01"),
    ] {
        assert_eq!(before(version, query).await, 400, "{version} {query}");
    }
    let page = moved.api.get("/os-migrations?limit=1", "2.59").await;
    assert!(page["migrations_links"][0]["href"].as_str().unwrap().contains("marker="), "{page}");
    let marker = page["migrations"][0]["uuid"].as_str().unwrap();
    let rest = moved.api.get(&format!("/os-migrations?limit=1&marker={marker}"), "2.59").await;
    assert_eq!(rest["migrations"], json!([]), "the page after the last migration");
    assert_eq!(before("2.58", "surprise=1").await, 200);
    assert_eq!(before("2.59", "surprise=1").await, 400);
    let bad = moved.api.call("GET", "/os-migrations?marker=x", "2.59", ADMIN, None).await;
    assert_eq!(bad.status, 400);

    // `/servers/{id}/migrations` shows live migrations only.
    let path = format!("/servers/{}/migrations", moved.id);
    assert_eq!(moved.api.get(&path, "2.23").await["migrations"], json!([]));
    assert_eq!(moved.api.call("GET", &format!("{path}/1"), "2.23", ADMIN, None).await.status, 404);
    moved.done(json!({"confirmResize": null}), 204).await;
    assert_eq!(moved.shown().await["status"], "SHUTOFF");
}

/// From 2.56 on `host` may be absent or null. The scheduler refuses a named host that is disabled or full.
#[actix_rt::test]
async fn a_cold_migration_needs_no_host_and_the_scheduler_checks_a_named_one() {
    let moved = Moved::server().await;
    let home = moved.shown().await["OS-EXT-SRV-ATTR:host"].clone();
    let fleet = &moved.api.world.fleet;
    let other = (0..fleet.len()).map(|host| fleet.hostname(host)).find(|name| home != **name).unwrap();
    let migrate = async |host: Value| {
        let answer = moved.act("2.56", ADMIN, json!({"migrate": host})).await;
        assert_eq!(answer.0, 202, "{host}: {}", answer.1);
        moved.api.life.settled().await;
        let shown = moved.shown().await;
        (shown["status"].as_str().unwrap().to_owned(), shown["OS-EXT-SRV-ATTR:host"].clone())
    };
    for nobody in [json!({"host": null}), json!({}), json!(null)] {
        assert_eq!(migrate(nobody.clone()).await, ("VERIFY_RESIZE".to_owned(), json!(other)), "{nobody}");
        moved.done(json!({"revertResize": null}), 202).await;
        assert_eq!(moved.shown().await["OS-EXT-SRV-ATTR:host"], home);
    }
    for wrong in [json!({"host": ""}), json!({"host": 1}), json!({"host": other, "force": true}), json!("h")] {
        assert_eq!(moved.act("2.56", ADMIN, json!({"migrate": wrong})).await.0, 400, "{wrong}");
    }
    let service = moved.api.get(&format!("/os-services?host={other}"), "2.53").await["services"][0]["id"].take();
    let switch = async |status: &str| {
        let path = format!("/os-services/{}", service.as_str().unwrap());
        let switched = moved.api.call("PUT", &path, "2.53", ADMIN, Some(json!({"status": status}))).await;
        assert_eq!(switched.status, 200, "{:?}", switched.body);
    };
    let stays = async |why: &str| {
        assert_eq!(migrate(json!({"host": other})).await, ("ACTIVE".to_owned(), home.clone()), "{why}");
        let fault = moved.api.life.fault(moved.id.parse().unwrap());
        assert!(fault.contains("No valid host was found"), "{why}: {fault}");
        assert_eq!(moved.api.get("/os-migrations", "2.59").await["migrations"][0]["status"], "error", "{why}");
    };
    switch("disabled").await;
    stays("the host is disabled").await;
    switch("enabled").await;
    // Another server takes all of the other host's memory.
    let provider =
        moved.api.ask("GET", &format!("/placement/resource_providers?name={other}"), "1.39", ADMIN, None).await;
    let inventories = format!("{}/inventories", provider.body["resource_providers"][0]["uuid"].as_str().unwrap());
    let path = format!("/placement/resource_providers/{inventories}/MEMORY_MB");
    let memory = moved.api.ask("GET", &path, "1.39", ADMIN, None).await.body;
    let free = memory["total"].as_u64().unwrap() - memory["reserved"].as_u64().unwrap();
    moved.api.flavor("all", u32::try_from(free).unwrap(), 1).await;
    let mut request = Api::wish("full");
    (request["flavorRef"], request["host"]) = (json!("all"), json!(other));
    moved.api.server(ADMIN, request).await;
    stays("the host is full").await;
    moved.api.stop().await;
}
