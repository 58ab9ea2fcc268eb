//! `/os-baremetal-nodes` until 2.35: a view of the bare-metal service's nodes. Chronova has no bare-metal service, so
//! reads answer 501. Changes answer 400, as in Nova.
//!
//! Source: nova `api/openstack/compute/baremetal_nodes.py`.

use crate::answers::refused;
use crate::compute::bodies::proxies as bodies;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action, delete, get, post};

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("baremetal_nodes.index", "/os-baremetal-nodes", handler!(no_service))
        .until(2, 35)
        .policy("os_compute_api:os-baremetal-nodes:list")
        .answers(refused),
    get("baremetal_nodes.show", "/os-baremetal-nodes/{id}", handler!(no_service))
        .until(2, 35)
        .policy("os_compute_api:os-baremetal-nodes:show")
        .answers(refused),
    post("baremetal_nodes.create", "/os-baremetal-nodes", handler!(create))
        .until(2, 35)
        .body(bodies::anything)
        .answers(refused),
    delete("baremetal_nodes.delete", "/os-baremetal-nodes/{id}", handler!(remove)).until(2, 35).answers(refused),
    action("baremetal_nodes.add_interface", "/os-baremetal-nodes/{id}/action", "add_interface", handler!(add))
        .until(2, 35)
        .body(bodies::anything)
        .answers(refused),
    action(
        "baremetal_nodes.remove_interface",
        "/os-baremetal-nodes/{id}/action",
        "remove_interface",
        handler!(remove_interface),
    )
    .until(2, 35)
    .body(bodies::anything)
    .answers(refused),
];

async fn no_service(_: Ctx) -> Result<Reply, Fault> {
    Err(Fault::not_implemented("The requested functionality is not supported."))
}

fn use_ironic(command: &str) -> Result<Reply, Fault> {
    Err(Fault::bad_request(format!(
        "Command not supported. Please use Ironic command {command} to perform this action."
    )))
}

async fn create(_: Ctx) -> Result<Reply, Fault> {
    use_ironic("node-create")
}

async fn remove(_: Ctx) -> Result<Reply, Fault> {
    use_ironic("node-delete")
}

async fn add(_: Ctx) -> Result<Reply, Fault> {
    use_ironic("port-create")
}

async fn remove_interface(_: Ctx) -> Result<Reply, Fault> {
    use_ironic("port-delete")
}
