//! Requirements that narrow the set of hosts before the scheduler examines any host. Nova calls them request filters.
//!
//! Each requirement narrows the set of hosts by an index. The first requirements are the host that the request names,
//! and the exclusion of hosts tried before. Nova's request filters follow in the order of
//! `nova.scheduler.request_filter`, and then the requirements of PCI devices and traits.

use std::collections::BTreeSet;

use chronova_events::ids::HostId;
use chronova_events::ledger::standard::is_standard_trait;
use chronova_projections::fleet::{AggregateRow, Slot, Slots};
use chronova_projections::placement::candidates::TraitFilter;

use super::context::SchedulingContext;
use super::request::ResourceRequest;

/// The metadata key of an aggregate that is for one project; the key may have a suffix.
const TENANT_KEY: &str = "filter_tenant_id";

/// One requirement, and the hosts that meet it.
#[derive(Debug)]
pub struct PrefilterRequirement {
    pub name: &'static str,
    /// The requirement, for the record: `zone north`.
    pub words: String,
    pub hosts: Slots,
    /// The reason why a host does not meet it.
    pub says: fn(&SchedulingContext<'_>, Slot, &str) -> String,
    /// The message for the user when no host is left. It names no host.
    pub lacks: String,
}

type PrefilterRequirements = Vec<PrefilterRequirement>;

/// All requirements, in the order of their use.
pub fn narrowings(context: &SchedulingContext<'_>, wanted: &ResourceRequest) -> PrefilterRequirements {
    let mut all = PrefilterRequirements::new();
    named_host(context, &mut all);
    tried_before(context, &mut all);
    tenant_aggregates(context, &mut all);
    zone(context, &mut all);
    image_type(context, &mut all);
    compute_status(context, &mut all);
    isolated_aggregates(context, wanted, &mut all);
    image_metadata(context, &mut all);
    accelerators(context, &mut all);
    pci_devices(context, &mut all);
    group_traits(context, wanted, &mut all);
    all
}

/// Restricts the hosts to those with free PCI devices for the flavor. The search for capacity is limited, so hosts
/// without devices must not use up its limit.
fn pci_devices(context: &SchedulingContext<'_>, all: &mut PrefilterRequirements) {
    if context.devices.as_ref().is_ok_and(Vec::is_empty) {
        return;
    }
    let offering = context.placement.ledger.pci.keys().filter_map(|id| context.fleet.slot(HostId(id.0)));
    all.push(PrefilterRequirement {
        name: "PCI devices",
        words: "free PCI devices".to_owned(),
        hosts: offering.filter(|slot| context.host(*slot).passed(&[]).is_ok()).collect(),
        says: |context, slot, _| context.host(slot).passed(&[]).err().unwrap_or_default(),
        lacks: context.lacks_devices(),
    });
}

fn named_host(context: &SchedulingContext<'_>, all: &mut PrefilterRequirements) {
    let request = context.request;
    let Some(name) = request.forced_host.as_ref().or(request.requested_host.as_ref()) else { return };
    all.push(PrefilterRequirement {
        name: "requested host",
        words: format!("host {name}"),
        hosts: context.fleet.named(name),
        says: |_, _, words| format!("wants {words}"),
        lacks: "the requested host cannot take the server".to_owned(),
    });
}

fn tried_before(context: &SchedulingContext<'_>, all: &mut PrefilterRequirements) {
    if context.request.excluded.is_empty() {
        return;
    }
    let mut hosts = context.fleet.hosts().clone();
    for slot in context.request.excluded.iter().filter_map(|host| context.fleet.slot(*host)) {
        hosts.remove(slot);
    }
    all.push(PrefilterRequirement {
        name: "not tried before",
        words: "a host not tried before".to_owned(),
        hosts,
        says: |_, _, _| "the build failed there before".to_owned(),
        lacks: "the build failed on every suitable host".to_owned(),
    });
}

fn in_aggregates<'a>(context: &'a SchedulingContext<'_>, which: impl Fn(&AggregateRow) -> bool + 'a) -> Option<Slots> {
    let mut found = false;
    let mut hosts = Slots::default();
    for (_, aggregate) in context.fleet.aggregates().filter(|(_, aggregate)| which(aggregate)) {
        found = true;
        hosts.extend_all(&aggregate.hosts);
    }
    found.then_some(hosts)
}

/// Applies `[scheduler] limit_tenants_to_placement_aggregate`.
fn tenant_aggregates(context: &SchedulingContext<'_>, all: &mut PrefilterRequirements) {
    let options = &context.options.prefilters;
    if !options.limit_tenants_to_placement_aggregate {
        return;
    }
    let project = context.request.project.as_str();
    let own = in_aggregates(context, |aggregate| {
        aggregate.metadata.iter().any(|(key, value)| key.starts_with(TENANT_KEY) && value == project)
    });
    let hosts = match own {
        Some(hosts) => hosts,
        None if options.placement_aggregate_required_for_tenants => Slots::default(),
        None => return,
    };
    all.push(PrefilterRequirement {
        name: "project's aggregates",
        words: format!("aggregates of project {project}"),
        hosts,
        says: |_, _, _| "it is in no aggregate of the project".to_owned(),
        lacks: "no hosts are available to the project".to_owned(),
    });
}

/// Applies `[scheduler] query_placement_for_availability_zone`: restricts the hosts to the requested zone. If no
/// aggregate defines the zone, Nova's filter restricts nothing. Chronova restricts the hosts in this case, too. The
/// default zone has the hosts that are in no other zone, and an unknown zone has no hosts.
fn zone(context: &SchedulingContext<'_>, all: &mut PrefilterRequirements) {
    let Some(zone) = context.request.zone.as_ref().filter(|_| context.request.forced_host.is_none()) else { return };
    if !context.options.prefilters.query_placement_for_availability_zone {
        return;
    }
    let own = in_aggregates(context, |aggregate| aggregate.zone() == Some(zone));
    let hosts = match own {
        Some(hosts) => hosts,
        None if *zone == context.request.default_zone => {
            let mut hosts = context.fleet.hosts().clone();
            if let Some(others) = in_aggregates(context, |aggregate| aggregate.zone().is_some()) {
                hosts.remove_all(&others);
            }
            hosts
        }
        None => Slots::default(),
    };
    all.push(PrefilterRequirement {
        name: "availability zone",
        words: format!("zone {zone}"),
        hosts,
        says: |context, slot, words| {
            let own = context.fleet.zone_of(slot).unwrap_or(&context.request.default_zone);
            format!("wants {words}, is in {own}")
        },
        lacks: format!("no host of zone {zone} is suitable"),
    });
}

/// Applies `[scheduler] query_placement_for_image_type_support`. As in Nova, the format of the image does not matter for
/// a root disk that is a volume.
fn image_type(context: &SchedulingContext<'_>, all: &mut PrefilterRequirements) {
    let Some(image) = context.request.image.as_ref().filter(|_| !context.request.volume_backed) else { return };
    let name = format!("COMPUTE_IMAGE_TYPE_{}", image.format.to_uppercase());
    if !context.options.prefilters.query_placement_for_image_type_support {
        return;
    }
    match is_standard_trait(&name) {
        true => all.push(with_trait(context, "image type", &name)),
        // As in Nova, a format without a standard trait restricts nothing.
        false => tracing::warn!(trait_name = %name, "the trait of an image's format is not a standard trait"),
    }
}

/// Excludes disabled hosts, as Nova does since Train. A forced host may be disabled.
fn compute_status(context: &SchedulingContext<'_>, all: &mut PrefilterRequirements) {
    if context.request.forced_host.is_some() {
        return;
    }
    let mut hosts = context.fleet.hosts().clone();
    hosts.retain_all(context.fleet.enabled());
    if let Some(disabled) = context.fleet.with_trait("COMPUTE_STATUS_DISABLED") {
        hosts.remove_all(disabled);
    }
    all.push(PrefilterRequirement {
        name: "compute status",
        words: "enabled".to_owned(),
        hosts,
        says: |_, _, _| "it is disabled".to_owned(),
        lacks: "the suitable hosts are disabled".to_owned(),
    });
}

/// Applies `[scheduler] enable_isolated_aggregate_filtering`: an aggregate with `trait:X=required` is for servers that
/// request X.
fn isolated_aggregates(context: &SchedulingContext<'_>, wanted: &ResourceRequest, all: &mut PrefilterRequirements) {
    if !context.options.prefilters.enable_isolated_aggregate_filtering {
        return;
    }
    let asked = wanted.required_traits();
    let isolated = in_aggregates(context, |aggregate| {
        aggregate.metadata.iter().any(|(key, value)| {
            value == "required" && key.strip_prefix("trait:").is_some_and(|name| !asked.contains(name))
        })
    });
    let Some(isolated) = isolated else { return };
    let mut hosts = context.fleet.hosts().clone();
    hosts.remove_all(&isolated);
    all.push(PrefilterRequirement {
        name: "isolated aggregates",
        words: "no aggregate reserved for other traits".to_owned(),
        hosts,
        says: |_, _, _| {
            "its aggregate is reserved for servers with traits that this server does not request".to_owned()
        },
        lacks: "the suitable hosts are reserved for servers with other traits".to_owned(),
    });
}

/// Applies `[scheduler] image_metadata_prefilter`.
fn image_metadata(context: &SchedulingContext<'_>, all: &mut PrefilterRequirements) {
    const PREFIXES: [(&str, &str); 7] = [
        ("hw_cdrom_bus", "COMPUTE_STORAGE_BUS"),
        ("hw_disk_bus", "COMPUTE_STORAGE_BUS"),
        ("hw_video_model", "COMPUTE_GRAPHICS_MODEL"),
        ("hw_vif_model", "COMPUTE_NET_VIF_MODEL"),
        ("hw_architecture", "HW_ARCH"),
        ("hw_emulation_architecture", "COMPUTE_ARCH"),
        // In Nova, this prefix lacks `MODEL`. So the name is no standard trait, and Nova requires no trait at all.
        ("hw_viommu_model", "COMPUTE_VIOMMU_MODEL"),
    ];
    if !context.options.prefilters.image_metadata_prefilter {
        return;
    }
    let names: Vec<String> = PREFIXES
        .iter()
        .filter_map(|(key, prefix)| {
            let value = context.request.property(key)?.replace('-', "_").to_uppercase();
            Some(format!("{prefix}_{value}"))
        })
        .collect();
    // As in Nova, if one of the names is not a standard trait, no trait is required.
    if names.iter().all(|name| is_standard_trait(name)) {
        all.extend(names.iter().map(|name| with_trait(context, "image metadata", name)));
    }
}

fn accelerators(context: &SchedulingContext<'_>, all: &mut PrefilterRequirements) {
    if context.request.spec("accel:device_profile").is_some_and(|profile| !profile.is_empty()) {
        all.push(with_trait(context, "accelerators", "COMPUTE_ACCELERATORS"));
    }
}

/// The traits that the groups of resources require or forbid. In a provider tree, other providers may have the traits,
/// so the search for candidates checks them.
fn group_traits(context: &SchedulingContext<'_>, wanted: &ResourceRequest, all: &mut PrefilterRequirements) {
    if !context.fleet.is_flat() {
        return;
    }
    let none = TraitFilter::default();
    for group in wanted.groups.values() {
        let traits = if group.traits == none { continue } else { &group.traits };
        for any in &traits.required {
            all.push(with_any_trait(context, "traits", any));
        }
        for forbidden in &traits.forbidden {
            let mut hosts = context.fleet.hosts().clone();
            if let Some(with) = context.fleet.with_trait(forbidden) {
                hosts.remove_all(with);
            }
            all.push(PrefilterRequirement {
                name: "traits",
                words: format!("no trait {forbidden}"),
                hosts,
                says: |_, _, words| format!("wants {words}"),
                lacks: format!("every suitable host has the forbidden trait {forbidden}"),
            });
        }
    }
}

fn with_trait(context: &SchedulingContext<'_>, name: &'static str, required: &str) -> PrefilterRequirement {
    with_any_trait(context, name, &BTreeSet::from([required.to_owned()]))
}

fn with_any_trait(context: &SchedulingContext<'_>, name: &'static str, any: &BTreeSet<String>) -> PrefilterRequirement {
    let mut hosts = Slots::default();
    for with in any.iter().filter_map(|name| context.fleet.with_trait(name)) {
        hosts.extend_all(with);
    }
    let names = any.iter().map(String::as_str).collect::<Vec<_>>().join(" or ");
    PrefilterRequirement {
        name,
        words: format!("trait {names}"),
        hosts,
        says: |_, _, words| format!("lacks {words}"),
        lacks: format!("no suitable host has trait {names}"),
    }
}
