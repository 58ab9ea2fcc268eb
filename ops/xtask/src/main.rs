//! `cargo xtask`: the checks and generators of the repository.
//!
//! * `layers`: checks the rules of ARCHITECTURE.md that a compiler does not know. `layers --list` prints them with
//!   their reasons. `layers --lower` writes today's numbers into the lists that may only shrink. `layers --prose`
//!   prints the sentences that break the rule about prose.
//! * `gen [--check]`: writes the generated references under docs/, or checks that they are current.
//! * `event new NOUN NAME`: writes the parts of a new event, as in `event new instance ResizeConfirmed`.
//! * `recipe WORD [BASE]`: compares the files that changed since the branch left `BASE` (`main`) with a recipe of
//!   CONTRIBUTING.md. The recipe has `WORD` in its title.
//! * `requirements`: counts docs/requirements by status.

#![allow(clippy::print_stdout, reason = "a command-line tool")]

mod event;
mod generate;
mod layers;
mod requirements;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};

const USAGE: &str = "usage: cargo xtask layers [--list | --lower | --prose] | gen [--check] | event new NOUN NAME | \
                     recipe WORD [BASE] | requirements";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs a command; returns whether its check passed.
fn run(arguments: &[&str]) -> anyhow::Result<bool> {
    let root = root()?;
    match arguments {
        ["layers"] => layers::check(&root),
        ["layers", "--list"] => Ok(layers::list()),
        ["layers", "--lower"] => layers::lower(&root),
        ["layers", "--prose"] => layers::prose(&root),
        ["gen"] => generate::run(&root, false),
        ["gen", "--check"] => generate::run(&root, true),
        ["event", "new", noun, name] => event::new(&root, noun, name),
        ["recipe", word] => layers::recipe(&root, word, "main"),
        ["recipe", word, base] => layers::recipe(&root, word, base),
        ["requirements"] => requirements::count(&root),
        _ => bail!("{USAGE}"),
    }
}

/// The top of the repository: two folders above this package.
fn root() -> anyhow::Result<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).map(Path::to_owned).context("the package lies below the repository's top")
}
