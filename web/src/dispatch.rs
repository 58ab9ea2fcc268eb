//! The way from a permitted request to the command gateway.
//!
//! A handler holds a [`Dispatch`], whose operations are private. The functions here that send commands take a
//! `&Permit`, which only the policy module makes. So a call of them without a check of the caller's rights does not
//! compile. The one command that a guest may send takes a `&Guest`, which only the metadata service makes. The embedded
//! volume service sends the commands to volumes itself, with the metadata that [`meta`] makes from a permit.

use std::sync::Arc;
use std::time::Duration;

use chronova_actors::aggregate::{CommandError, Committed};
use chronova_actors::coordination::passwords::OneTimePasswords;
use chronova_actors::erasure::work::Eraser;
use chronova_actors::gateway::Reachable;
use chronova_actors::instance::creation::{CreateReject, CreateServersRequest};
use chronova_actors::instance::{InstanceReject, InstanceRequest, InstanceRoot};
use chronova_actors::operations::interfaces::{
    AddressChange, AttachInterfaceReject, AttachInterfaceRequest, InterfaceReject,
};
use chronova_actors::operations::security_groups::SecurityGroupChange;
use chronova_actors::operations::{Operations, Queries};
use chronova_actors::ports::{PortError, ServiceCaller};
use chronova_events::envelope::{Cause, Meta, Position};
use chronova_events::ids::{HostId, InstanceId, RequestId};
use chronova_events::instance::{ImageSnapshot, NicInfo};
use chronova_events::store::EventStore;
use chronova_projections::history::History;

use crate::auth::{Requester, correlation};
use crate::metadata::Guest;
use crate::policy::Permit;

/// An answer waits at most this long for the read models to show the command's events. The read models normally lag by
/// microseconds. If they lag more than this, the client gets its answer without waiting further.
const READ_YOUR_WRITES: Duration = Duration::from_secs(5);

/// The handlers' access to [`Operations`], which are private to this module.
///
/// ```compile_fail,E0616
/// fn without_permit(dispatch: &chronova_web::dispatch::Dispatch) {
///     let _ = &dispatch.operations;
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Dispatch {
    operations: Arc<Operations>,
}

impl Dispatch {
    pub fn new(operations: Arc<Operations>) -> Self {
        Self { operations }
    }

    /// Read models, the services beside Compute, and measurements of hosts.
    pub fn queries(&self) -> &Arc<Queries> {
        self.operations.queries()
    }

    /// The one-time passwords, each of which waits in memory for the process that uses it.
    pub fn passwords(&self) -> &OneTimePasswords {
        self.operations.passwords()
    }

    /// Makes Placement's data agree with the hosts and the host aggregates. Changes nothing else.
    pub async fn mirror_placement(&self) {
        self.operations.mirror_placement().await;
    }
}

/// Records the interfaces of a server as the network service has them now.
pub async fn refresh_interfaces(dispatch: &Dispatch, _: &Permit, server: InstanceId) {
    dispatch.operations.refresh_interfaces(server).await;
}

/// Has each of `hosts` fetch `images` into its cache, in the background.
pub fn cache_images(dispatch: &Dispatch, permit: &Permit, hosts: Vec<HostId>, images: Vec<ImageSnapshot>) {
    tokio::spawn(dispatch.operations.cache_images(hosts, images, meta(permit)));
}

/// Returns the eraser of personal data in `store`. `store` must be the log that the read models follow.
pub fn eraser(dispatch: &Dispatch, _: &Permit, store: &Arc<dyn EventStore>, history: Option<&Arc<History>>) -> Eraser {
    dispatch.operations.eraser(store, history)
}

/// Sends `command` to its aggregate in the name of the permitted caller. When this returns, the events are durable and
/// [`shown`] has waited for the read models.
pub async fn send<A: Reachable>(
    dispatch: &Dispatch,
    permit: &Permit,
    id: &A::Id,
    command: impl Into<A::Command>,
) -> Result<Committed, CommandError<A::Reject>> {
    let committed = dispatch.operations.send::<A>(id, command, meta(permit)).await?;
    shown(dispatch, committed.position).await;
    Ok(committed)
}

/// Performs a use case of [`Operations`] in the name of the permitted caller. When this returns, [`shown`] has waited
/// for the read models.
///
/// # Errors
/// The refusal of the use case.
pub async fn perform<R>(
    dispatch: &Dispatch,
    permit: &Permit,
    use_case: impl AsyncFnOnce(&Operations, Arc<Meta>) -> Result<Position, R>,
) -> Result<(), R> {
    let position = use_case(&dispatch.operations, meta(permit)).await?;
    shown(dispatch, position).await;
    Ok(())
}

/// Creates all servers of the request, or none, in the name of the permitted caller. After a success, [`shown`] has
/// waited for the read models.
pub async fn create_servers(
    dispatch: &Dispatch,
    permit: &Permit,
    request: CreateServersRequest,
    password: Option<String>,
) -> Result<Vec<InstanceId>, CreateReject> {
    let created = dispatch.operations.create_servers(meta(permit), request, password).await?;
    shown(dispatch, created.position).await;
    Ok(created.instances)
}

/// Records the encrypted password that a guest reports for its owner. A guest has no rights that a policy could check.
/// The guest may send this one command, and a [`Guest`] proves its identity.
pub(crate) async fn post_password(
    dispatch: &Dispatch,
    guest: &Guest,
    request_id: &RequestId,
    password: String,
) -> Result<(), CommandError<InstanceReject>> {
    let meta = Meta {
        request_id: Some(request_id.clone()),
        correlation: correlation(request_id),
        causation: None,
        cause: Cause::System { part: "guest".to_owned() },
    };
    let command = InstanceRequest::PostGuestPassword { password };
    let committed = dispatch.operations.send::<InstanceRoot>(&guest.id(), command, Arc::new(meta)).await?;
    shown(dispatch, committed.position).await;
    Ok(())
}

/// Waits until the read models show `position`, at most five seconds. A handler must call this itself after it has used
/// a service that sends its own commands.
pub async fn shown(dispatch: &Dispatch, position: Position) {
    if !dispatch.queries().views.wait_for(position, READ_YOUR_WRITES).await {
        tracing::warn!(%position, "the read models lag behind");
    }
}

/// Attaches an interface to a server in the name of the permitted caller. Returns when the guest has the interface.
pub async fn attach_interface(
    dispatch: &Dispatch,
    permit: &Permit,
    wanted: AttachInterfaceRequest,
    caller: &ServiceCaller,
) -> Result<NicInfo, AttachInterfaceReject> {
    dispatch.operations.attach_interface(wanted, caller, meta(permit)).await
}

/// Adds an address to a server, or removes one, in the name of the permitted caller.
pub async fn change_address(
    dispatch: &Dispatch,
    permit: &Permit,
    server: InstanceId,
    change: AddressChange,
) -> Result<(), InterfaceReject> {
    dispatch.operations.change_address(server, change, meta(permit)).await
}

/// Adds a security group to the ports of a server, or removes it, in the name of the permitted caller.
pub async fn change_security_group(
    dispatch: &Dispatch,
    _: &Permit,
    change: SecurityGroupChange<'_>,
    caller: &ServiceCaller,
) -> Result<(), PortError> {
    dispatch.operations.change_security_group(change, caller).await
}

/// The metadata of the events: the requester and the cause.
///
/// The correlation is the request's own UUID. So a search for the request id that the client got finds all events that
/// follow from the request, in any stream.
pub fn meta(permit: &Permit) -> Arc<Meta> {
    meta_of(permit.requester())
}

pub(crate) fn meta_of(requester: &Requester) -> Arc<Meta> {
    requester.meta(requester.source.clone())
}
