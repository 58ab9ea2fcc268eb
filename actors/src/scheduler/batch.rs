//! The servers of one request are placed together.
//!
//! Each server of a request has its own process. The processes wait here for each other. The last process to come
//! decides for all servers, one after the other. Each decision sees the earlier decisions, so the rules of server
//! groups hold within the request, and servers spread. One command claims all hosts. A process that has waited longer
//! than [`PATIENCE`] decides for the servers whose processes have come. A server can be missing because it was
//! cancelled, failed earlier, had its host before a crash, or is late. A late server is placed later, without the
//! others.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::choice::{SchedulingDecision, SchedulingReasons};
use super::placing::{
    BEAT, ClaimOutcome, PATIENCE, PendingClaimGuard, ROUNDS, Scheduler, Selection, SelectionError, SelectionRequest,
    claim_all, give_back,
};

/// One server of a request that waits for the others.
#[derive(Debug)]
pub(super) struct BatchMember {
    asked: SelectionRequest,
    reply: oneshot::Sender<Result<Selection, SelectionError>>,
}

impl Scheduler {
    /// Waits for the other servers of the request, and for the decision on all.
    pub(super) async fn place_together(
        self: &Arc<Self>,
        asked: &SelectionRequest,
    ) -> Result<Selection, SelectionError> {
        let (reply, mut answer) = oneshot::channel();
        if let Some(complete) = self.join(asked.clone(), reply) {
            self.seat_all(complete).await;
        }
        let gone = |_| SelectionError::not_now("the search for hosts for the servers of the request ended early");
        if let Ok(answer) = timeout(PATIENCE, &mut answer).await {
            return answer.map_err(gone)?;
        }
        let present = self.batches.take(&asked.reservation);
        if let Some(present) = present {
            self.seat_all(present).await;
        }
        match timeout(PATIENCE * 4, answer).await {
            Ok(answer) => answer.map_err(gone)?,
            Err(_) => Err(SelectionError::not_now("the servers of the request are still being placed")),
        }
    }

    /// Joins the waiting servers. Returns all of them when the last server has joined.
    fn join(
        &self,
        asked: SelectionRequest,
        reply: oneshot::Sender<Result<Selection, SelectionError>>,
    ) -> Option<Vec<BatchMember>> {
        let (server, size, reservation) = (asked.server, asked.batch, asked.reservation.clone());
        self.batches.join(&reservation, size, BatchMember { asked, reply }, |other| other.asked.server == server)
    }

    async fn seat_all(self: &Arc<Self>, mut members: Vec<BatchMember>) {
        members.sort_by_key(|member| member.asked.launch_index);
        for round in 1..=ROUNDS {
            self.consult_for_all(&mut members).await;
            let (seats, newest) = self.decide_all(&members);
            let seats = match seats {
                Ok(seats) => seats,
                Err(_) if round < ROUNDS && self.others_settle(newest).await => continue,
                Err(reasons) => {
                    for member in members {
                        let none = SelectionError::NoHost { reasons: (*reasons).clone(), lost: Vec::new() };
                        let _ = member.reply.send(Err(none));
                    }
                    return;
                }
            };
            let chosen: Vec<_> = members
                .iter()
                .zip(&seats)
                .map(|(member, (decision, _))| (&member.asked, &decision.ranked[0]))
                .collect();
            match claim_all(self, &chosen).await {
                Ok(ClaimOutcome::Admitted(position)) => {
                    for (member, (decision, ticket)) in members.into_iter().zip(seats) {
                        ticket.claimed(position);
                        hand_over(self, member, decision, ticket).await;
                    }
                    return;
                }
                // The cause of the refusal is in the log. The read models will show it soon.
                Ok(ClaimOutcome::Refused(_)) => {
                    drop(seats);
                    tokio::time::sleep(BEAT).await;
                }
                Err(error) => {
                    for member in members {
                        let _ = member.reply.send(Err(error.again()));
                    }
                    return;
                }
            }
        }
        for member in members {
            let taken = SelectionError::not_now("every host that seemed to fit was taken meanwhile");
            let _ = member.reply.send(Err(taken));
        }
    }

    /// Asks the scheduler hook once for all servers, because they differ only in their ids.
    async fn consult_for_all(&self, members: &mut [BatchMember]) {
        let servers = u32::try_from(members.len()).unwrap_or(u32::MAX);
        let Some(first) = members.first() else { return };
        let answers = self.consult(&first.asked.request, servers).await.hook.clone();
        for member in members {
            member.asked.request.hook.clone_from(&answers);
        }
    }

    /// Decides for one server after the other. If a server gets no host, returns the reasons for the first such server.
    #[allow(
        clippy::type_complexity,
        reason = "the hosts of all servers or the reasons of one, and the newest pending decision"
    )]
    fn decide_all(
        self: &Arc<Self>,
        members: &[BatchMember],
    ) -> (Result<Vec<(SchedulingDecision, PendingClaimGuard)>, Box<SchedulingReasons>>, Option<u64>) {
        let newest = self.newest();
        let mut seats = Vec::with_capacity(members.len());
        for member in members {
            let (decision, ticket, _) = self.decide(&member.asked.request);
            match ticket {
                Some(ticket) => seats.push((decision, ticket)),
                None => return (Err(Box::new(decision.reasons)), newest),
            }
        }
        (Ok(seats), newest)
    }
}

/// Sends a process its server's selection. A process that was cancelled meanwhile does not receive it, so its claim is
/// released.
async fn hand_over(
    scheduler: &Scheduler,
    member: BatchMember,
    decision: SchedulingDecision,
    ticket: PendingClaimGuard,
) {
    let BatchMember { asked, reply } = member;
    let Some(chosen) = decision.ranked.first().cloned() else { return };
    let scheduled = decision.reasons.record(asked.process, asked.attempt, &decision.ranked, Vec::new());
    if reply.send(Ok(Selection { chosen, scheduled, ticket })).is_err() {
        give_back(scheduler, &asked).await;
    }
}
