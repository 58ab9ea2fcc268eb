//! Every move of every server, for `os-migrations`.
//!
//! The id of a migration is the id of the process that moves the server. Migrations are numbered from 1 in the order of
//! the log. Those of an adopted control plane come first, and their numbers have gaps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::{Cause, Recorded, Timestamp};
use chronova_events::host::HostEvent;
use chronova_events::ids::{FlavorId, HostId, InstanceId, ProcessId, ProjectId, UserId};
use chronova_events::instance::{
    AdoptedEnd, AdoptedOutcome, InstanceEvent, LiveProgress, LiveStage, MigrationAdopted, MoveKind, MoveRequested,
    MoveStage, Placed,
};
use chronova_events::registry::{Event, NounEvent};
use serde::{Deserialize, Serialize};

use crate::Projection;

/// A migration's status, in Nova's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MigrationStatus {
    PreMigrating,
    Migrating,
    PostMigrating,
    Finished,
    Confirming,
    Confirmed,
    Reverting,
    Reverted,
    Error,
    /// A stage of a live migration.
    Live(LiveStage),
    Completed,
    Cancelled,
    /// An evacuation without a destination yet.
    Accepted,
    /// In an evacuation, the server has reached its destination, and its old host is not back yet.
    Done,
    Failed,
}

impl MigrationStatus {
    pub fn word(self) -> &'static str {
        match self {
            Self::PreMigrating => "pre-migrating",
            Self::Migrating => "migrating",
            Self::PostMigrating => "post-migrating",
            Self::Finished => "finished",
            Self::Confirming => "confirming",
            Self::Confirmed => "confirmed",
            Self::Reverting => "reverting",
            Self::Reverted => "reverted",
            Self::Error => "error",
            Self::Live(stage) => stage.word(),
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Accepted => "accepted",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// The source or destination of a migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationEnd {
    pub host: HostId,
    pub hostname: String,
}

impl From<&Placed> for MigrationEnd {
    fn from(placed: &Placed) -> Self {
        Self { host: placed.host, hostname: placed.hostname.clone() }
    }
}

/// One migration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Migration {
    pub number: u64,
    pub id: ProcessId,
    pub instance: InstanceId,
    pub kind: MoveKind,
    pub old_flavor: FlavorId,
    pub new_flavor: FlavorId,
    pub source: MigrationEnd,
    pub target: Option<MigrationEnd>,
    pub status: MigrationStatus,
    /// The requester; `None` for the control plane itself.
    pub user: Option<UserId>,
    pub project: Option<ProjectId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The progress that was recorded last.
    pub progress: LiveProgress,
}

impl Migration {
    /// Whether this is a live migration that is under way or queued.
    pub fn is_under_way(&self) -> bool {
        matches!(self.status, MigrationStatus::Live(stage) if stage != LiveStage::Accepted)
    }

    /// Nova's `migration_type`: `resize`, `migration`, `live-migration` or `evacuation`.
    pub fn kind_word(&self) -> &'static str {
        match self.kind {
            MoveKind::Resize => "resize",
            MoveKind::Migrate => "migration",
            MoveKind::Live => "live-migration",
            MoveKind::Evacuate => "evacuation",
        }
    }
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Migrations {
    /// All migrations, sorted by number.
    all: Vec<Arc<Migration>>,
    /// The last migration of each server, as an index into `all`.
    newest: BTreeMap<InstanceId, usize>,
    /// Evacuations whose server has left, by their source host. That host may still have leftovers of the server.
    left: BTreeMap<HostId, Vec<usize>>,
    /// Hosts that do not answer.
    down: BTreeSet<HostId>,
    /// Hosts that an administrator forced down. They may answer.
    forced: BTreeSet<HostId>,
}

impl Migrations {
    /// All migrations, newest first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Migration>> {
        self.all.iter().rev()
    }

    /// Whether the log has recorded, at or after `since`, a move of the server from or to this host. The end of an
    /// evacuation does not count. The log records that end when the old host is back, so its time says nothing about
    /// the server.
    pub fn touched(&self, instance: InstanceId, host: HostId, since: Timestamp) -> bool {
        let ends_there =
            |row: &Migration| row.source.host == host || row.target.as_ref().is_some_and(|target| target.host == host);
        let learnt = |row: &Migration| match row.kind {
            MoveKind::Evacuate => row.created_at >= since,
            MoveKind::Resize | MoveKind::Migrate | MoveKind::Live => row.updated_at >= since,
        };
        self.all.iter().any(|row| row.instance == instance && learnt(row) && ends_there(row))
    }

    /// The live migrations of a server that are under way.
    pub fn live_of(&self, instance: InstanceId) -> impl Iterator<Item = &Arc<Migration>> {
        self.all.iter().filter(move |row| row.instance == instance && row.is_under_way())
    }

    pub fn of_process(&self, process: ProcessId) -> Option<&Arc<Migration>> {
        self.all.iter().rev().find(|row| row.id == process)
    }

    /// The last migration of a server, deleted or not; `None` if the server never moved.
    pub fn last_of(&self, instance: InstanceId) -> Option<&Arc<Migration>> {
        self.newest.get(&instance).and_then(|at| self.all.get(*at))
    }

    pub fn numbered(&self, instance: InstanceId, number: u64) -> Option<&Arc<Migration>> {
        let at = self.all.binary_search_by_key(&number, |row| row.number).ok()?;
        self.all.get(at).filter(|row| row.instance == instance)
    }

    fn next_number(&self) -> u64 {
        self.all.last().map_or(0, |row| row.number) + 1
    }

    /// Adds a migration of an adopted control plane. Two cells of the other cloud may have used the same number, so the
    /// later migration gets another number.
    fn adopt(&mut self, instance: InstanceId, adopted: &MigrationAdopted) {
        let end = |end: &AdoptedEnd| MigrationEnd { host: end.host, hostname: end.hostname.clone() };
        self.newest.insert(instance, self.all.len());
        self.all.push(Arc::new(Migration {
            number: adopted.number.max(self.next_number()),
            id: adopted.migration,
            instance,
            kind: adopted.kind,
            old_flavor: adopted.old_flavor.clone(),
            new_flavor: adopted.new_flavor.clone(),
            source: end(&adopted.source),
            target: adopted.target.as_ref().map(end),
            status: match adopted.outcome {
                AdoptedOutcome::Finished => MigrationStatus::Finished,
                AdoptedOutcome::Confirmed => MigrationStatus::Confirmed,
                AdoptedOutcome::Reverted => MigrationStatus::Reverted,
                AdoptedOutcome::Completed => MigrationStatus::Completed,
                AdoptedOutcome::Done => MigrationStatus::Done,
                AdoptedOutcome::Error => MigrationStatus::Error,
                AdoptedOutcome::Failed => MigrationStatus::Failed,
                AdoptedOutcome::Cancelled => MigrationStatus::Cancelled,
            },
            user: adopted.user.clone(),
            project: adopted.project.clone(),
            created_at: adopted.created_at,
            updated_at: adopted.updated_at,
            progress: adopted.progress,
        }));
    }

    fn begin(&mut self, instance: InstanceId, recorded: &Recorded, event: &InstanceEvent) {
        let live;
        let asked = match event {
            InstanceEvent::MoveRequested(asked) => asked,
            InstanceEvent::LiveMoveRequested(asked) => {
                live = MoveRequested {
                    process: asked.process,
                    kind: MoveKind::Live,
                    source: asked.source.clone(),
                    old_flavor: asked.flavor.clone(),
                    new_flavor: asked.flavor.clone(),
                    host: asked.host.clone(),
                    disk_config: None,
                };
                &live
            }
            InstanceEvent::EvacuationRequested(asked) => {
                live = MoveRequested {
                    process: asked.process,
                    kind: MoveKind::Evacuate,
                    source: asked.source.clone(),
                    old_flavor: asked.flavor.clone(),
                    new_flavor: asked.flavor.clone(),
                    host: asked.host.clone(),
                    disk_config: None,
                };
                &live
            }
            _ => return,
        };
        let (user, project) = match &recorded.meta.cause {
            Cause::User { user, project, .. } => (Some(user.clone()), project.clone()),
            Cause::Process { .. } | Cause::System { .. } => (None, None),
        };
        self.newest.insert(instance, self.all.len());
        self.all.push(Arc::new(Migration {
            number: self.next_number(),
            id: asked.process,
            instance,
            kind: asked.kind,
            old_flavor: asked.old_flavor.id.clone(),
            new_flavor: asked.new_flavor.id.clone(),
            source: MigrationEnd::from(&asked.source),
            target: None,
            status: match asked.kind {
                MoveKind::Live => MigrationStatus::Live(LiveStage::Accepted),
                MoveKind::Evacuate => MigrationStatus::Accepted,
                MoveKind::Resize | MoveKind::Migrate => MigrationStatus::PreMigrating,
            },
            user,
            project,
            created_at: recorded.recorded_at,
            updated_at: recorded.recorded_at,
            progress: LiveProgress::default(),
        }));
    }
}

impl Migrations {
    fn evacuate(&mut self, at: usize, recorded: &Recorded, event: &InstanceEvent) {
        use MigrationStatus as Now;
        let Some(row) = self.all.get_mut(at) else { return };
        let (status, target) = match (event, row.status) {
            (InstanceEvent::MoveTargeted(targeted), _) => {
                (Now::PreMigrating, Some(MigrationEnd::from(&targeted.target)))
            }
            (InstanceEvent::MoveUntargeted(_), now) => (now, None),
            // If the old host came back during the evacuation, no later event would complete this migration, so it
            // completes now.
            (InstanceEvent::Evacuated(_), _)
                if !self.down.contains(&row.source.host) && !self.forced.contains(&row.source.host) =>
            {
                (Now::Completed, row.target.clone())
            }
            (InstanceEvent::Evacuated(_), _) => (Now::Done, row.target.clone()),
            // As in Nova, this status means that no valid host was found, or that the destination refused.
            (InstanceEvent::MoveFailed(_), Now::Accepted) => (Now::Error, None),
            (InstanceEvent::MoveFailed(_) | InstanceEvent::Deleted(_), Now::Accepted | Now::PreMigrating) => {
                (Now::Failed, row.target.clone())
            }
            _ => return,
        };
        if status == Now::Done {
            self.left.entry(row.source.host).or_default().push(at);
        }
        let row = Arc::make_mut(row);
        (row.status, row.target, row.updated_at) = (status, target, recorded.recorded_at);
    }

    fn apply_host(&mut self, host: HostId, recorded: &Recorded, event: &HostEvent) {
        match event {
            HostEvent::Registered(_) => {
                self.forced.remove(&host);
                self.down.remove(&host);
                self.complete(host, recorded);
            }
            HostEvent::CameUp(_) => {
                self.down.remove(&host);
                self.complete(host, recorded);
            }
            HostEvent::WentDown(_) => {
                self.down.insert(host);
            }
            HostEvent::ForcedDown(forced) if forced.forced => {
                self.forced.insert(host);
            }
            HostEvent::ForcedDown(_) => {
                self.forced.remove(&host);
                // A host that does not answer still has its leftovers.
                if !self.down.contains(&host) {
                    self.complete(host, recorded);
                }
            }
            _ => {}
        }
    }

    /// Completes a host's evacuations. The log records the host as up only after its leftovers are removed.
    fn complete(&mut self, host: HostId, recorded: &Recorded) {
        for at in self.left.remove(&host).unwrap_or_default() {
            if let Some(row) = self.all.get_mut(at) {
                let row = Arc::make_mut(row);
                (row.status, row.updated_at) = (MigrationStatus::Completed, recorded.recorded_at);
            }
        }
    }
}

impl Projection for Migrations {
    const NAME: &'static str = "migrations";
    const VERSION: u32 = 5;
    const NOUNS: &'static [&'static str] = &["host", "instance"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        if let Event::HostEvent(event) = event {
            if let Ok(host) = recorded.stream.key().parse() {
                self.apply_host(host, recorded, event);
            }
            return;
        }
        let Some(event) = InstanceEvent::of(event) else { return };
        let Ok(instance) = recorded.stream.key().parse::<InstanceId>() else { return };
        if let InstanceEvent::MigrationAdopted(adopted) = event {
            return self.adopt(instance, adopted);
        }
        if let InstanceEvent::MoveRequested(_)
        | InstanceEvent::LiveMoveRequested(_)
        | InstanceEvent::EvacuationRequested(_) = event
        {
            return self.begin(instance, recorded, event);
        }
        let Some(at) = self.newest.get(&instance).copied() else { return };
        let Some(row) = self.all.get_mut(at) else { return };
        if row.kind == MoveKind::Evacuate {
            return self.evacuate(at, recorded, event);
        }
        let Some(change) = change(row.status, event) else { return };
        let row = Arc::make_mut(row);
        row.updated_at = recorded.recorded_at;
        match change {
            MigrationChange::Status(status) => row.status = status,
            MigrationChange::Target(target) => row.target = target,
            MigrationChange::Progress(progress) => row.progress = progress,
        }
    }

    fn weight(&self) -> u64 {
        self.all.len() as u64 * 512
    }
}

enum MigrationChange {
    Status(MigrationStatus),
    Target(Option<MigrationEnd>),
    Progress(LiveProgress),
}

fn change(now: MigrationStatus, event: &InstanceEvent) -> Option<MigrationChange> {
    use MigrationStatus as Now;
    Some(MigrationChange::Status(match event {
        InstanceEvent::MoveTargeted(targeted) => {
            return Some(MigrationChange::Target(Some(MigrationEnd::from(&targeted.target))));
        }
        InstanceEvent::MoveUntargeted(_) => return Some(MigrationChange::Target(None)),
        InstanceEvent::LiveMoveProgressed(progressed) => return Some(MigrationChange::Progress(progressed.progress)),
        InstanceEvent::LiveMoveAdvanced(advanced) => Now::Live(advanced.stage),
        InstanceEvent::LiveMoved(_) => Now::Completed,
        InstanceEvent::LiveMoveAborted(_) => Now::Cancelled,
        InstanceEvent::MoveAdvanced(advanced) => match advanced.stage {
            MoveStage::Preparing => Now::PreMigrating,
            MoveStage::Migrating => Now::Migrating,
            MoveStage::Migrated | MoveStage::Finishing => Now::PostMigrating,
        },
        // After a failed revert, the user can confirm the resize, or revert it later.
        InstanceEvent::Resized(_) | InstanceEvent::RevertFailed(_) => Now::Finished,
        InstanceEvent::MoveFailed(_) => Now::Error,
        InstanceEvent::ConfirmRequested(_) => Now::Confirming,
        InstanceEvent::ResizeConfirmed(_) => Now::Confirmed,
        InstanceEvent::RevertRequested(_) => Now::Reverting,
        InstanceEvent::ResizeReverted(_) => Now::Reverted,
        // As in Nova, the delete of a server confirms a finished resize.
        InstanceEvent::Deleted(_) => match now {
            Now::Finished | Now::Confirming => Now::Confirmed,
            Now::PreMigrating | Now::Migrating | Now::PostMigrating | Now::Reverting => Now::Error,
            Now::Live(_) => Now::Cancelled,
            Now::Confirmed | Now::Reverted | Now::Error | Now::Completed | Now::Cancelled => return None,
            Now::Accepted | Now::Done | Now::Failed => return None,
        },
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use chronova_events::envelope::{StreamId, Timestamp};
    use chronova_events::host::{CameUp, ForcedDown, WentDown};
    use chronova_events::instance;

    use super::*;
    use crate::test_events::recorded;

    fn apply(view: &mut Migrations, stream: StreamId, event: &Event) {
        apply_at(view, 1, stream, event);
    }

    fn apply_at(view: &mut Migrations, time: i64, stream: StreamId, event: &Event) {
        let recorded = recorded(stream, time, event);
        view.apply(&recorded, event);
    }

    fn sample(kind: &str) -> Event {
        instance::samples().into_iter().map(Event::from).find(|event| event.kind() == kind).unwrap()
    }

    /// The request of an evacuation, and the host that the server leaves.
    fn evacuation() -> (Event, HostId) {
        let asked = sample("instance.evacuation_requested");
        let source = match InstanceEvent::of(&asked) {
            Some(InstanceEvent::EvacuationRequested(asked)) => asked.source.host,
            _ => unreachable!(),
        };
        (asked, source)
    }

    /// Checks two evacuations. The old host of the first one is up again before the evacuation ends; the old host of
    /// the second one comes back later.
    #[test]
    fn an_evacuation_completes_when_its_old_host_is_back_before_or_after_its_end() {
        let (asked, source) = evacuation();
        let down = Event::from(HostEvent::from(WentDown { reason: "cut".to_owned() }));
        let up = Event::from(HostEvent::from(CameUp {}));
        let (server, host) = (StreamId::new("instance", InstanceId::random()), StreamId::new("host", source));
        for early in [false, true] {
            let mut view = Migrations::default();
            apply(&mut view, host.clone(), &down);
            apply(&mut view, server.clone(), &asked);
            if early {
                apply(&mut view, host.clone(), &up);
            }
            apply(&mut view, server.clone(), &sample("instance.evacuated"));
            let status = |view: &Migrations| view.all().next().unwrap().status;
            assert_eq!(status(&view), if early { MigrationStatus::Completed } else { MigrationStatus::Done });
            apply(&mut view, host.clone(), &up);
            assert_eq!(status(&view), MigrationStatus::Completed);
        }
    }

    /// A host that comes back says nothing about the place of its former server.
    #[test]
    fn the_return_of_a_host_is_no_knowledge_about_an_evacuated_server() {
        let (asked, source) = evacuation();
        let instance = InstanceId::random();
        let (server, host) = (StreamId::new("instance", instance), StreamId::new("host", source));
        let mut view = Migrations::default();
        apply_at(&mut view, 5, server.clone(), &asked);
        apply_at(&mut view, 6, server, &sample("instance.evacuated"));
        apply_at(&mut view, 20, host, &Event::from(HostEvent::from(CameUp {})));
        assert!(view.touched(instance, source, Timestamp(5)));
        assert!(!view.touched(instance, source, Timestamp(10)));
    }

    /// An administrator forces a host down and back, and its leftovers stay until the host answers.
    #[test]
    fn an_evacuation_is_not_complete_while_its_old_host_does_not_answer() {
        let (asked, source) = evacuation();
        let down = Event::from(HostEvent::from(WentDown { reason: "cut".to_owned() }));
        let up = Event::from(HostEvent::from(CameUp {}));
        let forced = |forced: bool| Event::from(HostEvent::from(ForcedDown { forced }));
        let evacuated = sample("instance.evacuated");
        let (server, host) = (StreamId::new("instance", InstanceId::random()), StreamId::new("host", source));
        let after = |events: &[&Event]| {
            let mut view = Migrations::default();
            for event in events {
                let stream = if event.kind().starts_with("host.") { &host } else { &server };
                apply(&mut view, stream.clone(), event);
            }
            view.all().next().unwrap().status
        };
        let (on, off) = (forced(true), forced(false));
        assert_eq!(after(&[&down, &on, &asked, &evacuated, &off]), MigrationStatus::Done);
        assert_eq!(after(&[&down, &on, &asked, &off, &evacuated]), MigrationStatus::Done);
        assert_eq!(after(&[&down, &on, &asked, &evacuated, &off, &up]), MigrationStatus::Completed);
        assert_eq!(after(&[&on, &asked, &evacuated]), MigrationStatus::Done);
        assert_eq!(
            after(&[&on, &asked, &evacuated, &off]),
            MigrationStatus::Completed,
            "the host answers all the time"
        );
    }
}
