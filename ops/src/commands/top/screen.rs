//! One view as text.

use std::fmt::Write as _;

use chronova_web::audit::line::printable;
use serde_json::Value;

use super::metrics::{TopRates, TopSample};

/// Whether the text has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint {
    pub(super) colours: bool,
}

impl Paint {
    fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// Marks what needs an operator.
    fn alarm(self, holds: bool, text: &str) -> String {
        if holds { self.with("31", text) } else { text.to_owned() }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The largest number of migrations in a view.
const MIGRATIONS: usize = 10;

pub(super) struct TopView<'a> {
    pub(super) sample: &'a TopSample,
    /// `None` in the first view.
    pub(super) rates: Option<TopRates>,
    pub(super) hosts: &'a Value,
    pub(super) migrations: &'a Value,
}

fn rows(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn text(row: &Value, key: &str) -> String {
    printable(row[key].as_str().unwrap_or("-"))
}

impl TopView<'_> {
    /// The view with at most `most` hosts.
    pub(super) fn text(&self, most: usize, paint: Paint) -> String {
        let mut out = String::new();
        // Writing to a text cannot fail.
        let _ = self.summary(paint, &mut out);
        let _ = self.list_hosts(most, paint, &mut out);
        let _ = self.list_migrations(paint, &mut out);
        out
    }

    fn summary(&self, paint: Paint, out: &mut String) -> std::fmt::Result {
        let (sample, hosts) = (self.sample, rows(self.hosts));
        let rate =
            |of: fn(&TopRates) -> f64| self.rates.as_ref().map_or_else(|| "-".to_owned(), |r| format!("{:.0}", of(r)));
        writeln!(out, "{}", paint.bold(&format!("chronova {}", sample.version)))?;
        let behind = (sample.log - sample.views).max(0.0);
        let (events, position) = (rate(|rates| rates.events), sample.log);
        writeln!(out, "log        {events} events/s, position {position:.0}, read models {behind:.0} events behind")?;
        let all = rate(|rates| rates.requests.iter().map(|(_, rate)| rate).sum());
        write!(out, "requests   {all} /s, {:.0} in flight", sample.in_flight)?;
        if let Some(rates) = &self.rates {
            if let Some(mean) = rates.mean {
                write!(out, ", {:.1} ms on average", mean * 1_000.0)?;
            }
            write!(out, ", {}", paint.alarm(rates.failed > 0.0, &format!("{:.1} errors/s", rates.failed)))?;
            for (service, rate) in &rates.requests {
                write!(out, "; {service} {rate:.0}")?;
            }
        }
        writeln!(out)?;
        let down = paint.alarm(sample.hosts_down > 0.0, &format!("{:.0} down", sample.hosts_down));
        let kept = hosts.iter().filter(|host| !host["maintenance"].is_null()).count();
        let drained = hosts.iter().filter(|host| host["draining"] == true).count();
        let servers: u64 = hosts.iter().filter_map(|host| host["servers"].as_u64()).sum();
        write!(out, "hosts      {:.0} up, {down}, {kept} in maintenance, {drained} being drained", sample.hosts_up)?;
        writeln!(out, "; {servers} servers")?;
        let stuck = paint.alarm(sample.stuck > 0.0, &format!("{:.0} stuck", sample.stuck));
        writeln!(out, "processes  {:.0} under way, {stuck}", sample.unfinished)
    }

    fn list_hosts(&self, most: usize, paint: Paint, out: &mut String) -> std::fmt::Result {
        let mut hosts: Vec<&Value> = rows(self.hosts).iter().collect();
        // A host that is down comes first, then the busiest.
        hosts.sort_by_key(|host| (host["up"] == true, std::cmp::Reverse(host["servers"].as_u64())));
        if most == 0 || hosts.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        writeln!(
            out,
            "{}",
            paint.bold(&format!("{:<32} {:>7}  {:<5} {:<9} REASON", "HOST", "SERVERS", "STATE", "TAKES NEW"))
        )?;
        for host in hosts.iter().take(most) {
            let (name, servers) = (text(host, "name"), host["servers"].as_u64().unwrap_or(0));
            let (up, enabled) = (host["up"] == true, host["enabled"] == true);
            let state = paint.alarm(!up, &format!("{:<5}", if up { "up" } else { "down" }));
            let takes = if enabled { "yes" } else { "no" };
            let why = printable(host["disabled_reason"].as_str().unwrap_or_default());
            writeln!(out, "{}", format!("{name:<32} {servers:>7}  {state} {takes:<9} {why}").trim_end())?;
        }
        match hosts.len().saturating_sub(most) {
            0 => Ok(()),
            more => writeln!(out, "... and {more} more"),
        }
    }

    fn list_migrations(&self, paint: Paint, out: &mut String) -> std::fmt::Result {
        let migrations = rows(self.migrations);
        if migrations.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        writeln!(out, "{}", paint.bold(&format!("{:<36}  {:<14} FROM -> TO", "SERVER", "MIGRATION")))?;
        for row in migrations.iter().take(MIGRATIONS) {
            let (server, kind) = (text(row, "instance_uuid"), text(row, "migration_type"));
            writeln!(out, "{server:<36}  {kind:<14} {} -> {}", text(row, "source_compute"), text(row, "dest_compute"))?;
        }
        match migrations.len().saturating_sub(MIGRATIONS) {
            0 => Ok(()),
            more => writeln!(out, "... and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::super::metrics::tests::TEXT;
    use super::*;

    fn hosts() -> Value {
        let host = |name: &str, servers: u32, up: bool| {
            json!({"name": name, "servers": servers, "up": up, "enabled": up, "disabled_reason": null,
                "maintenance": null, "draining": false})
        };
        json!([host("h1", 1, true), host("h2", 7, true), host("h3", 0, false), host("h4", 3, true)])
    }

    #[test]
    fn a_view_shows_rates_hosts_and_migrations() {
        let sample = TopSample::of(TEXT);
        let mut earlier = sample.clone();
        earlier.requests.insert("compute".to_owned(), 60.0);
        (earlier.failed, earlier.log, earlier.spent) = (8.0, 12_325.0, 0.5);
        let (hosts, migrations) = (
            hosts(),
            json!([{"instance_uuid": "s1", "migration_type": "live-migration",
            "source_compute": "h1", "dest_compute": "h2"}]),
        );
        let rates = Some(sample.since(&earlier, Duration::from_secs(2)));
        let view = TopView { sample: &sample, rates, hosts: &hosts, migrations: &migrations };
        let wanted = "\
chronova 0.1.0
log        10 events/s, position 12345, read models 5 events behind
requests   20 /s, 2 in flight, 25.0 ms on average, 1.0 errors/s; compute 20
hosts      3 up, 1 down, 0 in maintenance, 0 being drained; 11 servers
processes  4 under way, 1 stuck

HOST                             SERVERS  STATE TAKES NEW REASON
h3                                     0  down  no
h2                                     7  up    yes
... and 2 more

SERVER                                MIGRATION      FROM -> TO
s1                                    live-migration h1 -> h2
";
        assert_eq!(view.text(2, Paint { colours: false }), wanted);
        let painted = view.text(2, Paint { colours: true });
        assert!(painted.contains("\x1b[31m1 stuck\x1b[0m") && painted.contains("\x1b[31mdown \x1b[0m"), "{painted:?}");
    }

    #[test]
    fn a_reason_does_not_control_the_terminal() {
        let sample = TopSample::of(TEXT);
        let mut hosts = hosts();
        hosts[2]["disabled_reason"] = json!("off\u{1b}[2J\nh9");
        let migrations = json!([]);
        let view = TopView { sample: &sample, rates: None, hosts: &hosts, migrations: &migrations };
        let text = view.text(20, Paint { colours: false });
        assert!(text.contains("  no        off?[2J?h9\n"), "{text}");
    }

    #[test]
    fn the_first_view_has_no_rates() {
        let sample = TopSample::of(TEXT);
        let (hosts, migrations) = (json!([]), json!([]));
        let view = TopView { sample: &sample, rates: None, hosts: &hosts, migrations: &migrations };
        let text = view.text(20, Paint { colours: false });
        assert!(text.contains("log        - events/s") && text.contains("requests   - /s, 2 in flight\n"), "{text}");
        assert!(!text.contains("HOST") && !text.contains("SERVER "), "{text}");
    }
}
