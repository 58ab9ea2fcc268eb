//! What operators do with hosts, under `/chronova/v1`: emptying them, and taking them out of service.
//!
//! Nova leaves both to its clients, which move servers one by one and forget what they did when they die. Here it is a
//! process of the host's: asked for, watched and called off over HTTP, and carried on whoever dies.

mod bodies;
mod hosts;
mod views;

use crate::route::Route;

/// The hosts.
pub const HOSTS: &[Route] = hosts::ROUTES;
