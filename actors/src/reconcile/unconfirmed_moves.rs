//! Confirms moves that were not confirmed in time, and moves that a reset of the server's state left unconfirmed.
//!
//! The log has the time at which each move ended. So the window also runs while the control plane is down.

use std::collections::BTreeSet;

use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::{Alive, Phase};
use chronova_projections::views::Views;

use crate::instance::{InstanceRequest, InstanceRoot, MoveRequest};
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation, moment_before};

/// Servers with a move to confirm now. The move ended at or before `moved_by`, or a reset of the state left it
/// unconfirmed. Without `moved_by`, only servers whose move a reset left unconfirmed are selected.
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

/// When the server's last move changed. The original of a copied log may have reverted the move since.
fn moved_at(views: &Views, server: InstanceId) -> Option<Timestamp> {
    views.migrations.read(|migrations| migrations.last_of(server).map(|migration| migration.updated_at))
}

/// Confirms due moves. A finding is a server and a time. The move is confirmed if it ended at or before that time, or
/// if a reset left it unconfirmed.
#[derive(Debug)]
pub struct UnconfirmedMoves;

impl Reconciler for UnconfirmedMoves {
    type Finding = (InstanceId, Option<Timestamp>);

    const NAME: &'static str = "unconfirmed-moves";
    const REPAIRS: &'static str =
        "moves that nobody confirmed in `[DEFAULT] resize_confirm_window`, or that a reset left";
    const ON_A_COPY: CopyConduct<Self::Finding> =
        CopyConduct::ActsOnNewGrounds(|views, (server, _)| moved_at(views, *server));

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        let by = moment_before(situation.now, situation.options.resize_confirm_window);
        plan(situation.views, by).into_iter().map(|instance| (instance, by)).collect()
    }

    fn describe((instance, _): &Self::Finding) -> String {
        format!("move of server {instance}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for (instance, moved_by) in findings {
            tracing::info!(%instance, "confirming an unconfirmed move");
            let moved_by = moved_by.unwrap_or(Timestamp(i64::MIN));
            let due = MoveRequest::ConfirmDue { process: ProcessId::random(), moved_by };
            let (command, meta) = (InstanceRequest::from(due), Meta::system("resize-confirm-window"));
            if let Err(error) = context.gateway.send::<InstanceRoot>(&instance, command, meta).await {
                failures += 1;
                tracing::warn!(%instance, %error, "a move could not be confirmed; the next run tries again");
            }
        }
        failures
    }
}
