//! Requests moves of servers, for tests.

use chronova_actors::host::{DrainCommand, HostCommand, HostRoot};
use chronova_actors::instance::{EvacuationRequest, InstanceRequest, LiveRequest, MoveRequest};
use chronova_events::ids::{FlavorId, HostId, InstanceId, ProcessId};
use chronova_events::instance::FlavorSnapshot;

use crate::world::{ADMIN, Life, user_meta};

impl Life {
    /// Requests a larger flavor.
    pub async fn resize(&self, instance: InstanceId) -> Result<(), String> {
        self.resize_to(instance, larger()).await
    }

    pub async fn migrate(&self, instance: InstanceId) -> Result<(), String> {
        let process = ProcessId::random();
        self.moving(instance, MoveRequest::Migrate { process, host: None, asker: ADMIN }).await
    }

    pub async fn confirm_resize(&self, instance: InstanceId) -> Result<(), String> {
        let process = ProcessId::random();
        self.moving(instance, MoveRequest::Confirm { process, asker: ADMIN }).await
    }

    pub async fn live_migrate(&self, instance: InstanceId) -> Result<(), String> {
        self.live_migrate_to(instance, None, None).await
    }

    pub async fn live_migrate_to(
        &self,
        instance: InstanceId,
        host: Option<String>,
        block: Option<bool>,
    ) -> Result<(), String> {
        let process = ProcessId::random();
        let begin = LiveRequest::Begin { process, host, forced: false, block, asker: ADMIN };
        self.moving(instance, begin).await
    }

    /// Aborts the server's live migration, whether it is queued or running.
    pub async fn abort_live(&self, instance: InstanceId) -> Result<(), String> {
        let migration = self.migration_of(instance)?;
        let abort = LiveRequest::Abort { migration, waiting_too: true, asker: ADMIN };
        self.moving(instance, abort).await
    }

    pub async fn force_live(&self, instance: InstanceId) -> Result<(), String> {
        let migration = self.migration_of(instance)?;
        self.moving(instance, LiveRequest::Force { migration, asker: ADMIN }).await
    }

    fn migration_of(&self, instance: InstanceId) -> Result<ProcessId, String> {
        let now = self.instance_now(instance);
        let moving = now.alive().and_then(|server| server.moving.as_ref());
        moving.map(|moving| moving.migration).ok_or_else(|| "no migration".to_owned())
    }

    /// Forces the server's host down, and requests an evacuation, as the API does.
    pub async fn evacuate(&self, instance: InstanceId) -> Result<(), String> {
        let now = self.instance_now(instance);
        let placed = now.alive().and_then(|server| server.placement.clone()).ok_or("it is on no host")?;
        self.force_down(placed.host).await?;
        let begin = EvacuationRequest::Begin {
            process: ProcessId::random(),
            host: None,
            forced: false,
            on_shared_storage: None,
            stop: false,
            asker: ADMIN,
        };
        self.moving(instance, begin).await
    }

    /// Forces a host down.
    pub async fn force_down(&self, host: HostId) -> Result<(), String> {
        let (gateway, down) = (&self.context().gateway, HostCommand::ForceDown { forced: true });
        gateway.send::<HostRoot>(&host, down, user_meta()).await.map(drop).map_err(|e| e.to_string())
    }

    /// Requests a drain of the server's host, as the API does.
    pub async fn drain_host_of(&self, instance: InstanceId) -> Result<(), String> {
        let now = self.instance_now(instance);
        let placed = now.alive().and_then(|server| server.placement.clone()).ok_or("it is on no host")?;
        self.drain(placed.host, 2).await
    }

    pub async fn drain(&self, host: HostId, parallel: u32) -> Result<(), String> {
        let begin = DrainCommand::Begin { process: ProcessId::random(), parallel, reason: Some("drained".to_owned()) };
        let sent = self.context().gateway.send::<HostRoot>(&host, HostCommand::Drain(begin), user_meta()).await;
        sent.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn moving(&self, instance: InstanceId, request: impl Into<InstanceRequest>) -> Result<(), String> {
        self.instance(instance, request).await
    }
}

/// A flavor with more vCPUs, memory and disk than the flavor of [`build_request`].
pub fn larger() -> FlavorSnapshot {
    FlavorSnapshot {
        id: FlavorId::new("2"),
        name: "small".to_owned(),
        vcpus: 2,
        memory_mib: 256,
        root_gib: 2,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs: vec![],
    }
}

/// A flavor with fewer vCPUs and less memory than [`larger`], and with a disk of the same size.
pub fn smaller() -> FlavorSnapshot {
    FlavorSnapshot { id: FlavorId::new("3"), name: "smaller".to_owned(), vcpus: 1, memory_mib: 64, ..larger() }
}
