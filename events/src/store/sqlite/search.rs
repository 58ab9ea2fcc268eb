//! Searches by SQL on the columns, so that most events that do not match are neither read nor decoded.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::types::Value;
use uuid::Uuid;

use super::reader::{head, next};
use super::row::{COLUMNS, Kinds, RowReader};
use super::schema::{bound, limit as sql_limit};
use super::{error, floor};
use crate::envelope::Position;
use crate::store::StoreError;
use crate::store::criteria::{Criteria, EventSearchResult, matches};

/// The number of positions per query. A long search releases the connection between queries.
const WINDOW: u64 = 65_536;
/// The number of positions per query in the archive, where a position takes more time.
const ARCHIVE_WINDOW: u64 = 8_192;

/// The conditions of a search: terms that must all hold, and their parameters.
#[derive(Default)]
struct SqlTerms {
    all: Vec<String>,
    values: Vec<Value>,
}

impl SqlTerms {
    /// Adds `value` as a parameter and returns its placeholder.
    fn bind(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len())
    }

    /// Requires one of these terms, if there are any.
    fn any(&mut self, terms: &[String]) {
        if !terms.is_empty() {
            self.all.push(format!("({})", terms.join(" OR ")));
        }
    }

    fn one_of(&mut self, column: &str, wanted: impl IntoIterator<Item = Value>) -> Option<String> {
        let places: Vec<String> = wanted.into_iter().map(|value| self.bind(value)).collect();
        (!places.is_empty()).then(|| format!("{column} IN ({})", places.join(", ")))
    }

    fn of(criteria: &Criteria, kinds: &Kinds) -> Self {
        let mut terms = Self::default();
        let text = |all: &[String]| all.iter().cloned().map(Value::Text).collect::<Vec<_>>();
        if !criteria.kinds.is_empty() {
            let wanted = |name: &str| criteria.kinds.iter().any(|pattern| matches(pattern, name));
            let ids: Vec<String> =
                kinds.names.iter().filter(|(_, name)| wanted(name)).map(|(id, _)| id.to_string()).collect();
            terms.all.push(format!("e.kind IN ({})", ids.join(", ")));
        }
        let streams: Vec<String> = criteria.streams.iter().map(|pattern| terms.bind(glob(pattern))).collect();
        terms.any(&streams.iter().map(|place| format!("s.name GLOB {place}")).collect::<Vec<_>>());
        for (column, wanted) in [("e.user", &criteria.users), ("e.project", &criteria.projects)] {
            let term = terms.one_of(column, text(wanted));
            terms.any(term.as_slice());
        }
        let both = criteria.request_ids.iter().flat_map(|id| [id.clone(), format!("req-{id}")]);
        let term = terms.one_of("e.request_id", both.map(Value::Text));
        terms.any(term.as_slice());
        if let Some(since) = criteria.since {
            let place = terms.bind(since.0);
            terms.all.push(format!("e.recorded_at >= {place}"));
        }
        if let Some(until) = criteria.until {
            let place = terms.bind(until.0);
            terms.all.push(format!("e.recorded_at < {place}"));
        }
        // SQL has a limit on parameters. If a server has more requests, [`Criteria::admits`] alone decides.
        if criteria.correlations.len() <= 1_000 {
            terms.things(&criteria.servers, &criteria.correlations);
        }
        terms.things(&criteria.hosts, &BTreeSet::new());
        terms
    }

    /// Requires an event that concerns one of `things`, if there are any.
    fn things(&mut self, things: &[Uuid], correlations: &BTreeSet<Uuid>) {
        if things.is_empty() {
            return;
        }
        let correlations = correlations.iter().map(|id| Value::Blob(id.as_bytes().to_vec()));
        let mut ways: Vec<String> = self.one_of("e.correlation", correlations).into_iter().collect();
        for thing in things {
            let (dashed, plain) = (thing.to_string(), thing.simple().to_string());
            let ends = self.bind(format!("*-{dashed}"));
            ways.push(format!("s.name GLOB {ends}"));
            for needle in [thing.as_bytes().as_slice(), dashed.as_bytes(), plain.as_bytes()] {
                let place = self.bind(needle.to_vec());
                ways.push(format!("instr(e.data, {place}) > 0"));
            }
        }
        self.any(&ways);
    }
}

/// Converts a pattern of [`matches`] to a GLOB pattern of SQLite.
fn glob(pattern: &str) -> String {
    let escaped = pattern.replace('[', "[[]");
    if pattern.contains(['*', '?']) { escaped } else { escaped + "*" }
}

/// Searches the archive, which has no columns: each event is read and compared.
fn search_archive(
    connection: &Connection,
    kinds: &Kinds,
    after: Position,
    last: u64,
    limit: usize,
    criteria: &Criteria,
) -> Result<EventSearchResult, StoreError> {
    let last = last.min(after.0.saturating_add(ARCHIVE_WINDOW));
    let (cold, mut events, mut at) = (floor::archive(connection, kinds)?, Vec::new(), after.0);
    while at < last {
        for event in cold.read(at, last, kinds.keys.as_ref())? {
            at = event.position.0;
            if !criteria.admits(&event) {
                continue;
            }
            events.push(Arc::new(event));
            if events.len() >= limit.max(1) {
                return Ok(EventSearchResult { events, until: Position(at) });
            }
        }
    }
    Ok(EventSearchResult { events, until: Position(last) })
}

pub(super) fn search(
    connection: &Connection,
    kinds: &Kinds,
    after: Position,
    limit: usize,
    criteria: &Criteria,
    durable: Position,
) -> Result<EventSearchResult, StoreError> {
    let _snapshot = floor::snapshot(connection)?;
    let last = head(connection)?.min(durable).0.min(after.0.saturating_add(WINDOW));
    if last <= after.0 {
        return Ok(EventSearchResult { events: Vec::new(), until: after });
    }
    let floor = floor::position(connection)?;
    if after.0 < floor {
        return search_archive(connection, kinds, after, last.min(floor), limit, criteria);
    }
    let fail = |e: rusqlite::Error| error::explain(&e, after.0 + 1);
    let mut terms = SqlTerms::of(criteria, kinds);
    let (from, to) = (terms.bind(bound(after.0)), terms.bind(bound(last)));
    let most = terms.bind(sql_limit(limit.max(1)));
    terms.all.push(format!("e.position > {from} AND e.position <= {to}"));
    let sql = format!(
        "SELECT {COLUMNS} FROM events e LEFT JOIN streams s ON s.id = e.stream WHERE {} ORDER BY e.position LIMIT {most}",
        terms.all.join(" AND ")
    );
    let mut statement = connection.prepare(&sql).map_err(fail)?;
    let mut rows = statement.query(rusqlite::params_from_iter(&terms.values)).map_err(fail)?;
    let mut reader = RowReader::new(kinds);
    let (mut events, mut seen, mut at) = (Vec::new(), 0, after);
    while let Some(event) = next(&mut rows, &mut reader, at.0 + 1)? {
        seen += 1;
        at = event.position;
        // SQL may match too much (patterns that GLOB interprets differently, an id inside sealed bytes). `admits` is
        // exact.
        if criteria.admits(&event) {
            events.push(Arc::new(event));
        }
    }
    let until = if seen >= limit.max(1) { at } else { Position(last) };
    Ok(EventSearchResult { events, until })
}
