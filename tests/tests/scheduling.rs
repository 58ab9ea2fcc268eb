//! Placement under concurrent requests: group policies hold, requests for several servers are placed whole, claims
//! rarely conflict, a hook of the operator's judges hosts, and the reasons are recorded.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chronova_actors::ports::scheduler_hook::SchedulerHook;
use chronova_actors::scheduler::SharedSchedulerHook;
use chronova_actors::server_group::{ServerGroupCommand, ServerGroupRoot};
use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{InstanceId, ServerGroupId};
use chronova_events::instance::{BuildRequested, InstanceEvent, Scheduled};
use chronova_events::ledger::LedgerEvent;
use chronova_events::registry::{Event, NounEvent};
use chronova_events::server_group::{ServerGroupCreated, ServerGroupPolicy};
use chronova_events::store::EventStore;
use chronova_hypervisor::sim::SimUri;
use chronova_tests::world::{Life, World, build_request};
use futures::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

const GROUP: ServerGroupId = ServerGroupId(Uuid::from_u128(77));

fn id(n: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(n))
}

/// A world with hosts that never become full. The tests add the members of a group before they request the servers, and
/// no process protects these members from the reconciler. So the reconciler must not run meanwhile.
fn roomy(hosts: usize) -> World {
    let mut world = World::of(SimUri { vcpus: 64, memory_mib: 65_536, disk_gib: 1_000, ..SimUri::new(hosts) });
    world.options.reconcile.period = Duration::from_hours(1);
    world
}

async fn life(world: &World) -> Life {
    let life = world.live(None, None).await;
    life.hosts_up(world.fleet.len()).await;
    life
}

async fn group(
    life: &Life,
    policy: ServerGroupPolicy,
    max_server_per_host: Option<u32>,
    members: impl Iterator<Item = u128>,
) {
    let gateway = &life.context().gateway;
    let meta = || Meta::system("test");
    let group = ServerGroupCreated {
        group: GROUP,
        project: "p".into(),
        user: "u".into(),
        name: "g".into(),
        policy,
        max_server_per_host,
    };
    let create = ServerGroupCommand::Create { group, limit: -1 };
    gateway.send::<ServerGroupRoot>(&"p".into(), create, meta()).await.unwrap();
    let instances = members.map(id).collect();
    let join = ServerGroupCommand::Join { group: GROUP, user: "u".into(), instances, limit: -1 };
    gateway.send::<ServerGroupRoot>(&"p".into(), join, meta()).await.unwrap();
}

/// Requests a server; `with` changes the request.
async fn build(life: &Life, n: u128, with: impl FnOnce(&mut BuildRequested)) {
    let mut request = build_request(id(n));
    with(&mut request);
    life.build_of(request).await.unwrap();
}

fn in_group(request: &mut BuildRequested) {
    request.scheduler_hints = vec![("group".to_owned(), vec![GROUP.to_string()])];
}

/// The number of servers on each host.
fn per_host(world: &World) -> Vec<usize> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for hosts in world.fleet.whereabouts().into_values() {
        *counts.entry(hosts[0]).or_default() += 1;
    }
    counts.into_values().collect()
}

async fn events(world: &World) -> Vec<Arc<Event>> {
    let recorded = world.log.read_all(Position::START, 100_000).await.unwrap();
    recorded.iter().map(|recorded| Arc::clone(recorded.event().unwrap())).collect()
}

async fn decisions(world: &World) -> Vec<Scheduled> {
    let scheduled = |event: &Arc<Event>| match InstanceEvent::of(event) {
        Some(InstanceEvent::Scheduled(scheduled)) => Some(scheduled.clone()),
        _ => None,
    };
    events(world).await.iter().filter_map(scheduled).collect()
}

#[actix_rt::test]
async fn an_anti_affinity_group_holds_under_parallel_requests() {
    const HOSTS: usize = 50;
    const WISHES: u128 = 200;
    let world = roomy(HOSTS);
    let life = life(&world).await;
    group(&life, ServerGroupPolicy::AntiAffinity, None, 1..=WISHES).await;
    join_all((1..=WISHES).map(|n| build(&life, n, in_group))).await;
    life.settled().await;
    let active = (1..=WISHES).filter(|n| life.status(id(*n)) == "ACTIVE").count();
    assert_eq!(active, HOSTS, "the active servers are not as many as the hosts");
    assert_eq!(per_host(&world), vec![1; HOSTS], "a host has no server, or more than one");
    for n in (1..=WISHES).filter(|n| life.status(id(*n)) != "ACTIVE") {
        assert_eq!(life.status(id(n)), "ERROR");
        let fault = life.fault(id(n));
        assert!(fault.starts_with("No valid host was found. ") && fault.contains("anti-affinity group g"), "{fault}");
        assert!(!fault.contains("sim-"), "the fault names a host: {fault}");
    }
    // Claims rarely conflict, because later decisions see the pending claims on a host.
    let decisions = decisions(&world).await;
    assert_eq!(decisions.len(), usize::try_from(WISHES).unwrap(), "the decisions are not as many as the servers");
    let lost: usize = decisions.iter().map(|decision| decision.lost.len()).sum();
    assert!(lost <= HOSTS, "{lost} claims failed");
    let claims = events(&world)
        .await
        .iter()
        .filter(|event| matches!(LedgerEvent::of(event), Some(LedgerEvent::Claimed(_))))
        .count();
    assert_eq!(claims, HOSTS, "the claims are not as many as the placed servers");
    life.stop().await;
    world.check().await;
}

/// A claim that the ledger refuses because of the group is no attempt. Nova checks the policy late, which uses up an
/// attempt, so in Nova such servers need `max_attempts` above 1.
#[actix_rt::test]
async fn an_anti_affinity_group_needs_no_second_attempt() {
    const HOSTS: usize = 10;
    let mut world = roomy(HOSTS);
    (world.options.processes.max_attempts, world.options.scheduler.max_attempts) = (1, 1);
    let life = life(&world).await;
    group(&life, ServerGroupPolicy::AntiAffinity, None, 1..=10).await;
    join_all((1..=10).map(|n| build(&life, n, in_group))).await;
    life.settled().await;
    for n in 1..=10 {
        assert_eq!((life.status(id(n)), life.fault(id(n))), ("ACTIVE", String::new()));
    }
    assert_eq!(per_host(&world), vec![1; HOSTS], "a host has no server, or more than one");
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn max_server_per_host_is_respected_and_affinity_keeps_members_together() {
    let world = roomy(3);
    let life_1 = life(&world).await;
    group(&life_1, ServerGroupPolicy::AntiAffinity, Some(2), 1..=10).await;
    join_all((1..=10).map(|n| build(&life_1, n, in_group))).await;
    life_1.settled().await;
    assert_eq!(per_host(&world), [2, 2, 2]);
    life_1.stop().await;
    let world = roomy(3);
    let life = life(&world).await;
    group(&life, ServerGroupPolicy::Affinity, None, 1..=10).await;
    join_all((1..=10).map(|n| build(&life, n, in_group))).await;
    life.settled().await;
    assert_eq!(per_host(&world), [10]);
    life.stop().await;
    world.check().await;
}

/// The members of one request count for each other before any of them is placed. The weighers pull the other way, so the
/// policy alone gives this result.
#[actix_rt::test]
async fn policies_of_a_group_hold_within_one_request() {
    for (policy, most, spread, expected) in [
        (ServerGroupPolicy::Affinity, None, 1.0, vec![4]),
        (ServerGroupPolicy::AntiAffinity, Some(2), -1.0, vec![2, 2]),
    ] {
        let mut world = roomy(3);
        let multipliers = &mut world.options.scheduler.multipliers;
        (multipliers.ram, multipliers.cpu, multipliers.disk, multipliers.io_ops) = (spread, spread, spread, 0.0);
        let life = life(&world).await;
        group(&life, policy, most, 1..=4).await;
        join_all((1..=4).map(|n: u128| {
            build(&life, n, move |request| {
                in_group(request);
                (request.batch, request.launch_index) = (4, u32::try_from(n).unwrap() - 1);
                request.reservation = "r-group".to_owned();
            })
        }))
        .await;
        life.settled().await;
        for n in 1..=4 {
            assert_eq!((life.status(id(n)), life.fault(id(n))), ("ACTIVE", String::new()), "{policy:?}");
        }
        assert_eq!(per_host(&world), expected, "{policy:?}");
        life.stop().await;
        world.check().await;
    }
}

#[actix_rt::test]
async fn servers_of_one_request_are_placed_together_or_not_at_all() {
    let world = World::of(SimUri { vcpus: 1, memory_mib: 8_192, disk_gib: 100, ..SimUri::new(3) });
    // With the default allocation ratio, each host has four vCPUs.
    let life = life(&world).await;
    let together = async |first: u128, count: u128| {
        join_all((0..count).map(|n| {
            build(&life, first + n, move |request| {
                request.batch = u32::try_from(count).unwrap();
                request.launch_index = u32::try_from(n).unwrap();
                request.reservation = format!("r-{first}");
            })
        }))
        .await;
        life.settled().await;
        let statuses: BTreeSet<&str> = (first..first + count).map(|n| life.status(id(n))).collect();
        statuses.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(together(1, 6).await, ["ACTIVE"]);
    assert_eq!(per_host(&world), [2, 2, 2], "the servers of the request are not spread");
    assert_eq!(together(100, 7).await, ["ERROR"], "seven servers, where six fit");
    for n in 100..107 {
        let fault = life.fault(id(n));
        assert!(fault.starts_with("No valid host was found. ") && !fault.contains("sim-"), "{fault}");
    }
    assert_eq!(together(200, 6).await, ["ACTIVE"], "the refused request left a claim");
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_decision_is_on_record_with_its_reasons() {
    let world = roomy(3);
    let life = life(&world).await;
    build(&life, 1, |_| {}).await;
    life.settled().await;
    build(&life, 2, |request| std::sync::Arc::make_mut(&mut request.flavor).memory_mib = 1_000_000).await;
    life.settled().await;
    let decisions = decisions(&world).await;
    let (found, none) = (&decisions[0], &decisions[1]);
    assert_eq!((found.hosts, found.attempt, found.alternates.len()), (3, 1, 2));
    assert_eq!(found.chosen, Some(found.weighed[0].host));
    assert!(found.checks.iter().any(|check| check.name == "ComputeFilter" && check.left == 3), "{found:?}");
    assert_eq!((none.chosen, none.checks.last().unwrap().left), (None, 0));
    let refused = &none.checks.last().unwrap().refused;
    assert_eq!(refused.len(), 3);
    let words = "RAM: wants 1000000 MiB, free ";
    assert!(refused.iter().all(|refused| refused.reason.starts_with(words)), "{refused:?}");
    assert!(life.fault(id(2)).contains("no suitable host has 1000000 MiB of memory free"), "{}", life.fault(id(2)));
    life.stop().await;
}

/// A scheduler hook that answers with a function, and keeps the questions.
struct FunctionHook<F> {
    answer: F,
    questions: Mutex<Vec<Value>>,
}

impl<F> std::fmt::Debug for FunctionHook<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FunctionHook")
    }
}

#[async_trait::async_trait]
impl<F: Fn(&Value) -> Result<Value, String> + Send + Sync> SchedulerHook for FunctionHook<F> {
    async fn ask(&self, question: &Value) -> Result<Value, String> {
        self.questions.lock().unwrap().push(question.clone());
        (self.answer)(question)
    }
}

/// A world whose scheduler asks this hook.
fn hooked<F>(hosts: usize, answer: F) -> (World, Arc<FunctionHook<F>>)
where
    F: Fn(&Value) -> Result<Value, String> + Send + Sync + 'static,
{
    let hook = Arc::new(FunctionHook { answer, questions: Mutex::default() });
    let mut world = roomy(hosts);
    world.options.scheduler.hook.program = Some(SharedSchedulerHook(Arc::clone(&hook) as _));
    (world, hook)
}

/// Refuses the second host, and prefers the third.
fn judged(question: &Value) -> Result<Value, String> {
    let opinion = |host: &Value| match host["name"].as_str() {
        Some("sim-0002") => json!({"id": host["id"], "passes": false, "reason": "its rack is full"}),
        Some("sim-0003") => json!({"id": host["id"], "weight": 100}),
        _ => json!({"id": host["id"]}),
    };
    Ok(json!({"hosts": question["hosts"].as_array().unwrap().iter().map(opinion).collect::<Vec<_>>()}))
}

fn broken(_: &Value) -> Result<Value, String> {
    Err("it is being restarted".to_owned())
}

fn nonsense(_: &Value) -> Result<Value, String> {
    Ok(json!({"hosts": "all"}))
}

#[actix_rt::test]
async fn a_hook_filters_and_weighs_the_hosts_of_a_request_in_one_question() {
    let (mut world, hook) = hooked(3, judged);
    world.options.scheduler.multipliers.hook = 1_000.0;
    let life = life(&world).await;
    build(&life, 1, |_| {}).await;
    life.settled().await;
    assert_eq!((life.status(id(1)), life.host_of(&world, id(1))), ("ACTIVE", Some(2)));
    let decision = decisions(&world).await.remove(0);
    let check = decision.checks.iter().find(|check| check.name == "SchedulerHookFilter").unwrap();
    assert_eq!((check.left, check.refused[0].reason.as_str()), (2, "its rack is full"));
    let asked = hook.questions.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "one question has all hosts");
    assert_eq!(asked[0]["hosts"].as_array().unwrap().len(), 3);
    assert_eq!(asked[0]["request"]["server"], id(1).to_string());
    // The servers of one request share a question.
    join_all((0..4_u32).map(|n| {
        build(&life, 10 + u128::from(n), move |request| {
            (request.batch, request.launch_index) = (4, n);
            request.reservation = "r-four".to_owned();
        })
    }))
    .await;
    life.settled().await;
    for n in 10..14 {
        assert_eq!((life.status(id(n)), life.host_of(&world, id(n))), ("ACTIVE", Some(2)));
    }
    let asked = hook.questions.lock().unwrap().clone();
    assert_eq!((asked.len(), &asked[1]["request"]["servers"]), (2, &json!(4)));
    // A forced host skips the filters, and the hook with them.
    build(&life, 20, |request| request.forced_host = Some("sim-0002".to_owned())).await;
    life.settled().await;
    assert_eq!((life.status(id(20)), life.host_of(&world, id(20))), ("ACTIVE", Some(1)));
    assert_eq!(hook.questions.lock().unwrap().len(), 2);
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn without_an_answer_of_the_hook_the_options_decide() {
    let (world, _) = hooked(3, broken);
    let open = life(&world).await;
    build(&open, 1, |_| {}).await;
    open.settled().await;
    assert_eq!(open.status(id(1)), "ACTIVE");
    let decision = decisions(&world).await.remove(0);
    assert!(decision.checks.iter().all(|check| check.name != "SchedulerHookFilter"), "{decision:?}");
    open.stop().await;
    world.check().await;
    for answer in [broken as fn(&Value) -> Result<Value, String>, nonsense] {
        let (mut world, _) = hooked(3, answer);
        world.options.scheduler.hook.fails_open = false;
        let closed = life(&world).await;
        build(&closed, 1, |_| {}).await;
        closed.settled().await;
        assert_eq!(closed.status(id(1)), "ERROR");
        let fault = closed.fault(id(1));
        assert!(fault.contains("the scheduler hook gave no valid answer"), "{fault}");
        closed.stop().await;
        world.check().await;
    }
}
