//! The options that all of Nova's command line tools take, anywhere in the line.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{ArgAction, Args};

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
    /// Log at level DEBUG.
    #[arg(long, short = 'd', global = true, overrides_with = "nodebug")]
    pub debug: bool,
    /// Log at level INFO.
    #[arg(long, alias = "no-debug", global = true, overrides_with = "debug", hide = true)]
    pub nodebug: bool,
    /// File to log to, relative to --log-dir; standard error without it.
    #[arg(long, alias = "logfile", value_name = "FILE", global = true)]
    pub log_file: Option<PathBuf>,
    /// Directory of the log file.
    #[arg(long, alias = "logdir", value_name = "DIR", global = true)]
    pub log_dir: Option<PathBuf>,
    /// A file that describes the logging; the other options of logging are then ignored.
    #[arg(long, alias = "log-config", value_name = "FILE", global = true)]
    pub log_config_append: Option<PathBuf>,
    /// The form of times in the log, as in strftime.
    #[arg(long, value_name = "FORMAT", global = true)]
    pub log_date_format: Option<String>,
    /// Log to syslog.
    #[arg(long, global = true, overrides_with = "nouse_syslog")]
    pub use_syslog: bool,
    #[arg(long, alias = "no-use-syslog", global = true, overrides_with = "use_syslog", hide = true)]
    pub nouse_syslog: bool,
    /// The facility of syslog: LOG_USER, LOG_LOCAL0 and so on.
    #[arg(long, value_name = "FACILITY", global = true)]
    pub syslog_log_facility: Option<String>,
    /// Log to systemd's journal.
    #[arg(long, global = true, overrides_with = "nouse_journal")]
    pub use_journal: bool,
    #[arg(long, alias = "no-use-journal", global = true, overrides_with = "use_journal", hide = true)]
    pub nouse_journal: bool,
    /// Log one JSON object a line.
    #[arg(long, global = true, overrides_with = "nouse_json")]
    pub use_json: bool,
    #[arg(long, alias = "no-use-json", global = true, overrides_with = "use_json", hide = true)]
    pub nouse_json: bool,
    /// Open the log file again after it was moved. A command ends too soon for that, so Chronova ignores this option.
    #[arg(long, global = true, action = ArgAction::SetTrue, overrides_with = "nowatch_log_file")]
    pub watch_log_file: bool,
    #[arg(long, alias = "no-watch-log-file", global = true, overrides_with = "watch_log_file", hide = true)]
    pub nowatch_log_file: bool,
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

    /// The options of logging as lines of a configuration file, which win over all files.
    pub fn as_config(&self) -> String {
        let mut text = String::from("[DEFAULT]\n");
        let mut line = |key: &str, value: &str| {
            let _ = writeln!(text, "{key} = {value}");
        };
        let flags = [
            ("debug", self.debug, self.nodebug),
            ("use_syslog", self.use_syslog, self.nouse_syslog),
            ("use_journal", self.use_journal, self.nouse_journal),
            ("use_json", self.use_json, self.nouse_json),
        ];
        for (key, on, off) in flags {
            if on || off {
                line(key, if on { "true" } else { "false" });
            }
        }
        let path = |path: &PathBuf| path.display().to_string();
        let values = [
            ("log_file", self.log_file.as_ref().map(path)),
            ("log_dir", self.log_dir.as_ref().map(path)),
            ("log_config_append", self.log_config_append.as_ref().map(path)),
            ("log_date_format", self.log_date_format.clone()),
            ("syslog_log_facility", self.syslog_log_facility.clone()),
        ];
        for (key, value) in values {
            if let Some(value) = value {
                line(key, &value);
            }
        }
        text
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
