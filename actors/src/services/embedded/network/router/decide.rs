//! The decisions of a router.

use chronova_events::router::{Router, RouterDeleted, RouterEvent, RouterRow, RouterSettings, RouterSettingsReplaced};
use chronova_events::tags::TagsChange;

use super::{RouterCommand, RouterPatch, RouterReject};
use crate::services::embedded::network::RevisionMismatch;

pub fn decide(state: &Router, command: RouterCommand) -> Result<Vec<RouterEvent>, RouterReject> {
    match command {
        RouterCommand::Create(created) if state.row.is_some() || state.deleted => {
            Err(RouterReject::IdTaken(created.router))
        }
        RouterCommand::Create(created) => Ok(vec![created.into()]),
        RouterCommand::Change(patch) => change(existing(state)?, patch),
        RouterCommand::Delete => Ok(vec![RouterDeleted { router: existing(state)?.id() }.into()]),
        RouterCommand::IfRevision { revision, command } => {
            RevisionMismatch::check(revision, state.row.as_ref().map(|row| row.revision))?;
            decide(state, *command)
        }
    }
}

fn existing(state: &Router) -> Result<&RouterRow, RouterReject> {
    state.row.as_deref().ok_or(RouterReject::NotFound)
}

fn change(row: &RouterRow, patch: RouterPatch) -> Result<Vec<RouterEvent>, RouterReject> {
    let old = row.settings();
    let settings = RouterSettings {
        name: patch.name.unwrap_or_else(|| old.name.clone()),
        description: patch.description.unwrap_or_else(|| old.description.clone()),
        admin_state_up: patch.admin_state_up.unwrap_or(old.admin_state_up),
        snat: patch.snat.unwrap_or(old.snat),
        tags: patch.tags.unwrap_or_else(|| old.tags.clone()),
    };
    if settings == *old {
        return Ok(vec![]);
    }
    let (settings, tags) = TagsChange::between(&old.tags, settings);
    Ok(vec![RouterSettingsReplaced { router: row.id(), settings, tags }.into()])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;
    use chronova_events::ids::{ProjectId, RouterId};
    use chronova_events::router::RouterCreated;

    use super::*;

    #[test]
    fn a_router_is_created_changed_and_deleted_once() {
        let router = RouterId(uuid::Uuid::nil());
        let create = || {
            let project = ProjectId::new("p");
            let settings = RouterSettings::default();
            RouterCommand::Create(RouterCreated { router, project, settings, availability_zone_hints: vec![] })
        };
        let mut state = Router::default();
        let mut tell = |command| -> Result<usize, RouterReject> {
            let events = decide(&state, command)?;
            for event in &events {
                state.evolve(event, Timestamp(0));
            }
            Ok(events.len())
        };
        let named = || RouterCommand::Change(RouterPatch { name: Some("edge".to_owned()), ..RouterPatch::default() });
        assert_eq!(tell(named()), Err(RouterReject::NotFound));
        assert_eq!(tell(create()), Ok(1));
        assert_eq!(tell(create()), Err(RouterReject::IdTaken(router)));
        assert_eq!((tell(named()), tell(named())), (Ok(1), Ok(0)));
        assert_eq!(tell(RouterCommand::Delete), Ok(1));
        assert_eq!(tell(RouterCommand::Delete), Err(RouterReject::NotFound));
        assert_eq!(tell(create()), Err(RouterReject::IdTaken(router)));
    }
}
