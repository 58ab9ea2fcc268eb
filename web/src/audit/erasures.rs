//! `/chronova/v1/erasures`: erases personal data, and lists the erasures.
//!
//! `POST {"erasure": {"user": "...", "reason": "..."}}` (or `server`, or `project`) is a dry run. With `"dry_run":
//! false`, the request erases the data. If a server or a user of the erasure still exists, the answer is 409, and
//! nothing is erased. `"even_alive": true` turns that check off.

use chronova_actors::erasure::error::ErasureError;
use chronova_actors::erasure::work::{Eraser, ErasurePlan};
use chronova_events::erasure::{Erasure, ErasureCompleted, ErasureTarget};
use chronova_events::ids::{ProjectId, UserId};
use chronova_events::store::StoreError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answers;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get, post};

pub(super) const ROUTES: &[Route] = &[
    get("erasures.list", "/erasures", handler!(list)).policy("chronova:erasures:list").answers(answers::erasures),
    post("erasures.create", "/erasures", handler!(create))
        .any_body()
        .policy("chronova:erasures:create")
        .answers(answers::erased),
];

const LONGEST_REASON: usize = 1_024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErasureBody {
    erasure: ErasureRequest,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErasureRequest {
    user: Option<String>,
    server: Option<String>,
    project: Option<String>,
    reason: String,
    #[serde(default = "yes")]
    dry_run: bool,
    #[serde(default)]
    even_alive: bool,
}

fn yes() -> bool {
    true
}

impl ErasureRequest {
    fn whose(&self) -> Result<ErasureTarget, Fault> {
        if self.reason.trim().is_empty() || self.reason.len() > LONGEST_REASON {
            return Err(Fault::bad_request(format!("reason must have 1 to {LONGEST_REASON} bytes.")));
        }
        match (&self.user, &self.server, &self.project) {
            (Some(user), None, None) => Ok(ErasureTarget::User(UserId::new(user))),
            (None, Some(server), None) => {
                server.parse().map(ErasureTarget::Server).map_err(|_| Fault::bad_request("server is not a UUID."))
            }
            (None, None, Some(project)) => Ok(ErasureTarget::Project(ProjectId::new(project))),
            _ => Err(Fault::bad_request("Exactly one of user, server and project has to be named.")),
        }
    }
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let ErasureBody { erasure: request } = serde_json::from_value(ctx.body.clone())
        .map_err(|error| Fault::bad_request(format!("The body is not a valid request for an erasure: {error}.")))?;
    let eraser = eraser(&ctx)?;
    let plan = plan(&eraser, &request)?;
    let mut shown = show_plan(&plan);
    let dry_run = request.dry_run;
    if !dry_run {
        let done = erase(&ctx, eraser, plan, request).await?;
        shown["id"] = json!(done.erasure.to_string());
        shown["keys_destroyed"] = json!(done.keys);
    }
    Ok(Reply::ok(json!({"erasure": shown, "dry_run": dry_run})))
}

fn plan(eraser: &Eraser, request: &ErasureRequest) -> Result<ErasurePlan, Fault> {
    let plan = eraser.plan(request.whose()?);
    match plan.is_empty() {
        true => Err(Fault::not_found("There is nothing to erase: no user or server matches.")),
        false => Ok(plan),
    }
}

/// Runs the erasure in a separate task, so that a client that disconnects does not stop it half-way.
async fn erase(
    ctx: &Ctx,
    eraser: Eraser,
    plan: ErasurePlan,
    request: ErasureRequest,
) -> Result<ErasureCompleted, Fault> {
    plan.admit(request.even_alive).map_err(failed)?;
    let meta = dispatch::meta(&ctx.permit()?);
    let work = actix_web::rt::spawn(async move { eraser.erase(plan, request.reason, &meta).await });
    work.await.map_err(Fault::internal)?.map_err(failed)
}

async fn list(ctx: Ctx) -> Result<Reply, Fault> {
    let mut all: Vec<(i64, Value)> = ctx.queries()?.views.erasures.read(|view| {
        let by_id = view.erasures.by_id.values();
        by_id
            .map(|erasure| {
                let by = view.asked_by.get(&erasure.request.erasure);
                (erasure.requested_at.0, show(erasure, by))
            })
            .collect()
    });
    all.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    Ok(Reply::ok(json!({"erasures": all.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>()})))
}

fn eraser(ctx: &Ctx) -> Result<Eraser, Fault> {
    Ok(dispatch::eraser(ctx.dispatch()?, &ctx.permit()?, ctx.app.log()?, ctx.app.history()))
}

fn whose(whose: &ErasureTarget) -> Value {
    match whose {
        ErasureTarget::User(user) => json!({"user": user.as_str()}),
        ErasureTarget::Server(server) => json!({"server": server.to_string()}),
        ErasureTarget::Project(project) => json!({"project": project.as_str()}),
    }
}

fn show_plan(plan: &ErasurePlan) -> Value {
    json!({
        "whose": whose(&plan.whose),
        "user": plan.user.as_ref().map(ToString::to_string),
        "user_exists": plan.user_exists,
        "servers": plan.servers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "alive": plan.alive.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn show(erasure: &Erasure, by: Option<&UserId>) -> Value {
    let request = &erasure.request;
    json!({
        "id": request.erasure.to_string(),
        "whose": whose(&request.whose),
        "reason": request.reason,
        "asked_by": by.map(ToString::to_string),
        "requested_at": erasure.requested_at.to_string(),
        "completed_at": erasure.completed.map(|(at, _)| at.to_string()),
        "keys_destroyed": erasure.completed.map(|(_, keys)| keys),
        "servers": request.servers.len(),
    })
}

fn failed(error: ErasureError) -> Fault {
    match error {
        ErasureError::Alive { servers, user } => {
            let user = if user { ", nor is the user" } else { "" };
            Fault::conflict(format!(
                "{servers} servers are not deleted{user}: delete them first, or say \"even_alive\": true."
            ))
        }
        ErasureError::NoKeys | ErasureError::Held { .. } => Fault::conflict(error.to_string()),
        ErasureError::Log(StoreError::Full) => Fault::unavailable("The log's disk is full.").caused_by(error),
        error => Fault::unavailable("The erasure was begun and is not complete; ask again.").caused_by(error),
    }
}
