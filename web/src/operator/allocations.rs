//! Repairs of Placement: orphaned allocations, lost allocations, and the mirror of host aggregates.
//! `chronova manage placement` calls these operations.

use std::collections::BTreeMap;

use chronova_actors::aggregate::CommandError;
use chronova_actors::operations::Operations;
use chronova_actors::operations::heal_allocations::{HealReject, HealRequest, HealedServer};
use chronova_actors::operations::orphaned_allocations::{OrphanReject, OrphanedAllocation};
use chronova_events::envelope::Position;
use chronova_events::ids::{ConsumerId, HostId, InstanceId, ProviderId};
use chronova_events::ledger::Allocation;
use serde_json::{Value, json};

use super::answers;
use super::bodies::HealBody;
use super::servers;
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post};

pub(super) const ROUTES: &[Route] = &[
    get("operator.orphans.list", "/placement/orphans", handler!(orphans))
        .leader()
        .policy("chronova:orphans:list")
        .answers(answers::orphans),
    delete("operator.orphans.delete", "/placement/orphans/{consumer}/{provider}", handler!(remove))
        .policy("chronova:orphans:delete")
        .answers(no_content),
    post("operator.allocations.heal", "/servers/{server}/allocations/heal", handler!(heal))
        .any_body()
        .policy("chronova:allocations:heal")
        .answers(answers::healed),
    post("operator.aggregates.mirror", "/placement/aggregates/mirror", handler!(mirror))
        .any_body()
        .policy("chronova:aggregates:mirror")
        .answers(answers::mirrored),
];

fn no_provider(id: &str) -> String {
    format!("Resource provider with UUID {id} does not exist.")
}

async fn orphans(ctx: Ctx) -> Result<Reply, Fault> {
    let of = match ctx.query.first("resource_provider") {
        Some(text) => Some(text.parse::<ProviderId>().map_err(|_| Fault::not_found(no_provider(text)))?),
        None => None,
    };
    let unknown = || Fault::not_found(no_provider(&of.map(|id| id.to_string()).unwrap_or_default()));
    let found = ctx.queries()?.orphaned_allocations(of).ok_or_else(unknown)?;
    Ok(Reply::ok(json!({"orphans": found.iter().map(orphan).collect::<Vec<Value>>()})))
}

fn orphan(found: &OrphanedAllocation) -> Value {
    json!({
        "consumer": found.consumer.as_str(),
        "resource_provider": found.provider.to_string(),
        "resources": found.resources.iter().cloned().collect::<BTreeMap<String, u64>>(),
    })
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let provider: ProviderId = ctx.id("provider", no_provider)?;
    let consumer = ConsumerId::new(ctx.param("consumer"));
    let use_case = async |operations: &Operations, meta| operations.remove_orphan(&consumer, provider, meta).await;
    dispatch::perform(ctx.dispatch()?, &ctx.permit()?, use_case)
        .await
        .map_err(|error| not_removed(&consumer, error))?;
    Ok(Reply::empty(204))
}

fn not_removed(consumer: &ConsumerId, reject: OrphanReject) -> Fault {
    match reject {
        OrphanReject::NotOrphaned => Fault::conflict(format!(
            "Consumer {} has no orphaned allocation of this provider (any more).",
            consumer.as_str()
        )),
        OrphanReject::Ledger(CommandError::Unavailable(cause)) => Fault::of_log(&cause),
        OrphanReject::Ledger(CommandError::Rejected(reject)) => Fault::conflict(format!(
            "The allocations of consumer {} changed meanwhile, so look again: {reject}.",
            consumer.as_str()
        )),
    }
}

async fn heal(ctx: Ctx) -> Result<Reply, Fault> {
    let server: InstanceId = ctx.id("server", servers::no_server)?;
    let request = HealRequest::from(HealBody::of(&ctx)?);
    let mut healed = HealedServer::UpToDate;
    let use_case = async |operations: &Operations, meta| {
        let (outcome, position) = operations.heal_allocations(server, request, meta).await?;
        healed = outcome;
        Ok::<Position, HealReject>(position)
    };
    dispatch::perform(ctx.dispatch()?, &ctx.permit()?, use_case).await.map_err(|error| not_healed(server, error))?;
    Ok(Reply::ok(json!({"healed": outcome(&healed)})))
}

fn outcome(healed: &HealedServer) -> Value {
    match healed {
        HealedServer::InTask(task) => json!({"outcome": "in_task", "task_state": task}),
        HealedServer::OnNoHost => json!({"outcome": "on_no_host"}),
        HealedServer::UpToDate => json!({"outcome": "up_to_date"}),
        HealedServer::Created(all) => json!({"outcome": "created", "allocations": allocations(all)}),
        HealedServer::Updated(all) => json!({"outcome": "updated", "allocations": allocations(all)}),
    }
}

fn allocations(all: &[Allocation]) -> Value {
    let one = |held: &Allocation| {
        let resources: BTreeMap<&str, u64> = held.resources.iter().map(|(class, amount)| (&**class, *amount)).collect();
        (held.provider.to_string(), json!({"resources": resources}))
    };
    all.iter().map(one).collect::<serde_json::Map<String, Value>>().into()
}

/// The keys of the faults tell `chronova manage` the exit code.
fn not_healed(server: InstanceId, reject: HealReject) -> Fault {
    match reject {
        HealReject::NotFound => Fault::not_found(servers::no_server(&server.to_string())),
        HealReject::NoProvider(host) => {
            Fault::conflict(format!("Compute host {host} could not be found.")).key("computeHostNotFound")
        }
        HealReject::NestedResources(kind) => Fault::conflict(format!(
            "Healing {kind} allocations is not supported for instance {server}: create the server again."
        ))
        .key("healNotSupported"),
        HealReject::Ledger(CommandError::Unavailable(cause)) => Fault::of_log(&cause),
        HealReject::Topology(reason) => not_allocated(server, &reason),
        HealReject::Ports(cause) => Fault::unavailable(format!("The ports of instance {server} cannot be read."))
            .caused_by(cause)
            .key("portsNotRead"),
        HealReject::PortsNotUpdated(cause) => {
            Fault::unavailable(format!("The ports of instance {server} cannot be updated."))
                .caused_by(cause)
                .key("portsNotUpdated")
        }
        HealReject::PortsNotRestored { ports, source } => Fault::unavailable(format!(
            "The bindings of the ports {ports} name providers that give them nothing: remove `allocation` from the \
             binding:profile of each."
        ))
        .caused_by(source)
        .key("portsNotRestored"),
        HealReject::Ledger(CommandError::Rejected(reject)) => not_allocated(server, &reject.to_string()),
    }
}

fn not_allocated(server: InstanceId, reason: &str) -> Fault {
    Fault::conflict(format!("Failed to update allocations for consumer {server}. Error: {reason}."))
        .key("allocationUpdateFailed")
}

/// Mirrors the host aggregates, and shows for each host of an aggregate whether its provider has the aggregate now.
async fn mirror(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.permit()?;
    ctx.dispatch()?.mirror_placement().await;
    Ok(Reply::ok(json!({"aggregates": mirrored(&ctx)?})))
}

fn mirrored(ctx: &Ctx) -> Result<Vec<Value>, Fault> {
    let views = &ctx.queries()?.views;
    let aggregates: Vec<_> = views.host_aggregates.read(|view| view.all().cloned().collect());
    let host = |(id, name): &(HostId, String), aggregate| {
        let known = views.hosts.read(|hosts| hosts.get(*id).is_some());
        let mirrored = views.placement.read(|view| {
            let provider = view.ledger.providers.get(&ProviderId(id.0));
            provider.map(|provider| provider.aggregates.contains(aggregate))
        });
        json!({"name": name, "known": known, "provider": mirrored.map(|_| id.to_string()), "mirrored": mirrored})
    };
    let shown = aggregates.iter().map(|aggregate| {
        let hosts: Vec<Value> = aggregate.hosts.iter().map(|one| host(one, &aggregate.id.0)).collect();
        json!({"name": aggregate.name, "uuid": aggregate.id.to_string(), "hosts": hosts})
    });
    Ok(shown.collect())
}

#[cfg(test)]
mod tests {
    use chronova_actors::ports::PortError;

    use super::*;

    /// `chronova manage placement heal_allocations` has an exit code for each key.
    #[test]
    fn a_refused_heal_says_by_its_key_what_failed() {
        let cause = || PortError::Unavailable("no answer".to_owned());
        for (reject, status, key) in [
            (HealReject::NoProvider("node7".to_owned()), 409, "computeHostNotFound"),
            (HealReject::Topology("no CPU".to_owned()), 409, "allocationUpdateFailed"),
            (HealReject::NestedResources("port"), 409, "healNotSupported"),
            (HealReject::Ports(cause()), 503, "portsNotRead"),
            (HealReject::PortsNotUpdated(cause()), 503, "portsNotUpdated"),
            (HealReject::PortsNotRestored { ports: "p".to_owned(), source: cause() }, 503, "portsNotRestored"),
        ] {
            let fault = not_healed(InstanceId::random(), reject);
            assert_eq!((fault.status, &*fault.key), (status, key), "{fault:?}");
        }
    }
}
