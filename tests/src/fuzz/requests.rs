//! Requests to a control plane: any operation of six services, with valid and invalid bodies. Every request must be
//! answered, and never with a server error other than 501 and 503.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::http::header::HeaderValue;
use actix_web::test::{self, TestRequest};
use chronova_actors::services::embedded::image::embedded::EmbeddedImages;
use chronova_actors::services::embedded::image::files::ImageFiles;
use chronova_web::App;
use chronova_web::auth::Authentication;
use chronova_web::config::WebConfig;
use chronova_web::identity::catalogue::ServiceCatalogue;
use chronova_web::identity::{IdentityOptions, IdentityService};
use chronova_web::metrics::HttpMetrics;
use chronova_web::microversion::{Microversion, span};
use chronova_web::openapi::document;
use chronova_web::policy::{Enforcer, Overrides};
use chronova_web::query::Query;
use chronova_web::server::configure;
use chronova_web::service::Service;
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use serde_json::Value;

use super::{Random, bytes, request_bodies};
use crate::answers::{self, AnsweredRequest};
use crate::compute_api::{ADMIN, Api, IMAGE, NETWORK};

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub method: String,
    pub uri: String,
    pub version: String,
    pub media: Option<String>,
    pub body: Vec<u8>,
}

impl Case {
    /// The stored form: three lines with `-` for a missing value, an empty line, and the body.
    pub fn to_kept(&self) -> Vec<u8> {
        let shown = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let media = shown(self.media.as_deref().unwrap_or_default());
        let head = format!("{} {}\n{}\n{media}\n\n", self.method, self.uri, shown(&self.version));
        [head.into_bytes(), self.body.clone()].concat()
    }

    fn request(&self) -> TestRequest {
        let mut request = TestRequest::default()
            .uri(&self.uri)
            .method(self.method.parse().unwrap())
            .insert_header(("X-Auth-Token", ADMIN));
        if let Ok(version) = HeaderValue::from_str(&self.version) {
            request = request.insert_header(("OpenStack-API-Version", version));
        }
        if let Some(media) = self.media.as_deref().and_then(|media| HeaderValue::from_str(media).ok()) {
            request = request.insert_header(("Content-Type", media));
        }
        request.set_payload(self.body.clone())
    }

    /// Reads a stored request; `None` for another format.
    pub fn from_kept(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(2).position(|pair| pair == b"\n\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let [line, version, media] = head.lines().collect::<Vec<_>>().try_into().ok()?;
        let (method, uri) = line.split_once(' ')?;
        let given = |text: &str| (text != "-").then(|| text.to_owned());
        Some(Self {
            method: method.to_owned(),
            uri: uri.to_owned(),
            version: given(version).unwrap_or_default(),
            media: given(media),
            body: bytes[end + 2..].to_vec(),
        })
    }
}

/// Method, path, the schemas of the query parameters, and the schema of the body.
type Operation = (String, String, Vec<(String, Value)>, Option<Value>);

/// The operations of one service in one microversion.
pub struct Asked {
    service: Service,
    version: Option<Microversion>,
    /// Method, path, parameters of the query, schema of the body.
    operations: Vec<Operation>,
}

impl Asked {
    pub fn of(service: Service, version: Option<Microversion>) -> Self {
        let document = document(service, version);
        let base = document["servers"][0]["url"].as_str().unwrap().to_owned();
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters") {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let parameters = parameters.map(|p| (p["name"].as_str().unwrap().to_owned(), p["schema"].clone()));
                let schema = operation.pointer("/requestBody/content/application~1json/schema").cloned();
                let method = method.to_ascii_uppercase();
                operations.push((method, format!("{base}{path}"), parameters.collect(), schema));
            }
        }
        Self { service, version, operations }
    }

    /// The six services, each in its first and last microversion and some between.
    fn all() -> Vec<Self> {
        let services = [
            Service::Compute,
            Service::Placement,
            Service::Network,
            Service::Volume,
            Service::Identity,
            Service::Image,
        ];
        let mut all = Vec::new();
        for service in services {
            match span(service) {
                None => all.push(Self::of(service, None)),
                Some(span) => {
                    let (least, most) = (span.min.minor, span.max.minor);
                    let step = usize::from((most - least) / 5).max(1);
                    let minors = (least..=most).rev().step_by(step).chain([least]);
                    all.extend(minors.map(|minor| Self::of(service, Some(Microversion { minor, ..span.max }))));
                }
            }
        }
        all
    }

    pub fn wish(&self, random: &mut Random, words: &request_bodies::Words) -> Case {
        self.wish_for(random.below(self.operations.len()), random, words)
    }

    /// A request to one of the operations.
    fn wish_for(&self, at: usize, random: &mut Random, words: &request_bodies::Words) -> Case {
        let (method, path, parameters, schema) = &self.operations[at];
        let mut uri: String = path
            .split('/')
            .map(|segment| if segment.starts_with('{') { segment_of(random, words) } else { segment.to_owned() })
            .collect::<Vec<_>>()
            .join("/");
        let mut pairs: Vec<(&str, String)> = Vec::new();
        for (name, schema) in parameters {
            if random.chance(25) {
                let value = request_bodies::of(schema, random, words, 0);
                pairs.push((name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
            }
        }
        let mut query = Query::encode(pairs.iter().map(|(name, value)| (*name, value.as_str())));
        if random.chance(10) {
            let seeds = [query.clone().into_bytes()];
            let changed = bytes::changed(random, &seeds, &["&", "=", "%", "limit=", "marker=", "sort_key=", "in:"]);
            query = changed
                .iter()
                .filter(|byte| byte.is_ascii_graphic() && **byte != b'#')
                .map(|b| char::from(*b))
                .collect();
        }
        if !query.is_empty() {
            uri = format!("{uri}?{query}");
        }
        let version = self.version.map(|version| version.to_string()).unwrap_or_default();
        let version = if self.version.is_some() { format!("{} {version}", self.service.name()) } else { String::new() };
        let mut body = Vec::new();
        if let Some(schema) = schema {
            let mut value = request_bodies::of(schema, random, words, 0);
            if random.chance(40) {
                request_bodies::spoil(&mut value, random, words);
            }
            body = value.to_string().into_bytes();
            if random.chance(8) {
                body =
                    bytes::changed(random, &[body], &["{", "}", "[", "]", "\"", ":", ",", "null", "\\u0000", "1e999"]);
            }
        }
        let media = match random.below(20) {
            0 => None,
            1 => Some("text/plain".to_owned()),
            _ => Some("application/json".to_owned()),
        };
        Case { method: method.clone(), uri, version, media, body }
    }
}

fn segment_of(random: &mut Random, words: &request_bodies::Words) -> String {
    let mut segment = String::new();
    chronova_web::query::percent_encode(&words.any(random).chars().take(300).collect::<String>(), &mut segment);
    if segment.is_empty() { "0".to_owned() } else { segment }
}

/// Status and body.
type Answered = Result<(u16, Vec<u8>), String>;

/// A control plane that takes requests of all services.
pub struct Requests {
    pub api: Api,
    pub words: request_bodies::Words,
    pub asked: Vec<Asked>,
    /// The number of answers with each status.
    pub statuses: RefCell<BTreeMap<u16, u64>>,
    ask: Box<dyn Fn(Case) -> LocalBoxFuture<'static, Answered>>,
    _folder: tempfile::TempDir,
}

impl Requests {
    pub async fn start() -> Self {
        let api = Api::start().await;
        let words = request_bodies::Words(known(&api).await);
        let folder = tempfile::tempdir().unwrap();
        let app = all_services(&api, folder.path());
        let configured = configure(app, Arc::clone(&api.routers), None);
        let service = Rc::new(test::init_service(actix_web::App::new().configure(configured)).await);
        let routers = Arc::clone(&api.routers);
        let ask = move |case: Case| {
            let (service, routers) = (Rc::clone(&service), Arc::clone(&routers));
            async move {
                let request = case.request().to_request();
                let answered = AssertUnwindSafe(test::call_service(&*service, request)).catch_unwind().await;
                let response = answered.map_err(|_| "it panics".to_owned())?;
                let (status, headers) = (response.status().as_u16(), response.headers().clone());
                let body = AssertUnwindSafe(test::read_body(response)).catch_unwind().await;
                let body = body.map_err(|_| "its body panics")?.to_vec();
                let asked: Option<Value> = serde_json::from_slice(&case.body).ok();
                answers::check(
                    &routers,
                    &AnsweredRequest {
                        method: &case.method,
                        path: &case.uri,
                        asked: asked.as_ref(),
                        status,
                        headers: &headers,
                        body: &body,
                    },
                )?;
                Ok((status, body))
            }
            .boxed_local()
        };
        let (asked, statuses) = (Asked::all(), RefCell::default());
        Self { api, words, asked, statuses, ask: Box::new(ask), _folder: folder }
    }

    /// Sends a request; `Err` describes a problem with its answer.
    pub async fn judge(&self, case: &Case) -> Result<(), String> {
        if !case.uri.starts_with('/')
            || case.uri.parse::<actix_web::http::Uri>().is_err()
            || case.method.parse::<actix_web::http::Method>().is_err()
        {
            return Ok(());
        }
        let (status, body) = (self.ask)(case.clone()).await?;
        *self.statuses.borrow_mut().entry(status).or_default() += 1;
        let shown = || String::from_utf8_lossy(&body).into_owned();
        // Glance's faults are HTML pages.
        let empty = body.is_empty() || case.method == "HEAD" || case.uri.starts_with("/image/");
        match status {
            500 | 502 | 504.. => Err(format!("it answers {status}: {}", shown())),
            400.. if !empty && serde_json::from_slice::<Value>(&body).is_err() => {
                Err(format!("{status} is not JSON: {}", shown()))
            }
            _ => Ok(()),
        }
    }

    /// One request to each operation, as seed inputs. Most of them are valid.
    pub fn examples(&self) -> Vec<Case> {
        let mut random = Random::new(1);
        let each = |asked: &Asked| {
            (0..asked.operations.len()).map(|at| asked.wish_for(at, &mut random, &self.words)).collect::<Vec<_>>()
        };
        self.asked.iter().flat_map(each).collect()
    }
}

thread_local! {
    /// This value is never dropped. The runtime's drop needs thread-locals, which may be gone already at the end of a
    /// thread.
    static CONTROL_PLANE: OnceCell<ManuallyDrop<(actix_rt::SystemRunner, Requests)>> = const { OnceCell::new() };
}

/// Sends a request that is given in its stored form. Panics if the answer has a problem. The caller needs no runtime.
/// All inputs of a thread share one control plane.
pub fn judge_kept(input: &[u8]) {
    let Some(case) = Case::from_kept(input) else { return };
    CONTROL_PLANE.with(|kept| {
        let (system, requests) = &**kept.get_or_init(|| {
            let system = actix_rt::System::new();
            let requests = system.block_on(Requests::start());
            ManuallyDrop::new((system, requests))
        });
        if let Err(what) = system.block_on(requests.judge(&case)) {
            panic!("{} {}: {what}", case.method, case.uri);
        }
    });
}

/// The ids of existing resources, for paths and bodies.
async fn known(api: &Api) -> Vec<String> {
    let mut ids = vec![IMAGE.to_owned(), NETWORK.to_owned(), "1".to_owned(), "admin".to_owned(), "detail".to_owned()];
    for name in ["one", "two"] {
        ids.push(api.server(ADMIN, Api::wish(name)).await);
    }
    for path in ["/placement/resource_providers", "/compute/v2.1/os-hypervisors", "/network/v2.0/ports"] {
        let listed = api.ask("GET", path, "2.100", ADMIN, None).await.body;
        let rows = listed.as_object().and_then(|map| map.values().next()).and_then(Value::as_array).cloned();
        let id = |row: &Value| row["uuid"].as_str().or_else(|| row["id"].as_str()).map(str::to_owned);
        ids.extend(rows.unwrap_or_default().iter().filter_map(id));
    }
    ids.extend(
        ["VCPU", "MEMORY_MB", "COMPUTE_NODE", "CUSTOM_A", "sim-0001", "hw:cpu_policy", "m1.1"].map(str::to_owned),
    );
    ids
}

/// The control plane of `api`, also with the embedded identity and image services.
fn all_services(api: &Api, folder: &std::path::Path) -> Arc<App> {
    let (life, config) = (&api.life, WebConfig::default());
    let options = IdentityOptions::new(ServiceCatalogue::on_one_port("http://cloud:1", "RegionOne"));
    let clock = Arc::new(chronova_events::clock::SystemClock);
    let identity = IdentityService::open(folder, options, Arc::clone(&life.context().views), clock).unwrap();
    let files = ImageFiles::open(folder, 1 << 20).unwrap();
    let images = EmbeddedImages::new(files, Arc::clone(&life.context().views), Arc::clone(&life.context().gateway));
    let policy = Enforcer::new(&config.policy, &Overrides::default()).unwrap();
    let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
    let app = App::new(config, policy, Authentication::NoAuth, metrics).with_operations(Arc::clone(life.operations()));
    let app = app.with_volumes(Arc::clone(&api.life.volumes)).with_identity(identity).with_images(images);
    Arc::new(app.with_history(Arc::clone(api.app.history().unwrap())))
}
