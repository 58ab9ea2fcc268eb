//! The options that all of Nova's command line tools take, anywhere in the line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::logging::LoggingOptions;
use crate::cli::ConfigPaths;
use crate::commands::host::CloudAccess;

/// oslo's options for the configuration files and the logging, and Chronova's options for reaching the server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of all sub-commands")]
pub struct NovaOptions {
    /// A configuration file in nova.conf format; may be repeated, later files win.
    #[arg(long, value_name = "FILE", global = true)]
    pub config_file: Vec<PathBuf>,
    /// A directory whose *.conf files are read in the order of their names, after every --config-file.
    #[arg(long, value_name = "DIR", global = true)]
    pub config_dir: Vec<PathBuf>,
    /// Directory of the event log and all other data; overrides `[chronova] data_dir`.
    #[arg(long, value_name = "DIR", global = true)]
    pub data_dir: Option<PathBuf>,
    /// The server's URL, http://HOST:PORT; by default from the credentials or the configuration.
    #[arg(long, value_name = "URL", global = true)]
    pub url: Option<String>,
    /// The certificate authority of the server's certificate, in PEM.
    #[arg(long, value_name = "FILE", env = "OS_CACERT", global = true)]
    pub os_cacert: Option<PathBuf>,
    /// Do not verify the server's certificate.
    #[arg(long, global = true)]
    pub insecure: bool,
    #[command(flatten)]
    pub logging: LoggingOptions,
    /// Start Nova's Python debugger after an error. Chronova accepts this option and ignores it.
    #[arg(long, global = true, overrides_with = "nopost_mortem")]
    pub post_mortem: bool,
    #[arg(long, alias = "no-post-mortem", global = true, overrides_with = "post_mortem", hide = true)]
    pub nopost_mortem: bool,
}

impl NovaOptions {
    pub fn place(&self) -> ConfigPaths {
        ConfigPaths {
            config_file: self.config_file.clone(),
            config_dir: self.config_dir.clone(),
            data_dir: self.data_dir.clone(),
        }
    }

    pub(in crate::commands) fn access(&self) -> CloudAccess {
        CloudAccess {
            place: self.place(),
            url: self.url.clone(),
            os_cacert: self.os_cacert.clone(),
            insecure: self.insecure,
        }
    }
}

/// Moves the options that may be repeated to the end of the line. clap forgets an option before a sub-command if the
/// same option is also given after it.
pub fn files_last(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let (mut others, mut files) = (Vec::new(), Vec::new());
    let mut value_follows = false;
    let mut words = words.into_iter().peekable();
    // No word after `--` is an option.
    while let Some(word) = words.next_if(|word| value_follows || word != "--") {
        let text = word.to_str().unwrap_or_default();
        let is_name = text == "--config-file" || text == "--config-dir";
        let is_whole = text.starts_with("--config-file=") || text.starts_with("--config-dir=");
        let list = if value_follows || is_name || is_whole { &mut files } else { &mut others };
        value_follows = is_name && !value_follows;
        list.push(word);
    }
    others.append(&mut files);
    others.extend(words);
    others
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser as _;

    use super::super::NovaManage;
    use super::*;

    #[test]
    fn files_before_and_after_a_sub_command_all_count() {
        let line = "nova-manage --config-file a cell_v2 --config-dir=d list_cells --config-file b --verbose";
        let words = files_last(line.split(' ').map(OsString::from));
        let last = ["--config-file", "a", "--config-dir=d", "--config-file", "b"].map(OsString::from);
        assert!(words.ends_with(&last), "{words:?}");
        let options = NovaManage::try_parse_from(words).unwrap().args.options;
        assert_eq!(options.config_file, [PathBuf::from("a"), PathBuf::from("b")]);
        assert_eq!(options.config_dir, [PathBuf::from("d")]);
        let line = ["nova-manage", "--config-file", "a", "x", "--", "--config-file"].map(OsString::from);
        let moved = ["nova-manage", "x", "--config-file", "a", "--", "--config-file"].map(OsString::from);
        assert_eq!(files_last(line), moved, "a word after -- is an option");
    }
}
