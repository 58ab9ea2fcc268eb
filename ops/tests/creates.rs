//! Kills the control plane with `kill -9` in the middle of a request for fifty servers. After the next start, all fifty
//! servers exist or none. The project's quota usage equals the number of existing servers, and no reconciler had to
//! release quota for that.
//!
//! `CHRONOVA_KILLS` sets the number of kills. The default is 6, and 60 with `CHRONOVA_SOAK`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cloud::{Client, Cloud, Furniture, pause};

const COUNT: usize = 50;
const FLEET: &str = "sim://2?latency_ms=1&vcpus=512&memory_mib=1048576&disk_gib=100000";

fn create(client: &Client, furniture: &Furniture, name: &str) -> Option<u16> {
    let server = json!({"server": {
        "name": name,
        "imageRef": furniture.image,
        "flavorRef": furniture.flavor,
        "networks": [{"uuid": furniture.network}],
        "min_count": COUNT,
        "max_count": COUNT,
    }});
    client.post("/compute/v2.1/servers", &server).ok().map(|answer| answer.status)
}

/// The number of living servers of each request. The name of a server is the request's `name` and a number.
fn requests(client: &Client) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for server in detail(client) {
        let request = server["name"].as_str().unwrap().rsplit_once('-').unwrap().0.to_owned();
        *found.entry(request).or_default() += 1;
    }
    found
}

fn detail(client: &Client) -> Vec<Value> {
    let list = client.get("/compute/v2.1/servers/detail?all_tenants=1").unwrap().expect(200).body;
    list["servers"].as_array().unwrap().clone()
}

/// Waits until no server is busy and every process has ended. A process that undoes a request still holds quota.
fn at_rest(cloud: &mut Cloud) {
    cloud.wait("nothing is under way", |cloud| {
        let busy = |server: &Value| !server["OS-EXT-STS:task_state"].is_null() || server["status"] == "BUILD";
        unfinished(&cloud.client()) == 0 && !detail(&cloud.client()).iter().any(busy)
    });
}

fn unfinished(client: &Client) -> u64 {
    let metrics = client.get("/metrics").unwrap().expect(200).body;
    let mut lines = metrics.as_str().unwrap().lines();
    lines.find_map(|line| line.strip_prefix("chronova_processes_unfinished ")).unwrap().parse().unwrap()
}

fn instances_in_use(client: &Client) -> u64 {
    let quota = client.get("/compute/v2.1/os-quota-sets/admin/detail").unwrap().expect(200).body;
    quota["quota_set"]["instances"]["in_use"].as_u64().unwrap()
}

/// Deletes all servers. One page of the list holds all servers of a request.
fn delete_all(cloud: &mut Cloud) {
    let client = cloud.client();
    for server in detail(&client) {
        let path = format!("/compute/v2.1/servers/{}", server["id"].as_str().unwrap());
        client.delete(&path).unwrap().expect(204);
    }
    cloud.wait("all servers are deleted", |cloud| detail(&cloud.client()).is_empty());
}

#[test]
fn a_request_that_a_kill_interrupts_leaves_all_of_its_servers_or_none() {
    let soak = std::env::var_os("CHRONOVA_SOAK").is_some();
    let kills = std::env::var("CHRONOVA_KILLS").ok().and_then(|text| text.parse().ok());
    let kills: u32 = kills.unwrap_or(if soak { 60 } else { 6 });
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    let furniture = cloud.furnish();
    cloud.wait("the hosts are up", |cloud| {
        let hosts = cloud.client().get("/compute/v2.1/os-hypervisors").unwrap().expect(200);
        hosts.body["hypervisors"].as_array().unwrap().iter().filter(|host| host["state"] == "up").count() == 2
    });
    let begun = Instant::now();
    assert_eq!(create(&cloud.client(), &furniture, "whole"), Some(202));
    let whole = begun.elapsed();
    at_rest(&mut cloud);
    assert_eq!(requests(&cloud.client()), BTreeMap::from([("whole".to_owned(), COUNT)]));
    delete_all(&mut cloud);

    let mut interrupted = 0;
    for kill in 0..kills {
        let name = format!("request{kill}");
        let (client, goods, asked) = (cloud.client(), furniture.clone(), name.clone());
        let request = std::thread::spawn(move || create(&client, &goods, &asked));
        // The kills are spread over the whole duration of a request.
        wait(whole.mul_f64(f64::from(kill + 1) / f64::from(kills + 1)));
        cloud.kill();
        let answered = request.join().unwrap();
        cloud.start();
        at_rest(&mut cloud);
        let found = requests(&cloud.client()).get(&name).copied().unwrap_or(0);
        println!("kill {kill}: answered {answered:?}, {found} servers");
        match answered {
            Some(status) => {
                assert_eq!((status, found), (202, COUNT), "the answer is not 202, or acknowledged servers are missing");
            }
            None => assert!(found == 0 || found == COUNT, "{found} of {COUNT} servers"),
        }
        interrupted += u32::from(found == 0);
        assert_eq!(instances_in_use(&cloud.client()), found as u64, "the quota differs from the existing servers");
        delete_all(&mut cloud);
        assert_eq!(instances_in_use(&cloud.client()), 0);
    }
    assert!(interrupted > 0, "no kill interrupted a request");
    cloud.stop();
    let (code, text) = cloud.command(&["audit", "--kind", "quota.released"]);
    assert_eq!(code, 0, "{text}");
    let reconciled: Vec<&str> = text.lines().filter(|line| line.contains("reconcile-quota")).collect();
    assert_eq!(reconciled, [""; 0], "a reconciler released quota");
}

fn wait(time: Duration) {
    pause(u64::try_from(time.as_millis()).unwrap());
}
