//! The schemas of Placement's answers.

use super::views::candidates::{CANDIDATE, SUMMARY, shape_of};
use super::views::{CONSUMER, HOLDER, PROVIDER};
use crate::answers::{Answers, empty, json, no_content, ok};
use crate::microversion::v;
use crate::schema::{Property, Schema, array, object, req, shape};

/// The headers of most reads, which `replies::dated` adds.
fn dated(answers: Answers) -> Answers {
    let since = v(1, 15);
    answers.header_from("Last-Modified", since).header_from("Cache-Control", since)
}

fn shown(body: Schema) -> Answers {
    dated(ok(body))
}

fn generation() -> Property {
    req("resource_provider_generation", shape::integer())
}

fn amounts() -> Schema {
    shape::map_of(shape::integer())
}

pub(super) fn providers() -> Answers {
    shown(object([req("resource_providers", array(PROVIDER.shape()))]))
}

pub(super) fn provider() -> Answers {
    shown(PROVIDER.shape())
}

pub(super) fn provider_created() -> Answers {
    empty(201).until(1, 19).or(provider().since(1, 20)).header("Location")
}

fn inventory() -> Schema {
    object([
        req("total", shape::integer()),
        req("reserved", shape::integer()),
        req("min_unit", shape::integer()),
        req("max_unit", shape::integer()),
        req("step_size", shape::integer()),
        req("allocation_ratio", shape::number()),
    ])
}

pub(super) fn inventories() -> Answers {
    shown(object([req("inventories", shape::map_of(inventory())), generation()]))
}

pub(super) fn inventory_shown() -> Answers {
    shown(inventory().plus([generation()]))
}

pub(super) fn inventory_created() -> Answers {
    dated(json(201, inventory().plus([generation()]))).header("Location")
}

pub(super) fn aggregates() -> Answers {
    shown(object([req("aggregates", shape::strings()), generation().since(1, 19)]))
}

pub(super) fn traits() -> Answers {
    shown(object([req("traits", shape::strings())]))
}

pub(super) fn trait_shown() -> Answers {
    dated(no_content())
}

/// 201 for a new trait, and 204 for one that exists already.
pub(super) fn trait_created() -> Answers {
    dated(empty(201).or(no_content())).header("Location")
}

pub(super) fn traits_of_provider() -> Answers {
    shown(object([req("traits", shape::strings()), generation()]))
}

fn class() -> Schema {
    object([req("name", shape::string()), req("links", shape::links())])
}

pub(super) fn classes() -> Answers {
    shown(object([req("resource_classes", array(class()))]))
}

pub(super) fn class_shown() -> Answers {
    shown(class())
}

pub(super) fn class_created() -> Answers {
    empty(201).header("Location")
}

pub(super) fn class_renamed() -> Answers {
    ok(class())
}

/// 201 for a new class, and 204 for one that exists already.
pub(super) fn class_ensured() -> Answers {
    empty(201).or(no_content()).header("Location")
}

pub(super) fn usages_of_provider() -> Answers {
    shown(object([req("usages", amounts()), generation()]))
}

/// Since 1.38 the usages are grouped by type of consumer, and `consumer_count` is the number of consumers of the type.
pub(super) fn usages() -> Answers {
    shown(object([req("usages", amounts().from(1, 38, shape::map_of(amounts())))]))
}

/// A consumer without allocations is unknown, so the answer shows only an empty object of allocations.
pub(super) fn allocations() -> Answers {
    let held = object([req("resources", amounts()), req("generation", shape::integer())]);
    shown(CONSUMER.shape().optional().plus([req("allocations", shape::map_of(held))]))
}

pub(super) fn allocations_of_provider() -> Answers {
    let holder = HOLDER.shape().plus([req("resources", amounts())]);
    shown(object([req("allocations", shape::map_of(holder)), generation()]))
}

pub(super) fn candidates() -> Answers {
    shown(object([
        req("allocation_requests", array(shape_of(CANDIDATE))),
        req("provider_summaries", shape::map_of(shape_of(SUMMARY))),
    ]))
}
