//! Takes a host out of the cloud.
//!
//! The ledger comes first. It removes the host's providers, or refuses because of claims. So no server can get a host
//! that is being removed. After a crash between the commands, the same request removes the host, because each command
//! accepts that its work is already done.

use std::cmp::Reverse;
use std::iter::successors;
use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{HostId, ProviderId};
use thiserror::Error;

use super::Operations;
use crate::aggregate::CommandError;
use crate::host::{HostCommand, HostReject, HostRoot};
use crate::host_aggregate::{HostAggregateCommand, HostAggregateReject, HostAggregatesId, HostAggregatesRoot};
use crate::ledger::{CELL, LedgerCommand, LedgerReject, LedgerRoot};

/// Why a host was not removed.
#[derive(Debug, Error)]
pub enum RemoveHostReject {
    /// The host has servers, or claims for servers.
    #[error("the host has servers")]
    HasServers,
    #[error(transparent)]
    Ledger(CommandError<LedgerReject>),
    #[error(transparent)]
    Aggregates(CommandError<HostAggregateReject>),
    #[error(transparent)]
    Host(CommandError<HostReject>),
}

impl Operations {
    /// Removes the host's providers, takes it out of its host aggregates, and forgets it.
    ///
    /// # Errors
    /// The host has servers or claims, or the log is not available.
    pub async fn remove_host(&self, meta: Arc<Meta>, host: HostId) -> Result<Position, RemoveHostReject> {
        self.remove_providers(&meta, host).await?;
        self.forget_host(meta, host).await
    }

    /// Removes the host's providers. The ledger refuses a host with claims, and no server can claim the host
    /// afterwards.
    pub(super) async fn remove_providers(&self, meta: &Arc<Meta>, host: HostId) -> Result<(), RemoveHostReject> {
        if self.queries.views.servers.read(|servers| servers.on_host(host).next().is_some()) {
            return Err(RemoveHostReject::HasServers);
        }
        for provider in self.providers_of(host) {
            let delete = LedgerCommand::DeleteProvider { provider };
            match self.send::<LedgerRoot>(&CELL, delete, Arc::clone(meta)).await {
                Ok(_) | Err(CommandError::Rejected(LedgerReject::NoSuchProvider(_))) => {}
                Err(CommandError::Rejected(_)) => return Err(RemoveHostReject::HasServers),
                Err(error) => return Err(RemoveHostReject::Ledger(error)),
            }
        }
        Ok(())
    }

    /// Takes the host out of its host aggregates, and forgets it.
    pub(super) async fn forget_host(&self, meta: Arc<Meta>, host: HostId) -> Result<Position, RemoveHostReject> {
        let forget = HostAggregateCommand::ForgetHost { host };
        let forgotten = self.send::<HostAggregatesRoot>(&HostAggregatesId, forget, Arc::clone(&meta)).await;
        forgotten.map_err(RemoveHostReject::Aggregates)?;
        let gone = self.send::<HostRoot>(&host, HostCommand::Deregister, meta).await;
        Ok(gone.map_err(RemoveHostReject::Host)?.position)
    }

    /// The provider of a host and all providers below it, children before parents.
    fn providers_of(&self, host: HostId) -> Vec<ProviderId> {
        let root = ProviderId(host.0);
        self.queries.views.placement.read(|view| {
            let all = &view.ledger.providers;
            let mut left: Vec<ProviderId> = all.keys().copied().filter(|id| view.ledger.is_below(*id, root)).collect();
            let above = |id: ProviderId| {
                let parent = |id: &ProviderId| all.get(id).and_then(|provider| provider.parent);
                successors(Some(id), parent).take(all.len()).count()
            };
            left.sort_by_cached_key(|id| Reverse(above(*id)));
            left
        })
    }
}
