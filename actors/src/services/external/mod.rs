//! Clients of services that run elsewhere: the real Keystone, Glance, Cinder, Neutron and Barbican, and a message broker ([`amqp`]).
//!
//! Only [`http`] calls services over HTTP. Each of the four services has a folder, which implements the same port of
//! [`crate::ports`] as the embedded service.

pub mod amqp;
pub mod barbican;
pub mod cinder;
pub mod glance;
pub mod http;
pub mod keystone;
pub mod neutron;
#[cfg(test)]
mod stub;
