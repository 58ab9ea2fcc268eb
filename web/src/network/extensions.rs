//! `/extensions`: the extensions of Neutron's API that Chronova serves. This file also serves collections with constant
//! content.

use serde_json::{Value, json};

use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

use super::{answers, faults, listing};

pub(super) const ROUTES: &[Route] = &[
    get("extensions.index", "/extensions", handler!(index)).answers(answers::extensions),
    get("extensions.show", "/extensions/{id}", handler!(show)).answers(answers::extension_shown),
    get("agents.index", "/agents", handler!(agents)).answers(answers::agents),
    get("service_providers.index", "/service-providers", handler!(service_providers))
        .answers(answers::service_providers),
    get("availability_zones.index", "/availability_zones", handler!(availability_zones))
        .policy("get_availability_zone")
        .answers(answers::availability_zones),
];

/// Alias, name and description of the supported extensions.
const EXTENSIONS: [(&str, &str, &str); 30] = [
    ("agent", "agent", "The agent management extension; the embedded service needs no agents."),
    ("allowed-address-pairs", "Allowed Address Pairs", "Provides allowed address pairs"),
    ("availability_zone", "Availability Zone", "The availability zone extension."),
    ("binding", "Port Binding", "Expose port bindings of a virtual port to external application"),
    ("dns-integration", "DNS Integration", "Provides integration with DNS: the names of ports reach the guests."),
    (
        "ext-gw-mode",
        "Neutron L3 Configurable external gateway mode",
        "Extension of the router abstraction for specifying whether SNAT should occur on the external gateway",
    ),
    ("external-net", "Neutron external network", "Adds external network attribute to network resource."),
    ("extra_dhcp_opt", "Neutron Extra DHCP options", "Extra options configuration for DHCP."),
    ("fip-port-details", "Floating IP Port Details Extension", "Add port_details attribute to Floating IP resource"),
    (
        "ip-substring-filtering",
        "IP address substring filtering",
        "Provides IP address substring filtering when listing ports",
    ),
    (
        "network-ip-availability",
        "Network IP Availability",
        "Provides IP availability data for each network and subnet.",
    ),
    ("net-mtu", "Network MTU", "Provides MTU attribute for a network resource."),
    ("net-mtu-writable", "Network MTU (writable)", "Provides a writable MTU attribute for a network resource."),
    ("network_availability_zone", "Network Availability Zone", "Availability zone support for network."),
    ("pagination", "Pagination support", "Extension that indicates that pagination is enabled."),
    ("port-security", "Port Security", "Provides port security"),
    ("project-id", "project_id field enabled", "Extension that indicates that project_id field is enabled."),
    ("provider", "Provider Network", "Expose mapping of virtual networks to physical networks"),
    ("quota_details", "Quota details management support", "Expose functions for quotas usage statistics per project"),
    ("quotas", "Quota management support", "Expose functions for quotas management per project"),
    (
        "router",
        "Neutron L3 Router",
        "Router abstraction for basic L3 forwarding between L2 Neutron networks and access to external networks via a NAT \
         gateway.",
    ),
    (
        "revision-if-match",
        "If-Match constraints based on revision_number",
        "Extension indicating that If-Match based on revision_number is supported.",
    ),
    ("security-group", "security-group", "The security groups extension."),
    (
        "security-groups-normalized-cidr",
        "Normalized CIDR field for security group rules",
        "Add new field with normalized remote_ip_prefix cidr in SG rule",
    ),
    ("service-type", "Neutron Service Type Management", "API for retrieving service providers; there are none."),
    ("sorting", "Sorting support", "Extension that indicates that sorting is enabled."),
    ("standard-attr-description", "standard-attr-description", "Extension to add descriptions to standard attributes"),
    (
        "standard-attr-revisions",
        "Resource revision numbers",
        "This extension will display the revision number of neutron resources.",
    ),
    (
        "standard-attr-tag",
        "Tag support for resources with standard attribute",
        "Enables to set tag on resources with standard attribute.",
    ),
    (
        "standard-attr-timestamp",
        "Resource timestamps",
        "Adds created_at and updated_at fields to all Neutron resources that have Neutron standard attributes.",
    ),
];

fn render(extension: &(&str, &str, &str)) -> Value {
    let (alias, name, description) = extension;
    json!({
        "alias": alias,
        "name": name,
        "description": description,
        "updated": "2026-01-01T00:00:00-00:00",
        "links": [],
    })
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let _ = &ctx.query;
    Ok(Reply::ok(json!({"extensions": EXTENSIONS.iter().map(render).collect::<Vec<_>>()})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let alias = ctx.param("id");
    let found = EXTENSIONS.iter().find(|(known, _, _)| *known == alias);
    let found = found.ok_or_else(|| faults::not_found("ExtensionNotFound", "Extension with alias", alias))?;
    Ok(Reply::ok(json!({"extension": render(found)})))
}

/// Neutron shows callers the agents that they may see. The embedded service has no agents.
async fn agents(ctx: Ctx) -> Result<Reply, Fault> {
    listing::list(&ctx, "agents", "agents", vec![])
}

/// Each service type has one implementation, so there are no providers to choose from.
async fn service_providers(ctx: Ctx) -> Result<Reply, Fault> {
    listing::list(&ctx, "service_providers", "service-providers", vec![])
}

async fn availability_zones(ctx: Ctx) -> Result<Reply, Fault> {
    let zone = json!({"name": "nova", "resource": "network", "state": "available"});
    listing::list(&ctx, "availability_zones", "availability_zones", vec![zone])
}
