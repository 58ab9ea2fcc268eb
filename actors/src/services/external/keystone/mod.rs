//! Real Keystone, as [`IdentityProvider`](crate::ports::identity::IdentityProvider).
//!
//! - [`account`]: the service's own account, and how it asks for a token;
//! - [`session`]: its token, asked for when it is needed and renewed before it ends;
//! - [`document`]: the document of a token, and the catalogue in it;
//! - [`cache`]: tokens that were judged a short while ago;
//! - [`provider`]: the port.
//!
//! Invariant: where Keystone gives no answer, nobody is let in.

pub mod account;
pub mod cache;
pub mod document;
pub mod provider;
pub mod session;

#[cfg(test)]
mod tests;

pub use account::{AccountScope, Credentials, NamedInDomain, ServiceAccount};
pub use provider::{KeystoneOptions, KeystoneProvider};
pub use session::{KeystoneSession, SessionToken};
