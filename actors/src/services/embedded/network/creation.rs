//! Creates networks, subnets, ports and routers within the quota of their project.
//!
//! The service reserves quota before it creates the resource, and releases it if the resource is refused. If the log
//! does not answer, the resource may or may not exist. Then the quota stays reserved, and a later request finds out
//! ([`room`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{NetworkId, ProjectId, RouterId};
use chronova_events::network::NetworkCreated;
use chronova_events::network_quota::CountedResource;
use chronova_events::router::RouterCreated;
use thiserror::Error;

use super::quota::{NetworkQuotaCommand, NetworkQuotaReject, NetworkQuotaRoot, room};
use super::router::{RouterCommand, RouterReject, RouterRoot};
use super::{NetworkCommand, NetworkReject, NetworkRoot, PortRequest, SubnetRequest};
use crate::aggregate::{CommandError, Committed};
use crate::gateway::Reachable;
use crate::operations::Operations;

/// A network, or a part of one.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // it is moved a few times, never kept
pub enum NewNetworkResource {
    Network(NetworkCreated),
    Subnet(NetworkId, SubnetRequest),
    Port(NetworkId, PortRequest),
}

/// Why a resource was not created.
#[derive(Debug, Error)]
pub enum CreateNetworkResourceReject {
    #[error(transparent)]
    Quota(#[from] CommandError<NetworkQuotaReject>),
    #[error("network {network} refused the command")]
    Network { network: NetworkId, source: CommandError<NetworkReject> },
    #[error("router {router} refused the command")]
    Router { router: RouterId, source: CommandError<RouterReject> },
}

/// Creates a network, or a part of one.
///
/// # Errors
/// The quota is exceeded, the network refuses, or the log is not available.
pub async fn create(
    operations: &Operations,
    meta: Arc<Meta>,
    resource: NewNetworkResource,
) -> Result<Position, CreateNetworkResourceReject> {
    let (network, project, counted, command) = match resource {
        NewNetworkResource::Network(new) => {
            let network = new.network;
            (network, new.project.clone(), CountedResource::Network(network), NetworkCommand::Create(new))
        }
        NewNetworkResource::Subnet(network, new) => {
            (network, new.project.clone(), CountedResource::Subnet(new.subnet), NetworkCommand::AddSubnet(new))
        }
        NewNetworkResource::Port(network, new) => {
            (network, new.project.clone(), CountedResource::Port(new.port), NetworkCommand::CreatePort(new))
        }
    };
    let refused = |source| CreateNetworkResourceReject::Network { network, source };
    let created = counting::<NetworkRoot>(operations, &meta, (&project, counted), &network, command, refused).await?;
    Ok(created.position)
}

/// Creates a router and its gateway, which is a port of an external network. If the network refuses the gateway, the
/// router is deleted again. After a crash between the two, the router exists without a gateway; its owner can use or
/// delete it.
///
/// # Errors
/// The quota is exceeded, the external network refuses, or the log is not available.
pub async fn create_router(
    operations: &Operations,
    meta: Arc<Meta>,
    new: RouterCreated,
    gateway: Option<(NetworkId, PortRequest)>,
) -> Result<Position, CreateNetworkResourceReject> {
    let (router, project) = (new.router, new.project.clone());
    let refused = |source| CreateNetworkResourceReject::Router { router, source };
    let counted = (&project, CountedResource::Router(router));
    let create = RouterCommand::Create(new);
    let created = counting::<RouterRoot>(operations, &meta, counted, &router, create, refused).await?;
    let Some((network, port)) = gateway else { return Ok(created.position) };
    match operations.send::<NetworkRoot>(&network, NetworkCommand::CreatePort(port), Arc::clone(&meta)).await {
        Ok(connected) => Ok(created.position.max(connected.position)),
        Err(source) => {
            operations.send::<RouterRoot>(&router, RouterCommand::Delete, meta).await.map_err(refused)?;
            Err(CreateNetworkResourceReject::Network { network, source })
        }
    }
}

/// Reserves quota, and sends the command that creates the resource.
async fn counting<A: Reachable>(
    operations: &Operations,
    meta: &Arc<Meta>,
    (project, counted): (&ProjectId, CountedResource),
    id: &A::Id,
    command: A::Command,
    refused: impl FnOnce(CommandError<A::Reject>) -> CreateNetworkResourceReject,
) -> Result<Committed, CreateNetworkResourceReject> {
    let (queries, things) = (operations.queries(), BTreeSet::from([counted]));
    let take = queries.views.networks.read(|view| room::take(view, project, things.clone(), queries.clock.now()));
    operations.send::<NetworkQuotaRoot>(project, take, Arc::clone(meta)).await?;
    let created = operations.send::<A>(id, command, Arc::clone(meta)).await;
    if let Err(CommandError::Rejected(_)) = &created {
        let release = NetworkQuotaCommand::Release { project: project.clone(), things };
        operations.send::<NetworkQuotaRoot>(project, release, Arc::clone(meta)).await?;
    }
    created.map_err(refused)
}
