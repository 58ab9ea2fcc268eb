//! Chooses hosts.
//!
//! A choice is a proposal made from views that may lag; the placement ledger's `decide` has the last word. So the result is
//! a list, best first, and the caller claims the first that still fits.
//!
//! Filters and weighers are tables: adding one is one function and one line.

pub mod filters;
pub mod weighers;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use chronova_events::host::KnownHost;
use chronova_events::ids::{HostId, ProviderId};
use chronova_events::instance::BuildRequested;
use chronova_events::ledger::Provider;
use chronova_projections::views::Views;

/// `[filter_scheduler]`.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerOptions {
    pub enabled_filters: Vec<String>,
    pub ram_weight_multiplier: f64,
    pub cpu_weight_multiplier: f64,
    pub disk_weight_multiplier: f64,
    /// How many of the best hosts are returned: the chosen one and its alternates.
    pub candidates: usize,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self {
            enabled_filters: filters::FILTERS.iter().map(|filter| filter.name.to_owned()).collect(),
            ram_weight_multiplier: 1.0,
            cpu_weight_multiplier: 1.0,
            disk_weight_multiplier: 1.0,
            candidates: 8,
        }
    }
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Class and amount, sorted by class.
    pub resources: Vec<(String, u64)>,
    pub availability_zone: Option<String>,
    pub forced_host: Option<String>,
    pub excluded: BTreeSet<HostId>,
    /// `hw_architecture` of the image, where it says so.
    pub architecture: Option<String>,
    /// The zone of hosts that are in none: `[DEFAULT] default_availability_zone`.
    pub default_zone: String,
}

impl Request {
    /// What a server asks for. Nova: `nova.scheduler.utils.resources_from_flavor`.
    pub fn of_build(build: &BuildRequested, excluded: &BTreeSet<HostId>, default_zone: &str) -> Self {
        let flavor = &build.flavor;
        let disk =
            u64::from(flavor.root_gib) + u64::from(flavor.ephemeral_gib) + u64::from(flavor.swap_mib.div_ceil(1024));
        let mut resources =
            vec![("MEMORY_MB".to_owned(), flavor.memory_mib), ("VCPU".to_owned(), u64::from(flavor.vcpus))];
        if disk > 0 {
            resources.insert(0, ("DISK_GB".to_owned(), disk));
        }
        let architecture = build.image.as_ref().and_then(|image| {
            image.properties.iter().find(|(key, _)| key == "hw_architecture" || key == "architecture")
        });
        Self {
            resources,
            availability_zone: build.availability_zone.clone(),
            forced_host: build.forced_host.clone(),
            excluded: excluded.clone(),
            architecture: architecture.map(|(_, value)| value.clone()),
            default_zone: default_zone.to_owned(),
        }
    }
}

/// A host with its capacity, as the views show them.
#[derive(Debug)]
pub struct Candidate<'a> {
    pub host: &'a KnownHost,
    pub provider: &'a Provider,
}

/// A host that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub host: HostId,
    pub hostname: String,
}

/// Why there is none: how many hosts each check left over, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoValidHost {
    pub left: Vec<(&'static str, usize)>,
}

impl std::fmt::Display for NoValidHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = self.left.iter().map(|(check, left)| format!("{check}: {left} left")).collect();
        f.write_str(&parts.join(", "))
    }
}

/// The hosts that fit, best first, or why there is none.
pub fn choose(views: &Views, request: &Request, options: &SchedulerOptions) -> Result<Vec<Chosen>, NoValidHost> {
    views.hosts.read(|hosts| {
        views.placement.read(|placement| {
            let provider = |host: &KnownHost| placement.ledger.providers.get(&ProviderId(host.id.0));
            let all: Vec<Candidate<'_>> =
                hosts.all().filter_map(|host| provider(host).map(|provider| Candidate { host, provider })).collect();
            let mut left = vec![("known", all.len())];
            let fitting = filters::apply(all, request, options, &mut left);
            if fitting.is_empty() {
                return Err(NoValidHost { left });
            }
            Ok(weighers::best(&fitting, options))
        })
    })
}
