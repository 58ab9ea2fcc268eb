//! Moves of servers: another flavor, another host; and a deleted server that comes back.
//!
//! Each use case refuses at once what can be known beforehand, in the order of Nova's `compute/api.py`, and asks the
//! server. Where the server is to become larger, or to come back, the process `ask_server` claims quota first.

use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::ProcessId;
use chronova_events::instance::{Alive, DiskConfig, FlavorSnapshot};
use thiserror::Error;

use super::{Operations, ServerCall};
use crate::aggregate::CommandError;
use crate::instance::actions::ServerAction;
use crate::instance::asking::{AskServerReject, ServerRequest, TakenFirst};
use crate::instance::moving::MoveCommand;
use crate::instance::{InstanceCommand, InstanceReject};
use crate::quota::{DefaultLimits, ServerClaim};
use crate::topology;

const BYTES_OF_GIB: u64 = 1 << 30;

/// Another flavor for a server.
#[derive(Debug, Clone)]
pub struct ResizeRequest {
    pub flavor: FlavorSnapshot,
    /// `None`: as it is.
    pub disk_config: Option<DiskConfig>,
    /// The limits of a project that has none of its own.
    pub defaults: DefaultLimits,
}

/// Why a server does not move.
#[derive(Debug, Error)]
pub enum ServerMoveReject {
    #[error(transparent)]
    Server(#[from] CommandError<InstanceReject>),
    #[error(transparent)]
    Asked(#[from] AskServerReject),
    #[error("a disk cannot become a disk of no size")]
    NoDisk,
    #[error("the server has this flavor")]
    SameFlavor,
    #[error("the flavor has less memory than the image needs")]
    TooLittleMemory,
    /// In bytes.
    #[error("the flavor's disk of {disk} bytes is smaller than the {least} that the image needs")]
    TooLittleDisk { disk: u64, least: u64 },
    /// In words for the user.
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
    /// Asks for another flavor. Quota holds the larger of both until the move is confirmed or reverted.
    ///
    /// # Errors
    /// The server cannot have the flavor, or not now; quota has no room; the log does not take the events.
    pub async fn resize(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        request: ResizeRequest,
    ) -> Result<Position, ServerMoveReject> {
        call.admit(ServerAction::Resize)?;
        let ResizeRequest { flavor, disk_config, defaults } = request;
        check_flavor(call.server, &flavor)?;
        let (project, process) = (call.server.request.project.clone(), ProcessId::random());
        let (cores, memory_mib) = (flavor.vcpus, flavor.memory_mib);
        let claim = ServerClaim { project, process, instance: call.id, cores, memory_mib, defaults };
        let (flavor, asker) = (Box::new(flavor), call.asker);
        let resize = MoveCommand::Resize { process, flavor, disk_config, asker };
        self.claim_and_ask(meta, claim, InstanceCommand::Move(Box::new(resize))).await
    }

    /// Asks for another host: the one of this name, or any.
    ///
    /// # Errors
    /// The host is unknown or the server's own; the server is not in a state for it; the log does not take the event.
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
        self.ask_to_move(meta, call, MoveCommand::Migrate { process, host, asker }).await
    }

    /// Asks a deleted server to come back. Quota holds its room again.
    ///
    /// # Errors
    /// The server was not deleted so that it can be restored; quota has no room; the log does not take the events.
    pub async fn restore(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        defaults: DefaultLimits,
    ) -> Result<Position, ServerMoveReject> {
        call.admit(ServerAction::Restore)?;
        let (project, flavor) = (call.server.request.project.clone(), &call.server.request.flavor);
        let (process, cores, memory_mib) = (ProcessId::random(), flavor.vcpus, flavor.memory_mib);
        let claim = ServerClaim { project, process, instance: call.id, cores, memory_mib, defaults };
        self.claim_and_ask(meta, claim, InstanceCommand::Restore { process, asker: call.asker }).await
    }

    async fn claim_and_ask(
        &self,
        meta: Arc<Meta>,
        claim: ServerClaim,
        command: InstanceCommand,
    ) -> Result<Position, ServerMoveReject> {
        let (instance, process) = (claim.instance, claim.process);
        let request = ServerRequest { first: TakenFirst::Quota(Box::new(claim)), command, meta };
        Ok(self.take_and_ask(instance, process, request).await?)
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
        command: MoveCommand,
    ) -> Result<Position, ServerMoveReject> {
        Ok(self.ask_server(meta, call.id, InstanceCommand::Move(Box::new(command))).await?)
    }
}

/// Nova's checks of a new flavor.
fn check_flavor(server: &Alive, flavor: &FlavorSnapshot) -> Result<(), ServerMoveReject> {
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
    topology::check_provided(flavor, server.hardware_image()).map_err(ServerMoveReject::Topology)?;
    topology::ask(flavor, server.hardware_image()).map(|_| ()).map_err(ServerMoveReject::Topology)
}
