//! What a process is made of: a table of steps, each with how it is done and undone.
//!
//! Steps are idempotent: run or undone twice, or undone without having been run, they leave the same world.

use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::{Alive, FaultInfo, Instance};
use chronova_events::process::{Outcome, Output, Running, Task};
use chronova_events::store::StoreError;
use chronova_hypervisor::driver::{Driver, DriverError};
use futures::future::BoxFuture;
use thiserror::Error;

use super::plan::Shape;
use super::{
    attach_interface, attach_volume, build_instance, change_password, confirm_resize, crash_dump, delete_instance,
    detach_interface, detach_volume, drain_host, evacuate, live_migrate, move_instance, offload, power, rebuild,
    rescue, restore, revert_resize, shelve, snapshot, soft_delete, swap_volume, unrescue, unshelve, volume,
};
use crate::aggregate::CommandError;
use crate::house::{House, Options};
use crate::instance::{InstanceAggregate, InstanceReject};
use crate::ports::PortError;

/// What a step has at hand.
#[derive(Debug)]
pub struct Work {
    pub house: Arc<House>,
    pub running: Running,
    /// In the name of the process, on behalf of whoever asked.
    pub meta: Arc<Meta>,
}

/// Why a step was not done.
#[derive(Debug, Clone, Error)]
pub enum StepError {
    /// The same step may succeed in a moment.
    #[error("{0}")]
    Again(String),
    /// The process may succeed on another host.
    #[error("{}", .0.message)]
    Elsewhere(FaultInfo),
    /// The process cannot succeed.
    #[error("{}", .0.message)]
    Fatal(FaultInfo),
}

pub type StepFn<T> = for<'a> fn(&'a Work) -> BoxFuture<'a, Result<T, StepError>>;
pub type ConcludeFn = for<'a> fn(&'a Work, Outcome) -> BoxFuture<'a, Result<(), StepError>>;

/// One step.
#[derive(Debug)]
pub struct Step {
    pub name: &'static str,
    pub run: StepFn<Output>,
    /// `None`: the step leaves nothing behind.
    pub undo: Option<StepFn<()>>,
}

/// One kind of process.
#[derive(Debug)]
pub struct Definition {
    pub name: &'static str,
    pub steps: &'static [Step],
    /// See [`Shape::undoes`].
    pub undoes: bool,
    pub max_attempts: fn(&Options) -> u32,
    /// Tells the subject how it ended.
    pub conclude: ConcludeFn,
}

impl Definition {
    /// The definition of a task: the one table of processes.
    pub fn of(task: &Task) -> &'static Self {
        match task {
            Task::BuildInstance { .. } => &build_instance::DEFINITION,
            Task::DeleteInstance { .. } => &delete_instance::DEFINITION,
            Task::Power { .. } => &power::DEFINITION,
            Task::CrashDump { .. } => &crash_dump::DEFINITION,
            Task::SoftDelete { .. } => &soft_delete::DEFINITION,
            Task::Restore { .. } => &restore::DEFINITION,
            Task::Volume { work, .. } => volume::definition(*work),
            Task::AttachInterface { .. } => &attach_interface::DEFINITION,
            Task::DetachInterface { .. } => &detach_interface::DEFINITION,
            Task::AttachVolume(_) => &attach_volume::DEFINITION,
            Task::DetachVolume(_) => &detach_volume::DEFINITION,
            Task::SwapVolume { .. } => &swap_volume::DEFINITION,
            Task::Snapshot { .. } => &snapshot::DEFINITION,
            Task::Rebuild { .. } => &rebuild::DEFINITION,
            Task::Rescue { .. } => &rescue::DEFINITION,
            Task::Unrescue { .. } => &unrescue::DEFINITION,
            Task::Shelve { .. } => &shelve::DEFINITION,
            Task::Offload { .. } => &offload::DEFINITION,
            Task::Unshelve { .. } => &unshelve::DEFINITION,
            Task::ChangePassword { .. } => &change_password::DEFINITION,
            Task::MoveInstance { .. } => &move_instance::DEFINITION,
            Task::ConfirmResize { .. } => &confirm_resize::DEFINITION,
            Task::RevertResize { .. } => &revert_resize::DEFINITION,
            Task::LiveMigrate { .. } => &live_migrate::DEFINITION,
            Task::Evacuate { .. } => &evacuate::DEFINITION,
            Task::DrainHost { .. } => &drain_host::DEFINITION,
        }
    }

    pub fn shape(&self, options: &Options) -> Shape {
        let steps = self.steps.iter().map(|step| step.name).collect();
        Shape { steps, max_attempts: (self.max_attempts)(options), undoes: self.undoes }
    }

    pub fn step(&self, name: &str) -> Option<&'static Step> {
        self.steps.iter().find(|step| step.name == name)
    }
}

impl Work {
    /// The server that the process works on. By the table of processes no step of a server's process is ever run for
    /// anything else; a volume's would get the id that no server has.
    pub fn instance_id(&self) -> InstanceId {
        self.running.task.instance().unwrap_or(InstanceId(uuid::Uuid::nil()))
    }

    /// The server as it is now; `None` if it is gone.
    pub async fn server(&self) -> Result<Option<Alive>, StepError> {
        match self.house.gateway.look::<InstanceAggregate>(&self.instance_id()).await? {
            Instance::Alive(alive) => Ok(Some(*alive)),
            Instance::Absent | Instance::Deleted(_) => Ok(None),
        }
    }

    /// The server, be it alive or gone.
    pub async fn known_server(&self) -> Result<Option<Alive>, StepError> {
        let instance = self.house.gateway.look::<InstanceAggregate>(&self.instance_id()).await?;
        Ok(instance.known().cloned())
    }

    /// The server, which must be there.
    pub async fn present_server(&self) -> Result<Alive, StepError> {
        self.server().await?.ok_or_else(|| StepError::fatal(404, "The server is gone.", ""))
    }

    /// The driver of a host; a host that has not answered since start-up may yet.
    pub fn driver(&self, host: HostId) -> Result<Arc<dyn Driver>, StepError> {
        self.house.fleet.driver(host).ok_or_else(|| StepError::Again(format!("host {host} has not answered yet")))
    }

    /// Whether there is anybody to ask on the host. One that is up according to the log but has not answered in this life
    /// of the control plane will do so soon, or be recorded as down.
    pub fn host_answers(&self, host: HostId) -> Result<bool, StepError> {
        let up =
            self.house.views.hosts.read(|hosts| hosts.get(host).is_some_and(chronova_events::host::KnownHost::answers));
        match (up, self.house.fleet.driver(host)) {
            (true, None) => Err(StepError::Again(format!("host {host} has not answered yet"))),
            (up, _) => Ok(up),
        }
    }
}

impl StepError {
    pub fn fatal(code: u16, message: &str, details: &str) -> Self {
        Self::Fatal(FaultInfo { code, message: message.to_owned(), details: details.to_owned() })
    }

    pub fn fault(&self) -> FaultInfo {
        match self {
            Self::Again(reason) => FaultInfo {
                code: 500,
                message: "The operation did not succeed in time.".into(),
                details: reason.clone(),
            },
            Self::Elsewhere(fault) | Self::Fatal(fault) => fault.clone(),
        }
    }
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::Again(error.to_string())
    }
}

/// For commands that are never refused, or whose refusal means that the process can end.
impl<R: std::error::Error> From<CommandError<R>> for StepError {
    fn from(error: CommandError<R>) -> Self {
        match error {
            CommandError::Rejected(reject) => Self::fatal(500, "The operation was refused.", &reject.to_string()),
            CommandError::Unavailable(error) => Self::Again(error.to_string()),
        }
    }
}

impl From<PortError> for StepError {
    fn from(error: PortError) -> Self {
        match &error {
            PortError::Unavailable(reason) => Self::Again(reason.clone()),
            PortError::NotFound(message) => Self::fatal(404, message, ""),
            PortError::Invalid(message) => Self::fatal(400, message, ""),
            PortError::Conflict(message) => Self::fatal(409, message, ""),
            PortError::Forbidden(message) => Self::fatal(403, message, ""),
        }
    }
}

impl From<DriverError> for StepError {
    fn from(error: DriverError) -> Self {
        let fault = FaultInfo { code: 500, message: "The hypervisor refused.".to_owned(), details: error.to_string() };
        match error {
            DriverError::BadImage { image, reason } => {
                Self::fatal(400, &format!("Image {image} is unacceptable: {reason}"), "")
            }
            DriverError::Unreachable(_)
            | DriverError::Timeout { .. }
            | DriverError::NoSuchGuest(_)
            | DriverError::Unsupported(_)
            | DriverError::NoRoom(_)
            | DriverError::NoAgent
            | DriverError::Failed { .. } => Self::Elsewhere(fault),
        }
    }
}

/// A record that nobody waits for any more is no error: the process was overtaken or its server is gone.
pub fn settled<T>(result: Result<T, CommandError<InstanceReject>>) -> Result<(), StepError> {
    match result {
        Ok(_) | Err(CommandError::Rejected(InstanceReject::NotFound | InstanceReject::Superseded)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
