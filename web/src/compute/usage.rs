//! `os-simple-tenant-usage`: the sizes of servers and the hours of their existence, from the times in their rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::NaiveDateTime;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{InstanceId, ProjectId};
use chronova_events::instance::{Alive, status};
use chronova_projections::servers::{ServerRow, Servers};
use chronova_projections::views::View;
use serde_json::{Map, Value, json};

use super::bodies::quotas as bodies;
use super::{paging, versions};
use crate::compute::answers::quotas as answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[
    get("simple_tenant_usage.index", "/os-simple-tenant-usage", handler!(index))
        .policy("os_compute_api:os-simple-tenant-usage:list")
        .query(bodies::simple_tenant_usage_index_query)
        .answers(answers::usages),
    get("simple_tenant_usage.show", "/os-simple-tenant-usage/{id}", handler!(show))
        .policy_on_target("os_compute_api:os-simple-tenant-usage:show")
        .query(bodies::simple_tenant_usage_show_query)
        .answers(answers::usage),
];

/// The start and the end of the requested period.
#[derive(Debug, Clone, Copy)]
struct UsagePeriod {
    start: Timestamp,
    stop: Timestamp,
    now: Timestamp,
}

impl UsagePeriod {
    fn read(ctx: &Ctx) -> Result<Self, Fault> {
        let now = ctx.queries()?.clock.now();
        let (start, stop) = (instant(ctx.query.last("start"), now)?, instant(ctx.query.last("end"), now)?);
        if start > stop {
            return Err(Fault::bad_request("Invalid start time. The start time cannot occur after the end time."));
        }
        Ok(Self { start, stop, now })
    }

    /// The hours within the period from the server's launch to its end.
    #[allow(clippy::cast_precision_loss, reason = "hours of a cloud's life are far below 2^53 microseconds")]
    fn hours(&self, server: &Alive) -> f64 {
        let Some(began) = server.launched_at else { return 0.0 };
        let ended = server.terminated_at.unwrap_or(self.now).min(self.stop);
        (ended.0 - began.max(self.start).0).max(0) as f64 / 3_600e6
    }

    fn touches(&self, server: &Alive) -> bool {
        server.launched_at.is_some_and(|at| at <= self.stop) && server.terminated_at.is_none_or(|at| at >= self.start)
    }
}

fn instant(text: Option<&str>, now: Timestamp) -> Result<Timestamp, Fault> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(now) };
    ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"]
        .iter()
        .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
        .map(|at| Timestamp(at.and_utc().timestamp_micros()))
        .ok_or_else(|| Fault::bad_request(format!("Datetime is in invalid format: {text}")))
}

fn server_usage(row: &ServerRow, server: &Alive, period: &UsagePeriod) -> Value {
    let flavor = &server.request.flavor;
    let ended = server.terminated_at;
    let uptime = server.launched_at.map_or(0, |began| (ended.unwrap_or(period.now).0 - began.0).max(0) / 1_000_000);
    let state = match (&ended, status::of(&row.instance)) {
        (Some(_), _) => "terminated",
        (None, Some(shown)) => shown.vm_state,
        (None, None) => "",
    };
    json!({
        "instance_id": row.id,
        "name": server.request.name,
        "hours": period.hours(server),
        "flavor": flavor.name,
        "vcpus": flavor.vcpus,
        "memory_mb": flavor.memory_mib,
        "local_gb": flavor.root_gib + flavor.ephemeral_gib,
        "tenant_id": server.request.project,
        "started_at": server.launched_at.map(Timestamp::iso_micros),
        "ended_at": ended.map(Timestamp::iso_micros),
        "state": state,
        "uptime": uptime,
    })
}

/// The usage of one project by these servers.
fn project_usage(project: &ProjectId, rows: &[Arc<ServerRow>], period: &UsagePeriod, detailed: bool) -> Value {
    let (mut hours, mut cores, mut memory, mut disk) = (0.0, 0.0, 0.0, 0.0);
    let mut servers = Vec::new();
    for (row, server) in rows.iter().filter_map(|row| row.server().map(|server| (row, server))) {
        let (flavor, there) = (&server.request.flavor, period.hours(server));
        hours += there;
        cores += there * f64::from(flavor.vcpus);
        memory += there * f64::from(u32::try_from(flavor.memory_mib).unwrap_or(u32::MAX));
        disk += there * f64::from(flavor.root_gib + flavor.ephemeral_gib);
        if detailed {
            servers.push(server_usage(row, server, period));
        }
    }
    let mut shown = json!({
        "total_hours": hours,
        "total_local_gb_usage": disk,
        "total_memory_mb_usage": memory,
        "total_vcpus_usage": cores,
        "tenant_id": project,
        "start": period.start.iso_micros(),
        "stop": period.stop.iso_micros(),
    });
    if detailed {
        shown["server_usages"] = Value::Array(servers);
    }
    shown
}

/// The number of servers that are read under one lock. Other requests wait for the lock meanwhile.
const READ_AT_ONCE: usize = 1_024;

/// The servers of the period, in the order of their ids, which is the order of the pages. Reads the servers of the
/// project, or of all projects, from the marker on, until the page is full.
fn rows(ctx: &Ctx, period: &UsagePeriod, of: Option<&ProjectId>) -> Result<paging::ResultPage<Arc<ServerRow>>, Fault> {
    let servers = &ctx.queries()?.views.servers;
    let paged = versions::usage_comes_in_pages(ctx.version);
    let (limit, mut after) = match paged {
        true => (paging::limit(ctx)?, marker(ctx, servers, of)?),
        // In versions without pages the list ends where the first page would end, as in Nova.
        false => (usize::try_from(ctx.app.config.max_limit).unwrap_or(usize::MAX), None),
    };
    let keep = |row: &Arc<ServerRow>| row.server().is_some_and(|server| period.touches(server));
    let mut items = Vec::new();
    while items.len() < limit {
        let read: Vec<_> =
            servers.read(|servers| servers.ever(of, after).take(READ_AT_ONCE).cloned().collect::<Vec<_>>());
        let ended = read.len() < READ_AT_ONCE;
        after = read.last().map(|row| row.id);
        items.extend(read.into_iter().filter(keep).take(limit - items.len()));
        if ended {
            break;
        }
    }
    let more = paged && limit > 0 && items.len() == limit;
    Ok(paging::ResultPage { items, more })
}

/// The server after which the page begins. As in Nova, this server need not exist in the period. If the answer is about
/// one project, the server must belong to that project.
fn marker(ctx: &Ctx, servers: &View<Servers>, of: Option<&ProjectId>) -> Result<Option<InstanceId>, Fault> {
    let Some(text) = ctx.query.first("marker") else { return Ok(None) };
    let is_of =
        |row: &&Arc<ServerRow>| row.server().is_some_and(|server| of.is_none_or(|of| server.request.project == *of));
    let known = text.parse().ok().filter(|id| servers.read(|servers| servers.get(*id).is_some_and(|row| is_of(&row))));
    known.map(Some).ok_or_else(|| super::reject::no_marker(text))
}

fn link(
    ctx: &Ctx,
    reply: &mut Map<String, Value>,
    name: &str,
    collection: &str,
    page: &paging::ResultPage<Arc<ServerRow>>,
) {
    if let (true, Some(last)) = (page.more, page.items.last()) {
        paging::link(ctx, reply, name, collection, &last.id.to_string());
    }
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let period = UsagePeriod::read(&ctx)?;
    let detailed = ctx.query.last("detailed") == Some("1");
    let page = rows(&ctx, &period, None)?;
    let mut by_project: BTreeMap<ProjectId, Vec<Arc<ServerRow>>> = BTreeMap::new();
    for row in &page.items {
        if let Some(server) = row.server() {
            by_project.entry(server.request.project.clone()).or_default().push(Arc::clone(row));
        }
    }
    let usages: Vec<Value> =
        by_project.iter().map(|(project, rows)| project_usage(project, rows, &period, detailed)).collect();
    let mut reply = Map::new();
    reply.insert("tenant_usages".to_owned(), Value::Array(usages));
    link(&ctx, &mut reply, "tenant_usages_links", "os-simple-tenant-usage", &page);
    Ok(Reply::ok(Value::Object(reply)))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let project = ProjectId::new(ctx.param("id"));
    ctx.authorize(&PolicyTarget::default().project(&project))?;
    let period = UsagePeriod::read(&ctx)?;
    let page = rows(&ctx, &period, Some(&project))?;
    let usage = if page.items.is_empty() { json!({}) } else { project_usage(&project, &page.items, &period, true) };
    let mut reply = Map::new();
    reply.insert("tenant_usage".to_owned(), usage);
    link(&ctx, &mut reply, "tenant_usage_links", &format!("os-simple-tenant-usage/{project}"), &page);
    Ok(Reply::ok(Value::Object(reply)))
}
