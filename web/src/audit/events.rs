//! `GET /chronova/v1/events`: the log, page by page or live.

use std::sync::Arc;

use chronova_events::envelope::Recorded;
use chronova_events::registry::DecodeError;
use chronova_events::store::StoreError;
use chronova_projections::servers::ServerRow;
use serde_json::json;
use uuid::Uuid;

use super::answers;
use super::feed::{self, FeedRight};
use super::filters::{AuditQuery, limit};
use super::line::{Format, cadf_event, cloud_event, json_line};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const RULE: &str = "chronova:events:list";
/// The rule for personal fields. An auditor of the system need not read tenants' user data.
pub(super) const PERSONAL: &str = "chronova:events:personal";

pub(super) const ROUTES: &[Route] =
    &[get("events.list", "/events", handler!(list)).policy(RULE).answers(answers::events)];

pub(super) const SSE: &str = "text/event-stream";
pub(super) const CLOUD_EVENTS: &str = "application/cloudevents-batch+json";

async fn list(ctx: Ctx) -> Result<Reply, Fault> {
    let mut asked = AuditQuery::parse(&ctx.query, names(&ctx)?)?;
    let accept = ctx.header("Accept").unwrap_or_default();
    let format = format(&ctx, accept)?;
    let store = ctx.app.log()?;
    asked.criteria.learn(store.as_ref()).await.map_err(unsearched)?;
    match accept.contains(SSE) || ctx.query.last("follow").is_some() {
        true => follow(&ctx, asked, format),
        false => page(&ctx, asked, format).await,
    }
}

/// Finds the ids of hosts or servers by name. The name of a server is a personal field, so a caller who may not see
/// personal fields finds no servers.
fn names(ctx: &Ctx) -> Result<impl Fn(&str, &str) -> Vec<Uuid>, Fault> {
    let (views, personal) = (Arc::clone(&ctx.queries()?.views), ctx.allows(PERSONAL, &ctx.own_target()));
    Ok(move |key: &str, name: &str| -> Vec<Uuid> {
        let is_named = |row: &&Arc<ServerRow>| row.server().is_some_and(|server| server.request.name == name);
        match key {
            "host" => views.hosts.read(|view| {
                let named = view.all().filter(|host| host.hostname == name);
                named.map(|host| host.id.0).collect()
            }),
            _ if personal => views.servers.read(|view| view.all().filter(is_named).map(|row| row.id.0).collect()),
            _ => Vec::new(),
        }
    })
}

/// A feed that starts after the last event that the client has seen.
fn follow(ctx: &Ctx, mut asked: AuditQuery, format: Format) -> Result<Reply, Fault> {
    if let Some(last) = ctx.header("Last-Event-ID") {
        let position =
            last.trim().parse().map_err(|_| Fault::bad_request("Last-Event-ID is not a position of the log."))?;
        asked.after = chronova_events::envelope::Position(position);
    }
    let personal = ctx.allows(PERSONAL, &ctx.own_target());
    check_filters(&asked, personal)?;
    let right = FeedRight { app: ctx.app.clone(), headers: ctx.headers.clone(), rule: RULE, personal };
    let stream = feed::start(right, Arc::clone(ctx.app.log()?), asked, format)?;
    // Proxies must not buffer the feed.
    let reply = Reply::stream(SSE, None, stream).header("Cache-Control", "no-store");
    Ok(reply.header("X-Accel-Buffering", "no"))
}

fn format(ctx: &Ctx, accept: &str) -> Result<Format, Fault> {
    match ctx.query.last("format") {
        None if accept.contains("cloudevents") => Ok(Format::CloudEvents),
        None => Ok(Format::Json),
        Some(name) => Format::parse(name)
            .filter(|format| matches!(format, Format::Json | Format::CloudEvents | Format::Cadf))
            .ok_or_else(|| {
                Fault::bad_request(format!("The format {name:?} is unknown: use json, cloudevents or cadf."))
            }),
    }
}

/// One page of events. `next` is the value of `after` for the next page. It is null if no page follows.
async fn page(ctx: &Ctx, asked: AuditQuery, format: Format) -> Result<Reply, Fault> {
    let limit = limit(&ctx.query, ctx.app.config.max_limit)?;
    let (store, personal) = (ctx.app.log()?, ctx.allows(PERSONAL, &ctx.own_target()));
    check_filters(&asked, personal)?;
    let (mut at, mut events, mut ended) = (asked.after, Vec::new(), false);
    while events.len() < limit && at < asked.up_to && !ended {
        let found = store.search(at, limit - events.len(), &asked.criteria).await.map_err(unsearched)?;
        ended = found.until == at;
        at = found.until;
        for recorded in found.events.iter().filter(|recorded| recorded.position <= asked.up_to) {
            let shown = without(recorded, personal).and_then(|blank| match format {
                Format::CloudEvents => cloud_event(blank.as_ref().unwrap_or(recorded)),
                Format::Cadf => cadf_event(blank.as_ref().unwrap_or(recorded)),
                _ => json_line(blank.as_ref().unwrap_or(recorded)),
            });
            events.push(shown.map_err(unreadable)?);
        }
    }
    ended |= at >= asked.up_to || at >= store.head();
    if format == Format::CloudEvents {
        let reply = Reply::bytes(200, CLOUD_EVENTS, serde_json::Value::from(events).to_string());
        return Ok(reply.header("X-Chronova-Position", at.to_string()));
    }
    let next = (!ended).then_some(at.0);
    Ok(Reply::ok(json!({"events": events, "position": at.0.min(asked.up_to.0), "next": next})))
}

/// Refuses a filter by a sealed field if the caller may not see that field, because the selected events would reveal
/// it.
fn check_filters(asked: &AuditQuery, personal: bool) -> Result<(), Fault> {
    if personal || asked.criteria.addresses.is_empty() {
        return Ok(());
    }
    Err(Fault::forbidden("Only a caller who may see personal fields can filter by address."))
}

/// The event without personal fields; `None` when the caller may see the event unchanged.
pub(super) fn without(recorded: &Recorded, personal: bool) -> Result<Option<Recorded>, DecodeError> {
    if personal { Ok(None) } else { recorded.without_personal().map(Some) }
}

fn unsearched(error: StoreError) -> Fault {
    if matches!(error, StoreError::ArchiveAway { .. }) {
        let told =
            "The events are in the archive of the event log, and the archive cannot be read now. Try again later.";
        return Fault::unavailable(told).caused_by(error);
    }
    unreadable(error)
}

fn unreadable(error: impl std::fmt::Display) -> Fault {
    Fault::unavailable("The event log cannot be read.").caused_by(error)
}
