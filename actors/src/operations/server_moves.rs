//! Resizes, migrates and restores servers.
//!
//! Each operation first checks the read models, in the order of Nova's `compute/api.py`, and then sends the request to
//! the server. For a resize, a restore or a revert to a larger flavor, the process `ask_server` claims quota first.

use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::ProcessId;
use chronova_events::instance::{Alive, DiskConfig, FlavorSnapshot};
use thiserror::Error;

use super::{Operations, ServerCall};
use crate::aggregate::CommandError;
use crate::hardware;
use crate::instance::actions::ServerAction;
use crate::instance::asking::{AskServerReject, ServerRequest, TakenFirst, asking_process};
use crate::instance::{InstanceReject, InstanceRequest, MoveRequest};
use crate::pci::alias::PciAliases;
use crate::quota::{DefaultLimits, ServerQuotaClaim};
use crate::topology;

const BYTES_OF_GIB: u64 = 1 << 30;

/// The request for another flavor of a server.
#[derive(Debug, Clone)]
pub struct ResizeRequest {
    pub flavor: FlavorSnapshot,
    /// The new disk config; `None` keeps the present one.
    pub disk_config: Option<DiskConfig>,
    /// The limits of a project without own limits.
    pub defaults: DefaultLimits,
}

/// Why a server was not moved or restored.
#[derive(Debug, Error)]
pub enum ServerMoveReject {
    #[error(transparent)]
    Server(#[from] CommandError<InstanceReject>),
    #[error(transparent)]
    Asked(#[from] AskServerReject),
    #[error("a server with a root disk cannot be resized to a flavor without one")]
    NoDisk,
    #[error("the server has this flavor already")]
    SameFlavor,
    #[error("the flavor has less memory than the image needs")]
    TooLittleMemory,
    /// The sizes are in bytes.
    #[error("the flavor's disk of {disk} bytes is smaller than the {least} that the image needs")]
    TooLittleDisk { disk: u64, least: u64 },
    /// The reason, in words for the user.
    #[error("{0}")]
    Topology(String),
    #[error("there is no host {0}")]
    NoSuchHost(String),
    #[error("the server is on that host")]
    SameHost,
}

impl From<InstanceReject> for ServerMoveReject {
    fn from(reject: InstanceReject) -> Self {
        Self::Server(CommandError::Rejected(reject))
    }
}

impl Operations {
    /// Requests another flavor. Until the server has the flavor, it holds quota for the larger amount of each resource.
    ///
    /// # Errors
    /// The server cannot have the flavor, or its state does not allow a resize; the quota is exceeded; or the log is
    /// not available.
    pub async fn resize(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        request: ResizeRequest,
    ) -> Result<Position, ServerMoveReject> {
        call.admit(ServerAction::Resize)?;
        let ResizeRequest { flavor, disk_config, defaults } = request;
        check_flavor(call.server, &flavor, &self.queries.server_options.pci_aliases)?;
        let process = ProcessId::random();
        let claim = claim(&call, process, &flavor, defaults);
        let (flavor, asker) = (Box::new(flavor), call.asker);
        self.claim_and_ask(meta, claim, MoveRequest::Resize { process, flavor, disk_config, asker }).await
    }

    /// Requests a cold migration to the named host, or to any host.
    ///
    /// # Errors
    /// The host is unknown or the server's own, the server's state does not allow a migration, or the log is not
    /// available.
    pub async fn migrate(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        host: Option<String>,
    ) -> Result<Position, ServerMoveReject> {
        if let Some(host) = &host {
            self.check_destination(call.server, host)?;
        }
        let (process, asker) = (ProcessId::random(), call.asker);
        self.ask_to_move(meta, call, MoveRequest::Migrate { process, host, asker }).await
    }

    /// Requests the revert of a move. If the old flavor is larger than the new one, the server no longer holds quota
    /// for it, so the request claims that quota again.
    ///
    /// # Errors
    /// The server was not moved, its state does not allow a revert, the quota is exceeded, or the log is not available.
    pub async fn revert(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        defaults: DefaultLimits,
    ) -> Result<Position, ServerMoveReject> {
        call.admit(ServerAction::RevertResize)?;
        let (process, asker) = (ProcessId::random(), call.asker);
        let request = MoveRequest::Revert { process, asker };
        match larger_before(call.server) {
            Some(old) => {
                let claim = claim(&call, process, old, defaults);
                self.claim_and_ask(meta, claim, request).await
            }
            None => self.ask_to_move(meta, call, request).await,
        }
    }

    /// Requests the restore of a soft-deleted server, and reserves its quota again.
    ///
    /// # Errors
    /// The server is not soft-deleted, the quota is exceeded, or the log is not available.
    pub async fn restore(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        defaults: DefaultLimits,
    ) -> Result<Position, ServerMoveReject> {
        call.admit(ServerAction::Restore)?;
        let process = ProcessId::random();
        let claim = claim(&call, process, &call.server.request.flavor, defaults);
        self.claim_and_ask(meta, claim, InstanceRequest::Restore { process, asker: call.asker }).await
    }

    async fn claim_and_ask(
        &self,
        meta: Arc<Meta>,
        claim: ServerQuotaClaim,
        request: impl Into<InstanceRequest>,
    ) -> Result<Position, ServerMoveReject> {
        let first = TakenFirst::Quota(Box::new(claim));
        Ok(self.take_and_ask(ServerRequest { first, request: request.into(), meta }).await?)
    }

    fn check_destination(&self, server: &Alive, host: &str) -> Result<(), ServerMoveReject> {
        if self.queries.views.hosts.read(|hosts| hosts.named(host).is_none()) {
            return Err(ServerMoveReject::NoSuchHost(host.to_owned()));
        }
        match server.placement.as_ref().is_some_and(|placed| placed.hostname == host) {
            true => Err(ServerMoveReject::SameHost),
            false => Ok(()),
        }
    }

    async fn ask_to_move(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        request: MoveRequest,
    ) -> Result<Position, ServerMoveReject> {
        Ok(self.ask_server(meta, call.id, request).await?)
    }
}

/// The claim of quota for the server with this flavor. The server is asked to start the process `asks_for`.
fn claim(
    call: &ServerCall<'_>,
    asks_for: ProcessId,
    flavor: &FlavorSnapshot,
    defaults: DefaultLimits,
) -> ServerQuotaClaim {
    ServerQuotaClaim {
        project: call.server.request.project.clone(),
        process: asking_process(asks_for),
        instance: call.id,
        asks_for,
        cores: flavor.vcpus,
        memory_mib: flavor.memory_mib,
        defaults,
    }
}

/// The flavor from before the server's move, if it has more cores or more memory than the present flavor.
fn larger_before(server: &Alive) -> Option<&FlavorSnapshot> {
    let (old, now) = (&server.moving.as_ref()?.old_flavor, &server.request.flavor);
    (old.vcpus > now.vcpus || old.memory_mib > now.memory_mib).then_some(old)
}

/// Nova's checks of a new flavor.
fn check_flavor(server: &Alive, flavor: &FlavorSnapshot, aliases: &PciAliases) -> Result<(), ServerMoveReject> {
    let (now, volume_backed) = (&server.request.flavor, server.is_volume_backed());
    if flavor.root_gib == 0 && now.root_gib != 0 && !volume_backed {
        return Err(ServerMoveReject::NoDisk);
    }
    if flavor.id == now.id {
        return Err(ServerMoveReject::SameFlavor);
    }
    if let Some(image) = server.hardware_image() {
        if image.min_memory_mib > flavor.memory_mib {
            return Err(ServerMoveReject::TooLittleMemory);
        }
        let gib = |size: u32| u64::from(size) * BYTES_OF_GIB;
        let (disk, least) = (gib(flavor.root_gib), gib(image.min_disk_gib));
        if disk > 0 && least > disk && !volume_backed {
            return Err(ServerMoveReject::TooLittleDisk { disk, least });
        }
    }
    hardware::check(flavor, server.hardware_image()).map_err(ServerMoveReject::Topology)?;
    topology::ask(flavor, server.hardware_image()).map(|_| ()).map_err(ServerMoveReject::Topology)?;
    let devices = aliases.requests(flavor, server.hardware_image());
    devices.map(|_| ()).map_err(ServerMoveReject::Topology)
}
