//! Updates the interfaces of a server from the network service.
//!
//! A real Neutron notifies Nova with `network-changed` and `network-vif-deleted`. The embedded service calls
//! [`refresh`] when it changes a port. The server then shows new addresses of its port and a new name of its network.
//! If a port was deleted, the guest loses the interface. A process of the server (a detachment, a delete) records its
//! changes itself.

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, PortId, ProcessId};
use chronova_events::process::Task;

use crate::instance::{InstanceCommand, InstanceRecord, InstanceRequest, InstanceRoot};
use crate::reconcile::context::ReconcileContext;

/// Records the present state of the server's interfaces, and requests the detachment of interfaces without a port. The
/// event `network-changed` leads here, too. Returns `false` if something failed and the caller should try again. A
/// skipped server is no failure.
pub async fn refresh(context: &ReconcileContext, server: InstanceId) -> bool {
    let row = context.views.servers.read(|servers| servers.get(server).cloned());
    let Some(known) = row.as_ref().and_then(|row| row.instance.alive()) else { return true };
    // Skips a server with a task. A build and a move record the interfaces themselves, and a delete releases all
    // interfaces. After any other task, the caller must refresh the server again.
    if known.ongoing.is_some() || known.building().is_some() || known.nics.is_empty() {
        return true;
    }
    let Ok(now) = context.networks.refresh(server, &known.nics).await else { return false };
    let gone: Vec<PortId> =
        known.nics.iter().map(|nic| nic.port).filter(|port| now.iter().all(|nic| nic.port != *port)).collect();
    let mut is_shown = true;
    if now.iter().any(|nic| !known.nics.contains(nic)) {
        is_shown &= send(context, server, InstanceRecord::NicsRefreshed { nics: now }).await;
    }
    for port in gone.into_iter().filter(|port| !is_leaving(context, server, *port)) {
        is_shown &= send(context, server, InstanceRequest::LoseNic { process: ProcessId::random(), port }).await;
    }
    is_shown
}

/// Whether a detachment of the port is already under way.
fn is_leaving(context: &ReconcileContext, server: InstanceId, leaving: PortId) -> bool {
    context.views.processes.read(|processes| {
        processes.pending().any(|pending| {
            matches!(&pending.task, Task::DetachInterface { instance, port } if (*instance, *port) == (server, leaving))
        })
    })
}

async fn send(context: &ReconcileContext, server: InstanceId, command: impl Into<InstanceCommand>) -> bool {
    let sent = context.gateway.send::<InstanceRoot>(&server, command.into(), Meta::system("network-watch")).await;
    if let Err(error) = &sent {
        tracing::warn!(%server, %error, "updating a server's interfaces failed, retrying");
    }
    sent.is_ok()
}
