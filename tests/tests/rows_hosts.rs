//! Capabilities that hosts report, and the selection of hosts.
//!
//! Source: the administration guide on schedulers. The rows of `docs/requirements` name these tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::ids::InstanceId;
use chronova_events::ledger::Provider;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::world::{Life, World, build_request};
use uuid::Uuid;

fn server(n: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(n))
}

/// Requests a server with the number `n`.
async fn build(life: &Life, n: u128) {
    let mut request = build_request(server(n));
    request.number = u64::try_from(n).unwrap();
    life.build_of(request).await.unwrap();
}

async fn alive(world: &World) -> Life {
    let life = world.live(None, None).await;
    life.hosts_up(world.fleet.len()).await;
    life
}

/// Builds `count` servers one after the other. Returns the number on each host.
async fn spread(world: &World, count: u128) -> Vec<usize> {
    let life = alive(world).await;
    for n in 1..=count {
        build(&life, n).await;
        life.settled().await;
    }
    assert_eq!(world.faults().await, Vec::<String>::new());
    let mut by_host: BTreeMap<usize, usize> = (0..world.fleet.len()).map(|host| (host, 0)).collect();
    for hosts in world.fleet.whereabouts().into_values() {
        *by_host.get_mut(&hosts[0]).unwrap() += 1;
    }
    life.stop().await;
    let mut counts: Vec<usize> = by_host.into_values().collect();
    counts.sort_unstable();
    counts
}

#[actix_rt::test]
async fn weighers_of_resources_spread_servers_or_stack_them() {
    type Set = fn(&mut World, f64);
    let weighers: [(&str, Set); 3] = [
        ("memory", |world, multiplier| world.options.scheduler.multipliers.ram = multiplier),
        ("cpu", |world, multiplier| world.options.scheduler.multipliers.cpu = multiplier),
        ("disk", |world, multiplier| world.options.scheduler.multipliers.disk = multiplier),
    ];
    for (name, set) in weighers {
        for (multiplier, wanted) in [(1.0, [2, 2]), (-1.0, [0, 4])] {
            let mut world = World::new(2);
            for (_, other) in weighers {
                other(&mut world, 0.0);
            }
            set(&mut world, multiplier);
            // If `io_ops` were not 0, the weigher of running tasks would avoid hosts that build servers.
            world.options.scheduler.multipliers.io_ops = 0.0;
            assert_eq!(spread(&world, 4).await, wanted, "{name} with {multiplier}");
        }
    }
    // The sum of the weights decides: two weighers outweigh the third.
    let mut world = World::new(2);
    world.options.scheduler.multipliers.disk = -1.0;
    assert_eq!(spread(&world, 4).await, [2, 2]);
    world = World::new(2);
    // The weigher normalizes free space from zero, so a small difference on a large disk needs a large multiplier.
    world.options.scheduler.multipliers.disk = -100.0;
    world.options.scheduler.multipliers.io_ops = 0.0;
    assert_eq!(spread(&world, 4).await, [0, 4]);
}

#[actix_rt::test]
async fn a_build_goes_to_another_host_when_one_refuses() {
    for refusing in [0, 1] {
        let world = World::new(2);
        let life = alive(&world).await;
        world
            .fleet
            .set_faults(refusing, FaultPlan::default().with(DriverCall::Spawn, FaultTrigger::Always, Effect::Refuse));
        for n in 1..=3 {
            build(&life, n).await;
        }
        life.settled().await;
        assert!(world.story().await.iter().all(|(_, status)| *status == "ACTIVE"), "{:?}", world.faults().await);
        assert!(world.fleet.guests(refusing).is_empty());
        assert_eq!(world.fleet.guests(1 - refusing).len(), 3);
        world.check().await;
        life.stop().await;
    }
    // With one attempt there is no retry.
    let mut world = World::new(2);
    world.options.processes.max_attempts = 1;
    let life = alive(&world).await;
    world.fleet.set_all_faults(&FaultPlan::default().with(DriverCall::Spawn, FaultTrigger::Nth(1), Effect::Refuse));
    build(&life, 1).await;
    life.settled().await;
    assert_eq!(world.story().await, [(server(1), "ERROR")]);
    assert_eq!(world.fleet.calls(DriverCall::Spawn), 1);
    world.check().await;
    life.stop().await;
}

fn providers(life: &Life) -> Vec<Provider> {
    life.context().views.placement.read(|view| view.ledger.providers.values().map(|p| (**p).clone()).collect())
}

#[actix_rt::test]
async fn hosts_keep_what_is_reserved_for_themselves() {
    let mut world = World::new(1);
    world.options.hosts.reserved_host_cpus = 2;
    world.options.hosts.reserved_host_memory_mb = 1024;
    world.options.hosts.reserved_host_disk_mb = 2049;
    world.options.hosts.cpu_allocation_ratio = 2.0;
    world.options.hosts.ram_allocation_ratio = 1.5;
    let life = alive(&world).await;
    let provider = providers(&life).remove(0);
    let line = |class: &str| {
        let line = &provider.inventories[class];
        (line.inventory.total, line.inventory.reserved, line.free())
    };
    // The hosts have 8 CPUs, 8192 MiB and 100 GiB. The capacity is (total - reserved) x ratio.
    assert_eq!(line("VCPU"), (8, 2, 12));
    assert_eq!(line("MEMORY_MB"), (8192, 1024, 10_752));
    assert_eq!((line("DISK_GB").0, line("DISK_GB").1), (100, 3), "the reserved size is not rounded up");
    life.stop().await;
}

#[actix_rt::test]
async fn hosts_report_their_cpu_and_what_they_can_do_as_traits() {
    let world = World::new(1);
    let life = alive(&world).await;
    let provider = providers(&life).remove(0);
    let has = |name: &str| provider.traits.contains(name);
    for known in ["HW_CPU_X86_AVX2", "HW_CPU_X86_AESNI", "HW_CPU_X86_SSE42", "HW_CPU_X86_VMX", "HW_ARCH_X86_64"] {
        assert!(has(known), "{known}");
    }
    assert!(!has("HW_CPU_X86_AVX512F"), "the host reports a trait that its CPU lacks");
    for known in
        ["COMPUTE_NODE", "COMPUTE_IMAGE_TYPE_QCOW2", "COMPUTE_STORAGE_BUS_VIRTIO", "COMPUTE_GRAPHICS_MODEL_VGA"]
    {
        assert!(has(known), "{known}");
    }
    assert!(!has("COMPUTE_GRAPHICS_MODEL_QXL") && !has("COMPUTE_REMOTE_MANAGED_PORTS"));
    for offered in [
        "COMPUTE_DEVICE_TAGGING",
        "COMPUTE_NET_ATTACH_INTERFACE",
        "COMPUTE_NET_ATTACH_INTERFACE_WITH_TAG",
        "COMPUTE_RESCUE_BFV",
        "COMPUTE_TRUSTED_CERTS",
        "COMPUTE_VOLUME_ATTACH_WITH_TAG",
        "COMPUTE_VOLUME_EXTEND",
        "COMPUTE_VOLUME_MULTI_ATTACH",
    ] {
        assert!(has(offered), "{offered}");
    }
    assert!(provider.traits.iter().all(|name| chronova_events::ledger::standard::is_standard_trait(name)));
    life.stop().await;
}

/// The cache may have a file system of its own, which the scheduler does not count.
#[actix_rt::test]
async fn a_build_fails_where_the_image_cache_is_full() {
    let world = World::new(2);
    let full = FaultPlan::default().with(DriverCall::EnsureImage, FaultTrigger::Always, Effect::NoRoom);
    world.fleet.set_faults(0, full.clone());
    let life = alive(&world).await;
    build(&life, 1).await;
    life.settled().await;
    assert_eq!((life.status(server(1)), life.host_of(&world, server(1))), ("ACTIVE", Some(1)));
    world.fleet.set_all_faults(&full);
    build(&life, 2).await;
    life.settled().await;
    assert_eq!((life.status(server(2)), world.fleet.whereabouts().len()), ("ERROR", 1));
    assert!(!life.fault(server(2)).is_empty());
    life.stop().await;
    world.check().await;
}

/// `[DEFAULT] compute_monitors` and `[metrics] weight_setting`: servers go to the host whose processors are idle.
#[actix_rt::test]
async fn busy_processors_keep_new_servers_away() {
    let mut world = World::new(2);
    world.options.hosts.monitors = vec!["cpu.virt_driver".to_owned()];
    world.options.scheduler.metrics_weight_setting = BTreeMap::from([("cpu.percent".to_owned(), -1.0)]);
    world.options.scheduler.multipliers.metrics = 1_000.0;
    world.fleet.set_busy(0, 90);
    world.fleet.set_busy(1, 10);
    let life = alive(&world).await;
    assert!(life.until(|context| context.fleet.metrics().0.len() == 2).await, "a host reports no metrics");
    // Both calls return the same map, not copies. A heartbeat may come between the two calls, so they are repeated.
    let first = world.fleet.uri().host_id(0);
    let shares = |context: &chronova_actors::process::context::StepContext| {
        let [one, other] = [context.fleet.metrics(), context.fleet.metrics()];
        Arc::ptr_eq(&one.0[&first], &other.0[&first])
    };
    assert!(life.until(shares).await);
    for n in 1..=3 {
        build(&life, n).await;
        life.settled().await;
        assert_eq!(life.host_of(&world, server(n)), Some(1), "server {n}: {}", life.fault(server(n)));
    }
    // The processors change places.
    world.fleet.set_busy(0, 0);
    world.fleet.set_busy(1, 100);
    let is_idle = |context: &chronova_actors::process::context::StepContext| {
        context.fleet.metrics().value(first, "cpu.percent").is_some_and(|busy| busy < 0.01)
    };
    assert!(life.until(is_idle).await);
    build(&life, 4).await;
    life.settled().await;
    assert_eq!(life.host_of(&world, server(4)), Some(0), "{}", life.fault(server(4)));
    life.stop().await;
    world.check().await;

    // Without a monitor no host has the metric that is demanded.
    let mut world = World::new(2);
    world.options.scheduler.metrics_weight_setting = BTreeMap::from([("cpu.percent".to_owned(), -1.0)]);
    let life = alive(&world).await;
    build(&life, 1).await;
    life.settled().await;
    assert_eq!(life.status(server(1)), "ERROR");
    assert!(life.fault(server(1)).contains("no host reports the metrics"), "{}", life.fault(server(1)));
    life.stop().await;
    world.check().await;
}
