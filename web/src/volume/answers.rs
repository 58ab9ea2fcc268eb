//! The schemas of the volume service's answers.

use super::views::snapshot;
use super::views::volume::{LISTED, SHOWN};
use crate::answers::{Answers, json, ok};
use crate::schema::{Property, Schema, any_of, array, choice, null_or, object, opt, req, shape};

fn one(name: &'static str, resource: Schema) -> Schema {
    object([req(name, resource)])
}

/// A list with the link to the next page, and with the number of all rows if the client asks for it.
fn page(name: &'static str, resource: Schema, links: &'static str) -> Answers {
    ok(object([req(name, array(resource)), opt(links, shape::links()), opt("count", shape::integer())]))
}

pub(super) fn volumes() -> Answers {
    page("volumes", SHOWN.shape().only(&LISTED), "volumes_links")
}

pub(super) fn volumes_in_detail() -> Answers {
    page("volumes", SHOWN.shape(), "volumes_links")
}

pub(super) fn summary() -> Answers {
    let sums = object([req("total_size", shape::integer()), req("total_count", shape::integer())]);
    ok(one("volume-summary", sums))
}

pub(super) fn volume_shown() -> Answers {
    ok(one("volume", SHOWN.shape()))
}

/// The answers to changes lack the fields that only reads show.
fn plain() -> Schema {
    SHOWN.shape().without(&[
        "os-vol-host-attr:host",
        "os-vol-mig-status-attr:migstat",
        "os-vol-mig-status-attr:name_id",
        "os-vol-tenant-attr:tenant_id",
        "volume_image_metadata",
    ])
}

pub(super) fn volume_created() -> Answers {
    json(202, one("volume", plain()))
}

pub(super) fn volume_updated() -> Answers {
    ok(one("volume", plain()))
}

pub(super) fn snapshots() -> Answers {
    page("snapshots", snapshot::LISTED.shape(), "snapshots_links")
}

pub(super) fn snapshots_in_detail() -> Answers {
    page("snapshots", snapshot::SHOWN.shape(), "snapshots_links")
}

pub(super) fn snapshot_shown() -> Answers {
    ok(one("snapshot", snapshot::SHOWN.shape()))
}

pub(super) fn snapshot_created() -> Answers {
    json(202, one("snapshot", snapshot::LISTED.shape()))
}

pub(super) fn snapshot_updated() -> Answers {
    ok(one("snapshot", snapshot::LISTED.shape()))
}

pub(super) fn metadata() -> Answers {
    ok(one("metadata", shape::pairs()))
}

pub(super) fn metadata_item() -> Answers {
    ok(one("meta", shape::pairs().min_properties(1).max_properties(1)))
}

/// The policy decides who sees extra specs and the id of the QoS specs.
fn volume_type() -> Schema {
    object([
        req("id", shape::uuid()),
        req("name", shape::string()),
        req("is_public", shape::boolean()),
        req("description", shape::string_or_null()),
        opt("extra_specs", shape::pairs()),
        opt("qos_specs_id", shape::uuid_or_null()),
        req("os-volume-type-access:is_public", shape::boolean()),
    ])
}

pub(super) fn types() -> Answers {
    page("volume_types", volume_type(), "volume_types_links")
}

pub(super) fn type_shown() -> Answers {
    ok(one("volume_type", volume_type()))
}

pub(super) fn specs() -> Answers {
    ok(one("extra_specs", shape::pairs()))
}

pub(super) fn spec() -> Answers {
    ok(shape::pairs().min_properties(1).max_properties(1))
}

/// No volume type encrypts its volumes, so the object is empty.
pub(super) fn type_encryption() -> Answers {
    ok(object([]))
}

/// The answer repeats the request.
pub(super) fn spec_updated() -> Answers {
    ok(shape::map_of(shape::string_or_null()).min_properties(1).max_properties(1))
}

pub(super) fn type_access() -> Answers {
    let access = object([req("volume_type_id", shape::uuid()), req("project_id", shape::string())]);
    ok(one("volume_type_access", array(access)))
}

/// The limits, also those of each volume type (such as `volumes_TYPE`). `limit` is the schema of each limit.
fn limits_of(limit: fn() -> Schema) -> Schema {
    let names = ["volumes", "snapshots", "gigabytes", "per_volume_gigabytes", "groups", "backups", "backup_gigabytes"];
    shape::map_of(limit()).plus(names.map(|name| req(name, limit())))
}

fn id() -> Property {
    req("id", shape::string())
}

/// With `usage=true` each limit comes with its usage.
pub(super) fn quota_set() -> Answers {
    let used = || {
        let names = ["limit", "in_use", "reserved", "allocated"];
        any_of([shape::integer(), object(names.map(|name| req(name, shape::integer())))])
    };
    ok(one("quota_set", limits_of(used).plus([id()])))
}

pub(super) fn quota_defaults() -> Answers {
    ok(one("quota_set", limits_of(shape::integer).plus([id()])))
}

pub(super) fn quota_updated() -> Answers {
    ok(one("quota_set", limits_of(shape::integer)))
}

pub(super) fn quota_class() -> Answers {
    ok(one("quota_class_set", limits_of(shape::integer).plus([id()])))
}

/// The policy decides who sees the usage.
pub(super) fn limits() -> Answers {
    let limits = [
        "maxTotalSnapshots",
        "maxTotalBackups",
        "maxTotalVolumeGigabytes",
        "maxTotalVolumes",
        "maxTotalBackupGigabytes",
    ];
    let used = [
        "totalVolumesUsed",
        "totalGigabytesUsed",
        "totalSnapshotsUsed",
        "totalBackupsUsed",
        "totalBackupGigabytesUsed",
    ];
    let absolute =
        object(limits.map(|name| req(name, shape::integer()))).plus(used.map(|name| opt(name, shape::integer())));
    ok(one("limits", object([req("rate", array(object([]).open())), req("absolute", absolute)])))
}

pub(super) fn zones() -> Answers {
    let zone =
        object([req("zoneName", shape::string()), req("zoneState", object([req("available", shape::boolean())]))]);
    ok(one("availabilityZoneInfo", array(zone)))
}

pub(super) fn services() -> Answers {
    let service = object([
        req("binary", shape::string()),
        req("host", shape::string()),
        req("zone", shape::string()),
        req("status", shape::string()),
        req("state", choice(["up", "down"])),
        req("updated_at", shape::time()),
        req("disabled_reason", shape::string_or_null()),
    ]);
    ok(one("services", array(service)))
}

/// The capabilities are shown with `detail=true`.
pub(super) fn pools() -> Answers {
    let capabilities = object([
        req("volume_backend_name", shape::string()),
        req("storage_protocol", shape::string()),
        req("total_capacity_gb", shape::number()),
        req("free_capacity_gb", shape::number()),
        req("reserved_percentage", shape::integer()),
        req("multiattach", shape::boolean()),
    ]);
    ok(one("pools", array(object([req("name", shape::string()), opt("capabilities", capabilities)]))))
}

pub(super) fn extensions() -> Answers {
    let extension = object([
        req("name", shape::string()),
        req("alias", shape::string()),
        req("description", shape::string()),
        req("updated", shape::string()),
        req("links", shape::links()),
    ]);
    ok(one("extensions", array(extension)))
}

/// A list of resources that do not exist here.
fn none(name: &'static str) -> Answers {
    ok(one(name, array(object([]).open()).max_items(0)))
}

pub(super) fn messages() -> Answers {
    none("messages")
}

pub(super) fn backups() -> Answers {
    none("backups")
}

pub(super) fn transfers() -> Answers {
    none("transfers")
}

pub(super) fn group_types() -> Answers {
    none("group_types")
}

pub(super) fn groups() -> Answers {
    none("groups")
}

pub(super) fn group_snapshots() -> Answers {
    none("group_snapshots")
}

pub(super) fn qos_specs() -> Answers {
    none("qos_specs")
}

fn listed_attachment() -> Schema {
    object([
        req("status", shape::string()),
        req("instance", shape::uuid_or_null()),
        req("id", shape::uuid()),
        req("volume_id", shape::uuid()),
    ])
}

/// The data of a volume's `connection_info`.
fn way() -> Schema {
    object([
        req("pool", shape::string()),
        req("volume", shape::string()),
        req("volume_id", shape::string()),
        req("format", shape::string()),
        req("access_mode", choice(["ro", "rw"])),
        req("encrypted", shape::boolean()),
        req("qos_specs", null_or(object([]).open())),
        req("discard", shape::boolean()),
        req("cacheable", shape::boolean()),
    ])
}

/// An attachment without a host has no connection. An attachment that is not complete yet shows an empty time.
fn attachment() -> Schema {
    let time_or_empty = any_of([shape::time(), shape::string().max_length(0)]);
    let connection = way().plus([req("driver_volume_type", shape::string()), req("attachment_id", shape::uuid())]);
    listed_attachment().plus([
        req("attached_at", time_or_empty.clone()),
        req("detached_at", time_or_empty),
        req("attach_mode", choice(["ro", "rw"])),
        req("connection_info", any_of([connection, object([])])),
    ])
}

pub(super) fn attachments() -> Answers {
    page("attachments", listed_attachment(), "attachments_links")
}

pub(super) fn attachments_in_detail() -> Answers {
    page("attachments", attachment(), "attachments_links")
}

pub(super) fn attachment_shown() -> Answers {
    ok(one("attachment", attachment()))
}

/// The answer to the deletion of an attachment: the attachments that the volume still has.
pub(super) fn attachments_left() -> Answers {
    ok(one("attachments", array(listed_attachment())))
}

pub(super) fn connection() -> Answers {
    ok(one("connection_info", object([req("driver_volume_type", shape::string()), req("data", way())])))
}

pub(super) fn uploading() -> Answers {
    let upload = object([
        req("id", shape::uuid()),
        req("updated_at", shape::time()),
        req("status", shape::string()),
        req("display_description", shape::string_or_null()),
        req("size", shape::integer()),
        req("volume_type", null_or(volume_type())),
        req("image_id", shape::uuid()),
        req("container_format", shape::string_or_null()),
        req("disk_format", shape::string_or_null()),
        req("image_name", shape::string_or_null()),
        req("protected", shape::boolean()),
        req("visibility", shape::string()),
    ]);
    json(202, one("os-volume_upload_image", upload))
}
