//! `docs/limits.md` names the bound of each resource that a tenant can create with the method POST. This test compares
//! that page with the routes of this method.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use chronova_events::ids::{ProjectId, UserId};
use chronova_web::auth::Caller;
use chronova_web::config::WebConfig;
use chronova_web::policy::{Enforcer, Overrides, PolicyTarget};
use chronova_web::route::{Method, Route};
use chronova_web::service::Service;
use chronova_web::tables;

/// The words between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The operations that a text names.
fn listed(text: &str) -> BTreeSet<String> {
    quoted(text).map(str::to_lowercase).collect()
}

/// The parts of the page, by their headings.
fn parts(page: &str) -> BTreeMap<&str, &str> {
    let parts = page.split("\n## ").skip(1);
    parts.filter_map(|part| part.split_once('\n')).collect()
}

fn name(service: Service, route: &Route) -> String {
    format!("{service:?}/{}", route.op).to_lowercase()
}

fn posts() -> impl Iterator<Item = (Service, &'static Route)> {
    let of = |service| tables::of(service).iter().copied().flatten().map(move |route| (service, route));
    let all = Service::ALL.into_iter().flat_map(of);
    all.filter(|(_, route)| route.method == Method::Post && route.removed.is_none())
}

/// The names of all functions below the folder of the sources.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_dir() {
            let skipped = path.file_name().is_some_and(|name| name == "target" || name.as_encoded_bytes()[0] == b'.');
            if !skipped {
                functions(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

/// Whether the default policy lets a project member call the route on resources of the member's project.
fn is_for_members(enforcer: &Enforcer, service: Service, route: &Route) -> bool {
    let mut member = Caller::of_user(UserId::new("anna"));
    member.roles = ["member", "reader"].map(str::to_owned).to_vec();
    member.project = Some(ProjectId::new("own"));
    route.access.rule().is_none_or(|rule| enforcer.allows(service, rule, &member, &PolicyTarget::of(&member)))
}

#[test]
fn every_post_route_has_a_row_of_limits() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/limits.md")).unwrap();
    let parts = parts(&page);
    let [made, closed, changes] = [
        "Created by tenants",
        "Created only by administrators and services, by the default policy",
        "Changes and queries of existing resources",
    ]
    .map(|heading| parts[heading]);
    let rows = made.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
    let items = |text: &str| listed(&text.lines().filter(|line| line.starts_with("* ")).collect::<String>());
    let (closed, changes) = (items(closed), items(changes));
    let made: BTreeSet<String> = rows.iter().flat_map(|row| listed(row[0])).collect();
    let served: BTreeSet<String> = posts().map(|(service, route)| name(service, route)).collect();

    let mut wrong = Vec::new();
    for op in &served {
        match [&made, &closed, &changes].iter().filter(|known| known.contains(op)).count() {
            1 => {}
            0 => wrong.push(format!("{op}: no row says what bounds it")),
            _ => wrong.push(format!("{op}: in several tables")),
        }
    }
    let all = made.iter().chain(&closed).chain(&changes);
    wrong.extend(all.filter(|op| !served.contains(*op)).map(|op| format!("{op}: there is no such operation")));
    let config = WebConfig::default();
    let enforcer = Enforcer::new(&config.policy, &Overrides::parse("", "policy.yaml").unwrap()).unwrap();
    let open = posts().filter(|(service, route)| closed.contains(&name(*service, route)));
    let open = open.filter(|(service, route)| is_for_members(&enforcer, *service, route));
    wrong.extend(open.map(|(service, route)| format!("{}: members may call it", name(service, route))));
    let mut there = BTreeSet::new();
    functions(&root, &mut there);
    for row in &rows {
        assert_eq!(row.len(), 5, "{row:?}");
        let tests: Vec<&str> = quoted(row[4]).collect();
        if tests.is_empty() || tests.iter().any(|test| !there.contains(*test)) {
            wrong.push(format!("{}: there is no test {}", row[0], row[4]));
        }
    }
    assert!(wrong.is_empty(), "docs/limits.md:\n{}", wrong.join("\n"));
}
