//! Whatever is read from outside, given what nobody means: bodies, query strings, policy files, configuration, user data.
//!
//! How long, with which seed, and where findings go: see `chronova_tests::fuzz`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use actix_web::test::{self, TestRequest};
use chronova_actors::config_drive;
use chronova_actors::image::embedded::EmbeddedImages;
use chronova_actors::image::files::ImageFiles;
use chronova_tests::compute_api::{ADMIN, Api, IMAGE, NETWORK};
use chronova_tests::fuzz::{Random, Run, bytes, judge_bytes, wishes};
use chronova_tests::world::build_request;
use chronova_web::App;
use chronova_web::auth::{Authentication, Caller};
use chronova_web::config::{PolicyConfig, WebConfig};
use chronova_web::identity::catalogue::Catalogue;
use chronova_web::identity::{IdentityOptions, IdentityService};
use chronova_web::metrics::Metrics;
use chronova_web::microversion::{Microversion, span};
use chronova_web::openapi::document;
use chronova_web::policy::{Enforcer, Overrides, Target, check};
use chronova_web::query::Query;
use chronova_web::route::Service;
use chronova_web::server::configure;
use futures::FutureExt as _;
use serde_json::Value;

#[test]
fn policy_files() {
    let seeds: [&[u8]; 8] = [
        b"\"os_compute_api:servers:create\": \"role:admin and (project_id:%(project_id)s or not rule:default)\"\n",
        b"\"a\": \"@\"\n\"b\": \"!\"\nc: \"rule:a or rule:b\"\n",
        b"{\"admin_required\": [[\"role:admin\"], [\"is_admin:1\", \"rule:x\"]]}",
        b"default:\n  - - role:reader\n    - system_scope:all\n",
        b"x: \"'literal':%(target.user.id)s or None:%(a)s or True:%(b)s\"\n",
        b"x: &a \"role:y\"\ny: *a\n? complex\n: \"role:z\"\n",
        b"os_compute_api:os-flavor-manage: \"(((role:a)) and not (not role:b))\"\n---\n",
        b"http: \"http://host/check\"\n",
    ];
    let words = [
        "and",
        "or",
        "not",
        "(",
        ")",
        "((",
        "rule:",
        "role:",
        "@",
        "!",
        "%(project_id)s",
        "%(",
        ")s",
        ":",
        "\"",
        "'",
        "[",
        "]",
        "- ",
        "{",
        "}",
        "&a",
        "*a",
        "!!binary",
        "? ",
        "|",
        ">",
        "#",
        "---",
        "rule:default",
        "is_admin:True",
        "user_id:%(user_id)s",
        "os_compute_api:servers:create",
        "\n",
        "  ",
    ];
    let caller = Caller::anonymous();
    let target = Target::of(&caller);
    judge_bytes("policy", 1_500, &seeds, &words, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        if let Ok(parsed) = check::parse(text) {
            parsed.references();
            parsed.holds(&caller, &target, &|_| false);
        }
        let Ok(overrides) = Overrides::parse(text, "policy.yaml") else { return };
        let Ok(enforcer) = Enforcer::new(&PolicyConfig::default(), &overrides) else { return };
        for rule in overrides.names().take(20) {
            for service in [Service::Compute, Service::Placement] {
                let Some(rules) = enforcer.rules(service) else { continue };
                rules.allows(rule, &caller, &target);
            }
        }
    });
}

#[test]
fn query_strings() {
    let seeds: [&[u8]; 6] = [
        b"limit=1&marker=70a599e0-31e7-49b7-b260-868f441e862b&sort_key=a&sort_key=b",
        b"a=%20b+c&a=&=x&&;",
        b"resources=VCPU:1,MEMORY_MB:512&required=in:A,!B&member_of=in:x,y&root_required=A&group_policy=none",
        b"changes-since=2026-01-31T12:00:00%2B01:00&tags=a,b&not-tags-any=c",
        b"name=%ff%fe&x=%",
        "ü=ß&🦀=%F0%9F%A6%80".as_bytes(),
    ];
    let words = ["%", "%2", "%00", "%zz", "&", "=", "+", ";", "#", "?", "[]", "limit=", "marker=", "in:", "!", ","];
    judge_bytes("query", 5_000, &seeds, &words, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let Ok(query) = Query::parse(text) else { return };
        let (lists, single) = (query.as_lists(), query.as_single());
        assert_eq!(lists.as_object().unwrap().len(), single.as_object().unwrap().len());
        // What is written again says the same.
        let pairs = query.pairs().iter().map(|(key, value)| (key.as_str(), value.as_str()));
        assert_eq!(Query::parse(&Query::encode(pairs)).unwrap(), query);
    });
}

#[test]
fn user_data() {
    let seeds: [&[u8]; 5] = [
        b"IyEvYmluL3NoCmVjaG8gaGVsbG8K",
        b"Y2xvdWQ=\nY29uZmln\r\n",
        b"TUlNRS1WZXJzaW9uOiAxLjA=",
        b"====",
        b"\xf0\x9f\xa6\x80",
    ];
    let id = chronova_events::ids::InstanceId::random();
    let alive = alive(id);
    judge_bytes("user_data", 1_500, &seeds, &["=", "==", "\n", "+/", "-_", "AAAA", " "], |input| {
        let mut server = alive.clone();
        let text = String::from_utf8_lossy(input).into_owned();
        server.request.user_data = Some(text.clone());
        server.request.name = text.chars().take(255).collect();
        server.request.hostname = server.request.name.clone();
        server.request.metadata = [(server.request.name.clone(), text.chars().rev().take(255).collect())].into();
        // Its files are there with the very bytes, or it is refused.
        if let Ok(files) = config_drive::files(&server, id, None) {
            assert!(files.iter().any(|(name, _)| name == "openstack/latest/user_data"));
            for (name, content) in files.iter().filter(|(name, _)| name.rsplit('.').next() == Some("json")) {
                serde_json::from_slice::<Value>(content).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            config_drive::image(&server, id, Some(&text)).unwrap();
        }
    });
}

/// A server as a config drive is made for it.
fn alive(id: chronova_events::ids::InstanceId) -> chronova_events::instance::Alive {
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold as _;
    use chronova_events::instance::{Instance, InstanceEvent};
    let mut state = Instance::default();
    state.evolve(&InstanceEvent::BuildRequested(build_request(id)), Timestamp(1));
    state.alive().expect("it is asked for").clone()
}

#[test]
fn configuration_files() {
    let seeds: [&[u8]; 6] = [
        b"[DEFAULT]\ndebug = true\nhost=a\n[chronova]\nhypervisors = sim://3 qemu:///system\nlisten = 127.0.0.1:1\n",
        b"[filter_scheduler]\nenabled_filters = ComputeFilter,\n  ImagePropertiesFilter\nram_weight_multiplier = 1.5\n",
        b"; comment\n# another\n[quota]\ninstances = -1\ncores=20\n\n[nonsense]\nx = y\n",
        b"[api]\nauth_strategy = noauth2\nmax_limit = 1000\n[cors]\nallowed_origin = http://a,https://b\n",
        b"[DEFAULT]\nstate_path = $instances_path\ninstances_path = $state_path\nmy_ip = ${host}\n",
        b"[wsgi]\nssl_cert_file = /a\nclient_socket_timeout = 900\n[eventstoredb]\nusers = a:read:b\nusers = c:peer:d\n",
    ];
    let words = [
        "[",
        "]",
        "=",
        ":",
        "$",
        "${",
        "}",
        "$state_path",
        "\\",
        "\n",
        "\n ",
        ",",
        "\"",
        "'",
        "#",
        ";",
        "%",
        "true",
        "-1",
        "[DEFAULT]\n",
        "[chronova]\n",
        "[libvirt]\n",
        "cpu_mode = ",
        "hypervisors = ",
        "sim://",
        "?",
        "&",
        "qemu+ssh://",
        "instance_name_template = ",
        "%(uuid)s",
        "%08x",
        "$my_ip",
        "allocation_ratio = ",
    ];
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("chronova.conf");
    judge_bytes("configuration", 400, &seeds, &words, |input| {
        std::fs::write(&file, input).unwrap();
        let (text, usable) = chronova::config::check(std::slice::from_ref(&file));
        assert!(text.contains(if usable { "\nusable: " } else { "\nnot usable: " }) || text.starts_with("usable: "));
    });
}

/// One request, as it is kept.
#[derive(Debug, Clone)]
struct Case {
    method: String,
    uri: String,
    version: String,
    media: Option<String>,
    body: Vec<u8>,
}

impl Case {
    /// Three lines, `-` for what is not there; an empty one; the body.
    fn to_kept(&self) -> Vec<u8> {
        let shown = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let media = shown(self.media.as_deref().unwrap_or_default());
        let head = format!("{} {}\n{}\n{media}\n\n", self.method, self.uri, shown(&self.version));
        [head.into_bytes(), self.body.clone()].concat()
    }

    fn from_kept(bytes: &[u8]) -> Self {
        let end = bytes.windows(2).position(|pair| pair == b"\n\n").expect("head and body");
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let [line, version, media] = head.lines().collect::<Vec<_>>().try_into().expect("three lines");
        let (method, uri) = line.split_once(' ').unwrap();
        let given = |text: &str| (text != "-").then(|| text.to_owned());
        Self {
            method: method.to_owned(),
            uri: uri.to_owned(),
            version: given(version).unwrap_or_default(),
            media: given(media),
            body: bytes[end + 2..].to_vec(),
        }
    }
}

/// Method, path, the schemas of its query, and that of its body.
type Operation = (String, String, Vec<(String, Value)>, Option<Value>);

/// What can be asked of one service in one version.
struct Asked {
    service: Service,
    version: Option<Microversion>,
    /// Method, path, parameters of the query, schema of the body.
    operations: Vec<Operation>,
}

impl Asked {
    fn of(service: Service, version: Option<Microversion>) -> Self {
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

    /// Every service in its first version, its last one, and some between.
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

    fn wish(&self, random: &mut Random, words: &wishes::Words) -> Case {
        let (method, path, parameters, schema) = &self.operations[random.below(self.operations.len())];
        let mut uri: String = path
            .split('/')
            .map(|segment| if segment.starts_with('{') { segment_of(random, words) } else { segment.to_owned() })
            .collect::<Vec<_>>()
            .join("/");
        let mut pairs: Vec<(&str, String)> = Vec::new();
        for (name, schema) in parameters {
            if random.chance(25) {
                let value = wishes::of(schema, random, words, 0);
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
            let mut value = wishes::of(schema, random, words, 0);
            if random.chance(40) {
                wishes::spoil(&mut value, random, words);
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

fn segment_of(random: &mut Random, words: &wishes::Words) -> String {
    let mut segment = String::new();
    chronova_web::query::percent_encode(&words.any(random).chars().take(300).collect::<String>(), &mut segment);
    if segment.is_empty() { "0".to_owned() } else { segment }
}

/// Every operation of every service, with what its schema asks for and with other things: it answers, and not with 500.
#[actix_rt::test]
async fn requests() {
    let api = Api::start().await;
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
    let words = wishes::Words(ids);
    let folder = tempfile::tempdir().unwrap();
    let app = all_services(&api, folder.path());
    let configured = configure(app, Arc::clone(&api.routers), None);
    let service = test::init_service(actix_web::App::new().configure(configured)).await;
    let asked = Asked::all();
    let mut run = Run::of("requests", 2_500);
    let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
    let mut answer = async |case: &Case| -> Result<u16, String> {
        let Ok(uri) = case.uri.parse::<actix_web::http::Uri>() else { return Ok(0) };
        let mut request = TestRequest::default()
            .uri(&uri.to_string())
            .method(case.method.parse().unwrap())
            .insert_header(("X-Auth-Token", ADMIN))
            .insert_header(("OpenStack-API-Version", case.version.as_str()));
        if let Some(media) = &case.media {
            request = request.insert_header(("Content-Type", media.as_str()));
        }
        let request = request.set_payload(case.body.clone()).to_request();
        let answered = AssertUnwindSafe(test::call_service(&service, request)).catch_unwind().await;
        let response = answered.map_err(|_| "it panics".to_owned())?;
        let status = response.status().as_u16();
        let body = AssertUnwindSafe(test::read_body(response)).catch_unwind().await.map_err(|_| "its body panics")?;
        *statuses.entry(status).or_default() += 1;
        match status {
            500 | 502 | 504.. => Err(format!("it answers {status}: {}", String::from_utf8_lossy(&body))),
            // Glance's faults are pages.
            400..
                if !body.is_empty()
                    && case.method != "HEAD"
                    && !case.uri.starts_with("/image/")
                    && serde_json::from_slice::<Value>(&body).is_err() =>
            {
                Err(format!("{status} is not JSON: {}", String::from_utf8_lossy(&body)))
            }
            _ => Ok(status),
        }
    };
    for (path, kept) in run.kept() {
        if let Err(what) = answer(&Case::from_kept(&kept)).await {
            panic!("{} fails again: {what}", path.display());
        }
    }
    while run.goes_on() {
        let asked = &asked[run.random.below(asked.len())];
        let case = asked.wish(&mut run.random, &words);
        if let Err(what) = answer(&case).await {
            run.found(
                &case.to_kept(),
                &format!("{} {}: {what}", case.method, case.uri.chars().take(300).collect::<String>()),
            );
        }
    }
    run.done();
    println!("requests: answers by status {statuses:?}");
    let good: u64 = statuses.range(200..300).map(|(_, count)| count).sum();
    assert!(good > 100, "too few requests got through the door: {statuses:?}");
    api.stop().await;
}

/// The house of `api` with the embedded identity and images in front of it as well.
fn all_services(api: &Api, folder: &std::path::Path) -> Arc<App> {
    let (house, config) = (api.life.house(), WebConfig::default());
    let options = IdentityOptions::new(Catalogue::on_one_port("http://cloud:1", "RegionOne"));
    let clock = Arc::new(chronova_events::clock::SystemClock);
    let identity = IdentityService::open(folder, options, Arc::clone(&house.views), clock).unwrap();
    let files = ImageFiles::open(folder, 1 << 20).unwrap();
    let images = EmbeddedImages::new(files, Arc::clone(&house.views), Arc::clone(&house.gateway));
    let policy = Enforcer::new(&config.policy, &Overrides::default()).unwrap();
    let metrics = Metrics::new(prometheus::Registry::new()).unwrap();
    let app = App::new(config, policy, Authentication::NoAuth, metrics).with_house(Arc::clone(house));
    let app = app.with_volumes(Arc::clone(&api.life.volumes)).with_identity(identity).with_images(images);
    Arc::new(app.with_history(Arc::clone(api.app.history().unwrap())))
}

#[test]
fn what_is_kept_is_what_was_sent() {
    for (version, media) in [("compute 2.1", None), ("", Some("text/plain".to_owned()))] {
        let (method, uri) = ("POST".to_owned(), "/compute/v2.1/servers?a=b".to_owned());
        let case = Case { method, uri, version: version.to_owned(), media, body: b"\n\n{\xff".to_vec() };
        let again = Case::from_kept(&case.to_kept());
        assert_eq!((&again.version, &again.media, &again.body), (&case.version, &case.media, &case.body));
        assert_eq!((again.method, again.uri), (case.method, case.uri));
    }
}
