//! `GET /chronova/v1/permissions?rule=RULE`: which policy rules hold for the caller's own token and project.
//!
//! User interfaces use the answer to hide the operations that would be refused. The answer grants nothing: each
//! operation checks its rule again.

use std::collections::BTreeMap;

use serde_json::json;

use super::answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};
use crate::service::Service;

pub(super) const ROUTES: &[Route] =
    &[get("operator.permissions", "/permissions", handler!(show)).answers(answers::permissions)];

/// The most rules of one question.
const MOST: usize = 128;

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let rules: Vec<&str> = ctx.query.all("rule").collect();
    if rules.len() > MOST {
        return Err(Fault::bad_request(format!("rule may be given {MOST} times at the most.")));
    }
    let target = ctx.own_target();
    let allows = |rule: &str| {
        let service = if rule.starts_with("chronova:") { Service::Chronova } else { Service::Compute };
        ctx.app.policy.allows(service, rule, ctx.caller(), &target)
    };
    let held: BTreeMap<&str, bool> = rules.into_iter().map(|rule| (rule, allows(rule))).collect();
    Ok(Reply::ok(json!({"permissions": held})))
}
