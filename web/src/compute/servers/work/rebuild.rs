//! `rebuild`. Source: nova `compute/api.py` (`rebuild`) and `api/openstack/compute/servers.py` (`_rebuild`).

use chronova_actors::instance::WorkRequest;
use chronova_actors::instance::actions::ServerAction;
use chronova_actors::ports::PortError;
use chronova_events::ids::{ImageId, ProcessId};
use chronova_events::instance::{Alive, DiskConfig, FilesGiven, ImageSnapshot, KeySnapshot, RebuildRequested};
use serde_json::{Value, json};

use super::on_volumes;
use super::requests::{admit, ask_with, pairs};
use crate::compute::servers::change::asker;
use crate::compute::servers::lookup::{PermittedServer, find};
use crate::compute::servers::viewer::{render, sees};
use crate::compute::servers::{create, topology};
use crate::compute::{reject, versions};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::reply::Reply;
use crate::schema::is_true;

pub(super) async fn rebuild(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    if ctx.action_body().get("trusted_image_certificates").is_some() {
        ctx.authorize_rule("os_compute_api:servers:rebuild:trusted_certs", &found.target)?;
    }
    if ctx.action_body()["trusted_image_certificates"].is_array() && !found.server()?.is_volume_backed() {
        create::trusted_certificates(&ctx)?;
    }
    admit(&ctx, &found, ServerAction::Rebuild)?;
    let (request, files) = wanted(&ctx, &found).await?;
    let password = create::new_password(&ctx, ctx.action_body()["adminPass"].as_str());
    let process = request.process;
    let rebuild = WorkRequest::Rebuild { request: Box::new(request), files, asker: asker(&ctx, &found) };
    ask_with(&ctx, &found, process, password.as_ref(), rebuild).await?;
    answer(&ctx, &found, password).await
}

/// The requested rebuild, and the personality files.
async fn wanted(ctx: &Ctx, found: &PermittedServer) -> Result<(RebuildRequested, Option<FilesGiven>), Fault> {
    let (body, server) = (ctx.action_body(), found.server()?);
    let key = key(ctx, body, server)?;
    let image = image(ctx, found, body).await?;
    let reimage = match server.is_volume_backed() {
        true => check_volumes(ctx, found, body, &image).await?,
        false => {
            on_volumes::in_use(ctx, found, Fault::bad_request).await?;
            false
        }
    };
    let certificates = &ctx.app.compute.config.default_trusted_certificates;
    let request = RebuildRequested { reimage, ..request(body, server, key, image, certificates) };
    let files = create::files(body.get("personality"));
    let metadata = body["metadata"].as_object().map_or(0, serde_json::Map::len);
    create::limits(ctx, &server.request.project, metadata, files.as_ref())?;
    Ok((request, files))
}

/// The key pair after the rebuild. A requested key pair is one of the caller's, even if another user created the
/// server. Without `key_name` the server keeps its key pair.
fn key(ctx: &Ctx, body: &Value, server: &Alive) -> Result<Option<KeySnapshot>, Fault> {
    match body.get("key_name") {
        None => Ok(server.request.key.clone()),
        Some(Value::String(name)) => create::key(ctx, ctx.queries()?, name).map(Some),
        Some(_) => Ok(None),
    }
}

/// The image to rebuild from; it must fit the server's flavor and NUMA placement.
async fn image(ctx: &Ctx, found: &PermittedServer, body: &Value) -> Result<ImageSnapshot, Fault> {
    let server = found.server()?;
    let reference = body["imageRef"].as_str().unwrap_or_default();
    let id: ImageId = reference.parse().map_err(|_| Fault::bad_request("Invalid imageRef provided."))?;
    let project = ctx.caller().project.clone().unwrap_or_else(|| server.request.project.clone());
    let image =
        ctx.queries()?.images.find_as(id, &project, &ctx.service_caller()).await.map_err(|error| match error {
            PortError::NotFound(_) | PortError::Forbidden(_) => Fault::bad_request("Cannot find image for rebuild"),
            other => reject::image(other),
        })?;
    if !server.is_volume_backed() {
        create::fits(&image, &server.request.flavor)?;
    }
    topology::check_rebuild(server, &image)?;
    topology::check_devices(ctx.queries()?, &server.request.flavor, Some(&image))?;
    Ok(image)
}

/// Checks a rebuild of a volume-backed server. From 2.93 on a rebuild writes the root volume again, even with the same
/// image. Until 2.92 only the volume's own image is accepted, and the volume does not change.
async fn check_volumes(ctx: &Ctx, found: &PermittedServer, body: &Value, image: &ImageSnapshot) -> Result<bool, Fault> {
    let server = found.server()?;
    if body.get("trusted_image_certificates").is_some_and(|certs| !certs.is_null()) {
        return Err(Fault::bad_request("Image certificate validation is not supported for volume-backed servers."));
    }
    let reimage = versions::rebuild_writes_volumes(ctx.version);
    let volumes = &ctx.queries()?.volumes;
    let root = server.disks.iter().find(|disk| disk.device.is_root()).and_then(|disk| disk.device.volume);
    let root = match root {
        Some(root) => volumes.find(root, &server.request.project, true).await.ok(),
        None => None,
    };
    let now = root.as_ref().and_then(|root| root.image.as_ref()).map(|image| image.id);
    if now != Some(image.id) && !reimage {
        return Err(Fault::bad_request(format!(
            "Image {} is unacceptable: Unable to rebuild with a different image for a volume-backed server.",
            image.id
        )));
    }
    let least = u64::from(image.min_disk_gib) << 30;
    let size = root.map_or(0, |root| u64::from(root.size_gb)) << 30;
    if image.min_memory_mib > server.request.flavor.memory_mib {
        return Err(Fault::bad_request("Flavor's memory is too small for requested image."));
    }
    if least > size {
        return Err(Fault::bad_request(format!(
            "Volume is smaller than the minimum size specified in image metadata. Volume size is {size} bytes, minimum \
             size is {least} bytes."
        )));
    }
    on_volumes::in_use(ctx, found, Fault::bad_request).await?;
    Ok(reimage)
}

/// The request, with defaults filled in.
fn request(
    body: &Value,
    server: &Alive,
    key: Option<KeySnapshot>,
    image: ImageSnapshot,
    default_certificates: &[String],
) -> RebuildRequested {
    let now = &server.request;
    let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
    // A key with `null` removes the value. Without the key, the value stays.
    let or_now = |key: &str, now: &Option<String>| if body.get(key).is_some() { text(key) } else { now.clone() };
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    RebuildRequested {
        process: ProcessId::random(),
        image,
        // The server's aggregate sets `other_image` when it accepts the request. Only then is it known which image
        // the request replaces.
        other_image: false,
        reimage: false,
        preserve_ephemeral: body.get("preserve_ephemeral").is_some_and(is_true),
        name: text("name").map_or_else(|| now.name.clone(), |name| name.trim().to_owned()),
        hostname: text("hostname").unwrap_or_else(|| now.hostname.clone()),
        description: or_now("description", &now.description),
        key,
        user_data: or_now("user_data", &now.user_data),
        metadata: body.get("metadata").map_or_else(|| now.metadata.clone(), |metadata| pairs(Some(metadata))),
        trusted_certs: match body.get("trusted_image_certificates") {
            None => now.trusted_certs.clone(),
            // As in Nova, `null` selects the certificates of the configuration.
            Some(Value::Null) if !server.is_volume_backed() => default_certificates.to_vec(),
            Some(certificates) => list(certificates),
        },
        disk_config: match body.get("OS-DCF:diskConfig").and_then(Value::as_str) {
            Some("MANUAL") => DiskConfig::Manual,
            Some(_) => DiskConfig::Auto,
            None => now.disk_config,
        },
        access_ip_v4: text("accessIPv4").or_else(|| now.access_ip_v4.clone()),
        access_ip_v6: text("accessIPv6").or_else(|| now.access_ip_v6.clone()),
    }
}

/// The answer: the server with its new password, and in later versions with its key pair and user data.
async fn answer(ctx: &Ctx, found: &PermittedServer, password: Option<String>) -> Result<Reply, Fault> {
    let brief = versions::update_answers_briefly(ctx.version);
    let mut server = render(ctx, found.id, &sees(ctx, true, brief)?).await?;
    let now = find(ctx, "id")?;
    let request = &now.server()?.request;
    if let Some(fields) = server.as_object_mut() {
        fields.remove("OS-EXT-SRV-ATTR:user_data");
        if versions::rebuild_changes_keys(ctx.version) {
            fields.insert("key_name".to_owned(), json!(request.key.as_ref().map(|key| &key.name)));
        }
        if versions::rebuild_changes_user_data(ctx.version) {
            fields.insert("user_data".to_owned(), json!(request.user_data));
        }
        if let Some(password) = password {
            fields.insert("adminPass".to_owned(), json!(password));
        }
    }
    let location = ctx.links.to_self("servers", &found.id.to_string());
    Ok(Reply::json(202, json!({"server": server})).header("Location", location))
}
