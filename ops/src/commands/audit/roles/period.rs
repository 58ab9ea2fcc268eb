//! Everybody who had a role on a project at some time of a period.
//!
//! The answer begins with the state at the start of the period. Then each event of the identity service is folded, and
//! the holders before and after it are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use chronova_events::envelope::{Position, Recorded, Timestamp};
use chronova_events::fold::Fold as _;
use chronova_events::identity::{Identity, IdentityEvent};
use chronova_events::ids::ProjectId;
use chronova_events::registry::NounEvent as _;
use chronova_events::store::criteria::Criteria;
use chronova_web::audit::line::printable;
use serde::Serialize;

use super::super::super::log_pages::payload;
use super::super::super::moments::AsOf;
use super::super::super::{CommandFailure, Exit};
use super::super::names;
use super::super::past::{PastReader, ShownMoment};
use super::{ProjectRolesArgs, RoleHolder, holders, identity_part};

/// The number of events that are read at once.
const PAGE: usize = 1_024;
/// Events that change nobody's roles.
const IRRELEVANT: [&str; 10] = [
    "identity.password_set",
    "identity.token_revoked",
    "identity.application_credential_created",
    "identity.application_credential_deleted",
    "identity.access_rule_created",
    "identity.access_rule_deleted",
    "identity.registered_limit_set",
    "identity.registered_limit_removed",
    "identity.limit_set",
    "identity.limit_removed",
];

#[derive(Debug, Serialize)]
struct PeriodRoles {
    since: ShownMoment,
    until: ShownMoment,
    /// The ids of the projects that had the name at some time.
    projects: Vec<String>,
    users: Vec<PeriodHolder>,
    /// Users with the role `admin` on other scopes.
    administrators: Vec<PeriodHolder>,
}

/// A user who had a role at some time.
#[derive(Debug, Serialize)]
struct PeriodHolder {
    id: String,
    /// The newest name.
    name: String,
    roles: BTreeSet<String>,
    because: BTreeSet<String>,
    spans: Vec<RoleSpan>,
}

/// A span of time in which a user had a role. If the user had the role before the period, the span begins with the
/// period.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct RoleSpan {
    since: String,
    /// `None`: until the end of the period.
    until: Option<String>,
}

/// All holders of one kind so far, by user.
#[derive(Debug, Default)]
struct HeldSoFar(BTreeMap<String, PeriodHolder>);

impl HeldSoFar {
    /// Notes who holds roles from the time `at` on. Ends the spans of users who held a role until then.
    fn take(&mut self, now: Vec<RoleHolder>, at: &str) {
        let ids: BTreeSet<String> = now.iter().map(|holder| holder.id.clone()).collect();
        for held in self.0.values_mut().filter(|held| !ids.contains(&held.id)) {
            if let Some(open) = held.spans.last_mut().filter(|span| span.until.is_none()) {
                open.until = Some(at.to_owned());
            }
        }
        for holder in now {
            let id = holder.id.clone();
            let held = self.0.entry(id.clone()).or_insert_with(|| PeriodHolder {
                id,
                name: String::new(),
                roles: BTreeSet::new(),
                because: BTreeSet::new(),
                spans: Vec::new(),
            });
            held.name = holder.name;
            held.roles.extend(holder.roles);
            held.because.extend(holder.because);
            if held.spans.last().is_none_or(|span| span.until.is_some()) {
                held.spans.push(RoleSpan { since: at.to_owned(), until: None });
            }
        }
    }

    fn done(self) -> Vec<PeriodHolder> {
        self.0.into_values().collect()
    }
}

/// Prints who had roles on the project of `args` at some time of the period.
pub(super) async fn run(
    args: &ProjectRolesArgs,
    (since, until): (AsOf, Option<AsOf>),
    past: PastReader<'_>,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let part = identity_part();
    let (start, end) = (past.part(Some(since), &part).await?, past.part(until, &part).await?);
    let (from, to) = (ShownMoment::of(&start), ShownMoment::of(&end));
    if from.position > to.position {
        return Err(CommandFailure::Usage(format!("the period begins ({from}) after its end ({to})")));
    }
    let projects = names::projects(std::slice::from_ref(&args.project), past.store).await?;
    let (mut identity, mut seen) = (start.identities.read(|view| view.identity.clone()), BTreeSet::new());
    let (mut users, mut administrators) = (HeldSoFar::default(), HeldSoFar::default());
    let mut take = |identity: &Identity, at: &str| {
        let known = projects.iter().filter_map(|id| identity.projects.get(&ProjectId::new(id)));
        let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
        for project in known {
            seen.insert(project.id.to_string());
            let (with_roles, further) = holders(identity, project);
            here.extend(with_roles);
            elsewhere.extend(further);
        }
        users.take(here, at);
        administrators.take(elsewhere, at);
    };
    take(&identity, &from.time);
    let criteria = Criteria { kinds: vec!["identity.".to_owned()], ..Criteria::default() };
    let mut at = Position(from.position);
    'log: loop {
        let page = past.store.search(at, PAGE, &criteria).await?;
        for recorded in &page.events {
            if recorded.position.0 > to.position {
                break 'log;
            }
            if let Some(time) = fold(&mut identity, recorded)? {
                take(&identity, &time.to_string());
            }
        }
        if page.until == at {
            break;
        }
        at = page.until;
    }
    if seen.is_empty() {
        let project = &args.project;
        return Err(CommandFailure::Usage(format!(
            "the embedded identity service had no project {project} in that time"
        )));
    }
    let (users, administrators) = (users.done(), administrators.done());
    let told = PeriodRoles { since: from, until: to, projects: seen.into_iter().collect(), users, administrators };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &told).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write(&args.project, &told, out)?;
    }
    Ok(Exit::Yes)
}

/// Folds an event. Returns its time if it can change who holds a role.
fn fold(identity: &mut Identity, recorded: &Recorded) -> Result<Option<Timestamp>, CommandFailure> {
    let Some(event) = IdentityEvent::of(payload(recorded)?) else { return Ok(None) };
    identity.evolve(event, recorded.recorded_at);
    Ok((!IRRELEVANT.contains(&&*recorded.kind)).then_some(recorded.recorded_at))
}

fn write(project: &str, told: &PeriodRoles, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "project {project} ({})", told.projects.join(", "))?;
    writeln!(out, "from {}", told.since)?;
    writeln!(out, "to   {}", told.until)?;
    super::write_holders(&told.users, &told.administrators, "nobody had a role on it", write_holder, out)
}

fn write_holder(holder: &PeriodHolder, out: &mut dyn Write) -> io::Result<()> {
    let joined = |words: &BTreeSet<String>, between: &str| {
        printable(&words.iter().map(String::as_str).collect::<Vec<_>>().join(between))
    };
    writeln!(out, "  {} ({})", printable(&holder.name), holder.id)?;
    writeln!(out, "    roles    {}", joined(&holder.roles, ", "))?;
    writeln!(out, "    because  {}", joined(&holder.because, "; "))?;
    for RoleSpan { since, until } in &holder.spans {
        writeln!(out, "    from     {since} to {}", until.as_deref().unwrap_or("the end"))?;
    }
    Ok(())
}
