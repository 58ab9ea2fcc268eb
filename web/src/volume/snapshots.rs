//! `/snapshots`: creating, listing, showing, changing and deleting snapshots.

use std::sync::Arc;

use chronova_actors::ports::NewSnapshot;
use chronova_actors::services::embedded::volume::{VolumeCommand, VolumeDescriptionChange};
use chronova_events::ids::{SnapshotId, VolumeId};
use chronova_events::volume::{SnapshotStatus, VolumeRecord, VolumeSnapshot};
use serde_json::{Value, json};

use super::access::{command, no_volume, shown, visible};
use super::bodies::{DescribedBody, SnapshotCreateBody};
use super::views::snapshot::{LISTED, SHOWN};
use super::{answers, bodies, listing};
use crate::answers::accepted;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::{Permit, PolicyTarget};
use crate::reply::Reply;
use crate::route::{Route, action, delete, get, post, put};

const ACTION: &str = "/snapshots/{snapshot_id}/action";

pub(super) const ROUTES: &[Route] = &[
    get("snapshots.index", "/snapshots", handler!(index))
        .policy("volume:get_all_snapshots")
        .answers(answers::snapshots)
        .as_of(),
    get("snapshots.detail", "/snapshots/detail", handler!(detail))
        .policy("volume:get_all_snapshots")
        .answers(answers::snapshots_in_detail)
        .as_of(),
    post("snapshots.create", "/snapshots", handler!(create))
        .policy_on_target("volume:create_snapshot")
        .body(bodies::create_snapshot)
        .answers(answers::snapshot_created),
    get("snapshots.show", "/snapshots/{snapshot_id}", handler!(show))
        .policy_on_target("volume:get_snapshot")
        .answers(answers::snapshot_shown)
        .as_of(),
    put("snapshots.update", "/snapshots/{snapshot_id}", handler!(update))
        .policy_on_target("volume:update_snapshot")
        .body(bodies::update_snapshot)
        .answers(answers::snapshot_updated),
    delete("snapshots.delete", "/snapshots/{snapshot_id}", handler!(remove))
        .policy_on_target("volume:delete_snapshot")
        .answers(accepted),
    action("snapshots.os-reset_status", ACTION, "os-reset_status", handler!(reset))
        .policy_on_target("volume_extension:snapshot_admin_actions:reset_status")
        .answers(accepted),
    action("snapshots.os-force_delete", ACTION, "os-force_delete", handler!(force_delete))
        .policy_on_target("volume_extension:snapshot_admin_actions:force_delete")
        .answers(accepted),
];

fn no_snapshot(id: &str) -> String {
    format!("Snapshot {id} could not be found.")
}

/// The snapshot, with its volume, if the caller may see it.
fn find(ctx: &Ctx, id: SnapshotId) -> Result<(Arc<VolumeRecord>, VolumeSnapshot), Fault> {
    let found = ctx.views()?.volumes.read(|view| view.of_snapshot(id));
    let known = found.and_then(|volume| volume.snapshots.get(&id).cloned().map(|snapshot| (volume, snapshot)));
    let caller = ctx.caller();
    let known = known.filter(|(_, known)| caller.is_admin || caller.project.as_ref() == Some(&known.requested.project));
    known.ok_or_else(|| Fault::not_found(no_snapshot(&id.to_string())))
}

/// The snapshot of the path, and the permit that the route's rule gives for this snapshot.
pub(super) fn permitted(ctx: &Ctx) -> Result<(Arc<VolumeRecord>, VolumeSnapshot, Permit), Fault> {
    let (volume, snapshot) = find(ctx, ctx.id::<SnapshotId>("snapshot_id", no_snapshot)?)?;
    let permit = ctx.authorize(&PolicyTarget::owned(&snapshot.requested.project, &snapshot.requested.user))?;
    Ok((volume, snapshot, permit))
}

fn rows(ctx: &Ctx) -> Result<Vec<Value>, Fault> {
    let all = listing::all_projects(ctx)?;
    let own = ctx.caller().project.clone();
    // A snapshot that Compute makes for an image of a server belongs to the server's project. That project may differ
    // from the volume's project, because an administrator may attach any volume.
    let found = match (all, own) {
        (false, None) => Vec::new(),
        (all, own) => ctx.views()?.volumes.read(|view| view.snapshots_of(own.as_ref().filter(|_| !all))),
    };
    let rows = found.iter().map(|(_, snapshot)| SHOWN.render(snapshot, ctx.version)).collect();
    let mut rows = listing::filter(rows, &ctx.query);
    listing::sort(&mut rows, &ctx.query)?;
    Ok(rows)
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let names: Vec<&str> = LISTED.fields().iter().map(|field| field.name).collect();
    listing::page(&ctx, "snapshots", "snapshots", listing::only(rows(&ctx)?, &names))
}

async fn detail(ctx: Ctx) -> Result<Reply, Fault> {
    listing::page(&ctx, "snapshots", "snapshots/detail", rows(&ctx)?)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (_, snapshot, _) = permitted(&ctx)?;
    Ok(Reply::ok(json!({"snapshot": SHOWN.render(&snapshot, ctx.version)})))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let body: SnapshotCreateBody = ctx.parse_at("snapshot")?;
    let text = body.volume_id.as_str();
    let id: VolumeId = text.parse().map_err(|_| Fault::not_found(no_volume(text)))?;
    let volume = visible(&ctx, id)?;
    let permit = ctx.authorize(&super::access::target(&volume))?;
    let wanted = wanted(&ctx, &volume, body)?;
    let snapshot = wanted.snapshot;
    let accepted = ctx.app.volumes()?.accept_snapshot(wanted, ctx.caller().is_admin, dispatch::meta(&permit)).await;
    shown(&ctx, accepted).await?;
    let (_, mut made) = find(&ctx, snapshot)?;
    made.status = SnapshotStatus::Creating;
    Ok(Reply::json(202, json!({"snapshot": LISTED.render(&made, ctx.version)})))
}

/// The new snapshot that the body describes.
fn wanted(ctx: &Ctx, volume: &VolumeRecord, body: SnapshotCreateBody) -> Result<NewSnapshot, Fault> {
    Ok(NewSnapshot {
        snapshot: SnapshotId::random(),
        volume: volume.created.volume,
        project: volume.created.project.clone(),
        user: ctx.caller().user.clone(),
        name: body.described.name().mentioned().flatten().unwrap_or_default(),
        description: body.described.description().mentioned().flatten(),
        // From 3.66 on a snapshot of a volume in use needs no `force`.
        force: listing::flag(&body.force, "force")? || bodies::snapshots_of_used_volumes(ctx.version),
        metadata: body.metadata,
    })
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, snapshot, permit) = permitted(&ctx)?;
    let described: DescribedBody = ctx.parse_at("snapshot")?;
    let description = VolumeDescriptionChange {
        name: described.name().mentioned().map(Option::unwrap_or_default),
        description: described.description().mentioned(),
        metadata: None,
    };
    let snapshot = snapshot.requested.snapshot;
    let describe = VolumeCommand::DescribeSnapshot { snapshot, description };
    command(&ctx, &permit, volume.created.volume, describe).await?;
    let (_, now) = find(&ctx, snapshot)?;
    Ok(Reply::ok(json!({"snapshot": LISTED.render(&now, ctx.version)})))
}

async fn delete_it(ctx: Ctx, force: bool) -> Result<Reply, Fault> {
    let (_, snapshot, permit) = permitted(&ctx)?;
    let meta = dispatch::meta(&permit);
    let accepted = ctx.app.volumes()?.remove_snapshot(snapshot.requested.snapshot, force, meta).await;
    shown(&ctx, accepted).await?;
    Ok(Reply::empty(202))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    delete_it(ctx, false).await
}

async fn force_delete(ctx: Ctx) -> Result<Reply, Fault> {
    delete_it(ctx, true).await
}

async fn reset(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, snapshot, permit) = permitted(&ctx)?;
    let text = ctx.action_body()["status"].as_str().unwrap_or_default();
    let status = SnapshotStatus::parse(text).ok_or_else(|| {
        Fault::bad_request(format!(
            "Invalid input for field/attribute status. Value: {text}. '{text}' is not one of {}",
            known()
        ))
    })?;
    let reset = VolumeCommand::ResetSnapshot { snapshot: snapshot.requested.snapshot, status };
    command(&ctx, &permit, volume.created.volume, reset).await?;
    Ok(Reply::empty(202))
}

fn known() -> String {
    let words: Vec<String> = SnapshotStatus::ALL.iter().map(|status| format!("'{}'", status.as_str())).collect();
    format!("[{}]", words.join(", "))
}
