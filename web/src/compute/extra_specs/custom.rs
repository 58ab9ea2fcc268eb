//! Extra specs of the operator's own, which the operator's filters read. In Nova such validators are Python classes of
//! the group `nova.api.extra_spec_validators`; here a file describes them with the same words.
//!
//! As in Nova, a described name makes its namespace known: another name of this namespace is refused.

use std::collections::BTreeSet;

use regex::Regex;
use serde::Deserialize;

use super::table::TABLE;
use super::{boolean, formatted, is_group, is_in_table, number, one_of};
use crate::fault::Fault;

/// The most described extra specs.
const MOST: usize = 1_000;

/// The described extra specs.
#[derive(Debug, Clone, Default)]
pub struct CustomExtraSpecs {
    specs: Vec<CustomExtraSpec>,
}

#[derive(Debug, Clone)]
struct CustomExtraSpec {
    name: String,
    value: CustomValue,
}

#[derive(Debug, Clone)]
enum CustomValue {
    Text,
    Boolean,
    Integer { min: Option<i64>, max: Option<i64> },
    OneOf(Vec<String>),
    Pattern { text: String, regex: Regex },
}

/// An entry of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomSpecEntry {
    name: String,
    /// For people who read the file.
    #[serde(default, rename = "description")]
    _description: Option<String>,
    value: CustomValueEntry,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomValueEntry {
    r#type: CustomValueType,
    #[serde(default, rename = "description")]
    _description: Option<String>,
    min: Option<i64>,
    max: Option<i64>,
    r#enum: Option<Vec<String>>,
    pattern: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CustomValueType {
    String,
    Integer,
    Boolean,
}

impl CustomExtraSpecs {
    /// Reads the text of a file: a list of names and their values, as JSON.
    ///
    /// # Errors
    /// The text is not such a list. The message names the entry.
    pub fn read(text: &str) -> Result<Self, String> {
        let entries: Vec<CustomSpecEntry> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if entries.len() > MOST {
            return Err(format!("it has {} extra specs, and {MOST} are allowed", entries.len()));
        }
        let mut names = BTreeSet::new();
        let mut specs = Vec::with_capacity(entries.len());
        for CustomSpecEntry { name, value, .. } in entries {
            let wrong = |why: &str| Err(format!("{name:?} {why}"));
            if name.trim().is_empty() || name.len() > 255 {
                return wrong("is not a name of 1 to 255 characters");
            }
            let namespace = name.split_once(':').map(|(namespace, _)| namespace).unwrap_or_default();
            let grouped = ["resources", "trait"].iter().any(|kind| is_group(namespace, kind));
            if grouped || TABLE.iter().any(|known| known.name.covers(&name)) {
                return wrong("is an extra spec of Nova: choose a namespace of your own");
            }
            if !names.insert(name.clone()) {
                return wrong("is there twice");
            }
            let value = value.checked().map_err(|why| format!("{name:?}: {why}"))?;
            specs.push(CustomExtraSpec { name, value });
        }
        Ok(Self { specs })
    }

    /// Checks the value of a described name. Returns whether the name is described.
    ///
    /// # Errors
    /// The value does not fit, or the name is missing in a namespace that has described names.
    pub(super) fn check(&self, name: &str, value: &str) -> Result<bool, Fault> {
        if let Some(found) = self.specs.iter().find(|spec| spec.name == name) {
            return found.value.check(value).map(|()| true);
        }
        let Some((namespace, _)) = name.split_once(':') else { return Ok(false) };
        let described = |spec: &CustomExtraSpec| spec.name.split_once(':').is_some_and(|(own, _)| own == namespace);
        // A namespace may also be Nova's. Then the table decides about the other names.
        match !is_in_table(namespace) && self.specs.iter().any(described) {
            true => Err(super::unknown(name)),
            false => Ok(false),
        }
    }
}

impl CustomValueEntry {
    fn checked(self) -> Result<CustomValue, String> {
        let Self { r#type, min, max, r#enum, pattern, .. } = self;
        let bounds = min.is_some() || max.is_some();
        match (r#type, r#enum, pattern) {
            (CustomValueType::Integer, None, None) if min.zip(max).is_some_and(|(min, max)| min > max) => {
                Err("min is greater than max".to_owned())
            }
            (CustomValueType::Integer, None, None) => Ok(CustomValue::Integer { min, max }),
            _ if bounds => Err("only an integer has min and max".to_owned()),
            (CustomValueType::Boolean, None, None) => Ok(CustomValue::Boolean),
            (CustomValueType::String, None, None) => Ok(CustomValue::Text),
            (CustomValueType::String, Some(words), None) if words.is_empty() => Err("enum is empty".to_owned()),
            (CustomValueType::String, Some(words), None) => Ok(CustomValue::OneOf(words)),
            (CustomValueType::String, None, Some(text)) => {
                let regex = Regex::new(&format!("^(?:{text})$")).map_err(|error| format!("pattern: {error}"))?;
                Ok(CustomValue::Pattern { text, regex })
            }
            (CustomValueType::String, Some(_), Some(_)) => Err("it has both enum and pattern".to_owned()),
            _ => Err("only a string has enum or pattern".to_owned()),
        }
    }
}

impl CustomValue {
    fn check(&self, value: &str) -> Result<(), Fault> {
        match self {
            Self::Text => Ok(()),
            Self::Boolean => boolean(value),
            Self::Integer { min, max } => number(value, *min, *max),
            Self::OneOf(words) => one_of(value, words),
            Self::Pattern { text, regex } => formatted(value, text, regex.is_match(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const FILE: &str = r#"[
        {"name": "acme:rack", "description": "the number of a rack", "value": {"type": "integer", "min": 1, "max": 40}},
        {"name": "acme:tier", "value": {"type": "string", "enum": ["gold", "silver"]}},
        {"name": "acme:serial", "value": {"type": "string", "pattern": "[A-Z]{2}\\d+"}},
        {"name": "acme:quiet", "value": {"type": "boolean", "description": "no fans"}},
        {"name": "acme:note", "value": {"type": "string"}}
    ]"#;

    fn words(name: &str, value: &str) -> String {
        let specs = CustomExtraSpecs::read(FILE).unwrap();
        super::super::check(&specs, name, value).err().map(|fault| fault.message).unwrap_or_default()
    }

    #[test]
    fn described_extra_specs_take_values_of_their_type() {
        for (name, value) in [
            ("acme:rack", "40"),
            ("acme:tier", "gold"),
            ("acme:serial", "AB12"),
            ("acme:quiet", "yes"),
            ("acme:note", ""),
            ("other:anything", "goes"),
            ("hw:cpu_policy", "dedicated"),
        ] {
            assert_eq!(words(name, value), "", "{name}={value}");
        }
        for (name, value, expected) in [
            ("acme:rack", "41", "Validation failed; '41' is greater than the max value of '40'."),
            ("acme:rack", "0", "Validation failed; '0' is less than the min value of '1'."),
            ("acme:rack", "front", "Validation failed; 'front' is not a valid integer value."),
            ("acme:tier", "lead", "Validation failed; 'lead' is not one of: gold, silver."),
            ("acme:serial", "AB12x", r"Validation failed; 'AB12x' is not of the format '[A-Z]{2}\d+'."),
            ("acme:quiet", "loud", "Validation failed; 'loud' is not a valid boolean-like value."),
            ("acme:rakc", "1", "Validation failed; extra spec 'acme:rakc' does not appear to be a valid extra spec."),
        ] {
            assert_eq!(words(name, value), expected, "{name}={value}");
        }
    }

    #[test]
    fn a_file_that_describes_nonsense_is_refused_with_the_entry() {
        for (text, part) in [
            ("{}", "expected a sequence"),
            (r#"[{"name": "", "value": {"type": "string"}}]"#, "is not a name"),
            (r#"[{"name": "hw:cpu_policy", "value": {"type": "string"}}]"#, "is an extra spec of Nova"),
            (r#"[{"name": "trait1:CUSTOM_GOLD", "value": {"type": "string"}}]"#, "is an extra spec of Nova"),
            (r#"[{"name": "a:b", "value": {"type": "float"}}]"#, "unknown variant"),
            (r#"[{"name": "a:b", "value": {"type": "string", "min": 1}}]"#, "only an integer has min and max"),
            (r#"[{"name": "a:b", "value": {"type": "integer", "min": 2, "max": 1}}]"#, "min is greater than max"),
            (r#"[{"name": "a:b", "value": {"type": "string", "pattern": "("}}]"#, "pattern"),
            (r#"[{"name": "a:b", "value": {"type": "boolean", "enum": ["x"]}}]"#, "only a string"),
            (r#"[{"name": "a:b", "colour": 1, "value": {"type": "string"}}]"#, "unknown field"),
            (
                r#"[{"name": "a:b", "value": {"type": "string"}}, {"name": "a:b", "value": {"type": "string"}}]"#,
                "is there twice",
            ),
        ] {
            let error = CustomExtraSpecs::read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
