//! Operations of the API that are not served.
//!
//! [`GONE`] lists the operations that Nova has removed. As in Nova, removed operations answer 410, and
//! `os-getRDPConsole` answers 400. [`NOT_YET`] lists operations of Nova that this release does not implement. This list
//! is empty and must stay empty. A test compares it with `tests/uncovered-operations.txt`.

use crate::route::{Method, Route, gone, gone_action};

/// Operations that Nova has removed.
pub const GONE: &[Route] = &[
    gone("agents.index", Method::Get, "/os-agents", 410),
    gone("agents.create", Method::Post, "/os-agents", 410),
    gone("agents.delete", Method::Delete, "/os-agents/{id}", 410),
    gone("agents.update", Method::Put, "/os-agents/{id}", 410),
    gone("cells.index", Method::Get, "/os-cells", 410),
    gone("cells.create", Method::Post, "/os-cells", 410),
    gone("cells.capacities", Method::Get, "/os-cells/capacities", 410),
    gone("cells.detail", Method::Get, "/os-cells/detail", 410),
    gone("cells.info", Method::Get, "/os-cells/info", 410),
    gone("cells.sync_instances", Method::Post, "/os-cells/sync_instances", 410),
    gone("cells.delete", Method::Delete, "/os-cells/{id}", 410),
    gone("cells.show", Method::Get, "/os-cells/{id}", 410),
    gone("cells.update", Method::Put, "/os-cells/{id}", 410),
    gone("cells.capacities", Method::Get, "/os-cells/{id}/capacities", 410),
    gone("certificates.create", Method::Post, "/os-certificates", 410),
    gone("certificates.show", Method::Get, "/os-certificates/{id}", 410),
    gone("cloudpipe.index", Method::Get, "/os-cloudpipe", 410),
    gone("cloudpipe.create", Method::Post, "/os-cloudpipe", 410),
    gone("cloudpipe.update", Method::Put, "/os-cloudpipe/{id}", 410),
    gone("fixed_ips.show", Method::Get, "/os-fixed-ips/{id}", 410),
    gone_action("fixed_ips.reserve", "/os-fixed-ips/{id}/action", "reserve", 410),
    gone_action("fixed_ips.unreserve", "/os-fixed-ips/{id}/action", "unreserve", 410),
    gone("floating_ip_dns.index", Method::Get, "/os-floating-ip-dns", 410),
    gone(
        "floating_ip_dns.FloatingIPDNSEntry.delete",
        Method::Delete,
        "/os-floating-ip-dns/{domain_id}/entries/{id}",
        410,
    ),
    gone("floating_ip_dns.show", Method::Get, "/os-floating-ip-dns/{domain_id}/entries/{id}", 410),
    gone("floating_ip_dns.FloatingIPDNSEntry.update", Method::Put, "/os-floating-ip-dns/{domain_id}/entries/{id}", 410),
    gone("floating_ip_dns.FloatingIPDNSDomain.delete", Method::Delete, "/os-floating-ip-dns/{id}", 410),
    gone("floating_ip_dns.FloatingIPDNSDomain.update", Method::Put, "/os-floating-ip-dns/{id}", 410),
    gone("floating_ips_bulk.index", Method::Get, "/os-floating-ips-bulk", 410),
    gone("floating_ips_bulk.create", Method::Post, "/os-floating-ips-bulk", 410),
    gone("floating_ips_bulk.show", Method::Get, "/os-floating-ips-bulk/{id}", 410),
    gone("floating_ips_bulk.update", Method::Put, "/os-floating-ips-bulk/{id}", 410),
    gone("fping.index", Method::Get, "/os-fping", 410),
    gone("fping.show", Method::Get, "/os-fping/{id}", 410),
    gone("networks.create", Method::Post, "/os-networks", 410),
    gone("networks.add", Method::Post, "/os-networks/add", 410),
    gone("networks.delete", Method::Delete, "/os-networks/{id}", 410),
    gone_action("networks_associate.associate_host", "/os-networks/{id}/action", "associate_host", 410),
    gone_action("networks.disassociate", "/os-networks/{id}/action", "disassociate", 410),
    gone_action("networks_associate.disassociate_host", "/os-networks/{id}/action", "disassociate_host", 410),
    gone_action("networks_associate.disassociate_project", "/os-networks/{id}/action", "disassociate_project", 410),
    gone("security_group_default_rules.index", Method::Get, "/os-security-group-default-rules", 410),
    gone("security_group_default_rules.create", Method::Post, "/os-security-group-default-rules", 410),
    gone("security_group_default_rules.delete", Method::Delete, "/os-security-group-default-rules/{id}", 410),
    gone("security_group_default_rules.show", Method::Get, "/os-security-group-default-rules/{id}", 410),
    gone("tenant_networks.create", Method::Post, "/os-tenant-networks", 410),
    gone("tenant_networks.delete", Method::Delete, "/os-tenant-networks/{id}", 410),
    gone_action("remote_consoles.os-getRDPConsole", "/servers/{id}/action", "os-getRDPConsole", 400).until(2, 5),
    gone_action("admin_actions.resetNetwork", "/servers/{id}/action", "resetNetwork", 410),
    gone("consoles.index", Method::Get, "/servers/{server_id}/consoles", 410),
    gone("consoles.create", Method::Post, "/servers/{server_id}/consoles", 410),
    gone("consoles.delete", Method::Delete, "/servers/{server_id}/consoles/{id}", 410),
    gone("consoles.show", Method::Get, "/servers/{server_id}/consoles/{id}", 410),
    gone("virtual_interfaces.index", Method::Get, "/servers/{server_id}/os-virtual-interfaces", 410),
];

/// Operations of Nova that this release does not implement. It must stay empty.
pub const NOT_YET: &[Route] = &[];
