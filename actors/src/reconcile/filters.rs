//! Packet filters of running guests, when their security groups change.
//!
//! A filter is made when its guest is made. From then on rules come and go, and a rule that names a group (`remote_group`)
//! changes with every port that joins or leaves that group. What changed is gathered for a moment, and then each guest
//! concerned gets the filter that it would be given now, if that is another one.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use chronova_events::ids::{InstanceId, PortId, SecurityGroupId};
use chronova_events::instance::{NicInfo, Phase};
use chronova_events::network::{NetworkEvent, Port};
use chronova_events::registry::Event;
use chronova_events::security_group::SecurityGroupEvent;
use chronova_events::store::EventStore;
use chronova_hypervisor::guest::FilterSpec;
use chronova_projections::views::Views;

use crate::house::House;

/// Follows the log for ever.
pub async fn keep(house: Arc<House>, store: Arc<dyn EventStore>) {
    let mut subscription = store.subscribe(house.views.position());
    drop(store);
    let mut changes = Changes::of(&house.views);
    let mut known: BTreeMap<PortId, u64> = BTreeMap::new();
    loop {
        let Ok(batch) = subscription.next().await else { return };
        for recorded in &batch {
            if let Ok(event) = recorded.event() {
                changes.take(event);
            }
        }
        if changes.groups.is_empty() {
            continue;
        }
        // What changes together is worked off together: a storm of builds costs one pass a moment, not one a port.
        tokio::time::sleep(house.options.filter_pause).await;
        for recorded in subscription.poll().await.unwrap_or_default() {
            if let Ok(event) = recorded.event() {
                changes.take(event);
            }
        }
        house.views.wait_for(subscription.position(), house.options.resync).await;
        for instance in concerned(&house.views, &std::mem::take(&mut changes.groups)) {
            refresh(&house, instance, &mut known).await;
        }
    }
}

/// Groups whose rules or members changed, and the groups of the ports seen so far.
#[derive(Debug)]
struct Changes {
    groups: BTreeSet<SecurityGroupId>,
    of_port: BTreeMap<PortId, Vec<SecurityGroupId>>,
}

impl Changes {
    /// Nothing changed yet; the ports that are there already are known.
    fn of(views: &Views) -> Self {
        let groups = |port: &Port| (port.created.port, port.settings().security_groups.clone());
        let of_port = views.networks.read(|view| view.ports().map(|port| groups(port)).collect());
        Self { groups: BTreeSet::new(), of_port }
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::SecurityGroupEvent(SecurityGroupEvent::RuleAdded(added)) => self.changed(&[added.group]),
            Event::SecurityGroupEvent(SecurityGroupEvent::RuleRemoved(removed)) => self.changed(&[removed.group]),
            Event::NetworkEvent(NetworkEvent::PortCreated(created)) => {
                self.joined(created.port, &created.settings.security_groups);
            }
            Event::NetworkEvent(NetworkEvent::PortSettingsReplaced(replaced)) => {
                self.left(replaced.port);
                self.joined(replaced.port, &replaced.settings.security_groups);
            }
            Event::NetworkEvent(NetworkEvent::PortReaddressed(readdressed)) => {
                let groups = self.of_port.get(&readdressed.port).cloned().unwrap_or_default();
                self.changed(&groups);
            }
            Event::NetworkEvent(NetworkEvent::PortDeleted(deleted)) => self.left(deleted.port),
            _ => {}
        }
    }

    fn joined(&mut self, port: PortId, groups: &[SecurityGroupId]) {
        self.changed(groups);
        self.of_port.insert(port, groups.to_vec());
    }

    fn left(&mut self, port: PortId) {
        let groups = self.of_port.remove(&port).unwrap_or_default();
        self.changed(&groups);
    }

    fn changed(&mut self, groups: &[SecurityGroupId]) {
        self.groups.extend(groups);
    }
}

/// The servers with a port in one of the groups, or in a group with a rule that names one of them.
fn concerned(views: &Views, changed: &BTreeSet<SecurityGroupId>) -> BTreeSet<InstanceId> {
    let mut groups = changed.clone();
    views.security_groups.read(|view| {
        let owners: BTreeSet<_> = changed.iter().filter_map(|id| view.get(*id)).map(|g| g.project().clone()).collect();
        for group in owners.iter().filter_map(|owner| view.of_project(owner)).flat_map(|all| all.by_id.values()) {
            let named = group.rules.values().filter_map(|rule| rule.added.traffic.remote_group);
            if named.into_iter().any(|remote| changed.contains(&remote)) {
                groups.insert(group.id());
            }
        }
    });
    views.networks.read(|view| {
        let ports = groups.iter().flat_map(|group| view.members(*group));
        ports.filter_map(|port| port.binding().device.parse().ok()).collect()
    })
}

async fn refresh(house: &House, instance: InstanceId, known: &mut BTreeMap<PortId, u64>) {
    let Some(row) = house.views.servers.read(|servers| servers.get(instance).cloned()) else { return };
    let Some(alive) = row.instance.alive() else { return };
    // A guest still being made gets its filter from its build.
    let (Some(placed), false) = (&alive.placement, matches!(alive.phase, Phase::Building { .. })) else { return };
    let Some(driver) = house.fleet.driver(placed.host) else { return };
    for filter in filters(house, &alive.nics).await {
        let print = fingerprint(&filter);
        if known.get(&filter.port) == Some(&print) {
            continue;
        }
        match driver.ensure_filter(&filter).await {
            Ok(()) => {
                known.insert(filter.port, print);
            }
            Err(error) => {
                tracing::warn!(%instance, filter = filter.name, %error, "a filter cannot be brought up to date");
            }
        }
    }
}

async fn filters(house: &House, nics: &[NicInfo]) -> Vec<FilterSpec> {
    match house.networks.realise(nics).await {
        Ok(realisation) => realisation.filters,
        Err(error) => {
            tracing::warn!(%error, "the filters of a server cannot be told");
            Vec::new()
        }
    }
}

fn fingerprint(filter: &FilterSpec) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{filter:?}").hash(&mut hasher);
    hasher.finish()
}
