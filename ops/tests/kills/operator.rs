//! An operator who works on hosts under load. The operator chooses a host at random and drains it, puts it into
//! maintenance, or forces it down and evacuates it. Then the operator enables all hosts again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{Random, Told, asked};
use crate::cloud::{Client, pause};

/// The services of all hosts; `None` without a good answer.
fn services(client: &Client) -> Option<Vec<Value>> {
    let answer = client.get("/compute/v2.1/os-services?binary=nova-compute").ok()?;
    (answer.status == 200).then(|| answer.body["services"].as_array().unwrap().clone())
}

pub fn care(client: &Client, told: &Mutex<Told>, over: &AtomicBool, mut random: Random) {
    while !over.load(Ordering::SeqCst) {
        pause(random.below(150));
        let Some(services) = services(client) else { continue };
        let service = &services[random.index(services.len())];
        let name = service["host"].as_str().unwrap();
        match random.below(4) {
            0 | 1 => drain(client, name, told, &mut random),
            2 => {
                let path = format!("/chronova/v1/hosts/{name}/maintenance");
                if client.put(&path, &json!({"maintenance": {}})).is_ok_and(|answer| answer.status == 202) {
                    told.lock().unwrap().count("maintenance");
                }
            }
            _ => evacuate(client, service, told),
        }
        pause(random.below(400));
        while !over.load(Ordering::SeqCst) && !give_back(client) {
            pause(5);
        }
    }
}

fn drain(client: &Client, host: &str, told: &Mutex<Told>, random: &mut Random) {
    let path = format!("/chronova/v1/hosts/{host}/drain");
    match asked(client, &path, &json!({"drain": {"parallel": 1 + random.below(4)}})) {
        Some(202) => told.lock().unwrap().count("drain"),
        // The last drain is just being cancelled, or the server did not answer.
        Some(409) | None => {}
        Some(status) => panic!("{path}: {status}"),
    }
    if random.below(3) == 0 {
        pause(random.below(100));
        let _ = client.delete(&path);
    }
}

fn evacuate(client: &Client, service: &Value, told: &Mutex<Told>) {
    let (id, host) = (service["id"].as_str().unwrap(), service["host"].as_str().unwrap());
    if force_down(client, id, true).is_none() {
        return;
    }
    let Ok(answer) = client.get(&format!("/compute/v2.1/servers?all_tenants=1&host={host}")) else { return };
    if answer.status != 200 {
        return;
    }
    for server in answer.body["servers"].as_array().unwrap() {
        let path = format!("/compute/v2.1/servers/{}/action", server["id"].as_str().unwrap());
        match asked(client, &path, &json!({"evacuate": {}})) {
            Some(200) => told.lock().unwrap().count("evacuate"),
            Some(400 | 404 | 409) | None => {}
            Some(status) => panic!("{path}: {status}"),
        }
    }
}

fn force_down(client: &Client, id: &str, forced: bool) -> Option<()> {
    let answer = client.put_at(&format!("/compute/v2.1/os-services/{id}"), &json!({"forced_down": forced})).ok()?;
    (answer.status == 200).then_some(())
}

/// Enables every host and ends forced-down states. Returns whether all hosts take servers.
pub fn give_back(client: &Client) -> bool {
    let Some(services) = services(client) else { return false };
    services.iter().all(|service| {
        let id = service["id"].as_str().unwrap();
        let up = service["forced_down"] != true || force_down(client, id, false).is_some();
        let path = format!("/compute/v2.1/os-services/{id}");
        let open = service["status"] == "enabled"
            || client.put_at(&path, &json!({"status": "enabled"})).is_ok_and(|answer| answer.status == 200);
        up && open
    })
}

/// The number of hosts that are being drained.
pub fn drains(client: &Client) -> usize {
    let hosts = client.get("/chronova/v1/hosts").unwrap().expect(200);
    hosts.body["hosts"].as_array().unwrap().iter().filter(|host| host["draining"] == true).count()
}
