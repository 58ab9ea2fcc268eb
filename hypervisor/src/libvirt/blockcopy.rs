//! Copies a disk under a running guest: the calls that the safe bindings lack.

#![allow(unsafe_code)]

use std::ffi::CString;

use virt::domain::Domain;
use virt::error::Error;
use virt_sys as sys;

use super::error::Context;
use crate::driver::{DriverError, DriverResult};

const CALL: &str = "disk exchange";

/// The progress of a copy of a disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockJobProgress {
    copied: u64,
    of: u64,
}

impl BlockJobProgress {
    /// Whether the copy is complete. From then on every write goes to both disks.
    pub(super) fn is_ready(self) -> bool {
        self.of > 0 && self.copied >= self.of
    }
}

fn text(value: &str) -> DriverResult<CString> {
    CString::new(value).map_err(|_| DriverError::Failed { call: CALL, message: "a text contains a NUL".to_owned() })
}

/// Copies the disk `device` to the existing volume in `xml`. `synchronous`: once the copy is complete, a write of the
/// guest ends when both disks have it (libvirt 8.0.0).
pub(super) fn begin(domain: &Domain, device: &str, xml: &str, synchronous: bool) -> DriverResult<()> {
    let (device, xml) = (text(device)?, text(xml)?);
    // The guest stays defined meanwhile. A crash of its host ends the copy.
    let writes = if synchronous { sys::VIR_DOMAIN_BLOCK_COPY_SYNCHRONOUS_WRITES } else { 0 };
    let flags = sys::VIR_DOMAIN_BLOCK_COPY_REUSE_EXT | sys::VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB | writes;
    // SAFETY: the domain is alive (we hold a reference). Both texts end with a zero and outlive the call. No parameters
    // are given.
    let result = unsafe {
        sys::virDomainBlockCopy(domain.as_ptr(), device.as_ptr(), xml.as_ptr(), std::ptr::null_mut(), 0, flags)
    };
    if result < 0 { Err(Error::last_error()).during(CALL) } else { Ok(()) }
}

/// The progress of the copy; `None` if no copy is running.
pub(super) fn progress(domain: &Domain, device: &str) -> DriverResult<Option<BlockJobProgress>> {
    let device = text(device)?;
    let mut info = sys::virDomainBlockJobInfo { type_: 0, bandwidth: 0, cur: 0, end: 0 };
    // SAFETY: as in `begin`; `info` is a live structure of the type that the call fills.
    let result = unsafe { sys::virDomainGetBlockJobInfo(domain.as_ptr(), device.as_ptr(), &raw mut info, 0) };
    match result {
        0 => Ok(None),
        1 => Ok(Some(BlockJobProgress { copied: info.cur, of: info.end })),
        _ => Err(Error::last_error()).during(CALL),
    }
}

/// Ends the copy: from now on the guest uses only the new disk.
pub(super) fn pivot(domain: &Domain, device: &str) -> DriverResult<()> {
    end(domain, device, sys::VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
}

/// Ends the copy: the guest keeps the old disk.
pub(super) fn abandon(domain: &Domain, device: &str) -> DriverResult<()> {
    end(domain, device, 0)
}

fn end(domain: &Domain, device: &str, flags: u32) -> DriverResult<()> {
    let device = text(device)?;
    // SAFETY: as in `begin`.
    let result = unsafe { sys::virDomainBlockJobAbort(domain.as_ptr(), device.as_ptr(), flags) };
    if result < 0 { Err(Error::last_error()).during(CALL) } else { Ok(()) }
}
