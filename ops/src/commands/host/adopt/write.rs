//! Writes the adopted servers to the log.
//!
//! The order makes a repetition after a crash harmless. A server's own events are one append, which comes last. So the
//! log knows a server only when all its claims, its quota and its ports are there. If a server is not in the log yet, a
//! repetition finds which of its claims, quota and ports are there, and writes only the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::instance::InstanceRoot;
use chronova_actors::ledger::{CELL, LedgerRoot};
use chronova_actors::quota::QuotaRoot;
use chronova_actors::services::embedded::network::NetworkRoot;
use chronova_events::envelope::{Meta, NewEvent, Revision, StreamId, Timestamp};
use chronova_events::ids::NetworkId;
use chronova_events::instance::{
    BlockDevicesMapped, BuildSucceeded, InstanceEvent, MachineTypeRecorded, NetworkAllocated,
};
use chronova_events::ledger::LedgerEvent;
use chronova_events::network::NetworkEvent;
use chronova_events::quota::{QuotaEvent, QuotaReserved};
use chronova_events::registry::Event;
use chronova_events::store::{AppendError, EventStore, Expected};
use chronova_projections::views::Views;

use super::super::super::CommandFailure;
use super::judge::AdoptableGuest;

/// The name of this adoption as the cause of its events.
const GUEST_ADOPTER: &str = "adopt-guests";
/// Events of one append to a network.
const PER_APPEND: usize = 500;

/// Appends to the log, which no server has open.
pub(super) struct GuestWriter<'a> {
    store: &'a dyn EventStore,
    views: &'a Views,
    meta: Arc<Meta>,
    now: Timestamp,
}

impl<'a> GuestWriter<'a> {
    pub(super) fn new(store: &'a dyn EventStore, views: &'a Views, now: Timestamp) -> Self {
        Self { store, views, meta: Meta::system(GUEST_ADOPTER), now }
    }

    async fn append(&self, stream: StreamId, expected: Expected, events: Vec<Event>) -> Result<(), CommandFailure> {
        let events = events.into_iter().map(|event| NewEvent::new(event, self.now, &self.meta)).collect();
        let appended = self.store.append(&stream, expected, events).await;
        appended.map(drop).map_err(|error: AppendError| {
            CommandFailure::Usage(format!("the log cannot be written: {error}; run the command again"))
        })
    }

    pub(super) async fn networks(
        &self,
        networks: BTreeMap<NetworkId, Vec<NetworkEvent>>,
    ) -> Result<(), CommandFailure> {
        for (network, events) in networks {
            let mut events = events.into_iter().map(Event::from).peekable();
            while events.peek().is_some() {
                let some: Vec<Event> = events.by_ref().take(PER_APPEND).collect();
                self.append(NetworkRoot::stream(&network), Expected::Any, some).await?;
            }
        }
        Ok(())
    }

    /// Writes one server.
    pub(super) async fn server(&self, guest: AdoptableGuest) -> Result<(), CommandFailure> {
        let instance = guest.request.instance;
        let (project, flavor) = (guest.request.project.clone(), Arc::clone(&guest.request.flavor));
        let consumer = &guest.claim.consumer;
        if !self.views.placement.read(|view| view.ledger.consumers.contains_key(consumer)) {
            let claimed = LedgerEvent::from(guest.claim.clone());
            self.append(LedgerRoot::stream(&CELL), Expected::Any, vec![claimed.into()]).await?;
        }
        let counts = self
            .views
            .quotas
            .read(|view| view.by_project.get(&project).is_some_and(|quota| quota.held.contains_key(&instance)));
        if !counts {
            let reserved = QuotaReserved {
                project: project.clone(),
                instances: vec![instance],
                cores: flavor.vcpus,
                memory_mib: flavor.memory_mib,
            };
            let reserved = QuotaEvent::from(reserved);
            self.append(QuotaRoot::stream(&project), Expected::Any, vec![reserved.into()]).await?;
        }
        let events = server_events(guest).into_iter().map(Event::from).collect();
        self.append(InstanceRoot::stream(&instance), Expected::Exact(Revision::NONE), events).await
    }
}

/// The events of the server's own stream.
fn server_events(guest: AdoptableGuest) -> Vec<InstanceEvent> {
    let AdoptableGuest { request, devices, boot_image, placed, nics, machine_type, adopted, claim: _ } = guest;
    let build = adopted.build;
    let mut events: Vec<InstanceEvent> = vec![request.into()];
    if !devices.is_empty() {
        events.push(BlockDevicesMapped { devices, image: boot_image }.into());
    }
    events.push(placed.into());
    if let Some(machine_type) = machine_type {
        events.push(MachineTypeRecorded { machine_type }.into());
    }
    if !nics.is_empty() {
        events.push(NetworkAllocated { process: build, nics }.into());
    }
    events.push(BuildSucceeded { process: build }.into());
    events.push(adopted.into());
    events
}
