//! The resources that ports request from the host of their server, for example a minimum bandwidth.
//!
//! The network service's agents report the providers of such resources below the providers of hosts. The server's claim
//! includes the resources of its ports. The binding of a port names the providers that give them.

use std::collections::BTreeMap;

use chronova_events::ids::{PortId, ProviderId};

/// The resources that a port requests: Neutron's `resource_request`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortResourceRequest {
    pub port: PortId,
    /// One provider serves each group.
    pub groups: Vec<PortRequestGroup>,
    /// Groups whose providers are in one subtree: one of the providers is an ancestor of all others.
    pub same_subtree: Vec<String>,
    /// Whether the port has groups with ids of their own, as with Neutron's extension `port-resource-request-groups`.
    pub has_groups: bool,
    /// The providers that the port's present binding names.
    pub bound_to: Option<PortProviders>,
}

/// Resources and traits that one provider must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRequestGroup {
    /// The id of the group. A port without groups of its own has one with the port's id.
    pub id: String,
    pub resources: BTreeMap<String, u64>,
    pub traits: Vec<String>,
}

/// The providers that give a port its resources: `allocation` in Neutron's `binding:profile`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortProviders {
    One(ProviderId),
    /// By the ids of the groups.
    OfGroups(BTreeMap<String, ProviderId>),
}

impl PortProviders {
    /// The provider of a group.
    pub fn of(&self, group: &str) -> Option<ProviderId> {
        match self {
            Self::One(provider) => Some(*provider),
            Self::OfGroups(all) => all.get(group).copied(),
        }
    }
}

/// The providers of the ports that request resources. Other ports are left out.
pub type PortAllocations = BTreeMap<PortId, PortProviders>;
