//! Host aggregates: groups of hosts with metadata. An aggregate may define an availability zone.
//!
//! `POST .../images` (2.81) is asynchronous as in Nova: 202 means that the hosts fetch the images in the background.

use std::sync::Arc;

use chronova_actors::host_aggregate::{HostAggregateCommand, HostAggregatesId, HostAggregatesRoot, ServersPerHost};
use chronova_actors::ports::PortError;
use chronova_events::host_aggregate::{HostAggregate, ZONE_KEY};
use chronova_events::ids::{HostAggregateId, HostId, ImageId};
use chronova_events::instance::ImageSnapshot;
use serde_json::json;

use super::bodies::{aggregates as bodies, no_query};
use super::reject::{self, AggregateAction};
use super::views::aggregate::{AGGREGATE, CREATED};
use crate::answers::{accepted, done};
use crate::compute::answers::aggregates as answers;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action, delete, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("aggregates.index", "/os-aggregates", handler!(index))
        .policy("os_compute_api:os-aggregates:index")
        .query(no_query)
        .answers(answers::index)
        .as_of(),
    post("aggregates.create", "/os-aggregates", handler!(create))
        .policy("os_compute_api:os-aggregates:create")
        .body(bodies::create_body)
        .answers(answers::create),
    get("aggregates.show", "/os-aggregates/{id}", handler!(show))
        .policy("os_compute_api:os-aggregates:show")
        .query(no_query)
        .answers(answers::show)
        .as_of(),
    put("aggregates.update", "/os-aggregates/{id}", handler!(update))
        .policy("os_compute_api:os-aggregates:update")
        .body(bodies::update_body)
        .answers(answers::show),
    delete("aggregates.delete", "/os-aggregates/{id}", handler!(remove))
        .policy("os_compute_api:os-aggregates:delete")
        .answers(done),
    action("aggregates.add_host", "/os-aggregates/{id}/action", "add_host", handler!(add_host))
        .policy("os_compute_api:os-aggregates:add_host")
        .body(bodies::add_host_body)
        .answers(answers::show),
    action("aggregates.remove_host", "/os-aggregates/{id}/action", "remove_host", handler!(remove_host))
        .policy("os_compute_api:os-aggregates:remove_host")
        .body(bodies::remove_host_body)
        .answers(answers::show),
    action("aggregates.set_metadata", "/os-aggregates/{id}/action", "set_metadata", handler!(set_metadata))
        .policy("os_compute_api:os-aggregates:set_metadata")
        .body(bodies::set_metadata_body)
        .answers(answers::show),
    post("aggregates.images", "/os-aggregates/{id}/images", handler!(cache_images))
        .since(2, 81)
        .policy("compute:aggregates:images")
        .body(bodies::images_body)
        .answers(accepted),
];

/// The aggregate's number in the path. A sign and blanks around the number are accepted, as in Python.
fn number(ctx: &Ctx) -> Result<u64, Fault> {
    let number: i64 = ctx
        .param("id")
        .trim()
        .parse()
        .map_err(|_| Fault::bad_request("Invalid input received: id must be an integer"))?;
    u64::try_from(number).map_err(|_| reject::no_aggregate(number))
}

fn find(ctx: &Ctx, number: u64) -> Result<Arc<HostAggregate>, Fault> {
    let found = ctx.views()?.host_aggregates.read(|view| view.get(number).cloned());
    found.ok_or_else(|| reject::no_aggregate(number))
}

async fn send(ctx: &Ctx, action: AggregateAction<'_>, command: HostAggregateCommand) -> Result<(), Fault> {
    let (dispatch, permit) = (ctx.dispatch()?, ctx.permit()?);
    dispatch::send::<HostAggregatesRoot>(dispatch, &permit, &HostAggregatesId, command)
        .await
        .map_err(|error| reject::aggregate(action, error))?;
    dispatch.mirror_placement().await;
    Ok(())
}

fn shown(ctx: &Ctx, number: u64) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"aggregate": AGGREGATE.render(&find(ctx, number)?, ctx.version)})))
}

/// Warns operators of an aggregate whose zone has the name of the default zone. The default zone has all hosts without
/// a zone of their own. A host leaves it as soon as an aggregate gives the host a zone. A server that was requested in
/// the default zone cannot leave it.
fn warn_of_default_zone(ctx: &Ctx, aggregate: &str, zone: Option<&str>) -> Result<(), Fault> {
    let default = ctx.queries()?.server_options.availability_zone.as_str();
    if zone == Some(default) {
        tracing::warn!(
            aggregate,
            zone = default,
            "an aggregate has the name of default_availability_zone as its availability zone"
        );
    }
    Ok(())
}

/// The number of servers on each of these hosts.
fn occupants(ctx: &Ctx, hosts: impl IntoIterator<Item = HostId>) -> Result<ServersPerHost, Fault> {
    Ok(ctx
        .views()?
        .servers
        .read(|servers| hosts.into_iter().map(|host| (host, servers.on_host(host).count())).collect()))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let all: Vec<_> = ctx.views()?.host_aggregates.read(|view| view.all().cloned().collect());
    Ok(Reply::ok(json!({"aggregates": AGGREGATE.render_all(&all, ctx.version)})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let number = number(&ctx)?;
    shown(&ctx, number)
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let body: bodies::AggregateCreateBody = ctx.parse_at("aggregate")?;
    let aggregate = HostAggregateId::random();
    let (name, zone) = (body.name(), body.availability_zone);
    let create = HostAggregateCommand::Create { aggregate, name: name.clone(), zone: zone.clone() };
    send(&ctx, AggregateAction::Create, create).await?;
    warn_of_default_zone(&ctx, &name, zone.as_deref())?;
    let view = &ctx.views()?.host_aggregates;
    let made = view.read(|view| view.all().find(|known| known.id == aggregate).cloned());
    let made = made.ok_or_else(|| Fault::internal("the read models do not show what was made"))?;
    Ok(Reply::ok(json!({"aggregate": CREATED.render(&made, ctx.version)})))
}

async fn change(
    ctx: &Ctx,
    action: AggregateAction<'_>,
    name: Option<String>,
    metadata: Vec<(String, Option<String>)>,
) -> Result<Reply, Fault> {
    let number = number(ctx)?;
    let hosts: Vec<HostId> = find(ctx, number)?.hosts.iter().map(|(host, _)| *host).collect();
    let occupants = occupants(ctx, hosts)?;
    let zone = metadata.iter().find(|(key, _)| key == ZONE_KEY).and_then(|(_, zone)| zone.clone());
    send(ctx, action, HostAggregateCommand::Change { number, name, metadata, occupants }).await?;
    warn_of_default_zone(ctx, &find(ctx, number)?.name, zone.as_deref())?;
    shown(ctx, number)
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let body: bodies::AggregateUpdateBody = ctx.parse_at("aggregate")?;
    let zone = body.availability_zone.mentioned().map(|zone| (ZONE_KEY.to_owned(), zone));
    change(&ctx, AggregateAction::Update, body.name, zone.into_iter().collect()).await
}

async fn set_metadata(ctx: Ctx) -> Result<Reply, Fault> {
    let metadata = ctx.action_body()["metadata"].as_object().into_iter().flatten();
    let metadata = metadata.map(|(key, value)| (key.clone(), value.as_str().map(str::to_owned))).collect();
    change(&ctx, AggregateAction::SetMetadata, None, metadata).await
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let number = number(&ctx)?;
    send(&ctx, AggregateAction::Delete, HostAggregateCommand::Delete { number }).await?;
    Ok(Reply::empty(200))
}

/// The host that the body of the action names.
fn host(ctx: &Ctx) -> Result<(String, Option<HostId>), Fault> {
    let hostname = ctx.action_body()["host"].as_str().unwrap_or_default().to_owned();
    let host = ctx.views()?.hosts.read(|hosts| hosts.named(&hostname).map(|host| host.id));
    Ok((hostname, host))
}

async fn add_host(ctx: Ctx) -> Result<Reply, Fault> {
    let (number, (hostname, host)) = (number(&ctx)?, host(&ctx)?);
    let host = host.ok_or_else(|| reject::no_host(&hostname))?;
    let occupants = occupants(&ctx, [host])?;
    let add = HostAggregateCommand::AddHost { number, host, hostname, occupants };
    send(&ctx, AggregateAction::AddHost, add).await?;
    shown(&ctx, number)
}

async fn remove_host(ctx: Ctx) -> Result<Reply, Fault> {
    let (number, (hostname, host)) = (number(&ctx)?, host(&ctx)?);
    let host = host.ok_or_else(|| reject::cannot_remove_host(&hostname, number))?;
    let occupants = occupants(&ctx, [host])?;
    let remove = HostAggregateCommand::RemoveHost { number, host, hostname: hostname.clone(), occupants };
    send(&ctx, AggregateAction::RemoveHost(&hostname), remove).await?;
    shown(&ctx, number)
}

/// The images to cache. As in Nova, a repeated or missing image is refused before any host is called.
async fn images_asked(ctx: &Ctx) -> Result<Vec<ImageSnapshot>, Fault> {
    let bodies::CacheImagesBody { cache } = ctx.parse()?;
    let mut ids: Vec<ImageId> = cache.iter().filter_map(|image| image.id.parse().ok()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() < count {
        return Err(Fault::bad_request("Duplicate images in request"));
    }
    let project = ctx.caller().project.clone().unwrap_or_else(|| "".into());
    let mut images = Vec::new();
    for id in ids {
        let found = ctx.queries()?.images.find_as(id, &project, &ctx.service_caller()).await;
        images.push(found.map_err(|error| match error {
            PortError::Unavailable(_) => reject::image(error),
            _ => Fault::bad_request(format!("Image {id} could not be found.")),
        })?);
    }
    Ok(images)
}

async fn cache_images(ctx: Ctx) -> Result<Reply, Fault> {
    let number = number(&ctx)?;
    let hosts = find(&ctx, number)?.hosts.iter().map(|(host, _)| *host).collect();
    let wanted = images_asked(&ctx).await?;
    dispatch::cache_images(ctx.dispatch()?, &ctx.permit()?, hosts, wanted);
    Ok(Reply::empty(202))
}
