//! The trait of the program that carries the traffic between hosts, for network services that have such a program.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chronova_events::ids::PortId;
use chronova_projections::views::Views;
use tokio::sync::watch;
use uuid::Uuid;

use super::PortError;
use crate::pci::ports::DeviceVnic;

/// The parts of a plane's state that may be removed.
#[derive(Debug, Clone, Default)]
pub struct PlaneRemovals {
    /// The parts that this member has wanted itself. `None`: everything may be removed that the log does not have. On a
    /// copied or restored log, the other copy may have made what this log does not have.
    wanted: Option<BTreeSet<String>>,
}

impl PlaneRemovals {
    /// Only what this member has wanted since its start may be removed from now on.
    pub fn only_own(&mut self) {
        self.wanted.get_or_insert_default();
    }

    pub fn allows(&self, part: &str) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(part))
    }

    /// Notes what is wanted now.
    pub fn note<'a>(&mut self, parts: impl Iterator<Item = &'a str>) {
        if let Some(wanted) = &mut self.wanted {
            for part in parts {
                if !wanted.contains(part) {
                    wanted.insert(part.to_owned());
                }
            }
        }
    }
}

/// The log that writes the state of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneOwner {
    /// The same for a log and for all its copies.
    pub installation: Uuid,
    /// Differs in each copy.
    pub generation: Uuid,
    /// Whether a host has admitted this log. If so, this log may take the plane over from another copy of the log.
    pub is_admitted: bool,
}

/// Whether a [`NetworkPlane`] carries ports of this `binding:vnic_type`. Ports of other types are devices of their
/// hosts, and no plane says that they are up.
pub fn is_carried_by_plane(vnic_type: &str) -> bool {
    DeviceVnic::of_word(vnic_type).is_none()
}

/// A program beside the hosts that carries the traffic of all ports, for example OVN. Its state follows from the log.
#[async_trait]
pub trait NetworkPlane: Send + Sync + 'static {
    /// Makes the plane remember the log that writes its state. Refuses a plane that another log writes, because the two
    /// would remove each other's state.
    async fn claim(&self, owner: PlaneOwner) -> Result<(), PortError>;

    /// Compares the plane's state with the read models, and sends the difference. Idempotent. Returns true if there was
    /// no difference. After a difference, a further call may find another one. Only the leader may call this.
    async fn conform(&self, views: &Views, removals: &mut PlaneRemovals) -> Result<bool, PortError>;

    /// A number that grows whenever the plane's state changes, by whomever.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Whether the plane carries the traffic of the port.
    fn carries(&self, port: PortId) -> bool;

    /// Whether floating addresses reach their ports.
    fn routes_floating_addresses(&self) -> bool;

    /// The largest MTU of guests whose traffic is encapsulated between hosts.
    fn tunnel_mtu(&self) -> u32;
}
