//! `log_config_append`: a file in the form of Python's `logging.config.fileConfig`, as Nova's operators have it.
//!
//! Chronova applies the levels and the handlers of the root and of the loggers `nova` and `nova.*`. It has handlers for
//! streams, files, syslog, systemd's journal and nothing (`NullHandler`). A handler of any other class is an error,
//! because lines would be lost. Formatters are ignored, because Chronova has its own form of lines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::LogSettings;
use crate::config::ini;

/// Reads the file.
///
/// # Errors
/// The file cannot be read, or it asks for something that Chronova cannot do.
pub fn read(path: &Path) -> Result<LogSettings, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    parse(&text, path)
}

type Sections = BTreeMap<String, BTreeMap<String, String>>;

fn parse(text: &str, path: &Path) -> Result<LogSettings, String> {
    let mut sections = Sections::new();
    for entry in ini::parse(text, path).entries {
        sections.entry(entry.section).or_default().insert(entry.key, entry.value);
    }
    let root = sections.get("logger_root").ok_or("has no section [logger_root]")?;
    let mut settings = LogSettings { levels: Some(levels(&sections)?), ..LogSettings::default() };
    // In Nova's own sample the root has the handler `null`, and the logger `nova` has the handler `stderr`.
    let of_nova =
        listed(&sections).filter_map(|logger| sections.get(&format!("logger_{logger}"))).filter(|one| is_novas(one));
    for handler in std::iter::once(root).chain(of_nova).flat_map(|logger| words(logger.get("handlers"))) {
        let section = sections.get(&format!("handler_{handler}"));
        handle(section.ok_or_else(|| format!("has no section [handler_{handler}]"))?, &mut settings)?;
    }
    Ok(settings)
}

fn words(value: Option<&String>) -> impl Iterator<Item = &str> {
    value.into_iter().flat_map(|text| text.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// The loggers that the file lists. Without a list there is only the root.
fn listed(sections: &Sections) -> impl Iterator<Item = &str> {
    let keys = sections.get("loggers").map(|section| words(section.get("keys")).collect());
    keys.unwrap_or_else(|| vec!["root"]).into_iter()
}

/// Whether the section is of the logger `nova` or of one below it, so that its lines are those of Chronova.
fn is_novas(section: &BTreeMap<String, String>) -> bool {
    section.get("qualname").is_some_and(|name| name == "nova" || name.starts_with("nova."))
}

/// The directives of the filter: the root's level, then the levels of the loggers `nova` and `nova.*`. The level of
/// each of these loggers applies to all of Chronova.
fn levels(sections: &Sections) -> Result<String, String> {
    let mut directives = Vec::new();
    for logger in listed(sections) {
        let section =
            sections.get(&format!("logger_{logger}")).ok_or_else(|| format!("has no section [logger_{logger}]"))?;
        let level = level(section.get("level").map_or("NOTSET", String::as_str))?;
        if logger == "root" {
            directives.insert(0, level.to_owned());
        } else if is_novas(section) {
            directives.push(format!("chronova={level}"));
        }
        // Loggers of Python's libraries have no lines here.
    }
    Ok(directives.join(","))
}

fn level(word: &str) -> Result<&'static str, String> {
    match word.to_ascii_uppercase().as_str() {
        "CRITICAL" | "FATAL" | "ERROR" => Ok("error"),
        "WARNING" | "WARN" => Ok("warn"),
        "INFO" | "AUDIT" => Ok("info"),
        "DEBUG" => Ok("debug"),
        "NOTSET" | "TRACE" => Ok("trace"),
        _ => Err(format!("has the level {word}, which is none of CRITICAL, ERROR, WARNING, INFO and DEBUG")),
    }
}

fn handle(section: &BTreeMap<String, String>, settings: &mut LogSettings) -> Result<(), String> {
    let class = section.get("class").map_or("", String::as_str);
    let args = section.get("args").map_or("", String::as_str);
    match class.rsplit(['.', ':']).next().unwrap_or_default() {
        "StreamHandler" | "ColorHandler" => settings.stderr = true,
        "FileHandler" => settings.file = Some(path_in(args)?),
        "WatchedFileHandler" => {
            settings.file = Some(path_in(args)?);
            settings.watch = true;
        }
        "SysLogHandler" | "OSSysLogHandler" => settings.syslog = Some(1),
        "OSJournalHandler" => settings.journal = true,
        "NullHandler" => settings.quiet = true,
        other => return Err(format!("has a handler of the class {other}, which Chronova does not have")),
    }
    Ok(())
}

/// The first text of a Python tuple: `('/var/log/nova.log', 'a')`.
fn path_in(args: &str) -> Result<PathBuf, String> {
    let quote = args.find(['\'', '"']).ok_or("has a handler that writes to a file, and its args name no file")?;
    let sign = &args[quote..=quote];
    let rest = &args[quote + 1..];
    let end = rest.find(sign).ok_or("has a handler whose args have no end")?;
    Ok(PathBuf::from(&rest[..end]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(text: &str) -> Result<LogSettings, String> {
        parse(text, Path::new("logging.conf"))
    }

    #[test]
    fn levels_and_handlers_are_heeded() {
        let settings = of("[loggers]\nkeys = root, nova, amqp\n[handlers]\nkeys = file, syslog\n\
             [logger_root]\nlevel = WARNING\nhandlers = file, syslog\n[logger_nova]\nlevel = DEBUG\nqualname = nova\n\
             [logger_amqp]\nlevel = INFO\nqualname = amqp\n\
             [handler_file]\nclass = handlers.WatchedFileHandler\nargs = ('/var/log/nova.log', 'a')\n\
             [handler_syslog]\nclass = handlers.SysLogHandler\nargs = ('/dev/log',)\n")
        .unwrap();
        assert_eq!(settings.levels.as_deref(), Some("warn,chronova=debug"));
        assert_eq!(settings.file.as_deref(), Some(Path::new("/var/log/nova.log")));
        assert!(settings.watch && settings.syslog == Some(1) && !settings.stderr);
    }

    /// The root's handler writes nothing, and that of the logger `nova` writes its lines.
    #[test]
    fn handlers_of_novas_logger_are_heeded() {
        let settings = of("[loggers]\nkeys = root, nova, amqp\n[handlers]\nkeys = stderr, null, file\n\
             [logger_root]\nlevel = WARNING\nhandlers = null\n\
             [logger_nova]\nlevel = INFO\nhandlers = stderr\nqualname = nova\n\
             [logger_amqp]\nlevel = WARNING\nhandlers = file\nqualname = amqp\n\
             [handler_stderr]\nclass = StreamHandler\nargs = (sys.stderr,)\n\
             [handler_file]\nclass = FileHandler\nargs = ('/var/log/amqp.log',)\n\
             [handler_null]\nclass = logging.NullHandler\nargs = ()\n")
        .unwrap();
        assert_eq!(settings.levels.as_deref(), Some("warn,chronova=info"));
        assert!(settings.stderr && settings.file.is_none(), "{settings:?}");
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let root = "[logger_root]\nlevel = INFO\nhandlers = x\n";
        for (rest, words) in [
            ("", "has no section [handler_x]"),
            ("[handler_x]\nclass = handlers.SMTPHandler\n", "SMTPHandler"),
            ("[handler_x]\nclass = FileHandler\nargs = ()\n", "name no file"),
        ] {
            let error = of(&format!("{root}{rest}")).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(of("[logger_root]\nlevel = LOUD\nhandlers =\n").unwrap_err().contains("LOUD"));
        assert!(of("").unwrap_err().contains("[logger_root]"));
    }
}
