//! A project's limits for networks, subnets, ports, routers and security groups, and the room that is taken below them: one
//! stream per project.
//!
//! Room is taken before a network, subnet, port or router is made, and names it: however many ask at once, no project gets
//! more than it may have. The next taker gives back the room of things that are gone or never came to be. Things made before
//! there was room to take, or without a limit, have none: they are counted where they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{NetworkId, PortId, ProjectId, RouterId, SubnetId};

noun! {
    /// Events of a project's network quota.
    NetworkQuotaEvent = "network_quota" {
        /// An administrator set limits.
        NetworkLimitsSet = "limits_set" @ 1,
        /// The project is back to the defaults.
        NetworkLimitsReset = "limits_reset" @ 1,
        /// Room was taken for what is about to be made.
        NetworkRoomTaken = "room_taken" @ 1,
        /// Room was given back.
        NetworkRoomReleased = "room_released" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkLimitsSet {
    pub project: ProjectId,
    /// Resource and limit (-1: none), sorted by resource.
    pub limits: Vec<(String, i64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkLimitsReset {
    pub project: ProjectId,
}

/// A thing that takes room below a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Counted {
    Network(NetworkId),
    Subnet(SubnetId),
    Port(PortId),
    Router(RouterId),
}

impl Counted {
    /// By the name that Neutron's quotas give it.
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
    pub things: Vec<Counted>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRoomReleased {
    pub project: ProjectId,
    /// Sorted.
    pub things: Vec<Counted>,
}

/// One project's limits, and what has taken room.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NetworkLimits {
    /// Other than the defaults.
    pub limits: BTreeMap<String, i64>,
    /// Since when.
    #[serde(with = "pairs")]
    pub taken: BTreeMap<Counted, Timestamp>,
}

/// A map as a list: JSON has no keys but texts.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::Counted;
    use crate::envelope::Timestamp;

    pub(super) fn serialize<S: Serializer>(map: &BTreeMap<Counted, Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Counted, Timestamp>, D::Error> {
        Vec::<(Counted, Timestamp)>::deserialize(from).map(|pairs| pairs.into_iter().collect())
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

/// One example of each.
pub fn samples() -> Vec<NetworkQuotaEvent> {
    let (project, uuid) = (ProjectId::new("p"), uuid::Uuid::from_u128);
    vec![
        NetworkLimitsSet { project: project.clone(), limits: vec![("port".into(), -1)] }.into(),
        NetworkLimitsReset { project: project.clone() }.into(),
        NetworkRoomTaken {
            project: project.clone(),
            things: vec![Counted::Network(NetworkId(uuid(1))), Counted::Port(PortId(uuid(2)))],
        }
        .into(),
        NetworkRoomReleased {
            project,
            things: vec![Counted::Subnet(SubnetId(uuid(3))), Counted::Router(RouterId(uuid(4)))],
        }
        .into(),
    ]
}
