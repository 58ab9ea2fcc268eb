//! The attributes of resources that policy rules may use.

use chronova_events::ids::ProjectId;
use chronova_events::network::NetworkRow;

/// The attributes of a resource of a project.
pub fn owned(project: &ProjectId) -> Vec<(&'static str, String)> {
    ["project_id", "tenant_id"].map(|name| (name, project.as_str().to_owned())).to_vec()
}

pub fn network(row: &NetworkRow) -> Vec<(&'static str, String)> {
    within(&row.created.project, row)
}

/// The attributes of a resource of `project` in a network.
pub fn within(project: &ProjectId, row: &NetworkRow) -> Vec<(&'static str, String)> {
    let mut all = owned(project);
    all.push(("shared", flag(row.settings().shared)));
    all.push(("router:external", flag(row.settings().external)));
    all.push(("network:tenant_id", row.created.project.as_str().to_owned()));
    all
}

fn flag(value: bool) -> String {
    if value { "True" } else { "False" }.to_owned()
}
