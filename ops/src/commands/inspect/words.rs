//! Describes each event in one line for people.
//!
//! An event kind without a description here is shown field by field, so a new kind needs no change.

use chronova_events::host::HostEvent;
use chronova_events::instance::status::Status;
use chronova_events::instance::{FlavorSnapshot, InstanceEvent, NicInfo, RequestedNetworks};
use chronova_events::ledger::LedgerEvent;
use chronova_events::operations::server_operation;
use chronova_events::process::{ProcessEvent, ProcessOutcome, StepOutput};
use chronova_events::quota::{QuotaClaimed, QuotaEvent, ServersClaimed};
use chronova_events::registry::Event;
use chronova_hypervisor::cpus;
use serde_json::Value;

use super::super::audit;

/// The title of a chapter that has this event, in operators' words. `key` is the key of the event's stream.
pub(super) fn deed(key: &str, event: &Event) -> Option<&'static str> {
    let Event::InstanceEvent(event) = event else { return None };
    match event {
        InstanceEvent::PowerObserved(_) => Some("power state seen"),
        InstanceEvent::StateDeclared(_) => Some("reset state"),
        InstanceEvent::NicsRefreshed(_) => Some("addresses refreshed"),
        event => server_operation(key.parse().ok()?, event).map(|operation| operation.label),
    }
}

/// Whether something went wrong or was undone.
pub(super) fn is_trouble(event: &Event) -> bool {
    match event {
        Event::InstanceEvent(event) => {
            matches!(
                event,
                InstanceEvent::BuildFailed(_)
                    | InstanceEvent::PowerFailed(_)
                    | InstanceEvent::RestoreFailed(_)
                    | InstanceEvent::NicDetachFailed(_)
                    | InstanceEvent::VolumeAttachFailed(_)
                    | InstanceEvent::VolumeDetachFailed(_)
                    | InstanceEvent::VolumeSwapFailed(_)
                    | InstanceEvent::SnapshotFailed(_)
                    | InstanceEvent::RebuildFailed(_)
                    | InstanceEvent::RescueFailed(_)
                    | InstanceEvent::UnrescueFailed(_)
                    | InstanceEvent::ShelveFailed(_)
                    | InstanceEvent::UnshelveFailed(_)
                    | InstanceEvent::PasswordChangeFailed(_)
                    | InstanceEvent::Unplaced(_)
                    | InstanceEvent::MoveUntargeted(_)
                    | InstanceEvent::MoveFailed(_)
                    | InstanceEvent::LiveMoveAborted(_)
                    | InstanceEvent::RevertFailed(_)
            )
        }
        Event::ProcessEvent(event) => match event {
            ProcessEvent::StepFailed(_)
            | ProcessEvent::StepUndone(_)
            | ProcessEvent::StepStuck(_)
            | ProcessEvent::Restarted(_)
            | ProcessEvent::CalledOff(_) => true,
            ProcessEvent::Finished(finished) => finished.outcome != ProcessOutcome::Succeeded,
            _ => false,
        },
        Event::HostEvent(event) => matches!(event, HostEvent::WentDown(_) | HostEvent::ServerStayed(_)),
        _ => false,
    }
}

pub(super) fn sentence(event: &Event) -> String {
    let special = match event {
        Event::InstanceEvent(event) => instance(event),
        Event::ProcessEvent(event) => Some(process(event)),
        Event::LedgerEvent(event) => ledger(event),
        Event::QuotaEvent(QuotaEvent::ServersClaimed(claimed)) => Some(claim(claimed)),
        Event::QuotaEvent(QuotaEvent::QuotaClaimed(claimed)) => Some(claim_for_server(claimed)),
        _ => None,
    };
    special.unwrap_or_else(|| fields(&audit::shown(event)))
}

fn instance(event: &InstanceEvent) -> Option<String> {
    Some(match event {
        InstanceEvent::BuildRequested(asked) => {
            let image = asked.image.as_ref().map_or("no image", |image| image.name.as_str());
            let networks = match &asked.networks {
                RequestedNetworks::None => "no network".to_owned(),
                listed => match listed.listed() {
                    [] => "networks auto".to_owned(),
                    [only] if only.is_automatic() => "networks auto".to_owned(),
                    several => format!("{} interfaces", several.len()),
                },
            };
            format!("\"{}\": {}, {image}, {networks}", asked.name, flavor(&asked.flavor))
        }
        InstanceEvent::Placed(placed) => {
            format!("on {} (attempt {}, zone {})", placed.hostname, placed.attempt, placed.availability_zone)
        }
        InstanceEvent::Unplaced(unplaced) => format!("gave up host {}: {}", unplaced.host, unplaced.reason),
        InstanceEvent::NetworkAllocated(allocated) => addresses(&allocated.nics),
        InstanceEvent::BuildSucceeded(_) => "the guest runs".to_owned(),
        InstanceEvent::BuildFailed(failed) => fault(failed.fault.code, &failed.fault.message, &failed.fault.details),
        InstanceEvent::DeleteRequested(asked) => {
            asked.cancels.map_or_else(String::new, |build| format!("cancels the build ({build})"))
        }
        InstanceEvent::Deleted(_) => "all that it had is removed".to_owned(),
        InstanceEvent::PowerRequested(asked) => asked.action.label().to_owned(),
        InstanceEvent::PowerCompleted(done) => done.action.label().to_owned(),
        InstanceEvent::PowerFailed(failed) => {
            let fault = fault(failed.fault.code, &failed.fault.message, &failed.fault.details);
            format!("{}: {fault}", failed.action.label())
        }
        InstanceEvent::PowerObserved(seen) => format!("{:?} on host {}", seen.power, seen.host),
        InstanceEvent::NicAttached(attached) => addresses(std::slice::from_ref(&attached.nic)),
        InstanceEvent::NicDetachFailed(failed) => {
            fault(failed.fault.code, &failed.fault.message, &failed.fault.details)
        }
        InstanceEvent::NicsRefreshed(refreshed) => addresses(&refreshed.nics),
        InstanceEvent::Adopted(found) => {
            format!("adopted as {:?}, {:?}, with {} actions", found.state, found.power, found.actions.len())
        }
        _ => return None,
    })
}

fn process(event: &ProcessEvent) -> String {
    match event {
        ProcessEvent::Started(started) => format!("{} of {}", started.task.name(), started.task.subject()),
        ProcessEvent::StepDone(done) => match &done.output {
            StepOutput::Host { hostname, .. } => format!("{}: host {hostname}", done.step),
            StepOutput::Nics(nics) => format!("{}: {}", done.step, addresses(nics)),
            StepOutput::Connected(way) => format!("{}: {} in pool {}", done.step, way.volume, way.pool),
            StepOutput::Image(image) => format!("{}: image {}", done.step, image.id),
            StepOutput::Reserved(attachment) => format!("{}: attachment {attachment}", done.step),
            StepOutput::Nothing => done.step.clone(),
        },
        ProcessEvent::StepFailed(failed) => {
            let next = if failed.elsewhere { "; another host may succeed" } else { "" };
            let fault = fault(failed.fault.code, &failed.fault.message, &failed.fault.details);
            format!("{}: {fault}{next}", failed.step)
        }
        ProcessEvent::StepUndone(undone) => undone.step.clone(),
        ProcessEvent::StepStuck(failed) => format!("{}: {}", failed.step, failed.reason),
        ProcessEvent::Restarted(restarted) => match restarted.excluded {
            Some(host) => format!("tries again, not on host {host}"),
            None => "tries again".to_owned(),
        },
        ProcessEvent::CalledOff(called) => format!("by process {}", called.by),
        ProcessEvent::Finished(finished) => outcome(finished.outcome).to_owned(),
    }
}

fn claim(claimed: &ServersClaimed) -> String {
    let ServersClaimed { project, instances, cores, memory_mib, process, .. } = claimed;
    let count = instances.len();
    let size = format!("{cores} VCPU and {memory_mib} MiB");
    format!("project {project} holds {size} for each of {count} servers; process {process} creates them")
}

fn claim_for_server(claimed: &QuotaClaimed) -> String {
    let QuotaClaimed { project, process, instance, asks_for, cores, memory_mib } = claimed;
    let size = format!("{cores} VCPU and {memory_mib} MiB");
    let asks = format!("process {process} requests process {asks_for} of the server");
    format!("project {project} holds {size} for server {instance}; {asks}")
}

fn ledger(event: &LedgerEvent) -> Option<String> {
    Some(match event {
        LedgerEvent::Claimed(claimed) => {
            let held = claimed.allocations.iter().map(|allocation| {
                let amounts: Vec<String> =
                    allocation.resources.iter().map(|(class, amount)| format!("{class}={amount}")).collect();
                format!("{} of {}", amounts.join(" "), allocation.provider)
            });
            format!("{} holds {}", claimed.consumer, held.collect::<Vec<_>>().join(", "))
        }
        LedgerEvent::Released(released) => format!("{} holds nothing", released.consumer),
        LedgerEvent::GuestFitted(fitted) => {
            let cells = fitted.cells.iter().map(|cell| {
                let taken = cpus::format(cell.taken());
                let processors = if taken.is_empty() { String::new() } else { format!(" and processors {taken}") };
                format!("{} MiB of cell {}{processors}", cell.memory_mib, cell.cell)
            });
            let cells = cells.collect::<Vec<_>>().join(", ");
            format!("{} has {cells} of {}", fitted.consumer, fitted.provider)
        }
        LedgerEvent::PciDevicesClaimed(claimed) => {
            let devices = claimed.devices.iter().map(|device| format!("{} ({})", device.address, device.alias));
            let devices = devices.collect::<Vec<_>>().join(", ");
            format!("{} has PCI devices {devices} of {}", claimed.consumer, claimed.provider)
        }
        _ => return None,
    })
}

pub(super) fn outcome(outcome: ProcessOutcome) -> &'static str {
    match outcome {
        ProcessOutcome::Succeeded => "succeeded",
        ProcessOutcome::Failed => "failed, and was undone",
        ProcessOutcome::CalledOff => "cancelled, and was undone",
    }
}

fn fault(code: u16, message: &str, details: &str) -> String {
    if details.is_empty() { format!("{code} {message}") } else { format!("{code} {message} ({details})") }
}

pub(super) fn status(status: &Status) -> String {
    status.task_state.map_or_else(|| status.status.to_owned(), |task| format!("{} ({task})", status.status))
}

pub(super) fn flavor(flavor: &FlavorSnapshot) -> String {
    format!("{} ({} VCPU, {} MiB, {} GiB)", flavor.name, flavor.vcpus, flavor.memory_mib, flavor.root_gib)
}

pub(super) fn addresses(nics: &[NicInfo]) -> String {
    let each = nics.iter().map(|nic| {
        let ips: Vec<&str> = nic.fixed_ips.iter().map(|ip| ip.address.as_str()).collect();
        format!("{}={} ({})", nic.network_label, ips.join(","), nic.mac)
    });
    let all: Vec<String> = each.collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// The fields as `name=web state=up`. A value of more than 60 characters is shown as `...`.
fn fields(value: &Value) -> String {
    const LONGEST: usize = 60;
    let Value::Object(map) = value else { return String::new() };
    let mut words = Vec::new();
    for (key, value) in map {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        words.push(match text.chars().count() {
            0..=LONGEST => format!("{key}={text}"),
            _ => format!("{key}=..."),
        });
    }
    words.join(" ")
}
