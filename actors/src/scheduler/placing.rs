//! From a decision to a claimed host.
//!
//! Decisions are made one after the other, each seeing what the ones before it have on its way ([`PendingClaims`]), so that
//! parallel requests spread over the hosts instead of all claiming the best one. Claims then go to the ledger side by side.
//! One that is refused (somebody else was quicker, or the view lagged) goes to the next host of the same decision; only when
//! those are used up is the choice made again, with a view that has caught up, and no more often than [`ROUNDS`]. A request
//! that finds no host because of what is on its way to others waits until that is settled before it is refused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{ConsumerId, HostId, InstanceId, ProcessId, ProjectId, ProviderId, UserId};
use chronova_events::instance::{RefusedHost, Scheduled};
use chronova_events::ledger::Claimed;
use chronova_events::server_group::Policy;
use chronova_projections::views::Views;

use super::batch::Batches;
use super::choice::{Chosen, Decision, Reasons, choose};
use super::options::SchedulerOptions;
use super::request::Request;
use crate::aggregate::CommandError;
use crate::coordination::pending_claims::{Entry, PendingClaims};
use crate::gateway::Gateway;
use crate::ledger::{
    CELL, GroupPolicy, GroupRule, GuestClaim, LedgerAggregate, LedgerCommand, LedgerReject, ServerClaim,
};

/// How often a choice is made anew for one server before the step is given back to its process.
pub(super) const ROUNDS: usize = 4;
/// How long a request waits for what is on its way to others, and for its own server to be in the views.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
pub(super) const BEAT: Duration = Duration::from_millis(5);

/// Makes the decisions of a cell.
#[derive(Debug)]
pub struct Scheduler {
    pub(super) gateway: Arc<Gateway>,
    pub(super) views: Arc<Views>,
    options: SchedulerOptions,
    pending: Mutex<PendingClaims>,
    pub(super) batches: Mutex<Batches>,
}

/// A server that needs a host, and who asks.
#[derive(Debug, Clone)]
pub struct Asked {
    pub request: Request,
    pub server: InstanceId,
    pub project: ProjectId,
    pub user: UserId,
    pub process: ProcessId,
    pub attempt: u32,
    /// Servers that were asked for together share it.
    pub reservation: String,
    pub batch: u32,
    pub launch_index: u32,
    pub meta: Arc<Meta>,
}

/// A claimed host.
#[derive(Debug)]
pub struct Seat {
    pub chosen: Chosen,
    pub scheduled: Scheduled,
    pub ticket: Ticket,
}

/// Why there is none.
#[derive(Debug)]
pub enum NotPlaced {
    NoHost {
        reasons: Reasons,
        /// Hosts that fitted and were refused when claimed.
        lost: Vec<RefusedHost>,
    },
    /// Nothing is known; the same request may be made again.
    NotNow(String),
}

/// Keeps a decision in view of others until the read models show it; given up when dropped.
#[derive(Debug)]
pub struct Ticket {
    scheduler: Arc<Scheduler>,
    number: u64,
    kept: bool,
}

impl NotPlaced {
    /// The same for another server.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::NoHost { reasons, lost } => Self::NoHost { reasons: reasons.clone(), lost: lost.clone() },
            Self::NotNow(reason) => Self::NotNow(reason.clone()),
        }
    }
}

impl Ticket {
    /// The claim is in the log.
    pub(super) fn claimed(&self, position: Position) {
        self.scheduler.lock().claimed(self.number, position);
    }

    /// The placement is in the log.
    pub fn placed(mut self, position: Position) {
        self.kept = true;
        self.scheduler.lock().placed(self.number, position);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.kept {
            self.scheduler.lock().remove(self.number);
        }
    }
}

/// What became of a claim.
pub(super) enum Answer {
    Admitted(Position),
    Refused(String),
}

impl Scheduler {
    pub fn new(gateway: Arc<Gateway>, views: Arc<Views>, options: SchedulerOptions) -> Arc<Self> {
        Arc::new(Self { gateway, views, options, pending: Mutex::default(), batches: Mutex::default() })
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
    /// No host will do, or the log is not available.
    pub async fn place(self: &Arc<Self>, asked: &Asked) -> Result<Seat, NotPlaced> {
        until(|| self.views.servers.read(|servers| servers.get(asked.server).is_some())).await;
        clear(self, asked).await?;
        // Another attempt is for one server alone.
        if asked.batch > 1 && asked.attempt == 1 {
            return self.place_together(asked).await;
        }
        let mut lost: Vec<RefusedHost> = Vec::new();
        for round in 1..=ROUNDS {
            let (decision, ticket, newest) = self.decide(&asked.request);
            let Some(mut ticket) = ticket else {
                if round < ROUNDS && self.others_settle(newest).await {
                    continue;
                }
                return Err(NotPlaced::NoHost { reasons: decision.reasons, lost });
            };
            let Decision { ranked, reasons } = decision;
            for at in 0..ranked.len() {
                if at > 0 {
                    ticket = self.reserve(&asked.request, &ranked[at]);
                }
                match claim_all(self, &[(asked, &ranked[at])]).await? {
                    Answer::Admitted(position) => {
                        ticket.claimed(position);
                        let chosen = ranked[at].clone();
                        let scheduled = reasons.record(asked.process, asked.attempt, &ranked[at..], lost);
                        return Ok(Seat { chosen, scheduled, ticket });
                    }
                    Answer::Refused(reason) => {
                        lost.push(RefusedHost { hostname: ranked[at].hostname.clone(), reason });
                    }
                }
            }
            drop(ticket);
            // What refused the claims is in the log; the views show it in a moment.
            tokio::time::sleep(BEAT).await;
        }
        Err(NotPlaced::NotNow("every host that seemed to fit was taken meanwhile".to_owned()))
    }

    /// Decides, and keeps the choice in view of those who decide next. Also says which decision on its way is the newest.
    pub(super) fn decide(self: &Arc<Self>, request: &Request) -> (Decision, Option<Ticket>, Option<u64>) {
        let mut pending = self.lock();
        pending.forget(self.views.position());
        let newest = pending.newest();
        let decision = choose(&self.views, &pending, request, &self.options);
        let number = decision.ranked.first().map(|best| pending.add(entry(request, best)));
        drop(pending);
        let ticket = number.map(|number| Ticket { scheduler: Arc::clone(self), number, kept: false });
        (decision, ticket, newest)
    }

    /// The newest decision that the read models do not show yet.
    pub(super) fn newest(&self) -> Option<u64> {
        let mut pending = self.lock();
        pending.forget(self.views.position());
        pending.newest()
    }

    fn reserve(self: &Arc<Self>, request: &Request, chosen: &Chosen) -> Ticket {
        let number = self.lock().add(entry(request, chosen));
        Ticket { scheduler: Arc::clone(self), number, kept: false }
    }

    /// Waits until the decisions up to `newest` are in the views or given up; `false` if there were none.
    pub(super) async fn others_settle(&self, newest: Option<u64>) -> bool {
        let Some(newest) = newest else { return false };
        until(|| {
            let mut pending = self.lock();
            pending.forget(self.views.position());
            pending.oldest().is_none_or(|oldest| oldest > newest)
        })
        .await;
        true
    }
}

/// Who is looked for holds nothing; what it holds all the same is of a host that was claimed before a crash and never
/// recorded. A host that has room for the server once would have none for it because of the server itself.
async fn clear(scheduler: &Scheduler, asked: &Asked) -> Result<(), NotPlaced> {
    let consumer = ConsumerId::new(asked.server.to_string());
    if !scheduler.views.placement.read(|view| view.ledger.consumers.contains_key(&consumer)) {
        return Ok(());
    }
    // Where the view lags, nothing is held any more, and nothing happens.
    let release = LedgerCommand::Release { consumer };
    let released = scheduler.gateway.send::<LedgerAggregate>(&CELL, release, Arc::clone(&asked.meta)).await;
    let released = released.map_err(|error| NotPlaced::NotNow(error.to_string()))?;
    scheduler.views.wait_for(released.position, PATIENCE).await;
    Ok(())
}

/// Looks again and again, for a bounded time.
async fn until(done: impl Fn() -> bool) {
    let mut waited = Duration::ZERO;
    while !done() && waited < PATIENCE {
        tokio::time::sleep(BEAT).await;
        waited += BEAT;
    }
}

fn entry(request: &Request, chosen: &Chosen) -> Entry {
    let own = chosen.allocations.iter().filter(|allocation| allocation.provider.0 == chosen.host.0);
    Entry {
        slot: chosen.slot,
        server: request.server,
        resources: own.flat_map(|allocation| allocation.resources.iter().cloned()).collect(),
        fitted: chosen.fitted.clone(),
        group: request.group(),
        claimed_at: None,
        placed_at: None,
    }
}

/// The policy that the ledger is to keep.
fn rule(scheduler: &Scheduler, request: &Request, host: HostId) -> Option<GroupRule> {
    let group = request.group()?;
    let (policy, most) = scheduler.views.server_groups.read(|groups| {
        let known = groups.get(group)?;
        Some((known.definition.policy, known.most_per_host()))
    })?;
    let policy = match policy {
        Policy::Affinity => GroupPolicy::Together,
        Policy::AntiAffinity => GroupPolicy::AtMost(most.unwrap_or(1)),
        Policy::SoftAffinity | Policy::SoftAntiAffinity => return None,
    };
    Some(GroupRule { group, host: ProviderId(host.0), policy })
}

fn claim_of(scheduler: &Scheduler, asked: &Asked, chosen: &Chosen) -> ServerClaim {
    let claim = Claimed {
        consumer: ConsumerId::new(asked.server.to_string()),
        project: asked.project.clone(),
        user: asked.user.clone(),
        consumer_type: Some("INSTANCE".to_owned()),
        allocations: chosen.allocations.clone(),
    };
    // A host that an administrator insists on skips the filters, those of groups included.
    let group = rule(scheduler, &asked.request, chosen.host).filter(|_| asked.request.forced_host.is_none());
    // What cannot be was refused by a filter that no host passes.
    let topology = asked.request.topology().ok().flatten();
    let guest = topology.map(|topology| GuestClaim {
        host: ProviderId(chosen.host.0),
        topology: Arc::new(topology),
        packs: scheduler.options.packs_cells,
    });
    ServerClaim { claim, group, guest }
}

/// Claims a host for each, for all of them or none.
pub(super) async fn claim_all(scheduler: &Scheduler, chosen: &[(&Asked, &Chosen)]) -> Result<Answer, NotPlaced> {
    let Some((first, _)) = chosen.first() else { return Ok(Answer::Refused("nobody asks".to_owned())) };
    let claims = chosen.iter().map(|(asked, chosen)| claim_of(scheduler, asked, chosen)).collect();
    let command = LedgerCommand::ClaimAll { claims };
    match scheduler.gateway.send::<LedgerAggregate>(&CELL, command, Arc::clone(&first.meta)).await {
        Ok(committed) => Ok(Answer::Admitted(committed.position)),
        Err(CommandError::Rejected(LedgerReject::HoldsOther(consumer))) => {
            // A claim from before a crash, for a host that was not recorded: given back, and a host claimed anew.
            let release = LedgerCommand::Release { consumer };
            let released = scheduler.gateway.send::<LedgerAggregate>(&CELL, release, Arc::clone(&first.meta)).await;
            released.map_err(|error| NotPlaced::NotNow(error.to_string()))?;
            Ok(Answer::Refused("the server held something else from before".to_owned()))
        }
        Err(CommandError::Rejected(reject)) => Ok(Answer::Refused(reject.to_string())),
        Err(error @ CommandError::Unavailable(_)) => Err(NotPlaced::NotNow(error.to_string())),
    }
}

/// Gives back what was claimed for a server that nobody waits for any more.
pub(super) async fn give_back(scheduler: &Scheduler, asked: &Asked) {
    let release = LedgerCommand::Release { consumer: ConsumerId::new(asked.server.to_string()) };
    if let Err(error) = scheduler.gateway.send::<LedgerAggregate>(&CELL, release, Arc::clone(&asked.meta)).await {
        tracing::error!(server = %asked.server, %error, "what was claimed for a build called off could not be given back");
    }
}

/// A throw of dice; 0 where the machine has none.
pub fn dice() -> u64 {
    chronova_events::entropy::number()
}
