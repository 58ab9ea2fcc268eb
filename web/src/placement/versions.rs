//! The microversions at which a handler behaves differently. Schemas and views name the versions of their own parts.

use chronova_actors::ledger::Reserve;

use crate::microversion::{Microversion, v};

/// Replies have cache headers.
pub(crate) const fn has_cache_headers(version: Microversion) -> bool {
    version.at_least(v(1, 15))
}

/// `POST /resource_providers` answers with the provider.
pub(super) const fn create_shows_provider(version: Microversion) -> bool {
    version.at_least(v(1, 20))
}

/// Providers have parents.
pub(super) const fn has_parents(version: Microversion) -> bool {
    version.at_least(v(1, 14))
}

/// A provider can get another parent, or lose it.
pub(super) const fn can_move_providers(version: Microversion) -> bool {
    version.at_least(v(1, 37))
}

/// An inventory may be reserved entirely.
pub(super) const fn reserve(version: Microversion) -> Reserve {
    if version.at_least(v(1, 26)) { Reserve::All } else { Reserve::Less }
}

/// A change of aggregates needs the provider's generation.
pub(super) const fn aggregates_have_generations(version: Microversion) -> bool {
    version.at_least(v(1, 19))
}

/// Allocations are an object by provider, not a list.
pub(super) const fn allocations_by_provider(version: Microversion) -> bool {
    version.at_least(v(1, 12))
}

/// A change of a consumer needs its generation.
pub(super) const fn has_consumer_generations(version: Microversion) -> bool {
    version.at_least(v(1, 28))
}

/// Consumers have types.
pub(super) const fn has_consumer_types(version: Microversion) -> bool {
    version.at_least(v(1, 38))
}

/// Traits can be forbidden.
pub(super) const fn can_forbid_traits(version: Microversion) -> bool {
    version.at_least(v(1, 22))
}

/// `required` may list alternative traits (`in:`), and may be repeated.
pub(super) const fn can_ask_for_any_trait(version: Microversion) -> bool {
    version.at_least(v(1, 39))
}

/// `member_of` can be repeated.
pub(super) const fn can_repeat_member_of(version: Microversion) -> bool {
    version.at_least(v(1, 24))
}

/// Aggregates can be forbidden.
pub(super) const fn can_forbid_aggregates(version: Microversion) -> bool {
    version.at_least(v(1, 32))
}

/// Groups without resources are allowed if `same_subtree` names them.
pub(super) const fn has_same_subtree(version: Microversion) -> bool {
    version.at_least(v(1, 36))
}

/// Candidates may use several providers of a tree.
pub(super) const fn knows_trees(version: Microversion) -> bool {
    version.at_least(v(1, 29))
}
