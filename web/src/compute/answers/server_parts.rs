//! The parts of servers: metadata, tags, addresses, interfaces, volumes, actions, and what their hosts know.

use super::{list, one};
use crate::answers::{Answers, accepted, empty, no_content, ok};
use crate::compute::views::action::ACTION;
use crate::compute::views::attachment::ATTACHMENT;
use crate::compute::views::server::addresses_shape;
use crate::compute::views::{diagnostics, security_group};
use crate::schema::{Schema, array, object, opt, req, shape};

pub fn metadata() -> Answers {
    ok(one("metadata", shape::pairs()))
}

pub fn metadata_item() -> Answers {
    ok(one("meta", shape::pairs().min_properties(1).max_properties(1)))
}

pub fn tags() -> Answers {
    ok(one("tags", shape::strings()))
}

/// 201 for a new tag, and 204 for one that the server has already.
pub fn tag_added() -> Answers {
    empty(201).header("Location").or(no_content())
}

pub fn ips() -> Answers {
    ok(one("addresses", shape::map_of(addresses_shape())))
}

pub fn ips_of_network() -> Answers {
    ok(shape::map_of(addresses_shape()).min_properties(1).max_properties(1))
}

/// An address that the network service does not know shows an empty text as its subnet.
fn interface() -> Schema {
    object([
        req("net_id", shape::uuid()),
        req("port_id", shape::uuid()),
        req("mac_addr", shape::string()),
        req("port_state", shape::string()),
        req("fixed_ips", array(object([req("subnet_id", shape::string()), req("ip_address", shape::string())]))),
        req("tag", shape::string_or_null()).since(2, 70),
    ])
}

pub fn interfaces() -> Answers {
    ok(list("interfaceAttachments", interface()))
}

pub fn interface_shown() -> Answers {
    ok(one("interfaceAttachment", interface()))
}

/// Callers who may not see hosts get neither `host_node` nor `cpu_pinning`.
pub fn topology() -> Answers {
    let node = object([
        req("vcpu_set", array(shape::integer())),
        req("siblings", array(array(shape::integer()))),
        req("memory_mb", shape::integer()),
        opt("host_node", shape::integer()),
        opt("cpu_pinning", shape::map_of(shape::integer())),
    ]);
    ok(list("nodes", node).plus([req("pagesize_kb", shape::integer_or_null())]))
}

pub fn security_groups() -> Answers {
    ok(list("security_groups", security_group::group_shape()))
}

/// No server has shares, because there is no share service.
pub fn shares() -> Answers {
    let share = object([
        req("share_id", shape::uuid()),
        req("status", shape::string()),
        req("tag", shape::string()),
        opt("uuid", shape::uuid()),
        opt("export_location", shape::string()),
    ]);
    ok(list("shares", share))
}

pub fn volumes() -> Answers {
    ok(list("volumeAttachments", ATTACHMENT.shape()))
}

pub fn volume() -> Answers {
    ok(one("volumeAttachment", ATTACHMENT.shape()))
}

/// Since 2.101 a volume is attached in the background.
pub fn volume_attached() -> Answers {
    let attachment = object([
        req("id", shape::uuid()),
        req("serverId", shape::uuid()),
        req("volumeId", shape::uuid()),
        req("device", shape::string_or_null()),
        req("tag", shape::string_or_null()).since(2, 70),
        req("delete_on_termination", shape::boolean_or_null()).since(2, 79),
    ]);
    ok(one("volumeAttachment", attachment)).until(2, 100).or(accepted().since(2, 101))
}

/// Lists show no events.
pub fn actions() -> Answers {
    let action = ACTION.shape().without(&["events"]);
    ok(list("instanceActions", action).plus([opt("links", shape::links()).since(2, 58)]))
}

pub fn action() -> Answers {
    ok(one("instanceAction", ACTION.shape()))
}

pub fn diagnosed() -> Answers {
    ok(diagnostics::diagnostics_shape())
}

pub fn password() -> Answers {
    ok(one("password", shape::string()))
}
