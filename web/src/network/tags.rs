//! `/{resource}/{id}/tags`: the extension `standard-attr-tag`.

use chronova_actors::services::embedded::network::router::{RouterCommand, RouterPatch};
use chronova_actors::services::embedded::network::security_group::{GroupPatch, SecurityGroupCommand};
use chronova_actors::services::embedded::network::{
    FloatingIpPatch, NetworkCommand, NetworkPart, NetworkPatch, NetworkRoot, PortPatch, SubnetPatch,
};
use chronova_events::ids::{FloatingIpId, NetworkId, PortId, ProjectId, RouterId, SecurityGroupId, SubnetId};
use serde_json::json;

use super::{answers, faults, preconditions, routers, security_groups, targets};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

/// The longest tag, as in Neutron.
const LONGEST: usize = 255;
/// The most tags of a resource: Nova's limit for a server. Neutron has no limit.
const MOST: usize = 50;

pub(super) const ROUTES: &[Route] = &[
    get("tags.index", "/{collection}/{id}/tags", handler!(index)).answers(answers::tags),
    put("tags.replace", "/{collection}/{id}/tags", handler!(replace)).any_body().answers(answers::tags),
    post("tags.add_all", "/{collection}/{id}/tags", handler!(add_all)).any_body().answers(answers::tags),
    delete("tags.clear", "/{collection}/{id}/tags", handler!(clear)).answers(no_content),
    get("tags.show", "/{collection}/{id}/tags/{tag}", handler!(show)).answers(no_content),
    put("tags.add", "/{collection}/{id}/tags/{tag}", handler!(add)).answers(answers::tag_added),
    delete("tags.remove", "/{collection}/{id}/tags/{tag}", handler!(remove)).answers(no_content),
];

/// Sorts the tags, and removes duplicates.
fn tidy(mut tags: Vec<String>) -> Vec<String> {
    tags.sort();
    tags.dedup();
    tags
}

/// Checks the tags in a body that also has other settings. `old` are the resource's current tags.
pub(super) fn with_settings(tags: Vec<String>, old: &[String]) -> Result<Vec<String>, Fault> {
    let tags = tidy(checked(tags)?);
    check_count(&tags, old)?;
    Ok(tags)
}

/// Checks the number of tags. A resource that had more before the limit existed must not get even more.
fn check_count(tags: &[String], old: &[String]) -> Result<(), Fault> {
    match tags.len() {
        count if count > MOST && count > old.len() => {
            Err(Fault::bad_request(format!("Invalid input for tags. Reason: a resource has at most {MOST} tags.")))
        }
        _ => Ok(()),
    }
}

fn checked(tags: Vec<String>) -> Result<Vec<String>, Fault> {
    match tags.iter().find(|tag| tag.is_empty() || tag.chars().count() > LONGEST) {
        Some(wrong) => Err(Fault::bad_request(format!(
            "Invalid input for tags. Reason: '{wrong}' exceeds maximum length of {LONGEST} or is empty."
        ))),
        None => Ok(tags),
    }
}

/// A resource that can have tags.
enum TaggableResource {
    Network(NetworkId),
    Subnet(NetworkId, SubnetId),
    Port(NetworkId, PortId),
    Group(ProjectId, SecurityGroupId),
    FloatingIp(NetworkId, FloatingIpId),
    Router(RouterId),
}

struct TaggedResource {
    what: TaggableResource,
    tags: Vec<String>,
    target: PolicyTarget,
    /// The policy rule for changing the resource.
    rule: &'static str,
}

fn find(ctx: &Ctx) -> Result<TaggedResource, Fault> {
    let id = ctx.param("id");
    match ctx.param("collection") {
        "networks" => {
            let row = targets::find_network(ctx, id)?;
            let what = TaggableResource::Network(row.created.network);
            Ok(TaggedResource {
                what,
                tags: row.settings().tags.clone(),
                target: targets::network(&row),
                rule: "update_network",
            })
        }
        "subnets" => {
            let (row, target) = targets::find_subnet(ctx, id)?;
            let what = TaggableResource::Subnet(row.added.network, row.added.subnet);
            Ok(TaggedResource { what, tags: row.added.settings.tags.clone(), target, rule: "update_subnet" })
        }
        "ports" => {
            let (row, target) = targets::find_port(ctx, id)?;
            let what = TaggableResource::Port(row.created.network, row.created.port);
            Ok(TaggedResource { what, tags: row.settings().tags.clone(), target, rule: "update_port" })
        }
        "floatingips" => {
            let row = targets::find_floating_ip(ctx, id)?;
            let what = TaggableResource::FloatingIp(row.network(), row.id());
            let (tags, target) = (row.settings().tags.clone(), targets::floating_ip(&row));
            Ok(TaggedResource { what, tags, target, rule: "update_floatingip" })
        }
        "routers" => {
            let row = targets::find_router(ctx, id)?;
            let (what, tags) = (TaggableResource::Router(row.id()), row.settings().tags.clone());
            Ok(TaggedResource { what, tags, target: targets::router(&row), rule: "update_router" })
        }
        "security-groups" | "security_groups" => {
            let row = targets::find_group(ctx, id)?;
            let (what, target) = (TaggableResource::Group(row.project().clone(), row.id()), targets::group(&row));
            Ok(TaggedResource { what, tags: row.settings().tags.clone(), target, rule: "update_security_group" })
        }
        _ => Err(Fault::no_route()),
    }
}

async fn store(ctx: &Ctx, found: &TaggedResource, tags: Vec<String>) -> Result<Vec<String>, Fault> {
    let tags = tidy(tags);
    check_count(&tags, &found.tags)?;
    let permit = ctx.authorize_rule(found.rule, &found.target)?;
    let (network, part, command) = match &found.what {
        TaggableResource::Network(id) => {
            let patch = NetworkPatch { tags: Some(tags.clone()), ..NetworkPatch::default() };
            (*id, NetworkPart::Network, NetworkCommand::Change(patch))
        }
        TaggableResource::Subnet(network, subnet) => {
            let patch = SubnetPatch { tags: Some(tags.clone()), ..SubnetPatch::default() };
            (*network, NetworkPart::Subnet(*subnet), NetworkCommand::ChangeSubnet { subnet: *subnet, patch })
        }
        TaggableResource::Port(network, port) => {
            let patch = PortPatch { tags: Some(tags.clone()), ..PortPatch::default() };
            (*network, NetworkPart::Port(*port), NetworkCommand::ChangePort { port: *port, patch })
        }
        TaggableResource::FloatingIp(network, floating_ip) => {
            let patch = FloatingIpPatch { tags: Some(tags.clone()), ..FloatingIpPatch::default() };
            let command = NetworkCommand::ChangeFloatingIp { floating_ip: *floating_ip, patch };
            (*network, NetworkPart::FloatingIp(*floating_ip), command)
        }
        TaggableResource::Router(router) => {
            let patch = RouterPatch { tags: Some(tags.clone()), ..RouterPatch::default() };
            let command = preconditions::router(ctx, RouterCommand::Change(patch))?;
            routers::send(ctx, &permit, *router, command).await?;
            return Ok(tags);
        }
        TaggableResource::Group(project, group) => {
            let patch = GroupPatch { tags: Some(tags.clone()), ..GroupPatch::default() };
            let command = SecurityGroupCommand::Change { group: *group, patch };
            let command = preconditions::group(ctx, *group, command)?;
            security_groups::send(ctx, &permit, project, command).await?;
            return Ok(tags);
        }
    };
    let command = preconditions::network(ctx, part, command)?;
    dispatch::send::<NetworkRoot>(ctx.app.dispatch()?, &permit, &network, command)
        .await
        .map_err(faults::network(network))?;
    Ok(tags)
}

fn wanted(ctx: &Ctx) -> Result<Vec<String>, Fault> {
    let tags: Option<Vec<String>> = ctx.body.get("tags").and_then(|tags| serde_json::from_value(tags.clone()).ok());
    checked(tags.ok_or_else(|| Fault::bad_request("Invalid tags body"))?)
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"tags": find(&ctx)?.tags})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let tag = ctx.param("tag");
    if find(&ctx)?.tags.iter().any(|known| known == tag) {
        Ok(Reply::empty(204))
    } else {
        Err(faults::not_found("TagNotFound", "Tag", tag))
    }
}

async fn replace(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx)?;
    let tags = store(&ctx, &found, wanted(&ctx)?).await?;
    Ok(Reply::ok(json!({"tags": tags})))
}

async fn add_all(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx)?;
    let tags = [found.tags.clone(), wanted(&ctx)?].concat();
    let tags = store(&ctx, &found, tags).await?;
    Ok(Reply::ok(json!({"tags": tags})))
}

async fn add(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx)?;
    let new = checked(vec![ctx.param("tag").to_owned()])?;
    store(&ctx, &found, [found.tags.clone(), new].concat()).await?;
    Ok(Reply::empty(201))
}

async fn clear(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx)?;
    store(&ctx, &found, vec![]).await?;
    Ok(Reply::empty(204))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx)?;
    let tag = ctx.param("tag");
    if !found.tags.iter().any(|known| known == tag) {
        return Err(faults::not_found("TagNotFound", "Tag", tag));
    }
    let tags = found.tags.iter().filter(|known| *known != tag).cloned().collect();
    store(&ctx, &found, tags).await?;
    Ok(Reply::empty(204))
}
