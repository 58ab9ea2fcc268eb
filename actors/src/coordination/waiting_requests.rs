//! Requests whose clients wait while a process executes them. If two members executed one request, they would create
//! its servers twice, or send it twice to its server.
//!
//! A request is in memory from before its first event until its process has ended. After a crash, the log has the
//! beginning of the process, but the request is no longer here. So the process undoes its steps. The client of such a
//! request got no answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::ProcessId;
use chronova_events::store::StoreError;
use tokio::sync::oneshot;

use crate::instance::asking::{AskServerReject, ServerRequest};
use crate::instance::creation::{CreateReject, CreateServersRequest};
use crate::ports::PortError;

/// The reason why a request failed.
pub trait RequestRefusal {
    /// The refusal for a request that no process executes any more.
    fn lost() -> Self;

    /// Whether the log, or a service that the undo needs, is not available. If so, the undo may take long.
    fn is_outage(&self) -> bool;
}

/// The part of a request for servers that its process reads.
#[derive(Debug, Clone)]
pub struct CreateOrder {
    pub request: Arc<CreateServersRequest>,
    /// The user who asked, and the request's id.
    pub meta: Arc<Meta>,
}

/// The requests for new servers under way.
pub type CreateRequests = WaitingRequests<CreateOrder, CreateReject>;

/// The requests under way for which a process claims quota or creates an image before the server decides.
pub type ServerRequests = WaitingRequests<ServerRequest, AskServerReject>;

impl RequestRefusal for CreateReject {
    fn lost() -> Self {
        Self::Unavailable(StoreError::Closed)
    }

    fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(error) if takes_nothing(error))
    }
}

impl RequestRefusal for AskServerReject {
    fn lost() -> Self {
        Self::Unavailable(StoreError::Closed)
    }

    fn is_outage(&self) -> bool {
        match self {
            Self::Unavailable(error) => takes_nothing(error),
            Self::Images(error) => matches!(error, PortError::Unavailable(_)),
            Self::Quota(_) | Self::Server(_) => false,
        }
    }
}

/// Whether the error means that the log is not available. A log that refuses an event, because the event is too large or
/// some members could not read it, is available.
fn takes_nothing(error: &StoreError) -> bool {
    !matches!(error, StoreError::TooLarge { .. } | StoreError::BelowLevel { .. })
}

struct WaitingRequest<O, R> {
    order: Option<O>,
    /// The position of the request's newest event.
    reached: Position,
    refused: Option<R>,
    answer: oneshot::Sender<Result<Position, R>>,
}

struct Desk<O, R> {
    closed: bool,
    entries: BTreeMap<ProcessId, WaitingRequest<O, R>>,
}

/// The requests under way, by their processes.
pub struct WaitingRequests<O, R>(Mutex<Desk<O, R>>);

impl<O, R> Default for WaitingRequests<O, R> {
    fn default() -> Self {
        Self(Mutex::new(Desk { closed: false, entries: BTreeMap::new() }))
    }
}

impl<O, R> std::fmt::Debug for WaitingRequests<O, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WaitingRequests")
    }
}

impl<O: Clone, R: RequestRefusal> WaitingRequests<O, R> {
    fn with<T>(&self, with: impl FnOnce(&mut Desk<O, R>) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers a request before its process is requested. The receiver gets the position of the request's last event,
    /// or the refusal. The receiver fails if this member executes no processes any more.
    pub fn take_in(&self, process: ProcessId, order: O) -> oneshot::Receiver<Result<Position, R>> {
        let (answer, reply) = oneshot::channel();
        let entry = WaitingRequest { order: Some(order), reached: Position::START, refused: None, answer };
        self.with(|desk| {
            if !desk.closed {
                desk.entries.insert(process, entry);
            }
        });
        reply
    }

    /// Removes a request whose process was not requested after all.
    pub fn withdraw(&self, process: ProcessId) {
        self.with(|desk| desk.entries.remove(&process));
    }

    /// The part of the request that the process reads. `None` after a crash, and after the request was refused.
    pub fn order(&self, process: ProcessId) -> Option<O> {
        self.with(|desk| desk.entries.get(&process).and_then(|entry| entry.order.clone()))
    }

    /// Notes that the process has recorded an event at `position`.
    pub fn reached(&self, process: ProcessId, position: Position) {
        self.with(|desk| {
            if let Some(entry) = desk.entries.get_mut(&process) {
                entry.reached = entry.reached.max(position);
            }
        });
    }

    /// Notes that the request cannot succeed any more. The client gets the answer when the process is undone. In an
    /// outage the client gets the answer at once, because the undo may take long.
    pub fn refuse(&self, process: ProcessId, reject: R) {
        self.with(|desk| {
            let Some(entry) = desk.entries.get_mut(&process) else { return };
            entry.order = None;
            if !reject.is_outage() {
                entry.refused = Some(reject);
            } else if let Some(entry) = desk.entries.remove(&process) {
                // The client may have gone.
                let _ = entry.answer.send(Err(reject));
            }
        });
    }

    /// Answers the client at the end of the process.
    pub fn settle(&self, process: ProcessId, succeeded: bool) {
        let Some(entry) = self.with(|desk| desk.entries.remove(&process)) else { return };
        let answer = match succeeded {
            true => Ok(entry.reached),
            false => Err(entry.refused.unwrap_or_else(R::lost)),
        };
        // The client may have gone.
        let _ = entry.answer.send(answer);
    }

    /// Ends all waits, now and later, because this member executes no processes any more.
    pub fn close(&self) {
        self.with(|desk| {
            desk.closed = true;
            desk.entries.clear();
        });
    }
}
