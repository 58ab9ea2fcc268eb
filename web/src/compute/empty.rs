//! Resources of which there are none yet, because nothing can make one: their lists are empty, which is the truth.

use serde_json::json;

use super::bodies::hosts as bodies;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[get("migrations.index", "/os-migrations", handler!(migrations))
    .policy("os_compute_api:os-migrations:index")
    .query(bodies::migrations_index_query)];

async fn migrations(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"migrations": []})))
}
