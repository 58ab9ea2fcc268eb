//! The definition of a process. It is a table of steps, which says how each step is done and undone.
//!
//! Steps are idempotent. A step that runs twice leaves the same state as one run. An undo that runs twice, or without a
//! run of its step, leaves the state that the step found.

use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::error_chain::SharedError;
use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::{Alive, FaultInfo, Instance};
use chronova_events::process::{ProcessOutcome, RunningProcess, StepOutput};
use chronova_events::store::StoreError;
use chronova_hypervisor::driver::{Driver, DriverError};
use futures::future::BoxFuture;
use thiserror::Error;

use super::context::StepContext;
use super::options::ProcessOptions;
use super::plan::ProcessShape;
use crate::aggregate::CommandError;
use crate::image_signatures::PlaceError;
use crate::instance::{InstanceReject, InstanceRoot};
use crate::ports::PortError;

/// The context of a step, and the record of its process.
#[derive(Debug)]
pub struct StepRun {
    pub context: Arc<StepContext>,
    pub running: RunningProcess,
    /// The metadata of events: the cause is the process, on behalf of the requester.
    pub meta: Arc<Meta>,
    /// The metadata of the event that asked for the process.
    pub asked_by: Arc<Meta>,
}

/// The error of a step. It keeps its cause, so that the server's log shows the whole chain of errors.
#[derive(Debug, Clone, Error)]
pub enum StepError {
    /// The same step may succeed in a moment.
    #[error(transparent)]
    Again(SharedError),
    /// The process may succeed on another host.
    #[error(transparent)]
    Elsewhere(StepFault),
    /// The process cannot succeed.
    #[error(transparent)]
    Fatal(StepFault),
}

/// The fault of a step. Users see [`StepError::fault`], and the log of events keeps it.
#[derive(Debug, Clone, Error)]
#[error("{message}")]
pub struct StepFault {
    code: u16,
    message: String,
    /// The error whose text is the details of the fault; `None` if there are no details.
    source: Option<SharedError>,
}

pub type StepFn<T> = for<'a> fn(&'a StepRun) -> BoxFuture<'a, Result<T, StepError>>;
pub type ConcludeFn = for<'a> fn(&'a StepRun, ProcessOutcome) -> BoxFuture<'a, Result<(), StepError>>;

/// One step.
#[derive(Debug)]
pub struct Step {
    pub name: &'static str,
    pub run: StepFn<StepOutput>,
    /// The undo; `None` if there is nothing to undo.
    pub undo: Option<StepFn<()>>,
}

/// The table of a process's steps, in their order. A step without `undone by` has nothing to undo.
macro_rules! steps {
    ($( $name:literal => $run:path $(, undone by $undo:path)?; )+) => {
        &[ $( $crate::process::definition::Step {
            name: $name,
            run: |work| ::futures::FutureExt::boxed($run(work)),
            undo: steps!(@undo $($undo)?),
        } ),+ ]
    };
    (@undo) => { None };
    (@undo $undo:path) => { Some(|work| ::futures::FutureExt::boxed($undo(work))) };
}

pub(crate) use steps;

/// One kind of process.
#[derive(Debug)]
pub struct Definition {
    pub name: &'static str,
    pub steps: &'static [Step],
    /// See [`ProcessShape::undoes`].
    pub undoes: bool,
    pub max_attempts: fn(&ProcessOptions) -> u32,
    /// Records the result in the stream of the process's subject, and answers waiting clients.
    pub conclude: ConcludeFn,
}

impl Definition {
    pub fn shape(&self, options: &ProcessOptions) -> ProcessShape {
        let steps = self.steps.iter().map(|step| step.name).collect();
        ProcessShape { steps, max_attempts: (self.max_attempts)(options), undoes: self.undoes }
    }

    pub fn step(&self, name: &str) -> Option<&'static Step> {
        self.steps.iter().find(|step| step.name == name)
    }
}

impl StepRun {
    /// The server that the process works on. Only steps of a process on a server call this. For any other process, it
    /// returns an id that no server has.
    pub fn instance_id(&self) -> InstanceId {
        self.running.task.instance().unwrap_or(InstanceId(uuid::Uuid::nil()))
    }

    /// The present state of the server; `None` if it is deleted.
    pub async fn server(&self) -> Result<Option<Alive>, StepError> {
        match self.context.gateway.look::<InstanceRoot>(&self.instance_id()).await? {
            Instance::Alive(alive) => Ok(Some(*alive)),
            Instance::Absent | Instance::Deleted(_) => Ok(None),
        }
    }

    /// The server, even if it is deleted.
    pub async fn known_server(&self) -> Result<Option<Alive>, StepError> {
        let instance = self.context.gateway.look::<InstanceRoot>(&self.instance_id()).await?;
        Ok(instance.known().cloned())
    }

    /// The server. If it is deleted, the error is fatal (404).
    pub async fn present_server(&self) -> Result<Alive, StepError> {
        self.server().await?.ok_or_else(|| StepError::fatal(404, "The server is gone.", ""))
    }

    /// The driver of a host. A host that has not answered since start-up is a transient error.
    pub fn driver(&self, host: HostId) -> Result<Arc<dyn Driver>, StepError> {
        self.context.fleet.driver(host).ok_or_else(|| StepError::again(format!("host {host} has not answered yet")))
    }

    /// Whether the host answers. A host may be up in the log without an answer since the control plane started. It will
    /// answer soon, or be recorded as down.
    pub fn host_answers(&self, host: HostId) -> Result<bool, StepError> {
        let up = self
            .context
            .views
            .hosts
            .read(|hosts| hosts.get(host).is_some_and(chronova_events::host::KnownHost::answers));
        match (up, self.context.fleet.driver(host)) {
            (true, None) => Err(StepError::again(format!("host {host} has not answered yet"))),
            (up, _) => Ok(up),
        }
    }
}

impl StepError {
    /// The same step may succeed in a moment. `error` is an error or a sentence.
    pub fn again(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Again(Arc::from(error.into()))
    }

    /// The process cannot succeed. `details` is an error or a sentence; an empty one says that there are no details.
    pub fn fatal(code: u16, message: &str, details: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Fatal(StepFault::new(code, message, details))
    }

    /// Turns the error into one after which the step is tried again, for a step that has to succeed. The message is
    /// lost, because only the details of a stuck step are recorded.
    pub fn persist(self) -> Self {
        match self {
            Self::Again(error) => Self::Again(error),
            Self::Elsewhere(fault) | Self::Fatal(fault) => fault.source.map_or_else(|| Self::again(""), Self::Again),
        }
    }

    /// Makes the error final, for a step that can succeed on no other host.
    pub fn only_here(error: impl Into<Self>) -> Self {
        match error.into() {
            Self::Elsewhere(fault) => Self::Fatal(fault),
            other => other,
        }
    }

    /// The error as users see it, and as the log of events keeps it.
    pub fn fault(&self) -> FaultInfo {
        match self {
            Self::Again(error) => FaultInfo {
                code: 500,
                message: "The operation did not succeed in time.".into(),
                details: error.to_string(),
            },
            Self::Elsewhere(fault) | Self::Fatal(fault) => fault.info(),
        }
    }
}

impl StepFault {
    /// `details` is an error or a sentence; an empty one says that there are no details.
    pub fn new(code: u16, message: &str, details: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let details = SharedError::from(details.into());
        let source = (!details.to_string().is_empty()).then_some(details);
        Self { code, message: message.to_owned(), source }
    }

    fn info(&self) -> FaultInfo {
        let details = self.source.as_ref().map(ToString::to_string).unwrap_or_default();
        FaultInfo { code: self.code, message: self.message.clone(), details }
    }
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::again(error)
    }
}

/// Use this conversion only for a command that is never refused, or whose refusal ends the process.
impl<R: std::error::Error + Send + Sync + 'static> From<CommandError<R>> for StepError {
    fn from(error: CommandError<R>) -> Self {
        match error {
            CommandError::Rejected(reject) => Self::fatal(500, "The operation was refused.", reject),
            CommandError::Unavailable(error) => Self::again(error),
        }
    }
}

impl From<PortError> for StepError {
    fn from(error: PortError) -> Self {
        match &error {
            PortError::Unavailable(_) => Self::again(error),
            PortError::NotFound(message) => Self::fatal(404, message, ""),
            PortError::Invalid(message) => Self::fatal(400, message, ""),
            PortError::Conflict(message) => Self::fatal(409, message, ""),
            PortError::Forbidden(message) => Self::fatal(403, message, ""),
            PortError::NotHere(_) => {
                Self::Elsewhere(StepFault::new(500, "The network service refused the host.", error))
            }
        }
    }
}

impl From<PlaceError> for StepError {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Driver(error) => error.into(),
            PlaceError::Signature(fault) => Self::fatal(500, &fault.to_string(), ""),
        }
    }
}

impl From<DriverError> for StepError {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::BadImage { image, reason } => {
                Self::fatal(400, &format!("Image {image} is unacceptable: {reason}"), "")
            }
            DriverError::ImageUnread { .. } => Self::again(error),
            DriverError::Unreachable(_)
            | DriverError::Timeout { .. }
            | DriverError::NoSuchGuest(_)
            | DriverError::Unsupported(_)
            | DriverError::NoRoom(_)
            | DriverError::NoAgent
            | DriverError::Failed { .. } => Self::Elsewhere(StepFault::new(500, "The hypervisor refused.", error)),
        }
    }
}

/// A refused record is no error if the process was overtaken or its server is gone.
pub fn settled<T>(result: Result<T, CommandError<InstanceReject>>) -> Result<(), StepError> {
    match result {
        Ok(_) | Err(CommandError::Rejected(InstanceReject::NotFound | InstanceReject::Superseded)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
