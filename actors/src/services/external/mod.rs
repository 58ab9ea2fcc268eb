//! Clients of services that run elsewhere: the real Keystone.
//!
//! [`http`] is the one way out of this process to another service. Each service has a folder, which implements the port
//! of [`crate::ports`] that the embedded service implements as well.

pub mod http;
pub mod keystone;
#[cfg(test)]
mod stub;
