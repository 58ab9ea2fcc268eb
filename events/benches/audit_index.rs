//! Measures audit queries on a long log, with the index and without it.
//!
//! Run `cargo bench -p chronova-events --bench audit_index`. `CHRONOVA_BENCH_EVENTS` is the number of events (a million
//! unless said otherwise), `CHRONOVA_BENCH_DIR` the folder of the log. The log stays there, and the next run adds only
//! the missing events.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronova_events::envelope::{Cause, Meta, NewEvent, Position, StreamId, Timestamp};
use chronova_events::ids::{ConsumerId, HostId, InstanceId, ProcessId, ProjectId, ProviderId, RequestId, UserId};
use chronova_events::instance::{InstanceEvent, Placed, PowerAction, PowerCompleted, PowerRequested};
use chronova_events::ledger::{Allocation, Claimed, LedgerEvent};
use chronova_events::process::{Finished, ProcessEvent, ProcessOutcome, Started, StepDone, StepOutput, Task};
use chronova_events::quota::{QuotaEvent, QuotaReserved};
use chronova_events::registry::Event;
use chronova_events::store::audit_index::{IndexOptions, IndexProgress, IndexedLog};
use chronova_events::store::criteria::Criteria;
use chronova_events::store::sqlite::{ReadOnlyLog, SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected};
use uuid::Uuid;

/// The events of one request.
const EACH: u64 = 10;
/// The requests about one server.
const REQUESTS: u64 = 5;
const HOSTS: u64 = 1_000;
const USERS: u64 = 2_000;
const PROJECTS: u64 = 500;
/// Appends under way at the same time.
const AT_ONCE: u64 = 1_024;

fn id(of: &str, number: u64) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{of} {number}").as_bytes())
}

/// The events of request `n`: of the server, of its process, a claim on a host, a quota.
fn request(n: u64) -> Vec<(StreamId, Vec<NewEvent>)> {
    let (server, host) = (InstanceId(id("server", n / REQUESTS)), HostId(id("host", n % HOSTS)));
    let (process, action) = (ProcessId(id("process", n)), PowerAction::Stop);
    let (user, project) = (
        UserId::new(id("user", n % USERS).simple().to_string()),
        ProjectId::new(id("project", n % PROJECTS).simple().to_string()),
    );
    let source = chronova_events::envelope::RequestSource::new(
        Some([192, 0, 2, u8::try_from(n % 250).unwrap()].into()),
        Some("openstacksdk"),
    );
    let roles = vec!["member".to_owned(), "reader".to_owned()];
    let cause = Cause::User { user: user.clone(), project: Some(project.clone()), roles, source };
    let request_id = Some(RequestId::new(format!("req-{}", id("request", n))));
    let asked =
        Arc::new(Meta { request_id: request_id.clone(), correlation: id("request", n), causation: None, cause });
    let cause = Cause::Process { process };
    let done = Arc::new(Meta { request_id, correlation: id("request", n), causation: None, cause });
    let time = i64::try_from(n * EACH).unwrap() * 100_000;
    let new = |event: Event, nth: i64, meta: &Arc<Meta>| NewEvent::new(event, Timestamp(time + nth), meta);
    let hostname = format!("host-{}", n % HOSTS);
    let availability_zone = "nova".to_owned();
    let placed = Placed { process, host, hostname: hostname.clone(), attempt: 1, availability_zone };
    let resources = vec![("MEMORY_MB".to_owned(), 512), ("VCPU".to_owned(), 1)];
    let claimed = Claimed {
        consumer: ConsumerId::new(server.to_string()),
        project: project.clone(),
        user,
        consumer_type: Some("INSTANCE".to_owned()),
        allocations: vec![Allocation { provider: ProviderId(host.0), resources }],
    };
    let reserved = QuotaReserved { project: project.clone(), instances: vec![server], cores: 1, memory_mib: 512 };
    let step = |step: &str, output| ProcessEvent::from(StepDone { step: step.to_owned(), output });
    let at = StepOutput::Host { host, hostname };
    vec![
        (StreamId::new("quota", &project), vec![new(QuotaEvent::from(reserved).into(), 0, &asked)]),
        (
            StreamId::new("instance", server),
            vec![
                new(InstanceEvent::from(PowerRequested { process, action }).into(), 1, &asked),
                new(InstanceEvent::from(placed).into(), 4, &done),
                new(InstanceEvent::from(PowerCompleted { process, action }).into(), 8, &done),
            ],
        ),
        (
            StreamId::new("process", process),
            vec![
                new(
                    ProcessEvent::from(Started { process, task: Task::Power { instance: server, action } }).into(),
                    2,
                    &asked,
                ),
                new(step("choose_host", at).into(), 3, &done),
                new(step("set_power", StepOutput::Nothing).into(), 6, &done),
                new(step("watch", StepOutput::Nothing).into(), 7, &done),
                new(ProcessEvent::from(Finished { outcome: ProcessOutcome::Succeeded }).into(), 9, &done),
            ],
        ),
        (StreamId::new("ledger", "cell1"), vec![new(LedgerEvent::from(claimed).into(), 5, &done)]),
    ]
}

async fn fill(store: &Arc<SqliteStore>, events: u64) {
    let mut n = store.head().0 / EACH;
    while store.head().0 < events {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..AT_ONCE {
            for (stream, news) in request(n) {
                let store = Arc::clone(store);
                tasks.spawn(async move { store.append(&stream, Expected::Any, news).await.map(drop) });
            }
            n += 1;
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap().unwrap();
        }
    }
}

/// The questions of an auditor about a log of `events` events.
fn questions(events: u64) -> Vec<(&'static str, Criteria)> {
    let middle = events / EACH / 2;
    let text = |text: String| vec![text];
    let user = || text(id("user", 7).simple().to_string());
    let project = || text(id("project", 7).simple().to_string());
    let hour = |n: i64| Some(Timestamp(i64::try_from(events).unwrap() / 2 * 100_000 + n * 3_600_000_000));
    let none = Criteria::default;
    let server = Criteria { servers: vec![id("server", middle / REQUESTS)], ..none() };
    let kinds = || text("instance.power_requested".to_owned());
    vec![
        ("a request", Criteria { request_ids: text(id("request", middle).to_string()), ..none() }),
        ("a server", server),
        ("a host", Criteria { hosts: vec![id("host", 7)], ..none() }),
        ("a host in an hour", Criteria { hosts: vec![id("host", 7)], since: hour(0), until: hour(1), ..none() }),
        ("a user", Criteria { users: user(), ..none() }),
        ("a user and a kind", Criteria { users: user(), kinds: kinds(), ..none() }),
        ("a project in an hour", Criteria { projects: project(), since: hour(0), until: hour(1), ..none() }),
        ("a kind in an hour", Criteria { kinds: kinds(), since: hour(0), until: hour(1), ..none() }),
        ("an address and a project", Criteria { addresses: text("192.0.2.7".into()), projects: project(), ..none() }),
        ("a kind that no event has", Criteria { kinds: text("*_failed".into()), ..none() }),
        ("a user who made no request", Criteria { users: text("nobody".into()), ..none() }),
    ]
}

/// The number of events that answer a query, and the time until the last one was read.
async fn ask(store: &dyn EventStore, criteria: &Criteria) -> (usize, Duration) {
    let begin = Instant::now();
    let mut criteria = criteria.clone();
    criteria.learn(store).await.unwrap();
    let (mut at, mut found) = (Position::START, 0);
    loop {
        let page = store.search(at, 1_024, &criteria).await.unwrap();
        found += page.events.len();
        if page.until == at {
            return (found, begin.elapsed());
        }
        at = page.until;
    }
}

async fn measure() {
    let number = std::env::var("CHRONOVA_BENCH_EVENTS").map_or(1_000_000, |number| number.parse().unwrap());
    let folder = std::env::var_os("CHRONOVA_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let (path, index) = (folder.join("log.db"), folder.join("log.db.index"));
    let begin = Instant::now();
    let store = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
    fill(&store, number).await;
    store.close().await;
    let size = |path: &PathBuf| path.metadata().map_or(0, |file| file.len()) / 1_000_000;
    println!("log: {number} events, {} MB, filled in {:.1?}", size(&path), begin.elapsed());
    let log = ReadOnlyLog::open(&path).unwrap();
    let indexed = IndexedLog::new(log.clone(), index.clone(), IndexOptions::default());
    let begin = Instant::now();
    while let IndexProgress::Behind(_) = indexed.extend().await.unwrap() {}
    println!("index: {} MB, completed in {:.1?}", size(&index), begin.elapsed());
    for (name, criteria) in questions(number) {
        let (cold, _) = ask(&*indexed, &criteria).await;
        let (found, with) = ask(&*indexed, &criteria).await;
        let (all, without) = ask(&*log, &criteria).await;
        assert_eq!((cold, found), (all, all), "{name}");
        println!("{name}: {found} events, with index {with:.1?}, without {without:.1?}");
    }
}

fn main() {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(measure());
}
