//! Attaches and detaches the interfaces and volumes of a simulated guest, and reports its counters.

use chronova_events::ids::InstanceId;

use super::journal::SimChange;
use super::machine::{SimMachine, not_running};
use crate::capability::device_locations::{DeviceKind, GuestDevice};
use crate::driver::{DriverError, DriverResult};
use crate::guest::{Diagnostics, DiskCounters, Nic, NicCounters, NicPlug};

impl SimMachine {
    pub(super) fn require_cable(&self, call: &'static str, nic: &Nic) -> DriverResult<()> {
        let failed = |message: String| Err(DriverError::Failed { call, message });
        if nic.plug == NicPlug::Network && !self.networks.contains(&nic.network) {
            return failed(format!("network {} is not on this host", nic.network));
        }
        match &nic.filter {
            Some(filter) if !self.filters.contains(filter) => failed(format!("filter {filter} is not on this host")),
            _ => Ok(()),
        }
    }

    pub(super) fn attach_nic(&mut self, instance: InstanceId, nic: &Nic) -> DriverResult<()> {
        if self.guest(instance)?.nics.contains(&nic.mac) {
            return Ok(());
        }
        self.require_cable("attach_nic", nic)?;
        self.require_nic_devices(instance, std::slice::from_ref(nic))?;
        self.change(&SimChange::PlugNic(instance, nic.mac.clone()))?;
        self.pass_nics(instance, std::slice::from_ref(nic));
        Ok(())
    }

    pub(super) fn detach_nic(&mut self, instance: InstanceId, mac: &str) -> DriverResult<()> {
        let guest = self.guest(instance)?;
        if !guest.nics.contains(mac) {
            return Ok(());
        }
        if guest.clings && guest.is_on() {
            let message = "the guest did not release the device".to_owned();
            return Err(DriverError::Failed { call: "detach_nic", message });
        }
        self.change(&SimChange::UnplugNic(instance, mac.to_owned()))
    }

    pub(super) fn nics(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        Ok(self.guest(instance)?.nics.iter().cloned().collect())
    }

    /// All devices are on one PCI bus: interfaces by MAC address from slot 3 on, volumes by serial from slot 16 on.
    pub(super) fn devices(&self, instance: InstanceId) -> DriverResult<Vec<GuestDevice>> {
        let guest = self.guest(instance)?;
        let at =
            |kind, slot: usize| GuestDevice { kind, bus: Some("pci"), address: Some(format!("0000:00:{slot:02x}.0")) };
        let volume = |(number, serial): (usize, &String)| {
            let target = format!("disk{number}");
            at(DeviceKind::Disk { serial: Some(serial.clone()), target }, 16 + number)
        };
        let nic = |(number, mac): (usize, &String)| at(DeviceKind::Nic { mac: mac.to_ascii_lowercase() }, 3 + number);
        let volumes = guest.volumes.iter().enumerate().map(volume);
        Ok(volumes.chain(guest.nics.iter().enumerate().map(nic)).collect())
    }

    pub(super) fn set_deaf(&mut self, instance: InstanceId, deaf: bool) -> DriverResult<()> {
        let guest = self.guests.get_mut(&instance).ok_or(DriverError::NoSuchGuest(instance))?;
        guest.deaf = deaf;
        Ok(())
    }

    pub(super) fn set_clings(&mut self, instance: InstanceId, clings: bool) -> DriverResult<()> {
        let guest = self.guests.get_mut(&instance).ok_or(DriverError::NoSuchGuest(instance))?;
        guest.clings = clings;
        Ok(())
    }

    /// A simulated guest reports only its type, vCPUs, memory and devices. All other counters are 0.
    pub(super) fn diagnostics(&self, instance: InstanceId) -> DriverResult<Diagnostics> {
        let guest = self.guest(instance)?;
        if !guest.is_on() {
            return Err(not_running("diagnostics"));
        }
        let kib = guest.memory_mib * 1024;
        Ok(Diagnostics {
            hypervisor: if self.uri.kvm { "kvm" } else { "qemu" }.to_owned(),
            cpu_nanoseconds: vec![0; guest.vcpus as usize],
            memory_max_kib: kib,
            memory_kib: kib,
            memory: vec![("actual".to_owned(), kib)],
            disks: vec![DiskCounters { device: "vda".to_owned(), ..DiskCounters::default() }],
            nics: guest.nics.iter().map(|mac| NicCounters { mac: mac.clone(), ..NicCounters::default() }).collect(),
        })
    }

    pub(super) fn attach_disk(&mut self, instance: InstanceId, serial: &str) -> DriverResult<()> {
        match self.guest(instance)?.volumes.contains(serial) {
            true => Ok(()),
            false => self.change(&SimChange::Plug(instance, serial.to_owned())),
        }
    }

    pub(super) fn detach_disk(&mut self, instance: InstanceId, serial: &str) -> DriverResult<()> {
        let guest = self.guest(instance)?;
        if !guest.volumes.contains(serial) {
            return Ok(());
        }
        if guest.is_on() && guest.clings {
            let message = format!("the guest does not release the disk {serial}");
            return Err(DriverError::Failed { call: "disk detachment", message });
        }
        self.change(&SimChange::Unplug(instance, serial.to_owned()))
    }

    pub(super) fn resize_disk(&mut self, instance: InstanceId, serial: &str) -> DriverResult<()> {
        let guest = self.guest(instance)?;
        if guest.is_on() && !guest.volumes.contains(serial) {
            let message = format!("the guest has no disk {serial}");
            return Err(DriverError::Failed { call: "disk resize", message });
        }
        Ok(())
    }

    /// Begins to copy `old` to `new`, unless the guest has `new`.
    pub(super) fn begin_swap(&mut self, instance: InstanceId, old: &str, new: &str) -> DriverResult<()> {
        let guest = self.guests.get_mut(&instance).ok_or(DriverError::NoSuchGuest(instance))?;
        if !guest.volumes.contains(new) && guest.volumes.contains(old) && guest.is_on() {
            guest.copying = Some((old.to_owned(), new.to_owned()));
        }
        Ok(())
    }

    pub(super) fn abandon_swap(&mut self, instance: InstanceId, old: &str) -> DriverResult<()> {
        let guest = self.guests.get_mut(&instance).ok_or(DriverError::NoSuchGuest(instance))?;
        guest.copying.take_if(|(copied, _)| copied == old);
        Ok(())
    }

    pub(super) fn swap_disk(&mut self, instance: InstanceId, old: &str, new: &str) -> DriverResult<()> {
        let guest = self.guest(instance)?;
        if guest.volumes.contains(new) {
            return self.detach_disk(instance, old);
        }
        if !guest.is_on() {
            return Err(not_running("disk exchange"));
        }
        if !guest.volumes.contains(old) {
            let message = format!("the guest has no disk {old}");
            return Err(DriverError::Failed { call: "disk exchange", message });
        }
        self.abandon_swap(instance, old)?;
        self.change(&SimChange::Plug(instance, new.to_owned()))?;
        self.change(&SimChange::Unplug(instance, old.to_owned()))
    }

    pub(super) fn disks(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        Ok(self.guest(instance)?.volumes.iter().cloned().collect())
    }
}
