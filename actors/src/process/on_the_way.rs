//! The step `migrate` of a live migration: starts, watches, aborts or forces the migration, until it is certain where
//! the guest is.

use std::time::Duration;

use chronova_events::ids::InstanceId;
use chronova_events::instance::{LiveProgress, LiveStage, OngoingTask, Phase, Placed};
use chronova_events::process::StepOutput;
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::capability::live_migration::{
    ForceComplete, GuestMigrationState, GuestPresence, MigrationAddressing, MigrationData, MigrationPlan,
    MigrationProgress,
};

use super::claim_holder::ClaimHolder;
use super::crossing::{GuestLocation, GuestSighting, judge_lost};
use super::definition::{StepError, StepRun};
use super::given_up::is_given_up;
use super::guest;
use super::live_migrate::{advance, forget, inbound, mine, tell, wanted};
use super::moving::{self, MovingServer};
use super::options::LiveOptions;
use super::pinned;
use crate::instance::LiveRecord;

/// The shortest and the longest pause between two polls of a migration.
pub(super) const WATCH: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// The smallest pause between two polls, even if the source reports the end.
const BREATH: Duration = Duration::from_millis(5);
const GIB: u64 = 1 << 30;

/// How the guest's disks get to the destination.
struct DiskRoute {
    /// The guest's device names of the disks to copy.
    copied: Vec<String>,
    /// The amount of data in GiB, which decides how long the migration may take.
    data_gib: u64,
}

impl DiskRoute {
    fn new(migration_data: MigrationData, shared: bool) -> Self {
        let of_memory = migration_data.memory_mib.div_ceil(1024).max(2);
        let of_disks: u64 = migration_data.disks.iter().map(|(_, bytes)| bytes.div_ceil(GIB).max(2)).sum();
        let copied = if shared { vec![] } else { migration_data.disks.into_iter().map(|(name, _)| name).collect() };
        Self { data_gib: of_memory + if shared { 0 } else { of_disks }, copied }
    }
}

/// The source's latest report, and the location of the guest that follows from the latest reports of both hosts.
pub(super) struct MigrationEnds {
    pub(super) source: Option<GuestMigrationState>,
    pub(super) verdict: GuestLocation,
}

pub(super) async fn look(work: &StepRun, subject: &MovingServer) -> Result<MigrationEnds, StepError> {
    let target = subject.target()?;
    let ((source, seen_source), (_, seen_target)) =
        futures::join!(probe_host(work, &subject.moving.source), probe_host(work, target));
    let verdict = judge_lost(seen_source, seen_target, false);
    // Only a reset of its state puts a migrating server in error.
    let was_reset = matches!(subject.server.phase, Phase::Error { .. });
    let lost = judge_lost(seen_source, seen_target, true);
    if !was_reset || lost == verdict {
        return Ok(MigrationEnds { source, verdict });
    }
    let ends = [(subject.moving.source.host, seen_source), (target.host, seen_target)];
    let down: Vec<_> =
        ends.into_iter().filter(|(_, seen)| *seen == GuestSighting::Down).map(|(host, _)| host).collect();
    let given_up = is_given_up(work, &down).await;
    Ok(MigrationEnds { source, verdict: if given_up { lost } else { verdict } })
}

async fn probe_host(work: &StepRun, end: &Placed) -> (Option<GuestMigrationState>, GuestSighting) {
    let answers = work.host_answers(end.host);
    let driver = match (answers, work.context.fleet.driver(end.host)) {
        (Ok(true), Some(driver)) => driver,
        (Ok(false), _) if moving::is_fenced(work, end.host) => return (None, GuestSighting::Fenced),
        (Ok(false), _) => return (None, GuestSighting::Down),
        _ => return (None, GuestSighting::Silent),
    };
    let Some(migration) = driver.live_migration() else { return (None, GuestSighting::Silent) };
    match migration.migration_state(work.instance_id()).await {
        Ok(state) => {
            let seen = GuestSighting::from(&state);
            (Some(state), seen)
        }
        Err(_) => (None, GuestSighting::Silent),
    }
}

/// Migrates the guest. Returns only when it is certain where the guest is, or when the migration has ended. It also
/// returns when the server is being deleted, or when an operator has given up the hosts.
pub(super) async fn migrate(work: &StepRun) -> Result<StepOutput, StepError> {
    let mut watch = MigrationWatch::new();
    loop {
        let subject = match mine(work).await {
            Ok(Some(subject)) => subject,
            Ok(None) => return Err(StepError::fatal(409, "The migration is over.", "")),
            Err(error) => {
                tracing::debug!(server = %work.instance_id(), %error, "reading a migration failed");
                tokio::time::sleep(WATCH.1).await;
                continue;
            }
        };
        let ends = look(work, &subject).await?;
        match ends.verdict {
            GuestLocation::AtTarget => return Ok(StepOutput::Nothing),
            GuestLocation::AtSource => {
                // If another request or an abort came meanwhile, the migration must not start.
                wanted(work).await?;
                watch.set_out(work, &subject, ends.source.as_ref()).await?;
            }
            GuestLocation::Underway => {
                if let Err(error) = watch.look_after(work, &subject, ends.source.as_ref()).await {
                    tracing::debug!(server = %work.instance_id(), %error, "monitoring a migration failed, retrying");
                }
            }
            GuestLocation::Twice => {
                if let Err(error) = moving::pull(work, subject.moving.source.host).await {
                    tracing::error!(
                        server = %work.instance_id(),
                        %error,
                        "stopping the guest on the source host failed, retrying: the guest runs on both hosts"
                    );
                }
            }
            GuestLocation::PausedAtSource => match resume_at_source(work, &subject).await {
                Ok(()) => {
                    return Err(StepError::fatal(500, "Live migration failure: the source host broke it off.", ""));
                }
                Err(error) => {
                    tracing::warn!(server = %work.instance_id(), %error, "resuming a guest at its source failed, retrying");
                }
            },
            GuestLocation::Torn => mend(work, &subject).await,
            // The process that deletes the server removes the guest from both hosts. The agent of a host that is down
            // does it later.
            GuestLocation::Unknown if matches!(subject.server.ongoing, Some(OngoingTask::Delete { .. })) => {
                return Err(StepError::fatal(409, "The server is being deleted.", ""));
            }
            GuestLocation::Lost => {
                return Err(StepError::fatal(500, "Live migration failure: the hosts are down.", ""));
            }
            GuestLocation::Unknown => {
                tracing::debug!(server = %work.instance_id(), "the guest's host is not known yet");
            }
        }
        watch.pause(work, &subject, ends.verdict).await;
    }
}

/// Resumes a guest that a broken migration has left paused at its source. A guest that was paused before the migration
/// stays paused. The guest of a server that is being deleted stays paused, too.
pub(super) async fn resume_at_source(work: &StepRun, subject: &MovingServer) -> Result<(), StepError> {
    if !subject.moving.was_active || matches!(subject.server.ongoing, Some(OngoingTask::Delete { .. })) {
        return Ok(());
    }
    tracing::warn!(server = %work.instance_id(), "a live migration has left the guest paused; resuming it at its source");
    let driver = work.driver(subject.moving.source.host)?;
    driver.suspension().needed()?.unpause(work.instance_id()).await.map_err(StepError::again)
}

/// Starts a guest again after post-copy has failed. Neither host can continue the guest, so it starts at its
/// destination, which has the newer disks.
pub(super) async fn mend(work: &StepRun, subject: &MovingServer) {
    tracing::error!(server = %work.instance_id(), "post-copy failed; starting the guest again");
    let anew = async {
        let target = subject.target()?;
        moving::pull(work, subject.moving.source.host).await?;
        moving::pull(work, target.host).await?;
        forget(work, &subject.moving.source).await?;
        guest::install(work, target.host, &subject.server, true).await
    };
    if let Err(error) = anew.await {
        tracing::warn!(
            server = %work.instance_id(), %error,
            "cannot start the guest again after a failed post-copy, retrying"
        );
    }
}

/// The state of one run of the step between two polls.
struct MigrationWatch {
    route: Option<DiskRoute>,
    set_out: bool,
    forced: bool,
    called_back: bool,
    /// Whether the traffic was moved to the destination before the end of the migration.
    switched: bool,
    pause: Duration,
    /// The time of the next record of progress. The interval doubles, so that even a long migration records few events.
    report_at: Duration,
    since: tokio::time::Instant,
    /// The number of downtime steps so far.
    steps: u64,
}

impl MigrationWatch {
    fn new() -> Self {
        Self {
            route: None,
            set_out: false,
            forced: false,
            called_back: false,
            switched: false,
            pause: WATCH.0,
            report_at: Duration::from_secs(1),
            since: tokio::time::Instant::now(),
            steps: 0,
        }
    }

    /// Pauses between two polls. The pause doubles each time, and ends early if the source reports the end.
    async fn pause(&mut self, work: &StepRun, subject: &MovingServer, verdict: GuestLocation) {
        match (work.context.fleet.driver(subject.moving.source.host), verdict) {
            (Some(source), GuestLocation::Underway | GuestLocation::AtSource) => {
                let begun = tokio::time::Instant::now();
                if let Some(source) = source.live_migration() {
                    source.wait_for_migration(work.instance_id(), self.pause).await;
                }
                // The source has already reported the end. While the hosts do not agree yet, polls still need a pause.
                let breath = BREATH.min(self.pause / 10);
                if begun.elapsed() < breath {
                    tokio::time::sleep(breath).await;
                }
            }
            _ => tokio::time::sleep(self.pause).await,
        }
        self.pause = (self.pause * 2).min(WATCH.1);
    }

    /// Starts the migration of a guest that is at its source, or returns the reason why it cannot.
    async fn set_out(
        &mut self,
        work: &StepRun,
        subject: &MovingServer,
        source: Option<&GuestMigrationState>,
    ) -> Result<(), StepError> {
        let failed = source.and_then(|standing| standing.failed.as_ref());
        if let Some((_, reason)) = failed.filter(|(migration, _)| *migration == work.running.process) {
            // Only administrators see the details. libvirt's text may have addresses of the hosts.
            return Err(StepError::fatal(500, "Live migration failure: the hypervisor ended it.", reason.as_str()));
        }
        if self.set_out {
            return Err(StepError::fatal(500, "Live migration failure: the host aborted the migration.", ""));
        }
        if !source.is_some_and(|standing| matches!(standing.presence, GuestPresence::Running | GuestPresence::Paused)) {
            return Err(StepError::fatal(500, "Live migration failure: the guest is not running.", ""));
        }
        let (plan, ()) = futures::try_join!(self.migration_plan(work, subject), advance(work, LiveStage::Running))?;
        self.since = tokio::time::Instant::now();
        let driver = work.driver(subject.moving.source.host)?;
        let migration = driver.live_migration().needed().map_err(StepError::only_here)?;
        match migration.start_migration(work.instance_id(), &plan).await {
            Ok(()) => self.set_out = true,
            // The migration may have started nevertheless, so both hosts are asked.
            Err(error) if error.is_transient() => {
                tracing::warn!(server = %work.instance_id(), %error, "the migration's start is unconfirmed, retrying");
            }
            Err(error) => return Err(StepError::only_here(error)),
        }
        self.pause = WATCH.0;
        Ok(())
    }

    async fn migration_plan(&mut self, work: &StepRun, subject: &MovingServer) -> Result<MigrationPlan, StepError> {
        let options = &work.context.live_options;
        let target = subject.target()?;
        let (source, destination) = (work.driver(subject.moving.source.host)?, work.driver(target.host)?);
        let migration_data = async {
            let source = source.live_migration().needed().map_err(StepError::only_here)?;
            source.migration_data(work.instance_id()).await.map_err(StepError::only_here)
        };
        let setup = async {
            let networks = &work.context.networks;
            networks.realise_at(&subject.server.nics, &target.hostname).await.map_err(StepError::from)
        };
        let (migration_data, shared, inbound, setup) =
            futures::try_join!(migration_data, moving::one_storage(work, subject), inbound(work, subject), setup)?;
        let uris = destination.live_migration().needed()?.migration_uris(&MigrationAddressing {
            scheme: options.scheme.as_deref(),
            uri: options.uri.as_deref(),
            inbound: inbound.as_deref(),
            hostname: &target.hostname,
            tunnelled: options.tunnelled,
        });
        let route = DiskRoute::new(migration_data, shared);
        let plan = MigrationPlan {
            migration: work.running.process,
            peer: uris.peer,
            stream: uris.stream,
            copied: route.copied.clone(),
            shared,
            tls: options.native_tls,
            tunnelled: options.tunnelled,
            auto_converge: options.permit_auto_converge,
            post_copy: options.permit_post_copy,
            bandwidth: options.bandwidth,
            pinning: pinned::place(work, target.host, &subject.server, ClaimHolder::Server).await?,
            nics: setup.nics,
        };
        self.route = Some(route);
        Ok(plan)
    }

    /// Watches a running migration: records progress, and aborts or forces it if necessary.
    async fn look_after(
        &mut self,
        work: &StepRun,
        subject: &MovingServer,
        source: Option<&GuestMigrationState>,
    ) -> Result<(), StepError> {
        let host = subject.moving.source.host;
        work.context.migration_queues.goes_on(host, work.running.process);
        let Some(standing) = source.filter(|standing| standing.departing.is_some()) else { return Ok(()) };
        self.report(work, standing.departing.unwrap_or_default()).await?;
        if standing.in_post_copy && !self.switched {
            moving::switch(work, subject.target()?).await?;
            self.switched = true;
        }
        let driver = work.driver(host)?;
        let migration = driver.live_migration().needed()?;
        let (abort, force) = subject.live().map_or((false, false), |live| (live.abort, live.force_complete));
        let overtaken = !moving::is_mine(work, &subject.server);
        if (abort || overtaken || self.is_late(work, subject, false)) && !standing.in_post_copy {
            let late = !abort && !overtaken;
            if !self.called_back {
                if late {
                    warn_overdue(work.instance_id(), elapsed(work, subject), "abort");
                }
                self.called_back = migration.abort_migration(work.instance_id()).await.is_ok();
            }
            if late {
                tell(work, LiveRecord::TimedOut { process: work.running.process }).await?;
            }
            return Ok(());
        }
        if (force || self.is_late(work, subject, true)) && !self.forced && !standing.in_post_copy {
            if !force {
                warn_overdue(work.instance_id(), elapsed(work, subject), "force_complete");
            }
            self.forced = true;
            let how =
                if work.context.live_options.permit_post_copy { ForceComplete::PostCopy } else { ForceComplete::Pause };
            if let Err(error) = migration.force_complete(work.instance_id(), how).await {
                self.forced = false;
                tracing::warn!(server = %work.instance_id(), %error, "a live migration cannot be forced to complete");
            }
        }
        self.widen_downtime(work, subject).await;
        Ok(())
    }

    async fn report(&mut self, work: &StepRun, progress: MigrationProgress) -> Result<(), StepError> {
        let progress = LiveProgress {
            memory_total: progress.memory_total,
            memory_processed: progress.memory_processed,
            memory_remaining: progress.memory_remaining,
            disk_total: progress.disk_total,
            disk_processed: progress.disk_processed,
            disk_remaining: progress.disk_remaining,
        };
        let process = work.running.process;
        work.context.migration_queues.tell(process, progress);
        if self.since.elapsed() < self.report_at {
            return Ok(());
        }
        self.report_at = self.since.elapsed() * 2;
        tell(work, LiveRecord::Progressed { process, progress }).await
    }

    fn data_gib(&self, subject: &MovingServer) -> u64 {
        let memory = subject.server.request.flavor.memory_mib.div_ceil(1024).max(2);
        self.route.as_ref().map_or(memory, |route| route.data_gib)
    }

    /// Whether `live_migration_completion_timeout` (seconds for each GiB) has expired. With `forces`, true only if the
    /// operator's action for this is to force the completion. Without, true only if the action is to abort.
    fn is_late(&self, work: &StepRun, subject: &MovingServer, forces: bool) -> bool {
        let allowed = allowed_time(work.context.completion_timeout.seconds(), self.data_gib(subject));
        work.context.live_options.force_at_timeout == forces
            && allowed.is_some_and(|allowed| elapsed(work, subject) >= allowed)
    }

    /// Nova's `downtime_steps`: every step allows a longer downtime.
    async fn widen_downtime(&mut self, work: &StepRun, subject: &MovingServer) {
        let (options, since) = (&work.context.live_options, elapsed(work, subject));
        let Some(allowed) = due_downtime(options, self.data_gib(subject), self.steps, since) else { return };
        self.steps += 1;
        if let Ok(driver) = work.driver(subject.moving.source.host)
            && let Some(migration) = driver.live_migration()
            && let Err(error) = migration.set_max_downtime(work.instance_id(), allowed).await
        {
            tracing::debug!(server = %work.instance_id(), %error, "raising the downtime of a live migration failed");
        }
    }
}

/// The time since the migration's start, which the log has. So a crash in between does not reset the time.
fn elapsed(work: &StepRun, subject: &MovingServer) -> Duration {
    let since = subject.live().and_then(|live| live.running_since);
    let micros = since.map_or(0, |since| work.context.clock.now().0.saturating_sub(since.0));
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn warn_overdue(server: InstanceId, since: Duration, action: &str) {
    tracing::warn!(
        %server,
        seconds = since.as_secs(),
        action,
        "a live migration has run longer than live_migration_completion_timeout allows"
    );
}

/// The time after which a migration of this much data is overdue; `None` is never.
fn allowed_time(seconds_per_gib: u64, data_gib: u64) -> Option<Duration> {
    let seconds = seconds_per_gib.saturating_mul(data_gib);
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// The downtime in milliseconds that the next step allows, if that step is due. `steps` is the number of steps so far.
fn due_downtime(options: &LiveOptions, data_gib: u64, steps: u64, since: Duration) -> Option<u64> {
    let (most, all) = (options.downtime, options.downtime_steps.max(1));
    let delay = options.downtime_delay.saturating_mul(data_gib).max(1);
    let due = steps <= all && since.as_secs() >= delay.saturating_mul(steps);
    due.then(|| downtime(steps, most, all))
}

/// The allowed downtime in milliseconds after `step` of `steps` steps. The last step allows `most`.
fn downtime(step: u64, most: u64, steps: u64) -> u64 {
    let first = most / steps;
    first + step * most.saturating_sub(first) / steps
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Nova's own example: 400 ms in ten steps.
    #[test]
    fn the_downtime_rises_in_steps() {
        let allowed: Vec<u64> = (0..=10).map(|step| downtime(step, 400, 10)).collect();
        assert_eq!(allowed, [40, 76, 112, 148, 184, 220, 256, 292, 328, 364, 400]);
    }

    /// The seconds and the downtimes of all steps, if a poll comes every second.
    fn steps(options: &LiveOptions, data_gib: u64) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        for second in 0..10_000 {
            let done = u64::try_from(taken.len()).unwrap();
            if let Some(allowed) = due_downtime(options, data_gib, done, Duration::from_secs(second)) {
                taken.push((second, allowed));
            }
        }
        taken
    }

    #[test]
    fn a_step_of_the_downtime_waits_for_the_delay_of_each_gib() {
        // Nova's own example: 3 GiB, 400 ms in ten steps, 30 seconds.
        let options = LiveOptions { downtime: 400, downtime_steps: 10, downtime_delay: 30, ..LiveOptions::default() };
        let expected: Vec<(u64, u64)> = (0..=10).map(|step| (90 * step, 40 + 36 * step)).collect();
        assert_eq!(steps(&options, 3), expected);
        // The defaults begin with 50 ms, and reach 500 ms after ten delays of 75 seconds for each GiB.
        let defaults = steps(&LiveOptions::default(), 2);
        assert_eq!((defaults.len(), defaults[0], defaults[1], defaults[10]), (11, (0, 50), (150, 95), (1_500, 500)));
        assert!(defaults.is_sorted(), "the downtime does not rise: {defaults:?}");
    }

    #[test]
    fn the_timeout_is_the_options_seconds_for_each_gib() {
        let data = |memory_mib, disks: &[u64], shared| {
            let disks = disks.iter().map(|gib| ("vda".to_owned(), gib * GIB)).collect();
            DiskRoute::new(MigrationData { memory_mib, disks, ..MigrationData::default() }, shared).data_gib
        };
        let allowed = |option, data_gib| allowed_time(option, data_gib).map(|time| time.as_secs());
        assert_eq!(LiveOptions::default().completion_timeout, 800);
        assert_eq!(allowed(800, data(8192, &[20], true)), Some(6_400), "Nova's own example: 8 GiB, shared");
        assert_eq!(allowed(800, data(8192, &[20], false)), Some(22_400), "the copied disk counts");
        assert_eq!(allowed(800, data(512, &[], true)), Some(1_600), "memory counts for at least 2 GiB");
        assert_eq!(allowed(0, data(8192, &[20], false)), None, "0 disables the timeout");
    }

    #[test]
    fn the_log_warns_of_an_overdue_migration_with_its_server_and_its_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = std::sync::Arc::new(file.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        let server = InstanceId(uuid::Uuid::from_u128(7));
        tracing::subscriber::with_default(subscriber, || {
            warn_overdue(server, Duration::from_millis(6_400_900), "abort");
        });
        let log = std::fs::read_to_string(file.path()).unwrap();
        for word in [" WARN ", &format!("server={server}"), "seconds=6400", "action=\"abort\"", "completion_timeout"] {
            assert!(log.contains(word), "{word} is missing: {log}");
        }
    }

    #[test]
    fn the_timeout_grows_with_the_data_to_move() {
        let data = |memory_mib, disks: &[u64], shared| {
            let disks = disks.iter().map(|gib| ("vda".to_owned(), gib * GIB)).collect();
            DiskRoute::new(MigrationData { memory_mib, disks, ..MigrationData::default() }, shared).data_gib
        };
        assert_eq!(data(8192, &[20], true), 8);
        assert_eq!(data(8192, &[20], false), 28);
        assert_eq!(data(512, &[1, 1], false), 6, "each disk counts for at least 2 GiB");
    }

    #[test]
    fn only_disks_that_are_not_shared_are_copied() {
        let migration_data = || MigrationData { disks: vec![("vda".to_owned(), GIB)], ..MigrationData::default() };
        assert_eq!(DiskRoute::new(migration_data(), false).copied, ["vda"]);
        assert_eq!(DiskRoute::new(migration_data(), true).copied, Vec::<String>::new());
    }
}
