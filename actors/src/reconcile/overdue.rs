//! Ends what takes longer than the operator allows: reboots that hang, and rescues that nobody ended.
//!
//! Nova: `_poll_rebooting_instances` and `_poll_rescued_instances`. The log has the time of each request, so the time
//! while the control plane is down is included.

use std::collections::BTreeSet;
use std::time::Duration;

use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::{OngoingTask, Phase, PowerAction};
use chronova_projections::servers::ServerRow;
use chronova_projections::views::Views;

use crate::instance::{InstanceRequest, InstanceRoot, WorkRequest};
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::reconciler::{Reconciler, Situation};

/// The time at or before which something must have begun to be overdue; `None` if the timeout is zero, which means never.
fn limit(now: Timestamp, timeout: Duration) -> Option<Timestamp> {
    let age = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX);
    (!timeout.is_zero()).then(|| Timestamp(now.0.saturating_sub(age)))
}

/// When the action of this process was requested.
fn requested_at(row: &ServerRow, process: ProcessId) -> Option<Timestamp> {
    row.actions.iter().rev().find(|action| action.process == Some(process)).map(|action| action.started_at)
}

/// The process of a reboot that began at or before `by`, and has not ended.
fn stuck_reboot(row: &ServerRow, by: Timestamp) -> Option<ProcessId> {
    match row.instance.alive()?.ongoing? {
        OngoingTask::Power { process, action: PowerAction::RebootSoft | PowerAction::RebootHard } => {
            requested_at(row, process).filter(|at| *at <= by).map(|_| process)
        }
        _ => None,
    }
}

/// Whether the server was rescued at or before `by`, and no process works on it.
fn is_rescued_since(row: &ServerRow, by: Timestamp) -> bool {
    let Some(alive) = row.instance.alive() else { return false };
    let rescued = matches!(alive.phase, Phase::Rescued { .. }) && alive.ongoing.is_none();
    let at = row.actions.iter().rev().find(|action| action.name == "rescue").map(|action| action.updated_at);
    rescued && at.is_some_and(|at| at <= by)
}

fn find<T: Ord>(views: &Views, of: impl Fn(&ServerRow) -> Option<T>) -> BTreeSet<(InstanceId, T)> {
    views.servers.read(|servers| servers.all().filter_map(|row| Some((row.id, of(row)?))).collect())
}

/// Reboots that hang longer than `[DEFAULT] reboot_timeout`. The server is rebooted hard.
#[derive(Debug)]
pub struct StuckReboots;

impl Reconciler for StuckReboots {
    type Finding = (InstanceId, ProcessId);

    const NAME: &'static str = "stuck-reboots";
    const REPAIRS: &'static str = "reboots that take longer than `[DEFAULT] reboot_timeout`";

    fn period(context: &ReconcileContext) -> Option<Duration> {
        (!context.options.reboot_timeout.is_zero()).then_some(context.options.period)
    }

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        let Some(by) = limit(situation.now, situation.options.reboot_timeout) else { return BTreeSet::new() };
        find(situation.views, |row| stuck_reboot(row, by))
    }

    fn describe((instance, _): &Self::Finding) -> String {
        format!("reboot of server {instance}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for (instance, stuck) in findings {
            tracing::warn!(%instance, "a reboot takes too long, rebooting the server hard");
            let command = InstanceRequest::RebootOverdue { process: ProcessId::random(), stuck };
            let sent = context.gateway.send::<InstanceRoot>(&instance, command, Meta::system("reboot-timeout")).await;
            if let Err(error) = sent {
                failures += 1;
                tracing::warn!(%instance, %error, "rebooting a server hard failed, retrying");
            }
        }
        failures
    }
}

/// Servers that are rescued longer than `[DEFAULT] rescue_timeout`. They are unrescued.
#[derive(Debug)]
pub struct LongRescues;

impl Reconciler for LongRescues {
    type Finding = (InstanceId, ());

    const NAME: &'static str = "long-rescues";
    const REPAIRS: &'static str = "servers that are rescued longer than `[DEFAULT] rescue_timeout`";

    fn period(context: &ReconcileContext) -> Option<Duration> {
        (!context.options.rescue_timeout.is_zero()).then_some(context.options.period)
    }

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        let Some(by) = limit(situation.now, situation.options.rescue_timeout) else { return BTreeSet::new() };
        find(situation.views, |row| is_rescued_since(row, by).then_some(()))
    }

    fn describe((instance, ()): &Self::Finding) -> String {
        format!("rescue of server {instance}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for (instance, ()) in findings {
            tracing::info!(%instance, "a rescue is over its time, unrescuing the server");
            let command = InstanceRequest::from(WorkRequest::UnrescueDue { process: ProcessId::random() });
            let sent = context.gateway.send::<InstanceRoot>(&instance, command, Meta::system("rescue-timeout")).await;
            if let Err(error) = sent {
                failures += 1;
                tracing::warn!(%instance, %error, "unrescuing a server failed, retrying");
            }
        }
        failures
    }
}
