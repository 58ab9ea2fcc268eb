//! `/servers/{server_id}/shares` (2.97): file shares of a shared-file-system service, mounted into guests.
//!
//! No share service is connected, and no host can attach a share (`COMPUTE_STORAGE_VIRTIO_FS`). So a server has no
//! shares, and a request to attach one gets Nova's refusal for such hosts.
//!
//! Source: nova `api/openstack/compute/server_shares.py`, `virt/hardware.py`.

use chronova_events::instance::status;
use serde_json::json;

use super::lookup::find;
use crate::answers::refused;
use crate::compute::answers::server_parts as answers;
use crate::compute::bodies::{server_parts as bodies, strict_no_query};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post};

const PATH: &str = "/servers/{server_id}/shares";
const ONE: &str = "/servers/{server_id}/shares/{id}";

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("server_shares.index", PATH, handler!(index))
        .since(2, 97)
        .policy_on_target("os_compute_api:os-server-shares:index")
        .query(strict_no_query)
        .answers(answers::shares),
    post("server_shares.create", PATH, handler!(create))
        .since(2, 97)
        .policy_on_target("os_compute_api:os-server-shares:create")
        .body(bodies::server_shares_create_body)
        .answers(refused),
    delete("server_shares.delete", ONE, handler!(remove))
        .since(2, 97)
        .policy_on_target("os_compute_api:os-server-shares:delete")
        .answers(refused),
    get("server_shares.show", ONE, handler!(show))
        .since(2, 97)
        .policy_on_target("os_compute_api:os-server-shares:show")
        .query(strict_no_query)
        .answers(refused),
];

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    find(&ctx, "server_id")?;
    Ok(Reply::ok(json!({"shares": []})))
}

/// Shares can be attached and detached only while the server is stopped.
fn off(ctx: &Ctx, action: &str, states: &[&str]) -> Result<(), Fault> {
    let found = find(ctx, "server_id")?;
    let state = status::of_alive(found.server()?).vm_state;
    match states.contains(&state) {
        true => Ok(()),
        false => {
            Err(Fault::conflict(format!("Cannot '{action}' instance {} while it is in vm_state {state}", found.id)))
        }
    }
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    off(&ctx, "create share", &["stopped"])?;
    Err(Fault::conflict("Feature not supported because either compute or instance are not configured correctly."))
}

fn no_share(ctx: &Ctx) -> Fault {
    Fault::not_found(format!("Share {} could not be found.", ctx.param("id")))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    off(&ctx, "delete share", &["stopped", "error"])?;
    Err(no_share(&ctx))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    find(&ctx, "server_id")?;
    Err(no_share(&ctx))
}
