//! Releases quota of servers that were never created or are gone. Corrects quota that differs from its server's size.
//!
//! A process that fails gives back the quota that it took. So these reconcilers only find quota that an older version
//! left behind, and quota that is wrong after a reset of a server's state.

use std::collections::BTreeSet;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, ProjectId};
use chronova_events::instance::{Alive, Phase};
use chronova_projections::views::Views;

use crate::quota::{QuotaCommand, QuotaRoot};
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};

/// Quota that is reserved for no living server.
pub type OrphanedQuota = BTreeSet<(ProjectId, InstanceId)>;

/// All quota that is now reserved for servers that are deleted, soft-deleted or were never created. Quota of a server
/// that is being created or restored is left out, because a process is responsible for it. While requests are served,
/// quota is released only if two runs in a row find it.
pub fn plan(views: &Views) -> OrphanedQuota {
    views.quotas.read(|quotas| {
        views.servers.read(|servers| {
            // A soft-deleted server holds quota only while it is being restored.
            let holds = |server: &Alive| !server.is_soft_deleted() || server.ongoing.is_some();
            let lives = |id: &InstanceId| servers.get(*id).is_some_and(|row| row.instance.alive().is_some_and(holds));
            quotas
                .by_project
                .iter()
                .flat_map(|(project, quota)| quota.held.keys().map(move |id| (project.clone(), *id)))
                .filter(|(_, id)| !lives(id) && !is_under_way(views, *id))
                .collect()
        })
    })
}

/// Whether a process has taken the server's quota, and gives it back if it fails.
fn is_under_way(views: &Views, instance: InstanceId) -> bool {
    views.processes.read(|view| view.is_being_created(instance) || view.is_being_asked(instance))
}

/// Servers with quota that differs from their size, with the cores and the memory in MiB that each should hold. A
/// server that is being moved, confirmed or reverted may hold more, so it is left out.
pub type MissizedQuota = BTreeSet<(ProjectId, InstanceId, u32, u64)>;

/// All servers with quota that differs from their size. As in [`plan`], a server is left out while a process is
/// responsible for its quota.
pub fn misfits(views: &Views) -> MissizedQuota {
    views.quotas.read(|quotas| {
        views.servers.read(|servers| {
            let size = |id: &InstanceId| {
                let row = servers.get(*id)?;
                let server = row.instance.alive().filter(|server| has_its_size(server))?;
                Some((server.request.flavor.vcpus, server.request.flavor.memory_mib))
            };
            let all = quotas
                .by_project
                .iter()
                .flat_map(|(project, quota)| quota.held.iter().map(move |(id, held)| (project, *id, *held)));
            all.filter_map(|(project, id, held)| {
                let (cores, memory_mib) = size(&id).filter(|size| *size != held && !is_under_way(views, id))?;
                Some((project.clone(), id, cores, memory_mib))
            })
            .collect()
        })
    })
}

/// Whether no move is changing the server's size. After a resize and until its confirmation, the new size counts.
fn has_its_size(server: &Alive) -> bool {
    let rests = matches!(server.phase, Phase::Resized { .. }) && server.ongoing.is_none();
    server.moving.is_none() || rests
}

/// Adjusts the quota of each server to its size.
pub async fn settle(context: &ReconcileContext, misfits: &MissizedQuota) -> usize {
    let mut failures = 0;
    for (project, instance, cores, memory_mib) in misfits {
        tracing::info!(%project, %instance, "correcting a server's quota");
        let (cores, memory_mib) = (*cores, *memory_mib);
        let settle = QuotaCommand::Settle { project: project.clone(), instance: *instance, cores, memory_mib };
        if let Err(error) = context.gateway.send::<QuotaRoot>(project, settle, Meta::system("reconcile-quota")).await {
            failures += 1;
            tracing::warn!(%project, %instance, %error, "correcting quota failed, retrying");
        }
    }
    failures
}

/// Releases the quota in `held`.
pub async fn give_back(context: &ReconcileContext, held: &OrphanedQuota) -> usize {
    let mut failures = 0;
    for (project, instance) in held {
        tracing::info!(%project, %instance, "releasing quota of a server that does not exist");
        let release = QuotaCommand::Release { project: project.clone(), instance: *instance };
        let meta = Meta::system("reconcile-quota");
        if let Err(error) = context.gateway.send::<QuotaRoot>(project, release, meta).await {
            failures += 1;
            tracing::warn!(%project, %instance, %error, "releasing quota failed, retrying");
        }
    }
    failures
}

/// Quota that is reserved for no living server.
#[derive(Debug)]
pub struct LeakedQuota;

impl Reconciler for LeakedQuota {
    type Finding = (ProjectId, InstanceId);

    const NAME: &'static str = "quota-leaks";
    const REPAIRS: &'static str = "quota that is held for servers that do not exist";
    const ON_A_COPY: CopyConduct<Self::Finding> = CopyConduct::ChangesLogAlone;
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

/// Quota that differs from its server's size.
#[derive(Debug)]
pub struct MisfitQuota;

impl Reconciler for MisfitQuota {
    type Finding = (ProjectId, InstanceId, u32, u64);

    const NAME: &'static str = "quota-misfits";
    const REPAIRS: &'static str = "quota of another size than its server";
    const ON_A_COPY: CopyConduct<Self::Finding> = CopyConduct::ChangesLogAlone;
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
