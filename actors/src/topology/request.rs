//! The NUMA topology that a flavor and an image request. Precedence and refusals are Nova's (`numa_get_constraints`).
//! Some messages also say what to change.

use std::collections::BTreeSet;

use chronova_events::instance::{FlavorSnapshot, ImageSnapshot};
use chronova_hypervisor::cpus;

use super::{CpuPolicy, CpuThreadPolicy, EmulatorThreadsPolicy, GuestNumaNode, GuestNumaTopology, MemPageSize};

/// The sources of a request. A setting is the flavor's extra spec `hw:NAME` or the image's property `hw_NAME`.
struct FlavorAndImageSpecs<'a> {
    flavor: &'a FlavorSnapshot,
    image: Option<&'a ImageSnapshot>,
}

type TopologyResult<T> = Result<T, String>;

impl<'a> FlavorAndImageSpecs<'a> {
    fn spec(&self, name: &str) -> Option<&'a str> {
        let specs = &self.flavor.extra_specs;
        specs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    fn property(&self, name: &str) -> Option<&'a str> {
        let properties = &self.image?.properties;
        let of = |name: &str| properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        of(name).filter(|value| !value.is_empty())
    }

    /// The flavor's value and the image's value.
    fn both(&self, name: &str) -> (Option<&'a str>, Option<&'a str>) {
        (self.spec(&format!("hw:{name}")), self.property(&format!("hw_{name}")))
    }

    /// The values of the specs that request this resource or trait, with or without a number after `kind`
    /// (`resources:PCPU`, `resources2:PCPU`).
    fn numbered(&self, kind: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.flavor.extra_specs.iter().filter_map(move |(key, value)| {
            let (prefix, of) = key.split_once(':')?;
            let suffix = prefix.strip_prefix(kind)?;
            (of == name && suffix.chars().all(|c| c.is_ascii_digit())).then_some(value.as_str())
        })
    }
}

/// The guest's topology; `None` if nothing requests one.
///
/// # Errors
/// A part of the request is impossible. The text names it for the user.
pub fn ask(flavor: &FlavorSnapshot, image: Option<&ImageSnapshot>) -> TopologyResult<Option<GuestNumaTopology>> {
    let asked = FlavorAndImageSpecs { flavor, image };
    let policy = explicit_policy(&asked)?;
    let threads = thread_policy(&asked)?;
    let emulator = emulator_policy(&asked)?;
    let realtime = realtime_mask(&asked)?;
    let policy = implied_policy(&asked, policy, emulator)?;
    // Without `hw:cpu_dedicated_mask`, the dedicated CPUs of a mixed guest are those of `hw:cpu_realtime_mask`.
    let mask = match dedicated_mask(&asked)? {
        None if policy == Some(CpuPolicy::Mixed) => realtime.cpus().cloned(),
        mask => mask,
    };
    let threads = implied_threads(&asked, threads)?;
    agree(policy, threads, emulator, mask.is_some())?;
    let realtime = realtime_cpus(&asked, realtime, policy, (emulator, mask.as_ref()))?;
    let nodes = node_count(&asked)?;
    let pages = page_size(&asked)?;
    let policy = policy.unwrap_or(CpuPolicy::Shared);
    // A requested page size and pinning imply a topology, even if no number of nodes is requested.
    if nodes.is_none() && pages.is_none() && policy == CpuPolicy::Shared {
        return Ok(None);
    }
    let dedicated = match policy {
        CpuPolicy::Shared => BTreeSet::new(),
        CpuPolicy::Dedicated => (0..flavor.vcpus).collect(),
        CpuPolicy::Mixed => mask.unwrap_or_default(),
    };
    let nodes = split(&asked, nodes.unwrap_or(1), &dedicated)?;
    Ok(Some(GuestNumaTopology { nodes, policy, threads, emulator, pages, realtime, near: Vec::new() }))
}

/// `hw:cpu_realtime` and its mask.
enum RealtimeRequest {
    No,
    WithoutMask,
    Mask(BTreeSet<u32>),
}

impl RealtimeRequest {
    fn cpus(&self) -> Option<&BTreeSet<u32>> {
        match self {
            Self::Mask(cpus) => Some(cpus),
            Self::No | Self::WithoutMask => None,
        }
    }
}

/// Whether the guest runs in real time. The image's mask takes precedence over the flavor's (Nova's
/// `get_realtime_cpu_constraint`).
fn realtime_mask(asked: &FlavorAndImageSpecs<'_>) -> TopologyResult<RealtimeRequest> {
    let on =
        |value: &str| matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "t" | "true" | "on" | "y" | "yes");
    if !asked.spec("hw:cpu_realtime").is_some_and(on) {
        return Ok(RealtimeRequest::No);
    }
    let (flavor, image) = asked.both("cpu_realtime_mask");
    let Some(mask) = image.or(flavor) else { return Ok(RealtimeRequest::WithoutMask) };
    let count = asked.flavor.vcpus;
    let cpus = cpus::parse_mask(mask, count).map_err(|reason| format!("Invalid hw:cpu_realtime_mask: {reason}"))?;
    match cpus.iter().any(|cpu| *cpu >= count) {
        true => {
            Err("Realtime vCPU(s) mask is not a subset of vCPUs in the flavor. See \"hw:cpu_realtime_mask\"".to_owned())
        }
        false => Ok(RealtimeRequest::Mask(cpus)),
    }
}

/// The CPUs that run in real time. Some processor must be left for the emulator's own threads.
fn realtime_cpus(
    asked: &FlavorAndImageSpecs<'_>,
    mask: RealtimeRequest,
    policy: Option<CpuPolicy>,
    (emulator, dedicated): (Option<EmulatorThreadsPolicy>, Option<&BTreeSet<u32>>),
) -> TopologyResult<BTreeSet<u32>> {
    const NO_ROOM: &str = "Realtime policy needs vCPU(s) mask configured with at least 1 RT vCPU and 1 ordinary vCPU, or \
                           hw:emulator_threads_policy. See hw:cpu_realtime_mask or hw_cpu_realtime_mask";
    if matches!(mask, RealtimeRequest::No) {
        return Ok(BTreeSet::new());
    }
    if !matches!(policy, Some(CpuPolicy::Dedicated | CpuPolicy::Mixed)) {
        return Err(
            "Cannot set realtime policy in a non dedicated cpu pinning policy: set hw:cpu_policy, too".to_owned()
        );
    }
    let all: BTreeSet<u32> = (0..asked.flavor.vcpus).collect();
    let cpus = match mask {
        RealtimeRequest::Mask(cpus) => cpus,
        RealtimeRequest::WithoutMask if emulator.is_some() => dedicated.cloned().unwrap_or_else(|| all.clone()),
        _ => return Err(NO_ROOM.to_owned()),
    };
    if cpus.is_empty() || (emulator.is_none() && cpus == all) {
        return Err(NO_ROOM.to_owned());
    }
    match dedicated.is_some_and(|dedicated| !cpus.is_subset(dedicated)) {
        true => Err("CPUs that run in real time are dedicated: hw:cpu_dedicated_mask must have those of \
                     hw:cpu_realtime_mask"
            .to_owned()),
        false => Ok(cpus),
    }
}

fn explicit_policy(asked: &FlavorAndImageSpecs<'_>) -> TopologyResult<Option<CpuPolicy>> {
    let (flavor, image) = asked.both("cpu_policy");
    let read = |source: &str, value: Option<&str>| match value {
        None => Ok(None),
        Some("shared") => Ok(Some(CpuPolicy::Shared)),
        Some("dedicated") => Ok(Some(CpuPolicy::Dedicated)),
        Some("mixed") => Ok(Some(CpuPolicy::Mixed)),
        Some(other) => Err(format!(
            "CPU policy requested from '{source}' '{other}' is invalid. It must be one of dedicated, mixed, shared."
        )),
    };
    match (read("flavor extra specs", flavor)?, read("image properties", image)?) {
        (Some(CpuPolicy::Mixed), Some(CpuPolicy::Dedicated))
        | (Some(CpuPolicy::Shared), Some(CpuPolicy::Dedicated | CpuPolicy::Mixed)) => {
            Err("Image property 'hw_cpu_policy' is not permitted to override CPU pinning policy set against the flavor"
                .to_owned())
        }
        (flavor, image) => Ok(flavor.or(image)),
    }
}

fn thread_policy(asked: &FlavorAndImageSpecs<'_>) -> TopologyResult<Option<CpuThreadPolicy>> {
    let (flavor, image) = asked.both("cpu_thread_policy");
    let read = |source: &str, value: Option<&str>| match value {
        None => Ok(None),
        Some("prefer") => Ok(Some(CpuThreadPolicy::Prefer)),
        Some("isolate") => Ok(Some(CpuThreadPolicy::Isolate)),
        Some("require") => Ok(Some(CpuThreadPolicy::Require)),
        Some(other) => Err(format!(
            "CPU thread policy requested from '{source}' '{other}' is invalid. It must be one of prefer, isolate, require."
        )),
    };
    match (read("flavor extra specs", flavor)?, read("image properties", image)?) {
        // This follows Nova's code. Nova's documents say that any other policy of the image is refused.
        (Some(CpuThreadPolicy::Prefer), Some(_)) => Ok(Some(CpuThreadPolicy::Prefer)),
        (Some(flavor), Some(image)) if flavor != image => Err("Image property 'hw_cpu_thread_policy' is not permitted to \
                                                               override CPU thread pinning policy set against the flavor"
            .to_owned()),
        (flavor, image) => Ok(flavor.or(image)),
    }
}

fn emulator_policy(asked: &FlavorAndImageSpecs<'_>) -> TopologyResult<Option<EmulatorThreadsPolicy>> {
    match asked.spec("hw:emulator_threads_policy") {
        None => Ok(None),
        Some("share") => Ok(Some(EmulatorThreadsPolicy::Share)),
        Some("isolate") => Ok(Some(EmulatorThreadsPolicy::Isolate)),
        Some(other) => Err(format!(
            "CPU emulator threads option requested '{other}' is invalid. It must be one of isolate, share."
        )),
    }
}

/// The set of the guest's CPUs in `hw:cpu_dedicated_mask`. A mask that begins with `^` means all other CPUs.
fn dedicated_mask(asked: &FlavorAndImageSpecs<'_>) -> TopologyResult<Option<BTreeSet<u32>>> {
    let Some(mask) = asked.spec("hw:cpu_dedicated_mask") else { return Ok(None) };
    let most = asked.flavor.vcpus;
    let dedicated =
        cpus::parse_mask(mask, most).map_err(|reason| format!("Invalid hw:cpu_dedicated_mask: {reason}"))?;
    if dedicated.iter().any(|cpu| *cpu >= most) {
        return Err("Mixed instance dedicated vCPU(s) mask is not a subset of vCPUs in the flavor. See \
                    \"hw:cpu_dedicated_mask\""
            .to_owned());
    }
    match dedicated.is_empty() || u32::try_from(dedicated.len()).is_ok_and(|count| count == most) {
        true => Err("Mixed instance must have at least 1 pinned vCPU and 1 unpinned vCPU. See \
                     \"hw:cpu_dedicated_mask\""
            .to_owned()),
        false => Ok(Some(dedicated)),
    }
}

/// The CPU policy that `resources:PCPU` or `resources:VCPU` implies. If the flavor has neither spec, `policy`.
fn implied_policy(
    asked: &FlavorAndImageSpecs<'_>,
    policy: Option<CpuPolicy>,
    emulator: Option<EmulatorThreadsPolicy>,
) -> TopologyResult<Option<CpuPolicy>> {
    let sum = |class| asked.numbered("resources", class).filter_map(|amount| amount.trim().parse::<u64>().ok()).sum();
    let (shared, dedicated): (u64, u64) = (sum("VCPU"), sum("PCPU"));
    if policy.is_some() && shared + dedicated > 0 {
        return Err(
            "It is not possible to use the 'resources:VCPU' or 'resources:PCPU' extra specs in combination with the \
                    'hw:cpu_policy' extra spec or 'hw_cpu_policy' image metadata property; use one or the other"
                .to_owned(),
        );
    }
    if shared > 0 && dedicated > 0 {
        return Err(
            "It is not possible to specify both 'resources:VCPU' and 'resources:PCPU' extra specs; use one or the \
                    other"
                .to_owned(),
        );
    }
    let cpus = u64::from(asked.flavor.vcpus);
    match (dedicated, emulator) {
        (0, _) if shared > 0 => Ok(Some(CpuPolicy::Shared)),
        (0, _) => Ok(policy),
        (count, Some(EmulatorThreadsPolicy::Isolate)) if count != cpus + 1 => {
            Err("You have requested 'hw:emulator_threads_policy=isolate' but have not requested sufficient PCPUs to \
                 handle this policy; you must allocate exactly flavor.vcpus + 1 PCPUs."
                .to_owned())
        }
        (count, emulator) if emulator != Some(EmulatorThreadsPolicy::Isolate) && count != cpus => Err(
            "There is a mismatch between the number of PCPUs requested via 'resourcesNN:PCPU' and the flavor); you \
                 must allocate exactly flavor.vcpus PCPUs"
                .to_owned(),
        ),
        _ => Ok(Some(CpuPolicy::Dedicated)),
    }
}

/// The thread policy that the trait `HW_CPU_HYPERTHREADING` implies. If nothing names the trait, `threads`.
fn implied_threads(
    asked: &FlavorAndImageSpecs<'_>,
    threads: Option<CpuThreadPolicy>,
) -> TopologyResult<Option<CpuThreadPolicy>> {
    const TRAIT: &str = "HW_CPU_HYPERTHREADING";
    let of_image = asked.property(&format!("trait:{TRAIT}"));
    match (asked.numbered("trait", TRAIT).next().or(of_image), threads) {
        (Some(_), Some(_)) => {
            Err("It is not possible to use the 'trait:HW_CPU_HYPERTHREADING' extra spec in combination \
                                   with the 'hw:cpu_thread_policy' extra spec or 'hw_cpu_thread_policy' image metadata \
                                   property; use one or the other"
                .to_owned())
        }
        (Some("forbidden"), None) => Ok(Some(CpuThreadPolicy::Isolate)),
        (Some("required"), None) => Ok(Some(CpuThreadPolicy::Require)),
        (_, threads) => Ok(threads),
    }
}

fn agree(
    policy: Option<CpuPolicy>,
    threads: Option<CpuThreadPolicy>,
    emulator: Option<EmulatorThreadsPolicy>,
    mask: bool,
) -> TopologyResult<()> {
    let refused = match policy {
        None | Some(CpuPolicy::Shared) if threads.is_some() => {
            "Cannot set cpu thread pinning policy in a non dedicated cpu pinning policy"
        }
        None | Some(CpuPolicy::Shared) if emulator == Some(EmulatorThreadsPolicy::Isolate) => {
            "An isolated CPU emulator threads option requires a dedicated CPU policy option."
        }
        Some(CpuPolicy::Mixed) if !mask => "Must specify 'hw:cpu_dedicated_mask' for 'mixed' CPU policy.",
        Some(CpuPolicy::Mixed) => return Ok(()),
        _ if mask => {
            "Dedicated CPU set can be specified from flavor extra spec only when the CPU allocation policy is mixed."
        }
        _ => return Ok(()),
    };
    Err(refused.to_owned())
}

fn overrides(property: &str) -> String {
    format!("Image property '{property}' is not permitted to override NUMA configuration set against the flavor")
}

fn node_count(asked: &FlavorAndImageSpecs<'_>) -> TopologyResult<Option<u32>> {
    let nodes = match asked.both("numa_nodes") {
        (Some(_), Some(_)) => return Err(overrides("hw_numa_nodes")),
        (flavor, image) => flavor.or(image),
    };
    let wrong =
        |nodes: &str| format!("The property 'numa_nodes' cannot be '{nodes}'. It must be a number greater than 0");
    nodes.map(|nodes| nodes.trim().parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(|| wrong(nodes))).transpose()
}

fn page_size(asked: &FlavorAndImageSpecs<'_>) -> TopologyResult<Option<MemPageSize>> {
    let forbidden = |size: &str, against: &str| {
        format!(
            "Page size {size} forbidden against '{against}': it may be asked for by an image only where the flavor's \
                 hw:mem_page_size is large or any."
        )
    };
    match asked.both("mem_page_size") {
        (None, None) => Ok(None),
        (None, Some(image)) => Err(forbidden(image, "<empty>")),
        (Some(flavor), None) => pages(flavor).map(Some),
        (Some(flavor), Some(image)) => match pages(flavor)? {
            MemPageSize::Any | MemPageSize::Large => pages(image).map(Some),
            MemPageSize::Small | MemPageSize::Kib(_) => Err(forbidden(image, flavor)),
        },
    }
}

/// Parses a page size in words, in KiB, or with a unit: `2MB`, `16Gib`. As in oslo, `B` is bytes, `b` and `bit` are
/// bits, and a prefix is a power of 1024 with and without its `i`.
pub(super) fn pages(text: &str) -> TopologyResult<MemPageSize> {
    let wrong = || format!("Invalid memory page size '{text}'");
    match text {
        "any" => return Ok(MemPageSize::Any),
        "large" => return Ok(MemPageSize::Large),
        "small" => return Ok(MemPageSize::Small),
        digits if digits.chars().all(|c| c.is_ascii_digit()) => {
            return digits.parse::<u64>().ok().filter(|kib| *kib > 0).map(MemPageSize::Kib).ok_or_else(wrong);
        }
        _ => {}
    }
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(at);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let prefix = unit.chars().next().ok_or_else(wrong)?;
    let scale: u64 = match prefix {
        'K' => 1,
        'M' => 1 << 10,
        'G' => 1 << 20,
        'T' => 1 << 30,
        _ => return Err(wrong()),
    };
    let rest = unit[1..].strip_prefix('i').unwrap_or(&unit[1..]);
    let bits = match rest {
        "B" => 8,
        "b" | "bit" => 1,
        _ => return Err(wrong()),
    };
    let kib = number.checked_mul(scale).and_then(|kib| kib.checked_mul(bits)).ok_or_else(wrong)? / 8;
    Some(kib).filter(|kib| *kib > 0).map(MemPageSize::Kib).ok_or_else(wrong)
}

/// The setting `name` of each node, such as `hw:numa_cpus.0` or `hw_numa_mem.1`. The list ends before the first node
/// without the setting.
fn of_nodes<'a, T>(
    asked: &FlavorAndImageSpecs<'a>,
    name: &str,
    read: fn(&str) -> Option<T>,
) -> TopologyResult<Option<Vec<T>>> {
    let list = |word: &dyn Fn(usize) -> Option<&'a str>| -> TopologyResult<Vec<T>> {
        let words = (0..).map_while(word);
        words.map(|text| read(text).ok_or_else(|| format!("Invalid value {text:?} of {name}"))).collect()
    };
    let flavor = list(&|node| asked.spec(&format!("hw:{name}.{node}")))?;
    let image = list(&|node| asked.property(&format!("hw_{name}.{node}")))?;
    match (flavor.is_empty(), image.is_empty()) {
        (false, false) => Err(overrides(&format!("hw_{name}"))),
        (false, true) => Ok(Some(flavor)),
        (true, false) => Ok(Some(image)),
        (true, true) => Ok(None),
    }
}

fn split(asked: &FlavorAndImageSpecs<'_>, count: u32, dedicated: &BTreeSet<u32>) -> TopologyResult<Vec<GuestNumaNode>> {
    let cpus = of_nodes(asked, "numa_cpus", |text| cpus::parse(text).ok())?;
    let memory = of_nodes(asked, "numa_mem", |text| text.trim().parse().ok())?;
    let (parts, memory) = match (cpus, memory) {
        (None, None) => evenly(asked.flavor, count)?,
        (Some(cpus), Some(memory)) if cpus.len() == count as usize && memory.len() == count as usize => {
            check(asked.flavor, &cpus, &memory)?;
            (cpus, memory)
        }
        _ => {
            return Err(
                "CPU and memory allocation must be provided for all NUMA nodes: hw:numa_cpus.N and hw:numa_mem.N \
                        for each N below hw:numa_nodes"
                    .to_owned(),
            );
        }
    };
    let node = |(cpus, memory_mib): (BTreeSet<u32>, u64)| {
        let (dedicated, floating) = cpus.into_iter().partition(|cpu| dedicated.contains(cpu));
        GuestNumaNode { floating, dedicated, memory_mib }
    };
    Ok(parts.into_iter().zip(memory).map(node).collect())
}

fn evenly(flavor: &FlavorSnapshot, count: u32) -> TopologyResult<(Vec<BTreeSet<u32>>, Vec<u64>)> {
    if !flavor.vcpus.is_multiple_of(count) || !flavor.memory_mib.is_multiple_of(u64::from(count)) {
        return Err(
            "Instance CPUs and/or memory cannot be evenly distributed across instance NUMA nodes. Explicit assignment \
                    of CPUs and memory to nodes is required"
                .to_owned(),
        );
    }
    let each = flavor.vcpus / count;
    let cpus = (0..count).map(|node| (node * each..(node + 1) * each).collect()).collect();
    Ok((cpus, vec![flavor.memory_mib / u64::from(count); count as usize]))
}

fn check(flavor: &FlavorSnapshot, cpus: &[BTreeSet<u32>], memory: &[u64]) -> TopologyResult<()> {
    let mut unassigned: BTreeSet<u32> = (0..flavor.vcpus).collect();
    for cpu in cpus.iter().flatten() {
        if *cpu >= flavor.vcpus {
            let most = flavor.vcpus.saturating_sub(1);
            return Err(format!("CPU number {cpu} is larger than max {most}"));
        }
        if !unassigned.remove(cpu) {
            return Err(format!("CPU number {cpu} is assigned to two nodes"));
        }
    }
    if !unassigned.is_empty() {
        return Err(format!("CPU number {} is not assigned to any node", cpus::format(unassigned)));
    }
    // An image may name any number, so a plain sum could wrap around.
    let sum = memory.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
    let whole = flavor.memory_mib;
    match sum == whole {
        true => Ok(()),
        false => Err(format!("{sum} MB of memory assigned, but expected {whole} MB")),
    }
}
