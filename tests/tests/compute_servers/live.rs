//! Live migrations through the API: the request of each version, the views of running migrations, and refusals.

use std::time::Duration;

use chronova_hypervisor::guest::NicPlug;
use chronova_hypervisor::sim::DriverCall;
use chronova_tests::compute_api::{ADMIN, Api, contract, read};
use serde_json::{Value, json};

const USER: &str = "alice:web";

struct Subject {
    api: Api,
    id: String,
}

impl Subject {
    async fn new() -> Self {
        let api = Api::start().await;
        let id = api.server(USER, Api::wish("web")).await;
        Self { api, id }
    }

    async fn ask(&self, version: &str, body: Value) -> (u16, String) {
        let path = format!("/servers/{}/action", self.id);
        let answer = self.api.call("POST", &path, version, ADMIN, Some(json!({"os-migrateLive": body}))).await;
        (answer.status, answer.message().to_owned())
    }

    async fn shown(&self) -> Value {
        self.api.get(&format!("/servers/{}", self.id), "2.46").await["server"].take()
    }

    async fn host(&self) -> String {
        self.shown().await["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned()
    }

    async fn other(&self) -> String {
        let here = self.host().await;
        (0..2).map(|host| self.api.world.fleet.hostname(host)).find(|name| *name != here).unwrap()
    }

    async fn migrations(&self, version: &str) -> Value {
        self.api.get(&format!("/servers/{}/migrations", self.id), version).await["migrations"].take()
    }

    /// Starts a live migration that does not end by itself. Returns its number.
    async fn held(&self) -> u64 {
        self.api.world.fleet.hold_travellers(true);
        assert_eq!(self.ask("2.30", json!({"host": null, "block_migration": "auto"})).await.0, 202);
        loop {
            let all = self.migrations("2.23").await;
            if all[0]["status"] == "running" && all[0]["memory_total_bytes"] != 0 {
                return all[0]["id"].as_u64().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn call(&self, method: &str, number: u64, version: &str, body: Option<Value>) -> (u16, String) {
        let action = if body.is_some() { "/action" } else { "" };
        let path = format!("/servers/{}/migrations/{number}{action}", self.id);
        let answer = self.api.call(method, &path, version, ADMIN, body).await;
        (answer.status, answer.message().to_owned())
    }
}

#[actix_rt::test]
async fn live_migrations_accept_the_body_of_each_version() {
    let subject = Subject::new().await;
    for (version, body) in [
        ("2.1", json!({"host": null, "block_migration": true, "disk_over_commit": false})),
        ("2.25", json!({"host": null, "block_migration": "auto"})),
        ("2.30", json!({"host": subject.other().await, "block_migration": "auto", "force": true})),
        ("2.34", json!({"host": null, "block_migration": "auto"})),
        ("2.34", json!({"host": subject.other().await, "block_migration": "auto"})),
        ("2.68", json!({"host": null, "block_migration": "auto"})),
    ] {
        let (before, mut body) = (subject.host().await, body);
        if body["host"].is_string() {
            body["host"] = json!(subject.other().await);
        }
        assert_eq!(subject.ask(version, body.clone()).await, (202, String::new()), "{version}");
        subject.api.life.settled().await;
        assert_ne!(subject.host().await, before, "{version}");
    }
    // Disks that are shared must not be copied.
    subject.api.world.fleet.share_storage(true);
    for (copies, goes) in [(true, false), (false, true)] {
        let (before, other) = (subject.host().await, subject.other().await);
        assert_eq!(subject.ask("2.34", json!({"host": other, "block_migration": copies})).await.0, 202);
        subject.api.life.settled().await;
        assert_eq!(subject.host().await, if goes { other } else { before }, "block_migration: {copies}");
    }
    for (version, body) in [
        ("2.1", json!({"host": null, "block_migration": "auto", "disk_over_commit": false})),
        ("2.1", json!({"host": null, "block_migration": true})),
        ("2.25", json!({"host": null, "block_migration": true, "disk_over_commit": false})),
        ("2.29", json!({"host": null, "block_migration": true, "force": true})),
        ("2.68", json!({"host": null, "block_migration": true, "force": true})),
        ("2.68", json!({"host": subject.other().await, "block_migration": "auto", "force": true})),
        ("2.30", json!({"host": null, "block_migration": "auto", "force": true})),
        ("2.34", json!({"host": "nowhere", "block_migration": "auto"})),
        ("2.34", json!({"host": subject.host().await, "block_migration": "auto"})),
    ] {
        assert_eq!(subject.ask(version, body.clone()).await.0, 400, "{version} {body}");
    }
    let log = subject.api.get(&format!("/servers/{}/os-instance-actions", subject.id), "2.58").await;
    assert_eq!(log["instanceActions"][0]["action"], "live-migration");
}

/// Before 2.34 the answer tells the client that the destination is not suitable.
#[actix_rt::test]
async fn before_2_34_a_live_migration_answers_after_its_checks() {
    let subject = Subject::new().await;
    let other = subject.other().await;
    let index = (0..2).find(|host| subject.api.world.fleet.hostname(*host) == other).unwrap();
    subject.api.world.fleet.bar(index, "Host CPU does not provide required features: avx512f");
    let body = || json!({"host": other, "block_migration": "auto"});
    let (status, message) = subject.ask("2.30", body()).await;
    assert_eq!(status, 400);
    assert!(message.contains("avx512f"), "{message}");
    assert_eq!(subject.ask("2.34", body()).await.0, 202);
    subject.api.life.settled().await;
    let all = subject.api.get("/os-migrations", "2.59").await["migrations"].take();
    assert_eq!((&all[0]["status"], &all[0]["migration_type"]), (&json!("error"), &json!("live-migration")));
    assert_eq!(subject.shown().await["status"], "ACTIVE");
}

/// The network binds the ports to the destination before the guest moves, and says how they are plugged in there.
#[actix_rt::test]
async fn a_guest_is_plugged_in_as_its_destination_needs_it() {
    let subject = Subject::new().await;
    let (id, other) = (subject.id.parse().unwrap(), subject.other().await);
    assert_eq!(subject.ask("2.34", json!({"host": null, "block_migration": "auto"})).await.0, 202);
    subject.api.life.settled().await;
    let plan = subject.api.world.brakes.migration_plans().pop().unwrap();
    let plugs: Vec<&NicPlug> = plan.nics.iter().map(|nic| &nic.plug).collect();
    assert_eq!(plugs, [&NicPlug::Bridge { bridge: format!("br-{other}") }]);
    let network = &subject.api.world.network;
    assert_eq!((network.host_of(id), network.other_bindings()), (Some(other), vec![]));
}

#[actix_rt::test]
async fn a_destination_that_the_network_refuses_gets_no_guest() {
    let subject = Subject::new().await;
    let (home, other) = (subject.host().await, subject.other().await);
    let network = &subject.api.world.network;
    network.refuse_destination(&other);
    for host in [json!(null), json!(other)] {
        assert_eq!(subject.ask("2.34", json!({"host": host, "block_migration": "auto"})).await.0, 202);
        subject.api.life.settled().await;
        assert_eq!((subject.shown().await["status"].clone(), subject.host().await), (json!("ACTIVE"), home.clone()));
        let fault = subject.api.life.fault(subject.id.parse().unwrap());
        assert!(fault.contains(&format!("host {other}: Binding failed for port")), "{fault}");
        assert_eq!(network.host_of(subject.id.parse().unwrap()), Some(home.clone()));
    }
    assert!(subject.api.world.brakes.migration_plans().is_empty(), "a live migration was started");
}

#[actix_rt::test]
async fn a_running_live_migration_is_shown_and_aborted() {
    let subject = Subject::new().await;
    assert_eq!(subject.migrations("2.23").await, json!([]));
    let number = subject.held().await;
    let shown = subject.shown().await;
    assert_eq!((&shown["status"], &shown["OS-EXT-STS:task_state"]), (&json!("MIGRATING"), &json!("migrating")));
    let one =
        subject.api.get(&format!("/servers/{}/migrations/{number}", subject.id), "2.80").await["migration"].take();
    assert_eq!((&one["status"], &one["server_uuid"]), (&json!("running"), &json!(subject.id)));
    assert_eq!(one["memory_total_bytes"], 512 << 20);
    assert_eq!(
        (&one["dest_compute"], &one["source_compute"]),
        (&json!(subject.other().await), &json!(subject.host().await))
    );
    let keys: Vec<&String> = one.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 19, "{keys:?}");
    assert!(subject.migrations("2.58").await[0].get("uuid").is_none());
    let all = subject.api.get("/os-migrations", "2.23").await["migrations"].take();
    let link = all[0]["links"][0]["href"].as_str().unwrap().to_owned();
    assert!(link.ends_with(&format!("/servers/{}/migrations/{number}", subject.id)), "{link}");
    assert_eq!(all[0]["migration_type"], "live-migration");
    let older = subject.api.get("/os-migrations", "2.22").await["migrations"].take();
    assert!(older[0]["id"] == number && older[0].get("migration_type").is_none(), "{older}");
    assert!(older[0].get("links").is_none(), "{older}");

    let again = subject.ask("2.34", json!({"host": null, "block_migration": "auto"})).await;
    assert_eq!(again.0, 409);
    assert!(again.1.contains("Cannot 'os-migrateLive' instance"), "{}", again.1);
    assert_eq!(subject.call("DELETE", number + 1, "2.24", None).await.0, 404);
    assert_eq!(subject.call("DELETE", number, "2.24", None).await, (202, String::new()));
    subject.api.life.settled().await;
    assert_eq!(subject.shown().await["status"], "ACTIVE");
    assert_eq!(subject.migrations("2.23").await, json!([]));
    let gone = subject.call("GET", number, "2.23", None).await;
    assert_eq!(gone.0, 404);
    assert!(gone.1.contains("is not in progress"), "{}", gone.1);
    // The migration has ended, so it can be neither aborted nor forced.
    assert_eq!(subject.call("DELETE", number, "2.24", None).await.0, 409);
    assert_eq!(subject.call("POST", number, "2.22", Some(json!({"force_complete": null}))).await.0, 409);
    let all = subject.api.get("/os-migrations", "2.59").await["migrations"].take();
    assert_eq!(all[0]["status"], "cancelled");
    assert!(all[0].get("links").is_none());
}

fn keys(of: &Value) -> Vec<String> {
    let mut keys: Vec<String> = of.as_object().unwrap().keys().cloned().collect();
    keys.sort();
    keys
}

/// Running migrations look like the contract's samples, at every version that changes them.
#[actix_rt::test]
async fn a_running_migration_looks_like_its_samples() {
    let Some(samples) = contract().map(|folder| folder.join("api-samples")) else { return };
    let subject = Subject::new().await;
    let number = subject.held().await;
    for version in ["2.23", "2.59", "2.80"] {
        let folder = samples.join("server-migrations").join(format!("v{version}"));
        let one = subject.api.get(&format!("/servers/{}/migrations/{number}", subject.id), version).await;
        assert_eq!(keys(&one["migration"]), keys(&read(&folder.join("migrations-get.json"))["migration"]), "{version}");
        let all = subject.migrations(version).await;
        assert_eq!(keys(&all[0]), keys(&read(&folder.join("migrations-index.json"))["migrations"][0]), "{version}");
    }
    for version in ["2.1", "2.23", "2.59", "2.66", "2.80"] {
        let folder = samples.join("os-migrations");
        let folder = if version == "2.1" { folder } else { folder.join(format!("v{version}")) };
        let sample = read(&folder.join("migrations-get.json"))["migrations"].take();
        // In the samples, running live migrations have links, and other migrations do not.
        let of_kind = |row: &&Value| version == "2.1" || row.get("links").is_some();
        let Some(wanted) = sample.as_array().unwrap().iter().find(of_kind) else { continue };
        let ours = subject.api.get("/os-migrations", version).await["migrations"].take();
        assert_eq!(keys(&ours[0]), keys(wanted), "{version}");
    }
}

/// The part of the memory and of the copied disk that has moved grows while the migration runs, and the rest shrinks.
#[actix_rt::test]
async fn the_bytes_of_a_running_migration_are_refreshed() {
    let subject = Subject::new().await;
    subject.api.world.fleet.set_travel(Duration::from_hours(10));
    let number = subject.held().await;
    let moved = async || {
        let path = format!("/servers/{}/migrations/{number}", subject.id);
        let one = subject.api.get(&path, "2.23").await["migration"].take();
        [("memory", 512_u64 << 20), ("disk", 1 << 30)].map(|(kind, whole)| {
            let bytes = ["total", "processed", "remaining"].map(|name| one[format!("{kind}_{name}_bytes")].as_u64());
            let [total, processed, remaining] = bytes.map(Option::unwrap);
            assert_eq!((total, processed + remaining), (whole, whole), "{kind}: {one}");
            processed
        })
    };
    let [memory, disk] = moved().await;
    assert!(memory < 256 << 20 && disk < 512 << 20, "half has moved at the start");
    subject.api.world.fleet.set_travel(Duration::from_millis(1));
    while moved().await != [512 << 20, 1 << 30] {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[actix_rt::test]
async fn a_running_live_migration_is_forced_to_complete() {
    let subject = Subject::new().await;
    let (target, number) = (subject.other().await, subject.held().await);
    assert_eq!(subject.call("POST", number, "2.22", Some(json!({"force_complete": null}))).await, (202, String::new()));
    subject.api.life.settled().await;
    assert_eq!(subject.host().await, target);
    let user = subject.api.call("GET", &format!("/servers/{}/migrations", subject.id), "2.23", USER, None).await;
    assert_eq!(user.status, 403);
}

/// Until 2.64 a migration that has not begun to copy cannot be aborted. From 2.65 on it can.
#[actix_rt::test]
async fn waiting_live_migrations_are_aborted_from_2_65_on() {
    let subject = Subject::new().await;
    let (api, home) = (&subject.api, subject.host().await);
    let reaches = async |id: &str, status: &str| -> u64 {
        loop {
            let all = api.get(&format!("/servers/{id}/migrations"), "2.23").await["migrations"].take();
            if all[0]["status"] == status {
                return all[0]["id"].as_u64().unwrap();
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    let abort = async |id: &str, number: u64, state: &str| {
        let path = format!("/servers/{id}/migrations/{number}");
        let early = api.call("DELETE", &path, "2.64", ADMIN, None).await;
        assert_eq!(early.status, 400, "{state}");
        assert!(early.message().contains(&format!("is {state}.")), "{}", early.message());
        assert_eq!(api.call("DELETE", &path, "2.65", ADMIN, None).await.status, 202, "{state}");
    };
    let live = || json!({"host": null, "block_migration": "auto"});

    api.world.brakes.hold("prepare_destination");
    assert_eq!(subject.ask("2.34", live()).await.0, 202);
    let number = reaches(&subject.id, "preparing").await;
    abort(&subject.id, number, "preparing").await;
    api.world.brakes.release("prepare_destination");
    api.life.settled().await;
    let now = subject.shown().await;
    assert_eq!((&now["status"], &now["OS-EXT-SRV-ATTR:host"]), (&json!("ACTIVE"), &json!(home)));

    // A second server on the same host waits until the migration of the first has ended.
    let mut request = Api::wish("second");
    request["host"] = json!(home);
    let second = api.server(ADMIN, request).await;
    subject.held().await;
    let body = Some(json!({"os-migrateLive": live()}));
    assert_eq!(api.call("POST", &format!("/servers/{second}/action"), "2.34", ADMIN, body).await.status, 202);
    let number = reaches(&second, "queued").await;
    abort(&second, number, "queued").await;
    api.world.fleet.hold_travellers(false);
    api.life.settled().await;
    assert_ne!(subject.host().await, home);
    let stays = api.get(&format!("/servers/{second}"), "2.46").await["server"].take();
    assert_eq!((&stays["status"], &stays["OS-EXT-SRV-ATTR:host"]), (&json!("ACTIVE"), &json!(home)));
    let all = api.get("/os-migrations", "2.59").await["migrations"].take();
    let ends: Vec<&str> = all.as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
    assert_eq!(ends, ["cancelled", "completed", "cancelled"]);
    // No abort above asked a host, because neither migration had begun to copy. So such aborts succeed on every
    // hypervisor.
    assert_eq!(api.world.fleet.calls(DriverCall::AbortMigration), 0, "a host was asked to abort");
}
