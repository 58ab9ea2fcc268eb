//! Resources of which there are none yet, because nothing can make one: their lists are empty, which is the truth.

use serde_json::json;

use super::bodies::{hosts as bodies, no_query, server_parts};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[
    get("aggregates.index", "/os-aggregates", handler!(aggregates))
        .policy("os_compute_api:os-aggregates:index")
        .query(no_query),
    get("migrations.index", "/os-migrations", handler!(migrations))
        .policy("os_compute_api:os-migrations:index")
        .query(bodies::migrations_index_query),
    get("server_groups.index", "/os-server-groups", handler!(server_groups))
        .policy("os_compute_api:os-server-groups:index")
        .query(server_parts::server_groups_index_query),
    get("server_groups.show", "/os-server-groups/{id}", handler!(server_group))
        .policy("os_compute_api:os-server-groups:show")
        .query(no_query),
];

async fn aggregates(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"aggregates": []})))
}

async fn migrations(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"migrations": []})))
}

async fn server_groups(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"server_groups": []})))
}

async fn server_group(ctx: Ctx) -> Result<Reply, Fault> {
    Err(Fault::not_found(format!("Instance group {} could not be found.", ctx.param("id"))))
}
