//! `/volumes`: creating, listing, showing, changing and deleting volumes.

use std::sync::Arc;

use chronova_actors::ports::{NewContent, NewVolume};
use chronova_actors::services::embedded::volume::{VolumeCommand, VolumeDescriptionChange, VolumeMetadataChange};
use chronova_events::ids::VolumeId;
use chronova_events::volume::{VolumeMetadata, VolumeRecord, VolumeStatus};
use serde_json::{Value, json};

use super::access::{command, permitted, shown, target, visible};
use super::bodies::{VolumeCreateBody, VolumeUpdateBody};
use super::views::volume::{LISTED, SHOWN, VolumeView};
use super::{answers, bodies, listing};
use crate::answers::accepted;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("volumes.index", "/volumes", handler!(index)).policy("volume:get_all").answers(answers::volumes).as_of(),
    get("volumes.detail", "/volumes/detail", handler!(detail))
        .policy("volume:get_all")
        .answers(answers::volumes_in_detail)
        .as_of(),
    get("volumes.summary", "/volumes/summary", handler!(summary))
        .policy("volume:get_all")
        .since(3, 12)
        .answers(answers::summary)
        .as_of(),
    post("volumes.create", "/volumes", handler!(create))
        .policy("volume:create")
        .body(bodies::create_volume)
        .answers(answers::volume_created),
    get("volumes.show", "/volumes/{volume_id}", handler!(show))
        .policy_on_target("volume:get")
        .answers(answers::volume_shown)
        .as_of(),
    put("volumes.update", "/volumes/{volume_id}", handler!(update))
        .policy_on_target("volume:update")
        .body(bodies::update_volume)
        .answers(answers::volume_updated),
    delete("volumes.delete", "/volumes/{volume_id}", handler!(remove))
        .policy_on_target("volume:delete")
        .answers(accepted),
];

/// A volume as this caller sees it.
pub(super) fn view(ctx: &Ctx, volume: Arc<VolumeRecord>) -> Result<VolumeView, Fault> {
    let kind = ctx.views()?.volumes.read(|view| view.types.by_id.get(&volume.created.volume_type).cloned());
    let target = target(&volume);
    Ok(VolumeView {
        type_name: kind.map(|kind| kind.name.clone()),
        pool: ctx.app.volumes()?.options.pool.clone(),
        links: ctx.links.pair("volumes", &volume.created.volume.to_string()),
        inner: ctx.allows("volume_extension:volume_host_attribute", &target),
        image_metadata: ctx.allows("volume_extension:volume_image_metadata:show", &target),
        volume,
    })
}

/// The volumes that match the query, with all fields.
fn rows(ctx: &Ctx) -> Result<Vec<Value>, Fault> {
    let all = listing::all_projects(ctx)?;
    let own = ctx.caller().project.as_ref();
    let found = match (all, own) {
        (false, None) => Vec::new(),
        (all, own) => ctx.views()?.volumes.read(|view| view.of(own.filter(|_| !all))),
    };
    let mut rows = Vec::with_capacity(found.len());
    for volume in found {
        rows.push(SHOWN.render(&view(ctx, volume)?, ctx.version));
    }
    let mut rows = listing::filter(rows, &ctx.query);
    listing::sort(&mut rows, &ctx.query)?;
    Ok(rows)
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let rows = listing::only(rows(&ctx)?, &LISTED);
    listing::page(&ctx, "volumes", "volumes", rows)
}

async fn detail(ctx: Ctx) -> Result<Reply, Fault> {
    listing::page(&ctx, "volumes", "volumes/detail", rows(&ctx)?)
}

async fn summary(ctx: Ctx) -> Result<Reply, Fault> {
    let rows = rows(&ctx)?;
    let size: i64 = rows.iter().filter_map(|row| row["size"].as_i64()).sum();
    Ok(Reply::ok(json!({"volume-summary": {"total_size": size, "total_count": rows.len()}})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, _) = permitted(&ctx)?;
    Ok(Reply::ok(json!({"volume": SHOWN.render(&view(&ctx, volume)?, ctx.version)})))
}

/// The names and values below `metadata`.
pub(super) fn pairs(body: &Value) -> VolumeMetadata {
    let map = body.as_object().into_iter().flatten();
    map.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

/// An id that may be missing or empty.
fn id<T: std::str::FromStr>(text: Option<&String>, message: &dyn Fn(&str) -> Fault) -> Result<Option<T>, Fault> {
    text.filter(|text| !text.is_empty()).map(|text| text.parse().map_err(|_| message(text))).transpose()
}

fn content(body: &VolumeCreateBody) -> Result<NewContent, Fault> {
    let missing = |text: &str| Fault::not_found(format!("{text} could not be found."));
    let image = |text: &str| {
        Fault::bad_request(format!("Invalid image identifier or unable to access requested image. {text}"))
    };
    let of_image = match id(body.image_ref.as_ref(), &image)? {
        Some(image) => Some(image),
        None => id(body.image_id.as_ref(), &image)?,
    };
    if body.backup_id.as_ref().is_some_and(|id| !id.is_empty()) {
        return Err(Fault::bad_request("Invalid input received: there are no backups to create volumes from"));
    }
    let all = [
        of_image.map(NewContent::Image),
        id(body.snapshot_id.as_ref(), &missing)?.map(NewContent::Snapshot),
        id(body.source_volid.as_ref(), &missing)?.map(NewContent::Volume),
    ];
    let mut named = all.into_iter().flatten();
    match (named.next(), named.next()) {
        (None, _) => Ok(NewContent::Blank),
        (Some(content), None) => Ok(content),
        // If the body names several sources, an image takes precedence over a snapshot, and a snapshot over a volume.
        (Some(content), Some(_)) => Ok(content),
    }
}

fn wanted(ctx: &Ctx, body: VolumeCreateBody) -> Result<NewVolume, Fault> {
    let caller = ctx.caller();
    let project = caller.project.clone().ok_or_else(|| Fault::bad_request("Volumes belong to projects."))?;
    Ok(NewVolume {
        volume: VolumeId::random(),
        project,
        user: caller.user.clone(),
        name: body.described.name().mentioned().flatten().unwrap_or_default(),
        description: body.described.description().mentioned().flatten(),
        size_gb: body.size,
        content: content(&body)?,
        volume_type: body.volume_type.filter(|text| !text.is_empty()),
        availability_zone: body.availability_zone.filter(|text| !text.is_empty()),
        metadata: body.metadata,
        host: None,
    })
}

/// A volume without the extension fields, because Cinder's answers to changes do not have these fields.
fn plain(ctx: &Ctx, volume: Arc<VolumeRecord>) -> Result<Value, Fault> {
    let mut shown = SHOWN.render(&view(ctx, volume)?, ctx.version);
    if let Some(fields) = shown.as_object_mut() {
        fields.retain(|key, _| !key.starts_with("os-vol-") && key != "volume_image_metadata");
    }
    Ok(shown)
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let permit = ctx.permit()?;
    let mut body: VolumeCreateBody = ctx.parse_at("volume")?;
    let multiattach = std::mem::take(&mut body.multiattach);
    let wanted = wanted(&ctx, body)?;
    check_multiattach(&multiattach)?;
    let id = wanted.volume;
    let accepted = ctx.app.volumes()?.accept(wanted, ctx.caller().is_admin, dispatch::meta(&permit)).await;
    shown(&ctx, accepted).await?;
    // The answer shows the volume as `creating`, even if it is already `available`.
    let mut made = VolumeRecord::clone(&*visible(&ctx, id)?);
    made.status = VolumeStatus::Creating;
    let made = Arc::new(made);
    Ok(Reply::json(202, json!({"volume": plain(&ctx, made)?})))
}

/// Refuses `multiattach`, because since Cinder 2023 only the volume type can enable it.
fn check_multiattach(sent: &Value) -> Result<(), Fault> {
    if listing::flag(sent, "multiattach")? {
        return Err(Fault::bad_request(
            "multiattach parameter has been removed. The default behavior is to use multiattach enabled volume types. \
             Contact your administrator to create a multiattach enabled volume type and use it to create multiattach \
             volumes.",
        ));
    }
    Ok(())
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    let body: VolumeUpdateBody = ctx.parse_at("volume")?;
    let description = VolumeDescriptionChange {
        name: body.described.name().mentioned().map(Option::unwrap_or_default),
        description: body.described.description().mentioned(),
        metadata: body.metadata.map(VolumeMetadataChange::Replace),
    };
    command(&ctx, &permit, volume.created.volume, VolumeCommand::Describe(description)).await?;
    let now = visible(&ctx, volume.created.volume)?;
    Ok(Reply::ok(json!({"volume": plain(&ctx, now)?})))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    let wants = |key: &str| ctx.query.last(key).and_then(listing::truth) == Some(true);
    let (cascade, force) = (wants("cascade"), wants("force"));
    if force {
        ctx.authorize_rule("volume:force_delete", &target(&volume))?;
    }
    let meta = dispatch::meta(&permit);
    let accepted = ctx.app.volumes()?.remove(volume.created.volume, force, cascade, meta).await;
    shown(&ctx, accepted).await?;
    Ok(Reply::empty(202))
}
