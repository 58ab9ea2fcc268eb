//! The embedded services: identity, images, networks and volumes on the same log, and a key manager with files.
//!
//! Each service has a folder with its aggregates, and with the implementation of the port that compute calls. The HTTP
//! APIs of the services are in `web`.

pub mod identity;
pub mod image;
pub mod keys;
pub mod network;
pub mod volume;
