//! Checks the requested interfaces of a server with the user's token, and the quota with Chronova's account. Refuses
//! with Nova's messages. Source: nova `network/neutron.py` (`validate_networks`).

use std::collections::BTreeMap;

use chronova_events::ids::{NetworkId, PortId, ProjectId};
use chronova_events::instance::{RequestedNetworks, RequestedNic};
use chronova_events::security_group::DEFAULT;
use serde::Deserialize;
use serde_json::Value;

use super::NeutronNetworks;
use super::calls::{NeutronCaller, NeutronError, encoded};
use super::documents::{NeutronNetwork, NeutronPort};
use super::groups::choose;
use crate::ports::{PortError, ServiceCaller};

/// Why a server cannot have a requested interface.
enum NicRefusal {
    /// The requested network or port does not exist.
    Missing(String),
    Other(PortError),
}

impl NicRefusal {
    /// Nova answers 400 if the network or port of a new server does not exist.
    fn of_new_server(self) -> PortError {
        match self {
            Self::Missing(message) => PortError::Invalid(message),
            Self::Other(error) => error,
        }
    }

    /// Nova answers 404 if the network or port for an existing server does not exist.
    fn of_existing_server(self) -> PortError {
        match self {
            Self::Missing(message) => PortError::NotFound(message),
            Self::Other(error) => error,
        }
    }
}

impl From<PortError> for NicRefusal {
    fn from(error: PortError) -> Self {
        Self::Other(error)
    }
}

impl From<NeutronError> for NicRefusal {
    fn from(error: NeutronError) -> Self {
        Self::Other(error.into())
    }
}

/// Neutron's networks that it makes for projects without one.
const TOPOLOGIES: &str = "auto-allocated-topology";
const TOPOLOGY: &str = "auto_allocated_topology";

fn unable(project: &ProjectId) -> PortError {
    PortError::Invalid(format!("Unable to automatically allocate a network for project {project}"))
}

/// Neutron answers 409 if it cannot make a network, for example because it has no default external network.
fn no_topology(error: NeutronError, project: &ProjectId) -> PortError {
    match error.status() {
        409 => unable(project),
        _ => error.into(),
    }
}

impl NeutronNetworks {
    pub(super) async fn check_all(
        &self,
        project: &ProjectId,
        networks: &RequestedNetworks,
        security_groups: &[String],
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        let asker = NeutronCaller::of(caller);
        let new_ports = match networks {
            RequestedNetworks::None => 0,
            RequestedNetworks::Auto => usize::from(self.automatic(project, asker).await?.is_some()),
            RequestedNetworks::These(nics) | RequestedNetworks::OfAnyProject(nics) => {
                let known = self.networks_of(nics, asker).await?;
                let external = matches!(networks, RequestedNetworks::OfAnyProject(_));
                for nic in nics {
                    let checked = self.check_nic(project, nic, &known, external, asker).await;
                    checked.map_err(NicRefusal::of_new_server)?;
                }
                nics.iter().filter(|nic| nic.port.is_none()).count()
            }
        };
        self.check_room(project, new_ports, caller).await?;
        if security_groups.iter().all(|name| name == DEFAULT) {
            return Ok(());
        }
        let all = self.groups_of_project(project, asker).await?;
        security_groups.iter().filter(|name| *name != DEFAULT).try_for_each(|name| choose(&all, name).map(drop))
    }

    /// Checks an explicit `auto`: the project must have a network that it can use, or Neutron must be able to make one.
    /// As in Nova, the server's build makes it.
    pub(super) async fn check_topology(&self, project: &ProjectId, caller: &ServiceCaller) -> Result<(), PortError> {
        let asker = NeutronCaller::of(caller);
        if self.automatic(project, asker).await?.is_some() {
            return Ok(());
        }
        if !self.calls.has_extension(asker, TOPOLOGIES).await? {
            return Err(unable(project));
        }
        let only_checked = "?fields=dry-run";
        let checked = self.calls.show_by::<Value>(asker, TOPOLOGIES, TOPOLOGY, project.as_str(), only_checked).await;
        checked.map(drop).map_err(|error| no_topology(error, project))
    }

    /// The network of the project's auto-allocated topology. Neutron's `GET` of a missing topology makes it.
    pub(super) async fn make_topology(
        &self,
        project: &ProjectId,
        asker: NeutronCaller<'_>,
    ) -> Result<NetworkId, PortError> {
        #[derive(Deserialize)]
        struct Topology {
            id: NetworkId,
        }
        let made = self.calls.show::<Topology>(asker, TOPOLOGIES, TOPOLOGY, project.as_str()).await;
        made.map(|topology| topology.id).map_err(|error| no_topology(error, project))
    }

    pub(super) async fn check_one(
        &self,
        project: &ProjectId,
        nic: &RequestedNic,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        let asker = NeutronCaller::of(caller);
        if nic.port.is_none() && nic.network.is_none() && self.automatic(project, asker).await?.is_none() {
            return Err(PortError::Invalid(format!(
                "No specific network was requested and none are available for project '{project}'."
            )));
        }
        let known = self.networks_of(std::slice::from_ref(nic), asker).await?;
        // Nova's rule `network:attach_external_network` lets administrators use external networks.
        let may_be_external = caller.is_admin && asker.is_user();
        self.check_nic(project, nic, &known, may_be_external, asker).await.map_err(NicRefusal::of_existing_server)?;
        self.check_room(project, usize::from(nic.port.is_none()), caller).await
    }

    async fn networks_of(
        &self,
        nics: &[RequestedNic],
        asker: NeutronCaller<'_>,
    ) -> Result<BTreeMap<NetworkId, NeutronNetwork>, PortError> {
        let ids: Vec<String> = nics.iter().filter_map(|nic| nic.network).map(|id| id.to_string()).collect();
        let found: Vec<NeutronNetwork> = self.calls.list_by(asker, "networks", "id", &ids, "").await?;
        Ok(found.into_iter().map(|network| (network.id, network)).collect())
    }

    async fn check_nic(
        &self,
        project: &ProjectId,
        nic: &RequestedNic,
        networks: &BTreeMap<NetworkId, NeutronNetwork>,
        may_be_external: bool,
        asker: NeutronCaller<'_>,
    ) -> Result<(), NicRefusal> {
        if let Some(port) = nic.port {
            return self.check_port(project, port, asker).await;
        }
        let Some(id) = nic.network else { return Ok(self.automatic(project, asker).await.map(drop)?) };
        let missing = || NicRefusal::Missing(format!("Network {id} could not be found."));
        let network = networks.get(&id).ok_or_else(missing)?;
        if !network.is_of(project) && !network.shared {
            // Neutron shows a user the external networks, and the networks that the user's project may use. It shows an
            // administrator all networks. Chronova's own account sees all networks too, but cannot tell whether the
            // project may use this one.
            match (network.external && !may_be_external, asker.is_user()) {
                (true, _) => {
                    let message = format!("It is not allowed to create an interface on external network {id}");
                    return Err(PortError::Forbidden(message).into());
                }
                (false, false) => return Err(missing()),
                (false, true) => {}
            }
        }
        if network.subnets.is_empty() {
            let message = format!("Network {id} requires a subnet in order to boot instances on.");
            return Err(PortError::Invalid(message).into());
        }
        let Some(address) = &nic.fixed_ip else { return Ok(()) };
        let query = format!("network_id={id}&fixed_ips={}", encoded(&format!("ip_address={address}")));
        let holders: Vec<NeutronPort> = self.calls.list(asker, "ports", &query).await?;
        match holders.first() {
            Some(port) => {
                let device = &port.device_id;
                let message = format!("Fixed IP address {address} is already in use on instance {device}.");
                Err(PortError::Invalid(message).into())
            }
            None => Ok(()),
        }
    }

    async fn check_port(&self, project: &ProjectId, id: PortId, asker: NeutronCaller<'_>) -> Result<(), NicRefusal> {
        let missing = || NicRefusal::Missing(format!("Port id {id} could not be found."));
        let port: NeutronPort = match self.calls.show(asker, "ports", "port", &id.to_string()).await {
            Err(error) if error.status() == 404 => return Err(missing()),
            other => other?,
        };
        if port.project() != *project {
            return Err(missing());
        }
        if !port.device_id.is_empty() {
            return Err(PortError::Conflict(format!("Port {id} is still in use.")).into());
        }
        let deferred = port.ip_allocation.as_deref() == Some("deferred");
        match port.fixed_ips.is_empty() && !deferred {
            true => Err(PortError::Invalid(format!("Port {id} requires a FixedIP in order to be used.")).into()),
            false => Ok(()),
        }
    }

    /// The network of a server whose request names no network; `None` if the project has no network. More than one is
    /// an error.
    pub(super) async fn automatic(
        &self,
        project: &ProjectId,
        asker: NeutronCaller<'_>,
    ) -> Result<Option<NeutronNetwork>, PortError> {
        let own = format!("project_id={}&shared=false", encoded(project.as_str()));
        let mut usable: Vec<NeutronNetwork> = self.calls.list(asker, "networks", &own).await?;
        usable.retain(|network| !network.external);
        usable.extend(self.calls.list(asker, "networks", "shared=true").await?);
        usable.retain(|network| network.admin_state_up);
        match usable.len() {
            0 | 1 => Ok(usable.pop()),
            _ => Err(PortError::Conflict(
                "Multiple possible networks found, use a Network ID to be more specific.".to_owned(),
            )),
        }
    }

    /// Checks that the quota of the project has room for the new ports.
    async fn check_room(&self, project: &ProjectId, new: usize, caller: &ServiceCaller) -> Result<(), PortError> {
        if new == 0 {
            return Ok(());
        }
        let asker = NeutronCaller::account(&caller.meta);
        let quota: Value = self.calls.show(asker, "quotas", "quota", project.as_str()).await?;
        let Some(limit) = quota["port"].as_i64().and_then(|limit| usize::try_from(limit).ok()) else { return Ok(()) };
        let query = format!("project_id={}&fields=id", encoded(project.as_str()));
        let held: Vec<Value> = self.calls.list(asker, "ports", &query).await?;
        match held.len() + new > limit {
            true => Err(PortError::Forbidden("Maximum number of ports exceeded".to_owned())),
            false => Ok(()),
        }
    }
}
