//! The payloads of `scheduler.select_destinations`: the request that the scheduler got.
//!
//! Nova sends one notification for all servers of a request. The log has one decision for each server, so here each server
//! has its own, with `num_instances` 1. The log does not keep the hosts that the request excluded, nor the server group
//! itself; the group's id is among the hints.

use std::collections::BTreeMap;

use chronova_events::instance::{Alive, FlavorSnapshot, ImageSnapshot};
use serde_json::{Value, json};

use super::versioned::{flavor, object};
use crate::pci::alias;

/// `RequestSpecPayload`, version 1.1.
pub(super) fn versioned(server: &Alive, wanted: &FlavorSnapshot, attempt: u32) -> Value {
    let request = &server.request;
    let hints: BTreeMap<&String, &Vec<String>> = request.scheduler_hints.iter().map(|(name, to)| (name, to)).collect();
    let destination = request.requested_host.as_ref().map(|host| {
        let data = json!({"aggregates": null, "cell": null, "host": host, "node": host});
        object("DestinationPayload", "1.0", data)
    });
    let retry =
        (attempt > 1).then(|| object("SchedulerRetriesPayload", "1.0", json!({"hosts": [], "num_attempts": attempt})));
    let data = json!({
        "availability_zone": request.availability_zone,
        "flavor": flavor(wanted),
        "force_hosts": request.forced_host,
        "force_nodes": null,
        "ignore_hosts": null,
        "image": request.image.as_deref().map(image),
        "instance_group": null,
        "instance_uuid": request.instance.to_string(),
        "num_instances": 1,
        "numa_topology": null,
        "pci_requests": pci_requests(server, wanted),
        "project_id": request.project,
        "requested_destination": destination,
        "retry": retry,
        "scheduler_hints": hints,
        "security_groups": request.security_groups,
        "user_id": request.user,
    });
    object("RequestSpecPayload", "1.1", data)
}

/// The dictionary of Nova's `to_legacy_request_spec_dict`, with the fields that the log keeps.
pub(super) fn unversioned(server: &Alive, wanted: &FlavorSnapshot) -> Value {
    let request = &server.request;
    json!({"request_spec": {
        "num_instances": 1,
        "image": request.image.as_deref().map(|image| json!({
            "id": image.id.to_string(),
            "name": image.name,
            "properties": properties(image),
        })),
        "instance_type": {
            "flavorid": wanted.id.as_str(),
            "name": wanted.name,
            "memory_mb": wanted.memory_mib,
            "vcpus": wanted.vcpus,
            "root_gb": wanted.root_gib,
            "ephemeral_gb": wanted.ephemeral_gib,
            "swap": wanted.swap_mib,
            "extra_specs": wanted.extra_specs.iter().cloned().collect::<BTreeMap<String, String>>(),
        },
        "instance_properties": {
            "uuid": request.instance.to_string(),
            "project_id": request.project,
            "user_id": request.user,
            "availability_zone": request.availability_zone,
            "memory_mb": wanted.memory_mib,
            "vcpus": wanted.vcpus,
            "root_gb": wanted.root_gib,
            "ephemeral_gb": wanted.ephemeral_gib,
        },
    }})
}

fn properties(image: &ImageSnapshot) -> BTreeMap<String, String> {
    image.properties.iter().cloned().collect()
}

/// As in Nova, only properties with the prefixes of Nova's own properties are shown. The log does not keep the fields
/// that are constant here.
fn image(image: &ImageSnapshot) -> Value {
    let known = |name: &str| ["hw_", "img_", "os_"].iter().any(|prefix| name.starts_with(prefix));
    let known: BTreeMap<String, String> = properties(image).into_iter().filter(|(name, _)| known(name)).collect();
    let data = json!({
        "checksum": null,
        "container_format": "bare",
        "created_at": null,
        "direct_url": null,
        "disk_format": image.format,
        "id": image.id.to_string(),
        "min_disk": image.min_disk_gib,
        "min_ram": image.min_memory_mib,
        "name": image.name,
        "owner": null,
        "properties": object("ImageMetaPropsPayload", "1.12", json!(known)),
        "protected": null,
        "size": image.size,
        "status": "active",
        "tags": [],
        "updated_at": null,
        "virtual_size": image.virtual_size,
        "visibility": null,
    });
    object("ImageMetaPayload", "1.0", data)
}

/// The flavor's PCI devices by their aliases.
fn pci_requests(server: &Alive, wanted: &FlavorSnapshot) -> Value {
    let spec = wanted.extra_specs.iter().find(|(name, _)| name == alias::SPEC).map(|(_, value)| value.as_str());
    let one = |entry: &str| {
        let (name, count) = entry.trim().split_once(':')?;
        let count: u32 = count.trim().parse().ok().filter(|count| *count > 0)?;
        let data = json!({"alias_name": name, "count": count, "numa_policy": null, "request_id": null, "spec": []});
        Some(object("InstancePCIRequestPayload", "1.1", data))
    };
    let requests: Vec<Value> = spec.into_iter().flat_map(|value| value.split(',')).filter_map(one).collect();
    let data = json!({"instance_uuid": server.request.instance.to_string(), "requests": requests});
    object("InstancePCIRequestsPayload", "1.0", data)
}
