//! `chronova audit roles`: the users who had roles on a project at a moment or in a period, and why.
//!
//! The embedded identity service keeps users, roles and assignments in the log. A Keystone keeps them itself.

mod period;

use std::collections::BTreeSet;
use std::io::{self, Write};

use chronova_events::identity::{Grant, Identity, IdentityScope, Project};
use chronova_events::ids::{ProjectId, RoleId, UserId};
use chronova_projections::Projection as _;
use chronova_projections::history::PastPart;
use chronova_projections::identities::Identities;
use chronova_web::audit::line::printable;
use serde::Serialize;

use super::super::moments::AsOf;
use super::super::{CommandFailure, Exit};
use super::past::{PastReader, ShownMoment};

/// The default policies of all services allow this role everything, on whatever scope a user has it.
const ADMIN: &str = "admin";

#[derive(Debug, Clone, clap::Args)]
pub struct ProjectRolesArgs {
    /// The project's id, or its name at that moment
    #[arg(value_name = "PROJECT")]
    pub project: String,
    /// A time (2026-01-31T12:00:00Z, 15m ago as `15m`) or a position of the log [default: now]
    #[arg(long, visible_alias = "as-of", value_name = "WHEN")]
    pub at: Option<AsOf>,
    /// Instead of one moment: everybody who had a role at some time from then on
    #[arg(long, value_name = "WHEN", conflicts_with = "at")]
    pub since: Option<AsOf>,
    /// The end of the period [default: now]
    #[arg(long, value_name = "WHEN", requires = "since")]
    pub until: Option<AsOf>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// The answer.
#[derive(Debug, Serialize)]
struct ProjectRoles {
    moment: ShownMoment,
    project: NamedProject,
    /// The users with roles on the project.
    users: Vec<RoleHolder>,
    /// Further users with the role `admin` on any scope.
    administrators: Vec<RoleHolder>,
}

#[derive(Debug, Serialize)]
struct NamedProject {
    id: String,
    name: String,
}

/// A user with roles.
#[derive(Debug, Serialize)]
struct RoleHolder {
    id: String,
    name: String,
    /// Whether the user could log in. A user or a domain may be disabled.
    enabled: bool,
    /// With the roles that other roles imply.
    roles: Vec<String>,
    /// The assignments that give the roles.
    because: Vec<String>,
}

/// Prints who had roles on the project of `args`.
pub async fn run(args: &ProjectRolesArgs, past: PastReader<'_>, out: &mut dyn Write) -> Result<Exit, CommandFailure> {
    if let Some(since) = args.since {
        return period::run(args, (since, args.until), past, out).await;
    }
    let views = past.part(args.at, &identity_part()).await?;
    let moment = ShownMoment::of(&views);
    let told = views.identities.read(|view| tell(&view.identity, &args.project, moment))?;
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &told).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write(&told, out)?;
    }
    Ok(Exit::Yes)
}

/// The users, projects, roles and assignments. A log has few events of them.
pub(super) fn identity_part() -> PastPart {
    PastPart { names: BTreeSet::from([Identities::NAME]), is_sparse: true }
}

fn tell(identity: &Identity, project: &str, moment: ShownMoment) -> Result<ProjectRoles, CommandFailure> {
    let project = find(identity, project, &moment)?;
    let (users, administrators) = holders(identity, project);
    let named = NamedProject { id: project.id.to_string(), name: project.attributes.name.clone() };
    Ok(ProjectRoles { moment, project: named, users, administrators })
}

/// The users with roles on the project, and further users with the role `admin` on any scope.
fn holders(identity: &Identity, project: &Project) -> (Vec<RoleHolder>, Vec<RoleHolder>) {
    let scope = IdentityScope::Project(project.id.clone());
    let (mut users, mut administrators) = (Vec::new(), Vec::new());
    for (user, grants) in &identity.grants {
        let roles = identity.roles_on(user, &scope);
        let reasons = |wanted: &dyn Fn(&Grant) -> bool| -> Vec<String> {
            grants.iter().filter(|grant| wanted(grant)).map(|grant| assignment(identity, grant)).collect()
        };
        if !roles.is_empty() {
            users.push(holder(identity, user, &roles, reasons(&|grant| reaches(identity, grant, project))));
            continue;
        }
        let because = reasons(&|grant| is_admin(identity, &grant.role));
        if !because.is_empty() {
            let admin = grants.iter().map(|grant| grant.role.clone()).filter(|role| is_admin(identity, role)).collect();
            administrators.push(holder(identity, user, &admin, because));
        }
    }
    (users, administrators)
}

/// The project with this id, or the only one with this name.
fn find<'a>(identity: &'a Identity, text: &str, moment: &ShownMoment) -> Result<&'a Project, CommandFailure> {
    if let Some(project) = identity.projects.get(&ProjectId::new(text)) {
        return Ok(project);
    }
    let named: Vec<&Project> = identity.projects.values().filter(|project| project.attributes.name == text).collect();
    match named.as_slice() {
        [project] => Ok(project),
        [] => Err(CommandFailure::Usage(format!(
            "the embedded identity service had no project {text} at {moment}; an external Keystone keeps its roles itself"
        ))),
        several => {
            let ids: Vec<&str> = several.iter().map(|project| project.id.as_str()).collect();
            Err(CommandFailure::Usage(format!("{text} can be any of: {}", ids.join(", "))))
        }
    }
}

/// Whether an assignment gives its role on the project: there, or inherited from above.
fn reaches(identity: &Identity, grant: &Grant, project: &Project) -> bool {
    match &grant.scope {
        IdentityScope::Project(id) if !grant.inherited => *id == project.id,
        IdentityScope::Project(above) => identity.lineage(&project.id).skip(1).any(|below| below.id == *above),
        IdentityScope::Domain(domain) => grant.inherited && *domain == project.domain,
        IdentityScope::System => false,
    }
}

/// Whether the role is `admin` or implies it.
fn is_admin(identity: &Identity, role: &RoleId) -> bool {
    let mut roles = BTreeSet::from([role.clone()]);
    identity.add_implied(&mut roles);
    roles.iter().filter_map(|role| identity.roles.get(role)).any(|role| role.name == ADMIN)
}

fn holder(identity: &Identity, id: &UserId, roles: &BTreeSet<RoleId>, because: Vec<String>) -> RoleHolder {
    let user = identity.users.get(id);
    let open = user.and_then(|user| identity.domains.get(&user.domain)).is_some_and(|domain| domain.enabled);
    let mut roles: Vec<String> = roles.iter().map(|role| role_name(identity, role)).collect();
    roles.sort();
    RoleHolder {
        id: id.to_string(),
        name: user.map_or_else(|| id.to_string(), |user| user.attributes.name.clone()),
        enabled: open && user.is_some_and(|user| user.enabled),
        roles,
        because,
    }
}

fn role_name(identity: &Identity, role: &RoleId) -> String {
    identity.roles.get(role).map_or_else(|| role.to_string(), |role| role.name.clone())
}

/// `member on project web`, `reader on domain Default (for the projects below)`.
pub(super) fn assignment(identity: &Identity, grant: &Grant) -> String {
    let role = role_name(identity, &grant.role);
    let scope = match &grant.scope {
        IdentityScope::System => "the system".to_owned(),
        IdentityScope::Domain(id) => {
            format!("domain {}", identity.domains.get(id).map_or(id.as_str(), |domain| domain.name.as_str()))
        }
        IdentityScope::Project(id) => {
            let name = identity.projects.get(id).map_or(id.as_str(), |project| project.attributes.name.as_str());
            format!("project {name}")
        }
    };
    let below = if grant.inherited { " (for the projects below)" } else { "" };
    format!("{role} on {scope}{below}")
}

fn write(told: &ProjectRoles, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "project {} ({}) at {}", printable(&told.project.name), told.project.id, told.moment)?;
    write_holders(&told.users, &told.administrators, "nobody has a role on it", write_holder, out)
}

/// Writes the users with a role on the project, or `nobody`, and then the administrators of other scopes.
pub(super) fn write_holders<T>(
    users: &[T],
    administrators: &[T],
    nobody: &str,
    write_holder: fn(&T, &mut dyn Write) -> io::Result<()>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if users.is_empty() {
        writeln!(out, "  {nobody}")?;
    }
    users.iter().try_for_each(|holder| write_holder(holder, out))?;
    if !administrators.is_empty() {
        writeln!(out, "administrators of other scopes, whom the default policies allow everything")?;
    }
    administrators.iter().try_for_each(|holder| write_holder(holder, out))
}

fn write_holder(holder: &RoleHolder, out: &mut dyn Write) -> io::Result<()> {
    let disabled = if holder.enabled { "" } else { ", disabled" };
    writeln!(out, "  {} ({}{disabled})", printable(&holder.name), holder.id)?;
    writeln!(out, "    roles    {}", printable(&holder.roles.join(", ")))?;
    writeln!(out, "    because  {}", printable(&holder.because.join("; ")))
}
