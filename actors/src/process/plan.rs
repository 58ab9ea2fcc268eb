//! Plans the next step from the record alone.
//!
//! The plan goes through the steps in order. After a failure, it first undoes the failed step. After a cancellation, it
//! first undoes the step that may have begun. Such a step may have done half of its work. Then the plan undoes all
//! completed steps, last first. After the undo, it starts again if another attempt may succeed on another host.
//! Otherwise the process ends.

use chronova_events::ids::HostId;
use chronova_events::process::{ProcessOutcome, RunningProcess};

/// The parts of a process that planning needs.
#[derive(Debug, Clone)]
pub struct ProcessShape {
    /// The names of the steps, in order.
    pub steps: Vec<&'static str>,
    /// The most attempts at all steps; 1 means no second attempt.
    pub max_attempts: u32,
    /// Whether the process can be cancelled, and is undone when it fails. A process that only goes forward (a delete)
    /// retries each step until it succeeds.
    pub undoes: bool,
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    Run(&'static str),
    Undo(&'static str),
    /// Start again after the undo, without the host of the failed attempt.
    Restart {
        excluded: Option<HostId>,
    },
    /// Record the result in the stream of the subject, and end the process.
    Finish(ProcessOutcome),
    /// The record names a step that this version does not know. An operator must act.
    Stuck(String),
}

pub fn plan(shape: &ProcessShape, running: &RunningProcess) -> Next {
    if shape.undoes && (running.called_off || running.failure.is_some()) {
        return unwind(shape, running);
    }
    match due(shape, running) {
        Some(step) => Next::Run(step),
        None => Next::Finish(ProcessOutcome::Succeeded),
    }
}

fn due(shape: &ProcessShape, running: &RunningProcess) -> Option<&'static str> {
    shape.steps.iter().find(|step| !running.is_done(step)).copied()
}

fn unwind(shape: &ProcessShape, running: &RunningProcess) -> Next {
    let known = |name: &str| match shape.steps.iter().find(|step| **step == name) {
        Some(step) => Next::Undo(step),
        None => Next::Stuck(name.to_owned()),
    };
    if let Some(failure) = running.failure.as_ref().filter(|failure| !failure.undone) {
        return known(&failure.step);
    }
    // The process was cancelled after a step began and before the step was recorded. So the step may have left
    // something behind.
    if running.failure.is_none()
        && !running.due_undone
        && let Some(step) = due(shape, running)
    {
        return Next::Undo(step);
    }
    if let Some(last) = running.done.last() {
        return known(&last.step);
    }
    match &running.failure {
        _ if running.called_off => Next::Finish(ProcessOutcome::CalledOff),
        Some(failure) if failure.elsewhere && running.attempt < shape.max_attempts => {
            Next::Restart { excluded: failure.host }
        }
        _ => Next::Finish(ProcessOutcome::Failed),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::process::decide::{decide, decide_several};
    use crate::process::{ProcessCommand as Command, TimedRecord};
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;
    use chronova_events::ids::{InstanceId, ProcessId};
    use chronova_events::instance::FaultInfo;
    use chronova_events::process::{Process, StepOutput, Task};

    fn shape() -> ProcessShape {
        ProcessShape { steps: vec!["a", "b", "c"], max_attempts: 2, undoes: true }
    }

    fn after(commands: impl IntoIterator<Item = Command>) -> Process {
        let process = ProcessId(uuid::Uuid::nil());
        let task = Task::BuildInstance { instance: InstanceId(uuid::Uuid::nil()) };
        let mut state = Process::Absent;
        for command in std::iter::once(Command::Start { process, task }).chain(commands) {
            for event in decide(&state, command).unwrap() {
                state.evolve(&event, Timestamp(0));
            }
        }
        state
    }

    fn next(commands: impl IntoIterator<Item = Command>) -> Next {
        match after(commands) {
            Process::Running(running) => plan(&shape(), &running),
            other => panic!("{other:?}"),
        }
    }

    fn done(step: &str) -> Command {
        Command::RecordDone { step: step.into(), output: StepOutput::Nothing }
    }

    fn undone(step: &str) -> Command {
        Command::RecordUndone { step: step.into() }
    }

    fn failed(step: &str, elsewhere: bool) -> Command {
        let fault = FaultInfo { code: 500, message: "no".into(), details: String::new() };
        Command::RecordFailed { step: step.into(), elsewhere, host: None, fault }
    }

    fn called_off() -> Command {
        Command::CallOff { by: ProcessId(uuid::Uuid::nil()) }
    }

    #[test]
    fn forward_in_order_to_the_end() {
        assert_eq!(next([]), Next::Run("a"));
        assert_eq!(next([done("a")]), Next::Run("b"));
        assert_eq!(next([done("a"), done("b"), done("c")]), Next::Finish(ProcessOutcome::Succeeded));
    }

    #[test]
    fn a_failed_step_is_undone_first_and_then_the_others_in_reverse() {
        let trail = [done("a"), done("b"), failed("c", false)];
        assert_eq!(next(trail.clone()), Next::Undo("c"));
        assert_eq!(next(trail.clone().into_iter().chain([undone("c")])), Next::Undo("b"));
        assert_eq!(next(trail.clone().into_iter().chain([undone("c"), undone("b")])), Next::Undo("a"));
        let all = trail.into_iter().chain([undone("c"), undone("b"), undone("a")]);
        assert_eq!(next(all), Next::Finish(ProcessOutcome::Failed));
    }

    #[test]
    fn another_attempt_needs_another_host_and_is_limited() {
        let once = [done("a"), failed("b", true), undone("b"), undone("a")];
        assert_eq!(next(once.clone()), Next::Restart { excluded: None });
        let twice = once.clone().into_iter().chain([Command::Restart { excluded: None }]).chain(once);
        assert_eq!(next(twice), Next::Finish(ProcessOutcome::Failed));
    }

    #[test]
    fn a_cancellation_undoes_a_step_that_may_have_begun() {
        let trail = [done("a"), called_off()];
        assert_eq!(next(trail.clone()), Next::Undo("b"), "b may have begun without a record");
        assert_eq!(next(trail.clone().into_iter().chain([undone("b")])), Next::Undo("a"));
        assert_eq!(next(trail.into_iter().chain([undone("b"), undone("a")])), Next::Finish(ProcessOutcome::CalledOff));
        assert_eq!(next([called_off(), undone("a")]), Next::Finish(ProcessOutcome::CalledOff));
        let late = [done("a"), done("b"), done("c"), called_off()];
        assert_eq!(next(late), Next::Undo("c"));
    }

    #[test]
    fn records_that_waited_are_decided_in_order_with_their_times_or_not_at_all() {
        let (process, task) =
            (ProcessId(uuid::Uuid::nil()), Task::BuildInstance { instance: InstanceId(uuid::Uuid::nil()) });
        let at = |time, command| TimedRecord { at: Timestamp(time), command };
        let waited = vec![at(1, Command::Start { process, task }), at(2, done("a")), at(4, done("b"))];
        let events = decide_several(&Process::Absent, waited.clone()).unwrap();
        assert_eq!(events.iter().map(|(time, _)| time.0).collect::<Vec<_>>(), [1, 2, 4]);
        let repeated = decide_several(&after([done("a")]), waited.clone()).unwrap();
        assert_eq!(repeated.len(), 1, "only the new record is recorded");
        assert!(decide_several(&after([failed("a", false)]), waited.clone()).is_err());
        let out_of_order = waited.into_iter().chain([at(5, undone("b"))]).collect();
        assert!(decide_several(&Process::Absent, out_of_order).is_err());
    }

    #[test]
    fn records_in_an_impossible_order_are_refused() {
        let state = after([done("a")]);
        assert!(decide(&state, undone("a")).is_err());
        assert!(decide(&state, Command::Restart { excluded: None }).is_err());
        assert!(decide(&after([failed("a", true)]), done("a")).is_err());
        assert_eq!(decide(&state, done("a")).unwrap(), vec![], "a repeated record is harmless");
        let failure = after([done("a"), failed("b", true)]);
        assert!(decide(&failure, undone("c")).is_err(), "only a step that began is undone");
        assert!(decide(&failure, undone("b")).is_ok() && decide(&failure, undone("a")).is_ok());
    }

    #[test]
    fn a_process_ends_as_its_records_say() {
        use ProcessOutcome::{CalledOff, Failed, Succeeded};
        let torn = [done("a"), failed("b", false)];
        let unwound = || torn.clone().into_iter().chain([undone("b"), undone("a")]);
        let cancelled = [done("a"), called_off()];
        for (trail, ends) in [
            (vec![], vec![Succeeded]),
            (vec![done("a"), done("b"), done("c")], vec![Succeeded]),
            (torn.to_vec(), vec![]),
            (unwound().collect(), vec![Failed]),
            (unwound().chain([called_off()]).collect(), vec![Failed, CalledOff]),
            // The cancellation may come after the last step was done.
            (cancelled.to_vec(), vec![Succeeded]),
            (cancelled.iter().cloned().chain([undone("b"), undone("a")]).collect(), vec![Succeeded, CalledOff]),
        ] {
            let state = after(trail);
            let reached = [Succeeded, Failed, CalledOff].into_iter();
            let reached = reached.filter(|outcome| decide(&state, Command::Finish { outcome: *outcome }).is_ok());
            assert_eq!(reached.collect::<Vec<_>>(), ends, "{state:?}");
        }
    }
}
