//! The request spec of a server, and its request for resources.

use std::sync::Arc;

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::{HostId, InstanceId, ProjectId, ServerGroupId};
use chronova_events::instance::{Alive, BuildRequested, FlavorSnapshot, ImageSnapshot, MoveKind, Moving};
use chronova_hypervisor::pmem;
use chronova_projections::placement::candidates::RequestGroup;

use super::hook_answers::HookAnswers;
use crate::hardware::is_true;
use crate::pci::ports::{DevicePort, DeviceVnic};
use crate::ports::PortResourceRequest;
use crate::topology::networks::NearCells;
use crate::topology::{self, GuestNumaTopology, MemPageSize};

/// One server that needs a host. Nova: `RequestSpec`.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestSpec {
    pub server: Option<InstanceId>,
    pub project: ProjectId,
    pub flavor: Arc<FlavorSnapshot>,
    pub image: Option<Arc<ImageSnapshot>>,
    /// Whether the root disk is a volume. The host then never reads the image.
    pub volume_backed: bool,
    pub hints: BTreeMap<String, Vec<String>>,
    pub zone: Option<String>,
    /// A forced host, which skips most filters: `zone:host:node`.
    pub forced_host: Option<String>,
    /// A requested host, which must pass the filters (2.74).
    pub requested_host: Option<String>,
    /// The memory page size of a running guest, which a live migration cannot change.
    pub page_kib: Option<u64>,
    /// The server's ports that need PCI devices of the host.
    pub device_ports: Vec<DevicePort>,
    /// The cells of hosts near the server's networks.
    pub near_networks: Vec<NearCells>,
    /// Hosts that the decision must not choose: hosts that earlier attempts tried, and the present host of a server
    /// that moves.
    pub excluded: BTreeSet<HostId>,
    /// `[DEFAULT] default_availability_zone`: the zone of hosts without a zone.
    pub default_zone: String,
    /// The resources that the server's ports request.
    pub port_requests: Vec<PortResourceRequest>,
    /// The random number for options that need one. It is an input, because the choice is pure.
    pub dice: u64,
    /// The answers of the scheduler hook, which are an input for the same reason; `None`: it was not asked.
    pub hook: Option<Arc<HookAnswers>>,
}

impl RequestSpec {
    pub fn of_build(build: &BuildRequested, excluded: &BTreeSet<HostId>, default_zone: &str) -> Self {
        Self {
            server: Some(build.instance),
            image: build.image.clone(),
            hints: build.scheduler_hints.iter().cloned().collect(),
            zone: build.availability_zone.clone(),
            forced_host: build.forced_host.clone(),
            requested_host: build.requested_host.clone(),
            excluded: excluded.clone(),
            ..Self::of_flavor(build.flavor.clone(), build.project.clone(), default_zone)
        }
    }

    /// The request spec of a flavor alone, without a server and an image.
    pub fn of_flavor(flavor: Arc<FlavorSnapshot>, project: ProjectId, default_zone: &str) -> Self {
        Self {
            server: None,
            project,
            flavor,
            image: None,
            volume_backed: false,
            hints: BTreeMap::new(),
            zone: None,
            forced_host: None,
            requested_host: None,
            page_kib: None,
            device_ports: Vec::new(),
            near_networks: Vec::new(),
            excluded: BTreeSet::new(),
            default_zone: default_zone.to_owned(),
            port_requests: Vec::new(),
            dice: 0,
            hook: None,
        }
    }

    /// The request spec of a server that leaves its host, with its new flavor and the requested destination. `may_stay`
    /// says whether a resize may stay on the host (`[DEFAULT] allow_resize_to_same_host`).
    pub fn of_move(
        server: &Alive,
        moving: &Moving,
        excluded: &BTreeSet<HostId>,
        default_zone: &str,
        may_stay: bool,
    ) -> Self {
        let forced = moving.live.as_ref().is_some_and(|live| live.forced)
            || moving.evacuation.as_ref().is_some_and(|evacuation| evacuation.forced);
        let mut request = Self {
            flavor: Arc::new(moving.new_flavor.clone()),
            forced_host: moving.host.clone().filter(|_| forced),
            requested_host: moving.host.clone().filter(|_| !forced),
            ..Self::of_build(&server.request, excluded, default_zone)
        };
        // A guest cannot migrate to its own host, because libvirt identifies guests by their ids.
        if moving.kind != MoveKind::Resize || !may_stay {
            request.excluded.insert(moving.source.host);
        }
        request.take_hardware(server);
        request
    }

    /// Updates the request to the server's present hardware.
    pub fn take_hardware(&mut self, server: &Alive) {
        self.image = server.shared_hardware_image();
        self.volume_backed = server.is_volume_backed();
        if self.volume_backed {
            // The root disk is a volume and uses no disk space of the host.
            Arc::make_mut(&mut self.flavor).root_gib = 0;
        }
    }

    pub fn hint(&self, name: &str) -> Option<&str> {
        self.hints.get(name)?.first().map(String::as_str)
    }

    /// The server group that the hint names.
    pub fn group(&self) -> Option<ServerGroupId> {
        self.hint("group")?.parse().ok()
    }

    pub fn spec(&self, key: &str) -> Option<&str> {
        self.flavor.extra_specs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// A property of the image, by its present name or its old one.
    pub fn property(&self, key: &str) -> Option<&str> {
        let image = self.image.as_ref()?;
        let of = |name: &str| image.properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        of(key).or_else(|| OLD_NAMES.iter().find(|(new, _)| *new == key).and_then(|(_, old)| of(old)))
    }

    /// The guest's NUMA topology.
    ///
    /// # Errors
    /// The reason why the topology is impossible.
    pub fn topology(&self) -> Result<Option<GuestNumaTopology>, String> {
        let mut asked = topology::ask(&self.flavor, self.image.as_deref())?;
        if let Some(topology) = &mut asked {
            topology.near.clone_from(&self.near_networks);
        }
        if let (Some(topology), Some(kib)) = (&mut asked, self.page_kib) {
            topology.pages = Some(MemPageSize::Kib(kib));
        }
        Ok(asked)
    }

    /// A hardware property of the flavor or the image, like `hw:cpu_policy` and `hw_cpu_policy`.
    fn hardware(&self, name: &str) -> Option<&str> {
        self.spec(&format!("hw:{name}")).or_else(|| self.property(&format!("hw_{name}")))
    }
}

/// Names that image properties had until Liberty (`nova.objects.image_meta`).
const OLD_NAMES: [(&str, &str); 4] = [
    ("hw_architecture", "architecture"),
    ("img_hv_type", "hypervisor_type"),
    ("img_hv_requested_version", "hypervisor_version_requires"),
    ("hw_vm_mode", "vm_mode"),
];

/// The request to Placement: groups of resources and traits. Nova: `nova.scheduler.utils.ResourceRequest`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceRequest {
    /// The groups by suffix; the group without a suffix comes first.
    pub groups: BTreeMap<String, RequestGroup>,
    pub isolate: bool,
    /// Whether the flavor has several groups with a suffix but no `group_policy`. Placement answers 400 to such a
    /// request. As in Nova, groups of ports need no policy: without one, they may share a provider.
    pub undecided: bool,
    /// Sets of suffixes of groups that are in one subtree.
    pub same_subtrees: Vec<BTreeSet<String>>,
}

impl ResourceRequest {
    /// The request of a server. If `pinned`, dedicated CPUs are requested as `PCPU`.
    pub fn of(request: &RequestSpec, pinned: bool) -> Self {
        let mut wanted = Self::default();
        let has_policy = wanted.take_extra_specs(request);
        if let Some(traits) = request.image.as_ref() {
            // `trait:X=required` among the image's properties goes to the group without a suffix.
            for (key, value) in &traits.properties {
                if let Some(name) = key.strip_prefix("trait:") {
                    wanted.take_trait("", name, value);
                }
            }
        }
        if pinned {
            wanted.pin(request);
        }
        wanted.take_flavor(request);
        wanted.take_features(request);
        for group in wanted.groups.values_mut() {
            group.resources.retain(|_, amount| *amount > 0);
        }
        wanted.groups.retain(|_, group| !group.resources.is_empty() || !group.traits.is_empty());
        wanted.undecided = !has_policy && wanted.groups.keys().filter(|suffix| !suffix.is_empty()).count() > 1;
        request.port_requests.iter().for_each(|port| wanted.take_port(port));
        wanted
    }

    /// Each group of a port's request is a group with the suffix of its id, so one provider serves it.
    fn take_port(&mut self, port: &PortResourceRequest) {
        for group in &port.groups {
            for (class, amount) in &group.resources {
                self.take(&group.id, class, *amount);
            }
            for name in &group.traits {
                self.take_trait(&group.id, name, "required");
            }
        }
        if port.same_subtree.len() > 1 {
            self.same_subtrees.push(port.same_subtree.iter().cloned().collect());
        }
    }

    /// The total of every class.
    pub fn totals(&self) -> BTreeMap<String, u64> {
        let mut totals = BTreeMap::new();
        for (class, amount) in self.groups.values().flat_map(|group| &group.resources) {
            let total: &mut u64 = totals.entry(class.clone()).or_default();
            *total = total.saturating_add(*amount);
        }
        totals
    }

    /// Traits that some group requires.
    pub fn required_traits(&self) -> BTreeSet<&str> {
        self.groups.values().flat_map(|group| &group.traits.required).flatten().map(String::as_str).collect()
    }

    fn group(&mut self, suffix: &str) -> &mut RequestGroup {
        let new = || RequestGroup { suffix: suffix.to_owned(), ..RequestGroup::default() };
        self.groups.entry(suffix.to_owned()).or_insert_with(new)
    }

    fn take(&mut self, suffix: &str, class: &str, amount: u64) {
        let total = self.group(suffix).resources.entry(class.to_owned()).or_default();
        *total = total.saturating_add(amount);
    }

    fn take_trait(&mut self, suffix: &str, name: &str, value: &str) {
        let traits = &mut self.group(suffix).traits;
        match value {
            "required" => {
                let one = BTreeSet::from([name.to_owned()]);
                if !traits.required.contains(&one) {
                    traits.required.push(one);
                }
            }
            "forbidden" => {
                traits.forbidden.insert(name.to_owned());
            }
            _ => {}
        }
    }

    /// Takes resources, traits and the group policy from the flavor's extra specs. Returns whether there is a policy
    /// for several groups; an unknown policy is ignored (Nova logs it).
    fn take_extra_specs(&mut self, request: &RequestSpec) -> bool {
        let mut has_policy = false;
        for (key, value) in &request.flavor.extra_specs {
            if key == "group_policy" {
                self.isolate = value == "isolate";
                has_policy = matches!(value.as_str(), "none" | "isolate");
                continue;
            }
            let Some((prefix, name)) = key.split_once(':') else { continue };
            if let Some(suffix) = suffix(prefix, "resources") {
                if let Ok(amount) = value.trim().parse() {
                    self.group(suffix).resources.insert(name.to_owned(), amount);
                }
            } else if let Some(suffix) = suffix(prefix, "trait") {
                self.take_trait(suffix, name, value);
            }
        }
        has_policy
    }

    /// With `hw:cpu_policy=dedicated`, all CPUs are `PCPU`; with `mixed`, only the CPUs of the mask are.
    fn pin(&mut self, request: &RequestSpec) {
        let vcpus = u64::from(request.flavor.vcpus);
        let (shared, mut dedicated) = match request.hardware("cpu_policy") {
            Some("dedicated") => (0, vcpus),
            Some("mixed") => {
                // The image's mask takes precedence, as in the guest's topology. Otherwise an image would get more
                // dedicated CPUs than the server claims.
                let image = request.property("hw_cpu_realtime_mask");
                let realtime = || image.or_else(|| request.spec("hw:cpu_realtime_mask"));
                let mask = request.spec("hw:cpu_dedicated_mask").or_else(realtime);
                let dedicated = mask.map_or(0, |mask| cpus_in(mask, vcpus));
                (vcpus.saturating_sub(dedicated), dedicated)
            }
            _ => return,
        };
        if request.spec("hw:emulator_threads_policy") == Some("isolate") {
            dedicated += 1;
        }
        match request.hardware("cpu_thread_policy") {
            Some("require") => self.take_trait("", "HW_CPU_HYPERTHREADING", "required"),
            Some("isolate") => self.take_trait("", "HW_CPU_HYPERTHREADING", "forbidden"),
            _ => {}
        }
        self.take("", "VCPU", shared);
        self.take("", "PCPU", dedicated);
    }

    /// The flavor's resources, unless its extra specs override them.
    fn take_flavor(&mut self, request: &RequestSpec) {
        let flavor = &*request.flavor;
        let said = self.totals_with_zeros();
        if !said.contains("VCPU") && !said.contains("PCPU") {
            self.take("", "VCPU", u64::from(flavor.vcpus));
        }
        if !said.contains("MEMORY_MB") {
            self.take("", "MEMORY_MB", flavor.memory_mib);
        }
        if !said.contains("DISK_GB") {
            // Swap is rounded up to whole GiB, as in Nova's `convert_mb_to_ceil_gb`.
            let swap = u64::from(flavor.swap_mib.div_ceil(1024));
            self.take("", "DISK_GB", u64::from(flavor.root_gib) + u64::from(flavor.ephemeral_gib) + swap);
        }
    }

    fn totals_with_zeros(&self) -> BTreeSet<String> {
        self.groups.values().flat_map(|group| group.resources.keys().cloned()).collect()
    }

    /// Features of the guest that only some hosts have.
    fn take_features(&mut self, request: &RequestSpec) {
        if request.hardware("mem_encryption").is_some_and(is_true) {
            self.take("", "MEM_ENCRYPTION_CONTEXT", 1);
            self.take_trait("", "HW_CPU_X86_AMD_SEV", "required");
        }
        for label in request.spec(pmem::SPEC).into_iter().flat_map(pmem::labels) {
            self.take("", &pmem::resource_class(label), 1);
        }
        if let Some(version) = request.hardware("tpm_version") {
            let version = if version == "2.0" { "COMPUTE_SECURITY_TPM_2_0" } else { "COMPUTE_SECURITY_TPM_1_2" };
            let model = match request.hardware("tpm_model") {
                Some("tpm-crb") => "COMPUTE_SECURITY_TPM_CRB",
                _ => "COMPUTE_SECURITY_TPM_TIS",
            };
            self.take_trait("", version, "required");
            self.take_trait("", model, "required");
        }
        if let Some(arch) = request.property("hw_emulation_architecture").filter(|arch| !arch.is_empty()) {
            self.take_trait("", &format!("COMPUTE_ARCH_{}", arch.to_ascii_uppercase()), "required");
        }
        let iommu = request.hardware("viommu_model").map(str::to_ascii_uppercase);
        if let Some(name) = iommu.map(|model| format!("COMPUTE_VIOMMU_MODEL_{model}")) {
            self.take_trait("", &name, "required");
        }
        if request.spec("os:secure_boot").or_else(|| request.property("os_secure_boot")) == Some("required") {
            self.take_trait("", "COMPUTE_SECURITY_UEFI_SECURE_BOOT", "required");
        }
        if request.hardware("pci_numa_affinity_policy") == Some("socket") {
            self.take_trait("", "COMPUTE_SOCKET_PCI_NUMA_AFFINITY", "required");
        }
        if request.device_ports.iter().any(|port| port.vnic == DeviceVnic::RemoteManaged) {
            self.take_trait("", "COMPUTE_REMOTE_MANAGED_PORTS", "required");
        }
        if request.property("hw_firmware_stateless").is_some_and(is_true) {
            self.take_trait("", "COMPUTE_SECURITY_STATELESS_FIRMWARE", "required");
        }
        match request.hardware("maxphysaddr_mode") {
            Some("passthrough") => self.take_trait("", "COMPUTE_ADDRESS_SPACE_PASSTHROUGH", "required"),
            Some("emulate") => self.take_trait("", "COMPUTE_ADDRESS_SPACE_EMULATED", "required"),
            _ => {}
        }
    }
}

/// The suffix after `word`: `resources2` has the suffix `2` (Placement 1.33: up to 64 letters, digits, `_` and `-`).
fn suffix<'a>(prefix: &'a str, word: &str) -> Option<&'a str> {
    let suffix = prefix.strip_prefix(word)?;
    let legal = suffix.len() <= 64 && suffix.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    legal.then_some(suffix)
}

/// The number of CPUs below `count` that a mask names, for example `0-3,^2`. A mask that begins with `^` means all other
/// CPUs, also if it names some.
fn cpus_in(mask: &str, count: u64) -> u64 {
    let (mut with, mut without): (BTreeSet<u64>, BTreeSet<u64>) = (BTreeSet::new(), BTreeSet::new());
    for part in mask.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (set, part) = match part.strip_prefix('^') {
            Some(part) => (&mut without, part),
            None => (&mut with, part),
        };
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.trim().parse::<u64>(), to.trim().parse::<u64>()) {
            set.extend((from..=to.min(count)).filter(|cpu| *cpu < count));
        }
    }
    if mask.trim().is_empty() || mask.trim().starts_with('^') {
        with = (0..count).collect();
    }
    with.difference(&without).count() as u64
}

#[cfg(test)]
pub(super) mod tests;
