//! `[filter_scheduler]`, `[scheduler]` and `[metrics]`: what an operator can say about choosing hosts.

use std::collections::BTreeMap;

use super::{filters, weighers};

/// The options; names and meanings are Nova's.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerOptions {
    /// In the order of their use; every name is one of [`filters::FILTERS`].
    pub enabled_filters: Vec<&'static str>,
    /// Every name is one of [`weighers::WEIGHERS`].
    pub weighers: Vec<&'static str>,
    pub multipliers: Multipliers,
    /// Hosts that are looked at closely, at most: `[scheduler] max_placement_results`.
    pub max_placement_results: usize,
    /// The chosen host and its alternates, at most: `[scheduler] max_attempts`.
    pub max_attempts: usize,
    pub host_subset_size: usize,
    pub shuffle_best_same_weighed_hosts: bool,
    pub max_io_ops_per_host: u32,
    pub max_instances_per_host: u32,
    pub isolated_images: Vec<String>,
    pub isolated_hosts: Vec<String>,
    pub restrict_isolated_hosts_to_isolated_images: bool,
    pub aggregate_image_properties_isolation_namespace: Option<String>,
    pub aggregate_image_properties_isolation_separator: String,
    pub image_properties_default_architecture: Option<String>,
    /// Property and weight; empty: all alike.
    pub image_props_weight_setting: BTreeMap<String, f64>,
    /// `[metrics] weight_setting`: metric and ratio.
    pub metrics_weight_setting: BTreeMap<String, f64>,
    pub metrics_weight_of_unavailable: f64,
    pub prefilters: PrefilterOptions,
    /// `[compute] consecutive_build_service_disable_threshold` is not 0.
    pub counts_build_failures: bool,
    /// `[workarounds] disable_fallback_pcpu_query`.
    pub disable_fallback_pcpu_query: bool,
    /// `[compute] packing_host_numa_cells_allocation_strategy`.
    pub packs_cells: bool,
}

/// `[scheduler]`: what is required of hosts before any is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefilterOptions {
    pub limit_tenants_to_placement_aggregate: bool,
    pub placement_aggregate_required_for_tenants: bool,
    pub query_placement_for_image_type_support: bool,
    pub enable_isolated_aggregate_filtering: bool,
    pub image_metadata_prefilter: bool,
}

/// How much each weigher says.
#[derive(Debug, Clone, PartialEq)]
pub struct Multipliers {
    pub ram: f64,
    pub cpu: f64,
    pub disk: f64,
    pub hypervisor_version: f64,
    pub num_instances: f64,
    pub io_ops: f64,
    pub image_props: f64,
    pub pci: f64,
    pub soft_affinity: f64,
    pub soft_anti_affinity: f64,
    pub build_failure: f64,
    pub metrics: f64,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self {
            enabled_filters: filters::DEFAULT.to_vec(),
            weighers: weighers::WEIGHERS.iter().map(|weigher| weigher.name).collect(),
            multipliers: Multipliers::default(),
            max_placement_results: 1_000,
            max_attempts: 3,
            host_subset_size: 1,
            shuffle_best_same_weighed_hosts: false,
            max_io_ops_per_host: 8,
            max_instances_per_host: 50,
            isolated_images: Vec::new(),
            isolated_hosts: Vec::new(),
            restrict_isolated_hosts_to_isolated_images: true,
            aggregate_image_properties_isolation_namespace: None,
            aggregate_image_properties_isolation_separator: ".".to_owned(),
            image_properties_default_architecture: None,
            image_props_weight_setting: BTreeMap::new(),
            metrics_weight_setting: BTreeMap::new(),
            metrics_weight_of_unavailable: -10_000.0,
            prefilters: PrefilterOptions::default(),
            counts_build_failures: true,
            disable_fallback_pcpu_query: false,
            packs_cells: true,
        }
    }
}

impl Default for Multipliers {
    fn default() -> Self {
        Self {
            ram: 1.0,
            cpu: 1.0,
            disk: 1.0,
            hypervisor_version: 1.0,
            num_instances: 0.0,
            io_ops: -1.0,
            image_props: 0.0,
            pci: 1.0,
            soft_affinity: 1.0,
            soft_anti_affinity: 1.0,
            build_failure: 1_000_000.0,
            metrics: 1.0,
        }
    }
}

/// The filters of those names.
///
/// # Errors
/// Names the first that is none, and all there are.
pub fn enabled_filters(names: &[String]) -> Result<Vec<&'static str>, String> {
    names.iter().map(|name| known(name, filters::FILTERS.iter().map(|filter| filter.name))).collect()
}

/// The weighers of those class names: `nova.scheduler.weights.ram.RAMWeigher`, or `nova.scheduler.weights.all_weighers`
/// for all.
///
/// # Errors
/// Names the first that is none, and all there are.
pub fn weighers_of(classes: &[String]) -> Result<Vec<&'static str>, String> {
    let all = || weighers::WEIGHERS.iter().map(|weigher| weigher.name);
    let mut found = Vec::new();
    for class in classes {
        match class.rsplit('.').next().unwrap_or_default() {
            "all_weighers" => found.extend(all()),
            // One cell: no move crosses cells, so there is nothing that it could say.
            "CrossCellWeigher" => {}
            name => found.push(known(name, all())?),
        }
    }
    found.dedup();
    Ok(found)
}

fn known(name: &str, all: impl Iterator<Item = &'static str> + Clone) -> Result<&'static str, String> {
    all.clone().find(|known| *known == name).ok_or_else(|| {
        let all: Vec<&str> = all.collect();
        format!("there is no {name:?}; there are {}", all.join(", "))
    })
}

/// `os_distro=1,hw_machine_type=0.5`, as oslo's lists give it; what is not of that form is passed over, as in Nova.
pub fn weight_settings(settings: &[String]) -> BTreeMap<String, f64> {
    let pair = |text: &String| {
        let (name, weight) = text.split_once('=')?;
        Some((name.trim().to_owned(), weight.trim().parse().ok()?))
    };
    settings.iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_known_or_named_in_the_error() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let two = names(&["IoOpsFilter", "ComputeFilter"]);
        assert_eq!(enabled_filters(&two).unwrap(), ["IoOpsFilter", "ComputeFilter"], "in the order given");
        let error = enabled_filters(&names(&["NoSuchFilter"])).unwrap_err();
        assert!(error.contains("NoSuchFilter") && error.contains("ComputeFilter"), "{error}");
        let classes =
            names(&["nova.scheduler.weights.ram.RAMWeigher", "nova.scheduler.weights.cross_cell.CrossCellWeigher"]);
        assert_eq!(weighers_of(&classes).unwrap(), ["RAMWeigher"]);
        let all = weighers_of(&names(&["nova.scheduler.weights.all_weighers"])).unwrap();
        assert_eq!(all.len(), weighers::WEIGHERS.len());
        assert!(weighers_of(&names(&["my.Weigher"])).is_err());
    }

    #[test]
    fn settings_of_another_form_are_passed_over() {
        let settings = ["os_distro=2".to_owned(), "nonsense".to_owned(), "a=b".to_owned()];
        assert_eq!(weight_settings(&settings), BTreeMap::from([("os_distro".to_owned(), 2.0)]));
    }
}
