//! The rest of the Volume API: zones, services, pools, extensions, and collections that are always empty here (backups,
//! transfers, groups, messages).

use chronova_events::host::KnownHost;
use chronova_hypervisor::capability::volume_store::PoolStatus;
use serde_json::{Map, Value, json};

use super::answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[
    get("volume_zones.index", "/os-availability-zone", handler!(zones))
        .policy("volume_extension:availability_zone_list")
        .answers(answers::zones),
    get("volume_services.index", "/os-services", handler!(services))
        .leader()
        .policy("volume_extension:services:index")
        .answers(answers::services),
    get("volume_pools.index", "/scheduler-stats/get_pools", handler!(pools))
        .leader()
        .policy("scheduler_extension:scheduler_stats:get_pools")
        .answers(answers::pools),
    get("volume_extensions.index", "/extensions", handler!(extensions)).answers(answers::extensions),
    get("messages.index", "/messages", handler!(empty))
        .policy("message:get_all")
        .since(3, 3)
        .answers(answers::messages),
    get("backups.index", "/backups", handler!(empty)).policy("backup:get_all").answers(answers::backups),
    get("backups.detail", "/backups/detail", handler!(empty)).policy("backup:get_all").answers(answers::backups),
    get("transfers.index", "/os-volume-transfer", handler!(empty))
        .policy("volume:get_all_transfers")
        .answers(answers::transfers),
    get("transfers.detail", "/os-volume-transfer/detail", handler!(empty))
        .policy("volume:get_all_transfers")
        .answers(answers::transfers),
    get("volume_transfers.index", "/volume-transfers", handler!(empty))
        .policy("volume:get_all_transfers")
        .since(3, 55)
        .answers(answers::transfers),
    get("volume_transfers.detail", "/volume-transfers/detail", handler!(empty))
        .policy("volume:get_all_transfers")
        .since(3, 55)
        .answers(answers::transfers),
    get("group_types.index", "/group_types", handler!(empty)).since(3, 11).answers(answers::group_types),
    get("groups.index", "/groups", handler!(empty)).policy("group:get_all").since(3, 13).answers(answers::groups),
    get("groups.detail", "/groups/detail", handler!(empty))
        .policy("group:get_all")
        .since(3, 13)
        .answers(answers::groups),
    get("group_snapshots.index", "/group_snapshots", handler!(empty))
        .policy("group:get_all_group_snapshots")
        .since(3, 14)
        .answers(answers::group_snapshots),
    get("group_snapshots.detail", "/group_snapshots/detail", handler!(empty))
        .policy("group:get_all_group_snapshots")
        .since(3, 14)
        .answers(answers::group_snapshots),
    get("qos_specs.index", "/qos-specs", handler!(empty))
        .policy("volume_extension:qos_specs_manage:get_all")
        .answers(answers::qos_specs),
];

/// An empty collection; the route gives its name.
async fn empty(ctx: Ctx) -> Result<Reply, Fault> {
    let key = match ctx.route.path.split('/').nth(1).unwrap_or_default() {
        "os-volume-transfer" | "volume-transfers" => "transfers",
        "qos-specs" => "qos_specs",
        other => other,
    };
    let mut body = Map::new();
    body.insert(key.to_owned(), json!([]));
    Ok(Reply::ok(Value::Object(body)))
}

async fn zones(ctx: Ctx) -> Result<Reply, Fault> {
    let zone = &ctx.app.volumes()?.options.availability_zone;
    Ok(Reply::ok(json!({"availabilityZoneInfo": [{"zoneName": zone, "zoneState": {"available": true}}]})))
}

/// The services: the scheduler of the control plane, and a volume service for the pool of each host.
async fn services(ctx: Ctx) -> Result<Reply, Fault> {
    let (queries, zone) = (ctx.queries()?, ctx.app.volumes()?.options.availability_zone.as_str());
    let now = queries.clock.now().iso_micros();
    let mut all = vec![service("cinder-scheduler", "chronova", true, (zone, now.as_str()))];
    queries.views.hosts.read(|hosts| {
        let volume_service = |host: &KnownHost| {
            service("cinder-volume", &format!("{}@chronova", host.hostname), host.answers(), (zone, now.as_str()))
        };
        all.extend(hosts.all().map(volume_service));
    });
    let wanted = |row: &Value, key: &str| ctx.query.last(key).is_none_or(|text| row[key] == text);
    all.retain(|row| wanted(row, "binary") && wanted(row, "host"));
    Ok(Reply::ok(json!({"services": all})))
}

fn service(binary: &str, host: &str, up: bool, (zone, now): (&str, &str)) -> Value {
    json!({
        "binary": binary,
        "host": host,
        "zone": zone,
        "status": "enabled",
        "state": if up { "up" } else { "down" },
        "updated_at": now,
        "disabled_reason": null,
    })
}

/// The capacity of the pool of each answering host.
async fn pools(ctx: Ctx) -> Result<Reply, Fault> {
    let queries = ctx.queries()?;
    let hosts: Vec<_> = queries
        .views
        .hosts
        .read(|hosts| hosts.all().filter(|host| host.answers()).map(|host| (host.id, host.hostname.clone())).collect());
    let detail = ctx.query.last("detail").and_then(super::listing::truth) == Some(true);
    let mut all = Vec::new();
    for (id, hostname) in hosts {
        let Some(host) = queries.host(id) else { continue };
        if let Ok(pool) = host.volume_pool().await {
            all.push(shown(&hostname, &pool, detail));
        }
    }
    Ok(Reply::ok(json!({"pools": all})))
}

fn shown(hostname: &str, pool: &PoolStatus, detail: bool) -> Value {
    let gib = |bytes: u64| bytes >> 30;
    let mut row = json!({"name": format!("{hostname}@chronova#{}", pool.name)});
    if detail {
        row["capabilities"] = json!({
            "volume_backend_name": "chronova",
            "storage_protocol": "libvirt",
            "total_capacity_gb": gib(pool.capacity),
            "free_capacity_gb": gib(pool.free),
            "reserved_percentage": 0,
            "multiattach": true,
        });
    }
    row
}

/// The extensions that clients look up by alias: name, alias, description.
const EXTENSIONS: [(&str, &str, &str); 13] = [
    ("AdminActions", "os-admin-actions", "Enable admin actions."),
    ("AvailabilityZones", "os-availability-zone", "Describe Availability Zones."),
    ("ExtendedSnapshotAttributes", "os-extended-snapshot-attributes", "Extended SnapshotAttributes support."),
    ("Quotas", "os-quota-sets", "Quota management support."),
    ("Services", "os-services", "Services support."),
    ("TypesExtraSpecs", "os-types-extra-specs", "Type extra specs support."),
    ("TypesManage", "os-types-manage", "Types manage support."),
    ("UsedLimits", "os-used-limits", "Provide data on limited resources that are being used."),
    ("VolumeActions", "os-volume-actions", "Enable volume actions."),
    ("VolumeHostAttribute", "os-vol-host-attr", "Expose host as an attribute of a volume."),
    ("VolumeImageMetadata", "os-vol-image-meta", "Show image metadata associated with the volume."),
    ("VolumeTenantAttribute", "os-vol-tenant-attr", "Expose the internal project_id as an attribute of a volume."),
    ("VolumeTypeAccess", "os-volume-type-access", "Volume type access support."),
];

async fn extensions(_: Ctx) -> Result<Reply, Fault> {
    let shown = |(name, alias, description): &(&str, &str, &str)| {
        json!({
            "name": name,
            "alias": alias,
            "description": description,
            "updated": "2012-03-12T00:00:00+00:00",
            "links": [],
        })
    };
    Ok(Reply::ok(json!({"extensions": EXTENSIONS.iter().map(shown).collect::<Vec<_>>()})))
}
