//! One task per host: registers it, checks its heartbeat, and turns its signals into commands.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::{Instance, Power};
use chronova_events::store::EventStore;
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::driver::{Driver, DriverError, DriverResult, HostSignal, StopMode};
use chronova_hypervisor::guest::{HostCapabilities, PowerState};
use futures::StreamExt;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::capacity::{power, settle_traits};
use super::consoles;
use super::context::HostContext;
use super::due::{DueChecks, ResyncClock};
use super::fence::{self, FenceVerdict, LogIdentity};
use super::fleet::ConnectedHost;
use super::options::DeletedGuests;
use super::plan::{self, ResyncAction};
use super::report::HostReporter;
use super::{resume, unquiesce};
use crate::coordination::host_turns::ConcurrencyLimits;
use crate::host::{HostCommand, HostRoot};
use crate::instance::{InstanceRecord, InstanceRoot};
use crate::reconcile::{devices, leftovers};

/// Runs the agent of one host until the task is dropped.
pub async fn attend(context: Arc<HostContext>, store: Arc<dyn EventStore>, driver: Arc<dyn Driver>) {
    let clock = ResyncClock::new(&context.options);
    let mut agent = Agent {
        context,
        store,
        driver,
        member: None,
        identity: None,
        refusal: None,
        silent_since: None,
        clock,
        connected: false,
        suspect: true,
    };
    let mut signals = agent.driver.watch();
    let mut beat = interval(agent.context.options.heartbeat);
    let mut resync = interval(agent.context.options.resync_period());
    let mut report = agent.context.options.resources_period().map(interval);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once and is skipped. The driver's first signal already registers the host, and a
    // heartbeat would register it a second time.
    beat.tick().await;
    resync.tick().await;
    if let Some(report) = &mut report {
        report.set_missed_tick_behavior(MissedTickBehavior::Delay);
        report.tick().await;
    }
    loop {
        let member = agent.member.clone();
        // The output is true if the host must also report its resources again.
        let resync_requested = async {
            let Some(member) = &member else { return std::future::pending().await };
            tokio::select! {
                biased;
                () = member.renewal.notified() => true,
                () = member.resync.notified() => false,
            }
        };
        let report_due = async {
            match &mut report {
                Some(report) => report.tick().await,
                None => std::future::pending().await,
            }
        };
        // The order is fixed, so that a seed determines a run. Ticks and requests are rare and come first, so that
        // frequent signals cannot starve them.
        tokio::select! {
            biased;
            _ = beat.tick() => agent.beat().await,
            _ = resync.tick() => {
                let due = agent.clock.due();
                agent.resync(due).await;
            }
            _ = report_due => agent.report_again().await,
            renewal = resync_requested => agent.resync(agent.clock.all().renewing(renewal)).await,
            signal = signals.next() => match signal {
                Some(signal) => agent.take(signal).await,
                None => {
                    tracing::error!(uri = agent.driver.uri(), "the driver no longer watches its host");
                    return;
                }
            },
        }
    }
}

struct Agent {
    context: Arc<HostContext>,
    store: Arc<dyn EventStore>,
    driver: Arc<dyn Driver>,
    /// The host since its first answer. `None` before that, and while a copy of the log drives the host.
    member: Option<Arc<ConnectedHost>>,
    /// `None` until it is needed.
    identity: Option<LogIdentity>,
    /// The last logged reason for refusing the host.
    refusal: Option<String>,
    /// The time of the first heartbeat without an answer.
    silent_since: Option<Instant>,
    clock: ResyncClock,
    connected: bool,
    /// Whether all guests of the host must be compared with the log. True after the host was away, and until the first
    /// comparison since start-up. Later, `suspects` of the fleet has the guests that could not be corrected.
    suspect: bool,
}

impl Agent {
    async fn take(&mut self, signal: HostSignal) {
        match signal {
            HostSignal::Connected => self.welcome().await,
            HostSignal::Disconnected { reason } => self.mourn(&reason).await,
            HostSignal::Guest { .. } | HostSignal::GuestGone { .. } if !self.context.options.follows_guests => {}
            HostSignal::Guest { instance, .. } => self.look_at(instance).await,
            HostSignal::GuestGone { instance } => self.look_at(instance).await,
        }
        self.context.fleet.hear_of(self.driver.uri());
    }

    /// Records the capabilities and the guests of a host that answers again, or for the first time.
    async fn welcome(&mut self) {
        let mut found = match self.driver.capabilities().await {
            Ok(found) => found,
            Err(error) => return self.mourn(&error.to_string()).await,
        };
        if !self.may_drive().await {
            return;
        }
        let options = &self.context.options;
        settle_traits(&mut found, &*self.driver, options);
        let at_once =
            ConcurrencyLimits { builds: options.max_concurrent_builds, snapshots: options.max_concurrent_snapshots };
        let member = self.context.fleet.join(found.host, &found.hostname, &self.driver, at_once);
        self.member = Some(Arc::clone(&member));
        self.see_storage(found.host).await;
        self.compare_accounts(&found);
        if options.resume_guests && self.suspect && self.caught_up(self.store.head()).await {
            resume::guests(&self.context, found.host, &self.driver).await;
        }
        // The guests are corrected before the host is reported as up, because a server that moved away meanwhile must
        // not run here as well.
        let was_away = self.context.views.hosts.read(|hosts| hosts.get(found.host).is_some_and(|known| !known.up));
        if was_away {
            self.put_right(&member, self.clock.all()).await;
            self.correct_devices(member.host).await;
        }
        if let Err(error) = self.reporter().report(&found).await {
            tracing::error!(host = %found.hostname, error, "registering the host failed, retrying");
            // A host that was up before gets no more servers until a later heartbeat registers it.
            self.connected = false;
            return self.report_known_down(&error).await;
        }
        if was_away || self.suspect {
            unquiesce::guests(&self.context, member.host, &self.driver, was_away);
        }
        self.silent_since = None;
        self.connected = true;
        self.beat_once().await;
        self.resync(self.clock.all()).await;
    }

    fn reporter(&self) -> HostReporter<'_> {
        let (context, store, driver) = (&self.context, &self.store, &self.driver);
        HostReporter { context, store, driver, member: self.member.as_deref() }
    }

    /// Writes the host's mark on its storage, and reads the marks of others there.
    async fn see_storage(&self, host: HostId) {
        // If the driver does not support shared storage, no other host shares this host's storage.
        let Some(storage) = self.driver.shared_storage() else {
            return self.context.fleet.note_sharers(host, BTreeSet::from([host]));
        };
        match storage.storage_sharers().await {
            Ok(sharers) => self.context.fleet.note_sharers(host, sharers),
            Err(error) => tracing::warn!(%host, %error, "reading the host's storage marks failed"),
        }
    }

    /// Warns of hosts that share the directory of guests' disks, but run their emulators under different accounts.
    /// After a move between such hosts, a guest may be unable to open its disks.
    fn compare_accounts(&self, found: &HostCapabilities) {
        let own = found.emulator_account.as_deref();
        for (other, theirs) in self.context.fleet.note_account(found.host, own) {
            tracing::warn!(
                host = %found.hostname,
                account = own,
                other,
                theirs,
                "two hosts share the directory of guests' disks, and their emulators run as different users or groups: give \
                 the account the same uid and gid on both"
            );
        }
    }

    async fn mourn(&mut self, reason: &str) {
        (self.connected, self.suspect) = (false, true);
        let Some(member) = &self.member else {
            tracing::warn!(uri = self.driver.uri(), reason, "the host does not answer yet");
            return self.report_known_down(reason).await;
        };
        tracing::warn!(host = %member.hostname, reason, "the host does not answer");
        self.report_down(member.host, reason).await;
    }

    /// Records the host as down if the log knows a host with this URI.
    async fn report_known_down(&self, reason: &str) {
        let uri = self.driver.uri();
        let known = self.context.views.hosts.read(|hosts| hosts.all().find(|host| host.uri == uri).map(|host| host.id));
        if let Some(host) = known {
            self.report_down(host, reason).await;
        }
    }

    async fn report_down(&self, host: HostId, reason: &str) {
        let down = HostCommand::ReportDown { reason: reason.to_owned() };
        if let Err(error) = self.context.gateway.send::<HostRoot>(&host, down, Meta::system("host-watch")).await {
            tracing::error!(%host, %error, "recording a host as down failed");
        }
    }

    /// Whether this log may drive the host. If a copy of the log drives the host, the agent stops using the host at
    /// once.
    async fn may_drive(&mut self) -> bool {
        if !self.context.options.fenced {
            return true;
        }
        if self.identity.is_none() {
            match LogIdentity::of(&*self.store).await {
                Ok(found) => self.identity = found,
                Err(error) => tracing::error!(%error, "the identity of the log cannot be read"),
            }
        }
        // The first event identifies the log, so an empty log has no identity. An empty log may drive the host, because
        // the registration of the host may become its first event.
        let Some(LogIdentity { owner, .. }) = self.identity else { return self.store.head() == Position::START };
        let (uri, fleet) = (self.driver.uri(), &self.context.fleet);
        let (asked, patience) = (Instant::now(), self.context.options.heartbeat);
        let verdict = timeout(patience, fence::judge(&*self.driver, owner)).await;
        match verdict.unwrap_or_else(|_| FenceVerdict::Unknown("the host does not say who drives it".to_owned())) {
            FenceVerdict::Admitted { taken_at } => {
                // The doubt is recorded before the first call that changes the host.
                fleet.doubt_until(taken_at);
                fleet.admit(uri);
                self.refusal = None;
                true
            }
            // `beat` decides when a host without an answer is down.
            FenceVerdict::Unknown(_) if self.connected => {
                self.silent_since.get_or_insert(asked);
                true
            }
            FenceVerdict::Unknown(reason) => {
                self.mourn(&reason).await;
                false
            }
            FenceVerdict::Refused(reason) => {
                fleet.refuse(uri);
                (self.connected, self.suspect, self.member) = (false, true, None);
                self.report_known_down(&reason).await;
                if self.refusal.as_ref() != Some(&reason) {
                    tracing::error!(uri, "{reason}");
                    self.refusal = Some(reason);
                }
                false
            }
        }
    }

    async fn beat(&mut self) {
        if !self.connected {
            return self.welcome_back().await;
        }
        if !self.may_drive().await {
            return;
        }
        self.beat_once().await;
        if self.silent_since.is_some() && self.silence() >= self.context.options.down_after() {
            self.mourn("heartbeats are missing").await;
        }
    }

    /// Connects the host if it answers. Either the agent has missed the signal that the host connected, or an earlier
    /// attempt has failed.
    async fn welcome_back(&mut self) {
        if self.driver.usage().await.is_ok() {
            self.welcome().await;
        }
        self.context.fleet.hear_of(self.driver.uri());
    }

    async fn beat_once(&mut self) {
        let Some(member) = &self.member else { return };
        // Without this timeout, a host that never answers would be down later than a host that refuses the call.
        let options = &self.context.options;
        let patience = options.down_after().saturating_sub(self.silence()).max(options.heartbeat);
        let asked = Instant::now();
        match timeout(patience, self.driver.usage()).await {
            Ok(Ok(usage)) => {
                if !options.monitors.is_empty() {
                    member.measure(&usage);
                }
                member.beat(usage, self.context.clock.now().0);
                self.silent_since = None;
                return;
            }
            Ok(Err(error)) => tracing::debug!(host = %member.hostname, %error, "missed a heartbeat"),
            Err(_) => tracing::debug!(host = %member.hostname, "a heartbeat has no answer"),
        }
        self.silent_since.get_or_insert(asked);
    }

    /// How long the host has been silent. The time begins one period before the first heartbeat without an answer. It
    /// does not begin at the last answer, because the agent may have been too busy to ask.
    fn silence(&self) -> Duration {
        self.context.options.heartbeat + self.silent_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Reads the power state of a guest that changed, and records it. The signal itself may be older than the state.
    async fn look_at(&self, instance: InstanceId) {
        let Some(member) = &self.member else { return };
        let power = match self.driver.guest(instance).await {
            Ok(status) => power(status.power),
            Err(DriverError::NoSuchGuest(_)) => Power::Shutdown,
            Err(error) => {
                tracing::debug!(%instance, %error, "reading a changed guest failed; the next comparison of power states retries");
                return;
            }
        };
        // The read model is enough here. If it lags, the record is needless, or is missing until the next comparison of
        // power states. Loading the aggregate would take longer, and the guest may change again meanwhile.
        let row = self.context.views.servers.read(|servers| servers.get(instance).cloned());
        if row.is_none_or(|row| !plan::is_expected(&row.instance, power)) {
            self.observe(member.host, instance, power).await;
        }
    }

    async fn observe(&self, host: HostId, instance: InstanceId, power: Power) {
        let seen = InstanceRecord::PowerObserved { host, power };
        let result = self.context.gateway.send::<InstanceRoot>(&instance, seen, Meta::system("host-watch")).await;
        if let Err(error) = result
            && error.rejection().is_none()
        {
            tracing::warn!(%instance, %error, "recording a guest's power state failed; the next comparison of power states retries");
        }
    }

    /// Compares the host with the log.
    async fn resync(&mut self, due: DueChecks) {
        let Some(member) = self.member.clone().filter(|_| self.connected) else { return };
        if !self.context.fleet.knows_storage_of(member.host) {
            self.see_storage(member.host).await;
        }
        let Some(present) = self.put_right(&member, due).await else { return };
        let missing: Vec<_> = self.context.views.servers.read(|servers| {
            servers
                .on_host(member.host)
                .filter(|row| !present.contains(&row.id))
                .map(|row| (row.id, plan::missing(&row.instance)))
                .filter(|(_, remedy)| due.includes(*remedy))
                .collect()
        });
        for (instance, remedy) in missing {
            self.apply(&member, instance, remedy).await;
        }
        self.correct_devices(member.host).await;
        self.reporter().renew(member.host, due.resources).await;
        self.context.volumes.sweep_host(member.host, &self.driver, self.context.fleet.doubt()).await;
        leftovers::sweep(&self.context, member.host, &self.driver).await;
    }

    /// Makes a host that answers report its resources again.
    async fn report_again(&self) {
        if let Some(member) = self.member.as_ref().filter(|_| self.connected) {
            self.reporter().renew(member.host, true).await;
        }
    }

    async fn correct_devices(&mut self, host: HostId) {
        if self.suspect {
            self.suspect = !devices::suspect_all(&self.context, host).await;
        }
        devices::put_right(&self.context, host, &self.driver).await;
    }

    /// Corrects the guests on the host and the disks without a guest. Returns the guests.
    async fn put_right(&self, member: &ConnectedHost, due: DueChecks) -> Option<BTreeSet<InstanceId>> {
        let guests = match self.driver.guests().await {
            Ok(guests) => guests,
            Err(error) => {
                tracing::debug!(host = %member.hostname, %error, "listing the guests failed");
                return None;
            }
        };
        let orphans = match self.driver.storage_cleanup() {
            Some(cleanup) => cleanup.orphans().await.unwrap_or_default(),
            None => Vec::new(),
        };
        // The read models must show all events from before the driver listed the guests.
        if !self.caught_up(self.store.head()).await {
            return None;
        }
        for guest in &guests {
            let seen = power(guest.power);
            let remedy = self.believing(member.host, guest.instance, |believed| {
                let remedy = plan::found(member.host, believed, seen);
                plan::spared(believed, remedy, true, |other| self.may_share(member.host, other))
            });
            if due.includes(remedy) || (remedy == ResyncAction::Reap && self.is_just_deleted(guest.instance)) {
                self.apply(member, guest.instance, remedy).await;
            }
        }
        for instance in orphans {
            let remedy = self.believing(member.host, instance, |believed| {
                let remedy = plan::orphaned(member.host, believed);
                plan::spared(believed, remedy, false, |other| self.may_share(member.host, other))
            });
            self.apply(member, instance, remedy).await;
        }
        Some(guests.iter().map(|guest| guest.instance).collect())
    }

    /// Whether two hosts may share storage. The answer is yes until the agent has read the marks on the storage of
    /// `host`.
    fn may_share(&self, host: HostId, other: HostId) -> bool {
        !self.context.fleet.knows_storage_of(host) || self.context.fleet.share(host, other)
    }

    async fn caught_up(&self, position: Position) -> bool {
        self.context.views.wait_for(position, self.context.options.resync).await
    }

    fn believing(
        &self,
        host: HostId,
        instance: InstanceId,
        judge: impl FnOnce(&Instance) -> ResyncAction,
    ) -> ResyncAction {
        let row = self.context.views.servers.read(|servers| servers.get(instance).cloned());
        let Some(row) = row.as_deref() else { return judge(&Instance::Absent) };
        let remedy = judge(&row.instance);
        plan::doubted(remedy, || self.context.knows_place_of(row, host))
    }

    /// Whether the server was deleted less than one `running_deleted_instance_poll_interval` ago. The host may not have
    /// answered during the deletion, so its agent reaps such a guest at the next comparison.
    fn is_just_deleted(&self, instance: InstanceId) -> bool {
        let Some(period) = self.context.options.deleted_poll else { return false };
        let row = self.context.views.servers.read(|servers| servers.get(instance).cloned());
        let Some(Instance::Deleted(gone)) = row.as_ref().map(|row| &row.instance) else { return false };
        let period = i64::try_from(period.as_micros()).unwrap_or(i64::MAX);
        self.context.clock.now().0.saturating_sub(gone.updated_at.0) <= period
    }

    /// Applies `[DEFAULT] running_deleted_instance_action` to a guest of a deleted server. With the actions `log` and
    /// `shutdown`, the guest stays, so each search finds it again. The search logs the guest while it runs.
    async fn reap(&self, member: &ConnectedHost, instance: InstanceId) {
        let action = self.context.options.deleted_guests;
        match action {
            DeletedGuests::Reap => return self.destroy(member, instance).await,
            DeletedGuests::Noop => return,
            DeletedGuests::Log | DeletedGuests::Shutdown => {}
        }
        let Ok(status) = self.driver.guest(instance).await else { return };
        if !matches!(status.power, PowerState::Running | PowerState::Paused) {
            return;
        }
        tracing::warn!(host = %member.hostname, %instance, "the guest of a deleted server runs");
        if action == DeletedGuests::Shutdown
            && let Err(error) = self.driver.stop(instance, StopMode::Hard).await
        {
            tracing::warn!(host = %member.hostname, %instance, %error, "powering off the guest of a deleted server failed, retrying");
        }
    }

    /// Removes a guest and keeps its disks, because a host with the same storage uses them.
    async fn withdraw(&self, instance: InstanceId) -> DriverResult<()> {
        let stopped = self.driver.stop(instance, StopMode::Hard).await;
        stopped.and(self.driver.shared_storage().needed()?.undefine(instance).await)
    }

    async fn destroy(&self, member: &ConnectedHost, instance: InstanceId) {
        tracing::info!(host = %member.hostname, %instance, "removing leftovers of a server that is not on this host");
        consoles::bring(&self.context, member, instance).await;
        if let Err(error) = self.driver.destroy(instance).await {
            tracing::warn!(host = %member.hostname, %instance, %error, "removing leftovers failed, retrying");
        }
    }

    async fn apply(&self, member: &ConnectedHost, instance: InstanceId, remedy: ResyncAction) {
        match remedy {
            ResyncAction::Nothing => {}
            // The guest is read again, because the list may be older than the log by now.
            ResyncAction::Look => self.look_at(instance).await,
            ResyncAction::Destroy => self.destroy(member, instance).await,
            ResyncAction::Forget => {
                tracing::info!(host = %member.hostname, %instance, "removing a guest whose server is on another host");
                if let Err(error) = self.withdraw(instance).await {
                    tracing::warn!(host = %member.hostname, %instance, %error, "removing a leftover guest failed, retrying");
                }
            }
            ResyncAction::Pull => {
                tracing::info!(host = %member.hostname, %instance, "switching off a guest that is being evacuated");
                if let Err(error) = self.driver.stop(instance, StopMode::Hard).await {
                    tracing::warn!(
                        host = %member.hostname, %instance, %error,
                        "cannot power off a guest that is being evacuated, retrying"
                    );
                }
            }
            ResyncAction::Reap => self.reap(member, instance).await,
            ResyncAction::Doubt => {
                tracing::warn!(
                    host = %member.hostname, %instance,
                    "this log would remove or stop the guest, but another copy of the log may have moved its server: \
                     leaving the guest alone"
                );
            }
            ResyncAction::Report => {
                tracing::warn!(host = %member.hostname, %instance, "unknown guest on the host, or only its disks: leaving them alone");
            }
        }
    }
}
