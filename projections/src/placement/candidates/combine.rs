//! Searches the remaining provider trees for providers that together serve the request.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use chronova_events::ids::ProviderId;

use super::plan::{SearchPlan, Serves, SplitGroup};
use super::{Candidate, MOST, ResourceAmounts};
use crate::slots::{Slot, Slots};

/// One way to serve one group in one tree. `amounts` has provider, class and amount. `providers` also includes
/// providers from which the group takes no amount.
struct GroupOption {
    amounts: Vec<(Slot, usize, u64)>,
    providers: Vec<Slot>,
}

/// Finds candidates in one tree after the other, until it has `limit` candidates.
pub(super) fn all(plan: &SearchPlan<'_>, limit: usize) -> Vec<Candidate> {
    let mut search = Search {
        plan,
        limit,
        found: Vec::new(),
        // Without sharing providers, two trees never give the same candidate, so no candidates need comparing.
        seen: (!plan.shared.is_empty()).then(HashSet::new),
        previous_amounts: Arc::from([]),
        lone_amounts: lone_amounts(plan),
    };
    for anchor in plan.anchors.iter() {
        if search.found.len() >= limit {
            break;
        }
        search.search_tree(anchor);
    }
    search.found
}

struct Search<'a> {
    plan: &'a SearchPlan<'a>,
    limit: usize,
    found: Vec<Candidate>,
    seen: Option<HashSet<Candidate>>,
    /// The amounts of the previous provider, which mostly equal those of the next one.
    previous_amounts: ResourceAmounts,
    /// The amounts of a provider that serves the whole request alone; see [`lone_amounts`].
    lone_amounts: Option<ResourceAmounts>,
}

/// The amounts of a provider that serves the whole request alone. With these amounts, a tree of one provider has at
/// most one candidate, which needs no combinations. `None` if the request has several groups, a group with a suffix or
/// without resources, or a condition on subtrees. Also `None` if a provider shares resources with others.
fn lone_amounts(plan: &SearchPlan<'_>) -> Option<ResourceAmounts> {
    let [group] = plan.groups.as_slice() else { return None };
    let Serves::Together(together) = &group.serves else { return None };
    let is_plain = plan.shared.is_empty() && plan.request.same_subtrees.is_empty() && !together.classes.is_empty();
    let amounts = together.classes.iter().map(|(class, amount, _)| (Arc::clone(&plan.classes[*class]), *amount));
    is_plain.then(|| amounts.collect())
}

impl Search<'_> {
    fn search_tree(&mut self, anchor: Slot) {
        if self.search_lone(anchor) {
            return;
        }
        // The tree's own providers, and the providers that share with the tree.
        let mut around: Vec<(Slot, bool)> = self.plan.index.tree(anchor).map(|slot| (slot, true)).collect();
        let shared = self.plan.shared.iter().filter(|shared| shared.anchors.contains(anchor));
        around.extend(
            shared
                .map(|shared| shared.slot)
                .filter(|slot| self.plan.index.root_of(*slot) != anchor)
                .map(|slot| (slot, false)),
        );
        let mut options: Vec<Vec<GroupOption>> = Vec::with_capacity(self.plan.groups.len());
        for group in &self.plan.groups {
            let found = match &group.serves {
                Serves::One { providers, amounts } => {
                    let fitting = around.iter().filter(|(slot, _)| providers.contains(*slot));
                    let option = |slot: Slot| GroupOption {
                        amounts: amounts.iter().map(|(class, amount)| (slot, *class, *amount)).collect(),
                        providers: vec![slot],
                    };
                    fitting.map(|(slot, _)| option(*slot)).collect()
                }
                Serves::Together(together) => combinations(together, anchor, &around),
            };
            if found.is_empty() {
                return;
            }
            options.push(found);
        }
        self.choose(&options, &mut Vec::with_capacity(options.len()));
    }

    /// Searches a tree of one provider. Returns `false` if the tree must be searched with combinations.
    fn search_lone(&mut self, anchor: Slot) -> bool {
        let (Some(amounts), [group]) = (&self.lone_amounts, self.plan.groups.as_slice()) else { return false };
        let Serves::Together(together) = &group.serves else { return false };
        let Some(id) = self.plan.index.id(anchor).filter(|_| self.plan.index.is_lone(anchor)) else { return false };
        let fits = together.classes.iter().all(|(_, _, fitting)| fitting.contains(anchor));
        let has_traits = together.required.iter().all(|any| any.contains(anchor));
        if fits && has_traits && together.admits(anchor, anchor, true) {
            self.found.push(Candidate {
                allocations: vec![(id, Arc::clone(amounts))],
                mappings: vec![(Arc::clone(&group.suffix), vec![id])],
            });
        }
        true
    }

    /// Adds an option of the next group to the chosen options, if it is compatible with them.
    fn choose<'p>(&mut self, options: &'p [Vec<GroupOption>], chosen: &mut Vec<&'p GroupOption>) {
        let Some(next) = options.get(chosen.len()) else {
            self.add_candidate(chosen);
            return;
        };
        for option in next {
            if self.found.len() >= self.limit {
                return;
            }
            if self.is_apart(option, chosen) && self.fits_beside(option, chosen) {
                chosen.push(option);
                self.choose(options, chosen);
                chosen.pop();
            }
        }
    }

    /// With `group_policy=isolate`, each group with a suffix has a provider of its own.
    fn is_apart(&self, option: &GroupOption, chosen: &[&GroupOption]) -> bool {
        let named = |at: usize| !self.plan.groups[at].suffix.is_empty();
        if !self.plan.request.isolate || !named(chosen.len()) {
            return true;
        }
        let others = chosen.iter().enumerate().filter(|(at, _)| named(*at)).map(|(_, other)| other);
        others.flat_map(|other| &other.providers).all(|slot| !option.providers.contains(slot))
    }

    /// Whether the groups together fit. Groups that fit one by one may together exceed a provider.
    fn fits_beside(&self, option: &GroupOption, chosen: &[&GroupOption]) -> bool {
        option.amounts.iter().all(|(slot, class, amount)| {
            let same =
                chosen.iter().flat_map(|other| &other.amounts).filter(|(other, of, _)| other == slot && of == class);
            let others = same.fold(0_u64, |sum, (_, _, amount)| sum.saturating_add(*amount));
            if others == 0 {
                return true;
            }
            let total = others.saturating_add(*amount);
            let room = self.plan.index.class(&self.plan.classes[*class]).and_then(|column| column.room(*slot));
            room.is_some_and(|room| total <= room.free && total <= room.max_unit)
        })
    }

    fn add_candidate(&mut self, chosen: &[&GroupOption]) {
        if !self.is_in_subtrees(chosen) || (self.plan.request.flat && self.uses_a_tree_twice(chosen)) {
            return;
        }
        let candidate = self.candidate(chosen);
        if let Some(seen) = &mut self.seen
            && !seen.insert(candidate.clone())
        {
            return;
        }
        self.found.push(candidate);
    }

    fn is_in_subtrees(&self, chosen: &[&GroupOption]) -> bool {
        let groups = &self.plan.groups;
        self.plan.request.same_subtrees.iter().all(|suffixes| {
            let named = groups.iter().zip(chosen).filter(|(group, _)| suffixes.contains(&*group.suffix));
            let providers: BTreeSet<Slot> = named.flat_map(|(_, option)| option.providers.iter().copied()).collect();
            let mut above = providers.iter().map(|slot| self.with_ancestors(*slot));
            let Some(first) = above.next() else { return true };
            let common = above.fold(first, |common, next| &common & &next);
            !common.is_disjoint(&providers)
        })
    }

    /// The provider and all its ancestors.
    fn with_ancestors(&self, slot: Slot) -> BTreeSet<Slot> {
        let mut found = BTreeSet::new();
        let mut at = Some(slot);
        while let Some(slot) = at.filter(|slot| found.insert(*slot)) {
            let parent = self.plan.index.provider(slot).and_then(|provider| provider.parent);
            at = parent.and_then(|parent| self.plan.index.slot(parent));
        }
        found
    }

    fn uses_a_tree_twice(&self, chosen: &[&GroupOption]) -> bool {
        let used: BTreeSet<Slot> = chosen.iter().flat_map(|option| &option.amounts).map(|(slot, _, _)| *slot).collect();
        let mut roots = BTreeSet::new();
        !used.into_iter().all(|slot| roots.insert(self.plan.index.root_of(slot)))
    }

    fn candidate(&mut self, chosen: &[&GroupOption]) -> Candidate {
        let id = |slot: Slot| self.plan.index.id(slot).unwrap_or(ProviderId(uuid::Uuid::nil()));
        let mut amounts: Vec<(ProviderId, usize, u64)> = chosen
            .iter()
            .flat_map(|option| &option.amounts)
            .map(|(slot, class, amount)| (id(*slot), *class, *amount))
            .collect();
        // Class indexes have the order of the class names.
        amounts.sort_unstable();
        let groups = self.plan.groups.iter().zip(chosen);
        let mappings = groups
            .map(|(group, option)| {
                let mut providers: Vec<ProviderId> = option.providers.iter().map(|slot| id(*slot)).collect();
                providers.sort_unstable();
                (Arc::clone(&group.suffix), providers)
            })
            .collect();
        let by_provider = amounts.chunk_by(|a, b| a.0 == b.0);
        let allocations = by_provider.map(|of_one| (of_one[0].0, self.amounts(of_one))).collect();
        Candidate { allocations, mappings }
    }

    /// Adds up the allocations of one provider, so that each class occurs once.
    fn amounts(&mut self, of_one: &[(ProviderId, usize, u64)]) -> ResourceAmounts {
        let classes = &self.plan.classes;
        let by_class = || {
            of_one.chunk_by(|a, b| a.1 == b.1).map(|same| {
                let total = same.iter().fold(0_u64, |sum, (_, _, amount)| sum.saturating_add(*amount));
                (&classes[same[0].1], total)
            })
        };
        let previous_amounts = self.previous_amounts.iter().map(|(class, amount)| (class, *amount));
        if !previous_amounts.eq(by_class()) {
            self.previous_amounts = by_class().map(|(class, total)| (Arc::clone(class), total)).collect();
        }
        Arc::clone(&self.previous_amounts)
    }
}

/// Chooses one provider for each class, in every way that has the required traits. A wide tree can have more ways than
/// anybody can use or store, so the function stops after [`MOST`] ways.
fn combinations(group: &SplitGroup, anchor: Slot, around: &[(Slot, bool)]) -> Vec<GroupOption> {
    let serving = |fitting: &Slots| -> Vec<Slot> {
        let fits = around.iter().filter(|(slot, own)| fitting.contains(*slot) && group.admits(*slot, anchor, *own));
        fits.map(|(slot, _)| *slot).collect()
    };
    let choices: Vec<Vec<Slot>> = group.classes.iter().map(|(_, _, fitting)| serving(fitting)).collect();
    let mut options = Vec::new();
    for chosen in CartesianProduct::new(choices.iter().map(Vec::len)).take(MOST) {
        let slots: Vec<Slot> = chosen.iter().zip(&choices).map(|(at, choice)| choice[*at]).collect();
        if !group.required.iter().all(|any| slots.iter().any(|slot| any.contains(*slot))) {
            continue;
        }
        let amounts = slots.iter().zip(&group.classes).map(|(slot, (class, amount, _))| (*slot, *class, *amount));
        let amounts = amounts.collect();
        let mut providers = slots;
        providers.sort_unstable();
        providers.dedup();
        options.push(GroupOption { amounts, providers });
    }
    options
}

/// All ways to choose one element of each list, as indexes; the last index varies fastest.
struct CartesianProduct {
    lengths: Vec<usize>,
    next: Option<Vec<usize>>,
}

impl CartesianProduct {
    fn new(lengths: impl Iterator<Item = usize>) -> Self {
        let lengths: Vec<usize> = lengths.collect();
        let next = lengths.iter().all(|length| *length > 0).then(|| vec![0; lengths.len()]);
        Self { lengths, next }
    }
}

impl Iterator for CartesianProduct {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let current = self.next.clone()?;
        let at = self.next.as_mut()?;
        let mut carried = true;
        for (index, length) in at.iter_mut().zip(&self.lengths).rev() {
            *index += 1;
            if *index < *length {
                carried = false;
                break;
            }
            *index = 0;
        }
        if carried {
            self.next = None;
        }
        Some(current)
    }
}
