//! `/resource_providers`

use std::sync::Arc;

use chronova_actors::ledger::{LedgerCommand, ParentChange};
use chronova_events::ids::ProviderId;
use chronova_events::ledger::{Ledger, Provider};
use chronova_projections::placement::candidates::{AggregateFilter, TraitFilter};
use chronova_projections::placement::index::ProviderIndex;
use chronova_projections::slots::Slots;
use serde_json::json;

use super::ledger::{provider_id, read, send};
use super::readers::ProviderBody;
use super::reject::{PlacementOperation, no_provider};
use super::views::{PROVIDER, ProviderView};
use super::{answers, bodies, filters, replies, versions};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("resource_providers.list", "/resource_providers", handler!(list))
        .policy("placement:resource_providers:list")
        .query(bodies::providers_list_query)
        .answers(answers::providers)
        .as_of(),
    post("resource_providers.create", "/resource_providers", handler!(create))
        .policy("placement:resource_providers:create")
        .body(bodies::provider_create_body)
        .answers(answers::provider_created),
    get("resource_providers_one.get", "/resource_providers/{uuid}", handler!(show))
        .policy("placement:resource_providers:show")
        .answers(answers::provider)
        .as_of(),
    put("resource_providers_one.update", "/resource_providers/{uuid}", handler!(update))
        .policy("placement:resource_providers:update")
        .body(bodies::provider_update_body)
        .answers(answers::provider),
    delete("resource_providers_one.delete", "/resource_providers/{uuid}", handler!(remove))
        .policy("placement:resource_providers:delete")
        .answers(no_content),
];

/// The filters of a listing.
struct ProviderFilter<'a> {
    name: Option<&'a str>,
    uuid: Option<ProviderId>,
    in_tree: Option<ProviderId>,
    resources: std::collections::BTreeMap<String, u64>,
    traits: TraitFilter,
    aggregates: AggregateFilter,
}

impl<'a> ProviderFilter<'a> {
    fn read(ctx: &'a Ctx) -> Result<Self, Fault> {
        let id = |key: &str| ctx.query.last(key).and_then(|text| text.parse().ok());
        Ok(Self {
            name: ctx.query.last("name"),
            uuid: id("uuid"),
            in_tree: id("in_tree"),
            resources: ctx.query.last("resources").map(filters::resources).transpose()?.unwrap_or_default(),
            traits: filters::traits(ctx, "")?,
            aggregates: filters::aggregates(ctx, "")?,
        })
    }

    fn check_names(&self, ledger: &Ledger) -> Result<(), Fault> {
        filters::check_classes(ledger, self.resources.keys())?;
        filters::check_traits(ledger, &self.traits, "Invalid trait(s) in \"required\" parameter: ")
    }

    /// The matching providers, by their numbers in the index.
    fn find(&self, index: &ProviderIndex) -> Slots {
        let resources = self.resources.iter().map(|(class, amount)| (class.as_str(), *amount));
        let mut found = index.fitting(resources, &self.traits, &self.aggregates);
        if let Some(uuid) = self.uuid {
            found.retain_all(&index.slot(uuid).into_iter().collect());
        }
        if let Some(tree) = self.in_tree {
            let root = index.slot(tree).map(|slot| index.root_of(slot));
            found.retain_all(&root.into_iter().flat_map(|root| index.tree(root)).collect());
        }
        if let Some(name) = self.name {
            found.retain(|slot| index.provider(slot).is_some_and(|provider| provider.name == name));
        }
        found
    }
}

async fn list(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    let filter = ProviderFilter::read(&ctx)?;
    let mut found = ctx.views()?.placement.read(|placement| {
        filter.check_names(&placement.ledger)?;
        Ok::<_, Fault>(rows(&placement.index, &filter.find(&placement.index)))
    })?;
    found.sort_unstable_by_key(|(provider, _)| provider.id);
    let views: Vec<ProviderView> = found.into_iter().map(|(provider, root)| view(&ctx, provider, root)).collect();
    let modified = views.iter().map(|view| view.provider.updated_at).max();
    replies::show(&ctx, json!({"resource_providers": PROVIDER.render_all(&views, ctx.version)}), modified)
}

/// Providers with their roots.
fn rows(index: &ProviderIndex, slots: &Slots) -> Vec<(Arc<Provider>, ProviderId)> {
    let row = |slot| Some((Arc::clone(index.provider(slot)?), index.id(index.root_of(slot))?));
    slots.iter().filter_map(row).collect()
}

fn view(ctx: &Ctx, provider: Arc<Provider>, root: ProviderId) -> ProviderView {
    let url = replies::url(ctx, &format!("/resource_providers/{}", provider.id));
    ProviderView { provider, root, url }
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let body: ProviderBody = ctx.parse()?;
    let provider = body.id().unwrap_or_else(ProviderId::random);
    let command = LedgerCommand::CreateProvider { provider, name: body.name.clone(), parent: body.parent() };
    send(&ctx, command, PlacementOperation::CreateProvider { name: &body.name, provider }).await?;
    let location = replies::location(&ctx, &format!("/resource_providers/{provider}"));
    let reply = if versions::create_shows_provider(ctx.version) { shown(&ctx, provider)? } else { Reply::empty(201) };
    Ok(reply.header("Location", location))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    shown(&ctx, provider_id(&ctx)?)
}

fn shown(ctx: &Ctx, id: ProviderId) -> Result<Reply, Fault> {
    let found =
        read(ctx, |ledger| ledger.providers.get(&id).map(|provider| (Arc::clone(provider), ledger.root_of(id))))?;
    let (provider, root) = found.ok_or_else(|| no_provider(id))?;
    let view = view(ctx, provider, root);
    replies::show(ctx, PROVIDER.render(&view, ctx.version), Some(view.provider.updated_at))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let provider = provider_id(&ctx)?;
    let body: ProviderBody = ctx.parse()?;
    let parent = match body.mentions_parent() {
        true if versions::can_move_providers(ctx.version) => ParentChange::Move(body.parent()),
        true if versions::has_parents(ctx.version) => ParentChange::Give(body.parent()),
        _ => ParentChange::Keep,
    };
    let command = LedgerCommand::UpdateProvider { provider, name: body.name, parent };
    send(&ctx, command, PlacementOperation::UpdateProvider(provider)).await?;
    shown(&ctx, provider)
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let provider = ctx.id("uuid", |text| format!("No resource provider with uuid {text} found for delete"))?;
    send(&ctx, LedgerCommand::DeleteProvider { provider }, PlacementOperation::DeleteProvider(provider)).await?;
    Ok(Reply::empty(204))
}
