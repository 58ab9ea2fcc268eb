//! `/volumes/{id}/metadata` and `/snapshots/{id}/metadata`.

use chronova_actors::services::embedded::volume::{VolumeCommand, VolumeDescriptionChange, VolumeMetadataChange};
use serde_json::{Map, json};

use super::access::{command, permitted, visible};
use super::{answers, bodies, snapshots, views};
use crate::answers::done;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("volume_metadata.index", "/volumes/{volume_id}/metadata", handler!(index))
        .policy_on_target("volume:get_volume_metadata")
        .answers(answers::metadata),
    post("volume_metadata.create", "/volumes/{volume_id}/metadata", handler!(merge))
        .policy_on_target("volume:create_volume_metadata")
        .body(bodies::metadata)
        .answers(answers::metadata),
    put("volume_metadata.update_all", "/volumes/{volume_id}/metadata", handler!(replace))
        .policy_on_target("volume:update_volume_metadata")
        .body(bodies::metadata)
        .answers(answers::metadata),
    get("volume_metadata.show", "/volumes/{volume_id}/metadata/{key}", handler!(show))
        .policy_on_target("volume:get_volume_metadata")
        .answers(answers::metadata_item),
    put("volume_metadata.update", "/volumes/{volume_id}/metadata/{key}", handler!(set))
        .policy_on_target("volume:update_volume_metadata")
        .body(bodies::meta_item)
        .answers(answers::metadata_item),
    delete("volume_metadata.delete", "/volumes/{volume_id}/metadata/{key}", handler!(remove))
        .policy_on_target("volume:delete_volume_metadata")
        .answers(done),
    get("snapshot_metadata.index", "/snapshots/{snapshot_id}/metadata", handler!(of_snapshot))
        .policy_on_target("volume:get_snapshot_metadata")
        .answers(answers::metadata),
    post("snapshot_metadata.create", "/snapshots/{snapshot_id}/metadata", handler!(merge_of_snapshot))
        .policy_on_target("volume:update_snapshot_metadata")
        .body(bodies::metadata)
        .answers(answers::metadata),
    put("snapshot_metadata.update_all", "/snapshots/{snapshot_id}/metadata", handler!(replace_of_snapshot))
        .policy_on_target("volume:update_snapshot_metadata")
        .body(bodies::metadata)
        .answers(answers::metadata),
    get("snapshot_metadata.show", "/snapshots/{snapshot_id}/metadata/{key}", handler!(show_of_snapshot))
        .policy_on_target("volume:get_snapshot_metadata")
        .answers(answers::metadata_item),
    put("snapshot_metadata.update", "/snapshots/{snapshot_id}/metadata/{key}", handler!(set_of_snapshot))
        .policy_on_target("volume:update_snapshot_metadata")
        .body(bodies::meta_item)
        .answers(answers::metadata_item),
    delete("snapshot_metadata.delete", "/snapshots/{snapshot_id}/metadata/{key}", handler!(remove_of_snapshot))
        .policy_on_target("volume:delete_snapshot_metadata")
        .answers(done),
];

/// The owner of the metadata.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MetadataOwner {
    Volume,
    Snapshot,
}

/// The metadata of the resource in the path.
fn now(ctx: &Ctx, of: MetadataOwner) -> Result<Vec<(String, String)>, Fault> {
    match of {
        MetadataOwner::Volume => permitted(ctx).map(|(volume, _)| volume.metadata.clone()),
        MetadataOwner::Snapshot => snapshots::permitted(ctx).map(|(_, snapshot, _)| snapshot.metadata),
    }
}

/// Changes the metadata and returns the result.
async fn change(ctx: &Ctx, of: MetadataOwner, change: VolumeMetadataChange) -> Result<Vec<(String, String)>, Fault> {
    let description = VolumeDescriptionChange { metadata: Some(change), ..VolumeDescriptionChange::default() };
    match of {
        MetadataOwner::Volume => {
            let (volume, permit) = permitted(ctx)?;
            let id = volume.created.volume;
            command(ctx, &permit, id, VolumeCommand::Describe(description)).await?;
            Ok(visible(ctx, id)?.metadata.clone())
        }
        MetadataOwner::Snapshot => {
            let (volume, snapshot, permit) = snapshots::permitted(ctx)?;
            let snapshot = snapshot.requested.snapshot;
            let describe = VolumeCommand::DescribeSnapshot { snapshot, description };
            command(ctx, &permit, volume.created.volume, describe).await?;
            now(ctx, of)
        }
    }
}

fn whole(pairs: &[(String, String)]) -> Reply {
    Reply::ok(json!({"metadata": views::pairs(pairs)}))
}

fn one(key: &str, pairs: &[(String, String)]) -> Option<Reply> {
    let (key, value) = pairs.iter().find(|(known, _)| known == key)?;
    let mut map = Map::new();
    map.insert(key.clone(), json!(value));
    Some(Reply::ok(json!({"meta": map})))
}

fn item(ctx: &Ctx, of: MetadataOwner) -> Result<Reply, Fault> {
    let (kind, id) = match of {
        MetadataOwner::Volume => ("Volume", ctx.param("volume_id")),
        MetadataOwner::Snapshot => ("Snapshot", ctx.param("snapshot_id")),
    };
    let key = ctx.param("key");
    one(key, &now(ctx, of)?).ok_or_else(|| Fault::not_found(format!("{kind} {id} has no metadata with key {key}.")))
}

/// The only pair of the body. Its key must equal the key in the path.
fn pair(ctx: &Ctx) -> Result<VolumeMetadataChange, Fault> {
    let bodies::VolumeMetadataItemBody { meta: pairs } = ctx.parse()?;
    match pairs.as_slice() {
        [(key, _)] if key == ctx.param("key") => Ok(VolumeMetadataChange::Merge(pairs)),
        [_] => Err(Fault::bad_request("Request body and URI mismatch")),
        _ => Err(Fault::bad_request("Request body contains too many items")),
    }
}

fn sent(ctx: &Ctx) -> Result<Vec<(String, String)>, Fault> {
    Ok(ctx.parse::<bodies::VolumeMetadataBody>()?.metadata)
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(whole(&now(&ctx, MetadataOwner::Volume)?))
}

async fn merge(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(whole(&change(&ctx, MetadataOwner::Volume, VolumeMetadataChange::Merge(sent(&ctx)?)).await?))
}

async fn replace(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(whole(&change(&ctx, MetadataOwner::Volume, VolumeMetadataChange::Replace(sent(&ctx)?)).await?))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    item(&ctx, MetadataOwner::Volume)
}

async fn set(ctx: Ctx) -> Result<Reply, Fault> {
    let pairs = change(&ctx, MetadataOwner::Volume, pair(&ctx)?).await?;
    one(ctx.param("key"), &pairs).ok_or_else(|| Fault::internal("the metadata that was set is not there"))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    change(&ctx, MetadataOwner::Volume, VolumeMetadataChange::Remove(ctx.param("key").to_owned())).await?;
    Ok(Reply::empty(200))
}

async fn of_snapshot(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(whole(&now(&ctx, MetadataOwner::Snapshot)?))
}

async fn merge_of_snapshot(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(whole(&change(&ctx, MetadataOwner::Snapshot, VolumeMetadataChange::Merge(sent(&ctx)?)).await?))
}

async fn replace_of_snapshot(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(whole(&change(&ctx, MetadataOwner::Snapshot, VolumeMetadataChange::Replace(sent(&ctx)?)).await?))
}

async fn show_of_snapshot(ctx: Ctx) -> Result<Reply, Fault> {
    item(&ctx, MetadataOwner::Snapshot)
}

async fn set_of_snapshot(ctx: Ctx) -> Result<Reply, Fault> {
    let pairs = change(&ctx, MetadataOwner::Snapshot, pair(&ctx)?).await?;
    one(ctx.param("key"), &pairs).ok_or_else(|| Fault::internal("the metadata that was set is not there"))
}

async fn remove_of_snapshot(ctx: Ctx) -> Result<Reply, Fault> {
    change(&ctx, MetadataOwner::Snapshot, VolumeMetadataChange::Remove(ctx.param("key").to_owned())).await?;
    Ok(Reply::empty(200))
}
