//! Checks the wall between compute and the embedded services beside it.
//!
//! Compute asks images, networks, volumes and identity through the traits of `actors/src/ports`. It names no embedded
//! service, reads none of their read models, and calls none of their HTTP APIs. `walls.txt` lists the files that still
//! do, `COUNT PATH`. The list may only shrink.

use std::collections::BTreeMap;

use super::source::{CodePath, Source};
use super::tree::Finding;

pub(crate) const NAME: &str = "walls";
pub(crate) const WHY: &str = "compute asks the services beside it through ports, so that OpenStack's own services can \
                              stand behind the ports: compute names no embedded service and reads no read model of \
                              one. walls.txt counts the exceptions, and may only shrink";

pub(crate) const LIST: &str = "ops/xtask/src/layers/walls.txt";

/// Compute, by folder.
const COMPUTE: [&str; 4] = ["actors/src", "web/src/compute", "web/src/console", "web/src/metadata"];

/// The folder of the services themselves, embedded and external.
const TENANTS: [&str; 1] = ["actors/src/services"];

/// The tables of all aggregates, holders of personal data, processes, reconcilers and options. A table names the
/// entries of each service and reads nothing.
const TABLES: [&str; 5] = [
    "actors/src/erasure/table.rs",
    "actors/src/gateway.rs",
    "actors/src/process/mod.rs",
    "actors/src/reconcile/table.rs",
    "actors/src/runtime/options.rs",
];

/// The read models of the embedded services, as fields of `Views` and as modules of `projections`.
const READ_MODELS: [&str; 5] = ["identities", "images", "networks", "security_groups", "volumes"];

/// The embedded services' HTTP APIs, as modules of `web`.
const APIS: [&str; 4] = ["identity", "image", "network", "volume"];

/// A file of compute that names an embedded service, and how often.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    path: String,
    line: usize,
    count: usize,
}

/// Compares the breaches with the list.
pub(crate) fn check(breaches: &[Breach], list: &str) -> Vec<Finding> {
    let allowed: BTreeMap<&str, usize> = list.lines().filter_map(entry).collect();
    let mut findings = Vec::new();
    for Breach { path, line, count } in breaches {
        let known = allowed.get(path.as_str()).copied().unwrap_or(0);
        if *count > known {
            let message = format!("reaches {count} times over the wall to an embedded service (at most {known})");
            findings.push(Finding { path: path.clone(), line: *line, rule: NAME, message });
        }
    }
    for (path, known) in allowed {
        let count = breaches.iter().find(|breach| breach.path == path).map_or(0, |breach| breach.count);
        if count < known {
            let message = format!(
                "the list allows `{path}` {known} reaches over the wall, but it has {count}; run `layers --lower`"
            );
            findings.push(Finding { path: LIST.to_owned(), line: 0, rule: NAME, message });
        }
    }
    findings
}

fn entry(line: &str) -> Option<(&str, usize)> {
    let (count, path) = line.trim().split_once(' ')?;
    Some((path.trim(), count.parse().ok()?))
}

/// The present content of the list.
pub(crate) fn list(breaches: &[Breach]) -> String {
    breaches.iter().map(|breach| format!("{} {}\n", breach.count, breach.path)).collect::<Vec<_>>().concat()
}

/// The breaches in these files, in the order of their paths.
pub(crate) fn breaches(sources: &[Source]) -> Vec<Breach> {
    let mut found: Vec<Breach> = sources.iter().filter(|source| is_compute(source)).filter_map(breach).collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn is_compute(source: &Source) -> bool {
    COMPUTE.iter().any(|place| source.is_under(place)) && !TENANTS.iter().any(|place| source.is_under(place))
}

fn breach(source: &Source) -> Option<Breach> {
    let is_table = TABLES.contains(&source.path.as_str());
    let paths = source.paths();
    let named = paths.iter().filter(|path| !is_table && !path.test && is_of_tenant(path)).map(|path| path.line);
    let read = (0..source.tokens.len()).filter(|at| !source.is_test(*at) && reads(source, *at));
    let mut lines: Vec<usize> = named.chain(read.map(|at| source.line(at))).collect();
    lines.sort_unstable();
    Some(Breach { path: source.path.clone(), line: *lines.first()?, count: lines.len() })
}

/// Whether the path is an embedded service's: `services::embedded::...`, `chronova_projections::networks::...`, or
/// `crate::network::...` in `web`.
fn is_of_tenant(path: &CodePath) -> bool {
    let segments: Vec<&str> = path.segments.iter().map(String::as_str).collect();
    match segments[..] {
        ["chronova_projections", module, ..] => READ_MODELS.contains(&module),
        ["crate", module, ..] if APIS.contains(&module) => true,
        _ => segments.windows(2).any(|pair| pair == ["services", "embedded"]),
    }
}

/// Whether the code locks a read model (`.networks.read(...)`); a port has no `read`.
fn reads(source: &Source, at: usize) -> bool {
    source.is_punct(at, '.')
        && source.ident(at + 1).is_some_and(|name| READ_MODELS.contains(&name))
        && source.is_punct(at + 2, '.')
        && source.ident(at + 3) == Some("read")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        breaches(&[Source::new(path, text)]).first().map_or(0, |breach| breach.count)
    }

    #[test]
    fn names_of_embedded_services_in_compute_are_counted() {
        let handler = "web/src/compute/servers/parts.rs";
        assert_eq!(count(handler, "fn f() { views.networks.read(|view| view.port(id)); }"), 1);
        assert_eq!(count(handler, "fn f() { queries\n.views\n.security_groups\n.read(g); }"), 1);
        assert_eq!(count(handler, "use chronova_projections::images::Images;"), 1);
        assert_eq!(count(handler, "use crate::network::{floating_ips, targets};"), 2);
        assert_eq!(count(handler, "use chronova_actors::services::embedded::volume::VolumeReject;"), 1);
        assert_eq!(count("actors/src/process/guest.rs", "use crate::services::embedded::image::ImageCommand;"), 1);
    }

    #[test]
    fn ports_and_tenants_are_free() {
        let asks = "async fn f() { queries.networks.check(project).await; views.servers.read(|servers| 1); }";
        assert_eq!(count("web/src/compute/servers/parts.rs", asks), 0);
        let own = "use crate::services::embedded::network::NetworkCommand; fn f() { views.networks.read(g); }";
        assert_eq!(count("actors/src/services/embedded/network/service/mod.rs", own), 0);
        assert_eq!(count("web/src/network/ports.rs", "fn f() { views.networks.read(g); }"), 0);
        assert_eq!(count("actors/src/gateway.rs", own), 1, "a read in a table must count");
        let row = "use crate::services::embedded::network::NetworkRoot;";
        assert_eq!(count("actors/src/gateway.rs", row), 0);
        let test = "#[cfg(test)] mod tests { fn f() { views.networks.read(g); } }";
        assert_eq!(count("actors/src/process/guest.rs", test), 0);
    }

    #[test]
    fn the_list_only_shrinks() {
        let two = [Breach { path: "web/src/compute/a.rs".to_owned(), line: 7, count: 2 }];
        assert_eq!(check(&two, "2 web/src/compute/a.rs\n"), []);
        assert_eq!(check(&two, "1 web/src/compute/a.rs\n").len(), 1);
        assert_eq!(check(&two, "").len(), 1);
        assert_eq!(check(&two, "3 web/src/compute/a.rs\n").len(), 1);
        assert_eq!(check(&[], "1 web/src/compute/gone.rs\n").len(), 1);
        assert_eq!(list(&two), "2 web/src/compute/a.rs\n");
    }
}
