//! Builds the query of a URL.

use std::fmt::Write as _;

/// Escapes text for a URL: all bytes except letters, digits and a few safe characters become `%XX`.
pub fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
        escaped
    })
}

/// The parameters, as in `a=1&b=2`.
pub fn query_of(parameters: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{}={}", escaped(name), escaped(value));
    parameters.iter().map(pair).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_adds_no_parameter() {
        assert_eq!(query_of(&[("a", "1&b=2 ü"), ("c_d", "x-y.z")]), "a=1%26b%3D2%20%C3%BC&c_d=x-y.z");
        assert_eq!(query_of(&[]), "");
    }
}
