//! Every service's route tables, and the routers made of them.

use std::collections::BTreeMap;

use crate::route::Route;
use crate::router::{OperationRouter, TableError};
use crate::service::Service;

/// The route tables of a service. The service's module lists them. Chronova's own API has several modules, so its list
/// is here.
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
    use crate::answers::AnswerContent;
    use crate::microversion::Microversion;
    use crate::schema::{Dialect, Validator};

    #[test]
    fn every_table_compiles() {
        assert_eq!(Routers::all().compile_all(), Ok(()));
    }

    #[test]
    fn every_operation_describes_its_answers() {
        let mut missing = Vec::new();
        // The answers of the metadata service are files for guests, in the formats of OpenStack and EC2.
        for service in Service::ALL.into_iter().filter(|service| *service != Service::Metadata) {
            let routes = of(service).iter().copied().flatten().filter(|route| route.removed.is_none());
            missing.extend(routes.filter(|route| route.answers.is_none()).map(|route| route.op));
        }
        assert!(missing.is_empty(), "{missing:?}");
    }

    /// In each version of an operation, a status has at most one body of each media type, and every schema is valid.
    #[test]
    fn every_description_is_unambiguous_and_compiles() {
        for route in Service::ALL.into_iter().flat_map(|service| of(service).iter().copied().flatten()) {
            let answers = route.answers.map(|answers| answers()).unwrap_or_default();
            let mut starts: Vec<Microversion> = vec![route.since];
            for form in answers.forms() {
                starts.extend([form.since].into_iter().chain(form.until.map(Microversion::next)));
                if let AnswerContent::Json(schema) = &form.content {
                    starts.extend(schema.breakpoints());
                }
            }
            for version in starts.into_iter().filter(|version| version.within(route.since, route.until)) {
                let mut seen = Vec::new();
                for form in answers.at(version) {
                    let media_type = match &form.content {
                        AnswerContent::Empty => "",
                        AnswerContent::Other(media_type) => *media_type,
                        AnswerContent::Json(schema) => {
                            let compiled = Validator::compile(schema.render(version), Dialect::Plain);
                            assert!(compiled.is_ok(), "{route:?} at {version}: {:?}", compiled.err());
                            "application/json"
                        }
                    };
                    let shown = (form.status, media_type);
                    assert!((200..400).contains(&form.status), "{route:?}: {}", form.status);
                    assert!(!seen.contains(&shown), "{route:?} at {version}: {shown:?} twice");
                    seen.push(shown);
                }
                let always_refuses = answers.forms().is_empty();
                assert!(always_refuses || !seen.is_empty(), "{route:?} has no answer at {version}");
            }
        }
    }
}
