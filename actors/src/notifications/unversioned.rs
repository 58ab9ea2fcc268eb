//! Unversioned payloads, which Nova's `info_from_instance` makes and Ceilometer reads.

use std::collections::BTreeMap;

use chronova_events::envelope::Timestamp;
use chronova_events::instance::{Alive, Instance, NicInfo, status};
use serde_json::{Map, Value, json};

use super::occurrences::{ActionDetails, Occurrence, StateBefore};
use super::request_spec;
use super::versioned::{PayloadContext, audit_period, image_property};

/// The payload of an unversioned notification; `None` without a server.
pub(super) fn payload(context: PayloadContext<'_>, occurrence: &Occurrence) -> Option<Value> {
    let instance = context.instance(occurrence);
    let server = instance.known()?;
    if let ActionDetails::Scheduling { flavor, .. } = &occurrence.details {
        return Some(request_spec::unversioned(server, flavor));
    }
    let mut data = instance_data(instance, server);
    let mut set = |key: &str, value: Value| {
        data.insert(key.to_owned(), value);
    };
    match &occurrence.details {
        ActionDetails::Create => {
            set("fixed_ips", fixed_ips(&server.nics));
            if occurrence.phase.is_some_and(|phase| phase.word() == "end") {
                set("message", json!("Success"));
            }
            set("image_name", json!(server.request.image.as_ref().map(|image| &image.name)));
        }
        ActionDetails::Volume(volume) => set("volume_id", json!(volume.to_string())),
        ActionDetails::VolumeSwap { old, new } => {
            set("old_volume_id", json!(old.to_string()));
            set("new_volume_id", json!(new.to_string()));
        }
        ActionDetails::ResizePrep(new) => {
            set("new_instance_type", json!(new.name));
            set("new_instance_type_id", json!(new.id.as_str()));
        }
        ActionDetails::Update(before) => {
            for (key, value) in update_data(context, instance, before) {
                set(key, value);
            }
        }
        ActionDetails::Rescue(_) => set("rescue_image_name", Value::Null),
        ActionDetails::Plain
        | ActionDetails::Snapshot(_)
        | ActionDetails::Rebuild
        | ActionDetails::Scheduling { .. } => {
            set("fixed_ips", fixed_ips(&server.nics));
        }
    }
    if let Some(fault) = &occurrence.fault {
        set("exception", json!(fault.message));
        set("message", json!(fault.message));
        set("code", json!(fault.code));
    }
    Some(data.into())
}

/// The time without a zone. An absent time is an empty text.
fn time(at: Option<Timestamp>) -> String {
    at.map(Timestamp::iso_micros).unwrap_or_default()
}

fn instance_data(instance: &Instance, server: &Alive) -> Map<String, Value> {
    let shown = status::of(instance);
    let (request, flavor) = (&server.request, &server.request.flavor);
    let placed = server.placement.as_ref();
    let image = request.image.as_ref().map(|image| image.id.to_string()).unwrap_or_default();
    let deleted = matches!(instance, Instance::Deleted(_));
    let properties: BTreeMap<&str, &str> = server
        .hardware_image()
        .into_iter()
        .flat_map(|image| &image.properties)
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .chain(request.image.is_some().then_some(("base_image_ref", image.as_str())))
        .collect();
    let pairs = [
        ("tenant_id", json!(request.project)),
        ("user_id", json!(request.user)),
        ("instance_id", json!(request.instance.to_string())),
        ("display_name", json!(request.name)),
        ("reservation_id", json!(request.reservation)),
        ("hostname", json!(request.hostname)),
        ("instance_type", json!(flavor.name)),
        ("instance_type_id", json!(flavor.id.as_str())),
        ("instance_flavor_id", json!(flavor.id.as_str())),
        ("architecture", json!(image_property(server, "hw_architecture"))),
        ("memory_mb", json!(flavor.memory_mib)),
        ("disk_gb", json!(flavor.root_gib + flavor.ephemeral_gib)),
        ("vcpus", json!(flavor.vcpus)),
        ("root_gb", json!(flavor.root_gib)),
        ("ephemeral_gb", json!(flavor.ephemeral_gib)),
        ("host", json!(placed.map(|placed| &placed.hostname))),
        ("node", json!(placed.map(|placed| &placed.hostname))),
        (
            "availability_zone",
            json!(placed.map(|placed| &placed.availability_zone).or(request.availability_zone.as_ref())),
        ),
        ("cell_name", json!("")),
        ("created_at", json!(server.created_at.to_utc().format("%Y-%m-%d %H:%M:%S+00:00").to_string())),
        ("terminated_at", json!(time(server.terminated_at))),
        ("deleted_at", json!(time(server.terminated_at.filter(|_| deleted)))),
        ("launched_at", json!(time(server.launched_at))),
        ("image_ref_url", json!(image)),
        ("os_type", json!(image_property(server, "os_type"))),
        ("kernel_id", json!(image_property(server, "kernel_id").unwrap_or_default())),
        ("ramdisk_id", json!(image_property(server, "ramdisk_id").unwrap_or_default())),
        ("state", json!(shown.as_ref().map(|shown| shown.vm_state))),
        ("state_description", json!(shown.as_ref().and_then(|shown| shown.task_state).unwrap_or_default())),
        (
            "progress",
            json!(shown.as_ref().filter(|shown| shown.progress > 0).map_or(json!(""), |shown| json!(shown.progress))),
        ),
        ("access_ip_v4", json!(request.access_ip_v4)),
        ("access_ip_v6", json!(request.access_ip_v6)),
        ("image_meta", json!(properties)),
        ("metadata", json!(request.metadata.iter().cloned().collect::<BTreeMap<String, String>>())),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn fixed_ips(nics: &[NicInfo]) -> Value {
    let of_nic = |nic: &NicInfo| {
        let one = |ip: &chronova_events::instance::FixedIp| {
            json!({
                "address": ip.address,
                "type": "fixed",
                "version": if ip.address.contains(':') { 6 } else { 4 },
                "meta": {},
                "floating_ips": [],
                "label": nic.network_label,
                "vif_mac": nic.mac,
            })
        };
        nic.fixed_ips.iter().map(one).collect::<Vec<Value>>()
    };
    nics.iter().flat_map(of_nic).collect()
}

fn update_data(context: PayloadContext<'_>, instance: &Instance, before: &StateBefore) -> Vec<(&'static str, Value)> {
    let shown = status::of(instance);
    let (beginning, ending) = audit_period(context.recorded.recorded_at);
    let mut all = vec![
        ("old_state", json!(before.vm_state)),
        ("old_task_state", json!(before.task_state)),
        ("new_task_state", json!(shown.as_ref().and_then(|shown| shown.task_state))),
        ("audit_period_beginning", json!(beginning)),
        ("audit_period_ending", json!(ending)),
    ];
    if let Some(name) = &before.name {
        all.push(("old_display_name", json!(name)));
    }
    all
}
