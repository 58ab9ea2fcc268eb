//! Placement of servers at creation and at moves: zones, aggregates, scheduler hints and forced hosts.

use chronova_hypervisor::sim::SimUri;
use chronova_tests::compute_api::{ADMIN, Api, IMAGE};
use chronova_tests::services::OneImage;
use chronova_tests::world::World;
use chronova_web::compute::{ComputeConfig, ComputeState};
use serde_json::{Value, json};
use std::sync::Arc;

const OWNER: &str = "u:p";

async fn aggregate(api: &Api, name: &str, metadata: Value, hosts: &[&str]) {
    let made = api.call("POST", "/os-aggregates", "2.1", ADMIN, Some(json!({"aggregate": {"name": name}}))).await;
    let id = made.body["aggregate"]["id"].as_u64().unwrap();
    let told = std::iter::once(json!({"set_metadata": {"metadata": metadata}}));
    for act in told.chain(hosts.iter().map(|host| json!({"add_host": {"host": host}}))) {
        let done = api.call("POST", &format!("/os-aggregates/{id}/action"), "2.1", ADMIN, Some(act)).await;
        assert_eq!(done.status, 200, "{}", done.body);
    }
}

async fn zone(api: &Api, name: &str, hosts: &[&str]) {
    aggregate(api, name, json!({"availability_zone": name}), hosts).await;
}

fn names(api: &Api) -> Vec<String> {
    (0..api.world.fleet.len()).map(|host| api.world.fleet.hostname(host)).collect()
}

async fn shown(api: &Api, id: &str) -> Value {
    api.get(&format!("/servers/{id}"), "2.46").await["server"].take()
}

async fn host(api: &Api, id: &str) -> String {
    shown(api, id).await["OS-EXT-SRV-ATTR:host"].as_str().unwrap_or_default().to_owned()
}

/// Sends the action and waits until its process ends. Returns the answer's status and message.
async fn act(api: &Api, id: &str, version: &str, body: Value) -> (u16, String) {
    let answer = api.call("POST", &format!("/servers/{id}/action"), version, ADMIN, Some(body)).await;
    api.life.settled().await;
    (answer.status, answer.message().to_owned())
}

fn request(name: &str, zone: Option<&str>) -> Value {
    let mut request = Api::wish(name);
    if let Some(zone) = zone {
        request["availability_zone"] = json!(zone);
    }
    request
}

async fn switch(api: &Api, host: &str, status: &str) {
    let services = api.get("/os-services?binary=nova-compute", "2.53").await["services"].take();
    let service = services.as_array().unwrap().iter().find(|service| service["host"] == host).unwrap().clone();
    let path = format!("/os-services/{}", service["id"].as_str().unwrap());
    assert_eq!(api.call("PUT", &path, "2.53", ADMIN, Some(json!({"status": status}))).await.status, 200);
}

async fn ends_well(api: Api) {
    let Api { world, life, .. } = api;
    life.settled().await;
    life.stop().await;
    world.check().await;
}

/// Starts two hosts in the zone `north`, and one in `south` that has room for every server.
async fn two_zones() -> (Api, Vec<String>) {
    two_zones_of(World::new(3)).await
}

async fn two_zones_of(mut world: World) -> (Api, Vec<String>) {
    world.options.processes.allow_resize_to_same_host = false;
    let api = Api::start_of(world, "", None).await;
    let hosts = names(&api);
    zone(&api, "north", &[&hosts[0], &hosts[1]]).await;
    zone(&api, "south", &[&hosts[2]]).await;
    (api, hosts)
}

/// The scheduler keeps a server in the zone that its request named, at migrations, resizes and evacuations.
#[actix_rt::test]
async fn a_server_made_in_a_zone_moves_within_it() {
    let (api, hosts) = two_zones().await;
    api.flavor("2", 1024, 1).await;
    let id = api.server(OWNER, request("kept", Some("north"))).await;
    let north = &hosts[..2];
    let live = || json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
    let mut before = host(&api, &id).await;
    assert!(north.contains(&before));
    for (round, flavor) in ["2", "1"].into_iter().enumerate() {
        assert_eq!(act(&api, &id, "2.34", live()).await.0, 202);
        let now = host(&api, &id).await;
        assert!(north.contains(&now) && now != before, "round {round}: live from {before} to {now}");
        assert_eq!(act(&api, &id, "2.56", json!({"migrate": null})).await.0, 202);
        let then = host(&api, &id).await;
        assert!(north.contains(&then) && then != now, "round {round}: cold from {now} to {then}");
        assert_eq!(act(&api, &id, "2.1", json!({"confirmResize": null})).await.0, 204);
        assert_eq!(act(&api, &id, "2.1", json!({"resize": {"flavorRef": flavor}})).await.0, 202);
        let last = host(&api, &id).await;
        assert!(north.contains(&last) && last != then, "round {round}: resized from {then} to {last}");
        assert_eq!(act(&api, &id, "2.1", json!({"confirmResize": null})).await.0, 204);
        before = last;
    }
    // No other host of the zone is enabled: the server stays, although the other zone has room.
    let other = north.iter().find(|name| **name != before).unwrap();
    switch(&api, other, "disabled").await;
    assert_eq!(act(&api, &id, "2.34", live()).await.0, 202);
    assert_eq!(act(&api, &id, "2.56", json!({"migrate": null})).await.0, 202);
    let stays = shown(&api, &id).await;
    assert_eq!((&stays["status"], &stays["OS-EXT-SRV-ATTR:host"]), (&json!("ACTIVE"), &json!(before)));
    let moves = api.get("/os-migrations", "2.59").await["migrations"].take();
    let ends: Vec<&str> = moves.as_array().unwrap()[..2].iter().map(|row| row["status"].as_str().unwrap()).collect();
    assert_eq!(ends, ["error", "error"], "{moves}");
    // The scheduler refuses a named host of another zone.
    let named = json!({"os-migrateLive": {"host": hosts[2], "block_migration": "auto"}});
    let (status, message) = act(&api, &id, "2.30", named).await;
    assert_eq!(status, 400);
    assert!(message.contains("No valid host was found"), "{message}");
    assert_eq!(host(&api, &id).await, before);
    // The server's host dies: the scheduler evacuates the server within the zone, too.
    api.world.fleet.kill_host(hosts.iter().position(|name| *name == before).unwrap());
    api.life.hosts_up_of(2, 3).await;
    assert_eq!(act(&api, &id, "2.95", json!({"evacuate": {}})).await.0, 200);
    assert_eq!(host(&api, &id).await, before, "the server went to a host outside its zone or to a disabled one");
    switch(&api, other, "enabled").await;
    assert_eq!(act(&api, &id, "2.95", json!({"evacuate": {}})).await.0, 200);
    assert_eq!(host(&api, &id).await, *other);
    api.world.fleet.revive_host(hosts.iter().position(|name| *name == before).unwrap(), false).unwrap();
    api.life.hosts_up(3).await;
    ends_well(api).await;
}

/// With `force` no filter runs, neither for the zone nor for a disabled host. Live migrations have `force` from 2.30 to
/// 2.67, evacuations from 2.29 to 2.67.
#[actix_rt::test]
async fn a_move_by_force_goes_where_the_filters_would_not_let_it() {
    let (api, hosts) = two_zones().await;
    let id = api.server(OWNER, request("forced", Some("north"))).await;
    let home = host(&api, &id).await;
    switch(&api, &hosts[2], "disabled").await;
    let live = |force: bool| json!({"os-migrateLive": {"host": hosts[2], "block_migration": "auto", "force": force}});
    assert_eq!(act(&api, &id, "2.30", live(false)).await.0, 400);
    assert_eq!(host(&api, &id).await, home);
    assert_eq!(act(&api, &id, "2.30", live(true)).await.0, 202);
    assert_eq!(host(&api, &id).await, hosts[2]);
    // The server shows its host's zone, but its request still names the other zone. The scheduler moves the server back
    // to that zone.
    assert_eq!(shown(&api, &id).await["OS-EXT-AZ:availability_zone"], "south");
    assert_eq!(act(&api, &id, "2.56", json!({"migrate": null})).await.0, 202);
    assert!(hosts[..2].contains(&host(&api, &id).await));
    assert_eq!(shown(&api, &id).await["OS-EXT-AZ:availability_zone"], "north");
    assert_eq!(act(&api, &id, "2.1", json!({"revertResize": null})).await.0, 202);
    assert_eq!(host(&api, &id).await, hosts[2]);
    // From 2.68 on the schema refuses `force`.
    let (status, _) = act(&api, &id, "2.68", live(true)).await;
    assert_eq!(status, 400);
    // An evacuation can be forced, too, but a cold migration has no `force`.
    let there = json!({"migrate": {"host": hosts[0], "force": true}});
    assert_eq!(act(&api, &id, "2.56", there).await.0, 400);
    for body in [
        json!({"resize": {"flavorRef": "1", "force": true}}),
        json!({"unshelve": {"availability_zone": "north", "force": true}}),
    ] {
        assert_eq!(act(&api, &id, "2.77", body.clone()).await.0, 400, "{body}");
    }
    api.world.fleet.kill_host(2);
    api.life.hosts_up_of(2, 3).await;
    for name in &hosts[..2] {
        switch(&api, name, "disabled").await;
    }
    let evacuate = |force: bool| json!({"evacuate": {"host": hosts[0], "force": force}});
    assert_eq!(act(&api, &id, "2.28", evacuate(true)).await.0, 400);
    let unsaid = json!({"evacuate": {"host": hosts[0]}});
    for careful in [evacuate(false), unsaid] {
        assert_eq!(act(&api, &id, "2.29", careful).await.0, 200);
        assert_eq!(host(&api, &id).await, hosts[2], "a disabled host got the server");
    }
    assert_eq!(act(&api, &id, "2.68", evacuate(true)).await.0, 400);
    assert_eq!(act(&api, &id, "2.29", evacuate(true)).await.0, 200);
    assert_eq!(host(&api, &id).await, hosts[0]);
    api.world.fleet.revive_host(2, false).unwrap();
    api.life.hosts_up(3).await;
    ends_well(api).await;
}

#[actix_rt::test]
async fn a_server_of_no_zone_moves_from_zone_to_zone() {
    let api = Api::start_of(World::new(2), "", None).await;
    let hosts = names(&api);
    zone(&api, "north", &[&hosts[0]]).await;
    zone(&api, "south", &[&hosts[1]]).await;
    let id = api.server(OWNER, request("free", None)).await;
    let zone_of = async || shown(&api, &id).await["OS-EXT-AZ:availability_zone"].as_str().unwrap().to_owned();
    let (first, home) = (zone_of().await, host(&api, &id).await);
    let live = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
    assert_eq!(act(&api, &id, "2.34", live).await.0, 202);
    assert_ne!(host(&api, &id).await, home);
    let second = zone_of().await;
    assert_ne!(second, first, "the server still shows its first zone");
    assert_eq!(act(&api, &id, "2.56", json!({"migrate": null})).await.0, 202);
    assert_eq!(zone_of().await, first);
    assert_eq!(act(&api, &id, "2.1", json!({"confirmResize": null})).await.0, 204);
    assert_eq!(act(&api, &id, "2.1", json!({"shelveOffload": null})).await.0, 409, "it was offloaded unshelved");
    assert_eq!(act(&api, &id, "2.1", json!({"shelve": null})).await.0, 202);
    assert_eq!(act(&api, &id, "2.1", json!({"shelveOffload": null})).await.0, 202);
    switch(&api, &home, "disabled").await;
    assert_eq!(act(&api, &id, "2.1", json!({"unshelve": null})).await.0, 202);
    assert_eq!(zone_of().await, second);
    // Both zones have room, and the request chooses one.
    switch(&api, &home, "enabled").await;
    for zone in [&first, &second, &first] {
        assert_eq!(act(&api, &id, "2.1", json!({"shelve": null})).await.0, 202);
        assert_eq!(act(&api, &id, "2.1", json!({"shelveOffload": null})).await.0, 202);
        assert_eq!(act(&api, &id, "2.77", json!({"unshelve": {"availability_zone": zone}})).await.0, 202);
        assert_eq!(zone_of().await, *zone);
    }
    ends_well(api).await;
}

/// A server whose request names no zone gets `[DEFAULT] default_schedule_zone`, and moves only within it.
#[actix_rt::test]
async fn servers_without_a_requested_zone_are_in_the_default_one() {
    let (mut api, hosts) = two_zones().await;
    let config = ComputeConfig { default_schedule_zone: Some("south".to_owned()), ..ComputeConfig::default() };
    Arc::get_mut(&mut api.app).unwrap().compute = ComputeState::new(config);
    let id = api.server(OWNER, request("by default", None)).await;
    assert_eq!(host(&api, &id).await, hosts[2]);
    let asked = api.server(OWNER, request("asked", Some("north"))).await;
    assert!(hosts[..2].contains(&host(&api, &asked).await));
    // There is no other host in its zone.
    assert_eq!(act(&api, &id, "2.56", json!({"migrate": null})).await.0, 202);
    let stays = shown(&api, &id).await;
    assert_eq!((&stays["status"], &stays["OS-EXT-SRV-ATTR:host"]), (&json!("ACTIVE"), &json!(hosts[2])));
    ends_well(api).await;
}

/// From 2.77 on, the zone of an unshelve takes the place of the zone of the server's request.
#[actix_rt::test]
async fn an_unshelved_server_stays_in_the_zone_that_the_unshelve_named() {
    let (api, hosts) = two_zones().await;
    let id = api.server(OWNER, request("anywhere", None)).await;
    // The second unshelve names no zone, so the zone of the first one still holds.
    for unshelve in [json!({"unshelve": {"availability_zone": "south"}}), json!({"unshelve": null})] {
        for body in [json!({"shelve": null}), json!({"shelveOffload": null})] {
            assert_eq!(act(&api, &id, "2.1", body).await.0, 202);
        }
        assert_eq!(act(&api, &id, "2.77", unshelve).await.0, 202);
        assert_eq!(host(&api, &id).await, hosts[2]);
    }
    // There is no other host in that zone.
    assert_eq!(act(&api, &id, "2.56", json!({"migrate": null})).await.0, 202);
    let stays = shown(&api, &id).await;
    assert_eq!((&stays["status"], &stays["OS-EXT-SRV-ATTR:host"]), (&json!("ACTIVE"), &json!(hosts[2])));
    ends_well(api).await;
}

/// The example of Nova's documentation of aggregates, step by step.
#[actix_rt::test]
async fn servers_that_request_fast_disks_get_hosts_with_them() {
    let large = SimUri { vcpus: 8, memory_mib: 65_536, disk_gib: 1000, ..SimUri::new(4) };
    let mut world = World::of(large);
    world.options.scheduler.enabled_filters.push("AggregateInstanceExtraSpecsFilter");
    let api = Api::start_of(world, "", None).await;
    let hosts = names(&api);
    let fast = &hosts[1..3];
    aggregate(&api, "fast-io", json!({"ssd": "true", "availability_zone": "nova"}), &[&fast[0], &fast[1]]).await;
    let flavor = json!({"flavor": {"id": "6", "name": "ssd.large", "ram": 8192, "disk": 80, "vcpus": 4}});
    assert_eq!(api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor)).await.status, 200);
    let specs = json!({"extra_specs": {"aggregate_instance_extra_specs:ssd": "true"}});
    assert_eq!(api.call("POST", "/flavors/6/os-extra_specs", "2.1", ADMIN, Some(specs)).await.status, 200);
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..4 {
        let mut request = Api::wish(&format!("fast-{n}"));
        request["flavorRef"] = json!("6");
        let id = api.server(OWNER, request).await;
        seen.insert(host(&api, &id).await);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), fast, "the servers are not on exactly these two hosts");
    let mut plain = std::collections::BTreeSet::new();
    for n in 0..4 {
        plain.insert(host(&api, &api.server(OWNER, Api::wish(&format!("plain-{n}"))).await).await);
    }
    assert!(!plain.is_subset(&fast.iter().cloned().collect()), "all other servers are on fast hosts: {plain:?}");
    ends_well(api).await;
}

/// The scheduler applies the hints and the server group of a server's request to its moves, too.
#[actix_rt::test]
async fn hints_hold_when_a_server_moves() {
    let mut world = World::new(3);
    world.options.scheduler.enabled_filters.push("DifferentHostFilter");
    let api = Api::start_of(world, "", None).await;
    let group = json!({"server_group": {"name": "apart", "policies": ["anti-affinity"]}});
    let group = api.call("POST", "/os-server-groups", "2.1", OWNER, Some(group)).await.body["server_group"].take();
    let hinted = async |name: &str, hints: Value| {
        let body = json!({"server": Api::wish(name), "os:scheduler_hints": hints});
        let made = api.call("POST", "/servers", "2.1", OWNER, Some(body)).await;
        assert_eq!(made.status, 202, "{}", made.body);
        api.life.settled().await;
        made.body["server"]["id"].as_str().unwrap().to_owned()
    };
    let first = hinted("first", json!({"group": group["id"]})).await;
    let home = host(&api, &first).await;
    for hints in [json!({"group": group["id"]}), json!({"different_host": [first]})] {
        let id = hinted("second", hints.clone()).await;
        let from = host(&api, &id).await;
        assert_ne!(from, home, "{hints}");
        let third = names(&api).into_iter().find(|name| *name != home && *name != from).unwrap();
        for body in [json!({"migrate": null}), json!({"os-migrateLive": {"host": null, "block_migration": "auto"}})] {
            switch(&api, &third, "disabled").await;
            let from = host(&api, &id).await;
            assert_eq!(act(&api, &id, "2.56", body.clone()).await.0, 202);
            assert_eq!(host(&api, &id).await, from, "{hints} {body}: the server moved to the forbidden host");
            switch(&api, &third, "enabled").await;
        }
        assert_eq!(act(&api, &id, "2.56", json!({"migrate": null})).await.0, 202);
        assert_eq!(host(&api, &id).await, third, "{hints}");
        assert_eq!(act(&api, &id, "2.1", json!({"confirmResize": null})).await.0, 204);
        assert_eq!(api.call("DELETE", &format!("/servers/{id}"), "2.1", OWNER, None).await.status, 204);
        api.life.settled().await;
    }
    ends_well(api).await;
}

/// The scheduler places all servers of a request with `min_count` together, so that it applies their group's policy.
#[actix_rt::test]
async fn members_of_a_group_in_one_request_are_on_different_hosts() {
    let mut world = World::new(3);
    world.options.processes.max_attempts = 1;
    let api = Api::start_of(world, "", None).await;
    let several = async |count: u32| {
        let group = json!({"server_group": {"name": format!("of-{count}"), "policies": ["anti-affinity"]}});
        let group = api.call("POST", "/os-server-groups", "2.1", OWNER, Some(group)).await.body["server_group"].take();
        let mut request = Api::wish(&format!("m{count}"));
        (request["min_count"], request["max_count"]) = (json!(count), json!(count));
        let body = json!({"server": request, "os:scheduler_hints": {"group": group["id"]}});
        let made = api.call("POST", "/servers", "2.1", OWNER, Some(body)).await;
        assert_eq!(made.status, 202, "{}", made.body);
        api.life.settled().await;
        let all = api.get(&format!("/servers/detail?all_tenants=1&name=m{count}"), "2.1").await["servers"].take();
        let of = |server: &Value| {
            let text = |key: &str| server[key].as_str().unwrap_or_default().to_owned();
            (text("status"), text("OS-EXT-SRV-ATTR:host"))
        };
        let mut found: Vec<_> = all.as_array().unwrap().iter().map(of).collect();
        found.sort();
        found
    };
    let three: Vec<_> = names(&api).into_iter().map(|host| ("ACTIVE".to_owned(), host)).collect();
    assert_eq!(several(3).await, three, "the three servers are not on three hosts");
    let four = several(4).await;
    assert!(four.iter().all(|(status, _)| status == "ERROR"), "three hosts got the four servers: {four:?}");
    ends_well(api).await;
}

/// With `[cinder] cross_az_attach` off, a server is in the zone of its volumes. A forced live migration takes it out of
/// that zone, and its volumes stay attached.
#[actix_rt::test]
async fn a_move_by_force_takes_a_server_out_of_the_zone_of_its_volume() {
    let mut world = World::new(3);
    world.options.volume.availability_zone = "north".to_owned();
    world.options.volume.shared = true;
    world.options.processes.cross_az_attach = false;
    let (mut api, hosts) = two_zones_of(world).await;
    let config = ComputeConfig { cross_az_attach: false, ..ComputeConfig::default() };
    Arc::get_mut(&mut api.app).unwrap().compute = ComputeState::new(config);
    let id = api.server(OWNER, request("bound", Some("north"))).await;
    let volume = api.life.data_volume(("p", "u"), None, 1).await.to_string();
    let path = format!("/servers/{id}/os-volume_attachments");
    let body = json!({"volumeAttachment": {"volumeId": volume}});
    assert_eq!(api.call("POST", &path, "2.60", OWNER, Some(body)).await.status, 200);
    api.life.settled().await;
    // The zones of the volume and of the server, and the volume's status.
    let zones = async || {
        let volume = api.ask("GET", &format!("/volume/v3/p/volumes/{volume}"), "2.1", OWNER, None).await.body;
        let server = shown(&api, &id).await["OS-EXT-AZ:availability_zone"].take();
        let of = |key: &str| volume["volume"][key].as_str().unwrap().to_owned();
        (of("availability_zone"), server.as_str().unwrap().to_owned(), of("status"))
    };
    let are = |volume: &str, server: &str| (volume.to_owned(), server.to_owned(), "in-use".to_owned());
    assert_eq!(zones().await, are("north", "north"));
    let live = |force: bool| json!({"os-migrateLive": {"host": hosts[2], "block_migration": "auto", "force": force}});
    assert_eq!(act(&api, &id, "2.30", live(false)).await.0, 400);
    assert_eq!(zones().await, are("north", "north"));
    assert_eq!(act(&api, &id, "2.30", live(true)).await.0, 202);
    assert_eq!(host(&api, &id).await, hosts[2]);
    assert_eq!(zones().await, are("north", "south"));
    // In its new zone the server gets no further volume of the old one.
    let further = api.life.data_volume(("p", "u"), None, 1).await.to_string();
    let body = json!({"volumeAttachment": {"volumeId": further}});
    let refused = api.call("POST", &path, "2.60", OWNER, Some(body)).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.message().ends_with("Instance is in south. Volume is in north"), "{}", refused.message());
    ends_well(api).await;
}

/// The metadata of aggregates overrides `[filter_scheduler] image_props_weight_multiplier`, which is 0 by default.
#[actix_rt::test]
async fn aggregates_let_servers_of_like_images_gather_or_part() {
    for (memory, metadata, gather) in [
        (1.0, json!({"ssd": "true"}), false),
        (1.0, json!({"image_props_weight_multiplier": "1000"}), true),
        (-10.0, json!({"ssd": "true"}), true),
        (-10.0, json!({"image_props_weight_multiplier": "-1000"}), false),
    ] {
        let mut world = World::new(2);
        world.options.scheduler.multipliers.ram = memory;
        let api = Api::start_of(world, "", None).await;
        let hosts = names(&api);
        aggregate(&api, "like", metadata.clone(), &[&hosts[0], &hosts[1]]).await;
        let image = api.image(&[("os_distro", "debian")]).await.to_string();
        let mut seen = Vec::new();
        for name in ["one", "two"] {
            let mut request = request(name, None);
            request["imageRef"] = json!(image);
            seen.push(host(&api, &api.server(OWNER, request).await).await);
        }
        assert_eq!(seen[0] == seen[1], gather, "{memory} {metadata}");
        ends_well(api).await;
    }
}

/// A server whose request names the default zone is bound to it, and so to hosts without a zone. A host that joins
/// another zone leaves the default zone, so the server then finds no other host.
#[actix_rt::test]
async fn a_server_that_was_requested_in_the_default_zone_is_bound_to_hosts_without_a_zone() {
    let api = Api::start_of(World::new(2), "", None).await;
    let hosts = names(&api);
    zone(&api, "north", &[&hosts[0]]).await;
    let (bound, free) = (request("bound", Some("nova")), request("free", None));
    let (bound, free) = (api.server(OWNER, bound).await, api.server(OWNER, free).await);
    assert_eq!(host(&api, &bound).await, hosts[1]);
    assert_eq!(host(&api, &free).await, hosts[0], "the scheduler spreads servers");
    for (id, moves) in [(&bound, false), (&free, true)] {
        let home = host(&api, id).await;
        for body in [json!({"os-migrateLive": {"host": null, "block_migration": "auto"}}), json!({"migrate": null})] {
            assert_eq!(act(&api, id, "2.56", body.clone()).await.0, 202, "{body}");
        }
        // The live migration takes the free server to the other host, and the cold migration back.
        let shown = shown(&api, id).await;
        let expected = if moves { "VERIFY_RESIZE" } else { "ACTIVE" };
        assert_eq!((&shown["status"], &shown["OS-EXT-SRV-ATTR:host"]), (&json!(expected), &json!(home)));
    }
    ends_well(api).await;
}

/// The filter of isolated hosts also runs when a server is rebuilt with another image, on the server's host alone.
#[actix_rt::test]
async fn a_server_is_rebuilt_with_an_isolated_image_on_isolated_hosts_only() {
    let mut world = World::new(2);
    let isolated = world.fleet.hostname(0);
    let scheduler = &mut world.options.scheduler;
    scheduler.enabled_filters.push("IsolatedHostsFilter");
    scheduler.isolated_hosts = vec![isolated.clone()];
    // In this world every image that no test made is the same image.
    scheduler.isolated_images = vec![OneImage::snapshot().id.to_string()];
    let api = Api::start_of(world, "", None).await;
    assert_eq!(host(&api, &api.server(OWNER, request("isolated", None)).await).await, isolated);
    let (first, second) = (api.image(&[]).await.to_string(), api.image(&[]).await.to_string());
    let mut plain = request("plain", None);
    plain["imageRef"] = json!(first);
    let id = api.server(OWNER, plain).await;
    let home = host(&api, &id).await;
    assert_ne!(home, isolated);
    let path = format!("/servers/{id}/os-instance-actions");
    for (image, message) in [(second.as_str(), Value::Null), (IMAGE, json!("Error"))] {
        assert_eq!(act(&api, &id, "2.1", json!({"rebuild": {"imageRef": image}})).await.0, 202);
        let last = api.get(&path, "2.84").await["instanceActions"][0].take();
        assert_eq!((&last["action"], &last["message"]), (&json!("rebuild"), &message), "{image}");
        if message.is_null() {
            continue;
        }
        let path = format!("{path}/{}", last["request_id"].as_str().unwrap());
        let details = api.get(&path, "2.84").await["instanceAction"]["events"][0]["details"].take();
        let told = ["No valid host was found.", "IsolatedHostsFilter: 0 left"];
        assert!(told.iter().all(|part| details.as_str().unwrap().contains(part)), "{details}");
    }
    assert_eq!(host(&api, &id).await, home);
    ends_well(api).await;
}
