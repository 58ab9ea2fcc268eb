//! Clients of services that run elsewhere: the real Keystone, Glance, Cinder, Neutron and Barbican, Vault, a message
//! broker ([`amqp`]), and OVN's databases ([`ovsdb`]).
//!
//! Only [`http`] calls services over HTTP. The folders of Keystone, Glance, Cinder and Neutron implement the ports of
//! [`crate::ports`] that the embedded services implement, too. The folders of Barbican and Vault implement the
//! port of certificates. [`scheduler_hook`] calls the operator's own program that judges hosts.

pub mod amqp;
pub mod barbican;
pub mod cinder;
pub mod glance;
pub mod http;
pub mod keystone;
pub mod neutron;
pub mod ovsdb;
pub mod scheduler_hook;
mod secrets;
#[cfg(test)]
mod stub;
pub mod vault;
