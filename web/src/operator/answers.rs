//! The schemas of the answers to operators.

use crate::answers::{Answers, json, ok};
use crate::compute::answers::servers::{checks, weighed};
use crate::schema::{Schema, array, choice, null_or, object, opt, req, shape};

fn one(name: &'static str, resource: Schema) -> Schema {
    object([req(name, resource)])
}

fn amounts() -> Schema {
    shape::map_of(shape::integer())
}

fn brief_host() -> Schema {
    let maintenance = object([req("reason", shape::string_or_null()), req("since", shape::string())]);
    object([
        req("id", shape::uuid()),
        req("name", shape::string()),
        req("up", shape::boolean()),
        req("enabled", shape::boolean()),
        req("disabled_reason", shape::string_or_null()),
        req("maintenance", null_or(maintenance)),
        req("servers", shape::integer()),
        req("draining", shape::boolean()),
    ])
}

/// A server on its way from the host. Only live migrations show how much memory is left.
fn leaving() -> Schema {
    object([
        req("server", shape::uuid()),
        req("name", shape::string_or_null()),
        req("how", shape::string()),
        req("migration", shape::integer_or_null()),
        req("status", shape::string_or_null()),
        req("memory_total_bytes", shape::integer_or_null()),
        req("memory_remaining_bytes", shape::integer_or_null()),
    ])
}

fn drain() -> Schema {
    let server = || [req("server", shape::uuid()), req("name", shape::string_or_null())];
    object([
        req("id", shape::uuid()),
        req("status", choice(["running", "cancelling", "cancelled", "done", "incomplete"])),
        req("parallel", shape::integer()),
        req("requested_at", shape::string()),
        req("ended_at", shape::string_or_null()),
        req("waiting", shape::integer()),
        req("leaving", array(leaving())),
        req("left", array(object(server()).plus([req("to", shape::string_or_null())]))),
        req("stays", array(object(server()).plus([req("reason", shape::string())]))),
    ])
}

fn whole_host() -> Schema {
    brief_host().plus([
        req("cpu_arch", shape::string()),
        req("host_ip", shape::string()),
        req("initiator", shape::string()),
        req("drain", null_or(drain())),
    ])
}

pub(super) fn hosts() -> Answers {
    ok(one("hosts", array(brief_host())))
}

pub(super) fn host() -> Answers {
    ok(one("host", whole_host()))
}

pub(super) fn host_added() -> Answers {
    json(202, one("host", one("uri", shape::string())))
}

pub(super) fn host_changed() -> Answers {
    json(202, one("host", whole_host()))
}

pub(super) fn decisions() -> Answers {
    let decision = object([
        req("resources", amounts()),
        req("required", shape::strings()),
        req("hosts", shape::integer()),
        req("checks", checks()),
        req("weighed", weighed()),
        req("chosen", shape::string_or_null()),
        req("alternates", shape::strings()),
        req("lacks", shape::string_or_null()),
    ]);
    ok(one("decisions", array(decision)))
}

pub(super) fn drain_plan() -> Answers {
    let server = object([
        req("server", shape::uuid()),
        req("name", shape::string()),
        req("how", shape::string()),
        req("to", shape::string_or_null()),
        req("reason", shape::string_or_null()),
    ]);
    ok(one("plan", object([req("host", shape::string()), req("servers", array(server))])))
}

/// `project` is null if the request names no project.
pub(super) fn limits() -> Answers {
    let limits = object([
        req("defaults", amounts()),
        req("project", null_or(amounts())),
        req("resource_classes", shape::strings()),
    ]);
    ok(one("limits", limits))
}

pub(super) fn permissions() -> Answers {
    ok(one("permissions", shape::map_of(shape::boolean())))
}

pub(super) fn orphans() -> Answers {
    let orphan = object([
        req("consumer", shape::string()),
        req("resource_provider", shape::uuid()),
        req("resources", amounts()),
    ]);
    ok(one("orphans", array(orphan)))
}

pub(super) fn healed() -> Answers {
    let healed = object([
        req("outcome", choice(["in_task", "on_no_host", "up_to_date", "created", "updated"])),
        opt("task_state", shape::string()),
        opt("allocations", shape::map_of(one("resources", amounts()))),
    ]);
    ok(one("healed", healed))
}

/// A host without a resource provider is not mirrored.
pub(super) fn mirrored() -> Answers {
    let host = object([
        req("name", shape::string()),
        req("known", shape::boolean()),
        req("provider", shape::uuid_or_null()),
        req("mirrored", shape::boolean_or_null()),
    ]);
    let aggregate = object([req("name", shape::string()), req("uuid", shape::uuid()), req("hosts", array(host))]);
    ok(one("aggregates", array(aggregate)))
}

pub(super) fn without_machine_type() -> Answers {
    ok(one("servers", array(shape::uuid())))
}

fn connection() -> Schema {
    let data = object([
        req("pool", shape::string()),
        req("volume", shape::string()),
        req("format", shape::string()),
        req("access_mode", choice(["ro", "rw"])),
    ]);
    object([
        req("driver_volume_type", shape::string()),
        req("serial", shape::string()),
        req("multiattach", shape::boolean()),
        req("data", data),
    ])
}

fn block_device() -> Schema {
    object([
        req("uuid", shape::uuid()),
        req("instance_uuid", shape::uuid()),
        req("source_type", choice(["blank", "image", "snapshot", "volume"])),
        req("destination_type", choice(["local", "volume"])),
        req("boot_index", shape::integer_or_null()),
        req("delete_on_termination", shape::boolean()),
        req("device_name", shape::string_or_null()),
        req("device_type", shape::string_or_null()),
        req("disk_bus", shape::string_or_null()),
        req("guest_format", shape::string_or_null()),
        req("image_id", shape::uuid_or_null()),
        req("snapshot_id", shape::uuid_or_null()),
        req("tag", shape::string_or_null()),
        req("volume_id", shape::uuid_or_null()),
        req("volume_size", shape::integer_or_null()),
        req("volume_type", shape::string_or_null()),
        req("attachment_id", shape::uuid_or_null()),
        req("connection_info", null_or(connection())),
    ])
}

pub(super) fn server() -> Answers {
    let server = object([
        req("id", shape::uuid()),
        req("name", shape::string()),
        req("project_id", shape::string()),
        req("user_id", shape::string()),
        req("deleted", shape::boolean()),
        req("vm_state", shape::string_or_null()),
        req("task_state", shape::string_or_null()),
        req("host", shape::string_or_null()),
        req("had_host", shape::boolean()),
        req("locked", shape::boolean()),
        req("machine_type", shape::string_or_null()),
        req("image_properties", shape::pairs()),
        req("block_device_mappings", array(block_device())),
    ]);
    ok(one("server", server))
}
