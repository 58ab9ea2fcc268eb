//! `rescue` and `unrescue`. Source: nova `compute/api.py` (`rescue`, `unrescue`).

use chronova_actors::instance::WorkRequest;
use chronova_actors::instance::actions::ServerAction;
use chronova_actors::ports::PortError;
use chronova_events::ids::{ImageId, ProcessId, ProviderId};
use chronova_events::instance::ImageSnapshot;
use serde_json::json;

use super::on_volumes;
use super::requests::{admit, ask, ask_with};
use crate::compute::servers::change::asker;
use crate::compute::servers::create;
use crate::compute::servers::lookup::{PermittedServer, find};
use crate::compute::versions;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::reply::Reply;

pub(super) async fn rescue(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    admit(&ctx, &found, ServerAction::Rescue)?;
    let image = image(&ctx, &found).await?;
    on_volumes::in_use(&ctx, &found, Fault::conflict).await?;
    check_root(&ctx, &found, &image)?;
    check_size(&found, &image)?;
    let (process, password) =
        (ProcessId::random(), create::new_password(&ctx, ctx.action_body()["adminPass"].as_str()));
    let rescue = WorkRequest::Rescue { process, image, asker: asker(&ctx, &found) };
    ask_with(&ctx, &found, process, password.as_ref(), rescue).await?;
    Ok(Reply::ok(match password {
        Some(password) => json!({"adminPass": password}),
        None => json!({}),
    }))
}

/// The trait of hosts whose driver rescues volume-backed servers.
const RESCUES_FROM_VOLUMES: &str = "COMPUTE_RESCUE_BFV";

/// Checks the rescue of a volume-backed server, which is possible since 2.87. The server keeps all its disks meanwhile,
/// so the image must have `hw_rescue_device` and `hw_rescue_bus`, and the host must report the trait.
fn check_root(ctx: &Ctx, found: &PermittedServer, image: &ImageSnapshot) -> Result<(), Fault> {
    let says = |name: &str| image.properties.iter().any(|(key, _)| key == name);
    let stable = says("hw_rescue_device") && says("hw_rescue_bus");
    let allowed = versions::rescues_servers_on_volumes(ctx.version) && stable;
    let server = found.server()?;
    if !server.is_volume_backed() {
        return Ok(());
    }
    if !allowed {
        return Err(not_rescuable(found));
    }
    let host = server.placement.as_ref().map(|placed| ProviderId(placed.host.0));
    let rescues = ctx.views()?.placement.read(|view| {
        let provider = host.and_then(|host| view.ledger.providers.get(&host));
        provider.is_some_and(|provider| provider.traits.contains(RESCUES_FROM_VOLUMES))
    });
    match rescues {
        true => Ok(()),
        false => Err(refusal(found, "Host unable to rescue a volume-backed instance")),
    }
}

/// Refuses an image that is larger than the flavor's disk. The rescue disk is as large as its image, so the project
/// would get space that its quota does not cover. If the flavor's disk is 0, the limit is the size of the root volume,
/// which the quota of volumes covers. A server with neither such a disk nor a root volume has no limit, because only
/// administrators can create it.
fn check_size(found: &PermittedServer, image: &ImageSnapshot) -> Result<(), Fault> {
    let (id, server) = (found.id, found.server()?);
    let (limits, gib) = match server.request.flavor.root_gib {
        0 => {
            let root = server.disks.iter().map(|disk| &disk.device).find(|device| device.is_root());
            ("root volume", root.filter(|root| root.is_volume()).and_then(|root| root.size).unwrap_or(0))
        }
        gib => ("flavor's disk", gib),
    };
    let (disk, size) = (u64::from(gib) << 30, image.size.max(image.virtual_size));
    match disk > 0 && size > disk {
        true => Err(Fault::bad_request(format!(
            "Instance {id} cannot be rescued: the rescue image has {size} bytes, the {limits} {disk}. Choose a smaller image."
        ))),
        false => Ok(()),
    }
}

fn not_rescuable(found: &PermittedServer) -> Fault {
    refusal(found, "Cannot rescue a volume-backed instance")
}

fn refusal(found: &PermittedServer, reason: &str) -> Fault {
    let id = found.id;
    Fault::bad_request(format!("Instance {id} cannot be rescued: {reason}"))
}

/// The requested image, or the image that the server was built from.
async fn image(ctx: &Ctx, found: &PermittedServer) -> Result<ImageSnapshot, Fault> {
    let server = found.server()?;
    let Some(reference) = ctx.action_body()["rescue_image_ref"].as_str() else {
        return server.hardware_image().cloned().ok_or_else(|| not_rescuable(found));
    };
    let unsupported = || Fault::bad_request(format!("Requested rescue image '{reference}' is not supported"));
    let id: ImageId = reference.parse().map_err(|_| unsupported())?;
    let project = ctx.caller().project.clone().unwrap_or_else(|| server.request.project.clone());
    let image = match ctx.queries()?.images.find_as(id, &project, &ctx.service_caller()).await {
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
    let unrescue = WorkRequest::Unrescue { process: ProcessId::random(), asker: asker(&ctx, &found) };
    ask(&ctx, &found, unrescue).await?;
    Ok(Reply::empty(202))
}
