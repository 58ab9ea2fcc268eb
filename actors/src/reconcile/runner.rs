//! Runs reconcilers: waits for the clock or for an event, plans, debounces if the reconciler asks for it, acts, and
//! counts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronova_events::envelope::Recorded;
use chronova_events::store::StoreError;
use chronova_events::store::tail::Subscription;
use futures::future::BoxFuture;

use super::context::ReconcileContext;
use super::copies::CopyConduct;
use super::reconciler::{Reconciler, findings};
use super::run_counts::ReconcilerTally;

/// Runs a reconciler periodically, and also at each event that wakes it. Events after this call wake the reconciler,
/// even events before the first poll of the future.
pub(super) fn forever<R: Reconciler>(
    context: Arc<ReconcileContext>,
    tally: Arc<ReconcilerTally>,
) -> BoxFuture<'static, ()> {
    let subscription = R::FOLLOWS_LOG.then(|| context.log.subscribe(context.views.position()));
    let period = R::period(&context).filter(|_| R::BY_CLOCK);
    Box::pin(run::<R>(context, tally, period, subscription))
}

async fn run<R: Reconciler>(
    context: Arc<ReconcileContext>,
    tally: Arc<ReconcilerTally>,
    period: Option<Duration>,
    mut subscription: Option<Subscription>,
) {
    let mut before = BTreeSet::new();
    let mut due = period.map(|period| tokio::time::Instant::now() + period);
    while due.is_some() || subscription.is_some() {
        tokio::select! {
            biased;
            batch = news(subscription.as_mut()) => match batch {
                Ok(batch) if wakes::<R>(&batch) => wait_for_views(&context, subscription.as_ref()).await,
                // A busy log must not delay the periodic run.
                Ok(_) if due.is_none_or(|due| due > tokio::time::Instant::now()) => continue,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(reconciler = R::NAME, %error, "a reconciler cannot follow the log any more");
                    subscription = None;
                    continue;
                }
            },
            () = until(due) => {}
        }
        once::<R>(&context, &tally, &mut before).await;
        due = period.map(|period| tokio::time::Instant::now() + period);
    }
}

async fn news(subscription: Option<&mut Subscription>) -> Result<Vec<Arc<Recorded>>, StoreError> {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}

fn wakes<R: Reconciler>(batch: &[Arc<Recorded>]) -> bool {
    batch.iter().any(|recorded| recorded.event().is_ok_and(|event| R::is_woken_by(event)))
}

/// Waits until the read models have the event that woke the reconciler. An earlier plan would miss the event.
async fn wait_for_views(context: &ReconcileContext, subscription: Option<&Subscription>) {
    if let Some(subscription) = subscription {
        context.views.wait_for(subscription.position(), context.host_options.resync).await;
    }
}

/// Waits until `due`; for ever if it is `None`.
pub(crate) async fn until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Executes one run. `before` has the findings of the previous run.
pub(crate) async fn once<R: Reconciler>(
    context: &ReconcileContext,
    tally: &ReconcilerTally,
    before: &mut BTreeSet<R::Finding>,
) {
    // Another generation may have driven a host that has not answered yet.
    if matches!(R::ON_A_COPY, CopyConduct::ActsOnNewGrounds(_)) && context.awaits_hosts() {
        return;
    }
    let begun = Instant::now();
    let found = findings::<R>(context.situation());
    let due = due::<R>(&found, before);
    let failures = if due.is_empty() { 0 } else { R::act(context, due).await };
    *before = found;
    tally.record(begun, context.clock.now(), failures);
}

/// The findings that a run acts on. This run found `found`, and the previous run found `before`.
fn due<R: Reconciler>(found: &BTreeSet<R::Finding>, before: &BTreeSet<R::Finding>) -> BTreeSet<R::Finding> {
    if R::DEBOUNCES { found.intersection(before).cloned().collect() } else { found.clone() }
}

/// Executes the run at start-up. No request is under way then, so the run acts on all findings.
pub(super) async fn at_start<R: Reconciler>(context: &ReconcileContext, tally: &ReconcilerTally) {
    if R::AT_START {
        let begun = Instant::now();
        let found = findings::<R>(context.situation());
        let failures = if found.is_empty() { 0 } else { R::act(context, found).await };
        tally.record(begun, context.clock.now(), failures);
    }
}

#[cfg(test)]
mod tests {
    use chronova_events::envelope::Timestamp;
    use chronova_projections::views::Views;

    use super::*;
    use crate::hosts::doubt::CopyDoubt;
    use crate::reconcile::options::ReconcileOptions;
    use crate::reconcile::reconciler::Situation;
    use crate::server_options::ServerOptions;

    struct Numbers<const DEBOUNCES: bool>;

    impl<const DEBOUNCES: bool> Reconciler for Numbers<DEBOUNCES> {
        type Finding = i32;

        const NAME: &'static str = "numbers";
        const REPAIRS: &'static str = "nothing";
        const ON_A_COPY: CopyConduct<i32> =
            CopyConduct::ActsOnNewGrounds(|_, number| Some(Timestamp(i64::from(*number))));
        const DEBOUNCES: bool = DEBOUNCES;

        fn plan(_: Situation<'_>) -> BTreeSet<i32> {
            BTreeSet::from([1, 2, 3])
        }

        fn describe(number: &i32) -> String {
            number.to_string()
        }

        async fn act(_: &ReconcileContext, _: BTreeSet<i32>) -> usize {
            0
        }
    }

    #[test]
    fn on_a_copy_a_reconciler_acts_on_new_grounds_only() {
        let (views, options, server_options) = (Views::new(), ReconcileOptions::default(), ServerOptions::default());
        let on = |doubt| Situation {
            views: &views,
            now: Timestamp(9),
            options: &options,
            server_options: &server_options,
            doubt: CopyDoubt(doubt),
        };
        assert_eq!(findings::<Numbers<false>>(on(None)), BTreeSet::from([1, 2, 3]));
        assert_eq!(findings::<Numbers<false>>(on(Some(Timestamp(2)))), BTreeSet::from([2, 3]));
        assert_eq!(findings::<Numbers<false>>(on(Some(Timestamp(4)))), BTreeSet::new());
    }

    #[test]
    fn a_debouncing_reconciler_acts_only_on_repeated_findings() {
        let found = BTreeSet::from([1, 2, 3]);
        assert_eq!(due::<Numbers<true>>(&found, &BTreeSet::new()), BTreeSet::new());
        assert_eq!(due::<Numbers<true>>(&found, &BTreeSet::from([3, 1, 4])), BTreeSet::from([1, 3]));
        assert_eq!(due::<Numbers<false>>(&found, &BTreeSet::new()), found);
    }
}
