//! `/resource_classes`

use chronova_actors::ledger::LedgerCommand;
use chronova_events::ledger::standard;
use serde_json::{Value, json};

use super::ledger::{read, send};
use super::readers::ClassBody;
use super::reject::PlacementOperation;
use super::{answers, bodies, replies, traits};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

const ONE: &str = "/resource_classes/{name}";

pub(super) const ROUTES: &[Route] = &[
    get("resource_classes.list", "/resource_classes", handler!(list))
        .policy("placement:resource_classes:list")
        .since(1, 2)
        .answers(answers::classes)
        .as_of(),
    post("resource_classes.create", "/resource_classes", handler!(create))
        .policy("placement:resource_classes:create")
        .since(1, 2)
        .body(bodies::class_body)
        .answers(answers::class_created),
    get("resource_classes_one.get", ONE, handler!(show))
        .policy("placement:resource_classes:show")
        .since(1, 2)
        .answers(answers::class_shown)
        .as_of(),
    put("resource_classes_one.update", ONE, handler!(rename))
        .policy("placement:resource_classes:update")
        .since(1, 2)
        .until(1, 6)
        .body(bodies::class_body)
        .answers(answers::class_renamed),
    put("resource_classes_one.update", ONE, handler!(ensure))
        .policy("placement:resource_classes:update")
        .since(1, 7)
        .answers(answers::class_ensured),
    delete("resource_classes_one.delete", ONE, handler!(remove))
        .policy("placement:resource_classes:delete")
        .since(1, 2)
        .answers(no_content),
];

fn view(ctx: &Ctx, name: &str) -> Value {
    json!({"name": name, "links": [{"rel": "self", "href": url(ctx, name)}]})
}

fn url(ctx: &Ctx, name: &str) -> String {
    replies::url(ctx, &format!("/resource_classes/{name}"))
}

fn location(ctx: &Ctx, name: &str) -> String {
    replies::location(ctx, &format!("/resource_classes/{name}"))
}

async fn list(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    let own = read(&ctx, |ledger| ledger.classes.clone())?;
    let all = standard::CLASSES.iter().copied().chain(own.iter().map(String::as_str));
    let views: Vec<Value> = all.map(|name| view(&ctx, name)).collect();
    replies::show(&ctx, json!({"resource_classes": views}), None)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    let name = ctx.param("name");
    if !read(&ctx, |ledger| ledger.knows_class(name))? {
        return Err(Fault::not_found(format!("No such resource class {name}.")));
    }
    replies::show(&ctx, view(&ctx, name), None)
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let ClassBody { name } = ctx.parse()?;
    send(&ctx, LedgerCommand::CreateClass { name: name.clone() }, PlacementOperation::Other).await?;
    Ok(Reply::empty(201).header("Location", location(&ctx, &name)))
}

/// Before 1.7 a PUT renames a class.
async fn rename(ctx: Ctx) -> Result<Reply, Fault> {
    let from = ctx.param("name").to_owned();
    let ClassBody { name: to } = ctx.parse()?;
    if standard::is_standard_class(&from) {
        return Err(Fault::bad_request(format!("Cannot update standard resource class {from}")));
    }
    send(&ctx, LedgerCommand::RenameClass { from, to: to.clone() }, PlacementOperation::RenameClass).await?;
    Ok(Reply::ok(view(&ctx, &to)))
}

/// From 1.7 on a PUT creates the class if it is missing.
async fn ensure(ctx: Ctx) -> Result<Reply, Fault> {
    let name = ctx.param("name").to_owned();
    if !traits::is_custom(&name) {
        return Err(invalid(&name));
    }
    let known = read(&ctx, |ledger| ledger.knows_class(&name))?;
    if !known {
        let made = send(&ctx, LedgerCommand::CreateClass { name: name.clone() }, PlacementOperation::Other).await;
        // Another request may have created the class meanwhile.
        made.map(|_| ()).or_else(|fault| if fault.status == 409 { Ok(()) } else { Err(fault) })?;
    }
    Ok(Reply::empty(if known { 204 } else { 201 }).header("Location", location(&ctx, &name)))
}

/// The refusal of a name, with the message of its schema.
fn invalid(name: &str) -> Fault {
    let reason = if name.len() > 255 {
        format!("'{name}' is too long\n\nFailed validating 'maxLength' in schema")
    } else {
        format!("'{name}' does not match '^CUSTOM_[A-Z0-9_]+$'\n\nFailed validating 'pattern' in schema")
    };
    Fault::bad_request(format!("JSON does not validate: {reason}"))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    send(&ctx, LedgerCommand::DeleteClass { name: ctx.param("name").to_owned() }, PlacementOperation::Other).await?;
    Ok(Reply::empty(204))
}
