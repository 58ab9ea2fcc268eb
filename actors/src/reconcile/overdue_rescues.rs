//! Ends rescues that last too long: Nova's `_poll_rescued_instances`.
//!
//! The log has the time of each rescue, so the time while the control plane is down is included.

use std::collections::BTreeSet;
use std::time::Duration;

use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::Phase;
use chronova_projections::servers::ServerRow;
use chronova_projections::views::Views;

use crate::instance::{InstanceRequest, InstanceRoot, WorkRequest};
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation, moment_before};

/// Servers that entered rescue at or before `rescued_by`, each with the time of its last change. A server that a
/// process works on is left out.
pub fn plan(views: &Views, rescued_by: Timestamp) -> Vec<(InstanceId, Timestamp)> {
    views.servers.read(|servers| {
        let rescued = servers.all().filter_map(|row| rescued_at(row).map(|times| (row.id, times)));
        let due = rescued.filter(|(_, (since, _))| *since <= rescued_by);
        due.map(|(id, (_, changed))| (id, changed)).collect()
    })
}

/// When the server entered the rescue, and when it last changed. After a reset of the state, there may be no record of
/// a rescue. Then the time of the server's last change stands for both.
fn rescued_at(row: &ServerRow) -> Option<(Timestamp, Timestamp)> {
    let server = row.instance.alive()?;
    if !matches!(server.phase, Phase::Rescued { .. }) || server.ongoing.is_some() {
        return None;
    }
    // The time counts from the last failed unrescue, so that a failed unrescue is not repeated at each period.
    let rescue = row.actions.iter().rev().find(|action| matches!(&*action.name, "rescue" | "unrescue"));
    Some((rescue.map_or(server.updated_at, |action| action.updated_at), server.updated_at))
}

/// When the server entered the rescue. The original of a copied log may have ended it since.
fn rescued(views: &Views, server: InstanceId) -> Option<Timestamp> {
    views.servers.read(|servers| rescued_at(servers.get(server)?).map(|(since, _)| since))
}

/// Servers whose rescue is due to end.
#[derive(Debug)]
pub struct OverdueRescues;

impl Reconciler for OverdueRescues {
    type Finding = (InstanceId, Timestamp);

    const NAME: &'static str = "overdue-rescues";
    const REPAIRS: &'static str = "rescues that last longer than `[DEFAULT] rescue_timeout`";
    const ON_A_COPY: CopyConduct<Self::Finding> =
        CopyConduct::ActsOnNewGrounds(|views, (server, _)| rescued(views, *server));

    fn period(context: &ReconcileContext) -> Option<Duration> {
        let timeout = context.options.rescue_timeout;
        (!timeout.is_zero()).then(|| timeout.min(context.options.period))
    }

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        let by = moment_before(situation.now, situation.options.rescue_timeout);
        by.map(|by| plan(situation.views, by).into_iter().collect()).unwrap_or_default()
    }

    fn describe((instance, _): &Self::Finding) -> String {
        format!("rescue of server {instance}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for (instance, unchanged_since) in findings {
            tracing::info!(%instance, "ending a rescue that lasts too long");
            let due = WorkRequest::UnrescueDue { process: ProcessId::random(), unchanged_since };
            let (command, meta) = (InstanceRequest::from(due), Meta::system("rescue-timeout"));
            if let Err(error) = context.gateway.send::<InstanceRoot>(&instance, command, meta).await {
                failures += 1;
                tracing::warn!(%instance, %error, "ending a rescue failed, retrying");
            }
        }
        failures
    }
}
