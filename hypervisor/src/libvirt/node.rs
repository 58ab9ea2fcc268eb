//! The host's identity, and its statistics of memory and processors, which the safe bindings lack.

#![allow(unsafe_code)]

use std::ffi::CStr;

use roxmltree::Document;
use uuid::Uuid;
use virt::connect::Connect;
use virt::error::Error;
use virt_sys as sys;

use super::error::{Context as _, translate};
use crate::driver::{DriverError, DriverResult};
use crate::guest::CpuTimes;

const HOST: &str = "capabilities";
const CALL: &str = "memory statistics";

/// The host's UUID as libvirt reports it; `None` for drivers without one (`test:///`).
pub(super) fn host_uuid(connect: &Connect) -> DriverResult<Option<Uuid>> {
    let xml = connect.capabilities().during(HOST)?;
    let document =
        Document::parse(&xml).map_err(|error| DriverError::Failed { call: HOST, message: error.to_string() })?;
    let host = document.root_element().children().find(|child| child.has_tag_name("host"));
    let uuid = host.and_then(|host| host.children().find(|child| child.has_tag_name("uuid")));
    Ok(uuid.and_then(|uuid| uuid.text()).and_then(|text| text.trim().parse().ok()))
}

/// The memory in use, in MiB. As in Nova: total - free - buffers - cached.
pub(super) fn memory_used_mib(connect: &Connect) -> DriverResult<u64> {
    let stats = match memory_stats(connect) {
        Ok(stats) => stats,
        // A driver without statistics (`test:///`) reports no usage.
        Err(error) if super::error::is(&error, virt::error::ErrorNumber::NoSupport) => return Ok(0),
        Err(error) => return Err(translate(CALL, &error)),
    };
    let get = |name: &str| stats.iter().find(|(field, _)| field == name).map_or(0, |(_, kib)| *kib);
    let reclaimable = get("free") + get("buffers") + get("cached");
    Ok(get("total").saturating_sub(reclaimable) / 1024)
}

fn memory_stats(connect: &Connect) -> Result<Vec<(String, u64)>, Error> {
    const ALL: i32 = sys::VIR_NODE_MEMORY_STATS_ALL_CELLS;
    let mut count = 0;
    // SAFETY: the connection is alive. A null array with zero elements requests the number of fields.
    if unsafe { sys::virNodeGetMemoryStats(connect.as_ptr(), ALL, std::ptr::null_mut(), &raw mut count, 0) } < 0 {
        return Err(Error::last_error());
    }
    let empty = sys::virNodeMemoryStats { field: [0; 80], value: 0 };
    let mut stats = vec![empty; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the array has `count` elements, and the call gets that number. The call writes at most `count` elements
    // and sets `count`.
    if unsafe { sys::virNodeGetMemoryStats(connect.as_ptr(), ALL, stats.as_mut_ptr(), &raw mut count, 0) } < 0 {
        return Err(Error::last_error());
    }
    stats.truncate(usize::try_from(count).unwrap_or(0));
    // SAFETY: libvirt writes NUL-terminated names into the fields, and the arrays were zero before.
    let name = |stat: &sys::virNodeMemoryStats| unsafe { CStr::from_ptr(stat.field.as_ptr()) };
    Ok(stats.iter().map(|stat| (name(stat).to_string_lossy().into_owned(), stat.value)).collect())
}

/// The times of the host's processors; `None` for a driver without statistics (`test:///`).
pub(super) fn cpu_times(connect: &Connect) -> DriverResult<Option<CpuTimes>> {
    const CALL: &str = "processor statistics";
    let stats = match cpu_stats(connect) {
        Ok(stats) => stats,
        Err(error) if super::error::is(&error, virt::error::ErrorNumber::NoSupport) => return Ok(None),
        Err(error) => return Err(translate(CALL, &error)),
    };
    let get = |name: &str| stats.iter().find(|(field, _)| field == name).map_or(0, |(_, time)| *time);
    let mhz = connect.node_info().during(CALL)?.mhz;
    Ok(Some(CpuTimes { kernel: get("kernel"), user: get("user"), idle: get("idle"), iowait: get("iowait"), mhz }))
}

fn cpu_stats(connect: &Connect) -> Result<Vec<(String, u64)>, Error> {
    const ALL: i32 = sys::VIR_NODE_CPU_STATS_ALL_CPUS;
    let mut count = 0;
    // SAFETY: the connection is alive. A null array with zero elements requests the number of fields.
    if unsafe { sys::virNodeGetCPUStats(connect.as_ptr(), ALL, std::ptr::null_mut(), &raw mut count, 0) } < 0 {
        return Err(Error::last_error());
    }
    let empty = sys::virNodeCPUStats { field: [0; 80], value: 0 };
    let mut stats = vec![empty; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the array has `count` elements, and the call gets that number. The call writes at most `count` elements
    // and sets `count`.
    if unsafe { sys::virNodeGetCPUStats(connect.as_ptr(), ALL, stats.as_mut_ptr(), &raw mut count, 0) } < 0 {
        return Err(Error::last_error());
    }
    stats.truncate(usize::try_from(count).unwrap_or(0));
    // SAFETY: libvirt writes NUL-terminated names into the fields, and the arrays were zero before.
    let name = |stat: &sys::virNodeCPUStats| unsafe { CStr::from_ptr(stat.field.as_ptr()) };
    Ok(stats.iter().map(|stat| (name(stat).to_string_lossy().into_owned(), stat.value)).collect())
}
