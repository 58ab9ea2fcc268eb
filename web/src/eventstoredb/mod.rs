//! Serves the event log in EventStoreDB's protocol (gRPC). Auditors follow the log with the EventStoreDB and KurrentDB
//! clients for their language. Other programs may store their own events in the log.
//!
//! * [`wire`] has the messages. [`service`] routes calls to functions, and [`call`] serves a function as a call.
//!   [`listener`] has the sockets, TLS and the bounds of connections. [`served`] has the state that all calls share.
//! * [`access`] has the users and their rights. [`read`] and [`filter`] serve reads and subscriptions. [`links`] serves
//!   the streams of links for categories and types. [`persistent`] serves persistent subscriptions, and [`append`]
//!   appends.
//! * [`show`] renders events for clients. [`status`] maps errors to gRPC statuses.
//!
//! Invariants: nobody reads or appends without a credential. Only a Chronova process appends to Chronova's streams, and
//! each such event is decoded before it is accepted. No event is ever deleted. Everything that a client can make large
//! (messages, appends, patterns, connections, subscriptions) has a bound. `docs/eventstoredb.md` lists the refusals and
//! their reasons.

#![allow(
    clippy::result_large_err,
    clippy::large_enum_variant,
    reason = "the protocol defines how large its messages and statuses are"
)]

mod access;
mod append;
mod call;
mod filter;
mod links;
mod listener;
mod persistent;
mod read;
mod served;
mod service;
mod show;
mod status;
#[cfg(test)]
mod tests;
mod wire;

pub use access::{LogRight, LogUserError, LogUsers};
pub use listener::{LogServer, LogServerError, LogServerOptions, serve};
