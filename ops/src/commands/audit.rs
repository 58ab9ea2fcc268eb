//! `chronova audit`: the log as JSON lines, one event each, oldest first.
//!
//! What a field of an event says is printed as it was recorded, except secrets (hashes of passwords, keys), which an
//! auditor has no use for. A filter given twice takes what either takes; different filters must all agree.

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::ControlFlow;
use std::time::Duration;

use chronova_events::envelope::{Cause, Position, Recorded, Timestamp};
use chronova_events::ids::InstanceId;
use chronova_events::registry::Event;
use chronova_events::store::EventStore;
use serde_json::{Value, json};
use uuid::Uuid;

use super::log_pages::{mentions, payload, walk};
use super::when::When;
use super::{CommandFailure, Exit};

/// How often the log of another process is looked at.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Only streams that begin so, or match a pattern: `instance`, `quota-*`, `instance-1b2c*`
    #[arg(long, value_name = "PATTERN")]
    pub stream: Vec<String>,
    /// Only kinds of events that begin so, or match a pattern: `instance.build`, `*_failed`
    #[arg(long, value_name = "PATTERN")]
    pub kind: Vec<String>,
    /// Only what this user (id) asked for directly
    #[arg(long, value_name = "ID")]
    pub user: Vec<String>,
    /// Only what was asked for in this project (id)
    #[arg(long, value_name = "ID")]
    pub project: Vec<String>,
    /// Only what follows from this request: `req-...`
    #[arg(long, value_name = "ID")]
    pub request_id: Vec<String>,
    /// Only this server and everything that was done for it, in whatever stream
    #[arg(long, value_name = "UUID")]
    pub instance: Vec<InstanceId>,
    /// Only what was recorded from then on: 2026-01-31T12:00:00Z, 2026-01-31, 15m (ago)
    #[arg(long, value_name = "TIME")]
    pub since: Option<When>,
    /// Only what was recorded before then
    #[arg(long, value_name = "TIME")]
    pub until: Option<When>,
    /// Only from this position of the log on
    #[arg(long, value_name = "N")]
    pub from_position: Option<u64>,
    /// Only up to and with this position of the log
    #[arg(long, value_name = "N")]
    pub to_position: Option<u64>,
    /// Go on with what is recorded from now on
    #[arg(long, short)]
    pub follow: bool,
}

impl Args {
    fn after(&self) -> Position {
        Position(self.from_position.map_or(0, |position| position.saturating_sub(1)))
    }

    fn last(&self) -> Position {
        Position(self.to_position.unwrap_or(u64::MAX))
    }
}

/// Prints what `args` ask for.
pub async fn run(
    args: &Args,
    store: &dyn EventStore,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let mut filter = Filter::new(args, now);
    if !args.instance.is_empty() {
        // What was done for a server can stand before the server's own first event, so its requests are learnt first.
        walk(store, Position::START, args.last(), |recorded| {
            filter.learn(recorded);
            Ok(ControlFlow::Continue(()))
        })
        .await?;
    }
    let mut at = args.after();
    loop {
        at = walk(store, at, args.last(), |recorded| {
            filter.learn(recorded);
            if filter.admits(recorded) {
                writeln!(out, "{}", line(recorded)?)?;
            }
            Ok(ControlFlow::Continue(()))
        })
        .await?;
        out.flush()?;
        if !args.follow || at >= args.last() {
            return Ok(Exit::Yes);
        }
        tokio::time::sleep(FOLLOW_EVERY).await;
    }
}

/// One event as one line.
pub fn line(recorded: &Recorded) -> Result<Value, CommandFailure> {
    let meta = &recorded.meta;
    Ok(json!({
        "position": recorded.position.0,
        "stream": recorded.stream.as_str(),
        "revision": recorded.revision.0,
        "id": recorded.id.to_string(),
        "kind": &*recorded.kind,
        "version": recorded.version,
        "recorded_at": recorded.recorded_at.to_string(),
        "request_id": meta.request_id.as_ref().map(ToString::to_string),
        "correlation": meta.correlation.to_string(),
        "causation": meta.causation.map(|id| id.to_string()),
        "cause": cause(&meta.cause),
        "payload": shown(payload(recorded)?),
    }))
}

fn cause(cause: &Cause) -> Value {
    match cause {
        Cause::User { user, project, roles } => {
            json!({"user": user.as_str(), "project": project.as_ref().map(ToString::to_string), "roles": roles})
        }
        Cause::Process { process } => json!({"process": process.to_string()}),
        Cause::System { part } => json!({"system": part}),
    }
}

/// The payload without secrets.
pub(super) fn shown(event: &Event) -> Value {
    let mut value = event.json();
    hide(&mut value);
    value
}

const SECRET_WORDS: [&str; 4] = ["password", "secret", "private_key", "hash"];
/// Contain a secret word and are none.
const PUBLIC: [&str; 2] = ["checksum_hash", "image_hash"];

fn hide(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                let secret = SECRET_WORDS.iter().any(|word| key.contains(word)) && !PUBLIC.contains(&key.as_str());
                if secret && !inner.is_null() && !inner.is_boolean() {
                    *inner = Value::from("(hidden)");
                } else {
                    hide(inner);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

/// What is printed.
struct Filter<'a> {
    args: &'a Args,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    /// The requests that had to do with the servers asked for.
    correlations: BTreeSet<Uuid>,
}

impl<'a> Filter<'a> {
    fn new(args: &'a Args, now: Timestamp) -> Self {
        let resolve = |when: When| when.resolve(now);
        Self { args, since: args.since.map(resolve), until: args.until.map(resolve), correlations: BTreeSet::new() }
    }

    fn learn(&mut self, recorded: &Recorded) {
        if self.args.instance.iter().any(|id| recorded.stream.category() == "instance" && key_is(recorded, *id)) {
            self.correlations.insert(recorded.meta.correlation);
        }
    }

    fn admits(&self, recorded: &Recorded) -> bool {
        let args = self.args;
        let meta = &recorded.meta;
        let (user, project) = match &meta.cause {
            Cause::User { user, project, .. } => {
                (Some(user.as_str()), project.as_ref().map(chronova_events::ids::ProjectId::as_str))
            }
            Cause::Process { .. } | Cause::System { .. } => (None, None),
        };
        let request = meta.request_id.as_ref().map(chronova_events::ids::RequestId::as_str);
        any(&args.stream, |pattern| matches(pattern, recorded.stream.as_str()))
            && any(&args.kind, |pattern| matches(pattern, &recorded.kind))
            && any(&args.user, |wanted| user == Some(wanted))
            && any(&args.project, |wanted| project == Some(wanted))
            && any(&args.request_id, |wanted| {
                request.is_some_and(|id| id == wanted || id.strip_prefix("req-") == Some(wanted))
            })
            && self.since.is_none_or(|since| recorded.recorded_at >= since)
            && self.until.is_none_or(|until| recorded.recorded_at < until)
            && (args.instance.is_empty() || self.concerns_a_server(recorded))
    }

    fn concerns_a_server(&self, recorded: &Recorded) -> bool {
        self.correlations.contains(&recorded.meta.correlation)
            || self.args.instance.iter().any(|id| key_is(recorded, *id) || mentions(recorded, id.0))
    }
}

fn key_is(recorded: &Recorded, id: InstanceId) -> bool {
    recorded.stream.key().parse() == Ok(id)
}

fn any(wanted: &[String], test: impl Fn(&str) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(|one| test(one))
}

/// `*` stands for anything, `?` for one character; a pattern with neither is the beginning of what it matches.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return text.starts_with(pattern);
    }
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // Where the last `*` stands, and how much of the text it has eaten.
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, eaten)) => {
                    star = Some((at, eaten + 1));
                    (p, t) = (at + 1, eaten + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text) in
            [("instance", "instance-1"), ("*_failed", "process.step_failed"), ("i*1?3", "instance-123"), ("*", "")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        assert!(!matches("quota", "a-quota") && !matches("*_failed", "a_failed_b") && !matches("a?", "a"));
    }

    #[test]
    fn secrets_are_hidden_and_flags_are_not() {
        let mut value = json!({"a": [{"password_hash": "x", "name": "n"}], "password_changed": true, "secret": null});
        hide(&mut value);
        let expected =
            json!({"a": [{"password_hash": "(hidden)", "name": "n"}], "password_changed": true, "secret": null});
        assert_eq!(value, expected);
    }
}
