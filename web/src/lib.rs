//! The HTTP APIs.
//!
//! A request runs through [`server`] (headers, ids, log) and `pipeline` (authentication, version, schema, policy) into
//! a handler. The handler gets a [`ctx::Ctx`] and returns a [`reply::Reply`] or a [`fault::Fault`]. Operations are
//! lines of [`route::Route`] tables, one folder per API.
//!
//! Invariants: handlers send commands through [`dispatch`], with a [`policy::Permit`]. There are two exceptions. The
//! embedded volume service sends the commands to volumes itself. A guest's password needs a guest's proof of identity
//! in place of a permit. Handlers do not name microversions; tables, `answers` and `versions` modules do. Every answer
//! of an operation carries the request id.

mod address;
mod body;
mod cors;
mod discovery;
mod pattern;
mod pipeline;

pub mod access;
pub mod answers;
pub mod app;
pub mod as_of;
pub mod auth;
pub mod cluster;
pub mod config;
pub mod ctx;
pub mod dispatch;
pub mod fault;
pub mod fields;
pub mod health;
pub mod in_process;
pub mod links;
pub mod metrics;
pub mod microversion;
pub mod openapi;
pub mod paging;
pub mod policy;
pub mod query;
pub mod rate;
pub mod reply;
pub mod route;
pub mod router;
pub mod schema;
pub mod secret;
pub mod server;
pub mod service;
pub mod startup_gate;
pub mod tables;
pub mod tls;

pub mod audit;
pub mod compute;
pub mod console;
pub mod dashboard;
pub mod eventstoredb;
pub mod identity;
pub mod image;
pub mod metadata;
pub mod network;
pub mod operator;
pub mod placement;
pub mod volume;

pub use app::App;
pub use config::WebConfig;
pub use ctx::Ctx;
pub use fault::Fault;
pub use microversion::Microversion;
pub use policy::{Permit, PolicyTarget};
pub use reply::Reply;
