//! A user's key pairs.
//!
//! Generated pairs (until 2.91) are Ed25519 keys; certificates (`x509`, from 2.2 on) use P-256. The private key is in
//! the answer only; Chronova does not store it.

use chronova_actors::keypair::{KeypairCommand, KeypairRoot};
use chronova_events::ids::UserId;
use chronova_events::keypair::{Keypair, KeypairCreated};
use serde_json::{Map, Value, json};

use super::bodies::keypairs as bodies;
use super::keys::{self, GeneratedKeyPair, x509};
use super::views::keypair::{CREATED, LISTED, SHOWN};
use super::{paging, quotas, reject, versions};
use crate::compute::answers::keypairs as answers;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::{Permit, PolicyTarget};
use crate::reply::Reply;
use crate::route::{Route, delete, get, post};

pub(super) const ROUTES: &[Route] = &[
    get("keypairs.index", "/os-keypairs", handler!(index))
        .policy_on_target("os_compute_api:os-keypairs:index")
        .query(bodies::index_query)
        .answers(answers::index)
        .as_of(),
    post("keypairs.create", "/os-keypairs", handler!(create))
        .policy_on_target("os_compute_api:os-keypairs:create")
        .body(bodies::create_body)
        .answers(answers::create),
    get("keypairs.show", "/os-keypairs/{id}", handler!(show))
        .policy_on_target("os_compute_api:os-keypairs:show")
        .query(bodies::show_query)
        .answers(answers::show)
        .as_of(),
    delete("keypairs.delete", "/os-keypairs/{id}", handler!(remove))
        .policy_on_target("os_compute_api:os-keypairs:delete")
        .query(bodies::show_query)
        .answers(answers::remove),
];

/// The user whose key pairs the request is about, and the permit.
fn user(ctx: &Ctx, named: Option<&str>) -> Result<(UserId, Permit), Fault> {
    let named = named.filter(|_| versions::keypairs_of_others(ctx.version));
    let user = named.map_or_else(|| ctx.caller().user.clone(), UserId::new);
    let permit = ctx.authorize(&PolicyTarget::default().user(&user))?;
    Ok((user, permit))
}

fn find(ctx: &Ctx, user: &UserId, name: &str) -> Result<Keypair, Fault> {
    let found =
        ctx.views()?.keypairs.read(|view| view.by_user.get(user).and_then(|keys| keys.by_name.get(name)).cloned());
    found.ok_or_else(|| reject::no_keypair(name, user))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let (user, _) = user(&ctx, ctx.query.first("user_id"))?;
    let all: Vec<Keypair> = ctx
        .views()?
        .keypairs
        .read(|view| view.by_user.get(&user).map(|keys| keys.by_name.values().cloned().collect()).unwrap_or_default());
    let page = paging::cut(&ctx, all, |key, marker| key.definition.name == marker)?;
    let marker = page.items.last().map(|last| last.definition.name.clone());
    let shown: Vec<Value> = page.items.iter().map(|key| json!({"keypair": LISTED.render(key, ctx.version)})).collect();
    let mut reply = Map::new();
    reply.insert("keypairs".to_owned(), Value::Array(shown));
    if let (true, true, Some(marker)) = (page.more, versions::keypairs_are_paged(ctx.version), marker) {
        paging::link(&ctx, &mut reply, "keypairs_links", "os-keypairs", &marker);
    }
    Ok(Reply::ok(Value::Object(reply)))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (user, _) = user(&ctx, ctx.query.first("user_id"))?;
    let key = find(&ctx, &user, ctx.param("id"))?;
    Ok(Reply::ok(json!({"keypair": SHOWN.render(&key, ctx.version)})))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let body: bodies::KeypairBody = ctx.parse_at("keypair")?;
    let (user, permit) = user(&ctx, body.user_id.as_deref())?;
    let (keypair, private) = pair(&ctx, &body, &user)?;
    let (name, limit) = (keypair.name.clone(), limit(&ctx)?);
    dispatch::send::<KeypairRoot>(ctx.dispatch()?, &permit, &user, KeypairCommand::Create { keypair, limit })
        .await
        .map_err(reject::keypair)?;
    let mut shown = CREATED.render_map(&find(&ctx, &user, &name)?, ctx.version);
    if let Some(private) = private {
        shown.insert("private_key".to_owned(), json!(private));
    }
    let status = if versions::keypairs_use_fitting_codes(ctx.version) { 201 } else { 200 };
    Ok(Reply::json(status, json!({"keypair": shown})))
}

/// The pair to store, and the private key if Chronova generated the pair.
fn pair(ctx: &Ctx, body: &bodies::KeypairBody, user: &UserId) -> Result<(KeypairCreated, Option<String>), Fault> {
    let kind = body.kind.as_deref().unwrap_or("ssh");
    let (public, private) = match (kind, body.public_key.as_deref()) {
        ("x509", Some(certificate)) => (x509::imported(certificate)?, None),
        (_, Some(key)) => (keys::imported(key)?, None),
        (kind, None) => {
            let now = ctx.queries()?.clock.now().to_utc();
            let made = if kind == "x509" { x509::generated(user.as_str(), now)? } else { keys::generated()? };
            let GeneratedKeyPair { public, private } = made;
            (public, Some(private))
        }
    };
    let keypair = KeypairCreated {
        user: user.clone(),
        name: body.name.trim().to_owned(),
        kind: kind.to_owned(),
        public_key: public.text,
        fingerprint: public.fingerprint,
    };
    Ok((keypair, private))
}

/// The limit of a user's key pairs. As in Nova, the limit of the project in which the user creates a pair applies to
/// all pairs of the user.
fn limit(ctx: &Ctx) -> Result<i64, Fault> {
    match &ctx.caller().project {
        Some(project) => quotas::limit(ctx, project, "key_pairs"),
        None => quotas::default(ctx, "key_pairs"),
    }
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let (user, permit) = user(&ctx, ctx.query.first("user_id"))?;
    let command = KeypairCommand::Delete { user: user.clone(), name: ctx.param("id").to_owned() };
    dispatch::send::<KeypairRoot>(ctx.dispatch()?, &permit, &user, command).await.map_err(reject::keypair)?;
    Ok(Reply::empty(if versions::keypairs_use_fitting_codes(ctx.version) { 204 } else { 202 }))
}
