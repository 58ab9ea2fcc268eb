//! The events of an export: a time range, a project, or everything.

use std::collections::BTreeSet;

use chronova_events::envelope::{Cause, Position, Recorded, Timestamp};
use chronova_events::ids::ProjectId;
use chronova_events::instance::InstanceEvent;
use chronova_events::registry::Event;
use chronova_events::store::EventStore;
use chronova_events::store::criteria::Criteria;
use uuid::Uuid;

use super::super::super::CommandFailure;
use super::super::super::log_pages::payload;
use super::ExportArgs;

const PAGE: usize = 1_024;

/// The selected events, and the positions between which they are.
#[derive(Debug)]
pub(super) struct ExportSelection {
    pub(super) first: u64,
    pub(super) last: u64,
    times: Criteria,
    project: Option<OfProject>,
}

/// The events of a project: requests made in it, its servers, and the consequences of both.
#[derive(Debug)]
struct OfProject {
    project: ProjectId,
    /// Suffixes of the streams of the project's servers and of the project itself.
    keys: BTreeSet<String>,
    correlations: BTreeSet<Uuid>,
}

impl ExportSelection {
    /// Finds the first and the last selected event; `None` if no event is selected.
    pub(super) async fn find(
        args: &ExportArgs,
        store: &dyn EventStore,
        now: Timestamp,
    ) -> Result<Option<Self>, CommandFailure> {
        let (since, until) = args.times.resolve(now);
        let times = Criteria { since, until, ..Criteria::default() };
        let project = match &args.project {
            Some(project) => Some(OfProject::find(project, store).await?),
            None => None,
        };
        let mut selection = Self { first: 0, last: 0, times, project };
        let mut at = Position::START;
        loop {
            let found = store.search(at, PAGE, &selection.times).await?;
            for recorded in &found.events {
                if !selection.admits(recorded) {
                    continue;
                }
                if selection.first == 0 {
                    selection.first = recorded.position.0;
                }
                selection.last = recorded.position.0;
            }
            if found.until == at {
                return Ok((selection.first > 0).then_some(selection));
            }
            at = found.until;
        }
    }

    pub(super) fn admits(&self, recorded: &Recorded) -> bool {
        self.times.admits(recorded) && self.project.as_ref().is_none_or(|project| project.admits(recorded))
    }
}

impl OfProject {
    async fn find(project: &str, store: &dyn EventStore) -> Result<Self, CommandFailure> {
        let project = ProjectId::new(project);
        let mut keys = BTreeSet::from([project.as_str().to_owned()]);
        let built = Criteria { kinds: vec!["instance.build_requested".to_owned()], ..Criteria::default() };
        each(store, &built, |recorded| {
            if let Event::InstanceEvent(InstanceEvent::BuildRequested(request)) = &**payload(recorded)?
                && request.project == project
            {
                keys.insert(request.instance.to_string());
            }
            Ok(())
        })
        .await?;
        let mut this = Self { project, keys, correlations: BTreeSet::new() };
        let mut correlations = BTreeSet::new();
        each(store, &Criteria::default(), |recorded| {
            if this.is_asked_for_in_it(recorded) || this.is_of_its_own(recorded) {
                correlations.insert(recorded.meta.correlation);
            }
            Ok(())
        })
        .await?;
        this.correlations = correlations;
        Ok(this)
    }

    fn admits(&self, recorded: &Recorded) -> bool {
        match &recorded.meta.cause {
            // If the request was made in another project, only its events in this project's own streams are exported.
            Cause::User { project: Some(other), .. } if *other != self.project => self.is_of_its_own(recorded),
            _ => self.is_of_its_own(recorded) || self.correlations.contains(&recorded.meta.correlation),
        }
    }

    fn is_asked_for_in_it(&self, recorded: &Recorded) -> bool {
        matches!(&recorded.meta.cause, Cause::User { project: Some(project), .. } if *project == self.project)
    }

    fn is_of_its_own(&self, recorded: &Recorded) -> bool {
        self.keys.contains(recorded.stream.key())
    }
}

async fn each(
    store: &dyn EventStore,
    criteria: &Criteria,
    mut look: impl FnMut(&Recorded) -> Result<(), CommandFailure>,
) -> Result<(), CommandFailure> {
    let mut at = Position::START;
    loop {
        let found = store.search(at, PAGE, criteria).await?;
        for recorded in &found.events {
            look(recorded)?;
        }
        if found.until == at {
            return Ok(());
        }
        at = found.until;
    }
}
