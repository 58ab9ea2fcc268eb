//! The bodies of the operators' operations.

use std::collections::BTreeMap;

use chronova_actors::operations::heal_allocations::HealRequest;
use chronova_events::instance::SortedPairs;
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

/// The longest URI of a host.
const LONGEST_URI: usize = 1_024;

/// `{"host": {"uri": "qemu+tls://compute-7/system"}}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewHostBody {
    pub(super) uri: String,
}

impl NewHostBody {
    pub(super) fn of(ctx: &Ctx) -> Result<Self, Fault> {
        let wrong = |error: String| Fault::bad_request(format!("The body is not a valid host: {error}."));
        let given = match &ctx.body {
            Value::Object(body) if body.len() == 1 => body.get("host"),
            _ => None,
        };
        let given = given.ok_or_else(|| wrong("it must have host and nothing else".to_owned()))?;
        let body: Self = parsed(given).map_err(wrong)?;
        if body.uri.len() > LONGEST_URI || body.uri.chars().any(|sign| sign.is_control() || sign.is_whitespace()) {
            return Err(wrong(format!("uri must have at most {LONGEST_URI} bytes and no spaces")));
        }
        Ok(body)
    }
}

/// The most image properties of one request.
const MOST_PROPERTIES: usize = 128;

/// `{"image_properties": {"hw_disk_bus": "scsi"}}`.
pub(super) struct ImagePropertiesBody(pub(super) SortedPairs);

impl ImagePropertiesBody {
    pub(super) fn of(ctx: &Ctx) -> Result<Self, Fault> {
        let wrong = |error: String| Fault::bad_request(format!("The body is not valid image_properties: {error}."));
        let given = match &ctx.body {
            Value::Object(body) if body.len() == 1 => body.get("image_properties"),
            _ => None,
        };
        let given = given.ok_or_else(|| wrong("it must have image_properties and nothing else".to_owned()))?;
        let pairs: BTreeMap<String, String> = parsed(given).map_err(wrong)?;
        match pairs.len() {
            1..=MOST_PROPERTIES => Ok(Self(pairs.into_iter().collect())),
            _ => Err(wrong(format!("give 1 to {MOST_PROPERTIES} properties"))),
        }
    }
}

/// `{"connector": {"host": "h1"}}`: a host's connector, of which only the host counts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConnectorBody {
    pub(super) host: String,
}

impl ConnectorBody {
    pub(super) fn of(ctx: &Ctx) -> Result<Self, Fault> {
        let wrong = |error: String| Fault::bad_request(format!("The body is not a valid connector: {error}."));
        let given = match &ctx.body {
            Value::Object(body) if body.len() == 1 => body.get("connector"),
            _ => None,
        };
        let given = given.ok_or_else(|| wrong("it must have connector and nothing else".to_owned()))?;
        parsed(given).map_err(wrong)
    }
}

/// `{"machine_type": {"name": "pc-q35-7.2", "force": false}}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineTypeBody {
    pub(super) name: String,
    #[serde(default)]
    pub(super) force: bool,
}

impl MachineTypeBody {
    pub(super) fn of(ctx: &Ctx) -> Result<Self, Fault> {
        let wrong = |error: String| Fault::bad_request(format!("The body is not a valid machine_type: {error}."));
        let given = match &ctx.body {
            Value::Object(body) if body.len() == 1 => body.get("machine_type"),
            _ => None,
        };
        let given = given.ok_or_else(|| wrong("it must have machine_type and nothing else".to_owned()))?;
        parsed(given).map_err(wrong)
    }
}

/// The request to heal a server's allocations.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HealBody {
    force: bool,
    dry_run: bool,
    skip_ports: bool,
}

impl HealBody {
    /// Reads `{"heal": {"force": false, "dry_run": false, "skip_ports": false}}`. An empty body is accepted.
    pub(super) fn of(ctx: &Ctx) -> Result<Self, Fault> {
        let wrong = |error: String| Fault::bad_request(format!("The body is not a valid heal: {error}."));
        match &ctx.body {
            Value::Null => Ok(Self::default()),
            Value::Object(body) if body.is_empty() => Ok(Self::default()),
            Value::Object(body) if body.len() == 1 => {
                let value = body.get("heal").ok_or_else(|| wrong("it has no heal".to_owned()))?;
                parsed(value).map_err(wrong)
            }
            _ => Err(wrong("it must have heal and nothing else".to_owned())),
        }
    }
}

impl From<HealBody> for HealRequest {
    fn from(body: HealBody) -> Self {
        Self { force: body.force, dry_run: body.dry_run, skips_ports: body.skip_ports }
    }
}

fn parsed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}
