//! Selects a host for a server and claims it.
//!
//! The scheduler makes one decision after the other. Each decision sees the pending claims of earlier decisions
//! ([`PendingClaims`]). So parallel requests spread over the hosts, and do not all claim the best host. The claims go
//! to the ledger in parallel. The ledger refuses a claim if another was faster or the view lagged. Then the scheduler
//! claims the next host of the same decision. When the ledger has refused all hosts of a decision, the scheduler
//! decides again a moment later, at most [`ROUNDS`] times in all. If a decision finds no host while others' claims are
//! pending, the scheduler waits for their results before it refuses.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chronova_events::envelope::{Meta, Position};
use chronova_events::error_chain::SharedError;
use chronova_events::ids::{ConsumerId, HostId, InstanceId, PortId, ProcessId, ProjectId, ProviderId, UserId};
use chronova_events::instance::{RefusedHost, Scheduled};
use chronova_events::ledger::{Allocation, Claimed};
use chronova_events::pci::PciAddress;
use chronova_events::server_group::ServerGroupPolicy;
use chronova_projections::views::Views;

use super::batch::BatchMember;
use super::choice::{RankedHost, SchedulingDecision, SchedulingReasons, choose, with_sources};
use super::context::SchedulerViews;
use super::hook::HookQuestion;
use super::hook_answers::HookAnswers;
use super::options::SchedulerOptions;
use super::request::RequestSpec;
use crate::aggregate::CommandError;
use crate::coordination::batches::Batches;
use crate::coordination::pending_claims::{PendingClaim, PendingClaims};
use crate::gateway::CommandGateway;
use crate::hosts::fleet::ConnectedHosts;
use crate::ledger::{CELL, GroupPolicy, GroupRule, GuestClaim, LedgerCommand, LedgerReject, LedgerRoot, ServerClaim};
use crate::pci::cards;
use crate::port_resources;

/// The most decisions for one server before the step returns to its process.
pub(super) const ROUNDS: usize = 4;
/// The longest wait for the pending claims of others, and for the views to show the request's own server.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
pub(super) const BEAT: Duration = Duration::from_millis(5);

/// The scheduler of a cell.
#[derive(Debug)]
pub struct Scheduler {
    pub(super) gateway: Arc<CommandGateway>,
    pub(super) views: Arc<Views>,
    options: SchedulerOptions,
    fleet: Arc<ConnectedHosts>,
    pending: Mutex<PendingClaims>,
    pub(super) batches: Batches<BatchMember>,
}

/// A server that needs a host, and its requester.
#[derive(Debug, Clone)]
pub struct SelectionRequest {
    pub request: RequestSpec,
    pub server: InstanceId,
    pub project: ProjectId,
    pub user: UserId,
    pub process: ProcessId,
    pub attempt: u32,
    /// The reservation id, which the servers of one request share.
    pub reservation: String,
    pub batch: u32,
    pub launch_index: u32,
    pub meta: Arc<Meta>,
}

/// A claimed host.
#[derive(Debug)]
pub struct Selection {
    pub chosen: RankedHost,
    pub scheduled: Scheduled,
    pub ticket: PendingClaimGuard,
}

/// The reason why no host was selected.
#[derive(Debug)]
pub enum SelectionError {
    NoHost {
        reasons: SchedulingReasons,
        /// Hosts that fitted, but for which the ledger refused the claim.
        lost: Vec<RefusedHost>,
    },
    /// The scheduler could not decide. The same request may be repeated.
    NotNow(SharedError),
}

/// Shows a pending decision to later decisions. Dropping it before the placement is recorded removes the decision.
#[derive(Debug)]
pub struct PendingClaimGuard {
    scheduler: Arc<Scheduler>,
    number: u64,
    kept: bool,
}

impl SelectionError {
    /// `error` is an error or a sentence.
    pub(super) fn not_now(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::NotNow(Arc::from(error.into()))
    }

    /// The same error for another server of the same request.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::NoHost { reasons, lost } => Self::NoHost { reasons: reasons.clone(), lost: lost.clone() },
            Self::NotNow(error) => Self::NotNow(Arc::clone(error)),
        }
    }
}

impl PendingClaimGuard {
    /// Notes that the claim is in the log, at `position`.
    pub(super) fn claimed(&self, position: Position) {
        self.scheduler.lock().claimed(self.number, position);
    }

    /// Notes that the placement is in the log, at `position`.
    pub fn placed(mut self, position: Position) {
        self.kept = true;
        self.scheduler.lock().placed(self.number, position);
    }
}

impl Drop for PendingClaimGuard {
    fn drop(&mut self) {
        if !self.kept {
            self.scheduler.lock().remove(self.number);
        }
    }
}

/// The result of a claim.
pub(super) enum ClaimOutcome {
    Admitted(Position),
    Refused(String),
}

impl Scheduler {
    pub fn new(
        gateway: Arc<CommandGateway>,
        views: Arc<Views>,
        fleet: Arc<ConnectedHosts>,
        options: SchedulerOptions,
    ) -> Arc<Self> {
        Arc::new(Self { gateway, views, options, fleet, pending: Mutex::default(), batches: Batches::default() })
    }

    pub fn options(&self) -> &SchedulerOptions {
        &self.options
    }

    fn lock(&self) -> MutexGuard<'_, PendingClaims> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a host for a server and claims it.
    ///
    /// # Errors
    /// No host fits, every host that seemed to fit was taken meanwhile, or the log is not available.
    pub async fn place(self: &Arc<Self>, asked: &SelectionRequest) -> Result<Selection, SelectionError> {
        self.until_shown(asked.server).await;
        release_stale_claim(self, asked).await?;
        // A second attempt is for one server alone.
        if asked.batch > 1 && asked.attempt == 1 {
            return self.place_together(asked).await;
        }
        let mut lost: Vec<RefusedHost> = Vec::new();
        for round in 1..=ROUNDS {
            let consulted = self.consult(&asked.request, 1).await;
            let (decision, ticket, newest) = self.decide(&consulted);
            let Some(mut ticket) = ticket else {
                if round < ROUNDS && self.others_settle(newest).await {
                    continue;
                }
                return Err(SelectionError::NoHost { reasons: decision.reasons, lost });
            };
            let SchedulingDecision { ranked, reasons } = decision;
            for at in 0..ranked.len() {
                if at > 0 {
                    ticket = self.reserve(&asked.request, &ranked[at]);
                }
                match claim_all(self, &[(asked, &ranked[at])]).await? {
                    ClaimOutcome::Admitted(position) => {
                        ticket.claimed(position);
                        let chosen = ranked[at].clone();
                        let scheduled = reasons.record(asked.process, asked.attempt, &ranked[at..], lost);
                        return Ok(Selection { chosen, scheduled, ticket });
                    }
                    ClaimOutcome::Refused(reason) => {
                        lost.push(RefusedHost { hostname: ranked[at].hostname.clone(), reason });
                    }
                }
            }
            drop(ticket);
            // The cause of the refusal is in the log. After this pause the read models usually show it.
            tokio::time::sleep(BEAT).await;
        }
        let last = lost.last().map_or("", |refused| refused.reason.as_str());
        Err(SelectionError::not_now(format!("every host that seemed to fit was taken meanwhile: {last}")))
    }

    /// Waits until all read models show the server. While a batch of events is being folded, the read model of servers
    /// may be ahead of the read model of server groups. A group that is not shown yet would restrict nothing.
    async fn until_shown(&self, server: InstanceId) {
        poll_until(|| self.views.servers.read(|servers| servers.get(server).is_some())).await;
        let seen = self.views.position();
        poll_until(|| self.views.steady().is_some() || self.views.position() > seen).await;
    }

    /// The request with the answers of the scheduler hook, if there is a hook. A forced host skips the hook, as it
    /// skips most filters.
    pub(super) async fn consult<'a>(&self, request: &'a RequestSpec, servers: u32) -> Cow<'a, RequestSpec> {
        let options = &self.options.hook;
        if options.program.is_none() || request.forced_host.is_some() {
            return Cow::Borrowed(request);
        }
        let mut request = request.clone();
        request.hook = None;
        // If no host suits the server, there is nothing to ask. A host that begins to fit meanwhile must wait for the
        // next question.
        request.hook = match self.question(&request, servers) {
            Some(question) => question.ask(options).await.map(Arc::new),
            None => Some(Arc::new(HookAnswers::Given(BTreeMap::new()))),
        };
        Cow::Owned(request)
    }

    fn question(&self, request: &RequestSpec, servers: u32) -> Option<HookQuestion> {
        let metrics = self.options.metrics_of(&self.fleet);
        let mut pending = self.lock();
        pending.forget(self.views.position());
        let ask = |sources: SchedulerViews<'_>| HookQuestion::of(sources, request, servers, &self.options);
        with_sources(&self.views, (&*pending, &metrics), ask)
    }

    /// Decides, and shows the decision to later decisions. Also returns the number of the newest earlier decision that
    /// is still pending.
    pub(super) fn decide(
        self: &Arc<Self>,
        request: &RequestSpec,
    ) -> (SchedulingDecision, Option<PendingClaimGuard>, Option<u64>) {
        let metrics = self.options.metrics_of(&self.fleet);
        let mut pending = self.lock();
        pending.forget(self.views.position());
        let newest = pending.newest();
        let decision = choose(&self.views, (&*pending, &metrics), request, &self.options);
        let number = decision.ranked.first().map(|best| pending.add(pending_claim(request, best)));
        drop(pending);
        let ticket = number.map(|number| PendingClaimGuard { scheduler: Arc::clone(self), number, kept: false });
        (decision, ticket, newest)
    }

    /// The newest decision that the read models do not show yet.
    pub(super) fn newest(&self) -> Option<u64> {
        let mut pending = self.lock();
        pending.forget(self.views.position());
        pending.newest()
    }

    fn reserve(self: &Arc<Self>, request: &RequestSpec, chosen: &RankedHost) -> PendingClaimGuard {
        let number = self.lock().add(pending_claim(request, chosen));
        PendingClaimGuard { scheduler: Arc::clone(self), number, kept: false }
    }

    /// Waits until no decision up to `newest` is pending: each is in the read models or dropped. Returns `false` if
    /// `newest` is `None`.
    pub(super) async fn others_settle(&self, newest: Option<u64>) -> bool {
        let Some(newest) = newest else { return false };
        poll_until(|| {
            let mut pending = self.lock();
            pending.forget(self.views.position());
            pending.oldest().is_none_or(|oldest| oldest > newest)
        })
        .await;
        true
    }
}

/// Releases a claim that the server already has. A crash came between this claim and the record of the placement. The
/// claim may be the reason why a host has no room for the server.
async fn release_stale_claim(scheduler: &Scheduler, asked: &SelectionRequest) -> Result<(), SelectionError> {
    let consumer = ConsumerId::new(asked.server.to_string());
    if !scheduler.views.placement.read(|view| view.ledger.consumers.contains_key(&consumer)) {
        return Ok(());
    }
    // If the view lags, the release finds nothing, and nothing happens.
    let release = LedgerCommand::Release { consumer };
    let released = scheduler.gateway.send::<LedgerRoot>(&CELL, release, Arc::clone(&asked.meta)).await;
    let released = released.map_err(SelectionError::not_now)?;
    scheduler.views.wait_for(released.position, PATIENCE).await;
    Ok(())
}

/// Polls until `done` is true, for a limited time.
async fn poll_until(done: impl Fn() -> bool) {
    let mut waited = Duration::ZERO;
    while !done() && waited < PATIENCE {
        tokio::time::sleep(BEAT).await;
        waited += BEAT;
    }
}

/// The claim of a decision until the read models show it.
pub(crate) fn pending_claim(request: &RequestSpec, chosen: &RankedHost) -> PendingClaim {
    let (own, elsewhere): (Vec<&Allocation>, Vec<&Allocation>) =
        chosen.allocations.iter().partition(|allocation| allocation.provider.0 == chosen.host.0);
    PendingClaim {
        slot: chosen.slot,
        server: request.server,
        resources: own.into_iter().flat_map(|allocation| allocation.resources.iter().cloned()).collect(),
        elsewhere: elsewhere.into_iter().cloned().collect(),
        fitted: chosen.fitted.clone(),
        devices: chosen.devices.clone(),
        group: request.group(),
        claimed_at: None,
        placed_at: None,
    }
}

/// The server group's policy for the ledger.
fn rule(scheduler: &Scheduler, request: &RequestSpec, host: HostId) -> Option<GroupRule> {
    let group = request.group()?;
    let (policy, most) = scheduler.views.server_groups.read(|groups| {
        let known = groups.get(group)?;
        Some((known.definition.policy, known.most_per_host()))
    })?;
    let policy = match policy {
        ServerGroupPolicy::Affinity => GroupPolicy::Together,
        ServerGroupPolicy::AntiAffinity => GroupPolicy::AtMost(most.unwrap_or(1)),
        ServerGroupPolicy::SoftAffinity | ServerGroupPolicy::SoftAntiAffinity => return None,
    };
    Some(GroupRule { group, host: ProviderId(host.0), policy })
}

fn claim_of(scheduler: &Scheduler, asked: &SelectionRequest, chosen: &RankedHost) -> ServerClaim {
    let claim = Claimed {
        consumer: ConsumerId::new(asked.server.to_string()),
        project: asked.project.clone(),
        user: asked.user.clone(),
        consumer_type: Some("INSTANCE".to_owned()),
        allocations: chosen.allocations.clone(),
    };
    // A forced host skips most filters, including those of server groups.
    let group = rule(scheduler, &asked.request, chosen.host).filter(|_| asked.request.forced_host.is_none());
    // A filter has already refused an impossible topology.
    let topology = asked.request.topology().ok().flatten();
    let (flavor, image) = (&asked.request.flavor, asked.request.image.as_deref());
    let mut devices =
        scheduler.options.pci_aliases.of_server(flavor, image, &asked.request.device_ports).unwrap_or_default();
    if !asked.request.device_ports.is_empty() && !asked.request.port_requests.is_empty() {
        cards::restrict(&mut devices, &cards_of_ports(scheduler, asked, chosen));
    }
    let guest = (topology.is_some() || !devices.is_empty()).then(|| GuestClaim {
        host: ProviderId(chosen.host.0),
        topology: topology.map(Arc::new),
        devices,
        packs: scheduler.options.packs_cells,
    });
    ServerClaim { claim, group, guest }
}

/// The cards of the host that give the server's ports their resources.
fn cards_of_ports(
    scheduler: &Scheduler,
    asked: &SelectionRequest,
    chosen: &RankedHost,
) -> BTreeMap<PortId, PciAddress> {
    let Some(member) = scheduler.fleet.member(chosen.host) else { return BTreeMap::new() };
    scheduler.views.placement.read(|view| {
        let given = port_resources::providers(&asked.request.port_requests, &chosen.allocations, &view.ledger);
        cards::of_ports(&given.unwrap_or_default(), &view.ledger, &member.cards())
    })
}

/// Claims a host for each server. All servers get their claims, or none does.
pub(super) async fn claim_all(
    scheduler: &Scheduler,
    chosen: &[(&SelectionRequest, &RankedHost)],
) -> Result<ClaimOutcome, SelectionError> {
    let Some((first, _)) = chosen.first() else {
        return Ok(ClaimOutcome::Refused("the claim names no server".to_owned()));
    };
    let claims: Vec<_> = chosen.iter().map(|(asked, chosen)| claim_of(scheduler, asked, chosen)).collect();
    // Each server may hold one stale claim.
    for _ in 0..=chosen.len() {
        let command = LedgerCommand::ClaimAll { claims: claims.clone() };
        match scheduler.gateway.send::<LedgerRoot>(&CELL, command, Arc::clone(&first.meta)).await {
            Ok(committed) => return Ok(ClaimOutcome::Admitted(committed.position)),
            Err(CommandError::Rejected(LedgerReject::HoldsOther(consumer))) => {
                // A crash came between this claim and the record of the placement. Without this claim, the new claim
                // may fit.
                let release = LedgerCommand::Release { consumer };
                let released = scheduler.gateway.send::<LedgerRoot>(&CELL, release, Arc::clone(&first.meta)).await;
                released.map_err(SelectionError::not_now)?;
            }
            Err(CommandError::Rejected(reject)) => return Ok(ClaimOutcome::Refused(reject.to_string())),
            Err(error @ CommandError::Unavailable(_)) => return Err(SelectionError::not_now(error)),
        }
    }
    Ok(ClaimOutcome::Refused("the server still held a claim from before a crash".to_owned()))
}

/// Releases the claim of a server after its process was cancelled.
pub(super) async fn give_back(scheduler: &Scheduler, asked: &SelectionRequest) {
    let release = LedgerCommand::Release { consumer: ConsumerId::new(asked.server.to_string()) };
    if let Err(error) = scheduler.gateway.send::<LedgerRoot>(&CELL, release, Arc::clone(&asked.meta)).await {
        tracing::error!(server = %asked.server, %error, "releasing the claim of a cancelled build failed");
    }
}

/// A random number; 0 if the machine has no source of randomness.
pub fn dice() -> u64 {
    chronova_events::entropy::number()
}
