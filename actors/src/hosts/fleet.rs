//! The connected hosts: their drivers, and the answers to their last heartbeats.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use chronova_events::envelope::Timestamp;
use chronova_events::ids::HostId;
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::guest::HostUsage;
use tokio::sync::Notify;

use super::doubt::CopyDoubt;
use super::metrics::{self, HostMetrics, MetricsOfHost};
use crate::coordination::SuspectServers;
use crate::coordination::host_numbers::HostNumbers;
use crate::coordination::host_turns::{ConcurrencyLimits, HostTurns};
use crate::pci::cards::HostCards;

/// A host that answered at least once since start-up.
pub struct ConnectedHost {
    pub host: HostId,
    pub hostname: String,
    pub driver: Arc<dyn Driver>,
    pub turns: HostTurns,
    /// Notify it to make the agent compare the host with the log soon.
    pub resync: Notify,
    /// Notify it to make the agent compare the host with the log and report its resources and traits soon.
    pub(super) renewal: Notify,
    usage: RwLock<(HostUsage, i64)>,
    /// The metrics of the last heartbeat; empty unless the operator wants metrics.
    metrics: RwLock<Arc<MetricsOfHost>>,
    /// The bytes of the host's image cache; zero if none are reserved.
    cached: AtomicU64,
    /// The hosts that left their marks on this host's storage.
    sharers: RwLock<BTreeSet<HostId>>,
    /// The cards of the host's last report.
    cards: RwLock<Arc<HostCards>>,
}

impl std::fmt::Debug for ConnectedHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectedHost")
            .field("host", &self.host)
            .field("hostname", &self.hostname)
            .finish_non_exhaustive()
    }
}

impl ConnectedHost {
    /// The usage of the last heartbeat, and its time (microseconds since the epoch).
    pub fn usage(&self) -> (HostUsage, i64) {
        *self.usage.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of the host's image cache; zero if none are reserved.
    pub(crate) fn cached(&self) -> u64 {
        self.cached.load(Ordering::Relaxed)
    }

    /// Records the bytes of the host's image cache; returns whether they have changed.
    pub(crate) fn note_cached(&self, bytes: u64) -> bool {
        self.cached.swap(bytes, Ordering::Relaxed) != bytes
    }

    pub(crate) fn note_cards(&self, cards: HostCards) {
        *self.cards.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(cards);
    }

    /// The cards of the host, by the names of their interfaces.
    pub(crate) fn cards(&self) -> Arc<HostCards> {
        Arc::clone(&self.cards.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn beat(&self, usage: HostUsage, at: i64) {
        *self.usage.write().unwrap_or_else(PoisonError::into_inner) = (usage, at);
    }

    /// Computes the metrics of a heartbeat from its times and the times of the heartbeat before it. Call it before
    /// `beat`.
    pub(crate) fn measure(&self, usage: &HostUsage) {
        let (last, _) = self.usage();
        if let Some(found) = usage.cpu.and_then(|now| metrics::of_cpu(last.cpu.unwrap_or_default(), now)) {
            *self.metrics.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
        }
    }
}

/// All hosts that have answered at least once since start-up.
#[derive(Default)]
pub struct ConnectedHosts {
    members: RwLock<BTreeMap<HostId, Arc<ConnectedHost>>>,
    /// The URIs of hosts that have an agent but have neither answered nor failed since start-up.
    unheard: RwLock<BTreeSet<String>>,
    /// The URIs of hosts that have confirmed that this log drives them.
    admitted: RwLock<BTreeSet<String>>,
    /// The URIs of hosts that a copy of this log drives.
    refused: RwLock<BTreeSet<String>>,
    doubt: RwLock<CopyDoubt>,
    /// The hosts by the account of their emulators.
    accounts: RwLock<BTreeMap<String, BTreeSet<HostId>>>,
    /// The servers whose guests must be compared with the log.
    pub(crate) suspects: SuspectServers,
    /// The drivers of all hosts of the fleet, including hosts that have not answered yet.
    drivers: RwLock<Vec<Arc<dyn Driver>>>,
    numbers: HostNumbers,
}

impl std::fmt::Debug for ConnectedHosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectedHosts").field("members", &self.members).finish_non_exhaustive()
    }
}

impl ConnectedHosts {
    /// `highest` is the highest number that a host has in the log; numbers may have gaps. `drivers` are the drivers of
    /// the fleet at start.
    pub fn new(highest: u64, drivers: Vec<Arc<dyn Driver>>) -> Arc<Self> {
        let unheard = RwLock::new(drivers.iter().map(|driver| driver.uri().to_owned()).collect());
        let numbers = HostNumbers::after(highest);
        Arc::new(Self { unheard, numbers, drivers: RwLock::new(drivers), ..Self::default() })
    }

    /// The drivers of all hosts of the fleet, including hosts that have not answered yet.
    pub fn drivers(&self) -> Vec<Arc<dyn Driver>> {
        self.drivers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a host to the fleet. Returns false if the host is already there.
    pub(crate) fn add_driver(&self, driver: &Arc<dyn Driver>) -> bool {
        let mut drivers = self.drivers.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = drivers.iter().all(|known| known.uri() != driver.uri());
        if is_new {
            self.unheard.write().unwrap_or_else(PoisonError::into_inner).insert(driver.uri().to_owned());
            drivers.push(Arc::clone(driver));
        }
        is_new
    }

    /// Takes a host out of the fleet.
    pub(crate) fn forget(&self, uri: &str) {
        self.drivers.write().unwrap_or_else(PoisonError::into_inner).retain(|driver| driver.uri() != uri);
        self.refuse(uri);
        self.hear_of(uri);
        self.refused.write().unwrap_or_else(PoisonError::into_inner).remove(uri);
    }

    /// Whether the host's state in the log is from before the start-up. If so, its agent will soon know whether the
    /// host answers.
    pub(crate) fn is_unheard(&self, uri: &str) -> bool {
        self.unheard.read().unwrap_or_else(PoisonError::into_inner).contains(uri)
    }

    /// Whether a host has neither answered nor failed since start-up.
    pub(crate) fn awaits_some(&self) -> bool {
        !self.unheard.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Records that the host has answered or failed since start-up.
    pub(crate) fn hear_of(&self, uri: &str) {
        if self.is_unheard(uri) {
            self.unheard.write().unwrap_or_else(PoisonError::into_inner).remove(uri);
        }
    }

    /// Records that a copy of this log drives the host. From then on, no call may reach the host.
    pub(crate) fn refuse(&self, uri: &str) {
        self.admitted.write().unwrap_or_else(PoisonError::into_inner).remove(uri);
        self.refused.write().unwrap_or_else(PoisonError::into_inner).insert(uri.to_owned());
        self.members.write().unwrap_or_else(PoisonError::into_inner).retain(|_, member| member.driver.uri() != uri);
    }

    /// Records that this log drives the host.
    pub(crate) fn admit(&self, uri: &str) {
        if !self.is_admitted(uri) {
            self.refused.write().unwrap_or_else(PoisonError::into_inner).remove(uri);
            self.admitted.write().unwrap_or_else(PoisonError::into_inner).insert(uri.to_owned());
        }
    }

    /// Records that another generation drove hosts of this log until `moment`.
    pub(crate) fn doubt_until(&self, moment: Option<Timestamp>) {
        let mut doubt = self.doubt.write().unwrap_or_else(PoisonError::into_inner);
        *doubt = (*doubt).max(CopyDoubt(moment));
    }

    /// The moment before which other generations drove hosts of this log.
    pub fn doubt(&self) -> CopyDoubt {
        *self.doubt.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a copy of this log drives the host. The log shows such a host as down, but its guests may run.
    pub(crate) fn is_refused(&self, uri: &str) -> bool {
        self.refused.read().unwrap_or_else(PoisonError::into_inner).contains(uri)
    }

    /// Whether the host has confirmed that this log drives it.
    pub(crate) fn is_admitted(&self, uri: &str) -> bool {
        self.admitted.read().unwrap_or_else(PoisonError::into_inner).contains(uri)
    }

    pub fn member(&self, host: HostId) -> Option<Arc<ConnectedHost>> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).get(&host).cloned()
    }

    pub fn driver(&self, host: HostId) -> Option<Arc<dyn Driver>> {
        self.member(host).map(|member| Arc::clone(&member.driver))
    }

    /// All connected hosts, in the order of their ids.
    pub fn members(&self) -> Vec<Arc<ConnectedHost>> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The metrics of the hosts that report any. Each decision of the scheduler reads them, so the maps of the hosts
    /// are shared, not copied.
    pub fn metrics(&self) -> HostMetrics {
        let of_member = |member: &ConnectedHost| {
            let found = Arc::clone(&member.metrics.read().unwrap_or_else(PoisonError::into_inner));
            (!found.is_empty()).then_some((member.host, found))
        };
        HostMetrics(self.members().iter().filter_map(|member| of_member(member)).collect())
    }

    /// Makes every connected host report its resources and traits again.
    pub fn renew_reports(&self) {
        for member in self.members() {
            member.renewal.notify_one();
        }
    }

    pub fn len(&self) -> usize {
        self.members.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records which hosts left their mark on a host's storage.
    pub(crate) fn note_sharers(&self, host: HostId, sharers: BTreeSet<HostId>) {
        if let Some(member) = self.member(host) {
            *member.sharers.write().unwrap_or_else(PoisonError::into_inner) = sharers;
        }
    }

    /// Whether a host's storage was read since start-up. If so, the host's own mark is among the marks.
    pub(crate) fn knows_storage_of(&self, host: HostId) -> bool {
        self.member(host)
            .is_some_and(|member| member.sharers.read().unwrap_or_else(PoisonError::into_inner).contains(&host))
    }

    /// Whether the host's disks are in a network storage that the configuration names for all hosts.
    fn has_disks_of_all(&self, host: HostId) -> bool {
        let driver = self.driver(host);
        driver.is_some_and(|driver| driver.shared_storage().is_some_and(|storage| !storage.shares_files()))
    }

    /// Whether two hosts share disks by configuration, whatever their marks are now.
    pub(crate) fn share_by_configuration(&self, one: HostId, other: HostId) -> bool {
        self.has_disks_of_all(one) && self.has_disks_of_all(other)
    }

    /// Whether two hosts are known to share storage. It is enough if one of them knows, because the host that marks the
    /// storage later sees both marks. Hosts whose disks are in the configured network storage need no marks. Otherwise
    /// a mark that cannot be read for a moment could make one host remove the disks of the other's guests.
    pub fn share(&self, one: HostId, other: HostId) -> bool {
        let sees = |host, other: &HostId| {
            self.member(host)
                .is_some_and(|member| member.sharers.read().unwrap_or_else(PoisonError::into_inner).contains(other))
        };
        one == other || self.share_by_configuration(one, other) || sees(one, &other) || sees(other, &one)
    }

    /// Whether two hosts share not only disks, but also console logs and the image cache.
    pub(crate) fn share_files(&self, one: HostId, other: HostId) -> bool {
        one == other || (self.share(one, other) && !self.share_by_configuration(one, other))
    }

    /// Whether the host's storage was read since start-up, and no other host has the same console logs and image cache.
    pub(crate) fn is_alone(&self, host: HostId) -> bool {
        let Some(member) = self.member(host) else { return false };
        let marked = *member.sharers.read().unwrap_or_else(PoisonError::into_inner) != BTreeSet::from([host]);
        let alone = self.knows_storage_of(host) && (!marked || self.has_disks_of_all(host));
        let others: Vec<HostId> = self.members.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
        alone && others.into_iter().all(|other| other == host || !self.share_files(host, other))
    }

    /// The storage of each host that was read since start-up: all hosts that share it, including the host itself and
    /// hosts that are known only by their marks.
    pub(crate) fn storages(&self) -> BTreeMap<HostId, Arc<BTreeSet<HostId>>> {
        let members = self.members();
        // One host may have seen a mark that another has not seen yet. So the marks are followed in both directions.
        let mut linked: BTreeMap<HostId, Vec<HostId>> = BTreeMap::new();
        for member in &members {
            let seen = member.sharers.read().unwrap_or_else(PoisonError::into_inner);
            for other in seen.iter().filter(|other| **other != member.host) {
                linked.entry(member.host).or_default().push(*other);
                linked.entry(*other).or_default().push(member.host);
            }
        }
        let mut storages: BTreeMap<HostId, Arc<BTreeSet<HostId>>> = BTreeMap::new();
        for host in members.iter().map(|member| member.host) {
            if storages.contains_key(&host) {
                continue;
            }
            let (mut all, mut next) = (BTreeSet::from([host]), vec![host]);
            while let Some(one) = next.pop() {
                let others = linked.get(&one).into_iter().flatten().copied();
                next.extend(others.filter(|other| all.insert(*other)));
            }
            let all = Arc::new(all);
            storages.extend(all.iter().map(|one| (*one, Arc::clone(&all))));
        }
        storages.retain(|host, _| self.knows_storage_of(*host));
        storages
    }

    /// Records the account of a host's emulators. Returns the names and accounts of the hosts that share the directory of
    /// its guests' disks, and whose emulators have another account.
    pub(crate) fn note_account(&self, host: HostId, account: Option<&str>) -> Vec<(String, String)> {
        // All hosts join after a start. Nearly all of them have the same account, so only hosts with another account are
        // looked at.
        let others: Vec<(HostId, String)> = {
            let mut accounts = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
            accounts.retain(|_, hosts| {
                hosts.remove(&host);
                !hosts.is_empty()
            });
            let Some(own) = account else { return Vec::new() };
            accounts.entry(own.to_owned()).or_default().insert(host);
            let others = accounts.iter().filter(|(theirs, _)| theirs.as_str() != own);
            others.flat_map(|(theirs, hosts)| hosts.iter().map(|other| (*other, theirs.clone()))).collect()
        };
        let sharing = others.into_iter().filter(|(other, _)| self.share_files(host, *other));
        sharing.filter_map(|(other, theirs)| Some((self.member(other)?.hostname.clone(), theirs))).collect()
    }

    /// The number for a host never seen before.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.next()
    }

    /// Adds a host. A host that is already connected stays as it is.
    pub(crate) fn join(
        &self,
        host: HostId,
        hostname: &str,
        driver: &Arc<dyn Driver>,
        at_once: ConcurrencyLimits,
    ) -> Arc<ConnectedHost> {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        let member = members.entry(host).or_insert_with(|| {
            Arc::new(ConnectedHost {
                host,
                hostname: hostname.to_owned(),
                driver: Arc::clone(driver),
                turns: HostTurns::new(at_once),
                resync: Notify::new(),
                renewal: Notify::new(),
                usage: RwLock::default(),
                metrics: RwLock::default(),
                cached: AtomicU64::new(0),
                sharers: RwLock::default(),
                cards: RwLock::default(),
            })
        });
        Arc::clone(member)
    }
}

#[cfg(test)]
mod tests {
    use chronova_hypervisor::sim::{SimFleet, SimUri};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn other_accounts_are_named_on_hosts_that_share_the_directory() {
        let drivers = SimFleet::new(SimUri::new(4)).drivers();
        let fleet = ConnectedHosts::new(0, drivers.clone());
        let [one, same, other, apart] = [1, 2, 3, 4].map(|number| HostId(Uuid::from_u128(number)));
        for ((host, name), driver) in
            [(one, "one"), (same, "same"), (other, "other"), (apart, "apart")].iter().zip(&drivers)
        {
            fleet.join(*host, name, driver, ConcurrencyLimits { builds: 0, snapshots: 0 });
            fleet.note_sharers(*host, BTreeSet::from([*host]));
        }
        fleet.note_sharers(one, BTreeSet::from([one, same, other]));
        let named = |name: &str, account: &str| vec![(name.to_owned(), account.to_owned())];
        assert_eq!(fleet.note_account(one, Some("64055:64055")), Vec::new());
        assert_eq!(fleet.note_account(same, Some("64055:64055")), Vec::new());
        assert_eq!(fleet.note_account(apart, Some("107:107")), Vec::new());
        assert_eq!(fleet.note_account(other, Some("107:107")), named("one", "64055:64055"));
        assert_eq!(fleet.note_account(one, Some("64055:64055")), named("other", "107:107"));
        assert_eq!(fleet.note_account(other, None), Vec::new());
        assert_eq!(fleet.note_account(one, Some("64055:64055")), Vec::new());
        // A host that left the fleet is not named.
        fleet.note_account(other, Some("107:107"));
        fleet.refuse(drivers[2].uri());
        assert_eq!(fleet.note_account(one, Some("64055:64055")), Vec::new());
    }

    #[test]
    fn hosts_whose_marks_are_linked_have_one_storage() {
        let drivers = SimFleet::new(SimUri::new(4)).drivers();
        let fleet = ConnectedHosts::new(0, drivers.clone());
        let [first, second, apart, unread, gone] = [1, 2, 3, 4, 5].map(|number| HostId(Uuid::from_u128(number)));
        for (host, driver) in [first, second, apart, unread].iter().zip(&drivers) {
            fleet.join(*host, "h", driver, ConcurrencyLimits { builds: 0, snapshots: 0 });
        }
        // The first host has not seen the mark of the second one yet.
        fleet.note_sharers(first, BTreeSet::from([first]));
        fleet.note_sharers(second, BTreeSet::from([first, second, gone]));
        fleet.note_sharers(apart, BTreeSet::from([apart]));
        let found: Vec<(HostId, BTreeSet<HostId>)> =
            fleet.storages().into_iter().map(|(host, sharers)| (host, BTreeSet::clone(&sharers))).collect();
        let common = BTreeSet::from([first, second, gone]);
        assert_eq!(found, [(first, common.clone()), (second, common), (apart, BTreeSet::from([apart]))]);
    }
}
