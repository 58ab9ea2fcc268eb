//! Moves a server to another host while its guest runs.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `claim_host` | hands what is held to the migration, chooses a destination and claims it | taking it back |
//! | `check_target` | asks the destination whether the guest can run there, and both how its disks get there | |
//! | `wait_turn` | waits until few enough others leave the same host | |
//! | `prepare_target` | networks, filters and, where they are copied, disks | removing them |
//! | `migrate` | has the hosts move the guest, and waits for what becomes of it | calling it back |
//!
//! The last step ends only when both hosts together leave no doubt where the guest is ([`super::crossing`]): it is never
//! guessed, and never given up on. Across, there is no way back: ports, claims and the source follow, tried until they have
//! ([`arrive`]). That is so, too, when a step is undone and the guest turns out to be at its destination: a server follows
//! its guest.

use std::time::Duration;

use chronova_events::ids::HostId;
use chronova_events::instance::{LiveProgress, LiveStage, Ongoing, Placed};
use chronova_events::process::{Outcome, Output};
use chronova_hypervisor::driver::DriverError;
use chronova_hypervisor::live::{Hasten, Journey, Luggage, Presence, Progress, Standing};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::crossing::{Seen, Verdict, judge};
use super::definition::{Definition, Step, StepError, Work};
use super::moving::{self, Subject};
use super::{build_volumes, guest, moved_volumes};
use crate::instance::live::LiveCommand;
use crate::instance::moving::MoveCommand;
use crate::scheduler::Request;
use crate::scheduler::placing::{Asked, NotPlaced, Seat, dice};

pub const DEFINITION: Definition = Definition {
    name: "live_migrate",
    steps: &[
        Step {
            name: "claim_host",
            run: |work| claim_host(work).boxed(),
            undo: Some(|work| release_host(work).boxed()),
        },
        Step { name: "check_target", run: |work| check_target(work).boxed(), undo: None },
        Step { name: "wait_turn", run: |work| wait_turn(work).boxed(), undo: None },
        Step {
            name: "prepare_target",
            run: |work| prepare_target(work).boxed(),
            undo: Some(|work| clear_target(work).boxed()),
        },
        Step { name: "migrate", run: |work| migrate(work).boxed(), undo: Some(|work| call_back(work).boxed()) },
    ],
    undoes: true,
    max_attempts: |options| options.max_attempts.max(1),
    conclude,
};

/// Looks at a guest that is called back before the step is begun anew.
const LOOKS: u32 = 250;
/// Pause between two looks while others are waited for.
const LOOK: Duration = Duration::from_millis(20);
/// Pause between two looks at a guest on its way, at first and at last.
const WATCH: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// What of a console is carried along.
const CONSOLE: usize = 1 << 20;
const GIB: u64 = 1 << 30;

fn conclude(work: &Work, outcome: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let process = work.running.process;
        work.house.departures.leave(process);
        let Some(subject) = mine(work).await? else { return Ok(()) };
        match outcome {
            Outcome::Succeeded => arrive(work, &subject).await,
            Outcome::Failed if subject.live().is_some_and(|live| live.abort) => {
                let reason = moving::fault(work).message;
                tell(work, LiveCommand::Stay { process, reason }).await
            }
            Outcome::Failed => {
                moving::record(work, MoveCommand::Fail { process, fault: moving::fault(work) }).await?;
                look_at_both(work, &subject);
                Ok(())
            }
            // Whoever called it off goes on with the server.
            Outcome::CalledOff => Ok(()),
        }
    }
    .boxed()
}

/// The server and this migration of it, whoever has the turn; `None` where it is over.
async fn mine(work: &Work) -> Result<Option<Subject>, StepError> {
    let subject = moving::subject(work).await?;
    Ok(subject.filter(|subject| subject.moving.migration == work.running.process))
}

/// The same as long as nobody has overtaken it and nobody wants it to end.
async fn wanted(work: &Work) -> Result<Subject, StepError> {
    let subject = moving::mine(work).await?;
    match subject.live().is_some_and(|live| live.abort) {
        true => Err(aborted()),
        false => Ok(subject),
    }
}

fn aborted() -> StepError {
    StepError::fatal(409, "The live migration was aborted.", "")
}

async fn tell(work: &Work, command: LiveCommand) -> Result<(), StepError> {
    moving::record(work, MoveCommand::Live(command)).await
}

async fn advance(work: &Work, stage: LiveStage) -> Result<(), StepError> {
    let command = LiveCommand::Advance { process: work.running.process, stage };
    moving::insist(work, MoveCommand::Live(command)).await.map(drop)
}

/// What the hosts told while the guest was on its way was not heeded.
fn look_at_both(work: &Work, subject: &Subject) {
    let ends = [Some(subject.moving.source.host), subject.moving.target.as_ref().map(|target| target.host)];
    for member in ends.into_iter().flatten().filter_map(|host| work.house.fleet.member(host)) {
        member.resync.notify_one();
    }
}

// ------------------------------------------------------------------------------------------------- a host to go to

async fn claim_host(work: &Work) -> Result<Output, StepError> {
    let subject = wanted(work).await?;
    let output = |placed: &Placed| Output::Host { host: placed.host, hostname: placed.hostname.clone() };
    // Chosen before a crash: claimed, too.
    if let Some(target) = subject.moving.target.as_ref().filter(|target| target.attempt == work.running.attempt) {
        return Ok(output(target));
    }
    // Nova's `ComputeServiceUnavailable`: whoever is to let the guest go must be there.
    if !work.host_answers(subject.moving.source.host)? {
        let message = format!("Service is unavailable at this time: host {} is down.", subject.moving.source.hostname);
        return Err(StepError::fatal(400, &message, ""));
    }
    moving::disks_at_rest(&subject.server)?;
    moving::set_aside(work, work.running.process).await?;
    match work.house.scheduler.place(&work.house, &asked(work, &subject)).await {
        Ok(seat) => take_seat(work, seat).await.map(|target| output(&target)),
        Err(NotPlaced::NoHost { reasons, lost }) => {
            let details = format!("{} (attempt {})", reasons.counts(), work.running.attempt);
            let message = reasons.message();
            let process = work.running.process;
            let scheduled = Box::new(reasons.record(process, work.running.attempt, &[], lost));
            moving::record(work, MoveCommand::Aim { process, target: None, scheduled }).await?;
            Err(StepError::fatal(500, &message, &details))
        }
        Err(NotPlaced::NotNow(reason)) => Err(StepError::Again(reason)),
    }
}

fn asked(work: &Work, subject: &Subject) -> Asked {
    let (house, server, moving) = (&work.house, &subject.server, &subject.moving);
    let mut request = Request::of_build(&server.request, &work.running.excluded, &house.options.availability_zone);
    let forced = subject.live().is_some_and(|live| live.forced);
    request.forced_host = moving.host.clone().filter(|_| forced);
    request.requested_host = moving.host.clone().filter(|_| !forced);
    request.image = server.hardware_image().cloned();
    if server.is_volume_backed() {
        // The root disk takes no room on the host.
        request.flavor.root_gib = 0;
    }
    request.dice = dice();
    request.excluded.insert(moving.source.host);
    Asked {
        request,
        server: work.instance_id(),
        project: server.request.project.clone(),
        user: server.request.user.clone(),
        process: work.running.process,
        attempt: work.running.attempt,
        reservation: server.request.reservation.clone(),
        batch: 1,
        launch_index: 0,
        meta: work.meta.clone(),
    }
}

async fn take_seat(work: &Work, seat: Seat) -> Result<Placed, StepError> {
    let Seat { chosen, scheduled, ticket } = seat;
    let target = Placed {
        process: work.running.process,
        host: chosen.host,
        hostname: chosen.hostname,
        attempt: work.running.attempt,
        availability_zone: chosen.zone.unwrap_or_else(|| work.house.options.availability_zone.clone()),
    };
    let (process, scheduled) = (work.running.process, Box::new(scheduled));
    let aim = MoveCommand::Aim { process, target: Some(target.clone()), scheduled };
    ticket.placed(moving::insist(work, aim).await?);
    Ok(target)
}

async fn release_host(work: &Work) -> Result<(), StepError> {
    work.house.departures.leave(work.running.process);
    let Some(subject) = mine(work).await? else { return Ok(()) };
    moving::take_back(work, &subject.moving).await?;
    let Some(target) = &subject.moving.target else { return Ok(()) };
    let reason = work.running.failure.as_ref().map_or("called off".to_owned(), |f| f.fault.message.clone());
    moving::record(work, MoveCommand::GiveUp { process: work.running.process, host: target.host, reason }).await
}

// ------------------------------------------------------------------------------------------------ before it sets out

/// How the guest's disks get there.
struct Route {
    /// The guest's own names of the disks that are copied.
    copied: Vec<String>,
    /// What decides how long it may take.
    data_gib: u64,
}

async fn check_target(work: &Work) -> Result<Output, StepError> {
    let subject = wanted(work).await?;
    examine(work, &subject).await?;
    advance(work, LiveStage::Queued).await?;
    Ok(Output::Nothing)
}

/// Where only this destination will do, a refusal is final; else another is tried.
fn unsuitable(subject: &Subject, message: &str) -> StepError {
    let error = StepError::fatal(400, message, "");
    match (&subject.moving.host, error) {
        (None, StepError::Fatal(fault)) => StepError::Elsewhere(fault),
        (_, error) => error,
    }
}

async fn examine(work: &Work, subject: &Subject) -> Result<(), StepError> {
    let (source, target) = (&subject.moving.source, subject.target()?);
    let luggage = work.driver(source.host)?.luggage(work.instance_id()).await.map_err(moving::only_here)?;
    if let Some(reason) = &luggage.bound {
        return Err(StepError::fatal(409, &format!("The server cannot be live-migrated: {reason}."), ""));
    }
    let destination = work.driver(target.host)?;
    let obstacles = destination.obstacles(&luggage).await?;
    if !obstacles.is_empty() {
        let message = format!("Migration pre-check error: host {}: {}", target.hostname, obstacles.join("; "));
        return Err(unsuitable(subject, &message));
    }
    let shared = shares(work, source.host, target.host).await? || shares(work, target.host, source.host).await?;
    let block = subject.live().and_then(|live| live.block);
    // Nova's `InvalidLocalStorage` and `InvalidSharedStorage`.
    let reason = match (block, shared, luggage.disks.is_empty()) {
        (Some(true), true, false) => Some("Block migration can not be used with shared storage."),
        (Some(false), false, false) => Some("Live migration can not be used without shared storage."),
        _ => None,
    };
    if let Some(reason) = reason {
        let kind = if shared { "local" } else { "shared" };
        let message = format!("{} is not on {kind} storage: {reason}", source.hostname);
        return Err(unsuitable(subject, &message));
    }
    if build_volumes::only_host(work, &subject.server).await?.is_some() {
        let message = "Migration pre-check error: the server's volumes are on storage that its host alone reaches.";
        return Err(StepError::fatal(400, message, ""));
    }
    Ok(())
}

impl Route {
    fn new(luggage: Luggage, shared: bool) -> Self {
        let of_memory = luggage.memory_mib.div_ceil(1024).max(2);
        let of_disks: u64 = luggage.disks.iter().map(|(_, bytes)| bytes.div_ceil(GIB).max(2)).sum();
        let copied = if shared { vec![] } else { luggage.disks.into_iter().map(|(name, _)| name).collect() };
        Self { data_gib: of_memory + if shared { 0 } else { of_disks }, copied }
    }
}

/// Whether what is on `host`'s storage is on `other`'s, too. `host` is asked anew each time: what it answers decides
/// whether disks are removed.
async fn shares(work: &Work, host: HostId, other: HostId) -> Result<bool, StepError> {
    let sharers = work.driver(host)?.sharers().await.map_err(|error| StepError::Again(error.to_string()))?;
    work.house.fleet.note_sharers(host, sharers.clone());
    Ok(sharers.contains(&other))
}

async fn wait_turn(work: &Work) -> Result<Output, StepError> {
    let limit = work.house.options.live.per_host;
    loop {
        let subject = wanted(work).await?;
        if work.house.departures.may_go(subject.moving.source.host, work.running.process, limit) {
            return Ok(Output::Nothing);
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn prepare_target(work: &Work) -> Result<Output, StepError> {
    let subject = wanted(work).await?;
    advance(work, LiveStage::Preparing).await?;
    let host = subject.target()?.host;
    let copied = !shares(work, host, subject.moving.source.host).await?;
    match copied {
        true => guest::prepare_from(work, subject.moving.source.host, host, &subject.server).await?,
        false => guest::connect(work, host, &subject.server).await?,
    }
    let spec = guest::spec(work, &subject.server, None).await?;
    work.driver(host)?.await_guest(&spec, copied).await?;
    Ok(Output::Nothing)
}

/// What was made at a destination that the guest does not go to. Where the storage is shared, nothing was.
async fn clear_target(work: &Work) -> Result<(), StepError> {
    let Some(subject) = mine(work).await? else { return Ok(()) };
    let Some(target) = &subject.moving.target else { return Ok(()) };
    if !work.host_answers(target.host)? {
        return Ok(());
    }
    match shares(work, target.host, subject.moving.source.host).await? {
        true => forget(work, target).await,
        false => guest::destroy(work, target.host).await,
    }
}

async fn forget(work: &Work, at: &Placed) -> Result<(), StepError> {
    if !work.host_answers(at.host)? {
        return Ok(());
    }
    match work.driver(at.host)?.forget(work.instance_id()).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(()),
        Err(error) => Err(StepError::Again(error.to_string())),
    }
}

// --------------------------------------------------------------------------------------------------------- on its way

/// Both ends of a move, as they were just seen.
struct Ends {
    source: Option<Standing>,
    verdict: Verdict,
}

async fn look(work: &Work, subject: &Subject) -> Result<Ends, StepError> {
    let target = subject.target()?;
    let (source, seen_source) = see(work, &subject.moving.source).await;
    let (_, seen_target) = see(work, target).await;
    Ok(Ends { source, verdict: judge(seen_source, seen_target) })
}

async fn see(work: &Work, end: &Placed) -> (Option<Standing>, Seen) {
    let answers = work.host_answers(end.host);
    let driver = match (answers, work.house.fleet.driver(end.host)) {
        (Ok(true), Some(driver)) => driver,
        (Ok(false), _) => return (None, Seen::Down),
        _ => return (None, Seen::Silent),
    };
    match driver.standing(work.instance_id()).await {
        Ok(standing) => {
            let seen = Seen::from(&standing);
            (Some(standing), seen)
        }
        Err(_) => (None, Seen::Silent),
    }
}

/// Ends only when there is no doubt where the guest is.
async fn migrate(work: &Work) -> Result<Output, StepError> {
    let mut watch = Watch::new();
    loop {
        let subject = match mine(work).await {
            Ok(Some(subject)) => subject,
            Ok(None) => return Err(StepError::fatal(409, "The migration is over.", "")),
            Err(error) => {
                tracing::debug!(server = %work.instance_id(), %error, "a migration cannot be looked up now");
                tokio::time::sleep(WATCH.1).await;
                continue;
            }
        };
        let ends = look(work, &subject).await?;
        match ends.verdict {
            Verdict::AtTarget => return Ok(Output::Nothing),
            Verdict::AtSource => {
                // Why it should not set out, or set out again.
                wanted(work).await?;
                watch.set_out(work, &subject, ends.source.as_ref()).await?;
            }
            Verdict::Underway => {
                if let Err(error) = watch.look_after(work, &subject, ends.source.as_ref()).await {
                    tracing::debug!(server = %work.instance_id(), %error, "a guest on its way is not looked after now");
                }
            }
            Verdict::Twice => {
                if let Err(error) = moving::pull(work, subject.moving.source.host).await {
                    tracing::error!(server = %work.instance_id(), %error, "a guest that runs twice cannot be stopped yet");
                }
            }
            Verdict::Torn => mend(work, &subject).await,
            Verdict::Unknown => tracing::debug!(server = %work.instance_id(), "nobody knows yet where the guest is"),
        }
        watch.pause(work, &subject, ends.verdict).await;
    }
}

/// Neither half of a guest that post-copy tore apart can go on: it starts anew where its disks are.
async fn mend(work: &Work, subject: &Subject) {
    tracing::error!(server = %work.instance_id(), "the hosts lost each other in post-copy; the guest starts anew");
    let anew = async {
        let target = subject.target()?;
        moving::pull(work, subject.moving.source.host).await?;
        moving::pull(work, target.host).await?;
        forget(work, &subject.moving.source).await?;
        guest::install(work, target.host, &subject.server, true).await
    };
    if let Err(error) = anew.await {
        tracing::warn!(server = %work.instance_id(), %error, "a guest torn apart cannot be started anew yet");
    }
}

/// What one run of the step remembers between two looks.
struct Watch {
    route: Option<Route>,
    set_out: bool,
    hastened: bool,
    called_back: bool,
    pause: Duration,
    /// When progress is worth an event again; doubles, so that a migration of any length leaves few.
    report_at: Duration,
    since: tokio::time::Instant,
    /// Steps of the downtime given so far.
    steps: u64,
}

impl Watch {
    fn new() -> Self {
        Self {
            route: None,
            set_out: false,
            hastened: false,
            called_back: false,
            pause: WATCH.0,
            report_at: Duration::from_secs(1),
            since: tokio::time::Instant::now(),
            steps: 0,
        }
    }

    /// Short at first, and over as soon as the source knows of the end.
    async fn pause(&mut self, work: &Work, subject: &Subject, verdict: Verdict) {
        match (work.house.fleet.driver(subject.moving.source.host), verdict) {
            (Some(source), Verdict::Underway | Verdict::AtSource) => {
                source.until_departed(work.instance_id(), self.pause).await;
                tokio::time::sleep(self.pause / 10).await;
            }
            _ => tokio::time::sleep(self.pause).await,
        }
        self.pause = (self.pause * 2).min(WATCH.1);
    }

    /// The guest is at its source: begins, or says why not.
    async fn set_out(&mut self, work: &Work, subject: &Subject, source: Option<&Standing>) -> Result<(), StepError> {
        let failed = source.and_then(|standing| standing.failed.as_ref());
        if let Some((_, reason)) = failed.filter(|(migration, _)| *migration == work.running.process) {
            return Err(StepError::fatal(500, &format!("Live migration failure: {reason}"), reason));
        }
        if self.set_out {
            return Err(StepError::fatal(500, "Live migration failure: the host gave it up.", ""));
        }
        if !source.is_some_and(|standing| matches!(standing.presence, Presence::Running | Presence::Paused)) {
            return Err(StepError::fatal(500, "Live migration failure: the guest is not running.", ""));
        }
        let journey = self.journey(work, subject).await?;
        advance(work, LiveStage::Running).await?;
        self.since = tokio::time::Instant::now();
        match work.driver(subject.moving.source.host)?.depart(work.instance_id(), &journey).await {
            Ok(()) => self.set_out = true,
            // It may have begun all the same: both are asked.
            Err(error) if error.is_transient() => {
                tracing::warn!(server = %work.instance_id(), %error, "whether a live migration began is not known");
            }
            Err(error) => return Err(moving::only_here(error)),
        }
        self.pause = WATCH.0;
        Ok(())
    }

    async fn journey(&mut self, work: &Work, subject: &Subject) -> Result<Journey, StepError> {
        let options = &work.house.options.live;
        let target = subject.target()?;
        let destination = work.driver(target.host)?;
        let named = match &options.interface {
            Some(name) if options.inbound_addr.is_none() => destination.interface_address(name).await?,
            _ => None,
        };
        // One configuration serves all hosts: `%s` stands for the host's name.
        let own = options.inbound_addr.as_ref().map(|address| address.replace("%s", &target.hostname)).or(named);
        let address = own.clone().or_else(|| destination.remote_address()).unwrap_or_else(|| target.hostname.clone());
        let luggage = work.driver(subject.moving.source.host)?.luggage(work.instance_id()).await;
        let shared = work.house.fleet.share(subject.moving.source.host, target.host);
        let route = Route::new(luggage.map_err(moving::only_here)?, shared);
        let journey = Journey {
            migration: work.running.process,
            peer: destination.peer_uri(options.scheme.as_deref(), options.uri.as_deref(), &address),
            stream: own.map(|own| format!("{}://{own}", options.scheme.as_deref().unwrap_or("tcp"))),
            copied: route.copied.clone(),
            tls: options.native_tls,
            // With both, post-copy it is.
            auto_converge: options.permit_auto_converge && !options.permit_post_copy,
            post_copy: options.permit_post_copy,
            bandwidth: options.bandwidth,
        };
        self.route = Some(route);
        Ok(journey)
    }

    /// The guest is on its way.
    async fn look_after(&mut self, work: &Work, subject: &Subject, source: Option<&Standing>) -> Result<(), StepError> {
        let host = subject.moving.source.host;
        work.house.departures.goes_on(host, work.running.process);
        let Some(standing) = source.filter(|standing| standing.departing.is_some()) else { return Ok(()) };
        self.report(work, standing.departing.unwrap_or_default()).await?;
        let driver = work.driver(host)?;
        let (abort, hasten) = subject.live().map_or((false, false), |live| (live.abort, live.hasten));
        let overtaken = !moving::is_mine(work, &subject.server);
        if (abort || overtaken || self.is_late(work, subject, false)) && !standing.in_post_copy {
            if !self.called_back {
                self.called_back = driver.call_back(work.instance_id()).await.is_ok();
            }
            if !abort && !overtaken {
                self.tell_late(work).await?;
            }
            return Ok(());
        }
        if (hasten || self.is_late(work, subject, true)) && !self.hastened && !standing.in_post_copy {
            self.hastened = true;
            let how = if work.house.options.live.permit_post_copy { Hasten::PostCopy } else { Hasten::Pause };
            if let Err(error) = driver.hasten(work.instance_id(), how).await {
                self.hastened = false;
                tracing::warn!(server = %work.instance_id(), %error, "a live migration cannot be hastened");
            }
        }
        self.widen_downtime(work, subject).await;
        Ok(())
    }

    async fn report(&mut self, work: &Work, progress: Progress) -> Result<(), StepError> {
        let progress = LiveProgress {
            memory_total: progress.memory_total,
            memory_processed: progress.memory_processed,
            memory_remaining: progress.memory_remaining,
            disk_total: progress.disk_total,
            disk_processed: progress.disk_processed,
            disk_remaining: progress.disk_remaining,
        };
        let process = work.running.process;
        work.house.departures.tell(process, progress);
        if self.since.elapsed() < self.report_at {
            return Ok(());
        }
        self.report_at = self.since.elapsed() * 2;
        tell(work, LiveCommand::Progress { process, progress }).await
    }

    /// How long it has been on its way, by the log: a crash in between does not give it more time.
    fn elapsed(work: &Work, subject: &Subject) -> Duration {
        let since = subject.live().and_then(|live| live.running_since);
        let micros = since.map_or(0, |since| work.house.clock.now().0.saturating_sub(since.0));
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    fn data_gib(&self, subject: &Subject) -> u64 {
        let memory = subject.server.request.flavor.memory_mib.div_ceil(1024).max(2);
        self.route.as_ref().map_or(memory, |route| route.data_gib)
    }

    /// `live_migration_completion_timeout`, seconds for each GiB; and what is done then.
    fn is_late(&self, work: &Work, subject: &Subject, forces: bool) -> bool {
        let options = &work.house.options.live;
        let most = options.completion_timeout.saturating_mul(self.data_gib(subject));
        most > 0 && options.force_at_timeout == forces && Self::elapsed(work, subject).as_secs() >= most
    }

    async fn tell_late(&self, work: &Work) -> Result<(), StepError> {
        let seconds = self.since.elapsed().as_secs();
        tracing::warn!(server = %work.instance_id(), seconds, "a live migration did not complete in time");
        tell(work, LiveCommand::AbortLate { process: work.running.process }).await
    }

    /// Nova's `downtime_steps`: the guest may stand still a little longer with every step.
    async fn widen_downtime(&mut self, work: &Work, subject: &Subject) {
        let options = &work.house.options.live;
        let (most, steps) = (options.downtime, options.downtime_steps.max(1));
        let delay = options.downtime_delay.saturating_mul(self.data_gib(subject)).max(1);
        if self.steps > steps || Self::elapsed(work, subject).as_secs() < delay.saturating_mul(self.steps) {
            return;
        }
        let first = most / steps;
        let allowed = first + self.steps * most.saturating_sub(first) / steps;
        self.steps += 1;
        if let Ok(driver) = work.driver(subject.moving.source.host)
            && let Err(error) = driver.allow_downtime(work.instance_id(), allowed).await
        {
            tracing::debug!(server = %work.instance_id(), %error, "the downtime of a live migration stays as it is");
        }
    }
}

// ------------------------------------------------------------------------------------------------------------ the ends

/// Undoes `migrate`: the guest is to be at its source and not on its way. One that is across stays there, and its server
/// follows it.
async fn call_back(work: &Work) -> Result<(), StepError> {
    for _ in 0..LOOKS {
        let Some(subject) = mine(work).await? else { return Ok(()) };
        if subject.moving.target.is_none() {
            return Ok(());
        }
        let doomed = matches!(subject.server.ongoing, Some(Ongoing::Delete { .. }));
        match look(work, &subject).await?.verdict {
            Verdict::AtSource => return Ok(()),
            Verdict::AtTarget => return arrive(work, &subject).await,
            // Whoever deletes the server removes the guest from wherever it is.
            Verdict::Unknown | Verdict::Torn if doomed => return Ok(()),
            Verdict::Underway => {
                if let Ok(driver) = work.driver(subject.moving.source.host) {
                    let _ = driver.call_back(work.instance_id()).await;
                    driver.until_departed(work.instance_id(), WATCH.0).await;
                }
            }
            Verdict::Twice => moving::pull(work, subject.moving.source.host).await?,
            Verdict::Torn => mend(work, &subject).await,
            Verdict::Unknown => {}
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(StepError::Again("nobody knows yet where the guest is".to_owned()))
}

/// The guest is at its destination: everything else follows. Each part may be done again.
async fn arrive(work: &Work, subject: &Subject) -> Result<(), StepError> {
    let (source, target) = (&subject.moving.source, subject.target()?);
    let process = work.running.process;
    tell(work, LiveCommand::Advance { process, stage: LiveStage::Finishing }).await?;
    moving::bind(work, target).await?;
    moved_volumes::take_back(work, &subject.server, target).await?;
    wake(work, subject, target).await?;
    // A host that is down is cleared when it is back.
    if work.host_answers(source.host)? {
        match shares(work, source.host, target.host).await? {
            true => forget(work, source).await?,
            false => {
                carry_console(work, source, target).await;
                guest::destroy(work, source.host).await?;
            }
        }
    }
    moving::release(work, process).await?;
    tell(work, LiveCommand::Arrive { process }).await?;
    look_at_both(work, subject);
    Ok(())
}

/// A guest that was made to stand still so that it would get across goes on.
async fn wake(work: &Work, subject: &Subject, target: &Placed) -> Result<(), StepError> {
    let hastened = subject.live().is_some_and(|live| live.hasten);
    if !hastened || !subject.moving.was_active || !work.host_answers(target.host)? {
        return Ok(());
    }
    let driver = work.driver(target.host)?;
    let standing = driver.standing(work.instance_id()).await.map_err(|error| StepError::Again(error.to_string()))?;
    match standing.presence {
        Presence::Paused => {
            driver.unpause(work.instance_id()).await.map_err(|error| StepError::Again(error.to_string()))
        }
        _ => Ok(()),
    }
}

/// What the guest wrote at its source can still be read. Losing it is no reason to stop.
async fn carry_console(work: &Work, source: &Placed, target: &Placed) {
    let (Ok(from), Ok(to)) = (work.driver(source.host), work.driver(target.host)) else { return };
    let Ok(text) = from.console_log(work.instance_id(), CONSOLE).await else { return };
    if !text.is_empty()
        && let Err(error) = to.adopt_console(work.instance_id(), text).await
    {
        tracing::debug!(server = %work.instance_id(), %error, "a console log stays behind");
    }
}
