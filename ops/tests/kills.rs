//! Kills the server with `kill -9` under load, again and again. No acknowledged command is lost, nothing is stuck, and
//! nothing leaks.
//!
//! Clients create, delete, start, stop, resize, migrate and shelve servers, and attach volumes. An operator drains
//! hosts, forces them down, evacuates them and enables them again. In the end, allocations, ports, volumes, guests and
//! quotas must match the existing servers.
//!
//! `CHRONOVA_KILLS` sets the number of kills. The default is 150, and 600 with `CHRONOVA_SOAK`. `CHRONOVA_SEED` seeds
//! the random choices.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

#[path = "kills/model.rs"]
mod model;
#[path = "kills/operator.rs"]
mod operator;
#[path = "kills/traffic.rs"]
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use traffic::Goods;

use crate::cloud::{Client, Cloud, pause};

const FLEET: &str = "sim://4?latency_ms=1&vcpus=512&memory_mib=1048576&disk_gib=100000";
const CLIENTS: u64 = 3;

/// The answers that clients got.
#[derive(Default)]
pub struct Told {
    pub created: BTreeSet<String>,
    pub deleted: BTreeSet<String>,
    /// Servers for which a delete was sent, whatever its outcome.
    pub maybe_deleted: BTreeSet<String>,
    /// The numbers of other accepted requests, by name.
    pub accepted: BTreeMap<String, u64>,
}

impl Told {
    pub fn count(&mut self, what: &str) {
        *self.accepted.entry(what.to_owned()).or_default() += 1;
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_hundreds_of_kills() {
    let kills = number("CHRONOVA_KILLS", if std::env::var_os("CHRONOVA_SOAK").is_some() { 600 } else { 150 });
    let seed = number("CHRONOVA_SEED", u64::from(std::process::id()));
    println!("{kills} kills, CHRONOVA_SEED={seed}");
    let mut random = Random(seed | 1);

    let mut cloud = Cloud::new(FLEET);
    cloud.configure("[volume]\nshared = true\n");
    cloud.start();
    let goods = Goods::new(&cloud);
    hosts_up(&mut cloud, 4);
    let told = Arc::new(Mutex::new(Told::default()));
    let over = Arc::new(AtomicBool::new(false));
    let mut threads: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (client, goods) = (cloud.client(), goods.clone());
            let (told, over) = (Arc::clone(&told), Arc::clone(&over));
            let random = Random(seed.wrapping_mul(31).wrapping_add(number) | 1);
            std::thread::spawn(move || traffic::trouble(client, goods, &told, &over, random))
        })
        .collect();
    threads.push({
        let (client, told, over) = (cloud.client(), Arc::clone(&told), Arc::clone(&over));
        let random = Random(seed.wrapping_mul(37) | 1);
        std::thread::spawn(move || operator::care(&client, &told, &over, random))
    });
    for _ in 0..kills {
        pause(random.below(250));
        cloud.kill();
        cloud.start();
    }
    over.store(true, Ordering::SeqCst);
    for thread in threads {
        thread.join().unwrap();
    }
    let told = told.lock().unwrap();
    println!("{} creates, {} deletes, {:?} acknowledged", told.created.len(), told.deleted.len(), told.accepted);
    assert!(told.created.len() > 20 && told.deleted.len() > 5, "the clients created or deleted too few servers");

    settle(&mut cloud);
    let living = model::servers(&cloud.client());
    check_api(&cloud, &told, &living);
    println!("{}", model::check(&cloud, &living));
    // Host agents remove leftovers of servers by themselves, and record no event of the removal.
    pause(1_000);
    cloud.stop();
    model::check_hosts(&cloud, FLEET, &living);
    check_log(&cloud, &told);
    let (code, text) = cloud.command(&["rebuild"]);
    assert_eq!(code, 0, "rebuild: {text}");
}

fn hosts_up(cloud: &mut Cloud, hosts: usize) {
    cloud.wait("all hosts are up", |cloud| {
        let answer = cloud.client().get("/compute/v2.1/os-hypervisors/detail").unwrap().expect(200);
        let all = answer.body["hypervisors"].as_array().unwrap();
        all.iter().filter(|host| host["state"] == "up").count() == hosts
    });
}

/// Enables all hosts, ends waiting operations, and waits until no work is under way. Then all invariants must hold.
fn settle(cloud: &mut Cloud) {
    cloud.wait("all hosts are enabled", |cloud| operator::give_back(&cloud.client()));
    hosts_up(cloud, 4);
    at_rest(cloud);
    let mut random = Random(7);
    for server in model::detail(&cloud.client()) {
        let action = match server["status"].as_str().unwrap() {
            "VERIFY_RESIZE" if random.below(2) == 0 => json!({"confirmResize": null}),
            "VERIFY_RESIZE" => json!({"revertResize": null}),
            "SHELVED" | "SHELVED_OFFLOADED" => json!({"unshelve": null}),
            _ => continue,
        };
        let path = format!("/compute/v2.1/servers/{}/action", server["id"].as_str().unwrap());
        let status = cloud.client().post(&path, &action).unwrap().status;
        assert!([202, 204].contains(&status), "{action} of {server}: {status}");
    }
    at_rest(cloud);
    for server in model::detail(&cloud.client()) {
        let status = server["status"].as_str().unwrap();
        assert!(["ACTIVE", "SHUTOFF"].contains(&status), "a server ended as {status}: {server}");
    }
}

fn at_rest(cloud: &mut Cloud) {
    let mut busy = String::new();
    let rests = |cloud: &mut Cloud| {
        busy = under_way(&cloud.client());
        busy.is_empty()
    };
    if !cloud.comes(rests) {
        let folder = cloud.keep();
        panic!("this stays under way (`chronova inspect` on {}):\n{busy}\n{}", folder.display(), cloud.log());
    }
}

/// Servers and volumes with unfinished work, one line each, and a line with the number of drains, if any.
fn under_way(client: &Client) -> String {
    let servers = model::detail(client).into_iter().filter(|server| !server["OS-EXT-STS:task_state"].is_null());
    let volumes = model::restless_volumes(client);
    let mut lines: Vec<String> = servers.chain(volumes).map(|row| row.to_string()).collect();
    let drains = operator::drains(client);
    if drains > 0 {
        lines.push(format!("{drains} hosts are being drained"));
    }
    lines.join("\n")
}

fn check_api(cloud: &Cloud, told: &Told, living: &BTreeMap<String, Value>) {
    for id in told.created.difference(&told.maybe_deleted) {
        assert!(living.contains_key(id), "server {id} was acknowledged, but does not exist");
    }
    for id in &told.deleted {
        let status = cloud.client().get(&format!("/compute/v2.1/servers/{id}")).unwrap().status;
        assert_eq!(status, 404, "the delete of {id} was acknowledged, but the server exists");
    }
}

/// Checks that every acknowledged command of the kinds below is in the log.
fn check_log(cloud: &Cloud, told: &Told) {
    let streams = |kind: &str| -> Vec<String> {
        let (code, text) = cloud.command(&["audit", "--kind", kind]);
        assert_eq!(code, 0, "{text}");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| line["stream"].as_str().unwrap().replace("instance-", "")).collect()
    };
    let asked: BTreeSet<String> = streams("instance.build_requested").into_iter().collect();
    assert!(asked.is_superset(&told.created), "an acknowledged create is not in the log");
    let deleted: BTreeSet<String> = streams("instance.delete_requested").into_iter().collect();
    assert!(deleted.is_superset(&told.deleted), "an acknowledged delete is not in the log");
    let accepted = |names: &[&str]| names.iter().filter_map(|name| told.accepted.get(*name)).sum::<u64>();
    for (kind, names) in [
        ("instance.power_requested", &["os-start", "os-stop"][..]),
        ("instance.move_requested", &["resize", "migrate"]),
        ("instance.live_move_requested", &["os-migrateLive"]),
        ("instance.evacuation_requested", &["evacuate"]),
        ("instance.shelve_requested", &["shelve"]),
        ("instance.unshelve_requested", &["unshelve"]),
        ("instance.volume_attach_requested", &["attach"]),
        ("host.maintenance_begun", &["maintenance"]),
    ] {
        assert!(streams(kind).len() as u64 >= accepted(names), "an acknowledged {kind} is not in the log");
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Sends a request. Returns the status of the answer, or `None` if there is no answer or the status is 503.
pub fn asked(client: &Client, path: &str, body: &Value) -> Option<u16> {
    client.post(path, body).ok().map(|answer| answer.status).filter(|status| *status != 503)
}

/// A generator of random numbers (xorshift64*): the same seed gives the same numbers.
pub struct Random(u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound.max(1)
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length.max(1) as u64)).unwrap()
    }
}
