//! The views of resources. Each line has one field, in Neutron's order. The view checks the policy rule of each
//! restricted attribute.

pub(super) mod parts;
pub(super) mod routing;

use chronova_actors::pci::ports::DeviceVnic;
use chronova_events::network::{Ipv6Mode, NetworkRow, Port, Subnet};
use chronova_events::security_group::{Direction, Ethertype, SecurityGroup, SecurityGroupRule, default_group};
use chronova_projections::networks::NetworksView;
use serde_json::{Value, json};

use self::parts::{fixed_ips, plane, port_status, time};
use super::targets;
use crate::ctx::Ctx;

/// The revision of every security group rule, because rules never change.
pub(super) const RULE_REVISION: u64 = 0;

pub(super) fn network(ctx: &Ctx, row: &NetworkRow, subnets: &[String]) -> Value {
    let (created, settings) = (&row.created, row.settings());
    let mut view = json!({
        "id": created.network,
        "name": settings.name,
        "description": settings.description,
        "tenant_id": created.project,
        "project_id": created.project,
        "admin_state_up": settings.admin_state_up,
        "status": "ACTIVE",
        "subnets": subnets,
        "shared": settings.shared,
        "router:external": settings.external,
        "availability_zone_hints": created.availability_zone_hints,
        "availability_zones": ["nova"],
        "ipv4_address_scope": null,
        "ipv6_address_scope": null,
        "port_security_enabled": settings.port_security,
        "mtu": settings.mtu,
        "dns_domain": settings.dns_domain,
        "tags": settings.tags,
        "created_at": time(row.created_at),
        "updated_at": time(row.updated_at),
        "revision_number": row.revision,
    });
    if settings.external {
        view["is_default"] = json!(settings.is_default);
    }
    let target = targets::network(row);
    if ctx.allows("get_network:provider:network_type", &target) {
        view["provider:network_type"] = json!(created.provider.network_type);
    }
    if ctx.allows("get_network:provider:physical_network", &target) {
        view["provider:physical_network"] = json!(created.provider.physical_network);
    }
    if ctx.allows("get_network:provider:segmentation_id", &target) {
        view["provider:segmentation_id"] = json!(created.provider.segmentation_id);
    }
    view
}

pub(super) const fn mode_name(mode: Ipv6Mode) -> &'static str {
    match mode {
        Ipv6Mode::Slaac => "slaac",
        Ipv6Mode::Stateful => "dhcpv6-stateful",
        Ipv6Mode::Stateless => "dhcpv6-stateless",
    }
}

pub(super) fn subnet(row: &Subnet) -> Value {
    let (added, settings) = (&row.added, &row.added.settings);
    json!({
        "id": added.subnet,
        "name": settings.name,
        "description": settings.description,
        "tenant_id": added.project,
        "project_id": added.project,
        "network_id": added.network,
        "ip_version": if added.cidr.addr().is_ipv4() { 4 } else { 6 },
        "cidr": added.cidr,
        "gateway_ip": settings.gateway,
        "enable_dhcp": settings.dhcp,
        "allocation_pools": settings.pools,
        "dns_nameservers": settings.dns,
        "dns_publish_fixed_ip": false,
        "host_routes": settings.host_routes,
        "ipv6_address_mode": added.ipv6_address_mode.map(mode_name),
        "ipv6_ra_mode": added.ipv6_ra_mode.map(mode_name),
        "subnetpool_id": null,
        "segment_id": null,
        "service_types": [],
        "tags": settings.tags,
        "created_at": time(row.created_at),
        "updated_at": time(row.updated_at),
        "revision_number": row.revision,
    })
}

pub(super) fn port(ctx: &Ctx, networks: &NetworksView, row: &Port) -> Value {
    let (created, settings, binding) = (&row.created, row.settings(), row.binding());
    let fixed_ips = fixed_ips(row.addresses());
    let pairs: Vec<Value> = settings
        .allowed_address_pairs
        .iter()
        .map(|pair| json!({"ip_address": pair.address, "mac_address": pair.mac.as_ref().unwrap_or(&created.mac)}))
        .collect();
    let options: Vec<Value> = settings
        .dhcp_options
        .iter()
        .map(|option| json!({"opt_name": option.name, "opt_value": option.value, "ip_version": option.ip_version}))
        .collect();
    let mut view = json!({
        "id": created.port,
        "name": settings.name,
        "description": settings.description,
        "tenant_id": created.project,
        "project_id": created.project,
        "network_id": created.network,
        "admin_state_up": settings.admin_state_up,
        "status": port_status(ctx, row),
        "mac_address": created.mac,
        "fixed_ips": fixed_ips,
        "device_id": binding.device,
        "device_owner": binding.owner,
        "security_groups": settings.security_groups,
        "port_security_enabled": settings.port_security,
        "allowed_address_pairs": pairs,
        "extra_dhcp_opts": options,
        "dns_name": settings.dns_name,
        "dns_domain": settings.dns_domain,
        "dns_assignment": dns_assignment(row),
        "binding:vnic_type": settings.vnic_type,
        "propagate_uplink_status": settings.propagate_uplink_status,
        "qos_policy_id": null,
        "qos_network_policy_id": null,
        "resource_request": null,
        "tags": settings.tags,
        "created_at": time(row.created_at),
        "updated_at": time(row.updated_at),
        "revision_number": row.revision,
    });
    let target = targets::port(networks, row);
    if ctx.allows("get_port:binding:host_id", &target) {
        view["binding:host_id"] = json!(binding.host);
    }
    if ctx.allows("get_port:binding:profile", &target) {
        view["binding:profile"] = serde_json::from_str(&settings.profile).unwrap_or_else(|_| json!({}));
    }
    if ctx.allows("get_port:binding:vif_type", &target) {
        let plugged = || if plane(ctx).is_some() { "ovs" } else { "bridge" };
        let device = DeviceVnic::of_word(&settings.vnic_type).map(DeviceVnic::vif_type);
        let bound = || device.unwrap_or_else(plugged);
        view["binding:vif_type"] = json!(if binding.host.is_empty() { "unbound" } else { bound() });
    }
    if ctx.allows("get_port:binding:vif_details", &target) {
        let details = if binding.host.is_empty() { json!({}) } else { json!({"port_filter": settings.port_security}) };
        view["binding:vif_details"] = details;
    }
    view
}

fn dns_assignment(row: &Port) -> Vec<Value> {
    let name = row.settings().dns_name.as_str();
    let domain = "openstacklocal";
    row.addresses()
        .iter()
        .map(|fixed| {
            let host = match name {
                "" => format!("host-{}", fixed.address.to_string().replace(['.', ':'], "-")),
                name => name.to_owned(),
            };
            json!({"ip_address": fixed.address, "hostname": host, "fqdn": format!("{host}.{domain}.")})
        })
        .collect()
}

pub(super) fn security_group(row: &SecurityGroup) -> Value {
    let settings = row.settings();
    let rules: Vec<Value> = row.rules.values().map(|one| rule(one)).collect();
    json!({
        "id": row.id(),
        "name": settings.name,
        "description": settings.description,
        "tenant_id": row.project(),
        "project_id": row.project(),
        "stateful": settings.stateful,
        "shared": false,
        "security_group_rules": rules,
        "tags": settings.tags,
        "created_at": time(row.created_at),
        "updated_at": time(row.updated_at),
        "revision_number": row.revision,
    })
}

/// The prefix with its host bits cleared.
fn normalized(prefix: &str) -> String {
    prefix.parse::<ipnet::IpNet>().map_or_else(|_| prefix.to_owned(), |net| net.trunc().to_string())
}

pub(super) fn rule(row: &SecurityGroupRule) -> Value {
    let (added, traffic) = (&row.added, &row.added.traffic);
    json!({
        "id": added.rule,
        "tenant_id": added.project,
        "project_id": added.project,
        "security_group_id": added.group,
        "direction": match traffic.direction {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        },
        "ethertype": match traffic.ethertype {
            Ethertype::Ipv4 => "IPv4",
            Ethertype::Ipv6 => "IPv6",
        },
        "protocol": traffic.protocol,
        "port_range_min": traffic.port_min,
        "port_range_max": traffic.port_max,
        "remote_ip_prefix": traffic.remote_prefix,
        "normalized_cidr": traffic.remote_prefix.as_deref().map(normalized),
        "remote_group_id": traffic.remote_group,
        "remote_address_group_id": null,
        "belongs_to_default_sg": added.group == default_group(&added.project),
        "description": added.description,
        "tags": [],
        "created_at": time(row.created_at),
        "updated_at": time(row.created_at),
        "revision_number": RULE_REVISION,
    })
}
