//! Network quota of a project: its limits, and the reservations for its networks, subnets, ports and routers. One
//! stream per project.
//!
//! Before a network, subnet, port or router is created, quota is reserved under the resource's id. So concurrent
//! requests cannot exceed the limit. The next reservation releases the quota of resources that are deleted or were
//! never created. Resources created without a limit, or by older versions, have no reservation: they are counted
//! directly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{NetworkId, PortId, ProjectId, RouterId, SubnetId};

noun! {
    /// Events of a project's network quota.
    NetworkQuotaEvent = "network_quota" {
        /// An administrator set limits for the project.
        NetworkLimitsSet = "limits_set" @ 1,
        /// An administrator reset the project's limits to the defaults.
        NetworkLimitsReset = "limits_reset" @ 1,
        /// Quota was reserved for a resource about to be created.
        NetworkRoomTaken = "room_taken" @ 1,
        /// Quota was released.
        NetworkRoomReleased = "room_released" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkLimitsSet {
    pub project: ProjectId,
    /// Limits by resource (-1: no limit), sorted by resource.
    pub limits: Vec<(String, i64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkLimitsReset {
    pub project: ProjectId,
}

/// A resource that counts against a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CountedResource {
    Network(NetworkId),
    Subnet(SubnetId),
    Port(PortId),
    Router(RouterId),
}

impl CountedResource {
    /// The name of the resource in Neutron's quotas.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Network(_) => "network",
            Self::Subnet(_) => "subnet",
            Self::Port(_) => "port",
            Self::Router(_) => "router",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRoomTaken {
    pub project: ProjectId,
    /// Sorted.
    pub things: Vec<CountedResource>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRoomReleased {
    pub project: ProjectId,
    /// Sorted.
    pub things: Vec<CountedResource>,
}

/// One project's limits and reservations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NetworkLimits {
    /// The limits that an administrator set. Other resources have the default limits.
    pub limits: BTreeMap<String, i64>,
    /// The reserved quota, with the time of each reservation.
    #[serde(with = "pairs")]
    pub taken: BTreeMap<CountedResource, Timestamp>,
}

/// Serializes a map as a list, because keys of JSON objects are strings.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::CountedResource;
    use crate::envelope::Timestamp;

    pub(super) fn serialize<S: Serializer>(
        map: &BTreeMap<CountedResource, Timestamp>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<CountedResource, Timestamp>, D::Error> {
        Vec::<(CountedResource, Timestamp)>::deserialize(from).map(|pairs| pairs.into_iter().collect())
    }
}

impl Fold for NetworkLimits {
    type Event = NetworkQuotaEvent;
    const STATE_VERSION: u32 = 2;

    fn evolve(&mut self, event: &NetworkQuotaEvent, at: Timestamp) {
        match event {
            NetworkQuotaEvent::NetworkLimitsSet(set) => self.limits.extend(set.limits.iter().cloned()),
            NetworkQuotaEvent::NetworkLimitsReset(_) => self.limits.clear(),
            NetworkQuotaEvent::NetworkRoomTaken(room) => {
                self.taken.extend(room.things.iter().map(|thing| (*thing, at)));
            }
            NetworkQuotaEvent::NetworkRoomReleased(room) => {
                for thing in &room.things {
                    self.taken.remove(thing);
                }
            }
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<NetworkQuotaEvent> {
    let (project, uuid) = (ProjectId::new("p"), uuid::Uuid::from_u128);
    vec![
        NetworkLimitsSet { project: project.clone(), limits: vec![("port".into(), -1)] }.into(),
        NetworkLimitsReset { project: project.clone() }.into(),
        NetworkRoomTaken {
            project: project.clone(),
            things: vec![CountedResource::Network(NetworkId(uuid(1))), CountedResource::Port(PortId(uuid(2)))],
        }
        .into(),
        NetworkRoomReleased {
            project,
            things: vec![CountedResource::Subnet(SubnetId(uuid(3))), CountedResource::Router(RouterId(uuid(4)))],
        }
        .into(),
    ]
}
