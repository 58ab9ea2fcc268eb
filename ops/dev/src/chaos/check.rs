//! Checks the invariants after the faults have stopped and all work has ended.
//!
//! The log is the reference. Domains, disks, ports, allocations, volumes and quota must exactly match the servers and
//! volumes in the log.

use std::collections::{BTreeMap, BTreeSet};

use chronova_actors::reconcile::quota;
use chronova_actors::services::embedded::volume::reconcile::quota as volume_room;
use chronova_events::ids::{InstanceId, VolumeId};
use chronova_events::instance::{Alive, Instance, Phase, status};
use chronova_events::volume::{SnapshotStatus, VolumeStatus};
use chronova_hypervisor::volumes;
use chronova_projections::migrations::MigrationStatus;
use chronova_projections::views::Views;

use super::traffic::Tally;
use super::world::ChaosWorld;

/// A broken invariant, and the server that breaks it, if there is one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BrokenInvariant {
    pub(super) server: Option<InstanceId>,
    pub(super) what: String,
}

impl BrokenInvariant {
    pub(super) fn new(what: String) -> Self {
        Self { server: None, what }
    }

    pub(super) fn of(server: InstanceId, what: impl Into<String>) -> Self {
        Self { server: Some(server), what: what.into() }
    }
}

struct InvariantCheck<'a> {
    world: &'a ChaosWorld,
    views: &'a Views,
    servers: BTreeMap<InstanceId, Instance>,
    wrong: Vec<BrokenInvariant>,
}

/// Finds all broken invariants.
pub(super) fn wrongs(world: &ChaosWorld, views: &Views, tally: &Tally) -> Vec<BrokenInvariant> {
    let servers = views.servers.read(|servers| servers.all().map(|row| (row.id, row.instance.clone())).collect());
    let mut check = InvariantCheck { world, views, servers, wrong: Vec::new() };
    check.work();
    check.acknowledged(tally);
    check.guests();
    check.disks_on_hosts();
    check.interfaces();
    check.allocations();
    check.quota();
    check.volumes();
    check.attachments();
    check.wrong
}

/// Finds leftovers after everything was deleted.
pub(super) fn remains(world: &ChaosWorld, views: &Views) -> Vec<BrokenInvariant> {
    let mut wrong = Vec::new();
    let mut count = |what: &str, number: usize| {
        if number > 0 {
            wrong.push(BrokenInvariant::new(format!("everything was deleted, and there are still {number} {what}")));
        }
    };
    let fleet = &world.fleet;
    let servers = views.servers.read(|all| all.all().filter(|row| row.instance.alive().is_some()).count());
    count("servers", servers);
    count("guests on hosts", fleet.whereabouts().len());
    count("disks on hosts", fleet.leaks().len() + fleet.kept().len() + fleet.copies().len());
    count("volumes on hosts", (0..fleet.len()).map(|host| fleet.volumes(host).len()).sum());
    count("volumes", views.volumes.read(|view| view.of(None).len()));
    count("allocations", views.placement.read(|view| view.ledger.consumers.len()));
    count("ports", views.networks.read(|view| view.ports().count()));
    count("servers in quotas", views.quotas.read(|view| view.by_project.values().map(|quota| quota.held.len()).sum()));
    let used = |view: &chronova_projections::placement::Placement| {
        let lines = view.ledger.providers.values().flat_map(|provider| provider.inventories.values());
        lines.filter(|line| line.used > 0).count()
    };
    count("inventories in use", views.placement.read(used));
    wrong
}

impl InvariantCheck<'_> {
    fn say(&mut self, server: InstanceId, what: impl Into<String>) {
        self.wrong.push(BrokenInvariant::of(server, what));
    }

    fn living(&self) -> Vec<(InstanceId, Alive)> {
        self.servers.iter().filter_map(|(id, server)| Some((*id, server.alive()?.clone()))).collect()
    }

    /// Checks that every process, task, build and move has ended, and that no host is recorded as down.
    fn work(&mut self) {
        self.views.processes.read(|view| {
            for pending in view.pending() {
                let what = format!("{} never ends: {:?}", pending.task.name(), pending.state);
                self.wrong.push(BrokenInvariant { server: pending.task.instance(), what });
            }
        });
        for (id, server) in self.living() {
            let status = status::of_alive(&server);
            if let Some(task) = status.task_state {
                self.say(id, format!("stuck: {} with task_state {task}", status.status));
            }
            if server.moving.is_some() {
                self.say(id, format!("stuck in a move: {:?}", server.moving));
            }
            if matches!(server.phase, Phase::Building { .. }) || server.build.is_some() {
                self.say(id, "stuck in its build");
            }
        }
        let done = |status: MigrationStatus| {
            use MigrationStatus as M;
            matches!(status, M::Confirmed | M::Reverted | M::Error | M::Completed | M::Cancelled | M::Failed)
        };
        self.views.migrations.read(|view| {
            for migration in view.all().filter(|migration| !done(migration.status)) {
                let what = format!("migration {} is {:?} for ever", migration.number, migration.status);
                self.wrong.push(BrokenInvariant::of(migration.instance, what));
            }
        });
        let down = self.views.hosts.read(|hosts| hosts.all().filter(|host| !host.answers()).count());
        if down > 0 {
            self.wrong.push(BrokenInvariant::new(format!("{down} hosts that live count as down")));
        }
    }

    /// Checks that the log agrees with the answers that clients got.
    fn acknowledged(&mut self, tally: &Tally) {
        for id in &tally.created {
            if !self.servers.contains_key(id) {
                self.say(*id, "its build was acknowledged, and nobody knows it");
            }
        }
        for id in &tally.deleted {
            if self.servers.get(id).is_some_and(|server| server.alive().is_some()) {
                self.say(*id, "its deletion was acknowledged, and it lives");
            }
        }
    }

    /// Checks that each server with a host has one guest, on that host. A server in error may have no guest.
    fn guests(&mut self) {
        for id in self.world.fleet.twins() {
            self.say(id, "its guest runs on two hosts");
        }
        let found = self.world.fleet.whereabouts();
        for (id, hosts) in &found {
            let server = self.servers.get(id).and_then(Instance::alive);
            let placed = server.and_then(|server| server.placement.as_ref()).map(|placed| placed.host);
            let expected = placed.and_then(|host| self.world.host_named(host));
            for host in hosts.iter().filter(|host| Some(**host) != expected) {
                let name = self.world.fleet.hostname(*host);
                self.wrong.push(BrokenInvariant::of(*id, format!("leak: a guest on {name}, where it should not be")));
            }
        }
        for (id, server) in self.living() {
            if let Some(placed) = &server.placement
                && !found.contains_key(&id)
                && !matches!(server.phase, Phase::Error { .. })
            {
                self.say(id, format!("{} has no guest", placed.hostname));
            }
        }
    }

    fn disks_on_hosts(&mut self) {
        let fleet = &self.world.fleet;
        // On shared storage, every host sees the disk that a guest on another host uses.
        let used = |id: &InstanceId| fleet.has_shared_storage() && fleet.whereabouts().contains_key(id);
        let leaks = fleet.leaks().into_iter().filter(|(_, id)| !used(id));
        let leaks = leaks.map(|(host, id)| (id, format!("leak: a disk on {}", fleet.hostname(host))));
        let kept = fleet.kept().into_iter().map(|id| (id, "leak: a disk that was set aside".to_owned()));
        let copies = fleet.copies().into_iter();
        let copies = copies.map(|(host, id, _)| (id, format!("leak: a copy of its disk on {}", fleet.hostname(host))));
        let all: Vec<_> = leaks.chain(kept).chain(copies).collect();
        for (id, what) in all {
            self.say(id, what);
        }
        for image in self.world.images.unfinished() {
            self.wrong.push(BrokenInvariant::new(format!("leak: image {image} never got its bytes")));
        }
    }

    /// Checks that the server, its guest and the network service agree about the server's ports.
    fn interfaces(&mut self) {
        let mut bound = BTreeMap::<InstanceId, BTreeSet<(String, String)>>::new();
        self.views.networks.read(|view| {
            for port in view.ports() {
                if let Ok(server) = port.binding().device.parse() {
                    let one = (port.created.port.to_string(), port.binding().host.clone());
                    bound.entry(server).or_default().insert(one);
                }
            }
        });
        for (id, server) in self.living() {
            let host = server.placement.as_ref().map(|placed| placed.hostname.clone()).unwrap_or_default();
            let shown = server.nics.iter().map(|nic| (nic.port.to_string(), host.clone())).collect::<BTreeSet<_>>();
            let bound = bound.remove(&id).unwrap_or_default();
            if shown != bound {
                self.say(id, format!("it shows the ports {shown:?}; the network service has {bound:?}"));
            }
            let Some(index) = server.placement.as_ref().and_then(|placed| self.world.host_named(placed.host)) else {
                continue;
            };
            let macs: BTreeSet<String> = server.nics.iter().map(|nic| nic.mac.clone()).collect();
            if let Some(guest) = self.world.fleet.guests(index).get(&id)
                && guest.nics != macs
            {
                self.say(id, format!("it shows the interfaces {macs:?}; its guest has {:?}", guest.nics));
            }
        }
        for (id, ports) in bound {
            self.say(id, format!("leak: ports {ports:?} of a server that is gone"));
        }
    }

    /// Checks that each server with a host has one allocation: on that host, and with the VCPUs of its flavor.
    fn allocations(&mut self) {
        let mut claims = self.views.placement.read(|view| {
            let claim = |allocation: &chronova_events::ledger::Allocation| {
                (allocation.provider.0, allocation.resources.clone())
            };
            let consumers = view.ledger.consumers.iter();
            let claims = consumers.map(|(id, consumer)| {
                (id.to_string(), consumer.claim.allocations.iter().map(claim).collect::<Vec<_>>())
            });
            claims.collect::<BTreeMap<_, _>>()
        });
        for (id, server) in self.living() {
            let claim = claims.remove(&id.to_string());
            match (&server.placement, claim) {
                (None, None) => {}
                (None, Some(claim)) => self.say(id, format!("leak: it is on no host and holds {claim:?}")),
                (Some(placed), None) => self.say(id, format!("it holds nothing of {}", placed.hostname)),
                (Some(placed), Some(claim)) => {
                    let (on, vcpus) =
                        (claim.iter().all(|(provider, _)| *provider == placed.host.0), server.request.flavor.vcpus);
                    let cores = claim.iter().flat_map(|(_, resources)| resources);
                    let cores: u64 = cores.filter(|(class, _)| class == "VCPU").map(|(_, amount)| amount).sum();
                    if !on || claim.len() != 1 || cores != u64::from(vcpus) {
                        self.say(id, format!("on {} with {vcpus} cores it holds {claim:?}", placed.hostname));
                    }
                }
            }
        }
        for (consumer, claim) in claims {
            let what = format!("leak: {consumer} holds {claim:?}, and is no server that lives");
            self.wrong.push(BrokenInvariant { server: consumer.parse().ok(), what });
        }
    }

    fn quota(&mut self) {
        let mut held: BTreeSet<InstanceId> = self
            .views
            .quotas
            .read(|view| view.by_project.values().flat_map(|quota| quota.held.keys().copied()).collect());
        for (id, server) in self.living() {
            // A soft-deleted server uses no quota until it is restored.
            if held.remove(&id) == server.is_soft_deleted() {
                self.say(
                    id,
                    format!("quota: {}", if server.is_soft_deleted() { "held though deleted" } else { "not held" }),
                );
            }
        }
        for id in held {
            self.say(id, "leak: quota of a server that is gone");
        }
        for (_, id, cores, memory) in quota::misfits(self.views) {
            self.say(id, format!("its quota should be {cores} cores and {memory} MiB, and is not"));
        }
        for room in volume_room::plan(self.views) {
            self.wrong.push(BrokenInvariant::new(format!("leak: quota {room:?} of nothing")));
        }
    }

    /// Checks that the hosts have exactly the volumes and snapshots in the log.
    fn volumes(&mut self) {
        let (mut known, mut torn) = (BTreeSet::new(), BTreeSet::new());
        for volume in self.views.volumes.read(|view| view.of(None)) {
            let id = volume.created.volume;
            if let Some(process) = volume.ongoing {
                self.wrong
                    .push(BrokenInvariant::new(format!("volume {id} is stuck in {:?} ({process})", volume.status)));
            }
            let place = volume.place.as_ref().and_then(|(host, _)| self.world.host_named(*host));
            let Some(host) = place else {
                if volume.status != VolumeStatus::Error {
                    self.wrong.push(BrokenInvariant::new(format!("volume {id} is {:?} and nowhere", volume.status)));
                }
                continue;
            };
            known.insert((host, volumes::volume(id)));
            // Writing an image over the volume failed, so the volume's content is unknown, and the volume may even be
            // missing.
            if volume.status == VolumeStatus::Error && volume.reimaged_by.is_some() {
                torn.insert((host, volumes::volume(id)));
            }
            for (snapshot, now) in &volume.snapshots {
                if now.process.is_some() {
                    self.wrong.push(BrokenInvariant::new(format!("snapshot {snapshot} is stuck in {:?}", now.status)));
                }
                if now.status == SnapshotStatus::Available {
                    known.insert((host, volumes::snapshot(*snapshot)));
                }
            }
        }
        let fleet = &self.world.fleet;
        // All hosts show the same shared storage, so the check asks the first.
        let hosts = if self.world.shares_volumes { 0..1 } else { 0..fleet.len() };
        let there: BTreeSet<_> =
            hosts.flat_map(|host| fleet.volumes(host).into_keys().map(move |name| (host, name))).collect();
        if self.world.shares_volumes {
            let here = |all: BTreeSet<(usize, String)>| all.into_iter().map(|(_, name)| (0, name)).collect();
            (known, torn) = (here(known), here(torn));
        }
        for (host, name) in there.difference(&known) {
            self.wrong.push(BrokenInvariant::new(format!("leak: {name} on {}", fleet.hostname(*host))));
        }
        for (host, name) in known.difference(&there).filter(|one| !torn.contains(*one)) {
            self.wrong.push(BrokenInvariant::new(format!("{name} should be on {}, and is not", fleet.hostname(*host))));
        }
    }

    /// Checks that servers, guests and volumes agree about attachments.
    fn attachments(&mut self) {
        let mut attached = BTreeSet::new();
        for (id, server) in self.living() {
            let mut serials = BTreeSet::new();
            for disk in &server.disks {
                if disk.work.is_some() {
                    self.say(id, format!("stuck with a disk: {:?}", disk.work));
                }
                serials.extend(disk.device.connection.as_ref().map(|connection| connection.serial.clone()));
                attached.extend(disk.device.attachment.map(|attachment| (id, disk.device.volume, attachment)));
            }
            let host = server.placement.as_ref().and_then(|placed| self.world.host_named(placed.host));
            match host.and_then(|host| self.world.fleet.guests(host).remove(&id)) {
                Some(guest) if guest.volumes != serials => {
                    self.say(id, format!("it has the volumes {serials:?}; its guest has {:?}", guest.volumes));
                }
                None if host.is_none() && !serials.is_empty() => self.say(id, "it has connections and no host"),
                _ => {}
            }
        }
        let mut kept: BTreeSet<(InstanceId, Option<VolumeId>, _)> = BTreeSet::new();
        for volume in self.views.volumes.read(|view| view.of(None)) {
            let id = volume.created.volume;
            for (attachment, now) in &volume.attachments {
                kept.extend(now.instance.map(|instance| (instance, Some(id), *attachment)));
            }
        }
        for (id, volume, attachment) in kept.difference(&attached) {
            self.say(*id, format!("leak: volume {volume:?} is kept for it by {attachment}, of which it knows nothing"));
        }
        for (id, volume, attachment) in attached.difference(&kept) {
            self.say(*id, format!("it has volume {volume:?} by {attachment}, of which the volume knows nothing"));
        }
    }
}
