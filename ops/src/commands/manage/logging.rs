//! oslo's options of logging, which Nova's tools and daemons take.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{ArgAction, Args};

/// Each option is also an option of `[DEFAULT]`. The command line wins.
#[derive(Debug, Clone, Args)]
pub struct LoggingOptions {
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
    /// Open the log file again after it was moved. A command that ends soon ignores this option.
    #[arg(long, global = true, action = ArgAction::SetTrue, overrides_with = "nowatch_log_file")]
    pub watch_log_file: bool,
    #[arg(long, alias = "no-watch-log-file", global = true, overrides_with = "watch_log_file", hide = true)]
    pub nowatch_log_file: bool,
}

impl LoggingOptions {
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
