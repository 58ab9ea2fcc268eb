//! The requests for new servers that clients wait for. If two members executed one request, they would record its
//! servers twice.
//!
//! A request is in memory from before its claim until its process has ended. After a crash, the process finds its claim
//! in the log but no request here, and undoes its steps. The client of such a request got no answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::ProcessId;
use chronova_events::store::StoreError;
use tokio::sync::oneshot;

use crate::instance::creation::{CreateReject, CreateServersRequest};

/// The answer to the client: the position in the log of the last of its servers, or the reason why there are none.
pub type CreateAnswer = Result<Position, CreateReject>;

/// The part of a request that its process reads.
#[derive(Debug, Clone)]
pub struct CreateOrder {
    pub request: Arc<CreateServersRequest>,
    /// The user who asked, and the request's id.
    pub meta: Arc<Meta>,
}

struct WaitingCreate {
    order: Option<CreateOrder>,
    /// The position of the request's newest event.
    reached: Position,
    refused: Option<CreateReject>,
    answer: oneshot::Sender<CreateAnswer>,
}

#[derive(Default)]
struct Desk {
    closed: bool,
    entries: BTreeMap<ProcessId, WaitingCreate>,
}

/// The requests under way, by their processes.
#[derive(Default)]
pub struct CreateRequests(Mutex<Desk>);

impl std::fmt::Debug for CreateRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CreateRequests")
    }
}

impl CreateRequests {
    fn with<R>(&self, with: impl FnOnce(&mut Desk) -> R) -> R {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers a request before its process is requested. The receiver gets the result; it fails if no process is
    /// executed any more.
    pub fn take_in(&self, process: ProcessId, order: CreateOrder) -> oneshot::Receiver<CreateAnswer> {
        let (answer, told) = oneshot::channel();
        let entry = WaitingCreate { order: Some(order), reached: Position::START, refused: None, answer };
        self.with(|desk| {
            if !desk.closed {
                desk.entries.insert(process, entry);
            }
        });
        told
    }

    /// Removes a request if its process was not requested after all.
    pub fn withdraw(&self, process: ProcessId) {
        self.with(|desk| desk.entries.remove(&process));
    }

    /// The order of the process; `None` after a crash, and after the request was refused.
    pub fn order(&self, process: ProcessId) -> Option<CreateOrder> {
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

    /// Notes that the request cannot succeed any more. The client gets the answer when the process is undone. If the
    /// log is not available, the client gets the answer at once, because the undo may take long. A log that refused one
    /// too large event is still available.
    pub fn refuse(&self, process: ProcessId, reject: CreateReject) {
        self.with(|desk| {
            let Some(entry) = desk.entries.get_mut(&process) else { return };
            entry.order = None;
            match &reject {
                CreateReject::Unavailable(error) if !matches!(error, StoreError::TooLarge { .. }) => {
                    let Some(entry) = desk.entries.remove(&process) else { return };
                    // The client may have gone.
                    let _ = entry.answer.send(Err(reject));
                }
                _ => entry.refused = Some(reject),
            }
        });
    }

    /// Answers the client at the end of the process.
    pub fn settle(&self, process: ProcessId, succeeded: bool) {
        let Some(entry) = self.with(|desk| desk.entries.remove(&process)) else { return };
        let lost = || CreateReject::Unavailable(StoreError::Closed);
        let answer = match succeeded {
            true => Ok(entry.reached),
            false => Err(entry.refused.unwrap_or_else(lost)),
        };
        // The client may have gone.
        let _ = entry.answer.send(answer);
    }

    /// Ends all waits, now and later, because no process is executed any more.
    pub fn close(&self) {
        self.with(|desk| {
            desk.closed = true;
            desk.entries.clear();
        });
    }
}
