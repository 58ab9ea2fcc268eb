//! The changes of adopted servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::ids::{HostId, ProcessId};
use chronova_events::instance::status;
use chronova_events::instance::{Alive, FlavorSnapshot, Instance};
use chronova_projections::servers::ServerRow;
use serde_json::{Map, Value, json};

use super::NovaExport;
use super::sql::{maybe, quoted, time};

/// The tables of a cell whose rows Nova marks as deleted together with the server.
const PARTS: [&str; 7] = [
    "instance_extra",
    "instance_info_caches",
    "instance_metadata",
    "instance_system_metadata",
    "instance_faults",
    "block_device_mapping",
    "virtual_interfaces",
];

/// States that need no further rows in Nova. The others need images, migrations or times in more tables.
const EXPORTED: [&str; 5] = ["active", "stopped", "paused", "suspended", "error"];

pub(super) fn export(before: &Arc<ServerRow>, now: &Arc<ServerRow>, export: &mut NovaExport) {
    match (&before.instance, &now.instance) {
        (old, new) if old == new => {}
        (Instance::Alive(_), Instance::Deleted(deleted)) => delete(now, deleted, export),
        (Instance::Alive(old), Instance::Alive(new)) => {
            let id = before.id;
            match changes(old, new, &export.hosts) {
                Ok(()) => {
                    update(&id.to_string(), old, new, export);
                    export.written += 1;
                }
                Err(reason) => {
                    let lack = format!("server {id} ({}): {reason}", new.request.name);
                    export.lacks_server(id, migration(before).into_iter().chain(migration(now)), lack);
                }
            }
        }
        // A deleted server does not change any more.
        _ => {}
    }
}

/// The migration of a server, which may have allocations of its own.
pub(super) fn migration(row: &ServerRow) -> Option<ProcessId> {
    row.instance.alive()?.moving.as_ref().map(|moving| moving.migration)
}

/// Checks that the SQL expresses everything that changed.
fn changes(old: &Alive, new: &Alive, hosts: &BTreeSet<HostId>) -> Result<(), String> {
    if let Some(task) = status::of_alive(new).task_state {
        return Err(format!("its task_state is {task}: wait until it is done"));
    }
    let state = status::of_alive(new).vm_state;
    if state != status::of_alive(old).vm_state && !EXPORTED.contains(&state) {
        return Err(format!("it became {state}: end that state first (unshelve, unrescue, confirm, restore)"));
    }
    if let Some(placed) = new.placement.as_ref().filter(|placed| !hosts.contains(&placed.host)) {
        return Err(format!("it is on {}, a host that was added here: migrate it to a host of Nova", placed.hostname));
    }
    let (before, after) = (&old.request, &new.request);
    let parts = [
        ("its disks or volumes", old.disks == new.disks && old.root == new.root && old.boot_image == new.boot_image),
        ("its interfaces", (&old.nics, &old.detaching) == (&new.nics, &new.detaching)),
        ("its rescue", old.rescue == new.rescue),
        ("its shelved image", old.shelved == new.shelved),
        ("its move", old.moving == new.moving),
        ("its image", old.request.image == new.request.image),
        ("its key", old.request.key == new.request.key),
        ("its user data", old.request.user_data == new.request.user_data),
        ("its project or user", (&old.request.project, &old.request.user) == (&new.request.project, &new.request.user)),
        ("its emulated TPM", old.tpm == new.tpm),
        ("its disk configuration", before.disk_config == after.disk_config),
        ("its trusted certificates", before.trusted_certs == after.trusted_certs),
        ("its availability zone", before.availability_zone == after.availability_zone),
        ("the password of its guest", old.guest_password == new.guest_password),
        ("its injected files", old.files == new.files),
        ("something else", *new == written(old, new)),
    ];
    // If a named part changed, the comparison for "something else" fails, too. Then the message names only the part.
    let mut lacks: Vec<&str> = parts.into_iter().filter(|(_, same)| !same).map(|(part, _)| part).collect();
    if lacks.len() > 1 {
        lacks.pop();
    }
    if lacks.is_empty() { Ok(()) } else { Err(format!("the SQL cannot express a change of {}", lacks.join(", "))) }
}

/// The old server with all changes that the SQL expresses, and with changes of fields that Nova does not have.
fn written(old: &Alive, new: &Alive) -> Alive {
    let mut request = old.request.clone();
    request.name.clone_from(&new.request.name);
    request.hostname.clone_from(&new.request.hostname);
    request.description.clone_from(&new.request.description);
    request.flavor = Arc::clone(&new.request.flavor);
    request.metadata.clone_from(&new.request.metadata);
    request.tags.clone_from(&new.request.tags);
    request.access_ip_v4.clone_from(&new.request.access_ip_v4);
    request.access_ip_v6.clone_from(&new.request.access_ip_v6);
    Alive {
        request,
        updated_at: new.updated_at,
        launched_at: new.launched_at,
        terminated_at: new.terminated_at,
        placement: new.placement.clone(),
        phase: new.phase,
        build: new.build,
        ongoing: new.ongoing,
        fault: new.fault.clone(),
        lock: new.lock.clone(),
        machine_type: new.machine_type.clone(),
        outdated_definition: new.outdated_definition,
        ..old.clone()
    }
}

fn delete(row: &ServerRow, deleted: &Alive, export: &mut NovaExport) {
    let (id, at) = (quoted(&row.id.to_string()), time(deleted.terminated_at.unwrap_or(deleted.updated_at)));
    let power = status::of(&row.instance).map_or(0, |status| status.power_state);
    // Nova keeps the host of a deleted server.
    export.cells.push(format!(
        "UPDATE instances SET deleted = id, deleted_at = {at}, terminated_at = {at}, updated_at = {at}, \
         vm_state = 'deleted', task_state = NULL, power_state = {power} WHERE uuid = {id} AND deleted = 0"
    ));
    for table in PARTS {
        let set = format!("deleted = id, deleted_at = {at}");
        export.cells.push(format!("UPDATE {table} SET {set} WHERE instance_uuid = {id} AND deleted = 0"));
    }
    export.cells.push(format!("DELETE FROM tags WHERE resource_id = {id}"));
    export.api.push(format!("UPDATE instance_mappings SET queued_for_delete = 1 WHERE instance_uuid = {id}"));
    export.api.push(format!("DELETE FROM request_specs WHERE instance_uuid = {id}"));
    export.written += 1;
}

fn update(id: &str, old: &Alive, new: &Alive, export: &mut NovaExport) {
    let (uuid, at, state) = (quoted(id), time(new.updated_at), status::of_alive(new));
    let request = &new.request;
    let mut set = vec![
        format!("updated_at = {at}"),
        format!("vm_state = {}", quoted(state.vm_state)),
        "task_state = NULL".to_owned(),
        format!("power_state = {}", state.power_state),
        format!("display_name = {}", quoted(&request.name)),
        format!("display_description = {}", maybe(request.description.as_deref())),
        format!("hostname = {}", quoted(&request.hostname)),
        format!("access_ip_v4 = {}", maybe(request.access_ip_v4.as_deref())),
        format!("access_ip_v6 = {}", maybe(request.access_ip_v6.as_deref())),
        format!("launched_at = {}", new.launched_at.map_or_else(|| "NULL".to_owned(), time)),
        format!("locked = {}", u8::from(new.lock.is_some())),
        format!("locked_by = {}", maybe(new.lock.as_ref().map(|lock| if lock.by_admin { "admin" } else { "owner" }))),
    ];
    if old.placement != new.placement {
        set.extend(placed(new));
        has_host(&uuid, new, export);
    }
    if old.request.flavor != new.request.flavor {
        let flavor = &request.flavor;
        set.push(format!("memory_mb = {}, vcpus = {}", flavor.memory_mib, flavor.vcpus));
        set.push(format!("root_gb = {}, ephemeral_gb = {}", flavor.root_gib, flavor.ephemeral_gib));
        let kept = quoted(&kept_flavor(flavor).to_string());
        export.cells.push(format!("UPDATE instance_extra SET flavor = {kept} WHERE instance_uuid = {uuid}"));
        export.api.push(specified_flavor(&uuid, flavor));
    }
    export.cells.push(format!("UPDATE instances SET {} WHERE uuid = {uuid} AND deleted = 0", set.join(", ")));
    if old.request.tags != request.tags {
        export.cells.push(format!("DELETE FROM tags WHERE resource_id = {uuid}"));
        for tag in &request.tags {
            let values = format!("{uuid}, {}", quoted(tag));
            export.cells.push(format!("INSERT INTO tags (resource_id, tag) SELECT {values} {}", if_here(&uuid)));
        }
    }
    if old.request.metadata != request.metadata {
        pairs("instance_metadata", &uuid, &at, &request.metadata, export);
    }
    system_metadata("locked_reason", new.lock.as_ref().and_then(|lock| lock.reason.as_deref()), &uuid, &at, export);
    if old.machine_type != new.machine_type {
        system_metadata("image_hw_machine_type", new.machine_type.as_deref(), &uuid, &at, export);
    }
    fault(&uuid, old, new, export);
}

/// A server on a host, or on none. The names of the host in Nova are those of its compute node.
fn placed(new: &Alive) -> Vec<String> {
    let Some(placed) = &new.placement else {
        return vec!["host = NULL, node = NULL, launched_on = NULL".to_owned()];
    };
    let of = |column: &str| {
        let node = quoted(&placed.host.to_string());
        format!("(SELECT {column} FROM compute_nodes WHERE uuid = {node} AND deleted = 0)")
    };
    vec![
        format!("host = {}, node = {}", of("host"), of("hypervisor_hostname")),
        format!("launched_on = {}", of("host")),
        format!("availability_zone = {}", quoted(&placed.availability_zone)),
    ]
}

/// Checks that the server's cell has its host. A cell knows only its own hosts, and the log knows no cells.
fn has_host(uuid: &str, new: &Alive, export: &mut NovaExport) {
    let Some(placed) = &new.placement else { return };
    let node = quoted(&placed.host.to_string());
    let problem = format!("server {} is on {}, a host of another cell", new.request.instance, placed.hostname);
    let rows = format!(
        "FROM instances WHERE uuid = {uuid} AND deleted = 0 \
         AND NOT EXISTS (SELECT 1 FROM compute_nodes WHERE uuid = {node} AND deleted = 0)"
    );
    export.cells.refuse(&problem, &rows);
}

/// The end of an `INSERT` that adds a row only to the server's own cell.
fn if_here(uuid: &str) -> String {
    format!("FROM instances WHERE uuid = {uuid} AND deleted = 0")
}

fn pairs(table: &str, uuid: &str, at: &str, pairs: &[(String, String)], export: &mut NovaExport) {
    let set = format!("deleted = id, deleted_at = {at}");
    export.cells.push(format!("UPDATE {table} SET {set} WHERE instance_uuid = {uuid} AND deleted = 0"));
    for (key, value) in pairs {
        let values = format!("{at}, 0, {}, {}, {uuid}", quoted(key), quoted(value));
        let columns = "(created_at, deleted, `key`, value, instance_uuid)";
        export.cells.push(format!("INSERT INTO {table} {columns} SELECT {values} {}", if_here(uuid)));
    }
}

/// Sets a value of the system metadata, where Nova keeps the reason of a lock and the machine type.
fn system_metadata(key: &str, value: Option<&str>, uuid: &str, at: &str, export: &mut NovaExport) {
    let of = format!("instance_uuid = {uuid} AND `key` = '{key}' AND deleted = 0");
    export.cells.push(format!("UPDATE instance_system_metadata SET deleted = id, deleted_at = {at} WHERE {of}"));
    if let Some(value) = value {
        let values = format!("{at}, 0, '{key}', {}, {uuid}", quoted(value));
        let columns = "(created_at, deleted, `key`, value, instance_uuid)";
        export.cells.push(format!("INSERT INTO instance_system_metadata {columns} SELECT {values} {}", if_here(uuid)));
    }
}

fn fault(uuid: &str, old: &Alive, new: &Alive, export: &mut NovaExport) {
    if old.fault == new.fault {
        return;
    }
    let Some((fault, at)) = new.fault.as_deref() else {
        export
            .cells
            .push(format!("UPDATE instance_faults SET deleted = id WHERE instance_uuid = {uuid} AND deleted = 0"));
        return;
    };
    let (at, code) = (time(*at), fault.code);
    // Nova cuts the message, too, because its column has 255 characters.
    let message: String = fault.message.chars().take(255).collect();
    let values = format!("{at}, 0, {uuid}, {code}, {}, {}", quoted(&message), quoted(&fault.details));
    let columns = "(created_at, deleted, instance_uuid, code, message, details)";
    export.cells.push(format!("INSERT INTO instance_faults {columns} SELECT {values} {}", if_here(uuid)));
}

/// The column `instance_extra.flavor`.
fn kept_flavor(flavor: &FlavorSnapshot) -> Value {
    json!({"cur": flavor_object(flavor), "old": null, "new": null})
}

/// The flavor in `request_specs`, by which Nova's scheduler finds a host for the next move. The row number is that of
/// Nova's own flavor, if that flavor still exists.
fn specified_flavor(uuid: &str, flavor: &FlavorSnapshot) -> String {
    let (object, id) = (quoted(&flavor_object(flavor).to_string()), quoted(flavor.id.as_str()));
    let number = format!("COALESCE((SELECT id FROM flavors WHERE flavorid = {id}), 0)");
    let object = format!("JSON_SET(JSON_EXTRACT({object}, '$'), '$.\"nova_object.data\".id', {number})");
    format!(
        "UPDATE request_specs SET spec = JSON_SET(spec, '$.\"nova_object.data\".flavor', {object}) \
         WHERE instance_uuid = {uuid}"
    )
}

/// A flavor as Nova serializes it. The number of the flavor's row is 0, because the log does not have the number and
/// Nova does not read it.
fn flavor_object(flavor: &FlavorSnapshot) -> Value {
    let specs: Map<String, Value> =
        flavor.extra_specs.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect();
    let data = json!({
        "id": 0, "name": flavor.name, "memory_mb": flavor.memory_mib, "vcpus": flavor.vcpus,
        "root_gb": flavor.root_gib, "ephemeral_gb": flavor.ephemeral_gib, "flavorid": flavor.id.as_str(),
        "swap": flavor.swap_mib, "rxtx_factor": 1.0, "vcpu_weight": 0, "disabled": false, "is_public": true,
        "extra_specs": specs, "description": null, "created_at": null, "updated_at": null, "deleted_at": null,
        "deleted": false,
    });
    json!({
        "nova_object.name": "Flavor", "nova_object.namespace": "nova", "nova_object.version": "1.2",
        "nova_object.data": data,
    })
}
