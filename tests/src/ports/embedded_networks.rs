//! The embedded network service on a log in memory, and a stage that sends commands to its aggregates.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_actors::gateway::Reachable;
use chronova_actors::runtime::{Leadership, Member};
use chronova_actors::services::embedded::network::router::{RouterCommand, RouterRoot};
use chronova_actors::services::embedded::network::security_group::{SecurityGroupCommand, SecurityGroupRoot};
use chronova_actors::services::embedded::network::service::EmbeddedNetworks;
use chronova_actors::services::embedded::network::{
    FloatingIpRequest, NetworkCommand, NetworkRoot, PortRequest, SubnetGateway, SubnetRequest,
};
use chronova_events::clock::SystemClock;
use chronova_events::envelope::Meta;
use chronova_events::ids::{FloatingIpId, NetworkId, PortId, ProjectId, RouterId, SecurityGroupId, SubnetId};
use chronova_events::instance::NicInfo;
use chronova_events::network::{
    AllocationPool, Association, FloatingIpSettings, NetworkCreated, NetworkSettings, PortBinding, PortSettings,
    ProviderAttributes,
};
use chronova_events::router::{GATEWAY_OWNER, INTERFACE_OWNER, RouterCreated, RouterSettings};
use chronova_events::security_group::{GroupCreated, GroupSettings};
use chronova_events::store::memory::MemoryStore;
use chronova_projections::views::Views;

use super::networks::{GROUP, NetworkStage, NetworkTenant};

/// A command waits at most this long for the read models; only a hang reaches the limit.
const PATIENCE: Duration = Duration::from_mins(1);

pub struct EmbeddedNetworkStage {
    pub networks: Arc<EmbeddedNetworks>,
    leadership: Leadership,
    member: Member,
}

impl EmbeddedNetworkStage {
    /// An empty service. Needs a running actix system.
    pub async fn new() -> Self {
        let member = Member::start(MemoryStore::new(), Arc::new(SystemClock), Views::new()).await.unwrap();
        let leadership = Leadership::take(&member, 1).unwrap();
        let networks = EmbeddedNetworks::new(
            Arc::clone(&leadership.gateway),
            Arc::clone(&leadership.views),
            Arc::clone(&leadership.clock),
        );
        Self { networks, leadership, member }
    }

    async fn send<A: Reachable>(&self, id: &A::Id, command: A::Command)
    where
        A::Reject: std::fmt::Debug,
    {
        let committed = self.leadership.gateway.send::<A>(id, command, Meta::system("stage")).await.unwrap();
        assert!(self.leadership.views.wait_for(committed.position, PATIENCE).await, "the read models lag");
    }

    /// A network with one subnet, whose pool has this many addresses.
    async fn network(&self, project: &ProjectId, addresses: u8, external: bool) -> NetworkId {
        let network = NetworkId::random();
        let created = NetworkCreated {
            network,
            project: project.clone(),
            settings: NetworkSettings { name: "private".to_owned(), external, ..NetworkSettings::default() },
            provider: ProviderAttributes {
                network_type: "local".to_owned(),
                physical_network: None,
                segmentation_id: None,
            },
            availability_zone_hints: vec![],
        };
        self.send::<NetworkRoot>(&network, NetworkCommand::Create(created)).await;
        let address = |last: u8| IpAddr::V4(Ipv4Addr::new(10, 7, 0, last));
        let subnet = SubnetRequest {
            subnet: SubnetId::random(),
            project: project.clone(),
            name: String::new(),
            description: String::new(),
            cidr: "10.7.0.0/24".parse().unwrap(),
            gateway: SubnetGateway::Default,
            pools: Some(vec![AllocationPool { start: address(10), end: address(9 + addresses) }]),
            dhcp: true,
            dns: vec![],
            host_routes: vec![],
            ipv6_address_mode: None,
            ipv6_ra_mode: None,
            tags: vec![],
        };
        self.send::<NetworkRoot>(&network, NetworkCommand::AddSubnet(subnet)).await;
        network
    }

    async fn create_router_port(&self, router: RouterId, tenant: &NetworkTenant, network: NetworkId, owner: &str) {
        let port = PortId::random();
        let wanted = PortRequest {
            port,
            project: tenant.project.clone(),
            mac: None,
            addresses: None,
            settings: PortSettings::default(),
            port_security: Some(false),
            security_groups: None,
            binding: PortBinding { device: router.to_string(), owner: owner.to_owned(), ..PortBinding::default() },
            made_for: None,
        };
        self.send::<NetworkRoot>(&network, NetworkCommand::CreatePort(wanted)).await;
    }

    pub async fn stop(self) {
        self.member.stop().await;
    }
}

#[async_trait]
impl NetworkStage for EmbeddedNetworkStage {
    async fn tenant(&self, addresses: u8) -> NetworkTenant {
        let (group, project) = (SecurityGroupId::random(), ProjectId::new(NetworkId::random().to_string()));
        let network = self.network(&project, addresses, false).await;
        let settings =
            GroupSettings { name: GROUP.to_owned(), description: String::new(), stateful: true, tags: vec![] };
        let created = GroupCreated { group, project: project.clone(), settings };
        let command = SecurityGroupCommand::Create { created, limit: -1 };
        self.send::<SecurityGroupRoot>(&project, command).await;
        NetworkTenant { project, network, group }
    }

    async fn own_port(&self, tenant: &NetworkTenant) -> PortId {
        let port = PortId::random();
        let wanted = PortRequest {
            port,
            project: tenant.project.clone(),
            mac: None,
            addresses: None,
            settings: PortSettings::default(),
            port_security: None,
            security_groups: None,
            binding: PortBinding::default(),
            made_for: None,
        };
        self.send::<NetworkRoot>(&tenant.network, NetworkCommand::CreatePort(wanted)).await;
        port
    }

    async fn delete_port(&self, tenant: &NetworkTenant, port: PortId) {
        self.send::<NetworkRoot>(&tenant.network, NetworkCommand::DeletePort { port }).await;
    }

    async fn bindings(&self, port: PortId) -> Vec<String> {
        let host = self.leadership.views.networks.read(|view| view.port(port).unwrap().binding().host.clone());
        Some(host).filter(|host| !host.is_empty()).into_iter().collect()
    }

    async fn pool(&self, tenant: &NetworkTenant, addresses: u8) -> NetworkId {
        let pool = self.network(&ProjectId::new("operators"), addresses, true).await;
        let router = RouterId::random();
        let settings = RouterSettings {
            name: String::new(),
            description: String::new(),
            admin_state_up: true,
            snat: true,
            tags: vec![],
        };
        let created =
            RouterCreated { router, project: tenant.project.clone(), settings, availability_zone_hints: vec![] };
        self.send::<RouterRoot>(&router, RouterCommand::Create(created)).await;
        self.create_router_port(router, tenant, pool, GATEWAY_OWNER).await;
        self.create_router_port(router, tenant, tenant.network, INTERFACE_OWNER).await;
        pool
    }

    async fn float(&self, tenant: &NetworkTenant, nic: &NicInfo) -> IpAddr {
        let outside = self.network(&ProjectId::new("operators"), 5, true).await;
        let port = self.leadership.views.networks.read(|view| view.port(nic.port).cloned()).unwrap();
        let fixed = port.addresses()[0];
        let floating_ip = FloatingIpId::random();
        let wanted = FloatingIpRequest {
            floating_ip,
            port: PortId::random(),
            project: tenant.project.clone(),
            address: None,
            settings: FloatingIpSettings::default(),
            association: Some(Association {
                network: tenant.network,
                port: nic.port,
                subnet: fixed.subnet,
                address: fixed.address,
                router: RouterId::random(),
            }),
            limit: -1,
            elsewhere: 0,
        };
        self.send::<NetworkRoot>(&outside, NetworkCommand::AllocateFloatingIp(wanted)).await;
        self.leadership.views.networks.read(|view| view.floating_ip(floating_ip).unwrap().address())
    }
}
