//! Reads one server, and judges whether it can be adopted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::{Cause, Meta, Timestamp};
use chronova_events::ids::{ImageId, InstanceId, ProcessId, ProjectId, UserId};
use chronova_events::instance::{
    Adopted, AdoptedAction, AdoptedMove, AdoptedState, BlockDevice, BuildRequested, DiskConfig, FaultInfo,
    FlavorSnapshot, ImageSnapshot, KeySnapshot, Locked, NicInfo, Placed, Power, RequestedNetworks, RequestedNic,
    SortedPairs,
};
use serde_json::Value;
use uuid::Uuid;

use super::super::hosts::AdoptedHosts;
use super::super::{REPAIR_ROW, Unadoptable, actions, disks, migrations, nics};
use super::parts::{CellParts, SharedParts};
use crate::nova::objects::{self, NovaObject, NovaRequest};
use crate::nova::rows::{self, NovaRow};

/// A server from Nova's rows, in the types of the events.
pub(super) struct NovaServer {
    pub(super) request: Box<BuildRequested>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) deleted_at: Option<Timestamp>,
    /// The user who created the server.
    pub(super) asked: Arc<Meta>,
    pub(super) devices: Vec<BlockDevice>,
    pub(super) boot_image: Option<ImageSnapshot>,
    pub(super) placed: Option<Placed>,
    pub(super) nics: Vec<NicInfo>,
    pub(super) lock: Option<Locked>,
    pub(super) adopted: Adopted,
    pub(super) notes: Vec<String>,
}

impl NovaServer {
    pub(super) fn is_soft_deleted(&self) -> bool {
        matches!(self.adopted.state, AdoptedState::SoftDeleted { .. })
    }
}

/// A server's row with the rows that belong to it.
struct ServerRows<'a> {
    row: &'a NovaRow<'a>,
    id: &'a str,
    parts: &'a CellParts<'a>,
    /// Nova's `instance.system_metadata`.
    system: BTreeMap<&'a str, &'a str>,
    is_deleted: bool,
}

impl<'a> ServerRows<'a> {
    fn of(&self, by: &'a BTreeMap<&'a str, Vec<NovaRow<'a>>>) -> &'a [NovaRow<'a>] {
        by.get(self.id).map_or(&[], Vec::as_slice)
    }

    /// The rows that are not deleted. A deleted server has only deleted rows, so all its rows are used.
    fn living(&self, by: &'a BTreeMap<&'a str, Vec<NovaRow<'a>>>) -> impl Iterator<Item = &'a NovaRow<'a>> {
        let all = self.is_deleted;
        self.of(by).iter().filter(move |row| all || !row.is_deleted())
    }

    fn extra(&self, column: &str) -> Result<Option<Value>, Unadoptable> {
        match self.living(&self.parts.extra).last() {
            Some(row) => Ok(row.json(column)?),
            None => Ok(None),
        }
    }

    fn texts(&self, by: &'a BTreeMap<&'a str, Vec<NovaRow<'a>>>) -> BTreeMap<&'a str, &'a str> {
        self.living(by).filter_map(|row| Some((row.text("key")?, row.text("value").unwrap_or_default()))).collect()
    }
}

pub(super) fn server(
    row: &NovaRow<'_>,
    shared: &SharedParts<'_>,
    parts: &CellParts<'_>,
    hosts: &AdoptedHosts,
) -> Result<NovaServer, Unadoptable> {
    let instance = InstanceId(row.required_uuid("uuid")?);
    let mut of =
        ServerRows { row, id: row.required("uuid")?, parts, system: BTreeMap::new(), is_deleted: row.is_deleted() };
    of.system = of.texts(&parts.system_metadata);
    if !of.is_deleted {
        is_at_rest(&of, shared)?;
    }
    let created_at = row.created_at()?;
    let updated_at = row.updated_at()?.max(created_at);
    let build = ProcessId::derive(instance.0, "adopted build");
    let placed = placed(&of, build, hosts)?;
    let spec = request_spec(&of, shared)?;
    let object = spec.as_ref().and_then(|spec| NovaObject::of(spec, "RequestSpec"));
    let nics = nics::nics(of.living(&parts.caches).last(), &parts.port_tags)?;
    let devices = match of.is_deleted {
        true => Vec::new(),
        false => disks::devices(of.of(&parts.disks))?,
    };
    if placed.is_some() {
        disks::are_connected(&devices)?;
    }
    let flavors = of.extra("flavor")?.unwrap_or_default();
    let (actions, notes) = done(&of, hosts)?;
    let (state, moving) = state(&of, instance, &flavors, placed.as_ref(), hosts)?;
    let adopted = Adopted {
        build,
        state,
        power: power(row)?,
        launched_at: row.time("launched_at")?,
        fault: fault(&of)?,
        shelved: of.system.get("shelved_image_id").and_then(|id| id.parse().ok()).map(ImageId),
        rescue: rescue(&of),
        moving,
        actions,
    };
    let images = image(&of, object)?;
    Ok(NovaServer {
        request: Box::new(request(&of, instance, build, &flavors, object, images.0, &nics)?),
        created_at,
        updated_at,
        deleted_at: if of.is_deleted { Some(row.time("deleted_at")?.unwrap_or(updated_at)) } else { None },
        asked: asked(&of, &adopted)?,
        devices,
        boot_image: images.1,
        placed,
        nics,
        lock: lock(&of),
        adopted,
        notes,
    })
}

/// Refuses a server with an unfinished operation, without a cell mapping, with a NUMA topology, or with devices of its
/// host.
fn is_at_rest(of: &ServerRows<'_>, shared: &SharedParts<'_>) -> Result<(), Unadoptable> {
    if let Some(task) = of.row.words("task_state") {
        let reason = format!("task_state is {task}");
        return Err(Unadoptable::new(reason, "wait until it is done, or run openstack server set --state active"));
    }
    if of.row.flag("hidden") {
        return Err(Unadoptable::new("it is hidden: a move between cells is under way", "end the move"));
    }
    if !shared.mappings.contains_key(of.id) {
        return Err(Unadoptable::new("it has no row in instance_mappings", "run nova-manage cell_v2 map_instances"));
    }
    migrations::at_rest(of.of(&of.parts.migrations))?;
    let numa = of.extra("numa_topology")?;
    let pinned = numa.as_ref().and_then(|value| NovaObject::of(value, "InstanceNUMATopology"));
    if pinned.is_some_and(|topology| !topology.list("cells").is_empty()) {
        let reason = "it has a NUMA topology or CPUs of its own, which are not taken over yet";
        return Err(Unadoptable::new(reason, "resize it to a flavor without them, or leave it out"));
    }
    for (column, name, list) in
        [("pci_requests", "InstancePCIRequests", "requests"), ("resources", "ResourceList", "objects")]
    {
        let value = of.extra(column)?.unwrap_or_default();
        let is_empty = match &value {
            Value::Null => true,
            Value::Array(all) => all.is_empty(),
            other => NovaObject::of(other, name).is_some_and(|object| object.list(list).is_empty()),
        };
        if !is_empty {
            let reason = format!("it has devices of its host ({column}), which are not taken over");
            return Err(Unadoptable::new(reason, "resize it to a flavor without them, or leave it out"));
        }
    }
    Ok(())
}

fn placed(of: &ServerRows<'_>, build: ProcessId, hosts: &AdoptedHosts) -> Result<Option<Placed>, Unadoptable> {
    let Some(service) = of.row.words("host") else {
        let off_host =
            matches!(of.row.text("vm_state"), Some("error" | "shelved_offloaded" | "deleted" | "soft-delete"));
        return match off_host || of.is_deleted {
            true => Ok(None),
            false => Err(Unadoptable::new("it has no host (instances.host is NULL)", REPAIR_ROW)),
        };
    };
    let Some(host) = hosts.find(service, of.row.words("node")) else {
        // The host of a deleted server may no longer exist.
        if of.is_deleted {
            return Ok(None);
        }
        let reason = format!("its host {service} (node {}) is not adopted", of.row.text("node").unwrap_or("NULL"));
        return Err(Unadoptable::new(reason, "bring the compute node's row back, or leave the server out"));
    };
    Ok(Some(Placed {
        process: build,
        host: host.id,
        hostname: host.hostname.clone(),
        attempt: 1,
        availability_zone: of.row.words("availability_zone").unwrap_or("nova").to_owned(),
    }))
}

/// The request spec, for a later move or rebuild. A deleted server may have none.
fn request_spec(of: &ServerRows<'_>, shared: &SharedParts<'_>) -> Result<Option<Value>, Unadoptable> {
    let row = shared.requests.get(of.id).and_then(|rows| rows.last());
    match row {
        Some(row) => Ok(row.json("spec")?),
        None if of.is_deleted => Ok(None),
        None => Err(Unadoptable::new(
            "its request spec is missing",
            "run nova-manage db online_data_migrations, or leave it out",
        )),
    }
}

fn state(
    of: &ServerRows<'_>,
    instance: InstanceId,
    flavors: &Value,
    placed: Option<&Placed>,
    hosts: &AdoptedHosts,
) -> Result<(AdoptedState, Option<AdoptedMove>), Unadoptable> {
    let row = of.row;
    let state = match row.required("vm_state")? {
        "active" => AdoptedState::Active,
        "stopped" => AdoptedState::Stopped,
        "error" => AdoptedState::Error,
        "paused" => AdoptedState::Paused,
        "suspended" => AdoptedState::Suspended,
        "rescued" => AdoptedState::Rescued,
        "shelved_offloaded" => AdoptedState::Offloaded,
        "soft-delete" => AdoptedState::SoftDeleted { since: row.time("deleted_at")?.unwrap_or(row.updated_at()?) },
        "shelved" => {
            let since = of.system.get("shelved_at").and_then(|text| rows::time(text));
            AdoptedState::Shelved { since: since.unwrap_or(row.updated_at()?) }
        }
        // Nova does not keep the state before the delete. The API shows DELETED, whatever this state is.
        "deleted" | "building" if of.is_deleted => AdoptedState::Stopped,
        "building" => {
            return Err(Unadoptable::new("it is being built", "wait until it is built, or delete it"));
        }
        "resized" => {
            let target = placed.ok_or_else(|| Unadoptable::new("it is resized, and on no host", REPAIR_ROW))?;
            let old = of.system.get("old_vm_state").copied();
            let moves = of.of(&of.parts.migrations);
            let (moved, since) = migrations::resting(instance, moves, flavors, target, hosts, old)?;
            return Ok((AdoptedState::Resized { since }, Some(moved)));
        }
        _ => return Err(row.wrong("vm_state", "a state that Nova knows").into()),
    };
    let needs_host = !matches!(state, AdoptedState::Error | AdoptedState::Offloaded | AdoptedState::SoftDeleted { .. });
    if state == AdoptedState::Offloaded && placed.is_some() {
        return Err(Unadoptable::new("it is offloaded, and has a host", REPAIR_ROW));
    }
    if needs_host && placed.is_none() && !of.is_deleted {
        return Err(Unadoptable::new("it has no host", REPAIR_ROW));
    }
    Ok((state, None))
}

fn power(row: &NovaRow<'_>) -> Result<Power, Unadoptable> {
    Ok(match row.number("power_state")?.unwrap_or(0) {
        0 => Power::NoState,
        1 => Power::Running,
        3 => Power::Paused,
        4 => Power::Shutdown,
        6 => Power::Crashed,
        7 => Power::Suspended,
        _ => return Err(row.wrong("power_state", "a power state that Nova knows").into()),
    })
}

/// The newest fault. The API shows it while the server is in error.
fn fault(of: &ServerRows<'_>) -> Result<Option<(FaultInfo, Timestamp)>, Unadoptable> {
    let mut newest: Option<(FaultInfo, Timestamp)> = None;
    for row in of.living(&of.parts.faults) {
        let at = row.created_at()?;
        if newest.as_ref().is_some_and(|(_, known)| *known > at) {
            continue;
        }
        let text = |column: &str| row.text(column).unwrap_or_default().to_owned();
        let code = row.count("code")?.and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
        newest = Some((FaultInfo { code, message: text("message"), details: text("details") }, at));
    }
    Ok(newest)
}

fn rescue(of: &ServerRows<'_>) -> Option<ImageSnapshot> {
    let id = of.system.get("rescue_image_ref").and_then(|id| id.parse().ok())?;
    objects::image(ImageId(id), None, Vec::new(), None).ok()
}

fn lock(of: &ServerRows<'_>) -> Option<Locked> {
    of.row.flag("locked").then(|| Locked {
        by_admin: of.row.text("locked_by") == Some("admin"),
        reason: of.system.get("locked_reason").map(|reason| (*reason).to_owned()),
        request_id: None,
    })
}

/// The actions on a server, and the warnings about them.
fn done(of: &ServerRows<'_>, hosts: &AdoptedHosts) -> Result<(Vec<AdoptedAction>, Vec<String>), Unadoptable> {
    let rows = of.of(&of.parts.actions);
    let kept = actions::actions(rows, &of.parts.action_events, hosts)?;
    let notes = match rows.len().checked_sub(actions::MOST) {
        Some(surplus) if surplus > 0 => vec![format!("its oldest {surplus} actions are not kept")],
        _ => Vec::new(),
    };
    Ok((kept, notes))
}

fn asked(of: &ServerRows<'_>, adopted: &Adopted) -> Result<Arc<Meta>, Unadoptable> {
    let created = adopted.actions.iter().find(|action| action.name == "create");
    let request_id = created.and_then(|action| action.request_id.clone());
    let roles = of.system.get("boot_roles").map(|roles| roles.split(',').map(str::to_owned).collect());
    Ok(Arc::new(Meta {
        request_id,
        correlation: Uuid::new_v5(&adopted.build.0, b"request"),
        causation: None,
        cause: Cause::User {
            user: UserId::new(of.row.required("user_id")?),
            project: Some(ProjectId::new(of.row.required("project_id")?)),
            roles: roles.unwrap_or_default(),
            source: None,
        },
    }))
}

/// The image of the server, and the image of its root volume. At most one of them is `Some`.
fn image(
    of: &ServerRows<'_>,
    spec: Option<NovaObject<'_>>,
) -> Result<(Option<ImageSnapshot>, Option<ImageSnapshot>), Unadoptable> {
    // Nova keeps these fields of an image beside the image's properties.
    const OTHERS: [&str; 5] = ["base_image_ref", "container_format", "disk_format", "min_disk", "min_ram"];
    let properties: SortedPairs = of
        .system
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("image_")?, *value)))
        .filter(|(key, _)| !OTHERS.contains(key))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let format = of.system.get("image_disk_format").copied().filter(|format| !format.is_empty());
    let snapshot = |id: Uuid| -> Result<ImageSnapshot, Unadoptable> {
        let meta = spec.and_then(|spec| spec.object("image", "ImageMeta"));
        // After a rebuild the request may still name the first image.
        let own = meta.filter(|meta| meta.text("id").is_none_or(|known| known == id.to_string()));
        Ok(objects::image(ImageId(id), own, properties.clone(), format)?)
    };
    if let Some(id) = of.row.uuid("image_ref")? {
        return Ok((Some(snapshot(id)?), None));
    }
    let base = of.system.get("image_base_image_ref").and_then(|id| id.parse().ok());
    Ok((None, base.map(snapshot).transpose()?))
}

fn key(of: &ServerRows<'_>) -> Result<Option<KeySnapshot>, Unadoptable> {
    let Some(name) = of.row.words("key_name") else { return Ok(None) };
    let kept = of.extra("keypairs")?.unwrap_or_default();
    let list = NovaObject::of(&kept, "KeyPairList");
    let known = list.and_then(|list| list.objects("KeyPair").find(|pair| pair.text("name") == Some(name)));
    let kind = known.and_then(|pair| pair.text("type")).unwrap_or("ssh");
    let public_key = of.row.text("key_data").or(known.and_then(|pair| pair.text("public_key")));
    Ok(Some(KeySnapshot {
        name: name.to_owned(),
        kind: kind.to_owned(),
        public_key: public_key.unwrap_or_default().to_owned(),
    }))
}

fn request(
    of: &ServerRows<'_>,
    instance: InstanceId,
    build: ProcessId,
    flavors: &Value,
    spec: Option<NovaObject<'_>>,
    image: Option<ImageSnapshot>,
    nics: &[NicInfo],
) -> Result<BuildRequested, Unadoptable> {
    let row = of.row;
    let flavor = objects::flavor(&flavors["cur"]).map_err(|error| {
        Unadoptable::new(
            format!("its flavor is not known: {error}"),
            "run nova-manage db online_data_migrations, or leave it out",
        )
    })?;
    let flavor = fitting(flavor)?;
    let NovaRequest { availability_zone, forced_host, scheduler_hints, security_groups } =
        spec.map(objects::request).unwrap_or_default();
    let text = |column: &str| row.words(column).map(str::to_owned);
    let metadata = of.texts(&of.parts.metadata);
    let tags: BTreeSet<&str> = of.of(&of.parts.tags).iter().filter_map(|row| row.text("tag")).collect();
    let certs = of.extra("trusted_certs")?.unwrap_or_default();
    let certs = NovaObject::of(&certs, "TrustedCerts");
    Ok(BuildRequested {
        instance,
        process: build,
        number: row.small("id")?.into(),
        reservation: row.text("reservation_id").unwrap_or_default().to_owned(),
        launch_index: row.small("launch_index")?,
        batch: 1,
        project: ProjectId::new(row.required("project_id")?),
        user: UserId::new(row.required("user_id")?),
        name: row.text("display_name").unwrap_or_default().to_owned(),
        hostname: row.text("hostname").unwrap_or_default().to_owned(),
        description: row.text("display_description").map(str::to_owned),
        flavor: Arc::new(flavor),
        image: image.map(Arc::new),
        key: key(of)?,
        user_data: row.text("user_data").map(str::to_owned),
        config_drive: !matches!(row.text("config_drive"), None | Some("" | "0" | "False" | "false")),
        networks: networks(nics),
        security_groups,
        metadata: metadata.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        tags: tags.into_iter().map(str::to_owned).collect(),
        availability_zone,
        forced_host,
        requested_host: None,
        scheduler_hints,
        disk_config: if row.flag("auto_disk_config") { DiskConfig::Auto } else { DiskConfig::Manual },
        access_ip_v4: text("access_ip_v4"),
        access_ip_v6: text("access_ip_v6"),
        trusted_certs: certs.into_iter().flat_map(|certs| certs.list("ids")).map(objects::plain).collect(),
    })
}

/// Nova's numbers have 32 bits, and sums of them must fit.
fn fitting(flavor: FlavorSnapshot) -> Result<FlavorSnapshot, Unadoptable> {
    match u32::try_from(flavor.memory_mib) {
        Ok(_) => Ok(flavor),
        Err(_) => Err(Unadoptable::new(format!("its flavor has {} MiB of memory", flavor.memory_mib), REPAIR_ROW)),
    }
}

/// A later rebuild or move asks for the ports that the server has now.
fn networks(nics: &[NicInfo]) -> RequestedNetworks {
    if nics.is_empty() {
        return RequestedNetworks::None;
    }
    let asked = |nic: &NicInfo| RequestedNic {
        network: Some(nic.network),
        port: Some(nic.port),
        fixed_ip: None,
        tag: nic.tag.clone(),
    };
    RequestedNetworks::These(nics.iter().map(asked).collect())
}
