//! The recorded cloud, and a control plane on the log that `adopt` wrote from it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chronova::commands::adopt::{self, AdoptArgs, AdoptionChoices, AdoptionHistory, AdoptionReport};
use chronova::nova::database::{NovaDatabases, TablesInMemory};
use chronova::nova::dump;
use chronova_actors::ports::keys::NoKeyManager;
use chronova_actors::runtime::{Leader, Leadership, Member, Ports};
use chronova_actors::services::embedded::network::service::EmbeddedNetworks;
use chronova_actors::services::embedded::volume::service::EmbeddedVolumes;
use chronova_events::clock::SystemClock;
use chronova_events::ids::InstanceId;
use chronova_events::store::EventStore;
use chronova_events::store::memory::MemoryStore;
use chronova_hypervisor::driver::{Driver, DriverError, DriverResult, HostSignal, ImageSource, SignalStream, StopMode};
use chronova_hypervisor::guest::{GuestSpec, GuestStatus, HostCapabilities, HostUsage, ImageRef, PowerState};
use chronova_projections::history::{History, HistoryOptions};
use chronova_projections::views::Views;
use chronova_tests::answers::{self, AnsweredRequest};
use chronova_tests::compute_api::ADMIN;
use chronova_tests::quick::quick;
use chronova_tests::services::OneImage;
use chronova_web::app::App;
use chronova_web::auth::Authentication;
use chronova_web::config::WebConfig;
use chronova_web::metrics::HttpMetrics;
use chronova_web::policy::{Enforcer, Overrides};
use chronova_web::server::configure;
use chronova_web::tables::Routers;
use serde_json::Value;

pub(super) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/nova-zed")
}

pub(super) fn text(file: &str) -> String {
    std::fs::read_to_string(folder().join(file)).unwrap()
}

pub(super) fn recorded(file: &str) -> Value {
    serde_json::from_str(&text(file)).unwrap()
}

/// The arguments of `adopt` without a database.
pub(super) fn no_args() -> AdoptArgs {
    AdoptArgs {
        nova_conf: Vec::new(),
        api: None,
        cell0: None,
        cell: Vec::new(),
        placement: None,
        max_memory: adopt::DEFAULT_MAX_MEMORY,
        check: false,
        output: adopt::ReportForm::Table,
        leave_out: Vec::new(),
        uri: adopt::DEFAULT_URI.to_owned(),
        undo: false,
        compare: adopt::compare::CompareArgs::default(),
    }
}

/// The tables of a recorded cloud, which tests change.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub(super) api: TablesInMemory,
    pub(super) cell0: TablesInMemory,
    pub(super) cell: TablesInMemory,
    pub(super) placement: TablesInMemory,
}

impl Tables {
    pub(super) fn recorded() -> Self {
        let read = |name: &str| dump::read(&folder().join(name)).unwrap();
        Self {
            api: read("nova_api.sql"),
            cell0: read("nova_cell0.sql"),
            cell: read("nova.sql"),
            placement: read("placement.sql"),
        }
    }

    pub(super) fn databases(self) -> NovaDatabases {
        NovaDatabases {
            api: Box::new(self.api),
            cell0: Box::new(self.cell0),
            cells: vec![Box::new(self.cell)],
            placement: Box::new(self.placement),
        }
    }

    pub(super) fn judge(self) -> (AdoptionReport, AdoptionHistory) {
        adopt::judge(&self.databases(), &AdoptionChoices::default())
    }

    pub(super) fn judge_without(self, leave_out: &[&str]) -> (AdoptionReport, AdoptionHistory) {
        let leave_out = leave_out.iter().map(|id| (*id).to_owned()).collect();
        adopt::judge(&self.databases(), &AdoptionChoices { leave_out, ..AdoptionChoices::default() })
    }
}

/// Sets a value in the rows for which `holds` is true. Returns their number.
pub(super) fn set(
    tables: &mut TablesInMemory,
    table: &str,
    column: &str,
    value: Option<&str>,
    holds: impl Fn(&dyn Fn(&str) -> Option<String>) -> bool,
) -> usize {
    let table = tables.0.get_mut(table).unwrap();
    let at = |name: &str| table.columns.iter().position(|column| column == name).unwrap();
    let target = at(column);
    let mut changed = 0;
    for row in &mut table.rows {
        let own = row.clone();
        let get = |name: &str| own[table.columns.iter().position(|column| column == name).unwrap()].clone();
        if holds(&get) {
            row[target] = value.map(str::to_owned);
            changed += 1;
        }
    }
    changed
}

/// Adds a row with these values; its other columns are NULL.
pub(super) fn add(tables: &mut TablesInMemory, table: &str, values: &[(&str, &str)]) {
    let table = tables.0.get_mut(table).unwrap();
    let value = |name: &String| values.iter().find(|(column, _)| column == name).map(|(_, value)| (*value).to_owned());
    assert!(values.iter().all(|(column, _)| table.columns.iter().any(|name| name == column)), "{values:?}");
    table.rows.push(table.columns.iter().map(value).collect());
}

/// A host of the recorded cloud, with the guests that Nova created on it.
pub(super) struct AdoptedHostDriver {
    uri: String,
    /// `None`: the calls `capabilities` and `usage` fail.
    answers: Option<HostCapabilities>,
    guests: Mutex<Vec<GuestStatus>>,
    pub(super) calls: Mutex<Vec<String>>,
}

impl AdoptedHostDriver {
    pub(super) fn silent(name: &str) -> Arc<Self> {
        Arc::new(Self { uri: uri(name), answers: None, guests: Mutex::default(), calls: Mutex::default() })
    }

    pub(super) fn with_guests(capabilities: HostCapabilities, guests: Vec<GuestStatus>) -> Arc<Self> {
        let uri = uri(&capabilities.hostname);
        Arc::new(Self { uri, answers: Some(capabilities), guests: Mutex::new(guests), calls: Mutex::default() })
    }

    fn note(&self, call: &str, instance: InstanceId) {
        self.calls.lock().unwrap().push(format!("{call} {instance}"));
    }

    fn silence<T>() -> DriverResult<T> {
        Err(DriverError::Unreachable("a test's host that says nothing".to_owned()))
    }

    fn switch(&self, call: &str, instance: InstanceId, power: PowerState) -> DriverResult<()> {
        self.note(call, instance);
        let mut guests = self.guests.lock().unwrap();
        let guest = guests.iter_mut().find(|guest| guest.instance == instance);
        guest.ok_or(DriverError::NoSuchGuest(instance))?.power = power;
        Ok(())
    }
}

fn uri(name: &str) -> String {
    adopt::DEFAULT_URI.replace("{host}", name)
}

#[async_trait]
impl Driver for AdoptedHostDriver {
    fn uri(&self) -> &str {
        &self.uri
    }
    async fn capabilities(&self) -> DriverResult<HostCapabilities> {
        self.answers.clone().map_or_else(Self::silence, Ok)
    }
    async fn usage(&self) -> DriverResult<HostUsage> {
        if self.answers.is_some() { Ok(HostUsage::default()) } else { Self::silence() }
    }
    fn watch(&self) -> SignalStream {
        use futures::StreamExt as _;
        let first = futures::stream::iter(self.answers.as_ref().map(|_| HostSignal::Connected));
        Box::pin(first.chain(futures::stream::pending()))
    }
    async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus> {
        let guests = self.guests.lock().unwrap();
        guests.iter().find(|guest| guest.instance == instance).cloned().ok_or(DriverError::NoSuchGuest(instance))
    }
    async fn guests(&self) -> DriverResult<Vec<GuestStatus>> {
        Ok(self.guests.lock().unwrap().clone())
    }
    async fn ensure_image(&self, _: &ImageRef, _: Arc<dyn ImageSource>) -> DriverResult<()> {
        Self::silence()
    }
    async fn spawn(&self, guest: &GuestSpec) -> DriverResult<()> {
        self.note("spawn", guest.instance);
        Self::silence()
    }
    async fn destroy(&self, instance: InstanceId) -> DriverResult<()> {
        self.note("destroy", instance);
        self.guests.lock().unwrap().retain(|guest| guest.instance != instance);
        Ok(())
    }
    async fn start(&self, instance: InstanceId) -> DriverResult<()> {
        self.switch("start", instance, PowerState::Running)
    }
    async fn stop(&self, instance: InstanceId, _: StopMode) -> DriverResult<()> {
        self.switch("stop", instance, PowerState::Shutdown)
    }
    async fn reboot_soft(&self, instance: InstanceId, _: u32) -> DriverResult<()> {
        self.switch("reboot_soft", instance, PowerState::Running)
    }
    async fn reboot_hard(&self, instance: InstanceId) -> DriverResult<()> {
        self.switch("reboot_hard", instance, PowerState::Running)
    }
}

/// A control plane on an adopted log.
pub(super) struct AdoptedCloud {
    pub(super) log: Arc<MemoryStore>,
    member: Member,
    pub(super) leader: Leader,
    app: Arc<App>,
    routers: Arc<Routers>,
}

impl AdoptedCloud {
    /// Starts on the recorded cloud, with hosts that do not answer.
    pub(super) async fn start() -> Self {
        let (report, history) = Tables::recorded().judge();
        assert!(report.is_clear(), "{}", report.json());
        Self::on(history, vec![AdoptedHostDriver::silent("h1"), AdoptedHostDriver::silent("h2")]).await
    }

    pub(super) async fn on(history: AdoptionHistory, hosts: Vec<Arc<AdoptedHostDriver>>) -> Self {
        let log = MemoryStore::new();
        history.write(&*log).await.unwrap();
        let store = Arc::clone(&log) as Arc<dyn EventStore>;
        let member = Member::start(Arc::clone(&store), Arc::new(SystemClock), Views::default()).await.unwrap();
        let leadership = Leadership::take(&member, 1).unwrap();
        let options = quick();
        let (gateway, views) = (Arc::clone(&leadership.gateway), Arc::clone(&leadership.views));
        let images = Arc::new(OneImage::default());
        let networks = EmbeddedNetworks::new(Arc::clone(&gateway), Arc::clone(&views), Arc::clone(&leadership.clock));
        let volumes =
            EmbeddedVolumes::new(gateway, Arc::clone(&views), Arc::clone(&images) as _, options.volume.clone());
        let ports = Ports {
            networks,
            images,
            volumes: Arc::clone(&volumes) as _,
            keys: Arc::new(NoKeyManager),
            certificates: None,
        };
        let drivers: Vec<Arc<dyn Driver>> = hosts.into_iter().map(|host| host as Arc<dyn Driver>).collect();
        let leader = Leader::start(leadership, drivers, ports, options).await;
        let config = WebConfig::default();
        let policy = Enforcer::new(&config.policy, &Overrides::parse("", "policy.yaml").unwrap()).unwrap();
        let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
        let app = App::new(config, policy, Authentication::NoAuth, metrics);
        let app = app.with_operations(Arc::clone(leader.operations())).with_volumes(volumes);
        let history = History::new(store, views, None, HistoryOptions::default());
        let app = Arc::new(app.with_history(history));
        Self { log, member, leader, app, routers: Arc::new(Routers::all()) }
    }

    /// Sends a request. `version` is the microversion of the path's service.
    pub(super) async fn ask(&self, method: &str, path: &str, version: &str, body: Option<Value>) -> (u16, Value) {
        use actix_web::test;
        let configured = configure(Arc::clone(&self.app), Arc::clone(&self.routers), None);
        let service = test::init_service(actix_web::App::new().configure(configured)).await;
        let name = if path.starts_with("/placement") { "placement" } else { "compute" };
        let mut request = test::TestRequest::with_uri(path)
            .method(method.parse().unwrap())
            .insert_header(("X-Auth-Token", ADMIN))
            .insert_header(("OpenStack-API-Version", format!("{name} {version}")));
        if let Some(body) = &body {
            request = request.set_json(body);
        }
        let response = test::call_service(&service, request.to_request()).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = test::read_body(response).await;
        let asked = body.as_ref();
        let answered = AnsweredRequest { method, path, asked, status, headers: &headers, body: &bytes };
        answers::check(&self.routers, &answered).unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub(super) async fn get(&self, path: &str, version: &str) -> Value {
        let (status, body) = self.ask("GET", path, version, None).await;
        assert_eq!(status, 200, "GET {path} at {version}: {body}");
        body
    }

    pub(super) async fn compute(&self, path: &str, version: &str) -> Value {
        self.get(&format!("/compute/v2.1{path}"), version).await
    }

    pub(super) async fn stop(self) {
        self.leader.stop().await;
        self.member.stop().await;
    }
}
