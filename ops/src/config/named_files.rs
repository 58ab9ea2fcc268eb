//! The policy file and the policy directories that the configuration names: resolves their paths and checks that they
//! exist.
//!
//! As with oslo.config, a relative path starts at the folder of the first configuration file. A missing file is an
//! error: if it were ignored, users could call operations that its rules forbid. A missing directory is only a warning,
//! because operators often create it later.

use std::path::{Path, PathBuf};

use super::options::{self, Config};
use super::values::Values;
use super::{Problem, Severity};

const SECTION: &str = "oslo_policy";

/// Resolves the paths in `config`, and reports files and directories that do not exist.
pub(super) fn settle(config: &mut Config, first: Option<&Path>, values: &Values<'_>) -> Vec<Problem> {
    let folder = first.and_then(Path::parent).unwrap_or(Path::new(""));
    let policy = &mut config.oslo_policy;
    policy.policy_file = folder.join(&policy.policy_file);
    for directory in &mut policy.policy_dirs.0 {
        *directory = folder.join(&*directory).to_string_lossy().into_owned();
    }
    let file =
        (!policy.policy_file.is_file()).then(|| (Severity::Error, "policy_file", "file", policy.policy_file.clone()));
    let absent = policy.policy_dirs.0.iter().map(PathBuf::from).filter(|directory| !directory.is_dir());
    let directories = absent.map(|directory| (Severity::Warning, "policy_dirs", "directory", directory));
    file.into_iter()
        .chain(directories)
        .filter_map(|(severity, name, kind, path)| {
            let place = values.place(options::find(SECTION, name)?)?;
            let message = format!("[{SECTION}] {name}: there is no {kind} {}", path.display());
            Some(Problem { severity, place: Some(place), message })
        })
        .collect()
}
