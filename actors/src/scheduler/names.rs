//! Finds filters and weighers by Nova's names, and has Nova's default options. This file is apart from
//! [`super::options`], because the filters and weighers import the options.

use std::collections::BTreeMap;

use super::options::{HookOptions, Multipliers, PrefilterOptions, SchedulerOptions};
use super::{filters, weighers};

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
            metrics_required: true,
            metrics_weight_of_unavailable: -10_000.0,
            prefilters: PrefilterOptions::default(),
            counts_build_failures: true,
            disable_fallback_pcpu_query: false,
            packs_cells: true,
            pci_aliases: crate::pci::alias::PciAliases::default(),
            network_cells: crate::topology::networks::NetworkCells::default(),
            hook: HookOptions::default(),
        }
    }
}

/// The filters with these names.
///
/// # Errors
/// Names the first unknown name, and all known names.
pub fn enabled_filters(names: &[String]) -> Result<Vec<&'static str>, String> {
    names.iter().map(|name| known(name, filters::FILTERS.iter().map(|filter| filter.name))).collect()
}

/// The weighers with these class names: `nova.scheduler.weights.ram.RAMWeigher`, or
/// `nova.scheduler.weights.all_weighers` for all.
///
/// # Errors
/// Names the first unknown name, and all known names.
pub fn weighers_of(classes: &[String]) -> Result<Vec<&'static str>, String> {
    let all = || weighers::WEIGHERS.iter().map(|weigher| weigher.name);
    let mut found = Vec::new();
    for class in classes {
        match class.rsplit('.').next().unwrap_or_default() {
            "all_weighers" => found.extend(all()),
            // There is one cell, so no move crosses cells and this weigher has no effect.
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
        format!("{name:?} is unknown; the known names are {}", all.join(", "))
    })
}

/// Parses weights: the entries `os_distro=1` and `hw_machine_type=0.5`. As in Nova, entries of another form are
/// ignored.
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
        assert_eq!(
            enabled_filters(&two).unwrap(),
            ["IoOpsFilter", "ComputeFilter"],
            "the filters are in the order of the option"
        );
        let error = enabled_filters(&names(&["NoSuchFilter"])).unwrap_err();
        assert!(error.contains("NoSuchFilter") && error.contains("ComputeFilter"), "{error}");
        let classes =
            names(&["nova.scheduler.weights.ram.RAMWeigher", "nova.scheduler.weights.cross_cell.CrossCellWeigher"]);
        assert_eq!(weighers_of(&classes).unwrap(), ["RAMWeigher"]);
        let all = weighers_of(&names(&["nova.scheduler.weights.all_weighers"])).unwrap();
        assert_eq!(all.len(), weighers::WEIGHERS.len());
        assert_eq!(SchedulerOptions::default().weighers, all);
        // Nova's tenth weigher chooses between cells, so here it has nothing to weigh.
        for name in [
            "RAMWeigher",
            "CPUWeigher",
            "DiskWeigher",
            "IoOpsWeigher",
            "PCIWeigher",
            "ServerGroupSoftAffinityWeigher",
            "ServerGroupSoftAntiAffinityWeigher",
            "BuildFailureWeigher",
            "MetricsWeigher",
        ] {
            assert!(all.contains(&name), "{name}");
        }
        assert!(weighers_of(&names(&["my.Weigher"])).is_err());
    }

    #[test]
    fn settings_of_another_form_are_ignored() {
        let settings = ["os_distro=2".to_owned(), "nonsense".to_owned(), "a=b".to_owned()];
        assert_eq!(weight_settings(&settings), BTreeMap::from([("os_distro".to_owned(), 2.0)]));
    }
}
