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
    use std::collections::BTreeSet;

    use super::*;
    use crate::answers::AnswerContent;
    use crate::microversion::Microversion;
    use crate::route::BodySpec;
    use crate::schema::{Dialect, Validator};

    /// The minor version of the Compute API, and the operations whose requests change with it.
    const REQUESTS: &[(u16, &[&str])] = &[
        (2, &["keypairs.create"]),
        (8, &["remote_consoles.create"]),
        (10, &["keypairs.create", "keypairs.delete", "keypairs.index", "keypairs.show"]),
        (11, &["services.update"]),
        (14, &["evacuate.evacuate"]),
        (15, &["server_groups.create"]),
        (
            19,
            &[
                "servers.create",
                "servers.rebuild",
                "servers.update",
                "volumes_boot.create",
                "volumes_boot.rebuild",
                "volumes_boot.update",
            ],
        ),
        (25, &["migrate_server.os-migrateLive"]),
        (26, &["servers.detail", "servers.index", "volumes_boot.detail", "volumes_boot.index"]),
        (29, &["evacuate.evacuate"]),
        (30, &["migrate_server.os-migrateLive"]),
        (32, &["servers.create", "volumes_boot.create"]),
        (33, &["hypervisors.detail", "hypervisors.index", "servers.create", "volumes_boot.create"]),
        (35, &["keypairs.index"]),
        (36, &["quota_sets.update"]),
        (37, &["servers.create", "volumes_boot.create"]),
        (40, &["simple_tenant_usage.index", "simple_tenant_usage.show"]),
        (42, &["servers.create", "volumes_boot.create"]),
        (49, &["attach_interfaces.create", "volume_attachments.create"]),
        (50, &["quota_classes.update"]),
        (51, &["server_external_events.create"]),
        (52, &["servers.create", "volumes_boot.create"]),
        (53, &["hypervisors.detail", "hypervisors.index", "hypervisors.show", "services.update"]),
        (54, &["servers.rebuild", "volumes_boot.rebuild"]),
        (55, &["flavors.create"]),
        (56, &["migrate_server.migrate"]),
        (
            57,
            &[
                "quota_classes.update",
                "quota_sets.update",
                "servers.create",
                "servers.rebuild",
                "volumes_boot.create",
                "volumes_boot.rebuild",
            ],
        ),
        (58, &["instance_actions.index"]),
        (59, &["migrations.index"]),
        (63, &["servers.create", "servers.rebuild", "volumes_boot.create", "volumes_boot.rebuild"]),
        (64, &["server_groups.create"]),
        (
            66,
            &[
                "instance_actions.index",
                "migrations.index",
                "servers.detail",
                "servers.index",
                "volumes_boot.detail",
                "volumes_boot.index",
            ],
        ),
        (67, &["servers.create", "volumes_boot.create"]),
        (68, &["evacuate.evacuate", "migrate_server.os-migrateLive"]),
        (73, &["lock_server.lock", "servers.detail", "servers.index", "volumes_boot.detail", "volumes_boot.index"]),
        (74, &["servers.create", "volumes_boot.create"]),
        (
            75,
            &[
                "assisted_volume_snapshots.delete",
                "flavors.detail",
                "flavors.index",
                "keypairs.delete",
                "keypairs.index",
                "keypairs.show",
                "limits.index",
                "quota_sets.delete",
                "quota_sets.detail",
                "quota_sets.show",
                "quota_sets.update",
                "server_groups.index",
                "servers.detail",
                "servers.index",
                "services.index",
                "simple_tenant_usage.index",
                "simple_tenant_usage.show",
                "volume_attachments.index",
                "volumes_boot.detail",
                "volumes_boot.index",
            ],
        ),
        (76, &["server_external_events.create"]),
        (77, &["shelve.unshelve"]),
        (79, &["volume_attachments.create"]),
        (80, &["migrations.index"]),
        (82, &["server_external_events.create"]),
        (
            90,
            &[
                "servers.create",
                "servers.rebuild",
                "servers.update",
                "volumes_boot.create",
                "volumes_boot.rebuild",
                "volumes_boot.update",
            ],
        ),
        (91, &["shelve.unshelve"]),
        (92, &["keypairs.create"]),
        (93, &["server_external_events.create"]),
        (
            94,
            &[
                "servers.create",
                "servers.rebuild",
                "servers.update",
                "volumes_boot.create",
                "volumes_boot.rebuild",
                "volumes_boot.update",
            ],
        ),
        (99, &["console_auth_tokens.show", "remote_consoles.create"]),
        (
            102,
            &[
                "aggregates.index",
                "aggregates.show",
                "attach_interfaces.index",
                "attach_interfaces.show",
                "availability_zone.detail",
                "availability_zone.index",
                "extension_info.index",
                "extension_info.show",
                "flavor_access.index",
                "flavors.create",
                "flavors.detail",
                "flavors.index",
                "flavors.show",
                "flavors_extraspecs.index",
                "flavors_extraspecs.show",
                "instance_actions.show",
                "instance_usage_audit_log.index",
                "instance_usage_audit_log.show",
                "ips.index",
                "ips.show",
                "quota_classes.show",
                "security_groups.ServerSecurityGroup.index",
                "server_diagnostics.index",
                "server_groups.show",
                "server_metadata.index",
                "server_metadata.show",
                "server_migrations.index",
                "server_migrations.show",
                "server_password.index",
                "server_tags.delete",
                "server_topology.index",
                "servers.scheduling",
                "servers.show",
                "volumes_boot.show",
            ],
        ),
        (104, &["servers.update"]),
    ];

    /// Source: the history of the Compute API. Tests of the operations show what the change is.
    #[test]
    fn requests_change_at_the_versions_of_their_history_alone() {
        let mut found = BTreeMap::<u16, BTreeSet<&str>>::new();
        for route in of(Service::Compute).iter().copied().flatten() {
            let body = match route.body {
                BodySpec::Json(schema) => Some(schema),
                BodySpec::None | BodySpec::AnyJson | BodySpec::Raw => None,
            };
            for version in [route.query, body].into_iter().flatten().flat_map(|schema| schema().breakpoints()) {
                if version > route.since && version.within(route.since, route.until) {
                    found.entry(version.minor).or_default().insert(route.op);
                }
            }
        }
        let expected = REQUESTS.iter().map(|(minor, operations)| (*minor, operations.iter().copied().collect()));
        assert_eq!(found, expected.collect::<BTreeMap<_, _>>());
    }

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
