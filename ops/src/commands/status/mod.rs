//! `chronova status upgrade check`: whether the cloud is ready for this version. As `nova-status` does, the command
//! prints a table of checks. Its exit code is 0 (all pass), 1 (a warning), 2 (a check failed) or 255 (the command
//! failed).
//!
//! Run it with the new program while the old server still runs. It changes nothing.

mod checks;

use std::io::Write;

use clap::{Args, Parser, Subcommand};

use super::LogPlace;
use super::manage::{Align, ManageExit, NovaOptions, PrettyTable, RunningCloud};
use crate::config::Config;

/// Whether the cloud is ready for this version.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct StatusArgs {
    #[command(flatten)]
    pub options: NovaOptions,
    #[command(subcommand)]
    pub category: StatusCategory,
}

/// The command line of the program under the name `nova-status`.
#[derive(Debug, Parser)]
#[command(name = "nova-status", version)]
pub struct NovaStatus {
    #[command(flatten)]
    pub args: StatusArgs,
}

#[derive(Debug, Subcommand)]
pub enum StatusCategory {
    /// Upgrades.
    #[command(subcommand, arg_required_else_help = true)]
    Upgrade(UpgradeCommand),
}

#[derive(Debug, Subcommand)]
pub enum UpgradeCommand {
    /// Check whether the cloud is ready for this version.
    Check,
}

/// The result of a check, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Success = 0,
    Warning = 1,
    Failure = 2,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Warning => "Warning",
            Self::Failure => "Failure",
        }
    }
}

/// One line of the table.
#[derive(Debug)]
struct CheckResult {
    verdict: Verdict,
    details: Option<String>,
}

impl CheckResult {
    fn success() -> Self {
        Self { verdict: Verdict::Success, details: None }
    }

    fn new(verdict: Verdict, details: impl Into<String>) -> Self {
        Self { verdict, details: Some(details.into()) }
    }
}

/// The longest line of the details, as in oslo.
const WIDTH: usize = 60;

/// Runs all checks and prints the table.
pub async fn run(
    args: &StatusArgs,
    config: &Config,
    place: &LogPlace,
    out: &mut dyn Write,
) -> std::io::Result<ManageExit> {
    let StatusCategory::Upgrade(UpgradeCommand::Check) = args.category;
    let cloud = RunningCloud::new(config, args.options.access());
    let mut table = PrettyTable::new(Align::Left, &["Upgrade Check Results"]).with_rules();
    let mut worst = Verdict::Success;
    for (name, result) in checks::all(config, place, &cloud).await {
        let details = result.details.as_deref().map_or_else(|| "None".to_owned(), wrapped);
        table.row(vec![format!("Check: {name}\nResult: {}\nDetails: {details}", result.verdict.word())]);
        worst = worst.max(result.verdict);
    }
    write!(out, "{}", table.render())?;
    Ok(worst as ManageExit)
}

/// Breaks a text into lines; each but the first is indented.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        let indent = if lines.is_empty() { 0 } else { 2 };
        if !line.is_empty() && indent + line.len() + 1 + word.len() > WIDTH {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_broken_into_lines_of_sixty_signs() {
        let text =
            "There is no policy file of the old form, and everything else that is checked here is in order, too.";
        let broken = wrapped(text);
        assert!(broken.lines().all(|line| line.len() <= WIDTH), "{broken}");
        assert_eq!(broken.lines().skip(1).filter(|line| !line.starts_with("  ")).count(), 0);
        assert_eq!(broken.split_whitespace().collect::<Vec<_>>().join(" "), text);
    }
}
