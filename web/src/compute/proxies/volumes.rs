//! `/os-volumes` and `/os-snapshots` until 2.35: the volume service's resources in Nova's old form.
//!
//! Source: nova `api/openstack/compute/volumes.py`, `snapshots.py`.

use chronova_actors::ports::{NewContent, NewSnapshot, NewVolume, PortError, SnapshotInfo, UserVolumeCall, VolumeInfo};
use chronova_events::ids::{ProjectId, SnapshotId, VolumeId};
use serde_json::{Map, Value, json};

use crate::answers::accepted;
use crate::compute::answers::proxies as answers;
use crate::compute::bodies::proxies as bodies;
use crate::compute::reject;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post};

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("volumes.index", "/os-volumes", handler!(volumes))
        .until(2, 35)
        .policy("os_compute_api:os-volumes:list")
        .query(bodies::volumes_query)
        .answers(answers::volumes),
    post("volumes.create", "/os-volumes", handler!(create_volume))
        .until(2, 35)
        .policy("os_compute_api:os-volumes:create")
        .body(bodies::volume_body)
        .answers(answers::volume_created),
    get("volumes.detail", "/os-volumes/detail", handler!(volumes))
        .until(2, 35)
        .policy("os_compute_api:os-volumes:detail")
        .query(bodies::volumes_query)
        .answers(answers::volumes),
    delete("volumes.delete", "/os-volumes/{id}", handler!(delete_volume))
        .until(2, 35)
        .policy("os_compute_api:os-volumes:delete")
        .answers(accepted),
    get("volumes.show", "/os-volumes/{id}", handler!(volume))
        .leader()
        .until(2, 35)
        .policy("os_compute_api:os-volumes:show")
        .answers(answers::volume_shown),
    get("snapshots.index", "/os-snapshots", handler!(snapshots))
        .until(2, 35)
        .policy("os_compute_api:os-volumes:snapshots:list")
        .query(bodies::volumes_query)
        .answers(answers::snapshots),
    post("snapshots.create", "/os-snapshots", handler!(create_snapshot))
        .until(2, 35)
        .policy("os_compute_api:os-volumes:snapshots:create")
        .body(bodies::snapshot_body)
        .answers(answers::snapshot_shown),
    get("snapshots.detail", "/os-snapshots/detail", handler!(snapshots))
        .until(2, 35)
        .policy("os_compute_api:os-volumes:snapshots:detail")
        .query(bodies::volumes_query)
        .answers(answers::snapshots),
    delete("snapshots.delete", "/os-snapshots/{id}", handler!(delete_snapshot))
        .until(2, 35)
        .policy("os_compute_api:os-volumes:snapshots:delete")
        .answers(accepted),
    get("snapshots.show", "/os-snapshots/{id}", handler!(snapshot))
        .leader()
        .until(2, 35)
        .policy("os_compute_api:os-volumes:snapshots:show")
        .answers(answers::snapshot_shown),
];

fn project(ctx: &Ctx) -> Result<ProjectId, Fault> {
    ctx.caller().project.clone().ok_or_else(|| Fault::forbidden("The token has no project."))
}

/// Refuses what the policy of the volume service denies the user.
async fn check_user(ctx: &Ctx, call: UserVolumeCall) -> Result<(), Fault> {
    let checked = ctx.queries()?.volumes.check_user(call, &ctx.service_caller()).await;
    checked.map_err(reject::volume_service)
}

/// The page that `offset` and `limit` select. This API has no markers.
fn page<T>(ctx: &Ctx, all: Vec<T>) -> impl Iterator<Item = T> {
    let number = |key: &str| ctx.query.first(key).and_then(|text| text.parse::<usize>().ok());
    let most = usize::try_from(ctx.app.config.max_limit).unwrap_or(usize::MAX);
    let limit = number("limit").filter(|limit| *limit > 0).unwrap_or(most).min(most);
    all.into_iter().skip(number("offset").unwrap_or(0)).take(limit)
}

fn shown_volume(volume: &VolumeInfo) -> Value {
    let attachment = volume.attachments.iter().find(|attachment| attachment.attached);
    let attachment = attachment.map_or_else(
        || json!({}),
        |attachment| {
            let mut shown = json!({"id": volume.id, "volumeId": volume.id, "serverId": attachment.instance});
            if let Some(device) = &attachment.device {
                shown["device"] = json!(device);
            }
            shown
        },
    );
    let metadata: Map<String, Value> = volume.metadata.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    json!({
        "id": volume.id,
        "status": volume.status,
        "size": volume.size_gb,
        "availabilityZone": volume.availability_zone,
        "createdAt": volume.created_at.iso_micros(),
        "attachments": [attachment],
        "displayName": volume.name,
        "displayDescription": volume.description,
        "volumeType": volume.volume_type,
        "snapshotId": volume.snapshot,
        "metadata": metadata,
    })
}

fn shown_snapshot(snapshot: &SnapshotInfo) -> Value {
    json!({
        "id": snapshot.id,
        "volumeId": snapshot.volume,
        "status": snapshot.status,
        "size": snapshot.size_gb,
        "createdAt": snapshot.created_at.iso_micros(),
        "displayName": snapshot.name,
        "displayDescription": snapshot.description,
    })
}

async fn volumes(ctx: Ctx) -> Result<Reply, Fault> {
    check_user(&ctx, UserVolumeCall::List).await?;
    let all = ctx.queries()?.volumes.list(&project(&ctx)?, false).await.map_err(reject::volume_service)?;
    let list: Vec<Value> = page(&ctx, all).map(|volume| shown_volume(&volume)).collect();
    Ok(Reply::ok(json!({"volumes": list})))
}

async fn find_volume(ctx: &Ctx) -> Result<VolumeInfo, Fault> {
    let id: VolumeId = ctx.id("id", |text| format!("Volume {text} could not be found."))?;
    let found = ctx.queries()?.volumes.find(id, &project(ctx)?, ctx.caller().is_admin).await;
    found.map_err(|error| reject::volume(id, error))
}

async fn volume(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find_volume(&ctx).await?;
    check_user(&ctx, UserVolumeCall::Show(found.id)).await?;
    Ok(Reply::ok(json!({"volume": shown_volume(&found)})))
}

async fn delete_volume(ctx: Ctx) -> Result<Reply, Fault> {
    let (permit, found) = (ctx.permit()?, find_volume(&ctx).await?);
    check_user(&ctx, UserVolumeCall::Delete(found.id)).await?;
    ctx.queries()?.volumes.delete(found.id, dispatch::meta(&permit)).await.map_err(reject::volume_service)?;
    Ok(Reply::empty(202))
}

async fn create_volume(ctx: Ctx) -> Result<Reply, Fault> {
    let permit = ctx.permit()?;
    check_user(&ctx, UserVolumeCall::Create).await?;
    let wanted = wanted_volume(&ctx).await?;
    let made = ctx.queries()?.volumes.create(wanted, ctx.caller().is_admin, dispatch::meta(&permit)).await;
    let made = made.map_err(reject::volume_service)?;
    let location = ctx.links.to_self("os-volumes", &made.id.to_string());
    Ok(Reply::ok(json!({"volume": shown_volume(&made)})).header("Location", location))
}

async fn wanted_volume(ctx: &Ctx) -> Result<NewVolume, Fault> {
    let (project, body): (_, bodies::ProxyVolumeBody) = (project(ctx)?, ctx.parse_at("volume")?);
    let snapshot = match &body.snapshot_id {
        Some(id) => Some(known_snapshot(ctx, id).await?.id),
        None => None,
    };
    Ok(NewVolume {
        volume: VolumeId::random(),
        project,
        user: ctx.caller().user.clone(),
        name: body.display_name.unwrap_or_default(),
        description: body.display_description,
        size_gb: body.size.and_then(|size| u32::try_from(size).ok()),
        content: snapshot.map_or(NewContent::Blank, NewContent::Snapshot),
        volume_type: body.volume_type,
        availability_zone: body.availability_zone,
        metadata: body.metadata,
        host: None,
    })
}

async fn snapshots(ctx: Ctx) -> Result<Reply, Fault> {
    check_user(&ctx, UserVolumeCall::ListSnapshots).await?;
    let all = ctx.queries()?.volumes.list_snapshots(&project(&ctx)?, false).await.map_err(reject::volume_service)?;
    let list: Vec<Value> = page(&ctx, all).map(|snapshot| shown_snapshot(&snapshot)).collect();
    Ok(Reply::ok(json!({"snapshots": list})))
}

async fn known_snapshot(ctx: &Ctx, text: &str) -> Result<SnapshotInfo, Fault> {
    let unknown = || Fault::not_found(format!("Snapshot {text} could not be found."));
    let id: SnapshotId = text.parse().map_err(|_| unknown())?;
    let found = ctx.queries()?.volumes.find_snapshot(id, &project(ctx)?, ctx.caller().is_admin).await;
    found.map_err(|error| match reject::volume(id, error) {
        fault if fault.status == 404 => unknown(),
        fault => fault,
    })
}

async fn snapshot(ctx: Ctx) -> Result<Reply, Fault> {
    let found = known_snapshot(&ctx, ctx.param("id")).await?;
    check_user(&ctx, UserVolumeCall::ShowSnapshot(found.id)).await?;
    Ok(Reply::ok(json!({"snapshot": shown_snapshot(&found)})))
}

async fn delete_snapshot(ctx: Ctx) -> Result<Reply, Fault> {
    let (permit, found) = (ctx.permit()?, known_snapshot(&ctx, ctx.param("id")).await?);
    check_user(&ctx, UserVolumeCall::DeleteSnapshot(found.id)).await?;
    let volumes = &ctx.queries()?.volumes;
    volumes.delete_snapshot(found.id, dispatch::meta(&permit)).await.map_err(reject::volume_service)?;
    Ok(Reply::empty(202))
}

async fn create_snapshot(ctx: Ctx) -> Result<Reply, Fault> {
    let (permit, wanted) = (ctx.permit()?, wanted_snapshot(&ctx).await?);
    check_user(&ctx, UserVolumeCall::CreateSnapshot(wanted.volume)).await?;
    let volumes = &ctx.queries()?.volumes;
    let made = volumes.create_snapshot(wanted, ctx.caller().is_admin, dispatch::meta(&permit)).await;
    Ok(Reply::ok(json!({"snapshot": shown_snapshot(&made.map_err(unknown)?)})))
}

async fn wanted_snapshot(ctx: &Ctx) -> Result<NewSnapshot, Fault> {
    let (project, body): (_, bodies::ProxySnapshotBody) = (project(ctx)?, ctx.parse_at("snapshot")?);
    let named = &body.volume_id;
    let volume: VolumeId =
        named.parse().map_err(|_| Fault::bad_request(format!("Volume {named} could not be found.")))?;
    let known = ctx.queries()?.volumes.find(volume, &project, ctx.caller().is_admin).await.map_err(unknown)?;
    Ok(NewSnapshot {
        snapshot: SnapshotId::random(),
        volume,
        project: known.project,
        user: ctx.caller().user.clone(),
        name: body.display_name.unwrap_or_default(),
        description: body.display_description,
        force: body.force,
        metadata: vec![],
    })
}

/// Maps an unknown volume to 400, because the body names the volume.
fn unknown(error: PortError) -> Fault {
    match reject::volume_service(error) {
        fault if fault.status == 404 => Fault::bad_request(fault.message),
        fault => fault,
    }
}
