//! `/v2/info`: information about the service itself; `/v2/metadefs`: definitions of metadata, of which there are none.

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
    get("metadef_namespaces.index", "/metadefs/namespaces", handler!(namespaces)).answers(answers::metadef_namespaces),
    get("metadef_resource_types.index", "/metadefs/resource_types", handler!(resource_types))
        .answers(answers::metadef_resource_types),
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

/// Horizon asks for the namespaces in its forms.
async fn namespaces(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({
        "namespaces": [],
        "first": "/v2/metadefs/namespaces",
        "schema": "/v2/schemas/metadefs/namespaces",
    })))
}

async fn resource_types(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"resource_types": []})))
}
