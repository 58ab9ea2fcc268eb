//! The resources that ports request, and the providers that the bindings of ports name.
//!
//! Only administrators see `resource_request`, so Chronova's account asks for it. Neutron's mechanism drivers read the
//! key `allocation` in a binding's profile. Its value is the id of the provider. For a port with groups, it is an
//! object with the provider of each group. Source: nova `network/neutron.py` (`get_binding_profile_allocation`,
//! `_get_requested_groups`).

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, PortId};
use serde_json::{Map, Value, json};

use super::NeutronNetworks;
use super::calls::{NeutronCaller, fields};
use super::documents::NeutronPort;
use crate::ports::{PortError, PortProviders, PortRequestGroup, PortResourceRequest};

const EXTENSION: &str = "port-resource-request";
/// The key in the profile.
const ALLOCATION: &str = "allocation";

impl NeutronNetworks {
    pub(super) async fn requests_of(
        &self,
        ports: &[PortId],
        meta: &Arc<Meta>,
    ) -> Result<Vec<PortResourceRequest>, PortError> {
        let asker = NeutronCaller::account(meta);
        if ports.is_empty() || !self.calls.has_extension(asker, EXTENSION).await? {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = ports.iter().map(ToString::to_string).collect();
        let found: Vec<NeutronPort> = self.calls.list_by(asker, "ports", "id", &ids, "").await?;
        Ok(found.iter().filter_map(request_of).collect())
    }
}

impl NeutronNetworks {
    /// Writes the providers into the profiles of the ports' bindings. Other keys stay.
    pub(super) async fn name_all(
        &self,
        given: &[(PortId, Option<PortProviders>)],
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let asker = NeutronCaller::account(meta);
        for (port, providers) in given {
            let id = port.to_string();
            let found: NeutronPort = self.calls.show(asker, "ports", "port", &id).await?;
            let profile = found.profile.as_object().cloned().unwrap_or_default();
            let profile = match providers {
                Some(_) => with_providers(profile, providers.as_ref()),
                None => without_providers(profile),
            };
            let body = fields([("binding:profile", Value::Object(profile))]);
            self.calls.change::<Value>(asker, "ports", "port", &id, body).await?;
        }
        Ok(())
    }
}

/// The request of a port; `None` if it requests nothing.
fn request_of(port: &NeutronPort) -> Option<PortResourceRequest> {
    let id = port.id.to_string();
    let listed = port.resource_request.get("request_groups").and_then(Value::as_array);
    let groups: Vec<PortRequestGroup> = match listed {
        Some(all) => all.iter().filter_map(|one| group(one, one.get("id")?.as_str()?)).collect(),
        None => group(&port.resource_request, &id).into_iter().collect(),
    };
    (!groups.is_empty()).then(|| PortResourceRequest {
        port: port.id,
        groups,
        same_subtree: texts(port.resource_request.get("same_subtree")),
        has_groups: listed.is_some(),
        bound_to: port.profile.get(ALLOCATION).and_then(providers),
    })
}

/// A group of a request; `None` if it has no resources.
fn group(value: &Value, id: &str) -> Option<PortRequestGroup> {
    let resources = value.get("resources")?.as_object()?;
    let amount =
        |(class, amount): (&String, &Value)| Some((class.clone(), amount.as_u64().filter(|amount| *amount > 0)?));
    let resources: BTreeMap<String, u64> = resources.iter().filter_map(amount).collect();
    let traits = texts(value.get("required"));
    (!resources.is_empty()).then(|| PortRequestGroup { id: id.to_owned(), resources, traits })
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let all = list.and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn providers(value: &Value) -> Option<PortProviders> {
    if let Some(one) = value.as_str() {
        return Some(PortProviders::One(one.parse().ok()?));
    }
    let read = |(group, provider): (&String, &Value)| Some((group.clone(), provider.as_str()?.parse().ok()?));
    Some(PortProviders::OfGroups(value.as_object()?.iter().filter_map(read).collect()))
}

fn allocation(given: &PortProviders) -> Value {
    match given {
        PortProviders::One(provider) => json!(provider.to_string()),
        PortProviders::OfGroups(all) => {
            let named = all.iter().map(|(group, provider)| (group.clone(), json!(provider.to_string())));
            Value::Object(named.collect())
        }
    }
}

/// The profile with these providers. A port that gets none keeps its profile.
pub(super) fn with_providers(mut profile: Map<String, Value>, given: Option<&PortProviders>) -> Map<String, Value> {
    profile.extend(given.map(|given| (ALLOCATION.to_owned(), allocation(given))));
    profile
}

/// The profile of an unbound port, which names no providers.
pub(super) fn without_providers(mut profile: Map<String, Value>) -> Map<String, Value> {
    profile.remove(ALLOCATION);
    profile
}

/// Refuses a new port that requests resources, as Nova does: the server's claim does not include them. The network has
/// a QoS policy in this case.
pub(super) fn requests_nothing(port: NeutronPort, instance: InstanceId) -> Result<NeutronPort, PortError> {
    match request_of(&port) {
        None => Ok(port),
        Some(_) => Err(PortError::Invalid(format!(
            "Using networks with QoS policy is not supported for instance {instance}. (Network ID is {})",
            port.network_id
        ))),
    }
}
