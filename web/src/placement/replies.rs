//! Parts that many replies of Placement share.

use chronova_events::envelope::Timestamp;
use serde_json::Value;

use super::versions;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::reply::Reply;

/// 200 with a body. From 1.15 on the answer has the time of the last change. If that time is unknown, the answer has
/// the time of the shown state: now, or the requested moment of the past.
pub(super) fn show(ctx: &Ctx, body: Value, modified: Option<Timestamp>) -> Result<Reply, Fault> {
    dated(ctx, Reply::ok(body), modified)
}

/// Adds the headers of 1.15.
pub(super) fn dated(ctx: &Ctx, reply: Reply, modified: Option<Timestamp>) -> Result<Reply, Fault> {
    if !versions::has_cache_headers(ctx.version) {
        return Ok(reply);
    }
    let modified = match modified {
        Some(modified) => modified,
        None if ctx.is_past() => ctx.views()?.marked().moment,
        None => ctx.queries()?.clock.now(),
    };
    let date = modified.to_utc().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    Ok(reply.header("Last-Modified", date).header("Cache-Control", "no-cache"))
}

/// Refuses clients that do not accept JSON, because Placement answers nothing else.
pub(super) fn check_accept(ctx: &Ctx) -> Result<(), Fault> {
    let Some(accept) = ctx.header("Accept").filter(|accept| !accept.trim().is_empty()) else { return Ok(()) };
    let fits = accept.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let refused = parts.any(|parameter| matches!(parameter, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        !refused && matches!(media.as_str(), "*/*" | "application/*" | "application/json")
    });
    if fits { Ok(()) } else { Err(Fault::not_acceptable("Only application/json is provided")) }
}

/// The absolute URL, for `Location`.
pub(super) fn location(ctx: &Ctx, path: &str) -> String {
    format!("{}{path}", ctx.links.root.trim_end_matches('/'))
}

/// `/resource_providers/...` with the prefix under which the service is mounted.
pub(super) fn url(ctx: &Ctx, path: &str) -> String {
    let prefix = ctx.links.root.strip_prefix(ctx.links.host.as_str()).unwrap_or_default();
    format!("{}{path}", prefix.trim_end_matches('/'))
}
