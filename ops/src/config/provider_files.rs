//! Reads the files of `[compute] provider_config_location`, which Nova documents as `provider.yaml`.
//!
//! The schema is Nova's. In a file of version 1.0 an unknown key is an error. A file of a later 1.N may have keys of
//! that version. They are passed over, and the log says so. Sizes and aliases are bounded, so that no file can fill the
//! memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use chronova_actors::provider_config::{ProviderConfigEntry, ProviderConfigs, ProviderIdentification};
use chronova_events::ids::ProviderId;
use chronova_events::ledger::Inventory;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest accepted file, in bytes.
const LONGEST: u64 = 1 << 20;
/// The most files, and the most entries of all files.
const MOST_FILES: usize = 1_000;
const MOST_ENTRIES: usize = 100_000;
/// The largest amount of an inventory in Placement.
const INT_MAX: u64 = 2_147_483_647;
/// The longest name of a provider in Placement.
const LONGEST_NAME: usize = 200;

/// The content of the files, and remarks about entries without an effect.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ProviderFiles {
    pub configs: ProviderConfigs,
    pub remarks: Vec<String>,
}

/// Reads all `*.yaml` files of the folder in the order of their names. A missing folder has no files.
///
/// # Errors
/// A file cannot be used. The message names the file, the entry and the remedy.
pub(super) fn read(folder: &Path) -> Result<ProviderFiles, String> {
    let mut all = ProviderFiles::default();
    for path in paths(folder)? {
        let told = |reason: String| format!("{}: {reason}", path.display());
        let text = text(&path).map_err(told)?;
        document(&text, &path, &mut all).map_err(told)?;
    }
    refuse_duplicates(&all.configs)?;
    Ok(all)
}

/// The default of `[compute] provider_config_location`.
const DEFAULT_FOLDER: &str = "/etc/nova/provider_config/";

fn paths(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error: std::io::Error| format!("{} cannot be read: {error}", folder.display());
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        // The folder of Nova's package may be closed to Chronova's user. The operator has not named this folder.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && folder == Path::new(DEFAULT_FOLDER) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(unreadable)?,
    };
    let paths: std::io::Result<Vec<PathBuf>> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(unreadable)?;
    // As with Nova's glob, hidden files are left out.
    let hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml") && !hidden(path));
    if paths.len() > MOST_FILES {
        return Err(format!("{} has more than {MOST_FILES} files: join some", folder.display()));
    }
    paths.sort();
    Ok(paths)
}

fn text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!("is longer than {LONGEST} bytes: split it"));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())
}

/// Parses YAML. Aliases may not multiply the content, and nothing may be nested deeper than the schema needs.
fn parse(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: 16, max_documents: 1, max_nodes: 200_000 },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 10_000 },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| format!("is not usable YAML: {error}"))
}

#[derive(Deserialize)]
struct ProviderDocument {
    meta: Map<String, Value>,
    #[serde(default)]
    providers: Vec<Value>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Reads one file, and adds its entries and remarks.
fn document(text: &str, path: &Path, all: &mut ProviderFiles) -> Result<(), String> {
    let found = parse(text)?;
    if found.is_null() {
        return Err("is empty: write meta and providers, or remove the file".to_owned());
    }
    let mut found: ProviderDocument = serde_json::from_value(found).map_err(|error| error.to_string())?;
    if found.others.remove("__source_file").is_some() {
        return Err("__source_file is reserved: take it out".to_owned());
    }
    let minor = version(&found.meta)?;
    let mut unknown = UnknownKeys { minor, skipped: BTreeSet::new() };
    unknown.see("the file", found.others.keys())?;
    unknown.see("meta", found.meta.keys().filter(|key| *key != "schema_version"))?;
    for (index, entry) in found.providers.into_iter().enumerate() {
        let place = format!("providers[{index}]");
        let source = format!("{} {place}", path.display());
        let read = provider(entry, &source, &mut unknown).map_err(|reason| format!("{place}: {reason}"))?;
        if read.inventories.is_empty() && read.traits.is_empty() {
            all.remarks
                .push(format!("{source} ({}) adds no inventories and no traits: it is ignored", read.identification));
            continue;
        }
        all.configs.entries.push(read);
        if all.configs.entries.len() > MOST_ENTRIES {
            return Err(format!("with it there are more than {MOST_ENTRIES} entries"));
        }
    }
    if !unknown.skipped.is_empty() {
        let keys: Vec<&str> = unknown.skipped.iter().map(String::as_str).collect();
        all.remarks.push(format!(
            "{} has schema version 1.{minor}, and Chronova knows 1.0: it passes over {}",
            path.display(),
            keys.join(", ")
        ));
    }
    Ok(())
}

/// The minor version of `meta.schema_version`.
fn version(meta: &Map<String, Value>) -> Result<u32, String> {
    let Some(found) = meta.get("schema_version") else {
        return Err("meta: schema_version is missing: write '1.0'".to_owned());
    };
    let Some(text) = found.as_str() else {
        return Err(format!("meta: schema_version is {found}, and must be a text: write '1.0' in quotation marks"));
    };
    let minor = text.strip_prefix("1.").filter(|minor| *minor == "0" || !minor.starts_with('0'));
    let digits = minor.filter(|minor| minor.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|minor| minor.parse().ok()).ok_or_else(|| {
        format!("meta: schema_version {text} is not supported: write '1.0', or another version that begins with 1.")
    })
}

/// Keys that the schema does not name.
struct UnknownKeys {
    minor: u32,
    skipped: BTreeSet<String>,
}

impl UnknownKeys {
    fn see<'a>(&mut self, place: &str, keys: impl Iterator<Item = &'a String>) -> Result<(), String> {
        for key in keys {
            if self.minor == 0 {
                return Err(format!("{place} has the key {key}, which schema version 1.0 does not have: take it out"));
            }
            self.skipped.insert(key.clone());
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct ProviderForm {
    identification: BTreeMap<String, Value>,
    #[serde(default)]
    inventories: AdditionalForm<Map<String, Value>>,
    #[serde(default)]
    traits: AdditionalForm<String>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct AdditionalForm<T> {
    #[serde(default = "Vec::new")]
    additional: Vec<T>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

impl<T> Default for AdditionalForm<T> {
    fn default() -> Self {
        Self { additional: Vec::new(), others: BTreeMap::new() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InventoryForm {
    total: u64,
    #[serde(default)]
    reserved: u64,
    #[serde(default = "one")]
    min_unit: u64,
    #[serde(default = "int_max")]
    max_unit: u64,
    #[serde(default = "one")]
    step_size: u64,
    #[serde(default = "ratio")]
    allocation_ratio: f64,
}

/// The defaults of Placement.
const fn one() -> u64 {
    1
}

const fn int_max() -> u64 {
    INT_MAX
}

const fn ratio() -> f64 {
    1.0
}

fn provider(entry: Value, source: &str, unknown: &mut UnknownKeys) -> Result<ProviderConfigEntry, String> {
    let found: ProviderForm = serde_json::from_value(entry).map_err(|error| error.to_string())?;
    unknown.see("the entry", found.others.keys())?;
    unknown.see("inventories", found.inventories.others.keys())?;
    unknown.see("traits", found.traits.others.keys())?;
    let mut inventories: BTreeMap<String, Inventory> = BTreeMap::new();
    for (class, form) in found.inventories.additional.into_iter().flatten() {
        let read = inventory(&class, form).map_err(|reason| format!("inventories: {class}: {reason}"))?;
        if inventories.insert(class.clone(), read).is_some() {
            return Err(format!("inventories: {class} is there twice: take one out"));
        }
    }
    let traits: BTreeSet<String> = found.traits.additional.into_iter().collect();
    if let Some(wrong) = traits.iter().find(|name| !is_custom(name)) {
        return Err(format!("traits: {wrong} is not a custom trait: {CUSTOM}"));
    }
    let identification = identification(&found.identification)?;
    let inventories = inventories.into_values().collect();
    Ok(ProviderConfigEntry { source: source.to_owned(), identification, inventories, traits })
}

const CUSTOM: &str = "a name consists of CUSTOM_ and of A to Z, 0 to 9 and _, 255 characters at most";

fn is_custom(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= 255 && name.len() > "CUSTOM_".len() && name.starts_with("CUSTOM_") && name.bytes().all(fits)
}

fn identification(found: &BTreeMap<String, Value>) -> Result<ProviderIdentification, String> {
    let wrong = |reason: &str| Err(format!("identification: {reason}"));
    let mut keys = found.iter();
    let (Some((key, value)), None) = (keys.next(), keys.next()) else {
        return wrong("needs exactly one of uuid and name");
    };
    let Some(text) = value.as_str() else { return wrong("uuid and name are texts: use quotation marks") };
    match key.as_str() {
        "uuid" if text == "$COMPUTE_NODE" => Ok(ProviderIdentification::ComputeNode),
        "uuid" => match uuid::Uuid::try_parse(text) {
            Ok(id) if text.len() == 36 => Ok(ProviderIdentification::Id(ProviderId(id))),
            _ => wrong(&format!("{text} is neither a UUID nor $COMPUTE_NODE")),
        },
        "name" if text.is_empty() || text.chars().count() > LONGEST_NAME => {
            wrong(&format!("name must have 1 to {LONGEST_NAME} characters"))
        }
        "name" => Ok(ProviderIdentification::Name(text.to_owned())),
        other => wrong(&format!("{other} is not supported: use uuid or name")),
    }
}

fn inventory(class: &str, form: Value) -> Result<Inventory, String> {
    if !is_custom(class) {
        return Err(format!("is not a custom resource class: {CUSTOM}"));
    }
    let InventoryForm { total, reserved, min_unit, max_unit, step_size, allocation_ratio } =
        serde_json::from_value(form).map_err(|error| error.to_string())?;
    let amounts = [("total", total), ("min_unit", min_unit), ("max_unit", max_unit), ("step_size", step_size)];
    if let Some((name, amount)) = amounts.into_iter().find(|(_, amount)| !(1..=INT_MAX).contains(amount)) {
        return Err(format!("{name} is {amount}, and must be between 1 and {INT_MAX}"));
    }
    if reserved > total {
        return Err(format!("reserved is {reserved}, and must not exceed total, which is {total}"));
    }
    if !(allocation_ratio > 0.0 && allocation_ratio <= f64::from(f32::MAX)) {
        return Err(format!("allocation_ratio is {allocation_ratio}, and must be above 0"));
    }
    Ok(Inventory { class: class.to_owned(), total, reserved, min_unit, max_unit, step_size, allocation_ratio })
}

/// No two entries may have the same name or the same UUID. Two entries may still mean one provider, one by its UUID and
/// one by its name. The report of a host finds that.
fn refuse_duplicates(configs: &ProviderConfigs) -> Result<(), String> {
    let mut seen: BTreeMap<&ProviderIdentification, &str> = BTreeMap::new();
    for entry in &configs.entries {
        if let Some(other) = seen.insert(&entry.identification, &entry.source) {
            let (name, source) = (&entry.identification, &entry.source);
            return Err(format!("{name} is named twice, in {other} and in {source}: take one of the entries out"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
