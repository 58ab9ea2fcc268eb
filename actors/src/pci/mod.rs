//! PCI devices: which devices each host offers to its guests, and which of these devices one guest gets.
//!
//! | file | computes | Nova's module (`nova.pci`) |
//! |---|---|---|
//! | [`device_spec`] | the devices that the operator's `[pci] device_spec` names | `devspec` |
//! | [`host`] | the devices that a host offers | `whitelist`, `manager`; `nova.compute.pci_placement_translator` |
//! | [`alias`] | the request of a flavor, by `[pci] alias` | `request` |
//! | [`ports`] | the request of a port, and the device that the port got | `nova.network.neutron` |
//! | [`assign`] | the devices that a guest gets on a host | `stats` |
//!
//! All functions are pure. The scheduler proposes from a view that may lag. The placement ledger's `decide` assigns
//! again and has the last word: it gives no device to two guests.

pub mod alias;
pub mod assign;
pub mod cards;
pub mod device_spec;
pub mod host;
pub mod ports;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chronova_events::ledger::standard;
use serde_json::Value;

/// A JSON object of an option.
type JsonObject = serde_json::Map<String, Value>;

/// Reads one value of a repeatable JSON option: an object, or a list of objects where `lists` allows it.
fn objects(text: &str, lists: bool) -> Result<Vec<JsonObject>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("{text:?} is not JSON: {error}"))?;
    match value {
        Value::Object(one) => Ok(vec![one]),
        Value::Array(all) if lists => all
            .into_iter()
            .map(|one| match one {
                Value::Object(one) => Ok(one),
                other => Err(format!("{other} is not a JSON object")),
            })
            .collect(),
        other => Err(format!("{other} is not a JSON object")),
    }
}

/// Takes a text out of the object.
fn take_text(object: &mut JsonObject, key: &str) -> Result<Option<String>, String> {
    match object.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("{key} {other} is not a text in quotes")),
    }
}

/// Takes a yes or no out of the object, as oslo's `bool_from_string` reads it.
fn take_flag(object: &mut JsonObject, key: &str) -> Result<Option<bool>, String> {
    match object.remove(key) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(flag)),
        Some(Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "1" | "t" | "true" | "on" | "y" | "yes" => Ok(Some(true)),
            "0" | "f" | "false" | "off" | "n" | "no" => Ok(Some(false)),
            _ => Err(format!("{key} {text:?} is neither true nor false")),
        },
        Some(other) => Err(format!("{key} {other} is neither true nor false")),
    }
}

/// Takes the id of a vendor or a product out of the object; `None` without one or with `*`.
fn take_id(object: &mut JsonObject, key: &str) -> Result<Option<String>, String> {
    let Some(text) = take_text(object, key)? else { return Ok(None) };
    let id = text.trim();
    match id.len() == 4 && id.chars().all(|c| c.is_ascii_hexdigit()) {
        true => Ok(Some(id.to_ascii_lowercase())),
        false if id == "*" => Ok(None),
        false => Err(format!("{key} {text:?} is not four hexadecimal digits")),
    }
}

/// Refuses keys that nothing has taken.
fn nothing_left(object: &JsonObject, known: &str) -> Result<(), String> {
    match object.keys().next() {
        None => Ok(()),
        Some(key) => Err(format!("{key:?} is not known; known are {known}")),
    }
}

/// The name as Placement takes it, in upper case. A name that is no standard name gets the prefix `CUSTOM_`. In it, `_`
/// replaces each character that is neither a letter nor a digit.
fn normalized(name: &str, is_standard: fn(&str) -> bool) -> Result<String, String> {
    let upper = name.trim().to_ascii_uppercase();
    if is_standard(&upper) {
        return Ok(upper);
    }
    let plain: String =
        upper.chars().map(|c| if c.is_ascii_uppercase() || c.is_ascii_digit() { c } else { '_' }).collect();
    let custom = if plain.starts_with("CUSTOM_") { plain } else { format!("CUSTOM_{plain}") };
    match custom.len() {
        8..=255 => Ok(custom),
        _ => Err(format!("{name:?} is no name of a resource class or a trait")),
    }
}

fn resource_class(name: &str) -> Result<String, String> {
    normalized(name, standard::is_standard_class)
}

/// The resource class of a product for which the operator names no class.
fn class_of_product(vendor: &str, product: &str) -> String {
    format!("CUSTOM_PCI_{vendor}_{product}").to_ascii_uppercase()
}

/// Reads a comma-separated list of traits, sorted.
fn traits(names: Option<String>) -> Result<Vec<String>, String> {
    let names = names.unwrap_or_default();
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    let mut all: Vec<String> =
        names.map(|name| normalized(name, standard::is_standard_trait)).collect::<Result<_, _>>()?;
    all.sort();
    all.dedup();
    Ok(all)
}

/// The devices of every host. Nova has a configuration file per host; here, one file serves all hosts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostPciOptions {
    /// `[pci] device_spec`: the devices of hosts that `named` does not have.
    pub others: Vec<device_spec::DeviceSpec>,
    /// `[chronova] host_pci_device_spec`, by host name.
    pub named: BTreeMap<String, Vec<device_spec::DeviceSpec>>,
    /// `[pci] report_in_placement`.
    pub reports: bool,
}

impl HostPciOptions {
    pub fn of(&self, hostname: &str) -> &[device_spec::DeviceSpec] {
        self.named.get(hostname).unwrap_or(&self.others)
    }

    /// Reads `[chronova] host_pci_device_spec`: the name of a host, a blank, and a device spec.
    ///
    /// # Errors
    /// The value that cannot be read.
    pub fn read_named(texts: &[String]) -> Result<BTreeMap<String, Vec<device_spec::DeviceSpec>>, String> {
        let mut named: BTreeMap<String, Vec<device_spec::DeviceSpec>> = BTreeMap::new();
        for text in texts {
            let (host, spec) = text.trim().split_once(char::is_whitespace).unwrap_or((text, "[]"));
            if host.starts_with(['{', '[']) {
                return Err(format!("{text:?} does not begin with the name of a host"));
            }
            named.entry(host.to_owned()).or_default().extend(device_spec::DeviceSpec::read_all(&[spec.to_owned()])?);
        }
        Ok(named)
    }
}
