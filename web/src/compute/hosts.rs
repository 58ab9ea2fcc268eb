//! `os-hosts`, until 2.42: the services by host, and each project's usage of a host. Chronova refuses requests to
//! switch a host on, off or into maintenance. The refusal is the one that Nova gives for its libvirt driver.

use std::collections::BTreeMap;

use chronova_events::host::KnownHost;
use chronova_events::ids::HostId;
use chronova_projections::servers::Servers;
use serde_json::{Value, json};

use super::bodies::hosts as bodies;
use super::{hypervisors, reject, services};
use crate::answers::refused;
use crate::compute::answers::hosts as answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get, put};

pub(super) const ROUTES: &[Route] = &[
    get("hosts.index", "/os-hosts", handler!(index))
        .until(2, 42)
        .policy("os_compute_api:os-hosts:list")
        .query(bodies::hosts_index_query)
        .answers(answers::hosts),
    get("hosts.show", "/os-hosts/{id}", handler!(show))
        .until(2, 42)
        .policy("os_compute_api:os-hosts:show")
        .answers(answers::host),
    put("hosts.update", "/os-hosts/{id}", handler!(unsupported))
        .until(2, 42)
        .policy("os_compute_api:os-hosts:update")
        .body(bodies::hosts_update_body)
        .answers(refused),
    get("hosts.reboot", "/os-hosts/{id}/reboot", handler!(unsupported))
        .until(2, 42)
        .policy("os_compute_api:os-hosts:reboot")
        .answers(refused),
    get("hosts.shutdown", "/os-hosts/{id}/shutdown", handler!(unsupported))
        .until(2, 42)
        .policy("os_compute_api:os-hosts:shutdown")
        .answers(refused),
    get("hosts.startup", "/os-hosts/{id}/startup", handler!(unsupported))
        .until(2, 42)
        .policy("os_compute_api:os-hosts:start")
        .answers(refused),
];

/// The services that are enabled.
async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let zone = ctx.query.last("zone").filter(|zone| !zone.is_empty());
    let services = services::all(&ctx)?;
    let listed = services.iter().filter(|service| service.enabled && zone.is_none_or(|zone| zone == service.zone));
    let listed: Vec<Value> = listed
        .map(|service| {
            let topic = service.binary.strip_prefix("nova-").unwrap_or(service.binary);
            json!({"host_name": service.host, "service": topic, "zone": service.zone})
        })
        .collect();
    Ok(Reply::ok(json!({"hosts": listed})))
}

fn find(ctx: &Ctx) -> Result<KnownHost, Fault> {
    let name = ctx.param("id");
    let host = ctx.views()?.hosts.read(|hosts| hosts.named(name).cloned());
    host.ok_or_else(|| reject::no_host(name))
}

async fn unsupported(ctx: Ctx) -> Result<Reply, Fault> {
    find(&ctx)?;
    Err(Fault::not_implemented("The requested functionality is not supported."))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let host = find(&ctx)?;
    let views = ctx.views()?;
    let load = hypervisors::load(views, &host, hypervisors::measured(&ctx, host.id)?.as_ref());
    let (all, by_project) = views.servers.read(|servers| promised(servers, host.id));
    let line = |project: &str, (cpu, memory, disk): (u64, u64, u64)| {
        json!({"resource": {
            "host": host.hostname, "project": project, "cpu": cpu, "memory_mb": memory, "disk_gb": disk,
        }})
    };
    let now = (load.vcpus_used, load.memory_used_mib, load.disk_used_gib);
    let total = line("(total)", (load.vcpus, load.memory_mib, load.disk_gib));
    let mut lines = vec![total, line("(used_now)", now), line("(used_max)", all)];
    lines.extend(by_project.iter().map(|(project, sum)| line(project, *sum)));
    Ok(Reply::ok(json!({"host": lines})))
}

/// The sums over the flavors of a host's servers, in total and by project. The sums are vCPUs, MiB of memory, and GiB
/// of disk.
type Promised = ((u64, u64, u64), BTreeMap<String, (u64, u64, u64)>);

fn promised(servers: &Servers, host: HostId) -> Promised {
    let (mut all, mut by_project) = Promised::default();
    for request in servers.on_host(host).filter_map(|row| row.server()).map(|server| &server.request) {
        let flavor = &request.flavor;
        let disk = u64::from(flavor.root_gib) + u64::from(flavor.ephemeral_gib);
        for sum in [&mut all, by_project.entry(request.project.to_string()).or_default()] {
            *sum = (sum.0 + u64::from(flavor.vcpus), sum.1 + flavor.memory_mib, sum.2 + disk);
        }
    }
    (all, by_project)
}
