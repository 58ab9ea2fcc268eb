//! `/usages` and `/resource_providers/{uuid}/usages`

use std::collections::BTreeMap;

use chronova_events::ids::ProjectId;
use chronova_events::ledger::{Consumer, Ledger};
use serde_json::{Map, Value, json};

use super::ledger::{named_provider, read};
use super::{answers, bodies, replies, versions, views};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[
    get("resource_providers_usages.list", "/resource_providers/{uuid}/usages", handler!(of_provider))
        .policy("placement:resource_providers:usages")
        .as_of()
        .answers(answers::usages_of_provider),
    get("usages.list", "/usages", handler!(of_project))
        .policy_on_target("placement:usages")
        .since(1, 9)
        .query(bodies::usages_query)
        .as_of()
        .answers(answers::usages),
];

async fn of_provider(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    let provider = named_provider(&ctx)?;
    let usages: Map<String, Value> =
        provider.inventories.iter().map(|(class, line)| (class.clone(), json!(line.used))).collect();
    let body = json!({"resource_provider_generation": provider.generation, "usages": usages});
    replies::show(&ctx, body, None)
}

/// The sum of the usage of all consumers of one type.
#[derive(Default)]
struct UsageSum {
    consumers: u64,
    amounts: BTreeMap<String, u64>,
}

impl UsageSum {
    fn add(&mut self, consumer: &Consumer) {
        self.consumers += 1;
        for (class, amount) in consumer.claim.allocations.iter().flat_map(|held| &held.resources) {
            *self.amounts.entry(class.clone()).or_default() += amount;
        }
    }
}

async fn of_project(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    let project = ctx.query.last("project_id").unwrap_or_default();
    ctx.authorize(&PolicyTarget::default().project(&ProjectId::new(project)))?;
    let kind = ctx.query.last("consumer_type");
    let sums = read(&ctx, |ledger| sums(ledger, project, ctx.query.last("user_id"), kind))?;
    let usages = if versions::has_consumer_types(ctx.version) {
        sums.into_iter().map(|(kind, sum)| (kind, by_kind(&sum))).collect()
    } else {
        let mut whole = UsageSum::default();
        for (class, amount) in sums.into_values().flat_map(|sum| sum.amounts) {
            *whole.amounts.entry(class).or_default() += amount;
        }
        whole.amounts.into_iter().map(|(class, amount)| (class, json!(amount))).collect()
    };
    replies::show(&ctx, json!({"usages": Value::Object(usages)}), None)
}

fn by_kind(sum: &UsageSum) -> Value {
    let mut fields: Map<String, Value> = sum.amounts.iter().map(|(class, used)| (class.clone(), json!(used))).collect();
    fields.insert("consumer_count".to_owned(), json!(sum.consumers));
    Value::Object(fields)
}

/// The usage by consumer type. If `kind` is `all`, the types are summed under that name.
fn sums(ledger: &Ledger, project: &str, user: Option<&str>, kind: Option<&str>) -> BTreeMap<String, UsageSum> {
    let mut sums: BTreeMap<String, UsageSum> = BTreeMap::new();
    for consumer in ledger.consumers.values() {
        let claim = &consumer.claim;
        if claim.project.as_str() != project || user.is_some_and(|user| claim.user.as_str() != user) {
            continue;
        }
        let own = views::consumer_type(claim.consumer_type.as_deref());
        let shown = match kind {
            Some("all") => "all",
            Some(kind) if kind != own => continue,
            _ => own,
        };
        sums.entry(shown.to_owned()).or_default().add(consumer);
    }
    sums
}
