//! Writes a failed step into Chronova's text log, in one line with the chain of errors behind it.
//!
//! The functions that a step calls do not log the step's error, so an operator reads each chain once.

use chronova_events::envelope::Meta;
use chronova_events::error_chain::ErrorChain;
use chronova_events::ids::ProcessId;
use chronova_events::process::RunningProcess;

use super::definition::StepError;

/// The failure, with the ids by which an operator finds the server and the request.
pub(super) struct FailedStep<'a> {
    pub process: ProcessId,
    pub kind: &'static str,
    pub step: &'static str,
    pub running: &'a RunningProcess,
    pub meta: &'a Meta,
    pub error: &'a StepError,
}

/// The consequence of the failure.
#[derive(Debug, Clone, Copy)]
pub(super) enum FailedStepEnd {
    /// The step is tried again in a moment.
    Retried,
    /// The process undoes its steps, and ends or tries another host.
    GivenUp,
    /// The step fails although it has to succeed, so it is retried for ever.
    Stuck,
}

/// Logs a failed step. `tracing` needs the level as a constant, so each level needs its own call.
macro_rules! tell {
    ($level:ident, $failed:expr, $message:literal) => {
        tracing::$level!(
            process = %$failed.process,
            kind = $failed.kind,
            step = $failed.step,
            server = $failed.running.task.instance().map(tracing::field::display),
            request_id = $failed.meta.request_id.as_ref().map(tracing::field::display),
            error = %ErrorChain($failed.error),
            $message
        )
    };
}

impl FailedStep<'_> {
    pub(super) fn log(&self, end: FailedStepEnd) {
        match end {
            FailedStepEnd::Retried => tell!(debug, self, "step failed, retrying"),
            FailedStepEnd::GivenUp => tell!(warn, self, "step failed"),
            FailedStepEnd::Stuck => tell!(error, self, "step stuck, retrying"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use chronova_events::envelope::Timestamp;
    use chronova_events::ids::{InstanceId, RequestId};
    use chronova_events::instance::FaultInfo;
    use chronova_events::process::Task;
    use chronova_events::store::StoreError;
    use chronova_hypervisor::driver::DriverError;
    use uuid::Uuid;

    use super::*;
    use crate::aggregate::CommandError;
    use crate::instance::creation::CreateReject;
    use crate::ports::PortError;

    const PROCESS: ProcessId = ProcessId(Uuid::from_u128(1));
    const SERVER: InstanceId = InstanceId(Uuid::from_u128(2));

    /// The lines that are logged for a failed step.
    fn lines(error: &StepError, end: FailedStepEnd) -> Vec<String> {
        let running = RunningProcess {
            process: PROCESS,
            task: Task::Rescue { instance: SERVER },
            started_at: Timestamp(0),
            done: Vec::new(),
            failure: None,
            called_off: false,
            due_undone: false,
            attempt: 1,
            excluded: std::collections::BTreeSet::new(),
            stuck: 0,
        };
        let meta = Meta { request_id: Some(RequestId::new("req-7")), ..(*Meta::system("test")).clone() };
        let dir = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(dir.path().join("log")).unwrap();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(Arc::new(file))
            .finish();
        let failed =
            FailedStep { process: PROCESS, kind: "rescue", step: "spawn", running: &running, meta: &meta, error };
        tracing::subscriber::with_default(subscriber, || failed.log(end));
        let text = std::fs::read_to_string(dir.path().join("log")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn three_errors() -> StepError {
        let store = StoreError::Io("input/output error".to_owned());
        StepError::fatal(500, "The servers could not be created.", CreateReject::Unavailable(store))
    }

    #[test]
    fn a_chain_of_three_errors_is_once_in_the_line() {
        let lines = lines(&three_errors(), FailedStepEnd::GivenUp);
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        let chain = "error=The servers could not be created.: the event log is not available: \
                     the log cannot be read or written: input/output error";
        assert!(line.contains(chain), "{line}");
        for once in ["could not be created", "log is not available", "input/output error"] {
            assert_eq!(line.matches(once).count(), 1, "{once}: {line}");
        }
    }

    #[test]
    fn the_line_names_process_step_server_and_request() {
        let known = [
            "WARN".to_owned(),
            "step failed".to_owned(),
            format!("process={PROCESS}"),
            "kind=\"rescue\"".to_owned(),
            "step=\"spawn\"".to_owned(),
            format!("server={SERVER}"),
            "request_id=req-7".to_owned(),
        ];
        let line = lines(&three_errors(), FailedStepEnd::GivenUp).concat();
        for word in known {
            assert!(line.contains(&word), "{word}: {line}");
        }
        assert!(lines(&three_errors(), FailedStepEnd::Stuck).concat().contains("ERROR"));
        assert!(lines(&three_errors(), FailedStepEnd::Retried).concat().contains("DEBUG"));
    }

    #[test]
    fn a_repeated_step_keeps_the_sources_too() {
        let error: StepError = CommandError::<CreateReject>::Unavailable(StoreError::Closed).into();
        assert_eq!(ErrorChain(&error).to_string(), "the log is closed");
        let error = StepError::again(CommandError::<CreateReject>::Unavailable(StoreError::Closed));
        assert_eq!(ErrorChain(&error).to_string(), "the event log is not available: the log is closed");
    }

    /// Users and the log of events get the text of the fault's first cause, not the whole chain.
    #[test]
    fn the_fault_keeps_its_text() {
        let fault = |code, message: &str, details: &str| FaultInfo {
            code,
            message: message.to_owned(),
            details: details.to_owned(),
        };
        let late = "The operation did not succeed in time.";
        let refused = "The hypervisor refused.";
        let no_room = || StepError::from(DriverError::NoRoom("disk full".to_owned()));
        let cases = [
            (three_errors(), fault(500, "The servers could not be created.", "the event log is not available")),
            (StepError::again("cancelled"), fault(500, late, "cancelled")),
            (StoreError::Closed.into(), fault(500, late, "the log is closed")),
            (PortError::Unavailable("no answer".to_owned()).into(), fault(500, late, "no answer")),
            (PortError::NotFound("Port p.".to_owned()).into(), fault(404, "Port p.", "")),
            (no_room(), fault(500, refused, "the host has no room: disk full")),
            (StepError::only_here(no_room()), fault(500, refused, "the host has no room: disk full")),
            (no_room().persist(), fault(500, late, "the host has no room: disk full")),
            (StepError::fatal(409, "The server is being deleted.", "").persist(), fault(500, late, "")),
        ];
        for (error, fault) in cases {
            assert_eq!(error.fault(), fault);
        }
        assert!(matches!(no_room(), StepError::Elsewhere(_)));
        assert!(matches!(StepError::only_here(no_room()), StepError::Fatal(_)));
    }
}
