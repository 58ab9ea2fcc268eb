//! Finds hosts with the requested resources in the indexes of the fleet.
//!
//! The prefilters first narrow the set of hosts by indexes. If few hosts are left, the search examines each. Otherwise
//! it examines hosts in the order of their free memory, and returns at most `[scheduler] max_placement_results` of
//! them. The fullest hosts come first if the weight of free memory is negative, and the emptiest otherwise. If
//! providers form trees or share resources, the placement view searches instead.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::{HostId, ProviderId};
use chronova_events::instance::{CheckRecord, RefusedHost};
use chronova_events::ledger::Allocation;
use chronova_projections::fleet::{HostResourceColumn, Slot, Slots};
use chronova_projections::placement::candidates as placement;

use super::context::SchedulingContext;
use super::prefilters::narrowings;
use super::request::ResourceRequest;

/// For each check, a decision names at most this many refused hosts as examples.
pub const EXAMPLES: usize = 3;

/// The hosts that were found, and the counts of the search.
#[derive(Debug, Default)]
pub struct CandidateHosts {
    pub slots: Vec<Slot>,
    /// The allocations by host; `None` if everything comes from the hosts' own providers.
    pub allocations: Option<BTreeMap<Slot, Vec<Allocation>>>,
    /// All requested amounts, by class.
    pub totals: BTreeMap<String, u64>,
    pub hosts: u32,
    pub required: Vec<String>,
    pub checks: Vec<CheckRecord>,
    /// The reason why no host is left; `None` if hosts are left.
    pub lacks: Option<String>,
}

/// The hosts that Placement would offer. One search requests dedicated CPUs as `PCPU`, another one as `VCPU` (Nova's
/// fallback, `[workarounds] disable_fallback_pcpu_query`). The hosts of both searches are candidates.
pub fn find(context: &SchedulingContext<'_>) -> CandidateHosts {
    let wanted = |pinned| ResourceRequest::of(context.request, pinned);
    let found = find_hosts_for(context, &wanted(true));
    if context.options.disable_fallback_pcpu_query || !found.totals.contains_key("PCPU") {
        return found;
    }
    let shared = find_hosts_for(context, &wanted(false));
    match (found.slots.is_empty(), shared.slots.is_empty()) {
        // If the search for shared CPUs finds no host either, the caller gets the reasons of the first search.
        (_, true) => found,
        (true, false) => shared,
        (false, false) => merged(context, found, shared),
    }
}

/// Merges the hosts of both searches. A host that both searches found keeps its allocations of `PCPU`.
fn merged(context: &SchedulingContext<'_>, mut found: CandidateHosts, mut shared: CandidateHosts) -> CandidateHosts {
    let known: BTreeSet<Slot> = found.slots.iter().copied().collect();
    shared.slots.retain(|slot| !known.contains(slot));
    if shared.slots.is_empty() {
        return found;
    }
    let mut allocations = shared.by_host(context);
    allocations.extend(found.by_host(context));
    found.slots.append(&mut shared.slots);
    found.allocations = Some(allocations);
    found
}

impl CandidateHosts {
    /// Takes the allocations by host, even if everything comes from the hosts' own providers.
    fn by_host(&mut self, context: &SchedulingContext<'_>) -> BTreeMap<Slot, Vec<Allocation>> {
        if let Some(known) = self.allocations.take() {
            return known;
        }
        let resources: Vec<(String, u64)> =
            self.totals.iter().map(|(class, amount)| (class.clone(), *amount)).collect();
        let own = |slot: &Slot| {
            let provider = ProviderId(context.fleet.row(*slot).id.0);
            (*slot, vec![Allocation { provider, resources: resources.clone() }])
        };
        self.slots.iter().map(own).collect()
    }
}

fn find_hosts_for(context: &SchedulingContext<'_>, wanted: &ResourceRequest) -> CandidateHosts {
    let mut set = context.fleet.hosts().clone();
    let mut found = CandidateHosts { totals: wanted.totals(), hosts: count(set.len()), ..CandidateHosts::default() };
    if wanted.undecided {
        let missing = "the flavor has several groups of resources, but no group_policy: set it to none or isolate";
        found.checks.push(CheckRecord { name: "group policy".to_owned(), left: 0, refused: Vec::new() });
        found.lacks = Some(missing.to_owned());
        return found;
    }
    for narrowing in narrowings(context, wanted) {
        let before = set.clone();
        set.retain_all(&narrowing.hosts);
        let mut gone = before;
        gone.remove_all(&set);
        let refused = gone.iter().take(EXAMPLES).map(|slot| RefusedHost {
            hostname: context.fleet.row(slot).name.clone(),
            reason: (narrowing.says)(context, slot, &narrowing.words),
        });
        let refused = refused.collect();
        found.checks.push(CheckRecord { name: narrowing.name.to_owned(), left: count(set.len()), refused });
        found.required.push(narrowing.words);
        if set.is_empty() {
            found.lacks = Some(narrowing.lacks);
            return found;
        }
    }
    if wanted.groups.is_empty() || found.totals.is_empty() {
        found.slots = set.iter().take(context.options.max_placement_results).collect();
        return found;
    }
    if context.fleet.is_flat() {
        with_room(context, wanted, &set, &mut found);
    } else {
        in_trees(context, wanted, &set, &mut found);
    }
    found
}

/// One requested class, and the hosts' inventories of it.
struct NeededClass<'a> {
    class: &'a str,
    amount: u64,
    column: &'a HostResourceColumn,
}

impl NeededClass<'_> {
    fn is_met(&self, context: &SchedulingContext<'_>, slot: Slot) -> bool {
        self.column.line(slot).is_some_and(|line| line.admits(self.amount, context.pending(slot, self.class)))
    }

    /// Describes what the host lacks: `RAM: wants 4096 MiB, free 1024 MiB of 16384 x 1.0`.
    fn words(&self, context: &SchedulingContext<'_>, slot: Slot) -> String {
        let (name, unit) = named(self.class);
        let amount = self.amount;
        let Some(line) = self.column.line(slot) else { return format!("{name}: wants {amount}{unit}, has none") };
        let free = line.free().saturating_sub(context.pending(slot, self.class));
        let of = line.total.saturating_sub(line.reserved);
        let ratio = line.allocation_ratio;
        if amount > free {
            return format!("{name}: wants {amount}{unit}, free {free}{unit} of {of} x {ratio:?}");
        }
        let (least, most, step) = (line.min_unit, line.max_unit, line.step_size);
        format!("{name}: wants {amount}{unit}, gives {least} to {most} in steps of {step}")
    }
}

/// A class's name for users, and its unit.
fn named(class: &str) -> (&str, &str) {
    match class {
        "MEMORY_MB" => ("RAM", " MiB"),
        "DISK_GB" => ("disk", " GiB"),
        "VCPU" => ("CPUs", ""),
        "PCPU" => ("dedicated CPUs", ""),
        other => (other, ""),
    }
}

fn with_room(context: &SchedulingContext<'_>, wanted: &ResourceRequest, set: &Slots, found: &mut CandidateHosts) {
    let totals = std::mem::take(&mut found.totals);
    let mut needs: Vec<NeededClass<'_>> = Vec::with_capacity(totals.len());
    for (class, amount) in &totals {
        let Some(column) = context.fleet.column(class) else {
            return refuse_all(context, set, found, class, *amount, totals.clone());
        };
        needs.push(NeededClass { class, amount: *amount, column });
    }
    let limit = context.options.max_placement_results.max(1);
    let fits = |slot: &Slot| {
        set.contains(*slot)
            && needs.iter().all(|need| need.is_met(context, *slot))
            && groups_fit(context, wanted, *slot)
    };
    let order = needs.iter().find(|need| need.class == "MEMORY_MB").or_else(|| needs.first());
    let size = set.len();
    found.slots = match order {
        // Few hosts are left, so the search examines each.
        _ if size <= limit => set.iter().filter(fits).collect(),
        Some(need) if context.options.multipliers.ram < 0.0 => {
            need.column.tightest(need.amount).filter(fits).take(limit).collect()
        }
        Some(need) => need.column.roomiest(need.amount).filter(fits).take(limit).collect(),
        None => set.iter().filter(fits).take(limit).collect(),
    };
    let cut = found.slots.len() == limit && size > limit;
    let refused = match cut {
        true => Vec::new(),
        false => hosts_short_of(context, &needs, set, &found.slots),
    };
    if found.slots.is_empty() {
        found.lacks = Some(scarcest_class(context, &needs, set));
    }
    found.checks.push(CheckRecord { name: "capacity".to_owned(), left: count(found.slots.len()), refused });
    found.totals = totals;
}

/// A single provider must serve all of a group with a suffix. If the host has only one provider, all groups must fit on
/// it together, and each group must keep the unit rules.
fn groups_fit(context: &SchedulingContext<'_>, wanted: &ResourceRequest, slot: Slot) -> bool {
    if wanted.groups.len() <= 1 {
        return true;
    }
    // Isolated groups need one provider each.
    let suffixed = wanted.groups.keys().filter(|suffix| !suffix.is_empty()).count();
    if wanted.isolate && suffixed > 1 {
        return false;
    }
    wanted.groups.values().flat_map(|group| &group.resources).all(|(class, amount)| {
        context.fleet.line(class, slot).is_some_and(|line| {
            *amount >= line.min_unit && *amount <= line.max_unit && amount.is_multiple_of(line.step_size)
        })
    })
}

fn refuse_all(
    context: &SchedulingContext<'_>,
    set: &Slots,
    found: &mut CandidateHosts,
    class: &str,
    amount: u64,
    totals: BTreeMap<String, u64>,
) {
    let (name, unit) = named(class);
    let refused = set.iter().take(EXAMPLES).map(|slot| RefusedHost {
        hostname: context.fleet.row(slot).name.clone(),
        reason: format!("{name}: wants {amount}{unit}, has none"),
    });
    let refused = refused.collect();
    found.checks.push(CheckRecord { name: "capacity".to_owned(), left: 0, refused });
    found.lacks = Some(format!("no suitable host has any {class}"));
    found.totals = totals;
}

/// Examples of hosts without enough capacity: for each class, the hosts that lack the least.
fn hosts_short_of(
    context: &SchedulingContext<'_>,
    needs: &[NeededClass<'_>],
    set: &Slots,
    fitting: &[Slot],
) -> Vec<RefusedHost> {
    if fitting.len() == set.len() {
        return Vec::new();
    }
    let fits: Slots = fitting.iter().copied().collect();
    let mut shown = BTreeSet::new();
    let mut examples: Vec<RefusedHost> = Vec::new();
    let mut show = |need: &NeededClass<'_>, slot: Slot| {
        if shown.insert(slot) && shown.len() <= EXAMPLES {
            let hostname = context.fleet.row(slot).name.clone();
            examples.push(RefusedHost { hostname, reason: need.words(context, slot) });
        }
    };
    for need in needs {
        let short = need.column.without_room(need.amount).filter(|slot| set.contains(*slot) && !fits.contains(*slot));
        short.take(EXAMPLES).for_each(|slot| show(need, slot));
    }
    // The other hosts break the unit rules, have none of a class, or are full because of pending claims.
    for slot in set.iter().filter(|slot| !fits.contains(*slot)).take(EXAMPLES) {
        if let Some(need) = needs.iter().find(|need| !need.is_met(context, slot)) {
            show(need, slot);
        }
    }
    examples
}

/// Names a class that no host has enough of. If each class has a host with enough, says that no host has enough of all
/// classes.
fn scarcest_class(context: &SchedulingContext<'_>, needs: &[NeededClass<'_>], set: &Slots) -> String {
    let with = |need: &NeededClass<'_>| set.iter().filter(|slot| need.is_met(context, *slot)).count();
    let scarcest = needs.iter().map(|need| (with(need), need)).min_by_key(|(count, _)| *count);
    match scarcest {
        Some((0, need)) => {
            let (name, unit) = named(need.class);
            let name = if name == "RAM" { "memory" } else { name };
            format!("no suitable host has {}{unit} of {name} free", need.amount)
        }
        _ => "no suitable host has enough of everything free".to_owned(),
    }
}

/// Searches in the placement view, and takes the first candidate of each host.
fn in_trees(context: &SchedulingContext<'_>, wanted: &ResourceRequest, set: &Slots, found: &mut CandidateHosts) {
    let (ledger, index) = (&context.placement.ledger, &context.placement.index);
    let limit = context.options.max_placement_results.max(1);
    let narrowed = set.len() < context.fleet.hosts().len();
    let request = placement::CandidatesRequest {
        groups: wanted.groups.values().cloned().collect(),
        isolate: wanted.isolate,
        same_subtrees: wanted.same_subtrees.clone(),
        // Candidates on excluded hosts count towards the limit. So the search requests more candidates than the limit.
        limit: Some(if narrowed { limit.saturating_mul(10) } else { limit }),
        ..placement::CandidatesRequest::default()
    };
    let has_room = |candidate: &placement::Candidate| {
        candidate.allocations.iter().all(|(provider, resources)| {
            resources.iter().all(|(class, amount)| context.has_room_beside(*provider, class, *amount))
        })
    };
    let mut allocations = BTreeMap::new();
    for candidate in placement::search(index, &request).candidates.into_iter().filter(has_room) {
        let roots = candidate.allocations.iter().map(|(provider, _)| ledger.root_of(*provider));
        let host =
            roots.filter_map(|root: ProviderId| context.fleet.slot(HostId(root.0))).find(|slot| set.contains(*slot));
        let Some(slot) = host.filter(|slot| !allocations.contains_key(slot)) else { continue };
        let own: Vec<Allocation> = candidate
            .allocations
            .into_iter()
            .map(|(provider, resources)| {
                let resources = resources.iter().map(|(class, amount)| (class.to_string(), *amount)).collect();
                Allocation { provider, resources }
            })
            .collect();
        allocations.insert(slot, own);
    }
    found.slots = allocations.keys().copied().collect();
    if found.slots.is_empty() {
        found.lacks = Some("no suitable host has the requested resources free".to_owned());
    }
    let refused = set.iter().filter(|slot| !allocations.contains_key(slot)).take(EXAMPLES).map(|slot| RefusedHost {
        hostname: context.fleet.row(slot).name.clone(),
        reason: "its providers together do not have the requested resources".to_owned(),
    });
    let refused = refused.collect();
    found.checks.push(CheckRecord { name: "capacity".to_owned(), left: count(found.slots.len()), refused });
    found.allocations = Some(allocations);
}

pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
