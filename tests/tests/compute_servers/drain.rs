//! Drains and maintenance of hosts: servers that move, servers that stay, rights, and views.

use chronova_tests::compute_api::{ADMIN, Answer, Api};
use chronova_tests::world::World;
use serde_json::{Value, json};

const USER: &str = "alice:web";

struct Site {
    api: Api,
    /// The drained host, and the other host.
    host: String,
    other: String,
}

impl Site {
    async fn new() -> Self {
        let api = Api::start_of(World::new(2), "", None).await;
        let (host, other) = (api.world.fleet.hostname(0), api.world.fleet.hostname(1));
        Self { api, host, other }
    }

    /// A server on the host.
    async fn server(&self, name: &str) -> String {
        let mut request = Api::wish(name);
        request["host"] = json!(self.host);
        self.api.server(ADMIN, request).await
    }

    async fn act(&self, id: &str, body: Value) {
        let answer = self.api.call("POST", &format!("/servers/{id}/action"), "2.100", ADMIN, Some(body)).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        self.api.life.settled().await;
    }

    async fn ask(&self, method: &str, rest: &str, body: Option<Value>) -> Answer {
        let path = format!("/chronova/v1/hosts/{}{rest}", self.host);
        self.api.ask(method, &path, "2.1", ADMIN, body).await
    }

    async fn drain(&self, request: Value) -> Value {
        let mut answer = self.ask("POST", "/drain", Some(json!({"drain": request}))).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        answer.body["host"].take()
    }

    async fn shown(&self) -> Value {
        let mut answer = self.ask("GET", "", None).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body["host"].take()
    }

    /// The server's status and host.
    async fn place(&self, id: &str) -> (String, String) {
        let server = self.api.get(&format!("/servers/{id}"), "2.100").await["server"].take();
        let text = |key: &str| server[key].as_str().unwrap_or_default().to_owned();
        (text("status"), text("OS-EXT-SRV-ATTR:host"))
    }

    async fn service(&self) -> Value {
        let path = format!("/os-services?binary=nova-compute&host={}", self.host);
        self.api.get(&path, "2.53").await["services"][0].take()
    }

    async fn until(&self, met: impl Fn(&Value) -> bool) -> Value {
        loop {
            let shown = self.shown().await;
            if met(&shown["drain"]) {
                return shown;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    async fn end(self) {
        self.api.life.stop().await;
        self.api.world.check().await;
    }
}

#[actix_rt::test]
async fn a_drain_keeps_the_power_state_of_servers() {
    let site = Site::new().await;
    let servers = [site.server("runs").await, site.server("paused").await, site.server("off").await];
    site.act(&servers[1], json!({"pause": null})).await;
    site.act(&servers[2], json!({"os-stop": null})).await;
    // A lock does not stop administrators.
    site.act(&servers[0], json!({"lock": null})).await;
    let begun = site.drain(json!({"parallel": 2, "reason": "new memory"})).await;
    assert_eq!((&begun["enabled"], &begun["disabled_reason"]), (&json!(false), &json!("new memory")));
    assert_eq!(begun["drain"]["parallel"], 2);
    site.api.life.settled().await;
    for (id, status) in servers.iter().zip(["ACTIVE", "PAUSED", "SHUTOFF"]) {
        assert_eq!(site.place(id).await, (status.to_owned(), site.other.clone()));
    }
    let shown = site.shown().await;
    let drain = &shown["drain"];
    assert_eq!((&drain["status"], &drain["waiting"], &shown["servers"]), (&json!("done"), &json!(0), &json!(0)));
    assert_eq!((drain["left"].as_array().unwrap().len(), &drain["stays"]), (3, &json!([])));
    assert!(drain["left"].as_array().unwrap().iter().all(|left| left["to"] == json!(site.other)), "{drain}");
    assert!(site.api.world.fleet.guests(0).is_empty());
    // The host stays disabled, and the scheduler places no server on it.
    assert_eq!(site.service().await["status"], "disabled");
    let next = site.api.server(USER, Api::wish("next")).await;
    assert_eq!(site.place(&next).await.1, site.other);
    // The servers' action lists show the moves.
    let log = site.api.get(&format!("/servers/{}/os-instance-actions", servers[2]), "2.58").await;
    let names: Vec<&str> =
        log["instanceActions"].as_array().unwrap().iter().map(|it| it["action"].as_str().unwrap()).take(2).collect();
    assert_eq!(names, ["confirmResize", "migrate"]);
    site.end().await;
}

#[actix_rt::test]
async fn a_drain_lists_servers_that_cannot_move_and_moves_the_others() {
    let site = Site::new().await;
    let (suspended, moved, runs) = (site.server("asleep").await, site.server("moved").await, site.server("runs").await);
    site.act(&suspended, json!({"suspend": null})).await;
    site.act(&moved, json!({"migrate": null})).await;
    assert_eq!(site.place(&moved).await, ("VERIFY_RESIZE".to_owned(), site.other.clone()));
    site.drain(json!({})).await;
    site.api.life.settled().await;
    assert_eq!(site.place(&runs).await, ("ACTIVE".to_owned(), site.other.clone()));
    let shown = site.shown().await;
    let reasons = |shown: &Value| {
        let stays = shown["drain"]["stays"].as_array().unwrap().iter();
        let mut all: Vec<(String, String)> = stays
            .map(|it| (it["name"].as_str().unwrap().to_owned(), it["reason"].as_str().unwrap().to_owned()))
            .collect();
        all.sort();
        all
    };
    let told = reasons(&shown);
    assert_eq!(shown["drain"]["status"], "incomplete");
    assert_eq!((told.len(), told[0].0.as_str(), told[1].0.as_str()), (2, "asleep", "moved"));
    assert!(told[0].1.contains("suspended") && told[1].1.contains("confirmed or reverted"), "{told:?}");

    // After the repair, the next drain moves the remaining servers.
    site.act(&suspended, json!({"resume": null})).await;
    let body = Some(json!({"confirmResize": null}));
    let done = site.api.call("POST", &format!("/servers/{moved}/action"), "2.1", ADMIN, body).await;
    assert_eq!(done.status, 204, "{}", done.body);
    site.api.life.settled().await;
    site.api.world.fleet.bar(1, "Host CPU does not provide required features: avx512f");
    site.drain(json!({})).await;
    site.api.life.settled().await;
    let told = reasons(&site.shown().await);
    assert!(told.len() == 1 && told[0].0 == "asleep" && told[0].1.contains("avx512f"), "{told:?}");
    assert_eq!(site.place(&suspended).await, ("ACTIVE".to_owned(), site.host.clone()));
    site.end().await;
}

#[actix_rt::test]
async fn a_drain_limits_parallel_moves_and_can_be_joined_and_cancelled() {
    let site = Site::new().await;
    for name in ["a", "b", "c"] {
        site.server(name).await;
    }
    site.api.world.fleet.hold_travellers(true);
    let begun = site.drain(json!({"parallel": 1})).await;
    let on_its_way = |drain: &Value| drain["leaving"][0]["status"] == "running";
    let shown = site.until(on_its_way).await;
    let drain = &shown["drain"];
    assert_eq!((drain["leaving"].as_array().unwrap().len(), &drain["waiting"]), (1, &json!(2)), "{drain}");
    assert_eq!((&drain["status"], &drain["leaving"][0]["how"]), (&json!("running"), &json!("live")));
    assert_eq!(shown["draining"], true);
    // A second request returns the same drain.
    let joined = site.drain(json!({"parallel": 7})).await;
    assert_eq!((&joined["drain"]["id"], &joined["drain"]["parallel"]), (&begun["drain"]["id"], &json!(1)));

    let cancelled = site.ask("DELETE", "/drain", None).await;
    assert_eq!((cancelled.status, &cancelled.body["host"]["drain"]["status"]), (202, &json!("cancelling")));
    let early = site.ask("POST", "/drain", Some(json!({"drain": {}}))).await;
    assert_eq!(early.status, 409);
    assert!(early.message().contains("being cancelled"), "{}", early.body);
    site.api.world.fleet.hold_travellers(false);
    site.api.life.settled().await;
    let shown = site.shown().await;
    assert_eq!((&shown["drain"]["status"], &shown["servers"]), (&json!("cancelled"), &json!(2)));
    assert_eq!(shown["drain"]["left"].as_array().unwrap().len(), 1, "the running move did not complete");
    assert_eq!(site.ask("DELETE", "/drain", None).await.status, 409);
    // A new drain continues where the cancelled one stopped.
    site.drain(json!({})).await;
    site.api.life.settled().await;
    assert_eq!(site.shown().await["servers"], 0);
    site.end().await;
}

#[actix_rt::test]
async fn maintenance_empties_a_host_and_gives_it_back() {
    let site = Site::new().await;
    let server = site.server("web").await;
    let begin = |reason: &str| Some(json!({"maintenance": {"reason": reason}}));
    let begun = site.ask("PUT", "/maintenance", begin("new fans")).await;
    assert_eq!((begun.status, &begun.body["host"]["maintenance"]["reason"]), (202, &json!("new fans")));
    site.api.life.settled().await;
    assert_eq!(site.place(&server).await.1, site.other);
    assert_eq!(site.service().await["disabled_reason"], "new fans");
    let all = site.api.ask("GET", "/chronova/v1/hosts", "2.1", ADMIN, None).await;
    let marked = |host: &Value| host["maintenance"]["reason"] == "new fans";
    assert_eq!(all.body["hosts"].as_array().unwrap().iter().filter(|host| marked(host)).count(), 1);

    let ended = site.ask("DELETE", "/maintenance", None).await;
    assert_eq!((ended.status, &ended.body["host"]["maintenance"]), (202, &Value::Null));
    assert_eq!(site.service().await["status"], "enabled");
    assert_eq!(site.ask("DELETE", "/maintenance", None).await.status, 409);
    // Enabling the service ends the maintenance, too.
    site.ask("PUT", "/maintenance", None).await;
    let id = site.service().await["id"].as_str().unwrap().to_owned();
    let enable = Some(json!({"status": "enabled"}));
    assert_eq!(site.api.call("PUT", &format!("/os-services/{id}"), "2.53", ADMIN, enable).await.status, 200);
    assert_eq!(site.shown().await["maintenance"], Value::Null);
    site.api.life.settled().await;
    site.end().await;
}

#[actix_rt::test]
async fn servers_of_a_dead_host_are_to_be_evacuated() {
    let site = Site::new().await;
    site.server("web").await;
    let id = site.service().await["id"].as_str().unwrap().to_owned();
    let down = |down: bool| Some(json!({"forced_down": down}));
    assert_eq!(site.api.call("PUT", &format!("/os-services/{id}"), "2.53", ADMIN, down(true)).await.status, 200);
    site.drain(json!({})).await;
    site.api.life.settled().await;
    let shown = site.shown().await;
    assert!(shown["drain"]["stays"][0]["reason"].as_str().unwrap().contains("evacuate"), "{shown}");
    assert_eq!(site.api.call("PUT", &format!("/os-services/{id}"), "2.53", ADMIN, down(false)).await.status, 200);
    site.api.life.settled().await;
    site.end().await;
}

#[actix_rt::test]
async fn drains_are_refused_to_users_and_with_invalid_bodies() {
    let site = Site::new().await;
    let path = |rest: &str| format!("/chronova/v1/hosts/{}{rest}", site.host);
    for (method, rest) in
        [("GET", ""), ("POST", "/drain"), ("DELETE", "/drain"), ("PUT", "/maintenance"), ("DELETE", "/maintenance")]
    {
        let answer = site.api.ask(method, &path(rest), "2.1", USER, None).await;
        assert_eq!(answer.status, 403, "{method} {rest}");
    }
    for body in [
        json!({"drain": {"parallel": 0}}),
        json!({"drain": {"parallel": 65}}),
        json!({"drain": {"parallel": "many"}}),
        json!({"drain": {"reason": " "}}),
        json!({"drain": {"reason": "x".repeat(256)}}),
        json!({"drain": {"host": "h"}}),
        json!({"maintenance": {}}),
        json!([]),
    ] {
        let answer = site.ask("POST", "/drain", Some(body.clone())).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
    }
    assert_eq!(site.ask("DELETE", "/drain", None).await.status, 409);
    let nowhere = site.api.ask("POST", "/chronova/v1/hosts/nowhere/drain", "2.1", ADMIN, None).await;
    assert_eq!((nowhere.status, nowhere.message()), (404, "Compute host nowhere could not be found."));
    let by_id = site.shown().await["id"].as_str().unwrap().to_owned();
    assert_eq!(site.api.ask("GET", &format!("/chronova/v1/hosts/{by_id}"), "2.1", ADMIN, None).await.status, 200);
    // The drain of an empty host ends at once. Its number of parallel moves follows from the options.
    assert_eq!(site.drain(json!({})).await["drain"]["parallel"], 2);
    site.api.life.settled().await;
    assert_eq!(site.shown().await["drain"]["status"], "done");
    site.end().await;
}
