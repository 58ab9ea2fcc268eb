//! Deleted servers whose time to be restored is over.
//!
//! Nothing but the log says when a server was deleted, so the time runs on while no control plane does.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::Phase;
use chronova_projections::views::Views;

use crate::instance::{InstanceAggregate, InstanceCommand};
use crate::reconcile::context::ReconcileContext;

/// What was deleted by then and nobody works on.
pub fn plan(views: &Views, deleted_by: Timestamp) -> Vec<InstanceId> {
    views.servers.read(|servers| {
        let due = |phase: Phase| matches!(phase, Phase::SoftDeleted { since, .. } if since <= deleted_by);
        let alive = servers.all().filter_map(|row| row.instance.alive().map(|server| (row.id, server)));
        alive.filter(|(_, server)| due(server.phase) && server.ongoing.is_none()).map(|(id, _)| id).collect()
    })
}

/// Looks for ever; at once where deleted servers cannot be restored.
pub async fn keep(context: Arc<ReconcileContext>) {
    let interval = context.server_options.reclaim_interval;
    if interval.is_zero() {
        return;
    }
    loop {
        tokio::time::sleep(interval.min(context.options.period)).await;
        reclaim(&context, interval).await;
    }
}

async fn reclaim(context: &ReconcileContext, interval: Duration) {
    let age = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX);
    let deleted_by = Timestamp(context.clock.now().0.saturating_sub(age));
    for instance in plan(&context.views, deleted_by) {
        tracing::info!(%instance, "reclaiming a deleted server that nobody restored");
        let command = InstanceCommand::Reclaim { process: ProcessId::random(), deleted_by };
        let sent = context.gateway.send::<InstanceAggregate>(&instance, command, Meta::system("reclaim")).await;
        if let Err(error) = sent {
            tracing::warn!(%instance, %error, "a deleted server cannot be reclaimed yet");
        }
    }
}
