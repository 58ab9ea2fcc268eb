//! The resource classes that flavors request, for operators who copy quotas to the limits of Keystone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::flavor::Flavor;
use chronova_events::ids::ProjectId;
use chronova_events::instance::FlavorSnapshot;

use super::Queries;
use crate::scheduler::RequestSpec;
use crate::scheduler::request::ResourceRequest;

impl Queries {
    /// The classes of all flavors. With `of_servers`, also the classes of the flavors that servers keep: the servers of
    /// `project`, or all servers.
    pub fn requested_classes(&self, project: Option<&ProjectId>, of_servers: bool) -> BTreeSet<String> {
        let known = self.views.flavors.read(|view| view.flavors.by_id.values().cloned().collect::<Vec<_>>());
        let mut flavors: Vec<Arc<FlavorSnapshot>> = known.iter().map(|flavor| Arc::new(snapshot(flavor))).collect();
        if of_servers {
            flavors.extend(self.kept_flavors(project));
        }
        flavors.into_iter().flat_map(classes).collect()
    }

    /// The flavors of the servers. Servers share copies of flavors, and the result has each copy once.
    fn kept_flavors(&self, project: Option<&ProjectId>) -> Vec<Arc<FlavorSnapshot>> {
        self.views.servers.read(|servers| {
            let mut copies = BTreeMap::new();
            for row in servers.newest(project, None).into_iter().flatten() {
                let Some(server) = row.instance.alive() else { continue };
                let flavor = &server.request.flavor;
                copies.entry(Arc::as_ptr(flavor).addr()).or_insert_with(|| Arc::clone(flavor));
            }
            copies.into_values().collect()
        })
    }
}

fn snapshot(flavor: &Flavor) -> FlavorSnapshot {
    let definition = &flavor.definition;
    FlavorSnapshot {
        id: definition.flavor.clone(),
        name: definition.name.clone(),
        vcpus: definition.vcpus,
        memory_mib: definition.memory_mib,
        root_gib: definition.root_gib,
        ephemeral_gib: definition.ephemeral_gib,
        swap_mib: definition.swap_mib,
        extra_specs: flavor.extra_specs.clone(),
    }
}

/// The classes that a server of this flavor requests without an image, and those that the flavor sets to 0.
fn classes(flavor: Arc<FlavorSnapshot>) -> BTreeSet<String> {
    let set = flavor.extra_specs.iter().filter_map(|(key, _)| key.strip_prefix("resources:"));
    let mut classes: BTreeSet<String> = set.map(str::to_owned).collect();
    let spec = RequestSpec::of_flavor(flavor, ProjectId::new(""), "");
    classes.extend(ResourceRequest::of(&spec, true).totals().into_keys());
    classes
}

#[cfg(test)]
mod tests {
    use chronova_events::ids::FlavorId;

    use super::*;

    fn of(disk: u32, specs: &[(&str, &str)]) -> Vec<String> {
        let extra_specs = specs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let flavor = FlavorSnapshot {
            id: FlavorId::new("1"),
            name: "one".to_owned(),
            vcpus: 2,
            memory_mib: 512,
            root_gib: disk,
            ephemeral_gib: 0,
            swap_mib: 0,
            extra_specs,
        };
        classes(Arc::new(flavor)).into_iter().collect()
    }

    #[test]
    fn a_flavor_has_the_classes_of_its_size_and_of_its_extra_specs() {
        assert_eq!(of(1, &[]), ["DISK_GB", "MEMORY_MB", "VCPU"]);
        assert_eq!(of(0, &[]), ["MEMORY_MB", "VCPU"]);
        assert_eq!(of(0, &[("hw:cpu_policy", "dedicated")]), ["MEMORY_MB", "PCPU"]);
        let gold = [("resources:CUSTOM_GOLD", "1"), ("resources:VCPU", "0"), ("resources1:VGPU", "1")];
        assert_eq!(of(0, &gold), ["CUSTOM_GOLD", "MEMORY_MB", "VCPU", "VGPU"]);
    }
}
