//! Flavors, their extra specs, and the projects that may use private flavors.

use std::sync::Arc;

use chronova_actors::flavor::{FlavorCatalogueId, FlavorCommand, FlavorRoot};
use chronova_events::flavor::{Flavor, FlavorCreated};
use chronova_events::ids::{FlavorId, ProjectId};
use serde_json::{Map, Value, json};

use super::bodies::{flavors as bodies, no_query};
use super::views::flavor::{BRIEF, FLAVOR, FlavorView, extra_specs};
use super::{paging, reject, versions};
use crate::answers::{accepted, done};
use crate::compute::answers::flavors as answers;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::fields::FieldTable;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action, delete, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("flavors.index", "/flavors", handler!(index))
        .query(bodies::flavors_index_query)
        .answers(answers::index)
        .as_of(),
    get("flavors.detail", "/flavors/detail", handler!(detail))
        .query(bodies::flavors_index_query)
        .answers(answers::detail)
        .as_of(),
    post("flavors.create", "/flavors", handler!(create))
        .policy("os_compute_api:os-flavor-manage:create")
        .body(bodies::flavors_create_body)
        .answers(answers::show),
    get("flavors.show", "/flavors/{id}", handler!(show)).query(no_query).answers(answers::show).as_of(),
    put("flavors.update", "/flavors/{id}", handler!(update))
        .since(2, 55)
        .policy("os_compute_api:os-flavor-manage:update")
        .body(bodies::flavors_update_body)
        .answers(answers::show),
    delete("flavors.delete", "/flavors/{id}", handler!(remove))
        .policy("os_compute_api:os-flavor-manage:delete")
        .answers(accepted),
    get("flavor_access.index", "/flavors/{flavor_id}/os-flavor-access", handler!(access))
        .policy("os_compute_api:os-flavor-access")
        .query(no_query)
        .answers(answers::access)
        .as_of(),
    action("flavor_access.addTenantAccess", "/flavors/{id}/action", "addTenantAccess", handler!(grant))
        .policy("os_compute_api:os-flavor-access:add_tenant_access")
        .body(bodies::flavor_access_add_tenant_access_body)
        .answers(answers::access),
    action("flavor_access.removeTenantAccess", "/flavors/{id}/action", "removeTenantAccess", handler!(revoke))
        .policy("os_compute_api:os-flavor-access:remove_tenant_access")
        .body(bodies::flavor_access_remove_tenant_access_body)
        .answers(answers::access),
    get("flavors_extraspecs.index", "/flavors/{flavor_id}/os-extra_specs", handler!(specs))
        .policy("os_compute_api:os-flavor-extra-specs:index")
        .query(no_query)
        .answers(answers::specs)
        .as_of(),
    post("flavors_extraspecs.create", "/flavors/{flavor_id}/os-extra_specs", handler!(set_specs))
        .policy("os_compute_api:os-flavor-extra-specs:create")
        .body(bodies::flavors_extraspecs_create_body)
        .answers(answers::set_specs),
    get("flavors_extraspecs.show", "/flavors/{flavor_id}/os-extra_specs/{id}", handler!(spec))
        .policy("os_compute_api:os-flavor-extra-specs:show")
        .query(no_query)
        .answers(answers::spec)
        .as_of(),
    put("flavors_extraspecs.update", "/flavors/{flavor_id}/os-extra_specs/{id}", handler!(set_spec))
        .policy("os_compute_api:os-flavor-extra-specs:update")
        .body(bodies::flavors_extraspecs_update_body)
        .answers(answers::set_spec),
    delete("flavors_extraspecs.delete", "/flavors/{flavor_id}/os-extra_specs/{id}", handler!(remove_spec))
        .policy("os_compute_api:os-flavor-extra-specs:delete")
        .answers(done),
];

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    list(&ctx, "flavors", &BRIEF)
}

async fn detail(ctx: Ctx) -> Result<Reply, Fault> {
    list(&ctx, "flavors/detail", &FLAVOR)
}

fn list(ctx: &Ctx, collection: &str, table: &FieldTable<FlavorView>) -> Result<Reply, Fault> {
    let mut found = wanted(ctx)?;
    sort(ctx, &mut found);
    let page = paging::cut(ctx, found, |flavor, marker| flavor.definition.flavor.as_str() == marker).map_err(|_| {
        Fault::bad_request(format!("marker [{}] not found", ctx.query.first("marker").unwrap_or_default()))
    })?;
    let marker = page.items.last().map(|last| last.definition.flavor.to_string());
    let views = views(ctx, page.items);
    let mut reply = Map::new();
    reply.insert("flavors".to_owned(), table.render_all(&views, ctx.version));
    if let (true, Some(marker)) = (page.more, marker) {
        paging::link(ctx, &mut reply, "flavors_links", collection, &marker);
    }
    Ok(Reply::ok(Value::Object(reply)))
}

fn views(ctx: &Ctx, flavors: Vec<Arc<Flavor>>) -> Vec<FlavorView> {
    let links = Arc::new(ctx.links.clone());
    let extra_specs = ctx.allows("os_compute_api:os-flavor-extra-specs:index", &ctx.own_target());
    flavors.into_iter().map(|flavor| FlavorView { flavor, links: Arc::clone(&links), extra_specs }).collect()
}

/// Whether a project may use a flavor, because the flavor is public or the project has access to it.
pub(super) fn is_visible(flavor: &Flavor, project: Option<&ProjectId>) -> bool {
    flavor.definition.public || project.is_some_and(|project| flavor.access.contains(project))
}

/// The public flavors and those that the project has access to. Administrators may request the private flavors, or all
/// flavors.
fn wanted(ctx: &Ctx) -> Result<Vec<Arc<Flavor>>, Fault> {
    let admin = ctx.caller().is_admin;
    let public = if admin { parse_public(ctx.query.first("is_public"))? } else { Some(true) };
    let number = |key: &str| match ctx.query.first(key) {
        Some(text) => text.parse::<u64>().map_err(|_| Fault::bad_request(format!("Invalid {key} filter [{text}]"))),
        None => Ok(0),
    };
    let (least_ram, least_disk) = (number("minRam")?, number("minDisk")?);
    let name = ctx.query.first("name");
    let own = ctx.caller().project.as_ref();
    let keep = |flavor: &Flavor| {
        let definition = &flavor.definition;
        let listed = match public {
            None => true,
            Some(false) => !definition.public,
            Some(true) => is_visible(flavor, own),
        };
        listed
            && (admin || !definition.disabled)
            && definition.memory_mib >= least_ram
            && u64::from(definition.root_gib) >= least_disk
            && name.is_none_or(|name| definition.name == name)
    };
    Ok(ctx.views()?.flavors.read(|view| view.flavors.by_id.values().filter(|flavor| keep(flavor)).cloned().collect()))
}

fn parse_public(text: Option<&str>) -> Result<Option<bool>, Fault> {
    match text.map(str::to_ascii_lowercase).as_deref() {
        None | Some("1" | "t" | "true" | "on" | "y" | "yes") => Ok(Some(true)),
        Some("none") => Ok(None),
        Some("0" | "f" | "false" | "off" | "n" | "no") => Ok(Some(false)),
        Some(_) => Err(Fault::bad_request(format!("Invalid is_public filter [{}]", text.unwrap_or_default()))),
    }
}

fn sort(ctx: &Ctx, flavors: &mut [Arc<Flavor>]) {
    let key = ctx.query.first("sort_key").unwrap_or("flavorid").to_owned();
    let descends = ctx.query.first("sort_dir") == Some("desc");
    flavors.sort_by(|a, b| {
        let (left, right) = (&a.definition, &b.definition);
        let ordering = match key.as_str() {
            "name" => left.name.cmp(&right.name),
            "memory_mb" => left.memory_mib.cmp(&right.memory_mib),
            "vcpus" => left.vcpus.cmp(&right.vcpus),
            "root_gb" => left.root_gib.cmp(&right.root_gib),
            "ephemeral_gb" => left.ephemeral_gib.cmp(&right.ephemeral_gib),
            "swap" => left.swap_mib.cmp(&right.swap_mib),
            "rxtx_factor" => left.rxtx_factor.total_cmp(&right.rxtx_factor),
            "is_public" => left.public.cmp(&right.public),
            "disabled" => left.disabled.cmp(&right.disabled),
            "description" => left.description.cmp(&right.description),
            "created_at" => a.created_at.cmp(&b.created_at),
            "updated_at" => a.updated_at.cmp(&b.updated_at),
            "id" => a.number.cmp(&b.number),
            _ => left.flavor.cmp(&right.flavor),
        };
        let ordering = ordering.then(a.number.cmp(&b.number));
        if descends { ordering.reverse() } else { ordering }
    });
}

/// A flavor that the caller may see.
fn find(ctx: &Ctx, name: &str) -> Result<Arc<Flavor>, Fault> {
    let id = FlavorId::new(ctx.param(name));
    let flavor = ctx.views()?.flavors.read(|view| view.flavors.by_id.get(&id).cloned());
    let visible = |flavor: &Arc<Flavor>| {
        ctx.caller().is_admin
            || ctx.caller().project.as_ref().is_some_and(|project| flavor.visible_to(project))
            || flavor.definition.public
    };
    flavor.filter(visible).ok_or_else(|| reject::no_flavor(id))
}

fn reply(ctx: &Ctx, flavor: Arc<Flavor>) -> Reply {
    let shown = FLAVOR.render_all(&views(ctx, vec![flavor]), ctx.version);
    Reply::ok(json!({"flavor": shown[0]}))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let flavor = find(&ctx, "id")?;
    Ok(reply(&ctx, flavor))
}

async fn send(ctx: &Ctx, command: FlavorCommand) -> Result<(), Fault> {
    let permit = ctx.permit()?;
    dispatch::send::<FlavorRoot>(ctx.dispatch()?, &permit, &FlavorCatalogueId, command)
        .await
        .map(|_| ())
        .map_err(reject::flavor)
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let request = definition(ctx.parse_at("flavor")?);
    let id = request.flavor.clone();
    send(&ctx, FlavorCommand::Create(request)).await?;
    let flavor = ctx.views()?.flavors.read(|view| view.flavors.by_id.get(&id).cloned());
    flavor.map(|flavor| reply(&ctx, flavor)).ok_or_else(|| reject::no_flavor(id))
}

fn definition(body: bodies::FlavorCreateBody) -> FlavorCreated {
    FlavorCreated {
        flavor: body.id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()).into(),
        name: body.name.trim().to_owned(),
        vcpus: body.vcpus,
        memory_mib: body.ram.into(),
        root_gib: body.disk,
        ephemeral_gib: body.ephemeral,
        swap_mib: body.swap,
        rxtx_factor: body.rxtx_factor.unwrap_or(1.0),
        public: body.public.unwrap_or(true),
        disabled: false,
        description: body.description,
    }
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let flavor = find(&ctx, "id")?.definition.flavor.clone();
    let bodies::FlavorUpdateBody { description } = ctx.parse_at("flavor")?;
    send(&ctx, FlavorCommand::Describe { flavor, description }).await?;
    show(ctx).await
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    send(&ctx, FlavorCommand::Delete { flavor: FlavorId::new(ctx.param("id")) }).await?;
    Ok(Reply::empty(202))
}

fn access_list(flavor: &Flavor) -> Value {
    let id = &flavor.definition.flavor;
    let list: Vec<Value> = flavor.access.iter().map(|project| json!({"flavor_id": id, "tenant_id": project})).collect();
    json!({"flavor_access": list})
}

async fn access(ctx: Ctx) -> Result<Reply, Fault> {
    let flavor = find(&ctx, "flavor_id")?;
    if flavor.definition.public {
        return Err(Fault::not_found("Access list not available for public flavors."));
    }
    Ok(Reply::ok(access_list(&flavor)))
}

fn tenant(ctx: &Ctx) -> ProjectId {
    ProjectId::new(ctx.action_body()["tenant"].as_str().unwrap_or_default())
}

async fn grant(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.expect_project(&tenant(&ctx)).await?;
    let flavor = find(&ctx, "id")?.definition.flavor.clone();
    let even_public = !versions::public_flavor_has_no_access_list(ctx.version);
    send(&ctx, FlavorCommand::GrantAccess { flavor, project: tenant(&ctx), even_public }).await?;
    Ok(Reply::ok(access_list(&*find(&ctx, "id")?)))
}

async fn revoke(ctx: Ctx) -> Result<Reply, Fault> {
    let flavor = find(&ctx, "id")?.definition.flavor.clone();
    send(&ctx, FlavorCommand::RevokeAccess { flavor, project: tenant(&ctx) }).await?;
    Ok(Reply::ok(access_list(&*find(&ctx, "id")?)))
}

async fn specs(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"extra_specs": extra_specs(&*find(&ctx, "flavor_id")?)})))
}

async fn spec(ctx: Ctx) -> Result<Reply, Fault> {
    let (flavor, key) = (find(&ctx, "flavor_id")?, ctx.param("id"));
    match flavor.extra_specs.iter().find(|(known, _)| known == key) {
        Some((key, value)) => Ok(Reply::ok(json!({key: value}))),
        None => {
            Err(Fault::not_found(format!("Flavor {} has no extra specs with key {key}.", flavor.definition.flavor)))
        }
    }
}

/// Keys and values as texts. A number becomes its decimal text.
fn pairs(specs: &Map<String, Value>) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    specs.iter().map(|(key, value)| (key.clone(), text(value))).collect()
}

/// Validates extra specs from 2.86 on. Until 2.85 only the body's schema restricts them.
fn check_specs(ctx: &Ctx, specs: &Map<String, Value>) -> Result<(), Fault> {
    match versions::extra_specs_are_validated(ctx.version) {
        true => {
            let custom = &ctx.app.compute.config.extra_specs;
            pairs(specs).iter().try_for_each(|(name, value)| super::extra_specs::check(custom, name, value))
        }
        false => Ok(()),
    }
}

async fn set_specs(ctx: Ctx) -> Result<Reply, Fault> {
    let flavor = find(&ctx, "flavor_id")?.definition.flavor.clone();
    let bodies::ExtraSpecsBody { extra_specs: specs } = ctx.parse()?;
    check_specs(&ctx, &specs)?;
    send(&ctx, FlavorCommand::SetExtraSpecs { flavor, extra_specs: pairs(&specs) }).await?;
    Ok(Reply::ok(json!({"extra_specs": specs})))
}

async fn set_spec(ctx: Ctx) -> Result<Reply, Fault> {
    let specs: Map<String, Value> = ctx.parse()?;
    check_specs(&ctx, &specs)?;
    let flavor = find(&ctx, "flavor_id")?.definition.flavor.clone();
    if !specs.contains_key(ctx.param("id")) {
        return Err(Fault::bad_request("Request body and URI mismatch"));
    }
    send(&ctx, FlavorCommand::SetExtraSpecs { flavor, extra_specs: pairs(&specs) }).await?;
    Ok(Reply::ok(Value::Object(specs)))
}

async fn remove_spec(ctx: Ctx) -> Result<Reply, Fault> {
    let flavor = find(&ctx, "flavor_id")?.definition.flavor.clone();
    send(&ctx, FlavorCommand::RemoveExtraSpec { flavor, key: ctx.param("id").to_owned() }).await?;
    Ok(Reply::empty(200))
}
