//! Forecasts, which run the scheduler and change nothing: the host that a server would get, and the plan of a drain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_actors::operations::Queries;
use chronova_actors::operations::forecasts::{PlannedDeparture, PlannedServer};
use chronova_actors::ports::PortError;
use chronova_actors::scheduler::{RequestSpec, SchedulingDecision};
use chronova_events::ids::{ImageId, ProjectId};
use chronova_events::instance::FlavorSnapshot;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answers;
use super::hosts::find;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get, post};

const RULE: &str = "chronova:scheduler:what_if";

pub(super) const ROUTES: &[Route] = &[
    post("operator.scheduler.what_if", "/scheduler/what-if", handler!(what_if))
        .any_body()
        .policy(RULE)
        .answers(answers::decisions),
    get("operator.hosts.drain.plan", "/hosts/{host}/drain/plan", handler!(plan))
        .policy(RULE)
        .answers(answers::drain_plan),
];

/// The most servers of one question. Each server costs a scheduling decision.
const MOST: usize = 200;
/// The most hints, and the most extra specs.
const MOST_PAIRS: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WhatIfRequest {
    /// Name or id.
    flavor: String,
    image: Option<ImageId>,
    /// The caller's project if absent.
    project: Option<String>,
    /// As in the Compute API: `ZONE` or `ZONE:HOST`.
    availability_zone: Option<String>,
    #[serde(default)]
    hints: BTreeMap<String, String>,
    /// Extra specs that the flavor would have.
    #[serde(default)]
    extra_specs: BTreeMap<String, String>,
    #[serde(default = "one")]
    count: usize,
}

fn one() -> usize {
    1
}

impl WhatIfRequest {
    fn of(ctx: &Ctx) -> Result<Self, Fault> {
        let wrong = |error: String| Fault::bad_request(format!("The body is not a valid what_if: {error}."));
        let given = match &ctx.body {
            Value::Object(body) if body.len() == 1 => body.get("what_if"),
            _ => None,
        };
        let given = given.ok_or_else(|| wrong("it has to have what_if and nothing else".to_owned()))?;
        let request: Self = serde_json::from_value(given.clone()).map_err(|error| wrong(error.to_string()))?;
        if !(1..=MOST).contains(&request.count) {
            return Err(wrong(format!("count is a number from 1 to {MOST}")));
        }
        if request.hints.len().max(request.extra_specs.len()) > MOST_PAIRS {
            return Err(wrong(format!("hints and extra_specs have {MOST_PAIRS} entries at the most")));
        }
        Ok(request)
    }

    async fn spec(&self, ctx: &Ctx) -> Result<RequestSpec, Fault> {
        let queries = ctx.queries()?;
        let own = || ctx.caller().project.clone();
        let project = self.project.as_deref().map(ProjectId::new).or_else(own);
        let project = project.ok_or_else(|| Fault::bad_request("Name the project: the token has none."))?;
        let image = match self.image {
            Some(id) => {
                let unusable = |error: PortError| Fault::bad_request(format!("Image {id} cannot be used: {error}."));
                Some(queries.images.find(id, &project, true).await.map_err(unusable)?)
            }
            None => None,
        };
        let zone = self.availability_zone.as_deref().unwrap_or_default();
        let (zone, host) = zone.split_once(':').map_or((zone, None), |(zone, host)| (zone, Some(host)));
        Ok(RequestSpec {
            server: None,
            project,
            flavor: flavor(ctx, self)?.into(),
            image: image.map(Into::into),
            volume_backed: false,
            hints: self.hints.iter().map(|(key, value)| (key.clone(), vec![value.clone()])).collect(),
            zone: Some(zone.to_owned()).filter(|zone| !zone.is_empty()),
            forced_host: host.map(str::to_owned),
            requested_host: None,
            page_kib: None,
            device_ports: Vec::new(),
            near_networks: Vec::new(),
            excluded: BTreeSet::new(),
            default_zone: queries.server_options.availability_zone.clone(),
            port_requests: Vec::new(),
            dice: 0,
            hook: None,
        })
    }
}

fn flavor(ctx: &Ctx, request: &WhatIfRequest) -> Result<FlavorSnapshot, Fault> {
    let wanted = request.flavor.as_str();
    ctx.queries()?.views.flavors.read(|view| {
        let mut all = view.flavors.by_id.iter();
        let found = all.find(|(id, flavor)| id.as_str() == wanted || flavor.definition.name == wanted);
        let (id, flavor) = found.ok_or_else(|| Fault::bad_request(format!("There is no flavor {wanted}.")))?;
        let definition = &flavor.definition;
        let mut extra: BTreeMap<String, String> = flavor.extra_specs.iter().cloned().collect();
        extra.extend(request.extra_specs.clone());
        Ok(FlavorSnapshot {
            id: id.clone(),
            name: definition.name.clone(),
            vcpus: definition.vcpus,
            memory_mib: definition.memory_mib,
            root_gib: definition.root_gib,
            ephemeral_gib: definition.ephemeral_gib,
            swap_mib: definition.swap_mib,
            extra_specs: extra.into_iter().collect(),
        })
    })
}

async fn what_if(ctx: Ctx) -> Result<Reply, Fault> {
    let request = WhatIfRequest::of(&ctx)?;
    let (spec, count) = (request.spec(&ctx).await?, request.count);
    let decisions = apart(&ctx, move |queries| queries.what_if(spec, count)).await?;
    Ok(Reply::ok(json!({"decisions": decisions.iter().map(decision).collect::<Vec<Value>>()})))
}

async fn plan(ctx: Ctx) -> Result<Reply, Fault> {
    let host = find(&ctx)?;
    let name = host.hostname.clone();
    let plan = apart(&ctx, move |queries| queries.drain_plan(&host)).await?;
    Ok(Reply::ok(json!({"plan": {"host": name, "servers": plan.iter().map(planned).collect::<Vec<Value>>()}})))
}

/// Runs a question on a thread of its own, because many decisions would block the other requests of a worker thread.
async fn apart<T: Send + 'static>(ctx: &Ctx, ask: impl FnOnce(&Queries) -> T + Send + 'static) -> Result<T, Fault> {
    let queries = Arc::clone(ctx.queries()?);
    tokio::task::spawn_blocking(move || ask(&queries)).await.map_err(Fault::internal)
}

/// A decision in the form of `GET /servers/{id}/chronova:scheduling`.
fn decision(decision: &SchedulingDecision) -> Value {
    let reasons = &decision.reasons;
    let mut names = decision.ranked.iter().map(|ranked| &ranked.hostname);
    json!({
        "resources": reasons.wanted.iter().cloned().collect::<BTreeMap<String, u64>>(),
        "required": reasons.required,
        "hosts": reasons.hosts,
        "checks": reasons.checks.iter().map(|check| {
            let refused = check.refused.iter().map(|one| json!({"host": one.hostname, "reason": one.reason}));
            json!({"name": check.name, "left": check.left, "refused": refused.collect::<Vec<Value>>()})
        }).collect::<Vec<Value>>(),
        "weighed": reasons.weighed.iter().map(|weighed| {
            let parts = weighed.parts.iter();
            let parts = parts.map(|part| json!({"weigher": part.weigher, "value": part.value, "weight": part.weight}));
            json!({"host": weighed.hostname, "weight": weighed.weight, "weighers": parts.collect::<Vec<Value>>()})
        }).collect::<Vec<Value>>(),
        "chosen": names.next(),
        "alternates": names.collect::<Vec<_>>(),
        "lacks": reasons.lacks,
    })
}

fn planned(planned: &PlannedServer) -> Value {
    let (how, to, reason) = match &planned.plan {
        PlannedDeparture::Moves { how, decision } => match decision.ranked.first() {
            Some(best) => (how.word(), Some(&best.hostname), None),
            None => ("stays", None, Some(decision.reasons.message())),
        },
        PlannedDeparture::Waits => ("waits", None, Some("a task of the server must end first".to_owned())),
        PlannedDeparture::Stays { reason } => ("stays", None, Some(reason.clone())),
    };
    json!({"server": planned.server.to_string(), "name": planned.name, "how": how, "to": to, "reason": reason})
}
