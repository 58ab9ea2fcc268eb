//! `/os-quota-sets`, `/os-quota-class-sets` and `/limits`: a project's limits and usage.

use std::collections::BTreeMap;

use chronova_actors::services::embedded::volume::quota::{
    VolumeLimits, VolumeQuotaCommand, VolumeQuotaReject, VolumeQuotaRoot, limit,
};
use chronova_events::ids::ProjectId;
use chronova_events::volume_quota::VolumeQuota;
use serde_json::{Map, Value, json};

use super::{answers, bodies, listing, types};
use crate::answers::done;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, delete, get, put};

pub(super) const ROUTES: &[Route] = &[
    get("quota_sets.show", "/os-quota-sets/{project}", handler!(show))
        .policy_on_target("volume_extension:quotas:show")
        .answers(answers::quota_set),
    get("quota_sets.defaults", "/os-quota-sets/{project}/defaults", handler!(defaults))
        .policy_on_target("volume_extension:quotas:show")
        .answers(answers::quota_defaults),
    put("quota_sets.update", "/os-quota-sets/{project}", handler!(update))
        .policy_on_target("volume_extension:quotas:update")
        .body(bodies::update_quota)
        .answers(answers::quota_updated),
    delete("quota_sets.delete", "/os-quota-sets/{project}", handler!(reset))
        .policy_on_target("volume_extension:quotas:delete")
        .answers(done),
    get("quota_class_sets.show", "/os-quota-class-sets/{class}", handler!(class))
        .policy("volume_extension:quota_classes:get")
        .answers(answers::quota_class),
    get("limits.index", "/limits", handler!(limits)).answers(answers::limits),
];

/// The resources that the volume service limits.
const COUNTED: [&str; 4] = ["volumes", "snapshots", "gigabytes", "per_volume_gigabytes"];
/// The resources that the volume service does not have, with Cinder's default limits.
const OTHERS: [(&str, i64); 3] = [("groups", 10), ("backups", 10), ("backup_gigabytes", 1000)];

fn quota_of(ctx: &Ctx, project: &ProjectId) -> Result<VolumeQuota, Fault> {
    let known = ctx.views()?.volumes.read(|view| view.quotas.get(project).cloned());
    Ok(known.unwrap_or_default())
}

/// The project's usage by resource, in total and by volume type. A volume type without usage has no entry.
fn usage_of(ctx: &Ctx, quota: &VolumeQuota) -> Result<BTreeMap<String, u64>, Fault> {
    let mut used: BTreeMap<String, u64> = BTreeMap::new();
    let mut count = |resource: &str, number: u64| *used.entry(resource.to_owned()).or_default() += number;
    count("volumes", quota.volumes.len() as u64);
    count("snapshots", quota.snapshots.len() as u64);
    count("gigabytes", quota.gigabytes());
    ctx.views()?.volumes.read(|view| {
        let volumes = quota.volumes.iter().map(|(id, size)| ("volumes", view.get(*id), size));
        let snapshots = quota.snapshots.iter().map(|(id, size)| ("snapshots", view.of_snapshot(*id), size));
        for (resource, volume, size) in volumes.chain(snapshots) {
            // Quota is reserved before the volume exists, so the type may be unknown for a moment.
            let kind = volume.and_then(|volume| view.types.by_id.get(&volume.created.volume_type));
            let Some(kind) = kind else { continue };
            count(&format!("{resource}_{}", kind.name), 1);
            count(&format!("gigabytes_{}", kind.name), u64::from(*size));
        }
    });
    Ok(used)
}

/// All resources with their limits. After them come volumes, snapshots and gigabytes of each volume type, each with the
/// limit -1.
fn resources(ctx: &Ctx, quota: &VolumeQuota) -> Result<Vec<(String, i64)>, Fault> {
    let defaults = ctx.app.volumes()?.options.limits;
    let mut all: Vec<(String, i64)> =
        COUNTED.iter().map(|name| ((*name).to_owned(), limit(quota, &defaults, name))).collect();
    all.extend(
        OTHERS.iter().map(|(name, limit)| ((*name).to_owned(), quota.limits.get(*name).copied().unwrap_or(*limit))),
    );
    // Private types of other projects are not shown.
    for kind in types::visible(ctx)? {
        let kind = &kind.name;
        all.extend(["volumes", "snapshots", "gigabytes"].iter().map(|name| {
            let name = format!("{name}_{kind}");
            let limit = quota.limits.get(&name).copied().unwrap_or(-1);
            (name, limit)
        }));
    }
    Ok(all)
}

fn quota_set(ctx: &Ctx, project: &ProjectId, usage: bool) -> Result<Map<String, Value>, Fault> {
    let quota = quota_of(ctx, project)?;
    let used = if usage { Some(usage_of(ctx, &quota)?) } else { None };
    let each = resources(ctx, &quota)?.into_iter().map(|(name, limit)| {
        let value = used.as_ref().map_or_else(
            || json!(limit),
            |used| {
                let in_use = used.get(&name).copied().unwrap_or_default();
                json!({"limit": limit, "in_use": in_use, "reserved": 0, "allocated": 0})
            },
        );
        (name, value)
    });
    Ok(each.collect())
}

fn project_and_target(ctx: &Ctx) -> (ProjectId, PolicyTarget) {
    let project = ProjectId::new(ctx.param("project"));
    let target = PolicyTarget::default().project(&project);
    (project, target)
}

fn with_id(project: &ProjectId, mut set: Map<String, Value>) -> Reply {
    set.insert("id".to_owned(), json!(project));
    Reply::ok(json!({"quota_set": set}))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (project, target) = project_and_target(&ctx);
    ctx.authorize(&target)?;
    let usage = ctx.query.last("usage").and_then(listing::truth) == Some(true);
    Ok(with_id(&project, quota_set(&ctx, &project, usage)?))
}

async fn defaults(ctx: Ctx) -> Result<Reply, Fault> {
    let (project, target) = project_and_target(&ctx);
    ctx.authorize(&target)?;
    let all = resources(&ctx, &VolumeQuota::default())?;
    Ok(with_id(&project, all.into_iter().map(|(name, limit)| (name, json!(limit))).collect()))
}

async fn class(ctx: Ctx) -> Result<Reply, Fault> {
    let all = resources(&ctx, &VolumeQuota::default())?;
    let mut set: Map<String, Value> = all.into_iter().map(|(name, limit)| (name, json!(limit))).collect();
    set.insert("id".to_owned(), json!(ctx.param("class")));
    Ok(Reply::ok(json!({"quota_class_set": set})))
}

/// Reads a limit, which is a number or a text with a number.
fn number(name: &str, value: &Value) -> Result<i64, Fault> {
    let read = value.as_i64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()));
    read.filter(|limit| (-1..=i64::from(i32::MAX)).contains(limit)).ok_or_else(|| {
        Fault::bad_request(format!("Invalid input for field/attribute {name}. Value: {value}. A limit is -1 or more"))
    })
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let (project, target) = project_and_target(&ctx);
    let permit = ctx.authorize(&target)?;
    let limits = new_limits(&resources(&ctx, &quota_of(&ctx, &project)?)?, &ctx.parse_at("quota_set")?)?;
    send(&ctx, &permit, &project, VolumeQuotaCommand::SetLimits { project: project.clone(), limits }).await?;
    Ok(Reply::ok(json!({"quota_set": quota_set(&ctx, &project, false)?})))
}

/// The limits that a body sets, sorted by name.
fn new_limits(known: &[(String, i64)], body: &Map<String, Value>) -> Result<Vec<(String, i64)>, Fault> {
    let mut limits = Vec::new();
    for (name, value) in body {
        if matches!(name.as_str(), "tenant_id" | "project_id" | "force") {
            continue;
        }
        if !known.iter().any(|(known, _)| known == name) {
            return Err(Fault::bad_request(format!("Bad key(s) in quota set: {name}")));
        }
        let limit = number(name, value)?;
        let is_of_type = !COUNTED.contains(&name.as_str()) && !OTHERS.iter().any(|(other, _)| other == name);
        if is_of_type && limit != -1 {
            return Err(Fault::bad_request(format!(
                "Limits of one volume type are not supported: leave {name} at -1 and limit volumes, snapshots or gigabytes"
            )));
        }
        limits.push((name.clone(), limit));
    }
    limits.sort();
    Ok(limits)
}

async fn reset(ctx: Ctx) -> Result<Reply, Fault> {
    let (project, target) = project_and_target(&ctx);
    let permit = ctx.authorize(&target)?;
    send(&ctx, &permit, &project, VolumeQuotaCommand::ResetLimits { project: project.clone() }).await?;
    Ok(Reply::empty(200))
}

async fn send(
    ctx: &Ctx,
    permit: &crate::policy::Permit,
    project: &ProjectId,
    command: VolumeQuotaCommand,
) -> Result<(), Fault> {
    let sent = dispatch::send::<VolumeQuotaRoot>(ctx.dispatch()?, permit, project, command).await;
    // The aggregate never refuses limits.
    let refused = |error: chronova_actors::aggregate::CommandError<VolumeQuotaReject>| Fault::internal(error);
    sent.map(drop).map_err(refused)
}

fn absolute_limits(quota: &VolumeQuota, defaults: &VolumeLimits) -> Value {
    json!({
        "maxTotalSnapshots": limit(quota, defaults, "snapshots"),
        "maxTotalBackups": OTHERS[1].1,
        "maxTotalVolumeGigabytes": limit(quota, defaults, "gigabytes"),
        "maxTotalVolumes": limit(quota, defaults, "volumes"),
        "maxTotalBackupGigabytes": OTHERS[2].1,
    })
}

async fn limits(ctx: Ctx) -> Result<Reply, Fault> {
    let project = ctx.caller().project.clone().unwrap_or_else(|| ProjectId::new(""));
    let quota = quota_of(&ctx, &project)?;
    let mut absolute = absolute_limits(&quota, &ctx.app.volumes()?.options.limits);
    if ctx.allows("limits_extension:used_limits", &ctx.own_target()) {
        absolute["totalVolumesUsed"] = json!(quota.volumes.len());
        absolute["totalGigabytesUsed"] = json!(quota.gigabytes());
        absolute["totalSnapshotsUsed"] = json!(quota.snapshots.len());
        absolute["totalBackupsUsed"] = json!(0);
        absolute["totalBackupGigabytesUsed"] = json!(0);
    }
    Ok(Reply::ok(json!({"limits": {"rate": [], "absolute": absolute}})))
}
