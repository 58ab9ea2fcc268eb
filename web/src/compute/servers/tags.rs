//! `/servers/{server_id}/tags`, from 2.26 on.

use chronova_actors::instance::{InstanceChange, InstanceRequest, TagChange};
use serde_json::json;

use super::change::{asker, send};
use super::lookup::{PermittedServer, find};
use crate::answers::no_content;
use crate::compute::answers::server_parts as answers;
use crate::compute::bodies::{no_query, server_parts as bodies};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, put};

const ALL: &str = "/servers/{server_id}/tags";
const ONE: &str = "/servers/{server_id}/tags/{id}";
/// The maximum number of tags of a server.
const MOST: usize = 50;
const LONGEST: usize = 60;

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("server_tags.index", ALL, handler!(index))
        .since(2, 26)
        .policy_on_target("os_compute_api:os-server-tags:index")
        .query(bodies::server_tags_index_query)
        .answers(answers::tags)
        .as_of(),
    put("server_tags.update_all", ALL, handler!(update_all))
        .since(2, 26)
        .policy_on_target("os_compute_api:os-server-tags:update_all")
        .body(bodies::server_tags_update_all_body)
        .answers(answers::tags),
    delete("server_tags.delete_all", ALL, handler!(remove_all))
        .since(2, 26)
        .policy_on_target("os_compute_api:os-server-tags:delete_all")
        .answers(no_content),
    get("server_tags.show", ONE, handler!(show))
        .since(2, 26)
        .policy_on_target("os_compute_api:os-server-tags:show")
        .query(bodies::server_tags_index_query)
        .answers(no_content)
        .as_of(),
    put("server_tags.update", ONE, handler!(update))
        .since(2, 26)
        .policy_on_target("os_compute_api:os-server-tags:update")
        .any_body()
        .answers(answers::tag_added),
    delete("server_tags.delete", ONE, handler!(remove))
        .since(2, 26)
        .policy_on_target("os_compute_api:os-server-tags:delete")
        .query(no_query)
        .answers(no_content),
];

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    Ok(Reply::ok(json!({"tags": found.server()?.request.tags})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    has(&ctx, &found)?;
    Ok(Reply::empty(204))
}

fn has(ctx: &Ctx, found: &PermittedServer) -> Result<(), Fault> {
    let tag = ctx.param("id");
    if found.server()?.request.tags.iter().any(|known| known == tag) {
        Ok(())
    } else {
        Err(Fault::not_found(format!("Server {} has no tag '{tag}'", found.id)))
    }
}

async fn change(ctx: &Ctx, found: &PermittedServer, change: TagChange) -> Result<(), Fault> {
    let changes = vec![InstanceChange::Tags(change)];
    send(ctx, found, InstanceRequest::Change { changes, asker: asker(ctx, found) }).await
}

async fn update_all(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let mut tags: Vec<String> = Vec::new();
    for tag in ctx.parse::<bodies::ServerTagsBody>()?.tags {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    change(&ctx, &found, TagChange::Replace(tags.clone())).await?;
    Ok(Reply::ok(json!({"tags": tags})))
}

async fn remove_all(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    change(&ctx, &found, TagChange::Replace(Vec::new())).await?;
    Ok(Reply::empty(204))
}

fn check(tag: &str) -> Result<(), Fault> {
    match tag.chars().count() > LONGEST || tag.contains([',', '/']) {
        true => Err(Fault::bad_request(format!(
            "Tag '{tag}' is invalid. It must be a non empty string without characters '/' and ','. Maximum length is \
             {LONGEST} characters."
        ))),
        false => Ok(()),
    }
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    // Nova's schema requires null, and an absent body is read as null. A route's schema would refuse an absent body.
    if !ctx.body.is_null() {
        return Err(Fault::bad_request(format!("{} is not of type 'null'", crate::schema::repr(&ctx.body))));
    }
    let found = find(&ctx, "server_id")?;
    let tag = ctx.param("id").to_owned();
    check(&tag)?;
    if found.server()?.request.tags.contains(&tag) {
        return Ok(Reply::empty(204));
    }
    change(&ctx, &found, TagChange::Add { tag: tag.clone(), limit: MOST }).await?;
    let location = format!("{}/tags/{tag}", ctx.links.to_self("servers", &found.id.to_string()));
    Ok(Reply::empty(201).header("Location", location))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    change(&ctx, &found, TagChange::Remove(ctx.param("id").to_owned())).await?;
    Ok(Reply::empty(204))
}
