//! Records of console sessions. A session is recorded in the name of the user who got the console's token.

use std::net::IpAddr;
use std::sync::Arc;

use chronova_events::access::{AccessClient, AccessSort, ConsoleClosed, ConsoleOpened, LeftOutOf};
use chronova_events::console::{ConsoleAuthorized, ConsoleEvent};
use chronova_events::envelope::{Cause, Meta, Recorded, RequestSource, Revision, StreamId};
use chronova_events::ids::UserId;
use chronova_events::registry::NounEvent;
use chronova_events::store::EventStore;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{AccessLog, of_address};

/// The number of events that are read at once.
const PAGE: usize = 256;

/// A recorded session. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct ConsoleSession(#[expect(dead_code, reason = "its drop is the message")] oneshot::Sender<()>);

/// Records the beginning of a session, and later its end. The client does not wait for either.
pub(crate) fn opened(
    log: &Arc<AccessLog>,
    (remote, agent): (Option<IpAddr>, Option<&str>),
    known: &Arc<ConsoleAuthorized>,
) -> ConsoleSession {
    let (log, known) = (Arc::clone(log), Arc::clone(known));
    let client = AccessClient::of(RequestSource::new(remote, agent).as_deref());
    let (session, ended) = oneshot::channel();
    tokio::spawn(async move {
        let (user, meta) = requested_by(&log, &known).await;
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

/// The user who got the token, and the cause of the session's records.
async fn requested_by(log: &AccessLog, known: &ConsoleAuthorized) -> (Option<UserId>, Arc<Meta>) {
    let Some(authorized) = authorization(&*log.log, known).await else { return (None, Meta::system("console")) };
    let meta = &authorized.meta;
    let (user, cause) = match &meta.cause {
        Cause::User { user, project, roles, .. } => {
            let (project, roles) = (project.clone(), roles.clone());
            (Some(user.clone()), Cause::User { user: user.clone(), project, roles, source: None })
        }
        other => (None, other.clone()),
    };
    let (request_id, correlation) = (meta.request_id.clone(), meta.correlation);
    (user, Arc::new(Meta { request_id, correlation, causation: Some(authorized.id), cause }))
}

/// The event that authorized a console. The log has the event while the console's token is valid.
async fn authorization(log: &dyn EventStore, known: &ConsoleAuthorized) -> Option<Arc<Recorded>> {
    let (stream, mut at) = (StreamId::new(ConsoleEvent::NOUN, known.instance), Revision::NONE);
    loop {
        let page = log.read_stream(&stream, at, PAGE).await.ok()?;
        at = page.last()?.revision;
        let is_it = |recorded: &&Arc<Recorded>| {
            let event = recorded.event().ok().and_then(|event| ConsoleEvent::of(event));
            event.is_some_and(|ConsoleEvent::ConsoleAuthorized(one)| one.token_hash == known.token_hash)
        };
        if let Some(found) = page.iter().find(is_it) {
            return Some(Arc::clone(found));
        }
    }
}
