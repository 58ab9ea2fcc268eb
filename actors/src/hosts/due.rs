//! Decides which comparisons of a host with the log are due.
//!
//! An agent compares its host with the log often, and each time repairs what a process left behind. Nova's options say
//! how often the agent compares the power states of all guests, and how often it searches for guests of deleted
//! servers.

use std::time::Duration;

use tokio::time::Instant;

use super::options::HostOptions;
use super::plan::ResyncAction;

/// Which periodic comparisons are due now. All other comparisons are due at every tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DueChecks {
    power: bool,
    deleted: bool,
    /// Whether the host must also report its resources, traits and ratios again.
    pub(super) resources: bool,
}

impl DueChecks {
    /// These checks, and the report of the resources if `resources` is true.
    pub(super) fn renewing(self, resources: bool) -> Self {
        Self { resources, ..self }
    }

    pub(super) fn includes(self, action: ResyncAction) -> bool {
        match action {
            ResyncAction::Look => self.power,
            ResyncAction::Reap => self.deleted,
            _ => true,
        }
    }
}

/// Says at each tick of the agent's clock which comparisons are due.
#[derive(Debug)]
pub(super) struct ResyncClock {
    tick: Duration,
    power: PeriodicCheck,
    deleted: PeriodicCheck,
}

#[derive(Debug)]
struct PeriodicCheck {
    period: Option<Duration>,
    last: Instant,
}

impl PeriodicCheck {
    fn new(period: Option<Duration>) -> Self {
        Self { period, last: Instant::now() }
    }

    /// Whether the check is due. The ticks are not exact, so a check is due up to half a tick early.
    fn is_due(&mut self, tick: Duration) -> bool {
        let due = self.period.is_some_and(|period| self.last.elapsed() + tick / 2 >= period);
        if due {
            self.last = Instant::now();
        }
        due
    }
}

impl ResyncClock {
    pub(super) fn new(options: &HostOptions) -> Self {
        let (power, deleted) = (PeriodicCheck::new(options.power_sync), PeriodicCheck::new(options.deleted_poll));
        Self { tick: options.resync_period(), power, deleted }
    }

    /// The checks that are due when the host has connected, or when a process asks for them. A host that connects has
    /// just reported its resources.
    pub(super) fn all(&self) -> DueChecks {
        DueChecks { power: true, deleted: self.deleted.period.is_some(), resources: false }
    }

    pub(super) fn due(&mut self) -> DueChecks {
        let (power, deleted) = (self.power.is_due(self.tick), self.deleted.is_due(self.tick));
        DueChecks { power, deleted, resources: false }
    }
}
