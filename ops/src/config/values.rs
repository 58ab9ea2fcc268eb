//! Parses the values of the files into typed values.
//!
//! Every problem is collected, because an operator wants the whole list, not only the first one.

use std::collections::BTreeMap;

use super::ini::{ConfigLine, IniAssignment};
use super::option::{Default, OptionDef, OptionValue};
use super::options;
use super::substitute::substitute;
use super::{Problem, Severity};

/// The depth at which the substitution of references ends, because references may form a circle (`$a` = `$b`, `$b` =
/// `$a`).
const MAX_REFERENCE_DEPTH: usize = 16;

/// The values of the table's dynamic defaults on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineDefaults {
    pub host_name: String,
    pub host_address: String,
}

impl MachineDefaults {
    /// Reads the values of this machine. The address is the one that the kernel would use on the default route; finding
    /// it sends no packet. Without a route, it is 127.0.0.1.
    pub fn here() -> Self {
        let host_name = std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map(|name| name.trim().to_owned())
            .ok()
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "localhost".to_owned());
        let host_address = std::net::UdpSocket::bind("0.0.0.0:0")
            // TEST-NET-1 (RFC 5737): any address outside the local networks would do.
            .and_then(|socket| socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr()))
            .map_or_else(|_| "127.0.0.1".to_owned(), |address| address.ip().to_string());
        Self { host_name, host_address }
    }
}

/// The assignments of all files, grouped by option, oldest first.
type Assigned = BTreeMap<(&'static str, &'static str), Vec<IniAssignment>>;

pub(in crate::config) struct Values<'a> {
    machine: &'a MachineDefaults,
    assigned: Assigned,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Values<'a> {
    pub(super) fn new(machine: &'a MachineDefaults, problems: &'a mut Vec<Problem>) -> Self {
        Self { machine, assigned: Assigned::new(), problems }
    }

    /// Adds an assignment to the option it belongs to; later ones win.
    pub(super) fn assign(&mut self, def: &'static OptionDef, entry: IniAssignment) {
        self.assigned.entry((def.section, def.name)).or_default().push(entry);
    }

    /// The typed value of an option. If it is invalid or missing, notes a problem and returns `None`.
    pub(in crate::config) fn take<T: OptionValue>(&mut self, def: &'static OptionDef) -> Option<T> {
        let place = self.place(def);
        let parsed = match self.raw(def, 0) {
            Err(reason) => Err(reason),
            Ok(raw) if raw.is_empty() => T::unset().ok_or_else(|| "must be set".to_owned()),
            Ok(raw) => T::parse(&raw, def),
        };
        parsed.map_err(|reason| self.bad(def, place, &reason)).ok()
    }

    /// The line that set the option last; `None` if it has its default.
    pub(super) fn place(&self, def: &OptionDef) -> Option<ConfigLine> {
        self.occurrences(def).last().map(|entry| entry.place.clone())
    }

    fn bad(&mut self, def: &OptionDef, place: Option<ConfigLine>, reason: &str) {
        let reason = if def.secret { "the value is not valid (and not shown: it is a secret)" } else { reason };
        self.problems.push(Problem { severity: Severity::Error, place, message: format!("{}: {reason}", def.title()) });
    }

    fn occurrences(&self, def: &OptionDef) -> &[IniAssignment] {
        self.assigned.get(&(def.section, def.name)).map_or(&[], Vec::as_slice)
    }

    /// The texts of an option after substitution: its assignments, or else its default. Empty if the option is unset.
    fn raw(&self, def: &OptionDef, depth: usize) -> Result<Vec<String>, String> {
        if depth > MAX_REFERENCE_DEPTH {
            return Err("its `$` references form a loop".to_owned());
        }
        let texts = match self.occurrences(def) {
            [] => self.default(def).into_iter().collect(),
            found => found.iter().map(|entry| entry.value.clone()).collect::<Vec<_>>(),
        };
        texts.iter().map(|text| self.expand(text, def.section, depth)).collect()
    }

    fn expand(&self, text: &str, section: &str, depth: usize) -> Result<String, String> {
        substitute(text, section, &mut |section, name| match options::find(section, name) {
            None => Ok(None),
            Some(def) => Ok(Some(self.raw(def, depth + 1)?.pop().unwrap_or_default())),
        })
    }

    fn default(&self, def: &OptionDef) -> Option<String> {
        match def.default {
            Default::Owner => def.owner_default(),
            Default::Text(text) => Some(text.to_owned()),
            Default::HostName => Some(self.machine.host_name.clone()),
            Default::HostAddress => Some(self.machine.host_address.clone()),
        }
    }
}
