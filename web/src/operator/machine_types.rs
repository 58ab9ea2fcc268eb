//! The machine types of servers. One operation lists the servers without a recorded machine type, another changes a
//! server's machine type. `chronova manage libvirt` calls these operations.

use chronova_actors::instance::{InstanceRequest, InstanceRoot};
use serde_json::json;

use super::answers;
use super::bodies::MachineTypeBody;
use super::servers;
use crate::compute::reject;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get, put};

pub(super) const ROUTES: &[Route] = &[
    get("operator.machine_types.unset", "/machine-types/unset", handler!(unset))
        .leader()
        .policy("chronova:servers:show")
        .answers(answers::without_machine_type),
    put("operator.machine_types.set", "/servers/{server}/machine-type", handler!(set))
        .any_body()
        .policy("chronova:machine_types:set")
        .answers(answers::server),
];

/// The servers without a recorded machine type, oldest first.
async fn unset(ctx: Ctx) -> Result<Reply, Fault> {
    let mut servers: Vec<String> = ctx.queries()?.views.servers.read(|servers| {
        let all = servers.newest(None, None).into_iter().flatten();
        let without = all.filter(|row| row.server().is_some_and(|server| server.machine_type().is_none()));
        without.map(|row| row.id.to_string()).collect()
    });
    servers.reverse();
    Ok(Reply::ok(json!({"servers": servers})))
}

async fn set(ctx: Ctx) -> Result<Reply, Fault> {
    let row = servers::find(&ctx)?;
    let MachineTypeBody { name, force } = MachineTypeBody::of(&ctx)?;
    let request = InstanceRequest::ChangeMachineType { machine_type: name, force };
    let sent = dispatch::send::<InstanceRoot>(ctx.dispatch()?, &ctx.permit()?, &row.id, request).await;
    sent.map_err(|error| reject::instance(row.id, error))?;
    servers::show(ctx).await
}
