//! The one place that writes to the terminal.

use std::io::Write;

/// Writes to standard output. A closed reader (`| head`) is not an error.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Writes to standard error.
pub fn complain(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
