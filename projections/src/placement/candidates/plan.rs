//! Narrows the index to the trees that may serve every group, before any tree is searched.

use std::sync::Arc;

use chronova_events::ids::ProviderId;

use super::super::index::ProviderIndex;
use super::super::request::{CandidatesRequest, RequestGroup};
use crate::slots::{Slot, Slots};

/// The inputs of a search.
pub(super) struct SearchPlan<'a> {
    pub(super) index: &'a ProviderIndex,
    pub(super) request: &'a CandidatesRequest,
    pub(super) groups: Vec<GroupPlan>,
    /// All requested classes, sorted.
    pub(super) classes: Vec<Arc<str>>,
    /// The sharing providers, and the trees that may use them.
    pub(super) shared: Vec<SharingProvider>,
    /// The roots of the trees that may serve every group.
    pub(super) anchors: Slots,
}

/// A provider that trees other than its own may use.
pub(super) struct SharingProvider {
    pub(super) slot: Slot,
    pub(super) anchors: Slots,
}

/// One group of the request, and the providers that may serve it.
pub(super) struct GroupPlan {
    pub(super) suffix: Arc<str>,
    pub(super) serves: Serves,
}

pub(super) enum Serves {
    /// One provider of this set must serve all these amounts.
    One { providers: Slots, amounts: Vec<(usize, u64)> },
    /// Several providers serve the group together.
    Together(SplitGroup),
}

/// A group that several providers of a tree may serve together.
pub(super) struct SplitGroup {
    /// Class (its index in [`SearchPlan::classes`]), amount, and the providers with enough capacity.
    pub(super) classes: Vec<(usize, u64, Slots)>,
    /// The group requires one trait of each set. For each set: the providers that have at least one of its traits.
    pub(super) required: Vec<Slots>,
    /// The members of the requested aggregates.
    members: Option<Slots>,
    /// The members of forbidden aggregates.
    banned: Slots,
    /// Whether the request names a tree (`in_tree`). If so, only providers of that tree may serve the group.
    alone: bool,
}

impl SplitGroup {
    /// Whether the provider `slot` may serve this group in the tree of `anchor`. `own` says whether the provider is in
    /// that tree. A provider of the tree counts as a member of its root's aggregates. A sharing provider of another
    /// tree must be a member itself.
    pub(super) fn admits(&self, slot: Slot, anchor: Slot, own: bool) -> bool {
        let member =
            self.members.as_ref().is_none_or(|members| members.contains(slot) || (own && members.contains(anchor)));
        member && (own || !self.alone) && !self.banned.contains(slot) && !self.banned.contains(anchor)
    }
}

impl<'a> SearchPlan<'a> {
    /// Narrows the index for a request; `None` if no tree can serve it.
    pub(super) fn of(index: &'a ProviderIndex, request: &'a CandidatesRequest) -> Option<Self> {
        let mut names: Vec<&str> =
            request.groups.iter().flat_map(|group| group.resources.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        let sharing = index.sharing().into_iter().flat_map(Slots::iter);
        let shared: Vec<SharingProvider> = sharing
            .filter_map(|slot| Some(SharingProvider { slot, anchors: index.anchors(index.provider(slot)?) }))
            .collect();
        let mut plan = Self {
            index,
            request,
            groups: Vec::new(),
            classes: names.iter().map(|name| Arc::from(*name)).collect(),
            shared,
            anchors: Slots::default(),
        };
        let mut anchors: Option<Slots> = None;
        for group in &request.groups {
            let planned = plan.group(group, &names)?;
            let mut found = plan.anchors_of(&planned);
            if let Some(before) = &anchors {
                found.retain_all(before);
            }
            if found.is_empty() {
                return None;
            }
            anchors = Some(found);
            plan.groups.push(planned);
        }
        plan.anchors = anchors?;
        plan.index.cut_by_traits(&mut plan.anchors, &request.root_traits);
        Some(plan)
    }

    fn group(&self, group: &RequestGroup, names: &[&str]) -> Option<GroupPlan> {
        let tree = match group.in_tree {
            Some(wanted) => Some(self.tree(wanted)?),
            None => None,
        };
        let number = |class: &String| names.binary_search(&class.as_str()).ok();
        let mut classes = Vec::with_capacity(group.resources.len());
        for (class, amount) in &group.resources {
            let mut fitting = self.index.with_room(class, *amount);
            if let Some(tree) = &tree {
                fitting.retain_all(tree);
            }
            classes.push((number(class)?, *amount, fitting));
        }
        let serves = if group.suffix.is_empty() {
            Serves::Together(self.together(group, classes))
        } else {
            self.one(group, classes)?
        };
        Some(GroupPlan { suffix: Arc::from(group.suffix.as_str()), serves })
    }

    fn tree(&self, id: ProviderId) -> Option<Slots> {
        let root = self.index.root_of(self.index.slot(id)?);
        Some(self.index.tree(root).collect())
    }

    fn one(&self, group: &RequestGroup, classes: Vec<(usize, u64, Slots)>) -> Option<Serves> {
        // Placement finds providers for a group without resources by the required traits and aggregates, in any tree.
        // If the group requires neither traits nor aggregates, it finds no provider.
        if classes.is_empty() && group.traits.required.is_empty() && group.aggregates.member_of.is_empty() {
            return None;
        }
        let amounts = classes.iter().map(|(class, amount, _)| (*class, *amount)).collect();
        let mut sets = classes.into_iter().map(|(_, _, fitting)| fitting);
        let mut providers = sets.next().unwrap_or_else(|| self.index.all().clone());
        sets.for_each(|fitting| providers.retain_all(&fitting));
        self.index.cut_by_traits(&mut providers, &group.traits);
        if let Some(members) = self.index.members(&group.aggregates) {
            providers.retain_all(&members);
        }
        providers.remove_all(&self.index.in_any_aggregate(&group.aggregates.forbidden));
        Some(Serves::One { providers, amounts })
    }

    fn together(&self, group: &RequestGroup, mut classes: Vec<(usize, u64, Slots)>) -> SplitGroup {
        if !group.traits.forbidden.is_empty() {
            let forbidden = self.index.with_any_trait(&group.traits.forbidden);
            for (_, _, fitting) in &mut classes {
                fitting.remove_all(&forbidden);
            }
        }
        SplitGroup {
            classes,
            required: group.traits.required.iter().map(|any| self.index.with_any_trait(any)).collect(),
            members: self.index.members(&group.aggregates),
            banned: self.index.in_any_aggregate(&group.aggregates.forbidden),
            alone: group.in_tree.is_some(),
        }
    }

    /// The trees in which this group may be served. This function checks each class and each trait on its own. So the
    /// set may contain trees in which the search then finds nothing.
    fn anchors_of(&self, group: &GroupPlan) -> Slots {
        match &group.serves {
            Serves::One { providers, .. } => self.anchors_with(providers, |_, _, _| true),
            Serves::Together(together) => {
                let of_class = |fitting: &Slots| {
                    self.anchors_with(fitting, |slot, anchor, own| together.admits(slot, anchor, own))
                };
                let mut sets = together.classes.iter().map(|(_, _, fitting)| of_class(fitting));
                let Some(mut anchors) = sets.next() else { return Slots::default() };
                sets.for_each(|others| anchors.retain_all(&others));
                for any in &together.required {
                    anchors.retain_all(&self.anchors_with(any, |_, _, _| true));
                }
                anchors
            }
        }
    }

    /// The trees to which `providers` belong, and the trees with which they share. A pair of provider and tree counts
    /// only if `admits` allows it.
    fn anchors_with(&self, providers: &Slots, admits: impl Fn(Slot, Slot, bool) -> bool) -> Slots {
        let mut anchors = Slots::default();
        for slot in providers.iter() {
            let root = self.index.root_of(slot);
            if admits(slot, root, true) {
                anchors.insert(root);
            }
        }
        for shared in self.shared.iter().filter(|shared| providers.contains(shared.slot)) {
            let others = shared
                .anchors
                .iter()
                .filter(|anchor| admits(shared.slot, *anchor, self.index.root_of(shared.slot) == *anchor));
            others.for_each(|anchor| {
                anchors.insert(anchor);
            });
        }
        anchors
    }
}
