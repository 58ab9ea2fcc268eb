//! The allocations that changed, for Placement's database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::ids::{ConsumerId, ProviderId};
use chronova_events::ledger::{Claimed, Consumer, Ledger};

use super::NovaExport;
use super::sql::{maybe, quoted, time};

type Consumers = BTreeMap<ConsumerId, Arc<Consumer>>;

pub(super) fn export(before: &Ledger, now: &Ledger, export: &mut NovaExport) {
    let (old, new): (&Consumers, &Consumers) = (&before.consumers, &now.consumers);
    let before_providers = &before.providers;
    let mut changed: BTreeSet<ProviderId> = BTreeSet::new();
    for id in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let claim = |all: &Consumers| all.get(id).map(|consumer| consumer.claim.clone());
        let (before, after) = (claim(old), claim(new));
        if before == after || export.unwritten.contains(id) {
            continue;
        }
        let held =
            |claim: &Option<Claimed>| claim.iter().flat_map(|claim| claim.allocations.clone()).collect::<Vec<_>>();
        if let Some(new) = held(&after).iter().find(|held| !before_providers.contains_key(&held.provider)) {
            let provider = new.provider;
            export.lacks.push(format!(
                "consumer {id} has an allocation on provider {provider}, which was added here: move it, or delete it"
            ));
            continue;
        }
        export.written += 1;
        changed.extend(held(&before).into_iter().chain(held(&after)).map(|held| held.provider));
        export.placement.push(format!("DELETE FROM allocations WHERE consumer_id = {}", quoted(id.as_str())));
        match new.get(id) {
            None => export.placement.push(format!("DELETE FROM consumers WHERE uuid = {}", quoted(id.as_str()))),
            Some(consumer) => replace(id, consumer, export),
        }
    }
    // A new generation tells Placement's clients that the provider's allocations changed.
    for provider in changed {
        let id = quoted(&provider.to_string());
        export.placement.push(format!("UPDATE resource_providers SET generation = generation + 1 WHERE uuid = {id}"));
    }
}

fn replace(id: &ConsumerId, consumer: &Consumer, export: &mut NovaExport) {
    let (uuid, at, claim) = (quoted(id.as_str()), time(consumer.updated_at), &consumer.claim);
    let (project, user) = (quoted(claim.project.as_str()), quoted(claim.user.as_str()));
    for (table, name) in [("projects", &project), ("users", &user)] {
        export.placement.push(format!("INSERT IGNORE INTO {table} (created_at, external_id) VALUES ({at}, {name})"));
    }
    let kind = claim.consumer_type.as_deref();
    if kind.is_some() {
        let values = format!("{at}, {}", maybe(kind));
        export.placement.push(format!("INSERT IGNORE INTO consumer_types (created_at, name) VALUES ({values})"));
    }
    let kind = format!("(SELECT id FROM consumer_types WHERE name = {})", maybe(kind));
    export.placement.push(format!(
        "INSERT INTO consumers (created_at, updated_at, uuid, project_id, user_id, generation, consumer_type_id) \
         SELECT {}, {at}, {uuid}, p.id, u.id, {}, {kind} FROM projects p, users u \
         WHERE p.external_id = {project} AND u.external_id = {user} \
         ON DUPLICATE KEY UPDATE updated_at = VALUES(updated_at), project_id = VALUES(project_id), \
         user_id = VALUES(user_id), generation = VALUES(generation), consumer_type_id = VALUES(consumer_type_id)",
        time(consumer.created_at),
        consumer.generation,
    ));
    for allocation in &claim.allocations {
        let provider = quoted(&allocation.provider.to_string());
        for (class, amount) in &allocation.resources {
            let class = quoted(class);
            export.placement.push(format!(
                "INSERT INTO allocations (created_at, updated_at, resource_provider_id, consumer_id, resource_class_id, \
                 used) SELECT {at}, {at}, p.id, {uuid}, c.id, {amount} FROM resource_providers p, resource_classes c \
                 WHERE p.uuid = {provider} AND c.name = {class}"
            ));
        }
    }
}
