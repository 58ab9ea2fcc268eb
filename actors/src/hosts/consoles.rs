//! What a guest wrote at a host that was away when the guest arrived elsewhere.
//!
//! A live migration carries a guest's console along, if the host that it left can still be asked. Otherwise that happens when
//! the host is back, before what the guest left there is removed.

use std::sync::Arc;

use bytes::Bytes;
use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::MoveKind;
use chronova_hypervisor::driver::{Driver, DriverResult};

use super::fleet::Member;
use crate::hosts::context::HostContext;

/// What of a console is carried along.
const MOST: usize = 1 << 20;

/// Carries what the guest wrote at one host to another one. Losing it is no reason to stop.
pub async fn carry(instance: InstanceId, from: &dyn Driver, to: &dyn Driver) {
    let Some(Ok(text)) = written(instance, from).await else { return };
    adopt(instance, to, text).await;
}

/// The guest's output at a host; `None` where the host's driver shows no consoles.
async fn written(instance: InstanceId, at: &dyn Driver) -> Option<DriverResult<Bytes>> {
    Some(at.consoles()?.console_log(instance, MOST).await)
}

async fn adopt(instance: InstanceId, to: &dyn Driver, text: Bytes) {
    if !text.is_empty()
        && let Some(migration) = to.live_migration()
        && let Err(error) = migration.adopt_console(instance, text).await
    {
        tracing::debug!(server = %instance, %error, "a console log stays behind");
    }
}

/// The host that the guest went to from this one, running, in its last move.
fn went_to(context: &HostContext, instance: InstanceId, left: HostId) -> Option<Arc<Member>> {
    let home = context
        .views
        .servers
        .read(|servers| servers.get(instance)?.instance.alive()?.placement.as_ref().map(|placed| placed.host))?;
    let went = context.views.migrations.read(|migrations| {
        let last = migrations.last_of(instance)?;
        let target = last.target.as_ref()?.host;
        (last.kind == MoveKind::Live && last.source.host == left).then_some(target)
    })?;
    (went == home && !context.fleet.share(left, home)).then(|| context.fleet.member(home)).flatten()
}

/// Brings after the guest what it wrote at a host that is back.
pub(super) async fn bring(context: &HostContext, left: &Member, instance: InstanceId) {
    let Some(home) = went_to(context, instance, left.host) else { return };
    let (Some(Ok(older)), Some(Ok(newer))) =
        (written(instance, left.driver.as_ref()).await, written(instance, home.driver.as_ref()).await)
    else {
        return;
    };
    // What would not be shown any more need not replace what it has there already.
    if newer.len() < MOST {
        adopt(instance, home.driver.as_ref(), older).await;
    }
}
