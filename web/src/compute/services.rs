//! The compute services.
//!
//! Each host is shown with a `nova-compute` service, because clients identify hosts by this service. The control plane
//! appears as the services `nova-scheduler` and `nova-conductor`, which clients expect.

use chronova_actors::host::{HostCommand, HostRoot};
use chronova_actors::operations::Queries;
use chronova_events::envelope::Timestamp;
use chronova_events::host::KnownHost;
use chronova_events::ids::HostId;
use serde_json::{Map, Value, json};

use super::bodies::hosts as bodies;
use super::reject;
use super::views::service::{SERVICE, ServiceView};
use super::{versions, zones};
use crate::answers::no_content;
use crate::compute::answers::hosts as answers;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, put};
use crate::schema::is_true;

pub(super) const ROUTES: &[Route] = &[
    get("services.index", "/os-services", handler!(index))
        .leader()
        .policy("os_compute_api:os-services:list")
        .query(bodies::services_index_query)
        .answers(answers::services),
    put("services.update", "/os-services/{id}", handler!(update))
        .policy("os_compute_api:os-services:update")
        .body(bodies::services_update_body)
        .answers(answers::service_updated),
    delete("services.delete", "/os-services/{id}", handler!(remove))
        .policy("os_compute_api:os-services:delete")
        .answers(no_content),
];

/// The control plane's own services. Their numbers come before those of the hosts.
const OWN: [&str; 2] = ["nova-conductor", "nova-scheduler"];
const COMPUTE: &str = "nova-compute";

/// The number of the service of the host with this number.
pub(super) fn number_of(host: u64) -> u64 {
    host + OWN.len() as u64
}

/// The later one of two times: the host's last heartbeat since start-up, and its last event in the log.
fn last_heartbeat(queries: &Queries, host: &KnownHost) -> Timestamp {
    let beat = queries.usage(host.id).map_or(0, |(_, at)| at);
    Timestamp(beat).max(host.updated_at)
}

fn of_host(queries: &Queries, host: &KnownHost) -> ServiceView {
    ServiceView {
        id: host.id,
        number: number_of(host.number),
        binary: COMPUTE,
        host: host.hostname.clone(),
        zone: zones::of_host(queries, &queries.views, host.id),
        enabled: host.enabled,
        disabled_reason: host.disabled_reason.clone(),
        up: host.answers(),
        forced_down: host.forced_down,
        updated_at: last_heartbeat(queries, host),
    }
}

/// The host of the control plane's own services.
pub(super) fn own_host(ctx: &Ctx) -> String {
    ctx.app.compute.config.host.clone().unwrap_or_else(|| "chronova".to_owned())
}

fn own(ctx: &Ctx, queries: &Queries) -> impl Iterator<Item = ServiceView> {
    let host = own_host(ctx);
    let zone = ctx.app.compute.config.internal_availability_zone.clone();
    let now = queries.clock.now();
    OWN.into_iter().zip(1..).map(move |(binary, number)| ServiceView {
        id: HostId::derive(uuid::Uuid::NAMESPACE_DNS, &format!("{binary}.{host}")),
        number,
        binary,
        host: host.clone(),
        zone: zone.clone(),
        enabled: true,
        disabled_reason: None,
        up: true,
        forced_down: false,
        updated_at: now,
    })
}

/// All services, in the order of their numbers.
pub(super) fn all(ctx: &Ctx) -> Result<Vec<ServiceView>, Fault> {
    let queries = ctx.queries()?;
    let mut services: Vec<ServiceView> = own(ctx, queries).collect();
    let hosts: Vec<KnownHost> = queries.views.hosts.read(|hosts| hosts.all().cloned().collect());
    services.extend(hosts.iter().map(|host| of_host(queries, host)));
    services.sort_by_key(|service| service.number);
    Ok(services)
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let (host, binary) = (ctx.query.last("host"), ctx.query.last("binary"));
    let listed: Vec<ServiceView> = all(&ctx)?
        .into_iter()
        .filter(|service| host.is_none_or(|host| host == service.host))
        .filter(|service| binary.is_none_or(|binary| binary == service.binary))
        .collect();
    Ok(Reply::ok(json!({"services": SERVICE.render_all(&listed, ctx.version)})))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    if versions::hosts_have_uuids(ctx.version) { update_by_id(&ctx).await } else { update_by_verb(&ctx).await }
}

async fn send(ctx: &Ctx, host: HostId, command: HostCommand) -> Result<(), Fault> {
    let (dispatch, permit) = (ctx.dispatch()?, ctx.permit()?);
    dispatch::send::<HostRoot>(dispatch, &permit, &host, command).await.map_err(|error| reject::host(host, error))?;
    dispatch.mirror_placement().await;
    Ok(())
}

/// Until 2.52: `PUT /os-services/enable` and similar paths, with host and binary in the body.
async fn update_by_verb(ctx: &Ctx) -> Result<Reply, Fault> {
    let text = |key: &str| ctx.body.get(key).and_then(Value::as_str);
    let (host, binary) = (text("host").unwrap_or_default(), text("binary").unwrap_or_default());
    let found = ctx.queries()?.views.hosts.read(|hosts| hosts.named(host).map(|host| host.id));
    let id = found
        .filter(|_| binary == COMPUTE)
        .ok_or_else(|| Fault::not_found(format!("Could not find binary {binary} on host {host}.")))?;
    let mut shown = Map::new();
    shown.insert("host".to_owned(), json!(host));
    shown.insert("binary".to_owned(), json!(binary));
    match ctx.param("id") {
        "enable" => {
            send(ctx, id, HostCommand::Enable).await?;
            shown.insert("status".to_owned(), json!("enabled"));
        }
        "disable" => {
            send(ctx, id, HostCommand::Disable { reason: None }).await?;
            shown.insert("status".to_owned(), json!("disabled"));
        }
        "disable-log-reason" => {
            let reason = text("disabled_reason").ok_or_else(|| Fault::bad_request("Missing disabled reason field"))?;
            send(ctx, id, HostCommand::Disable { reason: Some(reason.to_owned()) }).await?;
            shown.insert("status".to_owned(), json!("disabled"));
            shown.insert("disabled_reason".to_owned(), json!(reason));
        }
        "force-down" if versions::services_can_be_forced_down(ctx.version) => {
            let forced = ctx.body.get("forced_down").map(is_true);
            let forced = forced.ok_or_else(|| Fault::bad_request("Missing forced_down field"))?;
            send(ctx, id, HostCommand::ForceDown { forced }).await?;
            shown.insert("forced_down".to_owned(), json!(forced));
        }
        _ => return Err(Fault::not_found("Unknown action")),
    }
    Ok(Reply::ok(json!({"service": shown})))
}

/// From 2.53 on: `PUT /os-services/{uuid}`.
async fn update_by_id(ctx: &Ctx) -> Result<Reply, Fault> {
    let id: HostId =
        ctx.param("id").parse().map_err(|_| Fault::bad_request(format!("Invalid uuid {}", ctx.param("id"))))?;
    let service = all(ctx)?.into_iter().find(|service| service.id == id);
    let service = service.ok_or_else(|| Fault::not_found(format!("Service {id} could not be found.")))?;
    if service.binary != COMPUTE {
        return Err(Fault::bad_request(format!(
            "Updating a {} service is not supported. Only nova-compute services can be updated.",
            service.binary
        )));
    }
    let status = ctx.body.get("status").and_then(Value::as_str);
    let reason = ctx.body.get("disabled_reason").and_then(Value::as_str);
    let forced = ctx.body.get("forced_down").map(is_true);
    if reason.is_some() && status != Some("disabled") {
        return Err(Fault::bad_request("Specifying disabled_reason requires that status is 'disabled'."));
    }
    if status.is_none() && forced.is_none() {
        return Err(Fault::bad_request(
            "No updates were requested. Fields 'status' or 'forced_down' should be specified.",
        ));
    }
    if let Some(forced) = forced {
        send(ctx, id, HostCommand::ForceDown { forced }).await?;
    }
    match status {
        Some("enabled") => send(ctx, id, HostCommand::Enable).await?,
        Some(_) => send(ctx, id, HostCommand::Disable { reason: reason.map(str::to_owned) }).await?,
        None => {}
    }
    let service = all(ctx)?.into_iter().find(|service| service.id == id);
    let service = service.ok_or_else(|| reject::no_host(id))?;
    Ok(Reply::ok(json!({"service": SERVICE.render(&service, ctx.version)})))
}

/// The service that the path names, by number or, from 2.53 on, by UUID.
fn find(ctx: &Ctx) -> Result<ServiceView, Fault> {
    let text = ctx.param("id");
    let found = if versions::hosts_have_uuids(ctx.version) {
        let id: HostId = text.parse().map_err(|_| Fault::bad_request(format!("Invalid uuid {text}")))?;
        all(ctx)?.into_iter().find(|service| service.id == id)
    } else {
        let not_a_number = || Fault::bad_request("Invalid input received: id must be an integer");
        let number: i64 = text.trim().parse().map_err(|_| not_a_number())?;
        all(ctx)?.into_iter().find(|service| i64::try_from(service.number) == Ok(number))
    };
    found.ok_or_else(|| Fault::not_found(format!("Service {text} not found.")))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let service = find(&ctx)?;
    if service.binary != COMPUTE {
        return Err(Fault::bad_request(format!(
            "Deleting a {} service is not supported. Only nova-compute services can be deleted.",
            service.binary
        )));
    }
    let (dispatch, permit) = (ctx.dispatch()?, ctx.permit()?);
    let removed =
        dispatch::perform(dispatch, &permit, async |operations, meta| operations.remove_host(meta, service.id).await);
    removed.await.map_err(|reject| reject::remove_host(service.id, &service.host, reject))?;
    dispatch.mirror_placement().await;
    Ok(Reply::empty(204))
}
