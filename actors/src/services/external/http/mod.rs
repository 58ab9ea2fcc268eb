//! Calls other services over HTTP.
//!
//! Invariants: every attempt ends within the timeout. A stream may take longer while its bytes move. An upload may also
//! take longer after its last byte ([`streams`]). A call is repeated a bounded number of times, with a random pause
//! before each repetition. It carries the id of the request that it is made for. An answer that is not a stream is read
//! up to a bound. If a service has not answered several calls, the calls stop for a while ([`breaker`]). No URL, header
//! or body is logged, because they hold secrets. Only the message of an error answer is logged.

pub mod breaker;
pub mod client;
pub mod query;
pub mod streams;
pub mod tally;
pub mod trust;

#[cfg(test)]
mod tests;

pub use client::{CallFailure, CallOptions, ServiceAnswer, ServiceClient, ServiceRequest};
pub(super) use client::{jittered, pause_of};
pub use query::query_of;
pub use streams::OpenedAnswer;
pub use tally::{CallOutcome, CallTally};
pub use trust::{TlsTrust, TrustError};
