//! Implements the optional parts of simulated hosts: networks, interfaces, volumes, pauses, copies, definitions.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chronova_events::ids::{ImageId, InstanceId, NetworkId};
use futures::stream;

use super::SimHost;
use super::faults::DriverCall;
use crate::capability::device_locations::GuestDevice;
use crate::capability::{
    DeviceLocations, DiskSnapshots, InterfaceAttachment, Redefinition, Suspension, Troubleshooting, VirtualNetworks,
    VolumeAttachment,
};
use crate::driver::{ByteStream, DriverResult};
use crate::guest::{
    Diagnostics, DiskCopy, FilterSpec, GuestSpec, ImageFormat, NetworkSpec, Nic, Quiesce, Renew, VolumeDisk,
};

#[async_trait]
impl VirtualNetworks for SimHost {
    async fn ensure_network(&self, network: &NetworkSpec) -> DriverResult<()> {
        self.perform(DriverCall::EnsureNetwork, |machine| {
            machine.definitions.keep_network(network);
            machine.keep_network(network.network)
        })
        .await
    }

    async fn remove_network(&self, network: NetworkId) -> DriverResult<()> {
        self.perform(DriverCall::RemoveNetwork, |machine| machine.drop_network(network)).await
    }

    async fn list_networks(&self) -> DriverResult<BTreeSet<NetworkId>> {
        self.perform(DriverCall::ListNetworks, |machine| Ok(machine.networks.clone())).await
    }

    async fn ensure_filter(&self, filter: &FilterSpec) -> DriverResult<()> {
        self.perform(DriverCall::EnsureFilter, |machine| machine.keep_filter(filter)).await
    }

    async fn remove_filter(&self, name: &str) -> DriverResult<()> {
        self.perform(DriverCall::RemoveFilter, |machine| machine.drop_filter(name)).await
    }
}

#[async_trait]
impl Redefinition for SimHost {
    async fn redefine(&self, guest: &GuestSpec, renew: Renew) -> DriverResult<()> {
        let starts = self.fleet.machine(self.index).guests.get(&guest.instance).is_some_and(|known| !known.is_on());
        if starts && matches!(renew, Renew::Definition | Renew::AtStart) {
            self.fleet.touch(self.index, DriverCall::Redefine, guest.instance, true);
        }
        self.perform(DriverCall::Redefine, |machine| machine.redefine(guest, renew)).await
    }
}

#[async_trait]
impl Suspension for SimHost {
    async fn pause(&self, instance: InstanceId) -> DriverResult<()> {
        self.perform(DriverCall::Pause, |machine| machine.pause(instance)).await
    }

    async fn unpause(&self, instance: InstanceId) -> DriverResult<()> {
        self.perform(DriverCall::Unpause, |machine| machine.unpause(instance)).await
    }

    async fn suspend(&self, instance: InstanceId) -> DriverResult<()> {
        self.perform(DriverCall::Suspend, |machine| machine.suspend(instance)).await
    }

    async fn resume(&self, instance: InstanceId) -> DriverResult<()> {
        self.perform(DriverCall::Resume, |machine| machine.resume(instance)).await
    }
}

#[async_trait]
impl InterfaceAttachment for SimHost {
    async fn attach_nic(&self, instance: InstanceId, nic: &Nic, _: &[(String, String)]) -> DriverResult<()> {
        self.perform(DriverCall::AttachNic, |machine| machine.attach_nic(instance, nic)).await
    }

    async fn detach_nic(&self, instance: InstanceId, mac: &str) -> DriverResult<()> {
        self.perform(DriverCall::DetachNic, |machine| machine.detach_nic(instance, mac)).await
    }

    async fn nics(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        self.perform(DriverCall::Nics, |machine| machine.nics(instance)).await
    }
}

#[async_trait]
impl VolumeAttachment for SimHost {
    async fn attach_disk(&self, instance: InstanceId, disk: &VolumeDisk) -> DriverResult<()> {
        self.perform(DriverCall::AttachDisk, |machine| machine.attach_disk(instance, disk.key())).await
    }

    async fn detach_disk(&self, instance: InstanceId, key: &str) -> DriverResult<()> {
        self.perform(DriverCall::DetachDisk, |machine| machine.detach_disk(instance, key)).await
    }

    async fn swap_disk(&self, instance: InstanceId, old: &str, new: &VolumeDisk) -> DriverResult<()> {
        self.perform(DriverCall::BeginSwap, |machine| machine.begin_swap(instance, old, new.key())).await?;
        self.perform(DriverCall::SwapDisk, |machine| machine.swap_disk(instance, old, new.key())).await
    }

    async fn abandon_swap(&self, instance: InstanceId, old: &str) -> DriverResult<()> {
        self.perform(DriverCall::AbandonSwap, |machine| machine.abandon_swap(instance, old)).await
    }

    async fn resize_disk(&self, instance: InstanceId, key: &str, _: u64) -> DriverResult<()> {
        self.perform(DriverCall::ResizeDisk, |machine| machine.resize_disk(instance, key)).await
    }

    async fn disks(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        self.perform(DriverCall::Disks, |machine| machine.disks(instance)).await
    }
}

#[async_trait]
impl DeviceLocations for SimHost {
    async fn devices(&self, instance: InstanceId) -> DriverResult<Vec<GuestDevice>> {
        self.perform(DriverCall::Devices, |machine| machine.devices(instance)).await
    }
}

#[async_trait]
impl DiskSnapshots for SimHost {
    async fn copy_root(
        &self,
        instance: InstanceId,
        copy: ImageId,
        format: ImageFormat,
        quiesce: Quiesce,
    ) -> DriverResult<DiskCopy> {
        self.perform(DriverCall::CopyRoot, |machine| {
            machine.copy_root(instance, copy, format, quiesce)?;
            Ok(DiskCopy { size: machine.copied(instance, copy)?.len() as u64 })
        })
        .await
    }

    async fn read_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<ByteStream> {
        let content = self.perform(DriverCall::ReadCopy, |machine| machine.copied(instance, copy)).await?;
        let chunks: Vec<_> = content.chunks(64 * 1024).map(|chunk| Ok(content.slice_ref(chunk))).collect();
        Ok(Box::pin(stream::iter(chunks)))
    }

    async fn remove_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<()> {
        self.perform(DriverCall::RemoveCopy, |machine| machine.remove_copy(instance, copy)).await
    }
}

#[async_trait]
impl Troubleshooting for SimHost {
    async fn interrupt(&self, instance: InstanceId) -> DriverResult<()> {
        self.perform(DriverCall::Interrupt, |machine| machine.interrupt(instance)).await
    }

    async fn diagnostics(&self, instance: InstanceId) -> DriverResult<Diagnostics> {
        self.perform(DriverCall::Diagnostics, |machine| machine.diagnostics(instance)).await
    }
}
