//! `/traits` and `/resource_providers/{uuid}/traits`

use std::collections::BTreeSet;

use chronova_actors::ledger::LedgerCommand;
use chronova_events::ids::ProviderId;
use chronova_events::ledger::{Ledger, standard};
use serde_json::json;

use super::ledger::{named_provider, provider_id, read, send};
use super::readers::TraitsBody;
use super::reject::PlacementOperation;
use super::{answers, bodies, replies};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, put};

const OF_PROVIDER: &str = "/resource_providers/{uuid}/traits";

pub(super) const ROUTES: &[Route] = &[
    get("traits.list", "/traits", handler!(list))
        .policy("placement:traits:list")
        .since(1, 6)
        .query(bodies::traits_list_query)
        .answers(answers::traits)
        .as_of(),
    get("traits_one.get", "/traits/{name}", handler!(show))
        .policy("placement:traits:show")
        .since(1, 6)
        .answers(answers::trait_shown)
        .as_of(),
    put("traits_one.update", "/traits/{name}", handler!(create))
        .policy("placement:traits:update")
        .since(1, 6)
        .answers(answers::trait_created),
    delete("traits_one.delete", "/traits/{name}", handler!(remove))
        .policy("placement:traits:delete")
        .since(1, 6)
        .answers(no_content),
    get("resource_providers_traits.list", OF_PROVIDER, handler!(of_provider))
        .policy("placement:resource_providers:traits:list")
        .since(1, 6)
        .answers(answers::traits_of_provider)
        .as_of(),
    put("resource_providers_traits.update", OF_PROVIDER, handler!(set))
        .policy("placement:resource_providers:traits:update")
        .since(1, 6)
        .body(bodies::provider_traits_body)
        .answers(answers::traits_of_provider),
    delete("resource_providers_traits.delete", OF_PROVIDER, handler!(clear))
        .policy("placement:resource_providers:traits:delete")
        .since(1, 6)
        .answers(no_content),
];

async fn list(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    let wanted = name_filter(&ctx)?;
    let associated = associated_filter(&ctx)?;
    let found = read(&ctx, |ledger| matching(ledger, &wanted, associated))?;
    replies::show(&ctx, json!({"traits": found}), None)
}

/// The traits whose names `wanted` admits. If `associated` is true, only traits that at least one provider has. If it
/// is false, only traits that no provider has.
fn matching(ledger: &Ledger, wanted: &TraitNameFilter<'_>, associated: Option<bool>) -> Vec<String> {
    let used: BTreeSet<&str> = match associated {
        Some(_) => ledger.providers.values().flat_map(|provider| &provider.traits).map(String::as_str).collect(),
        None => BTreeSet::new(),
    };
    let all = standard::TRAITS.iter().copied().chain(ledger.traits.iter().map(String::as_str));
    all.filter(|name| wanted.admits(name))
        .filter(|name| associated.is_none_or(|associated| used.contains(name) == associated))
        .map(str::to_owned)
        .collect()
}

enum TraitNameFilter<'a> {
    All,
    These(BTreeSet<&'a str>),
    Beginning(&'a str),
}

impl TraitNameFilter<'_> {
    fn admits(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(name),
            Self::Beginning(prefix) => name.starts_with(prefix),
        }
    }
}

/// Reads the filter by name: `name=in:A,B` or `name=startswith:CUSTOM`.
fn name_filter(ctx: &Ctx) -> Result<TraitNameFilter<'_>, Fault> {
    let Some(text) = ctx.query.last("name") else { return Ok(TraitNameFilter::All) };
    match text.split_once(':') {
        Some(("in", names)) => Ok(TraitNameFilter::These(names.split(',').collect())),
        Some(("startswith", prefix)) => Ok(TraitNameFilter::Beginning(prefix)),
        Some(_) => Ok(TraitNameFilter::All),
        None => Err(Fault::bad_request(format!(
            "Badly formatted name parameter. Expected name query string parameter in form: \
             ?name=[in|startswith]:[name1,name2|prefix]. Got: \"{text}\""
        ))),
    }
}

fn associated_filter(ctx: &Ctx) -> Result<Option<bool>, Fault> {
    let Some(text) = ctx.query.last("associated") else { return Ok(None) };
    match text.to_lowercase().as_str() {
        "true" => Ok(Some(true)),
        "false" => Ok(Some(false)),
        _ => Err(Fault::bad_request("The query parameter \"associated\" only accepts \"true\" or \"false\"")),
    }
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let name = ctx.param("name");
    if !read(&ctx, |ledger| ledger.knows_trait(name))? {
        return Err(Fault::not_found(format!("No such trait(s): {name}.")));
    }
    replies::dated(&ctx, Reply::empty(204), None)
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let name = ctx.param("name");
    if !is_custom(name) {
        return Err(Fault::bad_request(
            "The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix \"CUSTOM_\" \
             and use following characters: \"A\"-\"Z\", \"0\"-\"9\" and \"_\"",
        ));
    }
    let done = send(&ctx, LedgerCommand::CreateTrait { name: name.to_owned() }, PlacementOperation::Other).await?;
    let status = if done.events.is_empty() { 204 } else { 201 };
    let location = replies::location(&ctx, &format!("/traits/{name}"));
    replies::dated(&ctx, Reply::empty(status).header("Location", location), None)
}

/// `CUSTOM_` and capitals, digits, underscores: the names that clients may create.
pub(super) fn is_custom(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    name.len() <= 255 && name.strip_prefix("CUSTOM_").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(plain))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let name = ctx.param("name");
    send(&ctx, LedgerCommand::DeleteTrait { name: name.to_owned() }, PlacementOperation::DeleteTrait).await?;
    Ok(Reply::empty(204))
}

async fn of_provider(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    shown(&ctx)
}

fn shown(ctx: &Ctx) -> Result<Reply, Fault> {
    let provider = named_provider(ctx)?;
    let body = json!({"traits": provider.traits, "resource_provider_generation": provider.generation});
    replies::show(ctx, body, Some(provider.updated_at))
}

async fn set(ctx: Ctx) -> Result<Reply, Fault> {
    let provider: ProviderId = provider_id(&ctx)?;
    let TraitsBody { traits, generation } = TraitsBody::read(&ctx.body);
    let command = LedgerCommand::SetTraits { provider, generation: Some(generation), traits };
    send(&ctx, command, PlacementOperation::Other).await?;
    shown(&ctx)
}

async fn clear(ctx: Ctx) -> Result<Reply, Fault> {
    let provider = provider_id(&ctx)?;
    send(&ctx, LedgerCommand::SetTraits { provider, generation: None, traits: Vec::new() }, PlacementOperation::Other)
        .await?;
    Ok(Reply::empty(204))
}
