//! A simulated host without its guests: properties, images, networks and filters.

use std::collections::BTreeSet;

use bytes::Bytes;
use chronova_events::ids::{InstanceId, NetworkId};

use super::guest::SimGuest;
use super::journal::SimChange;
use super::machine::{SimMachine, not_cached};
use super::pci::SimPci;
use crate::domain_xml::IommuModel;
use crate::driver::{DriverError, DriverResult};
use crate::firmware::FirmwareFacts;
use crate::guest::{CpuInfo, FilterSpec, GuestSpec, HostCapabilities, HostUsage, ImageRef};
use crate::memory_encryption::SevFacts;
use crate::pmem::resource_class;
use crate::tpm::TpmVersion;
use crate::traits;

/// The version of the simulated libvirt.
const LIBVIRT: u32 = 9_000_000;

impl SimMachine {
    pub(super) fn capabilities(&self) -> HostCapabilities {
        let features = ["aes", "avx", "avx2", "sse", "sse2", "sse4.1", "sse4.2", "ssse3", "vmx"];
        let cpu = CpuInfo {
            arch: "x86_64".to_owned(),
            model: "Skylake-Server-IBRS".to_owned(),
            vendor: "Intel".to_owned(),
            sockets: 1,
            cores: self.uri.vcpus / self.uri.threads.max(1),
            threads: self.uri.threads.max(1),
            features: features.map(str::to_owned).to_vec(),
        };
        let guest_features = cpu.features.iter().cloned().collect();
        let videos = ["virtio", "vga"].map(str::to_owned);
        let mut traits = traits::of_host(&cpu, &guest_features, &videos, &self.firmware());
        traits.extend(IommuModel::traits(&cpu.arch, LIBVIRT).into_iter().map(str::to_owned));
        traits.extend((self.uri.sev > 0).then(|| SevFacts::TRAIT.to_owned()));
        let has_cards = self.uri.pci != SimPci::default();
        traits.extend(has_cards.then(|| "COMPUTE_REMOTE_MANAGED_PORTS".to_owned()));
        traits.sort();
        HostCapabilities {
            host: self.host,
            hostname: self.hostname.clone(),
            hypervisor_type: "QEMU".to_owned(),
            hypervisor_version: 7_002_000,
            libvirt_version: LIBVIRT,
            host_ip: "127.0.0.1".to_owned(),
            vcpus: self.uri.vcpus,
            memory_mib: self.uri.memory_mib,
            disk_gib: self.uri.disk_gib,
            traits,
            cpu,
            kvm: self.uri.kvm,
            emulates_because: (!self.uri.kvm).then(|| "the simulated fleet has no KVM".to_owned()),
            guest_flags: ["md-clear", "vmx"].map(str::to_owned).to_vec(),
            encrypted_guests: self.uri.sev,
            pmem: (self.uri.pmem > 0).then(|| (resource_class("6GB"), self.uri.pmem)).into_iter().collect(),
            cells: super::guest::cells(&self.uri),
            pci: super::pci::devices(&self.uri.pci, self.uri.cells.min(self.uri.vcpus)),
            mdevs: self.mdevs(),
            iommu: true,
            emulator_account: None,
        }
    }

    /// Every machine has UEFI firmware. With `tpm` it also has secure boot and emulated TPMs.
    fn firmware(&self) -> FirmwareFacts {
        let plain = FirmwareFacts { uefi: true, by_feature: true, ..FirmwareFacts::default() };
        match self.uri.tpm {
            false => plain,
            true => FirmwareFacts {
                secure_boot: true,
                tpm_versions: vec![TpmVersion::V1_2, TpmVersion::V2_0],
                tpm_models: ["tpm-tis", "tpm-crb"].map(str::to_owned).to_vec(),
                ..plain
            },
        }
    }

    /// Each call advances the times of the processors by one second.
    pub(super) fn usage(&mut self) -> HostUsage {
        self.cpu.user += self.busy * 10_000_000;
        self.cpu.idle += self.busy.abs_diff(100) * 10_000_000;
        let running = || self.guests.values().filter(|guest| guest.is_on());
        let disk_used_gib = self.guests.values().map(|guest| guest.disk_gib).sum();
        HostUsage {
            memory_used_mib: 512 + running().map(|guest| guest.memory_mib).sum::<u64>(),
            disk_used_gib,
            disk_free_gib: self.uri.disk_gib.saturating_sub(disk_used_gib),
            running_guests: u32::try_from(running().count()).unwrap_or(u32::MAX),
            uptime_seconds: Some(self.up_since.elapsed().as_secs()),
            cpu: Some(self.cpu),
        }
    }

    pub(super) fn images(&self) -> &BTreeSet<String> {
        &self.images
    }

    pub(super) fn has_image(&self, image: &ImageRef) -> bool {
        self.images.contains(&image.checksum)
    }

    pub(super) fn keep_image(&mut self, image: &ImageRef, content: Bytes) -> DriverResult<()> {
        self.require_alive()?;
        self.place_image(image, content)
    }

    /// Adds an image even if the machine is off, because the storage may belong to other machines, too.
    pub(super) fn place_image(&mut self, image: &ImageRef, content: Bytes) -> DriverResult<()> {
        self.image_content.insert(image.checksum.clone(), content);
        self.change(&SimChange::Image(image.checksum.clone()))
    }

    pub(super) fn image_content(&self, image: &ImageRef) -> DriverResult<Bytes> {
        let known = self.image_content.get(&image.checksum).filter(|content| content.len() as u64 == image.size);
        known.cloned().ok_or_else(|| not_cached(image))
    }

    pub(super) fn apply_to_surroundings(&mut self, change: &SimChange) {
        match change {
            SimChange::Network(network) => {
                self.networks.insert(*network);
            }
            SimChange::NoNetwork(network) => {
                self.networks.remove(network);
            }
            SimChange::Filter(name) => {
                self.filters.insert(name.clone());
            }
            SimChange::NoFilter(name) => {
                self.filters.remove(name);
            }
            _ => {}
        }
    }

    pub(super) fn keep_network(&mut self, network: NetworkId) -> DriverResult<()> {
        if self.networks.contains(&network) { Ok(()) } else { self.change(&SimChange::Network(network)) }
    }

    pub(super) fn drop_network(&mut self, network: NetworkId) -> DriverResult<()> {
        if self.networks.contains(&network) { self.change(&SimChange::NoNetwork(network)) } else { Ok(()) }
    }

    pub(super) fn keep_filter(&mut self, filter: &FilterSpec) -> DriverResult<()> {
        if !self.filters.contains(&filter.name) {
            self.change(&SimChange::Filter(filter.name.clone()))?;
        }
        self.filter_specs.insert(filter.name.clone(), filter.clone());
        Ok(())
    }

    pub(super) fn drop_filter(&mut self, name: &str) -> DriverResult<()> {
        self.filter_specs.remove(name);
        if self.filters.contains(name) { self.change(&SimChange::NoFilter(name.to_owned())) } else { Ok(()) }
    }

    /// Adds a guest, or replaces it by its new definition.
    pub(super) fn keep_guest(&mut self, instance: InstanceId, guest: SimGuest) {
        self.drop_guest(instance);
        self.names.insert(guest.domain_name.clone());
        self.guests.insert(instance, guest);
    }

    pub(super) fn drop_guest(&mut self, instance: InstanceId) {
        if let Some(guest) = self.guests.remove(&instance) {
            self.names.remove(&guest.domain_name);
        }
    }

    pub(super) fn require_surroundings(&self, spec: &GuestSpec) -> DriverResult<()> {
        let failed = |message: String| Err(DriverError::Failed { call: "spawn", message });
        if let Some(root) = &spec.root
            && !self.has_image(&root.image)
        {
            return Err(not_cached(&root.image));
        }
        for nic in &spec.nics {
            self.require_cable("spawn", nic)?;
        }
        if self.names.contains(&spec.domain_name) {
            return failed(format!("domain '{}' already exists", spec.domain_name));
        }
        Ok(())
    }
}
