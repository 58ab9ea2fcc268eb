//! The embedded volume service: the part of Cinder's v3 API that clients need.
//!
//! Each file with routes has a table of them. The dispatcher knows only [`ROUTES`], the list of these tables.
//! `chronova_actors::services::embedded::volume` decides about volumes; this module checks rights and renders answers.
//!
//! Invariant: for a volume, snapshot or attachment that the caller may not see, the answer is 404, as if it did not
//! exist.

mod access;
mod actions;
mod answers;
mod attach_actions;
mod attachments;
mod bodies;
mod faults;
mod listing;
mod metadata;
mod other_resources;
mod quotas;
mod snapshots;
mod type_parts;
mod types;
mod views;
mod volumes;

use crate::route::Route;

/// The tables of all resources.
pub const ROUTES: &[&[Route]] = &[
    actions::ROUTES,
    other_resources::ROUTES,
    attach_actions::ROUTES,
    attachments::ROUTES,
    metadata::ROUTES,
    quotas::ROUTES,
    snapshots::ROUTES,
    type_parts::ROUTES,
    types::ROUTES,
    volumes::ROUTES,
];
