//! The filters of a list of servers.
//!
//! Source: nova `api/openstack/compute/servers.py` (`_get_servers`), `db/main/api.py` (which filters are exact, which
//! are patterns). As in Nova, filters that the caller may not use are ignored.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::Timestamp;
use chronova_events::flavor::Flavor;
use chronova_events::ids::{FlavorId, ProjectId};
use chronova_events::instance::Alive;
use chronova_projections::servers::{ServerRow, Servers};
use regex::Regex;

use crate::compute::flavors;
use crate::compute::versions;
use crate::compute::views::server::image_part;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::microversion::{Microversion, v};
use crate::pattern;
use chronova_events::instance::status::{self, Status};

/// The filters of callers who are not administrators, and their first versions.
const FOR_ALL: &[(&str, Microversion)] = &[
    ("reservation_id", v(2, 1)),
    ("name", v(2, 1)),
    ("status", v(2, 1)),
    ("image", v(2, 1)),
    ("flavor", v(2, 1)),
    ("ip", v(2, 1)),
    ("changes-since", v(2, 1)),
    ("all_tenants", v(2, 1)),
    ("ip6", v(2, 5)),
    ("tags", v(2, 26)),
    ("tags-any", v(2, 26)),
    ("not-tags", v(2, 26)),
    ("not-tags-any", v(2, 26)),
    ("changes-before", v(2, 66)),
    ("locked", v(2, 73)),
    ("availability_zone", v(2, 83)),
    ("config_drive", v(2, 83)),
    ("key_name", v(2, 83)),
    ("created_at", v(2, 83)),
    ("launched_at", v(2, 83)),
    ("terminated_at", v(2, 83)),
    ("power_state", v(2, 83)),
    ("task_state", v(2, 83)),
    ("vm_state", v(2, 83)),
    ("progress", v(2, 83)),
    ("user_id", v(2, 83)),
];

const REBUILDING: &[&str] = &["rebuilding", "rebuild_block_device_mapping", "rebuild_spawning"];

/// Each `status` of the API, with the values of `vm_state` and `task_state` that it stands for. A status without values
/// of `task_state` matches any task, and no task. Source: nova `api/openstack/common.py` (`_STATE_MAP`).
const STATUSES: &[(&str, &[&str], &[&str])] = &[
    ("ACTIVE", &["active"], &[]),
    ("BUILD", &["building"], &[]),
    ("DELETED", &["deleted"], &[]),
    ("ERROR", &["error"], &[]),
    ("HARD_REBOOT", &["active"], &["rebooting_hard", "reboot_pending_hard", "reboot_started_hard"]),
    ("MIGRATING", &["active", "paused"], &["migrating"]),
    ("PASSWORD", &["active"], &["updating_password"]),
    ("PAUSED", &["paused"], &[]),
    ("REBOOT", &["active"], &["rebooting", "reboot_pending", "reboot_started"]),
    ("REBUILD", &["active", "error", "stopped"], REBUILDING),
    ("RESCUE", &["rescued"], &[]),
    ("RESIZE", &["active", "stopped"], &["resize_prep", "resize_migrating", "resize_migrated", "resize_finish"]),
    ("REVERT_RESIZE", &["resized"], &["resize_reverting"]),
    ("SHELVED", &["shelved"], &[]),
    ("SHELVED_OFFLOADED", &["shelved_offloaded"], &[]),
    ("SHUTOFF", &["stopped"], &[]),
    ("SOFT_DELETED", &["soft-delete"], &[]),
    ("SUSPENDED", &["suspended"], &[]),
    ("VERIFY_RESIZE", &["resized"], &[]),
];

/// Filters that Nova's schema accepts, but Nova's code refuses. Each is the name of another table in Nova's database.
const OF_OTHER_TABLES: &[&str] = &[
    "block_device_mapping",
    "services",
    "metadata",
    "system_metadata",
    "info_cache",
    "security_groups",
    "pci_devices",
];

/// Parameters that [`ServerListQuery::by`] does not handle: those of pages and order, and those that name projects.
const NO_FILTER: &[&str] = &["limit", "marker", "sort_key", "sort_dir", "all_tenants", "tenant_id", "project_id"];

type ServerPredicate = Box<dyn Fn(&ServerRow, &Alive, &Status) -> bool + Send>;

/// The filters of a listing.
pub(super) struct ServerListQuery {
    /// `None`: all projects.
    pub project: Option<ProjectId>,
    /// Whether the list has no deleted servers, only deleted servers, or both deleted and live servers.
    pub deleted: DeletedFilter,
    holds: Vec<ServerPredicate>,
    /// The times in `changes-since` and `changes-before`; `None` if the query has neither.
    changed: Option<(Option<Timestamp>, Option<Timestamp>)>,
    /// Whether a list without deleted servers has soft-deleted servers.
    pub soft_deleted: bool,
    /// Whether no server can match, for example because the status or the flavor does not exist, or the token has no
    /// project.
    pub nothing: bool,
    /// Whether a filter is a pattern. Patterns are matched without the read model's lock, because matching takes long.
    pub patterns: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeletedFilter {
    No,
    Only,
    Both,
}

impl ServerListQuery {
    pub(super) fn holds(&self, row: &ServerRow) -> bool {
        let Some(server) = row.instance.known() else { return false };
        // Without `soft_deleted`, soft-deleted servers are hidden like deleted ones.
        let soft = server.is_soft_deleted();
        let gone = row.instance.alive().is_none();
        let listed = match self.deleted {
            DeletedFilter::No => !gone && (!soft || self.soft_deleted),
            DeletedFilter::Only => gone || soft,
            DeletedFilter::Both => true,
        };
        // The status is computed only if there are filters, and most lists have none.
        let passes =
            || status::of(&row.instance).is_some_and(|shown| self.holds.iter().all(|holds| holds(row, server, &shown)));
        listed && self.is_of(row) && (self.holds.is_empty() || passes())
    }

    /// Whether the row belongs to a listed project.
    pub(super) fn is_of(&self, row: &ServerRow) -> bool {
        let Some(project) = &self.project else { return true };
        row.instance.known().is_some_and(|server| server.request.project == *project)
    }

    /// Whether the query asks only for changed servers (`changes-since`, `changes-before`).
    pub(super) fn is_of_changes(&self) -> bool {
        self.changed.is_some()
    }

    /// The servers that may be in the list: as few as the indexes of the read model allow, in no particular order.
    pub(super) fn candidates(&self, servers: &Servers) -> Vec<Arc<ServerRow>> {
        let project = self.project.as_ref();
        match (self.changed, self.deleted) {
            (Some((since, until)), _) => servers.changed(project, since, until).cloned().collect(),
            (None, DeletedFilter::No) => servers.newest(project, None).into_iter().flatten().cloned().collect(),
            (None, DeletedFilter::Only | DeletedFilter::Both) => servers.ever(project, None).cloned().collect(),
        }
    }

    /// Reads the query. `list_all` is the policy rule for listing the servers of all projects.
    pub(super) fn read(ctx: &Ctx, list_all: &'static str) -> Result<Self, Fault> {
        let own = ctx.own_target();
        let all_filters = ctx.allows("os_compute_api:servers:allow_all_filters", &own);
        let allowed =
            |key: &str| all_filters || FOR_ALL.iter().any(|(name, since)| *name == key && ctx.version.at_least(*since));
        let query = |key: &str| ctx.query.last(key).filter(|_| allowed(key));

        let whose = whose(ctx, list_all, &allowed)?;
        let mut wanted = Self {
            nothing: whose == ListedProjects::None,
            project: whose.project(),
            deleted: DeletedFilter::No,
            soft_deleted: false,
            holds: Vec::new(),
            changed: None,
            patterns: false,
        };
        let mut status_deleted = false;
        let statuses: Vec<&str> = ctx.query.all("status").filter(|_| allowed("status")).collect();
        if !statuses.is_empty() {
            status_deleted = wanted.by_status(ctx, &statuses)?;
        }
        let since = query("changes-since").map(time).transpose()?;
        let before = query("changes-before").map(time).transpose()?;
        if let (Some(since), Some(before)) = (since, before)
            && before < since
        {
            return Err(Fault::bad_request("The value of changes-since must be less than or equal to changes-before."));
        }
        // As in Nova, every value except an empty one means true, even `false`.
        wanted.soft_deleted = query("soft_deleted").is_some_and(|text| !text.is_empty());
        wanted.deleted = match query("deleted") {
            _ if status_deleted => DeletedFilter::Only,
            Some(text) if is_on(text) => DeletedFilter::Only,
            Some(_) => DeletedFilter::No,
            // A list of the servers that changed includes deleted servers.
            None if since.is_some() || before.is_some() => DeletedFilter::Both,
            None => DeletedFilter::No,
        };
        // Nova stores and shows the time of a change in whole seconds. So all changes in the second `before` count.
        let until = before.map(|before| Timestamp((before.0.div_euclid(1_000_000) + 1).saturating_mul(1_000_000)));
        wanted.changed = (since.is_some() || before.is_some()).then_some((since, until));
        let mut seen: Vec<&str> = Vec::new();
        for (key, _) in ctx.query.pairs() {
            if NO_FILTER.contains(&key.as_str()) || seen.contains(&key.as_str()) || !allowed(key) {
                continue;
            }
            seen.push(key);
            if OF_OTHER_TABLES.contains(&key.as_str()) || key.starts_with('_') {
                return Err(Fault::bad_request(format!("Invalid filter field: {key}.")));
            }
            if let Some(value) = ctx.query.last(key) {
                wanted.by(ctx, key, value)?;
            }
        }
        Ok(wanted)
    }

    fn when(&mut self, holds: impl Fn(&ServerRow, &Alive, &Status) -> bool + Send + 'static) {
        self.holds.push(Box::new(holds));
    }

    /// Adds the filter by `status`. Returns whether only deleted servers are requested.
    fn by_status(&mut self, ctx: &Ctx, statuses: &[&str]) -> Result<bool, Fault> {
        let asked: Vec<String> = statuses.iter().map(|status| status.to_uppercase()).collect();
        let meant = || STATUSES.iter().filter(|(status, _, _)| asked.iter().any(|asked| asked == status));
        let states: BTreeSet<&str> = meant().flat_map(|(_, states, _)| states.iter().copied()).collect();
        // A status without tasks matches any task. For example, a filter by ACTIVE also finds servers that are
        // rebooting.
        let any_task = meant().any(|(_, _, tasks)| tasks.is_empty());
        let tasks: BTreeSet<&str> = meant().flat_map(|(_, _, tasks)| tasks.iter().copied()).collect();
        if states.is_empty() && versions::unknown_status_is_refused(ctx.version) {
            return Err(Fault::bad_request("Invalid status value"));
        }
        self.nothing |= states.is_empty();
        let deleted = states.iter().eq(["deleted"].iter());
        if deleted && !ctx.caller().is_admin {
            return Err(Fault::forbidden("Only administrators may list deleted instances"));
        }
        self.when(move |_, _, shown| {
            states.contains(shown.vm_state) && (any_task || shown.task_state.is_some_and(|task| tasks.contains(task)))
        });
        Ok(deleted)
    }

    /// Adds the filter with this name in the query.
    fn by(&mut self, ctx: &Ctx, key: &str, value: &str) -> Result<(), Fault> {
        let text = value.to_owned();
        match key {
            "name" | "display_name" => self.matching(value, |s| Some(s.request.name.clone()))?,
            "description" | "display_description" => self.matching(value, |s| s.request.description.clone())?,
            "hostname" => self.matching(value, |s| Some(s.request.hostname.clone()))?,
            "availability_zone" => self.matching(value, |s| {
                s.placement
                    .as_ref()
                    .map(|placed| placed.availability_zone.clone())
                    .or_else(|| s.request.availability_zone.clone())
            })?,
            "key_name" => self.matching(value, |s| s.request.key.as_ref().map(|key| key.name.clone()))?,
            "reservation_id" => self.matching(value, |s| Some(s.request.reservation.clone()))?,
            "node" => self.matching(value, |s| s.placement.as_ref().map(|placed| placed.hostname.clone()))?,
            "access_ip_v4" => self.matching(value, |s| s.request.access_ip_v4.clone())?,
            "access_ip_v6" => self.matching(value, |s| s.request.access_ip_v6.clone())?,
            "created_at" => self.matching(value, |s| Some(s.created_at.iso_micros()))?,
            "launched_at" => self.matching(value, |s| s.launched_at.map(Timestamp::iso_micros))?,
            "terminated_at" => self.matching(value, |s| s.terminated_at.map(Timestamp::iso_micros))?,
            "ip" | "ip6" => self.by_address(value, key == "ip6")?,
            "host" => self.when(move |_, s, _| s.placement.as_ref().is_some_and(|placed| placed.hostname == text)),
            "user_id" => self.when(move |_, s, _| s.request.user.as_str() == text),
            "uuid" => self.when(move |row, _, _| row.id.to_string().eq_ignore_ascii_case(&text)),
            "image" | "image_ref" => {
                // The image may be given as a link, which ends with its id.
                let id = text.rsplit('/').next().unwrap_or_default().to_owned();
                self.when(move |_, s, _| match &s.request.image {
                    Some(image) => image.id.to_string() == id,
                    None => id.is_empty(),
                });
            }
            "flavor" => {
                let id = text.rsplit('/').next().unwrap_or_default().to_owned();
                let (admin, project) = (ctx.caller().is_admin, ctx.caller().project.as_ref());
                let visible = |flavor: &Arc<Flavor>| admin || flavors::is_visible(flavor, project);
                let flavor = FlavorId::new(&id);
                let known = ctx.views()?.flavors.read(|view| view.flavors.by_id.get(&flavor).is_some_and(visible));
                self.nothing |= !known;
                self.when(move |_, s, _| s.request.flavor.id.as_str() == id);
            }
            "vm_state" => self.when(move |_, _, shown| shown.vm_state == text),
            "task_state" => self.when(move |_, _, shown| shown.task_state.unwrap_or_default() == text),
            "power_state" => {
                let regex = self.pattern(value)?;
                self.when(move |_, _, shown| regex.is_match(&shown.power_state.to_string()));
            }
            "progress" => self.matching(value, |_| Some("0".to_owned()))?,
            "launch_index" => self.matching(value, |s| Some(s.request.launch_index.to_string()))?,
            // Nova stores the text `True` or an empty text, and the pattern is matched with that text.
            "config_drive" => {
                let word = |s: &Alive| if s.request.config_drive { "True" } else { "" };
                self.matching(value, move |s| Some(word(s).to_owned()))?;
            }
            "locked" => {
                let locked = truth(value)?;
                self.when(move |_, s, _| s.lock.is_some() == locked);
            }
            "locked_by" => self.when(move |_, s, _| {
                s.lock.as_ref().is_some_and(|lock| if lock.by_admin { text == "admin" } else { text == "owner" })
            }),
            "tags" | "tags-any" | "not-tags" | "not-tags-any" => self.by_tags(key, value),
            "kernel_id" => self.matching(value, |s| Some(image_part(s, "kernel_id")))?,
            "ramdisk_id" => self.matching(value, |s| Some(image_part(s, "ramdisk_id")))?,
            _ => {}
        }
        Ok(())
    }

    /// Keeps servers whose text matches the pattern at any place, regardless of upper and lower case. This is MySQL's
    /// REGEXP.
    fn matching(&mut self, pattern: &str, of: impl Fn(&Alive) -> Option<String> + Send + 'static) -> Result<(), Fault> {
        let regex = self.pattern(pattern)?;
        self.when(move |_, server, _| of(server).is_some_and(|text| regex.is_match(&text)));
        Ok(())
    }

    fn pattern(&mut self, text: &str) -> Result<Regex, Fault> {
        self.patterns = true;
        pattern::compile(text).ok_or_else(|| Fault::bad_request(format!("Invalid filter: {text}")))
    }

    fn by_address(&mut self, pattern: &str, v6: bool) -> Result<(), Fault> {
        let regex = self.pattern(pattern)?;
        self.when(move |_, server, _| {
            let mut addresses = server.nics.iter().flat_map(|nic| &nic.fixed_ips).map(|ip| &ip.address);
            addresses.any(|address| address.contains(':') == v6 && regex.is_match(address))
        });
        Ok(())
    }

    fn by_tags(&mut self, key: &str, value: &str) {
        let tags: Vec<String> = value.split(',').map(str::to_owned).collect();
        let (all, not) = (!key.ends_with("-any"), key.starts_with("not-"));
        self.when(move |_, server, _| {
            let has = |tag: &String| server.request.tags.contains(tag);
            let matches = if all { tags.iter().all(has) } else { tags.iter().any(has) };
            matches != not
        });
    }
}

/// The project that is listed. A project in the query is used only with `all_tenants`, which needs its own right. As in
/// Nova, a query with a project but without `all_tenants` lists the servers of the caller's own project.
fn whose(ctx: &Ctx, list_all: &'static str, allowed: &impl Fn(&str) -> bool) -> Result<ListedProjects, Fault> {
    let own = ctx.caller().project.clone();
    let all = match ctx.query.last("all_tenants") {
        // `?all_tenants` without a value means true.
        Some("") => true,
        Some(text) => truth(text)?,
        None => false,
    };
    if !all {
        return Ok(own.map_or(ListedProjects::None, ListedProjects::One));
    }
    let target = match &own {
        Some(project) => crate::policy::PolicyTarget::default().project(project),
        None => crate::policy::PolicyTarget::default(),
    };
    ctx.authorize_rule(list_all, &target)?;
    let asked = ctx.query.last("tenant_id").or_else(|| ctx.query.last("project_id"));
    Ok(asked
        .filter(|_| allowed("project_id"))
        .map_or(ListedProjects::All, |project| ListedProjects::One(project.into())))
}

/// The projects whose servers are listed.
#[derive(Debug, PartialEq, Eq)]
enum ListedProjects {
    /// No project, because the token is not scoped to a project.
    None,
    One(ProjectId),
    All,
}

impl ListedProjects {
    fn project(self) -> Option<ProjectId> {
        match self {
            Self::One(project) => Some(project),
            Self::None | Self::All => None,
        }
    }
}

/// oslo's `bool_from_string` in its strict form.
fn truth(text: &str) -> Result<bool, Fault> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "on" | "y" | "yes" => Ok(true),
        "0" | "f" | "false" | "off" | "n" | "no" => Ok(false),
        _ => Err(invalid(&format!(
            "Unrecognized value '{text}', acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', \
             'true', 'y', 'yes'"
        ))),
    }
}

/// Nova's message for values that the schema accepts and the code refuses.
pub(super) fn invalid(reason: &str) -> Fault {
    Fault::bad_request(format!("Invalid input received: {reason}"))
}

fn is_on(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "1" | "t" | "true" | "on" | "y" | "yes")
}

/// Parses a time. A time without an offset is in UTC.
pub(in crate::compute) fn time(text: &str) -> Result<Timestamp, Fault> {
    use chrono::{DateTime, NaiveDate, NaiveDateTime};
    let text = text.trim();
    let spaced = text.replacen(' ', "T", 1);
    if let Ok(at) = DateTime::parse_from_rfc3339(&spaced) {
        return Ok(Timestamp(at.timestamp_micros()));
    }
    for form in ["%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z"] {
        if let Ok(at) = DateTime::parse_from_str(&spaced, form) {
            return Ok(Timestamp(at.timestamp_micros()));
        }
    }
    for form in ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"] {
        if let Ok(at) = NaiveDateTime::parse_from_str(spaced.trim_end_matches('Z'), form) {
            return Ok(Timestamp(at.and_utc().timestamp_micros()));
        }
    }
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().and_then(|day| day.and_hms_opt(0, 0, 0));
    day.map(|at| Timestamp(at.and_utc().timestamp_micros()))
        .ok_or_else(|| Fault::bad_request(format!("Invalid time: {text}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times_in_several_spellings_are_read() {
        let noon = Timestamp(1_767_268_800_000_000);
        for text in ["2026-01-01T12:00:00Z", "2026-01-01 12:00:00", "2026-01-01T13:00:00+01:00", "2026-01-01T12:00"] {
            assert_eq!(time(text).unwrap(), noon, "{text}");
        }
        assert!(time("yesterday").is_err());
    }

    #[test]
    fn booleans_are_strict() {
        assert!(truth("True").unwrap() && !truth("0").unwrap());
        assert_eq!(truth("maybe").unwrap_err().status, 400);
    }
}
