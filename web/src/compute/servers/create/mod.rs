//! `POST /servers`.
//!
//! | step | file | possible answers |
//! |---|---|---|
//! | read the body | [`request`] | 400 for rules that the schema cannot express |
//! | read the block device mappings, look up their sources | [`devices`], [`volumes`] | 400 in Nova's words |
//! | look up and check flavor, image, key, zone, networks | [`admit`] | 400, 403, 404, 409 in Nova's words |
//! | claim quota, join a server group, record the servers | `actors/src/operations/create_servers.rs` | 403 over quota; 202 |
//!
//! `names` makes reservation ids and passwords. All checks of this file and its modules run before anything is
//! recorded.
//!
//! Personality files (until 2.56) are not written into guests' disks, because no agent runs on the hosts. Guests find
//! the files on the config drive and in the metadata service.

mod admit;
mod devices;
mod names;
mod request;
mod volumes;

use std::sync::Arc;

use chronova_actors::instance::creation::{CreateServersRequest, GroupToJoin};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::BuildRequested;
use serde_json::{Value, json};

pub(super) use self::admit::{fits, key, limits, trusted_certificates, visible_flavor};
pub(super) use self::request::files;

use self::admit::AdmittedServer;
use self::request::CreateServerRequest;
use crate::compute::views::server::disk_config;
use crate::compute::{quotas, reject};
use crate::ctx::Ctx;
use crate::dispatch::{self, Dispatch};
use crate::fault::Fault;
use crate::reply::Reply;

pub(super) async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let permit = ctx.permit()?;
    let dispatch = ctx.dispatch()?.clone();
    let api_request = CreateServerRequest::read(&ctx)?;
    let admitted = admit::admit(&ctx, dispatch.queries(), &api_request).await?;
    let reservation = names::reservation();
    let password = new_password(&ctx, api_request.admin_pass.as_deref());
    let request = request(&ctx, &api_request, admitted, &reservation)?;
    let created = dispatch::create_servers(&dispatch, &permit, request, password.clone()).await;
    let instances = created.map_err(reject::create)?;
    Ok(answer(&ctx, &api_request, &instances, &reservation, password))
}

/// The administrator's password of a guest, if passwords are enabled. It is the requested password, or a generated one.
/// Only the answer and the guest's config drive contain the password. The event log and the text log never do.
pub(super) fn new_password(ctx: &Ctx, asked: Option<&str>) -> Option<String> {
    let config = &ctx.app.compute.config;
    config.enable_instance_password.then(|| match asked {
        Some(password) => password.to_owned(),
        None => names::password(config.password_length),
    })
}

/// Keeps the password in memory for the process that creates the config drive.
pub(super) fn keep_password(dispatch: &Dispatch, process: ProcessId, config_drive: bool, password: Option<&String>) {
    if let Some(password) = password.filter(|_| config_drive) {
        dispatch.passwords().keep(process, password.clone());
    }
}

/// The canonical request, with all looked-up resources, in one form for all versions.
fn request(
    ctx: &Ctx,
    api_request: &CreateServerRequest,
    admitted: AdmittedServer,
    reservation: &str,
) -> Result<CreateServersRequest, Fault> {
    let member_limit = || quotas::limit(ctx, &admitted.project, "server_group_members");
    let group = admitted
        .group
        .as_ref()
        .map(|group| Ok(GroupToJoin { project: group.project.clone(), group: group.group, limit: member_limit()? }));
    let (group, defaults) = (group.transpose()?, quotas::default_limits(ctx)?);
    Ok(CreateServersRequest {
        template: template(ctx, api_request, &admitted, reservation),
        hostname: api_request.hostname.clone(),
        mapped: admitted.mapped,
        files: api_request.files.clone(),
        min_count: api_request.min_count,
        max_count: api_request.max_count,
        most: ctx.app.compute.config.max_servers_per_request,
        group,
        defaults,
    })
}

/// The properties that all servers of the request share.
fn template(
    ctx: &Ctx,
    api_request: &CreateServerRequest,
    admitted: &AdmittedServer,
    reservation: &str,
) -> BuildRequested {
    BuildRequested {
        instance: InstanceId(uuid::Uuid::nil()),
        process: ProcessId(uuid::Uuid::nil()),
        number: 0,
        reservation: reservation.to_owned(),
        launch_index: 0,
        batch: 0,
        project: admitted.project.clone(),
        user: ctx.caller().user.clone(),
        name: api_request.name.clone(),
        hostname: String::new(),
        description: api_request.description.clone(),
        flavor: Arc::new(admitted.flavor.clone()),
        image: admitted.image.clone().map(Arc::new),
        key: admitted.key.clone(),
        user_data: api_request.user_data.clone(),
        config_drive: api_request.config_drive
            || ctx.app.compute.config.force_config_drive
            || demands_config_drive(admitted),
        networks: api_request.networks.clone(),
        security_groups: api_request.security_groups.clone(),
        metadata: api_request.metadata.clone(),
        tags: api_request.tags.clone(),
        availability_zone: admitted.availability_zone.clone(),
        forced_host: admitted.forced_host.clone(),
        requested_host: admitted.requested_host.clone(),
        scheduler_hints: api_request.scheduler_hints.clone(),
        disk_config: api_request.disk_config,
        access_ip_v4: api_request.access_ip_v4.clone(),
        access_ip_v6: api_request.access_ip_v6.clone(),
        trusted_certs: trusted_certificates_of(ctx, api_request, admitted),
    }
}

/// The certificates of the request. If it names none, and the server is not volume-backed, these are the certificates
/// of the configuration.
fn trusted_certificates_of(ctx: &Ctx, api_request: &CreateServerRequest, admitted: &AdmittedServer) -> Vec<String> {
    match api_request.trusted_certs.is_empty() && admitted.image.is_some() {
        true => ctx.app.compute.config.default_trusted_certificates.clone(),
        false => api_request.trusted_certs.clone(),
    }
}

/// Whether the image requires a config drive.
fn demands_config_drive(admitted: &AdmittedServer) -> bool {
    let mut properties = admitted.image.iter().flat_map(|image| &image.properties);
    properties.any(|(name, value)| name == "img_config_drive" && value == "mandatory")
}

fn answer(
    ctx: &Ctx,
    api_request: &CreateServerRequest,
    instances: &[InstanceId],
    reservation: &str,
    password: Option<String>,
) -> Reply {
    if api_request.return_reservation_id {
        return Reply::json(202, json!({"reservation_id": reservation}));
    }
    let Some(first) = instances.first() else { return Reply::empty(202) };
    let id = first.to_string();
    let groups: Vec<Value> = api_request.security_groups.iter().map(|name| json!({"name": name})).collect();
    let mut server = json!({
        "id": id,
        "links": ctx.links.pair("servers", &id),
        "OS-DCF:diskConfig": disk_config(api_request.disk_config),
        "security_groups": groups,
    });
    if let Some(password) = password {
        server["adminPass"] = json!(password);
    }
    Reply::json(202, json!({"server": server})).header("Location", ctx.links.to_self("servers", &id))
}
