//! Warns of allocations in Placement that no server and no migration needs, as Nova's compute service does.
//!
//! The allocations stay, because a client of Placement may have made them on purpose. An operator deletes them with
//! `chronova manage placement audit --delete`.

use std::collections::BTreeSet;
use std::time::Duration;

use chronova_events::ids::{ConsumerId, ProviderId};

use crate::operations::orphaned_allocations::orphaned;
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};

/// The number of usual periods between two runs. A plan reads all allocations, and one warning an hour is enough.
const PERIODS: u32 = 60;

/// Consumers with an orphaned allocation, each with the provider of the allocation.
#[derive(Debug)]
pub struct OrphanedClaims;

impl Reconciler for OrphanedClaims {
    type Finding = (ConsumerId, ProviderId);

    const NAME: &'static str = "orphaned-claims";
    const REPAIRS: &'static str = "nothing: it warns of allocations that no server and no migration needs";
    const ON_A_COPY: CopyConduct<Self::Finding> = CopyConduct::ChangesLogAlone;
    const DEBOUNCES: bool = true;
    const AT_START: bool = true;

    fn period(context: &ReconcileContext) -> Option<Duration> {
        Some(context.options.period.saturating_mul(PERIODS))
    }

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        let found = orphaned(situation.views, None).unwrap_or_default();
        found.into_iter().map(|orphan| (orphan.consumer, orphan.provider)).collect()
    }

    fn describe((consumer, provider): &Self::Finding) -> String {
        format!("consumer {} has an allocation of provider {provider}", consumer.as_str())
    }

    async fn act(_: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        for (consumer, provider) in findings {
            tracing::warn!(
                consumer = consumer.as_str(),
                %provider,
                "a consumer has an allocation in Placement, but no server and no migration needs it: `chronova manage \
                 placement audit --delete` deletes it"
            );
        }
        0
    }
}
