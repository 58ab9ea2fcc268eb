//! Executes every requested process. No process runs twice at the same time.
//!
//! Requests are in the log, so after a crash the log shows which processes have not ended.

use std::sync::Arc;

use chronova_events::envelope::Position;
use chronova_events::store::EventStore;
use chronova_projections::processes::{UnfinishedProcess, asked_for};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::context::StepContext;
use super::perform::perform;

/// Follows the log until the future is dropped, or until the log cannot be followed any more. The end of this future
/// stops every process at once.
pub async fn supervise(context: Arc<StepContext>, store: Arc<dyn EventStore>) {
    let _closing = NobodyPerforms(Arc::clone(&context));
    let supervisor = Arc::new(Supervisor { context, began_at: store.head() });
    // The read model shows all processes up to its position, and the subscription delivers the later ones. A process
    // that both report is started only once.
    let mut tasks = JoinSet::new();
    let mut subscription = store.subscribe(supervisor.context.views.position());
    drop(store);
    supervisor.go_on(&mut tasks);
    let mut broken = false;
    let mut again = interval(supervisor.context.options.restart_pause);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // The order is fixed, so that a seed determines a run. Restarts and ended tasks come first. Ended tasks make
        // room for new ones. Neither can starve the other branches.
        tokio::select! {
            biased;
            _ = again.tick(), if broken => {
                broken = false;
                supervisor.go_on(&mut tasks);
            }
            Some(ended) = tasks.join_next() => if let Err(error) = ended {
                tracing::error!(%error, "a process failed unexpectedly, restarting it");
                broken = true;
            },
            batch = subscription.next() => match batch {
                Ok(batch) => {
                    for recorded in batch {
                        match recorded.event() {
                            Ok(event) => if let Some(pending) = asked_for(&recorded, event) {
                                supervisor.begin(pending, recorded.position, &mut tasks);
                            },
                            Err(error) => tracing::error!(position = %recorded.position, %error, "an event cannot be read"),
                        }
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "following the log failed; no process starts");
                    return;
                }
            },
        }
    }
}

struct Supervisor {
    context: Arc<StepContext>,
    /// The head of the log when the supervisor began. No earlier run can have begun a process that is requested later.
    began_at: Position,
}

impl Supervisor {
    /// Starts every unfinished process that does not run yet.
    fn go_on(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        let unfinished: Vec<UnfinishedProcess> =
            self.context.views.processes.read(|view| view.pending().cloned().collect());
        if !unfinished.is_empty() {
            tracing::info!(count = unfinished.len(), "continuing unfinished processes");
        }
        for pending in unfinished {
            self.begin(pending, Position::START, tasks);
        }
    }

    /// `asked_at`: the position of the request in the log, or the start of the log if an earlier run may have begun the
    /// process.
    fn begin(self: &Arc<Self>, pending: UnfinishedProcess, asked_at: Position, tasks: &mut JoinSet<()>) {
        let Some(guard) = self.context.running.begin(pending.process) else { return };
        let this = Arc::clone(self);
        tasks.spawn(async move {
            let _turn = match pending.task.begins_at_once() {
                true => None,
                false => {
                    this.context.host_gate.passed().await;
                    this.context.running.turn().await
                }
            };
            // The guard is dropped at every end of the task, even a panic.
            perform(Arc::clone(&this.context), pending, &guard, asked_at > this.began_at).await;
        });
    }
}

/// Ends all waits for processes when it is dropped. It is dropped at every end of the supervisor.
struct NobodyPerforms(Arc<StepContext>);

impl Drop for NobodyPerforms {
    fn drop(&mut self) {
        self.0.create_requests.close();
        self.0.server_requests.close();
    }
}
