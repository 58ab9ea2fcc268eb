//! The host aggregates: groups of hosts that an administrator creates. Some of them define availability zones.
//!
//! All aggregates share one stream, because two rules span them: names are unique, and the aggregates of a host must
//! not define two zones. A zone is the metadata `availability_zone` of an aggregate, as in Nova.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{HostAggregateId, HostId};

/// The metadata key of the availability zone of the aggregate's hosts.
pub const ZONE_KEY: &str = "availability_zone";

noun! {
    /// Events of host aggregates.
    HostAggregateEvent = "host_aggregate" {
        /// An aggregate was created.
        HostAggregateCreated = "created" @ 1,
        /// An aggregate has another name.
        HostAggregateRenamed = "renamed" @ 1,
        /// The metadata of an aggregate, its zone included, is now this.
        HostAggregateMetadataReplaced = "metadata_replaced" @ 1,
        /// A host was added to the aggregate.
        HostAdded = "host_added" @ 1,
        /// A host was removed from the aggregate.
        HostRemoved = "host_removed" @ 1,
        /// An aggregate without hosts was deleted.
        HostAggregateDeleted = "deleted" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostAggregateCreated {
    pub aggregate: HostAggregateId,
    /// The aggregate's number in the order of creation, deleted aggregates included. It is the id in the API's paths.
    pub number: u64,
    pub name: String,
    /// Key and value, sorted by key, the zone included.
    pub metadata: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostAggregateRenamed {
    pub aggregate: HostAggregateId,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostAggregateMetadataReplaced {
    pub aggregate: HostAggregateId,
    /// Key and value, sorted by key.
    pub metadata: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostAdded {
    pub aggregate: HostAggregateId,
    pub host: HostId,
    pub hostname: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRemoved {
    pub aggregate: HostAggregateId,
    pub host: HostId,
    pub hostname: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostAggregateDeleted {
    pub aggregate: HostAggregateId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostAggregate {
    pub id: HostAggregateId,
    pub number: u64,
    pub name: String,
    pub metadata: BTreeMap<String, String>,
    /// The hosts in the order in which they were added, with their names at that time.
    pub hosts: Vec<(HostId, String)>,
    pub created_at: Timestamp,
    pub updated_at: Option<Timestamp>,
}

impl HostAggregate {
    /// The availability zone that the aggregate defines for its hosts.
    pub fn zone(&self) -> Option<&str> {
        self.metadata.get(ZONE_KEY).map(String::as_str)
    }

    pub fn has(&self, host: HostId) -> bool {
        self.hosts.iter().any(|(member, _)| *member == host)
    }
}

/// All host aggregates.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostAggregates {
    pub by_number: BTreeMap<u64, Arc<HostAggregate>>,
    pub made: u64,
}

impl HostAggregates {
    pub fn get(&self, id: HostAggregateId) -> Option<&Arc<HostAggregate>> {
        self.by_number.values().find(|aggregate| aggregate.id == id)
    }

    pub fn named(&self, name: &str) -> Option<&Arc<HostAggregate>> {
        self.by_number.values().find(|aggregate| aggregate.name == name)
    }

    /// The aggregates of `host`, oldest first.
    pub fn of_host(&self, host: HostId) -> impl Iterator<Item = &Arc<HostAggregate>> {
        self.by_number.values().filter(move |aggregate| aggregate.has(host))
    }

    /// The availability zone of `host`; `None` for a host in the default zone.
    pub fn zone_of(&self, host: HostId) -> Option<&str> {
        self.of_host(host).find_map(|aggregate| aggregate.zone())
    }

    fn change(&mut self, id: HostAggregateId, at: Timestamp, with: impl FnOnce(&mut HostAggregate)) {
        self.with(id, |aggregate| {
            aggregate.updated_at = Some(at);
            with(aggregate);
        });
    }

    fn with(&mut self, id: HostAggregateId, with: impl FnOnce(&mut HostAggregate)) {
        if let Some(aggregate) = self.by_number.values_mut().find(|aggregate| aggregate.id == id) {
            with(Arc::make_mut(aggregate));
        }
    }
}

impl Fold for HostAggregates {
    type Event = HostAggregateEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &HostAggregateEvent, at: Timestamp) {
        match event {
            HostAggregateEvent::HostAggregateCreated(created) => {
                self.made = self.made.max(created.number);
                let aggregate = HostAggregate {
                    id: created.aggregate,
                    number: created.number,
                    name: created.name.clone(),
                    metadata: created.metadata.iter().cloned().collect(),
                    hosts: Vec::new(),
                    created_at: at,
                    updated_at: None,
                };
                self.by_number.insert(created.number, Arc::new(aggregate));
            }
            HostAggregateEvent::HostAggregateRenamed(renamed) => self.change(renamed.aggregate, at, |aggregate| {
                aggregate.name.clone_from(&renamed.name);
            }),
            HostAggregateEvent::HostAggregateMetadataReplaced(replaced) => {
                self.change(replaced.aggregate, at, |aggregate| {
                    aggregate.metadata = replaced.metadata.iter().cloned().collect();
                });
            }
            // A change of hosts does not change the aggregate's `updated_at`, as in Nova.
            HostAggregateEvent::HostAdded(added) => self.with(added.aggregate, |aggregate| {
                aggregate.hosts.push((added.host, added.hostname.clone()));
            }),
            HostAggregateEvent::HostRemoved(removed) => self.with(removed.aggregate, |aggregate| {
                aggregate.hosts.retain(|(host, _)| *host != removed.host);
            }),
            HostAggregateEvent::HostAggregateDeleted(deleted) => {
                self.by_number.retain(|_, aggregate| aggregate.id != deleted.aggregate);
            }
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<HostAggregateEvent> {
    let aggregate = HostAggregateId(uuid::Uuid::from_u128(1));
    let (host, hostname) = (HostId(uuid::Uuid::from_u128(2)), "h1".to_owned());
    let metadata = vec![(ZONE_KEY.to_owned(), "north".to_owned())];
    vec![
        HostAggregateCreated { aggregate, number: 1, name: "fast".into(), metadata: metadata.clone() }.into(),
        HostAggregateRenamed { aggregate, name: "faster".into() }.into(),
        HostAggregateMetadataReplaced { aggregate, metadata }.into(),
        HostAdded { aggregate, host, hostname: hostname.clone() }.into(),
        HostRemoved { aggregate, host, hostname }.into(),
        HostAggregateDeleted { aggregate }.into(),
    ]
}
