//! Clients of services that run elsewhere: the real Keystone, Glance, Cinder, Neutron and Barbican, and a message
//! broker ([`amqp`]).
//!
//! Only [`http`] calls services over HTTP. The folders of Keystone, Glance, Cinder and Neutron implement the ports of
//! [`crate::ports`] that the embedded services implement, too. The folder of Barbican implements the port of
//! certificates.

pub mod amqp;
pub mod barbican;
pub mod cinder;
pub mod glance;
pub mod http;
pub mod keystone;
pub mod neutron;
#[cfg(test)]
mod stub;
