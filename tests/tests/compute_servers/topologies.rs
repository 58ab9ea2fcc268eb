//! NUMA topologies and pinned CPUs through the API: refusals with their messages, and the fields that each user sees.

use std::collections::BTreeSet;

use chronova_actors::topology::host::{CpuSets, HostCpus, ReservedHugePages};
use chronova_actors::topology::networks::NetworkCells;
use chronova_hypervisor::sim::SimUri;
use chronova_tests::compute_api::{ADMIN, Answer, Api};
use chronova_tests::world::World;
use serde_json::{Value, json};

const OWNER: &str = "u:p";

async fn start() -> Api {
    Api::start_of(World::new(2).with_dedicated_processors(), "", None).await
}

async fn flavor(api: &Api, id: &str, vcpus: u32, specs: Value) {
    let flavor = json!({"flavor": {"id": id, "name": id, "ram": 64, "vcpus": vcpus, "disk": 1}});
    assert_eq!(api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor)).await.status, 200);
    let specs = json!({"extra_specs": specs});
    let made = api.call("POST", &format!("/flavors/{id}/os-extra_specs"), "2.1", ADMIN, Some(specs)).await;
    assert_eq!(made.status, 200, "{}", made.body);
}

async fn create(api: &Api, name: &str, flavor: &str, image: Option<&str>) -> Answer {
    let mut request = Api::wish(name);
    request["flavorRef"] = json!(flavor);
    if let Some(image) = image {
        request["imageRef"] = json!(image);
    }
    let answer = api.call("POST", "/servers", "2.1", OWNER, Some(json!({"server": request}))).await;
    api.life.settled().await;
    answer
}

async fn act(api: &Api, id: &str, body: Value) -> Answer {
    let answer = api.call("POST", &format!("/servers/{id}/action"), "2.95", ADMIN, Some(body)).await;
    api.life.settled().await;
    answer
}

async fn topology(api: &Api, id: &str, token: &str) -> Value {
    let answer = api.call("GET", &format!("/servers/{id}/topology"), "2.78", token, None).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

#[actix_rt::test]
async fn the_topology_of_a_pinned_server_is_shown_and_its_host_to_administrators_alone() {
    let api = start().await;
    let specs = json!({"hw:cpu_policy": "dedicated", "hw:mem_page_size": "small"});
    flavor(&api, "pinned", 2, specs).await;
    let id = create(&api, "one", "pinned", None).await.body["server"]["id"].as_str().unwrap().to_owned();
    let guest = json!({"vcpu_set": [0, 1], "siblings": [], "memory_mb": 64});
    assert_eq!(topology(&api, &id, OWNER).await, json!({"nodes": [guest], "pagesize_kb": 4}));
    let before = topology(&api, &id, ADMIN).await["nodes"][0].clone();
    assert_eq!(before["host_node"], 0);
    let pins = before["cpu_pinning"].clone();
    assert!(pins == json!({"0": 2, "1": 3}) || pins == json!({"0": 4, "1": 5}), "{pins}");
    let live = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
    assert_eq!(act(&api, &id, live).await.status, 202);
    let after = topology(&api, &id, ADMIN).await["nodes"][0]["cpu_pinning"].clone();
    assert_ne!(pins, after, "the pinning is still that of the source");
    assert_eq!(act(&api, &id, json!({"shelve": null})).await.status, 202);
    let offload = act(&api, &id, json!({"shelveOffload": null})).await;
    assert_eq!(offload.status, 202, "{}", offload.body);
    let away = topology(&api, &id, ADMIN).await;
    assert_eq!(away["nodes"], json!([guest]), "an offloaded server shows data of a host");
    api.stop().await;
}

#[actix_rt::test]
async fn the_policy_decides_who_sees_a_topology_and_its_host() {
    let shown = async |policy: &str| {
        let api = Api::start_of(World::new(2).with_dedicated_processors(), policy, None).await;
        flavor(&api, "pinned", 2, json!({"hw:cpu_policy": "dedicated"})).await;
        let made = create(&api, "one", "pinned", None).await;
        let path = format!("/servers/{}/topology", made.body["server"]["id"].as_str().unwrap());
        let answer = api.call("GET", &path, "2.78", OWNER, None).await;
        api.stop().await;
        answer
    };
    let open = shown("'compute:server:topology:host:index': 'role:member'").await;
    assert_eq!((open.status, &open.body["nodes"][0]["host_node"]), (200, &json!(0)), "{}", open.body);
    assert!(open.body["nodes"][0]["cpu_pinning"]["0"].is_u64(), "{}", open.body);
    let closed = shown("'compute:server:topology:index': 'role:admin'").await;
    let words = "Policy doesn't allow compute:server:topology:index to be performed.";
    assert_eq!((closed.status, closed.message()), (403, words));
}

/// The network of the test's servers is on the physical network `physnet1`.
#[actix_rt::test]
async fn a_guest_with_nodes_is_on_the_cell_of_its_network() {
    let cells = |near: u32| NetworkCells {
        physical: [("physnet1".to_owned(), BTreeSet::from([near]))].into(),
        ..NetworkCells::default()
    };
    for near in [0, 1] {
        let mut world = World::of(SimUri { vcpus: 8, memory_mib: 8192, disk_gib: 100, cells: 2, ..SimUri::new(2) });
        world.options.scheduler.network_cells = cells(near);
        let api = Api::start_of(world, "", None).await;
        flavor(&api, "node", 1, json!({"hw:numa_nodes": "1"})).await;
        let id = create(&api, "one", "node", None).await.body["server"]["id"].as_str().unwrap().to_owned();
        assert_eq!(topology(&api, &id, ADMIN).await["nodes"][0]["host_node"], near);
        // The new host has the same cells near the network.
        assert_eq!(act(&api, &id, json!({"migrate": null})).await.status, 202);
        assert_eq!(act(&api, &id, json!({"confirmResize": null})).await.status, 204);
        assert_eq!(topology(&api, &id, ADMIN).await["nodes"][0]["host_node"], near, "after a move");
        let host = async || api.get(&format!("/servers/{id}"), "2.1").await["server"]["OS-EXT-SRV-ATTR:host"].take();
        let before = host().await;
        let live = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
        assert_eq!(act(&api, &id, live).await.status, 202);
        assert_ne!(host().await, before);
        assert_eq!(topology(&api, &id, ADMIN).await["nodes"][0]["host_node"], near, "after a live migration");
        // A guest without nodes is not affected.
        assert_eq!(create(&api, "two", "1", None).await.status, 202);
        api.stop().await;
    }
}

#[actix_rt::test]
async fn two_nodes_of_a_guest_are_two_cells_of_its_host() {
    let world = World::of(chronova_hypervisor::sim::SimUri {
        vcpus: 8,
        memory_mib: 8192,
        disk_gib: 100,
        cells: 2,
        ..chronova_hypervisor::sim::SimUri::new(1)
    });
    let api = Api::start_of(world, "", None).await;
    let specs = json!({"hw:numa_nodes": "2", "hw:numa_cpus.0": "0", "hw:numa_cpus.1": "1,2", "hw:numa_mem.0": "16",
                       "hw:numa_mem.1": "48"});
    flavor(&api, "wide", 3, specs).await;
    let id = create(&api, "one", "wide", None).await.body["server"]["id"].as_str().unwrap().to_owned();
    let shown = topology(&api, &id, ADMIN).await;
    assert_eq!(
        shown["nodes"],
        json!([
            {"vcpu_set": [0], "siblings": [], "memory_mb": 16, "host_node": 0, "cpu_pinning": {}},
            {"vcpu_set": [1, 2], "siblings": [], "memory_mb": 48, "host_node": 1, "cpu_pinning": {}},
        ])
    );
    let id: chronova_events::ids::InstanceId = id.parse().unwrap();
    let pinning = api.world.fleet.guests(0)[&id].pinning.clone();
    let floats: Vec<_> = pinning.nodes.iter().map(|node| node.cpus.clone()).collect();
    let (first, second) = (vec![0, 1, 2, 3], vec![4, 5, 6, 7]);
    assert_eq!(floats, [vec![(0, first)], vec![(1, second.clone()), (2, second)]], "CPUs float over another cell");
    flavor(
        &api,
        "three",
        3,
        json!({"hw:numa_nodes": "3", "hw:numa_cpus.0": "0", "hw:numa_cpus.1": "1",
        "hw:numa_cpus.2": "2", "hw:numa_mem.0": "16", "hw:numa_mem.1": "16", "hw:numa_mem.2": "32"}),
    )
    .await;
    let three = create(&api, "two", "three", None).await;
    let id = three.body["server"]["id"].as_str().unwrap();
    let fault = api.get(&format!("/servers/{id}"), "2.1").await["server"]["fault"]["message"].clone();
    assert!(fault.as_str().unwrap().contains("NUMA cells with room for 3 NUMA nodes"), "{fault}");
    api.stop().await;
}

/// After a live migration, a guest of huge pages has pages of its new host, and none of its old host.
#[actix_rt::test]
async fn a_live_migration_counts_huge_pages_on_both_hosts() {
    // Each host has room for one guest.
    let world = World::of(chronova_hypervisor::sim::SimUri {
        vcpus: 8,
        memory_mib: 8192,
        disk_gib: 100,
        huge_pages: 48,
        ..chronova_hypervisor::sim::SimUri::new(2)
    });
    let api = Api::start_of(world, "", None).await;
    flavor(&api, "huge", 1, json!({"hw:mem_page_size": "large"})).await;
    let make =
        async |name: &str| create(&api, name, "huge", None).await.body["server"]["id"].as_str().unwrap().to_owned();
    let shown = async |id: &str| api.get(&format!("/servers/{id}"), "2.1").await["server"].take();
    let host = async |id: &str| shown(id).await["OS-EXT-SRV-ATTR:host"].take();
    let one = make("one").await;
    let home = host(&one).await;
    assert_eq!(topology(&api, &one, ADMIN).await["pagesize_kb"], 2048);
    let live = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
    assert_eq!(act(&api, &one, live).await.status, 202);
    assert_ne!(host(&one).await, home);
    assert_eq!(topology(&api, &one, ADMIN).await["pagesize_kb"], 2048);
    let two = make("two").await;
    assert_eq!(host(&two).await, home, "the pages of the old host are not free");
    let three = make("three").await;
    assert_eq!(shown(&three).await["status"], "ERROR", "the pages of the new host are not counted");
    api.stop().await;
}

/// Pages that the operator reserves for the host are not for guests.
#[actix_rt::test]
async fn reserved_huge_pages_are_not_for_guests() {
    // A host has 48 pages, and the guest takes 32.
    for (reserved, status) in [("node:0,size:2048,count:16", "ACTIVE"), ("node:0,size:2MB,count:17", "ERROR")] {
        let mut world = World::of(chronova_hypervisor::sim::SimUri {
            vcpus: 8,
            memory_mib: 8192,
            disk_gib: 100,
            huge_pages: 48,
            ..chronova_hypervisor::sim::SimUri::new(1)
        });
        world.options.hosts.reserved_huge_pages = vec![ReservedHugePages::read(reserved).unwrap()];
        let api = Api::start_of(world, "", None).await;
        flavor(&api, "huge", 1, json!({"hw:mem_page_size": "2048"})).await;
        let id = create(&api, "one", "huge", None).await.body["server"]["id"].as_str().unwrap().to_owned();
        let shown = api.get(&format!("/servers/{id}"), "2.1").await["server"].take();
        assert_eq!(shown["status"], status, "{reserved}: {}", shown["fault"]);
        api.stop().await;
    }
}

/// As in Nova, the API refuses the request with the reason before it creates anything.
#[actix_rt::test]
async fn contradictory_flavor_and_image_are_refused_with_the_request() {
    let api = start().await;
    let refused = |answer: &Answer, word: &str| {
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert!(answer.message().contains(word), "{}", answer.message());
    };
    flavor(&api, "shared", 2, json!({"hw:cpu_policy": "shared"})).await;
    flavor(&api, "pinned", 2, json!({"hw:cpu_policy": "dedicated"})).await;
    flavor(&api, "realtime", 2, json!({"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "yes"})).await;
    flavor(&api, "odd", 3, json!({"hw:numa_nodes": "2"})).await;
    flavor(&api, "threads", 2, json!({"hw:cpu_thread_policy": "isolate"})).await;
    let one_node =
        |cpus: &str, memory: &str| json!({"hw:numa_nodes": "1", "hw:numa_cpus.0": cpus, "hw:numa_mem.0": memory});
    flavor(&api, "cpus", 2, one_node("0-2", "64")).await;
    flavor(&api, "memory", 2, one_node("0-1", "128")).await;
    let wants_pins = api.image(&[("hw_cpu_policy", "dedicated")]).await.to_string();
    let plain = api.image(&[]).await.to_string();
    refused(&create(&api, "a", "shared", Some(&wants_pins)).await, "override CPU pinning policy");
    refused(&create(&api, "a", "realtime", None).await, "at least 1 RT vCPU");
    refused(&create(&api, "a", "odd", None).await, "evenly distributed");
    refused(&create(&api, "a", "cpus", None).await, "larger than max 1");
    refused(&create(&api, "a", "memory", None).await, "128 MB of memory assigned, but expected 64 MB");
    refused(&create(&api, "a", "threads", None).await, "non dedicated cpu pinning");
    // The image's value is used if the flavor has none.
    let id = create(&api, "b", "1", Some(&wants_pins)).await.body["server"]["id"].as_str().unwrap().to_owned();
    assert_eq!(topology(&api, &id, ADMIN).await["nodes"][0]["cpu_pinning"].as_object().unwrap().len(), 1);
    refused(&act(&api, &id, json!({"resize": {"flavorRef": "shared"}})).await, "override CPU pinning policy");
    refused(&act(&api, &id, json!({"rebuild": {"imageRef": plain}})).await, "cannot be changed as part of a rebuild");
    assert_eq!(act(&api, &id, json!({"rebuild": {"imageRef": wants_pins}})).await.status, 202);
    assert_eq!(act(&api, &id, json!({"resize": {"flavorRef": "pinned"}})).await.status, 202);
    assert_eq!(topology(&api, &id, ADMIN).await["nodes"][0]["cpu_pinning"].as_object().unwrap().len(), 2);
    api.stop().await;
}

/// `[compute] cpu_dedicated_set` and `cpu_shared_set` are inventory of different classes.
#[actix_rt::test]
async fn dedicated_processors_are_pcpu_and_shared_ones_vcpu() {
    let api = start().await;
    let host = api.world.fleet.uri().host_id(0);
    let shown = api.ask("GET", &format!("/placement/resource_providers/{host}/inventories"), "2.1", ADMIN, None).await;
    let of = |class: &str| {
        let line = &shown.body["inventories"][class];
        (line["total"].as_u64(), line["reserved"].as_u64(), line["allocation_ratio"].as_f64())
    };
    assert_eq!(of("PCPU"), (Some(4), Some(0), Some(1.0)), "{}", shown.body);
    assert_eq!((of("VCPU").0, of("VCPU").2), (Some(2), Some(4.0)));
    flavor(&api, "pinned", 2, json!({"hw:cpu_policy": "dedicated"})).await;
    let id = create(&api, "one", "pinned", None).await.body["server"]["id"].as_str().unwrap().to_owned();
    let held = async |id: &str| {
        let held = api.ask("GET", &format!("/placement/allocations/{id}"), "2.1", ADMIN, None).await.body;
        let (provider, held) = held["allocations"].as_object().unwrap().iter().next().unwrap();
        (provider.clone(), held["resources"].clone())
    };
    let pinned = held(&id).await;
    assert_eq!(pinned.1, json!({"DISK_GB": 1, "MEMORY_MB": 64, "PCPU": 2}));
    // A guest with floating CPUs may share the host with the pinned one.
    let home = api.get(&format!("/servers/{id}"), "2.1").await["server"]["OS-EXT-SRV-ATTR:host"].take();
    let mut request = Api::wish("two");
    request["availability_zone"] = json!(format!("nova:{}", home.as_str().unwrap()));
    let floating = held(&api.server(ADMIN, request).await).await;
    assert_eq!(floating, (pinned.0, json!({"DISK_GB": 1, "MEMORY_MB": 512, "VCPU": 1})));
    api.stop().await;
}

/// The example of Nova's documentation. A host has 24 cores with two threads each. One core is the host's own, 8 cores
/// are dedicated, and 15 cores are shared. Each shared thread has 8 virtual CPUs.
#[actix_rt::test]
async fn the_host_of_novas_example_has_its_inventories() {
    let mut world = World::of(SimUri { vcpus: 48, threads: 2, memory_mib: 8192, disk_gib: 100, ..SimUri::new(1) });
    let sets = CpuSets { shared: Some((2..32).collect()), dedicated: Some((32..48).collect()) };
    let named = [(world.fleet.hostname(0), sets)].into();
    world.options.hosts.host_cpus = HostCpus { named, ..HostCpus::default() };
    world.options.hosts.cpu_allocation_ratio = 8.0;
    let api = Api::start_of(world, "", None).await;
    let providers = api.ask("GET", "/placement/resource_providers", "2.1", ADMIN, None).await.body;
    assert_eq!(providers["resource_providers"].as_array().unwrap().len(), 1, "{providers}");
    let host = api.world.fleet.uri().host_id(0);
    let shown = api.ask("GET", &format!("/placement/resource_providers/{host}/inventories"), "2.1", ADMIN, None).await;
    for (class, total, ratio) in [("PCPU", 16, 1.0), ("VCPU", 30, 8.0)] {
        let line = &shown.body["inventories"][class];
        let numbers = ["total", "reserved", "min_unit", "max_unit", "step_size"].map(|name| line[name].as_u64());
        assert_eq!(numbers, [Some(total), Some(0), Some(1), Some(total), Some(1)], "{class}: {line}");
        assert_eq!(line["allocation_ratio"].as_f64(), Some(ratio), "{class}");
    }
    api.stop().await;
}

/// The API refuses the request before a host sees it.
#[actix_rt::test]
async fn contradictory_switches_of_flavor_and_image_are_refused_by_the_request() {
    let api = start().await;
    flavor(&api, "queues", 2, json!({"hw:vif_multiqueue_enabled": "true"})).await;
    let [with, without] = ["true", "false"].map(|value| [("hw_vif_multiqueue_enabled", value)]);
    let (with, without) = (api.image(&with).await.to_string(), api.image(&without).await.to_string());
    let refused = create(&api, "one", "queues", Some(&without)).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    let words = "Flavor's hw:vif_multiqueue_enabled (true) and image's hw_vif_multiqueue_enabled (false) contradict";
    assert!(refused.message().starts_with(words), "{}", refused.message());
    assert_eq!(create(&api, "two", "queues", Some(&with)).await.status, 202);
    assert_eq!(api.get("/servers?all_tenants=1", "2.1").await["servers"].as_array().unwrap().len(), 1);
    api.stop().await;
}

/// A client amends the ratio of the CPUs. A third guest of 3 CPUs would fit on the whole host, but on none of its two
/// cells of 4 CPUs.
#[actix_rt::test]
async fn a_ratio_that_is_amended_in_placement_applies_to_each_cell() {
    let size = SimUri { vcpus: 8, memory_mib: 8192, disk_gib: 100, cells: 2, ..SimUri::new(1) };
    let api = Api::start_of(World::of(size), "", None).await;
    flavor(&api, "near", 3, json!({"hw:numa_nodes": "1"})).await;
    let ask = async |method: &str, path: &str, body| api.ask(method, path, "2.1", ADMIN, body).await;
    let hosts = ask("GET", "/placement/resource_providers", None).await;
    let host = hosts.body["resource_providers"][0]["uuid"].as_str().unwrap().to_owned();
    let path = format!("/placement/resource_providers/{host}/inventories");
    let amend = async |ratio: f64| {
        let shown = ask("GET", &path, None).await.body;
        let mut line = shown["inventories"]["VCPU"].clone();
        line["allocation_ratio"] = json!(ratio);
        line["resource_provider_generation"] = shown["resource_provider_generation"].clone();
        let amended = ask("PUT", &format!("{path}/VCPU"), Some(line)).await;
        assert_eq!(amended.status, 200, "{}", amended.body);
    };
    let build = async |name: &str| {
        let made = create(&api, name, "near", None).await;
        let id = made.body["server"]["id"].as_str().unwrap().parse().unwrap();
        (api.life.status(id), api.life.fault(id))
    };
    amend(1.25).await;
    for name in ["one", "two"] {
        assert_eq!(build(name).await, ("ACTIVE", String::new()), "{name}");
    }
    let (status, fault) = build("three").await;
    assert!(status == "ERROR" && fault.contains("NUMA cells"), "{status}: {fault}");
    amend(1.5).await;
    assert_eq!(build("four").await, ("ACTIVE", String::new()));
    let shown = ask("GET", &path, None).await.body;
    assert_eq!(shown["inventories"]["VCPU"]["allocation_ratio"], json!(1.5), "the ratio did not stay");
    api.stop().await;
}
