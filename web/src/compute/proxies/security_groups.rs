//! `/os-security-groups` until 2.35. Source: nova `api/openstack/compute/security_groups.py`.

use chronova_actors::ports::{NewSecurityGroup, PortError, SecurityGroupInfo};
use chronova_events::ids::SecurityGroupId;
use serde_json::{Value, json};

use super::{networks, refused};
use crate::answers::accepted;
use crate::compute::answers::proxies as answers;
use crate::compute::bodies::proxies as bodies;
use crate::compute::views::security_group::group as render;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};
use crate::schema::is_true;

const ALL: &str = "/os-security-groups";
const ONE: &str = "/os-security-groups/{id}";

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("security_groups.SecurityGroup.index", ALL, handler!(index))
        .leader()
        .until(2, 35)
        .policy("os_compute_api:os-security-groups:get")
        .query(bodies::security_groups_query)
        .answers(answers::security_groups),
    post("security_groups.SecurityGroup.create", ALL, handler!(create))
        .until(2, 35)
        .policy("os_compute_api:os-security-groups:create")
        .body(bodies::security_group_body)
        .answers(answers::security_group),
    get("security_groups.show", ONE, handler!(show))
        .leader()
        .until(2, 35)
        .policy_on_target("os_compute_api:os-security-groups:show")
        .answers(answers::security_group),
    put("security_groups.update", ONE, handler!(update))
        .until(2, 35)
        .policy_on_target("os_compute_api:os-security-groups:update")
        .body(bodies::security_group_body)
        .answers(answers::security_group),
    delete("security_groups.SecurityGroup.delete", ONE, handler!(remove))
        .until(2, 35)
        .policy_on_target("os_compute_api:os-security-groups:delete")
        .answers(accepted),
];

/// An id in a path or body; as in Nova, it must be a UUID.
pub(super) fn uuid<T: std::str::FromStr>(text: &str) -> Result<T, Fault> {
    text.parse().map_err(|_| Fault::bad_request("Security group id should be uuid"))
}

/// The group, if the caller may see it.
pub(super) async fn group(ctx: &Ctx, id: SecurityGroupId) -> Result<SecurityGroupInfo, Fault> {
    networks(ctx)?.find_group(id, &ctx.service_caller()).await.map_err(refused)
}

/// The group of the path, if the route's rule allows the caller access to it.
async fn find(ctx: &Ctx) -> Result<SecurityGroupInfo, Fault> {
    let found = group(ctx, uuid(ctx.param("id"))?).await?;
    ctx.authorize(&PolicyTarget::default().project(&found.project))?;
    Ok(found)
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let all = ctx.query.last("all_tenants").is_some_and(|text| is_true(&Value::from(text)));
    let mut groups = networks(&ctx)?.list_groups(all, &ctx.service_caller()).await.map_err(refused)?;
    groups.sort_by(|a, b| (&a.project, &a.name).cmp(&(&b.project, &b.name)));
    let shown: Vec<Value> = page(&ctx, &groups).map(render).collect();
    Ok(Reply::ok(json!({"security_groups": shown})))
}

/// The page that `offset` and `limit` select. This API has no markers.
fn page<'a>(ctx: &Ctx, groups: &'a [SecurityGroupInfo]) -> impl Iterator<Item = &'a SecurityGroupInfo> + use<'a> {
    let number = |key: &str| ctx.query.last(key).and_then(|text| text.parse::<usize>().ok());
    let most = usize::try_from(ctx.app.config.max_limit).unwrap_or(usize::MAX);
    let limit = number("limit").filter(|limit| *limit > 0).unwrap_or(most).min(most);
    groups.iter().skip(number("offset").unwrap_or(0)).take(limit)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"security_group": render(&find(&ctx).await?)})))
}

/// Name and description. A name with only spaces is refused like an empty one; other names keep their spaces.
fn described(ctx: &Ctx) -> Result<(String, String), Fault> {
    let bodies::SecurityGroupBody { name, description } = ctx.parse_at("security_group")?;
    match name.trim().is_empty() {
        true => Err(Fault::bad_request("Security group name cannot be empty")),
        false => Ok((name, description)),
    }
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let (name, description) = described(&ctx)?;
    let project = ctx.caller().project.clone();
    let project = project.ok_or_else(|| Fault::bad_request("A security group needs a project"))?;
    let wanted = NewSecurityGroup { project, name, description };
    let made = networks(&ctx)?.create_group(wanted, &ctx.service_caller()).await.map_err(refused)?;
    Ok(Reply::ok(json!({"security_group": render(&made)})))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx).await?;
    let (name, description) = described(&ctx)?;
    let changed = networks(&ctx)?.change_group(found.id, name, description, &ctx.service_caller()).await;
    Ok(Reply::ok(json!({"security_group": render(&changed.map_err(refused)?)})))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx).await?;
    networks(&ctx)?.delete_group(found.id, &ctx.service_caller()).await.map_err(|error| match error {
        PortError::Conflict(message) | PortError::NotHere(message) => Fault::bad_request(message),
        other => refused(other),
    })?;
    Ok(Reply::empty(202))
}
