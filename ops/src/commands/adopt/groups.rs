//! Adopts server groups with their policies and members.

use std::collections::{BTreeMap, BTreeSet};

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::server_group::ServerGroupRoot;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{InstanceId, ProjectId, ServerGroupId, UserId};
use chronova_events::server_group::{MembersJoined, ServerGroupCreated, ServerGroupEvent, ServerGroupPolicy};

use super::history::HistoryPart;
use super::report::AdoptedThing;
use super::{Adoption, REPAIR_ROW, Unadoptable};
use crate::nova::database::{live_rows, rows_by};
use crate::nova::rows::NovaRow;

pub(super) fn adopt(adoption: &mut Adoption<'_>) {
    let api = adoption.api();
    let policies = rows_by(api, "instance_group_policy", "group_id");
    let members = rows_by(api, "instance_group_member", "group_id");
    let (mut seen, mut grouped) = (BTreeSet::new(), BTreeSet::new());
    for row in live_rows(api, "instance_groups") {
        let id = row.text("uuid").unwrap_or("?");
        adoption.report.see(AdoptedThing::Group, id, row.text("name").unwrap_or_default());
        if adoption.report.leaves_out(AdoptedThing::Group, id) {
            continue;
        }
        let number = row.text("id").unwrap_or_default();
        let policy = policies.get(number).and_then(|rows| rows.first());
        match group(&row, policy) {
            Ok((created, _)) if !seen.insert(created.group) => {
                adoption.report.obstacle(AdoptedThing::Group, id, "its UUID occurs twice", REPAIR_ROW);
            }
            Ok((created, at)) => {
                let members = members.get(number).map_or(&[][..], Vec::as_slice);
                let members = living(adoption, members, &mut grouped);
                record(adoption, created, at, members);
            }
            Err(error) => adoption.report.obstacle(AdoptedThing::Group, id, error.reason, error.way_out),
        }
    }
}

fn group(row: &NovaRow<'_>, policy: Option<&NovaRow<'_>>) -> Result<(ServerGroupCreated, Timestamp), Unadoptable> {
    let policy = policy.ok_or_else(|| Unadoptable::new("it has no row in instance_group_policy", REPAIR_ROW))?;
    let name = policy.required("policy")?;
    let known = ServerGroupPolicy::parse(name).ok_or_else(|| policy.wrong("policy", "the name of a policy"))?;
    let rules = policy.json("rules")?.unwrap_or_default();
    // Nova stores the number as a string.
    let most = match &rules["max_server_per_host"] {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.parse().ok()),
        other => Some(other.as_u64().and_then(|most| u32::try_from(most).ok())),
    };
    let created = ServerGroupCreated {
        group: ServerGroupId(row.required_uuid("uuid")?),
        project: ProjectId::new(row.required("project_id")?),
        user: UserId::new(row.required("user_id")?),
        name: row.text("name").unwrap_or_default().to_owned(),
        policy: known,
        max_server_per_host: match most {
            None => None,
            Some(most) => Some(most.ok_or_else(|| policy.wrong("rules", "rules with a number of servers"))?),
        },
    };
    Ok((created, row.created_at()?))
}

/// The adopted members, in the order in which they joined. A server is in one group only. Rows of deleted servers,
/// which Nova keeps, are left out.
fn living(adoption: &Adoption<'_>, members: &[NovaRow<'_>], grouped: &mut BTreeSet<InstanceId>) -> Vec<InstanceId> {
    let ids = members.iter().filter(|row| !row.is_deleted()).filter_map(|row| row.uuid("instance_uuid").ok()?);
    let living = |id: &InstanceId| adoption.servers.get(id).is_some_and(|server| !server.is_deleted);
    ids.map(InstanceId).filter(living).filter(|id| grouped.insert(*id)).collect()
}

fn record(adoption: &mut Adoption<'_>, created: ServerGroupCreated, at: Timestamp, members: Vec<InstanceId>) {
    let (stream, meta) = (ServerGroupRoot::stream(&created.project), adoption.meta.clone());
    let (group, part) = (created.group, HistoryPart::Groups);
    if matches!(created.policy, ServerGroupPolicy::Affinity | ServerGroupPolicy::AntiAffinity) {
        adoption.strict_groups.extend(members.iter().map(|member| (*member, group)));
    }
    adoption.history.push(part, stream.clone(), at, &meta, ServerGroupEvent::from(created));
    // Members are counted by the user that owns them.
    let mut by_user: BTreeMap<UserId, Vec<InstanceId>> = BTreeMap::new();
    let mut users = Vec::new();
    for member in members {
        let Some(server) = adoption.servers.get(&member) else { continue };
        let of = by_user.entry(server.user.clone()).or_insert_with(|| {
            users.push(server.user.clone());
            Vec::new()
        });
        of.push(member);
    }
    for user in users {
        let instances = by_user.remove(&user).unwrap_or_default();
        adoption.history.push(
            part,
            stream.clone(),
            at,
            &meta,
            ServerGroupEvent::from(MembersJoined { group, user, instances }),
        );
    }
}
