//! The context of a scheduling decision (read models, pending claims, request), and one host in that context.

use std::collections::BTreeMap;

use chronova_events::ids::{HostId, InstanceId, ProviderId};
use chronova_events::ledger::{FittedNumaCell, HeldPciDevice};
use chronova_events::server_group::ServerGroupPolicy;
use chronova_projections::fleet::{AggregateRow, FleetView, HostInventory, HostResourceColumn, HostRow, Slot, Slots};
use chronova_projections::placement::Placement;
use chronova_projections::server_groups::ServerGroupsView;
use chronova_projections::servers::Servers;
use ipnet::IpNet;
use serde_json::Value;

use super::options::SchedulerOptions;
use super::request::RequestSpec;
use crate::coordination::pending_claims::PendingClaims;
use crate::hosts::metrics::HostMetrics;
use crate::ledger::cells::{bounds, held};
use crate::pci::alias::PciRequest;
use crate::pci::assign::FreePci;
use crate::topology::fit::{CellDevices, fit_beside};
use crate::topology::{GuestNumaTopology, usage};

/// The read models, the pending claims and the metrics of hosts that a decision reads.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerViews<'a> {
    pub fleet: &'a FleetView,
    pub groups: &'a ServerGroupsView,
    pub placement: &'a Placement,
    pub servers: &'a Servers,
    pub pending: &'a PendingClaims,
    pub metrics: &'a HostMetrics,
}

/// Everything that a decision depends on.
#[derive(Debug)]
pub struct SchedulingContext<'a> {
    pub fleet: &'a FleetView,
    pub placement: &'a Placement,
    pub servers: &'a Servers,
    pub pending: &'a PendingClaims,
    pub metrics: &'a HostMetrics,
    pub request: &'a RequestSpec,
    pub options: &'a SchedulerOptions,
    pub group: Option<InstanceGroup>,
    pub hints: SchedulerHints,
    /// The guest's NUMA topology, or why it is impossible.
    pub topology: Result<Option<GuestNumaTopology>, String>,
    /// The PCI devices of flavor and ports, or why they are impossible.
    pub devices: Result<Vec<PciRequest>, String>,
    /// Values that weighers need for every host, looked up once.
    memory: Option<&'a HostResourceColumn>,
    cpus: Option<&'a HostResourceColumn>,
    disk: Option<&'a HostResourceColumn>,
}

/// The server group of the request.
#[derive(Debug)]
pub struct InstanceGroup {
    pub name: String,
    pub policy: ServerGroupPolicy,
    /// The limit of an anti-affinity group.
    pub most_per_host: u32,
    /// The members of the group on each host, including those that are not recorded yet.
    pub members: BTreeMap<Slot, u32>,
}

/// The parsed scheduler hints.
#[derive(Debug, Default)]
pub struct SchedulerHints {
    /// The hosts of the project's servers that the hints `different_host` and `same_host` name. `None` if the request
    /// lacks the hint, or if the hint names nothing.
    pub different: Option<Slots>,
    pub same: Option<Slots>,
    pub near: Option<Option<IpNet>>,
    pub query: Option<Option<Value>>,
}

impl<'a> SchedulingContext<'a> {
    pub fn new(sources: SchedulerViews<'a>, request: &'a RequestSpec, options: &'a SchedulerOptions) -> Self {
        let SchedulerViews { fleet, groups, placement, servers, pending, metrics } = sources;
        let hints = SchedulerHints::of(request, fleet, servers);
        let mut context = Self {
            fleet,
            placement,
            servers,
            pending,
            metrics,
            request,
            options,
            group: None,
            hints,
            topology: request.topology(),
            devices: options.pci_aliases.of_server(&request.flavor, request.image.as_deref(), &request.device_ports),
            memory: fleet.column("MEMORY_MB"),
            cpus: fleet.column("VCPU"),
            disk: fleet.column("DISK_GB"),
        };
        context.group = context.find_group(groups);
        context
    }

    fn find_group(&self, groups: &ServerGroupsView) -> Option<InstanceGroup> {
        let id = self.request.group()?;
        let group = groups.get(id)?;
        let mut members: BTreeMap<Slot, u32> = BTreeMap::new();
        for (host, count) in groups.hosts(id) {
            if let Some(slot) = self.fleet.slot(host) {
                members.insert(slot, count);
            }
        }
        for slot in self.pending.members(id) {
            *members.entry(slot).or_default() += 1;
        }
        Some(InstanceGroup {
            name: group.definition.name.clone(),
            policy: group.definition.policy,
            most_per_host: group.most_per_host().unwrap_or(u32::MAX),
            members,
        })
    }

    pub fn host(&'a self, slot: Slot) -> HostState<'a> {
        HostState { context: self, slot, row: self.fleet.row(slot) }
    }

    /// The message for users if no host has the PCI devices. If the request for devices has an error, the message is
    /// that error. Otherwise it says whether only the flavor requests devices, or ports do so, too.
    pub fn lacks_devices(&self) -> String {
        let asking = match &self.devices {
            Err(reason) => return reason.clone(),
            Ok(requests) if requests.iter().all(|request| request.port.is_none()) => "the flavor asks",
            Ok(_) => "flavor and ports ask",
        };
        format!("no suitable host has free PCI devices of the kind that {asking} for")
    }

    /// Whether the provider has room for this amount beside the pending claims. True if it has no pending claims,
    /// because the search for candidates has already checked the room.
    pub fn has_room_beside(&self, provider: ProviderId, class: &str, amount: u64) -> bool {
        // The fleet has a row for each provider, so a row does not tell hosts from providers below them.
        let as_host = self.fleet.slot(HostId(provider.0)).map_or(0, |slot| self.pending(slot, class));
        let pending = as_host.saturating_add(self.pending.of_provider(provider, class));
        let line = || self.placement.ledger.providers.get(&provider)?.inventories.get(class);
        pending == 0 || line().is_some_and(|line| line.free().saturating_sub(pending) >= amount)
    }

    /// The amount of a class in pending claims on a host.
    pub fn pending(&self, slot: Slot, class: &str) -> u64 {
        self.pending.on(slot).and_then(|burden| burden.resources.get(class)).copied().unwrap_or(0)
    }
}

impl SchedulerHints {
    /// In Nova, hints find the servers of all projects. So a user who knows the id of another project's server can find
    /// out its host. Here, another project's server is like a server that does not exist.
    fn of(request: &RequestSpec, fleet: &FleetView, servers: &Servers) -> Self {
        let is_own = |id: &InstanceId| {
            let server = servers.get(*id).and_then(|row| row.server());
            server.is_some_and(|server| server.request.project == request.project)
        };
        let servers = |name: &str| -> Option<Slots> {
            let ids = request.hints.get(name).filter(|ids| !ids.is_empty())?;
            let ids = ids.iter().filter_map(|id| id.parse::<InstanceId>().ok()).filter(is_own);
            Some(ids.filter_map(|id| fleet.whereabouts(id)).collect())
        };
        let near = request.hint("build_near_host_ip").map(|address| {
            let length = request.hint("cidr").unwrap_or("/24");
            format!("{address}/{}", length.trim_start_matches('/')).parse().ok()
        });
        Self {
            different: servers("different_host"),
            same: servers("same_host"),
            near,
            query: request.hint("query").map(|text| serde_json::from_str(text).ok()),
        }
    }
}

/// One host as a filter or a weigher sees it. Nova: `HostState`.
#[derive(Debug, Clone, Copy)]
pub struct HostState<'a> {
    pub context: &'a SchedulingContext<'a>,
    pub slot: Slot,
    pub row: &'a HostRow,
}

impl<'a> HostState<'a> {
    pub fn line(&self, class: &str) -> Option<&'a HostInventory> {
        let column = match class {
            "MEMORY_MB" => self.context.memory,
            "VCPU" => self.context.cpus,
            "DISK_GB" => self.context.disk,
            _ => self.context.fleet.column(class),
        };
        column?.line(self.slot)
    }

    /// The free capacity without the allocation ratio (Nova's `free_ram_mb` and `free_disk_gb`). It is below zero on an
    /// overcommitted host.
    pub fn plainly_free(&self, class: &str) -> f64 {
        let Some(line) = self.line(class) else { return 0.0 };
        number(line.total) - number(line.reserved) - number(line.used) - number(self.context.pending(self.slot, class))
    }

    /// `vcpus_total * cpu_allocation_ratio - vcpus_used`; reserved CPUs count as used.
    pub fn free_cpus(&self) -> f64 {
        let Some(line) = self.line("VCPU") else { return 0.0 };
        let used = number(line.used) + number(line.reserved) + number(self.context.pending(self.slot, "VCPU"));
        number(line.total) * line.allocation_ratio - used
    }

    pub fn used(&self, class: &str) -> u64 {
        self.line(class).map_or(0, |line| line.used + line.reserved) + self.context.pending(self.slot, class)
    }

    pub fn total(&self, class: &str) -> u64 {
        self.line(class).map_or(0, |line| line.total)
    }

    /// The PCI devices of the host that no guest has; `None` for a host without devices.
    pub fn free_devices(&self) -> Option<FreePci<'a>> {
        let beside = self.context.pending.devices(self.slot);
        FreePci::of(&self.context.placement.ledger, ProviderId(self.row.id.0), beside)
    }

    /// The PCI devices that the guest would get, if its NUMA nodes are on these cells.
    ///
    /// # Errors
    /// The reason why the guest cannot get the devices.
    pub fn passed(&self, fitted: &[FittedNumaCell]) -> Result<Vec<HeldPciDevice>, String> {
        let requests = self.context.devices.as_ref().map_err(Clone::clone)?;
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let cells: Vec<u32> = fitted.iter().map(|cell| cell.cell).collect();
        let free = self.free_devices().ok_or("PCI devices: the host offers none")?;
        free.assign(requests, &cells)
    }

    /// The part of the host's NUMA cells that the guest would get; `None` if the guest requests no topology.
    ///
    /// # Errors
    /// The reason why the guest does not fit.
    pub fn fitting(&self) -> Result<Option<Vec<FittedNumaCell>>, String> {
        let Some(topology) = self.context.topology.as_ref().map_err(Clone::clone)? else { return Ok(None) };
        let (ledger, host) = (&self.context.placement.ledger, ProviderId(self.row.id.0));
        let cells = ledger.cells.get(&host).map_or(&[][..], |host| &host.cells);
        let bounds = bounds(ledger, host, self.context.options.packs_cells);
        let guests = held(ledger, host).chain(self.context.pending.fitted(self.slot));
        let free = self.free_devices();
        let requests = self.context.devices.as_ref().map_err(Clone::clone)?;
        let devices = CellDevices { free: free.as_ref(), requests };
        fit_beside(topology, usage::cells(cells, guests), bounds, devices).map(Some)
    }

    /// A metric of the host; `None` if the host does not report it.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.context.metrics.value(self.row.id, name)
    }

    fn coming(&self) -> u32 {
        self.context.pending.on(self.slot).map_or(0, |burden| burden.servers)
    }

    pub fn num_instances(&self) -> u32 {
        u32::try_from(self.row.servers.len()).unwrap_or(u32::MAX).saturating_add(self.coming())
    }

    pub fn num_io_ops(&self) -> u32 {
        self.row.io_ops.saturating_add(self.coming())
    }

    pub fn aggregates(&self) -> impl Iterator<Item = &'a AggregateRow> + use<'a> {
        self.context.fleet.aggregates_of(self.slot)
    }

    /// The values of `key` in the metadata of the host's aggregates, as text.
    pub fn said<'k>(&self, key: &'k str) -> impl Iterator<Item = &'a str> + use<'a, 'k> {
        self.aggregates().filter_map(move |aggregate| aggregate.metadata.get(key)).map(String::as_str)
    }

    /// The values of `key` in the host's aggregates. A comma-separated list gives several values.
    pub fn listed(&self, key: &str) -> Vec<&'a str> {
        self.said(key).flat_map(|value| value.split(',')).map(str::trim).collect()
    }

    /// The smallest value of `key` in the host's aggregates. If there is no value, or if any value is not a number,
    /// `option`.
    pub fn least<T: std::str::FromStr + PartialOrd + Copy>(&self, key: &str, option: T) -> T {
        let mut least = None;
        for value in self.said(key) {
            let Ok(value) = value.trim().parse::<T>() else { return option };
            least = Some(least.map_or(value, |least: T| if value < least { value } else { least }));
        }
        least.unwrap_or(option)
    }

    pub fn members(&self) -> u32 {
        self.context.group.as_ref().and_then(|group| group.members.get(&self.slot)).copied().unwrap_or(0)
    }

    /// Whether the request's server is on this host now.
    pub fn has_the_server(&self) -> bool {
        self.context.request.server.is_some_and(|server| self.row.servers.contains(&server))
    }
}

/// The number as `f64`, which may lose digits. Results are only compared and shown.
#[allow(clippy::cast_precision_loss)]
pub fn number(value: u64) -> f64 {
    value as f64
}
