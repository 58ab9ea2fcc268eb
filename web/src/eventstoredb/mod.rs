//! Serves the event log in EventStoreDB's protocol (gRPC). Auditors follow it with the clients of EventStoreDB and
//! KurrentDB for their language. Other programs may keep events of their own in it.
//!
//! * [`wire`]: the messages. [`service`]: which call is which. [`listener`]: sockets, TLS, bounds.
//! * [`access`]: who may do what. [`read`] with [`filter`]: reads and subscriptions. [`append`]: what is taken in.
//!
//! Invariants: nobody reads or appends without a credential. An event in one of our streams came from one of our
//! programs, and was decoded before it was accepted. Nothing is ever deleted. Everything that a client can make large
//! (messages, appends, patterns, connections, subscriptions) has a bound. `docs/eventstoredb.md` lists the refusals and
//! their reasons.

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

pub use access::{LogRight, LogUserError, LogUsers};
pub use listener::{LogServer, LogServerError, LogServerOptions, serve};
