//! The embedded image service: the part of Glance's v2 API that clients need.
//!
//! Each resource has a file with a route table. The dispatcher knows only [`ROUTES`], the list of these tables.
//! `chronova_actors::services::embedded::image` stores the bytes of images; this module checks rights and renders
//! answers.
//!
//! Invariants: for an image that the caller may not see, the answer is 404, as if it did not exist. An upload runs to
//! success or failure, even if the client disconnects. If the process crashes meanwhile, the next start abandons the
//! upload. So no image stays `saving`.

mod access;
mod actions;
mod answers;
mod data;
mod fault;
mod filters;
mod images;
mod info;
mod members;
mod patch;
mod schemas;
mod tags;
mod views;

pub(crate) use access::{announce, withdraw};

use crate::route::Route;

/// The tables of all resources.
pub const ROUTES: &[&[Route]] =
    &[actions::ROUTES, data::ROUTES, images::ROUTES, info::ROUTES, members::ROUTES, schemas::ROUTES, tags::ROUTES];
