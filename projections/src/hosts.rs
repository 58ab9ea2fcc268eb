//! The compute hosts, for the hypervisors and services APIs.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::host::{Host, HostEvent, KnownHost};
use chronova_events::ids::HostId;
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Hosts {
    by_id: BTreeMap<HostId, Arc<Host>>,
    highest: u64,
}

impl Hosts {
    pub fn get(&self, id: HostId) -> Option<&KnownHost> {
        self.by_id.get(&id)?.0.as_deref()
    }

    pub fn named(&self, hostname: &str) -> Option<&KnownHost> {
        self.all().find(|host| host.hostname == hostname)
    }

    /// All hosts in the order of their ids.
    pub fn all(&self) -> impl Iterator<Item = &KnownHost> {
        self.by_id.values().filter_map(|host| host.0.as_deref())
    }

    /// The highest number that any host has had.
    pub fn highest(&self) -> u64 {
        self.highest
    }
}

impl Projection for Hosts {
    const NAME: &'static str = "hosts";
    const VERSION: u32 = 3;
    const NOUNS: &'static [&'static str] = &["host"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        let Some(event) = HostEvent::of(event) else { return };
        if let HostEvent::Registered(registered) = event {
            self.highest = self.highest.max(registered.number);
        }
        if let Ok(id) = recorded.stream.key().parse() {
            Arc::make_mut(self.by_id.entry(id).or_default()).evolve(event, recorded.recorded_at);
        }
    }

    fn weight(&self) -> u64 {
        self.by_id.len() as u64 * 2_048
    }
}
