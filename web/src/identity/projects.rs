//! `/v3/projects`.

use chronova_actors::services::embedded::identity::{IdentityCommand, IdentityResourceKind, ProjectChange};
use chronova_events::identity::{Identity, Project, ProjectAttributes, ProjectCreated};
use chronova_events::ids::{DomainId, ProjectId};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::extra::extra;
use super::realm::{command, read};
use super::{answers, fault, listing};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, delete, get, patch, post};
use crate::schema::{Property, Schema, array, boolean, null_or, object, opt, req, string};

pub(super) const ROUTES: &[Route] = &[
    get("projects.index", "/projects", handler!(index))
        .policy_on_target("identity:list_projects")
        .answers(answers::projects)
        .as_of(),
    post("projects.create", "/projects", handler!(create))
        .policy_on_target("identity:create_project")
        .body(create_body)
        .answers(answers::project_created),
    get("projects.show", "/projects/{id}", handler!(show))
        .policy_on_target("identity:get_project")
        .answers(answers::project_shown)
        .as_of(),
    patch("projects.update", "/projects/{id}", handler!(update))
        .policy_on_target("identity:update_project")
        .body(update_body)
        .answers(answers::project_shown),
    delete("projects.delete", "/projects/{id}", handler!(remove))
        .policy_on_target("identity:delete_project")
        .answers(no_content),
];

/// Attributes with a meaning; all others are stored unchanged.
const KNOWN: [&str; 10] =
    ["id", "name", "domain_id", "parent_id", "description", "enabled", "tags", "is_domain", "options", "links"];

fn attributes(name: Property) -> [Property; 6] {
    [
        name,
        opt("description", null_or(string())),
        opt("enabled", boolean()),
        opt("domain_id", null_or(string())),
        opt("parent_id", null_or(string())),
        opt("tags", array(string().min_length(1).max_length(255).pattern("^[^,/]*$")).max_items(80)),
    ]
}

fn project_name() -> Schema {
    string().min_length(1).max_length(64).pattern("[\\S]+")
}

fn create_body() -> Schema {
    object([req("project", object(attributes(req("name", project_name()))).open())]).open()
}

fn update_body() -> Schema {
    object([req("project", object(attributes(opt("name", project_name()))).open())]).open()
}

#[derive(Debug, Deserialize)]
struct ProjectBody {
    name: Option<String>,
    description: Option<String>,
    enabled: Option<bool>,
    domain_id: Option<DomainId>,
    parent_id: Option<String>,
    tags: Option<Vec<String>>,
    is_domain: Option<bool>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl ProjectBody {
    fn attributes(self) -> ProjectAttributes {
        ProjectAttributes {
            name: self.name.unwrap_or_default(),
            description: self.description.unwrap_or_default(),
            tags: self.tags.unwrap_or_default(),
            extra: extra(&self.others, &KNOWN),
        }
    }
}

pub(super) fn show_one(ctx: &Ctx, project: &Project) -> Value {
    let attributes = &project.attributes;
    let parent = project.parent.as_ref().map_or_else(|| project.domain.as_str(), ProjectId::as_str);
    let mut shown = Map::new();
    for (key, text) in &attributes.extra {
        shown.insert(key.clone(), serde_json::from_str(text).unwrap_or_default());
    }
    let own = json!({
        "id": project.id,
        "name": attributes.name,
        "domain_id": project.domain,
        "description": attributes.description,
        "enabled": project.enabled,
        "parent_id": parent,
        "is_domain": false,
        "tags": attributes.tags,
        "options": {},
        "links": {"self": ctx.links.to_self("projects", project.id.as_str())},
    });
    if let Value::Object(own) = own {
        shown.extend(own);
    }
    Value::Object(shown)
}

fn target(id: &ProjectId, domain: &str) -> PolicyTarget {
    PolicyTarget::default().with("target.project.id", id.as_str()).with("target.project.domain_id", domain)
}

/// The policy target of an operation on a project. A missing project is 404 only if the policy allows the operation.
fn target_of(ctx: &Ctx, id: &ProjectId) -> Result<PolicyTarget, Fault> {
    let domain = read(ctx, |identity| identity.projects.get(id).map(|project| project.domain.clone()))?;
    Ok(target(id, domain.as_ref().map_or("", DomainId::as_str)))
}

fn reply(ctx: &Ctx, status: u16, id: &ProjectId) -> Result<Reply, Fault> {
    let found = read(ctx, |identity| {
        let project = identity.projects.get(id)?;
        let mut shown = show_one(ctx, project);
        hierarchy(ctx, identity, project, &mut shown);
        Some(shown)
    })?;
    let found = found.ok_or_else(|| fault::not_found(IdentityResourceKind::Project, id.as_str()))?;
    Ok(Reply::json(status, json!({"project": found})))
}

/// Adds what the query requests: `parents_as_ids` or `parents_as_list`, `subtree_as_ids` or `subtree_as_list`.
fn hierarchy(ctx: &Ctx, identity: &Identity, project: &Project, shown: &mut Value) {
    let wanted = |name| listing::flag(&ctx.query, name);
    if wanted("parents_as_ids") {
        let above: Vec<&Project> = identity.lineage(&project.id).skip(1).collect();
        let tree = above.iter().rev().fold(Value::Null, |tree, parent| json!({parent.id.as_str(): tree}));
        shown["parents"] = tree;
    } else if wanted("parents_as_list") {
        let above = identity.lineage(&project.id).skip(1);
        shown["parents"] = above.map(|parent| json!({"project": show_one(ctx, parent)})).collect();
    }
    if wanted("subtree_as_ids") {
        shown["subtree"] = subtree(identity, &project.id);
    } else if wanted("subtree_as_list") {
        let below = identity
            .projects
            .values()
            .filter(|other| other.id != project.id && identity.lineage(&other.id).any(|above| above.id == project.id));
        shown["subtree"] = below.map(|below| json!({"project": show_one(ctx, below)})).collect();
    }
}

fn subtree(identity: &Identity, id: &ProjectId) -> Value {
    let below: Map<String, Value> =
        identity.children(id).map(|child| (child.id.to_string(), subtree(identity, &child.id))).collect();
    if below.is_empty() { Value::Null } else { Value::Object(below) }
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let domain = ctx.query.last("domain_id").unwrap_or_default().to_owned();
    ctx.authorize(&PolicyTarget::default().with("target.project.domain_id", domain))?;
    let domains_wanted = listing::flag(&ctx.query, "is_domain");
    // Chronova's domains are no projects, so `is_domain` matches none.
    let items = read(&ctx, |identity| {
        let wanted = identity.projects.values().filter(|_| !domains_wanted);
        wanted.map(|project| show_one(&ctx, project)).collect()
    })?;
    let items = tagged(items, ctx.query.last("tags"));
    Ok(listing::reply(&ctx, "projects", items, &["name", "domain_id", "parent_id", "enabled"]))
}

/// `tags=a,b`: the projects that have all these tags.
fn tagged(items: Vec<Value>, tags: Option<&str>) -> Vec<Value> {
    let Some(tags) = tags else { return items };
    let has = |item: &Value, tag: &str| item["tags"].as_array().is_some_and(|own| own.iter().any(|own| own == tag));
    items.into_iter().filter(|item| tags.split(',').all(|tag| has(item, tag))).collect()
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let id = ProjectId::new(ctx.param("id"));
    ctx.authorize(&target_of(&ctx, &id)?)?;
    reply(&ctx, 200, &id)
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let created = wanted(&ctx)?;
    let project = created.project.clone();
    let permit = ctx.authorize(&target(&project, created.domain.as_str()))?;
    command(&ctx, &permit, IdentityCommand::CreateProject(created)).await?;
    reply(&ctx, 201, &project)
}

/// The new project that the body describes.
fn wanted(ctx: &Ctx) -> Result<ProjectCreated, Fault> {
    let body: ProjectBody = ctx.parse_at("project")?;
    if body.is_domain == Some(true) {
        return Err(Fault::not_implemented("Projects that act as domains are not supported."));
    }
    let (domain, parent) = place(ctx, &body)?;
    Ok(ProjectCreated {
        project: ProjectId::from(Uuid::new_v4().simple().to_string()),
        domain,
        parent,
        enabled: body.enabled.unwrap_or(true),
        attributes: body.attributes(),
    })
}

/// The domain and the parent of a new project. Without a named domain, the project is in the domain of its parent, or
/// else of the caller's token.
fn place(ctx: &Ctx, body: &ProjectBody) -> Result<(DomainId, Option<ProjectId>), Fault> {
    let above = body.parent_id.as_deref().map(ProjectId::new);
    // As in Keystone, a parent id that names a domain means a project at the top of that domain.
    let (parent, of_parent) = read(ctx, |identity| match above {
        Some(id) if identity.domains.contains_key(&DomainId::new(id.as_str())) => {
            (None, Some(DomainId::new(id.as_str())))
        }
        Some(id) => {
            let domain = identity.projects.get(&id).map(|parent| parent.domain.clone());
            (Some(id), domain)
        }
        None => (None, None),
    })?;
    let caller = ctx.caller();
    let own = caller.domain.as_ref().or(caller.project_domain.as_ref()).or(caller.user_domain.as_ref());
    let domain = body.domain_id.clone().or(of_parent).or_else(|| own.cloned());
    Ok((domain.unwrap_or_else(|| DomainId::new("default")), parent))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let project = ProjectId::new(ctx.param("id"));
    let permit = ctx.authorize(&target_of(&ctx, &project)?)?;
    let body: ProjectBody = ctx.parse_at("project")?;
    let change = ProjectChange {
        name: body.name,
        description: body.description,
        enabled: body.enabled,
        tags: body.tags,
        extra: extra(&body.others, &KNOWN),
    };
    command(&ctx, &permit, IdentityCommand::ChangeProject { project: project.clone(), change }).await?;
    reply(&ctx, 200, &project)
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let project = ProjectId::new(ctx.param("id"));
    let permit = ctx.authorize(&target_of(&ctx, &project)?)?;
    command(&ctx, &permit, IdentityCommand::DeleteProject(project)).await?;
    Ok(Reply::empty(204))
}
