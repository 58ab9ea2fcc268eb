//! Adopts servers without an operation under way, with all that the API shows of them.
//!
//! A server's stream has the request, the disks, the host, the network interfaces and the end of the build, with Nova's
//! times. [`Adopted`](chronova_events::instance::Adopted) has the server's present state.

mod parts;
mod read;

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::instance::InstanceRoot;
use chronova_actors::quota::QuotaRoot;
use chronova_events::ids::{HostId, InstanceId, ProviderId, UserId};
use chronova_events::instance::{
    BlockDevicesMapped, BuildFailed, BuildSucceeded, Deleted, FaultInfo, InstanceEvent, NetworkAllocated,
};
use chronova_events::quota::{QuotaEvent, QuotaReserved};

use super::history::HistoryPart;
use super::report::{AdoptedThing, AdoptionVerdict};
use super::{Adoption, Unadoptable};
use crate::nova::database::rows;
use crate::nova::rows::NovaRow;
use parts::{CellParts, SharedParts};
use read::NovaServer;

/// The facts of an adopted server that the adoption of other objects needs.
#[derive(Debug, Clone)]
pub(super) struct AdoptedServer {
    pub(super) user: UserId,
    pub(super) host: Option<HostId>,
    pub(super) is_deleted: bool,
}

pub(super) fn adopt(adoption: &mut Adoption<'_>) {
    let shared = SharedParts::of(adoption.api());
    let cells: Vec<_> = adoption.cells().collect();
    for (name, database) in cells {
        let parts = CellParts::of(database);
        for row in rows(database, "instances") {
            server(adoption, &shared, &parts, &row, &name);
        }
    }
}

fn server(adoption: &mut Adoption<'_>, shared: &SharedParts<'_>, parts: &CellParts<'_>, row: &NovaRow<'_>, cell: &str) {
    let id = row.text("uuid").unwrap_or("?");
    adoption.report.see(AdoptedThing::Server, id, row.text("display_name").unwrap_or_default());
    if adoption.report.leaves_out(AdoptedThing::Server, id) {
        return;
    }
    let read = read::server(row, shared, parts, &adoption.hosts).and_then(|server| {
        if adoption.servers.contains_key(&server.request.instance) {
            return Err(Unadoptable::new("two cells have it", "delete the row of the cell that is wrong"));
        }
        check_allocation(adoption, &server)?;
        Ok(server)
    });
    match read {
        Ok(server) => record(adoption, server),
        // Nova shows a deleted server to administrators alone, and only until its rows are purged.
        Err(error) if row.is_deleted() => {
            let reason = format!("it is deleted, and cannot be shown: {}", error.reason);
            adoption.report.find(AdoptedThing::Server, id, AdoptionVerdict::Skipped, reason, "");
        }
        Err(error) => {
            let reason = format!("{} ({cell})", error.reason);
            adoption.report.obstacle(AdoptedThing::Server, id, reason, error.way_out);
        }
    }
}

/// Checks that a server on a host has an allocation there. Without one, the scheduler would give the server's resources
/// to other servers.
fn check_allocation(adoption: &Adoption<'_>, server: &NovaServer) -> Result<(), Unadoptable> {
    let Some(placed) = server.placed.as_ref().filter(|_| server.deleted_at.is_none()) else { return Ok(()) };
    let way_out = "run nova-manage placement heal_allocations, or leave the server out";
    let held = adoption.held.get(&server.request.instance.to_string());
    match held {
        None => Err(Unadoptable::new("it is on a host, but has no allocation", way_out)),
        Some(providers) if !providers.contains(&ProviderId(placed.host.0).0) => {
            let reason = format!("it is on {}, but its allocation is of another provider", placed.hostname);
            Err(Unadoptable::new(reason, way_out))
        }
        Some(_) => Ok(()),
    }
}

fn record(adoption: &mut Adoption<'_>, server: NovaServer) {
    let instance = server.request.instance;
    let known = AdoptedServer {
        user: server.request.user.clone(),
        host: server.placed.as_ref().map(|placed| placed.host),
        is_deleted: server.deleted_at.is_some(),
    };
    adoption.servers.insert(instance, known);
    if let Some(moving) = &server.adopted.moving {
        adoption.moves.insert(moving.migration, instance);
    }
    for note in &server.notes {
        adoption.report.note(AdoptedThing::Server, &instance.to_string(), note);
    }
    count_for_project(adoption, &server);
    push_stream(adoption, server);
}

/// Counts a server for the quota of its project, unless the server is deleted or soft-deleted.
fn count_for_project(adoption: &mut Adoption<'_>, server: &NovaServer) {
    let counts = server.deleted_at.is_none() && !server.is_soft_deleted();
    if !counts {
        return;
    }
    let request = &server.request;
    let reserved = QuotaReserved {
        project: request.project.clone(),
        instances: vec![request.instance],
        cores: request.flavor.vcpus,
        memory_mib: request.flavor.memory_mib,
    };
    let (stream, meta) = (QuotaRoot::stream(&request.project), adoption.meta.clone());
    adoption.history.push(HistoryPart::Quota, stream, server.created_at, &meta, QuotaEvent::from(reserved));
}

/// Writes the server's own stream.
fn push_stream(adoption: &mut Adoption<'_>, server: NovaServer) {
    let NovaServer { request, created_at, updated_at, deleted_at, asked, devices, boot_image, placed, nics, .. } =
        server;
    let (adopted, lock) = (server.adopted, server.lock);
    let instance: InstanceId = request.instance;
    let (stream, meta, build) = (InstanceRoot::stream(&instance), adoption.meta.clone(), adopted.build);
    let history = &mut adoption.history;
    let mut push = |at, meta: &_, event: InstanceEvent| {
        history.push(HistoryPart::Servers, stream.clone(), at, meta, event);
    };
    push(created_at, &asked, (*request).into());
    if !devices.is_empty() {
        push(created_at, &meta, BlockDevicesMapped { devices, image: boot_image }.into());
    }
    let is_placed = placed.is_some();
    if let Some(placed) = placed {
        push(created_at, &meta, placed.into());
    }
    if !nics.is_empty() {
        push(created_at, &meta, NetworkAllocated { process: build, nics }.into());
    }
    let built_at = adopted.launched_at.unwrap_or(updated_at).min(updated_at);
    if adopted.launched_at.is_some() {
        push(built_at, &meta, BuildSucceeded { process: build }.into());
    } else if is_placed {
        let fault = adopted.fault.as_ref().map_or_else(no_fault, |(fault, _)| fault.clone());
        push(built_at, &meta, BuildFailed { process: build, fault }.into());
    }
    if let Some(lock) = lock {
        push(updated_at, &meta, lock.into());
    }
    push(updated_at, &meta, adopted.into());
    if let Some(at) = deleted_at {
        push(at, &meta, Deleted { process: build }.into());
    }
}

fn no_fault() -> FaultInfo {
    FaultInfo { code: 500, message: "The build failed.".to_owned(), details: String::new() }
}
