//! The findings of a run.

use std::time::Duration;

use chronova_events::chain::EventHash;

use super::check::BrokenInvariant;
use super::faults::ChaosFaults;
use super::traffic::Tally;

/// The counts, the times and the broken invariants of a run.
#[derive(Debug)]
pub(super) struct ChaosFindings {
    pub(super) tally: Tally,
    pub(super) faults_at_work: ChaosFaults,
    /// Faults that struck, by kind.
    pub(super) struck: Vec<(String, u64)>,
    pub(super) lives: u32,
    pub(super) events: u64,
    pub(super) head: EventHash,
    /// How long the run lasted by the simulated clock.
    pub(super) lasted: Duration,
    /// How long the run took on this machine.
    pub(super) took: Duration,
    pub(super) servers: usize,
    pub(super) migrations: usize,
    pub(super) wrong: Vec<BrokenInvariant>,
    /// The last events of servers that break an invariant.
    pub(super) stories: Vec<String>,
}
