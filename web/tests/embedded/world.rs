//! A cloud with its first administrator, and requests to it.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::test::{self, TestRequest};
use async_trait::async_trait;
use chronova_actors::ports::keys::{CertificateKeeper, NoKeyManager};
use chronova_actors::ports::{NoVolumeService, PortError};
use chronova_actors::runtime::{Leader, Leadership, Member, Ports, RuntimeOptions};
use chronova_actors::services::embedded::identity::bootstrap::bootstrap;
use chronova_actors::services::embedded::identity::passwords::{Password, Passwords};
use chronova_actors::services::embedded::image::PropertyLimit;
use chronova_actors::services::embedded::image::embedded::{EmbeddedImages, ImageLimits};
use chronova_actors::services::embedded::image::files::ImageFiles;
use chronova_actors::services::embedded::network::service::EmbeddedNetworks;
use chronova_events::clock::Clock;
use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::store::EventStore as _;
use chronova_events::store::memory::MemoryStore;
use chronova_projections::history::{History, HistoryOptions};
use chronova_projections::views::Views;
use chronova_web::access::AccessLog;
use chronova_web::auth::Authentication;
use chronova_web::config::WebConfig;
use chronova_web::identity::catalogue::ServiceCatalogue;
use chronova_web::identity::tokens::Signer;
use chronova_web::identity::{IdentityOptions, IdentityService};
use chronova_web::metrics::HttpMetrics;
use chronova_web::policy::{Enforcer, Overrides};
use chronova_web::tables::Routers;
use chronova_web::{App, server};
use serde_json::{Value, json};

use crate::answers::{self, AnsweredRequest};

pub const PASSWORD: &str = "correct horse battery staple";
/// The largest image, in bytes.
pub const IMAGE_LIMIT: u64 = 1 << 20;

/// A clock that advances by a millisecond at each reading, and further on demand.
#[derive(Default)]
pub struct Hands(AtomicI64);

impl Hands {
    pub fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp(1_700_000_000_000_000 + self.0.fetch_add(1_000, Ordering::SeqCst))
    }
}

pub struct World {
    pub app: Arc<App>,
    pub store: Arc<MemoryStore>,
    pub clock: Arc<Hands>,
    pub images: Arc<EmbeddedImages>,
    pub folder: tempfile::TempDir,
    member: Member,
    pub leader: Leader,
}

/// No limit of images, and Glance's limit of properties.
const UNLIMITED: ImageLimits = ImageLimits { images: None, properties: PropertyLimit(Some(128)) };

/// Certificates, and signatures of the four bytes `tiny`, by another implementation.
pub static GOLDEN: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../tests/golden/image_signatures.json")).unwrap());

/// Has the golden certificates under their names.
struct GoldenCertificates;

#[async_trait]
impl CertificateKeeper for GoldenCertificates {
    async fn certificate(&self, id: &str, _: &Meta) -> Result<Vec<u8>, PortError> {
        let found = GOLDEN["certificates"][id].as_str().map(|text| text.as_bytes().to_vec());
        found.ok_or_else(|| PortError::NotFound(id.to_owned()))
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.bytes));
        self.json()
    }
}

impl World {
    pub async fn new() -> Self {
        Self::on(MemoryStore::new(), tempfile::tempdir().unwrap()).await
    }

    /// A process with these settings.
    pub async fn with(config: WebConfig) -> Self {
        Self::of(MemoryStore::new(), tempfile::tempdir().unwrap(), config, UNLIMITED, None).await
    }

    /// A process with a key manager that has the certificates of [`GOLDEN`].
    pub async fn with_certificates() -> Self {
        let (store, folder) = (MemoryStore::new(), tempfile::tempdir().unwrap());
        Self::of(store, folder, WebConfig::default(), UNLIMITED, Some(Arc::new(GoldenCertificates))).await
    }

    /// A process with this image quota for projects, and this number of properties for images.
    pub async fn with_images(most: usize, properties: usize) -> Self {
        let limits = ImageLimits { images: Some(most), properties: PropertyLimit(Some(properties)) };
        Self::of(MemoryStore::new(), tempfile::tempdir().unwrap(), WebConfig::default(), limits, None).await
    }

    /// A process on this log and these files, new or from an earlier process.
    pub async fn on(store: Arc<MemoryStore>, folder: tempfile::TempDir) -> Self {
        Self::of(store, folder, WebConfig::default(), UNLIMITED, None).await
    }

    async fn of(
        store: Arc<MemoryStore>,
        folder: tempfile::TempDir,
        config: WebConfig,
        limits: ImageLimits,
        certificates: Option<Arc<dyn CertificateKeeper>>,
    ) -> Self {
        let clock = Arc::new(Hands::default());
        let member = Member::start(Arc::clone(&store) as _, Arc::clone(&clock) as _, Views::new()).await.unwrap();
        let leadership = Leadership::take(&member, 1).unwrap();
        let passwords = Passwords::weak();
        bootstrap(&leadership.gateway, &passwords, Some(Password::new(PASSWORD))).await.unwrap();
        let options = IdentityOptions::new(ServiceCatalogue::on_one_port("http://cloud:8080", "RegionOne"));
        let (views, time) = (Arc::clone(&leadership.views), Arc::clone(&clock) as _);
        let identity = IdentityService::with_signer(Signer::new([7; 32]), passwords, options, views, time);
        let files = ImageFiles::open(folder.path(), IMAGE_LIMIT).unwrap();
        let images =
            EmbeddedImages::limited(files, Arc::clone(&leadership.views), Arc::clone(&leadership.gateway), limits);
        images.recover(&leadership.gateway).await.unwrap();
        let networks = EmbeddedNetworks::new(
            Arc::clone(&leadership.gateway),
            Arc::clone(&leadership.views),
            Arc::clone(&leadership.clock),
        );
        let leader = {
            let (volumes, keys) = (Arc::new(NoVolumeService), Arc::new(NoKeyManager));
            let ports = Ports { networks, images: Arc::clone(&images) as _, volumes, keys, certificates };
            Leader::start(leadership, vec![], ports, RuntimeOptions::default())
        }
        .await;
        assert!(member.views.wait_for(store.head(), Duration::from_secs(10)).await);
        let live = Arc::clone(&leader.operations().queries().views);
        let history = History::new(Arc::clone(&store) as _, live, None, HistoryOptions::default());
        let policy = Enforcer::new(&config.policy, &Overrides::default()).unwrap();
        let verifier = Authentication::Tokens(Arc::clone(&identity) as _);
        let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
        let app = App::new(config, policy, verifier, metrics).with_operations(Arc::clone(leader.operations()));
        let mut app = app.with_identity(identity).with_images(Arc::clone(&images)).with_history(history);
        if app.config.access.on {
            let (log, time) = (Arc::clone(&store) as _, Arc::clone(&clock) as _);
            let access = AccessLog::start(log, time, app.config.access);
            app = app.with_access_log(access);
        }
        let app = Arc::new(app);
        Self { app, store, clock, images, folder, member, leader }
    }

    pub async fn send(&self, request: TestRequest) -> Answer {
        let routers = Arc::new(Routers::all());
        let configure = server::configure(Arc::clone(&self.app), Arc::clone(&routers), None);
        let service = test::init_service(actix_web::App::new().configure(configure)).await;
        let request = request.insert_header(("Host", "cloud:8080")).to_request();
        let (method, path) = (request.method().to_string(), request.uri().to_string());
        let response = test::call_service(&service, request).await;
        let (status, plain) = (response.status().as_u16(), response.headers().clone());
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let bytes = actix_web::body::to_bytes(response.into_body().boxed()).await.unwrap().to_vec();
        let answered =
            AnsweredRequest { method: &method, path: &path, asked: None, status, headers: &plain, body: &bytes };
        answers::check(&routers, &answered).unwrap();
        Answer { status, headers, bytes }
    }

    pub async fn call(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
        let mut request = request(token, method, path);
        if let Some(body) = body {
            request = request.set_json(body);
        }
        self.send(request).await
    }

    /// Logs in; the scope is a project of the default domain, `system`, or nothing.
    pub async fn login(&self, user: &str, password: &str, scope: &str) -> Answer {
        let user = json!({"name": user, "domain": {"id": "default"}, "password": password});
        let mut auth = json!({"identity": {"methods": ["password"], "password": {"user": user}}});
        match scope {
            "" => {}
            "system" => auth["scope"] = json!({"system": {"all": true}}),
            project => auth["scope"] = json!({"project": {"name": project, "domain": {"name": "Default"}}}),
        }
        self.call("", "POST", "/identity/v3/auth/tokens", Some(json!({"auth": auth}))).await
    }

    pub async fn token(&self, user: &str, password: &str, scope: &str) -> String {
        let answer = self.login(user, password, scope).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        answer.header("X-Subject-Token").to_owned()
    }

    pub async fn admin(&self) -> String {
        self.token("admin", PASSWORD, "admin").await
    }

    /// Creates a project and a user of the same name with `role` on it. Returns their ids and the user's token.
    pub async fn tenant(&self, name: &str, role: &str) -> (String, String, String) {
        let admin = self.admin().await;
        let make = |path: &'static str, body| self.call(&admin, "POST", path, Some(body));
        let project = make("/identity/v3/projects", json!({"project": {"name": name}})).await.expect(201);
        let user = json!({"user": {"name": name, "password": name}});
        let user = make("/identity/v3/users", user).await.expect(201);
        let (project, user) = (id_of(&project["project"]), id_of(&user["user"]));
        let role = self.role(&admin, role).await;
        let grant = format!("/identity/v3/projects/{project}/users/{user}/roles/{role}");
        self.call(&admin, "PUT", &grant, None).await.expect(204);
        (project, user, self.token(name, name, name).await)
    }

    pub async fn role(&self, admin: &str, name: &str) -> String {
        let roles = self.call(admin, "GET", &format!("/identity/v3/roles?name={name}"), None).await.expect(200);
        id_of(&roles["roles"][0])
    }

    pub fn files(&self) -> Vec<String> {
        names(&self.folder.path().join("images"))
    }

    /// Stops the leader and the member without further writes. So the files are as they would be after a crash.
    pub async fn end(self) -> tempfile::TempDir {
        self.leader.stop().await;
        self.member.stop().await;
        self.folder
    }
}

pub fn request(token: &str, method: &str, path: &str) -> TestRequest {
    let method = actix_web::http::Method::from_bytes(method.as_bytes()).unwrap();
    let request = TestRequest::with_uri(path).method(method).insert_header(("Accept", "application/json"));
    if token.is_empty() { request } else { request.insert_header(("X-Auth-Token", token)) }
}

pub fn id_of(thing: &Value) -> String {
    thing["id"].as_str().unwrap().to_owned()
}

fn names(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
