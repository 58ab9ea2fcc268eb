//! The state of a server right before and after an event.
//!
//! The read models are ahead of an event that is notified late, so they cannot be asked. The states are folded from the
//! servers' own streams. Some of them stay in memory, because the next event of a server usually follows soon.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use chronova_events::envelope::{Cause, Recorded, Revision};
use chronova_events::fold::Fold;
use chronova_events::ids::{InstanceId, ProjectId, RequestId, UserId};
use chronova_events::instance::{Instance, InstanceEvent};
use chronova_events::registry::Event;
use chronova_events::store::{EventStore, StoreError};

/// The most states in memory.
const KEPT: usize = 1_024;
/// The events of one read.
const PAGE: usize = 512;
/// The most requests whose users are remembered for one server.
const REQUESTS: usize = 8;

/// The user that asked for a change, and the user's project. Both are `None` if a program asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Initiator {
    pub user: Option<UserId>,
    pub project: Option<ProjectId>,
}

#[derive(Debug, Clone, Default)]
struct KnownServer {
    revision: Revision,
    instance: Instance,
    /// The users of the newest requests; the events that follow from a request name only the request.
    initiators: VecDeque<(RequestId, Initiator)>,
}

/// A server right before and right after one event.
#[derive(Debug)]
pub(super) struct ServerMoment {
    pub before: Instance,
    pub after: Instance,
    pub initiator: Initiator,
}

#[derive(Debug, Default)]
pub(super) struct ServerHistory {
    known: HashMap<InstanceId, KnownServer>,
    /// The servers in `known`, in the order in which they were added to it.
    order: VecDeque<InstanceId>,
}

impl ServerHistory {
    /// The server right before and right after an event of its own stream.
    pub(super) async fn at(
        &mut self,
        id: InstanceId,
        recorded: &Recorded,
        event: &InstanceEvent,
        log: &Arc<dyn EventStore>,
    ) -> Result<ServerMoment, StoreError> {
        let mut server = self.known.remove(&id).unwrap_or_default();
        let before = Revision(recorded.revision.0.saturating_sub(1));
        if server.revision > before {
            server = KnownServer::default();
        }
        server.read_until(before, recorded, log).await?;
        let former = server.instance.clone();
        server.take(recorded, event);
        let moment =
            ServerMoment { before: former, after: server.instance.clone(), initiator: server.initiator(recorded) };
        self.keep(id, server);
        Ok(moment)
    }

    fn keep(&mut self, id: InstanceId, server: KnownServer) {
        if !self.order.contains(&id) {
            self.order.push_back(id);
        }
        self.known.insert(id, server);
        while self.known.len() > KEPT {
            let Some(oldest) = self.order.pop_front() else { break };
            self.known.remove(&oldest);
        }
    }
}

impl KnownServer {
    async fn read_until(
        &mut self,
        end: Revision,
        recorded: &Recorded,
        log: &Arc<dyn EventStore>,
    ) -> Result<(), StoreError> {
        while self.revision < end {
            let page = log.read_stream(&recorded.stream, self.revision, PAGE).await?;
            let before = self.revision;
            for one in page.iter().take_while(|one| one.revision <= end) {
                match one.event().map(AsRef::as_ref) {
                    Ok(Event::InstanceEvent(event)) => self.take(one, event),
                    _ => self.revision = one.revision,
                }
            }
            if self.revision == before {
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, recorded: &Recorded, event: &InstanceEvent) {
        self.instance.evolve(event, recorded.recorded_at);
        self.revision = recorded.revision;
        if let (Cause::User { user, project, .. }, Some(request)) = (&recorded.meta.cause, &recorded.meta.request_id) {
            self.initiators.retain(|(known, _)| known != request);
            let initiator = Initiator { user: Some(user.clone()), project: project.clone() };
            self.initiators.push_back((request.clone(), initiator));
            while self.initiators.len() > REQUESTS {
                self.initiators.pop_front();
            }
        }
    }

    fn initiator(&self, recorded: &Recorded) -> Initiator {
        let request = recorded.meta.request_id.as_ref();
        let known = self.initiators.iter().rev().find(|(known, _)| Some(known) == request);
        known.map(|(_, initiator)| initiator.clone()).unwrap_or_default()
    }
}
