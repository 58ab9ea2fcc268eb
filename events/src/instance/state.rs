//! The state of a server, folded from its events.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::InstanceEvent;
use super::adopted;
use super::block::{self, InstanceDisk};
use super::evacuation;
use super::imaging::WorkStage;
use super::live;
use super::machine::TpmSecretStored;
use super::moving::{self, Moving};
use super::ongoing::OngoingTask;
use super::operator::DeclaredState;
use super::payloads::{
    BuildRequested, DeleteRequested, FaultInfo, ImageSnapshot, Locked, NicInfo, Placed, Power, PowerAction,
};
use super::rebuild::{FormerImage, RebuildRequested};
use super::rescue::Unrescued;
use super::soft_delete::Restored;
use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{ImageId, PortId, ProcessId};

/// A server: not yet requested, live, or deleted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum Instance {
    #[default]
    Absent,
    Alive(Box<Alive>),
    Deleted(Box<Alive>),
}

/// A requested server. `request` holds the current values of the fields that users can change (name, metadata, ...).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alive {
    pub request: BuildRequested,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub launched_at: Option<Timestamp>,
    pub terminated_at: Option<Timestamp>,
    pub placement: Option<Placed>,
    pub nics: Vec<NicInfo>,
    /// The volumes and the requested further disks. If the list is empty, image and flavor define all disks.
    pub disks: Vec<InstanceDisk>,
    /// The source image of a root volume.
    pub boot_image: Option<Arc<ImageSnapshot>>,
    pub phase: Phase,
    /// A build that continues although an administrator reset the server's state.
    pub build: Option<ProcessId>,
    /// The process that is changing the server now.
    pub ongoing: Option<OngoingTask>,
    pub fault: Option<Box<(FaultInfo, Timestamp)>>,
    pub lock: Option<Locked>,
    /// The image of the root disk if it differs from the requested image, as after an unshelve.
    pub root: Option<Box<ImageSnapshot>>,
    /// The former image during a rebuild. It is restored if the rebuild fails before it changed a disk.
    pub former: Option<Box<FormerImage>>,
    /// The rescue disk's image while the server is in rescue or is entering it.
    pub rescue: Option<Box<ImageSnapshot>>,
    /// The image that holds, or is receiving, a shelved server's disk.
    pub shelved: Option<ImageId>,
    /// A move that is under way, or finished but neither confirmed nor reverted.
    pub moving: Option<Box<Moving>>,
    /// The password that the guest posted for its owner.
    pub guest_password: Option<String>,
    /// The path and content (base64) of the files injected into the guest, in the order of the request.
    pub files: Vec<(String, String)>,
    /// The interfaces that are being detached, each with the process that detaches it.
    pub detaching: Vec<(ProcessId, PortId)>,
    /// The recorded machine type of the guest; see [`Alive::machine_type()`].
    pub machine_type: Option<String>,
    /// Whether the host's definition of the guest is older than the server's hardware: the next start defines the guest
    /// again.
    pub outdated_definition: bool,
    /// The passphrase of the server's emulated TPM in the key manager.
    pub tpm: Option<Box<TpmSecretStored>>,
}

/// The state of a server without the operation under way. Nova's `vm_state` follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    Building {
        process: ProcessId,
        stage: Stage,
    },
    Active {
        power: Power,
    },
    Stopped {
        power: Power,
    },
    /// An operation failed, or an administrator set this state. `docs/server-states.md` has the allowed actions.
    Error {
        power: Power,
    },
    /// The guest is in memory with paused CPUs.
    Paused {
        power: Power,
    },
    /// The guest is off, and its memory is saved on the host's disk.
    Suspended {
        power: Power,
    },
    /// A user deleted the server at `since`; it can still be restored.
    SoftDeleted {
        power: Power,
        since: Timestamp,
    },
    /// The guest runs from the rescue disk.
    Rescued {
        power: Power,
    },
    /// The guest is off, and an image holds its disk.
    Shelved {
        power: Power,
        since: Timestamp,
    },
    /// There is no guest. An image or a root volume holds the server's disk.
    Offloaded {
        power: Power,
    },
    /// The server was moved at `since`, and the move is neither confirmed nor reverted.
    Resized {
        power: Power,
        since: Timestamp,
    },
}

/// The stage of a build; the API shows it as `task_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    Scheduling,
    Networking,
    Spawning,
}

impl Instance {
    pub fn alive(&self) -> Option<&Alive> {
        match self {
            Self::Alive(alive) => Some(alive),
            Self::Absent | Self::Deleted(_) => None,
        }
    }

    /// The server, live or deleted.
    pub fn known(&self) -> Option<&Alive> {
        match self {
            Self::Alive(alive) | Self::Deleted(alive) => Some(alive),
            Self::Absent => None,
        }
    }
}

impl Fold for Instance {
    type Event = InstanceEvent;
    const STATE_VERSION: u32 = 15;

    fn evolve(&mut self, event: &InstanceEvent, at: Timestamp) {
        match (&mut *self, event) {
            (_, InstanceEvent::BuildRequested(request)) => *self = Self::Alive(Box::new(Alive::new(request, at))),
            (Self::Alive(alive), InstanceEvent::Deleted(_)) => {
                let mut gone = std::mem::replace(alive, Box::new(Alive::new(&alive.request, at)));
                gone.ongoing = None;
                gone.terminated_at = Some(at);
                gone.updated_at = at;
                *self = Self::Deleted(gone);
            }
            // An erasure applies to live and deleted servers. It does not change the server, so it does not set
            // `updated_at`.
            (Self::Alive(known) | Self::Deleted(known), InstanceEvent::PersonalErased(_)) => known.forget(),
            (Self::Absent | Self::Deleted(_), _) | (_, InstanceEvent::MigrationAdopted(_)) => {}
            (Self::Alive(alive), event) => alive.evolve(event, at),
        }
    }
}

impl Alive {
    fn new(request: &BuildRequested, at: Timestamp) -> Self {
        Self {
            request: request.clone(),
            created_at: at,
            updated_at: at,
            launched_at: None,
            terminated_at: None,
            placement: None,
            nics: Vec::new(),
            disks: Vec::new(),
            boot_image: None,
            phase: Phase::Building { process: request.process, stage: Stage::Scheduling },
            build: None,
            ongoing: None,
            fault: None,
            lock: None,
            root: None,
            former: None,
            rescue: None,
            shelved: None,
            moving: None,
            guest_password: None,
            files: Vec::new(),
            detaching: Vec::new(),
            machine_type: None,
            outdated_definition: false,
            tpm: None,
        }
    }

    fn evolve(&mut self, event: &InstanceEvent, at: Timestamp) {
        // Nova records a machine type without a change of the server's own row.
        if !matches!(event, InstanceEvent::MachineTypeRecorded(_)) {
            self.updated_at = at;
        }
        // After a renewal, the guest needs another definition. If its host was down, the old definition has the old
        // connection. Otherwise the disk was attached again, and has no boot order.
        self.outdated_definition |= block::ends_renewal(&self.disks, event);
        block::evolve(&mut self.disks, event);
        moving::evolve(self, event, at);
        live::evolve(self, event, at);
        evacuation::evolve(self, event, at);
        match event {
            InstanceEvent::Placed(placed) => {
                self.placement = Some(placed.clone());
                self.stage(Stage::Networking);
            }
            InstanceEvent::Unplaced(_) => {
                self.placement = None;
                // A shelved server keeps its ports even if no valid host was found.
                if self.building().is_some() {
                    self.nics.clear();
                }
                self.stage(Stage::Scheduling);
            }
            InstanceEvent::NetworkAllocated(allocated) => {
                self.nics.clone_from(&allocated.nics);
                self.stage(Stage::Spawning);
            }
            InstanceEvent::BuildSucceeded(_) => {
                self.phase = Phase::Active { power: Power::Running };
                self.build = None;
                self.launched_at = Some(at);
            }
            InstanceEvent::BuildFailed(failed) => {
                self.phase = Phase::Error { power: Power::NoState };
                self.build = None;
                self.fault = Some(Box::new((failed.fault.clone(), at)));
            }
            InstanceEvent::DeleteRequested(DeleteRequested { process, cancels }) => {
                self.ongoing = Some(OngoingTask::Delete { process: *process, cancels: *cancels });
            }
            InstanceEvent::PowerRequested(requested) => {
                self.ongoing = Some(OngoingTask::Power { process: requested.process, action: requested.action });
            }
            InstanceEvent::PowerCompleted(completed) => {
                self.finish(completed.process);
                if completed.action == PowerAction::RebootHard {
                    self.rescue = None;
                }
                if matches!(completed.action, PowerAction::Start | PowerAction::RebootHard) {
                    self.outdated_definition = false;
                }
                self.phase = match completed.action {
                    PowerAction::Stop => Phase::Stopped { power: Power::Shutdown },
                    PowerAction::Pause => Phase::Paused { power: Power::Paused },
                    PowerAction::Suspend => Phase::Suspended { power: Power::Shutdown },
                    PowerAction::Start
                    | PowerAction::RebootSoft
                    | PowerAction::RebootHard
                    | PowerAction::Unpause
                    | PowerAction::Resume => Phase::Active { power: Power::Running },
                };
            }
            InstanceEvent::PowerFailed(failed) => self.fail(failed.process, &failed.fault, at),
            InstanceEvent::PowerObserved(observed) => self.observe(observed.power),
            InstanceEvent::Renamed(renamed) => self.request.name.clone_from(&renamed.name),
            InstanceEvent::DescriptionChanged(changed) => self.request.description.clone_from(&changed.description),
            InstanceEvent::HostnameChanged(changed) => self.request.hostname.clone_from(&changed.hostname),
            InstanceEvent::DiskConfigChanged(changed) => self.request.disk_config = changed.disk_config,
            InstanceEvent::AccessAddressesChanged(changed) => {
                self.request.access_ip_v4.clone_from(&changed.access_ip_v4);
                self.request.access_ip_v6.clone_from(&changed.access_ip_v6);
            }
            InstanceEvent::MetadataReplaced(replaced) => self.request.metadata.clone_from(&replaced.metadata),
            InstanceEvent::TagsReplaced(replaced) => self.request.tags.clone_from(&replaced.tags),
            InstanceEvent::Locked(locked) => self.lock = Some(locked.clone()),
            InstanceEvent::Unlocked(_) => self.lock = None,
            InstanceEvent::SoftDeleteRequested(requested) => {
                self.ongoing = Some(OngoingTask::SoftDelete { process: requested.process });
            }
            InstanceEvent::SoftDeleted(deleted) => {
                self.finish(deleted.process);
                self.phase = Phase::SoftDeleted { power: Power::Shutdown, since: at };
            }
            InstanceEvent::RestoreRequested(requested) => {
                self.ongoing = Some(OngoingTask::Restore { process: requested.process });
            }
            InstanceEvent::RestoreFailed(failed) => {
                self.finish(failed.process);
                self.fault = Some(Box::new((failed.fault.clone(), at)));
            }
            InstanceEvent::StateDeclared(declared) => self.declare(declared.state),
            InstanceEvent::NicAttached(attached) => self.nics.push(attached.nic.clone()),
            InstanceEvent::NicDetachRequested(asked) => self.detaching.push((asked.process, asked.port)),
            InstanceEvent::NicDetached(detached) => {
                self.nics.retain(|nic| nic.port != detached.port);
                self.detaching.retain(|(_, port)| *port != detached.port);
            }
            InstanceEvent::NicDetachFailed(failed) => self.detaching.retain(|(process, _)| *process != failed.process),
            InstanceEvent::NicsRefreshed(refreshed) => self.nics.clone_from(&refreshed.nics),
            InstanceEvent::BlockDevicesMapped(mapped) => self.boot_image = mapped.image.clone().map(Arc::new),
            InstanceEvent::WorkAdvanced(advanced) => {
                if let Some(ongoing) = self.ongoing.as_mut().filter(|ongoing| ongoing.process() == advanced.process) {
                    ongoing.advance(advanced.stage);
                }
            }
            InstanceEvent::SnapshotRequested(asked) => {
                let (process, image, backup) = (asked.process, asked.image, asked.backup.is_some());
                self.ongoing = Some(OngoingTask::Snapshot { process, image, backup, stage: WorkStage::Begun });
            }
            InstanceEvent::SnapshotTaken(taken) => self.settle(taken.process),
            InstanceEvent::SnapshotFailed(failed) => self.fail(failed.process, &failed.fault, at),
            InstanceEvent::RebuildRequested(asked) => self.rebuild(asked),
            InstanceEvent::Rebuilt(rebuilt) => {
                self.former = None;
                self.finish(rebuilt.process);
                self.launched_at = Some(at);
                self.phase = match self.phase {
                    Phase::Stopped { .. } => Phase::Stopped { power: Power::Shutdown },
                    _ => Phase::Active { power: Power::Running },
                };
            }
            InstanceEvent::RebuildFailed(failed) => {
                self.forget_rebuild();
                self.fail(failed.process, &failed.fault, at);
                self.phase = Phase::Error { power: self.power() };
            }
            InstanceEvent::RescueRequested(asked) => {
                self.ongoing = Some(OngoingTask::Rescue { process: asked.process });
                self.rescue = Some(Box::new(asked.image.clone()));
            }
            InstanceEvent::Rescued(rescued) => {
                self.finish(rescued.process);
                self.phase = Phase::Rescued { power: Power::Running };
            }
            InstanceEvent::RescueFailed(failed) => {
                self.rescue = None;
                self.fail(failed.process, &failed.fault, at);
            }
            InstanceEvent::UnrescueRequested(asked) => {
                self.ongoing = Some(OngoingTask::Unrescue { process: asked.process });
            }
            InstanceEvent::Restored(Restored { process }) | InstanceEvent::Unrescued(Unrescued { process }) => {
                self.finish(*process);
                self.rescue = None;
                self.phase = Phase::Active { power: Power::Running };
            }
            InstanceEvent::UnrescueFailed(failed) => self.fail(failed.process, &failed.fault, at),
            InstanceEvent::ShelveRequested(asked) => {
                self.ongoing = Some(OngoingTask::Shelve { process: asked.process, stage: WorkStage::Begun });
                self.shelved = asked.image;
            }
            InstanceEvent::Shelved(shelved) => {
                self.finish(shelved.process);
                self.phase = Phase::Shelved { power: Power::Shutdown, since: at };
            }
            InstanceEvent::ShelveFailed(failed) => {
                self.shelved = None;
                self.fail(failed.process, &failed.fault, at);
            }
            InstanceEvent::OffloadRequested(asked) => {
                self.ongoing = Some(OngoingTask::Offload { process: asked.process });
            }
            InstanceEvent::Offloaded(offloaded) => {
                self.finish(offloaded.process);
                self.placement = None;
                self.phase = Phase::Offloaded { power: Power::Shutdown };
            }
            InstanceEvent::UnshelveRequested(asked) => {
                self.ongoing = Some(OngoingTask::Unshelve { process: asked.process, stage: WorkStage::Begun });
                self.request.availability_zone.clone_from(&asked.availability_zone);
                // A forced host applies only to the creation of the server.
                self.request.forced_host = None;
                self.request.requested_host.clone_from(&asked.host);
            }
            InstanceEvent::Unshelved(unshelved) => {
                self.finish(unshelved.process);
                self.shelved = None;
                self.outdated_definition = false;
                if unshelved.root.is_some() {
                    self.root = unshelved.root.clone().map(Box::new);
                }
                if unshelved.root.is_some() || self.is_offloaded() {
                    self.launched_at = Some(at);
                }
                self.phase = Phase::Active { power: Power::Running };
            }
            InstanceEvent::UnshelveFailed(failed) => {
                self.fail(failed.process, &failed.fault, at);
                // An administrator may have reset the state meanwhile; the server still has no host.
                if self.placement.is_none() {
                    self.phase = Phase::Offloaded { power: Power::Shutdown };
                }
            }
            InstanceEvent::FilesGiven(given) => self.files.clone_from(&given.files),
            InstanceEvent::GuestPasswordPosted(posted) => self.guest_password = Some(posted.password.clone()),
            InstanceEvent::GuestPasswordCleared(_) => self.guest_password = None,
            InstanceEvent::Adopted(found) => adopted::evolve(self, found),
            InstanceEvent::TpmSecretStored(stored) => self.tpm = Some(Box::new(stored.clone())),
            InstanceEvent::MachineTypeRecorded(recorded) => {
                self.machine_type = Some(recorded.machine_type.clone());
            }
            InstanceEvent::MachineTypeChanged(changed) => {
                self.machine_type = Some(changed.machine_type.clone());
                self.outdated_definition = true;
            }
            InstanceEvent::ImagePropertiesChanged(changed) => {
                if let Some(image) = self.hardware_image_mut() {
                    changed.merge_into(&mut image.properties);
                }
                self.outdated_definition = true;
            }
            InstanceEvent::PasswordChangeRequested(asked) => {
                self.ongoing = Some(OngoingTask::ChangePassword { process: asked.process });
            }
            InstanceEvent::PasswordChanged(changed) => self.settle(changed.process),
            InstanceEvent::PasswordChangeFailed(failed) => self.fail(failed.process, &failed.fault, at),
            InstanceEvent::BuildRequested(_)
            | InstanceEvent::BlockDevicesPrepared(_)
            | InstanceEvent::CrashDumpRequested(_)
            | InstanceEvent::ConfirmRequested(_)
            | InstanceEvent::Deleted(_)
            | InstanceEvent::Evacuated(_)
            | InstanceEvent::DiskExtensionRequested(_)
            | InstanceEvent::EvacuationRequested(_)
            | InstanceEvent::LiveAbortRequested(_)
            | InstanceEvent::LiveCompletionForced(_)
            | InstanceEvent::LiveMoveAborted(_)
            | InstanceEvent::LiveMoveAdvanced(_)
            | InstanceEvent::LiveMoveProgressed(_)
            | InstanceEvent::LiveMoveRequested(_)
            | InstanceEvent::LiveMoved(_)
            | InstanceEvent::MigrationAdopted(_)
            | InstanceEvent::MoveAdvanced(_)
            | InstanceEvent::MoveFailed(_)
            | InstanceEvent::MoveRequested(_)
            | InstanceEvent::MoveTargeted(_)
            | InstanceEvent::MoveUntargeted(_)
            | InstanceEvent::NicAttachRequested(_)
            | InstanceEvent::PersonalErased(_)
            | InstanceEvent::ResizeConfirmed(_)
            | InstanceEvent::ResizeReverted(_)
            | InstanceEvent::Resized(_)
            | InstanceEvent::RevertFailed(_)
            | InstanceEvent::RevertRequested(_)
            | InstanceEvent::Scheduled(_)
            | InstanceEvent::VolumeAttachFailed(_)
            | InstanceEvent::VolumeAttachRequested(_)
            | InstanceEvent::VolumeAttached(_)
            | InstanceEvent::VolumeDeletionChanged(_)
            | InstanceEvent::VolumeDetachFailed(_)
            | InstanceEvent::VolumeDetachRequested(_)
            | InstanceEvent::VolumeDetached(_)
            | InstanceEvent::VolumeSwapFailed(_)
            | InstanceEvent::VolumeSwapRequested(_)
            | InstanceEvent::VolumeSwapped(_) => {}
        }
    }

    /// Resets the state, and ends the operation under way. Some operations continue to their end: builds, deletes, and
    /// operations that take the server off a host, onto a host or to another host.
    fn declare(&mut self, state: DeclaredState) {
        self.build = self.building();
        let power = self.power();
        self.phase = match state {
            DeclaredState::Active => Phase::Active { power },
            DeclaredState::Error => Phase::Error { power },
        };
        let leaves = self.shelved.is_none();
        self.ongoing = self.ongoing.filter(|ongoing| match ongoing {
            OngoingTask::Delete { .. } | OngoingTask::Offload { .. } | OngoingTask::Unshelve { .. } => true,
            OngoingTask::Shelve { .. } => leaves,
            other => other.is_moving(),
        });
    }

    fn rebuild(&mut self, asked: &RebuildRequested) {
        let (process, stage, reimage) = (asked.process, WorkStage::Begun, asked.reimage);
        self.ongoing = Some(OngoingTask::Rebuild { process, stage, reimage });
        let image = if self.is_volume_backed() { &self.boot_image } else { &self.request.image };
        let (image, machine_type) = (image.clone(), self.machine_type.clone());
        self.former = Some(Box::new(FormerImage { image, root: self.root.take(), machine_type }));
        let machine = asked.image.properties.iter().find(|(name, _)| asked.other_image && name == "hw_machine_type");
        self.machine_type = machine.map(|(_, machine_type)| machine_type.clone()).or_else(|| self.machine_type.take());
        // The `image` of a server with a volume as root disk stays empty, even after an image was written to the
        // volume.
        match self.is_volume_backed() {
            true => self.boot_image = Some(Arc::new(asked.image.clone())),
            false => self.request.image = Some(Arc::new(asked.image.clone())),
        }
        // These files belong to the former guest; files in the rebuild request follow in an event of their own.
        self.files.clear();
        let request = &mut self.request;
        request.name.clone_from(&asked.name);
        request.hostname.clone_from(&asked.hostname);
        request.description.clone_from(&asked.description);
        request.key.clone_from(&asked.key);
        request.user_data.clone_from(&asked.user_data);
        request.metadata.clone_from(&asked.metadata);
        request.trusted_certs.clone_from(&asked.trusted_certs);
        request.disk_config = asked.disk_config;
        request.access_ip_v4.clone_from(&asked.access_ip_v4);
        request.access_ip_v6.clone_from(&asked.access_ip_v6);
    }

    /// Ends the operation of this process. The server stays in its earlier state, but a power state that the host
    /// reported meanwhile now applies.
    fn settle(&mut self, process: ProcessId) {
        self.finish(process);
        self.observe(self.power());
    }

    fn fail(&mut self, process: ProcessId, fault: &FaultInfo, at: Timestamp) {
        self.settle(process);
        self.fault = Some(Box::new((fault.clone(), at)));
    }

    fn stage(&mut self, to: Stage) {
        if let Phase::Building { stage, .. } = &mut self.phase {
            *stage = to;
        }
    }

    pub(super) fn finish(&mut self, process: ProcessId) {
        if self.ongoing.is_some_and(|ongoing| ongoing.process() == process) {
            self.ongoing = None;
        }
    }

    /// Applies a power state that the host reports, as Nova's synchronisation of power states does. A guest that
    /// stopped by itself makes the server stopped; a guest started outside Chronova makes it active. A paused or
    /// suspended server stays so until a user resumes it. But a paused server becomes stopped if its guest is off,
    /// because the guest's memory is lost. While a process works on the server, the report changes only the power
    /// state.
    fn observe(&mut self, seen: Power) {
        let settled = self.ongoing.is_none();
        self.phase = match (self.phase, seen) {
            (Phase::Active { .. } | Phase::Paused { .. }, Power::Shutdown | Power::Crashed) if settled => {
                Phase::Stopped { power: seen }
            }
            (Phase::Stopped { .. }, Power::Running) if settled => Phase::Active { power: seen },
            (Phase::Active { .. }, power) => Phase::Active { power },
            (Phase::Stopped { .. }, power) => Phase::Stopped { power },
            (Phase::Error { .. }, power) => Phase::Error { power },
            (Phase::Paused { .. }, power) => Phase::Paused { power },
            (Phase::Suspended { .. }, power) => Phase::Suspended { power },
            (Phase::SoftDeleted { since, .. }, power) => Phase::SoftDeleted { power, since },
            (Phase::Rescued { .. }, power) => Phase::Rescued { power },
            (Phase::Shelved { since, .. }, power) => Phase::Shelved { power, since },
            (Phase::Offloaded { .. }, power) => Phase::Offloaded { power },
            (Phase::Resized { since, .. }, power) => Phase::Resized { power, since },
            (building @ Phase::Building { .. }, _) => building,
        };
    }
}
