//! Executes a process: one `Next` at a time. Each outcome is recorded before the next one is planned.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Meta, Revision, Timestamp};
use chronova_events::fold::Fold as _;
use chronova_events::ids::{HostId, ProcessId};
use chronova_events::process::{Process, ProcessEvent, ProcessOutcome, RunningProcess};
use chronova_events::registry::NounEvent as _;
use chronova_events::store::StoreError;
use chronova_projections::processes::UnfinishedProcess;

use super::context::StepContext;
use super::decide::decide;
use super::definition::{Definition, StepError, StepRun};
use super::failed_step::{FailedStep, FailedStepEnd};
use super::plan::{Next, plan};
use super::{ProcessCommand, ProcessReject, ProcessRoot, definition_of, interference, need_of};
use crate::aggregate::CommandError;

/// The most records of one stuck step. Further failures are only logged.
const STUCK_RECORDS: u32 = 3;

/// Executes `pending` to its end. Returns early only if the process has no record, or if the record has a step that
/// this version does not know.
pub async fn perform(context: Arc<StepContext>, pending: UnfinishedProcess) {
    let meta = pending.meta.by_process(pending.process, Some(pending.asked_by));
    let definition = definition_of(&pending.task);
    let keeper = Arc::clone(&context);
    let _images = keeper.image_holds.of(pending.process);
    // If an earlier run of the control plane saw a failure, the process already has a record.
    let unwritten =
        (pending.task.records_only_failure() && matches!(pending.state, Process::Absent)).then(Unwritten::default);
    let mut performance = ProcessExecution {
        context,
        process: pending.process,
        definition,
        meta,
        tries: 0,
        known: None,
        seen: Revision::NONE,
        unwritten,
        ends_on_record: pending.task.asks_for_itself(),
    };
    let start = ProcessCommand::Start { process: pending.process, task: pending.task };
    while let Err(error) = performance.record(start.clone()).await {
        tracing::debug!(process = %performance.process, %error, "starting a process failed, retrying");
        performance.pause().await;
    }
    performance.tries = 0;
    while performance.advance().await {}
}

struct ProcessExecution {
    context: Arc<StepContext>,
    process: ProcessId,
    definition: &'static Definition,
    meta: Arc<Meta>,
    /// Failed attempts of the current step.
    tries: u32,
    /// The state after the newest record; `None` if it must be read from the log.
    known: Option<Process>,
    /// The revision of the newest record.
    seen: Revision,
    /// The state of a process that records only failures, while it has not failed.
    unwritten: Option<Unwritten>,
    /// Whether the end of the process is always recorded, because its beginning is.
    ends_on_record: bool,
}

/// The state and the commands that are not in the log.
#[derive(Default)]
struct Unwritten {
    state: Process,
    commands: Vec<ProcessCommand>,
    /// Whether a step has failed, so that everything is recorded from now on.
    in_trouble: bool,
}

impl ProcessExecution {
    /// Executes one `Next`; returns whether there is more to do.
    async fn advance(&mut self) -> bool {
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

    /// Whether the process's host has not answered since start-up; if no host is selected yet, whether this is true of
    /// any host. A host that has not answered yet is no reason to fail.
    fn awaits(&self, host: Option<HostId>) -> bool {
        let fleet = &self.context.fleet;
        self.context.views.hosts.read(|hosts| match host {
            Some(host) => hosts.get(host).is_some_and(|known| fleet.is_unheard(&known.uri)),
            None => hosts.all().any(|known| fleet.is_unheard(&known.uri)),
        })
    }

    /// The state. It is read from the log only if it does not follow from the records made here.
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

    async fn run(&mut self, name: &'static str, running: RunningProcess) {
        let Some(step) = self.definition.step(name) else { return };
        let host = running.host().map(|(host, _)| host);
        let work = self.work(running);
        let begun = std::time::Instant::now();
        // Nothing has been done before the first step.
        let first = self.definition.steps.first().is_some_and(|first| first.name == name);
        let able = if first { host_is_able(&work).await } else { Ok(()) };
        let outcome = match able {
            Ok(()) => interference::run(self.definition.name, step, &work).await,
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
        match interference::undo(self.definition.name, step, &work).await {
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

    /// Records the outcome. If the log does not accept it now, the process executes the same `Next` again, which is
    /// harmless.
    async fn write(&mut self, command: ProcessCommand) {
        match self.record(command).await {
            Ok(()) => self.tries = 0,
            Err(error) => {
                tracing::debug!(process = %self.process, %error, "recording an outcome failed, retrying");
                self.pause().await;
            }
        }
    }

    async fn record(&mut self, command: ProcessCommand) -> Result<(), StepError> {
        let goes_well = goes_well(&command) && self.unwritten.as_ref().is_some_and(|unwritten| !unwritten.in_trouble);
        if goes_well && self.ends_on_record && matches!(command, ProcessCommand::Finish { .. }) {
            self.unwritten = None;
        }
        if let Some(unwritten) = &mut self.unwritten {
            if goes_well {
                return unwritten.note(command, self.context.clock.now());
            }
            unwritten.in_trouble = true;
            for command in unwritten.commands.clone() {
                match self.append(command).await {
                    Ok(()) => {}
                    // The log already has a later record, so the process continues from there.
                    Err(CommandError::Rejected(_)) => {
                        self.unwritten = None;
                        return Ok(());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            // From here on, the log has the state of the process.
            self.unwritten = None;
        }
        Ok(self.append(command).await?)
    }

    async fn append(&mut self, command: ProcessCommand) -> Result<(), CommandError<ProcessReject>> {
        let known = self.known.take();
        let gateway = &self.context.gateway;
        let committed = gateway.send::<ProcessRoot>(&self.process, command, Arc::clone(&self.meta)).await?;
        let next = Revision(self.seen.0 + committed.events.len() as u64);
        self.seen = committed.revision;
        // The known state follows only from the records made here. Another writer may have cancelled the process.
        if let Some(mut process) = known
            && next == committed.revision
        {
            for event in committed.events.iter().filter_map(|event| ProcessEvent::of(event)) {
                process.evolve(event, self.context.clock.now());
            }
            self.known = Some(process);
        }
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
        StepRun { context: Arc::clone(&self.context), running, meta: Arc::clone(&self.meta) }
    }

    async fn pause(&mut self) {
        let options = &self.context.options;
        let factor = 1_u32 << self.tries.min(16);
        let pause: Duration = options.retry_base.saturating_mul(factor).min(options.retry_cap);
        self.tries = self.tries.saturating_add(1);
        tokio::time::sleep(pause).await;
    }
}

/// Whether the command only records normal progress.
fn goes_well(command: &ProcessCommand) -> bool {
    match command {
        ProcessCommand::Start { .. } | ProcessCommand::RecordDone { .. } => true,
        ProcessCommand::Finish { outcome } => *outcome == ProcessOutcome::Succeeded,
        ProcessCommand::RecordFailed { .. }
        | ProcessCommand::RecordUndone { .. }
        | ProcessCommand::RecordStuck { .. }
        | ProcessCommand::Restart { .. }
        | ProcessCommand::CallOff { .. } => false,
    }
}

impl Unwritten {
    fn note(&mut self, command: ProcessCommand, at: Timestamp) -> Result<(), StepError> {
        let events = decide(&self.state, command.clone()).map_err(CommandError::Rejected)?;
        for event in &events {
            self.state.evolve(event, at);
        }
        self.commands.push(command);
        Ok(())
    }
}

fn failed(step: &str, host: Option<HostId>, error: &StepError) -> ProcessCommand {
    let elsewhere = !matches!(error, StepError::Fatal(_));
    ProcessCommand::RecordFailed { step: step.to_owned(), elsewhere, host, fault: error.fault() }
}

/// Refuses a task that the driver of the server's host cannot do. A server without a host, or one that has not answered
/// yet, is left to the steps.
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
