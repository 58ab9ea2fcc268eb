//! Validates a flavor's extra specs (from 2.86). A name in a known namespace must be a known name. The value of a known
//! name must have its type and range. Names of unknown namespaces are the operator's own, and [`custom`] may describe
//! them.
//!
//! [`table`] lists the known names; resource classes and traits come from Placement's standard names. Source of the
//! messages: nova `api/validation/extra_specs`.

mod custom;
mod table;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use chronova_events::ledger::standard::{is_standard_class, is_standard_trait};
use fancy_regex::Regex;

use crate::fault::Fault;
pub use custom::CustomExtraSpecs;
use table::TABLE;

/// A known extra spec.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExtraSpec {
    name: ExtraSpecName,
    value: ExtraSpecType,
}

#[derive(Debug, Clone, Copy)]
enum ExtraSpecName {
    Is(&'static str),
    /// The name, then any number of `:word`.
    Filtered(&'static str),
    /// The name, then a number.
    Numbered(&'static str),
    /// The name, then any text.
    Followed(&'static str),
}

#[derive(Debug, Clone, Copy)]
enum ExtraSpecType {
    Text,
    Boolean,
    Integer {
        min: Option<i64>,
        max: Option<i64>,
    },
    OneOf(&'static [&'static str]),
    /// The whole value must match this pattern.
    Pattern(&'static str),
}

const fn spec(name: ExtraSpecName, value: ExtraSpecType) -> ExtraSpec {
    ExtraSpec { name, value }
}

const RESOURCE: ExtraSpecType = ExtraSpecType::Integer { min: None, max: None };
const TRAIT: ExtraSpecType = ExtraSpecType::OneOf(&["required", "forbidden"]);

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl ExtraSpecName {
    fn stem(self) -> &'static str {
        match self {
            Self::Is(stem) | Self::Filtered(stem) | Self::Numbered(stem) | Self::Followed(stem) => stem,
        }
    }

    fn covers(self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(self.stem()) else { return false };
        match self {
            Self::Is(_) => rest.is_empty(),
            Self::Numbered(_) => !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()),
            Self::Followed(_) => !rest.is_empty(),
            Self::Filtered(_) => {
                let mut words = rest.split(':');
                words.next() == Some("") && words.all(|word| !word.is_empty() && word.chars().all(is_word))
            }
        }
    }
}

/// Whether a namespace is that of a request group, for example `trait`, `trait1` or `trait_NET`.
fn is_group(namespace: &str, kind: &str) -> bool {
    let suffix = namespace.strip_prefix(kind);
    suffix.is_some_and(|suffix| {
        suffix.len() <= 64 && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    })
}

/// Whether the table has a name of this namespace.
fn is_in_table(namespace: &str) -> bool {
    TABLE.iter().filter_map(|spec| spec.name.stem().split_once(':')).any(|(known, _)| known == namespace)
}

fn is_custom(name: &str) -> bool {
    name.strip_prefix("CUSTOM_").is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    })
}

/// The type of the values of this name. `None`: the name has no known namespace, so it is the operator's own.
///
/// # Errors
/// The namespace is known, and the name is not.
fn value_of(name: &str) -> Result<Option<ExtraSpecType>, Fault> {
    if let Some(known) = TABLE.iter().find(|spec| spec.name.covers(name)) {
        return Ok(Some(known.value));
    }
    let Some((namespace, rest)) = name.split_once(':') else { return Ok(None) };
    if is_group(namespace, "resources") && (is_standard_class(rest) || is_custom(rest)) {
        return Ok(Some(RESOURCE));
    }
    if is_group(namespace, "trait") && (is_standard_trait(rest) || is_custom(rest)) {
        return Ok(Some(TRAIT));
    }
    match is_in_table(namespace) || is_group(namespace, "resources") || is_group(namespace, "trait") {
        true => Err(unknown(name)),
        false => Ok(None),
    }
}

/// Refuses an extra spec that Nova refuses, with Nova's message.
pub(super) fn check(custom: &CustomExtraSpecs, name: &str, value: &str) -> Result<(), Fault> {
    if custom.check(name, value)? {
        return Ok(());
    }
    match value_of(name)? {
        None | Some(ExtraSpecType::Text) => Ok(()),
        Some(ExtraSpecType::Boolean) => boolean(value),
        Some(ExtraSpecType::OneOf(words)) => one_of(value, words),
        Some(ExtraSpecType::Pattern(pattern)) => formatted(value, pattern, matches(pattern, value)),
        Some(ExtraSpecType::Integer { min, max }) => number(value, min, max),
    }
}

fn refused(value: &str, what: &str) -> Result<(), Fault> {
    Err(Fault::bad_request(format!("Validation failed; '{value}' {what}")))
}

fn boolean(value: &str) -> Result<(), Fault> {
    if is_boolean(value) { Ok(()) } else { refused(value, "is not a valid boolean-like value.") }
}

fn one_of(value: &str, words: &[impl AsRef<str>]) -> Result<(), Fault> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.contains(&value) {
        true => Ok(()),
        false => refused(value, &format!("is not one of: {}.", words.join(", "))),
    }
}

fn formatted(value: &str, pattern: &str, matches: bool) -> Result<(), Fault> {
    if matches { Ok(()) } else { refused(value, &format!("is not of the format '{pattern}'.")) }
}

fn number(value: &str, min: Option<i64>, max: Option<i64>) -> Result<(), Fault> {
    let Some(number) = integer(value) else { return refused(value, "is not a valid integer value.") };
    let number_text = number.to_string();
    match (min, max) {
        (_, Some(max)) if max < number => refused(&number_text, &format!("is greater than the max value of '{max}'.")),
        (Some(min), _) if min > number => refused(&number_text, &format!("is less than the min value of '{min}'.")),
        _ => Ok(()),
    }
}

fn unknown(name: &str) -> Fault {
    Fault::bad_request(format!("Validation failed; extra spec '{name}' does not appear to be a valid extra spec."))
}

/// A number as Python's `int()` reads it. A number beyond 64 bits becomes the nearest number that fits.
fn integer(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let plain: String = digits.split('_').collect();
    let well_formed = digits.split('_').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    if !well_formed {
        return None;
    }
    let bound = if negative { i64::MIN } else { i64::MAX };
    let number = plain.parse::<i64>().unwrap_or(i64::MAX);
    Some(if number == i64::MAX {
        bound
    } else if negative {
        -number
    } else {
        number
    })
}

/// oslo's `bool_from_string(strict=True)`.
fn is_boolean(text: &str) -> bool {
    const WORDS: [&str; 12] = ["1", "t", "true", "on", "y", "yes", "0", "f", "false", "off", "n", "no"];
    WORDS.contains(&text.trim().to_lowercase().as_str())
}

/// Whether the whole value matches a pattern of the table. If the match would take too long, the answer is `false`.
fn matches(pattern: &'static str, value: &str) -> bool {
    static COMPILED: LazyLock<BTreeMap<&'static str, Regex>> = LazyLock::new(|| {
        let patterns = TABLE.iter().filter_map(|spec| match spec.value {
            ExtraSpecType::Pattern(pattern) => Some(pattern),
            _ => None,
        });
        patterns.filter_map(|pattern| Some((pattern, Regex::new(&format!("^(?:{pattern})$")).ok()?))).collect()
    });
    COMPILED.get(pattern).is_some_and(|regex| regex.is_match(value).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn words(name: &str, value: &str) -> String {
        check(&CustomExtraSpecs::default(), name, value).err().map(|fault| fault.message).unwrap_or_default()
    }

    #[test]
    fn known_names_take_known_values() {
        for (name, value) in [
            ("hw:cpu_policy", "dedicated"),
            ("hw:numa_mem.3", "512"),
            ("hw:boot_menu", "Yes"),
            ("hw:mem_page_size", "2MB"),
            ("resources:VCPU", "4"),
            ("resources_NET-1:CUSTOM_FPGA", "0"),
            ("trait1:HW_CPU_X86_AVX2", "required"),
            ("capabilities:cpu_info:arch", "<in> x86"),
            ("aggregate_instance_extra_specs:ssd", "true"),
            ("pci_passthrough:alias", "gpu:1,nic:2"),
            ("quota:cpu_quota", "-1"),
            ("mine:anything", "goes"),
            ("unspaced", "goes"),
        ] {
            assert_eq!(words(name, value), "", "{name}={value}");
        }
        // Only VMware's driver reads these, but every flavor may have them.
        for what in ["cpu", "disk_io", "memory", "vif"] {
            for (end, value) in
                [("shares_level", "custom"), ("shares_share", "10"), ("limit", "9"), ("reservation", "8")]
            {
                assert_eq!(words(&format!("quota:{what}_{end}"), value), "", "{what}_{end}={value}");
            }
            for level in ["high", "normal", "low"] {
                assert_eq!(words(&format!("quota:{what}_shares_level"), level), "", "{what}: {level}");
            }
            assert_ne!(words(&format!("quota:{what}_shares_level"), "loud"), "", "{what}");
        }
    }

    #[test]
    fn unknown_extra_specs_get_novas_messages() {
        for (name, value, expected) in [
            ("hw:cpu_policy", "shares", "Validation failed; 'shares' is not one of: dedicated, shared, mixed."),
            (
                "hw:cpu_polic",
                "x",
                "Validation failed; extra spec 'hw:cpu_polic' does not appear to be a valid extra spec.",
            ),
            ("hw:numa_nodes", "foo", "Validation failed; 'foo' is not a valid integer value."),
            ("hw:numa_nodes", "0", "Validation failed; '0' is less than the min value of '1'."),
            ("hw:redirected_usb_ports", "16", "Validation failed; '16' is greater than the max value of '15'."),
            ("hw:pmu", "maybe", "Validation failed; 'maybe' is not a valid boolean-like value."),
            ("trait:HW_CPU_X86_AVX2", "wanted", "Validation failed; 'wanted' is not one of: required, forbidden."),
            (
                "resources:NOTHING",
                "1",
                "Validation failed; extra spec 'resources:NOTHING' does not appear to be a valid extra spec.",
            ),
            (
                "pci_passthrough:alias",
                "gpu",
                r"Validation failed; 'gpu' is not of the format '[^:]+:\d+(?:\s*,\s*[^:]+:\d+)*'.",
            ),
        ] {
            assert_eq!(words(name, value), expected, "{name}={value}");
        }
    }

    /// A pattern with nested repetition must not block a worker.
    #[test]
    fn a_pattern_with_nested_repetition_does_not_block() {
        let long = format!("{}!", "1-2,".repeat(200));
        assert!(!words("hw:cpu_realtime_mask", &long).is_empty());
    }
}
