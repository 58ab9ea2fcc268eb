//! Real Keystone, as [`IdentityProvider`](crate::ports::identity::IdentityProvider).
//!
//! - [`account`]: Chronova's own account, and how it asks for a token;
//! - [`session`]: the account's token, which is requested at its first use and renewed before it expires;
//! - [`document`]: the document of a token, and the catalogue in it;
//! - [`cache`]: Keystone's recent answers about tokens;
//! - [`provider`]: the implementation of the port;
//! - [`outgoing`]: calls to the other services in the catalogue, with the user's token and Chronova's own tokens;
//! - [`kept_tokens`]: the tokens of users whose requests began long work;
//! - `questions`: requests with the same token ask Keystone once;
//! - `late_changes`: the requests whose changes a service may still make.
//!
//! Invariant: a token is accepted only if Keystone's answer, new or cached, accepts it.

pub mod account;
pub mod cache;
pub mod document;
pub mod kept_tokens;
mod late_changes;
pub mod outgoing;
pub mod provider;
mod questions;
pub mod session;

#[cfg(test)]
mod tests;

pub use account::{AccountScope, Credentials, NamedInDomain, ServiceAccount};
pub use kept_tokens::{KeptUserToken, KeptUserTokens, SharedUserTokens};
pub use outgoing::{Asker, CalledService, CallingAccounts, ServicePlace};
pub use provider::{KeystoneOptions, KeystoneProvider};
pub use session::{KeystoneSession, SessionToken};
