//! The trait of all reconcilers. A reconciler has a plan that finds differences, an action that repairs them, and rules
//! when both run.
//!
//! A plan reads and an action writes. An action is idempotent: it may run twice, and a crash may interrupt it. No
//! caller tells a reconciler what to repair, because its plan, its action or its own loop finds the differences.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Timestamp;
use chronova_events::registry::Event;
use chronova_projections::views::Views;
use futures::future::BoxFuture;

use super::context::ReconcileContext;
use super::copies::CopyConduct;
use super::options::ReconcileOptions;
use super::run_counts::ReconcilerTally;
use super::runner;
use crate::hosts::doubt::CopyDoubt;
use crate::server_options::ServerOptions;

/// The input of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    pub views: &'a Views,
    pub now: Timestamp,
    pub options: &'a ReconcileOptions,
    pub server_options: &'a ServerOptions,
    /// The moment before which another generation of the log drove the hosts.
    pub doubt: CopyDoubt,
}

/// The moment `age` before `now`; `None` if the age is zero, which means never.
pub(super) fn moment_before(now: Timestamp, age: Duration) -> Option<Timestamp> {
    let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    (!age.is_zero()).then(|| Timestamp(now.0.saturating_sub(micros)))
}

/// Compares the present state with the intended state, and repairs the differences.
pub trait Reconciler: Send + Sync + 'static {
    /// One difference to repair.
    type Finding: Clone + Ord + Debug + Send + Sync + 'static;

    /// The name in metrics, in logs and in `chronova inspect reconcilers`.
    const NAME: &'static str;
    /// The differences that it repairs, in words for operators.
    const REPAIRS: &'static str;
    /// Its conduct on a log that was copied or restored. Each reconciler must state its conduct. Otherwise it could
    /// destroy what the original made after the copy.
    const ON_A_COPY: CopyConduct<Self::Finding>;
    /// Whether it acts only on findings that two plans in a row have. A request under way may cause a finding for a
    /// moment.
    const DEBOUNCES: bool = false;
    /// Whether it runs once before the first request is served, when no request is under way.
    const AT_START: bool = false;
    /// Whether it runs periodically, with the period of [`Reconciler::period`].
    const BY_CLOCK: bool = true;
    /// Whether events wake it, too. [`Reconciler::is_woken_by`] selects the events.
    const FOLLOWS_LOG: bool = false;
    /// Whether the read models show all differences. Otherwise, a finding only names what to check, and the action asks
    /// a host or another service.
    const FROM_LOG_ALONE: bool = true;

    /// The period of its runs; `None` if the options turn it off.
    fn period(context: &ReconcileContext) -> Option<Duration> {
        Some(context.options.period)
    }

    /// Whether `event` may cause a difference. Only a reconciler that follows the log needs this function.
    fn is_woken_by(event: &Event) -> bool {
        let _ = event;
        false
    }

    /// Finds the differences, or what the action must check (see [`Reconciler::FROM_LOG_ALONE`]). Callers use
    /// `findings`, which leaves out those that a copy must not repair.
    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding>;

    /// Describes a finding in one line for operators.
    fn describe(finding: &Self::Finding) -> String;

    /// Repairs `findings`. Returns how many it could not repair now.
    fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> impl Future<Output = usize> + Send;

    /// Runs until the task is dropped. A reconciler has its own loop if it remembers pending work, or if it asks hosts
    /// only about the subjects of events.
    fn run(context: Arc<ReconcileContext>, tally: Arc<ReconcilerTally>) -> BoxFuture<'static, ()>
    where
        Self: Sized,
    {
        runner::forever::<Self>(context, tally)
    }
}

/// The differences that `R` may repair.
pub(super) fn findings<R: Reconciler>(situation: Situation<'_>) -> BTreeSet<R::Finding> {
    let mut found = R::plan(situation);
    if let CopyConduct::ActsOnNewGrounds(learned_at) = R::ON_A_COPY
        && !situation.doubt.is_none()
    {
        found.retain(|finding| learned_at(situation.views, finding).is_some_and(|at| situation.doubt.trusts(at)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_of_zero_is_never_reached() {
        assert_eq!(moment_before(Timestamp(9_000_000), Duration::from_secs(2)), Some(Timestamp(7_000_000)));
        assert_eq!(moment_before(Timestamp(9_000_000), Duration::ZERO), None);
    }
}
