//! Moves that nobody confirmed in time, and those whose server was declared to be in another state since.
//!
//! Nothing but the log says when a server was moved, so the time runs on while no control plane does.

use std::time::Duration;

use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::{Alive, Phase};
use chronova_projections::views::Views;

use crate::instance::moving::MoveCommand;
use crate::instance::{InstanceAggregate, InstanceCommand};
use crate::reconcile::context::ReconcileContext;

/// Servers whose move is to be confirmed now: done by then, or forgotten by a declared state. `None`: only those.
pub fn plan(views: &Views, moved_by: Option<Timestamp>) -> Vec<InstanceId> {
    let due = |server: &Alive| match server.phase {
        Phase::Resized { since, .. } => moved_by.is_some_and(|by| since <= by),
        _ => true,
    };
    views.servers.read(|servers| {
        let alive = servers.all().filter_map(|row| row.instance.alive().map(|server| (row.id, server)));
        let moved = alive.filter(|(_, server)| server.moving.is_some() && server.ongoing.is_none());
        moved.filter(|(_, server)| due(server)).map(|(id, _)| id).collect()
    })
}

/// `[DEFAULT] resize_confirm_window`; zero waits for ever.
pub async fn confirm(context: &ReconcileContext) {
    let window = context.options.resize_confirm_window;
    let age = |window: Duration| i64::try_from(window.as_micros()).unwrap_or(i64::MAX);
    let moved_by = (!window.is_zero()).then(|| Timestamp(context.clock.now().0.saturating_sub(age(window))));
    for instance in plan(&context.views, moved_by) {
        tracing::info!(%instance, "confirming a move that nobody confirmed in time");
        let due =
            MoveCommand::ConfirmDue { process: ProcessId::random(), moved_by: moved_by.unwrap_or(Timestamp(i64::MIN)) };
        let command = InstanceCommand::Move(Box::new(due));
        let sent = context.gateway.send::<InstanceAggregate>(&instance, command, Meta::system("resize-confirm-window"));
        if let Err(error) = sent.await {
            tracing::warn!(%instance, %error, "a move cannot be confirmed yet");
        }
    }
}
