//! `service.update`: an administrator enabled or disabled a compute service, or forced it down. As in Nova, it has no
//! unversioned form.

use std::sync::Arc;

use chronova_events::envelope::{Cause, Recorded, Revision};
use chronova_events::fold::Fold;
use chronova_events::host::{Host, HostEvent, KnownHost};
use chronova_events::registry::Event;
use chronova_events::store::{EventStore, StoreError};
use serde_json::{Value, json};

use super::message::NotificationMessage;
use super::server_history::Initiator;
use super::versioned::object;

/// The events of one read.
const PAGE: usize = 512;
/// The service version of Nova 26. Consumers compare it with the versions of other services.
const SERVICE_VERSION: u32 = 64;

/// The notification of an event of a host; `None` if the event changes no setting of the service. `level`: the priority.
pub(super) async fn update(
    recorded: &Recorded,
    event: &HostEvent,
    level: &str,
    log: &Arc<dyn EventStore>,
) -> Result<Option<NotificationMessage>, StoreError> {
    if !matches!(event, HostEvent::Enabled(_) | HostEvent::Disabled(_) | HostEvent::ForcedDown(_)) {
        return Ok(None);
    }
    let Some(host) = host_at(recorded, log).await?.0 else { return Ok(None) };
    Ok(Some(NotificationMessage {
        event_type: "service.update".to_owned(),
        publisher: format!("nova-compute:{}", host.hostname),
        priority: level.to_owned(),
        payload: payload(&host),
    }))
}

/// The log has no heartbeats. So `report_count` is 0, and `last_seen_up` is the time of the host's last event.
fn payload(host: &KnownHost) -> Value {
    let data = json!({
        "host": host.hostname,
        "binary": "nova-compute",
        "topic": "compute",
        "report_count": 0,
        "disabled": !host.enabled,
        "disabled_reason": host.disabled_reason,
        "availability_zone": null,
        "last_seen_up": host.updated_at.iso_seconds(),
        "forced_down": host.forced_down,
        "version": SERVICE_VERSION,
        "uuid": host.id,
    });
    object("ServiceStatusPayload", "1.1", data)
}

/// The host right after the event.
async fn host_at(recorded: &Recorded, log: &Arc<dyn EventStore>) -> Result<Host, StoreError> {
    let (mut host, mut read) = (Host::default(), Revision::default());
    while read < recorded.revision {
        let page = log.read_stream(&recorded.stream, read, PAGE).await?;
        let before = read;
        for one in page.iter().take_while(|one| one.revision <= recorded.revision) {
            if let Ok(Event::HostEvent(event)) = one.event().map(AsRef::as_ref) {
                host.evolve(event, one.recorded_at);
            }
            read = one.revision;
        }
        if read == before {
            break;
        }
    }
    Ok(host)
}

/// The administrator who changed the service.
pub(super) fn initiator(recorded: &Recorded) -> Initiator {
    match &recorded.meta.cause {
        Cause::User { user, project, .. } => Initiator { user: Some(user.clone()), project: project.clone() },
        Cause::Process { .. } | Cause::System { .. } => Initiator::default(),
    }
}
