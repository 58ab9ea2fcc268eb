//! Records of access, for auditors: refused requests, log-ins, tokens, console sessions, reads of secrets.
//!
//! An answer never waits for its record. A record waits in memory until [`writer`] appends it with others, so a crash
//! loses the records of the last moment. [`budget`] bounds the records of one project or user, and of all together.
//! Records that are left out are counted, and the numbers are recorded. [`requests`] says which answers are recorded.
//! The handlers of log-ins and the console gateway record the rest.
//!
//! Only the process that may append has an [`AccessLog`]. A member of a cluster that follows records nothing.

pub mod budget;
pub mod consoles;
pub mod logins;
pub mod requests;
mod writer;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use chronova_events::access::{AccessEvent, AccessSort, LeftOutOf};
use chronova_events::clock::Clock;
use chronova_events::envelope::{Meta, NewEvent};
use chronova_events::store::EventStore;
use tokio::sync::{mpsc, oneshot};

use self::budget::{AccessBudget, AccessRates};
use self::writer::Queued;
use crate::address;

/// The most records that wait in memory. Further records are left out.
const DEPTH: usize = 4_096;

/// Takes records and appends them later.
pub struct AccessLog {
    queue: mpsc::Sender<Queued>,
    budget: Arc<AccessBudget>,
    pub(crate) log: Arc<dyn EventStore>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessLog").finish_non_exhaustive()
    }
}

impl AccessLog {
    /// Starts the writer of records into `log`. Needs a runtime.
    pub fn start(log: Arc<dyn EventStore>, clock: Arc<dyn Clock>, rates: AccessRates) -> Arc<Self> {
        let budget = Arc::new(AccessBudget::new(rates));
        let (queue, queued) = mpsc::channel(DEPTH);
        tokio::spawn(writer::run(queued, Arc::clone(&log), Arc::clone(&budget), Arc::clone(&clock)));
        Arc::new(Self { queue, budget, log, clock })
    }

    /// Takes a record, or counts it as left out. `of` is the source whose rate the record uses.
    pub(crate) fn record(&self, sort: AccessSort, of: LeftOutOf, event: impl Into<AccessEvent>, meta: &Arc<Meta>) {
        let now = self.clock.now();
        if !self.budget.admits(sort, &of, Instant::now()) {
            return self.budget.left_out(sort, of, now);
        }
        let (event, stream) = {
            let event = event.into();
            let stream = chronova_events::access::stream(event.user());
            (NewEvent::new(event, now, meta), stream)
        };
        if let Err(full) = self.queue.try_send(Queued::Record(Box::new((stream, event, sort, of)))) {
            let (mpsc::error::TrySendError::Full(queued) | mpsc::error::TrySendError::Closed(queued)) = full;
            if let Queued::Record(record) = queued {
                let (_, _, sort, of) = *record;
                self.budget.left_out(sort, of, now);
            }
        }
    }

    /// Counts a record that is not written.
    pub(crate) fn leave_out(&self, sort: AccessSort, of: LeftOutOf) {
        self.budget.left_out(sort, of, self.clock.now());
    }

    /// Appends all records that wait, and the numbers of those left out. Returns when they are durable.
    pub async fn flush(&self) {
        let (done, told) = oneshot::channel();
        if self.queue.send(Queued::Flush(done)).await.is_ok() {
            // The writer ends only with the process.
            let _ = told.await;
        }
    }
}

/// The source of a record without a known user: the client's IPv4 address, or its IPv6 network.
fn of_address(from: Option<IpAddr>) -> LeftOutOf {
    from.map_or(LeftOutOf::Others, |from| LeftOutOf::Network(address::network(from)))
}
