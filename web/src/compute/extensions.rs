//! `GET /extensions`: the extensions of version 2 of the API. Every microversion lists the same extensions. Old clients
//! look for names in this list, so the list never changes.

use serde_json::{Value, json};

use super::bodies::no_query;
use crate::compute::answers::others as answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[
    get("extension_info.index", "/extensions", handler!(index))
        .policy("os_compute_api:extensions")
        .query(no_query)
        .answers(answers::extensions),
    get("extension_info.show", "/extensions/{id}", handler!(show))
        .policy("os_compute_api:extensions")
        .query(no_query)
        .answers(answers::extension_shown),
];

/// Alias and name.
const EXTENSIONS: &[(&str, &str)] = &[
    ("NMN", "Multinic"),
    ("OS-DCF", "DiskConfig"),
    ("OS-EXT-AZ", "ExtendedAvailabilityZone"),
    ("OS-EXT-IMG-SIZE", "ImageSize"),
    ("OS-EXT-IPS", "ExtendedIps"),
    ("OS-EXT-IPS-MAC", "ExtendedIpsMac"),
    ("OS-EXT-SRV-ATTR", "ExtendedServerAttributes"),
    ("OS-EXT-STS", "ExtendedStatus"),
    ("OS-FLV-DISABLED", "FlavorDisabled"),
    ("OS-FLV-EXT-DATA", "FlavorExtraData"),
    ("OS-SCH-HNT", "SchedulerHints"),
    ("OS-SRV-USG", "ServerUsage"),
    ("os-access-ips", "AccessIPs"),
    ("os-admin-actions", "AdminActions"),
    ("os-admin-password", "AdminPassword"),
    ("os-agents", "Agents"),
    ("os-aggregates", "Aggregates"),
    ("os-assisted-volume-snapshots", "AssistedVolumeSnapshots"),
    ("os-attach-interfaces", "AttachInterfaces"),
    ("os-availability-zone", "AvailabilityZone"),
    ("os-baremetal-ext-status", "BareMetalExtStatus"),
    ("os-baremetal-nodes", "BareMetalNodes"),
    ("os-block-device-mapping", "BlockDeviceMapping"),
    ("os-block-device-mapping-v2-boot", "BlockDeviceMappingV2Boot"),
    ("os-cell-capacities", "CellCapacities"),
    ("os-cells", "Cells"),
    ("os-certificates", "Certificates"),
    ("os-cloudpipe", "Cloudpipe"),
    ("os-cloudpipe-update", "CloudpipeUpdate"),
    ("os-config-drive", "ConfigDrive"),
    ("os-console-auth-tokens", "ConsoleAuthTokens"),
    ("os-console-output", "ConsoleOutput"),
    ("os-consoles", "Consoles"),
    ("os-create-backup", "CreateBackup"),
    ("os-create-server-ext", "Createserverext"),
    ("os-deferred-delete", "DeferredDelete"),
    ("os-evacuate", "Evacuate"),
    ("os-extended-evacuate-find-host", "ExtendedEvacuateFindHost"),
    ("os-extended-floating-ips", "ExtendedFloatingIps"),
    ("os-extended-hypervisors", "ExtendedHypervisors"),
    ("os-extended-networks", "ExtendedNetworks"),
    ("os-extended-quotas", "ExtendedQuotas"),
    ("os-extended-rescue-with-image", "ExtendedRescueWithImage"),
    ("os-extended-services", "ExtendedServices"),
    ("os-extended-services-delete", "ExtendedServicesDelete"),
    ("os-extended-status", "ExtendedStatus"),
    ("os-extended-volumes", "ExtendedVolumes"),
    ("os-fixed-ips", "FixedIPs"),
    ("os-flavor-access", "FlavorAccess"),
    ("os-flavor-extra-specs", "FlavorExtraSpecs"),
    ("os-flavor-manage", "FlavorManage"),
    ("os-flavor-rxtx", "FlavorRxtx"),
    ("os-flavor-swap", "FlavorSwap"),
    ("os-floating-ip-dns", "FloatingIpDns"),
    ("os-floating-ip-pools", "FloatingIpPools"),
    ("os-floating-ips", "FloatingIps"),
    ("os-floating-ips-bulk", "FloatingIpsBulk"),
    ("os-fping", "Fping"),
    ("os-hide-server-addresses", "HideServerAddresses"),
    ("os-hosts", "Hosts"),
    ("os-hypervisor-status", "HypervisorStatus"),
    ("os-hypervisors", "Hypervisors"),
    ("os-instance-actions", "InstanceActions"),
    ("os-instance_usage_audit_log", "OSInstanceUsageAuditLog"),
    ("os-keypairs", "Keypairs"),
    ("os-lock-server", "LockServer"),
    ("os-migrate-server", "MigrateServer"),
    ("os-migrations", "Migrations"),
    ("os-multiple-create", "MultipleCreate"),
    ("os-networks", "Networks"),
    ("os-networks-associate", "NetworkAssociationSupport"),
    ("os-pause-server", "PauseServer"),
    ("os-personality", "Personality"),
    ("os-preserve-ephemeral-rebuild", "PreserveEphemeralOnRebuild"),
    ("os-quota-class-sets", "QuotaClasses"),
    ("os-quota-sets", "Quotas"),
    ("os-rescue", "Rescue"),
    ("os-security-group-default-rules", "SecurityGroupDefaultRules"),
    ("os-security-groups", "SecurityGroups"),
    ("os-server-diagnostics", "ServerDiagnostics"),
    ("os-server-external-events", "ServerExternalEvents"),
    ("os-server-group-quotas", "ServerGroupQuotas"),
    ("os-server-groups", "ServerGroups"),
    ("os-server-list-multi-status", "ServerListMultiStatus"),
    ("os-server-password", "ServerPassword"),
    ("os-server-sort-keys", "ServerSortKeys"),
    ("os-server-start-stop", "ServerStartStop"),
    ("os-services", "Services"),
    ("os-shelve", "Shelve"),
    ("os-simple-tenant-usage", "SimpleTenantUsage"),
    ("os-suspend-server", "SuspendServer"),
    ("os-tenant-networks", "OSTenantNetworks"),
    ("os-used-limits", "UsedLimits"),
    ("os-used-limits-for-admin", "UsedLimitsForAdmin"),
    ("os-user-data", "UserData"),
    ("os-user-quotas", "UserQuotas"),
    ("os-virtual-interfaces", "VirtualInterfaces"),
    ("os-volume-attachment-update", "VolumeAttachmentUpdate"),
    ("os-volumes", "Volumes"),
];

fn shown((alias, name): &(&str, &str)) -> Value {
    json!({
        "alias": alias,
        "description": "",
        "links": [],
        "name": name,
        "namespace": "http://docs.openstack.org/compute/ext/fake_xml",
        "updated": "2014-12-03T00:00:00Z",
    })
}

async fn index(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"extensions": EXTENSIONS.iter().map(shown).collect::<Vec<_>>()})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let found = EXTENSIONS.iter().find(|(alias, _)| *alias == ctx.param("id"));
    found.map(|extension| Reply::ok(json!({"extension": shown(extension)}))).ok_or_else(Fault::no_route)
}
