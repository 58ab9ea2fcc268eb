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
    /// The names of the hosts that were removed. Actions of servers still name these hosts.
    former: BTreeMap<HostId, String>,
}

impl Hosts {
    pub fn get(&self, id: HostId) -> Option<&KnownHost> {
        self.by_id.get(&id)?.0.as_deref()
    }

    pub fn named(&self, hostname: &str) -> Option<&KnownHost> {
        self.all().find(|host| host.hostname == hostname)
    }

    /// The name of a host, even if the host was removed.
    pub fn name_of(&self, id: HostId) -> Option<&str> {
        let now = self.get(id).map(|host| host.hostname.as_str());
        now.or_else(|| self.former.get(&id).map(String::as_str))
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
    // There is no `older`, because version 3 lacks the names of removed hosts. So requests wait for the rebuild.
    const NAME: &'static str = "hosts";
    const VERSION: u32 = 4;
    const NOUNS: &'static [&'static str] = &["host"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        let Some(event) = HostEvent::of(event) else { return };
        if let HostEvent::Registered(registered) = event {
            self.highest = self.highest.max(registered.number);
        }
        if let Ok(id) = recorded.stream.key().parse() {
            if let (HostEvent::Deregistered(_), Some(leaving)) = (event, self.get(id)) {
                let name = leaving.hostname.clone();
                self.former.insert(id, name);
            }
            Arc::make_mut(self.by_id.entry(id).or_default()).evolve(event, recorded.recorded_at);
        }
    }

    fn weight(&self) -> u64 {
        self.by_id.len() as u64 * 2_048
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use chronova_events::envelope::StreamId;
    use chronova_events::host;

    use super::*;
    use crate::test_events::recorded;

    fn fold(view: &mut Hosts, id: HostId, kind: &str) {
        let event = host::samples().into_iter().map(Event::from).find(|event| event.kind() == kind).unwrap();
        let recorded = recorded(StreamId::new("host", id), 1, &event);
        view.apply(&recorded, &event);
    }

    #[test]
    fn a_removed_host_keeps_its_name() {
        let (mut view, id) = (Hosts::default(), HostId(uuid::Uuid::from_u128(1)));
        assert_eq!(view.name_of(id), None);
        fold(&mut view, id, "host.registered");
        assert_eq!(view.name_of(id), Some("h1"));
        fold(&mut view, id, "host.deregistered");
        assert_eq!((view.get(id), view.name_of(id)), (None, Some("h1")));
    }
}
