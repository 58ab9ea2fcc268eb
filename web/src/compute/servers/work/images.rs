//! `createImage` and `createBackup`. Source: nova `compute/api.py` (`snapshot`, `backup`) and `compute/utils.py`
//! (`create_image`, `initialize_instance_snapshot_metadata`).

use chronova_actors::instance::actions::Action;
use chronova_actors::instance::work::WorkCommand;
use chronova_actors::ports::{ImageDraft, PortError};
use chronova_events::ids::{ImageId, ProcessId};
use chronova_events::instance::{Alive, Pairs, Rotation};
use serde_json::{Value, json};

use super::asking::{admit, ask, pairs};
use super::on_volumes;
use super::properties::{NOT_INHERITED, set};
use crate::compute::servers::change::asker;
use crate::compute::servers::found::{Found, find};
use crate::compute::{quotas, versions};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::reply::Reply;
use crate::schema::to_integer;

pub(super) async fn create_image(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let body = ctx.action_body().clone();
    let metadata = metadata(&ctx, &body)?;
    admit(&ctx, &found, Action::CreateImage)?;
    let process = ProcessId::random();
    let draft = match found.server()?.is_volume_backed() {
        true => {
            ctx.authorize_rule("os_compute_api:servers:create_image:allow_volume_backed", &found.target)?;
            on_volumes::draft(&ctx, &found, &name(&body), metadata, process).await?
        }
        false => of_disk(&ctx, &found, &name(&body), "snapshot", metadata)?,
    };
    let image = make(&ctx, &found, draft).await?;
    begin(&ctx, &found, image, process, None).await?;
    let location = format!("{}/image/images/{image}", ctx.links.host);
    Ok(answer(&ctx, image, Some(location)))
}

pub(super) async fn create_backup(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let body = ctx.action_body().clone();
    let kind = body["backup_type"].as_str().unwrap_or_default().to_owned();
    let keep = to_integer(&body["rotation"]).and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX);
    let mut metadata = metadata(&ctx, &body)?;
    set(&mut metadata, "backup_type", &kind);
    admit(&ctx, &found, Action::CreateBackup)?;
    if found.server()?.is_volume_backed() {
        return Err(Fault::bad_request("Backup is not supported for volume-backed instances."));
    }
    let image = make(&ctx, &found, of_disk(&ctx, &found, &name(&body), "backup", metadata)?).await?;
    begin(&ctx, &found, image, ProcessId::random(), Some(Rotation { kind, keep })).await?;
    let location = (keep > 0).then(|| ctx.links.to_self("images", &image.to_string()));
    Ok(answer(&ctx, image, location))
}

fn name(body: &Value) -> String {
    body["name"].as_str().unwrap_or_default().trim().to_owned()
}

fn answer(ctx: &Ctx, image: ImageId, location: Option<String>) -> Reply {
    if versions::images_are_named_in_the_body(ctx.version) {
        return Reply::json(202, json!({"image_id": image}));
    }
    match location {
        Some(location) => Reply::empty(202).header("Location", location),
        None => Reply::empty(202),
    }
}

/// The image's own properties; as many as the quota lets, where it still counts for them.
fn metadata(ctx: &Ctx, body: &Value) -> Result<Pairs, Fault> {
    let metadata = pairs(body.get("metadata"));
    if versions::image_metadata_counts_for_quota(ctx.version)
        && let Some(project) = &ctx.caller().project
    {
        let limit = quotas::limit(ctx, project, "metadata_items")?;
        if usize::try_from(limit).is_ok_and(|limit| metadata.len() > limit) {
            return Err(Fault::forbidden("Image metadata limit exceeded"));
        }
    }
    Ok(metadata)
}

/// What the image of a server's own disk is to be.
pub(super) fn of_disk(ctx: &Ctx, found: &Found, name: &str, kind: &str, metadata: Pairs) -> Result<ImageDraft, Fault> {
    let server = found.server()?;
    Ok(ImageDraft {
        image: ImageId::random(),
        name: name.to_owned(),
        owner: ctx.caller().project.clone().unwrap_or_else(|| server.request.project.clone()),
        format: "qcow2".to_owned(),
        min_disk_gib: min_disk(server),
        min_memory_mib: server.request.image.as_ref().map_or(0, |image| image.min_memory_mib),
        properties: properties(ctx, found, server, kind, metadata),
    })
}

/// Makes the image, without bytes: whoever asked is told its id.
pub(super) async fn make(ctx: &Ctx, found: &Found, draft: ImageDraft) -> Result<ImageId, Fault> {
    let image = draft.image;
    let made = ctx.queries()?.images.create(draft, dispatch::meta(&found.permit)).await;
    made.map(|()| image).map_err(|error| match error {
        PortError::Unavailable(cause) => Fault::unavailable("The image service does not answer.").caused_by(cause),
        PortError::Forbidden(message) => Fault::forbidden(message),
        other => Fault::bad_request(other.to_string()),
    })
}

/// What is made of the image has to have room for the disk.
fn min_disk(server: &Alive) -> u32 {
    let own = server.request.image.as_ref().map_or(0, |image| image.min_disk_gib);
    own.max(server.request.flavor.root_gib)
}

/// What the image takes over from the server's own, what says where it comes from, and what was asked for.
fn properties(ctx: &Ctx, found: &Found, server: &Alive, kind: &str, metadata: Pairs) -> Pairs {
    let base = server.request.image.as_ref();
    let mut all: Pairs = base.map(|image| image.properties.clone()).unwrap_or_default();
    all.retain(|(key, _)| !NOT_INHERITED.contains(&key.as_str()));
    let id = found.id.to_string();
    let own = [
        ("instance_uuid", id.as_str()),
        ("user_id", ctx.caller().user.as_str()),
        ("image_type", kind),
        ("image_location", "snapshot"),
        ("image_state", "available"),
        ("owner_id", server.request.project.as_str()),
    ];
    for (key, value) in own {
        set(&mut all, key, value);
    }
    if let Some(base) = base {
        set(&mut all, "base_image_ref", &base.id.to_string());
    }
    for (key, value) in metadata {
        set(&mut all, &key, &value);
    }
    all.sort();
    all
}

async fn begin(
    ctx: &Ctx,
    found: &Found,
    image: ImageId,
    process: ProcessId,
    backup: Option<Rotation>,
) -> Result<(), Fault> {
    let snapshot = WorkCommand::Snapshot { process, image, backup, asker: asker(ctx, found) };
    or_drop(ctx, found, image, ask(ctx, found, snapshot).await).await
}

/// An image that nothing comes of is not left behind.
pub(super) async fn or_drop(ctx: &Ctx, found: &Found, image: ImageId, asked: Result<(), Fault>) -> Result<(), Fault> {
    if asked.is_err()
        && let Err(error) = ctx.queries()?.images.delete(image, dispatch::meta(&found.permit)).await
    {
        tracing::warn!(%image, %error, "an image of a server that was not copied after all stays behind");
    }
    asked
}
