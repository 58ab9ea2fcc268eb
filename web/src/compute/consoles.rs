//! Remote consoles. One operation gives a user's browser the URL of a console. Another one looks up the URL's token for
//! the console proxy.
//!
//! Tokens are stored as hashes and are valid for `[consoleauth] token_ttl` seconds. `[vnc]`, `[spice]` and
//! `[serial_console]` enable the types; [`crate::console`] accepts the tokens. libvirt guests have no MKS.
//!
//! Source of texts: nova `api/openstack/compute/remote_consoles.py`, `console_auth_tokens.py`, `compute/manager.py`.

use chronova_actors::console::{ConsoleCommand, ConsoleRoot};
use chronova_actors::hosts::readings::HostReadings;
use chronova_actors::instance::InstanceReject;
use chronova_events::console::ConsoleAuthorized;
use chronova_events::envelope::Timestamp;
use chronova_events::instance::{OngoingTask, Phase};
use chronova_hypervisor::capability::consoles::{ConsoleAddress, Screen};
use chronova_hypervisor::driver::{DriverError, DriverResult};
use chronova_hypervisor::guest::PowerState;
use serde_json::{Value, json};
use uuid::Uuid;

use super::bodies::{server_actions as actions, server_parts as bodies};
use super::servers::host_of;
use super::servers::lookup::{PermittedServer, find};
use super::{reject, versions};
use crate::compute::answers::consoles as answers;
use crate::console::{ConsoleConfig, token_hash};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::query::Query;
use crate::reply::Reply;
use crate::route::{Route, action, get, post};

const PATH: &str = "/servers/{id}/action";

pub(super) const ROUTES: &[Route] = &[
    action("remote_consoles.os-getVNCConsole", PATH, "os-getVNCConsole", handler!(of_old))
        .until(2, 5)
        .policy_on_target("os_compute_api:os-remote-consoles")
        .body(actions::remote_consoles_vnc_body)
        .answers(answers::of_old),
    action("remote_consoles.os-getSPICEConsole", PATH, "os-getSPICEConsole", handler!(of_old))
        .until(2, 5)
        .policy_on_target("os_compute_api:os-remote-consoles")
        .body(actions::remote_consoles_spice_body)
        .answers(answers::of_old),
    action("remote_consoles.os-getSerialConsole", PATH, "os-getSerialConsole", handler!(of_old))
        .until(2, 5)
        .policy_on_target("os_compute_api:os-remote-consoles")
        .body(actions::remote_consoles_serial_body)
        .answers(answers::of_old),
    post("remote_consoles.create", "/servers/{server_id}/remote-consoles", handler!(create))
        .since(2, 6)
        .policy_on_target("os_compute_api:os-remote-consoles")
        .body(bodies::remote_consoles_create_body)
        .answers(answers::create),
    get("console_auth_tokens.show", "/os-console-auth-tokens/{id}", handler!(show))
        .reads_secret()
        .policy("os_compute_api:os-console-auth-tokens")
        .query(bodies::console_auth_tokens_show_query)
        .answers(answers::token),
];

/// Nova's name for the action. Nova's refusals quote this name.
fn action_name(protocol: &str) -> &'static str {
    match protocol {
        "vnc" => "get_vnc_console",
        "spice" => "get_spice_console",
        "serial" => "get_serial_console",
        _ => "get_mks_console",
    }
}

async fn of_old(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let protocol = match ctx.route.action {
        Some("os-getVNCConsole") => "vnc",
        Some("os-getSPICEConsole") => "spice",
        _ => "serial",
    };
    let kind = ctx.action_body()["type"].as_str().unwrap_or_default().to_owned();
    let url = open(&ctx, &found, protocol, &kind).await?;
    Ok(Reply::ok(json!({"console": {"type": kind, "url": url}})))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let bodies::RemoteConsoleBody { protocol, kind } = ctx.parse_at("remote_console")?;
    if protocol == "rdp" {
        return Err(unavailable("rdp"));
    }
    let url = open(&ctx, &found, &protocol, &kind).await?;
    Ok(Reply::ok(json!({"remote_console": {"protocol": protocol, "type": kind, "url": url}})))
}

fn unavailable(kind: &str) -> Fault {
    Fault::bad_request(format!("Unavailable console type {kind}."))
}

/// Authorizes a token for the console, and answers with the URL.
async fn open(ctx: &Ctx, found: &PermittedServer, protocol: &str, kind: &str) -> Result<String, Fault> {
    let server = found.server()?;
    let host = host_of(ctx, found)?;
    if matches!(server.ongoing, Some(OngoingTask::Delete { .. })) {
        let refused =
            InstanceReject::NotInState { action: action_name(protocol), attribute: "task_state", value: "deleting" };
        return Err(reject::instance_reject(found.id, refused));
    }
    let config = &ctx.app.compute.config.consoles;
    let kind = known_kind(config, protocol, kind)?;
    let address = address(&host, found, protocol).await.map_err(|error| match error {
        DriverError::NoSuchGuest(_) if matches!(server.phase, Phase::Building { .. }) => not_ready(found),
        DriverError::NoSuchGuest(_) => reject::no_instance(found.id),
        DriverError::Unreachable(_) | DriverError::Timeout { .. } => not_ready(found).caused_by(error),
        DriverError::Unsupported(_) => {
            Fault::not_implemented("The requested functionality is not supported.").caused_by(error)
        }
        other => unavailable(kind).caused_by(other),
    })?;
    let token = Uuid::new_v4().to_string();
    let now = ctx.queries()?.clock.now();
    let authorized = ConsoleAuthorized {
        instance: found.id,
        token_hash: token_hash(&token),
        kind: kind.to_owned(),
        host: address.host,
        port: address.port,
        tls_port: address.tls_port,
        internal_access_path: None,
        expires_at: Timestamp(now.0.saturating_add(i64::from(config.token_ttl) * 1_000_000)),
    };
    let command = ConsoleCommand::Authorize(authorized);
    dispatch::send::<ConsoleRoot>(ctx.dispatch()?, &found.permit, &found.id, command)
        .await
        .map_err(|error| reject::refused(error, Fault::internal))?;
    Ok(access_url(config.url(kind), kind, &token))
}

/// The requested type, if such a console is enabled. Nova does not check the type of serial consoles.
fn known_kind<'a>(config: &ConsoleConfig, protocol: &str, kind: &'a str) -> Result<&'a str, Fault> {
    let (enabled, kinds): (bool, &[&str]) = match protocol {
        "vnc" => (config.vnc, &["novnc"]),
        "spice" => (config.spice, &["spice-html5", "spice-direct"]),
        "serial" if config.serial => return Ok("serial"),
        _ => (false, &[]),
    };
    match enabled {
        false => Err(unavailable(kind)),
        true if kinds.contains(&kind) => Ok(kind),
        true => Err(Fault::bad_request(format!("Invalid console type {kind}"))),
    }
}

/// The console's current address. A serial console has port 0, because no TCP port of the host belongs to it.
async fn address(host: &HostReadings, found: &PermittedServer, protocol: &str) -> DriverResult<ConsoleAddress> {
    let screen = match protocol {
        "vnc" => Screen::Vnc,
        "spice" => Screen::Spice,
        _ => {
            let guest = host.guest(found.id).await?;
            if !matches!(guest.power, PowerState::Running | PowerState::Paused) {
                let message = "the guest is not running".to_owned();
                return Err(DriverError::Failed { call: "serial console", message });
            }
            let address = host.remote_address()?.unwrap_or_else(|| "127.0.0.1".to_owned());
            return Ok(ConsoleAddress { host: address, port: 0, tls_port: None });
        }
    };
    host.screen(found.id, screen).await
}

fn not_ready(found: &PermittedServer) -> Fault {
    Fault::conflict(format!("Instance {} is not ready", found.id))
}

/// noVNC reads the token from its parameter `path`, because noVNC 1.1.0 removed its parameter `token`. Other clients
/// read it from `token`.
fn access_url(base: &str, kind: &str, token: &str) -> String {
    if kind != "novnc" {
        return format!("{base}{}token={token}", if base.contains('?') { '&' } else { '?' });
    }
    let (page, query) = base.split_once('?').unwrap_or((base, ""));
    let mut pairs = Query::parse(query).map(|query| query.pairs().to_vec()).unwrap_or_default();
    match pairs.iter_mut().find(|(key, _)| key == "path") {
        Some((_, path)) => *path = format!("{path}?token={token}"),
        None => pairs.push(("path".to_owned(), format!("?token={token}"))),
    }
    format!("{page}?{}", Query::encode(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))))
}

/// Answers a console proxy that looks up a token. Until 2.30 Nova accepts only tokens of RDP, which no longer exists.
async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    if !versions::console_tokens_are_shown(ctx.version) {
        return Err(Fault::malformed());
    }
    let queries = ctx.queries()?;
    let now = queries.clock.now();
    let found = queries.views.console_tokens.read(|tokens| tokens.valid(&token_hash(ctx.param("id")), now).cloned());
    // A deleted server has no consoles, so its tokens are refused.
    let lives = |of: &ConsoleAuthorized| {
        queries.views.servers.read(|servers| servers.get(of.instance).is_some_and(|row| row.instance.alive().is_some()))
    };
    let found = found.filter(|found| lives(&found.authorized)).ok_or_else(|| Fault::not_found("Token not found"))?;
    Ok(Reply::ok(json!({"console": shown(&found.authorized, versions::console_tokens_show_tls_ports(ctx.version))})))
}

fn shown(console: &ConsoleAuthorized, tls_ports: bool) -> Value {
    let mut shown = json!({
        "instance_uuid": console.instance,
        "host": console.host,
        "port": console.port,
        "internal_access_path": console.internal_access_path,
    });
    if console.kind == "spice-direct" && tls_ports {
        shown["tls_port"] = console.tls_port.map_or(Value::Null, Value::from);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{access_url, known_kind};
    use crate::console::ConsoleConfig;

    #[test]
    fn a_vnc_console_has_the_configured_page_and_is_unavailable_without_vnc() {
        let on = ConsoleConfig { novnc_url: "https://cloud/vnc.html".to_owned(), ..ConsoleConfig::default() };
        assert_eq!(known_kind(&on, "vnc", "novnc").ok(), Some("novnc"));
        assert_eq!(access_url(on.url("novnc"), "novnc", "t"), "https://cloud/vnc.html?path=%3Ftoken%3Dt");
        let off = ConsoleConfig { vnc: false, ..on };
        assert!(known_kind(&off, "vnc", "novnc").is_err());
    }

    #[test]
    fn the_token_goes_into_the_path_parameter() {
        for (base, url) in [
            ("http://127.0.0.1:6080/vnc_auto.html", "http://127.0.0.1:6080/vnc_auto.html?path=%3Ftoken%3Dt"),
            ("http://h/v.html?autoconnect=1", "http://h/v.html?autoconnect=1&path=%3Ftoken%3Dt"),
            ("http://h/v.html?path=ws&a=b", "http://h/v.html?path=ws%3Ftoken%3Dt&a=b"),
        ] {
            assert_eq!(access_url(base, "novnc", "t"), url);
        }
        assert_eq!(access_url("ws://h/", "serial", "t"), "ws://h/?token=t");
        assert_eq!(access_url("http://h/p.html?path=c", "spice-html5", "t"), "http://h/p.html?path=c&token=t");
    }
}
