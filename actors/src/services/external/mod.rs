//! Clients of services that run elsewhere: the real Keystone and Glance.
//!
//! [`http`] is the one way out of this process to another service. Each service has a folder, which implements the port
//! of [`crate::ports`] that the embedded service implements as well.

pub mod glance;
pub mod http;
pub mod keystone;
