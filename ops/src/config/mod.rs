//! Configuration in the format of `nova.conf`.
//!
//! [`load`] reads one or more files in oslo's INI dialect (later files win), and checks every line against the table of
//! options ([`options`]). [`load`] returns either a typed [`Config`] with remarks, or every problem with file and line.
//! `Config::targets` gives the values to the fields that the declarations name ([`targets`]). An option that is not in
//! the table is not an error, because one `nova.conf` is often shared with other services. An option that Nova has and
//! Chronova does not need causes a note, or a warning if an operator may rely on its value. An unknown option causes a
//! warning with the nearest known name.
//!
//! Invariants: a `Config` exists only if every value was valid; a secret's value is never part of a message.

pub mod account;
mod agreement;
mod conversions;
mod derived;
pub mod event_store;
mod extra_spec_file;
mod fleets;
pub mod ini;
mod insecure;
mod named_files;
pub mod option;
pub mod options;
mod provider_files;
pub mod reference;
pub(crate) mod substitute;
mod suggest;
pub mod targets;
mod unknown_options;
mod values;

use std::fmt;
use std::path::{Path, PathBuf};

pub use ini::ConfigLine;
pub use option::{Default, Multi, OptionDef, OptionOrigin, OptionType, OptionValue, Words};
pub use options::Config;
use options::devices::{MdevGroups, WrongGroupOption};
use options::physnets::PhysnetGroups;
use thiserror::Error;
pub use values::MachineDefaults;

/// How much a problem matters, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A fact that needs no action, such as an option of Nova's that has no meaning here.
    Note,
    /// Probably a mistake; start-up continues.
    Warning,
    /// Start-up stops.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A remark about a file, a line or an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// The line of the problem; `None` if there is no line, for example for a required option that no file sets.
    pub place: Option<ConfigLine>,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}: {}", self.severity, self.message),
            None => write!(f, "{}: {}", self.severity, self.message),
        }
    }
}

/// The configuration and the remarks about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub config: Config,
    /// Warnings and notes, in the order of the files.
    pub remarks: Vec<Problem>,
}

/// The files cannot be used; `problems` holds everything found, warnings and notes too.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("the configuration has {}", count(.problems, Severity::Error, "error"))]
pub struct InvalidConfig {
    pub problems: Vec<Problem>,
}

/// Reads the files in order. Without files, every option has its default.
pub fn load(files: &[PathBuf]) -> Result<Loaded, InvalidConfig> {
    load_with(files, "")
}

/// Like [`load`]. `said` has the options of the command line in the form of a file, which wins over all files.
pub fn load_with(files: &[PathBuf], said: &str) -> Result<Loaded, InvalidConfig> {
    load_from(&MachineDefaults::here(), files, said)
}

/// Like [`load`], with the defaults of a given machine.
pub fn load_on(machine: &MachineDefaults, files: &[PathBuf]) -> Result<Loaded, InvalidConfig> {
    load_from(machine, files, "")
}

/// The files of a `--config-dir`: those that end in `.conf`, in the order of their names.
///
/// # Errors
/// The directory cannot be read.
pub fn files_of(folder: &Path) -> Result<Vec<PathBuf>, InvalidConfig> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "conf") && path.is_file() {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    };
    read().map_err(|error| {
        let place = Some(ConfigLine { file: folder.to_owned(), line: 0 });
        let message = format!("cannot be read: {error}");
        InvalidConfig { problems: vec![Problem { severity: Severity::Error, place, message }] }
    })
}

/// Messages about options of the command line show this text instead of the name of a file.
const COMMAND_LINE: &str = "command line";

fn load_from(machine: &MachineDefaults, files: &[PathBuf], said: &str) -> Result<Loaded, InvalidConfig> {
    let mut problems = Vec::new();
    let texts: Vec<(&Path, String)> = files
        .iter()
        .filter_map(|file| read_file(file).map_err(|problem| problems.push(problem)).ok().map(|text| (&**file, text)))
        .collect();
    let mut texts: Vec<(&Path, &str)> = texts.iter().map(|(file, text)| (*file, text.as_str())).collect();
    if !said.is_empty() {
        texts.push((Path::new(COMMAND_LINE), said));
    }
    let config = judge(machine, &texts, &mut problems);
    let failed = problems.iter().any(|problem| problem.severity == Severity::Error);
    match config {
        Some(config) if !failed => Ok(Loaded { config, remarks: problems }),
        _ => Err(InvalidConfig { problems }),
    }
}

fn read_file(file: &Path) -> Result<String, Problem> {
    let bad = |message: String| Problem {
        severity: Severity::Error,
        place: Some(ConfigLine { file: file.to_owned(), line: 0 }),
        message,
    };
    let bytes = std::fs::read(file).map_err(|error| bad(format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|_| bad("is not UTF-8 text".to_owned()))
}

/// Checks the files' texts; `None` if a value is invalid.
fn judge(machine: &MachineDefaults, texts: &[(&Path, &str)], problems: &mut Vec<Problem>) -> Option<Config> {
    let mut remarks = Vec::new();
    let mut bad = Vec::new();
    let mut groups = NamedGroups::default();
    let mut values = values::Values::new(machine, &mut bad);
    for (file, text) in texts {
        let parsed = ini::parse(text, file);
        remarks.extend(parsed.bad.iter().map(|line| Problem {
            severity: Severity::Error,
            place: Some(line.place.clone()),
            message: line.reason.to_owned(),
        }));
        let is_grouped = |entry: &ini::IniAssignment| NamedGroups::has(&entry.section);
        let (grouped, plain): (Vec<_>, Vec<_>) = parsed.entries.into_iter().partition(is_grouped);
        remarks.extend(grouped.iter().filter_map(|entry| set_in_group(&mut groups, entry)));
        for (def, entry) in settle(plain, &mut remarks) {
            values.assign(def, entry);
        }
    }
    let mut config = Config::read(&mut values);
    if let Some(config) = &mut config {
        fleets::name(&mut config.chronova.hypervisors.0);
        (config.mdev_groups, config.physnet_groups) = (groups.mdevs, groups.physnets);
    }
    let first = texts.first().map(|(file, _)| *file);
    let mut absent = config.as_mut().map(|config| named_files::settle(config, first, &values)).unwrap_or_default();
    problems.append(&mut remarks);
    problems.append(&mut absent);
    problems.append(&mut bad);
    if let Some(config) = &config {
        problems.extend(agreement::clashes(config, texts));
    }
    // Problems without a file come first, then the problems of each file in the order of its lines.
    problems.sort_by_key(|problem| order(problem, texts));
    config
}

/// The groups whose names contain a value of another option.
#[derive(Default)]
struct NamedGroups {
    mdevs: MdevGroups,
    physnets: PhysnetGroups,
}

impl NamedGroups {
    fn has(section: &str) -> bool {
        MdevGroups::type_of(section).is_some() || PhysnetGroups::name_of(section).is_some()
    }

    fn set(&mut self, entry: &ini::IniAssignment) -> Result<(), WrongGroupOption> {
        let (section, key, value) = (&entry.section, &entry.key, &entry.value);
        match (MdevGroups::type_of(section), PhysnetGroups::name_of(section)) {
            (Some(name), _) => self.mdevs.set(name, key, value),
            (None, Some(name)) => self.physnets.set(name, key, value),
            (None, None) => Ok(()),
        }
    }
}

/// Sets an option of a group such as `[mdev_nvidia-35]`. Returns the problem if the option is wrong.
fn set_in_group(groups: &mut NamedGroups, entry: &ini::IniAssignment) -> Option<Problem> {
    let (severity, reason) = match groups.set(entry) {
        Ok(()) => return None,
        Err(WrongGroupOption::Name) => (Severity::Warning, "is not a known option of such a section".to_owned()),
        Err(WrongGroupOption::Value(reason)) => (Severity::Error, reason),
    };
    let message = format!("[{}] {}: {reason}", entry.section, entry.key);
    Some(Problem { severity, place: Some(entry.place.clone()), message })
}

fn order(problem: &Problem, texts: &[(&Path, &str)]) -> (Option<usize>, u32) {
    let place = problem.place.as_ref();
    let file = place.and_then(|place| texts.iter().position(|(file, _)| *file == place.file));
    (file, place.map_or(0, |place| place.line))
}

/// Finds the option of each entry, and makes remarks about unknown entries. As in oslo, a current name overrides a
/// deprecated name of the same file, whichever comes first.
fn settle(
    entries: Vec<ini::IniAssignment>,
    remarks: &mut Vec<Problem>,
) -> Vec<(&'static OptionDef, ini::IniAssignment)> {
    let mut old = Vec::new();
    let mut current = Vec::new();
    for entry in entries {
        if let Some(def) = options::find(&entry.section, &entry.key) {
            current.push((def, entry));
        } else if let Some(def) = options::find_deprecated(&entry.section, &entry.key) {
            old.push((def, entry));
        } else {
            remarks.push(unknown_options::remark(&entry));
        }
    }
    for (def, entry) in old {
        remarks.push(Problem {
            severity: Severity::Warning,
            place: Some(entry.place.clone()),
            message: format!("[{}] {} is the old name of {}", entry.section, entry.key, def.title()),
        });
        if !current.iter().any(|(other, _)| std::ptr::eq(*other, def)) {
            current.push((def, entry));
        }
    }
    current
}

/// The report that `chronova config check` prints, and whether the files can be used.
pub fn check(files: &[PathBuf]) -> (String, bool) {
    let (problems, usable) = match load(files) {
        Ok(loaded) => {
            let open = insecure::warnings(&loaded.config);
            ([loaded.remarks, open, no_hosts(&loaded.config)].concat(), true)
        }
        Err(invalid) => (invalid.problems, false),
    };
    let counts = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")]
        .map(|(severity, word)| count(&problems, severity, word))
        .join(", ");
    let verdict = format!("{}: {counts}", if usable { "usable" } else { "not usable" });
    let lines = problems.iter().map(Problem::to_string).chain([verdict]);
    (lines.map(|line| line + "\n").collect(), usable)
}

/// Warns if the configuration names no host. Such a control plane starts, but cannot build servers.
fn no_hosts(config: &Config) -> Vec<Problem> {
    if !config.chronova.hypervisors.0.is_empty() {
        return Vec::new();
    }
    let message = "[chronova] hypervisors names no host, so no server can be built: name hosts, as qemu:///system or \
                   qemu+ssh://root@host/system, or a simulated fleet, as sim://3";
    vec![Problem { severity: Severity::Warning, place: None, message: message.to_owned() }]
}

fn count(problems: &[Problem], severity: Severity, word: &str) -> String {
    let number = problems.iter().filter(|problem| problem.severity == severity).count();
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
