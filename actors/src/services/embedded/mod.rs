//! The embedded services: identity, images, networks and volumes on the same log.
//!
//! Each folder holds the service's aggregates and its implementation of the port that compute asks. The HTTP APIs of the
//! services are in `web`.

pub mod identity;
pub mod image;
pub mod network;
pub mod volume;
