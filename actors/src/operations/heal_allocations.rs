//! Gives a server back the allocations that Placement lost, for example after its data was recreated.
//!
//! The server gets the resources of its flavor on the provider of its host, as `nova-manage placement heal_allocations`
//! claims them. The resources of its ports come from the providers that the bindings of the ports name. If a binding
//! names none, and only one provider of the host could give the resources, the heal first names this provider in the
//! binding. If the claim is then refused, the binding names none again. A heal does not restore the allocations that a
//! migration holds, nor those of other nested providers.
//!
//! A heal is one command, so a crash leaves it done or not done, with two exceptions. A crash after a binding was
//! written leaves a name that the next heal uses. And a server may be deleted after the heal has read the server, but
//! before the heal sends its command. That deletion finds nothing to release, so the heal sends a second command, which
//! releases the new claim. A crash between the two commands leaves an orphaned allocation, which `placement audit`
//! shows.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{ConsumerId, HostId, InstanceId, PortId, ProviderId};
use chronova_events::instance::{Alive, OngoingTask, status};
use chronova_events::ledger::{Allocation, Claimed, Consumer};
use thiserror::Error;

use super::Operations;
use crate::aggregate::CommandError;
use crate::instance::InstanceRoot;
use crate::ledger::{
    CELL, ConsumerClaim, GuestClaim, LedgerCommand, LedgerReject, LedgerRoot, SeenGeneration, ServerClaim,
};
use crate::port_resources;
use crate::ports::{PortError, PortProviders, PortResourceRequest};
use crate::process::destination::fit;
use crate::scheduler::RequestSpec;
use crate::scheduler::request::ResourceRequest;

/// The operator's options for a heal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HealRequest {
    /// Replaces existing allocations, too.
    pub force: bool,
    /// Returns what a heal would do, and changes nothing.
    pub dry_run: bool,
    /// Leaves out the resources of ports, and does not ask the network service.
    pub skips_ports: bool,
}

/// The result of a heal.
#[derive(Debug, Clone, PartialEq)]
pub enum HealedServer {
    /// Nothing was healed, because a task is under way. The task may claim or release allocations itself.
    InTask(&'static str),
    OnNoHost,
    UpToDate,
    /// The server had no allocations.
    Created(Vec<Allocation>),
    /// The server had allocations that named another owner, or `force` was set.
    Updated(Vec<Allocation>),
}

/// Why a server was not healed.
#[derive(Debug, Error)]
pub enum HealReject {
    #[error("the server could not be found")]
    NotFound,
    #[error("the host {0} has no provider in Placement")]
    NoProvider(String),
    /// Nova's `HealvGPUAllocationNotSupported` and `HealDeviceProfileAllocationNotSupported`.
    #[error("healing {0} allocations is not supported")]
    NestedResources(&'static str),
    #[error("the flavor cannot be read: {0}")]
    Topology(String),
    #[error("the network service does not show the server's ports")]
    Ports(#[source] PortError),
    #[error("the network service does not change the bindings of the server's ports")]
    PortsNotUpdated(#[source] PortError),
    /// Nova's `UnableToRollbackPortUpdates`.
    #[error("the bindings of the ports {ports} still name providers")]
    PortsNotRestored {
        ports: String,
        #[source]
        source: PortError,
    },
    #[error(transparent)]
    Ledger(CommandError<LedgerReject>),
}

/// The resources of a server's ports.
#[derive(Default)]
struct PortsShare {
    allocations: Vec<Allocation>,
    /// The providers that the bindings do not name yet.
    unnamed: Vec<(PortId, PortProviders)>,
}

/// The change that heals a server.
enum Healing {
    Create(Box<ServerClaim>),
    Update(ConsumerClaim),
}

impl Healing {
    /// Whether the allocations are those of the server's flavor, and not those that the server already has.
    fn claims_anew(&self, force: bool) -> bool {
        force || matches!(self, Self::Create(_))
    }

    /// Adds allocations to those of the flavor.
    fn add(&mut self, more: &[Allocation]) {
        let allocations = match self {
            Self::Create(claim) => &mut claim.claim.allocations,
            Self::Update(claim) => &mut claim.allocations,
        };
        *allocations = port_resources::sum(allocations.iter().chain(more));
    }
}

impl Operations {
    /// Heals the allocations of one server. Read models at the returned position show the heal.
    ///
    /// # Errors
    /// There is no such server, or its host has no provider. The flavor cannot be read. The flavor or a port needs
    /// nested providers that cannot be determined. Or the network service or the ledger refuses.
    pub async fn heal_allocations(
        &self,
        server: InstanceId,
        request: HealRequest,
        meta: Arc<Meta>,
    ) -> Result<(HealedServer, Position), HealReject> {
        let views = &self.queries.views;
        let row = views.servers.read(|servers| servers.get(server).cloned());
        let alive = row.as_ref().and_then(|row| row.instance.alive()).ok_or(HealReject::NotFound)?;
        if let Some(task) = status::of_alive(alive).task_state {
            return Ok((HealedServer::InTask(task), views.position()));
        }
        let Some(placed) = &alive.placement else { return Ok((HealedServer::OnNoHost, views.position())) };
        let Some(mut healing) = self.healing(server, alive, placed.host, request.force)? else {
            return Ok((HealedServer::UpToDate, views.position()));
        };
        let mut unnamed = Vec::new();
        if !request.skips_ports && healing.claims_anew(request.force) {
            let ports = self.ports_of(server, alive, placed.host, &meta).await?;
            healing.add(&ports.allocations);
            unnamed = ports.unnamed;
        }
        let (healed, command) = match healing {
            Healing::Create(claim) => (
                HealedServer::Created(claim.claim.allocations.clone()),
                LedgerCommand::ClaimAll { claims: vec![*claim] },
            ),
            Healing::Update(claim) => {
                (HealedServer::Updated(claim.allocations.clone()), LedgerCommand::Allocate { claims: vec![claim] })
            }
        };
        if request.dry_run {
            return Ok((healed, views.position()));
        }
        self.name_providers(&unnamed, &meta).await?;
        match self.send::<LedgerRoot>(&CELL, command, Arc::clone(&meta)).await {
            Ok(sent) => self.unless_deleted(server, sent.position, healed, meta).await,
            Err(error) => {
                // If the log does not answer, it may nevertheless have recorded the claim. Then the bindings are right,
                // so they stay.
                if error.rejection().is_some() {
                    self.name_no_providers(&unnamed, &meta).await?;
                }
                Err(HealReject::Ledger(error))
            }
        }
    }

    async fn name_providers(&self, ports: &[(PortId, PortProviders)], meta: &Arc<Meta>) -> Result<(), HealReject> {
        for (number, (port, providers)) in ports.iter().enumerate() {
            let named = self.queries.networks.name_providers(&[(*port, Some(providers.clone()))], meta).await;
            if let Err(error) = named {
                self.name_no_providers(ports.get(..number).unwrap_or_default(), meta).await?;
                return Err(HealReject::PortsNotUpdated(error));
            }
        }
        Ok(())
    }

    /// Takes the names back. Tries it for all ports. A deleted port has no binding.
    async fn name_no_providers(&self, ports: &[(PortId, PortProviders)], meta: &Arc<Meta>) -> Result<(), HealReject> {
        let (mut left, mut cause) = (Vec::new(), None);
        for (port, _) in ports {
            match self.queries.networks.name_providers(&[(*port, None)], meta).await {
                Ok(()) | Err(PortError::NotFound(_)) => {}
                Err(error) => {
                    left.push(port.to_string());
                    cause = Some(error);
                }
            }
        }
        match cause {
            Some(source) => Err(HealReject::PortsNotRestored { ports: left.join(", "), source }),
            None => Ok(()),
        }
    }

    /// The resources of the server's ports, with the providers that give them. The binding of a port names its
    /// providers. If it does not, the providers are those where the server already holds the port's resources. If the
    /// server holds none, the providers are the only ones of the host that fit.
    async fn ports_of(
        &self,
        server: InstanceId,
        alive: &Alive,
        host: HostId,
        meta: &Arc<Meta>,
    ) -> Result<PortsShare, HealReject> {
        // The network service refuses to create a port with a request.
        let ports: Vec<PortId> = alive.nics.iter().filter(|nic| !nic.owned).map(|nic| nic.port).collect();
        if ports.is_empty() {
            return Ok(PortsShare::default());
        }
        // Neither flavor nor port says which device a guest has. Another guest could get this device.
        let devices = self.queries.networks.device_ports(&ports, meta).await.map_err(HealReject::Ports)?;
        if !devices.is_empty() {
            return Err(HealReject::NestedResources("PCI device"));
        }
        let requests = self.queries.networks.resource_requests(&ports, meta).await.map_err(HealReject::Ports)?;
        let consumer = ConsumerId::new(server.to_string());
        let held = self.queries.views.placement.read(|view| {
            let held = &view.ledger.consumers.get(&consumer)?.claim.allocations;
            port_resources::providers(&requests, held, &view.ledger)
        });
        let mut found = PortsShare::default();
        for request in &requests {
            let providers = match &request.bound_to {
                Some(bound) => bound.clone(),
                None => {
                    let known = held.as_ref().and_then(|held| held.get(&request.port).cloned());
                    let only = known.map_or_else(|| self.only_providers(request, host), Ok)?;
                    found.unnamed.push((request.port, only.clone()));
                    only
                }
            };
            found.allocations.extend(port_resources::share(request, &providers));
        }
        Ok(found)
    }

    /// The providers of the host that can give the port its resources. Fails if no providers fit, or if there is a
    /// choice.
    fn only_providers(&self, request: &PortResourceRequest, host: HostId) -> Result<PortProviders, HealReject> {
        let only = self.queries.views.placement.read(|view| {
            let proposals = port_resources::proposals(&view.index, request, host, 2);
            let [only] = proposals.as_slice() else { return None };
            port_resources::providers(std::slice::from_ref(request), only, &view.ledger)?.remove(&request.port)
        });
        only.ok_or(HealReject::NestedResources("port"))
    }

    /// Decides how to heal a settled server; `None` if its allocations are in order.
    fn healing(
        &self,
        server: InstanceId,
        alive: &Alive,
        host: HostId,
        force: bool,
    ) -> Result<Option<Healing>, HealReject> {
        check_nested(&alive.request.flavor.extra_specs)?;
        let consumer = ConsumerId::new(server.to_string());
        let (held, has_devices) = self.queries.views.placement.read(|view| {
            (view.ledger.consumers.get(&consumer).cloned(), view.ledger.pci_claims.of(&consumer).is_some())
        });
        match held {
            None => Ok(Some(Healing::Create(Box::new(self.claim(consumer, alive, host)?)))),
            Some(_) if force && has_devices => Err(HealReject::NestedResources("PCI device")),
            Some(held) if force => {
                let allocations = self.claim(consumer, alive, host)?.claim.allocations;
                Ok(Some(Healing::Update(owned(alive, &held, allocations))))
            }
            Some(held) if held.claim.project != alive.request.project || held.claim.user != alive.request.user => {
                Ok(Some(Healing::Update(owned(alive, &held, held.claim.allocations.clone()))))
            }
            Some(_) => Ok(None),
        }
    }

    /// The claim of the server's flavor on its host.
    fn claim(&self, consumer: ConsumerId, alive: &Alive, host: HostId) -> Result<ServerClaim, HealReject> {
        let provider = ProviderId(host.0);
        let pinned = self
            .queries
            .views
            .placement
            .read(|view| view.ledger.providers.get(&provider).map(|known| known.inventories.contains_key("PCPU")));
        let hostname = || alive.placement.as_ref().map(|placed| placed.hostname.clone()).unwrap_or_default();
        let pinned = pinned.ok_or_else(|| HealReject::NoProvider(hostname()))?;
        let zone = &self.queries.server_options.availability_zone;
        let mut spec = RequestSpec::of_build(&alive.request, &BTreeSet::new(), zone);
        fit(&mut spec, alive);
        let resources = ResourceRequest::of(&spec, pinned).totals().into_iter().collect();
        let topology = spec.topology().map_err(HealReject::Topology)?;
        let packs = self.queries.scheduler_options.packs_cells;
        Ok(ServerClaim {
            claim: Claimed {
                consumer,
                project: alive.request.project.clone(),
                user: alive.request.user.clone(),
                consumer_type: Some("INSTANCE".to_owned()),
                allocations: vec![Allocation { provider, resources }],
            },
            // The server is on this host already, so the ledger does not check the policy of its group.
            group: None,
            guest: topology.map(|topology| GuestClaim {
                host: provider,
                topology: Some(Arc::new(topology)),
                devices: Vec::new(),
                packs,
            }),
        })
    }

    /// Releases the new claim if the server is deleted or being deleted. Asks the server itself, because the read
    /// models may lag behind a delete.
    async fn unless_deleted(
        &self,
        server: InstanceId,
        position: Position,
        healed: HealedServer,
        meta: Arc<Meta>,
    ) -> Result<(HealedServer, Position), HealReject> {
        let now = self.gateway.look::<InstanceRoot>(&server).await;
        let now = now.map_err(|error| HealReject::Ledger(CommandError::Unavailable(error)))?;
        if now.alive().is_some_and(|alive| !matches!(alive.ongoing, Some(OngoingTask::Delete { .. }))) {
            return Ok((healed, position));
        }
        let release = LedgerCommand::Release { consumer: ConsumerId::new(server.to_string()) };
        let released = self.send::<LedgerRoot>(&CELL, release, meta).await.map_err(HealReject::Ledger)?;
        Ok((HealedServer::InTask("deleting"), released.position))
    }
}

/// Refuses a flavor with vGPUs or a device profile, as Nova does, because the flavor does not say which nested provider
/// a guest uses. Unlike Nova, also refuses an alias of PCI devices, because the flavor does not say which device the
/// guest has.
fn check_nested(extra_specs: &[(String, String)]) -> Result<(), HealReject> {
    let has = |name: &str| extra_specs.iter().any(|(key, _)| key == name);
    let named = [
        ("resources:VGPU", "vGPU"),
        ("accel:device_profile", "device profile"),
        ("pci_passthrough:alias", "PCI device"),
    ];
    named.iter().find(|(key, _)| has(key)).map_or(Ok(()), |(_, name)| Err(HealReject::NestedResources(name)))
}

/// Allocations in the name of the server's owner, at the generation that was seen.
fn owned(alive: &Alive, held: &Consumer, allocations: Vec<Allocation>) -> ConsumerClaim {
    ConsumerClaim {
        consumer: held.claim.consumer.clone(),
        project: alive.request.project.clone(),
        user: alive.request.user.clone(),
        consumer_type: held.claim.consumer_type.clone().or_else(|| Some("INSTANCE".to_owned())),
        generation: SeenGeneration::Said(Some(held.generation)),
        allocations,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flavor_with_nested_resources_is_not_healed() {
        let refusal = |key: &str| match check_nested(&[(key.to_owned(), "1".to_owned())]) {
            Err(HealReject::NestedResources(kind)) => Some(kind),
            _ => None,
        };
        assert_eq!(refusal("resources:VGPU"), Some("vGPU"));
        assert_eq!(refusal("accel:device_profile"), Some("device profile"));
        assert_eq!(refusal("pci_passthrough:alias"), Some("PCI device"));
        assert_eq!(refusal("resources:CUSTOM_GOLD"), None);
        assert!(check_nested(&[]).is_ok());
    }
}
