//! The servers of each project, deleted ones too, by their ids and by the times of their last changes. So a query for
//! one project, or for changes since a time, does not read the servers of the whole cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use chronova_events::envelope::Timestamp;
use chronova_events::ids::{InstanceId, ProjectId};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct ServersEver {
    by_project: BTreeMap<ProjectId, ProjectServers>,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct ProjectServers {
    by_id: BTreeSet<InstanceId>,
    by_change: BTreeSet<(Timestamp, InstanceId)>,
}

impl ServersEver {
    /// Records a change of a server. `before`: the time of the server's previous change; `None` for a new server.
    pub(crate) fn change(&mut self, project: &ProjectId, id: InstanceId, before: Option<Timestamp>, now: Timestamp) {
        let of = match self.by_project.get_mut(project) {
            Some(of) => of,
            None => self.by_project.entry(project.clone()).or_default(),
        };
        match before {
            Some(before) => {
                of.by_change.remove(&(before, id));
            }
            None => {
                of.by_id.insert(id);
            }
        }
        of.by_change.insert((now, id));
    }

    /// The servers of a project after `after`, in the order of their ids.
    pub(crate) fn of<'a>(
        &'a self,
        project: &ProjectId,
        after: Option<InstanceId>,
    ) -> impl Iterator<Item = InstanceId> + use<'a> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let of = self.by_project.get(project).map(|of| &of.by_id);
        of.into_iter().flat_map(move |ids| ids.range((from, Bound::Unbounded))).copied()
    }

    /// The servers of a project, or of all projects, that last changed at or after `since` and before `until`.
    pub(crate) fn changed<'a>(
        &'a self,
        project: Option<&ProjectId>,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> impl Iterator<Item = InstanceId> + use<'a> {
        let key = |at: Timestamp| (at, InstanceId(uuid::Uuid::nil()));
        let from = since.map_or(Bound::Unbounded, |at| Bound::Included(key(at)));
        // `BTreeSet::range` panics if the range ends before it begins.
        let until = until.map(|until| until.max(since.unwrap_or(until)));
        let to = until.map_or(Bound::Unbounded, |at| Bound::Excluded(key(at)));
        let only = project.map(|project| self.by_project.get(project));
        let all = self.by_project.values().filter(move |_| only.is_none());
        only.flatten().into_iter().chain(all).flat_map(move |of| of.by_change.range((from, to))).map(|(_, id)| *id)
    }
}
