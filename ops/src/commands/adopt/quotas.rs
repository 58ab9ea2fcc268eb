//! Adopts the limits of projects and of quota classes. Chronova counts a project's usage from its servers.

use std::collections::BTreeMap;

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::quota::QuotaRoot;
use chronova_actors::quota_class::{QuotaClassRoot, QuotaClassesId};
use chronova_events::envelope::Timestamp;
use chronova_events::ids::ProjectId;
use chronova_events::quota::{LimitsSet, QuotaEvent};
use chronova_events::quota_class::{ClassLimitsSet, QuotaClassEvent};

use super::history::HistoryPart;
use super::report::AdoptedThing;
use super::{Adoption, Unadoptable};
use crate::nova::database::live_rows;
use crate::nova::rows::NovaRow;

/// The resources that Nova still counts. Nova ignores rows of other resources, which date from before Neutron.
const COUNTED: &[&str] = &[
    "cores",
    "injected_file_content_bytes",
    "injected_file_path_bytes",
    "injected_files",
    "instances",
    "key_pairs",
    "metadata_items",
    "ram",
    "server_group_members",
    "server_groups",
];

/// Limits under one name, and the time of the newest limit.
type NamedLimits = BTreeMap<String, (BTreeMap<String, i64>, Timestamp)>;

pub(super) fn adopt(adoption: &mut Adoption<'_>) {
    let meta = adoption.meta.clone();
    for (project, (limits, at)) in limits(adoption, "quotas", "project_id") {
        let project = ProjectId::new(project);
        let stream = QuotaRoot::stream(&project);
        let set = LimitsSet { project, limits: limits.into_iter().collect() };
        adoption.history.push(HistoryPart::Catalogue, stream, at, &meta, QuotaEvent::from(set));
    }
    for (class, (limits, at)) in limits(adoption, "quota_classes", "class_name") {
        let stream = QuotaClassRoot::stream(&QuotaClassesId);
        let set = ClassLimitsSet { class, limits: limits.into_iter().collect() };
        adoption.history.push(HistoryPart::Catalogue, stream, at, &meta, QuotaClassEvent::from(set));
    }
    for row in live_rows(adoption.api(), "project_user_quotas") {
        let project = row.text("project_id").unwrap_or("?");
        let reason = format!("limits of individual users are not kept ({})", row.text("user_id").unwrap_or("?"));
        adoption.report.see(AdoptedThing::Quota, project, "");
        adoption.report.note(AdoptedThing::Quota, project, reason);
    }
}

fn limits(adoption: &mut Adoption<'_>, table: &'static str, owner: &str) -> NamedLimits {
    let mut all = NamedLimits::new();
    for row in live_rows(adoption.api(), table) {
        let name = row.text(owner).unwrap_or("?");
        adoption.report.see(AdoptedThing::Quota, name, "");
        if adoption.report.leaves_out(AdoptedThing::Quota, name) {
            continue;
        }
        match limit(&row) {
            Ok((resource, _, _)) if !COUNTED.contains(&resource.as_str()) => {
                adoption.report.note(AdoptedThing::Quota, name, format!("Nova counts no {resource}: left out"));
            }
            Ok((resource, limit, at)) => {
                let known = all.entry(name.to_owned()).or_default();
                known.0.insert(resource, limit);
                known.1 = known.1.max(at);
            }
            Err(error) => adoption.report.obstacle(AdoptedThing::Quota, name, error.reason, error.way_out),
        }
    }
    all
}

fn limit(row: &NovaRow<'_>) -> Result<(String, i64, Timestamp), Unadoptable> {
    let limit = row.number("hard_limit")?.ok_or_else(|| row.wrong("hard_limit", "a number"))?;
    if limit < -1 {
        return Err(row.wrong("hard_limit", "-1 or more").into());
    }
    Ok((row.required("resource")?.to_owned(), limit, row.updated_at()?))
}
