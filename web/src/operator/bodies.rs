//! The bodies of operations on a host.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ctx::Ctx;
use crate::fault::Fault;

/// The most parallel moves of a drain. More moves from one host do not make the drain faster.
const MOST_PARALLEL: u32 = 64;
/// The parallel moves of a drain, if the number of live migrations is not limited.
const UNLIMITED: u32 = 4;
/// The longest reason, as in the Compute API for disabled services.
const LONGEST_REASON: usize = 255;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DrainRequest {
    parallel: Option<u32>,
    reason: Option<String>,
}

impl DrainRequest {
    /// Reads the value under `key`, the only key of the body. An empty body is accepted.
    pub(super) fn of(ctx: &Ctx, key: &str) -> Result<Self, Fault> {
        let wrong = |error: String| Fault::bad_request(format!("The body is not a valid {key}: {error}."));
        let request: Self = match &ctx.body {
            Value::Null => Self::default(),
            Value::Object(body) if body.is_empty() => Self::default(),
            Value::Object(body) if body.len() == 1 => {
                let value = body.get(key).ok_or_else(|| wrong(format!("it has no {key}")))?;
                parsed(value).map_err(wrong)?
            }
            _ => return Err(wrong(format!("it must have {key} and nothing else"))),
        };
        if request.parallel.is_some_and(|parallel| !(1..=MOST_PARALLEL).contains(&parallel)) {
            return Err(wrong(format!("parallel must be a number from 1 to {MOST_PARALLEL}")));
        }
        if request.reason.as_ref().is_some_and(|reason| reason.trim().is_empty() || reason.len() > LONGEST_REASON) {
            return Err(wrong(format!("reason must have 1 to {LONGEST_REASON} bytes")));
        }
        Ok(request)
    }

    /// The number of parallel moves: by default one more than a host's limit of live migrations, so that the next move
    /// is ready when one ends.
    pub(super) fn parallel(&self, live_migrations_per_host: usize) -> u32 {
        self.parallel.unwrap_or_else(|| match u32::try_from(live_migrations_per_host) {
            Ok(0) => UNLIMITED,
            Ok(limit) => limit.saturating_add(1).min(MOST_PARALLEL),
            Err(_) => MOST_PARALLEL,
        })
    }

    pub(super) fn reason(self, otherwise: &str) -> Option<String> {
        Some(self.reason.unwrap_or_else(|| otherwise.to_owned()))
    }
}

fn parsed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}
