//! The schemas of bodies and query strings, at each microversion.

use serde_json::json;

use crate::schema::{Property, Schema, any_of, array, choice, integer, null, number, object, opt, req, string, uuid};

const MAX_INT: i64 = 0x7FFF_FFFF;
const CLASS: &str = "^[A-Z0-9_]+$";
const CUSTOM: &str = "^CUSTOM_[A-Z0-9_]+$";
const UUID_KEY: &str = "^[0-9a-fA-F-]{36}$";

fn positive() -> Schema {
    integer().max(MAX_INT).min(1)
}

fn external_id() -> Schema {
    string().min_length(1).max_length(255)
}

fn provider_name() -> Schema {
    string().max_length(200)
}

fn parent() -> Schema {
    any_of([uuid(), null()])
}

fn empty_object() -> Schema {
    object([])
}

pub(super) fn providers_list_query() -> Schema {
    object([
        opt("name", string()),
        opt("uuid", uuid()),
        opt("member_of", string()).since(1, 3),
        opt("resources", string()).since(1, 4),
        opt("in_tree", uuid()).since(1, 14),
        opt("required", string()).since(1, 18),
    ])
}

pub(super) fn provider_create_body() -> Schema {
    object([req("name", provider_name()), opt("uuid", uuid()), opt("parent_provider_uuid", parent()).since(1, 14)])
}

pub(super) fn provider_update_body() -> Schema {
    object([req("name", provider_name()), opt("parent_provider_uuid", parent()).since(1, 14)])
}

fn inventory_fields() -> [Property; 7] {
    [
        opt("resource_provider_generation", integer()),
        req("total", positive()),
        opt("reserved", integer().max(MAX_INT).min(0)),
        opt("min_unit", positive()),
        opt("max_unit", positive()),
        opt("step_size", positive()),
        opt("allocation_ratio", number().with("maximum", json!(3.402_82e38))),
    ]
}

fn inventory() -> Schema {
    object(inventory_fields())
}

fn inventories() -> Schema {
    object([
        req("resource_provider_generation", integer()),
        req("inventories", empty_object().pattern_property(CLASS, inventory()).silent()),
    ])
}

pub(super) fn inventories_set_body() -> Schema {
    inventories()
}

pub(super) fn inventory_create_body() -> Schema {
    let [generation, total, reserved, min_unit, max_unit, step_size, ratio] = inventory_fields();
    let class = req("resource_class", string().pattern(CLASS));
    object([generation, total, reserved, min_unit, max_unit, step_size, ratio, class])
}

pub(super) fn inventory_update_body() -> Schema {
    let [_, total, reserved, min_unit, max_unit, step_size, ratio] = inventory_fields();
    let generation = req("resource_provider_generation", integer());
    object([generation, total, reserved, min_unit, max_unit, step_size, ratio])
}

pub(super) fn aggregates_body() -> Schema {
    let list = || array(uuid()).unique_items();
    list().from(1, 19, object([req("aggregates", list()), req("resource_provider_generation", integer())]))
}

pub(super) fn traits_list_query() -> Schema {
    object([opt("name", string()), opt("associated", string())])
}

pub(super) fn provider_traits_body() -> Schema {
    object([
        req("traits", array(string().min_length(1).max_length(255))),
        req("resource_provider_generation", integer()),
    ])
}

pub(super) fn class_body() -> Schema {
    object([req("name", string().pattern(CUSTOM).max_length(255))])
}

pub(super) fn usages_query() -> Schema {
    let kind = string().pattern("^[A-Z0-9_]+$|^all|^unknown$").min_length(1).max_length(255);
    object([req("project_id", external_id()), opt("user_id", external_id()), opt("consumer_type", kind).since(1, 38)])
}

fn resources() -> Schema {
    empty_object().min_properties(1).pattern_property(CLASS, integer().min(1))
}

fn allocations_by_provider(least: u64) -> Schema {
    let allocation = object([opt("generation", integer()), req("resources", resources())]);
    empty_object().min_properties(least).pattern_property(UUID_KEY, allocation)
}

/// A consumer with its allocations by provider.
fn consumer(allocations: Schema) -> Schema {
    let mapping = array(uuid()).min_items(1);
    let mappings = empty_object().silent().min_properties(1).pattern_property("[a-zA-Z0-9_-]{1,64}", mapping);
    object([
        req("allocations", allocations),
        req("project_id", external_id()),
        req("user_id", external_id()),
        req("consumer_generation", integer().types(["integer", "null"]).with("additionalProperties", json!(false)))
            .since(1, 28),
        opt("mappings", mappings).since(1, 34),
        req("consumer_type", string().pattern(CLASS).min_length(1).max_length(255)).since(1, 38),
    ])
}

fn allocation_list() -> Schema {
    let provider = object([req("uuid", uuid())]);
    array(object([req("resource_provider", provider), req("resources", resources())])).min_items(1)
}

pub(super) fn allocations_set_body() -> Schema {
    object([
        req("allocations", allocation_list()),
        req("project_id", external_id()).since(1, 8),
        req("user_id", external_id()).since(1, 8),
    ])
    .from(1, 12, consumer(allocations_by_provider(1).from(1, 28, allocations_by_provider(0))))
}

fn consumers(least: u64) -> Schema {
    empty_object().min_properties(least).pattern_property(UUID_KEY, consumer(allocations_by_provider(0)))
}

pub(super) fn allocations_manage_body() -> Schema {
    consumers(1)
}

pub(super) fn reshape_body() -> Schema {
    object([
        req("inventories", empty_object().min_properties(1).pattern_property(UUID_KEY, inventories())),
        req("allocations", consumers(0)),
    ])
}

/// Before 1.25 there is one group, and it must request resources. From 1.25 on there can be several groups. The schema
/// then does not require resources; the code that reads the groups checks them.
pub(super) fn candidates_query() -> Schema {
    let limit = || {
        opt("limit", integer().types(["integer", "string"]).pattern("^[1-9][0-9]*$").min(1).min_length(1)).since(1, 16)
    };
    let text = || string();
    let numbered = [
        "^resources([1-9][0-9]*)?$",
        "^required([1-9][0-9]*)?$",
        "^member_of([1-9][0-9]*)?$",
        "^in_tree([1-9][0-9]*)?$",
    ];
    let named = [
        "^resources([a-zA-Z0-9_-]{1,64})?$",
        "^required([a-zA-Z0-9_-]{1,64})?$",
        "^member_of([a-zA-Z0-9_-]{1,64})?$",
        "^in_tree([a-zA-Z0-9_-]{1,64})?$",
    ];
    let grouped = |keys: &[&'static str]| {
        let whole = object([
            limit(),
            opt("group_policy", choice(["none", "isolate"])),
            opt("root_required", string().types(["string"])).since(1, 35),
            opt("same_subtree", string().types(["string"])).since(1, 36),
        ]);
        keys.iter().fold(whole, |schema, key| schema.pattern_property(key, text()))
    };
    object([
        req("resources", string()),
        limit(),
        opt("required", string().types(["string"])).since(1, 17),
        opt("member_of", string().types(["string"])).since(1, 21),
    ])
    .from(1, 25, grouped(&numbered[..3]))
    .from(1, 31, grouped(&numbered))
    .from(1, 33, grouped(&named))
}
