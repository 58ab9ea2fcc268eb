//! Copies the console log of a guest that left a host while the host did not answer.
//!
//! A live migration copies the guest's console log if its source still answers. Otherwise the host agent copies the log
//! when the host is back, before it removes the guest's leftovers there.

use std::sync::Arc;

use bytes::Bytes;
use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::MoveKind;
use chronova_hypervisor::driver::{Driver, DriverResult};

use super::fleet::ConnectedHost;
use crate::hosts::context::HostContext;

/// The limit on the copied part of a console log, in bytes. Only the end of a longer log is copied.
const MOST: usize = 1 << 20;

/// Copies a guest's console log from one host to another. A failure is logged and ignored.
pub async fn carry(instance: InstanceId, from: &dyn Driver, to: &dyn Driver) {
    let Some(Ok(text)) = written(instance, from).await else { return };
    append_console_log(instance, to, text).await;
}

/// The guest's console log on a host; `None` if the host's driver has no console logs.
async fn written(instance: InstanceId, at: &dyn Driver) -> Option<DriverResult<Bytes>> {
    Some(at.consoles()?.console_log(instance, MOST).await)
}

async fn append_console_log(instance: InstanceId, to: &dyn Driver, text: Bytes) {
    if !text.is_empty()
        && let Some(migration) = to.live_migration()
        && let Err(error) = migration.adopt_console(instance, text).await
    {
        tracing::debug!(server = %instance, %error, "copying a console log failed");
    }
}

/// The destination of the guest's last move, if that was a live migration from this host and the guest is still at the
/// destination. `None` if the two hosts share the console log.
fn migrated_to(context: &HostContext, instance: InstanceId, left: HostId) -> Option<Arc<ConnectedHost>> {
    let home = context
        .views
        .servers
        .read(|servers| servers.get(instance)?.instance.alive()?.placement.as_ref().map(|placed| placed.host))?;
    let went = context.views.migrations.read(|migrations| {
        let last = migrations.last_of(instance)?;
        let target = last.target.as_ref()?.host;
        (last.kind == MoveKind::Live && last.source.host == left).then_some(target)
    })?;
    (went == home && !context.fleet.share_files(left, home)).then(|| context.fleet.member(home)).flatten()
}

/// Copies a guest's console log to the guest's present host, from a host that answers again.
pub(super) async fn bring(context: &HostContext, left: &ConnectedHost, instance: InstanceId) {
    let Some(home) = migrated_to(context, instance, left.host) else { return };
    let (Some(Ok(older)), Some(Ok(newer))) =
        (written(instance, left.driver.as_ref()).await, written(instance, home.driver.as_ref()).await)
    else {
        return;
    };
    // If the new host's log is long enough, the API would never show the old log, so the old log is not copied.
    if newer.len() < MOST {
        append_console_log(instance, home.driver.as_ref(), older).await;
    }
}
