//! Nova's old proxies of images, networks, security groups and volumes, until 2.35 (the metadata of images until 2.38).

use super::{list, one, page};
use crate::answers::{Answers, ok};
use crate::compute::views::security_group::{group_shape, rule_shape};
use crate::schema::{Schema, any_of, array, choice, object, opt, req, shape};

/// The links of an image. The link to the image service has a media type.
fn image_links() -> Schema {
    array(object([req("rel", shape::string()), req("href", shape::string()), opt("type", shape::string())]))
}

pub fn images() -> Answers {
    let image = object([req("id", shape::uuid()), req("name", shape::string_or_null()), req("links", image_links())]);
    ok(page("images", image, "images_links"))
}

/// An image of a server names the server.
fn image() -> Schema {
    object([
        req("id", shape::uuid()),
        req("name", shape::string_or_null()),
        req("minRam", shape::integer()),
        req("minDisk", shape::integer()),
        req("metadata", shape::pairs()),
        req("created", shape::time()),
        req("updated", shape::time()),
        req("status", shape::string()),
        req("progress", shape::integer()),
        req("OS-EXT-IMG-SIZE:size", shape::integer()),
        req("links", image_links()),
        opt("server", object([req("id", shape::string()), req("links", shape::links())])),
        opt("OS-DCF:diskConfig", choice(["AUTO", "MANUAL"])),
    ])
}

pub fn images_in_detail() -> Answers {
    ok(page("images", image(), "images_links"))
}

pub fn image_shown() -> Answers {
    ok(one("image", image()))
}

/// The fields of a network that everybody sees. The network service knows none of them, so all are null.
pub const NETWORK_FOR_ALL: [&str; 9] =
    ["broadcast", "cidr", "cidr_v6", "dns1", "dns2", "gateway", "gateway_v6", "netmask", "netmask_v6"];
/// More such fields, which only administrators see.
pub const NETWORK_FOR_ADMINISTRATORS: [&str; 21] = [
    "bridge",
    "bridge_interface",
    "created_at",
    "deleted",
    "deleted_at",
    "dhcp_server",
    "dhcp_start",
    "enable_dhcp",
    "host",
    "injected",
    "mtu",
    "multi_host",
    "priority",
    "project_id",
    "rxtx_base",
    "share_address",
    "updated_at",
    "vlan",
    "vpn_private_address",
    "vpn_public_address",
    "vpn_public_port",
];

fn network() -> Schema {
    object([req("id", shape::uuid()), req("label", shape::string())])
        .plus(NETWORK_FOR_ALL.map(|name| req(name, shape::null())))
        .plus(NETWORK_FOR_ADMINISTRATORS.map(|name| opt(name, shape::null())))
}

pub fn networks() -> Answers {
    ok(list("networks", network()))
}

pub fn network_shown() -> Answers {
    ok(one("network", network()))
}

fn tenant_network() -> Schema {
    object([req("id", shape::uuid()), req("cidr", shape::string()), req("label", shape::string())])
}

pub fn tenant_networks() -> Answers {
    ok(list("networks", tenant_network()))
}

pub fn tenant_network_shown() -> Answers {
    ok(one("network", tenant_network()))
}

pub fn floating_ip_pools() -> Answers {
    ok(list("floating_ip_pools", object([req("name", shape::string())])))
}

fn floating_ip() -> Schema {
    object([
        req("id", shape::uuid()),
        req("ip", shape::string()),
        req("pool", shape::string_or_null()),
        req("fixed_ip", shape::string_or_null()),
        req("instance_id", shape::string_or_null()),
    ])
}

pub fn floating_ips() -> Answers {
    ok(list("floating_ips", floating_ip()))
}

pub fn floating_ip_shown() -> Answers {
    ok(one("floating_ip", floating_ip()))
}

pub fn security_groups() -> Answers {
    ok(list("security_groups", group_shape()))
}

pub fn security_group() -> Answers {
    ok(one("security_group", group_shape()))
}

pub fn security_group_rule() -> Answers {
    ok(one("security_group_rule", rule_shape()))
}

/// A volume that is not attached shows one empty attachment.
fn volume() -> Schema {
    let attachment = object([
        req("id", shape::uuid()),
        req("volumeId", shape::uuid()),
        req("serverId", shape::uuid_or_null()),
        opt("device", shape::string()),
    ]);
    object([
        req("id", shape::uuid()),
        req("status", shape::string()),
        req("size", shape::integer()),
        req("availabilityZone", shape::string()),
        req("createdAt", shape::time()),
        req("attachments", array(any_of([attachment, object([])])).min_items(1).max_items(1)),
        req("displayName", shape::string()),
        req("displayDescription", shape::string_or_null()),
        req("volumeType", shape::string()),
        req("snapshotId", shape::uuid_or_null()),
        req("metadata", shape::pairs()),
    ])
}

pub fn volumes() -> Answers {
    ok(list("volumes", volume()))
}

pub fn volume_shown() -> Answers {
    ok(one("volume", volume()))
}

pub fn volume_created() -> Answers {
    volume_shown().header("Location")
}

fn snapshot() -> Schema {
    object([
        req("id", shape::uuid()),
        req("volumeId", shape::uuid()),
        req("status", shape::string()),
        req("size", shape::integer()),
        req("createdAt", shape::time()),
        req("displayName", shape::string()),
        req("displayDescription", shape::string_or_null()),
    ])
}

pub fn snapshots() -> Answers {
    ok(list("snapshots", snapshot()))
}

pub fn snapshot_shown() -> Answers {
    ok(one("snapshot", snapshot()))
}
