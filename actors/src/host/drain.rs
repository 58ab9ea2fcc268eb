//! The decisions about drains and maintenance of a host.
//!
//! A host that is being drained takes no new servers. Enabling the host again cancels its drain and ends its
//! maintenance.

use chronova_events::host::{
    Departure, DepartureBegun, Disabled, DrainCancelled, DrainEnded, DrainRequested, Enabled, HostEvent, KnownHost,
    MaintenanceBegun, MaintenanceEnded, ServerLeft, ServerStayed,
};
use chronova_events::ids::{InstanceId, ProcessId};

use super::HostReject;

/// The requests of an operator.
#[derive(Debug, Clone)]
pub enum DrainCommand {
    /// Disables the host and moves its servers away. If a drain is already under way, the request joins it.
    Begin { process: ProcessId, parallel: u32, reason: Option<String> },
    /// Cancels the drain. Moves under way are completed, but live migrations that have not started are cancelled. No
    /// other server is moved.
    Cancel,
    /// Takes the host out of service, and drains it.
    BeginMaintenance { process: ProcessId, parallel: u32, reason: Option<String> },
    /// Takes the host back into service, and cancels a drain that is under way.
    EndMaintenance,
}

/// The records of the drain process. Records of a drain that has ended have no effect.
#[derive(Debug, Clone)]
pub enum DrainRecord {
    Departure { process: ProcessId, server: InstanceId, how: Departure, migration: ProcessId },
    Left { process: ProcessId, server: InstanceId, to: Option<String> },
    Stayed { process: ProcessId, server: InstanceId, reason: String },
    Ended { process: ProcessId },
}

type HostDecision = Result<Vec<HostEvent>, HostReject>;

pub(super) fn decide(host: &KnownHost, command: DrainCommand) -> HostDecision {
    match command {
        DrainCommand::Begin { process, parallel, reason } => {
            let begun = begin(host, process, parallel)?;
            let closed = host.enabled.then(|| Disabled { reason }.into());
            Ok(closed.into_iter().chain(begun).collect())
        }
        DrainCommand::Cancel => match host.draining() {
            None => Err(HostReject::NotDraining),
            Some(_) => Ok(cancel(host).into_iter().collect()),
        },
        DrainCommand::BeginMaintenance { process, parallel, reason } => {
            let begun = begin(host, process, parallel)?;
            let known = host.maintenance.as_ref().is_some_and(|maintenance| maintenance.reason == reason);
            let mark = (!known).then(|| MaintenanceBegun { reason: reason.clone() }.into());
            let open = host.enabled || host.disabled_reason != reason;
            let closed = open.then(|| Disabled { reason }.into());
            Ok(mark.into_iter().chain(closed).chain(begun).collect())
        }
        DrainCommand::EndMaintenance => match host.maintenance {
            None => Err(HostReject::NotInMaintenance),
            Some(_) => Ok(open(host)),
        },
    }
}

/// The event that requests a drain; `None` if one is already under way.
fn begin(host: &KnownHost, process: ProcessId, parallel: u32) -> Result<Option<HostEvent>, HostReject> {
    match host.draining() {
        Some(drain) if drain.cancelled => Err(HostReject::DrainEnding),
        Some(_) => Ok(None),
        // This request repeats the request that began the drain.
        None if host.drain.as_ref().is_some_and(|drain| drain.process == process) => Ok(None),
        None => Ok(Some(DrainRequested { process, parallel }.into())),
    }
}

fn cancel(host: &KnownHost) -> Option<HostEvent> {
    let drain = host.draining().filter(|drain| !drain.cancelled)?;
    Some(DrainCancelled { process: drain.process }.into())
}

/// The events that let a host take servers again.
pub(super) fn open(host: &KnownHost) -> Vec<HostEvent> {
    let ended = host.maintenance.is_some().then(|| MaintenanceEnded {}.into());
    let enabled = (!host.enabled).then(|| Enabled {}.into());
    cancel(host).into_iter().chain(ended).chain(enabled).collect()
}

pub(super) fn record(host: &KnownHost, record: DrainRecord) -> Option<HostEvent> {
    let drain = host.draining()?;
    let (DrainRecord::Departure { process: by, .. }
    | DrainRecord::Left { process: by, .. }
    | DrainRecord::Stayed { process: by, .. }
    | DrainRecord::Ended { process: by }) = &record;
    if *by != drain.process {
        return None;
    }
    match record {
        DrainRecord::Departure { process, server, how, migration } => {
            let known = drain.leaving.get(&server).is_some_and(|leaving| leaving.migration == migration);
            (!known).then(|| DepartureBegun { process, server, how, migration }.into())
        }
        DrainRecord::Left { process, server, to } => {
            (drain.left.get(&server) != Some(&to)).then(|| ServerLeft { process, server, to }.into())
        }
        DrainRecord::Stayed { process, server, reason } => {
            (drain.stays.get(&server) != Some(&reason)).then(|| ServerStayed { process, server, reason }.into())
        }
        DrainRecord::Ended { process } => Some(DrainEnded { process }.into()),
    }
}
