//! What is recorded of a host: changes only, never heartbeats.

use chronova_events::host::{CameUp, Deregistered, Disabled, Enabled, ForcedDown, Host, HostEvent, WentDown};

use super::{HostCommand, HostReject, changed};

pub fn decide(state: &Host, command: HostCommand) -> Result<Vec<HostEvent>, HostReject> {
    let Some(host) = &state.0 else {
        return match command {
            HostCommand::Report(report) => Ok(vec![report.into()]),
            HostCommand::Deregister => Ok(vec![]),
            _ => Err(HostReject::NotFound),
        };
    };
    let mut events: Vec<HostEvent> = Vec::new();
    match command {
        HostCommand::Report(report) => {
            if (&host.hostname, &host.uri, &host.capabilities) != (&report.hostname, &report.uri, &report.capabilities)
            {
                events.push(changed(&report).into());
            }
            if !host.up {
                events.push(CameUp {}.into());
            }
        }
        HostCommand::ReportDown { reason } if host.up => events.push(WentDown { reason }.into()),
        HostCommand::Enable if !host.enabled => events.push(Enabled {}.into()),
        HostCommand::Disable { reason } if host.enabled || host.disabled_reason != reason => {
            events.push(Disabled { reason }.into());
        }
        HostCommand::ForceDown { forced } if host.forced_down != forced => events.push(ForcedDown { forced }.into()),
        HostCommand::Deregister => events.push(Deregistered {}.into()),
        HostCommand::ReportDown { .. }
        | HostCommand::Enable
        | HostCommand::Disable { .. }
        | HostCommand::ForceDown { .. } => {}
    }
    Ok(events)
}
