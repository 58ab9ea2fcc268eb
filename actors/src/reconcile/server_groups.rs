//! Members of server groups whose servers never came to be, or are gone.
//!
//! A server becomes a member before it is asked for, in another stream, and leaves when it is deleted. Between two of
//! these appends a crash can come.

use std::collections::BTreeSet;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, ProjectId, ServerGroupId};
use chronova_projections::views::Views;

use crate::reconcile::context::ReconcileContext;
use crate::reconcile::reconciler::{Reconciler, Situation};
use crate::server_group::{ServerGroupAggregate, ServerGroupCommand};

/// Members that are no living servers, with whose group they are in.
pub type Ghosts = BTreeSet<(ProjectId, ServerGroupId, InstanceId)>;

/// All of them, at this moment. The process that creates a server answers for its place. A request on its way
/// may have joined, too: only a member that is found twice, a period apart, leaves while requests are served.
pub fn plan(views: &Views) -> Ghosts {
    views.server_groups.read(|groups| {
        let living = |group| groups.servers(group).collect::<BTreeSet<_>>();
        let mut ghosts = Ghosts::new();
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

/// Lets `ghosts` leave their groups.
pub async fn leave(context: &ReconcileContext, ghosts: &Ghosts) -> usize {
    let mut failures = 0;
    for (project, group, instance) in ghosts {
        tracing::info!(%group, %instance, "a member of a server group is no server");
        let leave = ServerGroupCommand::Leave { group: *group, instance: *instance };
        let meta = Meta::system("reconcile-server-groups");
        if let Err(error) = context.gateway.send::<ServerGroupAggregate>(project, leave, meta).await {
            failures += 1;
            tracing::warn!(%group, %instance, %error, "it cannot leave yet");
        }
    }
    failures
}

/// Members that are no living servers.
#[derive(Debug)]
pub struct GhostMembers;

impl Reconciler for GhostMembers {
    type Finding = (ProjectId, ServerGroupId, InstanceId);

    const NAME: &'static str = "server-groups";
    const MENDS: &'static str = "members of server groups that are no living servers";
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
