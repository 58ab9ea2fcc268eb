#![allow(clippy::unwrap_used)]
//! Tests dry runs and replays of the scheduler's decisions on logs that the tests write.

use std::sync::Arc;

use chronova::commands::Exit;
use chronova::commands::schedule::{Rules, ScheduleArgs, run};
use chronova::config::Config;
use chronova::simulated::registrations;
use chronova_events::envelope::{Meta, NewEvent, StreamId, Timestamp};
use chronova_events::flavor::FlavorCreated;
use chronova_events::host::HostEvent;
use chronova_events::ids::{ConsumerId, FlavorId, HostId, InstanceId, ProcessId, ProviderId};
use chronova_events::instance::{
    BuildRequested, FaultInfo, FlavorSnapshot, InstanceEvent, MoveFailed, MoveKind, MoveRequested, MoveTargeted,
    Placed, ResizeConfirmed, Resized, Scheduled,
};
use chronova_events::ledger::{Allocation, AllocationsReplaced, Claimed, LedgerEvent, Released};
use chronova_events::registry::{Event, NounEvent};
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore, Expected};
use chronova_hypervisor::sim::SimUri;
use clap::Parser;
use uuid::Uuid;

/// A log with one event per second.
struct Past {
    log: Arc<MemoryStore>,
    now: i64,
    hosts: Vec<(HostId, String)>,
}

const SECOND: i64 = 1_000_000;

impl Past {
    /// A log with hosts of 8 CPUs and 8 GiB, and a flavor `small` of one CPU and 1 GiB.
    async fn with_hosts(hosts: usize) -> Self {
        let uri = fleet(hosts);
        let mut past = Self { log: MemoryStore::new(), now: 0, hosts: Vec::new() };
        for (stream, events) in registrations(&uri, &rules("").options.hosts).await.unwrap() {
            for event in events {
                if let Some(HostEvent::Registered(registered)) = HostEvent::of(&event) {
                    past.hosts.push((registered.host, registered.hostname.clone()));
                }
                past.record(&stream, event).await;
            }
        }
        let flavor = FlavorCreated {
            flavor: FlavorId::new("1"),
            name: "small".into(),
            vcpus: 1,
            memory_mib: 1024,
            root_gib: 1,
            ephemeral_gib: 0,
            swap_mib: 0,
            rxtx_factor: 1.0,
            public: true,
            disabled: false,
            description: None,
        };
        past.record(&StreamId::new("flavor", "catalogue"), chronova_events::flavor::FlavorEvent::from(flavor)).await;
        past
    }

    async fn record(&mut self, stream: &StreamId, event: impl Into<Event>) {
        self.now += SECOND;
        let new = NewEvent::new(event, Timestamp(self.now), &Meta::system("test"));
        self.log.append(stream, Expected::Any, vec![new]).await.unwrap();
    }

    async fn ledger(&mut self, event: impl Into<LedgerEvent>) {
        self.record(&StreamId::new("ledger", "cell1"), event.into()).await;
    }

    async fn server(&mut self, server: InstanceId, event: impl Into<InstanceEvent>) {
        self.record(&StreamId::new("instance", server), event.into()).await;
    }

    /// Records a build of a server that was placed on `host`, or found no host.
    async fn built(&mut self, number: u128, host: Option<usize>, memory_mib: u64) -> InstanceId {
        let server = InstanceId(Uuid::from_u128(number));
        let sample =
            |is: fn(&InstanceEvent) -> bool| chronova_events::instance::samples().into_iter().find(is).unwrap();
        let InstanceEvent::BuildRequested(mut request) =
            sample(|event| matches!(event, InstanceEvent::BuildRequested(_)))
        else {
            panic!("no sample")
        };
        request = request_for(request, server, memory_mib);
        let process = request.process;
        self.server(server, InstanceEvent::BuildRequested(request.clone())).await;
        if let Some(host) = host {
            let provider = ProviderId(self.hosts[host].0.0);
            let resources = vec![("DISK_GB".into(), 1), ("MEMORY_MB".into(), memory_mib), ("VCPU".into(), 1)];
            self.ledger(Claimed {
                consumer: ConsumerId::new(server.to_string()),
                project: request.project.clone(),
                user: request.user.clone(),
                consumer_type: Some("INSTANCE".into()),
                allocations: vec![Allocation { provider, resources }],
            })
            .await;
        }
        let InstanceEvent::Scheduled(scheduled) = sample(|event| matches!(event, InstanceEvent::Scheduled(_))) else {
            panic!("no sample")
        };
        let chosen = host.map(|host| self.hosts[host].0);
        self.server(server, InstanceEvent::from(Scheduled { process, chosen, ..scheduled })).await;
        if let Some(host) = host {
            let (host, hostname) = self.hosts[host].clone();
            let placed = Placed { process, host, hostname, attempt: 1, availability_zone: "nova".into() };
            self.server(server, InstanceEvent::from(placed)).await;
        }
        server
    }

    /// Records a resize of a server that `built` has put on the first host. It goes to the second host and is confirmed,
    /// or it finds no host.
    async fn resized(&mut self, server: InstanceId, (old, new): (u64, u64), arrives: bool) {
        let process = ProcessId(Uuid::from_u128(77));
        let [source, target] = [0, 1].map(|host: usize| {
            let (host, hostname) = self.hosts[host].clone();
            Placed { process, host, hostname, attempt: 1, availability_zone: "nova".into() }
        });
        let claim = |consumer: &ConsumerId, kind: &str, at: &Placed, memory_mib: u64| {
            let resources = vec![("DISK_GB".into(), 1), ("MEMORY_MB".into(), memory_mib), ("VCPU".into(), 1)];
            Claimed {
                consumer: consumer.clone(),
                project: "p".into(),
                user: "u".into(),
                consumer_type: Some(kind.into()),
                allocations: vec![Allocation { provider: ProviderId(at.host.0), resources }],
            }
        };
        let (own, migration) = (ConsumerId::new(server.to_string()), ConsumerId::new(process.to_string()));
        let (kind, old_flavor, new_flavor) = (MoveKind::Resize, flavor(old), flavor(new));
        let (host, disk_config) = (None, None);
        let asked = MoveRequested { process, kind, source: source.clone(), old_flavor, new_flavor, host, disk_config };
        self.server(server, asked).await;
        let aside = vec![claim(&migration, "MIGRATION", &source, old)];
        self.ledger(AllocationsReplaced { claims: aside, released: vec![own.clone()] }).await;
        if arrives {
            self.ledger(claim(&own, "INSTANCE", &target, new)).await;
            self.server(server, MoveTargeted { process, target: target.clone() }).await;
            self.server(server, Resized { process, placed: target }).await;
            self.ledger(Released { consumer: migration }).await;
            self.server(server, ResizeConfirmed { process, migration: process }).await;
            return;
        }
        let mut samples = chronova_events::instance::samples().into_iter();
        let scheduled = samples.find_map(|event| match event {
            InstanceEvent::Scheduled(scheduled) => Some(scheduled),
            _ => None,
        });
        self.server(server, Scheduled { process, chosen: None, ..scheduled.unwrap() }).await;
        let back = vec![claim(&own, "INSTANCE", &source, old)];
        self.ledger(AllocationsReplaced { claims: back, released: vec![migration] }).await;
        let fault = FaultInfo { code: 500, message: "No valid host was found.".into(), details: String::new() };
        self.server(server, MoveFailed { process, fault }).await;
    }

    /// Runs the command with these arguments; returns its output and exit code.
    async fn ask(&self, config: &str, arguments: &[&str]) -> (String, Exit) {
        let args = Asked::try_parse_from(std::iter::once(&"schedule").chain(arguments)).unwrap().args;
        let mut out = Vec::new();
        let exit = run(&args, &rules(config), self.log.as_ref(), Timestamp(self.now), &mut out).await.unwrap();
        (String::from_utf8(out).unwrap(), exit)
    }
}

fn request_for(sample: BuildRequested, instance: InstanceId, memory_mib: u64) -> BuildRequested {
    let mut request = sample;
    request.instance = instance;
    request.name = format!("server-{}", instance.0.as_u128());
    request.batch = 1;
    let flavor = std::sync::Arc::make_mut(&mut request.flavor);
    flavor.name = format!("of-{memory_mib}");
    (flavor.vcpus, flavor.memory_mib, flavor.root_gib) = (1, memory_mib, 1);
    (flavor.ephemeral_gib, flavor.swap_mib) = (0, 0);
    flavor.extra_specs.clear();
    (request.image, request.availability_zone, request.forced_host) = (None, None, None);
    request.scheduler_hints.clear();
    request
}

/// The flavor of a server after a resize.
fn flavor(memory_mib: u64) -> FlavorSnapshot {
    FlavorSnapshot {
        id: FlavorId::new("other"),
        name: format!("of-{memory_mib}"),
        vcpus: 1,
        memory_mib,
        root_gib: 1,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs: vec![],
    }
}

fn fleet(hosts: usize) -> SimUri {
    SimUri { vcpus: 8, memory_mib: 8_192, disk_gib: 100, ..SimUri::new(hosts) }
}

fn rules(config: &str) -> Rules {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chronova.conf");
    std::fs::write(&file, config).unwrap();
    let loaded: Config = chronova::config::load(&[file]).unwrap().config;
    Rules::of(&loaded)
}

#[derive(Parser)]
struct Asked {
    #[command(flatten)]
    args: ScheduleArgs,
}

#[tokio::test]
async fn a_dry_run_shows_the_host_and_the_reasons() {
    let mut past = Past::with_hosts(3).await;
    past.built(1, Some(0), 4096).await;
    let (text, exit) = past.ask("", &["--dry-run", "--flavor", "small"]).await;
    assert_eq!(exit, Exit::Yes);
    assert!(text.contains("flavor small wants DISK_GB 1, MEMORY_MB 1024, VCPU 1"), "{text}");
    // The first host is fuller than the others.
    assert!(text.contains("goes to sim-0002; alternates: sim-0003, sim-0001"), "{text}");
    let (text, exit) = past.ask("", &["--dry-run", "--flavor", "small", "--availability-zone", "nova:sim-0001"]).await;
    assert_eq!((exit, text.lines().last().unwrap()), (Exit::Yes, "goes to sim-0001"));
    let (text, exit) =
        past.ask("", &["--dry-run", "--flavor", "small", "--extra-spec", "resources:MEMORY_MB=9000"]).await;
    assert_eq!(exit, Exit::No);
    assert!(text.contains("finds no host: "), "{text}");
}

#[tokio::test]
async fn many_servers_fill_the_hosts_one_after_the_other() {
    let past = Past::with_hosts(2).await;
    let arguments = ["--dry-run", "--flavor", "small", "--count", "20"];
    let (text, exit) = past.ask("", &arguments).await;
    // Each host keeps 512 MiB for itself, so seven servers fit on it.
    assert_eq!(exit, Exit::No, "{text}");
    assert_eq!(text.matches("goes to ").count(), 14, "{text}");
    assert!(text.contains("server 15: finds no host"), "{text}");
    let args = Asked::try_parse_from(["schedule", "--dry-run", "--flavor", "none"]).unwrap().args;
    let refused = run(&args, &rules(""), past.log.as_ref(), Timestamp(0), &mut Vec::new()).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no flavor none");
}

#[tokio::test]
async fn a_replay_with_another_configuration_selects_other_hosts() {
    let mut past = Past::with_hosts(2).await;
    // The default configuration selects the emptiest host, and the first by name among equals.
    for (number, host) in [(1, 0), (2, 1), (3, 0), (4, 1)] {
        past.built(number, Some(host), 1024).await;
    }
    let (text, exit) = past.ask("", &["--replay"]).await;
    assert_eq!(exit, Exit::Yes, "{text}");
    assert!(text.contains("same host 4, another host 0, placed only now 0, refused only now 0"), "{text}");
    let stack = "[filter_scheduler]\nram_weight_multiplier = -1.0\ncpu_weight_multiplier = 0\ndisk_weight_multiplier = 0\n\
                 io_ops_weight_multiplier = 0\nnum_instances_weight_multiplier = 0\n";
    let (text, exit) = past.ask(stack, &["--replay"]).await;
    assert_eq!(exit, Exit::No, "{text}");
    assert!(text.contains("same host 2, another host 2"), "{text}");
    let row = |name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.trim_start().trim_start_matches(name).split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row("hosts in use").join(" "), "2 of 2 1 of 2");
    assert_eq!(row("room for more of-1024"), ["10", "10"]);
}

#[tokio::test]
async fn a_replay_may_place_refused_servers_and_refuse_placed_ones() {
    let mut past = Past::with_hosts(2).await;
    past.built(1, Some(0), 1024).await;
    // Two servers of 6 GiB fit. The log says that one of them was refused, for some reason.
    past.built(2, Some(1), 6_144).await;
    past.built(3, None, 6_144).await;
    let (text, _) = past.ask("", &["--replay"]).await;
    assert!(text.contains("same host 2, another host 0, placed only now 1, refused only now 0"), "{text}");
    assert!(text.contains("no host -> sim-0001"), "{text}");
    let (text, exit) =
        past.ask("", &["--replay", "--fleet", "sim://1?vcpus=8&memory_mib=4096&disk_gib=100&name=new"]).await;
    assert_eq!(exit, Exit::No);
    assert!(text.contains("sim-0001 -> new-0001"), "{text}");
    assert!(text.contains("sim-0002 -> no host ("), "{text}");
    assert!(text.contains("same host 0, another host 1, placed only now 0, refused only now 1"), "{text}");
}

#[tokio::test]
async fn servers_before_since_stay_and_released_room_is_free() {
    let mut past = Past::with_hosts(2).await;
    // All servers are on one host. The scheduler itself would choose the emptier host.
    let first = past.built(1, Some(0), 7_000).await;
    past.ledger(Released { consumer: ConsumerId::new(first.to_string()) }).await;
    past.built(2, Some(0), 7_000).await;
    let since = Timestamp(past.now + SECOND / 2).to_utc().to_rfc3339();
    past.built(3, Some(0), 512).await;
    let (text, _) = past.ask("", &["--replay", "--since", &since, "--json"]).await;
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&report["requests"], &report["other_host"]), (&1.into(), &1.into()), "{text}");
    assert_eq!(report["differences"][0]["is"], "sim-0002");
    assert_eq!(report["replayed"]["claimed"]["MEMORY_MB"][0], 7_512);
    let (text, _) = past.ask("", &["--replay", "--json"]).await;
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["requests"], 3);
    assert_eq!(
        report["replayed"]["claimed"]["MEMORY_MB"][0], 7_512,
        "both histories must have released the first server's claim"
    );
}

async fn report(past: &Past, arguments: &[&str]) -> serde_json::Value {
    let (text, _) = past.ask("", &[&["--replay", "--json"][..], arguments].concat()).await;
    serde_json::from_str(&text).unwrap()
}

/// A resize asks for the new flavor and for another host than the present one.
#[tokio::test]
async fn a_replay_decides_a_move_from_the_request_for_the_move() {
    let mut past = Past::with_hosts(2).await;
    let server = past.built(1, Some(0), 1024).await;
    past.resized(server, (1024, 7_000), true).await;
    let same = report(&past, &[]).await;
    assert_eq!((&same["requests"], &same["same_host"]), (&2.into(), &2.into()), "{same}");
    assert_eq!(same["differences"], serde_json::json!([]));
    for history in ["as_it_was", "replayed"] {
        assert_eq!(same[history]["claimed"]["MEMORY_MB"][0], 7_000, "{same}");
        assert_eq!(same[history]["hosts_in_use"], 1, "{same}");
    }
    // The new flavor fits on no host of the other fleet. The server stays where it is there.
    let small = report(&past, &["--fleet", "sim://2?vcpus=8&memory_mib=4096&disk_gib=100&name=new"]).await;
    assert_eq!((&small["other_host"], &small["refused_only_now"]), (&1.into(), &1.into()), "{small}");
    let refused = &small["differences"][1];
    assert_eq!((&refused["flavor"], &refused["is"]), (&"of-7000".into(), &serde_json::Value::Null), "{small}");
    assert_eq!(small["replayed"]["claimed"]["MEMORY_MB"][0], 1_024, "{small}");
    // The only host is the present one.
    let single = report(&past, &["--fleet", "sim://1?vcpus=8&memory_mib=16384&disk_gib=100&name=new"]).await;
    assert_eq!(single["refused_only_now"], 1, "{single}");
    assert_eq!(single["replayed"]["claimed"]["MEMORY_MB"][0], 1_024, "{single}");
}

/// The recorded move found no host. It finds one in the replay, but the allocations of both histories end as recorded.
#[tokio::test]
async fn a_replay_may_find_a_host_for_a_move_that_found_none() {
    let mut past = Past::with_hosts(2).await;
    let server = past.built(1, Some(0), 1024).await;
    past.resized(server, (1024, 9_000), false).await;
    let same = report(&past, &[]).await;
    assert_eq!((&same["requests"], &same["refused"]), (&2.into(), &serde_json::json!([1, 1])), "{same}");
    let large = report(&past, &["--fleet", "sim://2?vcpus=8&memory_mib=16384&disk_gib=100&name=new"]).await;
    assert_eq!((&large["placed_only_now"], &large["refused_only_now"]), (&1.into(), &0.into()), "{large}");
    let found = &large["differences"][1];
    assert_eq!((&found["was"], &found["is"]), (&serde_json::Value::Null, &"new-0002".into()), "{large}");
    for history in ["as_it_was", "replayed"] {
        assert_eq!(large[history]["claimed"]["MEMORY_MB"][0], 1_024, "{large}");
    }
}
