//! Vendor data that other services tell of each server (`DynamicJSON`). Source: nova `api/metadata/vendordata_dynamic.py`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::instance::Alive;
use serde_json::{Map, Value, json};

/// The services, each under a name of its own.
#[async_trait]
pub trait VendorServices: fmt::Debug + Send + Sync {
    /// Asks every service about the server that `about` describes; the answers by the services' names. An error only
    /// where guests are to be told nothing rather than less.
    async fn ask(&self, about: Value) -> Result<Map<String, Value>, String>;
}

/// To be found among the options, which are compared.
#[derive(Debug, Clone)]
pub struct DynamicVendorData(pub Arc<dyn VendorServices>);

impl PartialEq for DynamicVendorData {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl DynamicVendorData {
    pub(super) async fn ask(&self, server: &Alive) -> Result<Map<String, Value>, String> {
        self.0.ask(about(server)).await
    }
}

/// The request to the services. The roles with which it was asked for are not kept with a server, so none are named.
fn about(server: &Alive) -> Value {
    let request = &server.request;
    let metadata: Map<String, Value> =
        request.metadata.iter().map(|(key, value)| (key.clone(), Value::from(value.clone()))).collect();
    json!({
        "project-id": request.project.as_str(),
        "instance-id": request.instance.to_string(),
        "image-id": request.image.as_ref().map_or_else(String::new, |image| image.id.to_string()),
        "user-data": request.user_data,
        "hostname": request.hostname,
        "metadata": metadata,
        "boot-roles": "",
    })
}
