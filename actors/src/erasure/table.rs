//! The one table of services that hold personal data beside compute.

use super::holder::PersonalDataHolder;
use crate::services::embedded::identity::erasure::IdentityData;
use crate::services::embedded::network::erasure::PortNames;

/// In this order they are told of an erasure.
pub(super) static HOLDERS: &[&dyn PersonalDataHolder] = &[&PortNames, &IdentityData];
