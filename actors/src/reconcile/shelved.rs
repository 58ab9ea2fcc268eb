//! Offloads shelved servers after their time on their hosts: Nova's `_poll_shelved_instances`.

use std::collections::BTreeSet;
use std::time::Duration;

use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::Phase;
use chronova_projections::views::Views;

use crate::instance::{InstanceRequest, InstanceRoot, WorkRequest};
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};

/// Servers that were shelved at or before `shelved_by`, and that no process works on.
pub fn plan(views: &Views, shelved_by: Timestamp) -> Vec<InstanceId> {
    views.servers.read(|servers| {
        let due = |phase: Phase| matches!(phase, Phase::Shelved { since, .. } if since <= shelved_by);
        let alive = servers.all().filter_map(|row| row.instance.alive().map(|server| (row.id, server)));
        alive.filter(|(_, server)| due(server.phase) && server.ongoing.is_none()).map(|(id, _)| id).collect()
    })
}

/// When the server was shelved. The original of a copied log may have unshelved it since.
fn shelved_at(views: &Views, server: InstanceId) -> Option<Timestamp> {
    views.servers.read(|servers| match servers.get(server)?.instance.alive()?.phase {
        Phase::Shelved { since, .. } => Some(since),
        _ => None,
    })
}

/// Offloads shelved servers that are due. A finding is a server and a time. The server is offloaded only if it was
/// shelved at or before that time.
#[derive(Debug)]
pub struct ShelvedServers;

impl Reconciler for ShelvedServers {
    type Finding = (InstanceId, Timestamp);

    const NAME: &'static str = "shelved-servers";
    const REPAIRS: &'static str = "shelved servers that stay on a host longer than `[DEFAULT] shelved_offload_time`";
    const ON_A_COPY: CopyConduct<Self::Finding> =
        CopyConduct::ActsOnNewGrounds(|views, (server, _)| shelved_at(views, *server));

    fn period(context: &ReconcileContext) -> Option<Duration> {
        context.server_options.shelved_offload.map(|_| context.options.period)
    }

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        let Some(stay) = situation.server_options.shelved_offload else { return BTreeSet::new() };
        let age = i64::try_from(stay.as_micros()).unwrap_or(i64::MAX);
        let by = Timestamp(situation.now.0.saturating_sub(age));
        plan(situation.views, by).into_iter().map(|instance| (instance, by)).collect()
    }

    fn describe((instance, shelved_by): &Self::Finding) -> String {
        format!("server {instance}, shelved by {shelved_by}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for (instance, shelved_by) in findings {
            let due = WorkRequest::OffloadDue { process: ProcessId::random(), shelved_by: Some(shelved_by) };
            let command = InstanceRequest::from(due);
            let sent = context.gateway.send::<InstanceRoot>(&instance, command, Meta::system("shelved")).await;
            if let Err(error) = sent {
                failures += 1;
                tracing::warn!(%instance, %error, "offloading a shelved server failed, retrying");
            }
        }
        failures
    }
}
