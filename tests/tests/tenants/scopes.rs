//! Tests what tokens without a project see and may do.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix_web::test;
use async_trait::async_trait;
use chronova_actors::ports::PortError;
use chronova_actors::ports::identity::{IdentityProvider, TokenError, TokenOwner, TokenQuestion};
use chronova_events::ids::{ProjectId, RequestId, UserId};
use chronova_tests::compute_api::{ADMIN, Api};
use chronova_web::app::App;
use chronova_web::auth::Authentication;
use chronova_web::config::{PolicyConfig, WebConfig};
use chronova_web::metrics::HttpMetrics;
use chronova_web::policy::{Enforcer, Overrides};
use chronova_web::server::configure;
use serde_json::{Value, json};

use super::{OWNER, STRANGER, volume};

/// An authentication in which every token is unscoped.
struct Unscoped;

#[async_trait]
impl IdentityProvider for Unscoped {
    async fn owner(&self, _: TokenQuestion<'_>) -> Result<Arc<TokenOwner>, TokenError> {
        Ok(Arc::new(TokenOwner::unscoped(UserId::new("eve"))))
    }

    async fn knows_project(&self, _: &ProjectId, _: Option<&RequestId>) -> Result<bool, PortError> {
        Ok(true)
    }
}

/// Lists that a policy rule can open to every user, and their rules.
const LISTS: &[(&str, &str)] = &[
    ("/compute/v2.1/servers", "os_compute_api:servers:index"),
    ("/compute/v2.1/servers/detail", "os_compute_api:servers:detail"),
    ("/compute/v2.1/servers/detail?deleted=1", "os_compute_api:servers:allow_all_filters"),
    ("/compute/v2.1/os-server-groups", "os_compute_api:os-server-groups:index"),
    ("/compute/v2.1/os-migrations", "os_compute_api:os-migrations:index"),
    ("/compute/v2.1/os-floating-ips", "os_compute_api:os-floating-ips:list"),
    ("/compute/v2.1/os-security-groups", "os_compute_api:os-security-groups:get"),
    ("/compute/v2.1/os-volumes", "os_compute_api:os-volumes:list"),
    ("/compute/v2.1/os-volumes/detail", "os_compute_api:os-volumes:detail"),
    ("/volume/v3/attachments", "volume:get_all"),
    ("/volume/v3/attachments/detail", "volume:get_all"),
    ("/volume/v3/volumes/detail", "volume:get_all"),
    ("/volume/v3/volumes/summary", "volume:get_all"),
    ("/volume/v3/snapshots/detail", "volume:get_all_snapshots"),
    ("/network/v2.0/ports", "get_port"),
    ("/network/v2.0/networks", "get_network"),
    ("/network/v2.0/subnets", "get_subnet"),
    ("/network/v2.0/floatingips", "get_floatingip"),
    ("/network/v2.0/routers", "get_router"),
    ("/network/v2.0/security-groups", "get_security_group"),
    ("/network/v2.0/security-group-rules", "get_security_group_rule"),
];

/// The cloud for users with unscoped tokens, under a policy that opens these lists to everybody.
fn open_to_all(api: &Api, enforce_scope: bool) -> Arc<App> {
    let rules: BTreeSet<&str> = LISTS.iter().map(|(_, rule)| *rule).collect();
    let yaml: Vec<String> = rules.into_iter().map(|rule| format!("\"{rule}\": \"@\"")).collect();
    let yaml = yaml.join("\n");
    let policy = PolicyConfig { enforce_scope, ..PolicyConfig::default() };
    let config = WebConfig { policy, ..WebConfig::default() };
    let policy = Enforcer::new(&config.policy, &Overrides::parse(&yaml, "policy.yaml").unwrap()).unwrap();
    let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
    let app = App::new(config, policy, Authentication::Tokens(Arc::new(Unscoped)), metrics);
    Arc::new(app.with_operations(Arc::clone(api.life.operations())).with_volumes(Arc::clone(&api.life.volumes)))
}

async fn get(app: &Arc<App>, api: &Api, path: &str) -> (u16, String) {
    let configured = configure(Arc::clone(app), Arc::clone(&api.routers), None);
    let service = test::init_service(actix_web::App::new().configure(configured)).await;
    let request = test::TestRequest::with_uri(path)
        .insert_header(("X-Auth-Token", "any"))
        .insert_header(("OpenStack-API-Version", "compute 2.1, volume 3.59"));
    let response = test::call_service(&service, request.to_request()).await;
    let status = response.status().as_u16();
    (status, String::from_utf8(test::read_body(response).await.to_vec()).unwrap())
}

#[actix_rt::test]
async fn a_token_without_scope_sees_no_resources_under_any_policy() {
    let api = Api::start().await;
    let server = api.server(OWNER, Api::wish("secret")).await;
    let kept = volume(&api, OWNER).await;
    let attach = json!({"attachment": {"volume_uuid": kept, "instance_uuid": server}});
    let made = super::volume_api(&api, OWNER, "POST", "/attachments", attach).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let attachment = made.body["attachment"]["id"].as_str().unwrap().to_owned();
    let copied = volume(&api, OWNER).await;
    let snapshot =
        super::volume_api(&api, OWNER, "POST", "/snapshots", json!({"snapshot": {"volume_id": copied}})).await;
    let snapshot = snapshot.body["snapshot"]["id"].as_str().unwrap().to_owned();
    let group = json!({"server_group": {"name": "g", "policies": ["affinity"]}});
    let group = api.call("POST", "/os-server-groups", "2.1", OWNER, Some(group)).await;
    let group = group.body["server_group"]["id"].as_str().unwrap().to_owned();
    let named = json!({"security_group": {"name": "s", "description": "d"}});
    let named = api.call("POST", "/os-security-groups", "2.1", OWNER, Some(named)).await;
    let security_group = named.body["security_group"]["id"].as_str().unwrap().to_owned();
    let network = json!({"network": {"name": "n"}});
    let network = api.ask("POST", "/network/v2.0/networks", "2.1", OWNER, Some(network)).await;
    let network = network.body["network"]["id"].as_str().unwrap().to_owned();
    let secrets = [server, kept, attachment, copied, snapshot, group, security_group, network, "owner".to_owned()];
    for enforce_scope in [true, false] {
        let app = open_to_all(&api, enforce_scope);
        for (path, rule) in LISTS {
            let (status, body) = get(&app, &api, path).await;
            for secret in &secrets {
                assert!(!body.contains(secret.as_str()), "{path} {rule} {enforce_scope} {secret}: {status} {body}");
            }
        }
    }
    api.stop().await;
}

/// Sends a request with a system-scoped token. Returns the status.
async fn as_system(api: &Api, method: &str, path: &str, body: Value) -> u16 {
    let configured = configure(Arc::clone(&api.app), Arc::clone(&api.routers), None);
    let service = test::init_service(actix_web::App::new().configure(configured)).await;
    let mut request = test::TestRequest::with_uri(&format!("/volume/v3{path}"))
        .method(method.parse().unwrap())
        .insert_header(("X-Auth-Token", ADMIN))
        .insert_header(("OpenStack-System-Scope", "all"))
        .insert_header(("OpenStack-API-Version", "volume 3.59"));
    if !body.is_null() {
        request = request.set_json(body);
    }
    test::call_service(&service, request.to_request()).await.status().as_u16()
}

#[actix_rt::test]
async fn the_volume_service_is_for_tokens_of_projects() {
    let api = Api::start().await;
    let id = volume(&api, OWNER).await;
    for (method, path, body) in [
        ("GET", "/volumes/detail?all_tenants=1".to_owned(), Value::Null),
        ("GET", format!("/volumes/{id}"), Value::Null),
        ("GET", "/types".to_owned(), Value::Null),
        ("GET", "/os-services".to_owned(), Value::Null),
        ("POST", format!("/volumes/{id}/action"), json!({"os-reset_status": {"status": "error"}})),
        ("PUT", "/os-quota-sets/web".to_owned(), json!({"quota_set": {"volumes": -1}})),
        ("DELETE", format!("/volumes/{id}"), Value::Null),
    ] {
        assert_eq!(as_system(&api, method, &path, body).await, 403, "{method} {path}");
    }
    let kept = super::volume_api(&api, OWNER, "GET", &format!("/volumes/{id}"), Value::Null).await;
    assert_eq!(kept.body["volume"]["status"], "available");
    assert_eq!(super::volume_api(&api, STRANGER, "GET", &format!("/volumes/{id}"), Value::Null).await.status, 404);
    assert_eq!(super::volume_api(&api, ADMIN, "GET", &format!("/volumes/{id}"), Value::Null).await.status, 200);
    api.stop().await;
}
