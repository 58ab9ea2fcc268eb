//! Refusals in Nova's words: one place maps each rejection of an aggregate or a port to a status and a message.
//!
//! Source of the messages: Nova's own faults. Clients show them to users, and some clients match on them.

mod use_cases;

use chronova_actors::aggregate::CommandError;
use chronova_actors::flavor::FlavorReject;
use chronova_actors::host::HostReject;
use chronova_actors::host_aggregate::HostAggregateReject;
use chronova_actors::instance::InstanceReject;
use chronova_actors::instance::creation::CreateReject;
use chronova_actors::instance::unsupported::HostBoundHardware;
use chronova_actors::keypair::KeypairReject;
use chronova_actors::operations::interfaces::{AttachInterfaceReject, InterfaceReject};
use chronova_actors::operations::unique_names::ServerChangeReject;
use chronova_actors::ports::PortError;
use chronova_actors::quota::{InsufficientQuota, QuotaReject};
use chronova_actors::server_group::ServerGroupReject;
use chronova_events::ids::{HostId, InstanceId, VolumeId};
use serde_json::json;
use std::fmt::Display;

pub(super) use self::use_cases::{remove_host, server_image, server_move, server_volume};
use crate::fault::Fault;
use crate::schema::repr;

/// The fault for a refused command. `of` maps the rejections of the command's own aggregate.
pub(super) fn refused<R>(error: CommandError<R>, of: impl FnOnce(R) -> Fault) -> Fault {
    match error {
        CommandError::Rejected(reject) => of(reject),
        CommandError::Unavailable(cause) => Fault::of_log(&cause),
    }
}

pub(super) fn no_instance(id: impl Display) -> Fault {
    Fault::not_found(format!("Instance {id} could not be found."))
}

pub(super) fn no_flavor(id: impl Display) -> Fault {
    Fault::not_found(format!("Flavor {id} could not be found."))
}

pub(super) fn no_keypair(name: &str, user: impl Display) -> Fault {
    Fault::not_found(format!("Keypair {name} not found for user {user}"))
}

pub(super) fn no_host(name: impl Display) -> Fault {
    Fault::not_found(format!("Compute host {name} could not be found."))
}

pub(super) fn no_aggregate(number: impl Display) -> Fault {
    Fault::not_found(format!("Aggregate {number} could not be found."))
}

pub(super) fn cannot_remove_host(host: &str, number: u64) -> Fault {
    Fault::not_found(format!("Cannot remove host {host} in aggregate {number}"))
}

pub(super) fn no_server_group(id: impl Display) -> Fault {
    Fault::not_found(format!("Instance group {id} could not be found."))
}

pub(super) fn hosts_instances() -> Fault {
    Fault::conflict(
        "Unable to delete compute service that is hosting instances. Migrate or delete the instances first.",
    )
}

pub(super) fn no_marker(marker: &str) -> Fault {
    Fault::bad_request(format!("Marker {marker} could not be found."))
}

/// The refusal of an action on a server.
pub(crate) fn instance(id: InstanceId, error: CommandError<InstanceReject>) -> Fault {
    refused(error, |reject| instance_reject(id, reject))
}

pub(super) fn instance_reject(id: InstanceId, reject: InstanceReject) -> Fault {
    match reject {
        InstanceReject::NotFound => no_instance(id),
        InstanceReject::Exists => Fault::conflict(format!("Instance {id} already exists.")),
        InstanceReject::Locked => Fault::conflict(format!("Instance {id} is locked")),
        InstanceReject::NotInState { action, attribute, value } => {
            Fault::conflict(format!("Cannot '{action}' instance {id} while it is in {attribute} {value}"))
        }
        InstanceReject::NotSupported { operation, hardware } => not_supported(id, operation, hardware),
        InstanceReject::NotReady => Fault::conflict(format!("Instance {id} is not ready")),
        InstanceReject::NeverLaunched { action } => {
            Fault::conflict(format!("Instance {id} is in an invalid state for '{action}'"))
        }
        InstanceReject::NotMoved => Fault::bad_request("Instance has not been resized."),
        InstanceReject::NoSuchMigration => Fault::not_found(format!("Migration is not found for instance {id}")),
        InstanceReject::MigrationInState { state, action } => Fault::bad_request(format!(
            "Migration state of instance {id} is {state}. Cannot {action} while the migration is in this state."
        )),
        InstanceReject::TooMuchMetadata { limit } => {
            Fault::forbidden(format!("Maximum number of metadata items exceeds {limit}"))
        }
        InstanceReject::GuestPasswordKept => {
            Fault::conflict("There was a conflict when trying to complete your request.")
        }
        InstanceReject::NoSuchMetadata => Fault::not_found("Metadata item was not found"),
        InstanceReject::TooManyTags { limit } => {
            Fault::bad_request(format!("The number of tags exceeded the per-server limit {limit}"))
        }
        InstanceReject::UnknownImageProperty { name } => {
            Fault::bad_request(format!("Invalid image property name {name}.")).key("invalidImagePropertyName")
        }
        InstanceReject::BadImageProperty { name, value } => {
            Fault::bad_request(format!("Field value {value} of image property {name} is invalid."))
                .key("invalidImagePropertyValue")
        }
        InstanceReject::UnfitImageProperty { name, value, machine } => Fault::bad_request(format!(
            "Image property {name} = {value} does not work with machine type {machine} of the instance."
        ))
        .key("invalidImagePropertyValue"),
        InstanceReject::WithoutImage => {
            Fault::conflict(format!("Instance {id} was made from no image, so it keeps no image properties."))
        }
        InstanceReject::NoSuchPort(port) => Fault::not_found(format!("Port id {port} could not be found.")),
        InstanceReject::NoSuchTag { tag } => Fault::not_found(format!("Server {id} has no tag '{tag}'")),
        InstanceReject::VolumeAttached { volume } => {
            Fault::bad_request(format!("Invalid volume: volume {volume} already attached"))
        }
        InstanceReject::VolumeNotAttached { volume } => not_attached(id, volume),
        InstanceReject::VolumeBusy { .. } => Fault::bad_request(format!("Invalid volume: {NOT_DETACHABLE}")),
        InstanceReject::RootVolume { .. } => Fault::bad_request("Cannot detach a root device volume"),
        InstanceReject::TooManyDisks { limit } => Fault::forbidden(format!(
            "The maximum allowed number of disk devices ({limit}) to attach to a single instance has been exceeded."
        )),
        InstanceReject::MachineType { from, to } => Fault::bad_request(format!(
            "Cannot update machine type {from} to {to}: it must be a version of the same machine that is not older, or the \
             update must be forced."
        )),
        InstanceReject::Superseded => {
            Fault::conflict(format!("Instance {id} is being worked on by another request. Try again."))
        }
    }
}

/// The refusal of an unsupported feature: always 400, Nova's convention since Xena.
fn not_supported(id: InstanceId, operation: &str, hardware: HostBoundHardware) -> Fault {
    let what = match hardware {
        HostBoundHardware::Vtpm => "vTPM-enabled",
        HostBoundHardware::Sev => "SEV-enabled",
        HostBoundHardware::PciDevices => {
            return Fault::bad_request(format!(
                "Operation '{operation}' not supported for instance ({id}) with PCI devices."
            ));
        }
        HostBoundHardware::Accelerators => {
            return Fault::bad_request("Feature not supported with instances that have accelerators.");
        }
    };
    Fault::bad_request(format!("Operation '{operation}' not supported for {what} instance ({id})."))
}

/// The volume service's refusal of a volume that a guest still uses.
pub(super) const NOT_DETACHABLE: &str = "Invalid input received: Invalid volume: Unable to detach volume. Volume status \
                                         must be 'in-use' and attach_status must be 'attached' to detach.";

pub(super) fn not_attached(instance: InstanceId, volume: impl Display) -> Fault {
    Fault::not_found(format!("Instance {instance} is not attached to volume {volume}"))
}

pub(super) fn no_volume(id: impl Display) -> Fault {
    Fault::not_found(format!("Volume {id} could not be found."))
}

/// Nova's `MismatchVolumeAZException`.
pub(super) fn other_zone(reason: &str) -> String {
    format!("The availability zone between the server and its attached volumes do not match: {reason}.")
}

pub(super) fn multiattach() -> Fault {
    Fault::bad_request("Multiattach volumes are only supported starting with compute API version 2.60.")
}

/// The volume service's message for a volume that cannot be reserved now.
pub(super) fn not_reservable(volume: VolumeId, status: &str) -> String {
    format!(
        "Invalid input received: Invalid volume: Volume {volume} status must be available or downloading to reserve, but the \
         current status is {status}."
    )
}

/// The volume service's refusal of a read.
pub(super) fn volume(id: impl Display, error: PortError) -> Fault {
    match error {
        PortError::NotFound(_) | PortError::Forbidden(_) => no_volume(id),
        other => volume_service(other),
    }
}

/// The volume service's refusal of a change, with that service's message.
pub(super) fn volume_service(error: PortError) -> Fault {
    match error {
        PortError::NotFound(message) => Fault::not_found(message),
        PortError::Invalid(message) => Fault::bad_request(format!("Invalid input received: {message}")),
        PortError::Conflict(message) | PortError::NotHere(message) => Fault::bad_request(message),
        PortError::Forbidden(message) => Fault::forbidden(message),
        PortError::Unavailable(message) => Fault::unavailable("The volume service does not answer.").caused_by(message),
    }
}

pub(super) fn quota(error: CommandError<QuotaReject>) -> Fault {
    refused(error, over_limit)
}

fn over_limit(reject: QuotaReject) -> Fault {
    match reject {
        QuotaReject::Exceeded(over) => over_quota(over),
        QuotaReject::TooManyAtOnce { most } => {
            Fault::bad_request(format!("max_count must be at most {most}: ask for the others later."))
        }
    }
}

/// Nova's `InstanceExists`.
fn name_taken(name: &str) -> Fault {
    Fault::conflict(format!("Instance {name} already exists."))
}

/// The refusal of a change of a server.
pub(super) fn server_change(id: InstanceId, reject: ServerChangeReject) -> Fault {
    match reject {
        ServerChangeReject::NameTaken(name) => name_taken(&name),
        ServerChangeReject::Server(error) => instance(id, error),
    }
}

/// The refusal of a request for new servers. If the server group was deleted meanwhile, the answer is 400, as for a
/// group that never existed.
pub(super) fn create(reject: CreateReject) -> Fault {
    match reject {
        CreateReject::Quota(reject) => over_limit(reject),
        CreateReject::Group(reject @ ServerGroupReject::NotFound(_)) => {
            Fault::bad_request(server_group(CommandError::Rejected(reject)).message)
        }
        CreateReject::Group(reject) => server_group(CommandError::Rejected(reject)),
        CreateReject::NameTaken(name) => name_taken(&name),
        CreateReject::Server { instance, reject } => instance_reject(instance, reject),
        CreateReject::Unavailable(error) => quota(CommandError::Unavailable(error)),
    }
}

/// Nova lists the resources by name: `Quota exceeded for cores, ram: Requested 2, 512, but already used ...`.
pub(super) fn over_quota(mut over: Vec<InsufficientQuota>) -> Fault {
    over.sort_by_key(|one| one.resource);
    let list = |of: fn(&InsufficientQuota) -> String| over.iter().map(of).collect::<Vec<_>>().join(", ");
    let names = list(|one| one.resource.to_owned());
    Fault::forbidden(format!(
        "Quota exceeded for {names}: Requested {}, but already used {} of {} {names}",
        list(|one| one.requested.to_string()),
        list(|one| one.used.to_string()),
        list(|one| one.limit.to_string()),
    ))
}

pub(super) fn flavor(error: CommandError<FlavorReject>) -> Fault {
    refused(error, |reject| match reject {
        FlavorReject::NotFound(id) => no_flavor(id),
        FlavorReject::NameTaken(name) => Fault::conflict(format!("Flavor with name {name} already exists.")),
        FlavorReject::IdTaken(id) => Fault::conflict(format!("Flavor with ID {id} already exists.")),
        FlavorReject::NoSuchExtraSpec { flavor, key } => {
            Fault::not_found(format!("Flavor {flavor} has no extra specs with key {key}."))
        }
        FlavorReject::Public(_) => Fault::conflict("Can not add access to a public flavor."),
        FlavorReject::AccessExists { flavor, project } => Fault::conflict(format!(
            "Flavor access already exists for flavor {flavor} and project {project} combination."
        )),
        FlavorReject::NoAccess { flavor, project } => {
            Fault::not_found(format!("Flavor access not found for {flavor} / {project} combination."))
        }
    })
}

pub(super) fn keypair(error: CommandError<KeypairReject>) -> Fault {
    refused(error, |reject| match reject {
        KeypairReject::Exists(name) => Fault::conflict(format!("Key pair '{name}' already exists.")),
        KeypairReject::QuotaExceeded(_) => Fault::forbidden("Quota exceeded, too many key pairs."),
        KeypairReject::NotFound { user, name } => no_keypair(&name, user),
    })
}

pub(super) fn host(id: HostId, error: CommandError<HostReject>) -> Fault {
    refused(error, |reject| match reject {
        HostReject::NotFound => no_host(id),
        // The Compute API sends no commands about drains, so these rejections cannot occur.
        HostReject::NotDraining | HostReject::DrainEnding | HostReject::NotInMaintenance => {
            Fault::conflict(format!("Compute host {id}: {reject}."))
        }
    })
}

/// The action on a host aggregate that Nova's message names.
#[derive(Debug, Clone, Copy)]
pub(super) enum AggregateAction<'a> {
    Create,
    Update,
    SetMetadata,
    AddHost,
    RemoveHost(&'a str),
    Delete,
}

impl AggregateAction<'_> {
    /// The refusal. As in Nova, the status is 409 for adding and removing hosts, and 400 for every other action.
    fn refused(self, number: u64, reason: impl Display) -> Fault {
        let (status, action) = match self {
            Self::AddHost => (409, "add host to"),
            Self::RemoveHost(_) => (409, "remove host from"),
            Self::Delete => (400, "remove host from"),
            Self::SetMetadata => (400, "update metadata of"),
            Self::Create | Self::Update => (400, "update"),
        };
        Fault::new(status, format!("Cannot {action} aggregate {number}. Reason: {reason}."))
    }
}

pub(super) fn aggregate(action: AggregateAction<'_>, error: CommandError<HostAggregateReject>) -> Fault {
    refused(error, |reject| match (reject, action) {
        (HostAggregateReject::NotFound(number), AggregateAction::RemoveHost(host)) => cannot_remove_host(host, number),
        (HostAggregateReject::NotFound(number), _) => no_aggregate(number),
        (HostAggregateReject::NoSuchHost { number, hostname }, _) => cannot_remove_host(&hostname, number),
        (HostAggregateReject::NameTaken(name), _) => Fault::conflict(format!("Aggregate {name} already exists.")),
        (HostAggregateReject::HasHost { number, hostname }, _) => {
            Fault::conflict(format!("Aggregate {number} already has host {hostname}."))
        }
        (HostAggregateReject::NotEmpty { number }, _) => action.refused(number, "Host aggregate is not empty"),
        (HostAggregateReject::NamelessZone { number, name }, _) => {
            action.refused(number, format!("Aggregate {name} does not support empty named availability zone"))
        }
        (HostAggregateReject::InOtherZones { number, zones }, _) => {
            action.refused(number, format!("One or more hosts already in availability zone(s) {}", repr(&json!(zones))))
        }
        (HostAggregateReject::HasServers { number }, _) => {
            action.refused(number, "One or more hosts contain instances in this zone")
        }
        (HostAggregateReject::ServersWouldMove { number, from, to, servers }, _) => {
            let done = if matches!(action, AggregateAction::AddHost) { "added to" } else { "removed from" };
            let zone = |zone: Option<String>| zone.unwrap_or_else(|| "None".to_owned());
            let (from, to) = (zone(from), zone(to));
            action.refused(
                number,
                format!(
                    "The host cannot be {done} the aggregate as the availability zone of the host would change from \
                     '{from}' to '{to}' but the host already has {servers} instance(s). Changing the AZ of an existing \
                     instance is not supported by this action. Move the instances away from this host then try again. \
                     If you need to move the instances between AZs then you can use shelve_offload and unshelve to \
                     achieve this."
                ),
            )
        }
    })
}

pub(super) fn server_group(error: CommandError<ServerGroupReject>) -> Fault {
    refused(error, |reject| match reject {
        ServerGroupReject::NotFound(id) => no_server_group(id),
        ServerGroupReject::TooManyGroups(_) => Fault::forbidden("Quota exceeded, too many server groups."),
        ServerGroupReject::TooManyMembers(_) => Fault::forbidden("Quota exceeded, too many servers in group"),
    })
}

/// The network service's refusal of a request for a server.
pub(super) fn network(error: PortError) -> Fault {
    match error {
        PortError::NotFound(message) | PortError::Invalid(message) => Fault::bad_request(message),
        PortError::Conflict(message) | PortError::NotHere(message) => Fault::conflict(message),
        PortError::Forbidden(message) => Fault::forbidden(message),
        PortError::Unavailable(message) => {
            Fault::unavailable("The network service does not answer.").caused_by(message)
        }
    }
}

/// Nova's `CreateWithPortResourceRequestOldVersion`.
pub(super) fn ports_with_requests() -> Fault {
    Fault::bad_request(
        "Creating servers with ports having resource requests, like a port with a QoS minimum bandwidth policy, is not \
         supported until microversion 2.72.",
    )
}

/// The network service's refusal to add an interface.
pub(super) fn attachment(error: PortError) -> Fault {
    match error {
        PortError::NotFound(message) => Fault::not_found(message),
        other => network(other),
    }
}

/// The refusal to attach an interface.
pub(super) fn attach_interface(id: InstanceId, error: AttachInterfaceReject) -> Fault {
    match error {
        AttachInterfaceReject::Instance(reject) => instance_reject(id, reject),
        AttachInterfaceReject::Network(error) => attachment(error),
        AttachInterfaceReject::Failed(fault) => Fault::new(fault.code, fault.message).caused_by(fault.details),
        AttachInterfaceReject::NotYet => {
            Fault::new(500, format!("Failed to attach network adapter device to {id}")).caused_by(error)
        }
        AttachInterfaceReject::Unavailable(error) => Fault::of_log(&error),
    }
}

/// The refusal to change a server's addresses.
pub(super) fn interface(id: InstanceId, error: InterfaceReject) -> Fault {
    match error {
        InterfaceReject::Network(error) => address(error),
        InterfaceReject::Instance(error) => instance(id, error),
    }
}

/// The network service's refusal to add or remove an address.
pub(super) fn address(error: PortError) -> Fault {
    match error {
        PortError::NotFound(message) => Fault::not_found(message),
        PortError::Conflict(message) | PortError::NotHere(message) => Fault::bad_request(message),
        other => network(other),
    }
}

/// The image service's refusal of a request for a server.
pub(super) fn image(error: PortError) -> Fault {
    match error {
        // As in Nova, the answer is the same for a missing image and for an image that the project may not see.
        PortError::NotFound(_) | PortError::Forbidden(_) => Fault::bad_request("Can not find requested image"),
        PortError::Invalid(message) | PortError::Conflict(message) | PortError::NotHere(message) => {
            Fault::bad_request(message)
        }
        PortError::Unavailable(message) => Fault::unavailable("The image service does not answer.").caused_by(message),
    }
}
