//! Operators' API under `/chronova/v1`: drains and maintenance of hosts, forecasts, the caller's own rights, repairs
//! of Placement's data, machine types, quota limits, and records of servers.
//!
//! Nova leaves drains to its clients, which move servers one by one and lose their state when they crash. In Chronova a
//! process performs the drain. Operators start, watch and cancel this process over HTTP. The process continues after
//! any crash.

mod allocations;
mod answers;
mod bodies;
mod forecasts;
mod hosts;
mod limits;
mod machine_types;
mod permissions;
mod servers;
mod views;

use crate::route::Route;

/// The routes of forecasts: the host that a server would get, and the plan of a drain.
pub const FORECASTS: &[Route] = forecasts::ROUTES;
/// The route of a caller's own rights.
pub const PERMISSIONS: &[Route] = permissions::ROUTES;
/// The routes of the hosts.
pub const HOSTS: &[Route] = hosts::ROUTES;
/// The routes that repair Placement's data: orphaned and lost allocations, and the mirror of host aggregates.
pub const ALLOCATIONS: &[Route] = allocations::ROUTES;
/// The route of the limits that `chronova manage` copies to Keystone.
pub const LIMITS: &[Route] = limits::ROUTES;
/// The routes of machine types.
pub const MACHINE_TYPES: &[Route] = machine_types::ROUTES;
/// The routes of a server's records.
pub const SERVERS: &[Route] = servers::ROUTES;
