//! Makes a network for a project that has none, as Neutron's service plugin `auto-allocated-topology` does. A new
//! server whose request says `auto` needs such a network.
//!
//! Invariants:
//!  - a project gets one network, even if it sends several requests at once, because its requests take turns;
//!  - the next request repairs what a crash leaves behind, which is a network without a subnet.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::Meta;
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
        let _turn = self.automatic_turns.turn(project).await;
        let network = match look()? {
            AutomaticNetwork::Usable => return Ok(()),
            AutomaticNetwork::Bare(network) => network,
            AutomaticNetwork::None => self.make_network(project, range, meta).await?,
        };
        self.make_subnet(project, range, network, meta).await
    }

    async fn make_network(
        &self,
        project: &ProjectId,
        range: Ipv4Net,
        meta: &Arc<Meta>,
    ) -> Result<NetworkId, PortError> {
        let network = NetworkId::random();
        let (has_room, is_off) = self
            .views
            .networks
            .read(|view| (free_subnet(view, range, network).is_some(), made_for(view, project).is_some()));
        // The project has switched its network off.
        if is_off || !has_room {
            return Err(unable(project));
        }
        let counted = CountedResource::Network(network);
        self.take_quota(project, BTreeSet::from([counted]), unable(project), meta).await?;
        match self.send(network, NetworkCommand::Create(self.wanted(project, network)), meta).await {
            Ok(_) => Ok(network),
            Err(error) => {
                self.release_quota(project, counted, meta).await;
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
        network: NetworkId,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let cidr = self.views.networks.read(|view| free_subnet(view, range, network));
        let cidr = IpNet::V4(cidr.ok_or_else(|| unable(project))?);
        let subnet = SubnetId::random();
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
        let counted = CountedResource::Subnet(subnet);
        self.take_quota(project, BTreeSet::from([counted]), unable(project), meta).await?;
        match self.send(network, NetworkCommand::AddSubnet(wanted), meta).await {
            Ok(position) => self.see(position).await,
            Err(error) => {
                self.release_quota(project, counted, meta).await;
                Err(port_error(error))
            }
        }
    }

    /// Releases the quota of a resource that was not created. If the log does not answer, the resource may exist, and a
    /// later request finds out.
    async fn release_quota(&self, project: &ProjectId, thing: CountedResource, meta: &Arc<Meta>) {
        let release = NetworkQuotaCommand::Release { project: project.clone(), things: BTreeSet::from([thing]) };
        if let Err(error) = self.gateway.send::<NetworkQuotaRoot>(project, release, Arc::clone(meta)).await {
            tracing::warn!(%project, %error, "releasing quota of a network failed, retrying later");
        }
    }
}
