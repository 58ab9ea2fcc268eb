//! Ports that request bandwidth in the test world, and the providers of bandwidth.

use chronova_actors::instance::InstanceRequest;
use chronova_actors::ledger::{CELL, LedgerCommand, LedgerRoot, Reserve};
use chronova_actors::ports::{PortProviders, PortRequestGroup, PortResourceRequest};
use chronova_events::envelope::Meta;
use chronova_events::ids::{ConsumerId, InstanceId, PortId, ProcessId, ProviderId};
use chronova_events::instance::{BuildRequested, RequestedNetworks, RequestedNic};
use chronova_events::ledger::{Inventory, Ledger};
use chronova_projections::views::Views;
use uuid::Uuid;

use crate::services::OneNetwork;
use crate::world::{ADMIN, Life, build_request};

pub const CLASS: &str = "NET_BW_EGR_KILOBIT_PER_SEC";
/// The bandwidth that a port requests.
pub const KILOBITS: u64 = 1000;

/// The first half of the ids of ports that request bandwidth.
const MARK: u128 = 0xBA4D;

/// A user's port that requests bandwidth.
pub fn port(n: u64) -> PortId {
    PortId(Uuid::from_u128((MARK << 64) | u128::from(n)))
}

/// The number of the first port of [`card_port`].
const OF_CARDS: u64 = 1 << 32;

/// A user's port that requests bandwidth, and is a virtual function of its host.
pub fn card_port(n: u64) -> PortId {
    port(OF_CARDS + n)
}

/// Whether the port is one of [`card_port`].
pub fn is_card_port(port: PortId) -> bool {
    let id = port.0.as_u128();
    id >> 64 == MARK && id & u128::from(u64::MAX) >= u128::from(OF_CARDS)
}

/// The port's request, if it is a port of [`port`].
pub fn request_of(port: PortId, bound_to: Option<PortProviders>) -> Option<PortResourceRequest> {
    let group =
        || PortRequestGroup { id: port.to_string(), resources: [(CLASS.to_owned(), KILOBITS)].into(), traits: vec![] };
    (port.0.as_u128() >> 64 == MARK).then(|| PortResourceRequest {
        port,
        groups: vec![group()],
        same_subtree: vec![],
        has_groups: false,
        bound_to,
    })
}

/// A small server with a port that requests bandwidth.
pub fn request_with_bandwidth(instance: InstanceId, port: PortId) -> BuildRequested {
    let networks = RequestedNetworks::These(vec![nic(port)]);
    BuildRequested { networks, ..build_request(instance) }
}

fn nic(port: PortId) -> RequestedNic {
    RequestedNic { network: None, port: Some(port), fixed_ip: None, tag: None }
}

impl Life {
    /// Gives each host a bridge with this bandwidth, as the agent of a network service does.
    pub async fn add_bridges(&self, kilobits: u64) {
        for host in self.root_providers() {
            self.add_bandwidth(host, bridge_of(host), format!("{host}:br-physnet"), kilobits).await;
        }
    }

    /// Gives each host bandwidth of the card with this interface, as Neutron's SR-IOV agent does.
    pub async fn add_bandwidth_of_card(&self, interface: &str, kilobits: u64) {
        for host in self.root_providers() {
            let (provider, name) =
                (ProviderId::derive(host.0, interface), format!("{host}:NIC Switch agent:{interface}"));
            self.add_bandwidth(host, provider, name, kilobits).await;
        }
    }

    fn root_providers(&self) -> Vec<ProviderId> {
        self.context().views.placement.read(|view| {
            let roots = view.ledger.providers.values().filter(|known| known.parent.is_none());
            roots.map(|known| known.id).collect()
        })
    }

    async fn add_bandwidth(&self, host: ProviderId, provider: ProviderId, name: String, kilobits: u64) {
        let inventory = Inventory {
            class: CLASS.to_owned(),
            total: kilobits,
            reserved: 0,
            min_unit: 1,
            max_unit: kilobits,
            step_size: 1,
            allocation_ratio: 1.0,
        };
        let set = LedgerCommand::SetInventories {
            provider,
            generation: Some(0),
            inventories: vec![inventory],
            reserve: Reserve::All,
        };
        for command in [LedgerCommand::CreateProvider { provider, name, parent: Some(host) }, set] {
            let sent = self.context().gateway.send::<LedgerRoot>(&CELL, command, Meta::system("agent")).await;
            let position = sent.unwrap().position;
            self.until(|context| context.views.position() >= position).await;
        }
    }

    pub async fn build_with_bandwidth(&self, instance: InstanceId, port: PortId) -> Result<(), String> {
        self.build_of(request_with_bandwidth(instance, port)).await
    }

    /// Attaches a port that requests bandwidth.
    pub async fn attach_bandwidth(&self, instance: InstanceId, port: PortId) -> Result<(), String> {
        let process = ProcessId::random();
        self.instance(instance, InstanceRequest::AttachNic { process, wanted: nic(port), asker: ADMIN }).await
    }
}

/// The provider of a host's bandwidth.
pub fn bridge_of(host: ProviderId) -> ProviderId {
    ProviderId::derive(host.0, "br-physnet")
}

/// The bandwidth that a consumer has of each provider.
pub fn held(ledger: &Ledger, consumer: &ConsumerId) -> Vec<(ProviderId, u64)> {
    let allocations = ledger.consumers.get(consumer).map(|held| held.claim.allocations.as_slice()).unwrap_or_default();
    let of =
        |resources: &[(String, u64)]| resources.iter().find(|(class, _)| class == CLASS).map(|(_, amount)| *amount);
    allocations.iter().filter_map(|held| Some((held.provider, of(&held.resources)?))).collect()
}

/// Checks invariants when no work is under way: each server on a host has the bandwidth of its ports on this host, and
/// the bindings of the ports name the provider.
pub fn check(network: &OneNetwork, views: &Views) {
    views.servers.read(|servers| {
        for row in servers.all() {
            let Some(server) = row.instance.alive() else { continue };
            let Some(placed) = &server.placement else { continue };
            let ports: Vec<PortId> =
                server.nics.iter().map(|nic| nic.port).filter(|port| request_of(*port, None).is_some()).collect();
            let bridge = bridge_of(ProviderId(placed.host.0));
            let number = u64::try_from(ports.len()).unwrap();
            let wanted: Vec<(ProviderId, u64)> =
                (number > 0).then_some((bridge, number * KILOBITS)).into_iter().collect();
            let consumer = ConsumerId::new(row.id.to_string());
            let held = views.placement.read(|view| held(&view.ledger, &consumer));
            assert_eq!(held, wanted, "the bandwidth of {} differs from that of its ports", row.id);
            for port in ports {
                assert_eq!(network.given_to(port), Some(PortProviders::One(bridge)), "the binding of {port}");
            }
        }
    });
}
