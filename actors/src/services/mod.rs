//! The services beside Compute, as tenants behind the traits of [`crate::ports`].
//!
//! [`embedded`] are the ones that this binary brings along, [`external`] the clients of those that run elsewhere.
//! Invariant: compute names none of their aggregates and reads none of their read models. It calls the port traits.

pub mod embedded;
pub mod external;
