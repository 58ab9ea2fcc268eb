//! The network service: real Neutron, or the embedded network service.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronova_actors::gateway::CommandGateway;
use chronova_actors::ports::NetworkService;
use chronova_actors::runtime::Member;
use chronova_actors::services::embedded::network::service::EmbeddedNetworks;
use chronova_actors::services::external::http::{CallOptions, ServiceClient};
use chronova_actors::services::external::neutron::{NeutronNetworks, NeutronOptions};
use chronova_events::clock::Clock;
use chronova_web::App;
use chronova_web::service::Service;
use serde_json::json;

use crate::config::Config;
use crate::config::account::{AccountProblem, HasAccount as _};

/// How long one answer of Neutron may take if the configuration does not say. Neutron binds a port within its answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// The network service of this cloud.
#[derive(Clone)]
pub(super) enum OpenedNetworks {
    Embedded(Arc<EmbeddedNetworks>),
    Neutron { networks: Arc<NeutronNetworks>, place: String },
}

impl OpenedNetworks {
    /// Opens the network service that the configuration names.
    pub(super) fn open(config: &Config, member: &Member, gateway: &Arc<CommandGateway>) -> Result<Self> {
        let Some((options, place)) = neutron(config)? else {
            return Ok(Self::Embedded(EmbeddedNetworks::new(Arc::clone(gateway), Arc::clone(&member.views))));
        };
        let networks = NeutronNetworks::new(options, Arc::clone(&member.clock) as Arc<dyn Clock>);
        let networks = networks.context("[neutron]")?;
        tracing::info!(place, "servers get their ports from Neutron; the embedded network service is not served");
        Ok(Self::Neutron { networks, place })
    }

    pub(super) fn port(&self) -> Arc<dyn NetworkService> {
        match self {
            Self::Embedded(networks) => Arc::clone(networks) as _,
            Self::Neutron { networks, .. } => Arc::clone(networks) as _,
        }
    }

    /// The client of another service, for metrics.
    pub(super) fn client(&self) -> Option<&Arc<ServiceClient>> {
        match self {
            Self::Embedded(_) => None,
            Self::Neutron { networks, .. } => Some(networks.client()),
        }
    }

    /// With Neutron, the embedded API is not served, and `/healthz` reports on Neutron. If Neutron does not answer,
    /// this member stays healthy, because another member could not reach Neutron either.
    pub(super) fn show(&self, mut app: App) -> App {
        let Self::Neutron { networks, place } = self else { return app };
        let (client, at) = (Arc::clone(networks.client()), place.clone());
        let tell = move || {
            let state = client.trouble().unwrap_or_else(|| "no trouble".to_owned());
            json!({"service": "neutron", "place": at, "state": state, "embedded": "not served"})
        };
        app.health = std::mem::take(&mut app.health).telling("network", Arc::new(tell));
        app.with_elsewhere(Service::Network, place.clone())
    }
}

/// The Neutron of `[neutron]`, and where it is.
fn neutron(config: &Config) -> Result<Option<(NeutronOptions, String)>> {
    let section = &config.neutron;
    let wrong = |problem: AccountProblem| anyhow::anyhow!(problem.message);
    let Some(account) = section.account().complete().map_err(wrong)? else { return Ok(None) };
    let catalogue = || format!("the network endpoint in the catalogue of {}", account.auth_url);
    let place = section.endpoint_override.clone().unwrap_or_else(catalogue);
    let calls = CallOptions {
        name: "neutron",
        timeout: section.timeout.map_or(PATIENCE, |seconds| Duration::from_secs(seconds.into())),
        retries: section.http_retries,
        tls: section.account().trust().map_err(wrong)?,
    };
    let options = NeutronOptions {
        account,
        calls,
        endpoint: section.endpoint_override.clone(),
        interfaces: section.valid_interfaces.clone(),
        region: section.region_name.clone(),
        service_type: section.service_type.clone(),
        ovs_bridge: section.ovs_bridge.clone(),
        extension_sync_interval: Duration::from_secs(section.extension_sync_interval.into()),
    };
    Ok(Some((options, place)))
}
