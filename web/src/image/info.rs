//! `/v2/info`: information about the service itself.

use serde_json::json;

use super::answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[
    get("info.import", "/info/import", handler!(import)).answers(answers::import_methods),
    get("info.stores", "/info/stores", handler!(stores)).answers(answers::stores),
];

/// The service has no import methods, because images are only uploaded.
async fn import(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({
        "import-methods": {"description": "Import methods available.", "type": "array", "value": []},
    })))
}

async fn stores(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({
        "stores": [{"id": "file", "description": "Files of the data directory", "default": "true"}],
    })))
}
