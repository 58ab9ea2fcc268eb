//! Interferences make the steps of a test fail, repeat and wait.
//!
//! [`FailingOnce`] and [`EventAtStep`] act at one [`Moment`]. From then on the log counts appends, and the control
//! plane crashes after the nth ([`FuseStore::arm`]). So a test of "a crash after every append of the unwinding" need
//! not know where the unwinding begins.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use chronova_actors::process::definition::Definition;
use chronova_actors::process::interference::{Interference, InterferenceVerdict, StepDirection};
use chronova_events::store::faulty::FuseStore;

/// The moment at which an interference acts in a life. `fuse`: the last append of that life, counted from the moment.
#[derive(Default)]
struct Moment {
    store: OnceLock<Arc<FuseStore>>,
    fuse: Option<u64>,
    come: AtomicBool,
    appends_before: AtomicU64,
}

impl Moment {
    fn with_fuse(fuse: Option<u64>) -> Self {
        Self { fuse, ..Self::default() }
    }

    /// Marks the moment. True only for the first caller.
    fn comes(&self) -> bool {
        let first = !self.come.swap(true, Ordering::SeqCst);
        if let (true, Some(store)) = (first, self.store.get()) {
            self.appends_before.store(store.appends(), Ordering::SeqCst);
            store.arm(self.fuse);
        }
        first
    }

    fn has_come(&self) -> bool {
        self.come.load(Ordering::SeqCst)
    }

    fn appends_since(&self) -> u64 {
        let now = self.store.get().map_or(0, |store| store.appends());
        now.saturating_sub(self.appends_before.load(Ordering::SeqCst))
    }

    /// Starts to watch the log; call it before any request.
    fn watch(&self, store: &Arc<FuseStore>) {
        assert!(self.store.set(Arc::clone(store)).is_ok(), "an interference watches only one log");
    }
}

/// One verdict on the first run of one step.
pub(super) struct FailingOnce {
    process: &'static str,
    step: &'static str,
    verdict: InterferenceVerdict,
    moment: Moment,
}

impl FailingOnce {
    /// `fuse`: the append, counted from the verdict, after which the control plane crashes.
    pub(super) fn new(
        definition: &Definition,
        step: &'static str,
        verdict: InterferenceVerdict,
        fuse: Option<u64>,
    ) -> Arc<Self> {
        Arc::new(Self { process: definition.name, step, verdict, moment: Moment::with_fuse(fuse) })
    }

    pub(super) fn watch(&self, store: &Arc<FuseStore>) {
        self.moment.watch(store);
    }

    pub(super) fn has_judged(&self) -> bool {
        self.moment.has_come()
    }

    /// The number of appends since the verdict.
    pub(super) fn appends_since(&self) -> u64 {
        self.moment.appends_since()
    }
}

impl Interference for FailingOnce {
    fn judge(&self, process: &'static str, step: &'static str, way: StepDirection) -> InterferenceVerdict {
        let here = (process, step, way) == (self.process, self.step, StepDirection::Run);
        if here && self.moment.comes() { self.verdict } else { InterferenceVerdict::Pass }
    }
}

/// The last step fails, and every undo runs twice.
pub(super) struct RepeatingSteps {
    process: &'static str,
    last: &'static str,
    failed: AtomicBool,
}

impl RepeatingSteps {
    pub(super) fn new(definition: &Definition) -> Arc<Self> {
        let last = definition.steps.last().unwrap().name;
        Arc::new(Self { process: definition.name, last, failed: AtomicBool::new(false) })
    }
}

impl Interference for RepeatingSteps {
    fn judge(&self, process: &'static str, step: &'static str, way: StepDirection) -> InterferenceVerdict {
        match (process == self.process, way) {
            (true, StepDirection::Undo) => InterferenceVerdict::Repeat,
            (true, StepDirection::Run) if step == self.last && !self.failed.swap(true, Ordering::SeqCst) => {
                InterferenceVerdict::FailAfter
            }
            _ => InterferenceVerdict::Pass,
        }
    }
}

/// Pauses a process before it runs or undoes a step, so that an incident can happen then. For an undo, the last step
/// fails first.
pub(super) struct EventAtStep {
    process: &'static str,
    last: &'static str,
    step: &'static str,
    way: StepDirection,
    failed: AtomicBool,
    over: AtomicBool,
    moment: Moment,
}

impl EventAtStep {
    pub(super) fn new(definition: &Definition, step: &'static str, way: StepDirection, fuse: Option<u64>) -> Arc<Self> {
        let last = definition.steps.last().unwrap().name;
        Arc::new(Self {
            process: definition.name,
            last,
            step,
            way,
            failed: AtomicBool::new(way == StepDirection::Run),
            over: AtomicBool::new(false),
            moment: Moment::with_fuse(fuse),
        })
    }

    pub(super) fn watch(&self, store: &Arc<FuseStore>) {
        self.moment.watch(store);
    }

    /// Whether the process waits, or has waited, at the step.
    pub(super) fn is_reached(&self) -> bool {
        self.moment.has_come()
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// The number of appends since the process reached the step.
    pub(super) fn appends_since(&self) -> u64 {
        self.moment.appends_since()
    }
}

impl Interference for EventAtStep {
    fn judge(&self, process: &'static str, step: &'static str, way: StepDirection) -> InterferenceVerdict {
        if process != self.process {
            return InterferenceVerdict::Pass;
        }
        if (step, way) == (self.step, self.way) {
            self.moment.comes();
            return if self.over.load(Ordering::SeqCst) {
                InterferenceVerdict::Pass
            } else {
                InterferenceVerdict::Hold
            };
        }
        match way == StepDirection::Run && step == self.last && !self.failed.swap(true, Ordering::SeqCst) {
            true => InterferenceVerdict::FailAfter,
            false => InterferenceVerdict::Pass,
        }
    }
}
