//! The settings of a run.

use std::path::PathBuf;

use super::planted_defect::PlantedDefect;

/// The settings of a run; the same settings give the same run.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) seed: u64,
    pub(super) operations: u32,
    pub(super) hosts: u32,
    pub(super) shared_storage: bool,
    pub(super) plant: Option<PlantedDefect>,
    pub(super) log_file: Option<PathBuf>,
    pub(super) trace: bool,
}

impl Settings {
    /// The command that repeats the run.
    pub(super) fn command(&self) -> String {
        let plant = self.plant.as_ref().map(|plant| format!(" --plant {plant}")).unwrap_or_default();
        let shared = if self.shared_storage { " --shared-storage" } else { "" };
        let Self { seed, operations, hosts, .. } = self;
        format!("chronova-dev chaos --seed {seed} --operations {operations} --hosts {hosts}{shared}{plant}")
    }
}
