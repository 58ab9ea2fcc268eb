//! Quota that was reserved for servers which never came to be, or are gone.
//!
//! A restore reserves room before the server is asked for it, in another stream. Between the two a crash can come, or the
//! second append can fail and the giving back with it. A process answers for the room of servers that are being created.

use std::collections::BTreeSet;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, ProjectId};
use chronova_events::instance::Alive;
use chronova_projections::views::Views;

use crate::quota::{QuotaAggregate, QuotaCommand};
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::reconciler::{Reconciler, Situation};

/// Room held for no living server.
pub type Held = BTreeSet<(ProjectId, InstanceId)>;

/// All room that is held for no living server, at this moment. The process that creates a server answers for its room. A
/// request on its way may hold room, too: only room that is found twice, a period apart, is given back while requests are
/// served.
pub fn plan(views: &Views) -> Held {
    views.quotas.read(|quotas| {
        views.servers.read(|servers| {
            // A deleted server holds room only while it is being restored.
            let holds = |server: &Alive| !server.is_soft_deleted() || server.ongoing.is_some();
            let lives = |id: &InstanceId| servers.get(*id).is_some_and(|row| row.instance.alive().is_some_and(holds));
            quotas
                .by_project
                .iter()
                .flat_map(|(project, quota)| quota.held.keys().map(move |id| (project.clone(), *id)))
                .filter(|(_, id)| !lives(id) && !views.processes.read(|view| view.is_being_created(*id)))
                .collect()
        })
    })
}

/// Room of another size than the server that holds it, and the size that it should have. A server that is being moved
/// may hold more than it is.
pub type Misfits = BTreeSet<(ProjectId, InstanceId, u32, u64)>;

/// All of it, at this moment; as with [`plan`], what a request on its way holds is among it.
pub fn misfits(views: &Views) -> Misfits {
    views.quotas.read(|quotas| {
        views.servers.read(|servers| {
            let size = |id: &InstanceId| {
                let row = servers.get(*id)?;
                let server = row.instance.alive().filter(|server| server.moving.is_none())?;
                Some((server.request.flavor.vcpus, server.request.flavor.memory_mib))
            };
            let all = quotas
                .by_project
                .iter()
                .flat_map(|(project, quota)| quota.held.iter().map(move |(id, held)| (project, *id, *held)));
            all.filter_map(|(project, id, held)| {
                let (cores, memory_mib) = size(&id).filter(|size| *size != held)?;
                Some((project.clone(), id, cores, memory_mib))
            })
            .collect()
        })
    })
}

/// Gives each the size that it should have.
pub async fn settle(context: &ReconcileContext, misfits: &Misfits) -> usize {
    let mut failures = 0;
    for (project, instance, cores, memory_mib) in misfits {
        tracing::info!(%project, %instance, "a server's quota is made to fit it");
        let (cores, memory_mib) = (*cores, *memory_mib);
        let settle = QuotaCommand::Settle { project: project.clone(), instance: *instance, cores, memory_mib };
        if let Err(error) =
            context.gateway.send::<QuotaAggregate>(project, settle, Meta::system("reconcile-quota")).await
        {
            failures += 1;
            tracing::warn!(%project, %instance, %error, "the quota cannot be made to fit yet");
        }
    }
    failures
}

/// Gives back what is in `held`.
pub async fn give_back(context: &ReconcileContext, held: &Held) -> usize {
    let mut failures = 0;
    for (project, instance) in held {
        tracing::info!(%project, %instance, "giving back quota that no server holds");
        let release = QuotaCommand::Release { project: project.clone(), instance: *instance };
        let meta = Meta::system("reconcile-quota");
        if let Err(error) = context.gateway.send::<QuotaAggregate>(project, release, meta).await {
            failures += 1;
            tracing::warn!(%project, %instance, %error, "the quota cannot be given back yet");
        }
    }
    failures
}

/// Room held for no living server.
#[derive(Debug)]
pub struct LeakedQuota;

impl Reconciler for LeakedQuota {
    type Finding = (ProjectId, InstanceId);

    const NAME: &'static str = "quota-leaks";
    const MENDS: &'static str = "quota that is held for no living server";
    const DEBOUNCES: bool = true;
    const AT_START: bool = true;

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        plan(situation.views)
    }

    fn describe((project, instance): &Self::Finding) -> String {
        format!("project {project}: quota of server {instance}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        give_back(context, &findings).await
    }
}

/// Room of another size than its server.
#[derive(Debug)]
pub struct MisfitQuota;

impl Reconciler for MisfitQuota {
    type Finding = (ProjectId, InstanceId, u32, u64);

    const NAME: &'static str = "quota-misfits";
    const MENDS: &'static str = "quota of another size than its server";
    const DEBOUNCES: bool = true;
    const AT_START: bool = true;

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        misfits(situation.views)
    }

    fn describe((project, instance, cores, memory_mib): &Self::Finding) -> String {
        format!("project {project}: server {instance} needs {cores} cores and {memory_mib} MiB")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        settle(context, &findings).await
    }
}
