//! The guru meditation report: what the server does at this moment, for an operator who asks with SIGUSR2. The name and
//! the form are those of oslo.reports. No secret is in it.

use std::fmt::Write as _;
use std::path::Path;

use chronova_events::envelope::Timestamp;
use chronova_projections::views::Views;

use crate::config::Config;
use crate::config::options::SECTIONS;

/// The most lines of one list.
const MOST: usize = 200;

/// The report as text.
pub(super) fn render(config: &Config, views: &Views, now: Timestamp) -> String {
    let mut text = String::new();
    let title = |text: &mut String, name: &str| {
        let line = "=".repeat(72);
        let _ = writeln!(text, "\n{line}\n===={name:^64}====\n{line}");
    };
    title(&mut text, "Guru Meditation");
    title(&mut text, "Package");
    let _ = writeln!(text, "product = Chronova\nversion = {}\ntime = {now}", env!("CARGO_PKG_VERSION"));
    title(&mut text, "Threads");
    threads(&mut text);
    title(&mut text, "Log");
    let _ = writeln!(text, "position = {}", views.position());
    title(&mut text, "Processes");
    let pending: Vec<String> = views
        .processes
        .read(|view| view.pending().map(|pending| format!("{}  {}", pending.process, pending.task.name())).collect());
    list(&mut text, &pending);
    title(&mut text, "Hosts");
    let hosts: Vec<String> = views.hosts.read(|hosts| {
        let state = |up| if up { "up" } else { "down" };
        hosts.all().map(|host| format!("{}  {}  {}", host.hostname, state(host.answers()), host.uri)).collect()
    });
    list(&mut text, &hosts);
    title(&mut text, "Configuration");
    configuration(config, &mut text);
    text
}

fn list(text: &mut String, lines: &[String]) {
    for line in lines.iter().take(MOST) {
        let _ = writeln!(text, "{line}");
    }
    match lines.len() {
        0 => text.push_str("none\n"),
        many if many > MOST => {
            let _ = writeln!(text, "and {} more", many - MOST);
        }
        _ => {}
    }
}

/// The threads by their names and states, as the kernel shows them.
fn threads(text: &mut String) {
    let Ok(folder) = std::fs::read_dir("/proc/self/task") else { return };
    let mut lines = Vec::new();
    for entry in folder.flatten() {
        let read = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let (name, stat) = (read("comm"), read("stat"));
        // The state is the first word after the name, which is in parentheses and may have blanks.
        let state =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or("?").to_owned();
        lines.push(format!("{:>8}  {state}  {}", entry.file_name().to_string_lossy(), name.trim()));
    }
    lines.sort();
    list(text, &lines);
}

/// The options with the values that the server started with. A secret is shown as `***`.
fn configuration(config: &Config, text: &mut String) {
    let values = config.shown();
    for options in SECTIONS {
        let Some(first) = options.first() else { continue };
        let _ = writeln!(text, "[{}]", first.section);
        for def in *options {
            let value = values.get(&(def.section, def.name)).and_then(Option::as_deref);
            let shown = if def.secret { "***" } else { value.unwrap_or("<unset>") };
            let _ = writeln!(text, "{} = {shown}", def.name);
        }
    }
}

/// Writes the report to a file in `folder`. The file's name has the time. Without a folder, writes to standard error.
pub(super) fn write(report: &str, folder: Option<&Path>, now: Timestamp) {
    let Some(folder) = folder else { return crate::output::complain(report) };
    let name = format!("chronova_gurumeditation_{}", now.to_utc().format("%Y%m%d%H%M%S"));
    let path = folder.join(name);
    match std::fs::write(&path, report) {
        Ok(()) => tracing::info!(path = %path.display(), "wrote a report of the server's state"),
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "the report of the server's state cannot be written");
        }
    }
}
