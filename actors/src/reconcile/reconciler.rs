//! The trait of all reconcilers: a plan that compares, an action that mends, and when both run.
//!
//! A plan reads and an action writes. An action is idempotent: it may run twice, and a crash may end it half-way. A
//! reconciler takes no orders: it finds everything that it mends by itself.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Timestamp;
use chronova_events::registry::Event;
use chronova_projections::views::Views;
use futures::future::BoxFuture;

use super::context::ReconcileContext;
use super::options::ReconcileOptions;
use super::run_counts::ReconcilerTally;
use super::runner;
use crate::server_options::ServerOptions;

/// The input of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    pub views: &'a Views,
    pub now: Timestamp,
    pub options: &'a ReconcileOptions,
    pub server_options: &'a ServerOptions,
}

/// Compares what is with what should be, again and again.
pub trait Reconciler: Send + Sync + 'static {
    /// One thing to be mended.
    type Finding: Clone + Ord + Debug + Send + Sync + 'static;

    /// In metrics, in logs and in `chronova inspect reconcilers`.
    const NAME: &'static str;
    /// The damage that it mends, in words for operators.
    const MENDS: &'static str;
    /// Whether it acts only on what two plans in a row find: a request on its way causes such findings for a moment.
    const DEBOUNCES: bool = false;
    /// Whether it runs once before the first request is served, when no request is on its way.
    const AT_START: bool = false;
    /// Whether it runs again and again by the clock, as [`Reconciler::period`] says.
    const BY_CLOCK: bool = true;
    /// Whether events wake it, too: those that [`Reconciler::is_woken_by`] names.
    const FOLLOWS_LOG: bool = false;
    /// Whether the read models tell all that is to be mended. Otherwise a finding only says where to look: the action
    /// asks a host or another service.
    const FROM_LOG_ALONE: bool = true;

    /// How often it runs; `None`: never, by these options.
    fn period(context: &ReconcileContext) -> Option<Duration> {
        Some(context.options.period)
    }

    /// Whether `event` may have left something to mend. Only asked where it follows the log.
    fn is_woken_by(event: &Event) -> bool {
        let _ = event;
        false
    }

    /// Finds what is to be mended.
    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding>;

    /// One finding, in one line for operators.
    fn describe(finding: &Self::Finding) -> String;

    /// Mends `findings`; says how many it could not mend now.
    fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> impl Future<Output = usize> + Send;

    /// Runs for ever. A reconciler that remembers what it still owes, or that asks hosts only about what an event
    /// concerns, has a loop of its own.
    fn run(context: Arc<ReconcileContext>, tally: Arc<ReconcilerTally>) -> BoxFuture<'static, ()>
    where
        Self: Sized,
    {
        runner::forever::<Self>(context, tally)
    }
}
