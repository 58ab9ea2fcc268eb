//! The report of a run.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::findings::ChaosFindings;
use super::settings::Settings;

/// The text report lists at most this many problems.
const REPORTED_PROBLEMS: usize = 20;

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn text(settings: &Settings, found: &ChaosFindings) -> String {
    let mut out = String::new();
    let (seed, operations) = (settings.seed, thousands(settings.operations.into()));
    let storage = if settings.shared_storage { " with one storage" } else { "" };
    let _ = writeln!(out, "chaos: seed {seed}, {operations} operations on {} hosts{storage}\n", settings.hosts);
    let _ = writeln!(out, "{:24}{:>8}{:>10}{:>9}{:>8}", "operation", "asked", "accepted", "refused", "failed");
    for (operation, one) in &found.tally.of {
        let (asked, accepted) = (thousands(one.asked), thousands(one.accepted));
        let (refused, failed) = (thousands(one.refused), thousands(one.failed));
        let _ = writeln!(out, "{:24}{asked:>8}{accepted:>10}{refused:>9}{failed:>8}", operation.name());
    }
    let _ = writeln!(out);
    for (what, times) in &found.faults_at_work.counts {
        let _ = writeln!(out, "{what:40}{:>8}", thousands(*times));
    }
    for (what, times) in &found.struck {
        let _ = writeln!(out, "{:40}{:>8}", format!("driver calls: {what}"), thousands(*times));
    }
    let unanswered = thousands(found.tally.unanswered());
    let _ = writeln!(out, "{:40}{unanswered:>8}", "requests that died with the control plane");
    let _ = writeln!(out);
    let (servers, migrations) = (thousands(found.servers as u64), thousands(found.migrations as u64));
    let _ = writeln!(out, "{servers} servers, {migrations} migrations, {} lives of the control plane", found.lives);
    let (lasted, took) = (found.lasted.as_secs() / 60, found.took.as_secs_f64());
    let _ = writeln!(out, "{lasted} minutes by the simulated clock, {took:.1} s on this machine");
    let _ = writeln!(out, "log: {} events, head {}", thousands(found.events), found.head);
    for (complaint, (index, times)) in &found.tally.complaints {
        let _ = writeln!(out, "failed {times} times, first at operation {index}: {complaint}");
    }
    if found.wrong.is_empty() {
        out.push_str(
            "nothing is stuck, nothing is left behind, read models equal a rebuild, \
             the hash chain of the log is intact\n",
        );
        return out;
    }
    let _ = writeln!(out, "\n{} things are WRONG:", found.wrong.len());
    for one in found.wrong.iter().take(REPORTED_PROBLEMS) {
        let server = one.server.map(|server| format!("{server}: ")).unwrap_or_default();
        let _ = writeln!(out, "  {server}{}", one.what);
    }
    if let more @ 1.. = found.wrong.len().saturating_sub(REPORTED_PROBLEMS) {
        let _ = writeln!(out, "  ... and {more} more");
    }
    for story in &found.stories {
        let _ = write!(out, "\n{story}");
    }
    let _ = writeln!(out, "\nThe same again: {}", settings.command());
    out
}

pub(super) fn json(settings: &Settings, found: &ChaosFindings) -> Value {
    let operations: serde_json::Map<String, Value> = found
        .tally
        .of
        .iter()
        .map(|(operation, one)| {
            let counts = json!({
                "asked": one.asked, "accepted": one.accepted, "refused": one.refused, "failed": one.failed,
            });
            (operation.name().to_owned(), counts)
        })
        .collect();
    let wrong: Vec<Value> = found
        .wrong
        .iter()
        .map(|one| json!({"server": one.server.map(|server| server.to_string()), "what": one.what}))
        .collect();
    json!({
        "seed": settings.seed,
        "operations": settings.operations,
        "hosts": settings.hosts,
        "shared_storage": settings.shared_storage,
        "by_operation": operations,
        "faults_at_work": found.faults_at_work.counts,
        "struck": found.struck.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "unanswered": found.tally.unanswered(),
        "complaints": found.tally.complaints.keys().collect::<Vec<_>>(),
        "lives": found.lives,
        "servers": found.servers,
        "migrations": found.migrations,
        "events": found.events,
        "head": found.head.to_string(),
        "seconds": found.took.as_secs_f64(),
        "wrong": wrong,
        "command": settings.command(),
    })
}
