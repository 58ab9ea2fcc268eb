//! Sends requests to the APIs from inside this process. No listener is involved, so no other process can send such a
//! request.

use std::sync::Arc;

use actix_web::test::{TestRequest, call_service, init_service, read_body};
use serde_json::Value;

use crate::app::App;
use crate::server::configure;
use crate::tables::Routers;

/// The user that `noauth2` believes to be the administrator.
const ADMINISTRATOR: &str = "admin";

/// The APIs of an application with `noauth2`.
pub struct InProcessApis {
    app: Arc<App>,
    routers: Arc<Routers>,
}

impl std::fmt::Debug for InProcessApis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InProcessApis")
    }
}

impl InProcessApis {
    pub fn new(app: Arc<App>) -> Self {
        Self { app, routers: Arc::new(Routers::all()) }
    }

    /// Sends a GET as the administrator. `version` is the header `OpenStack-API-Version`. `path` is percent-encoded.
    /// Returns the status and the body. A body that is not JSON becomes `Null`.
    pub async fn get(&self, path: &str, version: &str) -> (u16, Value) {
        let configured = configure(Arc::clone(&self.app), Arc::clone(&self.routers), None);
        let service = init_service(actix_web::App::new().configure(configured)).await;
        let request = TestRequest::get()
            .uri(path)
            .insert_header(("X-Auth-Token", ADMINISTRATOR))
            .insert_header(("OpenStack-API-Version", version));
        let response = call_service(&service, request.to_request()).await;
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&read_body(response).await).unwrap_or(Value::Null))
    }
}
