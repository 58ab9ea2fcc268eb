//! Time travel over HTTP: `?as_of=` on the operations whose routes take it.
//!
//! Other operations refuse the parameter, because their answer would be about today.
//!
//! The parameter is Chronova's own: no microversion of Nova or Placement has it, and their clients never send it.
//! Chronova removes the parameter from the query string before the schema sees it, so that it works at every
//! microversion. `chronova:as_of` is its full name. An answer about the past has the header `X-Chronova-As-Of` with the
//! position of its state. A live answer of the same operation has the header `X-Chronova-Position`, unless the read
//! models changed while the answer was made. A query with `as_of` and that position reproduces the answer, except for
//! measurements of hosts.
//!
//! Invariant: a query about the past needs the right of [`rule`] in addition to the operation's own rule. By default
//! only administrators have that right, because the log does not tell which roles a caller had at that time.

use std::sync::Arc;

use chrono::DateTime;
use chronova_events::envelope::{Position, Timestamp};
use chronova_events::error_chain::ErrorChain;
use chronova_events::store::StoreError;
use chronova_projections::history::{HistoryError, PastMoment};
use chronova_projections::runner::ProjectionError;
use chronova_projections::views::Views;
use serde_json::{Value, json};

use crate::app::App;
use crate::fault::Fault;
use crate::query::Query;
use crate::route::Route;
use crate::service::Service;

/// The policy rule for queries with `as_of`, and the service whose policy has it. Placement has a rule of its own. The
/// rule of Compute holds for all other APIs.
pub const fn rule(service: Service) -> (Service, &'static str) {
    match service {
        Service::Placement => (Service::Placement, "placement:chronova:as_of"),
        _ => (Service::Compute, "os_compute_api:chronova:as_of"),
    }
}

/// The header of an answer about the past. Its value is the position of the shown state in the log.
pub const AS_OF: &str = "X-Chronova-As-Of";
/// The header of a live answer. Its value is the position with which `as_of` reproduces the answer.
pub const POSITION: &str = "X-Chronova-Position";
const KEYS: [&str; 2] = ["as_of", "chronova:as_of"];
/// An error message repeats at most this many characters of a sent value.
const SHOWN: usize = 64;

/// The parameter in the OpenAPI document.
pub(crate) fn parameter() -> Value {
    json!({
        "name": "as_of",
        "in": "query",
        "required": false,
        "description": "Answers as of this time or position of the log. Its full name is chronova:as_of.",
        "schema": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer", "minimum": 0}]},
    })
}

/// Whether the query is about the past.
pub(crate) fn is_in(query: &Query) -> bool {
    query.pairs().iter().any(|(key, _)| KEYS.contains(&key.as_str()))
}

/// Removes `as_of` from the query and returns its moment, if the client sent one. Refuses `as_of` on an operation that
/// cannot answer from the log: an answer about today would be taken for one about the past.
pub(crate) fn take(route: &Route, query: &mut Query) -> Result<Option<PastMoment>, Fault> {
    if !route.as_of && is_in(query) {
        return Err(Fault::bad_request(format!("{} does not take as_of: it cannot answer about the past.", route.op)));
    }
    taken(query)
}

fn taken(query: &mut Query) -> Result<Option<PastMoment>, Fault> {
    let values: Vec<&str> =
        query.pairs().iter().filter(|(key, _)| KEYS.contains(&key.as_str())).map(|(_, value)| value.as_str()).collect();
    let moment = match values.as_slice() {
        [] => return Ok(None),
        [value] => read(value)?,
        _ => return Err(Fault::bad_request("as_of may be given once only.")),
    };
    query.retain(|key| !KEYS.contains(&key));
    Ok(Some(moment))
}

fn read(text: &str) -> Result<PastMoment, Fault> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(|position| PastMoment::Position(Position(position))).map_err(|_| bad(text));
    }
    // If the client did not escape the plus sign of an offset, the plus sign has become a blank.
    let at = DateTime::parse_from_rfc3339(text).or_else(|_| DateTime::parse_from_rfc3339(&text.replace(' ', "+")));
    at.map(|at| PastMoment::Time(Timestamp(at.timestamp_micros()))).map_err(|_| bad(text))
}

fn bad(text: &str) -> Fault {
    let shown: String = text.chars().take(SHOWN).collect();
    Fault::bad_request(format!(
        "Invalid as_of '{shown}': give a time as 2026-01-31T12:00:00Z, or a position of the log as a whole number."
    ))
}

/// The read models as they were at `moment`.
pub(crate) async fn views(app: &App, moment: PastMoment) -> Result<Arc<Views>, Fault> {
    let history = app.history().ok_or_else(|| Fault::not_implemented("This server keeps no past states."))?;
    history.at(moment, app.queries()?.clock.now()).await.map_err(fault)
}

fn fault(error: HistoryError) -> Fault {
    match error {
        HistoryError::AfterHead { asked, head } => Fault::bad_request(format!(
            "Invalid as_of: position {asked} is after the end of the log, which is at {head}."
        )),
        HistoryError::Future { asked, now } => {
            Fault::bad_request(format!("Invalid as_of: {asked} is in the future; it is {now}."))
        }
        HistoryError::Busy => {
            Fault::too_many_requests("Too many queries about the past are running; try again in a few seconds.", 5)
        }
        error @ HistoryError::TooLarge { .. } => Fault::unavailable(format!("{}.", capital(&error.to_string()))),
        HistoryError::Projection(error) => {
            let told = match &error {
                ProjectionError::Store(StoreError::ArchiveAway { .. }) => {
                    "The events of that time are in the archive of the event log, and the archive cannot be read now. \
                     Try again later."
                }
                _ => "The log cannot be read back to that moment now.",
            };
            Fault::unavailable(told).caused_by(ErrorChain(&error))
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read_from(text: &str) -> Result<(Option<PastMoment>, Query), Fault> {
        let mut query = Query::parse(text).unwrap();
        taken(&mut query).map(|moment| (moment, query))
    }

    #[test]
    fn positions_and_times() {
        let noon = PastMoment::Time(Timestamp(1_769_860_800_000_000));
        let moments = [
            ("as_of=17", PastMoment::Position(Position(17))),
            ("chronova:as_of=0", PastMoment::Position(Position(0))),
            ("chronova%3Aas_of=17", PastMoment::Position(Position(17))),
            ("as_of=2026-01-31T12:00:00Z", noon),
            ("as_of=2026-01-31T13:00:00%2B01:00", noon),
            ("as_of=2026-01-31T13:00:00+01:00", noon),
            ("as_of=2026-01-31T12:00:00.000000Z", noon),
        ];
        for (text, moment) in moments {
            let (found, rest) = read_from(&format!("limit=2&{text}&name=x")).unwrap();
            assert_eq!(found, Some(moment), "{text}");
            assert_eq!(rest, Query::parse("limit=2&name=x").unwrap());
        }
        assert_eq!(read_from("limit=2").unwrap().0, None);
    }

    #[test]
    fn refusals_say_how_to_write_as_of() {
        for text in ["", "-1", "1.5", "now", "yesterday", "2026-01-31", "99999999999999999999", "0x10", "%00"] {
            let fault = read_from(&format!("as_of={text}")).unwrap_err();
            assert!(fault.status == 400 && fault.message.contains("2026-01-31T12:00:00Z"), "{text}: {fault}");
        }
        assert!(read_from(&format!("as_of={}", "x".repeat(10_000))).unwrap_err().message.len() < 250);
        assert_eq!(read_from("as_of=1&chronova:as_of=1").unwrap_err().status, 400);
    }
}
