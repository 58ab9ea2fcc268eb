//! The requests of a comparison.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::pages::ComparedList;
use super::{ComparedRequest, ComparedService, NovaComparison};
use crate::commands::CommandFailure;
use crate::nova::address::encoded;

/// The microversions that are compared, besides Nova's newest: the first, and the newest of each release from Liberty to
/// Yoga.
const COMPUTE_VERSIONS: [(u32, u32); 13] = [
    (2, 1),
    (2, 12),
    (2, 25),
    (2, 38),
    (2, 42),
    (2, 53),
    (2, 60),
    (2, 65),
    (2, 72),
    (2, 79),
    (2, 87),
    (2, 88),
    (2, 90),
];
/// The newest microversions that are compared.
const NEWEST_COMPUTE: (u32, u32) = (2, 93);
const NEWEST_PLACEMENT: (u32, u32) = (1, 39);
/// From this version on, an administrator can list the key pairs of other users.
const KEYPAIRS_OF_OTHERS: (u32, u32) = (2, 10);

const SERVERS: ComparedList = ComparedList { key: "servers", marker: Some("/id") };
const FLAVORS: ComparedList = ComparedList { key: "flavors", marker: Some("/id") };
const GROUPS: ComparedList = ComparedList { key: "server_groups", marker: None };
const HYPERVISORS: ComparedList = ComparedList { key: "hypervisors", marker: Some("/id") };
const MIGRATIONS: ComparedList = ComparedList { key: "migrations", marker: Some("/uuid") };
const KEYPAIRS: ComparedList = ComparedList { key: "keypairs", marker: Some("/keypair/name") };
const ACTIONS: ComparedList = ComparedList { key: "instanceActions", marker: Some("/request_id") };

fn pair(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn shown((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

/// Asks both sides everything. The newest version comes first, because its list of servers has the ids that the
/// requests at older versions name.
pub(super) async fn ask_all(comparison: &mut NovaComparison) -> Result<(), CommandFailure> {
    let newest = newest(comparison, ComparedService::Compute)?.min(NEWEST_COMPUTE);
    let all = servers(comparison, &shown(newest)).await?;
    let ids: Vec<String> = texts(&all, "id").collect();
    let users: BTreeSet<String> = texts(&all, "user_id").collect();
    lists(comparison, newest, &users).await?;
    each_server(comparison, newest, &ids).await?;
    for older in COMPUTE_VERSIONS.into_iter().filter(|older| *older < newest) {
        servers(comparison, &shown(older)).await?;
        lists(comparison, older, &users).await?;
        each_server(comparison, older, &ids).await?;
    }
    if comparison.nova.placement.is_some() {
        placement(comparison, &ids).await?;
    }
    Ok(())
}

/// The values of a field of each server, in the form of an address.
fn texts<'a>(servers: &'a [Value], field: &'a str) -> impl Iterator<Item = String> + use<'a> {
    servers.iter().filter_map(move |server| server[field].as_str()).map(encoded)
}

/// Compares every list except the list of servers.
async fn lists(
    comparison: &mut NovaComparison,
    at: (u32, u32),
    users: &BTreeSet<String>,
) -> Result<(), CommandFailure> {
    let version = shown(at);
    list(comparison, "flavors/detail", "/flavors/detail?is_public=None", &version, FLAVORS).await?;
    list(comparison, "os-server-groups", "/os-server-groups?all_projects=true", &version, GROUPS).await?;
    list(comparison, "os-hypervisors/detail", "/os-hypervisors/detail", &version, HYPERVISORS).await?;
    compute(comparison, "os-aggregates", "/os-aggregates", &version).await?;
    list(comparison, "os-migrations", "/os-migrations", &version, MIGRATIONS).await?;
    let path = "/os-services".to_owned();
    let request =
        ComparedRequest { service: ComparedService::Compute, name: "os-services", path, version: version.clone() };
    comparison.ask_as(request, |answer| services_by_name(&answer)).await?;
    for user in users.iter().filter(|_| at >= KEYPAIRS_OF_OTHERS) {
        list(comparison, "os-keypairs", &format!("/os-keypairs?user_id={user}"), &version, KEYPAIRS).await?;
    }
    Ok(())
}

async fn each_server(comparison: &mut NovaComparison, at: (u32, u32), ids: &[String]) -> Result<(), CommandFailure> {
    let version = shown(at);
    for id in ids {
        compute(comparison, "servers/{id}", &format!("/servers/{id}"), &version).await?;
        let path = format!("/servers/{id}/os-instance-actions");
        list(comparison, "os-instance-actions", &path, &version, ACTIONS).await?;
        compute(comparison, "os-volume_attachments", &format!("/servers/{id}/os-volume_attachments"), &version).await?;
    }
    Ok(())
}

async fn placement(comparison: &mut NovaComparison, servers: &[String]) -> Result<(), CommandFailure> {
    let version = shown(newest(comparison, ComparedService::Placement)?.min(NEWEST_PLACEMENT));
    let ask =
        |name, path| ComparedRequest { service: ComparedService::Placement, name, path, version: version.clone() };
    let all = comparison.ask(ask("placement/resource_providers", "/resource_providers".to_owned())).await?;
    let all = all.unwrap_or_default();
    let ids = all["resource_providers"].as_array().into_iter().flatten().filter_map(|one| one["uuid"].as_str());
    for id in ids.map(encoded) {
        for (name, part) in [
            ("placement/inventories", "inventories"),
            ("placement/traits", "traits"),
            ("placement/aggregates", "aggregates"),
            ("placement/usages", "usages"),
        ] {
            comparison.ask(ask(name, format!("/resource_providers/{id}/{part}"))).await?;
        }
    }
    for id in servers {
        comparison.ask(ask("placement/allocations", format!("/allocations/{id}"))).await?;
    }
    Ok(())
}

async fn compute(
    comparison: &mut NovaComparison,
    name: &'static str,
    path: &str,
    version: &str,
) -> Result<Option<Value>, CommandFailure> {
    let (path, version) = (path.to_owned(), version.to_owned());
    comparison.ask(ComparedRequest { service: ComparedService::Compute, name, path, version }).await
}

async fn list(
    comparison: &mut NovaComparison,
    name: &'static str,
    path: &str,
    version: &str,
    list: ComparedList,
) -> Result<Option<Value>, CommandFailure> {
    let (path, version) = (path.to_owned(), version.to_owned());
    let request = ComparedRequest { service: ComparedService::Compute, name, path, version };
    comparison.ask_list(request, list).await
}

/// Compares all servers, in the order of their ids. Returns Nova's.
async fn servers(comparison: &mut NovaComparison, version: &str) -> Result<Vec<Value>, CommandFailure> {
    let path = "/servers/detail?all_tenants=1&sort_key=uuid&sort_dir=asc";
    let all = list(comparison, "servers/detail", path, version, SERVERS).await?;
    Ok(match all.and_then(|mut all| all.get_mut("servers").map(Value::take)) {
        Some(Value::Array(servers)) => servers,
        _ => Vec::new(),
    })
}

/// The services by binary and host. Their ids cannot be compared, because they are not Nova's.
fn services_by_name(answer: &Value) -> Value {
    let name =
        |one: &Value| format!("{}:{}", one["binary"].as_str().unwrap_or("?"), one["host"].as_str().unwrap_or("?"));
    let services = answer["services"].as_array().into_iter().flatten();
    services.map(|one| (name(one), one.clone())).collect::<Map<_, _>>().into()
}

/// The newest microversion of Nova or Placement.
fn newest(comparison: &NovaComparison, service: ComparedService) -> Result<(u32, u32), CommandFailure> {
    let oldest = if service == ComparedService::Compute { "2.1" } else { "1.0" };
    let (status, root) = comparison.nova.get(service, "/", oldest)?;
    // Compute's root has one version. Placement's root has a list with one version.
    let found = root["version"]["version"].as_str().or(root["versions"][0]["max_version"].as_str());
    found.and_then(pair).ok_or_else(|| {
        CommandFailure::Usage(format!(
            "the address of {} is wrong: its root answers {status} without a version",
            service.word()
        ))
    })
}
