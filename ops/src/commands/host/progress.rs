//! The lines that are printed while a host is drained: changes since the last poll, each once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use chronova_web::audit::line::printable;
use serde_json::Value;

use super::super::Exit;

pub(super) struct DrainProgress {
    host: String,
    /// The drain that is followed.
    id: String,
    /// The last line printed about each server that is being moved.
    moving: BTreeMap<String, String>,
    settled: BTreeSet<(String, String)>,
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn all<'a>(drain: &'a Value, key: &str) -> &'a [Value] {
    drain[key].as_array().map_or(&[], Vec::as_slice)
}

fn display_name(server: &Value) -> String {
    match server["name"].as_str() {
        Some(name) => format!("{name} ({})", text(server, "server")),
        None => text(server, "server").to_owned(),
    }
}

/// The percentage of moved memory, rounded down to a multiple of ten to limit the output.
fn moved_percent(server: &Value) -> Option<u64> {
    let (total, left) = (server["memory_total_bytes"].as_u64()?, server["memory_remaining_bytes"].as_u64()?);
    (total > 0).then(|| total.saturating_sub(left) * 10 / total * 10)
}

impl DrainProgress {
    pub(super) fn new(host: &str, drain: &Value) -> Self {
        let id = text(drain, "id").to_owned();
        Self { host: host.to_owned(), id, moving: BTreeMap::new(), settled: BTreeSet::new() }
    }

    pub(super) fn is_of(&self, drain: &Value) -> bool {
        text(drain, "id") == self.id
    }

    pub(super) fn begin(&self, drain: &Value, out: &mut dyn Write) -> io::Result<()> {
        let waiting = drain["waiting"].as_u64().unwrap_or(0) + all(drain, "leaving").len() as u64;
        let (parallel, since) = (drain["parallel"].as_u64().unwrap_or(0), text(drain, "requested_at"));
        let host = &self.host;
        writeln!(out, "{host} takes no new servers; {waiting} to be moved, {parallel} at a time (drain of {since})")
    }

    /// Prints the changes since the last poll.
    pub(super) fn tell(&mut self, drain: &Value, out: &mut dyn Write) -> io::Result<()> {
        for server in all(drain, "leaving") {
            let mut how = format!("{}: {}", text(server, "how"), server["status"].as_str().unwrap_or("asked for"));
            if let Some(percent) = moved_percent(server) {
                how = format!("{how}, {percent} %");
            }
            if self.moving.insert(text(server, "server").to_owned(), how.clone()).as_deref() != Some(how.as_str()) {
                writeln!(out, "  leaves  {}", printable(&format!("{}  {how}", display_name(server))))?;
            }
        }
        for server in all(drain, "left") {
            let how = match server["to"].as_str() {
                Some(host) => format!("is on {host}"),
                None => "is on no host any more".to_owned(),
            };
            self.settle("left", server, &how, out)?;
        }
        for server in all(drain, "stays") {
            self.settle("stays", server, text(server, "reason"), out)?;
        }
        Ok(())
    }

    fn settle(&mut self, word: &str, server: &Value, how: &str, out: &mut dyn Write) -> io::Result<()> {
        match self.settled.insert((text(server, "server").to_owned(), how.to_owned())) {
            true => writeln!(out, "  {word:<7} {}", printable(&format!("{}  {how}", display_name(server)))),
            false => Ok(()),
        }
    }

    /// Prints the last line when the drain is over.
    pub(super) fn end(&self, drain: &Value, out: &mut dyn Write) -> io::Result<Option<Exit>> {
        let (left, stay) = (all(drain, "left").len(), all(drain, "stays").len());
        let (how, exit) = match text(drain, "status") {
            "done" => ("is empty", Exit::Yes),
            "incomplete" => ("is not empty", Exit::No),
            "cancelled" => ("is not drained: the drain was cancelled", Exit::No),
            _ => return Ok(None),
        };
        writeln!(out, "{} {how}: {left} left, {stay} stay", self.host)?;
        Ok(Some(exit))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn each_change_is_printed_once() {
        let mut drain = json!({
            "id": "d", "status": "running", "parallel": 2, "requested_at": "T", "waiting": 2, "left": [], "stays": [],
            "leaving": [{"server": "1", "name": "web", "how": "live", "status": "running",
                         "memory_total_bytes": 1000, "memory_remaining_bytes": 560}],
        });
        let (mut progress, mut out) = (DrainProgress::new("h1", &drain), Vec::new());
        progress.begin(&drain, &mut out).unwrap();
        progress.tell(&drain, &mut out).unwrap();
        drain["leaving"][0]["memory_remaining_bytes"] = json!(550);
        progress.tell(&drain, &mut out).unwrap();
        assert_eq!(progress.end(&drain, &mut out).unwrap(), None);
        drain["left"] = json!([{"server": "1", "name": "web", "to": "h2"}]);
        drain["stays"] = json!([{"server": "2", "name": null, "reason": "it is suspended"}]);
        (drain["leaving"], drain["status"]) = (json!([]), json!("incomplete"));
        progress.tell(&drain, &mut out).unwrap();
        progress.tell(&drain, &mut out).unwrap();
        assert_eq!(progress.end(&drain, &mut out).unwrap(), Some(Exit::No));
        let said = "h1 takes no new servers; 3 to be moved, 2 at a time (drain of T)\n  \
                    leaves  web (1)  live: running, 40 %\n  \
                    left    web (1)  is on h2\n  \
                    stays   2  it is suspended\n\
                    h1 is not empty: 1 left, 1 stay\n";
        assert_eq!(String::from_utf8(out).unwrap(), said);
        assert!(progress.is_of(&drain) && !progress.is_of(&json!({"id": "e"})));
    }
}
