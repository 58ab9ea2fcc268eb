//! The embedded services: identity, images, networks and volumes on the same log, and a key manager with files.
//!
//! Each service has a folder with its aggregates and the implementation of the port that compute calls. Two services
//! differ: the port of identity is implemented in `web`, and the key manager has no aggregates. The HTTP APIs of the
//! services are in `web`.

pub mod identity;
pub mod image;
pub mod keys;
pub mod network;
pub mod volume;
