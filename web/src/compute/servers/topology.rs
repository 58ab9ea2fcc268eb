//! The NUMA topology of a server (2.78): the guest's nodes, and for administrators their places on the host.

use std::collections::BTreeMap;

use chronova_actors::hardware;
use chronova_actors::operations::Queries;
use chronova_actors::topology::{self, GuestNumaTopology};
use chronova_events::ids::{ConsumerId, ProviderId};
use chronova_events::instance::{Alive, FlavorSnapshot, ImageSnapshot};
use chronova_events::ledger::{FittedNumaCell, Ledger};
use serde_json::{Value, json};

use super::lookup::{PermittedServer, find};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::reply::Reply;

/// Checks the hardware and the NUMA topology that a flavor and an image request together.
pub(super) fn check(
    flavor: &FlavorSnapshot,
    image: Option<&ImageSnapshot>,
) -> Result<Option<GuestNumaTopology>, Fault> {
    hardware::check(flavor, image).map_err(Fault::bad_request)?;
    topology::ask(flavor, image).map_err(Fault::bad_request)
}

/// Checks the PCI devices that a flavor and an image request.
pub(super) fn check_devices(
    queries: &Queries,
    flavor: &FlavorSnapshot,
    image: Option<&ImageSnapshot>,
) -> Result<(), Fault> {
    let asked = queries.server_options.pci_aliases.requests(flavor, image);
    asked.map(drop).map_err(Fault::bad_request)
}

/// Refuses a rebuild that would change the NUMA topology (Nova's `ImageNUMATopologyRebuildConflict`). A rebuild keeps
/// the server's NUMA placement on its host.
pub(super) fn check_rebuild(server: &Alive, image: &ImageSnapshot) -> Result<(), Fault> {
    let flavor = &server.request.flavor;
    // An old server may request an impossible topology, from a time when nobody refused it. It has no NUMA placement,
    // so its flavor and the new image must request no topology.
    let before = topology::ask(flavor, server.hardware_image()).ok().flatten();
    // Only the image is checked here. A server must still be rebuildable if its flavor would be refused today.
    hardware::check_image(image).map_err(Fault::bad_request)?;
    hardware::check_rebuild_architecture(server.hardware_image(), image).map_err(Fault::bad_request)?;
    match topology::ask(flavor, Some(image)).map_err(Fault::bad_request)? == before {
        true => Ok(()),
        false => Err(Fault::bad_request(
            "An instance's NUMA topology cannot be changed as part of a rebuild. The image provided is invalid for this \
             instance: its hw_cpu_, hw_numa_ and hw_mem_ properties have to ask for what the server has.",
        )),
    }
}

pub(super) async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let server = found.server()?;
    let fitted = ctx.views()?.placement.read(|view| fitted(&view.ledger, &found, server));
    if let Some(cells) = fitted {
        let host_too = ctx.allows("compute:server:topology:host:index", &found.target);
        let nodes: Vec<Value> = cells.iter().map(|cell| node(cell, host_too)).collect();
        let page = cells.iter().find_map(|cell| cell.page_kib);
        return Ok(Reply::ok(json!({"nodes": nodes, "pagesize_kb": page})));
    }
    // A server without a host shows the topology that it requests.
    let asked = topology::ask(&server.request.flavor, server.hardware_image()).ok().flatten();
    let nodes: Vec<Value> = asked.iter().flat_map(|topology| &topology.nodes).map(wanted).collect();
    Ok(Reply::ok(json!({"nodes": nodes, "pagesize_kb": null})))
}

/// The server's placement on its current host. During a move, the server also has a placement on its destination.
fn fitted(ledger: &Ledger, found: &PermittedServer, server: &Alive) -> Option<Vec<FittedNumaCell>> {
    let own = ledger.fitting(&ConsumerId::new(found.id.to_string()));
    let host = server.placement.as_ref().map(|placed| ProviderId(placed.host.0))?;
    let before = server.moving.as_ref().map(|moving| ConsumerId::new(moving.migration.to_string()));
    let before = before.and_then(|migration| ledger.fitting(&migration));
    let there = [own, before].into_iter().flatten().find(|fitting| fitting.host == host)?;
    Some(there.cells.to_vec())
}

fn node(cell: &FittedNumaCell, host_too: bool) -> Value {
    let mut node = json!({"vcpu_set": cell.cpus(), "siblings": [], "memory_mb": cell.memory_mib});
    if host_too {
        let pins: BTreeMap<String, u32> = cell.pinned.iter().map(|(cpu, on)| (cpu.to_string(), *on)).collect();
        node["host_node"] = json!(cell.cell);
        node["cpu_pinning"] = json!(pins);
    }
    node
}

fn wanted(node: &topology::GuestNumaNode) -> Value {
    let cpus: Vec<u32> = node.floating.union(&node.dedicated).copied().collect();
    json!({"vcpu_set": cpus, "siblings": [], "memory_mb": node.memory_mib})
}
