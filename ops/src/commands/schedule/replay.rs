//! `--replay`: repeats the decisions of the log.
//!
//! The replay reads the log once and builds two histories: the recorded one, and an alternative one. For each recorded
//! claim of a server, and for each recorded decision without a host, the scheduler decides again on the alternative
//! history. The claim and the host in that history follow the new decision. The scheduler gets the request that created
//! the server, even if the claim belongs to a move.
//!
//! Almost all other events (aggregates, flavors, deletions) go into both histories. A guest's processors and devices
//! stay out of the alternative history if the guest is on another host there. With another fleet, the events of the
//! recorded hosts stay out, too. The replay then also places servers from before `--since` again, because their hosts
//! do not exist there.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use chronova_actors::scheduler::{RankedHost, RequestSpec};
use chronova_events::envelope::{Position, Recorded, Timestamp};
use chronova_events::host::HostEvent;
use chronova_events::ids::{ConsumerId, HostId, InstanceId, ProviderId};
use chronova_events::instance::{BuildRequested, FlavorSnapshot, InstanceEvent, Placed};
use chronova_events::ledger::{GroupMemberPlaced, LedgerEvent};
use chronova_events::registry::NounEvent;
use chronova_events::store::EventStore;
use chronova_hypervisor::sim::SimUri;
use serde::Serialize;

use super::super::log_pages::{payload, walk};
use super::super::{CommandFailure, Exit};
use super::alternative::AlternativeHistory;
use super::packing::Packing;
use super::{Rules, ScheduleArgs};

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
    /// The most frequent flavor of the replayed servers. The headroom is the number of further servers with this
    /// flavor.
    flavor: Option<String>,
    as_it_was: Packing,
    replayed: Packing,
    differences: Vec<ReplayedRequest>,
}

struct Replay<'a> {
    rules: &'a Rules,
    since: Timestamp,
    other_fleet: bool,
    real: AlternativeHistory,
    other: AlternativeHistory,
    requests: BTreeMap<InstanceId, Arc<BuildRequested>>,
    chosen: BTreeMap<InstanceId, Option<RankedHost>>,
    outcomes: BTreeMap<InstanceId, ReplayedRequest>,
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
            // The processors and devices that the other host would have assigned are unknown.
            LedgerEvent::GuestFitted(fitted) => self.take_share(recorded, &fitted.consumer, fitted.provider),
            LedgerEvent::PciDevicesClaimed(claimed) => self.take_share(recorded, &claimed.consumer, claimed.provider),
            LedgerEvent::ProviderCreated(_)
            | LedgerEvent::ProviderChanged(_)
            | LedgerEvent::ProviderDeleted(_)
            | LedgerEvent::InventoryReplaced(_)
            | LedgerEvent::TraitsReplaced(_)
            | LedgerEvent::AggregatesReplaced(_)
            | LedgerEvent::AllocationsReplaced(_)
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
        let server = self.server(consumer).and_then(|request| self.chosen.get(&request.instance));
        let elsewhere = server.is_some_and(|chosen| chosen.as_ref().is_none_or(|chosen| chosen.host.0 != host.0));
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
                self.decide(&request, None, at).await?;
                let Some(Some(chosen)) = self.chosen.get(&request.instance) else { return Ok(()) };
                let placed = Placed {
                    process: scheduled.process,
                    host: chosen.host,
                    hostname: chosen.hostname.clone(),
                    attempt: scheduled.attempt,
                    availability_zone: self.zone(chosen),
                };
                self.other.invent_for(request.instance, placed, at).await
            }
            InstanceEvent::Placed(placed) => {
                match server.and_then(|server| Some((server, self.chosen.get(&server)?))) {
                    Some((_, None)) => Ok(()),
                    Some((server, Some(chosen))) => {
                        let placed = Placed {
                            host: chosen.host,
                            hostname: chosen.hostname.clone(),
                            availability_zone: self.zone(chosen),
                            ..placed.clone()
                        };
                        self.other.invent_for(server, placed, at).await
                    }
                    None => self.other.take(recorded),
                }
            }
            _ => self.other.take(recorded),
        }
    }

    fn zone(&self, chosen: &RankedHost) -> String {
        chosen.zone.clone().unwrap_or_else(|| self.rules.default_zone().to_owned())
    }

    fn server(&self, consumer: &ConsumerId) -> Option<Arc<BuildRequested>> {
        self.requests.get(&consumer.as_str().parse::<InstanceId>().ok()?).cloned()
    }

    fn real_name(&mut self, provider: ProviderId) -> Result<String, CommandFailure> {
        let views = self.real.views()?;
        let root = views.placement.read(|placement| placement.ledger.root_of(provider));
        let name = views.hosts.read(|hosts| hosts.get(HostId(root.0)).map(|host| host.hostname.clone()));
        Ok(name.unwrap_or_else(|| root.to_string()))
    }

    async fn decide(
        &mut self,
        build: &BuildRequested,
        was: Option<String>,
        at: Timestamp,
    ) -> Result<(), CommandFailure> {
        let excluded = std::collections::BTreeSet::new();
        let request = RequestSpec::of_build(build, &excluded, self.rules.default_zone());
        let mut decision = self.other.decide(&request, &self.rules.scheduler)?;
        let chosen = if decision.ranked.is_empty() { None } else { Some(decision.ranked.swap_remove(0)) };
        if let Some(chosen) = &chosen {
            self.other.claim(build.instance, &build.project, &build.user, chosen, at).await?;
        }
        if at >= self.since {
            let outcome = ReplayedRequest {
                server: build.instance,
                name: build.name.clone(),
                flavor: build.flavor.name.clone(),
                at: at.iso_seconds(),
                was,
                is: chosen.as_ref().map(|chosen| chosen.hostname.clone()),
                why: if chosen.is_none() { decision.reasons.lacks } else { None },
            };
            self.outcomes.insert(build.instance, outcome);
        }
        self.chosen.insert(build.instance, chosen);
        Ok(())
    }

    fn report(mut self) -> Result<ReplayReport, CommandFailure> {
        let flavor = self.usual_flavor();
        let flavor = flavor.as_deref();
        let all: Vec<ReplayedRequest> = self.outcomes.into_values().collect();
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

    /// The most frequent flavor of the replayed servers.
    fn usual_flavor(&self) -> Option<Arc<FlavorSnapshot>> {
        let mut counts: BTreeMap<&str, (usize, &FlavorSnapshot)> = BTreeMap::new();
        for request in self.outcomes.keys().filter_map(|server| self.requests.get(server)) {
            counts.entry(&request.flavor.name).or_insert((0, &request.flavor)).0 += 1;
        }
        let most = counts.into_values().max_by_key(|(count, _)| *count);
        most.map(|(_, flavor)| Arc::new(flavor.clone()))
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
    let classes: std::collections::BTreeSet<&String> = was.claimed.keys().chain(is.claimed.keys()).collect();
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
