//! The host aggregates and their availability zones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::host_aggregate::{HostAggregate, HostAggregateEvent, HostAggregates};
use chronova_events::ids::{HostAggregateId, HostId};
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct HostAggregatesView {
    aggregates: HostAggregates,
    /// The numbers of the aggregates of each host.
    by_host: BTreeMap<HostId, BTreeSet<u64>>,
    /// The ids of all host aggregates, deleted ones included.
    ids: BTreeSet<HostAggregateId>,
}

impl HostAggregatesView {
    pub fn get(&self, number: u64) -> Option<&Arc<HostAggregate>> {
        self.aggregates.by_number.get(&number)
    }

    /// All aggregates in the order of their creation.
    pub fn all(&self) -> impl Iterator<Item = &Arc<HostAggregate>> {
        self.aggregates.by_number.values()
    }

    /// The aggregates of a host, oldest first.
    pub fn of_host(&self, host: HostId) -> impl Iterator<Item = &Arc<HostAggregate>> {
        self.by_host.get(&host).into_iter().flatten().filter_map(|number| self.get(*number))
    }

    /// The availability zone of a host; `None` for a host in the default zone.
    pub fn zone_of(&self, host: HostId) -> Option<&str> {
        self.of_host(host).find_map(|aggregate| aggregate.zone())
    }

    /// All values of `key` in the metadata of a host's aggregates, for the scheduler's filters and weighers.
    pub fn values(&self, host: HostId, key: &str) -> BTreeSet<&str> {
        self.of_host(host).filter_map(|aggregate| aggregate.metadata.get(key)).map(String::as_str).collect()
    }

    /// Whether a host aggregate has or had this id.
    pub fn ever_had(&self, id: Uuid) -> bool {
        self.ids.contains(&HostAggregateId(id))
    }

    /// The names of the existing availability zones.
    pub fn zones(&self) -> BTreeSet<&str> {
        self.all().filter_map(|aggregate| aggregate.zone()).collect()
    }
}

impl Projection for HostAggregatesView {
    const NAME: &'static str = "host_aggregates";
    const VERSION: u32 = 2;

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        let Some(event) = HostAggregateEvent::of(event) else { return };
        let number = |id| self.aggregates.get(id).map(|aggregate| aggregate.number);
        match event {
            HostAggregateEvent::HostAdded(added) => {
                if let Some(number) = number(added.aggregate) {
                    self.by_host.entry(added.host).or_default().insert(number);
                }
            }
            HostAggregateEvent::HostRemoved(removed) => {
                if let Some(number) = number(removed.aggregate)
                    && let Some(numbers) = self.by_host.get_mut(&removed.host)
                {
                    numbers.remove(&number);
                    if numbers.is_empty() {
                        self.by_host.remove(&removed.host);
                    }
                }
            }
            HostAggregateEvent::HostAggregateCreated(created) => {
                self.ids.insert(created.aggregate);
            }
            // These events do not change `by_host`. This includes the deletion, because only an aggregate without hosts
            // can be deleted.
            HostAggregateEvent::HostAggregateRenamed(_)
            | HostAggregateEvent::HostAggregateMetadataReplaced(_)
            | HostAggregateEvent::HostAggregateDeleted(_) => {}
        }
        self.aggregates.evolve(event, recorded.recorded_at);
    }
}
