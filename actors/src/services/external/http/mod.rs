//! Calls of other services over HTTP.
//!
//! Invariants: every call ends within its timeout, is repeated a bounded number of times with a random pause in between,
//! and carries the id of the request that it is made for. An answer is read up to a bound. A service that has not answered
//! several calls is left alone for a while ([`breaker`]). No URL, header or body is logged, since they hold secrets.

pub mod breaker;
pub mod client;
pub mod tally;
pub mod trust;

#[cfg(test)]
mod tests;

pub use client::{CallFailure, CallOptions, ServiceAnswer, ServiceClient, ServiceRequest};
pub use tally::{CallOutcome, CallTally};
pub use trust::{TlsTrust, TrustError};
