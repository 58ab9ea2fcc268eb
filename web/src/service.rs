//! The names of the APIs. This file imports no other file of the crate, so that every other file may import it.

/// The APIs that one process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    Compute,
    Placement,
    Identity,
    Image,
    Network,
    Volume,
    Metadata,
    /// Chronova's own API, for auditors and operators.
    Chronova,
}

impl Service {
    pub const ALL: [Self; 8] = [
        Self::Compute,
        Self::Placement,
        Self::Identity,
        Self::Image,
        Self::Network,
        Self::Volume,
        Self::Metadata,
        Self::Chronova,
    ];

    /// The prefix on the common port.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Placement => "placement",
            Self::Identity => "identity",
            Self::Image => "image",
            Self::Network => "network",
            Self::Volume => "volume",
            Self::Metadata => "metadata",
            Self::Chronova => "chronova",
        }
    }

    /// The service type of the catalogue.
    pub const fn catalogue_type(self) -> &'static str {
        match self {
            Self::Volume => "volumev3",
            other => other.name(),
        }
    }

    /// The path of the operations below the service's root.
    pub const fn api_root(self) -> &'static str {
        match self {
            Self::Compute => "/v2.1",
            Self::Placement | Self::Metadata => "",
            Self::Identity | Self::Volume => "/v3",
            Self::Chronova => "/v1",
            Self::Image => "/v2",
            Self::Network => "/v2.0",
        }
    }
}
