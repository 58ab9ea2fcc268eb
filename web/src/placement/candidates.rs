//! `/allocation_candidates`

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::ProviderId;
use chronova_events::ledger::Ledger;
use chronova_projections::placement::candidates::{CandidatesRequest, RequestGroup, TraitFilter, search};

use super::{answers, bodies, filters, replies, versions, views};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

const BAD_VALUE: &str = "placement.query.bad_value";
const MISSING_VALUE: &str = "placement.query.missing_value";
const DUPLICATE_KEY: &str = "placement.query.duplicate_key";

pub(super) const ROUTES: &[Route] = &[get("allocation_candidates.list", "/allocation_candidates", handler!(list))
    .policy("placement:allocation_candidates:list")
    .since(1, 10)
    .query(bodies::candidates_query)
    .answers(answers::candidates)];

async fn list(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    let request = request(&ctx)?;
    let found = ctx.queries()?.views.placement.read(|placement| {
        check_names(&placement.ledger, &request)?;
        Ok::<_, Fault>(search(&placement.index, &request))
    })?;
    let asked = request.groups.iter().flat_map(|group| group.resources.keys().cloned()).collect();
    let body = views::candidates::body(&found, &asked, ctx.version);
    replies::dated(&ctx, Reply::bytes(200, "application/json", body), None)
}

fn check_names(ledger: &Ledger, request: &CandidatesRequest) -> Result<(), Fault> {
    for group in &request.groups {
        filters::check_classes(ledger, group.resources.keys())?;
        filters::check_traits(ledger, &group.traits, "")?;
    }
    filters::check_traits(ledger, &request.root_traits, "")
}

/// The request in the query string.
fn request(ctx: &Ctx) -> Result<CandidatesRequest, Fault> {
    let same_subtrees = same_subtrees(ctx)?;
    let root_traits = root_traits(ctx)?;
    let groups = groups(ctx)?;
    check_groups(ctx, &groups, &same_subtrees)?;
    let group_policy = ctx.query.first("group_policy");
    if group_policy.is_none() && groups.keys().filter(|suffix| !suffix.is_empty()).count() > 1 {
        return Err(Fault::bad_request(
            "The \"group_policy\" parameter is required when specifying more than one \"resources{N}\" parameter.",
        ));
    }
    Ok(CandidatesRequest {
        groups: groups.into_values().collect(),
        limit: ctx.query.first("limit").and_then(|text| text.parse().ok()),
        isolate: group_policy == Some("isolate"),
        root_traits,
        same_subtrees,
        flat: !versions::knows_trees(ctx.version),
    })
}

fn root_traits(ctx: &Ctx) -> Result<TraitFilter, Fault> {
    let values: Vec<&str> = ctx.query.all("root_required").collect();
    let mut filter = TraitFilter::default();
    match values.as_slice() {
        [] => {}
        [value] => filters::add_traits(&mut filter, value, true, false)?,
        _ => {
            return Err(
                Fault::bad_request("Query parameter 'root_required' may be specified only once.").key(DUPLICATE_KEY)
            );
        }
    }
    let conflicts: Vec<&str> =
        filter.required.iter().flatten().filter(|name| filter.forbidden.contains(*name)).map(String::as_str).collect();
    if conflicts.is_empty() {
        return Ok(filter);
    }
    let names = conflicts.join(", ");
    Err(Fault::bad_request(format!("Conflicting required and forbidden traits found in root_required: {names}"))
        .key(BAD_VALUE))
}

fn same_subtrees(ctx: &Ctx) -> Result<Vec<BTreeSet<String>>, Fault> {
    let read = |value: &str| {
        let suffixes: BTreeSet<String> = value.split(',').map(|suffix| suffix.trim().to_owned()).collect();
        if suffixes.contains("") {
            return Err(Fault::bad_request("Empty string (unsuffixed group) can not be specified in `same_subtree` ")
                .key(BAD_VALUE));
        }
        Ok(suffixes)
    };
    ctx.query.all("same_subtree").map(read).collect()
}

/// The groups by suffix. The schema has accepted the keys.
fn groups(ctx: &Ctx) -> Result<BTreeMap<String, RequestGroup>, Fault> {
    const PREFIXES: [&str; 4] = ["resources", "required", "member_of", "in_tree"];
    let mut groups: BTreeMap<String, RequestGroup> = BTreeMap::new();
    for (key, value) in ctx.query.pairs() {
        let Some((prefix, suffix)) =
            PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix).map(|suffix| (*prefix, suffix)))
        else {
            continue;
        };
        let new = || RequestGroup { suffix: suffix.to_owned(), ..RequestGroup::default() };
        let group = groups.entry(suffix.to_owned()).or_insert_with(new);
        match prefix {
            "resources" => group.resources = filters::resources(value)?,
            "required" => group.traits = filters::traits(ctx, suffix)?,
            "member_of" => group.aggregates = filters::aggregates(ctx, suffix)?,
            _ => group.in_tree = Some(tree(value)?),
        }
    }
    Ok(groups)
}

fn tree(value: &str) -> Result<ProviderId, Fault> {
    value.trim().parse().map_err(|_| {
        Fault::bad_request(format!(
            "Invalid query string parameters: Expected 'in_tree' parameter to be a format of uuid. Got: {value}"
        ))
    })
}

fn check_groups(
    ctx: &Ctx,
    groups: &BTreeMap<String, RequestGroup>,
    same_subtrees: &[BTreeSet<String>],
) -> Result<(), Fault> {
    let without: Vec<&str> =
        groups.values().filter(|group| group.resources.is_empty()).map(|group| group.suffix.as_str()).collect();
    if versions::has_same_subtree(ctx.version) {
        check_subtrees(groups, &without, same_subtrees)?;
    } else {
        check_orphans(groups, &without)?;
    }
    if !versions::can_forbid_traits(ctx.version) {
        return Ok(());
    }
    let conflicts: BTreeSet<String> = groups
        .values()
        .flat_map(|group| {
            let traits = &group.traits;
            let bad = traits.required.iter().filter(|any| any.is_subset(&traits.forbidden));
            bad.map(|any| {
                let names: Vec<&str> = any.iter().map(String::as_str).collect();
                format!("required{}: ({})", group.suffix, names.join(", "))
            })
        })
        .collect();
    if conflicts.is_empty() {
        return Ok(());
    }
    let conflicts: Vec<String> = conflicts.into_iter().collect();
    Err(Fault::bad_request(format!(
        "Conflicting required and forbidden traits found in the following traits keys: {}",
        conflicts.join(", ")
    )))
}

/// From 1.36 on a group may have no resources, but then `same_subtree` must name it.
fn check_subtrees(
    groups: &BTreeMap<String, RequestGroup>,
    without: &[&str],
    same_subtrees: &[BTreeSet<String>],
) -> Result<(), Fault> {
    if without.len() == groups.len() {
        return Err(
            Fault::bad_request("There must be at least one resources or resources[$S] parameter.").key(MISSING_VALUE)
        );
    }
    let named: BTreeSet<&str> = same_subtrees.iter().flatten().map(String::as_str).collect();
    let list =
        |items: &[&str]| format!("[{}]", items.iter().map(|one| format!("'{one}'")).collect::<Vec<_>>().join(", "));
    let unnamed: Vec<&str> = without.iter().copied().filter(|suffix| !named.contains(suffix)).collect();
    if !unnamed.is_empty() {
        return Err(Fault::bad_request(format!(
            "Resourceless suffixed group request should be specified in `same_subtree` query param: bad group(s) - {}.",
            list(&unnamed)
        ))
        .key(BAD_VALUE));
    }
    let absent: Vec<&str> = named.into_iter().filter(|suffix| !groups.contains_key(*suffix)).collect();
    if absent.is_empty() {
        return Ok(());
    }
    let present: Vec<&str> = groups.keys().map(String::as_str).collect();
    Err(Fault::bad_request(format!(
        "Real suffixes should be specified in `same_subtree`: {} not found in {}.",
        list(&absent),
        list(&present)
    ))
    .key(BAD_VALUE))
}

/// Before 1.36 every group must request resources.
fn check_orphans(groups: &BTreeMap<String, RequestGroup>, without: &[&str]) -> Result<(), Fault> {
    let orphans = |key: &str, has: fn(&RequestGroup) -> bool| {
        let found = without.iter().filter(|suffix| groups.get(**suffix).is_some_and(has));
        found.map(|suffix| format!("{key}{suffix}")).collect::<Vec<_>>().join(", ")
    };
    let traits = orphans("required", |group| !group.traits.required.is_empty());
    if !traits.is_empty() {
        return Err(Fault::bad_request(format!(
            "All traits parameters must be associated with resources.  Found the following orphaned traits keys: {traits}"
        )));
    }
    let aggregates =
        orphans("member_of", |group| !group.aggregates.member_of.is_empty() || !group.aggregates.forbidden.is_empty());
    if !aggregates.is_empty() {
        return Err(Fault::bad_request(format!(
            "All member_of parameters must be associated with resources. Found the following orphaned member_of keys: \
             {aggregates}"
        )));
    }
    if !without.is_empty() {
        return Err(Fault::bad_request("All request groups must specify resources."));
    }
    if groups.is_empty() {
        return Err(Fault::bad_request("At least one request group (`resources` or `resources{$S}`) is required."));
    }
    Ok(())
}
