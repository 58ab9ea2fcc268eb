//! Removes a member of a server group if the member's server was never recorded, or is deleted.
//!
//! A server becomes a member before its own stream begins, and is removed from the group after it is deleted. In both
//! cases, a crash can come between the two appends.

use std::collections::BTreeSet;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, ProjectId, ServerGroupId};
use chronova_projections::views::Views;

use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};
use crate::server_group::{ServerGroupCommand, ServerGroupRoot};

/// Members without an existing server, with their groups.
pub type StaleGroupMembers = BTreeSet<(ProjectId, ServerGroupId, InstanceId)>;

/// All members without an existing server. Servers that a process is creating are left out, because that process is
/// responsible for them. Another request under way may also have added a server that is not recorded yet. So while
/// requests are served, the reconciler removes only members that it finds in two runs in a row.
pub fn plan(views: &Views) -> StaleGroupMembers {
    views.server_groups.read(|groups| {
        let living = |group| groups.servers(group).collect::<BTreeSet<_>>();
        let mut ghosts = StaleGroupMembers::new();
        for group in groups.all() {
            let (id, project) = (group.definition.group, &group.definition.project);
            let living = living(id);
            let gone = group.members.iter().map(|member| member.instance).filter(|member| !living.contains(member));
            let gone = gone.filter(|member| !views.processes.read(|view| view.is_being_created(*member)));
            ghosts.extend(gone.map(|instance| (project.clone(), id, instance)));
        }
        ghosts
    })
}

/// Removes `ghosts` from their groups.
pub async fn leave(context: &ReconcileContext, ghosts: &StaleGroupMembers) -> usize {
    let mut failures = 0;
    for (project, group, instance) in ghosts {
        tracing::info!(%group, %instance, "removing a stale member of a server group");
        let leave = ServerGroupCommand::Leave { group: *group, instance: *instance };
        let meta = Meta::system("reconcile-server-groups");
        if let Err(error) = context.gateway.send::<ServerGroupRoot>(project, leave, meta).await {
            failures += 1;
            tracing::warn!(%group, %instance, %error, "removing a stale member failed, retrying");
        }
    }
    failures
}

/// Members without an existing server.
#[derive(Debug)]
pub struct StaleMembers;

impl Reconciler for StaleMembers {
    type Finding = (ProjectId, ServerGroupId, InstanceId);

    const NAME: &'static str = "server-groups";
    const REPAIRS: &'static str = "members of server groups whose servers do not exist";
    const ON_A_COPY: CopyConduct<Self::Finding> = CopyConduct::ChangesLogAlone;
    const DEBOUNCES: bool = true;
    const AT_START: bool = true;

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        plan(situation.views)
    }

    fn describe((project, group, instance): &Self::Finding) -> String {
        format!("project {project}: member {instance} of server group {group}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        leave(context, &findings).await
    }
}
