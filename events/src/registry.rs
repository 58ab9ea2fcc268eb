//! All kinds of events, in all their versions.
//!
//! A noun's file lists its events with [`noun!`]; this file lists the nouns. In this crate's code, a new event needs
//! one payload struct, one line in the noun's list and one sample; CONTRIBUTING.md lists the other files. A new noun
//! needs one file and one line here. For a changed payload, add a new struct and raise the version in the list. Name
//! the old struct after its version (`...V1`), add it to the `from` clause, and implement `From<...V1>` for the new
//! struct. If leaders shall still write the old version while not all members know the new one, add the old struct to
//! the `else` clause, and implement [`OlderForm`].

use thiserror::Error;

use crate::codec::CodecError;
use crate::{
    access, console, erasure, external, flavor, fleet, host, host_aggregate, identity, image, installation, instance,
    keypair, ledger, network, network_quota, notification, process, quota, quota_class, router, security_group,
    server_group, volume, volume_quota, volume_type,
};

#[derive(Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    #[error("event kind {0} is not known to this version")]
    UnknownKind(String),
    #[error("{kind} version {version} is not known to this version")]
    UnknownVersion { kind: String, version: u16 },
    #[error("{kind} version {version} is damaged")]
    Damaged {
        kind: String,
        version: u16,
        #[source]
        source: CodecError,
    },
}

/// An older version of a payload that can express some values of the newest version `N`. Members of an older version
/// read it during an upgrade.
pub trait OlderForm<N>: Sized {
    /// The same fact in the older version. `None` if the older version would lose a part of it. The result, converted
    /// to the newest version by `From`, must equal `newest`.
    fn of(newest: &N) -> Option<Self>;
}

/// The events of one noun; implemented by [`noun!`] only.
pub trait NounEvent: Clone + Sized + Into<Event> {
    /// The first word of the kinds, for example `instance`.
    const NOUN: &'static str;
    /// For example `instance.build_requested`.
    fn kind(&self) -> &'static str;
    /// The version in which new events of this kind are written.
    fn version(&self) -> u16;
    fn encode(&self) -> Result<Vec<u8>, CodecError>;
    /// The payload's bytes in this version. `None` if the version cannot express the event.
    fn encode_as(&self, version: u16) -> Option<Result<Vec<u8>, CodecError>>;
    fn decode(kind: &str, version: u16, codec: u8, bytes: &[u8]) -> Result<Self, DecodeError>;
    /// The payload as JSON, for people and auditors.
    fn json(&self) -> serde_json::Value;
    /// The event of this noun inside `event`; `None` if `event` is of another noun.
    fn of(event: &Event) -> Option<&Self>;
    /// The kind, newest version and description of each event.
    fn catalogue() -> Vec<EventCatalogueEntry>;
}

/// One line of the event catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventCatalogueEntry {
    pub kind: &'static str,
    pub version: u16,
    /// Older versions that can still be read.
    pub older: &'static [u16],
    pub doc: &'static str,
}

/// Defines the event enum of one noun. Variant and payload struct share their name.
#[macro_export]
macro_rules! noun {
    (
        $(#[$meta:meta])*
        $enum:ident = $noun:literal {
            $( #[doc = $doc:literal] $variant:ident = $kind:literal @ $version:literal $(from { $($old:literal => $oldty:ty),+ })?
                $(else { $($less:literal => $lessty:ty),+ })?, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[allow(clippy::large_enum_variant)]
        pub enum $enum { $( #[doc = $doc] $variant($variant), )+ }

        impl $crate::registry::NounEvent for $enum {
            const NOUN: &'static str = $noun;

            fn kind(&self) -> &'static str {
                match self { $( Self::$variant(_) => concat!($noun, ".", $kind), )+ }
            }

            fn version(&self) -> u16 {
                match self { $( Self::$variant(_) => $version, )+ }
            }

            fn encode(&self) -> Result<Vec<u8>, $crate::codec::CodecError> {
                match self { $( Self::$variant(payload) => $crate::codec::encode(payload), )+ }
            }

            fn encode_as(&self, version: u16) -> Option<Result<Vec<u8>, $crate::codec::CodecError>> {
                match self {
                    $( Self::$variant(payload) => match version {
                        $version => Some($crate::codec::encode(payload)),
                        $($( $less => <$lessty as $crate::registry::OlderForm<$variant>>::of(payload)
                            .map(|older| $crate::codec::encode(&older)), )+)?
                        _ => None,
                    }, )+
                }
            }

            fn json(&self) -> serde_json::Value {
                match self { $( Self::$variant(payload) => serde_json::to_value(payload).unwrap_or_default(), )+ }
            }

            fn decode(kind: &str, version: u16, codec: u8, bytes: &[u8]) -> Result<Self, $crate::registry::DecodeError> {
                let damaged = |source| $crate::registry::DecodeError::Damaged { kind: kind.to_owned(), version, source };
                match (kind, version) {
                    $(
                        (concat!($noun, ".", $kind), $version) => {
                            $crate::codec::decode::<$variant>(codec, bytes).map(Self::$variant).map_err(damaged)
                        }
                        $($( (concat!($noun, ".", $kind), $old) => {
                            $crate::codec::decode::<$oldty>(codec, bytes).map(|old| Self::$variant(old.into())).map_err(damaged)
                        } )+)?
                    )+
                    _ => Err(if [$( concat!($noun, ".", $kind) ),+].contains(&kind) {
                        $crate::registry::DecodeError::UnknownVersion { kind: kind.to_owned(), version }
                    } else {
                        $crate::registry::DecodeError::UnknownKind(kind.to_owned())
                    }),
                }
            }

            fn of(event: &$crate::registry::Event) -> Option<&Self> {
                match event {
                    $crate::registry::Event::$enum(event) => Some(event),
                    _ => None,
                }
            }

            fn catalogue() -> Vec<$crate::registry::EventCatalogueEntry> {
                vec![$( $crate::registry::EventCatalogueEntry {
                    kind: concat!($noun, ".", $kind),
                    version: $version,
                    older: &[$($($old),+)?],
                    doc: $doc.trim_ascii(),
                }, )+]
            }
        }

        $( impl From<$variant> for $enum { fn from(payload: $variant) -> Self { Self::$variant(payload) } } )+
    };
}

/// Defines [`Event`] over all nouns.
macro_rules! nouns {
    ($( $enum:ident in $module:ident, )+) => {
        /// Any event.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(clippy::large_enum_variant)] // events live in `Arc`s
        pub enum Event { $( $enum($module::$enum), )+ }

        $( impl From<$module::$enum> for Event { fn from(event: $module::$enum) -> Self { Self::$enum(event) } } )+

        impl Event {
            pub fn kind(&self) -> &'static str {
                match self { $( Self::$enum(event) => event.kind(), )+ }
            }

            pub fn version(&self) -> u16 {
                match self { $( Self::$enum(event) => event.version(), )+ }
            }

            /// The payload as JSON, for people and auditors.
            pub fn json(&self) -> serde_json::Value {
                match self { $( Self::$enum(event) => event.json(), )+ }
            }

            /// The payload's bytes, in [`BINCODE_2`](crate::codec::BINCODE_2).
            pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
                match self { $( Self::$enum(event) => event.encode(), )+ }
            }

            /// The payload's bytes in this version, in [`BINCODE_2`](crate::codec::BINCODE_2). `None` if the version
            /// cannot express the event.
            pub fn encode_as(&self, version: u16) -> Option<Result<Vec<u8>, CodecError>> {
                match self { $( Self::$enum(event) => event.encode_as(version), )+ }
            }

            /// Decodes an event of any known version and converts it to the newest.
            pub fn decode(kind: &str, version: u16, codec: u8, bytes: &[u8]) -> Result<Self, DecodeError> {
                match kind.split_once('.').map_or(kind, |(noun, _)| noun) {
                    $( <$module::$enum>::NOUN => <$module::$enum>::decode(kind, version, codec, bytes).map(Self::$enum), )+
                    _ => Err(DecodeError::UnknownKind(kind.to_owned())),
                }
            }
        }

        /// Whether this is the name of a noun, and so the category of its streams.
        pub fn is_noun(name: &str) -> bool {
            [$( <$module::$enum>::NOUN ),+].contains(&name)
        }

        /// Every kind of event, in the order of the nouns.
        pub fn catalogue() -> Vec<EventCatalogueEntry> {
            let mut all = Vec::new();
            $( all.extend(<$module::$enum>::catalogue()); )+
            all
        }

        /// At least one example of every kind. The golden bytes and the round-trip tests use these.
        pub fn samples() -> Vec<Event> {
            let mut all: Vec<Event> = Vec::new();
            $( all.extend($module::samples().into_iter().map(Event::from)); )+
            all
        }
    };
}

nouns! {
    AccessEvent in access,
    ConsoleEvent in console,
    ErasureEvent in erasure,
    ExternalEvent in external,
    FlavorEvent in flavor,
    FleetEvent in fleet,
    HostEvent in host,
    HostAggregateEvent in host_aggregate,
    IdentityEvent in identity,
    ImageEvent in image,
    InstallationEvent in installation,
    InstanceEvent in instance,
    KeypairEvent in keypair,
    LedgerEvent in ledger,
    NetworkEvent in network,
    NetworkQuotaEvent in network_quota,
    NotificationEvent in notification,
    ProcessEvent in process,
    QuotaEvent in quota,
    QuotaClassEvent in quota_class,
    RouterEvent in router,
    SecurityGroupEvent in security_group,
    ServerGroupEvent in server_group,
    VolumeEvent in volume,
    VolumeQuotaEvent in volume_quota,
    VolumeTypeEvent in volume_type,
}
