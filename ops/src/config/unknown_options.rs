//! Assignments to options that Chronova does not have.
//!
//! `nova_options.txt` lists the options of Nova and of its libraries that have no meaning here, as `section.option`;
//! `section.*` means a whole section (clients of other services, drivers of other hypervisors, message queues). A file
//! that sets them is a normal `nova.conf`.

use super::ini::IniAssignment;
use super::options::SECTIONS;
use super::suggest::nearest;
use super::{Problem, Severity};

static NAMES: &str = include_str!("nova_options.txt");

/// Sections that have no effect although an operator may rely on them. Setting them causes a warning.
const WORTH_A_WARNING: [(&str, &str); 4] = [
    ("database", "the event log under [chronova] data_dir takes the place of Nova's databases"),
    ("api_database", "the event log under [chronova] data_dir takes the place of Nova's databases"),
    ("key_manager", "no key manager is used: features that need stored secrets are not available"),
    ("barbican", "no key manager is used: features that need stored secrets are not available"),
];

/// The remark about an assignment to an option that Chronova does not have.
pub(super) fn remark(entry: &IniAssignment) -> Problem {
    let title = format!("[{}] {}", entry.section, entry.key);
    let (section, name) = (entry.section.to_ascii_lowercase(), entry.key.replace('-', "_"));
    let (severity, message) = match worth_a_warning(&section) {
        Some(reason) => (Severity::Warning, format!("{title} is an option of Nova and has no effect: {reason}")),
        None if is_known(&section, &name) => {
            (Severity::Note, format!("{title} is an option of Nova and has no effect in Chronova"))
        }
        None => (Severity::Warning, format!("{title} is not a known option{}", suggestion(entry))),
    };
    Problem { severity, place: Some(entry.place.clone()), message }
}

/// The reason for a warning about an option without effect; `None` if a note is enough.
fn worth_a_warning(section: &str) -> Option<&'static str> {
    WORTH_A_WARNING.iter().find(|(worth, _)| *worth == section).map(|(_, reason)| *reason)
}

fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMES.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('.'))
}

fn is_known(section: &str, name: &str) -> bool {
    names().any(|(s, n)| s.eq_ignore_ascii_case(section) && (n == "*" || n == name))
}

/// Suggests the nearest name in the same section, else a section that has this name, else the nearest section.
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
}
