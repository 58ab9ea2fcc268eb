//! Updates the packet filters of running guests when their security groups change.
//!
//! A filter is created with its guest. Later the rules of its groups may change. A rule that names a group
//! (`remote_group`) also changes whenever a port joins or leaves that group. Changes are gathered for a moment. Then
//! each guest concerned gets its current filter, if that differs from its last one. An update that is not possible now
//! (the guest is still being built, its host does not answer) stays pending. After a start, every guest is updated
//! once.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use chronova_events::envelope::Recorded;
use chronova_events::host::{HostEvent, KnownHost};
use chronova_events::ids::{HostId, InstanceId, PortId, SecurityGroupId};
use chronova_events::instance::{Alive, Instance, InstanceEvent, OngoingTask, Phase};
use chronova_events::network::{NetworkEvent, Port};
use chronova_events::registry::Event;
use chronova_events::security_group::SecurityGroupEvent;
use chronova_events::store::tail::Subscription;
use chronova_hypervisor::guest::FilterSpec;
use chronova_projections::hosts::Hosts;
use chronova_projections::servers::ServerRow;
use chronova_projections::views::Views;
use futures::future::BoxFuture;

use crate::instance::InstanceRoot;
use crate::ports::PortError;
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};
use crate::reconcile::run_counts::ReconcilerTally;

/// Follows the log until the task is dropped.
async fn follow(context: Arc<ReconcileContext>, tally: Arc<ReconcilerTally>, mut subscription: Subscription) {
    let mut changes = GuestFilterChanges::of(&context.views);
    // A crash may have come between a change and its update, so all updates are pending at first.
    let owed = PortFilters::plan(context.situation());
    let mut keeper = GuestFilterReconciler { context: &context, known: BTreeMap::new(), owed };
    let mut due = tokio::time::Instant::now() + context.host_options.resync;
    loop {
        tokio::select! {
            biased;
            batch = subscription.next() => match batch {
                Ok(batch) => changes.take(&batch),
                Err(_) => return,
            },
            () = tokio::time::sleep_until(due), if !keeper.owed.is_empty() => {}
            () = std::future::ready(()), if changes.any() => {}
        }
        // A busy log must not delay a pending update.
        changes.retry |= !keeper.owed.is_empty() && due <= tokio::time::Instant::now();
        if !changes.any() {
            continue;
        }
        // Changes within one pause share a pass, so that a burst of builds costs one pass per pause, not one per port.
        tokio::time::sleep(keeper.context.options.filter_pause).await;
        changes.take(&subscription.poll().await.unwrap_or_default());
        let begun = Instant::now();
        keeper.context.views.wait_for(subscription.position(), keeper.context.host_options.resync).await;
        let (groups, ports) = changes.hand_over();
        keeper.owed.extend(concerned(&keeper.context.views, &groups, &ports));
        keeper.work_off().await;
        due = tokio::time::Instant::now() + context.host_options.resync;
        tally.record(begun, keeper.context.clock.now(), keeper.owed.len());
    }
}

/// The changes, and the groups of the ports seen so far.
#[derive(Debug)]
struct GuestFilterChanges {
    /// Groups with changed rules or members.
    groups: BTreeSet<SecurityGroupId>,
    /// Ports that changed, with or without a group.
    ports: BTreeSet<PortId>,
    /// Whether an event may let a pending update succeed: a guest was built, or a host is back.
    retry: bool,
    of_port: BTreeMap<PortId, Vec<SecurityGroupId>>,
}

impl GuestFilterChanges {
    /// The state at the start, with all existing ports. The log does not say which updates were done before the last
    /// stop, so all are pending.
    fn of(views: &Views) -> Self {
        let groups = |port: &Port| (port.created.port, port.settings().security_groups.clone());
        let of_port = views.networks.read(|view| view.ports().map(|port| groups(port)).collect());
        Self { groups: BTreeSet::new(), ports: BTreeSet::new(), retry: true, of_port }
    }

    fn any(&self) -> bool {
        self.retry || !self.groups.is_empty() || !self.ports.is_empty()
    }

    fn hand_over(&mut self) -> (BTreeSet<SecurityGroupId>, BTreeSet<PortId>) {
        self.retry = false;
        (std::mem::take(&mut self.groups), std::mem::take(&mut self.ports))
    }

    fn take(&mut self, batch: &[Arc<Recorded>]) {
        for recorded in batch {
            if let Ok(event) = recorded.event() {
                self.take_one(event);
            }
        }
    }

    fn take_one(&mut self, event: &Event) {
        match event {
            Event::SecurityGroupEvent(SecurityGroupEvent::RuleAdded(added)) => self.changed(&[added.group]),
            Event::SecurityGroupEvent(SecurityGroupEvent::RuleRemoved(removed)) => self.changed(&[removed.group]),
            Event::NetworkEvent(NetworkEvent::PortCreated(created)) => {
                self.joined(created.port, &created.settings.security_groups);
            }
            Event::NetworkEvent(NetworkEvent::PortSettingsReplaced(replaced)) => {
                self.ports.insert(replaced.port);
                if self.of_port.get(&replaced.port) != Some(&replaced.settings.security_groups) {
                    self.left(replaced.port);
                    self.joined(replaced.port, &replaced.settings.security_groups);
                }
            }
            Event::NetworkEvent(NetworkEvent::PortReaddressed(readdressed)) => {
                self.ports.insert(readdressed.port);
                let groups = self.of_port.get(&readdressed.port).cloned().unwrap_or_default();
                self.changed(&groups);
            }
            Event::NetworkEvent(NetworkEvent::PortDeleted(deleted)) => self.left(deleted.port),
            Event::InstanceEvent(InstanceEvent::BuildSucceeded(_)) | Event::HostEvent(HostEvent::CameUp(_)) => {
                self.retry = true;
            }
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

/// The servers with one of `ports`, and the servers that a changed group concerns. A changed group concerns a server
/// that has a port in the group, or in a group with a rule that names the changed group.
fn concerned(views: &Views, changed: &BTreeSet<SecurityGroupId>, ports: &BTreeSet<PortId>) -> BTreeSet<InstanceId> {
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
        let members = groups.iter().flat_map(|group| view.members(*group));
        let themselves = ports.iter().filter_map(|port| view.port(*port));
        members.chain(themselves).filter_map(|port| port.binding().device.parse().ok()).collect()
    })
}

/// Whether a server's filters are up to date.
#[derive(Debug, PartialEq, Eq)]
enum GuestFilterSync {
    Done,
    /// The update is pending: the guest is still being built, or its host does not answer now.
    Owed,
}

/// Updates guests' filters, and keeps the pending updates.
struct GuestFilterReconciler<'a> {
    context: &'a ReconcileContext,
    /// The last filter of each port, and its host.
    known: BTreeMap<PortId, (HostId, u64)>,
    owed: BTreeSet<InstanceId>,
}

impl GuestFilterReconciler<'_> {
    async fn work_off(&mut self) {
        for instance in std::mem::take(&mut self.owed) {
            if self.refresh(instance).await == GuestFilterSync::Owed {
                self.owed.insert(instance);
            }
        }
        if self.known.len() > 2 * self.context.views.networks.read(|view| view.ports().count()) {
            self.context.views.networks.read(|view| self.known.retain(|port, _| view.port(*port).is_some()));
        }
    }

    async fn refresh(&mut self, instance: InstanceId) -> GuestFilterSync {
        let row = self.context.views.servers.read(|servers| servers.get(instance).cloned());
        let Some(alive) = row.as_ref().and_then(|row| row.instance.alive()) else { return GuestFilterSync::Done };
        if is_being_deleted(alive) {
            return GuestFilterSync::Done;
        }
        // A guest that is being built gets a filter from its build, but that filter may already be outdated.
        if matches!(alive.phase, Phase::Building { .. }) {
            return GuestFilterSync::Owed;
        }
        let Some(placed) = &alive.placement else { return GuestFilterSync::Done };
        let answers = |hosts: &Hosts| hosts.get(placed.host).is_some_and(KnownHost::answers);
        let driver = self.context.fleet.driver(placed.host).filter(|_| self.context.views.hosts.read(answers));
        let Some(driver) = driver else { return GuestFilterSync::Owed };
        let filters = match self.context.networks.realise(&alive.nics).await {
            Ok(realisation) => realisation.filters,
            Err(PortError::Unavailable(_)) => return GuestFilterSync::Owed,
            Err(error) => {
                tracing::warn!(%instance, %error, "reading the packet filters of a server failed");
                return GuestFilterSync::Done;
            }
        };
        let mut upkeep = GuestFilterSync::Done;
        for filter in filters {
            let print = (placed.host, fingerprint(&filter));
            if self.known.get(&filter.port) == Some(&print) {
                continue;
            }
            let Some(networks) = driver.networks() else { return GuestFilterSync::Done };
            let updated = networks.ensure_filter(&filter).await;
            if self.has_left(instance, placed.host).await {
                // The delete or the move removed the filter before this update created it again.
                let _ = networks.remove_filter(&filter.name).await;
                return GuestFilterSync::Done;
            }
            match updated {
                Ok(()) => {
                    self.known.insert(filter.port, print);
                }
                Err(error) => {
                    tracing::warn!(%instance, filter = filter.name, %error, "updating a filter failed, retrying");
                    upkeep = GuestFilterSync::Owed;
                }
            }
        }
        upkeep
    }

    /// Whether the server is deleted or being deleted, or has moved to another host for good. A delete or move that has
    /// removed a filter by now is in the log. So the read model is enough as soon as it has all events up to now. After a
    /// start every guest is updated, and loading the actors of all servers would take longer.
    async fn has_left(&self, instance: InstanceId, host: HostId) -> bool {
        let left = |server: &Instance| {
            server.alive().is_none_or(|alive| {
                let elsewhere = alive.placement.as_ref().is_none_or(|placed| placed.host != host);
                is_being_deleted(alive) || (elsewhere && alive.moving.is_none())
            })
        };
        let context = self.context;
        if context.views.wait_for(context.log.head(), context.host_options.resync).await {
            return context.views.servers.read(|servers| servers.get(instance).is_none_or(|row| left(&row.instance)));
        }
        context.gateway.look::<InstanceRoot>(&instance).await.is_ok_and(|server| left(&server))
    }
}

/// Whether the server is being deleted. The delete removes the filters of the server.
fn is_being_deleted(server: &Alive) -> bool {
    matches!(server.ongoing, Some(OngoingTask::Delete { .. }))
}

fn fingerprint(filter: &FilterSpec) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{filter:?}").hash(&mut hasher);
    hasher.finish()
}

/// Packet filters of guests.
#[derive(Debug)]
pub struct PortFilters;

impl Reconciler for PortFilters {
    type Finding = InstanceId;

    const NAME: &'static str = "port-filters";
    const REPAIRS: &'static str = "packet filters of guests that are older than their security groups";
    const ON_A_COPY: CopyConduct<Self::Finding> =
        CopyConduct::IsHarmless("a guest gets the filter that the log has, and no data is lost");
    const BY_CLOCK: bool = false;
    const FOLLOWS_LOG: bool = true;
    const FROM_LOG_ALONE: bool = false;

    fn run(context: Arc<ReconcileContext>, tally: Arc<ReconcilerTally>) -> BoxFuture<'static, ()> {
        let subscription = context.log.subscribe(context.views.position());
        Box::pin(follow(context, tally, subscription))
    }

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        let placed = |row: &Arc<ServerRow>| row.instance.alive().is_some_and(|alive| alive.placement.is_some());
        situation.views.servers.read(|view| view.all().filter(|row| placed(row)).map(|row| row.id).collect())
    }

    fn describe(instance: &Self::Finding) -> String {
        format!("filters of server {instance}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut keeper = GuestFilterReconciler { context, known: BTreeMap::new(), owed: findings };
        keeper.work_off().await;
        keeper.owed.len()
    }
}
