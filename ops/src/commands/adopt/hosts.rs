//! Adopts compute hosts. A host's id is the UUID of Nova's compute node and of its resource provider.

use std::collections::{BTreeMap, BTreeSet};

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::host::HostRoot;
use chronova_events::envelope::Timestamp;
use chronova_events::host::{Capabilities, Disabled, ForcedDown, HostEvent, Registered};
use chronova_events::ids::HostId;
use serde_json::Value;

use super::history::HistoryPart;
use super::report::AdoptedThing;
use super::{Adoption, Unadoptable};
use crate::nova::database::{NovaDatabase, live_rows};
use crate::nova::rows::NovaRow;

/// The hosts by the names that Nova's rows use.
#[derive(Debug, Default)]
pub(super) struct AdoptedHosts {
    /// The hosts, by the names of their service and node.
    by_names: BTreeMap<(String, String), AdoptedHost>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AdoptedHost {
    pub(super) id: HostId,
    /// The name of the node, as libvirt reports it. Chronova knows the host by this name.
    pub(super) hostname: String,
}

impl AdoptedHosts {
    /// The host of a row that names a service and perhaps a node.
    pub(super) fn find(&self, service: &str, node: Option<&str>) -> Option<&AdoptedHost> {
        match node {
            Some(node) => self.by_names.get(&(service.to_owned(), node.to_owned())),
            None => self.of_service(service),
        }
    }

    /// The host of a service. With libvirt, a service has exactly one node.
    pub(super) fn of_service(&self, service: &str) -> Option<&AdoptedHost> {
        self.by_names.iter().find(|((name, _), _)| name == service).map(|(_, host)| host)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &AdoptedHost> {
        self.by_names.values()
    }

    pub(super) fn has(&self, id: HostId) -> bool {
        self.by_names.values().any(|host| host.id == id)
    }
}

/// The facts of a host that become events.
struct NovaHost {
    registered: Registered,
    at: Timestamp,
    disabled: Option<Disabled>,
    forced_down: bool,
}

pub(super) fn adopt(adoption: &mut Adoption<'_>) {
    let (mut ids, mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let cells: Vec<_> = adoption.cells().collect();
    for (cell, database) in cells {
        let services = services(database);
        for row in live_rows(database, "compute_nodes") {
            let name = row.text("hypervisor_hostname").unwrap_or("?");
            adoption.report.see(AdoptedThing::Host, name, row.text("uuid").unwrap_or_default());
            if adoption.report.leaves_out(AdoptedThing::Host, name) {
                continue;
            }
            let service = row.text("host").and_then(|service| services.get(service)).copied();
            let read = host(&row, service, &adoption.choices.uri).and_then(|host| {
                let twice = !ids.insert(host.registered.host) || !names.insert(host.registered.hostname.clone());
                match twice {
                    true => Err(Unadoptable::new(
                        "its UUID or its name occurs twice",
                        "delete the row of the host that no longer exists",
                    )),
                    false => Ok(host),
                }
            });
            match read {
                Ok(mut host) => {
                    // Hosts of two cells may have the same number. Only microversions before 2.53 show the number.
                    while !numbers.insert(host.registered.number) {
                        host.registered.number += 1;
                    }
                    record(adoption, &row, host);
                }
                Err(error) => {
                    let reason = format!("{} ({cell})", error.reason);
                    adoption.report.obstacle(AdoptedThing::Host, name, reason, error.way_out);
                }
            }
        }
    }
}

/// The rows of nova-compute by host.
fn services(cell: &dyn NovaDatabase) -> BTreeMap<&str, NovaRow<'_>> {
    let computes = live_rows(cell, "services").filter(|row| row.text("binary") == Some("nova-compute"));
    computes.filter_map(|row| Some((row.text("host")?, row))).collect()
}

fn host(row: &NovaRow<'_>, service: Option<NovaRow<'_>>, uri: &str) -> Result<NovaHost, Unadoptable> {
    let kind = row.required("hypervisor_type")?;
    if !matches!(kind, "QEMU" | "KVM") {
        let reason = format!("its hypervisor is {kind}: only libvirt with QEMU or KVM is driven");
        return Err(Unadoptable::new(reason, "leave it out, with its servers"));
    }
    let way_out = "delete the compute node (it has no nova-compute), or leave it out";
    row.required("host").map_err(|_| Unadoptable::new("compute_nodes.host is NULL", way_out))?;
    let service = service.ok_or_else(|| Unadoptable::new("there is no service nova-compute of this host", way_out))?;
    let hostname = row.required("hypervisor_hostname")?.to_owned();
    let disabled =
        service.flag("disabled").then(|| Disabled { reason: service.words("disabled_reason").map(str::to_owned) });
    Ok(NovaHost {
        registered: Registered {
            host: HostId(row.required_uuid("uuid")?),
            number: row.count("id")?.unwrap_or(0),
            uri: uri.replace("{host}", &hostname),
            hostname,
            capabilities: capabilities(row, kind)?,
        },
        at: row.created_at()?,
        disabled,
        forced_down: service.flag("forced_down"),
    })
}

fn capabilities(row: &NovaRow<'_>, kind: &str) -> Result<Capabilities, Unadoptable> {
    let cpu = row.json("cpu_info")?.unwrap_or_default();
    let text = |field: &str| cpu[field].as_str().unwrap_or_default().to_owned();
    let count = |field: &str| cpu["topology"][field].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let features = cpu["features"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let guests = row.json("supported_instances")?.unwrap_or_default();
    let kvm = guests.as_array().into_iter().flatten().any(|guest| guest[1] == "kvm");
    Ok(Capabilities {
        hypervisor_type: kind.to_owned(),
        hypervisor_version: row.small("hypervisor_version")?,
        // Nova does not keep libvirt's version. The host agent reads it when it first connects.
        libvirt_version: 0,
        host_ip: row.text("host_ip").unwrap_or_default().to_owned(),
        vcpus: row.small("vcpus")?,
        memory_mib: row.small("memory_mb")?.into(),
        disk_gib: row.small("local_gb")?.into(),
        kvm,
        cpu_arch: text("arch"),
        cpu_model: text("model"),
        cpu_vendor: text("vendor"),
        cpu_sockets: count("sockets"),
        cpu_cores: count("cores"),
        cpu_threads: count("threads"),
        cpu_features: features.collect::<BTreeSet<String>>().into_iter().collect(),
        traits: Vec::new(),
    })
}

fn record(adoption: &mut Adoption<'_>, row: &NovaRow<'_>, host: NovaHost) {
    let NovaHost { registered, at, disabled, forced_down } = host;
    let service = row.text("host").unwrap_or_default();
    let known = AdoptedHost { id: registered.host, hostname: registered.hostname.clone() };
    if service != known.hostname {
        let reason = format!("Nova calls its service {service}; Chronova calls it by its hypervisor_hostname");
        adoption.report.note(AdoptedThing::Host, &known.hostname, reason);
    }
    let (stream, meta) = (HostRoot::stream(&known.id), adoption.meta.clone());
    adoption.history.push(HistoryPart::Hosts, stream.clone(), at, &meta, HostEvent::from(registered));
    if let Some(disabled) = disabled {
        adoption.history.push(HistoryPart::Hosts, stream.clone(), at, &meta, HostEvent::from(disabled));
    }
    if forced_down {
        adoption.history.push(HistoryPart::Hosts, stream, at, &meta, HostEvent::from(ForcedDown { forced: true }));
    }
    adoption.hosts.by_names.insert((service.to_owned(), known.hostname.clone()), known);
}
