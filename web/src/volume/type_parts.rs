//! The extra specs of volume types, and the projects that may use private types.

use chronova_actors::services::embedded::volume::types::VolumeTypeCommand;
use chronova_events::ids::ProjectId;
use chronova_events::volume_type::VolumeType;
use serde_json::{Map, Value, json};

use super::types::{named, send, specs};
use super::{answers, bodies, views};
use crate::answers::accepted;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action, delete, get, post, put};

const ACTION: &str = "/types/{type_id}/action";

pub(super) const ROUTES: &[Route] = &[
    get("type_specs.index", "/types/{type_id}/extra_specs", handler!(index))
        .policy("volume_extension:types_extra_specs:index")
        .answers(answers::specs)
        .as_of(),
    post("type_specs.create", "/types/{type_id}/extra_specs", handler!(create))
        .policy("volume_extension:types_extra_specs:create")
        .body(bodies::create_specs)
        .answers(answers::specs),
    get("type_specs.show", "/types/{type_id}/extra_specs/{key}", handler!(show))
        .policy("volume_extension:types_extra_specs:show")
        .answers(answers::spec)
        .as_of(),
    put("type_specs.update", "/types/{type_id}/extra_specs/{key}", handler!(update))
        .policy("volume_extension:types_extra_specs:update")
        .body(bodies::update_spec)
        .answers(answers::spec_updated),
    delete("type_specs.delete", "/types/{type_id}/extra_specs/{key}", handler!(remove))
        .policy("volume_extension:types_extra_specs:delete")
        .answers(accepted),
    get("type_encryption.index", "/types/{type_id}/encryption", handler!(encryption))
        .policy("volume_extension:volume_type_encryption:get")
        .answers(answers::type_encryption),
    get("type_access.index", "/types/{type_id}/os-volume-type-access", handler!(access))
        .policy("volume_extension:volume_type_access:get_all_for_type")
        .answers(answers::type_access)
        .as_of(),
    action("types.addProjectAccess", ACTION, "addProjectAccess", handler!(grant))
        .policy("volume_extension:volume_type_access:addProjectAccess")
        .answers(accepted),
    action("types.removeProjectAccess", ACTION, "removeProjectAccess", handler!(revoke))
        .policy("volume_extension:volume_type_access:removeProjectAccess")
        .answers(accepted),
];

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let kind = named(&ctx)?;
    Ok(Reply::ok(json!({"extra_specs": views::pairs(&kind.extra_specs)})))
}

fn one(kind: &VolumeType, key: &str) -> Result<Reply, Fault> {
    let (key, value) = kind
        .extra_specs
        .iter()
        .find(|(known, _)| known == key)
        .ok_or_else(|| Fault::not_found(format!("Volume Type {} has no extra specs with key {key}.", kind.id)))?;
    let mut map = Map::new();
    map.insert(key.clone(), json!(value));
    Ok(Reply::ok(Value::Object(map)))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    one(&*named(&ctx)?, ctx.param("key"))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let kind = named(&ctx)?;
    let bodies::TypeSpecsBody { extra_specs: specs } = ctx.parse()?;
    let sent = views::pairs(&specs);
    send(&ctx, &ctx.permit()?, VolumeTypeCommand::SetSpecs { volume_type: kind.id, specs }).await?;
    Ok(Reply::ok(json!({"extra_specs": sent})))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let kind = named(&ctx)?;
    let specs = specs(&ctx.body);
    if specs.first().is_none_or(|(key, _)| key != ctx.param("key")) {
        return Err(Fault::bad_request("Request body and URI mismatch"));
    }
    send(&ctx, &ctx.permit()?, VolumeTypeCommand::SetSpecs { volume_type: kind.id, specs }).await?;
    Ok(Reply::ok(ctx.body.clone()))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let kind = named(&ctx)?;
    let key = ctx.param("key").to_owned();
    send(&ctx, &ctx.permit()?, VolumeTypeCommand::RemoveSpec { volume_type: kind.id, key }).await?;
    Ok(Reply::empty(202))
}

/// The volumes of this service are not encrypted by their type. Cinder answers for such a type with an empty object.
async fn encryption(ctx: Ctx) -> Result<Reply, Fault> {
    named(&ctx)?;
    Ok(Reply::ok(json!({})))
}

async fn access(ctx: Ctx) -> Result<Reply, Fault> {
    let kind = named(&ctx)?;
    if kind.public {
        return Err(Fault::not_found("Access list not available for public volume types."));
    }
    let list: Vec<Value> =
        kind.access.iter().map(|project| json!({"volume_type_id": kind.id, "project_id": project})).collect();
    Ok(Reply::ok(json!({"volume_type_access": list})))
}

fn project(ctx: &Ctx) -> Result<ProjectId, Fault> {
    let text = ctx.action_body()["project"].as_str().filter(|text| !text.is_empty() && text.len() <= 255);
    text.map(ProjectId::new).ok_or_else(|| {
        Fault::bad_request("Invalid input for field/attribute project: 'project' is a required property")
    })
}

async fn grant(ctx: Ctx) -> Result<Reply, Fault> {
    let kind = named(&ctx)?;
    let project = project(&ctx)?;
    send(&ctx, &ctx.permit()?, VolumeTypeCommand::Grant { volume_type: kind.id, project }).await?;
    Ok(Reply::empty(202))
}

async fn revoke(ctx: Ctx) -> Result<Reply, Fault> {
    let kind = named(&ctx)?;
    let project = project(&ctx)?;
    send(&ctx, &ctx.permit()?, VolumeTypeCommand::Revoke { volume_type: kind.id, project }).await?;
    Ok(Reply::empty(202))
}
