//! Checks that allocations, ports, volumes, quotas and guests match the servers.

use std::collections::{BTreeMap, BTreeSet};

use chronova_hypervisor::sim::SimFleet;
use serde_json::Value;

use crate::cloud::{Client, Cloud};

/// Asserts that both maps are equal. The message has only the differences.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &BTreeMap<String, T>, wanted: &BTreeMap<String, T>) {
    let ids: BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
    let differ: Vec<_> = ids
        .into_iter()
        .filter(|id| found.get(*id) != wanted.get(*id))
        .map(|id| format!("{id}: {:?}, not {:?}", found.get(id), wanted.get(id)))
        .collect();
    assert!(differ.is_empty(), "{what}:\n{}", differ.join("\n"));
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key}: {value}"))
}

pub fn detail(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    let mut path = "/compute/v2.1/servers/detail?all_tenants=1".to_owned();
    loop {
        let answer = client.get(&path).unwrap().expect(200);
        let page = answer.body["servers"].as_array().unwrap().clone();
        let Some(last) = page.last() else { return all };
        path = format!("/compute/v2.1/servers/detail?all_tenants=1&marker={}", text(last, "id"));
        all.extend(page);
    }
}

/// Every server, by its id.
pub fn servers(client: &Client) -> BTreeMap<String, Value> {
    detail(client).into_iter().map(|server| (text(&server, "id").to_owned(), server)).collect()
}

fn volumes(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    let mut path = "/volume/v3/admin/volumes/detail?all_tenants=1".to_owned();
    loop {
        let answer = client.get(&path).unwrap().expect(200);
        let page = answer.body["volumes"].as_array().unwrap().clone();
        let Some(last) = page.last() else { return all };
        path = format!("/volume/v3/admin/volumes/detail?all_tenants=1&marker={}", text(last, "id"));
        all.extend(page);
    }
}

/// Volumes with unfinished work. The volumes of a shelved and offloaded server are not among them, because they stay
/// `reserved` until the unshelve.
pub fn restless_volumes(client: &Client) -> Vec<Value> {
    let away = detail(client).into_iter().filter(|server| server["status"] == "SHELVED_OFFLOADED");
    let kept: BTreeSet<String> = away.flat_map(|server| volumes_of(&server)).collect();
    let rests = |volume: &Value| match text(volume, "status") {
        "reserved" => kept.contains(text(volume, "id")),
        status => ["available", "in-use"].contains(&status),
    };
    volumes(client).into_iter().filter(|volume| !rests(volume)).collect()
}

fn volumes_of(server: &Value) -> Vec<String> {
    let attached = server["os-extended-volumes:volumes_attached"].as_array().unwrap();
    attached.iter().map(|volume| text(volume, "id").to_owned()).collect()
}

/// Checks everything except the hosts. Returns the numbers of compared objects as text.
pub fn check(cloud: &Cloud, living: &BTreeMap<String, Value>) -> String {
    check_placement(&cloud.client(), living);
    check_ports(&cloud.client(), living);
    let volumes = check_volumes(&cloud.client(), living);
    check_quota(&cloud.client(), living);
    let moves = check_migrations(&cloud.client());
    format!("{} servers with {volumes} volumes; moves: {moves:?}", living.len())
}

fn size(server: &Value) -> (u64, u64) {
    let flavor = &server["flavor"];
    (flavor["vcpus"].as_u64().unwrap(), flavor["ram"].as_u64().unwrap())
}

/// Checks that each living server has one allocation, on its host, and that a provider's usage is the sum of its
/// allocations.
fn check_placement(client: &Client, living: &BTreeMap<String, Value>) {
    let providers = client.get("/placement/resource_providers").unwrap().expect(200);
    let mut holders: BTreeMap<String, String> = BTreeMap::new();
    for provider in providers.body["resource_providers"].as_array().unwrap() {
        let path = format!("/placement/resource_providers/{}", text(provider, "uuid"));
        let allocations = client.get(&format!("{path}/allocations")).unwrap().expect(200);
        let mut sum = (0, 0);
        for (id, held) in allocations.body["allocations"].as_object().unwrap() {
            let before = holders.insert(id.clone(), text(provider, "name").to_owned());
            assert_eq!(before, None, "{id} holds resources of two hosts");
            let server = living.get(id).unwrap_or_else(|| panic!("{id} is no server and holds {held}"));
            let held = (held["resources"]["VCPU"].as_u64().unwrap(), held["resources"]["MEMORY_MB"].as_u64().unwrap());
            assert_eq!(held, size(server), "the allocation of {id} differs from its flavor");
            sum = (sum.0 + held.0, sum.1 + held.1);
        }
        let usages = client.get(&format!("{path}/usages")).unwrap().expect(200).body["usages"].take();
        assert_eq!((usages["VCPU"].as_u64(), usages["MEMORY_MB"].as_u64()), (Some(sum.0), Some(sum.1)), "{provider}");
    }
    let placed: BTreeMap<String, String> =
        living.iter().map(|(id, it)| (id.clone(), text(it, "OS-EXT-SRV-ATTR:host").to_owned())).collect();
    same("allocations differ from the living servers and their hosts", &holders, &placed);
}

/// Checks that each living server has one port, bound to its host.
fn check_ports(client: &Client, living: &BTreeMap<String, Value>) {
    let ports = client.get("/network/v2.0/ports").unwrap().expect(200);
    let mut bound: Vec<(&str, &str)> = ports.body["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| (text(port, "device_id"), text(port, "binding:host_id")))
        .collect();
    bound.sort_unstable();
    let placed: Vec<(&str, &str)> =
        living.iter().map(|(id, it)| (id.as_str(), text(it, "OS-EXT-SRV-ATTR:host"))).collect();
    assert_eq!(bound, placed, "ports and their hosts differ from the living servers and their hosts");
}

/// Checks that servers and volumes agree about attachments. Returns the number of attachments.
fn check_volumes(client: &Client, living: &BTreeMap<String, Value>) -> usize {
    let mut theirs = BTreeSet::new();
    for volume in volumes(client) {
        let attachments = volume["attachments"].as_array().unwrap();
        assert_eq!(attachments.is_empty(), volume["status"] == "available", "{volume}");
        for attachment in attachments {
            theirs.insert((text(attachment, "server_id").to_owned(), text(&volume, "id").to_owned()));
        }
    }
    let mut ours = BTreeSet::new();
    for (id, server) in living {
        ours.extend(volumes_of(server).into_iter().map(|volume| (id.clone(), volume)));
    }
    assert_eq!(theirs, ours, "servers and volumes disagree about attachments");
    ours.len()
}

fn check_quota(client: &Client, living: &BTreeMap<String, Value>) {
    let limits = client.get("/compute/v2.1/limits").unwrap().expect(200).body["limits"]["absolute"].take();
    let sum = living.values().map(size).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let used = |name: &str| limits[name].as_u64().unwrap();
    assert_eq!(used("totalInstancesUsed"), living.len() as u64);
    assert_eq!((used("totalCoresUsed"), used("totalRAMUsed")), sum, "the quota differs from the servers' usage");
}

/// Checks that every migration has ended. Returns the numbers of migrations by type and status.
fn check_migrations(client: &Client) -> BTreeMap<(String, String), u64> {
    let all = client.get("/compute/v2.1/os-migrations").unwrap().expect(200);
    let ends = ["confirmed", "reverted", "error", "failed", "completed", "cancelled", "done"];
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for migration in all.body["migrations"].as_array().unwrap() {
        assert!(ends.contains(&text(migration, "status")), "a move is stuck: {migration}");
        let key = (text(migration, "migration_type").to_owned(), text(migration, "status").to_owned());
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// Checks that each living server has one guest, on its host, and that no other disk exists.
pub fn check_hosts(cloud: &Cloud, fleet: &str, living: &BTreeMap<String, Value>) {
    let fleet = SimFleet::open(fleet.parse().unwrap(), &cloud.data().join("sim")).unwrap();
    let named = |hosts: Vec<usize>| hosts.into_iter().map(|host| fleet.hostname(host)).collect::<Vec<_>>();
    let guests: BTreeMap<String, Vec<String>> =
        fleet.whereabouts().into_iter().map(|(id, hosts)| (id.to_string(), named(hosts))).collect();
    let placed: BTreeMap<String, Vec<String>> =
        living.iter().map(|(id, it)| (id.clone(), vec![text(it, "OS-EXT-SRV-ATTR:host").to_owned()])).collect();
    same("guests and their hosts differ from the living servers and their hosts", &guests, &placed);
    assert_eq!(fleet.leaks(), [], "disks are left behind");
    assert_eq!(fleet.copies(), [], "copies of disks are left behind");
    assert_eq!(fleet.kept(), [], "disks are still set aside");
}
