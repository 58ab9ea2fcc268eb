//! Chooses the next operation of the clients, and counts their answers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use chronova_events::ids::InstanceId;
use chronova_events::instance::{Instance, status};
use serde_json::Value;
use tokio::task::JoinSet;

use super::draws::Dice;
use super::operations::{self, ChaosOperation, OperationTarget};
use super::world::{ChaosRequest, ChaosWorld, Life};

/// A run aims at this many servers per host.
const SERVERS_A_HOST: usize = 3;
/// After this many operations, the clients list the servers again.
const LOOK_EVERY: u32 = 20;

/// The answers to requests of one kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcomes {
    pub(super) asked: u64,
    pub(super) accepted: u64,
    pub(super) refused: u64,
    /// Answers of 500 and above.
    pub(super) failed: u64,
}

/// Requests and answers over all lives of the control plane.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) of: BTreeMap<ChaosOperation, Outcomes>,
    /// Servers with an acknowledged create.
    pub(super) created: BTreeSet<InstanceId>,
    /// Servers with an acknowledged final delete.
    pub(super) deleted: BTreeSet<InstanceId>,
    /// The messages of answers with a status of 500 and above. Each message has the number of the first operation that
    /// got it, and the number of such answers.
    pub(super) complaints: BTreeMap<String, (u32, u64)>,
}

impl Tally {
    pub(super) fn unanswered(&self) -> u64 {
        self.of.values().map(|one| one.asked - one.accepted - one.refused - one.failed).sum()
    }

    fn answered(
        &mut self,
        index: u32,
        operation: ChaosOperation,
        subject: Option<InstanceId>,
        status: u16,
        body: &Value,
    ) {
        let outcomes = self.of.entry(operation).or_default();
        match status {
            200..300 => outcomes.accepted += 1,
            300..500 => outcomes.refused += 1,
            _ => outcomes.failed += 1,
        }
        match operation {
            ChaosOperation::Create | ChaosOperation::CreateOnVolume if status < 300 => {
                self.created.extend(body["server"]["id"].as_str().and_then(|id| id.parse::<InstanceId>().ok()));
            }
            ChaosOperation::ForceDelete if status < 300 => self.deleted.extend(subject),
            _ => {}
        }
        if status >= 500 {
            let message = body.as_object().and_then(|map| map.values().next()).map(|fault| fault["message"].clone());
            let words = message.as_ref().and_then(Value::as_str).unwrap_or_default().lines().next().unwrap_or_default();
            let complaint =
                self.complaints.entry(format!("{}: {status} {words}", operation.name())).or_insert((index, 0));
            complaint.1 += 1;
        }
    }
}

pub(super) struct ChaosTraffic {
    dice: Dice,
    pub(super) tally: Rc<RefCell<Tally>>,
    /// Servers that may still exist.
    servers: Vec<InstanceId>,
    pub(super) networks: Vec<String>,
    /// Requests under way in this life.
    pub(super) under_way: JoinSet<()>,
    /// Prints every operation on standard error.
    pub(super) trace: bool,
}

impl ChaosTraffic {
    pub(super) fn new(dice: Dice, networks: Vec<String>) -> Self {
        let (tally, under_way) = (Rc::default(), JoinSet::new());
        Self { dice, tally, servers: Vec::new(), networks, under_way, trace: false }
    }

    /// Sends the request for one operation, and does not wait for the answer.
    pub(super) fn ask(&mut self, index: u32, world: &ChaosWorld, life: &Life) {
        let (operation, subject, request) = self.next(index, world, life);
        if self.trace {
            let about = request.body.as_ref().map(Value::to_string).unwrap_or_default();
            let line = format!("{index}\t{:?}\t{} {} {about}\n", world.age(), request.method, request.path);
            chronova::output::complain(&line);
        }
        self.tally.borrow_mut().of.entry(operation).or_default().asked += 1;
        let (api, tally, dead) = (life.api.clone(), Rc::clone(&self.tally), life.store.dead());
        self.under_way.spawn_local(async move {
            let (status, body) = api.ask(request).await;
            // The client of a killed control plane gets no answer.
            if dead.load(Ordering::SeqCst) {
                return;
            }
            tally.borrow_mut().answered(index, operation, subject, status, &body);
        });
        // Removes requests that have ended from the set.
        while self.under_way.try_join_next().is_some() {}
    }

    fn next(
        &mut self,
        index: u32,
        world: &ChaosWorld,
        life: &Life,
    ) -> (ChaosOperation, Option<InstanceId>, ChaosRequest) {
        if index.is_multiple_of(LOOK_EVERY) {
            self.look_around(life);
        }
        let wanted = world.fleet.len() * SERVERS_A_HOST;
        let chance = match self.servers.len() * 100 / wanted.max(1) {
            0..30 => 600,
            30..70 => 250,
            70..100 => 120,
            _ => 20,
        };
        if !self.dice.happens(chance) {
            if self.dice.happens(80) {
                let (operation, request) = operations::of_volume(life, &mut self.dice);
                return (operation, None, request);
            }
            if let Some((operation, id, request)) = self.of_a_server(world, life) {
                return (operation, Some(id), request);
            }
        }
        let on_volume = self.dice.happens(150);
        let operation = if on_volume { ChaosOperation::CreateOnVolume } else { ChaosOperation::Create };
        (operation, None, operations::create(on_volume, index.into(), &self.networks, &mut self.dice))
    }

    fn of_a_server(&mut self, world: &ChaosWorld, life: &Life) -> Option<(ChaosOperation, InstanceId, ChaosRequest)> {
        for _ in 0..20 {
            if self.servers.is_empty() {
                self.look_around(life);
            }
            let at = self.dice.index(self.servers.len());
            let id = *self.servers.get(at)?;
            let row = life.views().servers.read(|servers| servers.get(id).cloned());
            let Some(Instance::Alive(server)) = row.as_ref().map(|row| &row.instance) else {
                self.servers.swap_remove(at);
                continue;
            };
            let host = server.placement.as_ref().and_then(|placed| world.host_named(placed.host));
            let lost = host.is_some_and(|host| !world.fleet.is_alive(host));
            let operation = if lost && self.dice.happens(600) {
                Some(ChaosOperation::Evacuate)
            } else if self.dice.happens(120) {
                self.dice.weighed(operations::ANY)
            } else {
                self.dice.weighed(operations::of_status(status::of_alive(server).status))
            };
            let request = operations::request(
                operation?,
                &OperationTarget { id, server, life, networks: &self.networks },
                &mut self.dice,
            );
            if let (Some(operation), Some(request)) = (operation, request) {
                return Some((operation, id, request));
            }
        }
        None
    }

    /// Lists all existing servers, even if their creates got no reply.
    fn look_around(&mut self, life: &Life) {
        let alive = life.views().servers.read(|servers| {
            let alive = servers.all().filter(|row| row.instance.alive().is_some());
            alive.map(|row| row.id).collect::<Vec<_>>()
        });
        self.servers = alive;
    }

    /// Drops the requests under way: a killed control plane sends no answer.
    pub(super) async fn cut(&mut self) {
        self.under_way.shutdown().await;
    }
}
