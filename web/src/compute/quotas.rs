//! Quotas, limits and quota classes.
//!
//! Limits are kept per project; `user_id` is accepted and ignored, as with unified limits. Only servers, vCPUs, memory
//! and server groups have a usage here. All other resources show their limit and a usage of 0. With `[quota] driver =
//! nova.quota.NoopQuotaDriver`, every limit is shown as -1. Limits that are set are stored, and apply again when quotas
//! are enforced.

use std::collections::BTreeMap;

use chronova_actors::quota::{DefaultLimits, QuotaCommand, QuotaRoot};
use chronova_actors::quota_class::{QuotaClassCommand, QuotaClassRoot, QuotaClassesId};
use chronova_events::ids::ProjectId;
use chronova_events::quota::Quota;
use chronova_events::quota_class;
use serde_json::{Map, Value, json};

use super::bodies::{no_query, quotas as bodies};
use super::versions;
use crate::answers::accepted;
use crate::compute::answers::quotas as answers;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::{Permit, PolicyTarget};
use crate::reply::Reply;
use crate::route::{Route, delete, get, put};
use crate::schema::to_integer;

pub(super) const ROUTES: &[Route] = &[
    get("quota_sets.show", "/os-quota-sets/{id}", handler!(show))
        .policy_on_target("os_compute_api:os-quota-sets:show")
        .query(bodies::quota_sets_show_query)
        .answers(answers::show),
    get("quota_sets.detail", "/os-quota-sets/{id}/detail", handler!(detail))
        .policy_on_target("os_compute_api:os-quota-sets:detail")
        .query(bodies::quota_sets_show_query)
        .answers(answers::detail),
    get("quota_sets.defaults", "/os-quota-sets/{id}/defaults", handler!(defaults))
        .policy_on_target("os_compute_api:os-quota-sets:defaults")
        .query(bodies::quota_sets_defaults_query)
        .answers(answers::show),
    put("quota_sets.update", "/os-quota-sets/{id}", handler!(update))
        .policy_on_target("os_compute_api:os-quota-sets:update")
        .body(bodies::quota_sets_update_body)
        .query(bodies::quota_sets_show_query)
        .answers(answers::update),
    delete("quota_sets.delete", "/os-quota-sets/{id}", handler!(reset))
        .policy_on_target("os_compute_api:os-quota-sets:delete")
        .query(bodies::quota_sets_show_query)
        .answers(accepted),
    get("quota_classes.show", "/os-quota-class-sets/{id}", handler!(class))
        .policy_on_target("os_compute_api:os-quota-class-sets:show")
        .query(no_query)
        .answers(answers::class),
    put("quota_classes.update", "/os-quota-class-sets/{id}", handler!(update_class))
        .policy_on_target("os_compute_api:os-quota-class-sets:update")
        .body(bodies::quota_classes_update_body)
        .answers(answers::update_class),
    get("limits.index", "/limits", handler!(limits))
        .policy("os_compute_api:limits")
        .query(bodies::limits_index_query)
        .answers(answers::limits),
];

const NETWORK: &[&str] = &["fixed_ips", "floating_ips", "security_group_rules", "security_groups"];
const FILES: &[&str] = &["injected_file_content_bytes", "injected_file_path_bytes", "injected_files"];
const GROUPS: &[&str] = &["server_group_members", "server_groups"];

/// The limit of a project for one resource; -1 means unlimited.
pub(super) fn limit(ctx: &Ctx, project: &ProjectId, resource: &str) -> Result<i64, Fault> {
    // Only the limit leaves the read model, because a quota has an entry for each server of the project.
    let own = ctx.queries()?.views.quotas.read(|view| view.by_project.get(project)?.limits.get(resource).copied());
    own.filter(|_| ctx.app.compute.config.enforces_quota).map_or_else(|| default(ctx, resource), Ok)
}

/// The default limit of a resource. If the class `default` has no limit for the resource, this is the configured limit.
pub(super) fn default(ctx: &Ctx, resource: &str) -> Result<i64, Fault> {
    let of_class = class_of(ctx, quota_class::DEFAULT)?.get(resource).copied();
    Ok(of_class.unwrap_or_else(|| ctx.app.compute.config.limit(resource)))
}

/// The default limits of all resources, except those that the network service limits.
pub(crate) fn default_of_each(ctx: &Ctx) -> Result<BTreeMap<&'static str, i64>, Fault> {
    let names = ctx.app.compute.config.quota.keys().copied().filter(|name| !NETWORK.contains(name));
    names.map(|name| Ok((name, default(ctx, name)?))).collect()
}

/// The limits that are set for a project.
pub(crate) fn own_limits(ctx: &Ctx, project: &ProjectId) -> Result<BTreeMap<String, i64>, Fault> {
    let views = &ctx.queries()?.views;
    let limits = views.quotas.read(|view| view.by_project.get(project).map(|quota| quota.limits.clone()));
    Ok(limits.unwrap_or_default())
}

/// The limits that the quota aggregate enforces for a project without limits of its own.
pub(super) fn default_limits(ctx: &Ctx) -> Result<DefaultLimits, Fault> {
    Ok(DefaultLimits {
        instances: default(ctx, "instances")?,
        cores: default(ctx, "cores")?,
        memory_mib: default(ctx, "ram")?,
        enforced: ctx.app.compute.config.enforces_quota,
    })
}

/// The limits that are set for a class. Empty if quotas are not enforced.
fn class_of(ctx: &Ctx, class: &str) -> Result<BTreeMap<String, i64>, Fault> {
    let own = ctx.queries()?.views.quotas.read(|view| view.classes.by_name.get(class).cloned());
    Ok(own.filter(|_| ctx.app.compute.config.enforces_quota).unwrap_or_default())
}

/// A project's limits and usage.
#[derive(Default)]
struct ProjectQuotaState {
    limits: BTreeMap<String, i64>,
    servers: u64,
    cores: u64,
    memory_mib: u64,
    server_groups: usize,
}

fn state(ctx: &Ctx, project: &ProjectId) -> Result<ProjectQuotaState, Fault> {
    let views = &ctx.queries()?.views;
    let shown = |quota: &Quota| ProjectQuotaState {
        limits: quota.limits.clone(),
        servers: quota.held.len() as u64,
        cores: quota.cores,
        memory_mib: quota.memory_mib,
        server_groups: 0,
    };
    let mut state = views.quotas.read(|view| view.by_project.get(project).map(shown)).unwrap_or_default();
    if !ctx.app.compute.config.enforces_quota {
        state.limits.clear();
    }
    state.server_groups = views.server_groups.read(|groups| groups.of_project(project).len());
    Ok(state)
}

/// A project's usage of a resource. The limit of members is a limit of each server group, so a project has no usage for
/// it. Other resources without a usage here are 0, too.
fn used(state: &ProjectQuotaState, resource: &str) -> u64 {
    match resource {
        "instances" => state.servers,
        "cores" => state.cores,
        "ram" => state.memory_mib,
        "server_groups" => state.server_groups as u64,
        _ => 0,
    }
}

/// The resources of a version with their default limits, in the order of their names.
fn resources(ctx: &Ctx) -> Result<Vec<(&'static str, i64)>, Fault> {
    let (network, files) = (versions::network_quotas(ctx.version), versions::file_quotas(ctx.version));
    let shown = |name: &&str| (network || !NETWORK.contains(name)) && (files || !FILES.contains(name));
    let names = ctx.app.compute.config.quota.keys().copied().filter(shown);
    names.map(|name| Ok((name, default(ctx, name)?))).collect()
}

fn project(ctx: &Ctx) -> Result<(ProjectId, Permit), Fault> {
    let project = ProjectId::new(ctx.param("id"));
    let permit = ctx.authorize(&PolicyTarget::default().project(&project))?;
    Ok((project, permit))
}

/// The project of the path, and the permit for it. Refuses a project that does not exist.
async fn known_project(ctx: &Ctx) -> Result<(ProjectId, Permit), Fault> {
    let (project, permit) = project(ctx)?;
    ctx.expect_project(&project).await?;
    Ok((project, permit))
}

fn set(ctx: &Ctx, quota: &ProjectQuotaState) -> Result<Map<String, Value>, Fault> {
    let limit =
        |(name, default): (&str, i64)| (name.to_owned(), json!(quota.limits.get(name).copied().unwrap_or(default)));
    Ok(resources(ctx)?.into_iter().map(limit).collect())
}

fn with_id(id: &str, rest: Map<String, Value>) -> Value {
    let mut shown = Map::new();
    shown.insert("id".to_owned(), json!(id));
    shown.extend(rest);
    Value::Object(shown)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (project, _) = known_project(&ctx).await?;
    let quota = state(&ctx, &project)?;
    Ok(Reply::ok(json!({"quota_set": with_id(project.as_str(), set(&ctx, &quota)?)})))
}

async fn detail(ctx: Ctx) -> Result<Reply, Fault> {
    let (project, _) = known_project(&ctx).await?;
    let quota = state(&ctx, &project)?;
    let lines = resources(&ctx)?
        .into_iter()
        .map(|(name, default)| {
            let limit = quota.limits.get(name).copied().unwrap_or(default);
            (name.to_owned(), json!({"limit": limit, "in_use": used(&quota, name), "reserved": 0}))
        })
        .collect();
    Ok(Reply::ok(json!({"quota_set": with_id(project.as_str(), lines)})))
}

async fn defaults(ctx: Ctx) -> Result<Reply, Fault> {
    let (project, _) = known_project(&ctx).await?;
    Ok(Reply::ok(json!({"quota_set": with_id(project.as_str(), set(&ctx, &ProjectQuotaState::default())?)})))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let (project, permit) = known_project(&ctx).await?;
    let limits = asked(&ctx.parse_at("quota_set")?, &state(&ctx, &project)?)?;
    if !limits.is_empty() {
        let command = QuotaCommand::SetLimits { project: project.clone(), limits };
        dispatch::send::<QuotaRoot>(ctx.dispatch()?, &permit, &project, command).await.map_err(super::reject::quota)?;
    }
    let quota = state(&ctx, &project)?;
    Ok(Reply::ok(json!({"quota_set": set(&ctx, &quota)?})))
}

/// The requested limits, sorted by resource. A limit below the current usage needs `force`.
fn asked(body: &bodies::QuotaSetBody, now: &ProjectQuotaState) -> Result<Vec<(String, i64)>, Fault> {
    let mut limits: Vec<(String, i64)> = Vec::new();
    for (name, value) in &body.limits {
        let limit = to_integer(value).ok_or_else(Fault::malformed)?;
        let least = used(now, name);
        if !body.force && limit >= 0 && limit.cast_unsigned() < least {
            return Err(Fault::bad_request(format!(
                "Quota limit {limit} for {name} must be greater than or equal to already used and reserved {least}."
            )));
        }
        limits.push((name.clone(), limit));
    }
    limits.sort();
    Ok(limits)
}

async fn reset(ctx: Ctx) -> Result<Reply, Fault> {
    let (project, permit) = project(&ctx)?;
    let command = QuotaCommand::ResetLimits { project: project.clone() };
    dispatch::send::<QuotaRoot>(ctx.dispatch()?, &permit, &project, command).await.map_err(super::reject::quota)?;
    Ok(Reply::empty(202))
}

async fn class(ctx: Ctx) -> Result<Reply, Fault> {
    let id = ctx.param("id").to_owned();
    ctx.authorize(&PolicyTarget::default().with("quota_class", id.as_str()))?;
    Ok(Reply::ok(json!({"quota_class_set": with_id(&id, class_limits(&ctx, &id)?)})))
}

/// Sets the limits of a class. A limit of the class `default` applies to every project without its own limit for that
/// resource. As in Nova, other classes are only stored and shown.
async fn update_class(ctx: Ctx) -> Result<Reply, Fault> {
    let class = ctx.param("id").to_owned();
    let permit = ctx.authorize(&PolicyTarget::default().with("quota_class", class.as_str()))?;
    if class.chars().count() > LONGEST_CLASS {
        return Err(Fault::bad_request(format!(
            "quota_class_name has {} characters, more than 255.",
            class.chars().count()
        )));
    }
    let body: bodies::QuotaClassBody = ctx.parse_at("quota_class_set")?;
    let limits = body.limits.into_iter().map(|(name, limit)| (name, limit.0)).collect();
    let command = QuotaClassCommand::SetLimits { class: class.clone(), limits };
    dispatch::send::<QuotaClassRoot>(ctx.dispatch()?, &permit, &QuotaClassesId, command)
        .await
        .map_err(|error| super::reject::refused(error, |reject| Fault::forbidden(reject.to_string())))?;
    Ok(Reply::ok(json!({"quota_class_set": class_limits(&ctx, &class)?})))
}

const LONGEST_CLASS: usize = 255;

/// All limits of a class. A limit that is not set for the class has the configured value. Limits of server groups are
/// shown from 2.50 on.
fn class_limits(ctx: &Ctx, class: &str) -> Result<Map<String, Value>, Fault> {
    let said = class_of(ctx, class)?;
    let limit = |name: &str| json!(said.get(name).copied().unwrap_or_else(|| ctx.app.compute.config.limit(name)));
    let mut limits: Map<String, Value> =
        resources(ctx)?.into_iter().map(|(name, _)| (name.to_owned(), limit(name))).collect();
    if versions::quota_classes_follow_quota_sets(ctx.version) {
        limits.retain(|name, _| !NETWORK.contains(&name.as_str()));
    } else {
        // Until 2.49, quota classes show no limits of server groups. They show the limits of network resources, which
        // quota sets hide from 2.36 on.
        limits.retain(|name, _| !GROUPS.contains(&name.as_str()));
        for name in NETWORK {
            limits.insert((*name).to_owned(), limit(name));
        }
    }
    Ok(limits)
}

/// The API's name of a limit, the quota that the limit shows, and whether a version has this limit.
type QuotaLine = (&'static str, &'static str, fn(crate::microversion::Microversion) -> bool);

const fn always(_: crate::microversion::Microversion) -> bool {
    true
}

const LIMITS: &[QuotaLine] = &[
    ("maxTotalInstances", "instances", always),
    ("maxTotalCores", "cores", always),
    ("maxTotalRAMSize", "ram", always),
    ("maxTotalFloatingIps", "floating_ips", versions::network_quotas),
    ("maxTotalKeypairs", "key_pairs", always),
    ("maxServerMeta", "metadata_items", always),
    ("maxImageMeta", "metadata_items", versions::image_metadata_limit),
    ("maxSecurityGroups", "security_groups", versions::network_quotas),
    ("maxSecurityGroupRules", "security_group_rules", versions::network_quotas),
    ("maxPersonality", "injected_files", versions::file_quotas),
    ("maxPersonalitySize", "injected_file_content_bytes", versions::file_quotas),
    ("maxServerGroups", "server_groups", always),
    ("maxServerGroupMembers", "server_group_members", always),
];

const USED: &[QuotaLine] = &[
    ("totalRAMUsed", "ram", always),
    ("totalCoresUsed", "cores", always),
    ("totalInstancesUsed", "instances", always),
    ("totalFloatingIpsUsed", "floating_ips", versions::network_quotas),
    ("totalSecurityGroupsUsed", "security_groups", versions::network_quotas),
    ("totalServerGroupsUsed", "server_groups", always),
];

async fn limits(ctx: Ctx) -> Result<Reply, Fault> {
    let own = ctx.caller().project.clone().unwrap_or_else(|| ProjectId::new(""));
    let project = match ctx.query.last("tenant_id").map(ProjectId::new) {
        Some(other) if other != own => {
            ctx.authorize_rule("os_compute_api:limits:other_project", &PolicyTarget::default().project(&other))?;
            other
        }
        _ => own,
    };
    let absolute = absolute(&ctx, &state(&ctx, &project)?)?;
    Ok(Reply::ok(json!({"limits": {"rate": [], "absolute": absolute}})))
}

/// The limits and the usage of a project.
fn absolute(ctx: &Ctx, quota: &ProjectQuotaState) -> Result<Map<String, Value>, Fault> {
    let mut absolute = Map::new();
    for (name, resource, _) in LIMITS.iter().filter(|(_, _, has)| has(ctx.version)) {
        let limit = quota.limits.get(*resource).copied().map_or_else(|| default(ctx, resource), Ok)?;
        absolute.insert((*name).to_owned(), json!(limit));
    }
    for (name, resource, _) in USED.iter().filter(|(_, _, has)| has(ctx.version)) {
        absolute.insert((*name).to_owned(), json!(used(quota, resource)));
    }
    Ok(absolute)
}
