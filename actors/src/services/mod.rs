//! The services beside Compute, as tenants behind the traits of [`crate::ports`].
//!
//! [`embedded`] are the ones that this binary brings along. Invariant: compute names none of their aggregates and reads
//! none of their read models. It calls the port traits, which clients of other services can implement as well.

pub mod embedded;
