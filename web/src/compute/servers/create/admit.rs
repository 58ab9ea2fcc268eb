//! Checks a request to create servers before anything is recorded. The checks are Nova's, but not always in Nova's
//! order.

use chronova_actors::operations::Queries;
use chronova_events::ids::{FlavorId, PortId, ProjectId, ServerGroupId};
use chronova_events::instance::{BlockDevicesMapped, FilesGiven, FlavorSnapshot, ImageSnapshot, KeySnapshot};
use chronova_events::server_group::ServerGroupCreated;

use super::request::CreateServerRequest;
use super::volumes::{self, RequestedDisks};
use crate::compute::servers::topology;
use crate::compute::{quotas, reject, versions, zones};
use crate::ctx::Ctx;
use crate::fault::Fault;

const GIB: u64 = 1 << 30;

/// The resources that were looked up for an accepted request.
pub(super) struct AdmittedServer {
    pub project: ProjectId,
    pub flavor: FlavorSnapshot,
    pub image: Option<ImageSnapshot>,
    /// The disks, if the request or its image has block device mappings.
    pub mapped: Option<BlockDevicesMapped>,
    pub key: Option<KeySnapshot>,
    pub availability_zone: Option<String>,
    pub forced_host: Option<String>,
    /// The server group that the servers become members of.
    pub group: Option<ServerGroupCreated>,
    pub requested_host: Option<String>,
}

pub(super) async fn admit(
    ctx: &Ctx,
    queries: &Queries,
    request: &CreateServerRequest,
) -> Result<AdmittedServer, Fault> {
    let project = ctx.caller().project.clone().ok_or_else(|| {
        Fault::forbidden("Policy doesn't allow os_compute_api:servers:create to be performed.")
            .caused_by("the token has no project")
    })?;
    parts(ctx, request)?;
    let RequestedDestination { zone: availability_zone, forced: forced_host, requested: requested_host } =
        destination(ctx, queries, request)?;
    limits(ctx, &project, request.metadata.len(), request.files.as_ref())?;
    let key = request.key_name.as_deref().map(|name| key(ctx, queries, name)).transpose()?;
    let flavor = visible_flavor(ctx, queries, &request.flavor)?;
    let found = find_image(ctx, queries, request, &project).await?;
    let (devices, mut disks) = volumes::plan(ctx, queries, request, &project, &flavor, found.as_ref()).await?;
    // The configuration has default certificates only if certificate validation is enabled.
    let trusts = |list: &[String]| !list.is_empty();
    let defaults = &ctx.app.compute.config.default_trusted_certificates;
    if disks.volume_backed && (trusts(&request.trusted_certs) || trusts(defaults)) {
        return Err(Fault::bad_request("Image certificate validation is not supported when booting from volume"));
    }
    check_image(ctx, &flavor, &disks, found.as_ref())?;
    topology::check(&flavor, disks.boot_image.as_ref())?;
    topology::check_devices(queries, &flavor, disks.boot_image.as_ref())?;
    let availability_zone =
        volumes::admit(ctx, queries, &project, &flavor, devices, &mut disks, availability_zone).await?;
    // A volume-backed server has no image, even if its root volume was created from one.
    let image = found.filter(|_| !disks.volume_backed);
    let (networks, by) = (&queries.networks, ctx.service_caller());
    networks.check(&project, &request.networks, &request.security_groups, &by).await.map_err(reject::network)?;
    if request.auto_network {
        networks.check_auto(&project, &by).await.map_err(reject::network)?;
    }
    if !versions::ports_may_request_resources(ctx.version) {
        let ports: Vec<PortId> = request.networks.listed().iter().filter_map(|nic| nic.port).collect();
        let requests = networks.resource_requests(&ports, &by.meta).await.map_err(reject::network)?;
        if !requests.is_empty() {
            return Err(reject::ports_with_requests());
        }
    }
    let group = group(ctx, queries, request)?;
    let mapped = disks.mapped;
    Ok(AdmittedServer { project, flavor, image, mapped, key, availability_zone, forced_host, group, requested_host })
}

/// The group of the scheduler hint `group`. Only administrators find another project's group.
fn group(ctx: &Ctx, queries: &Queries, request: &CreateServerRequest) -> Result<Option<ServerGroupCreated>, Fault> {
    let hint = request.scheduler_hints.iter().find(|(key, _)| key == "group").and_then(|(_, values)| values.first());
    let Some(text) = hint.filter(|text| !text.is_empty()) else { return Ok(None) };
    let id: Option<ServerGroupId> = text.parse().ok();
    let known = id.and_then(|id| queries.views.server_groups.read(|groups| groups.get(id).cloned()));
    let own =
        known.filter(|group| ctx.caller().is_admin || ctx.caller().project.as_ref() == Some(&group.definition.project));
    let unknown = || Fault::bad_request(reject::no_server_group(text).message);
    own.map(|group| Some(group.definition.clone())).ok_or_else(unknown)
}

/// Checks the policy rules of the optional parts of the request.
fn parts(ctx: &Ctx, request: &CreateServerRequest) -> Result<(), Fault> {
    let own = ctx.own_target();
    if !request.trusted_certs.is_empty() {
        ctx.authorize_rule("os_compute_api:servers:create:trusted_certs", &own)?;
        trusted_certificates(ctx)?;
    }
    if !request.networks.listed().is_empty() {
        ctx.authorize_rule("os_compute_api:servers:create:attach_network", &own)?;
    }
    if request.host.is_some() || request.hypervisor_hostname.is_some() {
        ctx.authorize_rule("compute:servers:create:requested_destination", &own)?;
    }
    Ok(())
}

/// Nova's `CertificateValidationNotYetAvailable`. A request with certificates asks for a check of the image's
/// signature. Without a key manager the request is refused, unless `[glance] unchecked_certificates` is set.
pub(in crate::compute::servers) fn trusted_certificates(ctx: &Ctx) -> Result<(), Fault> {
    let config = &ctx.app.compute.config;
    match config.has_certificates || config.unchecked_certificates {
        true => Ok(()),
        false => Err(Fault::conflict(
            "Image signature certificate validation support is not yet available: leave out trusted_image_certificates.",
        )),
    }
}

/// The requested destination: a zone, a forced host, or a host that the filters must accept.
struct RequestedDestination {
    zone: Option<String>,
    forced: Option<String>,
    requested: Option<String>,
}

/// The destination that the request names with `zone:host:node`, and from 2.74 on with `host` and
/// `hypervisor_hostname`.
fn destination(ctx: &Ctx, queries: &Queries, request: &CreateServerRequest) -> Result<RequestedDestination, Fault> {
    let asked = request.availability_zone.clone().or_else(|| ctx.app.compute.config.default_schedule_zone.clone());
    let mut parts = asked.as_deref().unwrap_or_default().split(':');
    let filled = |part: Option<&str>| part.filter(|text| !text.is_empty()).map(str::to_owned);
    let (zone, host, node) = (filled(parts.next()), filled(parts.next()), filled(parts.next()));
    if parts.next().is_some() {
        return Err(Fault::bad_request("Unable to parse availability_zone"));
    }
    let forced = match (&host, &node) {
        (None, None) => None,
        (host, node) => {
            ctx.authorize_rule("os_compute_api:servers:create:forced_host", &ctx.own_target())?;
            // Each host has one node, with the same name.
            if let (Some(host), Some(node)) = (host, node)
                && host != node
            {
                return Err(Fault::bad_request(format!("Compute host {node} could not be found.")));
            }
            host.clone().or_else(|| node.clone())
        }
    };
    let requested = request.host.clone().or_else(|| request.hypervisor_hostname.clone());
    if forced.is_some() && requested.is_some() {
        return Err(Fault::bad_request(
            "Setting a forced host in 'availability_zone' together with 'host' or 'hypervisor_hostname' is not allowed.",
        ));
    }
    if let (Some(host), Some(node)) = (&request.host, &request.hypervisor_hostname)
        && host != node
    {
        return Err(Fault::bad_request(format!("Compute host {host} could not be found.")));
    }
    // If a host is forced, the zone in the request has no effect.
    let zone_matters = forced.is_none();
    if let Some(host) = forced.as_ref().or(requested.as_ref())
        && queries.views.hosts.read(|hosts| hosts.named(host).is_none())
    {
        return Err(Fault::bad_request(format!("Compute host {host} could not be found.")));
    }
    if let Some(zone) = &zone
        && zone_matters
        && !zones::takes_servers(queries, zone)
    {
        return Err(Fault::bad_request("The requested availability zone is not available"));
    }
    Ok(RequestedDestination { zone, forced, requested })
}

/// Checks the number of metadata items, and the number and sizes of files, against the project's limits (`[quota]`).
pub(in crate::compute::servers) fn limits(
    ctx: &Ctx,
    project: &ProjectId,
    metadata: usize,
    files: Option<&FilesGiven>,
) -> Result<(), Fault> {
    let limit = |resource: &str| quotas::limit(ctx, project, resource);
    let over = |resource: &str, amount: usize| -> Result<bool, Fault> {
        Ok(usize::try_from(limit(resource)?).is_ok_and(|limit| amount > limit))
    };
    if over("metadata_items", metadata)? {
        let most = limit("metadata_items")?;
        return Err(Fault::forbidden(format!("Maximum number of metadata items exceeds {most}")));
    }
    let files = files.map(|given| given.files.as_slice()).unwrap_or_default();
    if over("injected_files", files.len())? {
        return Err(Fault::forbidden("Personality file limit exceeded"));
    }
    for (path, contents) in files {
        if over("injected_file_path_bytes", path.len())? {
            let most = limit("injected_file_path_bytes")?;
            return Err(Fault::forbidden(format!("Personality file path exceeds maximum {most}")));
        }
        if over("injected_file_content_bytes", decoded_length(contents))? {
            let most = limit("injected_file_content_bytes")?;
            return Err(Fault::forbidden(format!("Personality file content exceeds maximum {most}")));
        }
    }
    Ok(())
}

fn decoded_length(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    (base64.len() * 3 / 4).saturating_sub(padding)
}

/// The caller's key pair with this name.
pub(in crate::compute::servers) fn key(ctx: &Ctx, queries: &Queries, name: &str) -> Result<KeySnapshot, Fault> {
    let found = queries.views.keypairs.read(|keypairs| {
        let key = &keypairs.by_user.get(&ctx.caller().user)?.by_name.get(name)?.definition;
        Some(KeySnapshot { name: key.name.clone(), kind: key.kind.clone(), public_key: key.public_key.clone() })
    });
    found.ok_or_else(|| Fault::bad_request("Invalid key_name provided."))
}

/// A flavor that the caller may use.
pub(in crate::compute::servers) fn visible_flavor(
    ctx: &Ctx,
    queries: &Queries,
    id: &str,
) -> Result<FlavorSnapshot, Fault> {
    let id = FlavorId::new(id);
    let flavor = queries.views.flavors.read(|view| view.flavors.by_id.get(&id).cloned());
    let visible = flavor.filter(|flavor| {
        let own = ctx.caller().project.as_ref().is_some_and(|project| flavor.visible_to(project));
        !flavor.definition.disabled && (own || ctx.caller().is_admin)
    });
    let flavor = visible.ok_or_else(|| Fault::bad_request(format!("Flavor {id} could not be found.")))?;
    let definition = &flavor.definition;
    Ok(FlavorSnapshot {
        id,
        name: definition.name.clone(),
        vcpus: definition.vcpus,
        memory_mib: definition.memory_mib,
        root_gib: definition.root_gib,
        ephemeral_gib: definition.ephemeral_gib,
        swap_mib: definition.swap_mib,
        extra_specs: flavor.extra_specs.clone(),
    })
}

async fn find_image(
    ctx: &Ctx,
    queries: &Queries,
    request: &CreateServerRequest,
    project: &ProjectId,
) -> Result<Option<ImageSnapshot>, Fault> {
    let Some(id) = request.image else { return Ok(None) };
    queries.images.find_as(id, project, &ctx.service_caller()).await.map(Some).map_err(reject::image)
}

/// Compares the flavor with the image to boot from, if there is one. Source: Nova's `_validate_flavor_image_nostatus`.
fn check_image(
    ctx: &Ctx,
    flavor: &FlavorSnapshot,
    disks: &RequestedDisks,
    found: Option<&ImageSnapshot>,
) -> Result<(), Fault> {
    let Some(image) = disks.boot_image.as_ref() else { return Ok(()) };
    if image.min_memory_mib > flavor.memory_mib {
        return Err(Fault::bad_request("Flavor's memory is too small for requested image."));
    }
    if disks.volume_backed || found.is_none() {
        return volumes::check_min_disk(disks);
    }
    if flavor.root_gib == 0 {
        // The root disk gets the image's size, but the claim on the host includes no disk. So this needs its own
        // right.
        return match ctx.allows("os_compute_api:servers:create:zero_disk_flavor", &ctx.own_target()) {
            true => Ok(()),
            false => Err(Fault::forbidden("Only volume-backed servers are allowed for flavors with zero disk.")),
        };
    }
    fits_disk(image, flavor)
}

/// Refuses an image from which a server with this flavor cannot be rebuilt.
pub(in crate::compute::servers) fn fits(image: &ImageSnapshot, flavor: &FlavorSnapshot) -> Result<(), Fault> {
    if image.min_memory_mib > flavor.memory_mib {
        return Err(Fault::bad_request("Flavor's memory is too small for requested image."));
    }
    match flavor.root_gib {
        0 => Ok(()),
        _ => fits_disk(image, flavor),
    }
}

fn fits_disk(image: &ImageSnapshot, flavor: &FlavorSnapshot) -> Result<(), Fault> {
    let disk = u64::from(flavor.root_gib) * GIB;
    let size = image.size.max(image.virtual_size);
    if size > disk {
        return Err(Fault::bad_request(format!(
            "Flavor's disk is too small for requested image. Flavor disk is {disk} bytes, image is {size} bytes."
        )));
    }
    let least = u64::from(image.min_disk_gib) * GIB;
    match least > disk {
        true => Err(Fault::bad_request(format!(
            "Flavor's disk is smaller than the minimum size specified in image metadata. Flavor disk is {disk} bytes, \
             minimum size is {least} bytes."
        ))),
        false => Ok(()),
    }
}
