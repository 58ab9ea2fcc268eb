//! Reads the parts of a guest's metadata that the server's state does not have.

use std::time::Duration;

use chronova_events::envelope::{Cause, Revision};
use chronova_events::ids::{InstanceId, PortId};
use chronova_events::instance::Alive;
use chronova_events::store::{EventStore, StoreError};
use chronova_hypervisor::capability::device_locations::{DeviceLocations, GuestDevice};
use chronova_hypervisor::guest::Nic;
use serde_json::{Map, Value};

use super::MetadataOptions;
use crate::aggregate::AggregateRoot;
use crate::hosts::fleet::ConnectedHosts;
use crate::instance::InstanceRoot;
use crate::ports::{NetworkService, PortError, ServiceCaller};

/// The longest wait for a host. The guest waits for the metadata while it boots. So after this time, the guest gets the
/// metadata without the host's part.
const PATIENCE: Duration = Duration::from_secs(5);

/// The floating address of the first interface that has one.
///
/// # Errors
/// The network service does not answer.
pub async fn floating_ip(networks: &dyn NetworkService, server: &Alive) -> Result<Option<String>, PortError> {
    let ports: Vec<PortId> = server.nics.iter().map(|nic| nic.port).collect();
    let given = networks.floating_addresses(&ports, &ServiceCaller::system("metadata")).await?;
    Ok(given.first().map(|floating| floating.address.to_string()))
}

/// The vendor data of other services; `None` if no services are configured. The call fails if a service does not answer
/// and the configuration forbids incomplete answers, or if the log cannot be read.
pub async fn said(
    options: &MetadataOptions,
    log: &dyn EventStore,
    server: &Alive,
) -> Result<Option<Map<String, Value>>, String> {
    let Some(dynamic) = &options.dynamic else { return Ok(None) };
    let roles = boot_roles(log, server.request.instance).await.map_err(|error| error.to_string())?;
    dynamic.ask(server, &roles).await.map(Some)
}

/// The roles of the user who created the server. The server's first event has them.
async fn boot_roles(log: &dyn EventStore, instance: InstanceId) -> Result<Vec<String>, StoreError> {
    let first = log.read_stream(&InstanceRoot::stream(&instance), Revision::default(), 1).await?;
    Ok(match first.first().map(|recorded| &recorded.meta.cause) {
        Some(Cause::User { roles, .. }) => roles.clone(),
        _ => Vec::new(),
    })
}

/// How the host plugs the guest's interfaces. If the network service does not answer, the list is empty. The call does
/// not fail, because a guest needs its addresses more than the types of its links.
pub async fn plugged(networks: &dyn NetworkService, server: &Alive) -> Vec<Nic> {
    match networks.realise(&server.nics).await {
        Ok(setup) => setup.nics,
        Err(error) => {
            tracing::warn!(instance = %server.request.instance, %error, "serving network metadata without the types of links");
            Vec::new()
        }
    }
}

/// The addresses of the guest's devices, if any of them have tags.
pub async fn devices(fleet: &ConnectedHosts, instance: InstanceId, server: &Alive) -> Vec<GuestDevice> {
    let of_disks = server.disks.iter().map(|disk| &disk.device.tag);
    if server.nics.iter().map(|nic| &nic.tag).chain(of_disks).all(Option::is_none) {
        return Vec::new();
    }
    let driver = server.placement.as_ref().and_then(|placed| fleet.driver(placed.host));
    match driver.as_ref().and_then(|driver| driver.device_locations()) {
        Some(locations) => located(locations, instance).await,
        None => Vec::new(),
    }
}

/// The devices that the host reports. The list is empty if the host does not answer in time.
async fn located(host: &dyn DeviceLocations, instance: InstanceId) -> Vec<GuestDevice> {
    match tokio::time::timeout(PATIENCE, host.devices(instance)).await {
        Ok(Ok(devices)) => devices,
        Ok(Err(error)) => {
            tracing::warn!(%instance, %error, "serving device metadata without addresses");
            Vec::new()
        }
        Err(_) => {
            let seconds = PATIENCE.as_secs();
            tracing::warn!(%instance, seconds, "serving device metadata without addresses: the host did not answer in time");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use async_trait::async_trait;
    use chronova_hypervisor::driver::DriverResult;

    use super::*;

    struct Silent;

    #[async_trait]
    impl DeviceLocations for Silent {
        async fn devices(&self, _instance: InstanceId) -> DriverResult<Vec<GuestDevice>> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_says_that_the_host_did_not_answer_in_time() {
        let dir = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(dir.path().join("log")).unwrap();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(Arc::new(file)).finish();
        let guard = tracing::subscriber::set_default(subscriber);
        assert_eq!(located(&Silent, InstanceId(uuid::Uuid::from_u128(1))).await, []);
        drop(guard);
        let text = std::fs::read_to_string(dir.path().join("log")).unwrap();
        assert!(text.contains("the host did not answer in time"), "{text}");
    }
}
