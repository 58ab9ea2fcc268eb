//! The aggregates' refusals as Neutron's errors.

use chronova_actors::aggregate::CommandError;
use chronova_actors::services::embedded::network::creation::CreateNetworkResourceReject;
use chronova_actors::services::embedded::network::quota::NetworkQuotaReject;
use chronova_actors::services::embedded::network::router::RouterReject;
use chronova_actors::services::embedded::network::security_group::SecurityGroupReject;
use chronova_actors::services::embedded::network::{NetworkReject, RevisionMismatch};
use chronova_events::ids::{NetworkId, RouterId};

use crate::fault::Fault;

pub(super) fn not_found(kind: &'static str, noun: &str, id: &str) -> Fault {
    Fault::not_found(format!("{noun} {id} could not be found.")).key(kind)
}

pub(super) fn group_not_found(id: &str) -> Fault {
    Fault::not_found(format!("Security group {id} does not exist")).key("SecurityGroupNotFound")
}

pub(super) fn rule_not_found(id: &str) -> Fault {
    Fault::not_found(format!("Security group rule {id} does not exist")).key("SecurityGroupRuleNotFound")
}

pub(super) fn router_not_found(id: &str) -> Fault {
    Fault::not_found(format!("Router {id} could not be found")).key("RouterNotFound")
}

pub(super) fn floating_ip_not_found(id: &str) -> Fault {
    Fault::not_found(format!("Floating IP {id} could not be found")).key("FloatingIPNotFound")
}

/// Neutron's `BadRequest`.
pub(super) fn bad(resource: &str, reason: impl std::fmt::Display) -> Fault {
    Fault::bad_request(format!("Bad {resource} request: {reason}.")).key("BadRequest")
}

pub(super) fn over_quota(resource: &str) -> Fault {
    Fault::conflict(format!("Quota exceeded for resources: ['{resource}'].")).key("OverQuota")
}

pub(super) fn invalid_input(reason: impl std::fmt::Display) -> Fault {
    Fault::bad_request(format!("Invalid input for operation: {reason}.")).key("InvalidInput")
}

pub(super) fn network(id: NetworkId) -> impl Fn(CommandError<NetworkReject>) -> Fault {
    move |error| match error {
        CommandError::Rejected(reject) => refused(id, &reject),
        CommandError::Unavailable(error) => Fault::of_log(&error),
    }
}

pub(super) fn router(id: RouterId) -> impl Fn(CommandError<RouterReject>) -> Fault {
    move |error| match error {
        CommandError::Rejected(RouterReject::Revision(reject)) => revision(reject),
        CommandError::Rejected(RouterReject::NotFound) => router_not_found(&id.to_string()),
        CommandError::Rejected(reject @ RouterReject::IdTaken(_)) => {
            Fault::conflict(reject.to_string()).key("Conflict")
        }
        CommandError::Unavailable(error) => Fault::of_log(&error),
    }
}

/// The resource does not have the revision that the client's `If-Match` names.
pub(super) fn revision(reject: RevisionMismatch) -> Fault {
    Fault::new(412, reject.to_string()).key("RevisionNumberConstraintFailed")
}

fn refused(id: NetworkId, reject: &NetworkReject) -> Fault {
    let (status, kind) = match reject {
        NetworkReject::NotFound => return not_found("NetworkNotFound", "Network", &id.to_string()),
        NetworkReject::NotExternal(_) | NetworkReject::NoIpv4(_) => return bad("floatingip", reject),
        NetworkReject::SubnetNotFound(_) => (404, "SubnetNotFound"),
        NetworkReject::PortNotFound(_) => (404, "PortNotFound"),
        NetworkReject::IdTaken(_) => (409, "Conflict"),
        NetworkReject::Revision(reject) => return revision(*reject),
        NetworkReject::NetworkInUse(..) => (409, "NetworkInUse"),
        NetworkReject::SharedInUse(_) => (409, "InvalidSharedSetting"),
        NetworkReject::SubnetInUse(_) => (409, "SubnetInUse"),
        NetworkReject::InvalidInput(_) => (400, "InvalidInput"),
        NetworkReject::InvalidPool(_) => (400, "InvalidAllocationPool"),
        NetworkReject::PoolOutOfBounds { .. } => (400, "OutOfBoundsAllocationPool"),
        NetworkReject::OverlappingPools { .. } => (409, "OverlappingAllocationPools"),
        NetworkReject::GatewayInPool { .. } => (409, "GatewayConflictWithAllocationPools"),
        NetworkReject::AddressInUse { .. } => (409, "IpAddressInUse"),
        NetworkReject::MacInUse { .. } => (409, "MacAddressInUse"),
        NetworkReject::NoMoreAddresses(_) => (409, "IpAddressGenerationFailure"),
        NetworkReject::NoMoreMacs(_) => (503, "MacAddressGenerationFailure"),
        NetworkReject::NotInNetwork(_) => (400, "InvalidIpForNetwork"),
        NetworkReject::NotInSubnet(_) => (400, "InvalidIpForSubnet"),
        NetworkReject::GroupsNeedSecurity => (400, "PortSecurityAndIPRequiredForSecurityGroups"),
        NetworkReject::PortHasGroups => (409, "PortSecurityPortHasSecurityGroup"),
        NetworkReject::PairsNeedSecurity => (409, "AddressPairAndPortSecurityRequired"),
        NetworkReject::PortInUse(_) => (409, "PortInUse"),
        NetworkReject::GatewayExists { .. } => (409, "Conflict"),
        NetworkReject::NoExternalAddress(_) => (400, "ExternalIpAddressExhausted"),
        NetworkReject::FloatingIpNotFound(_) => (404, "FloatingIPNotFound"),
        NetworkReject::AlreadyAssociated { .. } => (409, "FloatingIPPortAlreadyAssociated"),
        NetworkReject::ExternalInUse(_) => (409, "ExternalNetworkInUse"),
        NetworkReject::OverQuota(_) => (409, "OverQuota"),
    };
    Fault::new(status, reject.to_string()).key(kind)
}

pub(super) fn security_group(error: CommandError<SecurityGroupReject>) -> Fault {
    let reject = match error {
        CommandError::Rejected(reject) => reject,
        CommandError::Unavailable(error) => return Fault::of_log(&error),
    };
    let (status, kind) = match &reject {
        SecurityGroupReject::NotFound(_) => (404, "SecurityGroupNotFound"),
        SecurityGroupReject::RuleNotFound(_) => (404, "SecurityGroupRuleNotFound"),
        SecurityGroupReject::IdTaken(_) => (409, "Conflict"),
        SecurityGroupReject::Revision(reject) => return revision(*reject),
        SecurityGroupReject::DefaultExists => (409, "SecurityGroupDefaultAlreadyExists"),
        SecurityGroupReject::CannotChangeDefault => (409, "SecurityGroupCannotUpdateDefault"),
        SecurityGroupReject::CannotRemoveDefault => (409, "SecurityGroupCannotRemoveDefault"),
        SecurityGroupReject::RuleExists(_) => (409, "SecurityGroupRuleExists"),
        SecurityGroupReject::OverQuota(_) => (409, "OverQuota"),
        SecurityGroupReject::InvalidInput(_) => (400, "InvalidInput"),
    };
    Fault::new(status, reject.to_string()).key(kind)
}

pub(super) fn creation(reject: CreateNetworkResourceReject) -> Fault {
    match reject {
        CreateNetworkResourceReject::Quota(error) => quota(error),
        CreateNetworkResourceReject::Network { network: id, source } => network(id)(source),
        CreateNetworkResourceReject::Router { router: id, source } => router(id)(source),
    }
}

pub(super) fn quota(error: CommandError<NetworkQuotaReject>) -> Fault {
    match error {
        CommandError::Rejected(NetworkQuotaReject::OverQuota(resource)) => over_quota(resource),
        CommandError::Unavailable(error) => Fault::of_log(&error),
    }
}
