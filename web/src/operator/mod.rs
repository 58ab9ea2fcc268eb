//! The operators' API for hosts, under `/chronova/v1`: drain and maintenance.
//!
//! Nova leaves both to its clients, which move servers one by one and lose their state when they die. Here it is a
//! process of the host: requested, watched and cancelled over HTTP, and continued after any crash.

mod bodies;
mod hosts;
mod views;

use crate::route::Route;

/// The hosts.
pub const HOSTS: &[Route] = hosts::ROUTES;
