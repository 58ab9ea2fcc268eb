//! Rebuilds and rescues simulated guests, and copies their disks.

use std::collections::BTreeSet;

use bytes::Bytes;
use chronova_events::ids::{ImageId, InstanceId};

use super::journal::SimChange;
use super::machine::{SimMachine, not_cached};
use super::qcow2;
use crate::driver::{DriverError, DriverResult};
use crate::guest::{GuestSpec, ImageFormat, Quiesce, Renew};

impl SimMachine {
    /// Switches the guest off, changes its definition and switches it on.
    pub(super) fn redefine(&mut self, spec: &GuestSpec, renew: Renew) -> DriverResult<()> {
        let instance = spec.instance;
        if !self.guests.contains_key(&instance) {
            if matches!(renew, Renew::Definition | Renew::AtStart) {
                return Err(DriverError::NoSuchGuest(instance));
            }
            self.spawn(spec)?;
        }
        let known = self.guest(instance)?;
        if renew == Renew::AtStart && (known.is_on() || known.saved) {
            return self.start(instance);
        }
        if let Some(rescue) = &spec.rescue
            && !self.has_image(&rescue.image)
        {
            return Err(not_cached(&rescue.image));
        }
        if let (Renew::Root | Renew::All, Some(root)) = (renew, &spec.root) {
            if !self.has_image(&root.image) {
                return Err(not_cached(&root.image));
            }
            self.base_root(spec)?;
            if let Some(guest) = self.guests.get_mut(&instance) {
                guest.disks += 1;
            }
        }
        if let Some(rescue) = &spec.rescue {
            self.base(instance, super::image_caches::RESCUE, &rescue.image)?;
        }
        self.power_off(instance)?;
        self.require_processors(&spec.pinning)?;
        self.require_devices(instance, &spec.devices)?;
        self.require_nic_devices(instance, &spec.nics)?;
        self.pin(instance, &spec.pinning);
        self.pass(instance, &spec.devices);
        self.pass_nics(instance, &spec.nics);
        let rescued = self.guest(instance)?.rescued;
        match spec.rescue.is_some() {
            true if !rescued => self.change(&SimChange::Rescue(instance))?,
            false if rescued => self.change(&SimChange::NoRescue(instance))?,
            _ => {}
        }
        self.reboot(instance)
    }

    pub(super) fn copy_root(
        &mut self,
        instance: InstanceId,
        copy: ImageId,
        format: ImageFormat,
        quiesce: Quiesce,
    ) -> DriverResult<()> {
        // A freeze lasts only until the copy begins. A simulated copy begins at once, so nothing is frozen.
        if self.guest(instance)?.is_on() && quiesce == Quiesce::Required {
            self.require_agent("quiesce", instance)?;
        }
        match format {
            ImageFormat::Qcow2 => self.raw_copies.remove(&copy),
            ImageFormat::Raw | ImageFormat::Iso => self.raw_copies.insert(copy),
        };
        match self.copies.contains(&(instance, copy)) {
            true => Ok(()),
            false => self.change(&SimChange::Copy(instance, copy)),
        }
    }

    /// The content of a copy: the guest, and how often its disk was created. This is enough to distinguish two disks.
    pub(super) fn copied(&self, instance: InstanceId, copy: ImageId) -> DriverResult<Bytes> {
        let guest = self.guest(instance)?;
        if !self.copies.contains(&(instance, copy)) {
            return Err(DriverError::Failed { call: "read copy", message: "there is no such copy".to_owned() });
        }
        if self.raw_copies.contains(&copy) {
            return Ok(Bytes::from(format!("raw {instance} {}", guest.disks)));
        }
        Ok(qcow2::empty(guest.disk_gib.max(1) << 30, &format!("{instance} {}", guest.disks)))
    }

    pub(super) fn remove_copy(&mut self, instance: InstanceId, copy: ImageId) -> DriverResult<()> {
        match self.copies.contains(&(instance, copy)) {
            true => self.change(&SimChange::NoCopy(instance, copy)),
            false => Ok(()),
        }
    }

    pub(super) fn copies(&self) -> &BTreeSet<(InstanceId, ImageId)> {
        &self.copies
    }
}
