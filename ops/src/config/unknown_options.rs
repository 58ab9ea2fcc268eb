//! Assignments to options that Chronova does not have.
//!
//! `nova_options.txt` lists the options of Nova and of its libraries that have no meaning here, as `section.option`;
//! `section.*` means a whole section (clients of other services, drivers of other hypervisors, message queues). A
//! file that sets them is a normal `nova.conf`, so the remark is a note.
//!
//! In a line `section.option = VALUE: reason`, `VALUE` is Nova's default. Other values choose something that Chronova
//! does not do. If a file sets `VALUE`, the remark is a note. For any other value it is a warning. Both give the
//! reason. `unset` means no value, and `any` means that no value of the option makes a difference.

use super::ini::IniAssignment;
use super::options::SECTIONS;
use super::suggest::nearest;
use super::{Problem, Severity};

static LIST: &str = include_str!("nova_options.txt");

/// Sections that have no effect although an operator may rely on them. Setting them causes a warning.
const WORTH_A_WARNING: [(&str, &str); 2] = [
    ("database", "the event log under [chronova] data_dir takes the place of Nova's databases"),
    ("api_database", "the event log under [chronova] data_dir takes the place of Nova's databases"),
];

/// A line of the list.
struct ForeignOption {
    section: &'static str,
    /// `*` means every option of the section.
    name: &'static str,
    /// The harmless value and the reason why the option has no meaning here.
    reason: Option<(&'static str, &'static str)>,
}

impl ForeignOption {
    fn parse(line: &'static str) -> Option<Self> {
        let (title, reason) = match line.split_once(" = ") {
            Some((title, rest)) => (title, Some(rest.split_once(": ")?)),
            None => (line, None),
        };
        let (section, name) = title.split_once('.')?;
        Some(Self { section, name, reason })
    }

    fn is(&self, section: &str, name: &str) -> bool {
        self.section.eq_ignore_ascii_case(section) && (self.name == "*" || self.name == name)
    }

    /// The remark about an assignment of `value`.
    fn remark(&self, title: &str, value: &str) -> (Severity, String) {
        let message = format!("{title} is an option of Nova and has no effect in Chronova");
        match self.reason {
            None => (Severity::Note, message),
            Some((harmless, reason)) if is_harmless(value, harmless) => {
                (Severity::Note, format!("{message}: {reason}"))
            }
            Some((_, reason)) => (Severity::Warning, format!("{message}: {reason}")),
        }
    }
}

/// Whether the value of a file is the harmless one, with oslo's spellings of booleans, numbers and lists.
fn is_harmless(value: &str, harmless: &str) -> bool {
    let plain = value.to_ascii_lowercase().split(',').map(str::trim).collect::<Vec<_>>().join(",");
    match harmless {
        "any" => true,
        "unset" => plain.is_empty(),
        "true" => ["true", "1", "on", "yes"].contains(&plain.as_str()),
        "false" => ["false", "0", "off", "no"].contains(&plain.as_str()),
        _ => plain == harmless.to_ascii_lowercase() || number(&plain).is_some_and(|it| number(harmless) == Some(it)),
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// The remark about an assignment to an option that Chronova does not have.
pub(super) fn remark(entry: &IniAssignment) -> Problem {
    let title = format!("[{}] {}", entry.section, entry.key);
    let (section, name) = (entry.section.to_ascii_lowercase(), entry.key.replace('-', "_"));
    let (severity, message) = match (worth_a_warning(&section), foreign(&section, &name)) {
        (Some(reason), _) => (Severity::Warning, format!("{title} is an option of Nova and has no effect: {reason}")),
        (None, Some(option)) => option.remark(&title, &entry.value),
        (None, None) => (Severity::Warning, format!("{title} is not a known option{}", suggestion(entry))),
    };
    Problem { severity, place: Some(entry.place.clone()), message }
}

/// The reason for a warning about an option without effect; `None` if a note is enough.
fn worth_a_warning(section: &str) -> Option<&'static str> {
    WORTH_A_WARNING.iter().find(|(worth, _)| *worth == section).map(|(_, reason)| *reason)
}

fn all() -> impl Iterator<Item = ForeignOption> {
    LIST.lines().filter(|line| !line.starts_with('#')).filter_map(ForeignOption::parse)
}

fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    all().map(|option| (option.section, option.name))
}

fn foreign(section: &str, name: &str) -> Option<ForeignOption> {
    all().find(|option| option.is(section, name))
}

/// The options with a reason, as section, name and reason, for the reference page.
pub(super) fn reasons() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    all().filter_map(|option| option.reason.map(|(_, reason)| (option.section, option.name, reason)))
}

/// Suggests the nearest name in the same section, else another section with an option of this name, else the nearest
/// section.
fn suggestion(entry: &IniAssignment) -> String {
    let ours = || SECTIONS.iter().copied().flatten().map(|def| (def.section, def.name));
    let here = ours().chain(names()).filter(|(section, _)| section.eq_ignore_ascii_case(&entry.section));
    if let Some(name) = nearest(&entry.key, here.map(|(_, name)| name)) {
        return format!("; did you mean `{name}`?");
    }
    if let Some((section, name)) = ours().find(|(_, name)| *name == entry.key) {
        return format!("; did you mean [{section}] {name}?");
    }
    let exists = ours().chain(names()).any(|(section, _)| section.eq_ignore_ascii_case(&entry.section));
    match nearest(&entry.section, ours().map(|(section, _)| section)) {
        Some(section) if !exists => format!("; did you mean the section [{section}]?"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options;

    #[test]
    fn the_list_names_no_option_of_ours() {
        for (section, name) in names() {
            assert!(options::find(section, name).is_none(), "{section}.{name} is ours; take it off the list");
        }
    }

    #[test]
    fn the_list_is_sorted_and_without_repeats() {
        let all: Vec<_> = names().collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "sort nova_options.txt (LC_ALL=C sort -u)");
    }

    /// If the parser skipped a line of the list, the option in it would be reported as unknown.
    #[test]
    fn every_line_of_the_list_is_read() {
        let lines = LIST.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(all().count(), lines.count());
        for (section, name, reason) in reasons() {
            assert!(reason.len() > 15 && !reason.ends_with('.'), "{section}.{name}: {reason}");
        }
    }

    #[test]
    fn harmless_values_are_spelled_as_in_oslo() {
        for (value, harmless) in [
            ("False", "false"),
            ("0", "false"),
            ("on", "true"),
            ("", "unset"),
            ("whatever", "any"),
            ("streamOptimized, monolithicSparse", "streamOptimized,monolithicSparse"),
            ("1000000", "1000000.0"),
        ] {
            assert!(is_harmless(value, harmless), "{value} {harmless}");
        }
        for (value, harmless) in
            [("true", "false"), ("no", "true"), ("256", "unset"), ("", "_base"), ("-1", "1000000.0")]
        {
            assert!(!is_harmless(value, harmless), "{value} {harmless}");
        }
    }
}
