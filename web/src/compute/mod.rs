//! The Compute API: servers, flavors, keypairs, hypervisors and the rest of Nova's operations.
//!
//! Each resource has a file with a route table. The dispatcher knows only [`ROUTES`], the list of these tables.
//!
//! `bodies` holds the schemas of requests, `views` the fields of resources, `answers` the schemas of answers (all per
//! microversion). [`reject`] maps rejections to Nova's messages. [`versions`] holds the differences between
//! microversions that handlers ask about. [`unserved`] lists Nova's operations that are not served, with the status that
//! each answers.

mod aggregates;
pub mod answers;
mod assisted_snapshots;
pub mod bodies;
pub mod config;
mod consoles;
mod extensions;
mod external_events;
mod extra_specs;
mod flavors;
mod hosts;
mod hypervisors;
mod keypairs;
mod keys;
mod migrations;
mod paging;
mod proxies;
pub(crate) mod quotas;
pub(crate) mod reject;
mod rendered;
mod server_groups;
mod servers;
mod services;
pub mod state;
pub mod unserved;
mod usage;
mod usage_audit;
mod versions;
pub mod views;
mod zones;

pub use config::ComputeConfig;
pub use extra_specs::CustomExtraSpecs;
pub use state::ComputeState;

use crate::route::Route;

/// The tables of all resources.
pub const ROUTES: &[&[Route]] = &[
    aggregates::ROUTES,
    consoles::ROUTES,
    assisted_snapshots::ROUTES,
    extensions::ROUTES,
    external_events::ROUTES,
    flavors::ROUTES,
    hosts::ROUTES,
    hypervisors::ROUTES,
    keypairs::ROUTES,
    proxies::baremetal::ROUTES,
    proxies::floating_ips::ROUTES,
    migrations::ROUTES,
    proxies::image_metadata::ROUTES,
    proxies::images::ROUTES,
    proxies::networks::ROUTES,
    proxies::security_group_rules::ROUTES,
    proxies::security_groups::ROUTES,
    proxies::volumes::ROUTES,
    quotas::ROUTES,
    server_groups::ROUTES,
    servers::ROUTES,
    servers::action_log::ROUTES,
    servers::actions::ROUTES,
    servers::admin::ROUTES,
    servers::evacuate::ROUTES,
    servers::interfaces::ROUTES,
    servers::live::ROUTES,
    servers::metadata::ROUTES,
    servers::moves::ROUTES,
    servers::parts::ROUTES,
    servers::security_groups::ROUTES,
    servers::shares::ROUTES,
    servers::tags::ROUTES,
    servers::volumes::ROUTES,
    servers::volumes_boot::ROUTES,
    servers::work::ROUTES,
    services::ROUTES,
    unserved::GONE,
    unserved::NOT_YET,
    usage::ROUTES,
    usage_audit::ROUTES,
    zones::ROUTES,
];
