//! Chooses the trials of a run: all of them in long runs, a few by a seed in ordinary runs.
//!
//! With `CHRONOVA_SOAK` all trials run. `CHRONOVA_HARNESS_SEED` is the seed (default 1); a failed test prints it.

use chronova_events::entropy::SplitMix;

use super::Case;

/// The default seed.
const SEED: u64 = 1;

/// Chooses the trials of one case.
pub(super) struct Sample {
    numbers: SplitMix,
    all: bool,
}

impl Sample {
    /// With the same seed, cases of different processes or statuses choose different trials.
    pub(super) fn of(case: &Case) -> Self {
        let told = std::env::var("CHRONOVA_HARNESS_SEED").ok().and_then(|seed| seed.parse().ok());
        let (seed, all) = (told.unwrap_or(SEED), std::env::var_os("CHRONOVA_SOAK").is_some());
        eprintln!("CHRONOVA_HARNESS_SEED={seed}{}", if all { ", all trials" } else { "" });
        let words = [case.definition.name, case.from, case.to];
        let mark = words
            .iter()
            .flat_map(|word| word.bytes())
            .fold(seed, |mark, byte| SplitMix::new(mark ^ u64::from(byte)).draw());
        Self { numbers: SplitMix::new(mark), all }
    }

    /// Whether every trial runs.
    pub(super) fn is_everything(&self) -> bool {
        self.all
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.numbers.draw() % end.max(1)
    }

    /// At most `most` of the trials, or all in a long run.
    pub(super) fn choose<T>(&mut self, mut trials: Vec<T>, most: usize) -> Vec<T> {
        if self.all {
            return trials;
        }
        let mut chosen = Vec::new();
        while chosen.len() < most && !trials.is_empty() {
            let index = usize::try_from(self.below(trials.len() as u64)).unwrap();
            chosen.push(trials.swap_remove(index));
        }
        chosen
    }
}
