//! Reads the properties of a host from libvirt's capabilities, domain capabilities and node information.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::{HostId, InstanceId};
use roxmltree::{Document, Node};
use virt::connect::Connect;

use super::error::Context;
use super::{cells, node, pool, storage};
use crate::domain_xml::HostFacts;
use crate::driver::{DriverError, DriverResult};
use crate::guest::{CpuInfo, HostCapabilities, HostUsage};
use crate::options::{CpuMode, LibvirtOptions, VirtType};
use crate::traits;

const CALL: &str = "capabilities";
const GIB: u64 = 1 << 30;

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
    uefi: bool,
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
    let kvm = match options.virt_type {
        VirtType::Kvm => true,
        VirtType::Qemu => false,
        VirtType::Auto => offers_kvm(&document, &arch) && can_virtualise(&cpu),
    };
    // Some drivers have no domain capabilities (`test:///`), so they report less.
    let domain_xml = connect
        .domain_capabilities(None, Some(&arch), options.machine_types.chosen(&arch), Some(virt_name(kvm)), 0)
        .unwrap_or_else(|_| "<domainCapabilities/>".to_owned());
    let domain = parse(&domain_xml)?;
    let domain = domain.root_element();

    if !kvm {
        // Under emulation a guest sees the features of the emulator, not those of the host's CPU.
        cpu.features = emulated_features(domain);
    }
    let node = connect.node_info().during(CALL)?;
    (cpu.sockets, cpu.cores, cpu.threads) = (node.sockets * node.nodes.max(1), node.cores, node.threads);
    let mode = options.cpu_mode.unwrap_or(if kvm { CpuMode::HostModel } else { CpuMode::None });
    let machine_type = options.machine_types.chosen(&arch).map(str::to_owned);
    let facts = HostFacts {
        arch,
        kvm,
        cpu_mode: mode,
        cpu_models: options.cpu_models.clone(),
        machine_type,
        pool_path: options.pool_path.clone(),
        places: BTreeMap::new(),
        direct_io: true,
        screens: options.screens.clone(),
        video_models: enum_values(domain, "modelType"),
        host_uuid: host.and_then(|host| child(host, "uuid")).and_then(|node| node.text()).map(str::to_owned),
        guests: options.guests.clone(),
    };
    let uefi = domain
        .children()
        .filter(|node| node.has_tag_name("os"))
        .flat_map(|os| enum_values(os, "firmware"))
        .any(|firmware| firmware == "efi");
    Ok(ProbedHost { facts, cpu, uefi })
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

/// Whether the CPU supports virtualisation. A kernel may offer `/dev/kvm` although its CPU has no such support: then
/// libvirt lists the `kvm` type, but no guest starts. Only x86 CPUs report this; elsewhere libvirt's list decides.
/// `virt_type = kvm` overrides the answer.
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

fn enum_values(node: Node<'_, '_>, name: &str) -> Vec<String> {
    node.descendants()
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
    Ok(HostCapabilities {
        host: HostId(pool.uuid().during(CALL)?),
        hostname: connect.hostname().during(CALL)?,
        hypervisor_type: connect.driver_type().during(CALL)?,
        hypervisor_version: connect.hyp_version().during(CALL)?,
        libvirt_version: connect.lib_version().during(CALL)?,
        host_ip: options.host_ip.clone().unwrap_or_else(|| host_of(uri)),
        vcpus: node.cpus,
        memory_mib: node.memory / 1024,
        disk_gib: space.capacity / GIB,
        cpu: known.cpu.clone(),
        kvm: known.facts.kvm,
        traits: traits::of_host(&known.cpu, &known.facts.video_models, known.uefi),
        cells: cells::learn(connect)?,
    })
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
    let running = active.iter().filter(|domain| domain.uuid().is_ok_and(|uuid| ours.contains(&InstanceId(uuid))));
    Ok(HostUsage {
        memory_used_mib: node::memory_used_mib(connect)?,
        disk_used_gib: space.allocation / GIB,
        disk_free_gib: space.available / GIB,
        running_guests: u32::try_from(running.count()).unwrap_or(u32::MAX),
        uptime_seconds: None,
    })
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
    use super::*;

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
