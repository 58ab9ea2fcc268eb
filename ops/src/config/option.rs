//! The definition of an option, and how its text becomes a value.
//!
//! An [`OptionDef`] is data: the reference page, `chronova config check` and the parser of values read it.
//! [`OptionValue`] is the one place where text is turned into a typed value, and back, with oslo.config's rules.

use std::path::PathBuf;

use chronova_actors::guest_name::{InvalidTemplate, NameTemplate};
use chronova_events::place::PlaceAddress;

use super::targets::{OptionUse, owners};

/// The project that an option comes from. The option has the same name and meaning there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionOrigin {
    /// Nova has this option.
    Nova,
    /// One of the oslo libraries, which OpenStack services share, has this option.
    Oslo,
    /// Keystone has this option. The embedded identity service uses it.
    Keystone,
    /// Glance has this option. The embedded image service uses it.
    Glance,
    /// Neutron has this option. The embedded network service uses it.
    Neutron,
    /// Cinder has this option. The embedded volume service uses it.
    Cinder,
    /// Only Chronova has this option.
    Chronova,
}

impl OptionOrigin {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nova => "Nova",
            Self::Oslo => "oslo",
            Self::Keystone => "Keystone",
            Self::Cinder => "Cinder",
            Self::Glance => "Glance",
            Self::Neutron => "Neutron",
            Self::Chronova => "Chronova",
        }
    }
}

/// The default of an option, as text for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// The default of the field that takes the value; without such a field, the option is unset.
    Owner,
    /// A text, where no field can hold the default (see [`targets`](super::targets)).
    Text(&'static str),
    /// The machine's host name.
    HostName,
    /// The machine's address on its default route.
    HostAddress,
}

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionType {
    Boolean,
    Integer,
    Float,
    Text,
    Path,
    /// Comma-separated.
    List,
    /// Separated by blanks; may be repeated.
    Words,
    /// One value a line; the option is repeated.
    Multi,
}

impl OptionType {
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Float => "number",
            Self::Text => "text",
            Self::Path => "path",
            Self::List => "comma-separated list",
            Self::Words => "blank-separated list",
            Self::Multi => "repeatable text",
        }
    }
}

/// One option. `deprecated` lists older spellings as (section, name).
#[derive(Debug, Clone, Copy)]
pub struct OptionDef {
    pub section: &'static str,
    pub name: &'static str,
    pub kind: OptionType,
    pub default: Default,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub choices: &'static [&'static str],
    pub unit: &'static str,
    pub help: &'static str,
    pub secret: bool,
    pub deprecated: &'static [(&'static str, &'static str)],
    pub origin: OptionOrigin,
    /// The uses of the value, at least one.
    pub uses: &'static [OptionUse],
}

impl OptionDef {
    /// An option without a default, help or bounds. The section macro fills these in.
    pub const fn new(section: &'static str, name: &'static str, kind: OptionType, origin: OptionOrigin) -> Self {
        Self {
            section,
            name,
            kind,
            default: Default::Owner,
            min: None,
            max: None,
            choices: &[],
            unit: "",
            help: "",
            secret: false,
            deprecated: &[],
            origin,
            uses: &[],
        }
    }

    /// The default of the first field that takes the value, as text for a file.
    pub fn owner_default(&self) -> Option<String> {
        match self.uses.first()? {
            OptionUse::Field(text) => text(owners()),
            OptionUse::Here => None,
        }
    }

    /// `[section] name`, the form that messages use.
    pub fn title(&self) -> String {
        format!("[{}] {}", self.section, self.name)
    }

    /// The bounds or the choices as text; empty if there are none.
    pub fn limits(&self) -> String {
        let bounds = match (self.min, self.max) {
            (Some(min), Some(max)) => format!("{min} to {max}"),
            (Some(min), None) => format!("at least {min}"),
            (None, Some(max)) => format!("at most {max}"),
            (None, None) => String::new(),
        };
        if self.choices.is_empty() { bounds } else { format!("one of {}", self.choices.join(", ")) }
    }

    fn check_bounds(&self, value: f64) -> Result<(), String> {
        let low = self.min.is_some_and(|min| value < min);
        let high = self.max.is_some_and(|max| value > max);
        if low || high { Err(format!("{value} is out of bounds ({})", self.limits())) } else { Ok(()) }
    }

    fn check_choice(&self, value: &str) -> Result<(), String> {
        if self.choices.is_empty() || self.choices.contains(&value) {
            return Ok(());
        }
        Err(format!("`{value}` is not {}", self.limits()))
    }
}

/// A type that an option can have.
pub trait OptionValue: Sized {
    const KIND: OptionType;

    /// `raw` holds every occurrence in order and is never empty; options with one value use the last.
    fn parse(raw: &[String], def: &OptionDef) -> Result<Self, String>;

    /// The value of an option that is not set and has no default; `None` if the option is required.
    fn unset() -> Option<Self> {
        None
    }

    /// The text from which [`parse`](Self::parse) makes this value; `None` for the value of an unset option.
    fn text(&self) -> Option<String>;
}

fn last(raw: &[String]) -> &str {
    raw.last().map_or("", |text| text.trim())
}

impl OptionValue for bool {
    const KIND: OptionType = OptionType::Boolean;

    fn parse(raw: &[String], _: &OptionDef) -> Result<Self, String> {
        match last(raw).to_ascii_lowercase().as_str() {
            "true" | "1" | "on" | "yes" => Ok(true),
            "false" | "0" | "off" | "no" => Ok(false),
            other => Err(format!("`{other}` is not a boolean (true, 1, on, yes or false, 0, off, no)")),
        }
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

macro_rules! integers {
    ($($t:ty),+) => {$(
        impl OptionValue for $t {
            const KIND: OptionType = OptionType::Integer;

            fn parse(raw: &[String], def: &OptionDef) -> Result<Self, String> {
                let text = last(raw);
                let value: i64 = text.parse().map_err(|_| format!("`{text}` is not a 64-bit whole number"))?;
                #[expect(clippy::cast_precision_loss, reason = "bounds are far below 2^53")]
                def.check_bounds(value as f64)?;
                <$t>::try_from(value).map_err(|_| format!("{value} is too large or below zero"))
            }

            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+};
}
integers!(i64, i32, u64, u32, u16, usize);

impl OptionValue for f64 {
    const KIND: OptionType = OptionType::Float;

    fn parse(raw: &[String], def: &OptionDef) -> Result<Self, String> {
        let text = last(raw);
        let value: Self = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
        if !value.is_finite() {
            return Err(format!("`{text}` is not a finite number"));
        }
        def.check_bounds(value)?;
        Ok(value)
    }

    /// The text has a decimal point, so that a reader sees that fractions are allowed.
    fn text(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }
}

impl OptionValue for String {
    const KIND: OptionType = OptionType::Text;

    fn parse(raw: &[String], def: &OptionDef) -> Result<Self, String> {
        def.check_choice(last(raw))?;
        Ok(last(raw).to_owned())
    }

    fn text(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl OptionValue for NameTemplate {
    const KIND: OptionType = OptionType::Text;

    fn parse(raw: &[String], _: &OptionDef) -> Result<Self, String> {
        last(raw).parse().map_err(|error: InvalidTemplate| error.to_string())
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl OptionValue for PathBuf {
    const KIND: OptionType = OptionType::Path;

    fn parse(raw: &[String], _: &OptionDef) -> Result<Self, String> {
        match last(raw) {
            "" => Err("a path cannot be empty".to_owned()),
            text => Ok(Self::from(text)),
        }
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string_lossy().into_owned())
    }
}

impl OptionValue for PlaceAddress {
    const KIND: OptionType = OptionType::Text;

    fn parse(raw: &[String], _: &OptionDef) -> Result<Self, String> {
        last(raw).parse()
    }

    fn text(&self) -> Option<String> {
        Some(self.note())
    }
}

/// oslo's `ListOpt`: items separated by commas; an empty text is an empty list.
impl OptionValue for Vec<String> {
    const KIND: OptionType = OptionType::List;

    fn parse(raw: &[String], def: &OptionDef) -> Result<Self, String> {
        let items: Self =
            last(raw).split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect();
        items.iter().try_for_each(|item| def.check_choice(item))?;
        Ok(items)
    }

    fn text(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.join(","))
    }

    fn unset() -> Option<Self> {
        Some(Self::new())
    }
}

/// Values separated by blanks or lines; every occurrence of the option adds to them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Words(pub Vec<String>);

impl OptionValue for Words {
    const KIND: OptionType = OptionType::Words;

    fn parse(raw: &[String], _: &OptionDef) -> Result<Self, String> {
        Ok(Self(raw.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect()))
    }

    fn text(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join(" "))
    }

    fn unset() -> Option<Self> {
        Some(Self::default())
    }
}

/// oslo's `MultiStrOpt`: every occurrence of the option is one value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Multi(pub Vec<String>);

impl OptionValue for Multi {
    const KIND: OptionType = OptionType::Multi;

    fn parse(raw: &[String], _: &OptionDef) -> Result<Self, String> {
        Ok(Self(raw.iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()))
    }

    /// Only a list of one value has a text form: the text of that value.
    fn text(&self) -> Option<String> {
        if let [only] = self.0.as_slice() { Some(only.clone()) } else { None }
    }

    fn unset() -> Option<Self> {
        Some(Self::default())
    }
}

/// An option that may be left out; an empty text means "not set", as oslo reads empty numbers.
impl<T: OptionValue> OptionValue for Option<T> {
    const KIND: OptionType = T::KIND;

    fn parse(raw: &[String], def: &OptionDef) -> Result<Self, String> {
        if last(raw).is_empty() { Ok(None) } else { T::parse(raw, def).map(Some) }
    }

    fn unset() -> Option<Self> {
        Some(None)
    }

    fn text(&self) -> Option<String> {
        self.as_ref().and_then(OptionValue::text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn def() -> OptionDef {
        OptionDef::new("s", "n", OptionType::Text, OptionOrigin::Nova)
    }

    fn read<T: OptionValue>(text: &str) -> Result<T, String> {
        T::parse(&[text.to_owned()], &def())
    }

    #[test]
    fn booleans_are_spelled_as_in_oslo() {
        for yes in ["true", "True", "1", "on", "YES"] {
            assert_eq!(read::<bool>(yes), Ok(true));
        }
        assert_eq!(read::<bool>("off"), Ok(false));
        assert!(read::<bool>("maybe").is_err());
        assert!(read::<bool>("").is_err());
    }

    #[test]
    fn numbers_keep_to_their_bounds_and_types() {
        let bounded = OptionDef { min: Some(1.0), max: Some(10.0), ..def() };
        assert_eq!(u32::parse(&["10".to_owned()], &bounded), Ok(10));
        assert_eq!(u32::parse(&["11".to_owned()], &bounded), Err("11 is out of bounds (1 to 10)".to_owned()));
        assert!(f64::parse(&["0.5".to_owned()], &bounded).is_err());
        assert!(read::<u16>("70000").is_err());
        assert!(read::<u32>("-1").is_err());
        assert!(read::<i64>("ten").is_err());
        assert!(read::<f64>("nan").is_err());
        assert_eq!(read::<f64>(" 1.5 "), Ok(1.5));
    }

    #[test]
    fn only_listed_choices_are_accepted_alone_and_in_lists() {
        let chosen = OptionDef { choices: &["a", "b"], ..def() };
        assert_eq!(String::parse(&["a".to_owned()], &chosen).unwrap(), "a");
        assert_eq!(String::parse(&["c".to_owned()], &chosen), Err("`c` is not one of a, b".to_owned()));
        assert!(Vec::<String>::parse(&["a, c".to_owned()], &chosen).is_err());
    }

    #[test]
    fn a_list_reads_its_last_occurrence_and_repeatable_options_read_all() {
        let raw = ["1, 2".to_owned(), "3,4,".to_owned()];
        assert_eq!(Vec::<String>::parse(&raw, &def()).unwrap(), ["3", "4"]);
        assert_eq!(Multi::parse(&raw, &def()).unwrap().0, ["1, 2", "3,4,"]);
        assert_eq!(Words::parse(&["a b\nc".to_owned(), "d".to_owned()], &def()).unwrap().0, ["a", "b", "c", "d"]);
    }

    #[test]
    fn empty_is_unset_for_optional_values() {
        assert_eq!(read::<Option<u32>>(""), Ok(None));
        assert_eq!(read::<Option<u32>>("3"), Ok(Some(3)));
        assert!(read::<Option<u32>>("x").is_err());
    }
}
