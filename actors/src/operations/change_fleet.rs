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
    /// The URI names no host, or may not come over the API.
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
    /// The URI names no host, names a host that is there, or may not come over the API. Or the log is not
    /// available.
    pub async fn add_host(&self, uri: &str, meta: Arc<Meta>) -> Result<Position, ChangeFleetReject> {
        let known = self.hosts.fleet.drivers();
        check_uri(uri, known.iter().any(|driver| driver.uri().starts_with("sim:")))
            .map_err(ChangeFleetReject::NoHost)?;
        self.add_configured_host(uri, meta).await
    }

    /// Adds the hosts of a URI that the configuration file has. Such a URI may name programs and files of this machine.
    ///
    /// # Errors
    /// The URI names no host, or names a host that is there. Or the log is not available.
    pub async fn add_configured_host(&self, uri: &str, meta: Arc<Meta>) -> Result<Position, ChangeFleetReject> {
        let known = self.hosts.fleet.drivers();
        let hosts = backend::hosts(uri).map_err(|error| ChangeFleetReject::NoHost(error.to_string()))?;
        if let Some(there) = hosts.iter().find(|uri| known.iter().any(|driver| driver.uri() == *uri)) {
            return Err(ChangeFleetReject::IsThere(there.clone()));
        }
        let add = FleetCommand::Add(HypervisorAdded { uri: uri.to_owned(), hosts });
        self.change(add, meta).await
    }

    /// Removes a host that has no servers and takes no new ones.
    ///
    /// # Errors
    /// The host has servers or takes new ones, or the log is not available.
    pub async fn retire_host(&self, host: &KnownHost, meta: Arc<Meta>) -> Result<Position, ChangeFleetReject> {
        if host.enabled && host.up {
            return Err(ChangeFleetReject::TakesServers);
        }
        self.remove_providers(&meta, host.id).await.map_err(ChangeFleetReject::Remove)?;
        // After a crash before this event, the host is still known, and still disabled or down. After a later crash,
        // the keeper of hosts forgets it.
        let remove = HypervisorRemoved { uri: host.uri.clone(), host: host.id };
        let position = self.change(FleetCommand::Remove(remove), Arc::clone(&meta)).await?;
        self.forget_host(meta, host.id).await.map_err(ChangeFleetReject::Remove)?;
        Ok(position)
    }

    async fn change(&self, command: FleetCommand, meta: Arc<Meta>) -> Result<Position, ChangeFleetReject> {
        let changed = self.send::<FleetRoot>(&FleetId, command, meta).await;
        Ok(changed.map_err(ChangeFleetReject::Fleet)?.position)
    }
}

/// Checks a URI that comes over the API. Parameters and some transports of libvirt's URIs name programs and files of
/// this machine, so only the configuration file may have them. A URI of simulated hosts is accepted only in a simulated
/// fleet.
fn check_uri(uri: &str, simulates: bool) -> Result<(), String> {
    let (scheme, rest) = uri.split_once("://").unwrap_or((uri, ""));
    let (driver, transport) = scheme.split_once('+').unwrap_or((scheme, ""));
    match driver {
        "qemu" if rest.contains(['?', '#']) => {
            Err("a URI with parameters is possible only in [chronova] hypervisors".to_owned())
        }
        "qemu" if ["", "tls", "ssh", "tcp", "unix"].contains(&transport) => Ok(()),
        "qemu" => Err(format!("the transport {transport} is possible only in [chronova] hypervisors")),
        "sim" if simulates => Ok(()),
        "sim" => Err("a simulated host is possible only beside simulated hosts of [chronova] hypervisors".to_owned()),
        "test" => Err("a test host is possible only in [chronova] hypervisors".to_owned()),
        // The back ends name the schemes that they know.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_of_the_api_names_no_program_and_no_file_of_this_machine() {
        for uri in ["qemu+tls://h1/system", "qemu+ssh://root@h1/system", "qemu:///system", "xen:///"] {
            assert_eq!(check_uri(uri, false), Ok(()), "{uri}");
        }
        for uri in [
            "qemu+ext:///system?command=/bin/program",
            "qemu+ssh://h1/system?command=/bin/program",
            "qemu+libssh2://h1/system",
            "qemu+tls://h1/system?no_verify=1",
            "test:///default",
            "sim://1",
        ] {
            assert!(check_uri(uri, false).is_err(), "{uri}");
        }
        assert_eq!(check_uri("sim://1?name=more", true), Ok(()));
    }
}
