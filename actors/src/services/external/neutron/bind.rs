//! Binds the ports of a server to hosts, unbinds them, and changes their addresses.

use std::net::IpAddr;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProjectId};
use serde_json::{Map, Value, json};

use super::NeutronNetworks;
use super::allocate::is_marked;
use super::calls::{NeutronCaller, fields};
use super::documents::{NeutronPort, NeutronSubnet};
use super::grants::binding_change;
use crate::ports::{PortError, PortGrant, PortGrants};

/// Returns the port, or Nova's `PortBindingFailed` if no mechanism driver of Neutron can bind the port on its host.
pub(super) fn ensure_bound(port: NeutronPort) -> Result<NeutronPort, PortError> {
    match port.vif_type.as_deref() {
        Some("binding_failed") => Err(binding_failed(&port)),
        _ => Ok(port),
    }
}

pub(super) fn binding_failed(port: &NeutronPort) -> PortError {
    let id = port.id;
    PortError::NotHere(format!("Binding failed for port {id}, please check neutron logs for more information."))
}

impl NeutronNetworks {
    /// Deletes the port if it was created for its server; otherwise unbinds it. Succeeds if the port is already gone.
    pub(super) async fn give_up(
        &self,
        port: &NeutronPort,
        owned: bool,
        asker: NeutronCaller<'_>,
    ) -> Result<(), PortError> {
        let id = port.id.to_string();
        let given_up = match owned || is_marked(port) {
            true => self.calls.delete(asker, "ports", &id).await,
            false => {
                // Neutron shows the bindings of a port only as long as a server has it.
                self.drop_bindings(port, |_| true, asker).await?;
                let body = fields([
                    ("device_id", json!("")),
                    ("device_owner", json!("")),
                    ("binding:host_id", Value::Null),
                    ("binding:profile", json!({})),
                ]);
                self.calls.change::<Value>(asker, "ports", "port", &id, body).await.map(drop)
            }
        };
        match given_up {
            Err(error) if error.status() == 404 => Ok(()),
            other => Ok(other?),
        }
    }

    pub(super) async fn detach_one(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        port: PortId,
        owned: bool,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        self.calls.again_if_late(meta, || self.detach_known(instance, project, port, owned, meta)).await
    }

    async fn detach_known(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        port: PortId,
        owned: bool,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let asker = NeutronCaller::account(meta);
        let found = self.calls.show::<NeutronPort>(asker, "ports", "port", &port.to_string()).await;
        match found {
            Err(error) if error.status() == 404 => Ok(()),
            Ok(port) if port.device_id != instance.to_string() || port.project() != *project => Ok(()),
            other => self.give_up(&other?, owned, asker).await,
        }
    }

    pub(super) async fn release_all(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        owned: &[PortId],
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        self.calls.again_if_late(meta, || self.release_known(instance, project, owned, meta)).await
    }

    /// Continues after a failure, so that one port does not prevent the release of the others.
    async fn release_known(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        owned: &[PortId],
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let asker = NeutronCaller::account(meta);
        let mut released = Ok(());
        for port in self.ports_of_server(asker, instance, project).await? {
            released = released.and(self.give_up(&port, owned.contains(&port.id), asker).await);
        }
        released
    }

    pub(super) async fn bind_all(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        place: (Option<&str>, &str),
        grants: &PortGrants,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        self.calls.again_if_late(meta, || self.bind_known(instance, project, place, grants, meta)).await
    }

    async fn bind_known(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        (host, availability_zone): (Option<&str>, &str),
        grants: &PortGrants,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let asker = NeutronCaller::account(meta);
        let owner = host.map(|_| format!("compute:{availability_zone}"));
        for port in self.ports_of_server(asker, instance, project).await? {
            let place = host.map(|host| (host, grants.of(port.id)));
            self.bind_one(port, place, owner.as_deref(), asker).await?;
        }
        Ok(())
    }

    /// Binds one port to the host, with what the port got there; without a host, unbinds it. If a live migration has
    /// already created a binding to the host, that binding is activated. All other bindings of the port are deleted.
    async fn bind_one(
        &self,
        port: NeutronPort,
        place: Option<(&str, PortGrant<'_>)>,
        owner: Option<&str>,
        asker: NeutronCaller<'_>,
    ) -> Result<(), PortError> {
        let host = place.map(|(host, _)| host);
        let is_there = match host {
            Some(host) => self.activate(&port, host, asker).await?,
            None => port.bound_to().is_none(),
        };
        let mut body = Map::new();
        if !is_there {
            // Neutron allows one binding for each host, so an inactive one is deleted first.
            self.drop_bindings(&port, |binding| Some(binding.host.as_str()) == host, asker).await?;
            body.insert("binding:host_id".to_owned(), json!(host));
        }
        // `port` shows the binding that was active before. A binding that was just activated has a profile of its own,
        // so it does not change here.
        if !is_there || port.bound_to() == host {
            body.extend(binding_change(&port, place.map(|(_, got)| got)));
        }
        body.extend(
            owner.filter(|owner| *owner != port.device_owner).map(|owner| ("device_owner".to_owned(), json!(owner))),
        );
        let id = port.id.to_string();
        if !body.is_empty() {
            ensure_bound(self.calls.change(asker, "ports", "port", &id, body).await?)?;
        } else if port.bound_to() == host {
            ensure_bound(port.clone())?;
        }
        self.drop_bindings(&port, |binding| Some(binding.host.as_str()) != host, asker).await
    }

    /// Gives the server's port on the network one more address, from the first subnet with a free address.
    pub(super) async fn add_one(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        network: NetworkId,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let asker = NeutronCaller::account(meta);
        let ports = self.ports_of_server(asker, instance, project).await?;
        let missing = || PortError::NotFound(format!("Network could not be found for instance {instance}."));
        let port = ports.into_iter().find(|port| port.network_id == network).ok_or_else(missing)?;
        let subnets: Vec<NeutronSubnet> = self.calls.list(asker, "subnets", &format!("network_id={network}")).await?;
        for subnet in subnets {
            let mut wanted = addresses(&port, |_| true);
            wanted.push(json!({"subnet_id": subnet.id.to_string()}));
            match self.readdress(&port, wanted, asker).await {
                Err(PortError::Conflict(_)) => {}
                other => return other,
            }
        }
        Err(PortError::Conflict(format!("No fixed IP addresses available for network: {network}")))
    }

    pub(super) async fn remove_one(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        address: IpAddr,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let asker = NeutronCaller::account(meta);
        let ports = self.ports_of_server(asker, instance, project).await?;
        let has = |port: &NeutronPort| port.fixed_ips.iter().any(|ip| ip.ip_address == address);
        let port = ports.into_iter().find(has).ok_or_else(|| {
            PortError::NotFound(format!(
                "Fixed IP not found for instance {instance}: {address} is none of its addresses."
            ))
        })?;
        self.readdress(&port, addresses(&port, |other| other != address), asker).await
    }

    async fn readdress(
        &self,
        port: &NeutronPort,
        wanted: Vec<Value>,
        asker: NeutronCaller<'_>,
    ) -> Result<(), PortError> {
        let body = fields([("fixed_ips", json!(wanted))]);
        Ok(self.calls.change::<Value>(asker, "ports", "port", &port.id.to_string(), body).await.map(drop)?)
    }
}

fn addresses(port: &NeutronPort, keep: impl Fn(IpAddr) -> bool) -> Vec<Value> {
    let kept = port.fixed_ips.iter().filter(|ip| keep(ip.ip_address));
    kept.map(|ip| json!({"subnet_id": ip.subnet_id.to_string(), "ip_address": ip.ip_address.to_string()})).collect()
}
