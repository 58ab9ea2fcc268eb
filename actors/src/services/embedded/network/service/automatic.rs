//! Makes a network for a project that has none, as Neutron's service plugin `auto-allocated-topology` does. A new
//! server whose request says `auto` needs such a network.
//!
//! Invariants:
//!  - a project gets one network, even if it sends several requests at once, and two projects get different addresses.
//!    For that, all such requests take turns;
//!  - quota is taken for the network and its subnet at once, so a refusal of the quota leaves nothing behind;
//!  - a crash or a refused subnet leaves a network without a subnet behind, and the next request repairs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{NetworkId, ProjectId, SubnetId};
use chronova_events::network::{NetworkCreated, NetworkSettings, ProviderAttributes};
use chronova_events::network_quota::CountedResource;
use chronova_projections::networks::NetworksView;
use ipnet::{IpNet, Ipv4Net};

use super::automatic_range::free_subnet;
use super::{EmbeddedNetworks, check, port_error};
use crate::ports::PortError;
use crate::services::embedded::network::quota::{NetworkQuotaCommand, NetworkQuotaRoot};
use crate::services::embedded::network::{NetworkCommand, SubnetGateway, SubnetRequest};

/// Neutron's names of the network and of its subnet.
const NETWORK: &str = "auto_allocated_network";
const SUBNET: &str = "auto_allocated_subnet_v4";

/// The network for a server whose request names none.
enum AutomaticNetwork {
    Usable,
    /// A network that was made here and has no subnet yet.
    Bare(NetworkId),
    None,
}

fn unable(project: &ProjectId) -> PortError {
    PortError::Invalid(format!("Unable to automatically allocate a network for project {project}"))
}

/// The network that was made here for the project.
fn made_for(view: &NetworksView, project: &ProjectId) -> Option<NetworkId> {
    let mut own = view.networks().filter(|network| network.created.project == *project);
    own.find(|network| network.settings().name == NETWORK).map(|network| network.created.network)
}

fn found(view: &NetworksView, project: &ProjectId) -> Result<AutomaticNetwork, PortError> {
    let Some(network) = check::automatic(view, project)? else { return Ok(AutomaticNetwork::None) };
    let is_bare = view.whole(network).is_some_and(|whole| whole.subnets.is_empty());
    let is_unfinished = is_bare && made_for(view, project) == Some(network);
    Ok(if is_unfinished { AutomaticNetwork::Bare(network) } else { AutomaticNetwork::Usable })
}

impl EmbeddedNetworks {
    /// Makes sure that a server of the project gets a network without naming one.
    pub(super) async fn ensure_network(&self, project: &ProjectId, meta: &Arc<Meta>) -> Result<(), PortError> {
        let look = || self.views.networks.read(|view| found(view, project));
        let range = match (look()?, self.automatic_range) {
            (AutomaticNetwork::Usable, _) | (AutomaticNetwork::Bare(_), None) => return Ok(()),
            (AutomaticNetwork::None, None) => return Err(unable(project)),
            (_, Some(range)) => range,
        };
        let _turn = self.automatic_turn.lock().await;
        let subnet = SubnetId::random();
        let counted = CountedResource::Subnet(subnet);
        let network = match look()? {
            AutomaticNetwork::Usable => return Ok(()),
            AutomaticNetwork::Bare(network) => {
                self.take_quota(project, BTreeSet::from([counted]), unable(project), meta).await?;
                network
            }
            AutomaticNetwork::None => self.make_network(project, range, counted, meta).await?,
        };
        let made = self.make_subnet(project, range, (network, subnet), meta).await;
        if made.is_err() {
            self.release_quota(project, BTreeSet::from([counted]), meta).await;
        }
        self.see(made?).await
    }

    /// Creates the network, and takes quota for it and for its subnet.
    async fn make_network(
        &self,
        project: &ProjectId,
        range: Ipv4Net,
        subnet: CountedResource,
        meta: &Arc<Meta>,
    ) -> Result<NetworkId, PortError> {
        let network = NetworkId::random();
        let (has_room, is_off) = self
            .views
            .networks
            .read(|view| (free_subnet(view, range, network).is_some(), made_for(view, project).is_some()));
        // `is_off`: the project has switched its network off.
        if is_off || !has_room {
            return Err(unable(project));
        }
        let things = BTreeSet::from([CountedResource::Network(network), subnet]);
        self.take_quota(project, things.clone(), unable(project), meta).await?;
        match self.send(network, NetworkCommand::Create(self.wanted(project, network)), meta).await {
            // The next request must see the network, even if its subnet is refused.
            Ok(position) => self.see(position).await.map(|()| network),
            Err(error) => {
                self.release_quota(project, things, meta).await;
                Err(port_error(error))
            }
        }
    }

    fn wanted(&self, project: &ProjectId, network: NetworkId) -> NetworkCreated {
        let default = NetworkSettings::default();
        let mtu = self.carried().map_or(default.mtu, |ovn| ovn.tunnel_mtu);
        NetworkCreated {
            network,
            project: project.clone(),
            settings: NetworkSettings { name: NETWORK.to_owned(), mtu, ..default },
            provider: ProviderAttributes {
                network_type: "local".to_owned(),
                physical_network: None,
                segmentation_id: None,
            },
            availability_zone_hints: Vec::new(),
        }
    }

    async fn make_subnet(
        &self,
        project: &ProjectId,
        range: Ipv4Net,
        (network, subnet): (NetworkId, SubnetId),
        meta: &Arc<Meta>,
    ) -> Result<Position, PortError> {
        let cidr = self.views.networks.read(|view| free_subnet(view, range, network));
        let cidr = IpNet::V4(cidr.ok_or_else(|| unable(project))?);
        let wanted = SubnetRequest {
            subnet,
            project: project.clone(),
            name: SUBNET.to_owned(),
            description: String::new(),
            cidr,
            gateway: SubnetGateway::Default,
            pools: None,
            dhcp: true,
            dns: Vec::new(),
            host_routes: Vec::new(),
            ipv6_address_mode: None,
            ipv6_ra_mode: None,
            tags: Vec::new(),
        };
        self.send(network, NetworkCommand::AddSubnet(wanted), meta).await.map_err(port_error)
    }

    /// Releases the quota of resources that were not created. If the log does not answer, they may exist; the project's
    /// next reservation counts them then.
    async fn release_quota(&self, project: &ProjectId, things: BTreeSet<CountedResource>, meta: &Arc<Meta>) {
        let release = NetworkQuotaCommand::Release { project: project.clone(), things };
        if let Err(error) = self.gateway.send::<NetworkQuotaRoot>(project, release, Arc::clone(meta)).await {
            tracing::warn!(%project, %error, "releasing quota of a network failed");
        }
    }
}
