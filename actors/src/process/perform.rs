//! Executes a process: one `Next` at a time. Each outcome is noted in memory before the next action is planned.
//! [`RecordWait`] says when outcomes are written to the log.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Meta, Revision};
use chronova_events::ids::{HostId, ProcessId, RequestId};
use chronova_events::process::{Process, RunningProcess};
use chronova_events::store::StoreError;
use chronova_projections::processes::UnfinishedProcess;
use tokio::time::{Instant, Sleep};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::commands::{ProcessCommand, ProcessReject, ProcessRoot};
use super::context::StepContext;
use super::definition::{Definition, StepError, StepRun};
use super::failed_step::{FailedStep, FailedStepEnd};
use super::plan::{Next, plan};
use super::unwritten::{RecordWait, Unwritten, goes_well};
use super::{definition_of, interference, need_of};
use crate::aggregate::CommandError;
use crate::coordination::running_processes::RunningGuard;

/// The most records of one stuck step. Further failures are only logged.
const STUCK_RECORDS: u32 = 3;

/// Executes `pending` to its end. Returns before the end only if the log has no record of the process, or if a record
/// names a step that this version does not know. `fresh`: no earlier run of the process can have done or recorded
/// anything.
pub async fn perform(context: Arc<StepContext>, pending: UnfinishedProcess, guard: &RunningGuard, fresh: bool) {
    let meta = pending.meta.by_process(pending.process, Some(pending.asked_by));
    let definition = definition_of(&pending.task);
    let keeper = Arc::clone(&context);
    let _images = keeper.image_holds.of(pending.process);
    let mut performance = ProcessExecution {
        process: pending.process,
        definition,
        meta,
        asked_by: pending.meta,
        guard,
        tries: 0,
        known: fresh.then_some(Process::Absent),
        seen: Revision::NONE,
        wait: RecordWait::of(&pending.task),
        unwritten: None,
        must_write: false,
        patience: None,
        unswept: !fresh && pending.task.records_at_end() && definition.undoes,
        context,
    };
    let request_id = performance.meta.request_id.as_ref().map(RequestId::as_str);
    let process = tracing::field::display(pending.process);
    let span =
        tracing::info_span!(target: "spans", parent: None, "process", kind = definition.name, process, request_id);
    let execution = async {
        performance.begin(ProcessCommand::Start { process: pending.process, task: pending.task }).await;
        while performance.advance().await {}
    };
    execution.instrument(span).await;
}

struct ProcessExecution<'a> {
    context: Arc<StepContext>,
    process: ProcessId,
    definition: &'static Definition,
    meta: Arc<Meta>,
    /// The metadata of the event that asked for the process.
    asked_by: Arc<Meta>,
    /// Tells when another process asks for the records of this process.
    guard: &'a RunningGuard,
    /// Failed attempts of the current step.
    tries: u32,
    /// The state in the log, as far as this run knows. Another writer may append to the process.
    known: Option<Process>,
    /// The revision of the newest record.
    seen: Revision,
    wait: RecordWait,
    /// The records that wait, and the state after them.
    unwritten: Option<Unwritten>,
    /// Whether an append failed, so that the waiting records must be in the log before the next step.
    must_write: bool,
    /// Elapses when records have waited for too long.
    patience: Option<Pin<Box<Sleep>>>,
    /// Whether this run must still undo steps that an earlier run may have done without a record.
    unswept: bool,
}

impl ProcessExecution<'_> {
    /// Notes the beginning, if the log does not have it.
    async fn begin(&mut self, start: ProcessCommand) {
        let state = loop {
            match self.state().await {
                Ok(state) => break state,
                Err(error) => {
                    tracing::debug!(process = %self.process, %error, "starting a process failed, retrying");
                    self.pause().await;
                }
            }
        };
        match state {
            Process::Absent => self.write(start).await,
            // An earlier run recorded a failure, so everything is recorded from now on.
            Process::Running(_) if matches!(self.wait, RecordWait::UntilFailure { .. }) => {
                self.wait = RecordWait::Nothing;
            }
            Process::Running(_) | Process::Finished { .. } => {}
        }
        self.tries = 0;
    }

    /// Executes one `Next`; returns whether there is more to do.
    async fn advance(&mut self) -> bool {
        if self.must_write && !self.flush_or_pause().await {
            return true;
        }
        let running = match self.state().await {
            Ok(Process::Running(running)) => *running,
            Ok(Process::Finished { .. }) => return false,
            Ok(Process::Absent) => {
                tracing::error!(process = %self.process, "a process was started, but its stream has no record");
                return false;
            }
            Err(error) => {
                tracing::debug!(process = %self.process, %error, "reading the record failed");
                self.pause().await;
                return true;
            }
        };
        if self.unswept && (running.failure.is_some() || running.called_off) {
            self.sweep(running).await;
            return true;
        }
        let next = plan(&self.definition.shape(&self.context.options), &running);
        match next {
            Next::Run(step) => self.run(step, running).await,
            Next::Undo(step) => self.undo(step, running).await,
            Next::Restart { excluded } => self.write(ProcessCommand::Restart { excluded }).await,
            Next::Finish(outcome) => {
                let work = self.work(running);
                match (self.definition.conclude)(&work, outcome).await {
                    Ok(()) => self.write(ProcessCommand::Finish { outcome }).await,
                    Err(error) => self.stuck("conclude", &work.running, &error).await,
                }
            }
            Next::Stuck(step) => {
                tracing::error!(process = %self.process, step, "this version does not know the step");
                return false;
            }
        }
        true
    }

    /// Undoes the steps that an earlier run may have done without a record, last first. The plan undoes the recorded
    /// steps.
    async fn sweep(&mut self, running: RunningProcess) {
        let is_planned =
            |name: &str| running.is_done(name) || running.failure.as_ref().is_some_and(|failure| failure.step == name);
        let unplanned: Vec<_> = self.definition.steps.iter().rev().filter(|step| !is_planned(step.name)).collect();
        let work = self.work(running);
        for step in unplanned {
            if let Err(error) = interference::undo(self.definition.name, step, &work).await {
                return self.stuck(step.name, &work.running, &error).await;
            }
        }
        self.unswept = false;
        self.tries = 0;
    }

    /// Whether the process should wait because its host has not answered since start-up. If no host is selected yet,
    /// the process waits while any host of the fleet has not answered. It waits instead of failing, because the host
    /// may answer soon.
    fn awaits(&self, host: Option<HostId>) -> bool {
        let fleet = &self.context.fleet;
        self.context.views.hosts.read(|hosts| match host {
            Some(host) => hosts.get(host).is_some_and(|known| fleet.is_unheard(&known.uri)),
            None => fleet.awaits_some() && hosts.all().any(|known| fleet.is_unheard(&known.uri)),
        })
    }

    /// The state of the process. It is read from the log only if the records of this run do not already give it.
    async fn state(&mut self) -> Result<Process, StoreError> {
        if let Some(Unwritten { state, .. }) = &self.unwritten {
            return Ok(state.clone());
        }
        if let Some(known) = &self.known {
            return Ok(known.clone());
        }
        let process = self.context.gateway.look::<ProcessRoot>(&self.process).await?;
        // If another writer appends in between, the next append has an unexpected revision, and the state is read
        // again.
        Ok(self.known.insert(process).clone())
    }

    /// Runs a step or its undo. Meanwhile writes the records that have waited for too long, or that another process
    /// asks for.
    async fn attend<T>(&mut self, work: impl Future<Output = T>) -> T {
        let (mut work, guard) = (pin!(work), self.guard);
        loop {
            let waits = self.waits();
            let patience = async {
                match &mut self.patience {
                    Some(patience) if waits => patience.await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = guard.rung() => self.wait = RecordWait::Nothing,
                () = patience => {}
            }
            self.patience = None;
            // If the log does not accept the records now, they are written before the next step.
            let _ = self.flush().await;
        }
    }

    /// Writes the records that wait, so that the log shows the progress of the process.
    async fn show_records(&mut self) {
        if self.waits() {
            self.wait = RecordWait::Nothing;
            // If the log does not accept the records now, they are written before the next step.
            let _ = self.flush().await;
        }
    }

    /// Whether the next append would write waiting records.
    fn waits(&self) -> bool {
        let waiting = self.unwritten.as_ref().is_some_and(|unwritten| !unwritten.records.is_empty());
        waiting && !matches!(self.wait, RecordWait::UntilFailure { .. })
    }

    async fn run(&mut self, name: &'static str, running: RunningProcess) {
        let Some(step) = self.definition.step(name) else { return };
        let host = running.host().map(|(host, _)| host);
        let work = self.work(running);
        let begun = std::time::Instant::now();
        // A refusal before the first step leaves nothing to undo.
        let first = self.definition.steps.first().is_some_and(|first| first.name == name);
        let able = if first { host_is_able(&work).await } else { Ok(()) };
        let outcome = match able {
            Ok(()) => {
                let span = tracing::info_span!(target: "spans", "step", step = name, error = Empty);
                let work = interference::run(self.definition.name, step, &work).instrument(span.clone());
                self.attend(work).await.inspect_err(|error| tell(&span, error))
            }
            Err(refusal) => Err(refusal),
        };
        let milliseconds = begun.elapsed().as_millis();
        tracing::debug!(process = %self.process, kind = self.definition.name, step = name, milliseconds, "ran a step");
        match outcome {
            Ok(output) => self.write(ProcessCommand::RecordDone { step: name.to_owned(), output }).await,
            Err(error) if !self.definition.undoes => self.stuck(name, &work.running, &error).await,
            Err(error @ StepError::Again(_))
                if self.tries + 1 < self.context.options.step_tries || self.awaits(host) =>
            {
                self.failed_step(name, &work.running, &error).log(FailedStepEnd::Retried);
                self.show_records().await;
                self.pause().await;
            }
            Err(error) => {
                self.failed_step(name, &work.running, &error).log(FailedStepEnd::GivenUp);
                self.write(failed(name, host, &error)).await;
            }
        }
    }

    async fn undo(&mut self, name: &'static str, running: RunningProcess) {
        let Some(step) = self.definition.step(name) else { return };
        let work = self.work(running);
        let span = tracing::info_span!(target: "spans", "undo", step = name, error = Empty);
        let undo = interference::undo(self.definition.name, step, &work).instrument(span.clone());
        match self.attend(undo).await.inspect_err(|error| tell(&span, error)) {
            Ok(()) => self.write(ProcessCommand::RecordUndone { step: name.to_owned() }).await,
            Err(error) => self.stuck(name, &work.running, &error).await,
        }
    }

    /// Records a stuck step, so that operators see it. The step is retried until it succeeds.
    async fn stuck(&mut self, step: &'static str, running: &RunningProcess, error: &StepError) {
        let patient = matches!(error, StepError::Again(_)) && self.tries + 1 < self.context.options.step_tries;
        if !patient && running.stuck < STUCK_RECORDS {
            self.failed_step(step, running, error).log(FailedStepEnd::Stuck);
            let record = ProcessCommand::RecordStuck { step: step.to_owned(), reason: error.fault().details };
            if let Err(error) = self.record(record).await {
                tracing::warn!(process = %self.process, %error, "recording a stuck step failed");
            }
        } else {
            self.failed_step(step, running, error).log(FailedStepEnd::Retried);
        }
        self.pause().await;
    }

    /// Notes the outcome, and writes its record unless the record may wait. If the log does not accept the record now,
    /// the record is written before the next step.
    async fn write(&mut self, command: ProcessCommand) {
        match self.record(command).await {
            Ok(()) => self.tries = 0,
            Err(error) => {
                tracing::debug!(process = %self.process, %error, "recording an outcome failed, retrying");
                self.pause().await;
            }
        }
    }

    async fn flush_or_pause(&mut self) -> bool {
        let written = self.flush().await;
        if let Err(error) = &written {
            tracing::debug!(process = %self.process, %error, "recording an outcome failed, retrying");
            self.pause().await;
        } else {
            self.tries = 0;
        }
        written.is_ok()
    }

    async fn record(&mut self, command: ProcessCommand) -> Result<(), StepError> {
        let waits = self.wait.admits(&command);
        if self.wait.drops_at(&command) && !waits {
            self.unwritten = None;
            return Ok(self.append(command, None).await?);
        }
        if !goes_well(&command) && self.wait != RecordWait::Beginning {
            self.wait = RecordWait::Nothing;
        }
        let at = self.context.clock.now();
        let Some(mut unwritten) = self.unwritten.take().or_else(|| self.known.take().map(Unwritten::after)) else {
            return Ok(self.append(command, None).await?);
        };
        unwritten.note(command, at).map_err(CommandError::Rejected)?;
        self.unwritten = Some(unwritten);
        if waits {
            let pause = self.context.options.records_wait;
            self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + pause)));
            return Ok(());
        }
        self.flush().await
    }

    /// Writes all records that are not in the log, in one append.
    async fn flush(&mut self) -> Result<(), StepError> {
        let Some(unwritten) = self.unwritten.take() else { return Ok(()) };
        self.must_write = false;
        if unwritten.records.is_empty() {
            self.known = Some(unwritten.state);
            return Ok(());
        }
        let written = self.append(ProcessCommand::Several(unwritten.records.clone()), Some(&unwritten)).await;
        // After a refusal, the log has other records, and the process continues from those.
        if let Err(CommandError::Unavailable(_)) = &written {
            self.unwritten = Some(unwritten);
            self.must_write = true;
        }
        Ok(written?)
    }

    /// Appends to the log. `after`: the state to which the records lead, if nobody else writes.
    async fn append(
        &mut self,
        command: ProcessCommand,
        after: Option<&Unwritten>,
    ) -> Result<(), CommandError<ProcessReject>> {
        self.known = None;
        self.patience = None;
        let gateway = &self.context.gateway;
        let committed = gateway.send::<ProcessRoot>(&self.process, command, Arc::clone(&self.meta)).await?;
        // The state is known only if nobody else appended in between. Another process may have cancelled this process.
        if let Some(after) = after
            && committed.events.len() as u64 == after.events
            && Revision(self.seen.0 + after.events) == committed.revision
        {
            self.known = Some(after.state.clone());
        }
        self.seen = committed.revision;
        Ok(())
    }

    fn failed_step<'a>(
        &'a self,
        step: &'static str,
        running: &'a RunningProcess,
        error: &'a StepError,
    ) -> FailedStep<'a> {
        FailedStep { process: self.process, kind: self.definition.name, step, running, meta: &self.meta, error }
    }

    fn work(&self, running: RunningProcess) -> StepRun {
        let (meta, asked_by) = (Arc::clone(&self.meta), Arc::clone(&self.asked_by));
        StepRun { context: Arc::clone(&self.context), running, meta, asked_by }
    }

    async fn pause(&mut self) {
        let options = &self.context.options;
        let factor = 1_u32 << self.tries.min(16);
        let pause: Duration = options.retry_base.saturating_mul(factor).min(options.retry_cap);
        self.tries = self.tries.saturating_add(1);
        tokio::time::sleep(pause).await;
    }
}

/// Records in the step's span why the step failed.
fn tell(span: &Span, error: &StepError) {
    span.record("error", tracing::field::display(error));
}

fn failed(step: &str, host: Option<HostId>, error: &StepError) -> ProcessCommand {
    let elsewhere = !matches!(error, StepError::Fatal(_));
    ProcessCommand::RecordFailed { step: step.to_owned(), elsewhere, host, fault: error.fault() }
}

/// Refuses a task that the driver of the server's host cannot do. If the server has no host, or the host has not
/// answered yet, the steps decide.
async fn host_is_able(work: &StepRun) -> Result<(), StepError> {
    let Some(need) = need_of(&work.running.task) else { return Ok(()) };
    let Some(placed) = work.server().await?.and_then(|server| server.placement) else { return Ok(()) };
    let Some(driver) = work.context.fleet.driver(placed.host) else { return Ok(()) };
    match need.is_offered_by(driver.as_ref()) {
        true => Ok(()),
        false => {
            let message = format!("Host {} cannot {}.", placed.hostname, need.words());
            Err(StepError::fatal(501, &message, need.refusal()))
        }
    }
}
