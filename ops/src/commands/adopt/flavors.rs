//! Adopts flavors with their extra specs and the projects that may use them.

use std::collections::BTreeMap;

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::flavor::{FlavorCatalogueId, FlavorRoot};
use chronova_events::envelope::{StreamId, Timestamp};
use chronova_events::flavor::{AccessGranted, ExtraSpecsReplaced, FlavorCreated, FlavorEvent};
use chronova_events::ids::{FlavorId, ProjectId};

use super::history::HistoryPart;
use super::report::AdoptedThing;
use super::{Adoption, Unadoptable};
use crate::nova::database::rows;
use crate::nova::rows::NovaRow;

/// A flavor of the catalogue.
struct NovaFlavor {
    created: FlavorCreated,
    at: Timestamp,
    extra_specs: Vec<(String, String)>,
    projects: Vec<String>,
}

pub(super) fn adopt(adoption: &mut Adoption<'_>) {
    let mut specs = related(adoption, "flavor_extra_specs", |row| {
        Some((row.text("key")?.to_owned(), row.text("value").unwrap_or_default().to_owned()))
    });
    let mut access = related(adoption, "flavor_projects", |row| row.text("project_id").map(str::to_owned));
    for row in rows(adoption.api(), "flavors") {
        let number = row.text("id").unwrap_or_default();
        let id = row.text("flavorid").unwrap_or("?");
        adoption.report.see(AdoptedThing::Flavor, id, row.text("name").unwrap_or_default());
        if adoption.report.leaves_out(AdoptedThing::Flavor, id) {
            continue;
        }
        let (specs, access) = (specs.remove(number).unwrap_or_default(), access.remove(number).unwrap_or_default());
        match flavor(&row, specs, access) {
            Ok(flavor) => record(adoption, flavor),
            Err(error) => adoption.report.obstacle(AdoptedThing::Flavor, id, error.reason, error.way_out),
        }
    }
}

/// The rows of a table that belong to flavors, by the flavor's number.
fn related<'a, T>(
    adoption: &Adoption<'a>,
    table: &'a str,
    read: impl Fn(&NovaRow<'a>) -> Option<T>,
) -> BTreeMap<&'a str, Vec<T>> {
    let mut by: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    for row in rows(adoption.api(), table) {
        if let (Some(flavor), Some(value)) = (row.text("flavor_id"), read(&row)) {
            by.entry(flavor).or_default().push(value);
        }
    }
    by
}

fn flavor(
    row: &NovaRow<'_>,
    mut extra_specs: Vec<(String, String)>,
    projects: Vec<String>,
) -> Result<NovaFlavor, Unadoptable> {
    extra_specs.sort();
    Ok(NovaFlavor {
        created: FlavorCreated {
            flavor: FlavorId::new(row.required("flavorid")?),
            name: row.required("name")?.to_owned(),
            vcpus: row.small("vcpus")?,
            memory_mib: row.small("memory_mb")?.into(),
            root_gib: row.small("root_gb")?,
            ephemeral_gib: row.small("ephemeral_gb")?,
            swap_mib: row.small("swap")?,
            rxtx_factor: row.real("rxtx_factor")?.unwrap_or(1.0),
            public: row.flag("is_public"),
            disabled: row.flag("disabled"),
            description: row.text("description").map(str::to_owned),
        },
        at: row.created_at()?,
        extra_specs,
        projects,
    })
}

fn record(adoption: &mut Adoption<'_>, flavor: NovaFlavor) {
    let NovaFlavor { created, at, extra_specs, projects } = flavor;
    let id = created.flavor.clone();
    let stream: StreamId = FlavorRoot::stream(&FlavorCatalogueId);
    let meta = adoption.meta.clone();
    let history = &mut adoption.history;
    history.push(HistoryPart::Catalogue, stream.clone(), at, &meta, FlavorEvent::from(created));
    if !extra_specs.is_empty() {
        let replaced = ExtraSpecsReplaced { flavor: id.clone(), extra_specs };
        history.push(HistoryPart::Catalogue, stream.clone(), at, &meta, FlavorEvent::from(replaced));
    }
    for project in projects {
        let granted = AccessGranted { flavor: id.clone(), project: ProjectId::new(project) };
        history.push(HistoryPart::Catalogue, stream.clone(), at, &meta, FlavorEvent::from(granted));
    }
}
