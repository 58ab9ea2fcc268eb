//! Reclaims soft-deleted servers that were not restored in time.
//!
//! The log has the time of each deletion, so the time while the control plane is down is included.

use std::collections::BTreeSet;
use std::time::Duration;

use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::Phase;
use chronova_projections::views::Views;

use crate::instance::{InstanceRequest, InstanceRoot};
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};

/// Servers that were soft-deleted at or before `deleted_by`, and that no process works on.
pub fn plan(views: &Views, deleted_by: Timestamp) -> Vec<InstanceId> {
    views.servers.read(|servers| {
        let due = |phase: Phase| matches!(phase, Phase::SoftDeleted { since, .. } if since <= deleted_by);
        let alive = servers.all().filter_map(|row| row.instance.alive().map(|server| (row.id, server)));
        alive.filter(|(_, server)| due(server.phase) && server.ongoing.is_none()).map(|(id, _)| id).collect()
    })
}

/// When the server was soft-deleted. The original of a copied log may have restored it since.
fn deleted_at(views: &Views, server: InstanceId) -> Option<Timestamp> {
    views.servers.read(|servers| match servers.get(server)?.instance.alive()?.phase {
        Phase::SoftDeleted { since, .. } => Some(since),
        _ => None,
    })
}

/// Deletes soft-deleted servers that are due. A finding is a server and a time. The server is deleted only if it was
/// soft-deleted at or before that time.
#[derive(Debug)]
pub struct DeletedServers;

impl Reconciler for DeletedServers {
    type Finding = (InstanceId, Timestamp);

    const NAME: &'static str = "deleted-servers";
    const REPAIRS: &'static str = "deleted servers that nobody restored in `[DEFAULT] reclaim_instance_interval`";
    const ON_A_COPY: CopyConduct<Self::Finding> =
        CopyConduct::ActsOnNewGrounds(|views, (server, _)| deleted_at(views, *server));

    fn period(context: &ReconcileContext) -> Option<Duration> {
        let interval = context.server_options.reclaim_interval;
        (!interval.is_zero()).then(|| interval.min(context.options.period))
    }

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        let interval = situation.server_options.reclaim_interval;
        if interval.is_zero() {
            return BTreeSet::new();
        }
        let age = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX);
        let by = Timestamp(situation.now.0.saturating_sub(age));
        plan(situation.views, by).into_iter().map(|instance| (instance, by)).collect()
    }

    fn describe((instance, deleted_by): &Self::Finding) -> String {
        format!("server {instance}, deleted by {deleted_by}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for (instance, deleted_by) in findings {
            tracing::info!(%instance, "reclaiming a soft-deleted server");
            let command = InstanceRequest::Reclaim { process: ProcessId::random(), deleted_by };
            let sent = context.gateway.send::<InstanceRoot>(&instance, command, Meta::system("reclaim")).await;
            if let Err(error) = sent {
                failures += 1;
                tracing::warn!(%instance, %error, "reclaiming a deleted server failed, retrying");
            }
        }
        failures
    }
}
