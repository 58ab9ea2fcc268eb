//! `[DEFAULT] instance_name_template`: the name of a guest's libvirt domain.
//!
//! A template has at most one directive, in the form of Python's `%`: the server's number (`%d`, `%x`, `%(id)d`) or its
//! UUID (`%(uuid)s`). A number with a width is padded with zeros (`%08x`, and also `%8x`). `%%` is refused. If there is
//! no directive, the number follows the text, so that no two guests have the same name.

use std::fmt;
use std::str::FromStr;

use chronova_events::ids::InstanceId;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameTemplate {
    before: String,
    field: TemplateField,
    after: String,
    /// The template's text.
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TemplateField {
    Decimal { width: usize },
    Hexadecimal { width: usize },
    Uuid,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a template of names: it may have one of %d, %x (padded: %08x), %(id)d, %(id)x and %(uuid)s")]
pub struct InvalidTemplate(String);

impl NameTemplate {
    pub fn fill(&self, server: InstanceId, number: u64) -> String {
        let Self { before, after, .. } = self;
        match self.field {
            TemplateField::Decimal { width } => format!("{before}{number:0width$}{after}"),
            TemplateField::Hexadecimal { width } => format!("{before}{number:0width$x}{after}"),
            TemplateField::Uuid => format!("{before}{server}{after}"),
        }
    }

    /// The number in `name`; `None`: the name is not of this template, or the template has no number.
    pub fn number(&self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(self.before.as_str())?.strip_suffix(self.after.as_str())?;
        let number = match self.field {
            TemplateField::Decimal { .. } => digits.parse().ok()?,
            TemplateField::Hexadecimal { .. } => u64::from_str_radix(digits, 16).ok()?,
            TemplateField::Uuid => return None,
        };
        (self.fill(InstanceId(uuid::Uuid::nil()), number) == name).then_some(number)
    }
}

impl Default for NameTemplate {
    /// Nova's default.
    fn default() -> Self {
        Self {
            before: "instance-".to_owned(),
            field: TemplateField::Hexadecimal { width: 8 },
            after: String::new(),
            text: "instance-%08x".to_owned(),
        }
    }
}

impl FromStr for NameTemplate {
    type Err = InvalidTemplate;

    fn from_str(text: &str) -> Result<Self, InvalidTemplate> {
        let invalid = || InvalidTemplate(text.to_owned());
        let (before, directive) = text.split_once('%').unwrap_or((text, "d"));
        let (key, rest) = match directive.strip_prefix('(') {
            Some(named) => named.split_once(')').ok_or_else(invalid)?,
            None => ("id", directive),
        };
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        // A domain's name cannot be longer than a file name, so the width of the number is limited.
        let width = rest[..digits].parse().ok().filter(|width| *width <= 32);
        let width = if digits == 0 { Some(0) } else { width }.ok_or_else(invalid)?;
        let mut kind = rest[digits..].chars();
        let field = match (key, kind.next()) {
            ("id", Some('d')) => TemplateField::Decimal { width },
            ("id", Some('x')) => TemplateField::Hexadecimal { width },
            ("uuid", Some('s')) if digits == 0 => TemplateField::Uuid,
            _ => return Err(invalid()),
        };
        let after = kind.as_str();
        if after.contains('%') {
            return Err(invalid());
        }
        Ok(Self { before: before.to_owned(), field, after: after.to_owned(), text: text.to_owned() })
    }
}

impl fmt::Display for NameTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_template_is_filled_in_as_python_does() {
        let server = InstanceId(uuid::Uuid::from_u128(7));
        let name = |template: &str, number| template.parse::<NameTemplate>().unwrap().fill(server, number);
        assert_eq!(name("instance-%08x", 255), "instance-000000ff");
        assert_eq!(name("vm%d.cloud", 7), "vm7.cloud");
        assert_eq!(name("vm%(id)03d", 7), "vm007");
        assert_eq!(name("guest-%(uuid)s", 7), "guest-00000000-0000-0000-0000-000000000007");
        assert_eq!(name("plain-", 7), "plain-7");
        assert_eq!(NameTemplate::default(), "instance-%08x".parse().unwrap());
    }

    #[test]
    fn a_name_of_the_template_tells_its_number() {
        let number = |template: &str, name: &str| template.parse::<NameTemplate>().unwrap().number(name);
        assert_eq!(number("instance-%08x", "instance-000000ff"), Some(255));
        assert_eq!(number("vm%d.cloud", "vm7.cloud"), Some(7));
        for other in ["instance-ff", "instance-000000FF", "instance-0000000g", "stray-7", "instance-+00000ff"] {
            assert_eq!(number("instance-%08x", other), None, "{other}");
        }
        assert_eq!(number("guest-%(uuid)s", "guest-00000000-0000-0000-0000-000000000007"), None);
    }

    #[test]
    fn an_invalid_template_is_refused() {
        for text in ["%", "%s", "%(uuid)", "%(uuid)d", "%(uuid)08s", "%(name)s", "%(id", "%d-%d", "100%%", "%999d"] {
            assert_eq!(text.parse::<NameTemplate>(), Err(InvalidTemplate(text.to_owned())));
        }
    }
}
