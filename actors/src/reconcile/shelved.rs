//! Shelved servers whose time on their hosts is over: Nova's `_poll_shelved_instances`.

use std::sync::Arc;

use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::Phase;
use chronova_projections::views::Views;

use crate::instance::work::WorkCommand;
use crate::instance::{InstanceAggregate, InstanceCommand};
use crate::reconcile::context::ReconcileContext;

/// What was shelved by then and nobody works on.
pub fn plan(views: &Views, shelved_by: Timestamp) -> Vec<InstanceId> {
    views.servers.read(|servers| {
        let due = |phase: Phase| matches!(phase, Phase::Shelved { since, .. } if since <= shelved_by);
        let alive = servers.all().filter_map(|row| row.instance.alive().map(|server| (row.id, server)));
        alive.filter(|(_, server)| due(server.phase) && server.ongoing.is_none()).map(|(id, _)| id).collect()
    })
}

/// Looks for ever; at once where shelved servers stay on their hosts. Where they leave at once, what a crash kept from
/// leaving is found here.
pub async fn keep(context: Arc<ReconcileContext>) {
    let Some(stay) = context.server_options.shelved_offload else { return };
    let age = i64::try_from(stay.as_micros()).unwrap_or(i64::MAX);
    loop {
        tokio::time::sleep(context.options.period).await;
        let shelved_by = Timestamp(context.clock.now().0.saturating_sub(age));
        for instance in plan(&context.views, shelved_by) {
            let command = WorkCommand::OffloadDue { process: ProcessId::random(), shelved_by: Some(shelved_by) };
            let command = InstanceCommand::Work(Box::new(command));
            let sent = context.gateway.send::<InstanceAggregate>(&instance, command, Meta::system("shelved")).await;
            if let Err(error) = sent {
                tracing::warn!(%instance, %error, "a shelved server cannot leave its host yet");
            }
        }
    }
}
