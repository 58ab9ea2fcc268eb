//! Every service's route tables, and the routers made of them.

use std::collections::BTreeMap;

use crate::route::Route;
use crate::router::{OperationRouter, TableError};
use crate::service::Service;

/// The tables of a service: its own module lists them.
pub const fn of(service: Service) -> &'static [&'static [Route]] {
    match service {
        Service::Compute => crate::compute::ROUTES,
        Service::Placement => crate::placement::ROUTES,
        Service::Identity => crate::identity::ROUTES,
        Service::Image => crate::image::ROUTES,
        Service::Network => crate::network::ROUTES,
        Service::Volume => crate::volume::ROUTES,
        Service::Metadata => crate::metadata::ROUTES,
        Service::Chronova => &[
            crate::audit::EVENTS,
            crate::audit::CHANGES,
            crate::audit::ERASURES,
            crate::operator::HOSTS,
            crate::operator::FORECASTS,
            crate::operator::PERMISSIONS,
            crate::operator::ALLOCATIONS,
            crate::operator::LIMITS,
            crate::operator::MACHINE_TYPES,
            crate::operator::SERVERS,
        ],
    }
}

/// All routers.
#[derive(Debug)]
pub struct Routers {
    routers: BTreeMap<Service, OperationRouter>,
}

impl Routers {
    /// The routers of the tables that are compiled in.
    pub fn all() -> Self {
        Self::of(&Service::ALL.map(|service| (service, of(service))))
    }

    /// Routers of other tables, for tests.
    pub fn of(tables: &[(Service, &[&'static [Route]])]) -> Self {
        Self {
            routers: tables
                .iter()
                .map(|(service, tables)| (*service, OperationRouter::new(*service, tables)))
                .collect(),
        }
    }

    pub fn get(&self, service: Service) -> Option<&OperationRouter> {
        self.routers.get(&service)
    }

    /// Compiles every schema now, not at its first use.
    pub fn compile_all(&self) -> Result<(), TableError> {
        self.routers.values().try_for_each(OperationRouter::compile_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_compiles() {
        assert_eq!(Routers::all().compile_all(), Ok(()));
    }
}
