//! The image caches of simulated machines, and the images that their guests' disks are based on. With shared storage,
//! there is one cache.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::InstanceId;

use super::SimHost;
use super::faults::DriverCall;
use super::fleet::SimFleet;
use super::journal::SimChange;
use super::machine::SimMachine;
use crate::capability::image_cache::{CachedImage, ImageCache};
use crate::driver::DriverResult;
use crate::guest::{GuestSpec, ImageRef};

/// The part of a root disk's name after the guest's id. Root disks are based on images.
pub(super) const ROOT: &str = "_disk";
pub(super) const RESCUE: &str = "_disk.rescue";
pub(super) const KEPT: &str = "_kept_disk";

impl SimMachine {
    /// Notes the image that a disk of the guest is based on.
    pub(super) fn base(&mut self, instance: InstanceId, disk: &str, image: &ImageRef) -> DriverResult<()> {
        let checksum = image.checksum.clone();
        match self.bases.get(&(instance, disk.to_owned())) {
            Some(known) if *known == checksum => Ok(()),
            _ => self.change(&SimChange::Base(instance, disk.to_owned(), checksum)),
        }
    }

    pub(super) fn base_root(&mut self, spec: &GuestSpec) -> DriverResult<()> {
        match &spec.root {
            Some(root) => self.base(spec.instance, ROOT, &root.image),
            None => Ok(()),
        }
    }

    pub(super) fn apply_to_images(&mut self, change: &SimChange) {
        match change {
            SimChange::Image(checksum) => {
                self.images.insert(checksum.clone());
            }
            SimChange::NoImage(checksum) => {
                self.images.remove(checksum);
                self.image_content.remove(checksum);
                self.idle.remove(checksum);
            }
            SimChange::Idle(checksum, since) => {
                self.idle.insert(checksum.clone(), *since);
            }
            SimChange::Busy(checksum) => {
                self.idle.remove(checksum);
            }
            SimChange::Base(instance, disk, checksum) => {
                self.bases.insert((*instance, disk.clone()), checksum.clone());
            }
            _ => {}
        }
    }

    /// Notes the base image of the disk's set-aside copy. This is also the base image of the present disk.
    pub(super) fn keep_base(&mut self, instance: InstanceId) {
        if let Some(base) = self.bases.get(&(instance, ROOT.to_owned())).cloned() {
            self.bases.insert((instance, KEPT.to_owned()), base);
        }
    }

    pub(super) fn image_changes(&self) -> Vec<SimChange> {
        let idle = self.idle.iter().map(|(checksum, since)| SimChange::Idle(checksum.clone(), *since));
        self.images.iter().cloned().map(SimChange::Image).chain(idle).collect()
    }

    pub(super) fn base_changes(&self) -> Vec<SimChange> {
        let bases = self.bases.iter();
        bases.map(|((id, disk), checksum)| SimChange::Base(*id, disk.clone(), checksum.clone())).collect()
    }

    /// Forgets the base images of a guest that has no disks left.
    pub(super) fn forget_bases(&mut self, instance: InstanceId) {
        if !self.guests.contains_key(&instance) && !self.has_leak(instance) && !self.kept.contains(&instance) {
            let own = self.bases.range((instance, String::new())..).take_while(|((of, _), _)| *of == instance);
            for disk in own.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                self.bases.remove(&disk);
            }
        }
    }

    /// The images that disks on this machine are based on.
    pub(super) fn images_in_use(&self) -> BTreeSet<String> {
        let is_there = |instance: &InstanceId, disk: &str| match disk {
            KEPT => self.kept.contains(instance),
            RESCUE => self.guests.get(instance).is_some_and(|guest| guest.rescued),
            _ => self.guests.contains_key(instance) || self.has_leak(*instance),
        };
        let bases = self.bases.iter().filter(|((instance, disk), _)| is_there(instance, disk));
        bases.map(|(_, checksum)| checksum.clone()).collect()
    }

    fn cached(&self, used: &BTreeSet<String>) -> Vec<CachedImage> {
        let describe = |checksum: &String| CachedImage {
            checksum: checksum.clone(),
            size: self.image_content.get(checksum).map_or(0, |content| content.len() as u64),
            is_used: used.contains(checksum),
            idle_since: self.idle.get(checksum).copied(),
        };
        self.images.iter().map(describe).collect()
    }

    pub(super) fn note_idle(&mut self, checksum: &str, since: Option<Timestamp>) -> DriverResult<()> {
        match since {
            Some(since) if self.images.contains(checksum) => self.change(&SimChange::Idle(checksum.to_owned(), since)),
            None if self.idle.contains_key(checksum) => self.change(&SimChange::Busy(checksum.to_owned())),
            _ => Ok(()),
        }
    }

    fn remove_image(&mut self, checksum: &str, idle_by: Timestamp, used: &BTreeSet<String>) -> DriverResult<bool> {
        if self.idle.get(checksum).is_none_or(|since| *since > idle_by) || used.contains(checksum) {
            return Ok(false);
        }
        self.change(&SimChange::NoImage(checksum.to_owned())).map(|()| true)
    }
}

impl SimFleet {
    /// The other machines that share this machine's storage.
    pub(super) fn beside(&self, index: usize) -> Vec<usize> {
        let shared = self.has_shared_storage();
        (0..self.len()).filter(|host| shared && *host != index).collect()
    }

    /// By host, the missing images on which disks are still based. A correct control plane never removes an image that
    /// a disk needs.
    pub fn baseless(&self) -> Vec<(usize, String)> {
        let lost = |host| {
            let machine = self.machine(host);
            let lost: Vec<String> = machine.images_in_use().difference(&machine.images).cloned().collect();
            lost.into_iter().map(move |checksum| (host, checksum)).collect::<Vec<_>>()
        };
        (0..self.len()).flat_map(lost).collect()
    }

    /// The images of a host that are noted as unused, with their times.
    pub fn idle_images(&self, host: usize) -> Vec<(String, Timestamp)> {
        self.machine(host).idle.iter().map(|(checksum, since)| (checksum.clone(), *since)).collect()
    }
}

impl SimHost {
    /// The images that disks of the other machines with this storage are based on.
    fn used_beside(&self) -> BTreeSet<String> {
        let beside = self.fleet.beside(self.index).into_iter();
        beside.flat_map(|host| self.fleet.machine(host).images_in_use()).collect()
    }

    /// Repeats a change on every other machine with this storage.
    pub(super) fn echo(&self, mut work: impl FnMut(&mut SimMachine) -> DriverResult<()>) -> DriverResult<()> {
        self.fleet.beside(self.index).into_iter().try_for_each(|host| work(&mut self.fleet.machine(host)))
    }
}

#[async_trait]
impl ImageCache for SimHost {
    async fn cached_images(&self) -> DriverResult<Vec<CachedImage>> {
        let beside = self.used_beside();
        self.perform(DriverCall::CachedImages, |machine| {
            Ok(machine.cached(&machine.images_in_use().union(&beside).cloned().collect()))
        })
        .await
    }

    async fn note_idle(&self, checksum: &str, since: Option<Timestamp>) -> DriverResult<()> {
        self.perform(DriverCall::NoteIdle, |machine| machine.note_idle(checksum, since)).await?;
        self.echo(|machine| machine.note_idle(checksum, since))
    }

    async fn remove_image(&self, checksum: &str, idle_by: Timestamp) -> DriverResult<bool> {
        let gate = self.fleet.machine(self.index).image_gate();
        let _not_sent_meanwhile = gate.lock().await;
        let beside = self.used_beside();
        let gone = self
            .perform(DriverCall::RemoveImage, |machine| {
                let used = machine.images_in_use().union(&beside).cloned().collect();
                machine.remove_image(checksum, idle_by, &used)
            })
            .await?;
        if gone {
            self.echo(|machine| match machine.images.contains(checksum) {
                true => machine.change(&SimChange::NoImage(checksum.to_owned())),
                false => Ok(()),
            })?;
        }
        Ok(gone)
    }
}
