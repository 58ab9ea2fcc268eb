//! The network API on a log in memory, called without a listener.

use std::sync::Arc;

use actix_web::body::MessageBody;
use actix_web::test::{self, TestRequest};
use async_trait::async_trait;
use chronova_actors::ports::keys::NoKeyManager;
use chronova_actors::ports::{ImageDraft, ImageService, NoVolumeService, PortError};
use chronova_actors::process::context::StepContext;
use chronova_actors::runtime::{Leader, Leadership, Member, Ports, RuntimeOptions};
use chronova_actors::services::embedded::network::ovn::OvnPlane;
use chronova_actors::services::embedded::network::service::{EmbeddedNetworks, read_automatic_range};
use chronova_events::clock::SystemClock;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId};
use chronova_events::instance::ImageSnapshot;
use chronova_events::store::memory::MemoryStore;
use chronova_hypervisor::driver::{ByteStream, DriverError, DriverResult, ImageSource};
use chronova_hypervisor::guest::ImageRef;
use chronova_projections::views::Views;
use chronova_web::auth::Authentication;
use chronova_web::config::WebConfig;
use chronova_web::metrics::HttpMetrics;
use chronova_web::policy::{Enforcer, Overrides};
use chronova_web::tables::Routers;
use chronova_web::{App, server};
use ipnet::Ipv4Net;
use serde_json::Value;

use crate::answers::{self, AnsweredRequest};

struct NoImages;

#[async_trait]
impl ImageSource for NoImages {
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        Err(DriverError::BadImage { image: image.id.to_string(), reason: "there are none".to_owned() })
    }
}

#[async_trait]
impl ImageService for NoImages {
    async fn find(&self, image: ImageId, _: &ProjectId, _: bool) -> Result<ImageSnapshot, PortError> {
        Err(PortError::NotFound(image.to_string()))
    }
    async fn create(&self, draft: ImageDraft, _: Arc<Meta>) -> Result<(), PortError> {
        Err(PortError::NotFound(draft.image.to_string()))
    }
    async fn format_of(&self, image: ImageId, _: &Arc<Meta>) -> Result<String, PortError> {
        Err(PortError::NotFound(image.to_string()))
    }
    async fn upload(&self, image: ImageId, _: ByteStream, _: Arc<Meta>) -> Result<(), PortError> {
        Err(PortError::NotFound(image.to_string()))
    }
    async fn delete(&self, image: ImageId, _: Arc<Meta>) -> Result<(), PortError> {
        Err(PortError::NotFound(image.to_string()))
    }
    async fn backups(&self, _: ImageId, _: InstanceId, _: &str) -> Result<Vec<ImageId>, PortError> {
        Ok(vec![])
    }
}

pub struct World {
    pub app: Arc<App>,
    member: Member,
    leader: Leader,
}

impl World {
    pub async fn new() -> Self {
        Self::on(MemoryStore::new()).await
    }

    /// Starts on this log, which may have events already.
    pub async fn on(store: Arc<MemoryStore>) -> Self {
        Self::with(store, WebConfig::default()).await
    }

    pub async fn with(store: Arc<MemoryStore>, config: WebConfig) -> Self {
        Self::carried_by(None, store, config).await
    }

    /// Starts with a range for the networks of projects that have none.
    pub async fn with_range(range: &str) -> Self {
        let range = read_automatic_range(range).unwrap();
        Self::start(None, Some(range), MemoryStore::new(), WebConfig::default()).await
    }

    /// `ovn`: what carries the networks; `None`: libvirt does.
    pub async fn carried_by(ovn: Option<Arc<OvnPlane>>, store: Arc<MemoryStore>, config: WebConfig) -> Self {
        Self::start(ovn, None, store, config).await
    }

    async fn start(
        ovn: Option<Arc<OvnPlane>>,
        range: Option<Ipv4Net>,
        store: Arc<MemoryStore>,
        config: WebConfig,
    ) -> Self {
        let member = Member::start(store, Arc::new(SystemClock), Views::new()).await.unwrap();
        let leadership = Leadership::take(&member, 1).unwrap();
        let networks = EmbeddedNetworks::with(
            Arc::clone(&leadership.gateway),
            Arc::clone(&leadership.views),
            Arc::clone(&leadership.clock),
            ovn,
            range,
        );
        let leader = {
            let (volumes, keys) = (Arc::new(NoVolumeService), Arc::new(NoKeyManager));
            let ports = Ports { networks, images: Arc::new(NoImages), volumes, keys, certificates: None };
            Leader::start(leadership, vec![], ports, RuntimeOptions::default())
        }
        .await;
        let policy = Enforcer::new(&config.policy, &Overrides::default()).unwrap();
        let app =
            App::new(config, policy, Authentication::NoAuth, HttpMetrics::new(prometheus::Registry::new()).unwrap());
        Self { app: Arc::new(app.with_operations(Arc::clone(leader.operations()))), member, leader }
    }

    /// The number of failures of this reconciler.
    pub fn failures(&self, reconciler: &str) -> u64 {
        self.leader.reconcilers().iter().find(|tally| tally.name == reconciler).unwrap().read().failures
    }

    pub fn context(&self) -> &Arc<StepContext> {
        &self.leader.contexts.steps
    }

    /// Sends a request with `token`; returns the status and the body of the answer.
    pub async fn send(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        self.send_if(None, token, method, path, body).await
    }

    /// Sends a request with `token` and this `If-Match`; returns the status and the body of the answer.
    pub async fn send_if(
        &self,
        condition: Option<&str>,
        token: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let routers = Arc::new(Routers::all());
        let configure = server::configure(Arc::clone(&self.app), Arc::clone(&routers), None);
        let service = test::init_service(actix_web::App::new().configure(configure)).await;
        let method = actix_web::http::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = TestRequest::with_uri(&format!("/network/v2.0{path}"))
            .method(method.clone())
            .insert_header(("Host", "cloud:8080"))
            .insert_header(("X-Auth-Token", token));
        if let Some(condition) = condition {
            request = request.insert_header(("If-Match", condition));
        }
        if let Some(body) = &body {
            request = request.set_json(body);
        }
        let response = test::call_service(&service, request.to_request()).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = actix_web::body::to_bytes(response.into_body().boxed()).await.unwrap();
        let path = &format!("/network/v2.0{path}");
        let answered = AnsweredRequest {
            method: method.as_str(),
            path,
            asked: body.as_ref(),
            status,
            headers: &headers,
            body: &bytes,
        };
        answers::check(&routers, &answered).unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub async fn get(&self, token: &str, path: &str) -> Value {
        let (status, body) = self.send(token, "GET", path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Creates a resource and returns it without its envelope `key`.
    pub async fn make(&self, token: &str, path: &str, key: &str, what: Value) -> Value {
        let (status, body) = self.send(token, "POST", path, Some(serde_json::json!({key: what}))).await;
        assert_eq!(status, 201, "{path}: {body}");
        body[key].clone()
    }

    /// The status of a refusal, and its type in Neutron's words.
    pub async fn refused(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        let (status, body) = self.send(token, method, path, body).await;
        (status, body["NeutronError"]["type"].as_str().unwrap_or_default().to_owned())
    }

    pub async fn end(self) {
        self.leader.stop().await;
        self.member.stop().await;
    }
}
