//! Reads the counters of guests, and sends interrupts to guests. The safe bindings lack two of these calls.

#![allow(unsafe_code)]

use roxmltree::{Document, Node};
use virt::domain::{Domain, DomainState};
use virt::enumutil::Enum;
use virt::error::Error;
use virt_sys as sys;

use super::error::Context;
use crate::driver::{DriverError, DriverResult};
use crate::guest::{Diagnostics, DiskCounters, NicCounters};

const CALL: &str = "diagnostics";

pub(super) fn interrupt(domain: &Domain) -> DriverResult<()> {
    // SAFETY: the domain is alive (we hold a reference), and the call takes no other pointer.
    match unsafe { sys::virDomainInjectNMI(domain.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(Error::last_error()).during("interrupt"),
    }
}

pub(super) fn diagnostics(domain: &Domain) -> DriverResult<Diagnostics> {
    let info = domain.info().during(CALL)?;
    if !matches!(info.state, Enum::Known(DomainState::Running | DomainState::Blocked | DomainState::Paused)) {
        return Err(DriverError::Failed { call: CALL, message: "the guest is not running".to_owned() });
    }
    let xml = domain.xml_desc(0).during(CALL)?;
    let failed = |error| DriverError::Failed { call: CALL, message: format!("the domain cannot be read: {error}") };
    let document = Document::parse(&xml).map_err(failed)?;
    let root = document.root_element();
    Ok(Diagnostics {
        hypervisor: root.attribute("type").unwrap_or_default().to_owned(),
        cpu_nanoseconds: cpu_times(domain, info.nr_virt_cpu),
        memory_max_kib: info.max_mem,
        memory_kib: info.memory,
        memory: memory(domain),
        disks: devices(root, "disk").filter_map(|disk| disk_counters(domain, disk)).collect(),
        nics: devices(root, "interface").filter_map(|nic| nic_counters(domain, nic)).collect(),
    })
}

/// The CPU time of each processor; empty if the hypervisor does not report it.
fn cpu_times(domain: &Domain, count: u32) -> Vec<u64> {
    let empty = sys::virVcpuInfo { number: 0, state: 0, cpuTime: 0, cpu: 0 };
    let mut cpus = vec![empty; count as usize];
    let room = i32::try_from(cpus.len()).unwrap_or(i32::MAX);
    // SAFETY: the array has `room` elements, and the call gets that number. A null map with length 0 requests no CPU
    // maps.
    let found = unsafe { sys::virDomainGetVcpus(domain.as_ptr(), cpus.as_mut_ptr(), room, std::ptr::null_mut(), 0) };
    cpus.truncate(usize::try_from(found).unwrap_or(0));
    cpus.sort_by_key(|cpu| cpu.number);
    cpus.iter().map(|cpu| cpu.cpuTime).collect()
}

/// The memory statistics with the names of the Python bindings, which Nova uses.
fn memory(domain: &Domain) -> Vec<(String, u64)> {
    let name = |tag: u32| {
        Some(match tag {
            sys::VIR_DOMAIN_MEMORY_STAT_SWAP_IN => "swap_in",
            sys::VIR_DOMAIN_MEMORY_STAT_SWAP_OUT => "swap_out",
            sys::VIR_DOMAIN_MEMORY_STAT_MAJOR_FAULT => "major_fault",
            sys::VIR_DOMAIN_MEMORY_STAT_MINOR_FAULT => "minor_fault",
            sys::VIR_DOMAIN_MEMORY_STAT_UNUSED => "unused",
            sys::VIR_DOMAIN_MEMORY_STAT_AVAILABLE => "available",
            sys::VIR_DOMAIN_MEMORY_STAT_ACTUAL_BALLOON => "actual",
            sys::VIR_DOMAIN_MEMORY_STAT_RSS => "rss",
            sys::VIR_DOMAIN_MEMORY_STAT_USABLE => "usable",
            sys::VIR_DOMAIN_MEMORY_STAT_LAST_UPDATE => "last_update",
            sys::VIR_DOMAIN_MEMORY_STAT_DISK_CACHES => "disk_caches",
            _ => return None,
        })
    };
    let stats = domain.memory_stats(0).unwrap_or_default();
    stats.into_iter().filter_map(|stat| Some((name(stat.tag)?.to_owned(), stat.val))).collect()
}

fn devices<'a, 'd>(domain: Node<'a, 'd>, kind: &'static str) -> impl Iterator<Item = Node<'a, 'd>> {
    let list = domain.children().filter(|node| node.has_tag_name("devices")).flat_map(|devices| devices.children());
    list.filter(move |node| node.has_tag_name(kind))
}

fn part<'a>(device: Node<'a, '_>, element: &str, attribute: &str) -> Option<&'a str> {
    device.children().find(|node| node.has_tag_name(element))?.attribute(attribute)
}

fn disk_counters(domain: &Domain, disk: Node<'_, '_>) -> Option<DiskCounters> {
    let device = part(disk, "target", "dev")?;
    let stats = domain.block_stats(device).ok()?;
    Some(DiskCounters {
        device: device.to_owned(),
        read_requests: stats.rd_req,
        read_bytes: stats.rd_bytes,
        write_requests: stats.wr_req,
        write_bytes: stats.wr_bytes,
        errors: stats.errs,
    })
}

/// Counters of an interface; `None` if the host has no device of its name.
fn nic_counters(domain: &Domain, nic: Node<'_, '_>) -> Option<NicCounters> {
    let mac = part(nic, "mac", "address").unwrap_or_default().to_owned();
    let device = part(nic, "target", "dev")?;
    let stats = domain.interface_stats(device).ok()?;
    Some(NicCounters {
        device: device.to_owned(),
        mac,
        rx_bytes: stats.rx_bytes,
        rx_packets: stats.rx_packets,
        rx_errors: stats.rx_errs,
        rx_drop: stats.rx_drop,
        tx_bytes: stats.tx_bytes,
        tx_packets: stats.tx_packets,
        tx_errors: stats.tx_errs,
        tx_drop: stats.tx_drop,
    })
}
