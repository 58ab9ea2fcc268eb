//! The event log, spoken to in EventStoreDB's protocol (gRPC), so that auditors follow it with the clients that
//! EventStoreDB and KurrentDB offer for their language, and other programs may keep events of their own in it.
//!
//! * [`wire`]: the messages. [`service`]: which call is which. [`listener`]: sockets, TLS, bounds.
//! * [`access`]: who may do what. [`read`] with [`filter`]: reads and subscriptions. [`append`]: what is taken in.
//!
//! Invariants: nobody reads or appends without a credential; what stands in a stream of ours was decoded before it was
//! accepted, and came from a process of ours; nothing is ever deleted; whatever a client may make large (messages,
//! appends, patterns, connections, subscriptions) has a bound. What is refused, and why, is told in
//! `docs/eventstoredb.md`.

#![allow(
    clippy::result_large_err,
    clippy::large_enum_variant,
    reason = "the protocol's messages and statuses are as large as they are"
)]

mod access;
mod append;
mod call;
mod filter;
mod listener;
mod read;
mod service;
mod show;
mod status;
#[cfg(test)]
mod tests;
mod wire;

pub use access::{Right, UserError, Users};
pub use listener::{Options, Server, StartError, serve};
