//! Turns soft reboots that do not end into hard ones: Nova's `_poll_rebooting_instances`.
//!
//! The log has the time of each request, so the time while the control plane is down is included.

use std::collections::BTreeSet;
use std::time::Duration;

use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::{OngoingTask, PowerAction};
use chronova_projections::servers::ServerRow;
use chronova_projections::views::Views;

use crate::instance::{InstanceRequest, InstanceRoot};
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation, moment_before};

/// Servers whose soft reboot was requested at or before `requested_by`, each with the reboot's process.
pub fn plan(views: &Views, requested_by: Timestamp) -> Vec<(InstanceId, ProcessId)> {
    views.servers.read(|servers| {
        let rebooting = servers.all().filter_map(|row| soft_reboot(row).map(|process| (row, process)));
        let due = rebooting.filter(|(row, process)| requested(row, *process).is_some_and(|at| at <= requested_by));
        due.map(|(row, process)| (row.id, process)).collect()
    })
}

fn soft_reboot(row: &ServerRow) -> Option<ProcessId> {
    match row.instance.alive()?.ongoing {
        Some(OngoingTask::Power { process, action: PowerAction::RebootSoft }) => Some(process),
        _ => None,
    }
}

fn requested(row: &ServerRow, reboot: ProcessId) -> Option<Timestamp> {
    row.actions.iter().rev().find(|action| action.process == Some(reboot)).map(|action| action.started_at)
}

/// When the soft reboot was requested. The original of a copied log may have moved the server since.
fn requested_at(views: &Views, server: InstanceId, reboot: ProcessId) -> Option<Timestamp> {
    views.servers.read(|servers| requested(servers.get(server)?, reboot))
}

/// Servers that are due for a hard reboot.
#[derive(Debug)]
pub struct OverdueReboots;

impl Reconciler for OverdueReboots {
    type Finding = (InstanceId, ProcessId);

    const NAME: &'static str = "overdue-reboots";
    const REPAIRS: &'static str = "soft reboots that take longer than `[DEFAULT] reboot_timeout`";
    const ON_A_COPY: CopyConduct<Self::Finding> =
        CopyConduct::ActsOnNewGrounds(|views, (server, reboot)| requested_at(views, *server, *reboot));

    fn period(context: &ReconcileContext) -> Option<Duration> {
        let timeout = context.options.reboot_timeout;
        (!timeout.is_zero()).then(|| timeout.min(context.options.period))
    }

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        let by = moment_before(situation.now, situation.options.reboot_timeout);
        by.map(|by| plan(situation.views, by).into_iter().collect()).unwrap_or_default()
    }

    fn describe((instance, _): &Self::Finding) -> String {
        format!("reboot of server {instance}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for (instance, overtakes) in findings {
            tracing::info!(%instance, "rebooting a server hard, because its soft reboot takes too long");
            let command = InstanceRequest::RebootDue { process: ProcessId::random(), overtakes };
            let meta = Meta::system("reboot-timeout");
            if let Err(error) = context.gateway.send::<InstanceRoot>(&instance, command, meta).await {
                failures += 1;
                tracing::warn!(%instance, %error, "rebooting a server hard failed, retrying");
            }
        }
        failures
    }
}
