//! Decides which answers are recorded: refusals, and answers that contain a secret.
//!
//! A request of a known user is recorded if its answer is 403, 409 or 413, or 404 for a resource that exists in another
//! project. A 404 for anything else is no refusal, as clients look for names and wait for deletions. No resource is
//! hidden from an administrator, so a 404 to an administrator is no refusal either. Requests without a valid token are
//! not recorded, because their user is unknown. Failed log-ins have records of their own.

use std::sync::Arc;

use chronova_events::access::{AccessClient, AccessSort, LeftOutOf, RequestRefused, SecretRead};
use chronova_events::ids::{ImageId, InstanceId, NetworkId, PortId, ProjectId, VolumeId};
use chronova_projections::views::Views;
use uuid::Uuid;

use super::AccessLog;
use crate::app::App;
use crate::auth::Requester;
use crate::fault::Fault;
use crate::pipeline::ResponseFacts;
use crate::reply::Reply;
use crate::service::Service;

/// A request as its client wrote it.
pub(crate) struct AskedPath<'a> {
    pub service: Service,
    pub method: &'a str,
    pub path: &'a str,
}

/// Records an answer that auditors look for.
pub(crate) fn answered(app: &App, asked: &AskedPath<'_>, facts: &ResponseFacts, result: &Result<Reply, Fault>) {
    let (Some(log), Some(requester)) = (&app.access, &facts.requester) else { return };
    if requester.caller.is_anonymous() {
        return;
    }
    match result {
        Ok(reply) if facts.reads_secret && reply.status < 400 => secret_read(log, asked, facts, requester),
        Ok(_) => {}
        Err(fault) if is_refusal(app, fault.status, asked.path, requester) => {
            refused(log, asked, facts, requester, fault);
        }
        Err(_) => {}
    }
}

fn is_refusal(app: &App, status: u16, path: &str, requester: &Requester) -> bool {
    match status {
        403 | 409 | 413 => true,
        // Administrators see all projects. With `as_of`, a resource that exists now may not have existed then.
        404 if requester.caller.is_admin => false,
        404 => {
            let Ok(queries) = app.queries() else { return false };
            ids(path).any(|id| is_of_another(&queries.views, id, requester.caller.project.as_ref()))
        }
        _ => false,
    }
}

/// Whether `id` is a server, volume, image, network or port of another project.
fn is_of_another(views: &Views, id: Uuid, own: Option<&ProjectId>) -> bool {
    let of_server = || {
        let row = views.servers.read(|view| view.get(InstanceId(id)).cloned())?;
        Some(row.server()?.request.project.clone())
    };
    let of_volume = || views.volumes.read(|view| view.get(VolumeId(id)).map(|volume| volume.created.project.clone()));
    let of_image = || views.images.read(|view| view.get(ImageId(id)))?.attributes.owner.clone();
    let of_network = || {
        views.networks.read(|view| {
            let network = view.network(NetworkId(id)).map(|network| network.created.project.clone());
            network.or_else(|| view.port(PortId(id)).map(|port| port.created.project.clone()))
        })
    };
    let owner = of_server().or_else(of_volume).or_else(of_image).or_else(of_network);
    owner.is_some_and(|owner| own != Some(&owner))
}

fn refused(log: &AccessLog, asked: &AskedPath<'_>, facts: &ResponseFacts, requester: &Arc<Requester>, fault: &Fault) {
    let mut reason = fault.message.clone();
    reason.truncate(reason.floor_char_boundary(RequestRefused::LONGEST_REASON));
    let event = RequestRefused {
        user: requester.caller.user.clone(),
        client: AccessClient::of(requester.source.as_deref()),
        service: asked.service.name().to_owned(),
        method: asked.method.chars().take(16).collect(),
        operation: facts.operation.unwrap_or("none").to_owned(),
        ids: ids(asked.path).take(RequestRefused::MOST_IDS).collect(),
        status: fault.status,
        reason,
    };
    log.record(AccessSort::Refusal, rate_of(requester), event, &requester.meta(None));
}

fn secret_read(log: &AccessLog, asked: &AskedPath<'_>, facts: &ResponseFacts, requester: &Arc<Requester>) {
    let event = SecretRead {
        user: requester.caller.user.clone(),
        client: AccessClient::of(requester.source.as_deref()),
        service: asked.service.name().to_owned(),
        operation: facts.operation.unwrap_or("none").to_owned(),
        ids: ids(asked.path).take(RequestRefused::MOST_IDS).collect(),
    };
    log.record(AccessSort::SecretRead, rate_of(requester), event, &requester.meta(None));
}

/// The record uses the project's rate, which all users of the project share.
fn rate_of(requester: &Requester) -> LeftOutOf {
    match &requester.caller.project {
        Some(project) => LeftOutOf::Project(project.clone()),
        None => LeftOutOf::User(requester.caller.user.clone()),
    }
}

/// The part of a path that records and logs may have. The operation that looks up a console's token has the token in
/// its path. This token looks like an id, but is a secret while it is valid.
pub(crate) fn without_secret(path: &str) -> &str {
    const BEFORE: &str = "/os-console-auth-tokens";
    path.find(BEFORE).map_or(path, |at| &path[..at + BEFORE.len()])
}

fn ids(path: &str) -> impl Iterator<Item = Uuid> {
    without_secret(path)
        .split('/')
        .filter(|part| matches!(part.len(), 32 | 36))
        .filter_map(|part| Uuid::try_parse(part).ok())
}
