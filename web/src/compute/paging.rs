//! Pages of lists: `limit` and `marker`, and the link to the next page.

use serde_json::{Map, Value, json};

use crate::ctx::Ctx;
use crate::fault::Fault;

/// One page of a list.
#[derive(Debug)]
pub(super) struct ResultPage<T> {
    pub items: Vec<T>,
    /// Whether the page is full, so that items may follow.
    pub more: bool,
}

/// The size of a page: the requested size, at most `[api] max_limit`.
pub(super) fn limit(ctx: &Ctx) -> Result<usize, Fault> {
    let most = usize::try_from(ctx.app.config.max_limit).unwrap_or(usize::MAX);
    let Some(text) = ctx.query.first("limit") else { return Ok(most) };
    let asked: usize = text.parse().map_err(|_| Fault::bad_request("limit param must be an integer"))?;
    Ok(asked.min(most))
}

/// Cuts the page out of `all`. As in Nova's views, a full page has a link to a next page, even if nothing follows.
pub(super) fn cut<T>(ctx: &Ctx, all: Vec<T>, matches: impl Fn(&T, &str) -> bool) -> Result<ResultPage<T>, Fault> {
    let limit = limit(ctx)?;
    let after = match ctx.query.first("marker") {
        Some(marker) => {
            all.iter().position(|item| matches(item, marker)).ok_or_else(|| super::reject::no_marker(marker))? + 1
        }
        None => 0,
    };
    let items: Vec<T> = all.into_iter().skip(after).take(limit).collect();
    let more = limit > 0 && items.len() == limit;
    Ok(ResultPage { items, more })
}

/// Adds `{name}: [{"rel": "next"}]` to a reply.
pub(super) fn link(ctx: &Ctx, reply: &mut Map<String, Value>, name: &str, collection: &str, marker: &str) {
    reply.insert(name.to_owned(), next(ctx, collection, marker));
}

/// The link to the next page, as a list of one: `[{"rel": "next"}]`.
pub(super) fn next(ctx: &Ctx, collection: &str, marker: &str) -> Value {
    let href = ctx.links.next(collection, &ctx.page_query(), marker);
    json!([{"rel": "next", "href": href}])
}
