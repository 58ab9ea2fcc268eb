//! Refusals of the use cases in `actors/src/operations`.

use chronova_actors::aggregate::CommandError;
use chronova_actors::instance::asking::AskServerReject;
use chronova_actors::operations::remove_host::RemoveHostReject;
use chronova_actors::operations::server_images::ServerImageReject;
use chronova_actors::operations::server_moves::ServerMoveReject;
use chronova_actors::operations::server_volumes::ServerVolumeReject;
use chronova_actors::ports::PortError;
use chronova_events::ids::{HostId, InstanceId};

use super::{
    AggregateAction, NOT_DETACHABLE, aggregate, host, hosts_instances, instance, multiattach, not_reservable, quota,
    refused, volume,
};
use crate::fault::Fault;

/// The refusal of a volume operation on a server.
pub(in crate::compute) fn server_volume(id: InstanceId, reject: ServerVolumeReject) -> Fault {
    match reject {
        ServerVolumeReject::Server(error) => instance(id, error),
        ServerVolumeReject::Volume { volume: id, error } => volume(id, error),
        // A missing volume is 404, but a missing new volume of an exchange is 400.
        ServerVolumeReject::NewVolume { volume: id, error } => match volume(id, error) {
            fault if fault.status == 404 => Fault::bad_request(fault.message),
            fault => fault,
        },
        ServerVolumeReject::HeldElsewhere { volume, holders } => {
            let holders: Vec<String> = holders.iter().map(ToString::to_string).collect();
            Fault::bad_request(format!(
                "Invalid volume: volume {volume} is already attached to instances: {}",
                holders.join(" ")
            ))
        }
        ServerVolumeReject::TaggedOnNoHost => {
            Fault::bad_request("Tagged volume attachment is not supported for shelved-offloaded instances.")
        }
        ServerVolumeReject::SharedOnNoHost => {
            Fault::bad_request("Attaching multiattach volumes is not supported for shelved-offloaded instances.")
        }
        ServerVolumeReject::SharedUnknown => multiattach(),
        ServerVolumeReject::SharedUnsupported { volume } => {
            Fault::conflict(format!("Volume {volume} has 'multiattach' set, which is not supported for this instance."))
        }
        ServerVolumeReject::OtherZone { volume, own, theirs } => Fault::bad_request(format!(
            "Invalid volume: Instance {id} and volume {volume} are not in the same availability_zone. Instance is in {own}. \
             Volume is in {theirs}"
        )),
        ServerVolumeReject::NotReservable { volume, status } => Fault::bad_request(not_reservable(volume, &status)),
        // Users do not see the names of hosts.
        ServerVolumeReject::OutOfReach { volume, host } => Fault::bad_request(format!(
            "Invalid volume: only one host can reach volume {volume}, and the server is on another one."
        ))
        .caused_by(format!("only host {host} can reach the volume")),
        ServerVolumeReject::NotInUse { .. } => Fault::bad_request(format!("Invalid volume: {NOT_DETACHABLE}")),
        ServerVolumeReject::OldMigrates { volume } => Fault::bad_request(format!(
            "Invalid volume: Volume {volume} is being migrated by the volume service to another volume."
        )),
        ServerVolumeReject::OldElsewhere => {
            Fault::bad_request("Invalid volume: Old volume is attached to a different instance.")
        }
        ServerVolumeReject::NewAttached => {
            Fault::bad_request("Invalid volume: New volume must be detached in order to swap.")
        }
        ServerVolumeReject::NewTooSmall => {
            Fault::bad_request("Invalid volume: New volume must be the same size or larger.")
        }
        ServerVolumeReject::OldShared => Fault::bad_request(
            "Swapping multi-attach volumes with more than one read/write attachment is not supported.",
        ),
    }
}

/// The refusal to create an image of a server, or to shelve it.
pub(in crate::compute) fn server_image(id: InstanceId, reject: ServerImageReject) -> Fault {
    match reject {
        ServerImageReject::Server(error) => instance(id, error),
        ServerImageReject::BackupOfVolumes => {
            Fault::bad_request("Backup is not supported for volume-backed instances.")
        }
        ServerImageReject::NoRoomForSnapshots => Fault::forbidden("Quota exceeded for resources: snapshots"),
        ServerImageReject::CannotRest => Fault::bad_request("QEMU guest agent is not enabled"),
        ServerImageReject::Volumes(error) => Fault::unavailable("The volume service does not answer.").caused_by(error),
        ServerImageReject::Asked(reject) => asked(id, reject),
    }
}

/// The refusal of a request that reserves quota or an image before the server gets its command.
fn asked(id: InstanceId, reject: AskServerReject) -> Fault {
    match reject {
        AskServerReject::Quota(reject) => quota(CommandError::Rejected(reject)),
        AskServerReject::Images(error) => match error {
            PortError::Unavailable(cause) => Fault::unavailable("The image service does not answer.").caused_by(cause),
            PortError::Forbidden(message) => Fault::forbidden(message),
            other => Fault::bad_request(other.to_string()),
        },
        AskServerReject::Server(reject) => instance(id, CommandError::Rejected(reject)),
        AskServerReject::Unavailable(error) => instance(id, CommandError::Unavailable(error)),
    }
}

/// The refusal to resize, migrate or restore a server.
pub(in crate::compute) fn server_move(id: InstanceId, reject: ServerMoveReject) -> Fault {
    match reject {
        ServerMoveReject::Server(error) => instance(id, error),
        ServerMoveReject::Asked(reject) => asked(id, reject),
        ServerMoveReject::NoDisk => Fault::bad_request(
            "Server disk was unable to be resized because: Resize to zero disk flavor is not allowed.",
        ),
        ServerMoveReject::SameFlavor => Fault::bad_request("When resizing, instances must change flavor!"),
        ServerMoveReject::TooLittleMemory => Fault::bad_request("Flavor's memory is too small for requested image."),
        ServerMoveReject::TooLittleDisk { disk, least } => Fault::bad_request(format!(
            "Flavor's disk is smaller than the minimum size specified in image metadata. Flavor disk is {disk} bytes, \
             minimum size is {least} bytes."
        )),
        ServerMoveReject::Topology(reason) => Fault::bad_request(reason),
        ServerMoveReject::NoSuchHost(host) => Fault::bad_request(format!("Compute host {host} could not be found.")),
        ServerMoveReject::SameHost => Fault::bad_request("Cannot migrate to the host where the server exists."),
    }
}

/// The refusal to remove a host.
pub(in crate::compute) fn remove_host(id: HostId, name: &str, reject: RemoveHostReject) -> Fault {
    match reject {
        RemoveHostReject::HasServers => hosts_instances(),
        RemoveHostReject::Ledger(error) => refused(error, |_| hosts_instances()),
        RemoveHostReject::Aggregates(error) => aggregate(AggregateAction::RemoveHost(name), error),
        RemoveHostReject::Host(error) => host(id, error),
    }
}
