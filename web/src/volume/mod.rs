//! The embedded volume service: the part of Cinder's v3 API that clients need.
//!
//! One file per resource; each has a table, and this list of tables is all that the dispatcher knows.

use crate::route::Route;

/// The tables of all resources.
pub const ROUTES: &[&[Route]] = &[];
