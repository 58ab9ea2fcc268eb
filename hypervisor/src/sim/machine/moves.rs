//! Guests that arrive from another machine or leave for one.
//!
//! A disk without a domain is a leftover (`leaks`) until the guest is installed over it, as on a real host.

use chronova_events::ids::InstanceId;

use super::SimMachine;
use crate::capability::disk_transfer::DiskFile;
use crate::driver::{DriverError, DriverResult};
use crate::guest::GuestSpec;
use crate::sim::journal::SimChange;

/// The content of a simulated disk.
pub(in crate::sim) const CONTENT: &[u8] = b"simulated disk";

impl SimMachine {
    pub(in crate::sim) fn disk_files(&self, instance: InstanceId) -> Vec<DiskFile> {
        let mut disks = Vec::new();
        if let Some(guest) = self.guests.get(&instance) {
            disks.push(file("_disk", guest.disk_gib));
        } else if self.leaks.contains(&instance) {
            disks.push(file("_disk", 0));
        }
        if self.kept.contains(&instance) {
            disks.push(Self::kept_file());
        }
        disks
    }

    pub(in crate::sim) fn kept_file() -> DiskFile {
        file("_kept_disk", 0)
    }

    pub(in crate::sim) fn require_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<()> {
        match self.disk_files(instance).iter().any(|known| known.suffix == disk.suffix) {
            true => Ok(()),
            false => Err(failed("read_disk", "there is no such disk")),
        }
    }

    pub(in crate::sim) fn take_disk(&mut self, instance: InstanceId, disk: &DiskFile) -> DriverResult<()> {
        match (disk.is_kept(), self.guests.get(&instance)) {
            (true, _) => self.change(&SimChange::Keep(instance)),
            (false, Some(guest)) if guest.is_on() => Err(failed("receive_disk", "the guest runs")),
            (false, Some(_)) => Ok(()),
            (false, None) => self.change(&SimChange::Leak(instance)),
        }
    }

    pub(in crate::sim) fn remove_disk(&mut self, instance: InstanceId, disk: &DiskFile) -> DriverResult<()> {
        match disk.is_kept() && self.kept.contains(&instance) {
            true => self.change(&SimChange::Unkeep(instance)),
            false => Ok(()),
        }
    }

    pub(in crate::sim) fn provide(&mut self, spec: &GuestSpec) -> DriverResult<()> {
        if self.guests.contains_key(&spec.instance) {
            return Ok(());
        }
        self.require_surroundings(spec)?;
        self.change(&SimChange::Leak(spec.instance))?;
        self.base_root(spec)
    }

    /// Defines a guest whose disks exist, and starts the guest if `on`. `shared`: disks that are missing here may be on
    /// shared storage.
    pub(in crate::sim) fn install(&mut self, spec: &GuestSpec, on: bool, shared: bool) -> DriverResult<()> {
        let instance = spec.instance;
        let known = self.guests.get(&instance);
        if known.is_some_and(|guest| on && guest.is_on()) {
            return Ok(());
        }
        if known.is_some_and(super::SimGuest::is_on) {
            return Err(failed("install", "the guest runs"));
        }
        let fresh = known.is_none();
        if fresh {
            self.require_surroundings(spec)?;
            if !shared && !self.leaks.contains(&instance) {
                return Err(failed("install", "its disks are not on this host"));
            }
        }
        self.define(spec)?;
        if self.leaks.contains(&instance) {
            self.change(&SimChange::Tidy(instance))?;
        }
        if on { self.start(instance) } else { Ok(()) }
    }
}

fn file(suffix: &str, gib: u64) -> DiskFile {
    DiskFile { suffix: suffix.to_owned(), size: CONTENT.len() as u64, capacity: gib << 30, raw: false }
}

fn failed(call: &'static str, message: &str) -> DriverError {
    DriverError::Failed { call, message: message.to_owned() }
}
