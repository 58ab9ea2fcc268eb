//! The choice of a host: pure, from read models, a request and options.

use chronova_events::ids::{HostId, ProcessId, ProviderId};
use chronova_events::instance::{CheckRecord, RefusedHost, Scheduled, WeighedHost};
use chronova_events::ledger::{Allocation, FittedCell};
use chronova_projections::fleet::Slot;
use chronova_projections::views::Views;

use super::look::{Look, Sources};
use super::options::SchedulerOptions;
use super::request::Request;
use super::{candidates, filters, weighers};
use crate::coordination::pending_claims::PendingClaims;

/// Candidates whose weights are kept with a decision.
const WEIGHED: usize = 5;

/// A host that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub host: HostId,
    pub hostname: String,
    pub slot: Slot,
    /// The zone that it is in because of an aggregate.
    pub zone: Option<String>,
    /// What to claim for it, sorted by provider.
    pub allocations: Vec<Allocation>,
    /// What its guest will probably get of the host's NUMA cells; the ledger has the last word.
    pub fitted: Vec<FittedCell>,
}

/// What was decided, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Hosts that fit, best first: the chosen one and its alternates. Empty: there is none.
    pub ranked: Vec<Chosen>,
    pub reasons: Reasons,
}

/// Why it was decided so.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reasons {
    pub wanted: Vec<(String, u64)>,
    pub required: Vec<String>,
    pub hosts: u32,
    pub checks: Vec<CheckRecord>,
    pub weighed: Vec<WeighedHost>,
    /// In one sentence and without naming hosts: what is missing, where no host fits.
    pub lacks: Option<String>,
}

impl Reasons {
    /// As it is recorded.
    pub fn record(self, process: ProcessId, attempt: u32, ranked: &[Chosen], lost: Vec<RefusedHost>) -> Scheduled {
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

    /// What the user is told. Clients look for the first sentence, which is Nova's.
    pub fn message(&self) -> String {
        match &self.lacks {
            Some(lacks) => format!("No valid host was found. There are not enough hosts available: {lacks}."),
            None => "No valid host was found. There are not enough hosts available.".to_owned(),
        }
    }

    /// How many hosts each check left, for administrators.
    pub fn counts(&self) -> String {
        let checks = self.checks.iter().map(|check| format!("{}: {} left", check.name, check.left));
        std::iter::once(format!("{} hosts", self.hosts)).chain(checks).collect::<Vec<_>>().join(", ")
    }
}

/// The hosts that fit, best first, as the read models show them now, besides what is on its way.
pub fn choose(views: &Views, pending: &PendingClaims, request: &Request, options: &SchedulerOptions) -> Decision {
    views.fleet.read(|fleet| {
        views.placement.read(|placement| {
            views.server_groups.read(|groups| {
                views.servers.read(|servers| {
                    choose_among(Sources { fleet, groups, placement, servers, pending }, request, options)
                })
            })
        })
    })
}

/// As [`choose`], among hosts that may be of another time or another fleet.
pub fn choose_among(sources: Sources<'_>, request: &Request, options: &SchedulerOptions) -> Decision {
    let look = Look::new(sources, request, options);
    let mut found = candidates::find(&look);
    let mut slots = std::mem::take(&mut found.slots);
    let mut reasons = Reasons {
        wanted: found.totals.iter().map(|(class, amount)| (class.clone(), *amount)).collect(),
        required: found.required,
        hosts: found.hosts,
        checks: found.checks,
        weighed: Vec::new(),
        lacks: found.lacks,
    };
    if let Some(group) = &look.group {
        reasons.required.push(format!("group {} ({})", group.name, group.policy.name()));
    }
    // Nova skips the filters for a host that an administrator insists on, and the host has its own word then.
    let which: fn(&filters::Filter) -> bool = match request.forced_host {
        None => |_| true,
        Some(_) => |filter| filter.always,
    };
    if !slots.is_empty() {
        filter(&look, &mut slots, &mut reasons, which);
    }
    if slots.is_empty() {
        return Decision { ranked: Vec::new(), reasons };
    }
    let weighed = weighers::weigh(&look, slots);
    let subset = options.host_subset_size.max(1);
    let places =
        weighed.best(options.max_attempts.max(1), subset, options.shuffle_best_same_weighed_hosts, request.dice);
    reasons.weighed = places.iter().take(WEIGHED).map(|place| weighed.record(&look, *place)).collect();
    let chosen = |place: &usize| {
        let slot = weighed.slot(*place);
        let row = look.fleet.row(slot);
        let allocations = match &mut found.allocations {
            Some(by_slot) => by_slot.remove(&slot).unwrap_or_default(),
            None => vec![Allocation { provider: ProviderId(row.id.0), resources: reasons.wanted.clone() }],
        };
        let zone = look.fleet.zone_of(slot).map(str::to_owned);
        let fitted = look.host(slot).fitting().ok().flatten().unwrap_or_default();
        Chosen { host: row.id, hostname: row.name.clone(), slot, zone, allocations, fitted }
    };
    let ranked = places.iter().take(options.max_attempts.max(1)).map(chosen).collect();
    Decision { ranked, reasons }
}

/// Whether a server may be rebuilt with another image where it is: only some filters are asked, of that host alone.
///
/// # Errors
/// Says which filter refuses.
pub fn may_rebuild(
    views: &Views,
    host: HostId,
    request: &Request,
    options: &SchedulerOptions,
) -> Result<(), Box<Reasons>> {
    views.fleet.read(|fleet| {
        views.placement.read(|placement| {
            views.server_groups.read(|groups| {
                views.servers.read(|servers| {
                    let pending = PendingClaims::default();
                    let sources = Sources { fleet, groups, placement, servers, pending: &pending };
                    let look = Look::new(sources, request, options);
                    let mut slots: Vec<Slot> = fleet.slot(host).into_iter().collect();
                    let mut reasons = Reasons { hosts: 1, ..Reasons::default() };
                    filter(&look, &mut slots, &mut reasons, |filter| filter.on_rebuild);
                    if slots.is_empty() { Err(Box::new(reasons)) } else { Ok(()) }
                })
            })
        })
    })
}

/// Asks the enabled filters in their order until no host is left, then those that are always asked and have something to
/// say.
fn filter(look: &Look<'_>, slots: &mut Vec<Slot>, reasons: &mut Reasons, which: fn(&filters::Filter) -> bool) {
    let enabled = &look.options.enabled_filters;
    let chosen = enabled.iter().filter_map(|name| filters::named(name));
    let unasked =
        |filter: &&filters::Filter| filter.always && !enabled.contains(&filter.name) && (filter.applies)(look);
    for filter in chosen.chain(filters::FILTERS.iter().filter(unasked)).filter(|filter| which(filter)) {
        let mut refused = Vec::new();
        if (filter.applies)(look) {
            slots.retain(|slot| {
                let seen = look.host(*slot);
                let passes = (filter.passes)(&seen);
                if !passes && refused.len() < candidates::EXAMPLES {
                    refused.push(RefusedHost { hostname: seen.row.name.clone(), reason: (filter.says)(&seen) });
                }
                passes
            });
        }
        let left = candidates::count(slots.len());
        reasons.checks.push(CheckRecord { name: filter.name.to_owned(), left, refused });
        if slots.is_empty() {
            reasons.lacks = Some((filter.lacks)(look));
            return;
        }
    }
}
