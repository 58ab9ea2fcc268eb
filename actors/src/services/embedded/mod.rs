//! The embedded services: identity, images, networks and volumes on the same log.
//!
//! Each folder has the service's aggregates and its implementation of the port that compute calls. The HTTP APIs of the
//! services are in `web`.

pub mod identity;
pub mod image;
pub mod keys;
pub mod network;
pub mod volume;
