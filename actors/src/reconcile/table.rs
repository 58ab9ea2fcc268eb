//! The only table of reconcilers. It has the reconcilers of compute and of the embedded services.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::context::ReconcileContext;
use super::image_cache::UnusedImages;
use super::machine_types::UnsetMachineTypes;
use super::orphaned_claims::OrphanedClaims;
use super::overdue_reboots::OverdueReboots;
use super::overdue_rescues::OverdueRescues;
use super::placement::OutdatedProviders;
use super::quota::{LeakedQuota, MisfitQuota};
use super::reclaim::DeletedServers;
use super::reconciler::{Reconciler, Situation, findings};
use super::run_counts::ReconcilerTally;
use super::runner;
use super::server_groups::StaleMembers;
use super::shelved::ShelvedServers;
use super::unconfirmed_moves::UnconfirmedMoves;
use crate::services::embedded::network::reconcile::filters::PortFilters;
use crate::services::embedded::network::reconcile::floating_ips::OrphanedNetworkResources;
use crate::services::embedded::network::reconcile::interfaces::ServerInterfaces;
use crate::services::embedded::network::reconcile::networks::DeletedNetworks;
use crate::services::embedded::network::reconcile::northbound::NorthboundRows;
use crate::services::embedded::volume::reconcile::quota::IdleVolumeQuota;

/// One reconciler, without its type.
#[derive(Debug)]
pub struct ReconcilerRow {
    pub name: &'static str,
    pub repairs: &'static str,
    pub debounces: bool,
    pub at_start: bool,
    pub by_clock: bool,
    pub follows_log: bool,
    pub from_log_alone: bool,
    /// Its conduct on a log that was copied or restored, in the word of [`super::copies::CopyConduct`].
    pub on_copy: &'static str,
    pub(crate) run: fn(Arc<ReconcileContext>, Arc<ReconcilerTally>) -> BoxFuture<'static, ()>,
    pub(crate) sweep: for<'a> fn(&'a ReconcileContext, &'a ReconcilerTally) -> BoxFuture<'a, ()>,
    plan: fn(Situation<'_>) -> Vec<String>,
}

impl ReconcilerRow {
    /// The findings that the reconciler would repair now, each in one line; `None` if it must ask hosts or other
    /// services.
    pub fn findings(&self, situation: Situation<'_>) -> Option<Vec<String>> {
        self.from_log_alone.then(|| (self.plan)(situation))
    }
}

const fn row<R: Reconciler>() -> ReconcilerRow {
    ReconcilerRow {
        name: R::NAME,
        repairs: R::REPAIRS,
        debounces: R::DEBOUNCES,
        at_start: R::AT_START,
        by_clock: R::BY_CLOCK,
        follows_log: R::FOLLOWS_LOG,
        from_log_alone: R::FROM_LOG_ALONE,
        on_copy: R::ON_A_COPY.word(),
        run: R::run,
        sweep: |context, tally| Box::pin(runner::at_start::<R>(context, tally)),
        plan: |situation| findings::<R>(situation).iter().map(R::describe).collect(),
    }
}

/// All reconcilers. Those that run at start-up do so in this order.
pub static RECONCILERS: &[ReconcilerRow] = &[
    row::<LeakedQuota>(),
    row::<MisfitQuota>(),
    row::<StaleMembers>(),
    row::<IdleVolumeQuota>(),
    row::<OrphanedNetworkResources>(),
    row::<OutdatedProviders>(),
    row::<OrphanedClaims>(),
    row::<UnsetMachineTypes>(),
    row::<UnconfirmedMoves>(),
    row::<OverdueReboots>(),
    row::<OverdueRescues>(),
    row::<DeletedServers>(),
    row::<ShelvedServers>(),
    row::<UnusedImages>(),
    row::<PortFilters>(),
    row::<ServerInterfaces>(),
    row::<DeletedNetworks>(),
    row::<NorthboundRows>(),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_reconcilers_are_unique() {
        let names: BTreeSet<&str> = RECONCILERS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), RECONCILERS.len());
    }

    #[test]
    fn the_page_says_of_each_reconciler_what_it_does_on_a_copy() {
        let page = include_str!("../../../docs/reconcilers.md");
        for row in RECONCILERS {
            let line = format!("| `{}` | {} |", row.name, row.on_copy);
            assert!(page.contains(&line), "docs/reconcilers.md lacks: {line}");
        }
    }

    /// Events could wake the second plan a moment after the first, while the request that caused both is still under
    /// way.
    #[test]
    fn a_reconciler_that_debounces_runs_by_the_clock_alone() {
        for row in RECONCILERS {
            assert!(!(row.debounces && row.follows_log), "{}", row.name);
        }
    }
}
