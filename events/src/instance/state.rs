//! What the events of a server add up to.

use serde::{Deserialize, Serialize};

use super::InstanceEvent;
use super::moving::{Moving, Resized};
use super::operator::DeclaredState;
use super::payloads::{BuildRequested, DeleteRequested, FaultInfo, Locked, NicInfo, Placed, Power, PowerAction};
use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{HostId, ProcessId};

/// A server: not yet asked for, alive, or gone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum Instance {
    #[default]
    Absent,
    Alive(Box<Alive>),
    Deleted(Box<Alive>),
}

/// A server that was asked for. `request` holds the current values of what can be changed (name, metadata, ...).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alive {
    pub request: BuildRequested,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub launched_at: Option<Timestamp>,
    pub terminated_at: Option<Timestamp>,
    pub placement: Option<Placed>,
    pub nics: Vec<NicInfo>,
    pub phase: Phase,
    /// A build that goes on although an administrator said that the server is in another state.
    pub build: Option<ProcessId>,
    /// The process that is changing the server now.
    pub ongoing: Option<Ongoing>,
    pub fault: Option<(FaultInfo, Timestamp)>,
    pub lock: Option<Locked>,
    /// A move under way, or done and neither confirmed nor reverted.
    pub moving: Option<Box<Moving>>,
}

/// Where a server stands when nobody is changing it.
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
    /// A delete leads out, and a hard reboot of a server that once ran.
    Error {
        power: Power,
    },
    /// The guest is in memory and stands still.
    Paused {
        power: Power,
    },
    /// The guest is off; its memory is on the host's disk.
    Suspended {
        power: Power,
    },
    /// Deleted since then, and not yet for good.
    SoftDeleted {
        power: Power,
        since: Timestamp,
    },
    /// Moved since then, and neither confirmed nor reverted.
    Resized {
        power: Power,
        since: Timestamp,
    },
}

/// How far a build has come; the API shows it as `task_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    Scheduling,
    Networking,
    Spawning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ongoing {
    Power { process: ProcessId, action: PowerAction },
    Delete { process: ProcessId, cancels: Option<ProcessId> },
    SoftDelete { process: ProcessId },
    Restore { process: ProcessId },
    Move { process: ProcessId },
    Confirm { process: ProcessId },
    Revert { process: ProcessId },
}

impl Ongoing {
    pub fn process(&self) -> ProcessId {
        match self {
            Self::Power { process, .. }
            | Self::Delete { process, .. }
            | Self::SoftDelete { process }
            | Self::Restore { process }
            | Self::Move { process }
            | Self::Confirm { process }
            | Self::Revert { process } => *process,
        }
    }
}

impl Instance {
    pub fn alive(&self) -> Option<&Alive> {
        match self {
            Self::Alive(alive) => Some(alive),
            Self::Absent | Self::Deleted(_) => None,
        }
    }

    /// The server, be it alive or gone.
    pub fn known(&self) -> Option<&Alive> {
        match self {
            Self::Alive(alive) | Self::Deleted(alive) => Some(alive),
            Self::Absent => None,
        }
    }
}

impl Fold for Instance {
    type Event = InstanceEvent;
    const STATE_VERSION: u32 = 5;

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
            // Whether it is alive or gone: erasing is no change of the server, so it is not "updated".
            (Self::Alive(known) | Self::Deleted(known), InstanceEvent::PersonalErased(_)) => known.forget(),
            (Self::Alive(alive), event) => alive.evolve(event, at),
            (Self::Absent | Self::Deleted(_), _) => {}
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
            phase: Phase::Building { process: request.process, stage: Stage::Scheduling },
            build: None,
            ongoing: None,
            fault: None,
            lock: None,
            moving: None,
        }
    }

    fn evolve(&mut self, event: &InstanceEvent, at: Timestamp) {
        self.updated_at = at;
        match event {
            InstanceEvent::Placed(placed) => {
                self.placement = Some(placed.clone());
                self.stage(Stage::Networking);
            }
            InstanceEvent::Unplaced(_) => {
                self.placement = None;
                self.nics.clear();
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
                self.fault = Some((failed.fault.clone(), at));
            }
            InstanceEvent::DeleteRequested(DeleteRequested { process, cancels }) => {
                self.ongoing = Some(Ongoing::Delete { process: *process, cancels: *cancels });
            }
            InstanceEvent::PowerRequested(requested) => {
                self.ongoing = Some(Ongoing::Power { process: requested.process, action: requested.action });
            }
            InstanceEvent::PowerCompleted(completed) => {
                self.finish(completed.process);
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
            InstanceEvent::PowerFailed(failed) => {
                self.finish(failed.process);
                self.fault = Some((failed.fault.clone(), at));
                // What was seen meanwhile counts now.
                self.observe(self.power());
            }
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
                self.ongoing = Some(Ongoing::SoftDelete { process: requested.process });
            }
            InstanceEvent::SoftDeleted(deleted) => {
                self.finish(deleted.process);
                self.phase = Phase::SoftDeleted { power: Power::Shutdown, since: at };
            }
            InstanceEvent::RestoreRequested(requested) => {
                self.ongoing = Some(Ongoing::Restore { process: requested.process });
            }
            InstanceEvent::Restored(restored) => {
                self.finish(restored.process);
                self.phase = Phase::Active { power: Power::Running };
            }
            InstanceEvent::RestoreFailed(failed) => {
                self.finish(failed.process);
                self.fault = Some((failed.fault.clone(), at));
            }
            InstanceEvent::StateDeclared(declared) => self.declare(declared.state),
            InstanceEvent::NicAttached(attached) => self.nics.push(attached.nic.clone()),
            InstanceEvent::NicDetached(detached) => self.nics.retain(|nic| nic.port != detached.port),
            InstanceEvent::NicsRefreshed(refreshed) => self.nics.clone_from(&refreshed.nics),
            InstanceEvent::MoveRequested(requested) => {
                self.moving = Some(Box::new(Moving::begin(requested, matches!(self.phase, Phase::Active { .. }))));
                self.ongoing = Some(Ongoing::Move { process: requested.process });
                if let Some(disk_config) = requested.disk_config {
                    self.request.disk_config = disk_config;
                }
            }
            InstanceEvent::MoveTargeted(targeted) => self.aim(Some(targeted.target.clone())),
            InstanceEvent::MoveUntargeted(_) => self.aim(None),
            InstanceEvent::MoveAdvanced(advanced) => {
                if let Some(moving) = &mut self.moving {
                    moving.stage = advanced.stage;
                }
            }
            InstanceEvent::Resized(resized) => self.arrive(resized, at),
            InstanceEvent::MoveFailed(failed) => {
                let turn = self.ongoing.is_some_and(|ongoing| ongoing.process() == failed.process);
                self.finish(failed.process);
                self.fault = Some((failed.fault.clone(), at));
                let moving = self.moving.take();
                if turn && matches!(self.phase, Phase::Active { .. } | Phase::Stopped { .. }) {
                    self.rest(moving.is_some_and(|moving| moving.was_active));
                }
            }
            InstanceEvent::ConfirmRequested(requested) => {
                self.ongoing = Some(Ongoing::Confirm { process: requested.process });
            }
            InstanceEvent::ResizeConfirmed(confirmed) => {
                self.finish(confirmed.process);
                self.moving = None;
                if let Phase::Resized { power, .. } = self.phase {
                    self.phase = match power {
                        Power::Shutdown | Power::Crashed => Phase::Stopped { power },
                        _ => Phase::Active { power },
                    };
                }
            }
            InstanceEvent::RevertRequested(requested) => {
                self.ongoing = Some(Ongoing::Revert { process: requested.process });
            }
            InstanceEvent::ResizeReverted(reverted) => {
                self.finish(reverted.process);
                self.placement = Some(reverted.placed.clone());
                if let Some(moving) = self.moving.take() {
                    self.request.flavor = moving.old_flavor;
                    self.rest(moving.was_active);
                }
            }
            InstanceEvent::RevertFailed(failed) => {
                self.finish(failed.process);
                self.fault = Some((failed.fault.clone(), at));
            }
            InstanceEvent::BuildRequested(_)
            | InstanceEvent::CrashDumpRequested(_)
            | InstanceEvent::Deleted(_)
            | InstanceEvent::NicAttachRequested(_)
            | InstanceEvent::NicDetachFailed(_)
            | InstanceEvent::NicDetachRequested(_)
            | InstanceEvent::PersonalErased(_)
            | InstanceEvent::Scheduled(_) => {}
        }
    }

    /// What reading the erased events again would give.
    fn forget(&mut self) {
        crate::sealed::erase_request(&mut self.request);
        if let Some(lock) = &mut self.lock {
            lock.reason = None;
        }
    }

    pub fn power(&self) -> Power {
        match self.phase {
            Phase::Building { .. } => Power::NoState,
            Phase::Active { power }
            | Phase::Stopped { power }
            | Phase::Error { power }
            | Phase::Paused { power }
            | Phase::Suspended { power }
            | Phase::SoftDeleted { power, .. }
            | Phase::Resized { power, .. } => power,
        }
    }

    /// The build at work on the server.
    pub fn building(&self) -> Option<ProcessId> {
        match self.phase {
            Phase::Building { process, .. } => Some(process),
            _ => self.build,
        }
    }

    /// The process that has to be called off before the server can be deleted: its build, or its move.
    pub fn interruptible(&self) -> Option<ProcessId> {
        let moving = self.ongoing.filter(|ongoing| {
            matches!(ongoing, Ongoing::Move { .. } | Ongoing::Confirm { .. } | Ongoing::Revert { .. })
        });
        self.building().or(moving.map(|ongoing| ongoing.process()))
    }

    /// Whether something of the server may be on the host.
    pub fn concerns(&self, host: HostId) -> bool {
        self.placement.as_ref().is_some_and(|placed| placed.host == host)
            || self.moving.as_ref().is_some_and(|moving| moving.concerns(host))
    }

    fn aim(&mut self, at: Option<Placed>) {
        if let Some(moving) = &mut self.moving {
            moving.target = at;
        }
    }

    fn arrive(&mut self, resized: &Resized, at: Timestamp) {
        self.finish(resized.process);
        self.placement = Some(resized.placed.clone());
        self.launched_at = Some(at);
        if let Some(moving) = &self.moving {
            self.request.flavor = moving.new_flavor.clone();
            let power = if moving.was_active { Power::Running } else { Power::Shutdown };
            self.phase = Phase::Resized { power, since: at };
        }
    }

    /// As it was before a move.
    fn rest(&mut self, active: bool) {
        self.phase = match active {
            true => Phase::Active { power: Power::Running },
            false => Phase::Stopped { power: Power::Shutdown },
        };
    }

    /// Whether the server counts for nothing any more and can be brought back.
    pub fn is_soft_deleted(&self) -> bool {
        matches!(self.phase, Phase::SoftDeleted { .. })
    }

    /// What is under way is forgotten, except what cannot be: a build goes on to its end, and so do a delete and a move.
    fn declare(&mut self, state: DeclaredState) {
        self.build = self.building();
        let power = self.power();
        self.phase = match state {
            DeclaredState::Active => Phase::Active { power },
            DeclaredState::Error => Phase::Error { power },
        };
        self.ongoing = self.ongoing.filter(|ongoing| {
            matches!(
                ongoing,
                Ongoing::Delete { .. } | Ongoing::Move { .. } | Ongoing::Confirm { .. } | Ongoing::Revert { .. }
            )
        });
    }

    fn stage(&mut self, to: Stage) {
        if let Phase::Building { stage, .. } = &mut self.phase {
            *stage = to;
        }
    }

    fn finish(&mut self, process: ProcessId) {
        if self.ongoing.is_some_and(|ongoing| ongoing.process() == process) {
            self.ongoing = None;
        }
    }

    /// As Nova's power-state synchronisation does: a guest that stopped by itself is a stopped server, one that was
    /// started behind our back is an active one. A paused or suspended server stays so until it is asked back, but a
    /// paused guest that is off has lost its memory. While a process works on the server, the process has the word.
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
            (Phase::Resized { since, .. }, power) => Phase::Resized { power, since },
            (building @ Phase::Building { .. }, _) => building,
        };
    }
}
