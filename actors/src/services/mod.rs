//! The services beside Compute. Compute reaches them only through the traits of [`crate::ports`].
//!
//! [`embedded`] contains the services that are part of this binary, [`external`] the clients of services that run
//! elsewhere. Both use [`image_inspection`] on images. Invariant: Compute names no aggregate of the embedded services,
//! and reads none of their read models. Only the tables of this crate name both: the command gateway, the processes,
//! the reconcilers and the erasures.

pub mod embedded;
pub mod external;
pub mod image_inspection;
