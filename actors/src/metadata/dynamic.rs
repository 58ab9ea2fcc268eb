//! Vendor data about each server from other services (`DynamicJSON`). Source: nova
//! `api/metadata/vendordata_dynamic.py`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::instance::Alive;
use serde_json::{Map, Value, json};

/// The services that give vendor data. Each has a unique name.
#[async_trait]
pub trait VendorServices: fmt::Debug + Send + Sync {
    /// Asks every service about the server that `about` describes. Returns the answers by the services' names. Fails
    /// only if the configuration forbids incomplete answers.
    async fn ask(&self, about: Value) -> Result<Map<String, Value>, String>;
}

/// The services as an option. Options are compared, so this type implements `PartialEq`.
#[derive(Debug, Clone)]
pub struct DynamicVendorData(pub Arc<dyn VendorServices>);

impl PartialEq for DynamicVendorData {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl DynamicVendorData {
    /// `roles`: those of the user who created the server.
    pub(super) async fn ask(&self, server: &Alive, roles: &[String]) -> Result<Map<String, Value>, String> {
        self.0.ask(about(server, roles)).await
    }
}

/// The request to the services.
fn about(server: &Alive, roles: &[String]) -> Value {
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
        "boot-roles": roles.join(","),
    })
}
