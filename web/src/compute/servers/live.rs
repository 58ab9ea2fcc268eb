//! Live migrations of a server: start, show, force complete, abort.

use std::sync::Arc;
use std::time::Duration;

use chronova_actors::instance::LiveRequest;
use chronova_events::ids::ProcessId;
use chronova_events::instance::{LiveStage, MoveKind};
use chronova_projections::migrations::{Migration, MigrationStatus};
use serde_json::{Value, json};

use super::change::{asker, send};
use super::lookup::{PermittedServer, find};
use crate::answers::accepted;
use crate::compute::answers::moves as answers;
use crate::compute::bodies::no_query;
use crate::compute::bodies::server_actions as bodies;
use crate::compute::versions;
use crate::compute::views::server_migration::{SERVER_MIGRATION, ServerMigrationView};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action, delete, get};
use crate::schema::is_true;

/// A request before 2.34 waits at most this long for the destination's checks.
const CHECKS: Duration = Duration::from_mins(1);
/// The pause between two polls of the migration's status.
const POLL_PERIOD: Duration = Duration::from_millis(20);

const HOST_RULE: &str = "os_compute_api:servers:migrations:index:host";

pub(in crate::compute) const ROUTES: &[Route] = &[
    action("migrate_server.os-migrateLive", "/servers/{id}/action", "os-migrateLive", handler!(migrate))
        .policy_on_target("os_compute_api:os-migrate-server:migrate_live")
        .body(bodies::migrate_server_live_body)
        .answers(accepted),
    get("server_migrations.index", "/servers/{server_id}/migrations", handler!(index))
        .leader()
        .since(2, 23)
        .policy_on_target("os_compute_api:servers:migrations:index")
        .query(no_query)
        .answers(answers::of_server),
    get("server_migrations.show", "/servers/{server_id}/migrations/{id}", handler!(show))
        .leader()
        .since(2, 23)
        .policy_on_target("os_compute_api:servers:migrations:show")
        .query(no_query)
        .answers(answers::show),
    delete("server_migrations.delete", "/servers/{server_id}/migrations/{id}", handler!(abort))
        .since(2, 24)
        .policy_on_target("os_compute_api:servers:migrations:delete")
        .answers(accepted),
    action(
        "server_migrations.force_complete",
        "/servers/{server_id}/migrations/{id}/action",
        "force_complete",
        handler!(force),
    )
    .since(2, 22)
    .policy_on_target("os_compute_api:servers:migrations:force_complete")
    .body(bodies::server_migrations_force_complete_body)
    .answers(accepted),
];

async fn tell(ctx: &Ctx, found: &PermittedServer, request: LiveRequest) -> Result<(), Fault> {
    send(ctx, found, request).await
}

// ----------------------------------------------------------------------------------------------------------- request

/// The request, for all versions.
struct LiveMigrationRequest {
    host: Option<String>,
    forced: bool,
    block: Option<bool>,
}

async fn migrate(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let LiveMigrationRequest { host, forced, block } = live_request(&ctx, &found)?;
    let (process, asker) = (ProcessId::random(), asker(&ctx, &found));
    tell(&ctx, &found, LiveRequest::Begin { process, host, forced, block, asker }).await?;
    if !versions::live_migration_checks_are_asynchronous(ctx.version) {
        checks_of(&ctx, &found, process).await?;
    }
    Ok(Reply::empty(202))
}

fn live_request(ctx: &Ctx, found: &PermittedServer) -> Result<LiveMigrationRequest, Fault> {
    let body = ctx.action_body();
    let host = body["host"].as_str().map(str::to_owned);
    let block = match &body["block_migration"] {
        Value::String(word) if word == "auto" => None,
        other => Some(is_true(other)),
    };
    let named = host.is_some();
    let forced = versions::live_migration_can_be_forced(ctx.version) && is_true(&body["force"]);
    if forced && !named {
        return Err(Fault::bad_request("Can't force to a non-provided destination"));
    }
    if let Some(host) = &host {
        ctx.authorize_rule("os_compute_api:os-migrate-server:migrate_live:host", &found.target)?;
        if ctx.views()?.hosts.read(|hosts| hosts.named(host).is_none()) {
            return Err(Fault::bad_request(format!("Compute host {host} could not be found.")));
        }
        if found.server()?.placement.as_ref().is_some_and(|placed| placed.hostname == *host) {
            let id = found.id;
            return Err(Fault::bad_request(format!("Unable to migrate instance ({id}) to current host ({host}).")));
        }
    }
    // Before 2.30 a request that names a host bypasses the scheduler, as in Nova.
    let forced = forced || (named && !versions::live_migration_asks_the_scheduler(ctx.version));
    Ok(LiveMigrationRequest { host, forced, block })
}

/// Waits for the checks of the destination, because before 2.34 the answer says whether the checks passed.
async fn checks_of(ctx: &Ctx, found: &PermittedServer, process: ProcessId) -> Result<(), Fault> {
    let mut waited = Duration::ZERO;
    while waited < CHECKS {
        let views = &ctx.queries()?.views;
        let row = views.migrations.read(|view| view.of_process(process).cloned());
        match row.map(|row| row.status) {
            None | Some(MigrationStatus::Live(LiveStage::Accepted)) => {}
            Some(MigrationStatus::Error) => {
                let server = views.servers.read(|servers| servers.get(found.id).cloned());
                let fault =
                    server.as_ref().and_then(|row| row.instance.known()).and_then(|server| server.fault.clone());
                let message = fault.map_or_else(|| "Migration pre-check error.".to_owned(), |fault| fault.0.message);
                return Err(Fault::bad_request(message));
            }
            Some(_) => return Ok(()),
        }
        tokio::time::sleep(POLL_PERIOD).await;
        waited += POLL_PERIOD;
    }
    Ok(())
}

// -------------------------------------------------------------------------------------------------------------- show

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let rows: Vec<_> = ctx.views()?.migrations.read(|view| view.live_of(found.id).cloned().collect());
    let shown = rows.into_iter().map(|row| view_of(&ctx, &found, row)).collect::<Result<Vec<_>, _>>()?;
    Ok(Reply::ok(json!({"migrations": SERVER_MIGRATION.render_all(&shown, ctx.version)})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let (id, number) = (found.id, ctx.param("id"));
    let absent = || format!("In-progress live migration {} is not found for server {id}.", ctx.param("id"));
    let row = this(&ctx, &found).map_err(|_| Fault::not_found(absent()))?;
    if row.kind != MoveKind::Live {
        return Err(Fault::not_found(format!("Migration {number} for server {id} is not live-migration.")));
    }
    if !row.is_under_way() {
        return Err(Fault::not_found(format!("Live migration {number} for server {id} is not in progress.")));
    }
    let shown = view_of(&ctx, &found, row)?;
    Ok(Reply::ok(json!({"migration": SERVER_MIGRATION.render(&shown, ctx.version)})))
}

/// The migration that the path names.
fn this(ctx: &Ctx, found: &PermittedServer) -> Result<Arc<Migration>, Fault> {
    let (id, name) = (found.id, ctx.param("id"));
    let number: Option<u64> = name.parse().ok();
    let row = match number {
        Some(number) => ctx.views()?.migrations.read(|view| view.numbered(id, number).cloned()),
        None => None,
    };
    row.ok_or_else(|| Fault::not_found(format!("Migration {name} is not found for instance {id}")))
}

fn view_of(ctx: &Ctx, found: &PermittedServer, row: Arc<Migration>) -> Result<ServerMigrationView, Fault> {
    let queries = ctx.queries()?;
    let dest_ip = row.target.as_ref().and_then(|target| {
        queries.views.hosts.read(|hosts| hosts.get(target.host).map(|host| host.capabilities.host_ip.clone()))
    });
    let progress = queries.progress(row.id).unwrap_or(row.progress);
    Ok(ServerMigrationView { dest_ip, progress, hosts: ctx.allows(HOST_RULE, &found.target), row })
}

// ------------------------------------------------------------------------------------------- abort and force complete

async fn abort(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let (migration, asker) = (this(&ctx, &found)?.id, asker(&ctx, &found));
    let waiting_too = versions::waiting_live_migrations_can_be_aborted(ctx.version);
    let command = LiveRequest::Abort { migration, waiting_too, asker };
    tell(&ctx, &found, command).await?;
    Ok(Reply::empty(202))
}

async fn force(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let (migration, asker) = (this(&ctx, &found)?.id, asker(&ctx, &found));
    let command = LiveRequest::Force { migration, asker };
    tell(&ctx, &found, command).await?;
    Ok(Reply::empty(202))
}
