//! The query parameters of the audit API. An event must match every given filter. If a client gives a filter several
//! times, one of its values must match. If a client gives a time, a position or the limit several times, the last value
//! is used.

use chrono::DateTime;
use chronova_events::envelope::{Position, Timestamp};
use chronova_events::store::criteria::Criteria;
use uuid::Uuid;

use crate::fault::Fault;
use crate::query::Query;

/// Parameters that the listing takes. Any other is refused, because ignoring a misspelt filter would show all events.
const KNOWN: [&str; 15] = [
    "stream",
    "kind",
    "user",
    "project",
    "request_id",
    "address",
    "server",
    "host",
    "since",
    "until",
    "after",
    "up_to",
    "limit",
    "format",
    "follow",
];
/// The most values of one parameter.
const MOST: usize = 64;

/// The parsed query, without the format of the answer.
#[derive(Debug, Clone)]
pub(super) struct AuditQuery {
    pub criteria: Criteria,
    /// Only events after this position.
    pub after: Position,
    /// Only events up to this position, inclusive.
    pub up_to: Position,
}

impl AuditQuery {
    /// Parses the query. `named` gets the filter (`server` or `host`) and a name, and returns the ids with that name.
    pub(super) fn parse(query: &Query, named: impl Fn(&str, &str) -> Vec<Uuid>) -> Result<Self, Fault> {
        for (key, _) in query.pairs() {
            if !KNOWN.contains(&key.as_str()) {
                return Err(Fault::bad_request(format!(
                    "The filter {key:?} is unknown; the known filters are {}.",
                    KNOWN.join(", ")
                )));
            }
            if query.all(key).count() > MOST {
                return Err(Fault::bad_request(format!("{key} may be given {MOST} times at the most.")));
            }
        }
        let all = |key| query.all(key).map(str::to_owned).collect::<Vec<_>>();
        let things = |key| -> Result<Vec<Uuid>, Fault> {
            Ok(query.all(key).map(|value| ids(key, value, &named)).collect::<Result<Vec<_>, _>>()?.concat())
        };
        let criteria = Criteria {
            streams: all("stream"),
            kinds: all("kind"),
            users: all("user"),
            projects: all("project"),
            request_ids: all("request_id"),
            since: time(query, "since")?,
            until: time(query, "until")?,
            addresses: all("address"),
            servers: things("server")?,
            hosts: things("host")?,
            ..Criteria::default()
        };
        let after = number(query, "after")?.map_or(Position::START, Position);
        let up_to = number(query, "up_to")?.map_or(Position(u64::MAX), Position);
        Ok(Self { criteria, after, up_to })
    }
}

/// The ids for a value of the filter `server` or `host`. If several hosts had the name, one after the other, all of
/// them match. A name that several servers have is refused.
fn ids(key: &str, value: &str, named: impl Fn(&str, &str) -> Vec<Uuid>) -> Result<Vec<Uuid>, Fault> {
    if let Ok(id) = Uuid::parse_str(value) {
        return Ok(vec![id]);
    }
    let found = named(key, value);
    match found.len() {
        0 => Err(Fault::bad_request(format!(
            "No {key} has the name {value:?}. For a {key} that is gone, give its UUID."
        ))),
        many @ 2.. if key == "server" => {
            Err(Fault::bad_request(format!("{many} servers have the name {value:?}: give the UUID of one.")))
        }
        _ => Ok(found),
    }
}

/// The `limit` parameter, capped at `most`.
pub(super) fn limit(query: &Query, most: u64) -> Result<usize, Fault> {
    let limit = number(query, "limit")?.unwrap_or(most).min(most);
    if limit == 0 {
        return Err(wrong("limit", "0", "a number from 1 on"));
    }
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

fn number(query: &Query, key: &'static str) -> Result<Option<u64>, Fault> {
    let parse = |text: &str| text.parse().map_err(|_| wrong(key, text, "a number"));
    query.last(key).map(parse).transpose()
}

fn time(query: &Query, key: &'static str) -> Result<Option<Timestamp>, Fault> {
    let parse = |text: &str| {
        let time = DateTime::parse_from_rfc3339(text);
        time.map(|time| Timestamp(time.timestamp_micros())).map_err(|_| wrong(key, text, "a time as in RFC 3339"))
    };
    query.last(key).map(parse).transpose()
}

fn wrong(key: &str, value: &str, wanted: &str) -> Fault {
    Fault::bad_request(format!("{key} is {value:?}, but must be {wanted}."))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> Result<AuditQuery, String> {
        let named = |key: &str, name: &str| match (key, name) {
            ("server", "web-1") | ("host", "h1") => vec![Uuid::from_u128(8)],
            (_, "twice") => vec![Uuid::from_u128(8), Uuid::from_u128(9)],
            _ => Vec::new(),
        };
        AuditQuery::parse(&Query::parse(text).unwrap(), named).map_err(|fault| fault.message.clone())
    }

    #[test]
    fn filters() {
        let server = Uuid::from_u128(7);
        let asked = parse(&format!("kind=instance&kind=*_failed&server={server}&since=2026-01-31T12:00:00Z&after=9"));
        let AuditQuery { criteria, after, up_to } = asked.unwrap();
        assert_eq!(criteria.kinds, ["instance", "*_failed"]);
        assert_eq!((criteria.servers, after, up_to), (vec![server], Position(9), Position(u64::MAX)));
        assert_eq!(criteria.since, Some(Timestamp(1_769_860_800_000_000)));
        assert!(parse("knd=x").unwrap_err().contains("\"knd\" is unknown"));
        for (text, servers, hosts) in [
            ("server=web-1", vec![8], vec![]),
            ("host=h1&server=web-1", vec![8], vec![8]),
            ("host=twice", vec![], vec![8, 9]),
        ] {
            let criteria = parse(text).unwrap().criteria;
            let numbers = |ids: &[Uuid]| ids.iter().map(Uuid::as_u128).collect::<Vec<_>>();
            assert_eq!((numbers(&criteria.servers), numbers(&criteria.hosts)), (servers, hosts), "{text}");
        }
        assert!(parse("host=web-1").unwrap_err().contains("No host has the name \"web-1\""));
        assert!(parse("server=twice").unwrap_err().contains("2 servers have the name \"twice\""));
        for bad in ["since=yesterday", "after=-1"] {
            assert!(parse(bad).unwrap_err().contains("but must be"), "{bad}");
        }
        assert!(parse(&"user=a&".repeat(65)).unwrap_err().contains("64 times"));
        assert!(limit(&Query::parse("limit=0").unwrap(), 10).is_err());
        assert_eq!(limit(&Query::parse("limit=99").unwrap(), 10).unwrap(), 10);
    }
}
