//! `/types`: the volume types.

use std::sync::Arc;

use chronova_actors::flavor::FlavorCatalogueId;
use chronova_actors::services::embedded::volume::types::{VolumeTypeCommand, VolumeTypeRoot};
use chronova_events::ids::{ProjectId, VolumeTypeId};
use chronova_events::volume_type::{DEFAULT_TYPE, TypeCreated, VolumeType};
use serde_json::{Value, json};

use super::views::types::shown;
use super::{answers, bodies, faults, listing};
use crate::answers::accepted;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::Permit;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("types.index", "/types", handler!(index))
        .policy("volume_extension:type_get_all")
        .answers(answers::types)
        .as_of(),
    post("types.create", "/types", handler!(create))
        .policy("volume_extension:type_create")
        .body(bodies::create_type)
        .answers(answers::type_shown),
    get("types.default", "/types/default", handler!(default))
        .policy("volume_extension:type_get")
        .answers(answers::type_shown)
        .as_of(),
    get("types.show", "/types/{type_id}", handler!(show))
        .policy("volume_extension:type_get")
        .answers(answers::type_shown)
        .as_of(),
    put("types.update", "/types/{type_id}", handler!(update))
        .policy("volume_extension:type_update")
        .body(bodies::update_type)
        .answers(answers::type_shown),
    delete("types.delete", "/types/{type_id}", handler!(remove))
        .policy("volume_extension:type_delete")
        .answers(accepted),
];

/// The types that the caller sees.
pub(super) fn visible(ctx: &Ctx) -> Result<Vec<Arc<VolumeType>>, Fault> {
    let caller = ctx.caller();
    let own = caller.project.clone().unwrap_or_else(|| ProjectId::new(""));
    Ok(ctx.views()?.volumes.read(|view| {
        view.types.by_id.values().filter(|kind| caller.is_admin || kind.visible_to(&own)).cloned().collect()
    }))
}

/// The type of the path, by its id.
pub(super) fn named(ctx: &Ctx) -> Result<Arc<VolumeType>, Fault> {
    let text = ctx.param("type_id");
    let found = visible(ctx)?.into_iter().find(|kind| kind.id.to_string() == text);
    found.ok_or_else(|| Fault::not_found(format!("Volume type {text} could not be found.")))
}

pub(super) fn view(ctx: &Ctx, kind: &VolumeType) -> Value {
    let own = ctx.own_target();
    let specs = ctx.allows("volume_extension:access_types_extra_specs", &own);
    shown(kind, specs, ctx.allows("volume_extension:access_types_qos_specs_id", &own))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let mut kinds = visible(&ctx)?;
    // By default, administrators see the public types. Other callers see every type that they may use.
    match ctx.query.last("is_public").filter(|_| ctx.caller().is_admin) {
        Some(text) if text.eq_ignore_ascii_case("none") => {}
        Some(text) => {
            let wanted =
                listing::truth(text).ok_or_else(|| Fault::bad_request(format!("Invalid is_public filter [{text}]")))?;
            kinds.retain(|kind| kind.public == wanted);
        }
        None if ctx.caller().is_admin => kinds.retain(|kind| kind.public),
        None => {}
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.number));
    let rows = kinds.iter().map(|kind| view(&ctx, kind)).collect();
    listing::page(&ctx, "volume_types", "types", listing::filter(rows, &ctx.query))
}

async fn default(ctx: Ctx) -> Result<Reply, Fault> {
    let found = ctx.views()?.volumes.read(|view| view.types.by_id.get(&DEFAULT_TYPE).cloned());
    let found = found.ok_or_else(|| Fault::not_found("Default volume type can not be found."))?;
    Ok(Reply::ok(json!({"volume_type": view(&ctx, &found)})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let kind = named(&ctx)?;
    Ok(Reply::ok(json!({"volume_type": view(&ctx, &kind)})))
}

pub(super) async fn send(ctx: &Ctx, permit: &Permit, command: VolumeTypeCommand) -> Result<(), Fault> {
    let sent = dispatch::send::<VolumeTypeRoot>(ctx.dispatch()?, permit, &FlavorCatalogueId, command).await;
    sent.map(drop).map_err(faults::of_type)
}

/// The type after a change.
fn now(ctx: &Ctx, id: VolumeTypeId) -> Result<Reply, Fault> {
    let found = ctx.views()?.volumes.read(|view| view.types.by_id.get(&id).cloned());
    let found = found.ok_or_else(|| Fault::not_found(format!("Volume type {id} could not be found.")))?;
    Ok(Reply::ok(json!({"volume_type": view(ctx, &found)})))
}

/// Keys and values of extra specs. The schema admits strings and `null`, which becomes an empty text.
pub(super) fn specs(body: &Value) -> Vec<(String, String)> {
    let map = body.as_object().into_iter().flatten();
    map.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let body: bodies::TypeCreateBody = ctx.parse_at("volume_type")?;
    let volume_type = VolumeTypeId::random();
    let created = TypeCreated {
        volume_type,
        name: body.name.trim().to_owned(),
        description: body.description,
        public: body.public.map_or(Ok(true), |value| listing::flag(&value, "is_public"))?,
        extra_specs: body.extra_specs,
    };
    if created.name.is_empty() {
        return Err(Fault::bad_request("Volume type name can not be empty."));
    }
    send(&ctx, &ctx.permit()?, VolumeTypeCommand::Create(created)).await?;
    now(&ctx, volume_type)
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let kind = named(&ctx)?;
    let body: bodies::TypeUpdateBody = ctx.parse_at("volume_type")?;
    let name = body.name.map(|name| name.trim().to_owned());
    if name.as_ref().is_some_and(String::is_empty) {
        return Err(Fault::bad_request("Volume type name can not be empty."));
    }
    let describe = VolumeTypeCommand::Describe {
        volume_type: kind.id,
        name,
        description: body.description.mentioned(),
        public: body.is_public.map(|value| listing::flag(&value, "is_public")).transpose()?,
    };
    send(&ctx, &ctx.permit()?, describe).await?;
    now(&ctx, kind.id)
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let kind = named(&ctx)?;
    if ctx.views()?.volumes.read(|view| view.is_used(kind.id)) {
        let message = format!(
            "Target volume type is still in use. Volume Type {} deletion is not allowed with volumes present with the type.",
            kind.id
        );
        return Err(Fault::bad_request(message));
    }
    send(&ctx, &ctx.permit()?, VolumeTypeCommand::Delete { volume_type: kind.id }).await?;
    Ok(Reply::empty(202))
}
