//! `limits`: copies the quota limits of the log to Keystone's unified limits, or to those of the embedded identity
//! service, as `nova-manage` copies those of Nova's database. Chronova itself goes on to enforce the limits of its log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use clap::Subcommand;
use serde_json::Value;

use super::cloud::{RunningCloud, plain};
use super::keystone::{self, UnifiedLimits};
use super::{Align, CommandFailure, ManageExit, PrettyTable};

/// The names of resources in Keystone, and Nova's legacy names. Quotas have no limit of their own for dedicated CPUs,
/// so `class:PCPU` gets the limit of `class:VCPU`.
const NAMES: [(&str, &str); 11] = [
    ("class:MEMORY_MB", "ram"),
    ("class:PCPU", "cores"),
    ("class:VCPU", "cores"),
    ("server_group_members", "server_group_members"),
    ("server_groups", "server_groups"),
    ("server_injected_file_content_bytes", "injected_file_content_bytes"),
    ("server_injected_file_path_bytes", "injected_file_path_bytes"),
    ("server_injected_files", "injected_files"),
    ("server_key_pairs", "key_pairs"),
    ("server_metadata_items", "metadata_items"),
    ("servers", "instances"),
];

const UNREADABLE: &str = "Failed to read the quota limits, so aborting this migration attempt.";
const MISSING: &str = "\nWARNING: It is strongly recommended to create registered limits for resource\n\
                       classes missing limits in Keystone before proceeding.";
const COMPLETE: &str = "SUCCESS: All resource classes have registered limits set.";

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub enum LimitsCommand {
    /// Copy the default limits, and those of a project, to the Keystone of [keystone_authtoken], or to the embedded
    /// identity service.
    MigrateToUnifiedLimits {
        /// The project whose limits are copied, too.
        #[arg(long = "project-id", value_name = "ID")]
        project_id: Option<String>,
        /// The region of the limits in Keystone.
        #[arg(long = "region-id", value_name = "ID")]
        region_id: Option<String>,
        #[arg(long)]
        verbose: bool,
        /// Create nothing. Flavors are scanned nevertheless.
        #[arg(long = "dry-run")]
        dry_run: bool,
        /// Write nothing but failures.
        #[arg(long)]
        quiet: bool,
        /// Do not scan the flavors that only servers still have.
        #[arg(long = "no-embedded-flavor-scan")]
        no_embedded_flavor_scan: bool,
    },
}

/// How much the sub-command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitsOutput {
    Quiet,
    Warnings,
    Verbose,
}

/// The limits to copy, by their legacy names, and the classes that flavors request.
#[derive(Debug, Default)]
struct QuotaLimits {
    defaults: BTreeMap<String, i64>,
    of_project: BTreeMap<String, i64>,
    classes: BTreeSet<String>,
}

impl QuotaLimits {
    fn of(answer: &Value) -> Self {
        let limits = |key: &str| {
            let pairs = answer[key].as_object().into_iter().flatten();
            pairs.filter_map(|(name, limit)| Some((name.clone(), limit.as_i64()?))).collect()
        };
        let classes = answer["resource_classes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let classes = classes.map(str::to_owned).collect();
        Self { defaults: limits("defaults"), of_project: limits("project"), classes }
    }
}

/// Limits by their legacy names, with the names that they have in Keystone.
fn unified(limits: &BTreeMap<String, i64>) -> Vec<(&'static str, i64)> {
    NAMES.iter().filter_map(|(name, legacy)| Some((*name, *limits.get(*legacy)?))).collect()
}

pub(super) fn run(
    command: &LimitsCommand,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let LimitsCommand::MigrateToUnifiedLimits {
        project_id,
        region_id,
        verbose,
        dry_run,
        quiet,
        no_embedded_flavor_scan,
    } = command;
    let output = match (*verbose, *quiet) {
        (true, true) => {
            writeln!(out, "--verbose and --quiet are mutually exclusive")?;
            return Ok(1);
        }
        (true, false) => LimitsOutput::Verbose,
        (false, true) => LimitsOutput::Quiet,
        (false, false) => LimitsOutput::Warnings,
    };
    let project = project_id.as_deref();
    // Nova's code for a database that does not answer.
    let limits = match read(cloud, project, !no_embedded_flavor_scan) {
        Ok(limits) => limits,
        Err(failure) => {
            writeln!(out, "{UNREADABLE} {failure}")?;
            return Ok(2);
        }
    };
    let keystone = keystone::open(cloud, region_id.as_deref())?;
    let keystone = keystone.as_ref();
    LimitsMigration { limits: &limits, keystone, project, creates: !dry_run, output }.perform(out)
}

fn read(cloud: &RunningCloud<'_>, project: Option<&str>, of_servers: bool) -> Result<QuotaLimits, CommandFailure> {
    let project = project.map_or_else(String::new, |project| format!("&project_id={}", plain(project)));
    let answer = cloud.get(&format!("/chronova/v1/limits?servers={of_servers}{project}"))?;
    Ok(QuotaLimits::of(&answer["limits"]))
}

struct LimitsMigration<'a> {
    limits: &'a QuotaLimits,
    keystone: &'a dyn UnifiedLimits,
    project: Option<&'a str>,
    creates: bool,
    output: LimitsOutput,
}

impl LimitsMigration<'_> {
    fn perform(&self, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
        let registered = self.keystone.registered(false)?;
        let mut code = 0;
        for (name, limit) in unified(&self.limits.defaults) {
            code = code.max(self.copy(out, "default limit", (name, limit), registered.get(name), || {
                self.keystone.register(name, limit)
            })?);
        }
        if let Some(project) = self.project {
            let known = self.keystone.of_project(project)?;
            for (name, limit) in unified(&self.limits.of_project) {
                code = code.max(self.copy(out, "project limit", (name, limit), known.get(name), || {
                    self.keystone.set(project, name, limit)
                })?);
            }
        }
        if code == 0 { self.scan(out) } else { Ok(code) }
    }

    /// Copies one limit, unless Keystone has it. Returns the exit code. The other limits are copied in any case.
    fn copy(
        &self,
        out: &mut dyn Write,
        what: &str,
        (name, limit): (&str, i64),
        known: Option<&i64>,
        create: impl FnOnce() -> Result<(), CommandFailure>,
    ) -> Result<ManageExit, CommandFailure> {
        let said = match known {
            Some(known) => format!("A {what}: {name} = {known} already exists in Keystone, skipping ..."),
            None => format!("Creating {what}: {name} = {limit}"),
        };
        if self.output == LimitsOutput::Verbose {
            writeln!(out, "{said}")?;
        }
        if known.is_some() || !self.creates {
            return Ok(0);
        }
        match create() {
            Ok(()) => Ok(0),
            Err(failure) => {
                writeln!(out, "Failed to create {what}: {failure}")?;
                Ok(1)
            }
        }
    }

    /// Looks for classes that flavors request and that have no registered limit. Keystone's enforcement counts such a
    /// class with a limit of 0.
    fn scan(&self, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
        let registered = self.keystone.registered(true)?;
        let mut classes = self.limits.classes.clone();
        // Legacy quotas do not count disks, so their limit is never among the copied ones.
        classes.insert("DISK_GB".to_owned());
        let names = classes.into_iter().map(|class| format!("class:{class}"));
        let found: Vec<(String, Option<i64>)> =
            names.map(|name| (name.clone(), registered.get(&name).copied())).collect();
        let lacks = found.iter().any(|(_, limit)| limit.is_none());
        if self.output != LimitsOutput::Quiet {
            self.write_table(out, &found)?;
            writeln!(out, "{}", if lacks { MISSING } else { COMPLETE })?;
        }
        Ok(if lacks { 3 } else { 0 })
    }

    fn write_table(&self, out: &mut dyn Write, found: &[(String, Option<i64>)]) -> Result<(), CommandFailure> {
        let shown: Vec<_> =
            found.iter().filter(|(_, limit)| limit.is_none() || self.output == LimitsOutput::Verbose).collect();
        if shown.is_empty() {
            return Ok(());
        }
        let mut table = PrettyTable::new(Align::Left, &["Resource", "Registered Limit"]);
        for (name, limit) in shown {
            table.row(vec![name.clone(), limit.map_or_else(|| "missing".to_owned(), |limit| limit.to_string())]);
        }
        writeln!(out, "The following resource classes were found during the scan:\n")?;
        write!(out, "{}", table.render())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::RefCell;

    use super::*;
    use crate::commands::credentials::usage;

    /// A Keystone with these limits. It refuses the resource `refused`.
    #[derive(Default)]
    struct KnownLimits {
        registered: RefCell<BTreeMap<String, i64>>,
        of_projects: RefCell<BTreeMap<(String, String), i64>>,
        refused: &'static str,
    }

    impl UnifiedLimits for KnownLimits {
        fn registered(&self, _: bool) -> Result<BTreeMap<String, i64>, CommandFailure> {
            Ok(self.registered.borrow().clone())
        }

        fn of_project(&self, project: &str) -> Result<BTreeMap<String, i64>, CommandFailure> {
            let all = self.of_projects.borrow();
            let own = all.iter().filter(|((of, _), _)| of == project);
            Ok(own.map(|((_, name), limit)| (name.clone(), *limit)).collect())
        }

        fn register(&self, resource: &str, limit: i64) -> Result<(), CommandFailure> {
            if resource == self.refused {
                return Err(usage("no"));
            }
            self.registered.borrow_mut().insert(resource.to_owned(), limit);
            Ok(())
        }

        fn set(&self, project: &str, resource: &str, limit: i64) -> Result<(), CommandFailure> {
            self.of_projects.borrow_mut().insert((project.to_owned(), resource.to_owned()), limit);
            Ok(())
        }
    }

    fn limits() -> QuotaLimits {
        QuotaLimits::of(&serde_json::json!({
            "defaults": {"instances": 10, "cores": 20, "ram": 51_200, "key_pairs": 100},
            "project": {"cores": 40},
            "resource_classes": ["VCPU", "MEMORY_MB"],
        }))
    }

    fn performed(keystone: &KnownLimits, creates: bool, output: LimitsOutput) -> (ManageExit, String) {
        let (limits, mut out) = (limits(), Vec::new());
        let migration = LimitsMigration { limits: &limits, keystone, project: Some("p"), creates, output };
        let code = migration.perform(&mut out).unwrap();
        (code, String::from_utf8(out).unwrap())
    }

    #[test]
    fn limits_are_copied_once_under_their_new_names() {
        let keystone = KnownLimits::default();
        keystone.registered.borrow_mut().insert("servers".to_owned(), 7);
        let (code, text) = performed(&keystone, true, LimitsOutput::Warnings);
        assert_eq!(code, 3, "disks have no registered limit");
        assert!(text.contains("| class:DISK_GB | missing ") && !text.contains("class:VCPU"), "{text}");
        let copied: Vec<_> = keystone.registered.borrow().clone().into_iter().collect();
        let expected = [
            ("class:MEMORY_MB", 51_200),
            ("class:PCPU", 20),
            ("class:VCPU", 20),
            ("server_key_pairs", 100),
            ("servers", 7),
        ];
        assert_eq!(copied, expected.map(|(name, limit)| (name.to_owned(), limit)), "a known limit stays");
        let own: Vec<_> = keystone.of_projects.borrow().clone().into_iter().collect();
        let pair = |name: &str| (("p".to_owned(), name.to_owned()), 40);
        assert_eq!(own, [pair("class:PCPU"), pair("class:VCPU")]);

        keystone.registered.borrow_mut().insert("class:DISK_GB".to_owned(), 100);
        let (code, text) = performed(&keystone, true, LimitsOutput::Verbose);
        assert_eq!(code, 0, "{text}");
        for line in ["A default limit: servers = 7 already exists", "| class:DISK_GB   | 100", COMPLETE] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn a_dry_run_creates_nothing_and_scans() {
        let keystone = KnownLimits::default();
        let (code, text) = performed(&keystone, false, LimitsOutput::Warnings);
        assert_eq!(code, 3, "{text}");
        for class in ["class:DISK_GB", "class:MEMORY_MB", "class:VCPU"] {
            assert!(text.contains(class), "{class}: {text}");
        }
        assert!(keystone.registered.borrow().is_empty() && keystone.of_projects.borrow().is_empty());
        assert_eq!(performed(&keystone, false, LimitsOutput::Quiet), (3, String::new()));
    }

    #[test]
    fn a_refused_limit_does_not_keep_back_the_others() {
        let keystone = KnownLimits { refused: "class:VCPU", ..KnownLimits::default() };
        let (code, text) = performed(&keystone, true, LimitsOutput::Quiet);
        assert_eq!((code, text.as_str()), (1, "Failed to create default limit: no\n"));
        assert_eq!(keystone.registered.borrow().len(), 4);
        assert_eq!(keystone.of_projects.borrow().len(), 2);
    }
}
