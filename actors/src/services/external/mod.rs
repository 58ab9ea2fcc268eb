//! Clients of services that run elsewhere: the real Keystone.
//!
//! Only [`http`] calls other services. Each service has a folder, which implements the same port of [`crate::ports`] as
//! the embedded service.

pub mod http;
pub mod keystone;
#[cfg(test)]
mod stub;
