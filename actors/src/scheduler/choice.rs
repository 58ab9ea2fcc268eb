//! Chooses a host from read models, a request and options. The choice is pure.

use chronova_events::ids::{HostId, ProcessId, ProviderId};
use chronova_events::instance::{CheckRecord, RefusedHost, Scheduled, WeighedHost};
use chronova_events::ledger::{Allocation, FittedNumaCell, HeldPciDevice};
use chronova_projections::fleet::Slot;
use chronova_projections::views::Views;

use super::context::{SchedulerViews, SchedulingContext};
use super::options::SchedulerOptions;
use super::request::RequestSpec;
use super::{candidates, filters, weighers};
use crate::coordination::pending_claims::PendingClaims;
use crate::hosts::metrics::HostMetrics;

/// The number of candidates with recorded weights in a decision.
const WEIGHED: usize = 5;

/// A host that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankedHost {
    pub host: HostId,
    pub hostname: String,
    pub slot: Slot,
    /// The availability zone of the host's aggregates; `None` in the default zone.
    pub zone: Option<String>,
    /// The allocations to claim, sorted by provider.
    pub allocations: Vec<Allocation>,
    /// The part of the host's NUMA cells that the guest will probably get; the ledger has the last word.
    pub fitted: Vec<FittedNumaCell>,
    /// The PCI devices that the guest will probably get.
    pub devices: Vec<HeldPciDevice>,
}

/// The decision, and its reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulingDecision {
    /// Hosts that fit, best first: the selected host and its alternates. Empty if no host fits.
    pub ranked: Vec<RankedHost>,
    pub reasons: SchedulingReasons,
}

/// The reasons of a decision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SchedulingReasons {
    pub wanted: Vec<(String, u64)>,
    pub required: Vec<String>,
    pub hosts: u32,
    pub checks: Vec<CheckRecord>,
    pub weighed: Vec<WeighedHost>,
    /// If no host fits, one sentence about the missing resource. It names no host.
    pub lacks: Option<String>,
}

impl SchedulingReasons {
    /// The event that records the decision and these reasons.
    pub fn record(self, process: ProcessId, attempt: u32, ranked: &[RankedHost], lost: Vec<RefusedHost>) -> Scheduled {
        Scheduled {
            process,
            attempt,
            wanted: self.wanted,
            required: self.required,
            hosts: self.hosts,
            checks: self.checks,
            weighed: self.weighed,
            chosen: ranked.first().map(|chosen| chosen.host),
            alternates: ranked.iter().skip(1).map(|chosen| chosen.hostname.clone()).collect(),
            lost,
        }
    }

    /// The fault message that the user sees. Its first sentence is Nova's, because clients search for that text.
    pub fn message(&self) -> String {
        match &self.lacks {
            Some(lacks) => format!("No valid host was found. There are not enough hosts available: {lacks}."),
            None => "No valid host was found. There are not enough hosts available.".to_owned(),
        }
    }

    /// The number of hosts that each check left, for administrators.
    pub fn counts(&self) -> String {
        let checks = self.checks.iter().map(|check| format!("{}: {} left", check.name, check.left));
        std::iter::once(format!("{} hosts", self.hosts)).chain(checks).collect::<Vec<_>>().join(", ")
    }
}

/// The hosts that fit, best first, from the present read models, the pending claims and the metrics of hosts.
pub fn choose(
    views: &Views,
    beside: (&PendingClaims, &HostMetrics),
    request: &RequestSpec,
    options: &SchedulerOptions,
) -> SchedulingDecision {
    with_sources(views, beside, |sources| choose_among(sources, request, options))
}

/// Calls `read` with the present read models, all of the same moment.
pub(super) fn with_sources<R>(
    views: &Views,
    (pending, metrics): (&PendingClaims, &HostMetrics),
    read: impl FnOnce(SchedulerViews<'_>) -> R,
) -> R {
    views.fleet.read(|fleet| {
        views.placement.read(|placement| {
            views.server_groups.read(|groups| {
                views
                    .servers
                    .read(|servers| read(SchedulerViews { fleet, groups, placement, servers, pending, metrics }))
            })
        })
    })
}

/// Like [`choose`], but among the hosts of a past moment or of another fleet.
pub fn choose_among(
    sources: SchedulerViews<'_>,
    request: &RequestSpec,
    options: &SchedulerOptions,
) -> SchedulingDecision {
    let context = SchedulingContext::new(sources, request, options);
    let mut found = candidates::find(&context);
    let mut slots = std::mem::take(&mut found.slots);
    let mut reasons = SchedulingReasons {
        wanted: found.totals.iter().map(|(class, amount)| (class.clone(), *amount)).collect(),
        required: found.required,
        hosts: found.hosts,
        checks: found.checks,
        weighed: Vec::new(),
        lacks: found.lacks,
    };
    if let Some(group) = &context.group {
        reasons.required.push(format!("group {} ({})", group.name, group.policy.name()));
    }
    // Nova skips the filters for a forced host. The compute service then checks the server itself.
    let which: fn(&filters::Filter) -> bool = match request.forced_host {
        None => |_| true,
        Some(_) => |filter| filter.always,
    };
    if !slots.is_empty() {
        filter(&context, &mut slots, &mut reasons, which);
    }
    if slots.is_empty() {
        return SchedulingDecision { ranked: Vec::new(), reasons };
    }
    let weighed = weighers::weigh(&context, slots);
    let subset = options.host_subset_size.max(1);
    let places =
        weighed.best(options.max_attempts.max(1), subset, options.shuffle_best_same_weighed_hosts, request.dice);
    reasons.weighed = places.iter().take(WEIGHED).map(|place| weighed.record(&context, *place)).collect();
    let chosen = |place: &usize| {
        let slot = weighed.slot(*place);
        let row = context.fleet.row(slot);
        let allocations = match &mut found.allocations {
            Some(by_slot) => by_slot.remove(&slot).unwrap_or_default(),
            None => vec![Allocation { provider: ProviderId(row.id.0), resources: reasons.wanted.clone() }],
        };
        let zone = context.fleet.zone_of(slot).map(str::to_owned);
        let fitted = context.host(slot).fitting().ok().flatten().unwrap_or_default();
        let devices = context.host(slot).passed(&fitted).unwrap_or_default();
        RankedHost { host: row.id, hostname: row.name.clone(), slot, zone, allocations, fitted, devices }
    };
    let ranked = places.iter().take(options.max_attempts.max(1)).map(chosen).collect();
    SchedulingDecision { ranked, reasons }
}

/// Checks that a server may be rebuilt with another image on its host. Only some filters run, and only on that host.
///
/// # Errors
/// The reasons, with the filter that refuses the host.
pub fn may_rebuild(
    views: &Views,
    host: HostId,
    request: &RequestSpec,
    options: &SchedulerOptions,
) -> Result<(), Box<SchedulingReasons>> {
    with_sources(views, (&PendingClaims::default(), &HostMetrics::default()), |sources| {
        let context = SchedulingContext::new(sources, request, options);
        let mut slots: Vec<Slot> = sources.fleet.slot(host).into_iter().collect();
        let mut reasons = SchedulingReasons { hosts: 1, ..SchedulingReasons::default() };
        filter(&context, &mut slots, &mut reasons, |filter| filter.on_rebuild);
        if slots.is_empty() { Err(Box::new(reasons)) } else { Ok(()) }
    })
}

/// Runs the enabled filters in their order. Then runs the filters that apply although they are not enabled. Stops as
/// soon as no host is left.
fn filter(
    context: &SchedulingContext<'_>,
    slots: &mut Vec<Slot>,
    reasons: &mut SchedulingReasons,
    which: fn(&filters::Filter) -> bool,
) {
    let enabled = &context.options.enabled_filters;
    let chosen = enabled.iter().filter_map(|name| filters::named(name));
    let hosts = slots.len();
    let unasked =
        |filter: &&filters::Filter| !enabled.contains(&filter.name) && filters::is_demanded(filter, context, hosts);
    for filter in chosen.chain(filters::FILTERS.iter().filter(unasked)).filter(|filter| which(filter)) {
        let mut refused = Vec::new();
        if (filter.applies)(context) {
            slots.retain(|slot| {
                let host = context.host(*slot);
                let passes = (filter.passes)(&host);
                if !passes && refused.len() < candidates::EXAMPLES {
                    refused.push(RefusedHost { hostname: host.row.name.clone(), reason: (filter.says)(&host) });
                }
                passes
            });
        }
        let left = candidates::count(slots.len());
        reasons.checks.push(CheckRecord { name: filter.name.to_owned(), left, refused });
        if slots.is_empty() {
            reasons.lacks = Some((filter.lacks)(context));
            return;
        }
    }
}
