//! Versioned payloads: objects with a name, a version and data, as Nova's `doc/notification_samples` show them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chronova_events::envelope::{Recorded, Timestamp};
use chronova_events::instance::{
    Alive, DiskConfig, FaultInfo, FlavorSnapshot, Instance, KeySnapshot, NicInfo, Power, status,
};
use md5::{Digest as _, Md5};
use serde_json::{Map, Value, json};

use super::occurrences::{ActionDetails, Occurrence, StateBefore};
use super::request_spec;
use super::server_history::{Initiator, ServerMoment};
use crate::server_options::ServerOptions;

/// The sources of a payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct PayloadContext<'a> {
    pub recorded: &'a Recorded,
    pub moment: &'a ServerMoment,
    pub servers: &'a ServerOptions,
    /// `[notifications] bdms_in_notifications`.
    pub block_devices: bool,
}

impl<'a> PayloadContext<'a> {
    /// The state that the notification shows.
    pub(super) fn instance(&self, occurrence: &Occurrence) -> &'a Instance {
        if occurrence.as_before { &self.moment.before } else { &self.moment.after }
    }
}

pub(super) fn object(name: &str, version: &str, data: Value) -> Value {
    let mut made = json!({
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
    });
    made["nova_object.data"] = data;
    made
}

/// The payload of a versioned notification; `None` without a server.
pub(super) fn payload(context: PayloadContext<'_>, occurrence: &Occurrence) -> Option<Value> {
    let instance = context.instance(occurrence);
    let server = instance.known()?;
    if let ActionDetails::Scheduling { flavor, attempt } = &occurrence.details {
        return Some(request_spec::versioned(server, flavor, *attempt));
    }
    let mut data = instance_data(context, instance, server);
    let mut set = |key: &str, value: Value| {
        data.insert(key.to_owned(), value);
    };
    if let ActionDetails::Update(before) = &occurrence.details {
        for (key, value) in update_data(context, instance, server, before) {
            set(key, value);
        }
        return Some(object("InstanceUpdatePayload", "2.1", data.into()));
    }
    set("fault", occurrence.fault.as_ref().map_or(Value::Null, fault));
    let (name, version) = match &occurrence.details {
        ActionDetails::Plain | ActionDetails::Update(_) | ActionDetails::Scheduling { .. } => {
            ("InstanceActionPayload", "1.9")
        }
        ActionDetails::Create => {
            set("block_devices", block_devices(server, context.block_devices));
            set("keypairs", server.request.key.iter().map(|key| keypair(server, key)).collect());
            set("tags", json!(server.request.tags));
            set("trusted_image_certificates", certificates(&server.request.trusted_certs));
            set("instance_name", json!(domain_name(context, server)));
            ("InstanceCreatePayload", "1.13")
        }
        ActionDetails::Volume(volume) => {
            set("volume_id", json!(volume.to_string()));
            ("InstanceActionVolumePayload", "1.7")
        }
        ActionDetails::VolumeSwap { old, new } => {
            set("old_volume_id", json!(old.to_string()));
            set("new_volume_id", json!(new.to_string()));
            ("InstanceActionVolumeSwapPayload", "1.9")
        }
        ActionDetails::ResizePrep(new) => {
            set("new_flavor", flavor(new));
            ("InstanceActionResizePrepPayload", "1.4")
        }
        ActionDetails::Snapshot(image) => {
            set("snapshot_image_id", json!(image.to_string()));
            ("InstanceActionSnapshotPayload", "1.10")
        }
        ActionDetails::Rescue(image) => {
            set("rescue_image_ref", json!(image.to_string()));
            ("InstanceActionRescuePayload", "1.4")
        }
        ActionDetails::Rebuild => {
            set("trusted_image_certificates", certificates(&server.request.trusted_certs));
            ("InstanceActionRebuildPayload", "1.10")
        }
    };
    Some(object(name, version, data.into()))
}

fn certificates(ids: &[String]) -> Value {
    if ids.is_empty() { Value::Null } else { json!(ids) }
}

fn domain_name(context: PayloadContext<'_>, server: &Alive) -> String {
    context.servers.domain_name(server.request.instance, server.request.number)
}

/// The fields of Nova's `InstancePayload`, version 1.9.
fn instance_data(context: PayloadContext<'_>, instance: &Instance, server: &Alive) -> Map<String, Value> {
    let shown = status::of(instance);
    let request = &server.request;
    let placed = server.placement.as_ref();
    let time = |at: Option<Timestamp>| at.map(Timestamp::iso_seconds);
    let Initiator { user, project } = &context.moment.initiator;
    let deleted = matches!(instance, Instance::Deleted(_));
    let pairs = [
        ("action_initiator_project", json!(project.as_ref().unwrap_or(&request.project))),
        ("action_initiator_user", json!(user.as_ref().unwrap_or(&request.user))),
        ("architecture", json!(image_property(server, "hw_architecture"))),
        (
            "auto_disk_config",
            json!(match request.disk_config {
                DiskConfig::Auto => "AUTO",
                DiskConfig::Manual => "MANUAL",
            }),
        ),
        (
            "availability_zone",
            json!(placed.map(|placed| &placed.availability_zone).or(request.availability_zone.as_ref())),
        ),
        ("block_devices", json!(block_devices(server, context.block_devices))),
        ("created_at", json!(server.created_at.iso_seconds())),
        ("deleted_at", json!(time(server.terminated_at.filter(|_| deleted)))),
        ("display_description", json!(request.description)),
        ("display_name", json!(request.name)),
        ("flavor", json!(flavor(&request.flavor))),
        ("host", json!(placed.map(|placed| &placed.hostname))),
        ("host_name", json!(request.hostname)),
        ("image_uuid", json!(request.image.as_ref().map(|image| image.id.to_string()).unwrap_or_default())),
        ("ip_addresses", json!(addresses(if deleted { &[] } else { server.nics.as_slice() }))),
        ("kernel_id", json!(image_property(server, "kernel_id").unwrap_or_default())),
        ("key_name", json!(request.key.as_ref().map(|key| &key.name))),
        ("launched_at", json!(time(server.launched_at))),
        ("locked", json!(server.lock.is_some())),
        ("locked_reason", json!(server.lock.as_ref().and_then(|lock| lock.reason.as_ref()))),
        ("metadata", json!(request.metadata.iter().cloned().collect::<BTreeMap<String, String>>())),
        ("node", json!(placed.map(|placed| &placed.hostname))),
        ("os_type", json!(image_property(server, "os_type"))),
        ("power_state", json!(power_word(if deleted { Power::NoState } else { server.power() }))),
        ("progress", json!(shown.as_ref().map_or(0, |shown| shown.progress))),
        ("ramdisk_id", json!(image_property(server, "ramdisk_id").unwrap_or_default())),
        ("request_id", json!(context.recorded.meta.request_id)),
        ("reservation_id", json!(request.reservation)),
        ("shares", json!([])),
        ("state", json!(shown.as_ref().map(|shown| shown.vm_state))),
        ("task_state", json!(shown.as_ref().and_then(|shown| shown.task_state))),
        ("tenant_id", json!(request.project)),
        ("terminated_at", json!(time(server.terminated_at))),
        ("updated_at", json!(time(Some(server.updated_at).filter(|at| *at != server.created_at)))),
        ("user_id", json!(request.user)),
        ("uuid", json!(request.instance.to_string())),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

pub(super) fn image_property(server: &Alive, name: &str) -> Option<String> {
    let image = server.hardware_image()?;
    image.properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

/// Nova's words for power states.
fn power_word(power: Power) -> &'static str {
    match power {
        Power::NoState => "pending",
        Power::Running => "running",
        Power::Paused => "paused",
        Power::Shutdown => "shutdown",
        Power::Crashed => "crashed",
        Power::Suspended => "suspended",
    }
}

pub(super) fn flavor(flavor: &FlavorSnapshot) -> Value {
    object(
        "FlavorPayload",
        "1.4",
        json!({
            "description": null,
            "disabled": false,
            "ephemeral_gb": flavor.ephemeral_gib,
            "extra_specs": flavor.extra_specs.iter().cloned().collect::<BTreeMap<String, String>>(),
            "flavorid": flavor.id.as_str(),
            "is_public": true,
            "memory_mb": flavor.memory_mib,
            "name": flavor.name,
            "projects": null,
            "root_gb": flavor.root_gib,
            "rxtx_factor": 1.0,
            "swap": flavor.swap_mib,
            "vcpu_weight": 0,
            "vcpus": flavor.vcpus,
        }),
    )
}

fn addresses(nics: &[NicInfo]) -> Vec<Value> {
    let of_nic = |nic: &NicInfo| {
        let one = |ip: &chronova_events::instance::FixedIp| {
            object(
                "IpPayload",
                "1.0",
                json!({
                    "address": ip.address,
                    "device_name": format!("tap{}", &nic.port.to_string()[..11]),
                    "label": nic.network_label,
                    "mac": nic.mac,
                    "meta": {},
                    "port_uuid": nic.port.to_string(),
                    "version": if ip.address.contains(':') { 6 } else { 4 },
                }),
            )
        };
        nic.fixed_ips.iter().map(one).collect::<Vec<Value>>()
    };
    nics.iter().flat_map(of_nic).collect()
}

fn block_devices(server: &Alive, wanted: bool) -> Value {
    let volumes = server.disks.iter().map(|disk| &disk.device).filter(|device| wanted && device.volume.is_some());
    let one = |device: &chronova_events::instance::BlockDevice| {
        object(
            "BlockDevicePayload",
            "1.0",
            json!({
                "boot_index": device.boot_index,
                "delete_on_termination": device.delete_on_termination,
                "device_name": device.device_name,
                "tag": device.tag,
                "volume_id": device.volume.map(|id| id.to_string()),
            }),
        )
    };
    volumes.map(one).collect()
}

fn keypair(server: &Alive, key: &KeySnapshot) -> Value {
    let data = json!({
        "fingerprint": fingerprint(&key.public_key),
        "name": key.name,
        "public_key": key.public_key,
        "type": key.kind,
        "user_id": server.request.user,
    });
    object("KeypairPayload", "1.0", data)
}

/// The key's MD5 fingerprint in OpenSSH's form: `1e:2c:...`. Empty for an X.509 certificate, because its fingerprint
/// has another form, which the log does not keep.
fn fingerprint(public_key: &str) -> String {
    let blob = public_key.split_whitespace().nth(1).and_then(|text| STANDARD.decode(text).ok());
    let Some(blob) = blob else { return String::new() };
    Md5::digest(blob).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<String>>().join(":")
}

/// The function and the module are names of Nova's source, so they are empty here.
fn fault(fault: &FaultInfo) -> Value {
    let data = json!({
        "exception": format!("HTTP{}", fault.code),
        "exception_message": fault.message,
        "function_name": "",
        "module_name": "",
        "traceback": fault.details,
    });
    object("ExceptionPayload", "1.1", data)
}

/// The beginning of the event's month (Nova's default audit period), and the time of the event.
pub(super) fn audit_period(at: Timestamp) -> (String, String) {
    (at.to_utc().format("%Y-%m-01T00:00:00Z").to_string(), at.iso_seconds())
}

fn update_data(
    context: PayloadContext<'_>,
    instance: &Instance,
    server: &Alive,
    before: &StateBefore,
) -> [(&'static str, Value); 5] {
    let shown = status::of(instance);
    let (beginning, ending) = audit_period(context.recorded.recorded_at);
    let period = json!({"audit_period_beginning": beginning, "audit_period_ending": ending});
    let state = json!({
        "old_state": before.vm_state,
        "state": shown.as_ref().map(|shown| shown.vm_state),
        "old_task_state": before.task_state,
        "new_task_state": shown.as_ref().and_then(|shown| shown.task_state),
    });
    [
        ("audit_period", object("AuditPeriodPayload", "1.0", period)),
        ("block_devices", block_devices(server, context.block_devices)),
        ("old_display_name", json!(before.name)),
        ("state_update", object("InstanceStateUpdatePayload", "1.0", state)),
        ("tags", json!(server.request.tags)),
    ]
}
