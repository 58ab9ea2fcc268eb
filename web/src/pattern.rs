//! Patterns of users' filters: MySQL's REGEXP, regardless of case.
//!
//! Every pattern takes time in proportion to the matched text, and little memory. Constructs that would take more
//! (look-around and back-references, which MySQL 8 has) are refused.

use regex::{Regex, RegexBuilder};

/// The longest pattern, in bytes.
const LONGEST: usize = 1_024;
/// The largest compiled pattern, in bytes.
const LARGEST: usize = 256 << 10;

/// Compiles a pattern. `None` if the text is no valid pattern or exceeds the limits.
pub(crate) fn compile(text: &str) -> Option<Regex> {
    let fits = text.len() <= LONGEST;
    fits.then(|| RegexBuilder::new(text).case_insensitive(true).size_limit(LARGEST).build().ok()).flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn patterns_are_linear_and_small() {
        for (pattern, text) in [("^WEB-[0-9]+$", "web-12"), ("x*", ""), (r"^\w+\W", "db.1"), ("[[:alpha:]]{3}", "abc")]
        {
            assert!(compile(pattern).unwrap().is_match(text), "{pattern}");
        }
        let long = "a".repeat(LONGEST + 1);
        for refused in ["(", "(?=a)", r"(a)\1", "(?<!a)b", r"(\w{1000}){1000}", "(.{9}){999999}", &long] {
            assert!(compile(refused).is_none(), "{refused}");
        }
    }
}
