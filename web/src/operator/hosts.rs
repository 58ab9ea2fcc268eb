//! `/chronova/v1/hosts`: the hosts, their drains and their maintenance. A path has the name or the id of a host.

use chronova_actors::aggregate::CommandError;
use chronova_actors::host::{DrainCommand, HostCommand, HostReject, HostRoot};
use chronova_actors::operations::Operations;
use chronova_actors::operations::change_fleet::ChangeFleetReject;
use chronova_actors::operations::remove_host::RemoveHostReject;
use chronova_events::host::KnownHost;
use chronova_events::ids::{HostId, ProcessId};
use serde_json::{Value, json};

use super::answers;
use super::bodies::{DrainRequest, NewHostBody};
use super::views;
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("operator.hosts.list", "/hosts", handler!(list)).leader().policy("chronova:hosts:list").answers(answers::hosts),
    post("operator.hosts.add", "/hosts", handler!(add))
        .any_body()
        .policy("chronova:hosts:add")
        .answers(answers::host_added),
    delete("operator.hosts.remove", "/hosts/{host}", handler!(remove))
        .policy("chronova:hosts:remove")
        .answers(no_content),
    get("operator.hosts.show", "/hosts/{host}", handler!(show))
        .leader()
        .policy("chronova:hosts:show")
        .answers(answers::host),
    post("operator.hosts.drain", "/hosts/{host}/drain", handler!(drain))
        .any_body()
        .policy("chronova:hosts:drain")
        .answers(answers::host_changed),
    delete("operator.hosts.drain.cancel", "/hosts/{host}/drain", handler!(cancel))
        .policy("chronova:hosts:drain")
        .answers(answers::host_changed),
    put("operator.hosts.maintenance", "/hosts/{host}/maintenance", handler!(begin_maintenance))
        .any_body()
        .policy("chronova:hosts:maintenance")
        .answers(answers::host_changed),
    delete("operator.hosts.maintenance.end", "/hosts/{host}/maintenance", handler!(end_maintenance))
        .policy("chronova:hosts:maintenance")
        .answers(answers::host_changed),
];

pub(super) fn find(ctx: &Ctx) -> Result<KnownHost, Fault> {
    let name = ctx.param("host");
    let id: Option<HostId> = name.parse().ok();
    let found = ctx.queries()?.views.hosts.read(|hosts| match id {
        Some(id) => hosts.get(id).cloned(),
        None => hosts.named(name).cloned(),
    });
    found.ok_or_else(|| no_host(name))
}

fn no_host(name: &str) -> Fault {
    Fault::not_found(format!("Compute host {name} could not be found."))
}

async fn list(ctx: Ctx) -> Result<Reply, Fault> {
    let queries = ctx.queries()?;
    let mut hosts: Vec<KnownHost> = queries.views.hosts.read(|hosts| hosts.all().cloned().collect());
    hosts.sort_by(|a, b| a.hostname.cmp(&b.hostname));
    Ok(Reply::ok(json!({"hosts": hosts.iter().map(|host| views::brief(queries, host)).collect::<Vec<Value>>()})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let host = find(&ctx)?;
    Ok(Reply::ok(json!({"host": views::whole(ctx.queries()?, &host)})))
}

async fn add(ctx: Ctx) -> Result<Reply, Fault> {
    let uri = NewHostBody::of(&ctx)?.uri;
    let use_case = async |operations: &Operations, meta| operations.add_host(&uri, meta).await;
    dispatch::perform(ctx.dispatch()?, &ctx.permit()?, use_case).await.map_err(|error| not_changed(&uri, error))?;
    Ok(Reply::json(202, json!({"host": {"uri": uri}})))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let host = find(&ctx)?;
    let use_case = async |operations: &Operations, meta| operations.retire_host(&host, meta).await;
    let gone = dispatch::perform(ctx.dispatch()?, &ctx.permit()?, use_case).await;
    gone.map_err(|error| not_changed(&host.hostname, error))?;
    Ok(Reply::empty(204))
}

fn not_changed(name: &str, reject: ChangeFleetReject) -> Fault {
    match reject {
        ChangeFleetReject::NoHost(reason) => Fault::bad_request(format!("{reason}.")),
        ChangeFleetReject::IsThere(uri) => Fault::conflict(format!("A host with the URI {uri} is there already.")),
        ChangeFleetReject::TakesServers => Fault::conflict(format!(
            "Compute host {name} takes new servers. Drain it, or disable its service, before you remove it."
        )),
        ChangeFleetReject::Fleet(CommandError::Unavailable(cause))
        | ChangeFleetReject::Remove(
            RemoveHostReject::Ledger(CommandError::Unavailable(cause))
            | RemoveHostReject::Aggregates(CommandError::Unavailable(cause))
            | RemoveHostReject::Host(CommandError::Unavailable(cause)),
        ) => Fault::of_log(&cause),
        ChangeFleetReject::Remove(RemoveHostReject::HasServers | RemoveHostReject::Ledger(_)) => {
            Fault::conflict(format!("Compute host {name} has servers. Drain it before you remove it."))
        }
        ChangeFleetReject::Remove(RemoveHostReject::Aggregates(_) | RemoveHostReject::Host(_)) => {
            Fault::conflict(format!("Compute host {name} changed meanwhile, so look again."))
        }
    }
}

async fn send(ctx: &Ctx, host: &KnownHost, command: DrainCommand) -> Result<Reply, Fault> {
    let (dispatch, permit) = (ctx.dispatch()?, ctx.permit()?);
    let sent = dispatch::send::<HostRoot>(dispatch, &permit, &host.id, HostCommand::Drain(command)).await;
    sent.map_err(|error| refused(&host.hostname, error))?;
    dispatch.mirror_placement().await;
    Ok(Reply::json(202, json!({"host": views::whole(dispatch.queries(), &find(ctx)?)})))
}

fn refused(name: &str, error: CommandError<HostReject>) -> Fault {
    match error {
        CommandError::Unavailable(cause) => Fault::of_log(&cause),
        CommandError::Rejected(HostReject::NotFound) => no_host(name),
        CommandError::Rejected(HostReject::NotDraining) => {
            Fault::conflict(format!("Compute host {name} is not being drained."))
        }
        CommandError::Rejected(HostReject::DrainEnding) => {
            Fault::conflict(format!("A drain of compute host {name} is being cancelled; ask again in a moment."))
        }
        CommandError::Rejected(HostReject::NotInMaintenance) => {
            Fault::conflict(format!("Compute host {name} is not in maintenance."))
        }
    }
}

async fn drain(ctx: Ctx) -> Result<Reply, Fault> {
    let (host, request) = (find(&ctx)?, DrainRequest::of(&ctx, "drain")?);
    let parallel = request.parallel(ctx.queries()?.live_migrations_per_host);
    let command = DrainCommand::Begin { process: ProcessId::random(), parallel, reason: request.reason("drained") };
    send(&ctx, &host, command).await
}

async fn cancel(ctx: Ctx) -> Result<Reply, Fault> {
    let host = find(&ctx)?;
    send(&ctx, &host, DrainCommand::Cancel).await
}

async fn begin_maintenance(ctx: Ctx) -> Result<Reply, Fault> {
    let (host, request) = (find(&ctx)?, DrainRequest::of(&ctx, "maintenance")?);
    let parallel = request.parallel(ctx.queries()?.live_migrations_per_host);
    let (process, reason) = (ProcessId::random(), request.reason("maintenance"));
    send(&ctx, &host, DrainCommand::BeginMaintenance { process, parallel, reason }).await
}

async fn end_maintenance(ctx: Ctx) -> Result<Reply, Fault> {
    let host = find(&ctx)?;
    send(&ctx, &host, DrainCommand::EndMaintenance).await
}
