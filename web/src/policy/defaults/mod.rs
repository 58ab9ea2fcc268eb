//! The default rules as data. Compute has three tables. Every other API with policy rules has one table, including
//! Chronova's own API.

mod beyond_nova;
mod compute_admin;
mod compute_base;
mod compute_servers;
mod identity;
mod image;
mod network;
mod placement;
mod rule;
mod volume;

use crate::service::Service;

pub use rule::{RuleDefault, ScopeType};

/// The tables of a service.
pub const fn of(service: Service) -> &'static [&'static [RuleDefault]] {
    match service {
        Service::Compute => &[compute_base::RULES, compute_servers::RULES, compute_admin::RULES],
        Service::Placement => &[placement::RULES],
        Service::Identity => &[identity::RULES],
        Service::Image => &[image::RULES],
        Service::Network => &[network::RULES],
        Service::Chronova => &[beyond_nova::RULES],
        Service::Volume => &[volume::RULES],
        Service::Metadata => &[],
    }
}
