//! The hypervisors: hosts with their resources and usage.
//!
//! The used amounts are the claims and the reserved amounts in the placement ledger. The numbers of servers come from
//! the read model of servers.

use chronova_actors::operations::Queries;
use chronova_events::host::KnownHost;
use chronova_events::ids::{HostId, ProviderId};
use chronova_events::instance::status;
use chronova_hypervisor::guest::HostUsage;
use chronova_projections::hosts::Hosts;
use chronova_projections::views::Views;
use serde_json::{Map, Value, json};

use super::bodies::hosts as bodies;
use super::views::hypervisor::{BRIEF, HYPERVISOR, HostLoad, HypervisorView};
use super::{paging, reject, services, versions};
use crate::compute::answers::hosts as answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::fields::FieldTable;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};
use crate::schema::is_true;

pub(super) const ROUTES: &[Route] = &[
    get("hypervisors.index", "/os-hypervisors", handler!(index))
        .leader()
        .policy("os_compute_api:os-hypervisors:list")
        .query(bodies::hypervisors_index_query)
        .as_of()
        .answers(answers::hypervisors),
    get("hypervisors.detail", "/os-hypervisors/detail", handler!(detail))
        .leader()
        .policy("os_compute_api:os-hypervisors:list-detail")
        .query(bodies::hypervisors_index_query)
        .as_of()
        .answers(answers::hypervisors_in_detail),
    get("hypervisors.statistics", "/os-hypervisors/statistics", handler!(statistics))
        .leader()
        .until(2, 87)
        .policy("os_compute_api:os-hypervisors:statistics")
        .answers(answers::statistics),
    get("hypervisors.show", "/os-hypervisors/{id}", handler!(show))
        .leader()
        .policy("os_compute_api:os-hypervisors:show")
        .query(bodies::hypervisors_show_query)
        .as_of()
        .answers(answers::hypervisor),
    get("hypervisors.uptime", "/os-hypervisors/{id}/uptime", handler!(uptime))
        .until(2, 87)
        .leader()
        .policy("os_compute_api:os-hypervisors:uptime")
        .answers(answers::uptime),
    get("hypervisors.search", "/os-hypervisors/{id}/search", handler!(search))
        .until(2, 52)
        .policy("os_compute_api:os-hypervisors:search")
        .answers(answers::hypervisors_found),
    get("hypervisors.servers", "/os-hypervisors/{id}/servers", handler!(servers))
        .until(2, 52)
        .policy("os_compute_api:os-hypervisors:servers")
        .answers(answers::hypervisors_found),
];

/// Measurements from the host's heartbeats. Measurements are not in the log, so answers about the past lack them.
pub(super) fn measured(ctx: &Ctx, host: HostId) -> Result<Option<HostUsage>, Fault> {
    let usage = ctx.queries()?.usage(host).filter(|_| !ctx.is_past());
    Ok(usage.map(|(usage, _)| usage))
}

pub(super) fn load(views: &Views, host: &KnownHost, usage: Option<&HostUsage>) -> HostLoad {
    let has = &host.capabilities;
    let used = |class: &str| {
        views.placement.read(|view| {
            let provider = view.ledger.providers.get(&ProviderId(host.id.0))?;
            provider.inventories.get(class).map(|line| (line.used, line.inventory.reserved))
        })
    };
    let sum = |class: &str| used(class).map_or(0, |(used, reserved)| used + reserved);
    let (servers, busy) = views.servers.read(|servers| {
        servers.on_host(host.id).filter_map(|row| row.instance.alive()).fold((0, 0), |(all, busy), server| {
            (all + 1, busy + u64::from(status::of_alive(server).task_state.is_some()))
        })
    });
    let disk_used = sum("DISK_GB");
    HostLoad {
        vcpus: u64::from(has.vcpus),
        vcpus_used: sum("VCPU"),
        memory_mib: has.memory_mib,
        memory_used_mib: sum("MEMORY_MB"),
        disk_gib: has.disk_gib,
        disk_used_gib: disk_used,
        disk_free_gib: usage.map_or_else(|| has.disk_gib.saturating_sub(disk_used), |usage| usage.disk_free_gib),
        servers,
        busy,
    }
}

/// The uptime in the form of `uptime(1)`, if the host reports it.
fn uptime_of(usage: Option<&HostUsage>) -> Option<String> {
    let seconds = usage?.uptime_seconds?;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    Some(match days {
        0 => format!("up {hours:>2}:{minutes:02}"),
        1 => format!("up 1 day, {hours:>2}:{minutes:02}"),
        _ => format!("up {days} days, {hours:>2}:{minutes:02}"),
    })
}

fn servers_of(queries: &Queries, views: &Views, host: HostId) -> Vec<(String, String)> {
    views.servers.read(|servers| {
        servers
            .on_host(host)
            .filter_map(|row| {
                Some((
                    queries.server_options.domain_name(row.id, row.instance.alive()?.request.number),
                    row.id.to_string(),
                ))
            })
            .collect()
    })
}

fn view(ctx: &Ctx, host: KnownHost, with_servers: bool) -> Result<HypervisorView, Fault> {
    let (queries, views) = (ctx.queries()?, ctx.views()?);
    let usage = measured(ctx, host.id)?;
    let even_none = versions::hypervisors_show_no_servers_too(ctx.version);
    let servers =
        Some(servers_of(queries, views, host.id)).filter(|list| with_servers && (even_none || !list.is_empty()));
    let uptime = versions::hypervisors_show_uptime(ctx.version).then(|| uptime_of(usage.as_ref())).flatten();
    let service_number = services::number_of(host.number);
    Ok(HypervisorView { load: load(views, &host, usage.as_ref()), servers, uptime, service_number, host })
}

fn with_servers(ctx: &Ctx) -> bool {
    ctx.query.first("with_servers").is_some_and(|text| is_true(&json!(text)))
}

/// The numbers and ids of hosts, in the order of their numbers. A host's capabilities are long, so a page copies only
/// its own hosts.
fn keys(ctx: &Ctx, admits: impl Fn(&KnownHost) -> bool) -> Result<Vec<(u64, HostId)>, Fault> {
    let mut keys: Vec<(u64, HostId)> = ctx
        .views()?
        .hosts
        .read(|hosts| hosts.all().filter(|host| admits(host)).map(|host| (host.number, host.id)).collect());
    keys.sort_unstable();
    Ok(keys)
}

/// The hosts of these keys that still exist, in the order of the keys.
fn hosts_of(ctx: &Ctx, keys: &[(u64, HostId)]) -> Result<Vec<KnownHost>, Fault> {
    let found = |hosts: &Hosts| keys.iter().filter_map(|(_, id)| hosts.get(*id).cloned()).collect();
    Ok(ctx.views()?.hosts.read(found))
}

/// Whether `text` is the host's id in this microversion: a number, or a UUID from 2.53 on.
fn is(ctx: &Ctx, (number, id): (u64, HostId), text: &str) -> bool {
    if versions::hosts_have_uuids(ctx.version) { text.parse() == Ok(id) } else { number.to_string() == text }
}

fn find(ctx: &Ctx) -> Result<KnownHost, Fault> {
    let id = ctx.param("id");
    if versions::hosts_have_uuids(ctx.version) && id.parse::<HostId>().is_err() {
        return Err(Fault::bad_request(format!("Invalid uuid {id}")));
    }
    let key = keys(ctx, |_| true)?.into_iter().find(|key| is(ctx, *key, id));
    hosts_of(ctx, key.as_slice())?.pop().ok_or_else(|| reject::no_host(id))
}

fn named(ctx: &Ctx, pattern: &str) -> Result<Vec<(u64, HostId)>, Fault> {
    let found = keys(ctx, |host| host.hostname.contains(pattern))?;
    if found.is_empty() {
        Err(Fault::not_found(format!("No hypervisor matching '{pattern}' could be found.")))
    } else {
        Ok(found)
    }
}

fn list(ctx: &Ctx, collection: &str, table: &FieldTable<HypervisorView>) -> Result<Reply, Fault> {
    let hosts = match ctx.query.first("hypervisor_hostname_pattern") {
        Some(_) if ctx.query.has("limit") || ctx.query.has("marker") => {
            return Err(Fault::bad_request(
                "Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported.",
            ));
        }
        Some(pattern) => named(ctx, pattern)?,
        None => keys(ctx, |_| true)?,
    };
    let page = paging::cut(ctx, hosts, |key, marker| is(ctx, *key, marker))?;
    let marker = page
        .items
        .last()
        .map(|(number, id)| if versions::hosts_have_uuids(ctx.version) { id.to_string() } else { number.to_string() });
    let more = page.more && ctx.query.has("limit");
    let servers = with_servers(ctx);
    let shown = hosts_of(ctx, &page.items)?;
    let views: Vec<HypervisorView> =
        shown.into_iter().map(|host| view(ctx, host, servers)).collect::<Result<_, _>>()?;
    let mut reply = Map::new();
    reply.insert("hypervisors".to_owned(), table.render_all(&views, ctx.version));
    if let (true, Some(marker)) = (more, marker) {
        paging::link(ctx, &mut reply, "hypervisors_links", collection, &marker);
    }
    Ok(Reply::ok(Value::Object(reply)))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    list(&ctx, "os-hypervisors", &BRIEF)
}

async fn detail(ctx: Ctx) -> Result<Reply, Fault> {
    list(&ctx, "os-hypervisors/detail", &HYPERVISOR)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let view = view(&ctx, find(&ctx)?, with_servers(&ctx))?;
    Ok(Reply::ok(json!({"hypervisor": HYPERVISOR.render(&view, ctx.version)})))
}

async fn uptime(ctx: Ctx) -> Result<Reply, Fault> {
    let host = find(&ctx)?;
    let uptime = uptime_of(measured(&ctx, host.id)?.as_ref())
        .ok_or_else(|| Fault::not_implemented("The host does not report its uptime."))?;
    let mut shown = BRIEF.render_map(&view(&ctx, host, false)?, ctx.version);
    shown.insert("uptime".to_owned(), json!(uptime));
    Ok(Reply::ok(json!({"hypervisor": shown})))
}

fn brief(ctx: &Ctx, with_servers: bool) -> Result<Reply, Fault> {
    let found = hosts_of(ctx, &named(ctx, ctx.param("id"))?)?;
    let views: Vec<HypervisorView> =
        found.into_iter().map(|host| view(ctx, host, with_servers)).collect::<Result<_, _>>()?;
    Ok(Reply::ok(json!({"hypervisors": BRIEF.render_all(&views, ctx.version)})))
}

async fn search(ctx: Ctx) -> Result<Reply, Fault> {
    brief(&ctx, false)
}

async fn servers(ctx: Ctx) -> Result<Reply, Fault> {
    brief(&ctx, true)
}

/// As in Nova, the sums over the hosts whose compute service is enabled.
async fn statistics(ctx: Ctx) -> Result<Reply, Fault> {
    let loads: Vec<HostLoad> = hosts_of(&ctx, &keys(&ctx, |host| host.enabled)?)?
        .iter()
        .map(|host| Ok(load(ctx.views()?, host, measured(&ctx, host.id)?.as_ref())))
        .collect::<Result<_, Fault>>()?;
    Ok(Reply::ok(json!({"hypervisor_statistics": total(&loads)})))
}

fn total(loads: &[HostLoad]) -> Value {
    let sum = |of: fn(&HostLoad) -> u64| loads.iter().map(of).sum::<u64>();
    json!({
        "count": loads.len(),
        "vcpus": sum(|l| l.vcpus),
        "memory_mb": sum(|l| l.memory_mib),
        "local_gb": sum(|l| l.disk_gib),
        "vcpus_used": sum(|l| l.vcpus_used),
        "memory_mb_used": sum(|l| l.memory_used_mib),
        "local_gb_used": sum(|l| l.disk_used_gib),
        "free_ram_mb": sum(|l| l.memory_mib.saturating_sub(l.memory_used_mib)),
        "free_disk_gb": sum(|l| l.disk_gib.saturating_sub(l.disk_used_gib)),
        "current_workload": sum(|l| l.busy),
        "running_vms": sum(|l| l.servers),
        "disk_available_least": sum(|l| l.disk_free_gib),
    })
}
