//! Takes a host out of the cloud.
//!
//! The ledger knows the claims on the host. It removes the host's providers first, or refuses, so that no server lands on a
//! host that is going. A crash between the commands leaves a host that the same request removes: each command may find
//! its work done.

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

/// Why a host stays.
#[derive(Debug, Error)]
pub enum RemoveHostReject {
    /// Servers are on it, or claims of some.
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
    /// Servers are on the host, or the log does not take the events.
    pub async fn remove_host(&self, meta: Arc<Meta>, host: HostId) -> Result<Position, RemoveHostReject> {
        if self.queries.views.servers.read(|servers| servers.on_host(host).next().is_some()) {
            return Err(RemoveHostReject::HasServers);
        }
        for provider in self.providers_of(host) {
            let delete = LedgerCommand::DeleteProvider { provider };
            match self.send::<LedgerRoot>(&CELL, delete, Arc::clone(&meta)).await {
                Ok(_) | Err(CommandError::Rejected(LedgerReject::NoSuchProvider(_))) => {}
                Err(CommandError::Rejected(_)) => return Err(RemoveHostReject::HasServers),
                Err(error) => return Err(RemoveHostReject::Ledger(error)),
            }
        }
        let forget = HostAggregateCommand::ForgetHost { host };
        let forgotten = self.send::<HostAggregatesRoot>(&HostAggregatesId, forget, Arc::clone(&meta)).await;
        forgotten.map_err(RemoveHostReject::Aggregates)?;
        let gone = self.send::<HostRoot>(&host, HostCommand::Deregister, meta).await;
        Ok(gone.map_err(RemoveHostReject::Host)?.position)
    }

    /// The provider of a host and all below it, leaves first.
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
