//! The decisions of a host. A host records only changes, never heartbeats.

use chronova_events::host::{CameUp, Deregistered, Disabled, ForcedDown, Host, HostEvent, WentDown};

use super::{HostCommand, HostReject, changed, drain};

/// Nova's reason for disabling a host that registered while `[DEFAULT] enable_new_services` was off.
const NOT_ADMITTED: &str = "New compute service disabled due to config option.";

pub fn decide(state: &Host, command: HostCommand) -> Result<Vec<HostEvent>, HostReject> {
    let Some(host) = &state.0 else {
        return match command {
            HostCommand::Report { report, admitted: true } => Ok(vec![report.into()]),
            HostCommand::Report { report, admitted: false } => {
                Ok(vec![report.into(), Disabled { reason: Some(NOT_ADMITTED.to_owned()) }.into()])
            }
            HostCommand::Deregister => Ok(vec![]),
            _ => Err(HostReject::NotFound),
        };
    };
    let mut events: Vec<HostEvent> = Vec::new();
    match command {
        HostCommand::Report { report, .. } => {
            if (&host.hostname, &host.uri, &host.capabilities) != (&report.hostname, &report.uri, &report.capabilities)
            {
                events.push(changed(&report).into());
            }
            if !host.up {
                events.push(CameUp {}.into());
            }
        }
        HostCommand::ReportDown { reason } if host.up => events.push(WentDown { reason }.into()),
        HostCommand::Enable => events.extend(drain::open(host)),
        HostCommand::Disable { reason } if host.enabled || host.disabled_reason != reason => {
            events.push(Disabled { reason }.into());
        }
        HostCommand::ForceDown { forced } if host.forced_down != forced => events.push(ForcedDown { forced }.into()),
        HostCommand::Deregister => events.push(Deregistered {}.into()),
        HostCommand::Drain(command) => return drain::decide(host, command),
        HostCommand::DrainRecord(record) => events.extend(drain::record(host, record)),
        HostCommand::ReportDown { .. } | HostCommand::Disable { .. } | HostCommand::ForceDown { .. } => {}
    }
    Ok(events)
}
