//! The network service: real Neutron, or the embedded network service with libvirt's networks or OVN's.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronova_actors::gateway::CommandGateway;
use chronova_actors::ports::NetworkService;
use chronova_actors::runtime::Member;
use chronova_actors::services::embedded::network::ovn::{OvnOptions, OvnPlace, OvnPlane};
use chronova_actors::services::embedded::network::service::{EmbeddedNetworks, read_automatic_range};
use chronova_actors::services::external::http::{CallOptions, ServiceClient, TlsTrust};
use chronova_actors::services::external::keystone::{
    CalledService, CallingAccounts, KeystoneSession, ServiceAccount, ServicePlace,
};
use chronova_actors::services::external::neutron::{NeutronNetworks, NeutronOptions};
use chronova_actors::services::external::ovsdb::read_remotes;
use chronova_events::clock::Clock;
use chronova_web::App;
use chronova_web::service::Service;
use serde_json::json;

use super::identity::OpenedIdentity;
use crate::config::Config;
use crate::config::account::{AccountProblem, HasAccount as _};

/// How long one answer of Neutron may take if the configuration does not say. Neutron binds a port before it answers.
const PATIENCE: Duration = Duration::from_mins(1);

/// The network service of this cloud.
#[derive(Clone)]
pub(super) enum OpenedNetworks {
    /// The embedded service, with libvirt's networks or with OVN's.
    Embedded(Arc<EmbeddedNetworks>, Option<Arc<OvnPlane>>),
    /// Neutron, and the client of Keystone that gets the account's tokens.
    Neutron { networks: Arc<NeutronNetworks>, keystone: Arc<ServiceClient>, place: String },
}

impl OpenedNetworks {
    /// Opens the network service that the configuration names.
    pub(super) fn open(
        config: &Config,
        member: &Member,
        gateway: &Arc<CommandGateway>,
        identity: &OpenedIdentity,
    ) -> Result<Self> {
        let wrong = |problem: AccountProblem| anyhow::anyhow!(problem.message);
        let Some(account) = config.neutron.account().complete().map_err(wrong)? else {
            let (views, clock) = (Arc::clone(&member.views), Arc::clone(&member.clock));
            let ovn = config.network.is_ovn().then(|| ovn(config)).transpose().context("[ovn]")?;
            let range = config.network.automatic_range.as_deref().map(read_automatic_range).transpose();
            let range = range.map_err(anyhow::Error::msg).context("[network] automatic_range")?;
            let networks = EmbeddedNetworks::with(Arc::clone(gateway), views, clock, ovn.clone(), range);
            return Ok(Self::Embedded(networks, ovn));
        };
        neutron(config, account, Arc::clone(&member.clock) as _, identity).context("[neutron]")
    }

    pub(super) fn port(&self) -> Arc<dyn NetworkService> {
        match self {
            Self::Embedded(networks, _) => Arc::clone(networks) as _,
            Self::Neutron { networks, .. } => Arc::clone(networks) as _,
        }
    }

    /// The clients of other services, for metrics.
    pub(super) fn clients(&self) -> Vec<Arc<ServiceClient>> {
        match self {
            Self::Embedded(..) => Vec::new(),
            Self::Neutron { networks, keystone, .. } => {
                networks.service().clients().iter().chain([keystone]).cloned().collect()
            }
        }
    }

    /// With Neutron, the embedded API is not served, and `/healthz` reports on Neutron. If Neutron does not answer,
    /// this member stays healthy, because another member could not reach Neutron either. The same holds for OVN.
    pub(super) fn show(&self, mut app: App) -> App {
        let (networks, keystone, place) = match self {
            Self::Embedded(_, None) => return app,
            Self::Embedded(_, Some(ovn)) => {
                let ovn = Arc::clone(ovn);
                let tell = move || {
                    let state = ovn.trouble().unwrap_or_else(|| "no trouble".to_owned());
                    json!({"service": "embedded", "backend": "ovn", "state": state})
                };
                app.health = std::mem::take(&mut app.health).telling("network", Arc::new(tell));
                return app;
            }
            Self::Neutron { networks, keystone, place } => (networks, keystone, place),
        };
        let (service, keystone, at) = (Arc::clone(networks.service()), Arc::clone(keystone), place.clone());
        let tell = move || {
            let trouble = service.clients().iter().chain([&keystone]).find_map(|client| client.trouble());
            let state = trouble.unwrap_or_else(|| "no trouble".to_owned());
            json!({"service": "neutron", "place": at, "state": state, "embedded": "not served"})
        };
        app.health = std::mem::take(&mut app.health).telling("network", Arc::new(tell));
        app.with_elsewhere(Service::Network, place.clone())
    }
}

/// The OVN of `[network]` and `[ovn]`.
fn ovn(config: &Config) -> Result<Arc<OvnPlane>> {
    let (network, section) = (&config.network, &config.ovn);
    let options = OvnOptions {
        bridge: config.neutron.ovs_bridge.clone(),
        gateway_chassis: network.gateway_chassis.clone(),
        tunnel_mtu: network.tunnel_mtu,
    };
    let place = OvnPlace {
        remotes: read_remotes(&section.ovn_nb_connection)?,
        trust: TlsTrust {
            ca_file: section.ovn_nb_ca_cert.clone(),
            insecure: false,
            certificate: section.ovn_nb_certificate.clone().zip(section.ovn_nb_private_key.clone()),
        },
        connect_timeout: Duration::from_secs(section.ovsdb_connection_timeout.into()),
        probe_interval: Duration::from_millis(section.ovsdb_probe_interval.into()),
    };
    tracing::info!(place = %section.ovn_nb_connection, "OVN carries the networks of the embedded network service");
    Ok(OvnPlane::start(options, place)?)
}

/// The Neutron of `[neutron]`. With Keystone, a user's call also carries the token of `[service_user]`.
fn neutron(
    config: &Config,
    account: ServiceAccount,
    clock: Arc<dyn Clock>,
    identity: &OpenedIdentity,
) -> Result<OpenedNetworks> {
    let section = &config.neutron;
    let catalogue = || format!("the network endpoint in the catalogue of {}", account.auth_url);
    let place = section.endpoint_override.clone().unwrap_or_else(catalogue);
    let calls = CallOptions {
        name: "neutron",
        timeout: section.timeout.map_or(PATIENCE, |seconds| Duration::from_secs(seconds.into())),
        retries: section.http_retries,
        tls: section.account().trust().map_err(|problem| anyhow::anyhow!(problem.message))?,
    };
    // Keystone has its own client here, so that its failures do not count as Neutron's.
    let keystone = ServiceClient::new(CallOptions { name: "keystone_neutron", ..calls.clone() })?;
    let own = KeystoneSession::new(account, Arc::clone(&keystone), clock);
    let vouching = match identity {
        OpenedIdentity::Keystone { accounts, .. } => accounts.vouching.clone(),
        OpenedIdentity::Embedded(_) => None,
    };
    let at = ServicePlace {
        endpoints: section.endpoint_override.clone().into_iter().collect(),
        service_type: section.service_type.clone(),
        interfaces: section.valid_interfaces.clone(),
        region: section.region_name.clone(),
        version: "v2.0",
        vouches_for_itself: false,
    };
    let options = NeutronOptions {
        ovs_bridge: section.ovs_bridge.clone(),
        extension_sync_interval: Duration::from_secs(section.extension_sync_interval.into()),
    };
    let service = CalledService::new(calls, at, CallingAccounts { own, vouching })?;
    tracing::info!(place, "servers get their ports from Neutron; the embedded network service is not served");
    Ok(OpenedNetworks::Neutron { networks: NeutronNetworks::new(service, options), keystone, place })
}
