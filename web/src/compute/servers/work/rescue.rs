//! `rescue` and `unrescue`. Source: nova `compute/api.py` (`rescue`, `unrescue`).

use chronova_actors::instance::actions::Action;
use chronova_actors::instance::work::WorkCommand;
use chronova_actors::ports::PortError;
use chronova_events::ids::{ImageId, ProcessId};
use chronova_events::instance::ImageSnapshot;
use serde_json::json;

use super::{admit, ask};
use crate::compute::servers::change::asker;
use crate::compute::servers::{Found, find, new_password};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::reply::Reply;

pub(super) async fn rescue(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    admit(&ctx, &found, Action::Rescue)?;
    let image = image(&ctx, &found).await?;
    let rescue = WorkCommand::Rescue { process: ProcessId::random(), image, asker: asker(&ctx, &found) };
    ask(&ctx, &found, rescue).await?;
    Ok(Reply::ok(match new_password(&ctx, &ctx.action_body()["adminPass"]) {
        Some(password) => json!({"adminPass": password}),
        None => json!({}),
    }))
}

/// What was asked for, or what the server was made from.
async fn image(ctx: &Ctx, found: &Found) -> Result<ImageSnapshot, Fault> {
    let server = found.server()?;
    // A rescue of what boots from a volume needs its root attached as a second disk; no host here does that yet.
    let own = server.request.image.as_deref().cloned().ok_or_else(|| {
        let id = found.id;
        Fault::bad_request(format!("Instance {id} cannot be rescued: Cannot rescue a volume-backed instance"))
    })?;
    let Some(reference) = ctx.action_body()["rescue_image_ref"].as_str() else { return Ok(own) };
    let unsupported = || Fault::bad_request(format!("Requested rescue image '{reference}' is not supported"));
    let id: ImageId = reference.parse().map_err(|_| unsupported())?;
    let project = ctx.caller().project.clone().unwrap_or_else(|| server.request.project.clone());
    let image = match ctx.house()?.images.find(id, &project, ctx.caller().is_admin).await {
        Ok(image) => image,
        Err(PortError::Unavailable(cause)) => {
            return Err(Fault::unavailable("The image service does not answer.").caused_by(cause));
        }
        Err(_) => return Err(unsupported()),
    };
    let property = |name: &str| image.properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    if property("img_block_device_mapping").is_some() {
        return Err(unsupported());
    }
    match property("hw_rescue_device") {
        None | Some("disk" | "cdrom") => Ok(image),
        Some(device) => Err(Fault::bad_request(format!("Requested rescue device '{device}' is not supported"))),
    }
}

pub(super) async fn unrescue(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let unrescue = WorkCommand::Unrescue { process: ProcessId::random(), asker: asker(&ctx, &found) };
    ask(&ctx, &found, unrescue).await?;
    Ok(Reply::empty(202))
}
