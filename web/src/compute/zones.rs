//! Availability zones: groups of services. A compute host is in the zone of its host aggregates, or else in `[DEFAULT]
//! default_availability_zone`. The control plane's own services are in the internal zone, which the list without
//! details omits.

use std::collections::BTreeSet;

use chronova_actors::operations::Queries;
use chronova_events::ids::HostId;
use chronova_projections::views::Views;
use serde_json::{Map, Value, json};

use super::bodies::no_query;
use super::services;
use super::views::service::ServiceView;
use crate::compute::answers::hosts as answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[
    get("availability_zone.index", "/os-availability-zone", handler!(index))
        .policy("os_compute_api:os-availability-zone:list")
        .query(no_query)
        .answers(answers::zones),
    get("availability_zone.detail", "/os-availability-zone/detail", handler!(detail))
        // Only the leader knows the times of the services' last reports.
        .leader()
        .policy("os_compute_api:os-availability-zone:detail")
        .query(no_query)
        .answers(answers::zones_in_detail),
];

/// The zone of a host now, or at the moment of `views`.
pub(super) fn of_host(queries: &Queries, views: &Views, host: HostId) -> String {
    let own = views.host_aggregates.read(|aggregates| aggregates.zone_of(host).map(str::to_owned));
    own.unwrap_or_else(|| queries.server_options.availability_zone.clone())
}

/// Whether new servers may be requested in a zone. This needs at least one enabled host in the zone.
pub(super) fn takes_servers(queries: &Queries, zone: &str) -> bool {
    let enabled: Vec<HostId> =
        queries.views.hosts.read(|hosts| hosts.all().filter(|host| host.enabled).map(|host| host.id).collect());
    enabled.into_iter().any(|host| of_host(queries, &queries.views, host) == zone)
}

/// The zones in which a service is enabled, and the zones in which all services are disabled.
fn split(services: &[ServiceView]) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let zones = |enabled: bool| -> BTreeSet<&str> {
        services.iter().filter(|service| service.enabled == enabled).map(|service| service.zone.as_str()).collect()
    };
    let available = zones(true);
    let not = zones(false).difference(&available).copied().collect();
    (available, not)
}

fn shown(zone: &str, available: bool, hosts: &Value) -> Value {
    json!({"zoneName": zone, "zoneState": {"available": available}, "hosts": hosts})
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let services = services::all(&ctx)?;
    let (available, not) = split(&services);
    let internal = ctx.app.compute.config.internal_availability_zone.as_str();
    let list = |zones: BTreeSet<&str>, available: bool| -> Vec<Value> {
        zones.into_iter().filter(|zone| *zone != internal).map(|zone| shown(zone, available, &Value::Null)).collect()
    };
    let zones = [list(available, true), list(not, false)].concat();
    Ok(Reply::ok(json!({"availabilityZoneInfo": zones})))
}

async fn detail(ctx: Ctx) -> Result<Reply, Fault> {
    let services = services::all(&ctx)?;
    let (available, not) = split(&services);
    let available = available.into_iter().map(|zone| shown(zone, true, &hosts(&services, zone)));
    let zones: Vec<Value> = available.chain(not.into_iter().map(|zone| shown(zone, false, &Value::Null))).collect();
    Ok(Reply::ok(json!({"availabilityZoneInfo": zones})))
}

/// The enabled services of a zone, by host.
fn hosts(services: &[ServiceView], zone: &str) -> Value {
    let mut hosts = Map::new();
    for service in services.iter().filter(|service| service.zone == zone && service.enabled) {
        let host = hosts.entry(service.host.clone()).or_insert_with(|| json!({}));
        host[service.binary] = json!({
            "available": service.up,
            "active": true,
            "updated_at": service.updated_at.iso_micros(),
        });
    }
    Value::Object(hosts)
}
