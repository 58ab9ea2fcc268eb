//! The Compute API: servers, flavors, keypairs, hypervisors and the rest of Nova's operations.
//!
//! One file per resource; each has a table, and this list of tables is all that the dispatcher knows.
//!
//! Where things are: `bodies` says what may be sent, `views` what is shown (both per microversion), [`reject`] how a
//! refusal sounds, [`versions`] what else differs between microversions. Operations of Nova that are not served are listed
//! too and say so.

pub mod bodies;
pub mod config;
pub mod flavors;
mod paging;
mod reject;
pub mod servers;
pub mod state;
mod versions;
pub mod views;

pub use config::ComputeConfig;
pub use state::Compute;

use crate::route::Route;

/// The tables of all resources.
pub const ROUTES: &[&[Route]] = &[flavors::ROUTES, servers::ROUTES];
