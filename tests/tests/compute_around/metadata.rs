//! The metadata service: access, the OpenStack and EC2 trees at each version, and the guest's password.

use std::sync::Arc;

use actix_web::test::{TestRequest, call_service, init_service, read_body};
use chronova_tests::compute_api::{ADMIN, IMAGE};
use chronova_web::app::App;
use chronova_web::auth::{Authentication, Secret};
use chronova_web::config::WebConfig;
use chronova_web::metadata::MetadataConfig;
use chronova_web::metrics::HttpMetrics;
use chronova_web::policy::{Enforcer, Overrides};
use chronova_web::server::configure;
use chronova_web::service::Service;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::interfaces::{Cloud, USER};

const SECRET: &str = "between the proxy and us";

/// The metadata service, called as a guest or its proxy does.
pub(super) struct Service8775 {
    pub(super) cloud: Cloud,
    app: Arc<App>,
}

pub(super) struct Answer {
    pub(super) status: u16,
    media: String,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn lines(&self) -> Vec<&str> {
        assert_eq!((self.status, self.media.as_str()), (200, "text/plain; charset=UTF-8"), "{}", self.text());
        self.text().split('\n').collect()
    }
}

impl Service8775 {
    pub(super) async fn start(metadata: MetadataConfig) -> Self {
        Self::around(Cloud::start().await, metadata)
    }

    pub(super) fn around(cloud: Cloud, metadata: MetadataConfig) -> Self {
        let trusted_proxies = vec!["192.0.2.7/32".parse().unwrap()];
        let config = WebConfig { metadata, trusted_proxies, ..WebConfig::default() };
        let policy = Enforcer::new(&config.policy, &Overrides::parse("", "policy.yaml").unwrap()).unwrap();
        let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
        let app = App::new(config, policy, Authentication::NoAuth, metrics);
        let app = Arc::new(app.with_operations(Arc::clone(cloud.api.life.operations())));
        Self { cloud, app }
    }

    async fn by_address() -> Self {
        Self::start(MetadataConfig::default()).await
    }

    pub(super) async fn ask(
        &self,
        method: &str,
        path: &str,
        from: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let configured = configure(Arc::clone(&self.app), Arc::clone(&self.cloud.api.routers), Some(Service::Metadata));
        let service = init_service(actix_web::App::new().configure(configured)).await;
        let request = TestRequest::with_uri(path).method(method.parse().unwrap());
        let request = request.peer_addr(std::net::SocketAddr::new(from.parse().unwrap(), 40_000));
        let request = headers.iter().fold(request, |request, header| request.append_header(*header));
        let response = call_service(&service, request.set_payload(body.to_owned()).to_request()).await;
        let media = response.headers().get("Content-Type").map_or("", |value| value.to_str().unwrap()).to_owned();
        let status = response.status().as_u16();
        Answer { status, media, body: read_body(response).await.to_vec() }
    }

    pub(super) async fn get(&self, from: &str, path: &str) -> Answer {
        self.ask("GET", path, from, &[], "").await
    }

    /// Creates a server with these properties and the required ones. Returns its id and address.
    pub(super) async fn server(&self, version: &str, more: Value) -> (String, String) {
        let mut server_request =
            json!({"name": "web", "imageRef": IMAGE, "flavorRef": "1", "networks": [{"uuid": self.cloud.network}]});
        for (key, value) in more.as_object().unwrap() {
            server_request[key] = value.clone();
        }
        let made =
            self.cloud.api.call("POST", "/servers", version, USER, Some(json!({"server": server_request}))).await;
        assert_eq!(made.status, 202, "{:?}", made.body);
        self.cloud.api.life.settled().await;
        let id = made.body["server"]["id"].as_str().unwrap().to_owned();
        let address = self.cloud.addresses(&id, "private").await.remove(0);
        (id, address)
    }

    async fn call(&self, method: &str, path: &str, version: &str, body: Option<Value>) -> u16 {
        let answer = self.cloud.api.call(method, path, version, USER, body).await;
        self.cloud.api.life.settled().await;
        answer.status
    }
}

/// Name and value.
type Header<'a> = (&'a str, &'a str);

/// The HMAC (RFC 2104) with SHA-256, in hexadecimal digits.
fn sign(secret: &str, text: &str) -> String {
    let pad = |byte: u8| -> Vec<u8> {
        let mut key = secret.as_bytes().to_vec();
        key.resize(64, 0);
        key.iter().map(|part| part ^ byte).collect()
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

pub(super) const META: &str = "/openstack/latest/meta_data.json";

#[actix_rt::test]
async fn the_metadata_proxy_identifies_the_guest_of_a_request() {
    let proxied = MetadataConfig { proxy_secret: Some(Secret::new(SECRET)), ..MetadataConfig::default() };
    let service = Service8775::start(proxied).await;
    let (server, address) = service.server("2.100", json!({})).await;
    let signature = sign(SECRET, &server);
    let ask = async |headers: &[(&str, &str)]| service.ask("GET", META, "192.0.2.1", headers, "").await;
    let (id, tenant) = (("X-Instance-ID", server.as_str()), ("X-Tenant-ID", "web"));
    let signed = ("X-Instance-ID-Signature", signature.as_str());
    let told = ask(&[id, tenant, signed]).await;
    assert_eq!((told.status, told.media.as_str()), (200, "application/json"), "{}", told.text());
    assert_eq!(told.json()["uuid"], *server);

    let other = uuid::Uuid::from_u128(7).to_string();
    let (others, upper) = (sign(SECRET, &other), signature.to_uppercase());
    let (wrong, cut) = (sign("guessed", &server), signature[..62].to_owned());
    let nonsense = sign(SECRET, "x");
    let cases: Vec<(Vec<Header<'_>>, u16, &str)> = vec![
        (vec![], 400, "X-Instance-ID header is missing from request."),
        (vec![id, tenant], 400, "X-Instance-ID-Signature header is missing from request."),
        (vec![id, signed], 400, "X-Tenant-ID header is missing from request."),
        (vec![id, id, tenant, signed], 400, "Multiple X-Instance-ID headers found within request."),
        (vec![id, tenant, tenant, signed], 400, "Multiple X-Tenant-ID headers found within request."),
        (vec![id, tenant, ("X-Instance-ID-Signature", &wrong)], 403, "Invalid proxy request signature."),
        (vec![id, tenant, ("X-Instance-ID-Signature", &others)], 403, "Invalid proxy request signature."),
        (vec![id, tenant, ("X-Instance-ID-Signature", &upper)], 403, "Invalid proxy request signature."),
        (vec![id, tenant, ("X-Instance-ID-Signature", &cut)], 403, "Invalid proxy request signature."),
        (vec![id, tenant, ("X-Instance-ID-Signature", "")], 403, "Invalid proxy request signature."),
        (vec![id, ("X-Tenant-ID", "red"), signed], 404, "The resource could not be found."),
        (
            vec![("X-Instance-ID", &other), tenant, ("X-Instance-ID-Signature", &others)],
            404,
            "The resource could not be found.",
        ),
        (vec![("X-Instance-ID", "x"), tenant, ("X-Instance-ID-Signature", &nonsense)], 404, "could not be found"),
        (vec![("X-Metadata-Provider", "p")], 400, "X-Forwarded-For is missing from request."),
        (vec![("X-Metadata-Provider", "p"), ("X-Forwarded-For", &address)], 403, "Invalid proxy request signature."),
    ];
    for (headers, status, words) in cases {
        let answer = ask(&headers).await;
        assert!(
            answer.status == status && answer.text().contains(words),
            "{headers:?}: {} {}",
            answer.status,
            answer.text()
        );
    }
    // A provider with a valid signature, but without a subnet.
    let provider = sign(SECRET, "p");
    let known =
        [("X-Metadata-Provider", "p"), ("X-Forwarded-For", &*address), ("X-Metadata-Provider-Signature", &*provider)];
    let refused = ask(&known).await;
    assert!(refused.status == 400 && refused.text().contains("Could not find any subnets for provider p"));
    // The source address does not identify the guest here, so only the list of versions is answered.
    assert_eq!(service.get(&address, META).await.status, 400);
    assert_eq!(service.get("192.0.2.1", "/").await.lines().len(), 10);
    // Refusals have the format that the client accepts.
    let page = ask(&[("Accept", "*/*")]).await;
    assert!(page.media.starts_with("text/html") && page.text().contains("<h1>400 Bad Request</h1>"), "{}", page.text());
    assert_eq!(ask(&[("Accept", "application/json")]).await.json()["title"], "Bad Request");

    assert_eq!(service.call("DELETE", &format!("/servers/{server}"), "2.1", None).await, 204);
    assert_eq!(ask(&[id, tenant, signed]).await.status, 404, "a deleted server has metadata");
    service.cloud.api.stop().await;
}

#[actix_rt::test]
async fn without_a_proxy_a_guest_is_known_by_its_address() {
    let service = Service8775::start(MetadataConfig { use_forwarded_for: true, ..MetadataConfig::default() }).await;
    let (server, address) = service.server("2.100", json!({})).await;
    let (second, neighbour) = service.server("2.100", json!({"name": "db"})).await;
    let uuid = async |from: &str, headers: &[(&str, &str)]| {
        let answer = service.ask("GET", META, from, headers, "").await;
        (answer.status == 200).then(|| answer.json()["uuid"].as_str().unwrap().to_owned())
    };
    let (server, second) = (Some(server), Some(second));
    assert_eq!(uuid(&address, &[]).await, server);
    assert_eq!(
        uuid(&format!("::ffff:{address}"), &[]).await,
        server,
        "an IPv4 address on an IPv6 socket is not recognised"
    );
    assert_eq!(uuid(&neighbour, &[]).await, second);
    assert_eq!(uuid("10.1.0.250", &[]).await, None);
    assert_eq!(uuid("10.1.0.1", &[]).await, None, "an address of no server gets metadata");
    assert_eq!(uuid("10.1.0.250", &[("X-Instance-ID", server.as_deref().unwrap())]).await, None);

    // A trusted proxy may forward one address. Another client may forward none.
    let forwarded = |address: &str| [("X-Forwarded-For", address.to_owned())];
    let by = async |from: &str, told: &str| {
        let headers = forwarded(told);
        uuid(from, &[(headers[0].0, headers[0].1.as_str())]).await
    };
    assert_eq!(by("192.0.2.7", &address).await, server);
    assert_eq!(by("192.0.2.8", &address).await, None);
    assert_eq!(by(&neighbour, &address).await, second, "a guest's header is believed");
    assert_eq!(by("192.0.2.7", &format!("{address}, {neighbour}")).await, None);
    assert_eq!(by("192.0.2.7", "x").await, None);
    let twice = [("X-Forwarded-For", address.as_str()), ("X-Forwarded-For", neighbour.as_str())];
    assert_eq!(uuid("192.0.2.7", &twice).await, None, "one of two headers is believed");

    // Two networks with the same addresses: no guest gets another's metadata.
    let twin = service.cloud.network("twin", "10.1.0.0/24").await;
    let fixed = json!([{"uuid": twin, "fixed_ip": address}]);
    let server_request = json!({"name": "twin", "imageRef": IMAGE, "flavorRef": "1", "networks": fixed});
    let twin = service.cloud.api.server(USER, server_request).await;
    assert_eq!(uuid(&address, &[]).await, None);
    assert_eq!(service.call("DELETE", &format!("/servers/{twin}"), "2.1", None).await, 204);
    assert_eq!(uuid(&address, &[]).await, server);
    // A released address belongs to no guest, until it is allocated again.
    assert_eq!(service.call("DELETE", &format!("/servers/{}", server.unwrap()), "2.1", None).await, 204);
    assert_eq!(uuid(&address, &[]).await, None);
    service.cloud.api.stop().await;
}

#[actix_rt::test]
async fn openstacks_tree_has_at_each_version_what_came_with_it() {
    let service = Service8775::by_address().await;
    let (_, bare) = service.server("2.100", json!({})).await;
    let (server, address) = service
        .server("2.100", json!({"name": "full", "user_data": "IyEvYmluL3No", "metadata": {"role": "web"}}))
        .await;
    let get = async |path: &str| service.get(&address, path).await;
    let documents = [
        ("meta_data.json", "2012-08-10", "application/json"),
        ("user_data", "2012-08-10", "text/plain; charset=UTF-8"),
        ("password", "2013-04-04", "text/plain; charset=UTF-8"),
        ("vendor_data.json", "2013-10-17", "application/json"),
        ("network_data.json", "2015-10-15", "text/plain; charset=UTF-8"),
        ("vendor_data2.json", "2016-10-06", "application/json"),
    ];
    let versions = get("/openstack").await;
    let versions = versions.lines();
    let known = "2012-08-10 2013-04-04 2013-10-17 2015-10-15 2016-06-30 2016-10-06 2017-02-22 2018-08-27";
    assert_eq!(versions.join(" "), format!("{known} 2020-10-14 2025-04-04 latest"));
    for version in &versions {
        let there: Vec<_> = documents.iter().filter(|(_, since, _)| version >= since).collect();
        let listed = get(&format!("/openstack/{version}/")).await;
        assert_eq!(listed.lines(), there.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), "{version}");
        let without = service.get(&bare, &format!("/openstack/{version}")).await;
        assert!(!without.lines().contains(&"user_data"));
        for (name, since, media) in documents {
            let answer = get(&format!("/openstack/{version}/{name}")).await;
            match version >= &since {
                true => assert_eq!((answer.status, answer.media.as_str()), (200, media), "{version} {name}"),
                false => assert_eq!(answer.status, 404, "{version} {name}"),
            }
        }
    }
    let meta = get(META).await.json();
    assert_eq!(
        (&meta["uuid"], &meta["name"], &meta["hostname"]),
        (&json!(server), &json!("full"), &json!("full.novalocal"))
    );
    assert_eq!((&meta["meta"], &meta["project_id"]), (&json!({"role": "web"}), &json!("web")));
    assert_eq!(meta.get("admin_pass"), None);
    assert!(get("/openstack/2012-08-10/meta_data.json").await.json().get("random_seed").is_none());
    let network = get("/openstack/latest/network_data.json").await.json();
    assert_eq!((network["links"][0]["type"].as_str(), &network["links"][1]), (Some("bridge"), &Value::Null));
    assert_eq!(get("/openstack/latest/user_data").await.body, b"#!/bin/sh");
    assert_eq!(get("//openstack/./latest/x/../user_data/").await.body, b"#!/bin/sh");
    assert_eq!(get("/openstack/latest/vendor_data2.json").await.json(), json!({"static": {}}));
    for path in [
        "/openstack/2012-08-11",
        "/openstack/latest/x",
        "/openstack/latest/meta_data.json/x",
        "/openstack/content",
        "/openstack/content/0000",
        "/openstack/content/0000/x",
    ] {
        let answer = get(path).await;
        assert_eq!(
            (answer.status, answer.text()),
            (404, "404 Not Found\n\nThe resource could not be found.\n\n   "),
            "{path}"
        );
    }
    assert_eq!(service.get(&bare, "/openstack/latest/user_data").await.status, 404);
    // Without `use_forwarded_for` not even a trusted proxy forwards an address.
    let forwarded = service.ask("GET", META, "192.0.2.7", &[("X-Forwarded-For", &address)], "").await;
    assert_eq!(forwarded.status, 404);
    let head = service.ask("HEAD", META, &address, &[], "").await;
    assert_eq!((head.status, head.body.len()), (200, 0));

    // Changes show at once.
    let path = format!("/servers/{server}");
    assert_eq!(
        service.call("PUT", &path, "2.90", Some(json!({"server": {"name": "new", "hostname": "new"}}))).await,
        200
    );
    let role = Some(json!({"metadata": {"role": "db"}}));
    assert_eq!(service.call("PUT", &format!("{path}/metadata"), "2.1", role).await, 200);
    let meta = get(META).await.json();
    assert_eq!(
        (&meta["name"], &meta["hostname"], &meta["meta"]["role"]),
        (&json!("new"), &json!("new.novalocal"), &json!("db"))
    );
    service.cloud.api.stop().await;
}

#[actix_rt::test]
async fn ec2s_tree_is_listed_as_there() {
    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG0bTWZyLQGKlW5yQmNzFq9hJ1mX5x0yQ1V2kT3dYv3x me@home";
    let service = Service8775::by_address().await;
    let key = json!({"keypair": {"name": "mine", "public_key": KEY}});
    assert_eq!(service.call("POST", "/os-keypairs", "2.1", Some(key)).await, 200);
    let (_, address) = service.server("2.100", json!({"key_name": "mine", "user_data": "IyEvYmluL3No"})).await;
    let get = async |path: &str| service.get(&address, path).await;
    let versions = [
        "1.0",
        "2007-01-19",
        "2007-03-01",
        "2007-08-29",
        "2007-10-10",
        "2007-12-15",
        "2008-02-01",
        "2008-09-01",
        "2009-04-04",
        "latest",
    ];
    for root in ["/", "/ec2", "/ec2/"] {
        assert_eq!(get(root).await.lines(), versions);
    }
    let later = [
        ("local-hostname", "2007-01-19"),
        ("public-hostname", "2007-01-19"),
        ("public-ipv4", "2007-01-19"),
        ("instance-type", "2007-08-29"),
        ("block-device-mapping/", "2007-12-15"),
        ("placement/", "2008-02-01"),
        ("instance-action", "2008-09-01"),
    ];
    let always = [
        "ami-id",
        "ami-launch-index",
        "ami-manifest-path",
        "hostname",
        "instance-id",
        "local-ipv4",
        "public-keys/",
        "reservation-id",
        "security-groups",
    ];
    for version in versions {
        assert_eq!(get(&format!("/{version}")).await.lines(), ["meta-data/", "user-data"]);
        let mut names: Vec<&str> = later.iter().filter(|(_, since)| version >= *since).map(|(name, _)| *name).collect();
        names.extend(always);
        names.sort_by_key(|name| name.trim_end_matches('/'));
        let listed = get(&format!("/ec2/{version}/meta-data/")).await;
        assert_eq!(listed.lines(), names, "{version}");
        for (name, since) in later {
            let there = get(&format!("/{version}/meta-data/{name}")).await.status == 200;
            assert_eq!(there, version >= since, "{version} {name}");
        }
    }
    let told = async |path: &str| get(&format!("/latest/{path}")).await.lines().join("|");
    assert_eq!(told("user-data").await, "#!/bin/sh");
    assert_eq!(told("meta-data/public-keys/").await, "0=mine");
    assert_eq!(told("meta-data/public-keys/0/").await, "openssh-key");
    assert_eq!(told("meta-data/public-keys/0/openssh-key").await, KEY);
    assert_eq!(told("meta-data/block-device-mapping").await, "ami|root");
    assert_eq!(told("meta-data/block-device-mapping/root").await, "/dev/vda");
    assert_eq!(told("meta-data/placement/availability-zone").await, "nova");
    assert_eq!(told("meta-data/security-groups").await, "default");
    assert_eq!(told("meta-data/ami-launch-index").await, "0");
    assert_eq!(told("meta-data/local-ipv4").await, address);
    assert_eq!(told("meta-data/hostname").await, "web.novalocal");
    assert_eq!(told("meta-data/public-ipv4").await, "");
    // The kernel and the ramdisk of an image, if it names them.
    let (kernel, ramdisk) = ("155d900f-4e14-4e4c-a73d-069cbf4541e6", "9d0d5b3c-2f8a-4f3e-9b57-3f1f0f5a6c21");
    let kernel = service.cloud.api.image(&[("kernel_id", kernel), ("ramdisk_id", ramdisk)]).await;
    let (_, started) = service.server("2.100", json!({"imageRef": kernel.to_string()})).await;
    let kernel = service.get(&started, "/latest/meta-data/kernel-id").await;
    assert_eq!(kernel.lines(), ["aki-155d900f"]);
    assert_eq!(
        service.get(&started, "/2007-10-10/meta-data/kernel-id").await.status,
        404,
        "version 2007-10-10 has a later document"
    );
    assert_eq!(service.get(&started, "/latest/meta-data/ramdisk-id").await.lines(), ["ari-9d0d5b3c"]);
    assert_eq!(get("/latest/meta-data/ramdisk-id").await.status, 404);
    for (method, path) in [
        ("GET", "/2009-04-05"),
        ("GET", "/latest/x"),
        ("GET", "/latest/meta-data/x"),
        ("GET", "/latest/meta-data/hostname/x"),
        ("GET", "/latest/meta-data/public-keys/1"),
        // Only EC2 itself has this path.
        ("PUT", "/latest/api/token"),
    ] {
        assert_eq!(service.ask(method, path, &address, &[], "").await.status, 404, "{method} {path}");
    }
    service.cloud.api.stop().await;
}

#[actix_rt::test]
async fn a_guest_leaves_a_password_for_its_owner_once() {
    let service = Service8775::by_address().await;
    let (server, address) = service.server("2.100", json!({})).await;
    let path = "/openstack/latest/password";
    let ask = async |method: &str, body: &str| {
        let answer = service.ask(method, path, &address, &[], body).await;
        (answer.status, answer.text().to_owned())
    };
    let owners = format!("/servers/{server}/os-server-password");
    let shown = async || service.cloud.api.call("GET", &owners, "2.1", USER, None).await.body["password"].take();
    assert_eq!(ask("GET", "").await, (200, String::new()));
    assert_eq!(shown().await, "");
    let long = "x".repeat(1021);
    let (status, words) = ask("POST", &long).await;
    assert!(status == 400 && words.contains("Request is too large."), "{status} {words}");
    assert_eq!(ask("POST", "").await.0, 200, "an empty password is refused");
    for method in ["PUT", "PATCH", "DELETE"] {
        let (status, words) = ask(method, "").await;
        assert!(status == 400 && words.contains("GET and POST only are supported."), "{status} {words}");
    }
    assert_eq!(service.ask("POST", "/openstack/2012-08-10/password", &address, &[], "x").await.status, 404);
    assert_eq!(
        service.ask("POST", path, "10.1.0.250", &[], "x").await.status,
        404,
        "an address of no server may store a password"
    );

    let most = &long[1..];
    assert_eq!(ask("POST", most).await, (200, String::new()));
    assert_eq!(ask("GET", "").await, (200, most.to_owned()));
    assert_eq!(shown().await, *most);
    assert_eq!(service.get(&address, "/openstack/2013-04-04/password").await.text(), most);
    for body in ["another", ""] {
        let (status, words) = ask("POST", body).await;
        assert!(
            status == 409 && words.contains("There was a conflict when trying to complete your request."),
            "{words}"
        );
    }
    assert_eq!(shown().await, *most);

    // Only the owner's project can read and clear the password.
    for (method, token, status) in
        [("GET", "eve:red", 404), ("DELETE", "eve:red", 404), ("DELETE", USER, 204), ("DELETE", USER, 204)]
    {
        assert_eq!(
            service.cloud.api.call(method, &owners, "2.1", token, None).await.status,
            status,
            "{method} {token}"
        );
    }
    assert_eq!((shown().await, ask("GET", "").await), (json!(""), (200, String::new())));
    assert_eq!(ask("POST", "c2Vjb25k").await.0, 200);
    assert_eq!(shown().await, "c2Vjb25k");
    service.cloud.api.stop().await;
}

#[actix_rt::test]
async fn metadata_lists_devices_with_their_tags() {
    let service = Service8775::by_address().await;
    let cloud = &service.cloud;
    let networks = json!([{"uuid": cloud.network, "tag": "front"}]);
    let (server, address) = service.server("2.100", json!({"networks": networks})).await;
    let devices = async |version: &str| {
        service.get(&address, &format!("/openstack/{version}/meta_data.json")).await.json()["devices"].take()
    };
    let first = devices("latest").await;
    assert_eq!(first.as_array().unwrap().len(), 1, "{first}");
    assert_eq!(
        (&first[0]["type"], &first[0]["tags"], &first[0]["bus"]),
        (&json!("nic"), &json!(["front"]), &json!("pci"))
    );
    assert_eq!((&first[0]["address"], &first[0]["vf_trusted"]), (&json!("0000:00:03.0"), &json!(false)));
    assert_eq!(first[0]["mac"], cloud.interfaces(&server).await[0]["mac_addr"]);
    assert_eq!(devices("2016-06-30").await[0].get("vf_trusted"), None, "version 2016-06-30 has a later field");
    assert_eq!(devices("2015-10-15").await, Value::Null);

    // Later devices are included; devices without a tag are not.
    assert_eq!(cloud.attach(&server, "2.49", json!({"net_id": cloud.network, "tag": "back"})).await.status, 200);
    assert_eq!(cloud.attach(&server, "2.49", json!({"net_id": cloud.network})).await.status, 200);
    let volume = cloud.api.life.data_volume(("web", "alice"), Some(&server), 1).await;
    let attach = json!({"volumeAttachment": {"volumeId": volume.to_string(), "tag": "data"}});
    let path = format!("/servers/{server}/os-volume_attachments");
    assert_eq!(service.call("POST", &path, "2.49", Some(attach)).await, 200);
    let now = devices("latest").await;
    let tags: Vec<&Value> = now.as_array().unwrap().iter().map(|device| &device["tags"][0]).collect();
    assert_eq!(tags, ["data", "front", "back"]);
    assert_eq!((&now[0]["type"], &now[0]["serial"]), (&json!("disk"), &json!(volume.to_string())));
    assert_eq!(now[0]["bus"], "pci");
    assert_ne!(now[0]["address"], "none");
    assert_ne!(now[1]["address"], now[2]["address"]);
    assert_eq!(service.call("DELETE", &format!("{path}/{volume}"), "2.49", None).await, 202);
    assert_eq!(devices("latest").await.as_array().unwrap().len(), 2);
    service.cloud.api.stop().await;
}

#[actix_rt::test]
async fn the_floating_address_of_a_guest_is_its_public_one() {
    let service = Service8775::by_address().await;
    let town = super::floating::Town::around(service.cloud).await;
    let service = Service8775 { cloud: town.cloud, app: service.app };
    let (server, address) = service.server("2.100", json!({})).await;
    let public = async || service.get(&address, "/latest/meta-data/public-ipv4").await.text().to_owned();
    assert_eq!(public().await, "");
    let made = service.cloud.api.call("POST", "/os-floating-ips", "2.35", USER, Some(json!({"pool": "public"}))).await;
    let floating = made.body["floating_ip"]["ip"].as_str().unwrap().to_owned();
    let give = json!({"addFloatingIp": {"address": floating}});
    assert_eq!(service.cloud.act(&server, "2.43", give).await.status, 202);
    assert_eq!(public().await, floating);
    service.cloud.api.stop().await;
}

#[actix_rt::test]
async fn files_of_a_create_request_reach_the_guest() {
    let service = Service8775::by_address().await;
    let motd = json!([{"path": "/etc/motd", "contents": "aGVs\nbG8="}, {"path": "/b", "contents": ""}]);
    let (server, address) = service.server("2.56", json!({"personality": motd, "config_drive": true})).await;
    let get = async |path: &str| service.get(&address, path).await;
    let expected = json!([
        {"path": "/etc/motd", "content_path": "/content/0000"},
        {"path": "/b", "content_path": "/content/0001"},
    ]);
    assert_eq!(get(META).await.json()["files"], expected);
    assert_eq!(get("/openstack/content/0000").await.body, b"hello");
    let empty = get("/openstack/content/0001").await;
    assert_eq!((empty.status, empty.body.len()), (200, 0));
    assert_eq!(get("/openstack/content/0002").await.status, 404);
    assert_eq!(get("/openstack/content/0").await.status, 404);

    // The config drive has the same files.
    let drive = async || {
        let now = service.cloud.api.life.instance_now(server.parse().unwrap());
        let options = chronova_actors::metadata::MetadataOptions::default();
        let server = now.alive().unwrap();
        let about = chronova_actors::metadata::GuestMetadata {
            server,
            password: None,
            options: &options,
            devices: &[],
            plugged: &[],
            floating_ip: None,
            said: None,
        };
        about.files().unwrap()
    };
    let files = drive().await;
    assert!(files.contains(&("openstack/content/0000".to_owned(), b"hello".to_vec())));
    let meta = files.iter().find(|(path, _)| path == &META[1..]).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&meta.1).unwrap()["files"], expected);

    // After a rebuild the guest has other files, or none.
    let rebuild = async |personality: Value| {
        let mut action = json!({"imageRef": IMAGE});
        if !personality.is_null() {
            action["personality"] = personality;
        }
        assert_eq!(service.cloud.act(&server, "2.56", json!({"rebuild": action})).await.status, 202);
        service.cloud.api.life.settled().await;
    };
    rebuild(json!([{"path": "/new", "contents": "bmV3"}])).await;
    assert_eq!(get(META).await.json()["files"][0]["path"], "/new");
    assert_eq!(get("/openstack/content/0000").await.body, b"new");
    rebuild(Value::Null).await;
    assert_eq!(get(META).await.json().get("files"), None);
    assert!(drive().await.iter().all(|(path, _)| !path.starts_with("openstack/content")));
    // The quota limits the files.
    let limits = json!({"quota_set": {"injected_files": 1}});
    assert_eq!(service.cloud.api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, Some(limits)).await.status, 200);
    let two = json!([{"path": "/a", "contents": ""}, {"path": "/b", "contents": ""}]);
    let server_request = json!({"server": {"name": "x", "imageRef": IMAGE, "flavorRef": "1", "personality": two}});
    let refused = service.cloud.api.call("POST", "/servers", "2.1", USER, Some(server_request)).await;
    assert_eq!((refused.status, refused.message()), (403, "Personality file limit exceeded"));
    service.cloud.api.stop().await;
}
