//! Writes the man pages and the shell completions of the program `chronova`, from its own command line.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
pub(crate) struct PackageFilesArgs {
    /// The folder below which the files get their places: usr/share/man/man1, and each shell's folder
    folder: PathBuf,
}

/// Where a shell looks for completions.
const SHELLS: &[(Shell, &str)] = &[
    (Shell::Bash, "usr/share/bash-completion/completions"),
    (Shell::Zsh, "usr/share/zsh/vendor-completions"),
    (Shell::Fish, "usr/share/fish/vendor_completions.d"),
];

pub(crate) fn write(args: &PackageFilesArgs) -> Result<()> {
    let pages = made(&args.folder.join("usr/share/man/man1"))?;
    clap_mangen::generate_to(chronova::cli::command(), &pages)?;
    for (shell, place) in SHELLS {
        let folder = made(&args.folder.join(place))?;
        let written = clap_complete::generate_to(*shell, &mut chronova::cli::command(), "chronova", &folder)?;
        // bash-completion loads a file that has the name of the command.
        if *shell == Shell::Bash {
            fs::rename(&written, folder.join("chronova"))?;
        }
    }
    Ok(())
}

fn made(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder.to_owned())
}
