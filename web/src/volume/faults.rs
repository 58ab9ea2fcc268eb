//! Refusals in Cinder's words.

use chronova_actors::aggregate::CommandError;
use chronova_actors::services::embedded::volume::quota::VolumeQuotaReject;
use chronova_actors::services::embedded::volume::service::VolumeError;
use chronova_actors::services::embedded::volume::types::VolumeTypeReject;

use crate::fault::Fault;

/// Maps the service's refusals.
pub(super) fn of(error: VolumeError) -> Fault {
    match error {
        VolumeError::NotFound(message) => Fault::not_found(message),
        VolumeError::Invalid(message) => Fault::bad_request(message),
        VolumeError::Conflict(message) => Fault::conflict(message),
        VolumeError::OverQuota(reject) => over_quota(&reject),
        VolumeError::Unavailable(cause) => {
            Fault::unavailable("The volume service cannot do that at the moment. Try again.").caused_by(cause)
        }
    }
}

fn over_quota(reject: &VolumeQuotaReject) -> Fault {
    match reject {
        // As in Cinder, a volume above the per-volume limit is a bad request, not an exceeded quota.
        VolumeQuotaReject::Size { .. } => Fault::bad_request(format!("Invalid input received: {reject}")),
        VolumeQuotaReject::Volumes { .. }
        | VolumeQuotaReject::Snapshots { .. }
        | VolumeQuotaReject::Gigabytes { .. } => Fault::over_limit(format!("{}: {reject}", name(reject))),
    }
}

/// The name of Cinder's exception, with which its message begins.
fn name(reject: &VolumeQuotaReject) -> &'static str {
    match reject {
        VolumeQuotaReject::Volumes { .. } => "VolumeLimitExceeded",
        VolumeQuotaReject::Snapshots { .. } => "SnapshotLimitExceeded",
        VolumeQuotaReject::Gigabytes { .. } => "VolumeSizeExceedsAvailableQuota",
        VolumeQuotaReject::Size { .. } => "VolumeSizeExceedsLimit",
    }
}

/// Maps the refusals of volume types.
pub(super) fn of_type(error: CommandError<VolumeTypeReject>) -> Fault {
    let reject = match error {
        CommandError::Rejected(reject) => reject,
        CommandError::Unavailable(source) => return Fault::of_log(&source),
    };
    let message = reject.to_string();
    match reject {
        VolumeTypeReject::NotFound(_) | VolumeTypeReject::NoSpec { .. } | VolumeTypeReject::NoAccess { .. } => {
            Fault::not_found(message)
        }
        VolumeTypeReject::NameTaken(_) | VolumeTypeReject::AccessExists { .. } => Fault::conflict(message),
        VolumeTypeReject::Public | VolumeTypeReject::IsDefault(_) => Fault::bad_request(message),
    }
}
