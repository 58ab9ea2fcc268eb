//! The decisions on a project's server groups.

use chronova_events::server_group::{MemberLeft, MembersJoined, ServerGroupDeleted, ServerGroupEvent, ServerGroups};

use super::{ServerGroupCommand, ServerGroupReject};

pub fn decide(state: &ServerGroups, command: ServerGroupCommand) -> Result<Vec<ServerGroupEvent>, ServerGroupReject> {
    match command {
        ServerGroupCommand::Create { group, limit } => {
            if state.by_id.contains_key(&group.group) {
                return Ok(vec![]);
            }
            match fits(state.by_id.len() + 1, limit) {
                true => Ok(vec![group.into()]),
                false => Err(ServerGroupReject::TooManyGroups(limit)),
            }
        }
        ServerGroupCommand::Delete { group } => match state.by_id.contains_key(&group) {
            true => Ok(vec![ServerGroupDeleted { group }.into()]),
            false => Err(ServerGroupReject::NotFound(group)),
        },
        ServerGroupCommand::Join { group, user, instances, limit } => {
            let known = state.by_id.get(&group).ok_or(ServerGroupReject::NotFound(group))?;
            let new: Vec<_> = instances.into_iter().filter(|instance| !known.has(*instance)).collect();
            if new.is_empty() {
                return Ok(vec![]);
            }
            let own = known.members.iter().filter(|member| member.user == user).count();
            match fits(own + new.len(), limit) {
                true => Ok(vec![MembersJoined { group, user, instances: new }.into()]),
                false => Err(ServerGroupReject::TooManyMembers(limit)),
            }
        }
        ServerGroupCommand::Leave { group, instance } => {
            let member = state.by_id.get(&group).is_some_and(|known| known.has(instance));
            Ok(if member { vec![MemberLeft { group, instance }.into()] } else { vec![] })
        }
    }
}

fn fits(wanted: usize, limit: i64) -> bool {
    usize::try_from(limit).map_or(true, |limit| wanted <= limit)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;
    use chronova_events::ids::{InstanceId, ProjectId, ServerGroupId, UserId};
    use chronova_events::server_group::{ServerGroupCreated, ServerGroupPolicy};

    use super::*;

    fn group(n: u128) -> ServerGroupId {
        ServerGroupId(uuid::Uuid::from_u128(n))
    }

    fn server(n: u128) -> InstanceId {
        InstanceId(uuid::Uuid::from_u128(n))
    }

    fn create(n: u128, limit: i64) -> ServerGroupCommand {
        let group = ServerGroupCreated {
            group: group(n),
            project: ProjectId::new("p"),
            user: UserId::new("u"),
            name: "g".into(),
            policy: ServerGroupPolicy::Affinity,
            max_server_per_host: None,
        };
        ServerGroupCommand::Create { group, limit }
    }

    fn join(user: &str, servers: &[u128], limit: i64) -> ServerGroupCommand {
        let instances = servers.iter().map(|n| server(*n)).collect();
        ServerGroupCommand::Join { group: group(1), user: UserId::new(user), instances, limit }
    }

    fn given(commands: impl IntoIterator<Item = ServerGroupCommand>) -> ServerGroups {
        let mut state = ServerGroups::default();
        for command in commands {
            for event in decide(&state, command).unwrap() {
                state.evolve(&event, Timestamp(1));
            }
        }
        state
    }

    #[test]
    fn groups_are_counted_and_may_share_a_name() {
        let state = given([create(1, 2), create(2, 2)]);
        assert_eq!(decide(&state, create(3, 2)).unwrap_err(), ServerGroupReject::TooManyGroups(2));
        assert_eq!(decide(&state, create(2, 2)).unwrap(), vec![], "a repetition creates nothing");
        assert!(decide(&state, create(3, -1)).is_ok());
        let less = given([create(1, 2), create(2, 2), ServerGroupCommand::Delete { group: group(1) }]);
        assert!(decide(&less, create(3, 2)).is_ok());
        let again = decide(&less, ServerGroupCommand::Delete { group: group(1) });
        assert_eq!(again.unwrap_err(), ServerGroupReject::NotFound(group(1)));
    }

    #[test]
    fn members_are_counted_per_user_and_all_or_none_join() {
        let state = given([create(1, -1), join("u", &[1, 2], 3), join("v", &[5], 3)]);
        assert_eq!(decide(&state, join("u", &[3, 4], 3)).unwrap_err(), ServerGroupReject::TooManyMembers(3));
        assert!(decide(&state, join("u", &[3], 3)).is_ok() && decide(&state, join("v", &[3, 4], 3)).is_ok());
        assert_eq!(decide(&state, join("u", &[1, 2], 2)).unwrap(), vec![], "repeated");
        let other =
            ServerGroupCommand::Join { group: group(9), user: UserId::new("u"), instances: vec![server(1)], limit: -1 };
        assert_eq!(decide(&state, other).unwrap_err(), ServerGroupReject::NotFound(group(9)));
    }

    #[test]
    fn leaving_twice_is_harmless() {
        let leave = || ServerGroupCommand::Leave { group: group(1), instance: server(1) };
        let state = given([create(1, -1), join("u", &[1, 2], 2), leave()]);
        assert_eq!(decide(&state, leave()).unwrap(), vec![]);
        assert!(decide(&state, join("u", &[3], 2)).is_ok(), "the place of a removed member is free");
        let members: Vec<_> = state.by_id[&group(1)].members.iter().map(|member| member.instance).collect();
        assert_eq!(members, [server(2)]);
    }
}
