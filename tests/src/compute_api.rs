//! The Compute API over a whole control plane on a simulated fleet, without a network in between.

use std::path::PathBuf;
use std::sync::Arc;

use actix_web::test;
use chronova_actors::ports::ImageDraft;
use chronova_actors::process::interference::Interference;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, ProjectId};
use chronova_events::store::EventStore;
use chronova_projections::history::{History, HistoryOptions};
use chronova_web::app::App;
use chronova_web::auth::Authentication;
use chronova_web::config::WebConfig;
use chronova_web::metrics::HttpMetrics;
use chronova_web::policy::{Enforcer, Overrides};
use chronova_web::server::configure;
use chronova_web::tables::Routers;
use serde_json::{Value, json};

use crate::answers::{self, AnsweredRequest};
use crate::world::{Life, World};

/// A control plane with two simulated hosts and a flavor, ready for requests.
pub struct Api {
    pub world: World,
    pub life: Life,
    pub app: Arc<App>,
    pub routers: Arc<Routers>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub location: Option<String>,
}

impl Answer {
    /// The message of a fault.
    pub fn message(&self) -> &str {
        let fault = self.body.as_object().and_then(|map| map.values().next());
        fault.and_then(|fault| fault["message"].as_str()).unwrap_or_default()
    }
}

pub const ADMIN: &str = "admin:admin";

impl Api {
    pub async fn start() -> Self {
        Self::start_with("", None).await
    }

    /// Starts the control plane in a new world; `policy` is the content of `policy.yaml`.
    pub async fn start_with(policy: &str, interference: Option<Arc<dyn Interference>>) -> Self {
        Self::start_of(World::new(2), policy, interference).await
    }

    /// Starts the control plane in an existing world.
    pub async fn start_of(world: World, policy: &str, interference: Option<Arc<dyn Interference>>) -> Self {
        let hosts = world.fleet.len();
        let life = world.live(None, interference).await;
        life.hosts_up(hosts).await;
        let (store, live) = (Arc::clone(&world.log) as Arc<dyn EventStore>, Arc::clone(&life.context().views));
        let history = History::new(store, live, None, HistoryOptions::default());
        let api = Self::around(world, life, policy, history);
        api.flavor("1", 512, 1).await;
        api
    }

    /// The API over a running control plane.
    pub fn around(world: World, life: Life, policy: &str, history: Arc<History>) -> Self {
        let config = WebConfig::default();
        let policy = Enforcer::new(&config.policy, &Overrides::parse(policy, "policy.yaml").unwrap()).unwrap();
        let mut app =
            App::new(config, policy, Authentication::NoAuth, HttpMetrics::new(prometheus::Registry::new()).unwrap());
        // Nova's samples have certificates, so the option must be on.
        app.compute.config.unchecked_certificates = true;
        let app = app.with_operations(Arc::clone(life.operations())).with_volumes(Arc::clone(&life.volumes));
        let app = Arc::new(app.with_history(history));
        Self { world, life, app, routers: Arc::new(Routers::all()) }
    }

    pub async fn stop(self) {
        self.life.stop().await;
    }

    pub async fn flavor(&self, id: &str, ram: u32, disk: u32) {
        let flavor = json!({"id": id, "name": format!("m1.{id}"), "ram": ram, "vcpus": 1, "disk": disk});
        let made = self.call("POST", "/flavors", "2.1", ADMIN, Some(json!({"flavor": flavor}))).await;
        assert_eq!(made.status, 200, "{:?}", made.body);
    }

    /// Sends a request. `path` is below `/compute/v2.1`; `token` is `USER:PROJECT`.
    pub async fn call(&self, method: &str, path: &str, version: &str, token: &str, body: Option<Value>) -> Answer {
        self.ask(method, &format!("/compute/v2.1{path}"), version, token, body).await
    }

    /// Like `call`, for any service: `path` begins with the service's prefix.
    pub async fn ask(&self, method: &str, path: &str, version: &str, token: &str, body: Option<Value>) -> Answer {
        self.ask_as(method, path, version, token, None, body).await
    }

    /// Like `ask`, with these roles instead of the user's default roles. Panics if the operation does not describe such
    /// an answer.
    pub async fn ask_as(
        &self,
        method: &str,
        path: &str,
        version: &str,
        token: &str,
        roles: Option<&str>,
        body: Option<Value>,
    ) -> Answer {
        let configured = configure(Arc::clone(&self.app), Arc::clone(&self.routers), None);
        let service = test::init_service(actix_web::App::new().configure(configured)).await;
        let mut request = test::TestRequest::with_uri(path)
            .method(method.parse().unwrap())
            .insert_header(("X-Auth-Token", token))
            .insert_header(("OpenStack-API-Version", format!("compute {version}")));
        if let Some(roles) = roles {
            request = request.insert_header(("X-Roles", roles));
        }
        if let Some(body) = &body {
            request = request.set_json(body);
        }
        let response = test::call_service(&service, request.to_request()).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let location = headers.get("Location").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let bytes = test::read_body(response).await;
        let asked = body.as_ref();
        let answered = AnsweredRequest { method, path, asked, status, headers: &headers, body: &bytes };
        answers::check(&self.routers, &answered).unwrap();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer { status, body, location }
    }

    pub async fn get(&self, path: &str, version: &str) -> Value {
        let answer = self.call("GET", path, version, ADMIN, None).await;
        assert_eq!(answer.status, 200, "GET {path} at {version}: {:?}", answer.body);
        answer.body
    }

    /// The smallest valid request for a server.
    pub fn wish(name: &str) -> Value {
        json!({"name": name, "imageRef": IMAGE, "flavorRef": "1", "networks": [{"uuid": NETWORK}]})
    }

    /// Creates an image with these properties. Returns its id.
    pub async fn image(&self, properties: &[(&str, &str)]) -> ImageId {
        self.image_of(b"other", properties).await
    }

    /// Creates an image with this content and these properties. Returns its id.
    pub async fn image_of(&self, content: &'static [u8], properties: &[(&str, &str)]) -> ImageId {
        let (image, images) = (ImageId::random(), &self.life.context().images);
        let draft = ImageDraft {
            image,
            name: "other".to_owned(),
            owner: ProjectId::new("p"),
            format: "raw".to_owned(),
            min_disk_gib: 0,
            min_memory_mib: 0,
            properties: properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        };
        let bytes = futures::stream::iter([Ok(bytes::Bytes::from_static(content))]);
        images.create(draft, Meta::system("test")).await.unwrap();
        images.upload(image, Box::pin(bytes), Meta::system("test")).await.unwrap();
        image
    }

    /// Creates a server and waits until its build ends. Returns its id.
    pub async fn server(&self, token: &str, server_request: Value) -> String {
        let made = self.call("POST", "/servers", "2.100", token, Some(json!({"server": server_request}))).await;
        assert_eq!(made.status, 202, "{:?}", made.body);
        self.life.settled().await;
        made.body["server"]["id"].as_str().unwrap().to_owned()
    }
}

/// The image of the servers. In a [`World`], an image exists for every id except `NO_IMAGE`.
pub const IMAGE: &str = "70a599e0-31e7-49b7-b260-868f441e862b";
pub const NETWORK: &str = "00000000-0000-0000-0000-000000000000";

/// The folder of the machine-readable API contract, if there is one.
pub fn contract() -> Option<PathBuf> {
    let here = std::env::var_os("CHRONOVA_CONTRACT")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/contract"), PathBuf::from);
    let found = here.join("compute").is_dir().then_some(here);
    if found.is_none() {
        eprintln!("skipped: there is no contract to compare with; name its folder in CHRONOVA_CONTRACT");
    }
    found.map(|folder| folder.join("compute"))
}

pub fn read(path: &std::path::Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
