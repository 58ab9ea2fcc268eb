#![allow(clippy::unwrap_used)]
//! Compares the ledger, its view and the search for candidates with an independent model
//! (`chronova_tests::placement_model`) under random traffic.
//!
//! After every command both must agree on its acceptance and on the usages. No accepted command raises a usage above
//! the capacity, generations never decrease, and the index equals a fresh one. Every search finds the same candidates.
//! At the end, the view that is rebuilt from the events and the view that is read from its checkpoint equal the live
//! view.
//!
//! `CHRONOVA_SOAK=1` runs many more cases.

use std::collections::{BTreeMap, BTreeSet};

use chronova_actors::aggregate::AggregateRoot;
use chronova_actors::ledger::{
    ConsumerClaim, LedgerCommand, LedgerRoot, ParentChange, Reserve, SeenGeneration, ServerClaim,
};
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{ConsumerId, ProjectId, ProviderId, UserId};
use chronova_events::ledger::{Allocation, Claimed, Inventory, LedgerEvent};
use chronova_projections::placement::Placement;
use chronova_projections::placement::candidates::{self as real, search};
use chronova_projections::placement::index::ProviderIndex;
use chronova_tests::placement_model::{
    Class, Filter, Group, Holding, Model, Number, Request, SHARES, Trait, Units, Wish,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use uuid::Uuid;

const CLASSES: [Class; 4] = ["DISK_GB", "MEMORY_MB", "SRIOV_NET_VF", "VCPU"];
const TRAITS: [Trait; 4] = ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C", SHARES];
const PROVIDERS: std::ops::RangeInclusive<Number> = 1..=7;

#[derive(Debug, Clone)]
enum Step {
    Create {
        number: Number,
        parent: Option<Number>,
    },
    Delete(Number),
    Reparent {
        number: Number,
        parent: Option<Number>,
    },
    /// `current`: the client has seen the newest generation.
    Inventories {
        number: Number,
        current: bool,
        new: BTreeMap<Class, Units>,
    },
    Traits {
        number: Number,
        current: bool,
        new: BTreeSet<Trait>,
    },
    Aggregates {
        number: Number,
        current: bool,
        new: BTreeSet<Number>,
    },
    /// For each consumer: whether the client knows the consumer's generation, and the new allocations.
    Allocate(Vec<(Number, bool, Holding)>),
    Claim {
        consumer: Number,
        holding: Holding,
    },
    Release(Number),
    Search {
        request: Request,
        limit: usize,
    },
}

// ---------------------------------------------------------------------------------------------------------- generators

fn units() -> impl Strategy<Value = Units> {
    let odd = (0..=2_u64, 1..=2_u64, 1..=9_u64, 1..=2_u64, select(vec![0.5, 1.0, 1.5, 2.0]));
    let odd = (1..=9_u64, odd).prop_map(|(total, (reserved, min, max, step, ratio))| Units {
        total,
        reserved,
        min,
        max,
        step,
        ratio,
    });
    let plain = (2..=9_u64).prop_map(|total| Units { total, reserved: 0, min: 1, max: total, step: 1, ratio: 1.0 });
    prop_oneof![3 => plain, 1 => odd]
}

fn class() -> impl Strategy<Value = Class> {
    select(CLASSES.to_vec())
}

fn number() -> impl Strategy<Value = Number> {
    PROVIDERS
}

fn traits() -> impl Strategy<Value = BTreeSet<Trait>> {
    btree_set(select(TRAITS.to_vec()), 0..=2)
}

fn aggregates() -> impl Strategy<Value = BTreeSet<Number>> {
    btree_set(1..=3_u8, 0..=2)
}

fn usually() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.9)
}

fn holding() -> impl Strategy<Value = Holding> {
    btree_map(number(), btree_map(class(), 1..=4_u64, 1..=2), 0..=2)
}

fn filter<T: Ord + Clone + std::fmt::Debug>(one: impl Strategy<Value = T> + Clone) -> impl Strategy<Value = Filter<T>> {
    let required = vec(btree_set(one.clone(), 1..=2), 0..=1);
    let required = prop_oneof![3 => Just(vec![]), 2 => required];
    let forbidden = prop_oneof![3 => Just(BTreeSet::new()), 1 => btree_set(one, 1..=1)];
    (required, forbidden).prop_map(|(required, forbidden)| Filter { required, forbidden })
}

fn group(resources: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Group> {
    let in_tree = prop_oneof![5 => Just(None), 1 => number().prop_map(Some)];
    (btree_map(class(), 1..=3_u64, resources), filter(select(TRAITS.to_vec())), filter(1..=3_u8), in_tree)
        .prop_map(|(resources, traits, aggregates, in_tree)| Group { resources, traits, aggregates, in_tree })
}

fn request() -> impl Strategy<Value = Request> {
    let named = vec(group(0..=2), 0..=2);
    let root = prop_oneof![4 => Just(Filter::default()), 1 => filter(select(TRAITS.to_vec()))];
    (
        option::weighted(0.8, group(1..=3)),
        named,
        any::<bool>(),
        root,
        prop::bool::weighted(0.4),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(main, named, isolate, root, subtree, flat)| {
            let mut groups: BTreeMap<&'static str, Group> = main.into_iter().map(|group| ("", group)).collect();
            let suffixes: BTreeSet<&'static str> = named.iter().zip(["_A", "_B"]).map(|(_, suffix)| suffix).collect();
            groups.extend(["_A", "_B"].into_iter().zip(named));
            let same_subtrees = if subtree && !suffixes.is_empty() { vec![suffixes] } else { vec![] };
            Request { groups, isolate, root, same_subtrees, flat }
        })
}

fn step() -> impl Strategy<Value = Step> {
    let parent = || option::weighted(0.5, number());
    let wish = (1..=5_u8, usually(), holding());
    prop_oneof![
        4 => (number(), parent()).prop_map(|(number, parent)| Step::Create { number, parent }),
        1 => number().prop_map(Step::Delete),
        1 => (number(), parent()).prop_map(|(number, parent)| Step::Reparent { number, parent }),
        6 => (number(), usually(), btree_map(class(), units(), 1..=3))
            .prop_map(|(number, current, new)| Step::Inventories { number, current, new }),
        3 => (number(), usually(), traits()).prop_map(|(number, current, new)| Step::Traits { number, current, new }),
        3 => (number(), usually(), aggregates())
            .prop_map(|(number, current, new)| Step::Aggregates { number, current, new }),
        4 => vec(wish, 1..=2).prop_map(Step::Allocate),
        3 => (1..=5_u8, holding()).prop_map(|(consumer, holding)| Step::Claim { consumer, holding }),
        1 => (1..=5_u8).prop_map(Step::Release),
        8 => (request(), 1..=6_usize).prop_map(|(request, limit)| Step::Search { request, limit }),
    ]
}

/// An initial world, so that cases need not spend their steps on creating one.
fn beginning() -> impl Strategy<Value = Vec<Step>> {
    let one = |number: Number| {
        let parent = if number == 1 { Just(None).boxed() } else { option::weighted(0.6, 1..number).boxed() };
        (parent, btree_map(class(), units(), 1..=3), traits(), aggregates()).prop_map(
            move |(parent, new, traits, groups)| {
                vec![
                    Step::Create { number, parent },
                    Step::Inventories { number, current: true, new },
                    Step::Traits { number, current: true, new: traits },
                    Step::Aggregates { number, current: true, new: groups },
                ]
            },
        )
    };
    (one(1), one(2), one(3), one(4), one(5)).prop_map(|(a, b, c, d, e)| [a, b, c, d, e].concat())
}

// -------------------------------------------------------------------------------------------- the ledger and the model

fn provider(number: Number) -> ProviderId {
    ProviderId(Uuid::from_u128(u128::from(number)))
}

fn aggregate(number: Number) -> Uuid {
    Uuid::from_u128(0x1000 + u128::from(number))
}

fn consumer(number: Number) -> ConsumerId {
    ConsumerId::new(format!("consumer-{number}"))
}

fn back(id: ProviderId) -> Number {
    Number::try_from(id.0.as_u128()).unwrap()
}

fn allocations(holding: &Holding) -> Vec<Allocation> {
    let amounts = |amounts: &BTreeMap<Class, u64>| amounts.iter().map(|(class, n)| ((*class).to_owned(), *n)).collect();
    holding.iter().map(|(number, held)| Allocation { provider: provider(*number), resources: amounts(held) }).collect()
}

fn inventory(class: Class, units: &Units) -> Inventory {
    Inventory {
        class: class.to_owned(),
        total: units.total,
        reserved: units.reserved,
        min_unit: units.min,
        max_unit: units.max,
        step_size: units.step,
        allocation_ratio: units.ratio,
    }
}

struct Pair {
    model: Model,
    live: Placement,
    log: Vec<LedgerEvent>,
}

impl Pair {
    fn new() -> Self {
        let mut pair = Self { model: Model::default(), live: Placement::default(), log: Vec::new() };
        for name in TRAITS.into_iter().filter(|name| name.starts_with("CUSTOM")) {
            assert!(pair.send(LedgerCommand::CreateTrait { name: name.to_owned() }));
        }
        pair
    }

    fn send(&mut self, command: LedgerCommand) -> bool {
        let Ok(events) = LedgerRoot::decide(&self.live.ledger, command) else { return false };
        for event in events {
            self.live.take_in(&event, Timestamp(i64::try_from(self.log.len()).unwrap()));
            self.log.push(event);
        }
        true
    }

    fn seen(&self, number: Number, current: bool) -> Option<u64> {
        let now = self.live.ledger.providers.get(&provider(number)).map_or(0, |known| known.generation);
        Some(if current { now } else { now + 7 })
    }

    fn step(&mut self, step: &Step) {
        let id = |number: &Number| provider(*number);
        let (expected, accepted) = match step {
            Step::Search { request, limit } => return self.search(request, *limit),
            Step::Create { number, parent } => {
                let command = LedgerCommand::CreateProvider {
                    provider: id(number),
                    name: name(*number),
                    parent: parent.map(provider),
                };
                (self.model.create(*number, *parent), self.send(command))
            }
            Step::Delete(number) => {
                (self.model.delete(*number), self.send(LedgerCommand::DeleteProvider { provider: id(number) }))
            }
            Step::Reparent { number, parent } => {
                let parent_change = ParentChange::Move(parent.map(provider));
                let command =
                    LedgerCommand::UpdateProvider { provider: id(number), name: name(*number), parent: parent_change };
                (self.model.reparent(*number, *parent), self.send(command))
            }
            Step::Inventories { number, current, new } => {
                let command = LedgerCommand::SetInventories {
                    provider: id(number),
                    generation: self.seen(*number, *current),
                    inventories: new.iter().map(|(class, units)| inventory(class, units)).collect(),
                    reserve: Reserve::All,
                };
                (self.model.set_inventories(*number, *current, new), self.send(command))
            }
            Step::Traits { number, current, new } => {
                let traits = new.iter().map(ToString::to_string).collect();
                let generation = self.seen(*number, *current);
                let command = LedgerCommand::SetTraits { provider: id(number), generation, traits };
                (self.model.set_traits(*number, *current, new), self.send(command))
            }
            Step::Aggregates { number, current, new } => {
                let aggregates = new.iter().map(|number| aggregate(*number)).collect();
                let generation = self.seen(*number, *current);
                let (provider, spellings) = (id(number), BTreeMap::new());
                let command = LedgerCommand::SetAggregates { provider, generation, aggregates, spellings };
                (self.model.set_aggregates(*number, *current, new), self.send(command))
            }
            Step::Allocate(wanted) => {
                // A request names each consumer once.
                let wanted: BTreeMap<Number, (bool, &Holding)> =
                    wanted.iter().map(|(consumer, current, holding)| (*consumer, (*current, holding))).collect();
                let wishes: Vec<Wish> = wanted
                    .into_iter()
                    .map(|(number, (current, holding))| {
                        let now = self.model.consumers.get(&number).map(|known| known.generation);
                        let seen = if current { now } else { Some(now.unwrap_or(0) + 3) };
                        Wish { consumer: number, seen, holding: holding.clone() }
                    })
                    .collect();
                let claims = wishes.iter().map(claim).collect();
                (self.model.allocate(&wishes), self.send(LedgerCommand::Allocate { claims }))
            }
            Step::Claim { consumer: number, holding } if !holding.is_empty() => {
                let claim = Claimed {
                    consumer: consumer(*number),
                    project: ProjectId::new("p"),
                    user: UserId::new("u"),
                    consumer_type: None,
                    allocations: allocations(holding),
                };
                let claims = vec![ServerClaim { claim, group: None, guest: None }];
                let command = LedgerCommand::ClaimAll { claims };
                (self.model.claim(*number, holding), self.send(command))
            }
            Step::Claim { .. } => return,
            Step::Release(number) => {
                self.model.release(*number);
                (true, self.send(LedgerCommand::Release { consumer: consumer(*number) }))
            }
        };
        assert_eq!(accepted, expected, "{step:?} accepted | expected");
    }

    fn search(&self, request: &Request, limit: usize) {
        if request.groups.is_empty() || request.groups.values().all(|group| group.resources.is_empty()) {
            return;
        }
        let expected = self.model.candidates(request);
        let asked = asked(request);
        let found = search(&self.live.index, &asked);
        let all: BTreeSet<_> = found.candidates.iter().map(plain).collect();
        assert_eq!(all.len(), found.candidates.len(), "a candidate is found twice");
        assert_eq!(all, expected, "found | expected for {request:?}");
        let described: BTreeSet<Number> = found.providers.iter().map(|summary| back(summary.provider.id)).collect();
        assert_eq!(described, self.model.described(request, &expected));
        let few = search(&self.live.index, &real::CandidatesRequest { limit: Some(limit), ..asked });
        assert_eq!(few.candidates.len(), limit.min(expected.len()));
        assert!(few.candidates.iter().all(|one| expected.contains(&plain(one))));
    }

    /// The invariants between two steps; `before` is the ledger before the step.
    fn check(&self, before: &chronova_events::ledger::Ledger) {
        let ledger = &self.live.ledger;
        for (id, known) in &ledger.providers {
            let was = before.providers.get(id);
            assert!(was.is_none_or(|was| was.generation <= known.generation), "a generation decreased");
            for (class, line) in &known.inventories {
                let class = CLASSES.into_iter().find(|name| name == class).unwrap();
                let used = self.model.used(back(*id), class);
                assert_eq!(line.used, used, "{class} of {id}");
                assert_eq!(Some(line.inventory.capacity()), self.model.capacity(back(*id), class));
                let had = was.and_then(|was| was.inventories.get(class)).map_or(0, |line| line.used);
                assert!(used <= line.inventory.capacity() || used <= had, "{class} of {id} became too full");
            }
        }
        assert_eq!(ledger.providers.len(), self.model.providers.len());
        let generations: BTreeMap<ConsumerId, u64> =
            self.model.consumers.iter().map(|(number, known)| (consumer(*number), known.generation)).collect();
        let actual: BTreeMap<ConsumerId, u64> =
            ledger.consumers.iter().map(|(id, known)| (id.clone(), known.generation)).collect();
        assert_eq!(actual, generations);
        assert!(self.live.index == ProviderIndex::of(ledger), "the index differs from a fresh one");
    }

    fn rebuilt(&self) {
        let mut rebuilt = Placement::default();
        for (at, event) in self.log.iter().enumerate() {
            rebuilt.take_in(event, Timestamp(i64::try_from(at).unwrap()));
        }
        assert_eq!(rebuilt.ledger, self.live.ledger);
        assert!(rebuilt.index == self.live.index);
        let kept = serde_json::to_value(&self.live).unwrap();
        let read: Placement = serde_json::from_value(kept).unwrap();
        assert_eq!(read.ledger, self.live.ledger);
        assert!(read.index == self.live.index);
    }
}

fn name(number: Number) -> String {
    format!("provider-{number}")
}

fn claim(wish: &Wish) -> ConsumerClaim {
    ConsumerClaim {
        consumer: consumer(wish.consumer),
        project: ProjectId::new("p"),
        user: UserId::new("u"),
        consumer_type: None,
        generation: SeenGeneration::Said(wish.seen),
        allocations: allocations(&wish.holding),
    }
}

fn trait_filter(filter: &Filter<Trait>) -> real::TraitFilter {
    let names = |set: &BTreeSet<Trait>| set.iter().map(ToString::to_string).collect();
    real::TraitFilter { required: filter.required.iter().map(names).collect(), forbidden: names(&filter.forbidden) }
}

fn asked(request: &Request) -> real::CandidatesRequest {
    let ids = |set: &BTreeSet<Number>| set.iter().map(|number| aggregate(*number)).collect();
    let group = |(suffix, group): (&&str, &Group)| real::RequestGroup {
        suffix: (*suffix).to_owned(),
        resources: group.resources.iter().map(|(class, amount)| ((*class).to_owned(), *amount)).collect(),
        traits: trait_filter(&group.traits),
        aggregates: real::AggregateFilter {
            member_of: group.aggregates.required.iter().map(ids).collect(),
            forbidden: ids(&group.aggregates.forbidden),
        },
        in_tree: group.in_tree.map(provider),
    };
    let suffixes = |set: &BTreeSet<&str>| set.iter().map(ToString::to_string).collect();
    real::CandidatesRequest {
        groups: request.groups.iter().map(group).collect(),
        limit: None,
        isolate: request.isolate,
        root_traits: trait_filter(&request.root),
        same_subtrees: request.same_subtrees.iter().map(suffixes).collect(),
        flat: request.flat,
    }
}

fn plain(candidate: &real::Candidate) -> (Holding, BTreeMap<&'static str, BTreeSet<Number>>) {
    let class = |name: &str| CLASSES.into_iter().find(|class| *class == name).unwrap();
    let suffix = |name: &str| ["", "_A", "_B"].into_iter().find(|suffix| *suffix == name).unwrap();
    let amounts =
        |amounts: &real::ResourceAmounts| amounts.iter().map(|(name, amount)| (class(name), *amount)).collect();
    let holding = candidate.allocations.iter().map(|(id, held)| (back(*id), amounts(held))).collect();
    let served = |ids: &Vec<ProviderId>| ids.iter().map(|id| back(*id)).collect();
    (holding, candidate.mappings.iter().map(|(name, ids)| (suffix(name), served(ids))).collect())
}

fn cases() -> u32 {
    if std::env::var_os("CHRONOVA_SOAK").is_some() { 5_000 } else { 128 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn placement_agrees_with_an_independent_model(beginning in beginning(), steps in vec(step(), 1..60)) {
        let mut pair = Pair::new();
        for step in beginning.iter().chain(&steps) {
            let before = pair.live.ledger.clone();
            pair.step(step);
            pair.check(&before);
        }
        pair.rebuilt();
    }
}

/// The generators reach the interesting cases often enough.
#[test]
fn searches_find_something_often_enough() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut searches, mut found, mut shared, mut nested) = (0, 0, 0, 0);
    for _ in 0..100 {
        let mut pair = Pair::new();
        for step in beginning().new_tree(&mut runner).unwrap().current() {
            pair.step(&step);
        }
        for _ in 0..10 {
            let request = request().new_tree(&mut runner).unwrap().current();
            let all = pair.model.candidates(&request);
            let roots = |holding: &Holding| -> BTreeSet<ProviderId> {
                holding.keys().map(|number| pair.live.ledger.root_of(provider(*number))).collect()
            };
            searches += 1;
            found += u32::from(!all.is_empty());
            shared += u32::from(all.iter().any(|(holding, _)| roots(holding).len() > 1));
            nested += u32::from(all.iter().any(|(holding, _)| roots(holding).len() < holding.len()));
        }
    }
    assert!(found * 10 > searches, "{found} of {searches} searches find anything");
    assert!(shared > 5 && nested > 20, "{shared} use sharing providers, {nested} several of one tree");
}
