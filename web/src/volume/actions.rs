//! `/volumes/{id}/action`: the actions that neither attach nor detach a volume. `attach_actions` holds the others.

use chronova_actors::services::embedded::volume::{VolumeCommand, VolumeMetadataChange};
use chronova_events::ids::{ImageId, ProcessId};
use chronova_events::image::{ImageAttributes, ImageCreated, Visibility};
use chronova_events::volume::{VolumeRecord, VolumeStatus};
use serde_json::{Value, json};

use super::access::{command, permitted, shown, target};
use super::{answers, bodies, listing, views, volumes};
use crate::answers::{accepted, done, refused};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::Permit;
use crate::reply::Reply;
use crate::route::{Route, action};

pub(super) const PATH: &str = "/volumes/{volume_id}/action";

pub(super) const ROUTES: &[Route] = &[
    action("volumes.os-extend", PATH, "os-extend", handler!(extend))
        .policy_on_target("volume:extend")
        .answers(accepted),
    action("volumes.os-set_bootable", PATH, "os-set_bootable", handler!(set_bootable))
        .policy_on_target("volume:update")
        .answers(done),
    action("volumes.os-update_readonly_flag", PATH, "os-update_readonly_flag", handler!(set_readonly))
        .policy_on_target("volume:update_readonly_flag")
        .answers(accepted),
    action("volumes.os-set_image_metadata", PATH, "os-set_image_metadata", handler!(set_image))
        .policy_on_target("volume_extension:volume_image_metadata:set")
        .answers(answers::metadata),
    action("volumes.os-show_image_metadata", PATH, "os-show_image_metadata", handler!(show_image))
        .policy_on_target("volume_extension:volume_image_metadata:show")
        .answers(answers::metadata),
    action("volumes.os-unset_image_metadata", PATH, "os-unset_image_metadata", handler!(unset_image))
        .policy_on_target("volume_extension:volume_image_metadata:remove")
        .answers(done),
    action("volumes.os-reset_status", PATH, "os-reset_status", handler!(reset))
        .policy_on_target("volume_extension:volume_admin_actions:reset_status")
        .answers(accepted),
    action("volumes.os-force_delete", PATH, "os-force_delete", handler!(force_delete))
        .policy_on_target("volume_extension:volume_admin_actions:force_delete")
        .answers(accepted),
    action("volumes.os-retype", PATH, "os-retype", handler!(retype)).policy_on_target("volume:retype").answers(refused),
    action("volumes.os-volume_upload_image", PATH, "os-volume_upload_image", handler!(upload))
        .policy_on_target("volume_extension:volume_actions:upload_image")
        .answers(answers::uploading),
];

/// A required string of the action.
fn text<'a>(body: &'a Value, key: &str) -> Result<&'a str, Fault> {
    body[key].as_str().filter(|text| !text.is_empty()).ok_or_else(|| required(key))
}

fn required(key: &str) -> Fault {
    Fault::bad_request(format!("Invalid input for field/attribute {key}: '{key}' is a required property"))
}

/// The new size in GiB, sent as a number or as a string of digits.
fn new_size(value: &Value) -> Result<u32, Fault> {
    let number = value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    let size = number.filter(|size| *size > 0).and_then(|size| u32::try_from(size).ok());
    size.ok_or_else(|| {
        Fault::bad_request(format!(
            "Invalid input for field/attribute new_size. Value: {value}. A positive integer is required"
        ))
    })
}

async fn extend(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    let size = new_size(&ctx.action_body()["new_size"])?;
    let attached = bodies::extends_used_volumes(ctx.version);
    if attached && volume.status == VolumeStatus::InUse {
        ctx.authorize_rule("volume:extend_attached_volume", &target(&volume))?;
    }
    let meta = dispatch::meta(&permit);
    shown(&ctx, ctx.app.volumes()?.extend(volume.created.volume, size, attached, meta).await).await?;
    Ok(Reply::empty(202))
}

async fn set_bootable(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    let value = ctx.action_body().get("bootable").ok_or_else(|| required("bootable"))?;
    let bootable = Some(listing::flag(value, "bootable")?);
    command(&ctx, &permit, volume.created.volume, VolumeCommand::Flag { bootable, readonly: None }).await?;
    Ok(Reply::empty(200))
}

async fn set_readonly(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    let value = ctx.action_body().get("readonly").ok_or_else(|| required("readonly"))?;
    let readonly = Some(listing::flag(value, "readonly")?);
    command(&ctx, &permit, volume.created.volume, VolumeCommand::Flag { bootable: None, readonly }).await?;
    Ok(Reply::empty(202))
}

fn image_metadata(volume: &VolumeRecord) -> Reply {
    let extra = volume.image.as_ref().map(|image| image.extra.clone()).unwrap_or_default();
    Reply::ok(json!({"metadata": views::pairs(&extra)}))
}

async fn set_image(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    let pairs = volumes::pairs(&ctx.action_body()["metadata"]);
    let change = VolumeCommand::ChangeImageMetadata(VolumeMetadataChange::Merge(pairs));
    command(&ctx, &permit, volume.created.volume, change).await?;
    Ok(image_metadata(&*super::access::visible(&ctx, volume.created.volume)?))
}

async fn show_image(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, _) = permitted(&ctx)?;
    Ok(image_metadata(&volume))
}

async fn unset_image(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    let key = text(ctx.action_body(), "key")?.to_owned();
    let change = VolumeCommand::ChangeImageMetadata(VolumeMetadataChange::Remove(key));
    command(&ctx, &permit, volume.created.volume, change).await?;
    Ok(Reply::empty(200))
}

async fn reset(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    let reset = wanted_reset(ctx.action_body())?;
    command(&ctx, &permit, volume.created.volume, reset).await?;
    Ok(Reply::empty(202))
}

/// The reset that the body requests. `detached` drops all attachments. `attached` and `migration_status` are accepted
/// and change nothing, because a reset cannot create an attachment, and volumes have no migration status here.
fn wanted_reset(body: &Value) -> Result<VolumeCommand, Fault> {
    let known = |text: &str| {
        let unknown = || {
            Fault::bad_request(format!(
                "Invalid input for field/attribute status. Value: {text}. '{text}' is no known status"
            ))
        };
        VolumeStatus::parse(text).ok_or_else(unknown)
    };
    let status = body["status"].as_str().map(known).transpose()?;
    let attach = body["attach_status"].as_str();
    if let Some(wrong) = attach.filter(|text| !matches!(*text, "attached" | "detached")) {
        let message =
            format!("Invalid input for field/attribute attach_status. Value: {wrong}. '{wrong}' is no known status");
        return Err(Fault::bad_request(message));
    }
    if status.is_none() && attach.is_none() && body["migration_status"].is_null() {
        return Err(Fault::bad_request("Must specify 'status', 'attach_status' or 'migration_status' for update."));
    }
    Ok(VolumeCommand::Reset { status, detached: attach == Some("detached") })
}

async fn force_delete(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    let meta = dispatch::meta(&permit);
    shown(&ctx, ctx.app.volumes()?.remove(volume.created.volume, true, false, meta).await).await?;
    Ok(Reply::empty(202))
}

/// Always refuses, because no command changes a volume's type. Unknown and unchanged types get Cinder's own refusals.
async fn retype(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, _) = permitted(&ctx)?;
    let wanted = text(ctx.action_body(), "new_type")?;
    let kinds = super::types::visible(&ctx)?;
    let by_name = kinds.iter().find(|kind| kind.name == wanted);
    let known = by_name.or_else(|| kinds.iter().find(|kind| kind.id.to_string() == wanted));
    let known = known.ok_or_else(|| Fault::not_found(format!("Volume type with name {wanted} could not be found.")))?;
    if known.id == volume.created.volume_type {
        return Err(Fault::bad_request("Invalid input received: Retype requires a different volume type"));
    }
    Err(Fault::bad_request("Invalid volume: The volume's storage does not support changing its type."))
}

/// The longest name of an image.
const LONGEST_NAME: usize = 255;

fn image_name(body: &Value) -> Result<String, Fault> {
    let name = text(body, "image_name")?;
    match name.chars().count() > LONGEST_NAME {
        true => {
            let message = "Invalid input for field/attribute image_name: the name has more than 255 characters";
            Err(Fault::bad_request(message))
        }
        false => Ok(name.to_owned()),
    }
}

/// The image that the volume's content is uploaded to.
fn announced(ctx: &Ctx, volume: &VolumeRecord) -> Result<ImageCreated, Fault> {
    let body = ctx.action_body();
    let word = |key: &str, default: &str| body[key].as_str().unwrap_or(default).to_owned();
    let (disk_format, container_format) = (word("disk_format", "raw"), word("container_format", "bare"));
    if (disk_format.as_str(), container_format.as_str()) != ("raw", "bare") {
        return Err(Fault::bad_request(
            "Invalid input received: volumes can be uploaded with disk_format raw and container_format bare only",
        ));
    }
    let visibility = match body["visibility"].as_str() {
        None => Visibility::Shared,
        Some(text) => Visibility::parse(text).ok_or_else(|| {
            Fault::bad_request(format!("Invalid input for field/attribute visibility. Value: {text}"))
        })?,
    };
    let own = ["checksum", "container_format", "disk_format", "image_id", "image_name", "min_disk", "min_ram", "size"];
    let extra = volume.image.as_ref().map(|image| image.extra.clone()).unwrap_or_default();
    let properties = extra.into_iter().filter(|(key, _)| !own.contains(&key.as_str())).collect();
    let attributes = ImageAttributes {
        name: Some(image_name(body)?),
        owner: ctx.caller().project.clone(),
        visibility,
        disk_format: Some(disk_format),
        container_format: Some(container_format),
        min_disk_gib: volume.image.as_ref().map_or(0, |image| image.snapshot.min_disk_gib),
        min_ram_mib: volume.image.as_ref().map_or(0, |image| image.snapshot.min_memory_mib).try_into().unwrap_or(0),
        protected: listing::flag(&body["protected"], "protected")?,
        hidden: false,
        tags: Vec::new(),
        properties,
    };
    Ok(ImageCreated { image: ImageId::random(), attributes })
}

async fn upload(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    let created = announced(&ctx, &volume)?;
    if created.attributes.visibility == Visibility::Public {
        ctx.authorize_rule("volume_extension:volume_actions:upload_public", &target(&volume))?;
    }
    let force = listing::flag(&ctx.action_body()["force"], "force")?;
    let (image, attributes) = (created.image, created.attributes.clone());
    crate::image::announce(&ctx, &permit, created).await?;
    if let Err(fault) = begin_upload(&ctx, &permit, &volume, image, force).await {
        crate::image::withdraw(&ctx, &permit, image).await;
        return Err(fault);
    }
    let now = super::access::visible(&ctx, volume.created.volume)?;
    Ok(Reply::json(202, uploading(&ctx, &now, image, &attributes)?))
}

async fn begin_upload(
    ctx: &Ctx,
    permit: &Permit,
    volume: &VolumeRecord,
    image: ImageId,
    force: bool,
) -> Result<(), Fault> {
    let process = ProcessId::derive(image.0, "upload");
    command(ctx, permit, volume.created.volume, VolumeCommand::Upload { process, image, force }).await
}

fn uploading(ctx: &Ctx, volume: &VolumeRecord, image: ImageId, attributes: &ImageAttributes) -> Result<Value, Fault> {
    let kind = ctx.views()?.volumes.read(|view| view.types.by_id.get(&volume.created.volume_type).cloned());
    Ok(json!({"os-volume_upload_image": {
        "id": volume.created.volume,
        "updated_at": views::time(volume.updated_at),
        "status": volume.status.as_str(),
        "display_description": volume.description,
        "size": volume.size_gb,
        "volume_type": kind.map(|kind| views::types::shown(&kind, false, false)),
        "image_id": image,
        "container_format": attributes.container_format,
        "disk_format": attributes.disk_format,
        "image_name": attributes.name,
        "protected": attributes.protected,
        "visibility": attributes.visibility.as_str(),
    }}))
}
