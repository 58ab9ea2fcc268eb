//! Whether an operator has given up the hosts of a live migration.
//!
//! In Nova, an operator resets the state of a server whose migration does not end, and evacuates it. A reset says
//! nothing about a host that goes down later: the guest may have arrived there meanwhile. So only a reset counts that
//! came after the hosts had gone down, and only while they stay down. The positions of the events in the log show the
//! order.

use chronova_events::envelope::{Position, Recorded, Revision, StreamId};
use chronova_events::fold::Fold as _;
use chronova_events::host::{Host, HostEvent, KnownHost};
use chronova_events::ids::HostId;
use chronova_events::instance::{DeclaredState, InstanceEvent, StateDeclared};
use chronova_events::registry::NounEvent;
use chronova_events::store::{EventStore, StoreError};

use super::definition::StepRun;
use crate::aggregate::AggregateRoot as _;
use crate::host::HostRoot;
use crate::instance::InstanceRoot;

/// How many events are read at once.
const PAGE: usize = 512;

/// Whether an operator has reset the server's state to error since all of `hosts` went down. If the log cannot be read,
/// the answer is no, and the caller asks again.
pub(super) async fn is_given_up(work: &StepRun, hosts: &[HostId]) -> bool {
    let hosts: Vec<StreamId> = hosts.iter().map(HostRoot::stream).collect();
    let known = was_reset_since(&*work.context.log, &InstanceRoot::stream(&work.instance_id()), &hosts).await;
    known.unwrap_or_else(|error| {
        tracing::warn!(server = %work.instance_id(), %error, "reading the resets of a server failed, retrying");
        false
    })
}

async fn was_reset_since(log: &dyn EventStore, server: &StreamId, hosts: &[StreamId]) -> Result<bool, StoreError> {
    let Some(reset) = newest_reset(log, server).await? else { return Ok(false) };
    for host in hosts {
        if down_since(log, host).await?.is_none_or(|since| since > reset) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The position of the server's newest reset to error; `None` if there is none.
async fn newest_reset(log: &dyn EventStore, server: &StreamId) -> Result<Option<Position>, StoreError> {
    let mut newest = None;
    read(log, server, |event: &InstanceEvent, recorded| {
        if let InstanceEvent::StateDeclared(StateDeclared { state: DeclaredState::Error }) = event {
            newest = Some(recorded.position);
        }
    })
    .await?;
    Ok(newest)
}

/// The position of the event since which the host does not answer; `None` if it answers.
async fn down_since(log: &dyn EventStore, host: &StreamId) -> Result<Option<Position>, StoreError> {
    let (mut state, mut since) = (Host::default(), None);
    read(log, host, |event: &HostEvent, recorded| {
        state.evolve(event, recorded.recorded_at);
        let answers = state.0.as_deref().is_some_and(KnownHost::answers);
        since = if answers { None } else { since.or(Some(recorded.position)) };
    })
    .await?;
    Ok(since)
}

/// Reads a stream from its beginning.
async fn read<E: NounEvent>(
    log: &dyn EventStore,
    stream: &StreamId,
    mut see: impl FnMut(&E, &Recorded) + Send,
) -> Result<(), StoreError> {
    let mut after = Revision::NONE;
    loop {
        let page = log.read_stream(stream, after, PAGE).await?;
        for recorded in &page {
            let event = recorded
                .event()
                .map_err(|error| StoreError::Corrupt { position: recorded.position.0, reason: error.to_string() })?;
            if let Some(event) = E::of(event) {
                see(event, recorded);
            }
            after = recorded.revision;
        }
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::envelope::{Meta, NewEvent, Timestamp};
    use chronova_events::host::{self, CameUp, Deregistered, ForcedDown, WentDown};
    use chronova_events::registry::Event;
    use chronova_events::store::Expected;
    use chronova_events::store::memory::MemoryStore;

    use super::*;

    async fn put(log: &MemoryStore, stream: &StreamId, event: impl Into<Event>) {
        let new = NewEvent::new(event, Timestamp(1), &Meta::system("test"));
        log.append(stream, Expected::Any, vec![new]).await.unwrap();
    }

    fn down() -> HostEvent {
        WentDown { reason: "no answer".into() }.into()
    }

    fn reset(state: DeclaredState) -> InstanceEvent {
        StateDeclared { state }.into()
    }

    #[tokio::test]
    async fn a_reset_counts_only_while_the_hosts_stay_down_since_before_it() {
        let log = MemoryStore::new();
        let server = StreamId::new("instance", 1);
        let hosts = [2, 3].map(|host| StreamId::new("host", host));
        let [one, other] = &hosts;
        let registered =
            || host::samples().into_iter().find(|event| matches!(event, HostEvent::Registered(_))).unwrap();
        for host in &hosts {
            put(&log, host, registered()).await;
        }
        let known = async || was_reset_since(&*log, &server, &hosts).await.unwrap();
        put(&log, one, down()).await;
        put(&log, other, down()).await;
        assert!(!known().await, "nobody has reset the state");
        put(&log, &server, reset(DeclaredState::Active)).await;
        assert!(!known().await, "a reset to active gives nothing up");
        put(&log, &server, reset(DeclaredState::Error)).await;
        assert!(known().await);
        put(&log, one, HostEvent::from(ForcedDown { forced: true })).await;
        assert!(known().await, "the host still does not answer");
        put(&log, other, HostEvent::from(CameUp {})).await;
        assert!(!known().await, "a host answers");
        put(&log, other, down()).await;
        assert!(!known().await, "the host went down after the reset");
        put(&log, &server, reset(DeclaredState::Error)).await;
        assert!(known().await);
        put(&log, one, HostEvent::from(Deregistered {})).await;
        assert!(known().await, "a removed host does not answer");
        put(&log, one, registered()).await;
        assert!(!known().await, "the removed host is back");
    }
}
