//! The request spec of a server, and its request for resources.

use std::sync::Arc;

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::{HostId, InstanceId, ProjectId, ServerGroupId};
use chronova_events::instance::{Alive, BuildRequested, FlavorSnapshot, ImageSnapshot, MoveKind, Moving};
use chronova_projections::placement::candidates::RequestGroup;

use crate::hardware::is_true;
use crate::pci::ports::{DevicePort, DeviceVnic};
use crate::topology::{self, GuestNumaTopology, MemPageSize};

/// One server that needs a host. Nova: `RequestSpec`.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestSpec {
    pub server: Option<InstanceId>,
    pub project: ProjectId,
    pub flavor: Arc<FlavorSnapshot>,
    pub image: Option<Arc<ImageSnapshot>>,
    pub hints: BTreeMap<String, Vec<String>>,
    pub zone: Option<String>,
    /// A forced host, which skips the filters: `zone:host:node`.
    pub forced_host: Option<String>,
    /// A requested host, which must pass the filters (2.74).
    pub requested_host: Option<String>,
    /// The memory page size of a running guest, which a live migration cannot change.
    pub page_kib: Option<u64>,
    /// The server's ports that need PCI devices of the host.
    pub ports: Vec<DevicePort>,
    /// Hosts that the decision must not choose: hosts that earlier attempts tried, and the present host of a server
    /// that moves.
    pub excluded: BTreeSet<HostId>,
    /// `[DEFAULT] default_availability_zone`: the zone of hosts without a zone.
    pub default_zone: String,
    /// The random number for options that need one. It is an input, because the choice is pure.
    pub dice: u64,
}

impl RequestSpec {
    pub fn of_build(build: &BuildRequested, excluded: &BTreeSet<HostId>, default_zone: &str) -> Self {
        Self {
            server: Some(build.instance),
            project: build.project.clone(),
            flavor: build.flavor.clone(),
            image: build.image.clone(),
            hints: build.scheduler_hints.iter().cloned().collect(),
            zone: build.availability_zone.clone(),
            forced_host: build.forced_host.clone(),
            requested_host: build.requested_host.clone(),
            page_kib: None,
            ports: Vec::new(),
            excluded: excluded.clone(),
            default_zone: default_zone.to_owned(),
            dice: 0,
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
        if server.is_volume_backed() {
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
    /// Whether there are several groups with a suffix but no `group_policy`. Placement answers 400 to such a request.
    pub undecided: bool,
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
        wanted
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
        if let Some(labels) = request.spec("hw:pmem") {
            for label in labels.split(',').map(str::trim).filter(|label| !label.is_empty()) {
                let name: String = label
                    .chars()
                    .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
                    .collect();
                self.take("", &format!("CUSTOM_PMEM_NAMESPACE_{name}"), 1);
            }
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
        if request.ports.iter().any(|port| port.vnic == DeviceVnic::RemoteManaged) {
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
pub(super) mod tests {
    use super::*;
    use chronova_events::ids::FlavorId;

    pub(in crate::scheduler) fn flavor(vcpus: u32, memory_mib: u64, root_gib: u32) -> FlavorSnapshot {
        FlavorSnapshot {
            id: FlavorId::new("1"),
            name: "m1.tiny".into(),
            vcpus,
            memory_mib,
            root_gib,
            ephemeral_gib: 0,
            swap_mib: 0,
            extra_specs: vec![],
        }
    }

    pub(in crate::scheduler) fn request(flavor: FlavorSnapshot) -> RequestSpec {
        RequestSpec {
            server: None,
            project: ProjectId::new("p"),
            flavor: flavor.into(),
            image: None,
            hints: BTreeMap::new(),
            zone: None,
            forced_host: None,
            requested_host: None,
            page_kib: None,
            ports: Vec::new(),
            excluded: BTreeSet::new(),
            default_zone: "nova".into(),
            dice: 0,
        }
    }

    fn with(specs: &[(&str, &str)]) -> RequestSpec {
        let specs = specs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        request(FlavorSnapshot { extra_specs: specs, ..flavor(4, 512, 10) })
    }

    /// The request as text: `VCPU=4 | suffix: CLASS=1 +TRAIT -TRAIT`.
    fn words(wanted: &ResourceRequest) -> String {
        let group = |group: &RequestGroup| {
            let mut parts: Vec<String> = Vec::new();
            if !group.suffix.is_empty() {
                parts.push(format!("{}:", group.suffix));
            }
            parts.extend(group.resources.iter().map(|(class, amount)| format!("{class}={amount}")));
            parts.extend(group.traits.required.iter().flatten().map(|name| format!("+{name}")));
            parts.extend(group.traits.forbidden.iter().map(|name| format!("-{name}")));
            parts.join(" ")
        };
        wanted.groups.values().map(group).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_flavor_becomes_resources_as_in_nova() {
        let resources = |root: u32, ephemeral: u32, swap: u32| {
            let flavor = FlavorSnapshot { ephemeral_gib: ephemeral, swap_mib: swap, ..flavor(2, 512, root) };
            words(&ResourceRequest::of(&request(flavor), true))
        };
        assert_eq!(resources(10, 5, 1), "DISK_GB=16 MEMORY_MB=512 VCPU=2", "a MiB of swap is a GiB of disk");
        assert_eq!(resources(10, 0, 1024), "DISK_GB=11 MEMORY_MB=512 VCPU=2");
        assert_eq!(resources(0, 0, 0), "MEMORY_MB=512 VCPU=2", "a flavor without disks claims no disk");
    }

    #[test]
    fn extra_specs_override_add_and_group() {
        let of = |specs: &[(&str, &str)]| words(&ResourceRequest::of(&with(specs), true));
        assert_eq!(
            of(&[("resources:VCPU", "0"), ("resources:CUSTOM_GOLD", "1")]),
            "CUSTOM_GOLD=1 DISK_GB=10 MEMORY_MB=512"
        );
        assert_eq!(
            of(&[("resources:VCPU", "2"), ("resources:MEMORY_MB", "2048"), ("resources:DISK_GB", "1")]),
            "DISK_GB=1 MEMORY_MB=2048 VCPU=2"
        );
        assert_eq!(
            of(&[("trait:HW_A", "required"), ("trait:HW_B", "forbidden")]),
            "DISK_GB=10 MEMORY_MB=512 VCPU=4 +HW_A -HW_B"
        );
        let grouped =
            with(&[("resources1:SRIOV_NET_VF", "1"), ("trait1:CUSTOM_LEFT", "required"), ("group_policy", "isolate")]);
        let wanted = ResourceRequest::of(&grouped, true);
        assert_eq!(words(&wanted), "DISK_GB=10 MEMORY_MB=512 VCPU=4 | 1: SRIOV_NET_VF=1 +CUSTOM_LEFT");
        assert!(wanted.isolate);
        assert_eq!(wanted.required_traits(), BTreeSet::from(["CUSTOM_LEFT"]));
        assert_eq!(
            of(&[("resources:VCPU", "many"), ("capabilities:x", "1"), ("hw:x", "1")]),
            "DISK_GB=10 MEMORY_MB=512 VCPU=4"
        );
    }

    /// The flavors of Nova's documentation: a VF on each of two networks, with a trait that names the network.
    #[test]
    fn several_groups_of_resources_need_a_policy() {
        let specs = [
            ("resources1:SRIOV_NET_VF", "1"),
            ("resources1:CUSTOM_NET_EGRESS_BYTES_SEC", "1000"),
            ("trait1:CUSTOM_PHYSNET_NET1", "required"),
            ("trait1:HW_NIC_ACCEL_SSL", "required"),
            ("resources2:SRIOV_NET_VF", "1"),
            ("resources2:CUSTOM_NET_EGRESS_BYTES_SEC", "2000"),
            ("trait2:CUSTOM_PHYSNET_NET2", "required"),
            ("trait2:CUSTOM_SLOW", "forbidden"),
        ];
        let of = |policy: Option<&str>| {
            let policy = policy.map(|policy| ("group_policy", policy));
            let wanted = ResourceRequest::of(&with(&specs.into_iter().chain(policy).collect::<Vec<_>>()), true);
            let groups = "DISK_GB=10 MEMORY_MB=512 VCPU=4 \
                          | 1: CUSTOM_NET_EGRESS_BYTES_SEC=1000 SRIOV_NET_VF=1 +CUSTOM_PHYSNET_NET1 +HW_NIC_ACCEL_SSL \
                          | 2: CUSTOM_NET_EGRESS_BYTES_SEC=2000 SRIOV_NET_VF=1 +CUSTOM_PHYSNET_NET2 -CUSTOM_SLOW";
            assert_eq!(words(&wanted), groups);
            (wanted.isolate, wanted.undecided)
        };
        assert_eq!(of(Some("isolate")), (true, false));
        assert_eq!(of(Some("none")), (false, false));
        assert_eq!(of(None), (false, true));
        assert_eq!(of(Some("whatever")), (false, true));
        let one = ResourceRequest::of(&with(&specs[..4]), true);
        assert!(!one.undecided, "one group by itself needs no policy");
    }

    #[test]
    fn pinned_cpus_are_another_class() {
        let threads = |policy| {
            words(&ResourceRequest::of(
                &with(&[("hw:cpu_policy", "dedicated"), ("hw:cpu_thread_policy", policy)]),
                true,
            ))
        };
        assert_eq!(threads("require"), "DISK_GB=10 MEMORY_MB=512 PCPU=4 +HW_CPU_HYPERTHREADING");
        assert_eq!(threads("isolate"), "DISK_GB=10 MEMORY_MB=512 PCPU=4 -HW_CPU_HYPERTHREADING");
        assert_eq!(threads("prefer"), "DISK_GB=10 MEMORY_MB=512 PCPU=4");
        let of = |specs: &[(&str, &str)]| words(&ResourceRequest::of(&with(specs), true));
        let equivalent = |state: &str| of(&[("resources:PCPU", "4"), ("trait:HW_CPU_HYPERTHREADING", state)]);
        assert_eq!([equivalent("required"), equivalent("forbidden")], [threads("require"), threads("isolate")]);
        let dedicated = ("hw:cpu_policy", "dedicated");
        assert_eq!(of(&[dedicated]), "DISK_GB=10 MEMORY_MB=512 PCPU=4");
        assert_eq!(of(&[dedicated, ("hw:emulator_threads_policy", "isolate")]), "DISK_GB=10 MEMORY_MB=512 PCPU=5");
        assert_eq!(
            of(&[("hw:cpu_policy", "mixed"), ("hw:cpu_dedicated_mask", "^0")]),
            "DISK_GB=10 MEMORY_MB=512 PCPU=3 VCPU=1"
        );
        let realtime = [("hw:cpu_policy", "mixed"), ("hw:cpu_realtime", "yes"), ("hw:cpu_realtime_mask", "3")];
        assert_eq!(of(&realtime), "DISK_GB=10 MEMORY_MB=512 PCPU=1 VCPU=3");
        let image = crate::instance::sample_image::image_with(&[("hw_cpu_realtime_mask", "^3,0")]);
        let masked = RequestSpec { image: Some(image.into()), ..with(&realtime) };
        assert_eq!(words(&ResourceRequest::of(&masked, true)), "DISK_GB=10 MEMORY_MB=512 PCPU=3 VCPU=1");
        let pinned = masked.topology().ok().flatten().map(|topology| topology.nodes[0].dedicated.len());
        assert_eq!(pinned, Some(3), "the claim and the topology differ");
        assert_eq!(words(&ResourceRequest::of(&with(&[dedicated]), false)), "DISK_GB=10 MEMORY_MB=512 VCPU=4");
        assert_eq!(cpus_in("0-2,^1", 4), 2);
        assert_eq!(cpus_in("0-99999999999", 4), 4, "the mask names CPUs beyond the count");
    }

    #[test]
    fn features_become_traits_and_classes() {
        let of = |specs: &[(&str, &str)]| words(&ResourceRequest::of(&with(specs), true));
        let image = crate::instance::sample_image::image_with(&[("hw_emulation_architecture", "aarch64")]);
        let arm = words(&ResourceRequest::of(&RequestSpec { image: Some(image.into()), ..with(&[]) }, true));
        assert_eq!(arm, "DISK_GB=10 MEMORY_MB=512 VCPU=4 +COMPUTE_ARCH_AARCH64");
        let iommu = of(&[("hw:viommu_model", "intel")]);
        assert_eq!(iommu, "DISK_GB=10 MEMORY_MB=512 VCPU=4 +COMPUTE_VIOMMU_MODEL_INTEL");
        let port = |vnic| DevicePort {
            port: chronova_events::ids::PortId(uuid::Uuid::nil()),
            vnic,
            network: None,
            policy: None,
            trusted: false,
        };
        let of_port = |vnic| words(&ResourceRequest::of(&RequestSpec { ports: vec![port(vnic)], ..with(&[]) }, true));
        assert_eq!(of_port(DeviceVnic::Direct), "DISK_GB=10 MEMORY_MB=512 VCPU=4");
        let remote = of_port(DeviceVnic::RemoteManaged);
        assert_eq!(remote, "DISK_GB=10 MEMORY_MB=512 VCPU=4 +COMPUTE_REMOTE_MANAGED_PORTS");
        let tpm = of(&[("hw:tpm_version", "2.0"), ("hw:tpm_model", "tpm-crb")]);
        assert_eq!(tpm, "DISK_GB=10 MEMORY_MB=512 VCPU=4 +COMPUTE_SECURITY_TPM_2_0 +COMPUTE_SECURITY_TPM_CRB");
        assert_eq!(
            of(&[("hw:mem_encryption", "t"), ("hw:pmem", "6GB,6GB")]),
            "CUSTOM_PMEM_NAMESPACE_6GB=2 DISK_GB=10 MEMORY_MB=512 MEM_ENCRYPTION_CONTEXT=1 VCPU=4 +HW_CPU_X86_AMD_SEV"
        );
    }
}
