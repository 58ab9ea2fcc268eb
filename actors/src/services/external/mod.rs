//! Clients of services that run elsewhere: the real Keystone, Glance, Cinder, Neutron and Barbican, and a message
//! broker ([`amqp`]).
//!
//! Only [`http`] calls services over HTTP. The folders of Keystone, Glance, Cinder and Neutron implement the ports of
//! [`crate::ports`] that the embedded services implement, too. The folder of Barbican implements the port of
//! certificates. [`scheduler_hook`] calls the operator's own program that judges hosts.

pub mod amqp;
pub mod barbican;
pub mod cinder;
pub mod glance;
pub mod http;
pub mod keystone;
pub mod neutron;
pub mod scheduler_hook;
#[cfg(test)]
mod stub;
