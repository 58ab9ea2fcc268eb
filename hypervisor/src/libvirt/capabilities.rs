//! Reads the properties of a host from libvirt's capabilities, domain capabilities and node information.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::{HostId, InstanceId};
use roxmltree::{Document, Node};
use virt::connect::Connect;

use super::cpu_models::{self, HostCpu};
use super::error::Context;
use super::{account, cells, mdevs, node, pci, pmem, pool, storage, versions};
use crate::domain_xml::{CpuModel, ForeignArch, HostFacts, IommuModel};
use crate::driver::{DriverError, DriverResult};
use crate::firmware::FirmwareFacts;
use crate::guest::{CpuInfo, CpuTimes, HostCapabilities, HostUsage};
use crate::memory_encryption::SevFacts;
use crate::options::{CpuMode, LibvirtOptions, VirtType};
use crate::pci::HostPci;
use crate::tpm::TpmVersion;
use crate::traits;

const CALL: &str = "capabilities";
const GIB: u64 = 1 << 30;
/// libvirt's name of the driver of QEMU and KVM. The versions of other drivers have another meaning.
const QEMU: &str = "QEMU";

/// The mode if `[libvirt] cpu_mode` is not set. libvirt has no `host-model` for AArch64.
fn default_cpu_mode(kvm: bool, arch: &str) -> CpuMode {
    match (kvm, arch) {
        (true, "aarch64") => CpuMode::HostPassthrough,
        (true, _) => CpuMode::HostModel,
        (false, _) => CpuMode::None,
    }
}

fn parse(xml: &str) -> DriverResult<Document<'_>> {
    Document::parse(xml)
        .map_err(|error| DriverError::Failed { call: CALL, message: format!("unreadable answer: {error}") })
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn text(node: Node<'_, '_>, name: &str) -> String {
    child(node, name).and_then(|node| node.text()).unwrap_or_default().trim().to_owned()
}

/// The facts for the domain XML and the traits. They are constant while the connection lasts.
#[derive(Debug, Clone)]
pub(super) struct ProbedHost {
    pub(super) facts: HostFacts,
    cpu: CpuInfo,
    /// Why guests are emulated; `None` with KVM.
    emulates_because: Option<&'static str>,
    /// The features that guests can have. The host's CPU traits are derived from them.
    guest_features: BTreeSet<String>,
    /// See [`HostCapabilities::guest_flags`].
    guest_flags: Vec<String>,
    iommu: bool,
    /// See [`HostCapabilities::emulator_account`].
    account: Option<String>,
}

pub(super) fn learn(connect: &Connect, options: &LibvirtOptions) -> DriverResult<ProbedHost> {
    let xml = connect.capabilities().during(CALL)?;
    let document = parse(&xml)?;
    let host = child(document.root_element(), "host");
    let host_cpu = host.and_then(|host| child(host, "cpu"));
    let arch = host_cpu.map_or_else(String::new, |cpu| text(cpu, "arch"));
    let mut cpu = host_cpu.map(cpu_info).unwrap_or_default();
    if let Some(node) = host_cpu {
        cpu.features = expanded_features(connect, &xml[node.range()]).unwrap_or(cpu.features);
    }
    let emulates_because = emulates_because(&document, &cpu, options.virt_type)?;
    let kvm = emulates_because.is_none();
    // Some drivers have no domain capabilities (`test:///`), so they report less.
    let capabilities_of = |machine: Option<&str>| {
        let found = connect.domain_capabilities(None, Some(&arch), machine, Some(virt_name(kvm)), 0);
        found.unwrap_or_else(|_| "<domainCapabilities/>".to_owned())
    };
    let domain_xml = capabilities_of(options.machine_types.chosen(&arch));
    let domain = parse(&domain_xml)?;
    let domain = domain.root_element();
    // Only q35 machines can protect the variables of secure boot. So the capabilities of other x86 machines do not show
    // whether the host has secure boot.
    let secure_xml = capabilities_of((arch == "x86_64").then_some("q35"));
    let secure_domain = parse(&secure_xml)?;
    let mut firmware = firmware(domain, secure_domain.root_element(), options);
    firmware.by_feature = connect.lib_version().during(CALL)? >= FIRMWARE_BY_FEATURE;

    if !kvm {
        // Under emulation a guest sees the features of the emulator, not those of the host's CPU.
        cpu.features = emulated_features(domain);
    }
    let node = connect.node_info().during(CALL)?;
    (cpu.sockets, cpu.cores, cpu.threads) = (node.sockets * node.nodes.max(1), node.cores, node.threads);
    let hostname = connect.hostname().during(CALL)?;
    let (mode, models) = options.cpus_of(&hostname);
    let mode = mode.unwrap_or_else(|| default_cpu_mode(kvm, &arch));
    let presented = emulated_features(domain);
    let features = cpu.features.iter().chain(&presented).map(String::as_str).collect();
    let host_cpu = HostCpu { arch: &arch, virt_type: virt_name(kvm), mode, models, features };
    let cpu_models = cpu_models::learn(connect, &host_cpu, options)?;
    let guest_features = guest_features(&cpu, &cpu_models, mode, options);
    let guest_flags = guest_flags(presented, &cpu_models, mode, options);
    let foreign = foreign(connect, &document, &arch, options);
    let machine_type = options.machine_types.chosen(&arch).map(str::to_owned);
    let facts = HostFacts {
        arch,
        kvm,
        libvirt_version: connect.lib_version().during(CALL)?,
        cpu_mode: mode,
        cpu_models,
        machine_type,
        pool_path: options.pool_path.clone(),
        places: BTreeMap::new(),
        direct_io: true,
        screens: options.screens.clone(),
        video_models: enum_values(device(domain, "video"), "modelType"),
        firmware,
        host_uuid: host.and_then(|host| child(host, "uuid")).and_then(|node| node.text()).map(str::to_owned),
        guests: options.guests.clone(),
        sev: sev(secure_domain.root_element()).filter(|_| kvm),
        foreign,
    };
    let (iommu, account) = (has_iommu(&document), account::of_emulators(&document));
    Ok(ProbedHost { facts, cpu, emulates_because, guest_features, guest_flags, iommu, account })
}

/// The other architectures that the host can emulate.
fn foreign(connect: &Connect, document: &Document<'_>, own: &str, options: &LibvirtOptions) -> Vec<ForeignArch> {
    let guests = document.root_element().children().filter(|node| node.has_tag_name("guest"));
    let offered: BTreeSet<&str> =
        guests.filter_map(|guest| child(guest, "arch")).filter_map(|arch| arch.attribute("name")).collect();
    let known = ForeignArch::KNOWN.into_iter().filter(|arch| *arch != own && offered.contains(arch));
    known
        .filter_map(|arch| {
            let machine = Some(options.machine_types.of(arch));
            let xml = connect.domain_capabilities(None, Some(arch), machine, Some("qemu"), 0).ok()?;
            let document = parse(&xml).ok()?;
            let domain = document.root_element();
            let mut firmware = firmware(domain, domain, options);
            firmware.by_feature = connect.lib_version().is_ok_and(|version| version >= FIRMWARE_BY_FEATURE);
            let video_models = enum_values(device(domain, "video"), "modelType");
            Some(ForeignArch { arch: arch.to_owned(), video_models, firmware })
        })
        .collect()
}

/// The first libvirt that chooses firmware by its features: 7.2.0.
const FIRMWARE_BY_FEATURE: u32 = 7_002_000;

/// How the host's processor encrypts the memory of guests, from the domain capabilities of q35 machines. libvirt asks QEMU,
/// which asks the kernel.
fn sev(domain: Node<'_, '_>) -> Option<SevFacts> {
    let sev = child(child(domain, "features")?, "sev").filter(|sev| sev.attribute("supported") == Some("yes"))?;
    let number = |name: &str| text(sev, name).parse().ok();
    Some(SevFacts {
        cbitpos: number("cbitpos")?,
        reduced_phys_bits: number("reducedPhysBits")?,
        max_guests: number("maxGuests"),
    })
}

/// The firmware and the emulated TPMs of the host. `secure`: the capabilities of a machine that can have secure boot.
fn firmware(domain: Node<'_, '_>, secure: Node<'_, '_>, options: &LibvirtOptions) -> FirmwareFacts {
    let of_os = |domain: Node<'_, '_>, name: &str, value: &str| {
        let os = domain.children().filter(|node| node.has_tag_name("os"));
        os.flat_map(|os| enum_values(Some(os), name)).any(|found| found == value)
    };
    let tpm = device(secure, "tpm").filter(|_| options.emulates_tpm);
    let emulates = enum_values(tpm, "backendModel").iter().any(|backend| backend == "emulator");
    // libvirt before 8.6.0 does not list versions. The emulator `swtpm` has versions 1.2 and 2.0.
    let listed = enum_values(tpm, "backendVersion");
    let versions = [TpmVersion::V1_2, TpmVersion::V2_0].into_iter();
    let has =
        |version: &TpmVersion| emulates && (listed.is_empty() || listed.iter().any(|word| word == version.word()));
    FirmwareFacts {
        uefi: of_os(domain, "firmware", "efi"),
        secure_boot: of_os(secure, "firmware", "efi") && of_os(secure, "secure", "yes"),
        by_feature: true,
        tpm_versions: versions.filter(has).collect(),
        tpm_models: enum_values(tpm, "model"),
    }
}

/// The capabilities of one kind of device.
fn device<'a, 'i>(domain: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    child(child(domain, "devices")?, name)
}

/// Whether the host's IOMMU is on. If an old libvirt does not report it, the answer is no.
fn has_iommu(document: &Document<'_>) -> bool {
    let host = child(document.root_element(), "host");
    host.and_then(|host| child(host, "iommu")).is_some_and(|iommu| iommu.attribute("support") == Some("yes"))
}

fn virt_name(kvm: bool) -> &'static str {
    if kvm { "kvm" } else { "qemu" }
}

fn offers_kvm(document: &Document<'_>, arch: &str) -> bool {
    let guests = document.root_element().children().filter(|node| node.has_tag_name("guest"));
    guests
        .filter_map(|guest| child(guest, "arch"))
        .filter(|node| node.attribute("name") == Some(arch))
        .flat_map(|node| node.children())
        .any(|node| node.has_tag_name("domain") && node.attribute("type") == Some("kvm"))
}

/// Why the host emulates its guests; `None` with KVM.
///
/// # Errors
/// The operator demands KVM, and the host's libvirt does not offer it: every guest would fail to start.
fn emulates_because(document: &Document<'_>, cpu: &CpuInfo, virt_type: VirtType) -> DriverResult<Option<&'static str>> {
    const NO_KVM: &str = "its libvirt offers no KVM: load the module kvm_intel or kvm_amd (kvm_hv on POWER), and look whether \
                          QEMU's user may open /dev/kvm. If the module was loaded before QEMU was installed, /dev/kvm does \
                          not belong to the group kvm: run udevadm trigger";
    let offered = offers_kvm(document, &cpu.arch);
    match virt_type {
        VirtType::Qemu => Ok(Some("[libvirt] virt_type is qemu")),
        VirtType::Kvm if offered => Ok(None),
        VirtType::Kvm => {
            let message = format!("[libvirt] virt_type is kvm, but {NO_KVM}");
            Err(DriverError::Failed { call: CALL, message })
        }
        VirtType::Auto if !offered => Ok(Some(NO_KVM)),
        VirtType::Auto if !can_virtualise(cpu) => {
            Ok(Some("its CPU has neither vmx nor svm: switch virtualisation on in the machine's firmware"))
        }
        VirtType::Auto => Ok(None),
    }
}

/// Whether the CPU supports virtualisation. A kernel may offer `/dev/kvm` on a CPU without such support. libvirt then
/// lists the `kvm` type, but no guest starts. Only x86 CPUs report this; elsewhere libvirt's list decides. `virt_type =
/// kvm` overrides the answer.
fn can_virtualise(cpu: &CpuInfo) -> bool {
    !matches!(cpu.arch.as_str(), "x86_64" | "i686")
        || cpu.features.iter().any(|feature| feature == "vmx" || feature == "svm")
}

/// Every feature of the host's CPU, including those that its model implies.
fn expanded_features(connect: &Connect, cpu_xml: &str) -> Option<Vec<String>> {
    let flags = virt_sys::VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES;
    let expanded = connect.baseline_cpu(&[cpu_xml], flags).ok()?;
    let document = Document::parse(&expanded).ok()?;
    let features = cpu_info(document.root_element()).features;
    (!features.is_empty()).then_some(features)
}

fn cpu_info(cpu: Node<'_, '_>) -> CpuInfo {
    let mut features: Vec<_> = cpu
        .children()
        .filter(|node| node.has_tag_name("feature"))
        .filter_map(|node| node.attribute("name").map(str::to_owned))
        .collect();
    features.sort();
    CpuInfo {
        arch: text(cpu, "arch"),
        model: text(cpu, "model"),
        vendor: text(cpu, "vendor"),
        features,
        ..CpuInfo::default()
    }
}

/// The features of the `host-model` CPU in the domain capabilities.
fn emulated_features(domain: Node<'_, '_>) -> Vec<String> {
    let mode =
        domain.descendants().find(|node| node.has_tag_name("mode") && node.attribute("name") == Some("host-model"));
    let features: BTreeSet<_> = mode
        .into_iter()
        .flat_map(|mode| mode.children())
        .filter(|node| node.has_tag_name("feature") && node.attribute("policy") == Some("require"))
        .filter_map(|node| node.attribute("name").map(str::to_owned))
        .collect();
    features.into_iter().collect()
}

/// The CPU features that guests can have. These are the features of the operator's models. If the operator names no
/// model, they are the features of the host's CPU. The operator's flags add and remove features, unless the mode is
/// `none`.
fn guest_features(cpu: &CpuInfo, models: &[CpuModel], mode: CpuMode, options: &LibvirtOptions) -> BTreeSet<String> {
    let mut features: BTreeSet<String> = match models {
        [] => cpu.features.iter().cloned().collect(),
        models => models.iter().flat_map(|model| &model.features).cloned().collect(),
    };
    for flag in options.guests.cpu_flags.iter().filter(|_| mode != CpuMode::None) {
        match flag.wanted {
            true => features.insert(flag.name.clone()),
            false => features.remove(&flag.name),
        };
    }
    features
}

/// The flags that guests get. `presented` are those of `host-model` in the domain capabilities. The features of the host's
/// own CPU would not do, because KVM does not pass on all of them. In the mode `none`, guests get no flags.
fn guest_flags(presented: Vec<String>, models: &[CpuModel], mode: CpuMode, options: &LibvirtOptions) -> Vec<String> {
    let presented = match (mode, models) {
        (CpuMode::None, _) => return Vec::new(),
        (_, []) => presented,
        _ => Vec::new(),
    };
    let cpu = CpuInfo { features: presented, ..CpuInfo::default() };
    guest_features(&cpu, models, mode, options).into_iter().collect()
}

fn enum_values(node: Option<Node<'_, '_>>, name: &str) -> Vec<String> {
    node.into_iter()
        .flat_map(|node| node.descendants())
        .filter(|node| node.has_tag_name("enum") && node.attribute("name") == Some(name))
        .flat_map(|node| node.children())
        .filter_map(|value| value.text().map(|text| text.trim().to_owned()))
        .filter(|text| !text.is_empty())
        .collect()
}

pub(super) fn capabilities(
    connect: &Connect,
    options: &LibvirtOptions,
    known: &ProbedHost,
    uri: &str,
) -> DriverResult<HostCapabilities> {
    let pool = pool::open(connect, options)?;
    let node = connect.node_info().during(CALL)?;
    let space = storage::pool_of_new_disks(connect, options)?.info().during(CALL)?;
    let (hypervisor_version, libvirt_version) =
        (connect.hyp_version().during(CALL)?, connect.lib_version().during(CALL)?);
    let hypervisor_type = connect.driver_type().during(CALL)?;
    if hypervisor_type == QEMU {
        versions::check(options, libvirt_version, hypervisor_version).map_err(DriverError::Unsupported)?;
    }
    Ok(HostCapabilities {
        host: HostId(pool.uuid().during(CALL)?),
        hostname: connect.hostname().during(CALL)?,
        hypervisor_type,
        hypervisor_version,
        libvirt_version,
        host_ip: options.host_ip.clone().unwrap_or_else(|| host_of(uri)),
        vcpus: node.cpus,
        memory_mib: options.guests.file_backed_memory.unwrap_or(node.memory / 1024),
        disk_gib: space.capacity / GIB,
        cpu: known.cpu.clone(),
        kvm: known.facts.kvm,
        emulates_because: known.emulates_because.map(str::to_owned),
        traits: traits(known, options, has_igb(libvirt_version, hypervisor_version)),
        guest_flags: known.guest_flags.clone(),
        encrypted_guests: known.facts.sev.map_or(0, |sev| sev.slots(options.encrypted_guests)),
        pmem: pmem::offered(connect, options)?,
        cells: cells::learn(connect)?,
        pci: if options.reads_pci { pci::learn(connect)? } else { HostPci::default() },
        mdevs: if options.reads_mdevs { mdevs::learn(connect)? } else { Vec::new() },
        iommu: known.iommu,
        emulator_account: known.account.clone(),
    })
}

/// The first libvirt (9.3.0) and QEMU (8.0.0) with interfaces of model `igb`, as in Nova.
const IGB: (u32, u32) = (9_003_000, 8_000_000);

/// The first libvirt (7.9.0) that reads the vital product data of cards, as in Nova. The serial number in this data tells
/// the network service which card serves a remote-managed port.
const REMOTE_MANAGED: u32 = 7_009_000;

fn has_igb(libvirt: u32, hypervisor: u32) -> bool {
    libvirt >= IGB.0 && hypervisor >= IGB.1
}

fn traits(known: &ProbedHost, options: &LibvirtOptions, igb: bool) -> Vec<String> {
    let facts = &known.facts;
    let mut traits = traits::of_host(&known.cpu, &known.guest_features, &facts.video_models, &facts.firmware);
    traits.extend(facts.foreign.iter().map(|foreign| format!("COMPUTE_ARCH_{}", foreign.arch.to_ascii_uppercase())));
    let arches = std::iter::once(&facts.arch).chain(facts.foreign.iter().map(|foreign| &foreign.arch));
    let iommus = arches.flat_map(|arch| IommuModel::traits(arch, facts.libvirt_version));
    traits.extend(iommus.map(str::to_owned));
    let more = [
        (options.guests.file_backed_memory.is_some(), "COMPUTE_MEM_BACKING_FILE"),
        (igb, "COMPUTE_NET_VIF_MODEL_IGB"),
        (facts.libvirt_version >= REMOTE_MANAGED, "COMPUTE_REMOTE_MANAGED_PORTS"),
        (facts.sev.is_some(), SevFacts::TRAIT),
    ];
    traits.extend(more.into_iter().filter(|(has, _)| *has).map(|(_, name)| name.to_owned()));
    traits.sort();
    traits.dedup();
    traits
}

pub(super) fn usage(
    connect: &Connect,
    options: &LibvirtOptions,
    ours: &BTreeSet<InstanceId>,
) -> DriverResult<HostUsage> {
    let pool = storage::pool_of_new_disks(connect, options)?;
    // The pool's numbers are from its last refresh.
    pool::refresh(&pool);
    let space = pool.info().during("usage")?;
    let active = connect.list_all_domains(virt_sys::VIR_CONNECT_LIST_DOMAINS_ACTIVE).during("usage")?;
    // A host whose times cannot be read still answers its heartbeats.
    let cpu = node::cpu_times(connect).ok().flatten();
    let running = active.iter().filter(|domain| domain.uuid().is_ok_and(|uuid| ours.contains(&InstanceId(uuid))));
    Ok(HostUsage {
        memory_used_mib: node::memory_used_mib(connect)?,
        disk_used_gib: space.allocation / GIB,
        disk_free_gib: space.available / GIB,
        running_guests: u32::try_from(running.count()).unwrap_or(u32::MAX),
        uptime_seconds: cpu.map(|times| uptime(times, connect.node_info().map_or(1, |node| node.cpus))),
        cpu,
    })
}

/// The seconds since the host's boot. libvirt does not report them, so they are the mean of the times of all
/// processors. Time that a hypervisor below the host has taken is missing.
fn uptime(times: CpuTimes, cpus: u32) -> u64 {
    let all = [times.kernel, times.user, times.idle, times.iowait].into_iter().fold(0, u64::saturating_add);
    all / u64::from(cpus.max(1)) / 1_000_000_000
}

/// The host of `qemu+tls://user@host:port/system`; the loopback address if the URI has none.
pub(super) fn host_of(uri: &str) -> String {
    let authority = uri.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?']).next().unwrap_or_default());
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    if host.is_empty() { "127.0.0.1".to_owned() } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::options::CpuFlag;

    #[test]
    fn without_cpu_mode_guests_have_the_hosts_model() {
        let modes = [(true, "x86_64"), (true, "aarch64"), (false, "x86_64")];
        let modes = modes.map(|(kvm, arch)| default_cpu_mode(kvm, arch));
        assert_eq!(modes, [CpuMode::HostModel, CpuMode::HostPassthrough, CpuMode::None]);
    }

    /// The flags against flaws of processors, such as `md-clear`, come from the host model or from the operator.
    #[test]
    fn guests_get_the_flags_of_the_host_model_or_of_the_operator() {
        let xml = "<domainCapabilities><cpu><mode name='host-model' supported='yes'><model>Skylake-Server</model><feature \
                   policy='require' name='md-clear'/><feature policy='require' name='vmx'/><feature policy='disable' \
                   name='hle'/></mode></cpu></domainCapabilities>";
        let document = parse(xml).unwrap();
        let presented = emulated_features(document.root_element());
        let flag = |name: &str, wanted| CpuFlag { name: name.to_owned(), wanted };
        let with = |flags: Vec<CpuFlag>, mode, models: &[CpuModel]| {
            let mut options = LibvirtOptions::default();
            options.guests.cpu_flags = flags;
            guest_flags(presented.clone(), models, mode, &options)
        };
        for mode in [CpuMode::HostModel, CpuMode::HostPassthrough] {
            assert_eq!(with(vec![], mode, &[]), ["md-clear", "vmx"]);
        }
        assert_eq!(with(vec![flag("vmx", false)], CpuMode::HostModel, &[]), ["md-clear"]);
        // A named model brings its own features, and the operator adds the flags.
        let model = CpuModel { name: "Skylake-Server".to_owned(), features: ["avx".to_owned()].into() };
        assert_eq!(with(vec![], CpuMode::Custom, std::slice::from_ref(&model)), ["avx"]);
        assert_eq!(with(vec![flag("md-clear", true)], CpuMode::Custom, &[model]), ["avx", "md-clear"]);
        assert_eq!(with(vec![flag("md-clear", true)], CpuMode::None, &[]), [""; 0]);
    }

    /// `[libvirt] virt_type = qemu` emulates guests even where the host has KVM.
    #[test]
    fn guests_are_emulated_if_the_option_says_so_or_if_there_is_no_kvm() {
        let able = CpuInfo { arch: "x86_64".into(), features: vec!["vmx".into()], ..CpuInfo::default() };
        let plain = CpuInfo { features: vec![], ..able.clone() };
        let emulates = |kind: &str, cpu: &CpuInfo, virt_type: VirtType| {
            let xml = format!(
                "<capabilities><guest><os_type>hvm</os_type><arch name='x86_64'><domain type='qemu'/><domain \
                 type='{kind}'/></arch></guest></capabilities>"
            );
            emulates_because(&parse(&xml).unwrap(), cpu, virt_type).map(|reason| reason.is_some()).ok()
        };
        assert_eq!(emulates("kvm", &able, VirtType::Qemu), Some(true));
        assert_eq!(emulates("kvm", &able, VirtType::Kvm), Some(false));
        assert_eq!(emulates("kvm", &able, VirtType::Auto), Some(false));
        assert_eq!(emulates("kvm", &plain, VirtType::Auto), Some(true));
        assert_eq!(emulates("xen", &able, VirtType::Auto), Some(true));
        assert_eq!(emulates("xen", &able, VirtType::Kvm), None, "a host without KVM is accepted");
    }

    /// A host with vmx or svm, and a libvirt that offers KVM, runs its guests with KVM. Otherwise the reason says what
    /// an operator can do.
    #[test]
    fn a_host_that_cannot_use_kvm_names_the_cause() {
        let decides = |arch: &str, features: &[&str], kvm: bool, virt_type: VirtType| {
            let kvm = if kvm { "<domain type='kvm'/>" } else { "" };
            let xml = format!(
                "<capabilities><guest><os_type>hvm</os_type><arch name='{arch}'><domain type='qemu'/>{kvm}</arch></guest>\
                 </capabilities>"
            );
            let features = features.iter().map(ToString::to_string).collect();
            let cpu = CpuInfo { arch: arch.to_owned(), features, ..CpuInfo::default() };
            match emulates_because(&parse(&xml).unwrap(), &cpu, virt_type) {
                Ok(reason) => reason.unwrap_or("KVM").to_owned(),
                Err(error) => error.to_string(),
            }
        };
        for flag in ["vmx", "svm"] {
            assert_eq!(decides("x86_64", &["sse", flag], true, VirtType::Auto), "KVM", "{flag}");
        }
        // Other architectures show no such flag.
        assert_eq!(decides("ppc64le", &[], true, VirtType::Auto), "KVM");
        let firmware = decides("x86_64", &["sse"], true, VirtType::Auto);
        assert!(firmware.contains("neither vmx nor svm") && firmware.contains("machine's firmware"), "{firmware}");
        for virt_type in [VirtType::Auto, VirtType::Kvm] {
            let modules = decides("x86_64", &["vmx"], false, virt_type);
            for words in ["kvm_intel", "kvm_amd", "kvm_hv", "/dev/kvm", "group kvm: run udevadm trigger"] {
                assert!(modules.contains(words), "{words} is not in {modules}");
            }
            assert_eq!(modules.contains("virt_type is kvm"), virt_type == VirtType::Kvm, "{modules}");
        }
    }

    #[test]
    fn a_host_encrypts_memory_if_its_domain_capabilities_say_so() {
        let of = |inner: &str| {
            let xml =
                format!("<domainCapabilities><features><gic supported='no'/>{inner}</features></domainCapabilities>");
            sev(parse(&xml).unwrap().root_element())
        };
        let numbers = "<cbitpos>51</cbitpos><reducedPhysBits>1</reducedPhysBits>";
        let facts = |max_guests| Some(SevFacts { cbitpos: 51, reduced_phys_bits: 1, max_guests });
        assert_eq!(of(&format!("<sev supported='yes'>{numbers}</sev>")), facts(None), "libvirt before 8.0.0");
        let more = format!("{numbers}<maxGuests>59</maxGuests><maxESGuests>450</maxESGuests>");
        assert_eq!(of(&format!("<sev supported='yes'>{more}</sev>")), facts(Some(59)));
        assert_eq!(of("<sev supported='no'/>"), None);
        assert_eq!(of(""), None);
        assert_eq!(sev(parse("<domainCapabilities/>").unwrap().root_element()), None);
    }

    #[test]
    fn an_iommu_is_on_if_libvirt_says_so() {
        let of = |inner: &str| {
            let xml = format!("<capabilities><host><cpu/>{inner}</host><guest/></capabilities>");
            has_iommu(&parse(&xml).unwrap())
        };
        assert!(of("<iommu support='yes'/>"));
        assert!(!of("<iommu support='no'/>") && !of(""));
    }

    #[test]
    fn the_uptime_is_the_time_that_each_processor_has_counted() {
        let second = 1_000_000_000;
        let times =
            CpuTimes { kernel: 10 * second, user: 30 * second, idle: 150 * second, iowait: 10 * second, mhz: 1 };
        assert_eq!((uptime(times, 4), uptime(times, 1), uptime(times, 0)), (50, 200, 200));
    }

    #[test]
    fn igb_needs_a_libvirt_and_a_qemu_that_have_it() {
        assert!(has_igb(9_003_000, 8_000_000));
        assert!(!has_igb(9_002_000, 8_002_000) && !has_igb(10_000_000, 7_002_000));
    }

    #[test]
    fn the_host_of_a_uri_is_found() {
        for (uri, host) in [
            ("qemu:///system", "127.0.0.1"),
            ("qemu+tls://node1/system?pkipath=/x", "node1"),
            ("qemu+ssh://root@10.0.0.7:2222/system", "10.0.0.7"),
            ("qemu+tcp://[fd00::7]:16509/system", "fd00::7"),
            ("test:///default", "127.0.0.1"),
        ] {
            assert_eq!(host_of(uri), host, "{uri}");
        }
    }
}
