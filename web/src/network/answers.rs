//! The schemas of the network service's answers.

use chronova_actors::services::embedded::network::quota::RESOURCES;

use crate::answers::{Answers, empty, json, ok};
use crate::schema::{Property, Schema, array, choice, null_or, object, object_of, one_of, opt, req, shape};

/// A list. The parameter `fields` chooses the fields, so any field can be absent.
fn list(name: &'static str, resource: Schema, links: &'static str) -> Answers {
    ok(object([req(name, array(resource.optional())), opt(links, shape::links())]))
}

/// One resource. The parameter `fields` chooses the fields, so any field can be absent.
fn one(name: &'static str, resource: Schema) -> Answers {
    ok(object([req(name, resource.optional())]))
}

fn created(name: &'static str, resource: Schema) -> Answers {
    json(201, object([req(name, resource)]))
}

/// The fields that all resources have.
fn resource() -> Schema {
    object([
        req("id", shape::uuid()),
        req("tenant_id", shape::string()),
        req("project_id", shape::string()),
        req("description", shape::string()),
        req("tags", shape::strings()),
        req("created_at", shape::time()),
        req("updated_at", shape::time()),
        req("revision_number", shape::integer()),
    ])
}

/// The policy decides who sees the attributes `provider:...`. Only external networks have `is_default`.
fn network() -> Schema {
    resource().plus([
        req("name", shape::string()),
        req("admin_state_up", shape::boolean()),
        req("status", shape::string()),
        req("subnets", array(shape::uuid())),
        req("shared", shape::boolean()),
        req("router:external", shape::boolean()),
        req("availability_zone_hints", shape::strings()),
        req("availability_zones", shape::strings()),
        req("ipv4_address_scope", shape::uuid_or_null()),
        req("ipv6_address_scope", shape::uuid_or_null()),
        req("port_security_enabled", shape::boolean()),
        req("mtu", shape::integer()),
        req("dns_domain", shape::string()),
        opt("is_default", shape::boolean()),
        opt("provider:network_type", shape::string()),
        opt("provider:physical_network", shape::string_or_null()),
        opt("provider:segmentation_id", shape::integer_or_null()),
    ])
}

pub(super) fn networks() -> Answers {
    list("networks", network(), "networks_links")
}

pub(super) fn network_created() -> Answers {
    created("network", network())
}

pub(super) fn network_shown() -> Answers {
    one("network", network())
}

fn subnet() -> Schema {
    let pool = object([req("start", shape::string()), req("end", shape::string())]);
    let route = object([req("destination", shape::string()), req("nexthop", shape::string())]);
    resource().plus([
        req("name", shape::string()),
        req("network_id", shape::uuid()),
        req("ip_version", shape::integer()),
        req("cidr", shape::string()),
        req("gateway_ip", shape::string_or_null()),
        req("enable_dhcp", shape::boolean()),
        req("allocation_pools", array(pool)),
        req("dns_nameservers", shape::strings()),
        req("dns_publish_fixed_ip", shape::boolean()),
        req("host_routes", array(route)),
        req("ipv6_address_mode", shape::string_or_null()),
        req("ipv6_ra_mode", shape::string_or_null()),
        req("subnetpool_id", shape::uuid_or_null()),
        req("segment_id", shape::uuid_or_null()),
        req("service_types", shape::strings()),
    ])
}

pub(super) fn subnets() -> Answers {
    list("subnets", subnet(), "subnets_links")
}

pub(super) fn subnet_created() -> Answers {
    created("subnet", subnet())
}

pub(super) fn subnet_shown() -> Answers {
    one("subnet", subnet())
}

fn fixed_ips() -> Schema {
    array(object([req("subnet_id", shape::uuid()), req("ip_address", shape::string())]))
}

/// The policy decides who sees the binding.
fn port() -> Schema {
    let pair = object([req("ip_address", shape::string()), req("mac_address", shape::string())]);
    let option = object([
        req("opt_name", shape::string()),
        req("opt_value", shape::string()),
        req("ip_version", shape::integer()),
    ]);
    let name =
        object([req("ip_address", shape::string()), req("hostname", shape::string()), req("fqdn", shape::string())]);
    resource().plus([
        req("name", shape::string()),
        req("network_id", shape::uuid()),
        req("admin_state_up", shape::boolean()),
        req("status", shape::string()),
        req("mac_address", shape::string()),
        req("fixed_ips", fixed_ips()),
        req("device_id", shape::string()),
        req("device_owner", shape::string()),
        req("security_groups", array(shape::uuid())),
        req("port_security_enabled", shape::boolean()),
        req("allowed_address_pairs", array(pair)),
        req("extra_dhcp_opts", array(option)),
        req("dns_name", shape::string()),
        req("dns_domain", shape::string()),
        req("dns_assignment", array(name)),
        req("binding:vnic_type", shape::string()),
        req("propagate_uplink_status", shape::boolean()),
        req("qos_policy_id", shape::uuid_or_null()),
        req("qos_network_policy_id", shape::uuid_or_null()),
        req("resource_request", null_or(object([]).open())),
        opt("binding:host_id", shape::string()),
        opt("binding:profile", object([]).open()),
        opt("binding:vif_type", choice(["unbound", "bridge", "ovs", "hw_veb", "hostdev_physical", "vdpa"])),
        opt("binding:vif_details", object([opt("port_filter", shape::boolean())])),
    ])
}

pub(super) fn ports() -> Answers {
    list("ports", port(), "ports_links")
}

pub(super) fn port_created() -> Answers {
    created("port", port())
}

pub(super) fn port_shown() -> Answers {
    one("port", port())
}

fn rule() -> Schema {
    resource().plus([
        req("security_group_id", shape::uuid()),
        req("direction", choice(["ingress", "egress"])),
        req("ethertype", choice(["IPv4", "IPv6"])),
        req("protocol", shape::string_or_null()),
        req("port_range_min", shape::integer_or_null()),
        req("port_range_max", shape::integer_or_null()),
        req("remote_ip_prefix", shape::string_or_null()),
        req("normalized_cidr", shape::string_or_null()),
        req("remote_group_id", shape::uuid_or_null()),
        req("remote_address_group_id", shape::uuid_or_null()),
        req("belongs_to_default_sg", shape::boolean()),
    ])
}

pub(super) fn rules() -> Answers {
    list("security_group_rules", rule(), "security_group_rules_links")
}

/// One rule, or several if the request had several.
pub(super) fn rule_created() -> Answers {
    let one = object([req("security_group_rule", rule())]);
    json(201, one_of([one, object([req("security_group_rules", array(rule()))])]))
}

pub(super) fn rule_shown() -> Answers {
    one("security_group_rule", rule())
}

fn group() -> Schema {
    resource().plus([
        req("name", shape::string()),
        req("stateful", shape::boolean()),
        req("shared", shape::boolean()),
        req("security_group_rules", array(rule())),
    ])
}

pub(super) fn groups() -> Answers {
    list("security_groups", group(), "security_groups_links")
}

pub(super) fn group_created() -> Answers {
    created("security_group", group())
}

pub(super) fn group_shown() -> Answers {
    one("security_group", group())
}

fn router() -> Schema {
    let gateway = object([
        req("network_id", shape::uuid()),
        req("enable_snat", shape::boolean()),
        req("external_fixed_ips", fixed_ips()),
    ]);
    let route = object([req("destination", shape::string()), req("nexthop", shape::string())]);
    resource().plus([
        req("name", shape::string()),
        req("admin_state_up", shape::boolean()),
        req("status", shape::string()),
        req("external_gateway_info", null_or(gateway)),
        req("availability_zone_hints", shape::strings()),
        req("availability_zones", shape::strings()),
        req("routes", array(route)),
    ])
}

pub(super) fn routers() -> Answers {
    list("routers", router(), "routers_links")
}

pub(super) fn router_created() -> Answers {
    created("router", router())
}

pub(super) fn router_shown() -> Answers {
    one("router", router())
}

/// The answer to adding or removing an interface of a router.
pub(super) fn router_interface() -> Answers {
    ok(object([
        req("id", shape::uuid()),
        req("tenant_id", shape::string()),
        req("project_id", shape::string()),
        req("port_id", shape::uuid()),
        req("network_id", shape::uuid()),
        req("subnet_id", shape::uuid_or_null()),
        req("subnet_ids", array(shape::uuid())),
    ]))
}

fn floating_ip() -> Schema {
    let port = object([
        req("name", shape::string()),
        req("network_id", shape::uuid()),
        req("mac_address", shape::string()),
        req("admin_state_up", shape::boolean()),
        req("status", shape::string()),
        req("device_id", shape::string()),
        req("device_owner", shape::string()),
    ]);
    resource().plus([
        req("floating_ip_address", shape::string()),
        req("floating_network_id", shape::uuid()),
        req("router_id", shape::uuid_or_null()),
        req("port_id", shape::uuid_or_null()),
        req("fixed_ip_address", shape::string_or_null()),
        req("port_details", null_or(port)),
        req("status", shape::string()),
        req("dns_name", shape::string()),
        req("dns_domain", shape::string()),
        req("qos_policy_id", shape::uuid_or_null()),
    ])
}

pub(super) fn floating_ips() -> Answers {
    list("floatingips", floating_ip(), "floatingips_links")
}

pub(super) fn floating_ip_created() -> Answers {
    created("floatingip", floating_ip())
}

pub(super) fn floating_ip_shown() -> Answers {
    one("floatingip", floating_ip())
}

/// A count of addresses is rounded if it exceeds the exact integers of JSON readers.
fn ip_availability() -> Schema {
    let subnet = object([
        req("subnet_id", shape::uuid()),
        req("subnet_name", shape::string()),
        req("cidr", shape::string()),
        req("ip_version", shape::integer()),
        req("total_ips", shape::number()),
        req("used_ips", shape::integer()),
    ]);
    object([
        req("network_id", shape::uuid()),
        req("network_name", shape::string()),
        req("tenant_id", shape::string()),
        req("project_id", shape::string()),
        req("total_ips", shape::number()),
        req("used_ips", shape::integer()),
        req("subnet_ip_availability", array(subnet)),
    ])
}

pub(super) fn ip_availabilities() -> Answers {
    list("network_ip_availabilities", ip_availability(), "network_ip_availabilities_links")
}

pub(super) fn ip_availability_shown() -> Answers {
    one("network_ip_availability", ip_availability())
}

fn extension() -> Schema {
    object([
        req("alias", shape::string()),
        req("name", shape::string()),
        req("description", shape::string()),
        req("updated", shape::string()),
        req("links", shape::links()),
    ])
}

pub(super) fn extensions() -> Answers {
    ok(object([req("extensions", array(extension()))]))
}

pub(super) fn extension_shown() -> Answers {
    ok(object([req("extension", extension())]))
}

/// There are no agents.
pub(super) fn agents() -> Answers {
    list("agents", object([]).open(), "agents_links")
}

/// There are no service providers.
pub(super) fn service_providers() -> Answers {
    list("service_providers", object([]).open(), "service_providers_links")
}

pub(super) fn availability_zones() -> Answers {
    let zone = object([req("name", shape::string()), req("resource", shape::string()), req("state", shape::string())]);
    list("availability_zones", zone, "availability_zones_links")
}

/// The limits of a project. `limit` is the schema of each limit.
fn limits(limit: fn() -> Schema) -> Schema {
    object_of(RESOURCES.into_iter().map(|(name, _)| req(name, limit())).collect())
}

fn owner() -> [Property; 2] {
    [req("project_id", shape::string()), req("tenant_id", shape::string())]
}

pub(super) fn quotas() -> Answers {
    ok(object([req("quotas", array(limits(shape::integer).plus(owner())))]))
}

pub(super) fn own_project() -> Answers {
    ok(object([req("tenant", object(owner()))]))
}

pub(super) fn quota() -> Answers {
    ok(object([req("quota", limits(shape::integer))]))
}

pub(super) fn quota_details() -> Answers {
    let line =
        || object([req("limit", shape::integer()), req("used", shape::integer()), req("reserved", shape::integer())]);
    ok(object([req("quota", limits(line))]))
}

pub(super) fn tags() -> Answers {
    ok(object([req("tags", shape::strings())]))
}

pub(super) fn tag_added() -> Answers {
    empty(201)
}
