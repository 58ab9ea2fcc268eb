//! Mediated devices: `[devices]`, and a group `[mdev_TYPE]` for each type.

use std::collections::BTreeMap;

use chronova_actors::mdev::{EnabledMdevType, VGPU};
use chronova_events::pci::PciAddress;

use super::super::option::OptionDef;

section! {
    /// Nova's `[devices]`.
    Devices = "devices" from Nova {
        enabled_mdev_types: Vec<String> => here {
            deprecated: &[("devices", "enabled_vgpu_types")],
            help: "Types of mediated devices that guests get, for example virtual GPUs of type nvidia-35. A group \
                   [mdev_TYPE] has the options of a type: device_addresses (a comma-separated list of the PCI addresses \
                   of the physical devices; all hosts have the same list), mdev_class (VGPU or a custom resource \
                   class) and max_instances (the most devices on each physical device). If a type has no \
                   device_addresses, only the first type is used, on all devices that offer it.",
        }
    }
}

/// The groups `[mdev_TYPE]`, by type. As in Nova, the option `enabled_mdev_types` says which groups exist, so they are
/// in no table of options.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MdevGroups(BTreeMap<String, EnabledMdevType>);

impl MdevGroups {
    pub const OPTIONS: &'static [OptionDef] = &[];

    /// The type whose options a section has. `[vgpu_TYPE]` is the old name of `[mdev_TYPE]`.
    pub(in crate::config) fn type_of(section: &str) -> Option<&str> {
        ["mdev_", "vgpu_"].iter().find_map(|prefix| {
            let (first, rest) = section.split_at_checked(prefix.len())?;
            first.eq_ignore_ascii_case(prefix).then_some(rest).filter(|rest| !rest.is_empty())
        })
    }

    /// Sets an option of a type.
    pub(in crate::config) fn set(&mut self, name: &str, key: &str, value: &str) -> Result<(), WrongGroupOption> {
        let wrong = WrongGroupOption::Value;
        let group = self.0.entry(name.to_owned()).or_insert_with(|| without_group(name));
        let value = value.trim();
        match key.replace('-', "_").as_str() {
            "device_addresses" => {
                let addresses = value.split([',', '\n']).map(str::trim).filter(|text| !text.is_empty());
                let read = |text: &str| text.parse::<PciAddress>().map_err(|error| wrong(error.to_string()));
                group.addresses = addresses.map(read).collect::<Result<_, _>>()?;
            }
            "mdev_class" if is_class(value) => value.clone_into(&mut group.class),
            "mdev_class" => return Err(wrong(format!("`{value}` is neither VGPU nor a custom resource class"))),
            "max_instances" => {
                let most = value.parse::<u32>().ok().filter(|most| *most > 0);
                group.most = Some(most.ok_or_else(|| wrong(format!("`{value}` is not a number above 0")))?);
            }
            _ => return Err(WrongGroupOption::Name),
        }
        Ok(())
    }

    /// The options of a type.
    pub fn of(&self, name: &str) -> EnabledMdevType {
        self.0.get(name).cloned().unwrap_or_else(|| without_group(name))
    }

    /// The types that have a group.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The groups are set after the options of the tables.
    pub(in crate::config) fn read<V>(_: &mut V) -> Option<Self> {
        Some(Self::default())
    }

    #[allow(clippy::unused_self, reason = "the groups are in no table of options")]
    pub(in crate::config) fn show<S>(&self, _: &mut S) {}

    #[allow(clippy::unused_self, reason = "`derived.rs` reads the groups")]
    pub(in crate::config) fn hand_over<T>(&self, _: &mut T) {}
}

/// Why an assignment in a group has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::config) enum WrongGroupOption {
    /// No option has the name.
    Name,
    Value(String),
}

fn without_group(name: &str) -> EnabledMdevType {
    EnabledMdevType { name: name.to_owned(), addresses: Vec::new(), class: VGPU.to_owned(), most: None }
}

/// Nova's pattern of `mdev_class`.
fn is_class(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text == VGPU || text.strip_prefix("CUSTOM_").is_some_and(|rest| !rest.is_empty() && rest.chars().all(plain))
}
