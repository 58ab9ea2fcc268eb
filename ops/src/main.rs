//! The `chronova` binary: reads the command line, and hands over.

use std::process::ExitCode;

fn main() -> ExitCode {
    chronova::cli::run()
}
