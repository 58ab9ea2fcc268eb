//! A deliberate defect that the run has to find.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use chronova_actors::process::interference::{Interference, InterferenceVerdict, StepDirection};

/// A defect in one step of a process. `delete_instance.release_claim@3`: at the third run, this step reports success
/// without doing anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlantedDefect {
    process: String,
    step: String,
    nth: u64,
}

impl fmt::Display for PlantedDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}@{}", self.process, self.step, self.nth)
    }
}

impl FromStr for PlantedDefect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not PROCESS.STEP@N");
        let (step, nth) = text.split_once('@').ok_or_else(wrong)?;
        let (process, step) = step.split_once('.').ok_or_else(wrong)?;
        let nth = nth.parse().ok().filter(|nth| *nth > 0).ok_or_else(wrong)?;
        Ok(Self { process: process.to_owned(), step: step.to_owned(), nth })
    }
}

/// Skips the step that the defect names.
pub(super) struct DefectPlanter {
    plant: PlantedDefect,
    seen: AtomicU64,
}

impl DefectPlanter {
    pub(super) fn new(plant: PlantedDefect) -> Self {
        Self { plant, seen: AtomicU64::new(0) }
    }
}

impl Interference for DefectPlanter {
    fn judge(&self, process: &'static str, step: &'static str, way: StepDirection) -> InterferenceVerdict {
        let here = (process, step, way) == (self.plant.process.as_str(), self.plant.step.as_str(), StepDirection::Run);
        match here && self.seen.fetch_add(1, Ordering::SeqCst) + 1 == self.plant.nth {
            true => InterferenceVerdict::Skip,
            false => InterferenceVerdict::Pass,
        }
    }
}
