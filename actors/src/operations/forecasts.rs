//! Forecasts: scheduling decisions that nothing carries out. An operator asks which host a server would get, or where
//! the servers of a host would go. Nothing is claimed and nothing is recorded.

use chronova_events::host::{Departure, KnownHost};
use chronova_events::ids::InstanceId;

use super::Queries;
use crate::coordination::pending_claims::PendingClaims;
use crate::process::departing::{DrainAction, DrainedHost, first};
use crate::process::destination::fit;
use crate::scheduler::placing::pending_claim;
use crate::scheduler::{RequestSpec, SchedulingDecision, choose};

/// The most servers of one drain plan. A host has fewer.
const MOST_PLANNED: usize = 1_000;

/// The next step of a drain for one server.
#[derive(Debug, Clone, PartialEq)]
pub enum PlannedDeparture {
    /// The server moves to the first host of the decision, or stays if no host fits.
    Moves {
        how: Departure,
        decision: SchedulingDecision,
    },
    /// A task of the server must end first.
    Waits,
    Stays {
        reason: String,
    },
}

/// One server of a host in the plan of a drain.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedServer {
    pub server: InstanceId,
    pub name: String,
    pub plan: PlannedDeparture,
}

impl Queries {
    /// The decisions on `count` equal servers, one after the other. The list ends with the first refusal.
    pub fn what_if(&self, mut request: RequestSpec, count: usize) -> Vec<SchedulingDecision> {
        let mut pending = PendingClaims::default();
        let mut decisions = Vec::new();
        for _ in 0..count {
            request.server = Some(InstanceId::random());
            let decision = self.forecast(&request, &mut pending);
            let refused = decision.ranked.is_empty();
            decisions.push(decision);
            if refused {
                break;
            }
        }
        decisions
    }

    /// The plan of a drain of `host`, server by server. Each planned server takes room on its new host.
    pub fn drain_plan(&self, host: &KnownHost) -> Vec<PlannedServer> {
        let site = DrainedHost { id: host.id, hostname: &host.hostname, answers: host.answers(), cancelled: false };
        let servers: Vec<_> = self.views.servers.read(|servers| {
            servers
                .on_host(host.id)
                .take(MOST_PLANNED)
                .filter_map(|row| Some((row.id, row.server()?.clone())))
                .collect()
        });
        let mut pending = PendingClaims::default();
        let mut plan = Vec::new();
        for (id, server) in servers {
            let planned = match first(site, &server) {
                DrainAction::Begin(how) => {
                    let excluded = std::collections::BTreeSet::from([host.id]);
                    let zone = &self.server_options.availability_zone;
                    let mut request = RequestSpec::of_build(&server.request, &excluded, zone);
                    // The user may have named a host for the build. A move ignores that host.
                    (request.forced_host, request.requested_host) = (None, None);
                    fit(&mut request, &server);
                    PlannedDeparture::Moves { how, decision: self.forecast(&request, &mut pending) }
                }
                DrainAction::Stay { reason } => PlannedDeparture::Stays { reason },
                _ => PlannedDeparture::Waits,
            };
            plan.push(PlannedServer { server: id, name: server.request.name.clone(), plan: planned });
        }
        plan
    }

    fn forecast(&self, request: &RequestSpec, pending: &mut PendingClaims) -> SchedulingDecision {
        let metrics = self.scheduler_options.metrics_of(&self.fleet);
        let decision = choose(&self.views, (&*pending, &metrics), request, &self.scheduler_options);
        if let Some(best) = decision.ranked.first() {
            pending.add(pending_claim(request, best));
        }
        decision
    }
}
