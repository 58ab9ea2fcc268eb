//! Records of console sessions. A session is recorded in the name of the user who got the console's token.

use std::net::IpAddr;
use std::sync::Arc;

use chronova_events::access::{AccessClient, AccessSort, ConsoleClosed, ConsoleOpened, LeftOutOf};
use chronova_events::console::ConsoleEvent;
use chronova_events::envelope::{Cause, Meta, Recorded, RequestSource, Revision, StreamId};
use chronova_events::ids::UserId;
use chronova_events::registry::NounEvent;
use chronova_events::store::EventStore;
use chronova_projections::consoles::ConsoleToken;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{AccessLog, of_address};

/// A recorded session. The session ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct ConsoleSession(#[expect(dead_code, reason = "its drop is the message")] oneshot::Sender<()>);

/// The user who got the token of a console, and the cause of the session's records.
#[derive(Debug)]
pub(crate) struct ConsoleRequester {
    pub(crate) user: Option<UserId>,
    meta: Arc<Meta>,
}

/// Records the beginning of a session, and later its end. The client does not wait for either.
pub(crate) fn opened(
    log: &Arc<AccessLog>,
    (remote, agent): (Option<IpAddr>, Option<&str>),
    token: &Arc<ConsoleToken>,
    ConsoleRequester { user, meta }: ConsoleRequester,
) -> ConsoleSession {
    let (log, token) = (Arc::clone(log), Arc::clone(token));
    let client = AccessClient::of(RequestSource::new(remote, agent).as_deref());
    let (session, ended) = oneshot::channel();
    tokio::spawn(async move {
        let known = &token.authorized;
        let of = || user.clone().map_or_else(|| of_address(remote), LeftOutOf::User);
        let console = known.kind.clone();
        let opened = ConsoleOpened { user: user.clone(), client, server: known.instance, console: console.clone() };
        log.record(AccessSort::Console, of(), opened, &meta);
        let began = Instant::now();
        // An error means that the session was dropped.
        let _ = ended.await;
        let closed = ConsoleClosed { server: known.instance, console, seconds: began.elapsed().as_secs() };
        log.record(AccessSort::Console, of(), closed, &meta);
    });
    ConsoleSession(session)
}

/// Reads from the log who got the token.
pub(crate) async fn requester(log: &AccessLog, token: &ConsoleToken) -> ConsoleRequester {
    let Some(authorized) = authorization(&*log.log, token).await else {
        return ConsoleRequester { user: None, meta: Meta::system("console") };
    };
    let meta = &authorized.meta;
    let (user, cause) = match &meta.cause {
        Cause::User { user, project, roles, .. } => {
            let (project, roles) = (project.clone(), roles.clone());
            (Some(user.clone()), Cause::User { user: user.clone(), project, roles, source: None })
        }
        other => (None, other.clone()),
    };
    let (request_id, correlation) = (meta.request_id.clone(), meta.correlation);
    ConsoleRequester { user, meta: Arc::new(Meta { request_id, correlation, causation: Some(authorized.id), cause }) }
}

/// The event that authorized a console.
async fn authorization(log: &dyn EventStore, token: &ConsoleToken) -> Option<Arc<Recorded>> {
    let stream = StreamId::new(ConsoleEvent::NOUN, token.authorized.instance);
    log.read_stream(&stream, Revision(token.revision.0.saturating_sub(1)), 1).await.ok()?.pop()
}
