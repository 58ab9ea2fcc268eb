//! The only list of the services beside compute that have personal data.

use super::holder::PersonalDataHolder;
use crate::services::embedded::identity::erasure::IdentityData;
use crate::services::embedded::network::erasure::PortNames;

/// The services, in the order in which an erasure calls them.
pub(super) static HOLDERS: &[&dyn PersonalDataHolder] = &[&PortNames, &IdentityData];
