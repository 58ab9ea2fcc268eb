//! `--replay`: repeats the decisions of the log.
//!
//! The replay reads the log once and builds two histories: the recorded one, and an alternative one. For each recorded
//! claim of a server, and for each recorded decision without a host, the scheduler decides again on the alternative
//! history. The claim and the host in that history follow the new decision. If the claim belongs to a move, the
//! scheduler gets the request of the move: the new flavor, the requested destination, and the present host as excluded.
//! `moves.rs` follows the allocations and the hosts of a server that moves.
//!
//! Almost all other events (aggregates, flavors, deletions) go into both histories. A guest's processors and devices
//! stay out of the alternative history if the guest is on another host there. With another fleet, the events of the
//! recorded hosts stay out, too. The replay then also decides again about servers that were built before `--since`,
//! because their hosts do not exist in the other fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use chronova_actors::scheduler::{RankedHost, RequestSpec};
use chronova_events::envelope::{Position, Recorded, Timestamp};
use chronova_events::host::HostEvent;
use chronova_events::ids::{ConsumerId, HostId, InstanceId, ProcessId, ProviderId};
use chronova_events::instance::{BuildRequested, FlavorSnapshot, InstanceEvent, Placed};
use chronova_events::ledger::{GroupMemberPlaced, LedgerEvent};
use chronova_events::registry::NounEvent;
use chronova_events::store::EventStore;
use chronova_hypervisor::sim::SimUri;
use serde::Serialize;

use super::super::log_pages::{payload, walk};
use super::super::{CommandFailure, Exit};
use super::alternative::AlternativeHistory;
use super::moves::SetAside;
use super::packing::Packing;
use super::{Rules, ScheduleArgs};

/// A build or a move of a server. A move has the id of its migration.
type ReplayKey = (InstanceId, Option<ProcessId>);

/// The result of one request in both histories; `None` is "no host".
#[derive(Debug, Clone, Serialize)]
struct ReplayedRequest {
    server: InstanceId,
    name: String,
    flavor: String,
    at: String,
    was: Option<String>,
    is: Option<String>,
    /// Why the alternative history has no host for the request.
    why: Option<String>,
}

#[derive(Debug, Serialize)]
struct ReplayReport {
    requests: usize,
    placed: (usize, usize),
    refused: (usize, usize),
    same_host: usize,
    other_host: usize,
    placed_only_now: usize,
    refused_only_now: usize,
    /// The most frequent flavor of the replayed requests. The headroom is the number of further servers with this
    /// flavor.
    flavor: Option<String>,
    as_it_was: Packing,
    replayed: Packing,
    differences: Vec<ReplayedRequest>,
}

pub(super) struct Replay<'a> {
    rules: &'a Rules,
    since: Timestamp,
    other_fleet: bool,
    real: AlternativeHistory,
    pub(super) other: AlternativeHistory,
    requests: BTreeMap<InstanceId, Arc<BuildRequested>>,
    /// The host of each server whose claim was decided again; `None` if no host was found. Other servers have their
    /// recorded hosts.
    pub(super) chosen: BTreeMap<InstanceId, Option<RankedHost>>,
    /// The servers that move, by their migrations.
    pub(super) moves: BTreeMap<ConsumerId, SetAside>,
    outcomes: BTreeMap<ReplayKey, (Arc<FlavorSnapshot>, ReplayedRequest)>,
}

pub(super) async fn run(
    args: &ScheduleArgs,
    rules: &Rules,
    store: &dyn EventStore,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let since = args.since.map_or(Timestamp(i64::MIN), |since| since.resolve(now));
    let until = args.until.map_or(Timestamp(i64::MAX), |until| until.resolve(now));
    let mut replay = Replay {
        rules,
        since,
        other_fleet: args.fleet.is_some(),
        real: AlternativeHistory::new(),
        other: AlternativeHistory::new(),
        requests: BTreeMap::new(),
        chosen: BTreeMap::new(),
        moves: BTreeMap::new(),
        outcomes: BTreeMap::new(),
    };
    if let Some(fleet) = &args.fleet {
        replay.settle_in(fleet).await?;
    }
    let mut page = Vec::new();
    walk(store, Position::START, Position(u64::MAX), |recorded| {
        if recorded.recorded_at > until {
            return Ok(ControlFlow::Break(()));
        }
        page.push(Arc::clone(recorded));
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    for recorded in &page {
        replay.real.take(recorded)?;
        replay.live_through(recorded).await?;
    }
    let report = replay.report()?;
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&report).map_err(std::io::Error::from)?)?,
        false => tell(&report, args.limit, out)?,
    }
    Ok(if report.differences.is_empty() { Exit::Yes } else { Exit::No })
}

impl Replay<'_> {
    /// Registers the hosts of another fleet, as their host agents would.
    async fn settle_in(&mut self, fleet: &SimUri) -> Result<(), CommandFailure> {
        let registrations = crate::simulated::registrations(fleet, &self.rules.options.hosts).await;
        for (stream, events) in registrations.map_err(|error| CommandFailure::Usage(error.to_string()))? {
            for event in events {
                self.other.invent(stream.clone(), event, Timestamp(0)).await?;
            }
        }
        Ok(())
    }

    /// Folds one recorded event into the alternative history. Another event may replace it there.
    async fn live_through(&mut self, recorded: &Arc<Recorded>) -> Result<(), CommandFailure> {
        let event = payload(recorded)?;
        let again = self.other_fleet || recorded.recorded_at >= self.since;
        if let Some(event) = LedgerEvent::of(event) {
            return self.live_through_ledger(event, recorded, again).await;
        }
        if let Some(event) = InstanceEvent::of(event) {
            return self.live_through_server(event, recorded, again).await;
        }
        if self.other_fleet && HostEvent::of(event).is_some() {
            return Ok(());
        }
        self.other.take(recorded)
    }

    async fn live_through_ledger(
        &mut self,
        event: &LedgerEvent,
        recorded: &Arc<Recorded>,
        again: bool,
    ) -> Result<(), CommandFailure> {
        match event {
            LedgerEvent::Claimed(claimed) if again => match self.server(&claimed.consumer) {
                Some(request) => {
                    let host = claimed.allocations.first().map(|held| self.real_name(held.provider)).transpose()?;
                    self.decide(&request, host, recorded.recorded_at).await
                }
                // Another client of Placement made this claim, on hosts that this fleet does not have.
                None if self.other_fleet => Ok(()),
                None => self.other.take(recorded),
            },
            LedgerEvent::GroupMemberPlaced(placed) => {
                match self.server(&placed.consumer).map(|request| request.instance) {
                    Some(server) if self.chosen.contains_key(&server) => {
                        let Some(Some(chosen)) = self.chosen.get(&server) else { return Ok(()) };
                        let provider = ProviderId(chosen.host.0);
                        let event = GroupMemberPlaced { provider, ..placed.clone() };
                        self.other.invent_in_ledger(event, recorded.recorded_at).await
                    }
                    _ => self.other.take(recorded),
                }
            }
            LedgerEvent::AllocationsReplaced(replaced) => self.live_through_exchange(replaced, recorded).await,
            // The processors and devices that the other host would have assigned are unknown.
            LedgerEvent::GuestFitted(fitted) => self.take_share(recorded, &fitted.consumer, fitted.provider),
            LedgerEvent::PciDevicesClaimed(claimed) => self.take_share(recorded, &claimed.consumer, claimed.provider),
            LedgerEvent::ProviderCreated(_)
            | LedgerEvent::ProviderChanged(_)
            | LedgerEvent::ProviderDeleted(_)
            | LedgerEvent::InventoryReplaced(_)
            | LedgerEvent::TraitsReplaced(_)
            | LedgerEvent::AggregatesReplaced(_)
            | LedgerEvent::HostCellsReplaced(_)
            | LedgerEvent::HostPciReplaced(_)
            | LedgerEvent::ProviderConfigApplied(_)
                if self.other_fleet =>
            {
                Ok(())
            }
            _ => self.other.take(recorded),
        }
    }

    /// Folds a guest's share of a host, unless the guest is on another host in the alternative history.
    fn take_share(
        &mut self,
        recorded: &Arc<Recorded>,
        consumer: &ConsumerId,
        host: ProviderId,
    ) -> Result<(), CommandFailure> {
        let elsewhere = match (self.moves.get(consumer), self.server(consumer)) {
            (Some(aside), _) => aside.decided && aside.host.as_ref().is_none_or(|chosen| chosen.host.0 != host.0),
            (None, Some(request)) => {
                let chosen = self.chosen.get(&request.instance);
                chosen.is_some_and(|chosen| chosen.as_ref().is_none_or(|chosen| chosen.host.0 != host.0))
            }
            (None, None) => false,
        };
        if elsewhere || self.other_fleet { Ok(()) } else { self.other.take(recorded) }
    }

    async fn live_through_server(
        &mut self,
        event: &InstanceEvent,
        recorded: &Arc<Recorded>,
        again: bool,
    ) -> Result<(), CommandFailure> {
        let at = recorded.recorded_at;
        let server: Option<InstanceId> = recorded.stream.key().parse().ok();
        match event {
            InstanceEvent::BuildRequested(request) => {
                self.requests.insert(request.instance, Arc::new(request.clone()));
                self.other.take(recorded)
            }
            InstanceEvent::Scheduled(scheduled) if again && scheduled.chosen.is_none() => {
                self.other.take(recorded)?;
                let Some(request) = server.and_then(|server| self.requests.get(&server).cloned()) else {
                    return Ok(());
                };
                let is_move = self.migration(request.instance)?.is_some();
                self.decide(&request, None, at).await?;
                let chosen = self.chosen.get(&request.instance).cloned().flatten();
                let Some(chosen) = chosen.filter(|_| !is_move) else { return Ok(()) };
                let placed = Placed {
                    process: scheduled.process,
                    host: chosen.host,
                    hostname: chosen.hostname.clone(),
                    attempt: scheduled.attempt,
                    availability_zone: self.zone(&chosen),
                };
                self.other.invent_for(request.instance, placed, at).await
            }
            _ => match server.map_or_else(|| Some(event.clone()), |server| self.relocated(server, event)) {
                // The alternative history has no host for the server.
                None => Ok(()),
                Some(relocated) if relocated == *event => self.other.take(recorded),
                Some(relocated) => self.other.invent(recorded.stream.clone(), relocated, at).await,
            },
        }
    }

    pub(super) fn take_unless_other_fleet(&mut self, recorded: &Arc<Recorded>) -> Result<(), CommandFailure> {
        if self.other_fleet { Ok(()) } else { self.other.take(recorded) }
    }

    pub(super) fn zone(&self, chosen: &RankedHost) -> String {
        chosen.zone.clone().unwrap_or_else(|| self.rules.default_zone().to_owned())
    }

    pub(super) fn server(&self, consumer: &ConsumerId) -> Option<Arc<BuildRequested>> {
        self.requests.get(&consumer.as_str().parse::<InstanceId>().ok()?).cloned()
    }

    fn real_name(&mut self, provider: ProviderId) -> Result<String, CommandFailure> {
        let views = self.real.views()?;
        let root = views.placement.read(|placement| placement.ledger.root_of(provider));
        let name = views.hosts.read(|hosts| hosts.get(HostId(root.0)).map(|host| host.hostname.clone()));
        Ok(name.unwrap_or_else(|| root.to_string()))
    }

    /// The migration of a server whose move has no destination yet.
    fn migration(&mut self, server: InstanceId) -> Result<Option<ProcessId>, CommandFailure> {
        let alive = self.real.views()?.servers.read(|servers| servers.get(server).cloned());
        let moving = alive.as_ref().and_then(|row| row.server()).and_then(|alive| alive.moving.as_deref());
        Ok(moving.filter(|moving| moving.target.is_none()).map(|moving| moving.migration))
    }

    /// The request that the recorded decision answered, as far as the log has it.
    fn request(&mut self, build: &BuildRequested) -> Result<RequestSpec, CommandFailure> {
        let row = self.real.views()?.servers.read(|servers| servers.get(build.instance).cloned());
        let (zone, may_stay) = (self.rules.default_zone(), self.rules.options.processes.allow_resize_to_same_host);
        let excluded = BTreeSet::new();
        let Some(server) = row.as_ref().and_then(|row| row.server()) else {
            return Ok(RequestSpec::of_build(build, &excluded, zone));
        };
        let Some(moving) = server.moving.as_deref().filter(|moving| moving.target.is_none()) else {
            let mut request = RequestSpec::of_build(&server.request, &excluded, zone);
            request.take_hardware(server);
            return Ok(request);
        };
        let mut moving = moving.clone();
        // The server leaves the host that it has in the alternative history.
        if let Some(present) = self.aside(moving.migration).and_then(|aside| aside.host.as_ref()) {
            moving.source.host = present.host;
        }
        Ok(RequestSpec::of_move(server, &moving, &excluded, zone, may_stay))
    }

    async fn decide(
        &mut self,
        build: &BuildRequested,
        was: Option<String>,
        at: Timestamp,
    ) -> Result<(), CommandFailure> {
        let migration = self.migration(build.instance)?;
        // A server without a host in the alternative history cannot move there.
        let aside = migration.and_then(|migration| self.aside(migration));
        if aside.is_some_and(|aside| aside.decided && aside.host.is_none()) {
            self.chosen.insert(build.instance, None);
            return Ok(());
        }
        let request = self.request(build)?;
        let mut decision = self.other.decide(&request, &self.rules.scheduler)?;
        let chosen = if decision.ranked.is_empty() { None } else { Some(decision.ranked.swap_remove(0)) };
        if let Some(chosen) = &chosen {
            self.other.claim(build.instance, &build.project, &build.user, chosen, at).await?;
        }
        if at >= self.since {
            let outcome = ReplayedRequest {
                server: build.instance,
                name: build.name.clone(),
                flavor: request.flavor.name.clone(),
                at: at.iso_seconds(),
                was,
                is: chosen.as_ref().map(|chosen| chosen.hostname.clone()),
                why: if chosen.is_none() { decision.reasons.lacks } else { None },
            };
            self.outcomes.insert((build.instance, migration), (request.flavor, outcome));
        }
        if let (Some(migration), true) = (migration, chosen.is_none()) {
            return self.give_back(migration, at).await;
        }
        self.chosen.insert(build.instance, chosen);
        Ok(())
    }

    fn report(mut self) -> Result<ReplayReport, CommandFailure> {
        let flavor = self.usual_flavor();
        let flavor = flavor.as_deref();
        let all: Vec<ReplayedRequest> = self.outcomes.into_values().map(|(_, outcome)| outcome).collect();
        let count = |is: fn(&ReplayedRequest) -> bool| all.iter().filter(|outcome| is(outcome)).count();
        let mut differences: Vec<ReplayedRequest> =
            all.iter().filter(|outcome| outcome.was != outcome.is).cloned().collect();
        differences.sort_by(|a, b| (&a.at, &a.name, a.server).cmp(&(&b.at, &b.name, b.server)));
        Ok(ReplayReport {
            requests: all.len(),
            placed: (count(|one| one.was.is_some()), count(|one| one.is.is_some())),
            refused: (count(|one| one.was.is_none()), count(|one| one.is.is_none())),
            same_host: count(|one| one.was.is_some() && one.was == one.is),
            other_host: count(|one| one.was.is_some() && one.is.is_some() && one.was != one.is),
            placed_only_now: count(|one| one.was.is_none() && one.is.is_some()),
            refused_only_now: count(|one| one.was.is_some() && one.is.is_none()),
            flavor: flavor.map(|flavor| flavor.name.clone()),
            as_it_was: Packing::of(self.real.views()?, flavor),
            replayed: Packing::of(self.other.views()?, flavor),
            differences,
        })
    }

    /// The most frequent flavor of the replayed requests.
    fn usual_flavor(&self) -> Option<Arc<FlavorSnapshot>> {
        let mut counts: BTreeMap<&str, (usize, &Arc<FlavorSnapshot>)> = BTreeMap::new();
        for (flavor, _) in self.outcomes.values() {
            counts.entry(&flavor.name).or_insert((0, flavor)).0 += 1;
        }
        let most = counts.into_values().max_by_key(|(count, _)| *count);
        most.map(|(_, flavor)| Arc::clone(flavor))
    }
}

fn tell(report: &ReplayReport, limit: usize, out: &mut dyn Write) -> Result<(), CommandFailure> {
    writeln!(out, "{} requests replayed", report.requests)?;
    writeln!(out, "{:28}{:>12}{:>12}", "", "as it was", "replayed")?;
    let mut row = |name: &str, was: &dyn std::fmt::Display, is: &dyn std::fmt::Display| {
        writeln!(out, "  {name:26}{:>12}{:>12}", was.to_string(), is.to_string())
    };
    row("placed", &report.placed.0, &report.placed.1)?;
    row("refused", &report.refused.0, &report.refused.1)?;
    let (was, is) = (&report.as_it_was, &report.replayed);
    let used = |packing: &Packing| format!("{} of {}", packing.hosts_in_use, packing.hosts);
    row("hosts in use", &used(was), &used(is))?;
    let classes: BTreeSet<&String> = was.claimed.keys().chain(is.claimed.keys()).collect();
    for class in classes {
        row(&format!("{class} claimed"), &share(was, class), &share(is, class))?;
    }
    if let Some(flavor) = &report.flavor {
        row(&format!("room for more {flavor}"), &was.headroom, &is.headroom)?;
    }
    writeln!(
        out,
        "same host {}, another host {}, placed only now {}, refused only now {}",
        report.same_host, report.other_host, report.placed_only_now, report.refused_only_now
    )?;
    for one in report.differences.iter().take(limit) {
        let host = |host: &Option<String>| host.clone().unwrap_or_else(|| "no host".to_owned());
        let why = one.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        writeln!(
            out,
            "  {} {} {} {}: {} -> {}{why}",
            one.at,
            one.server,
            one.name,
            one.flavor,
            host(&one.was),
            host(&one.is)
        )?;
    }
    let more = report.differences.len().saturating_sub(limit);
    if more > 0 {
        writeln!(out, "  ... and {more} more: raise --limit to see them")?;
    }
    Ok(())
}

fn share(packing: &Packing, class: &str) -> String {
    match packing.claimed.get(class) {
        Some((used, capacity)) if *capacity > 0 => {
            let thousandths = used.saturating_mul(1_000) / capacity;
            format!("{}.{} %", thousandths / 10, thousandths % 10)
        }
        _ => "-".to_owned(),
    }
}
