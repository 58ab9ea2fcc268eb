//! Typed ids, so that an id of one kind of object is not taken for an id of another kind.
//!
//! There are two families. UUID ids have 16 bytes and print in the dashed form that the APIs use. Text ids come from
//! outside: Keystone's projects and users may be any string, such as 32 hex digits or `admin`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Defines the UUID ids; keep the list alphabetical.
macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A random (version 4) id.
            pub fn random() -> Self {
                Self(crate::entropy::uuid())
            }

            /// The id derived from `seed` and `name`: the same inputs always give the same id. So a repeated step finds
            /// the objects that it created the first time.
            pub fn derive(seed: Uuid, name: &str) -> Self {
                Self(Uuid::new_v5(&seed, name.as_bytes()))
            }

            /// The 32 hexadecimal digits without dashes, as Keystone writes ids.
            pub fn hex(&self) -> String {
                self.0.simple().to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(s).map(Self)
            }
        }
    )+};
}

/// Defines the text ids; keep the list alphabetical.
macro_rules! text_ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Arc<str>);

        impl $name {
            pub fn new(s: impl AsRef<str>) -> Self {
                Self(Arc::from(s.as_ref()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), &self.0)
            }
        }

        impl From<&str> for $name {
            fn from(s: &str) -> Self {
                Self::new(s)
            }
        }

        impl From<String> for $name {
            fn from(s: String) -> Self {
                Self(Arc::from(s))
            }
        }
    )+};
}

uuid_ids! {
    /// One attachment of a volume to a server.
    AttachmentId,
    /// A block device of a server: Nova's `bdm_uuid`.
    BlockDeviceId,
    /// One erasure of personal data.
    ErasureId,
    /// One recorded event.
    EventId,
    /// A floating address of an external network.
    FloatingIpId,
    /// A host aggregate.
    HostAggregateId,
    /// One compute host; also the id of its resource provider and of its `nova-compute` service.
    HostId,
    /// An image.
    ImageId,
    /// A server. The code calls it "instance", the API "server".
    InstanceId,
    /// A virtual network.
    NetworkId,
    /// A port of a virtual network.
    PortId,
    /// A process: one run of a multi-step operation.
    ProcessId,
    /// A Placement resource provider.
    ProviderId,
    /// A router between virtual networks.
    RouterId,
    /// A security group.
    SecurityGroupId,
    /// One rule of a security group.
    SecurityGroupRuleId,
    /// A server group.
    ServerGroupId,
    /// A snapshot of a volume.
    SnapshotId,
    /// A subnet.
    SubnetId,
    /// One upload of an image's data.
    UploadId,
    /// A volume.
    VolumeId,
    /// A volume type.
    VolumeTypeId,
}

text_ids! {
    /// A rule that says which requests an application credential permits.
    AccessRuleId,
    /// An application credential of a user.
    ApplicationCredentialId,
    /// The consumer of an allocation: an instance's or a migration's UUID, or an id that a Placement client chose.
    ConsumerId,
    /// A Keystone domain.
    DomainId,
    /// The API-visible id of a flavor (`flavorid`: any text).
    FlavorId,
    /// A limit of a project or a domain (Keystone's unified limits).
    LimitId,
    /// A Keystone project (tenant).
    ProjectId,
    /// A registered limit: the default of a resource (Keystone's unified limits).
    RegisteredLimitId,
    /// The `req-<uuid>` of an API request.
    RequestId,
    /// A Keystone role.
    RoleId,
    /// A Keystone user.
    UserId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_are_stable_and_distinct() {
        let seed = Uuid::nil();
        assert_eq!(PortId::derive(seed, "port-0"), PortId::derive(seed, "port-0"));
        assert_ne!(PortId::derive(seed, "port-0"), PortId::derive(seed, "port-1"));
        assert_eq!(PortId::derive(seed, "port-0").to_string(), "d35c5564-af2b-55de-9171-a0c6a8b8200d");
    }
}
