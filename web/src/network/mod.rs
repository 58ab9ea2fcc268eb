//! The embedded network service: the part of Neutron's v2.0 API that clients need.
//!
//! Each resource has a file with a route table. The dispatcher knows only the list of these tables, [`ROUTES`].
//! [`attributes`] reads bodies, and [`listing`] answers collections. [`targets`] holds the attributes for policy rules.
//! [`faults`] maps the aggregates' refusals to Neutron's errors.
//!
//! Invariant: for a resource that the caller may not see, every operation answers 404.

mod answers;
mod attributes;
mod extensions;
mod faults;
mod floating_ips;
mod gateways;
mod interfaces;
mod ip_availabilities;
mod listing;
mod networks;
mod ports;
mod preconditions;
mod quotas;
mod routers;
mod security_group_rules;
mod security_groups;
mod subnets;
mod tags;
mod targets;
mod views;

use crate::route::Route;

/// The tables of all resources.
pub const ROUTES: &[&[Route]] = &[
    networks::ROUTES,
    subnets::ROUTES,
    ports::ROUTES,
    security_groups::ROUTES,
    security_group_rules::ROUTES,
    quotas::ROUTES,
    extensions::ROUTES,
    ip_availabilities::ROUTES,
    routers::ROUTES,
    interfaces::ROUTES,
    floating_ips::ROUTES,
    tags::ROUTES,
];
