//! Creates or binds the ports of a server.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProcessId, ProjectId};
use chronova_events::instance::{NicInfo, RequestedNetworks, RequestedNic};
use serde_json::{Map, Value, json};

use super::NeutronNetworks;
use super::bind::ensure_bound;
use super::calls::{NeutronCaller, NeutronError, fields};
use super::documents::NeutronPort;
use super::grants::binding_change;
use super::port_resources::requests_nothing;
use crate::ports::{InterfaceRequest, InterfacesRequest, PortError, PortGrant};

/// The key in `binding:profile` that marks a port as created by Chronova.
const MARK: &str = "chronova_made_for";

/// The mark of the port that is created for the interface with this index in a server's request.
pub(super) fn place(instance: InstanceId, index: usize) -> PortMark {
    PortMark(PortId::derive(instance.0, &format!("port-{index}")))
}

/// The mark of the port that is created for the process `process`.
pub(super) fn of_process(process: ProcessId) -> PortMark {
    PortMark(PortId::derive(process.0, "port"))
}

/// The mark of a port that Chronova creates. Each interface in a server's request has its own mark, and so has each
/// process that attaches an interface. At most one port gets a given mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PortMark(PortId);

impl PortMark {
    pub(super) fn is_on(self, port: &NeutronPort) -> bool {
        port.profile.get(MARK).and_then(Value::as_str) == Some(self.0.to_string().as_str())
    }

    fn profile(self) -> Value {
        json!({MARK: self.0.to_string()})
    }

    /// The MAC address of the port: Neutron's default prefix (`base_mac`), and 24 bits of the mark.
    pub(super) fn mac(self) -> String {
        let [a, b, c, ..] = *self.0.0.as_bytes();
        format!("fa:16:3e:{a:02x}:{b:02x}:{c:02x}")
    }
}

/// Whether Chronova created the port. Such a port is deleted with its server.
pub(super) fn is_marked(port: &NeutronPort) -> bool {
    port.profile.get(MARK).is_some()
}

fn without_mark(port: &NeutronPort) -> Value {
    let mut profile = port.profile.as_object().cloned().unwrap_or_default();
    profile.remove(MARK);
    Value::Object(profile)
}

/// The server that gets a port, with its host and zone.
pub(super) struct PortOwner<'a> {
    pub instance: InstanceId,
    pub project: &'a ProjectId,
    pub hostname: &'a str,
    pub host: &'a str,
    pub zone: &'a str,
}

impl PortOwner<'_> {
    /// The fields of a request that gives a port to the server and binds it to the server's host.
    pub(super) fn binding(&self) -> Map<String, Value> {
        fields([
            ("device_id", json!(self.instance.to_string())),
            ("device_owner", json!(format!("compute:{}", self.zone))),
            ("binding:host_id", json!(self.host)),
        ])
    }
}

impl NeutronNetworks {
    pub(super) async fn allocate_all(
        &self,
        wanted: &InterfacesRequest,
        meta: &Arc<Meta>,
    ) -> Result<Vec<NicInfo>, PortError> {
        let automatic = [RequestedNic::automatic()];
        let nics = match &wanted.networks {
            RequestedNetworks::None => return Ok(vec![]),
            RequestedNetworks::Auto => &automatic[..],
            RequestedNetworks::These(nics) | RequestedNetworks::OfAnyProject(nics) => nics,
        };
        let asker = NeutronCaller::account(meta);
        let known = self.ports_of_server(asker, wanted.instance, &wanted.project).await?;
        let groups = self.groups_of_new_ports(&wanted.project, &wanted.security_groups, asker).await?;
        let owner = PortOwner {
            instance: wanted.instance,
            project: &wanted.project,
            hostname: &wanted.hostname,
            host: &wanted.host,
            zone: &wanted.availability_zone,
        };
        let mut ports = Vec::with_capacity(nics.len());
        for (index, nic) in nics.iter().enumerate() {
            let port = match nic.port {
                Some(port) => Some(self.take(port, &owner, wanted.grants.of(port), asker).await?),
                None => {
                    let mark = place(wanted.instance, index);
                    let mut made = self.make(nic, mark, &owner, groups.as_deref(), &known, asker).await?;
                    if made.is_none() && !matches!(wanted.networks, RequestedNetworks::Auto) {
                        let network = Some(self.make_topology(&wanted.project, asker).await?);
                        let nic = RequestedNic { network, ..nic.clone() };
                        made = self.make(&nic, mark, &owner, groups.as_deref(), &known, asker).await?;
                    }
                    made.map(|port| requests_nothing(port, wanted.instance)).transpose()?
                }
            };
            ports.extend(port.map(|port| (port, nic)));
        }
        self.described(&ports, asker).await
    }

    pub(super) async fn attach_one(&self, wanted: &InterfaceRequest, meta: &Arc<Meta>) -> Result<NicInfo, PortError> {
        let asker = NeutronCaller::account(meta);
        let owner = PortOwner {
            instance: wanted.instance,
            project: &wanted.project,
            hostname: &wanted.hostname,
            host: &wanted.host,
            zone: &wanted.availability_zone,
        };
        let port = match wanted.nic.port {
            Some(port) => Some(self.take(port, &owner, wanted.grants.of(port), asker).await?),
            None => {
                let known = self.ports_of_server(asker, wanted.instance, &wanted.project).await?;
                let made = self.make(&wanted.nic, of_process(wanted.process), &owner, None, &known, asker).await?;
                made.map(|port| requests_nothing(port, wanted.instance)).transpose()?
            }
        };
        let port = port.ok_or_else(|| no_network(&wanted.project))?;
        let mut nics = self.described(&[(port, &wanted.nic)], asker).await?;
        nics.pop().ok_or_else(|| no_network(&wanted.project))
    }

    pub(super) async fn undo_one(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        process: ProcessId,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        self.calls.again_if_late(meta, || self.undo_known(instance, project, process, meta)).await
    }

    async fn undo_known(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        process: ProcessId,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let (asker, mark) = (NeutronCaller::account(meta), of_process(process));
        for port in self.ports_of_server(asker, instance, project).await?.iter().filter(|port| mark.is_on(port)) {
            self.give_up(port, true, asker).await?;
        }
        Ok(())
    }

    /// Gives an existing port, which the user named, to the server.
    async fn take(
        &self,
        id: PortId,
        owner: &PortOwner<'_>,
        got: PortGrant<'_>,
        asker: NeutronCaller<'_>,
    ) -> Result<NeutronPort, PortError> {
        let missing = || PortError::Invalid(format!("Port id {id} could not be found."));
        let port: NeutronPort = match self.calls.show(asker, "ports", "port", &id.to_string()).await {
            Err(error) if error.status() == 404 => return Err(missing()),
            other => other?,
        };
        if port.project() != *owner.project {
            return Err(missing());
        }
        let is_own = port.device_id == owner.instance.to_string();
        if !port.device_id.is_empty() && !is_own {
            return Err(PortError::Conflict(format!("Port {id} is still in use.")));
        }
        // Chronova may have created the port for another server, and the user took it from that server in Neutron. The
        // port is the user's now, so it stays when this server is deleted.
        let is_taken = is_marked(&port);
        let mut port = port;
        if is_taken {
            port.profile = without_mark(&port);
        }
        let change = binding_change(&port, Some(got));
        if is_own && port.bound_to() == Some(owner.host) && change.is_empty() {
            return ensure_bound(port);
        }
        let mut body = owner.binding();
        if is_taken {
            body.insert("binding:profile".to_owned(), port.profile.clone());
        }
        body.extend(change);
        if !owner.hostname.is_empty() && self.calls.has_extension(asker, "dns-integration").await? {
            body.insert("dns_name".to_owned(), json!(owner.hostname));
        }
        ensure_bound(self.calls.change(asker, "ports", "port", &id.to_string(), body).await?)
    }

    /// The port with this mark; creates it if there is none. `None`: the project has no network.
    async fn make(
        &self,
        nic: &RequestedNic,
        mark: PortMark,
        owner: &PortOwner<'_>,
        groups: Option<&[String]>,
        known: &[NeutronPort],
        asker: NeutronCaller<'_>,
    ) -> Result<Option<NeutronPort>, PortError> {
        if let Some(port) = known.iter().find(|port| mark.is_on(port)) {
            return self.at_host(port.clone(), owner, asker).await.map(Some);
        }
        let network = match nic.network {
            Some(network) => network,
            None => match self.automatic(owner.project, asker).await? {
                Some(network) => network.id,
                None => return Ok(None),
            },
        };
        let body = self.new_port(nic, mark, owner, groups, network, asker).await?;
        match self.calls.create::<NeutronPort>(asker, "ports", "port", body.clone()).await {
            Ok(port) => ensure_bound(port).map(Some),
            Err(error) if error.kind() == "MacAddressInUse" => {
                let now = self.ports_of_server(asker, owner.instance, owner.project).await?;
                if let Some(port) = now.into_iter().find(|port| mark.is_on(port)) {
                    return self.at_host(port, owner, asker).await.map(Some);
                }
                // Another server's port has the same MAC address by chance, so Neutron chooses the address.
                let mut body = body;
                body.remove("mac_address");
                let made = self.calls.create(asker, "ports", "port", body).await;
                ensure_bound(made.map_err(|error| refusal(error, nic))?).map(Some)
            }
            Err(error) => Err(refusal(error, nic)),
        }
    }

    async fn new_port(
        &self,
        nic: &RequestedNic,
        mark: PortMark,
        owner: &PortOwner<'_>,
        groups: Option<&[String]>,
        network: NetworkId,
        asker: NeutronCaller<'_>,
    ) -> Result<Map<String, Value>, PortError> {
        let mut body = owner.binding();
        body.extend(fields([
            ("network_id", json!(network.to_string())),
            ("project_id", json!(owner.project.as_str())),
            ("admin_state_up", json!(true)),
            ("mac_address", json!(mark.mac())),
            ("binding:profile", mark.profile()),
        ]));
        if let Some(address) = &nic.fixed_ip {
            body.insert("fixed_ips".to_owned(), json!([{"ip_address": address}]));
        }
        if let Some(groups) = groups {
            body.insert("security_groups".to_owned(), json!(groups));
        }
        if !owner.hostname.is_empty() && self.calls.has_extension(asker, "dns-integration").await? {
            body.insert("dns_name".to_owned(), json!(owner.hostname));
        }
        Ok(body)
    }

    /// Binds a port of an earlier attempt to the host of this attempt.
    async fn at_host(
        &self,
        port: NeutronPort,
        owner: &PortOwner<'_>,
        asker: NeutronCaller<'_>,
    ) -> Result<NeutronPort, PortError> {
        if port.bound_to() == Some(owner.host) {
            return ensure_bound(port);
        }
        let id = port.id.to_string();
        ensure_bound(self.calls.change(asker, "ports", "port", &id, owner.binding()).await?)
    }

    /// The ids of the groups for new ports. `None`: no group or only `default` is requested, so Neutron chooses the
    /// groups. On a network without port security, Neutron applies none.
    async fn groups_of_new_ports(
        &self,
        project: &ProjectId,
        wanted: &[String],
        asker: NeutronCaller<'_>,
    ) -> Result<Option<Vec<String>>, PortError> {
        match wanted {
            [] => Ok(None),
            [only] if only == chronova_events::security_group::DEFAULT => Ok(None),
            _ => {
                let all = self.groups_of_project(project, asker).await?;
                let mut ids = Vec::new();
                for name in wanted {
                    let id = super::groups::choose(&all, name)?.id.to_string();
                    if !ids.contains(&id) {
                        ids.push(id);
                    }
                }
                Ok(Some(ids))
            }
        }
    }

    /// The interfaces of these ports.
    async fn described(
        &self,
        ports: &[(NeutronPort, &RequestedNic)],
        asker: NeutronCaller<'_>,
    ) -> Result<Vec<NicInfo>, PortError> {
        let all: Vec<&NeutronPort> = ports.iter().map(|(port, _)| port).collect();
        let surroundings = self.surroundings(&all, asker).await?;
        let nic =
            |(port, nic): &(NeutronPort, &RequestedNic)| surroundings.nic(port, nic.tag.clone(), nic.port.is_none());
        ports.iter().map(nic).collect()
    }

    /// The server's ports in its project.
    pub(super) async fn ports_of_server(
        &self,
        asker: NeutronCaller<'_>,
        instance: InstanceId,
        project: &ProjectId,
    ) -> Result<Vec<NeutronPort>, PortError> {
        let ports = self.ports_with_device(asker, instance).await?;
        let mut by_id: BTreeMap<PortId, NeutronPort> = ports.into_iter().map(|port| (port.id, port)).collect();
        by_id.retain(|_, port| port.project() == *project);
        Ok(by_id.into_values().collect())
    }

    pub(super) async fn ports_with_device(
        &self,
        asker: NeutronCaller<'_>,
        instance: InstanceId,
    ) -> Result<Vec<NeutronPort>, PortError> {
        Ok(self.calls.list(asker, "ports", &format!("device_id={instance}")).await?)
    }
}

fn no_network(project: &ProjectId) -> PortError {
    PortError::Invalid(format!("No specific network was requested and none are available for project '{project}'."))
}

/// Maps Neutron's refusal of a new port to Nova's message.
fn refusal(error: NeutronError, nic: &RequestedNic) -> PortError {
    match (error.kind(), &nic.fixed_ip) {
        ("OverQuota", _) => PortError::Forbidden("Maximum number of ports exceeded".to_owned()),
        ("IpAddressInUse" | "IpAddressAlreadyAllocated", Some(address)) => {
            PortError::Conflict(format!("Fixed IP address {address} is already in use."))
        }
        ("IpAddressGenerationFailure", _) => {
            let network = nic.network.map(|network| network.to_string()).unwrap_or_default();
            PortError::Conflict(format!("No fixed IP addresses available for network: {network}"))
        }
        _ => error.into(),
    }
}
