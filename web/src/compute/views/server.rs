//! A server's fields, and the microversions that have them.
//!
//! Source: the Compute API reference and its history of microversions. The caller's visibility is decided once per
//! request ([`ServerVisibility`]), not per field.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::envelope::Timestamp;
use chronova_events::host::KnownHost;
use chronova_events::ids::ServerGroupId;
use chronova_events::instance::status::{self, Status};
use chronova_events::instance::{Alive, DiskConfig, InstanceDisk, NicInfo, SortedPairs};
use chronova_projections::servers::ServerRow;
use serde_json::{Map, Value, json};

use chronova_actors::guest_name::NameTemplate;
use chronova_actors::instance::disks::root_name;
use chronova_actors::ports::FloatingAddress;

use super::host_id;
use crate::fields::{FieldTable, field};
use crate::links::Links;
use crate::schema::{Schema, array, choice, null_or, object, one_of, opt, req, shape};

/// The caller's visibility of servers, and the form in which they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerVisibility {
    pub links: Links,
    /// `os_compute_api:os-extended-server-attributes`
    pub extended: bool,
    /// `os_compute_api:servers:show:host_status`
    pub host_status: bool,
    /// `os_compute_api:servers:show:host_status:unknown-only`
    pub host_status_unknown: bool,
    /// `os_compute_api:os-flavor-extra-specs:index`
    pub extra_specs: bool,
    /// Whether the caller sees the details of all faults. Administrators see them.
    pub fault_details: bool,
    /// Whether the server groups are shown. Lists leave them out.
    pub groups: bool,
    /// Whether fields are left out, as in the answer to `PUT` before 2.75.
    pub brief: bool,
    /// The template of the servers' domain names.
    pub names: Arc<NameTemplate>,
}

/// A server about to be shown.
#[derive(Debug)]
pub struct ServerView {
    pub row: Arc<ServerRow>,
    pub status: Status,
    pub sees: Arc<ServerVisibility>,
    /// `UP`, `DOWN`, `MAINTENANCE`, `UNKNOWN`, or nothing.
    pub host_status: &'static str,
    /// The zone of the host that the server is on.
    pub zone: Option<Arc<str>>,
    /// The server group that the server is a member of.
    pub group: Option<ServerGroupId>,
    /// The names of the security groups of the server's ports, without duplicates.
    pub security_groups: Vec<String>,
    /// The floating addresses of the server's ports.
    pub floating: Vec<FloatingAddress>,
}

/// The inputs of a view in addition to the row and [`ServerVisibility`]. A cached text is valid only if all inputs are
/// equal.
#[derive(Debug)]
pub struct ServerViewExtras {
    host_status: &'static str,
    zone: Option<Arc<str>>,
    group: Option<ServerGroupId>,
    security_groups: Vec<String>,
    floating: Vec<FloatingAddress>,
}

impl ServerViewExtras {
    /// This function names every field of the view. So a new field causes a compiler error here, and nobody forgets to
    /// compare the field.
    pub fn of(view: &ServerView) -> Self {
        let ServerView { row: _, status: _, sees: _, host_status, zone, group, security_groups, floating } = view;
        Self {
            host_status,
            zone: zone.clone(),
            group: *group,
            security_groups: security_groups.clone(),
            floating: floating.clone(),
        }
    }

    /// Whether `view` has the same inputs.
    pub fn is_in(&self, view: &ServerView) -> bool {
        let Self { host_status, zone, group, security_groups, floating } = self;
        view.host_status == *host_status
            && view.zone == *zone
            && view.group == *group
            && view.security_groups == *security_groups
            && view.floating == *floating
    }
}

impl ServerView {
    /// `None` for a row whose server was never requested.
    pub fn new(row: Arc<ServerRow>, host: Option<&KnownHost>, sees: &Arc<ServerVisibility>) -> Option<Self> {
        let status = status::of(&row.instance)?;
        let server = row.server()?;
        let host_status = if server.placement.is_some() { host_status(host) } else { "" };
        let (sees, zone, group) = (Arc::clone(sees), None, None);
        let (security_groups, floating) = (Vec::new(), Vec::new());
        Some(Self { row, status, sees, host_status, zone, group, security_groups, floating })
    }

    fn with(&self, show: impl FnOnce(&Alive) -> Value) -> Value {
        self.row.server().map_or(Value::Null, show)
    }

    fn is(&self, holds: impl FnOnce(&Alive) -> bool) -> bool {
        self.row.server().is_some_and(holds)
    }

    fn id(&self) -> String {
        self.row.id.to_string()
    }
}

/// The status of a server's host; `UNKNOWN` for an unknown host.
pub fn host_status(host: Option<&KnownHost>) -> &'static str {
    match host {
        None => "UNKNOWN",
        Some(host) if !host.enabled => "MAINTENANCE",
        Some(host) if host.forced_down => "DOWN",
        Some(host) if !host.up => "UNKNOWN",
        Some(_) => "UP",
    }
}

fn pairs(pairs: &SortedPairs) -> Value {
    Value::Object(pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect())
}

fn micros(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, |at| json!(at.iso_micros()))
}

/// The name of the server's host; `null` without a host.
fn host_name(server: &Alive) -> Value {
    server.placement.as_ref().map_or(Value::Null, |placed| json!(placed.hostname))
}

/// The addresses by network. In each network, fixed addresses come before floating addresses. `extended` adds the
/// interface's MAC and the type of the address.
pub fn addresses(nics: &[NicInfo], floating: &[FloatingAddress], extended: bool) -> Value {
    let mut networks: Map<String, Value> = Map::new();
    for nic in nics {
        let list = networks.entry(nic.network_label.clone()).or_insert_with(|| json!([]));
        if let Value::Array(entries) = list {
            entries.extend(nic.fixed_ips.iter().map(|ip| entry(nic, &ip.address, "fixed", extended)));
        }
    }
    for one in floating {
        if let Some(nic) = nics.iter().find(|nic| nic.port == one.port)
            && let Some(Value::Array(entries)) = networks.get_mut(&nic.network_label)
        {
            entries.push(entry(nic, &one.address.to_string(), "floating", extended));
        }
    }
    Value::Object(networks)
}

fn entry(nic: &NicInfo, address: &str, kind: &str, extended: bool) -> Value {
    let mut entry = json!({"version": if address.contains(':') { 6 } else { 4 }, "addr": address});
    if extended {
        entry["OS-EXT-IPS:type"] = json!(kind);
        entry["OS-EXT-IPS-MAC:mac_addr"] = json!(nic.mac);
    }
    entry
}

/// The kernel (`kernel_id`) or the ramdisk (`ramdisk_id`) that the server's image names. As in Nova, an image with the
/// kernel `nokernel` names neither.
pub fn image_part(server: &Alive, name: &str) -> String {
    let properties = server.hardware_image().map(|image| image.properties.as_slice()).unwrap_or_default();
    let named = |name: &str| properties.iter().find(|(key, _)| key == name).map_or("", |(_, id)| id.as_str());
    if named("kernel_id") == "nokernel" { String::new() } else { named(name).to_owned() }
}

pub fn disk_config(config: DiskConfig) -> &'static str {
    match config {
        DiskConfig::Auto => "AUTO",
        DiskConfig::Manual => "MANUAL",
    }
}

/// The volumes that are attached to the server or being attached.
fn volumes(server: &Alive, deletion: bool) -> Value {
    let shown = |disk: &InstanceDisk| {
        let mut shown = json!({"id": disk.device.volume?});
        if deletion {
            shown["delete_on_termination"] = json!(disk.device.delete_on_termination);
        }
        Some(shown)
    };
    server.disks.iter().filter_map(shown).collect()
}

fn image(view: &ServerView, properties: bool) -> Value {
    view.with(|server| {
        let Some(image) = &server.request.image else { return json!("") };
        let id = image.id.to_string();
        let mut shown = json!({
            "id": id,
            "links": [{"rel": "bookmark", "href": view.sees.links.bookmark("images", &id)}],
        });
        if properties {
            shown["properties"] = pairs(&image.properties);
        }
        shown
    })
}

fn flavor_link(view: &ServerView) -> Value {
    view.with(|server| {
        let id = server.request.flavor.id.as_str();
        json!({"id": id, "links": [{"rel": "bookmark", "href": view.sees.links.bookmark("flavors", id)}]})
    })
}

fn flavor_embedded(view: &ServerView) -> Value {
    view.with(|server| {
        let flavor = &server.request.flavor;
        let mut shown = json!({
            "vcpus": flavor.vcpus,
            "ram": flavor.memory_mib,
            "disk": flavor.root_gib,
            "ephemeral": flavor.ephemeral_gib,
            "swap": flavor.swap_mib,
            "original_name": flavor.name,
        });
        if view.sees.extra_specs {
            shown["extra_specs"] = pairs(&flavor.extra_specs);
        }
        shown
    })
}

fn fault(view: &ServerView) -> Value {
    view.with(|server| {
        let Some((fault, at)) = server.fault.as_deref() else { return Value::Null };
        let mut shown = json!({"code": fault.code, "created": at.iso_seconds(), "message": fault.message});
        // As in Nova, every caller sees the details of a fault that a user caused. Only administrators see the details
        // of a fault with code 500.
        if !fault.details.is_empty() && (fault.code != 500 || view.sees.fault_details) {
            shown["details"] = json!(fault.details);
        }
        shown
    })
}

fn shows_fault(view: &ServerView) -> bool {
    matches!(view.status.status, "ERROR" | "DELETED") && view.is(|server| server.fault.is_some())
}

fn shows_progress(view: &ServerView) -> bool {
    matches!(
        view.status.status,
        "ACTIVE" | "BUILD" | "DELETED" | "REBUILD" | "RESIZE" | "VERIFY_RESIZE" | "MIGRATING" | "PASSWORD"
    )
}

fn shows_host_status(view: &ServerView) -> bool {
    !view.sees.brief && (view.sees.host_status || (view.sees.host_status_unknown && view.host_status == "UNKNOWN"))
}

fn full(view: &ServerView) -> bool {
    !view.sees.brief
}

fn extended(view: &ServerView) -> bool {
    view.sees.extended && !view.sees.brief
}

/// The zone of the server's host. For a server without a host, the requested zone.
fn zone(view: &ServerView) -> Value {
    view.with(|server| match (&view.zone, &server.placement) {
        (Some(zone), _) => json!(zone),
        (None, Some(placed)) => json!(placed.availability_zone),
        (None, None) => json!(server.request.availability_zone.as_deref().unwrap_or_default()),
    })
}

fn hints(server: &Alive) -> Value {
    let hints: BTreeMap<&str, &[String]> =
        server.request.scheduler_hints.iter().map(|(key, values)| (key.as_str(), values.as_slice())).collect();
    json!(hints)
}

/// An image or a flavor with its bookmark link.
fn linked() -> Schema {
    object([req("id", shape::string()), req("links", shape::links())])
}

/// Volume-backed servers show an empty string.
fn or_empty(image: Schema) -> Schema {
    one_of([image, shape::string().max_length(0)])
}

fn linked_image() -> Schema {
    or_empty(linked())
}

fn described_image() -> Schema {
    or_empty(linked().plus([req("properties", shape::pairs())]))
}

fn embedded_flavor() -> Schema {
    object([
        req("vcpus", shape::integer()),
        req("ram", shape::integer()),
        req("disk", shape::integer()),
        req("ephemeral", shape::integer()),
        req("swap", shape::integer()),
        req("original_name", shape::string()),
        opt("extra_specs", shape::pairs()),
    ])
}

/// The addresses of one network.
pub fn addresses_shape() -> Schema {
    array(object([req("version", shape::integer().one_among(json!([4, 6]))), req("addr", shape::string())]))
}

/// The addresses by network. The answer to `PUT` before 2.75 lacks type and MAC.
fn extended_addresses() -> Schema {
    shape::map_of(array(object([
        req("version", shape::integer().one_among(json!([4, 6]))),
        req("addr", shape::string()),
        opt("OS-EXT-IPS:type", choice(["fixed", "floating"])),
        opt("OS-EXT-IPS-MAC:mac_addr", shape::string()),
    ])))
}

fn fault_shape() -> Schema {
    object([
        req("code", shape::integer()),
        req("created", shape::time()),
        req("message", shape::string()),
        opt("details", shape::string()),
    ])
}

/// Security groups by name, as servers and the answers to their creation show them.
pub fn group_names() -> Schema {
    array(object([req("name", shape::string())]))
}

fn attached_volumes() -> Schema {
    array(object([req("id", shape::string())]))
}

fn deletable_volumes() -> Schema {
    array(object([req("id", shape::string()), req("delete_on_termination", shape::boolean())]))
}

fn certificates() -> Schema {
    null_or(shape::strings())
}

fn group_ids() -> Schema {
    array(shape::uuid())
}

fn hints_shape() -> Schema {
    shape::map_of(shape::strings())
}

/// `GET /servers/detail`, `GET /servers/{id}`, and `PUT /servers/{id}`.
pub static SERVER: FieldTable<ServerView> = FieldTable::new(&[
    field("id", shape::uuid, |v: &ServerView| json!(v.id())),
    field("name", shape::string, |v: &ServerView| v.with(|s| json!(s.request.name))),
    field("status", shape::string, |v: &ServerView| json!(v.status.status)),
    field("tenant_id", shape::string, |v: &ServerView| v.with(|s| json!(s.request.project))),
    field("user_id", shape::string, |v: &ServerView| v.with(|s| json!(s.request.user))),
    field("metadata", shape::pairs, |v: &ServerView| v.with(|s| pairs(&s.request.metadata))),
    field("hostId", shape::string, |v: &ServerView| {
        v.with(|s| match &s.placement {
            Some(placed) => json!(host_id(&s.request.project, &placed.hostname)),
            None => json!(""),
        })
    }),
    field("image", linked_image, |v: &ServerView| image(v, false)).until(2, 97),
    field("image", described_image, |v: &ServerView| image(v, true)).since(2, 98),
    field("flavor", linked, flavor_link).until(2, 46),
    field("flavor", embedded_flavor, flavor_embedded).since(2, 47),
    field("created", shape::time, |v: &ServerView| v.with(|s| json!(s.created_at.iso_seconds()))),
    field("updated", shape::time, |v: &ServerView| v.with(|s| json!(s.updated_at.iso_seconds()))),
    field("addresses", extended_addresses, |v: &ServerView| v.with(|s| addresses(&s.nics, &v.floating, !v.sees.brief))),
    field("accessIPv4", shape::string, |v: &ServerView| {
        v.with(|s| json!(s.request.access_ip_v4.as_deref().unwrap_or_default()))
    }),
    field("accessIPv6", shape::string, |v: &ServerView| {
        v.with(|s| json!(s.request.access_ip_v6.as_deref().unwrap_or_default()))
    }),
    field("links", shape::links, |v: &ServerView| v.sees.links.pair("servers", &v.id())),
    field("OS-DCF:diskConfig", shape::string, |v: &ServerView| v.with(|s| json!(disk_config(s.request.disk_config)))),
    field("fault", fault_shape, fault).when(shows_fault),
    field("progress", shape::integer, |_| json!(0)).when(shows_progress),
    field("OS-EXT-AZ:availability_zone", shape::string, zone).when(full),
    field("pinned_availability_zone", shape::string_or_null, |v: &ServerView| {
        v.with(|s| json!(s.request.availability_zone))
    })
    .since(2, 96),
    field("config_drive", shape::string, |v: &ServerView| {
        v.with(|s| json!(if s.request.config_drive { "True" } else { "" }))
    })
    .when(full),
    field("OS-EXT-SRV-ATTR:host", shape::string_or_null, |v: &ServerView| v.with(host_name)).when(extended),
    field("OS-EXT-SRV-ATTR:instance_name", shape::string, |v: &ServerView| {
        v.with(|s| json!(v.sees.names.fill(v.row.id, s.request.number)))
    })
    .when(extended),
    field("OS-EXT-SRV-ATTR:hypervisor_hostname", shape::string_or_null, |v: &ServerView| v.with(host_name))
        .when(extended),
    field("OS-EXT-SRV-ATTR:reservation_id", shape::string, |v: &ServerView| v.with(|s| json!(s.request.reservation)))
        .since(2, 3)
        .when(extended),
    field("OS-EXT-SRV-ATTR:launch_index", shape::integer, |v: &ServerView| v.with(|s| json!(s.request.launch_index)))
        .since(2, 3)
        .when(extended),
    field("OS-EXT-SRV-ATTR:hostname", shape::string, |v: &ServerView| v.with(|s| json!(s.request.hostname)))
        .since(2, 3)
        .until(2, 89)
        .when(extended),
    field("OS-EXT-SRV-ATTR:hostname", shape::string, |v: &ServerView| v.with(|s| json!(s.request.hostname)))
        .since(2, 90),
    field("OS-EXT-SRV-ATTR:kernel_id", shape::string_or_null, |v: &ServerView| {
        v.with(|s| json!(image_part(s, "kernel_id")))
    })
    .since(2, 3)
    .when(extended),
    field("OS-EXT-SRV-ATTR:ramdisk_id", shape::string_or_null, |v: &ServerView| {
        v.with(|s| json!(image_part(s, "ramdisk_id")))
    })
    .since(2, 3)
    .when(extended),
    field("OS-EXT-SRV-ATTR:root_device_name", shape::string, |v: &ServerView| v.with(|s| json!(root_name(s))))
        .since(2, 3)
        .when(extended),
    field("OS-EXT-SRV-ATTR:user_data", shape::string_or_null, |v: &ServerView| v.with(|s| json!(s.request.user_data)))
        .since(2, 3)
        .when(extended),
    field("host_status", shape::string, |v: &ServerView| json!(v.host_status)).since(2, 16).when(shows_host_status),
    field("key_name", shape::string_or_null, |v: &ServerView| {
        v.with(|s| json!(s.request.key.as_ref().map(|key| &key.name)))
    })
    .when(full),
    field("OS-SRV-USG:launched_at", shape::time_or_null, |v: &ServerView| v.with(|s| micros(s.launched_at))).when(full),
    field("OS-SRV-USG:terminated_at", shape::time_or_null, |v: &ServerView| v.with(|s| micros(s.terminated_at)))
        .when(full),
    field("security_groups", group_names, |v: &ServerView| {
        v.security_groups.iter().map(|name| json!({"name": name})).collect()
    })
    .when(|v| !v.sees.brief && !v.security_groups.is_empty()),
    field("OS-EXT-STS:task_state", shape::string_or_null, |v: &ServerView| json!(v.status.task_state)).when(full),
    field("OS-EXT-STS:vm_state", shape::string, |v: &ServerView| json!(v.status.vm_state)).when(full),
    field("OS-EXT-STS:power_state", shape::integer, |v: &ServerView| json!(v.status.power_state)).when(full),
    field("os-extended-volumes:volumes_attached", attached_volumes, |v: &ServerView| v.with(|s| volumes(s, false)))
        .until(2, 2)
        .when(full),
    field("os-extended-volumes:volumes_attached", deletable_volumes, |v: &ServerView| v.with(|s| volumes(s, true)))
        .since(2, 3)
        .when(full),
    field("locked", shape::boolean, |v: &ServerView| v.with(|s| json!(s.lock.is_some()))).since(2, 9),
    field("locked_reason", shape::string_or_null, |v: &ServerView| {
        v.with(|s| json!(s.lock.as_ref().and_then(|lock| lock.reason.as_ref())))
    })
    .since(2, 73),
    field("description", shape::string_or_null, |v: &ServerView| v.with(|s| json!(s.request.description))).since(2, 19),
    field("tags", shape::strings, |v: &ServerView| v.with(|s| json!(s.request.tags))).since(2, 26),
    field("trusted_image_certificates", certificates, |v: &ServerView| {
        v.with(|s| if s.request.trusted_certs.is_empty() { Value::Null } else { json!(s.request.trusted_certs) })
    })
    .since(2, 63),
    field("server_groups", group_ids, |v: &ServerView| v.group.iter().map(|group| json!(group)).collect())
        .since(2, 71)
        .when(|v| v.sees.groups),
    field("scheduler_hints", hints_shape, |v: &ServerView| v.with(hints)).since(2, 100),
]);

/// `GET /servers`
pub static BRIEF: FieldTable<ServerView> = FieldTable::new(&[
    field("id", shape::uuid, |v: &ServerView| json!(v.id())),
    field("name", shape::string, |v: &ServerView| v.with(|s| json!(s.request.name))),
    field("links", shape::links, |v: &ServerView| v.sees.links.pair("servers", &v.id())),
]);
