//! Adds and removes hosts while the control plane runs.

use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::fleet::{HypervisorAdded, HypervisorRemoved};
use chronova_events::host::KnownHost;
use chronova_hypervisor::backend;
use thiserror::Error;

use super::Operations;
use super::remove_host::RemoveHostReject;
use crate::aggregate::CommandError;
use crate::fleet::{FleetCommand, FleetId, FleetRoot};

/// Why the fleet was not changed.
#[derive(Debug, Error)]
pub enum ChangeFleetReject {
    /// The URI names no host.
    #[error("{0}")]
    NoHost(String),
    /// A host with this URI is there.
    #[error("{0} is there already")]
    IsThere(String),
    /// The host still takes new servers, so one could come while it is removed.
    #[error("the host takes new servers")]
    TakesServers,
    #[error(transparent)]
    Remove(RemoveHostReject),
    #[error(transparent)]
    Fleet(CommandError<std::convert::Infallible>),
}

impl Operations {
    /// Adds the hosts of a URI. They take servers as soon as they have answered.
    ///
    /// # Errors
    /// The URI names no host, or one that is there; the log is not available.
    pub async fn add_host(&self, uri: &str, meta: Arc<Meta>) -> Result<Position, ChangeFleetReject> {
        let hosts = backend::hosts(uri).map_err(|error| ChangeFleetReject::NoHost(error.to_string()))?;
        let known = self.hosts.fleet.drivers();
        if let Some(there) = hosts.iter().find(|uri| known.iter().any(|driver| driver.uri() == *uri)) {
            return Err(ChangeFleetReject::IsThere(there.clone()));
        }
        let add = FleetCommand::Add(HypervisorAdded { uri: uri.to_owned(), hosts });
        self.change(add, meta).await
    }

    /// Removes a host without servers that takes no new ones.
    ///
    /// # Errors
    /// The host has servers or takes new ones, or the log is not available.
    pub async fn retire_host(&self, host: &KnownHost, meta: Arc<Meta>) -> Result<Position, ChangeFleetReject> {
        if host.enabled && host.up {
            return Err(ChangeFleetReject::TakesServers);
        }
        // The ledger refuses a host with claims, and no server can claim the host afterwards.
        self.remove_host(Arc::clone(&meta), host.id).await.map_err(ChangeFleetReject::Remove)?;
        let remove = HypervisorRemoved { uri: host.uri.clone(), host: host.id };
        self.change(FleetCommand::Remove(remove), meta).await
    }

    async fn change(&self, command: FleetCommand, meta: Arc<Meta>) -> Result<Position, ChangeFleetReject> {
        let changed = self.send::<FleetRoot>(&FleetId, command, meta).await;
        Ok(changed.map_err(ChangeFleetReject::Fleet)?.position)
    }
}
