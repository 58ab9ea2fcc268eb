//! `$name` in values, as oslo.config reads it.
//!
//! `$name` and `${name}` become the value of the option `name` of the same section, or of `[DEFAULT]` if that section
//! has none. `$section.name` and `${section.name}` become the value of an option of another section. `$$` and `\$`
//! become a dollar sign. A reference to an unknown option stays unchanged (a password may contain a dollar sign). A
//! reference to an option that is not set becomes empty.

/// Finds the value of an option; `None` if there is no such option.
type OptionLookup<'a> = dyn FnMut(&str, &str) -> Result<Option<String>, String> + 'a;

/// Replaces every reference that `lookup(section, name)` knows. `section` is the section of the option being read.
pub(crate) fn substitute(text: &str, section: &str, lookup: &mut OptionLookup<'_>) -> Result<String, String> {
    if !text.contains('$') {
        return Ok(text.to_owned());
    }
    let text = text.replace("\\$", "$$");
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$$") {
            out.push('$');
            rest = after;
            continue;
        }
        let (written, name) = reference(rest);
        match name.map(|name| resolve(name, section, lookup)).transpose()?.flatten() {
            Some(value) => out.push_str(&value),
            None => out.push_str(written),
        }
        rest = &rest[written.len()..];
    }
    out.push_str(rest);
    Ok(out)
}

/// The reference at the start of `text` as it is written, and the name in it. If `text` begins with no reference,
/// returns the dollar sign and `None`.
fn reference(text: &str) -> (&str, Option<&str>) {
    let body = &text[1..];
    if let Some(braced) = body.strip_prefix('{') {
        return match braced.find('}') {
            Some(end) if is_name(&braced[..end]) => (&text[..end + 3], Some(&braced[..end])),
            _ => (&text[..1], None),
        };
    }
    let end = body.find(|c: char| !is_name_char(c)).unwrap_or(body.len());
    if is_name(&body[..end]) { (&text[..=end], Some(&body[..end])) } else { (&text[..1], None) }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_name_char)
}

fn resolve(name: &str, section: &str, lookup: &mut OptionLookup<'_>) -> Result<Option<String>, String> {
    match name.split_once('.') {
        Some((elsewhere, option)) => lookup(elsewhere, option),
        None => match lookup(section, name)? {
            Some(value) => Ok(Some(value)),
            None => lookup("DEFAULT", name),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> String {
        let mut lookup = |section: &str, name: &str| {
            Ok(match (section, name) {
                ("DEFAULT", "state_path") => Some("/var/lib/chronova".to_owned()),
                ("DEFAULT", "both") => Some("default".to_owned()),
                ("vnc", "both") => Some("vnc".to_owned()),
                ("vnc", "empty") => Some(String::new()),
                _ => None,
            })
        };
        substitute(text, "vnc", &mut lookup).unwrap_or_else(|reason| format!("error: {reason}"))
    }

    #[test]
    fn names_resolve_in_the_section_then_in_default() {
        assert_eq!(expand("$state_path/instances"), "/var/lib/chronova/instances");
        assert_eq!(expand("${state_path}s"), "/var/lib/chronovas");
        assert_eq!(expand("$both"), "vnc");
        assert_eq!(expand("$DEFAULT.both ${vnc.both}"), "default vnc");
        assert_eq!(expand("[$empty]"), "[]");
    }

    #[test]
    fn escaped_and_unknown_dollars_stay_dollars() {
        assert_eq!(expand("a$$b\\$both"), "a$b$both");
        assert_eq!(expand("p$w0rd$"), "p$w0rd$");
        assert_eq!(expand("${open $1 $nothing"), "${open $1 $nothing");
    }
}
