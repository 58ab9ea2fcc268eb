//! `changePassword`. Source: nova `api/openstack/compute/admin_password.py`.

use std::time::Duration;

use chronova_actors::coordination::passwords::PasswordChangeResult;
use chronova_actors::instance::WorkRequest;
use chronova_actors::instance::actions::ServerAction;
use chronova_events::ids::ProcessId;
use tokio::sync::oneshot;

use super::requests::{admit, ask};
use crate::compute::servers::change::asker;
use crate::compute::servers::lookup::find;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::reply::Reply;

/// The answer waits at most this long for the guest's agent: the default of Nova's `rpc_response_timeout`, which
/// Chronova does not read.
const PATIENCE: Duration = Duration::from_mins(1);

/// The password is passed on in memory only. No command, event or log has it.
pub(super) async fn change(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    admit(&ctx, &found, ServerAction::ChangePassword)?;
    let password = ctx.action_body()["adminPass"].as_str().unwrap_or_default().to_owned();
    let (process, passwords) = (ProcessId::random(), ctx.dispatch()?.passwords());
    let result = passwords.lend(process, password);
    let asked = ask(&ctx, &found, WorkRequest::ChangePassword { process, asker: asker(&ctx, &found) }).await;
    if asked.is_err() {
        passwords.forget(process);
    }
    asked?;
    guests_answer(result).await
}

/// The result of the process. If the process has no result within [`PATIENCE`], the answer is 500, and the guest may
/// still set the password later.
async fn guests_answer(result: oneshot::Receiver<PasswordChangeResult>) -> Result<Reply, Fault> {
    match tokio::time::timeout(PATIENCE, result).await {
        Ok(Ok(Ok(()))) => Ok(Reply::empty(202)),
        Ok(Ok(Err(fault))) => Err(Fault::new(fault.code, fault.message).caused_by(fault.details)),
        Ok(Err(gone)) => Err(Fault::internal(gone)),
        Err(late) => Err(Fault::internal(late)),
    }
}
