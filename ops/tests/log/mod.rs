//! A small log. One request creates two servers. The first one is built. The build of the second one fails, and its
//! undo gets stuck for a moment. Then the guest of the first server stops by itself, and another user requests the
//! start of this server.

use std::sync::Arc;

use chronova_events::envelope::{Cause, Meta, NewEvent, StreamId, Timestamp};
use chronova_events::host::{self, CapabilitiesChanged, HostEvent, Registered};
use chronova_events::ids::{EventId, HostId, InstanceId, ProcessId, RequestId};
use chronova_events::instance::{self, *};
use chronova_events::ledger::{Allocation, Claimed, LedgerEvent, Released};
use chronova_events::process::{self, *};
use chronova_events::quota::{QuotaEvent, QuotaReserved};
use chronova_events::registry::Event;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore, Expected};
use uuid::{Uuid, uuid};

/// 2026-01-31T12:00:00Z
pub(crate) const NOON: i64 = 1_769_860_800_000_000;
pub(crate) const WEB: &str = "11111111-0000-0000-0000-000000000001";
pub(crate) const DB: &str = "22222222-0000-0000-0000-000000000002";
const HOST: HostId = HostId(uuid!("33333333-0000-0000-0000-000000000003"));

struct Writer {
    store: Arc<MemoryStore>,
    millis: i64,
    count: u128,
}

impl Writer {
    async fn put(&mut self, millis: i64, stream: StreamId, event: impl Into<Event>, meta: &Arc<Meta>) {
        self.millis += millis;
        self.count += 1;
        let new = NewEvent {
            id: EventId(Uuid::from_u128(self.count)),
            event: Arc::new(event.into()),
            recorded_at: Timestamp(NOON + self.millis * 1_000),
            meta: Arc::clone(meta),
        };
        self.store.append(&stream, Expected::Any, vec![new]).await.unwrap();
    }
}

fn asked_by(user: &str, request: u128) -> Arc<Meta> {
    Arc::new(Meta {
        request_id: Some(RequestId::new(format!("req-{}", Uuid::from_u128(request)))),
        correlation: Uuid::from_u128(request),
        causation: None,
        cause: Cause::User {
            user: user.into(),
            project: Some("acme".into()),
            roles: vec!["member".into()],
            source: None,
        },
    })
}

fn system(part: &str, correlation: u128) -> Arc<Meta> {
    let cause = Cause::System { part: part.to_owned() };
    Arc::new(Meta { request_id: None, correlation: Uuid::from_u128(correlation), causation: None, cause })
}

fn process(n: u128) -> ProcessId {
    ProcessId(Uuid::from_u128((0x0000_a000_u128 + n) << 96))
}

fn of(id: &str) -> StreamId {
    StreamId::new("instance", id)
}

fn run(id: ProcessId) -> StreamId {
    StreamId::new("process", id)
}

fn ledger() -> StreamId {
    StreamId::new("ledger", "cell1")
}

fn id(text: &str) -> InstanceId {
    text.parse().unwrap()
}

fn build(server: &str, name: &str, by: ProcessId) -> InstanceEvent {
    let InstanceEvent::BuildRequested(mut asked) = instance::samples().remove(0) else { panic!() };
    asked.instance = id(server);
    asked.process = by;
    asked.project = "acme".into();
    asked.user = "alice".into();
    asked.name = name.into();
    asked.networks = RequestedNetworks::Auto;
    asked.into()
}

fn done(step: &str) -> ProcessEvent {
    StepDone { step: step.into(), output: StepOutput::Nothing }.into()
}

fn chosen() -> ProcessEvent {
    StepDone { step: "choose_host".into(), output: StepOutput::Host { host: HOST, hostname: "h1".into() } }.into()
}

fn claim(server: &str) -> LedgerEvent {
    let resources = vec![("MEMORY_MB".to_owned(), 512), ("VCPU".to_owned(), 1)];
    Claimed {
        consumer: server.into(),
        project: "acme".into(),
        user: "alice".into(),
        consumer_type: Some("INSTANCE".into()),
        allocations: vec![Allocation { provider: chronova_events::ids::ProviderId(HOST.0), resources }],
    }
    .into()
}

fn started(by: ProcessId, task: Task) -> ProcessEvent {
    process::Started { process: by, task }.into()
}

pub(crate) async fn filled() -> Arc<MemoryStore> {
    let store = MemoryStore::new();
    let mut log = Writer { store: Arc::clone(&store), millis: 0, count: 0 };
    register(&mut log).await;
    let user = asked_by("alice", 0xa1);
    let (web, db) = (process(1), process(2));
    let reserved =
        QuotaReserved { project: "acme".into(), instances: vec![id(WEB), id(DB)], cores: 1, memory_mib: 512 };
    log.put(900, StreamId::new("quota", "acme"), QuotaEvent::from(reserved), &user).await;
    log.put(1, of(WEB), build(WEB, "web-1", web), &user).await;
    log.put(1, of(DB), build(DB, "db", db), &user).await;
    build_web(&mut log, &user.by_process(web, None), web).await;
    fail_db(&mut log, &user.by_process(db, None), db).await;
    afterwards(&mut log).await;
    store
}

async fn register(log: &mut Writer) {
    let capabilities = host::samples().into_iter().find_map(|event| match event {
        HostEvent::Registered(registered) => Some(registered.capabilities),
        _ => None,
    });
    let registered = Registered {
        host: HOST,
        number: 1,
        hostname: "h1".into(),
        uri: "qemu:///system".into(),
        capabilities: capabilities.unwrap(),
    };
    log.put(0, StreamId::new("host", HOST), HostEvent::from(registered), &system("host-watch", 0xb1)).await;
}

async fn build_web(log: &mut Writer, meta: &Arc<Meta>, by: ProcessId) {
    log.put(2, run(by), started(by, Task::BuildInstance { instance: id(WEB) }), meta).await;
    log.put(5, ledger(), claim(WEB), meta).await;
    let placed =
        Placed { process: by, host: HOST, hostname: "h1".into(), attempt: 1, availability_zone: "nova".into() };
    log.put(1, of(WEB), InstanceEvent::from(placed), meta).await;
    log.put(1, run(by), chosen(), meta).await;
    log.put(350, run(by), done("spawn_guest"), meta).await;
    log.put(2, of(WEB), InstanceEvent::from(BuildSucceeded { process: by }), meta).await;
    log.put(1, run(by), ProcessEvent::from(Finished { outcome: ProcessOutcome::Succeeded }), meta).await;
}

async fn fail_db(log: &mut Writer, meta: &Arc<Meta>, by: ProcessId) {
    let fault = FaultInfo { code: 500, message: "No valid host was found.".into(), details: "disk full on h1".into() };
    log.put(0, run(by), started(by, Task::BuildInstance { instance: id(DB) }), meta).await;
    log.put(4, ledger(), claim(DB), meta).await;
    log.put(1, run(by), chosen(), meta).await;
    let failed = StepFailed { step: "spawn_guest".into(), elsewhere: true, host: Some(HOST), fault: fault.clone() };
    log.put(200, run(by), ProcessEvent::from(failed), meta).await;
    let stuck = StepStuck { step: "spawn_guest".into(), reason: "the host does not answer".into() };
    log.put(30, run(by), ProcessEvent::from(stuck), meta).await;
    log.put(500, run(by), ProcessEvent::from(StepUndone { step: "spawn_guest".into() }), meta).await;
    log.put(2, ledger(), LedgerEvent::from(Released { consumer: DB.into() }), meta).await;
    log.put(1, run(by), ProcessEvent::from(StepUndone { step: "choose_host".into() }), meta).await;
    log.put(1, of(DB), InstanceEvent::from(BuildFailed { process: by, fault }), meta).await;
    log.put(1, run(by), ProcessEvent::from(Finished { outcome: ProcessOutcome::Failed }), meta).await;
}

async fn afterwards(log: &mut Writer) {
    let seen = PowerObserved { host: HOST, power: Power::Shutdown };
    log.put(5_000, of(WEB), InstanceEvent::from(seen), &system("host-watch", 0xb2)).await;
    let (user, by) = (asked_by("bob", 0xa2), process(3));
    let asked = PowerRequested { process: by, action: PowerAction::Start };
    log.put(2_000, of(WEB), InstanceEvent::from(asked), &user).await;
    let meta = user.by_process(by, None);
    log.put(1, run(by), started(by, Task::Power { instance: id(WEB), action: PowerAction::Start }), &meta).await;
}

/// Gives the host another name.
pub(crate) async fn rename_host(store: &Arc<MemoryStore>, hostname: &str) {
    let report = host::samples().into_iter().find_map(|event| match event {
        HostEvent::CapabilitiesChanged(report) => Some(report),
        _ => None,
    });
    let renamed = CapabilitiesChanged { hostname: hostname.to_owned(), ..report.unwrap() };
    let event = NewEvent::new(HostEvent::from(renamed), Timestamp(NOON), &system("host-watch", 0xb3));
    store.append(&StreamId::new("host", HOST), Expected::Any, vec![event]).await.unwrap();
}

/// Appends a later event to the log.
pub(crate) async fn add_one(store: &Arc<MemoryStore>) {
    let renamed = InstanceEvent::from(Renamed { name: "later".into() });
    let event = NewEvent::new(renamed, Timestamp(NOON), &asked_by("bob", 0xa3));
    store.append(&of(WEB), Expected::Any, vec![event]).await.unwrap();
}
