//! `kill -9` under load, hundreds of times: nothing acknowledged is lost, nothing is stuck, nothing leaks.
//!
//! `CHRONOVA_KILLS` sets how often (200, and 600 with `CHRONOVA_SOAK`), `CHRONOVA_SEED` the randomness.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

mod cloud;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use chronova_hypervisor::sim::SimFleet;
use cloud::{Client, Cloud, Furniture, pause};
use serde_json::{Value, json};

const FLEET: &str = "sim://4?latency_ms=1&vcpus=512&memory_mib=1048576&disk_gib=100000";
const CLIENTS: u64 = 3;
/// Servers of one client at the same time.
const CROWD: usize = 40;

/// What clients were told.
#[derive(Default)]
struct Told {
    created: BTreeSet<String>,
    deleted: BTreeSet<String>,
    /// Deletes that were sent; whether they were heard is not known.
    maybe_deleted: BTreeSet<String>,
    powered: u64,
}

#[test]
fn nothing_acknowledged_is_lost_by_hundreds_of_kills() {
    let kills = number("CHRONOVA_KILLS", if std::env::var_os("CHRONOVA_SOAK").is_some() { 600 } else { 200 });
    let seed = number("CHRONOVA_SEED", u64::from(std::process::id()));
    println!("{kills} kills, CHRONOVA_SEED={seed}");
    let mut random = Random(seed | 1);

    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    let furniture = cloud.furnish();
    hosts_up(&mut cloud, 4);
    let told = Arc::new(Mutex::new(Told::default()));
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (client, furniture) = (cloud.client(), furniture.clone());
            let (told, over) = (Arc::clone(&told), Arc::clone(&over));
            let random = Random(seed.wrapping_mul(31).wrapping_add(number) | 1);
            std::thread::spawn(move || trouble(&client, &furniture, &told, &over, random))
        })
        .collect();
    for _ in 0..kills {
        pause(random.below(120));
        cloud.kill();
        cloud.start();
    }
    over.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().unwrap();
    }
    let told = told.lock().unwrap();
    println!(
        "{} creates, {} deletes, {} power actions acknowledged",
        told.created.len(),
        told.deleted.len(),
        told.powered
    );
    assert!(told.created.len() > 20 && told.deleted.len() > 5, "there was some load");

    settle(&mut cloud);
    let living = servers(&cloud.client());
    check_api(&cloud, &told, &living);
    check_placement(&cloud, &living);
    check_ports(&cloud, &living);
    cloud.stop();
    check_hosts(&cloud, &living);
    check_log(&cloud, &told);
    let (code, text) = cloud.command(&["rebuild"]);
    assert_eq!(code, 0, "rebuild: {text}");
}

/// One client's life: creates, deletes, stops and starts servers of its own until it is over.
fn trouble(client: &Client, furniture: &Furniture, told: &Mutex<Told>, over: &AtomicBool, mut random: Random) {
    let mut mine: Vec<String> = Vec::new();
    while !over.load(Ordering::SeqCst) {
        pause(random.below(20));
        let pick = usize::try_from(random.below(mine.len().max(1) as u64)).unwrap();
        match random.below(10) {
            // A bounded crowd: neither its hosts nor its quota of ports are full.
            0..4 if mine.len() < CROWD => {
                if let Some(id) = create(client, furniture) {
                    told.lock().unwrap().created.insert(id.clone());
                    mine.push(id);
                }
            }
            0..6 if !mine.is_empty() => {
                let id = mine.swap_remove(pick);
                told.lock().unwrap().maybe_deleted.insert(id.clone());
                if client.delete(&format!("/compute/v2.1/servers/{id}")).is_ok_and(|answer| answer.status == 204) {
                    told.lock().unwrap().deleted.insert(id);
                }
            }
            other if !mine.is_empty() => {
                let action = if other == 6 { json!({"os-start": null}) } else { json!({"os-stop": null}) };
                let path = format!("/compute/v2.1/servers/{}/action", mine[pick]);
                match client.post(&path, &action).map(|answer| answer.status) {
                    Ok(202) => told.lock().unwrap().powered += 1,
                    // Not in the right state for it, or no answer.
                    Ok(409 | 503) | Err(_) => {}
                    Ok(status) => panic!("{path} {action}: {status}"),
                }
            }
            _ => {}
        }
    }
}

/// The id of a server that was accepted.
fn create(client: &Client, furniture: &Furniture) -> Option<String> {
    let server = json!({"server": {
        "name": "s", "imageRef": furniture.image, "flavorRef": furniture.flavor,
        "networks": [{"uuid": furniture.network}],
    }});
    let answer = client.post("/compute/v2.1/servers", &server).ok()?;
    match answer.status {
        202 => Some(answer.text("/server/id")),
        503 => None,
        _ => panic!("a server is refused: {answer:?}"),
    }
}

fn hosts_up(cloud: &mut Cloud, hosts: usize) {
    cloud.wait("all hosts are up", |cloud| {
        let answer = cloud.client().get("/compute/v2.1/os-hypervisors/detail").unwrap().expect(200);
        let all = answer.body["hypervisors"].as_array().unwrap();
        all.iter().filter(|host| host["state"] == "up").count() == hosts
    });
}

fn detail(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    let mut path = "/compute/v2.1/servers/detail?all_tenants=1".to_owned();
    loop {
        let answer = client.get(&path).unwrap().expect(200);
        let page = answer.body["servers"].as_array().unwrap().clone();
        let Some(last) = page.last() else { return all };
        path = format!("/compute/v2.1/servers/detail?all_tenants=1&marker={}", last["id"].as_str().unwrap());
        all.extend(page);
    }
}

fn servers(client: &Client) -> BTreeSet<String> {
    detail(client).iter().map(|server| server["id"].as_str().unwrap().to_owned()).collect()
}

/// Waits until nothing is under way; then nothing may be broken.
fn settle(cloud: &mut Cloud) {
    cloud.wait("nothing is under way", |cloud| {
        detail(&cloud.client()).iter().all(|server| server["OS-EXT-STS:task_state"].is_null())
    });
    for server in detail(&cloud.client()) {
        let status = server["status"].as_str().unwrap();
        assert!(["ACTIVE", "SHUTOFF"].contains(&status), "a server ended as {status}: {server}");
    }
}

fn check_api(cloud: &Cloud, told: &Told, living: &BTreeSet<String>) {
    for id in told.created.difference(&told.maybe_deleted) {
        assert!(living.contains(id), "server {id} was acknowledged and is lost");
    }
    for id in &told.deleted {
        let status = cloud.client().get(&format!("/compute/v2.1/servers/{id}")).unwrap().status;
        assert_eq!(status, 404, "the delete of {id} was acknowledged and forgotten");
    }
}

/// Allocations are those of the living servers, and add up.
fn check_placement(cloud: &Cloud, living: &BTreeSet<String>) {
    let client = cloud.client();
    let providers = client.get("/placement/resource_providers").unwrap().expect(200);
    let mut holders = BTreeSet::new();
    for provider in providers.body["resource_providers"].as_array().unwrap() {
        let path = format!("/placement/resource_providers/{}", provider["uuid"].as_str().unwrap());
        let allocations = client.get(&format!("{path}/allocations")).unwrap().expect(200);
        let here = allocations.body["allocations"].as_object().unwrap();
        let usages = client.get(&format!("{path}/usages")).unwrap().expect(200);
        assert_eq!(usages.body["usages"]["VCPU"], here.len(), "one VCPU for each server");
        for id in here.keys() {
            assert!(holders.insert(id.clone()), "{id} holds resources of two hosts");
        }
    }
    assert_eq!(&holders, living, "allocations are those of the living servers");
}

/// Ports are those of the living servers, one each.
fn check_ports(cloud: &Cloud, living: &BTreeSet<String>) {
    let ports = cloud.client().get("/network/v2.0/ports").unwrap().expect(200);
    let mut owners: Vec<&str> =
        ports.body["ports"].as_array().unwrap().iter().map(|port| port["device_id"].as_str().unwrap()).collect();
    owners.sort_unstable();
    assert_eq!(owners, living.iter().collect::<Vec<_>>(), "ports are those of the living servers");
}

/// Domains are the living servers, each once.
fn check_hosts(cloud: &Cloud, living: &BTreeSet<String>) {
    let fleet = SimFleet::open(FLEET.parse().unwrap(), &cloud.data().join("sim")).unwrap();
    let guests: BTreeSet<String> = fleet.whereabouts().keys().map(ToString::to_string).collect();
    assert_eq!(&guests, living, "domains are the living servers");
    assert_eq!(fleet.doubles(), [], "no guest runs twice");
    assert_eq!(fleet.leaks(), [], "no disk is left behind");
}

/// Every acknowledged command is in the log.
fn check_log(cloud: &Cloud, told: &Told) {
    let streams = |kind: &str| -> Vec<String> {
        let (code, text) = cloud.command(&["audit", "--kind", kind]);
        assert_eq!(code, 0, "{text}");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| line["stream"].as_str().unwrap().replace("instance-", "")).collect()
    };
    let asked: BTreeSet<String> = streams("instance.build_requested").into_iter().collect();
    assert!(asked.is_superset(&told.created), "every acknowledged create is in the log");
    let deleted: BTreeSet<String> = streams("instance.delete_requested").into_iter().collect();
    assert!(deleted.is_superset(&told.deleted), "every acknowledged delete is in the log");
    assert!(streams("instance.power_requested").len() as u64 >= told.powered, "so is every power action");
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// xorshift64*: the same seed, the same trouble.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound.max(1)
    }
}
