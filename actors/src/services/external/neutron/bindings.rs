//! Bindings of a port to several hosts. During a live migration, a port is bound to the source and to the destination.
//!
//! Neutron calls this extension `binding-extended`. One binding of a port is active. As in Nova (`bind_ports_to_host`,
//! `setup_networks_on_host`, `migrate_instance_start`), the destination's binding is created before the guest moves.
//! The key `migrating_to` in the profile of the source's binding announces the move, so that OVN prepares the port at
//! both hosts. At the switch the destination's binding becomes active. Without the extension, a port is bound to its
//! new host only after the guest has arrived there.
//!
//! Invariants:
//!  - the active binding is never deleted, although Neutron itself would allow it;
//!  - each binding has its own profile, so the destination's binding gets a copy of the source's profile. Otherwise the
//!    mark of a port that Chronova created would be lost.

use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, ProjectId};
use serde_json::{Map, Value, json};

use super::NeutronNetworks;
use super::bind::{binding_failed, ensure_bound};
use super::calls::{NeutronCaller, NeutronError, encoded, fields};
use super::documents::{NeutronBinding, NeutronPort};
use super::grants::profile_granted;
use crate::ports::{PortError, PortGrant, PortGrants};

const EXTENSION: &str = "binding-extended";
/// Nova's key in the profile, for the host to which the port moves.
const MIGRATING_TO: &str = "migrating_to";

impl NeutronNetworks {
    pub(super) async fn bind_all_to_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        (host, grants): (&str, &PortGrants),
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let asker = NeutronCaller::account(meta);
        for port in self.ports_with_bindings(asker, instance, project).await? {
            if port.bound_to().is_some_and(|bound| bound != host) {
                self.bind_to_destination(&port, (host, grants.of(port.id)), asker).await?;
                self.announce(&port, Some(host), asker).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn activate_all(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let asker = NeutronCaller::account(meta);
        for port in self.ports_with_bindings(asker, instance, project).await? {
            self.activate(&port, host, asker).await?;
        }
        Ok(())
    }

    pub(super) async fn unbind_all_from_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        self.calls.again_if_late(meta, || self.unbind_known_from_destination(instance, project, host, meta)).await
    }

    /// Continues after a failure, so that one port does not prevent the others from being unbound.
    async fn unbind_known_from_destination(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        host: &str,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let asker = NeutronCaller::account(meta);
        let mut unbound = Ok(());
        for port in self.ports_with_bindings(asker, instance, project).await? {
            if port.bound_to() == Some(host) {
                continue;
            }
            unbound = unbound.and(self.announce(&port, None, asker).await);
            unbound = unbound.and(self.drop_bindings(&port, |binding| binding.host == host, asker).await);
        }
        unbound
    }

    /// The server's ports that may have several bindings.
    async fn ports_with_bindings(
        &self,
        asker: NeutronCaller<'_>,
        instance: InstanceId,
        project: &ProjectId,
    ) -> Result<Vec<NeutronPort>, PortError> {
        if !self.calls.has_extension(asker, EXTENSION).await? {
            return Ok(Vec::new());
        }
        let mut ports = self.ports_of_server(asker, instance, project).await?;
        ports.retain(NeutronPort::is_of_compute);
        Ok(ports)
    }

    async fn bind_to_destination(
        &self,
        port: &NeutronPort,
        (host, got): (&str, PortGrant<'_>),
        asker: NeutronCaller<'_>,
    ) -> Result<(), PortError> {
        let known = self.bindings_of(port, asker).await?;
        if let Some(known) = known.iter().find(|binding| binding.host == host) {
            return match known.vif_type.as_deref() {
                Some("binding_failed") => Err(binding_failed(port)),
                _ => Ok(()),
            };
        }
        let profile = profile_granted(&profile_of(port), got);
        let mut body = fields([("host", json!(host)), ("profile", Value::Object(profile))]);
        body.extend(port.vnic_type.as_ref().map(|kind| ("vnic_type".to_owned(), json!(kind))));
        match self.calls.create::<NeutronBinding>(asker, &bindings(port), "binding", body).await {
            Ok(_) => Ok(()),
            Err(error @ NeutronError::Unavailable(_)) => Err(error.into()),
            // 409: an earlier request, whose answer was lost, created the binding. 404: the port is gone.
            Err(error) if matches!(error.status(), 404 | 409) => Ok(()),
            Err(error) => {
                let error = PortError::from(error);
                tracing::warn!(port = %port.id, host, %error, "Neutron does not bind a port to a destination");
                Err(binding_failed(port))
            }
        }
    }

    /// Sets `migrating_to` to `host` in the profile of the source's binding. With `None`, removes the key.
    async fn announce(
        &self,
        port: &NeutronPort,
        host: Option<&str>,
        asker: NeutronCaller<'_>,
    ) -> Result<(), PortError> {
        if port.profile.get(MIGRATING_TO).and_then(Value::as_str) == host {
            return Ok(());
        }
        let mut profile = profile_of(port);
        profile.extend(host.map(|host| (MIGRATING_TO.to_owned(), json!(host))));
        let body = fields([("binding:profile", Value::Object(profile))]);
        match self.calls.change::<NeutronPort>(asker, "ports", "port", &port.id.to_string(), body).await {
            Err(error) if error.status() == 404 => Ok(()),
            changed => ensure_bound(changed?).map(drop),
        }
    }

    /// Activates the binding to this host. Returns `false` if the port has no such binding, or if Neutron refuses
    /// to activate it. The caller can then still bind the port by its `binding:host_id`.
    pub(super) async fn activate(
        &self,
        port: &NeutronPort,
        host: &str,
        asker: NeutronCaller<'_>,
    ) -> Result<bool, PortError> {
        if port.bound_to() == Some(host) {
            return Ok(true);
        }
        let known = self.bindings_of(port, asker).await?;
        if !known.iter().any(|binding| binding.host == host) {
            return Ok(false);
        }
        match self.calls.put(asker, &format!("{}/{}/activate", bindings(port), encoded(host))).await {
            Ok(()) => Ok(true),
            Err(error @ NeutronError::Unavailable(_)) => Err(error.into()),
            // The binding is active already.
            Err(error) if error.status() == 409 => Ok(true),
            Err(error) => {
                let error = PortError::from(error);
                tracing::warn!(port = %port.id, host, %error, "Neutron does not activate a binding");
                Ok(false)
            }
        }
    }

    /// Deletes the inactive bindings that `which` selects. Succeeds if such a binding is already gone.
    pub(super) async fn drop_bindings(
        &self,
        port: &NeutronPort,
        which: impl Fn(&NeutronBinding) -> bool + Send + Sync,
        asker: NeutronCaller<'_>,
    ) -> Result<(), PortError> {
        for binding in self.bindings_of(port, asker).await?.iter().filter(|binding| !binding.is_active()) {
            if which(binding) {
                match self.calls.delete(asker, &bindings(port), &binding.host).await {
                    Err(error) if error.status() == 404 => {}
                    deleted => deleted?,
                }
            }
        }
        Ok(())
    }

    /// All bindings of a port. The list is empty if the port is gone, if no server has it, or if Neutron lacks the
    /// extension.
    async fn bindings_of(
        &self,
        port: &NeutronPort,
        asker: NeutronCaller<'_>,
    ) -> Result<Vec<NeutronBinding>, PortError> {
        if !port.is_of_compute() || !self.calls.has_extension(asker, EXTENSION).await? {
            return Ok(Vec::new());
        }
        match self.calls.list_in(asker, &bindings(port), "bindings").await {
            Err(error) if error.status() == 404 => Ok(Vec::new()),
            found => Ok(found?),
        }
    }

    /// Replaces the port's VIF type and VIF details by those of its binding to this host. Without such a binding, the
    /// port stays as Neutron showed it.
    pub(super) async fn see_from(
        &self,
        port: &mut NeutronPort,
        host: &str,
        asker: NeutronCaller<'_>,
    ) -> Result<(), PortError> {
        if port.bound_to() == Some(host) {
            return Ok(());
        }
        let bindings = self.bindings_of(port, asker).await?;
        if let Some(there) = bindings.into_iter().find(|binding| binding.host == host) {
            port.vif_type = there.vif_type;
            port.vif_details = there.vif_details;
        }
        Ok(())
    }
}

/// The path of a port's bindings.
fn bindings(port: &NeutronPort) -> String {
    format!("ports/{}/bindings", port.id)
}

/// The profile of the port without `migrating_to`.
fn profile_of(port: &NeutronPort) -> Map<String, Value> {
    let mut profile = port.profile.as_object().cloned().unwrap_or_default();
    profile.remove(MIGRATING_TO);
    profile
}
