//! The embedded identity service: the part of Keystone's v3 API that clients need.
//!
//! Each resource has a file with a route table. The dispatcher knows only [`ROUTES`], the list of these tables.
//! - [`service`]: the shared state of the handlers, and the verification of tokens;
//! - [`tokens`]: signs and reads tokens; [`login`]: finds the user and the scope of credentials;
//! - [`application_credentials`]: the log-ins of programs, and the requests that these may send;
//! - [`catalogue`]: the services and endpoints of the configuration; [`clouds`]: the client's `clouds.yaml`.
//!
//! Invariants: every verification looks up roles and `enabled` flags, so that a revocation takes effect at once. An
//! answer holds a password or a token only if the client has sent or requested it. A log line never holds one.

mod answers;
mod application_credentials;
mod attempts;
mod auth;
mod catalog;
pub mod catalogue;
pub mod clouds;
mod domains;
mod extra;
mod fault;
mod grants;
mod groups;
mod implied_roles;
mod limits;
mod listing;
mod login;
mod projects;
mod realm;
mod registered_limits;
mod roles;
pub mod service;
pub mod tokens;
mod users;

use crate::route::Route;

pub use chronova_actors::coordination::lockouts::LockoutRule;
pub use service::{IdentityOptions, IdentityService};

/// The tables of all resources.
pub const ROUTES: &[&[Route]] = &[
    application_credentials::ROUTES,
    auth::ROUTES,
    catalog::ROUTES,
    domains::ROUTES,
    grants::ROUTES,
    groups::ROUTES,
    implied_roles::ROUTES,
    limits::ROUTES,
    projects::ROUTES,
    registered_limits::ROUTES,
    roles::ROUTES,
    users::ROUTES,
];
