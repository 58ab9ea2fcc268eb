//! The NUMA affinity of networks: `[neutron_tunnel]`, and a section `[neutron_physnet_NAME]` for each physical network.

use std::collections::{BTreeMap, BTreeSet};

use super::super::option::OptionDef;
use super::devices::WrongGroupOption;

section! {
    /// Nova's `[neutron_tunnel]`.
    NeutronTunnel = "neutron_tunnel" from Nova {
        numa_nodes: Vec<String> => here {
            help: "NUMA cells of hosts that are near the cards of tunnelled networks (vxlan, gre, geneve). A guest with \
                   NUMA nodes that is on such a network gets a node on one of these cells. Applies to every host that \
                   has such a cell.",
        }
    }
}

/// The sections `[neutron_physnet_NAME]`, by the name of the network. As in Nova, `[neutron] physnets` says which sections
/// exist, so they are in no table of options.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PhysnetGroups(BTreeMap<String, BTreeSet<u32>>);

impl PhysnetGroups {
    pub const OPTIONS: &'static [OptionDef] = &[];

    /// The physical network whose options a section has.
    pub(in crate::config) fn name_of(section: &str) -> Option<&str> {
        const PREFIX: &str = "neutron_physnet_";
        let (first, rest) = section.split_at_checked(PREFIX.len())?;
        first.eq_ignore_ascii_case(PREFIX).then_some(rest).filter(|rest| !rest.is_empty())
    }

    /// Sets an option of a physical network.
    pub(in crate::config) fn set(&mut self, name: &str, key: &str, value: &str) -> Result<(), WrongGroupOption> {
        if key.replace('-', "_") != "numa_nodes" {
            return Err(WrongGroupOption::Name);
        }
        let cells = cells(value.split([',', '\n'])).map_err(WrongGroupOption::Value)?;
        self.0.insert(name.to_owned(), cells);
        Ok(())
    }

    /// The cells near a physical network; none if it has no section.
    pub fn of(&self, name: &str) -> BTreeSet<u32> {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// The physical networks that have a section.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The sections are set after the options of the tables.
    pub(in crate::config) fn read<V>(_: &mut V) -> Option<Self> {
        Some(Self::default())
    }

    #[allow(clippy::unused_self, reason = "the sections are in no table of options")]
    pub(in crate::config) fn show<S>(&self, _: &mut S) {}

    #[allow(clippy::unused_self, reason = "`derived.rs` reads the sections")]
    pub(in crate::config) fn hand_over<T>(&self, _: &mut T) {}
}

/// Reads the numbers of NUMA cells.
///
/// # Errors
/// A word is not a number.
pub(in crate::config) fn cells<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<BTreeSet<u32>, String> {
    let words = words.into_iter().map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_err(|_| format!("`{word}` is not the number of a NUMA cell"))).collect()
}
