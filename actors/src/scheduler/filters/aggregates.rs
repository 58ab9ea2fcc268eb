//! Filters on the metadata of a host's aggregates.

use super::filter::{Filter, PLAIN};
use crate::scheduler::comparison::{matches, some};
use crate::scheduler::context::HostState;

pub(super) const IMAGE_PROPERTIES: Filter = Filter {
    name: "AggregateImagePropertiesIsolation",
    always: false,
    on_rebuild: true,
    applies: |context| context.request.image.is_some(),
    passes: |host| strange_property(host).is_none(),
    says: |host| {
        let Some((key, value)) = strange_property(host) else { return String::new() };
        let admitted = host.listed(key);
        format!("image property {key}: the host's aggregates admit {}, the image has {value}", some(admitted, 4))
    },
    lacks: |_| "no host is in an aggregate that admits the image's properties".to_owned(),
};

/// The first image property that an aggregate of the host does not admit. As in Nova since 12.0, only standard
/// properties are compared.
fn strange_property<'a>(host: &HostState<'a>) -> Option<(&'a str, &'a str)> {
    const STANDARD: [&str; 3] = ["hw_", "img_", "os_"];
    let options = host.context.options;
    let in_namespace = |key: &str| match options.aggregate_image_properties_isolation_namespace.as_deref() {
        None | Some("") => true,
        Some(space) => {
            let separator = &options.aggregate_image_properties_isolation_separator;
            key.strip_prefix(space).is_some_and(|rest| rest.starts_with(separator.as_str()))
        }
    };
    host.aggregates().flat_map(|aggregate| aggregate.metadata.keys()).find_map(|key| {
        if !in_namespace(key) || !STANDARD.iter().any(|prefix| key.starts_with(prefix)) {
            return None;
        }
        let value = host.context.request.property(key).filter(|value| !value.is_empty())?;
        (!host.listed(key).contains(&value)).then_some((key.as_str(), value))
    })
}

pub(super) const EXTRA_SPECS: Filter = Filter {
    name: "AggregateInstanceExtraSpecsFilter",
    applies: |context| !context.request.flavor.extra_specs.is_empty(),
    passes: |host| unmet_spec(host).is_none(),
    says: |host| {
        let Some((key, wanted)) = unmet_spec(host) else { return String::new() };
        format!("extra spec {key}: wants {wanted}, the host's aggregates say {}", some(host.listed(key), 4))
    },
    lacks: |_| "no host is in an aggregate that the flavor's extra specs ask for".to_owned(),
    ..PLAIN
};

fn unmet_spec<'a>(host: &HostState<'a>) -> Option<(&'a str, &'a str)> {
    host.context.request.flavor.extra_specs.iter().find_map(|(key, wanted)| {
        let key = match key.split_once(':') {
            Some(("aggregate_instance_extra_specs", key)) => key,
            Some(_) => return None,
            None => key,
        };
        let met = host.listed(key).iter().any(|value| matches(value, wanted));
        (!met).then_some((key, wanted.as_str()))
    })
}

/// The key may have any suffix. For example, `filter_tenant_id3` keeps an aggregate for one more project.
pub(super) const TENANCY: Filter = Filter {
    name: "AggregateMultiTenancyIsolation",
    passes: |host| {
        let metadata = host.aggregates().flat_map(|aggregate| &aggregate.metadata);
        let kept = metadata.filter(|(key, _)| key.starts_with("filter_tenant_id"));
        let mut listed = kept.map(|(_, value)| value.as_str()).peekable();
        let project = host.context.request.project.as_str();
        listed.peek().is_none() || listed.any(|value| value.split(',').any(|one| one.trim() == project))
    },
    says: |_| "the host's aggregates are reserved for other projects".to_owned(),
    lacks: |_| "every host with room is reserved for other projects".to_owned(),
    ..PLAIN
};

pub(super) const TYPE_AFFINITY: Filter = Filter {
    name: "AggregateTypeAffinityFilter",
    passes: |host| {
        let mut listed = host.said("instance_type").peekable();
        let flavor = &host.context.request.flavor.name;
        listed.peek().is_none() || listed.any(|value| value.split(',').any(|one| one.trim() == flavor))
    },
    says: |host| {
        let flavor = &host.context.request.flavor.name;
        format!("flavor {flavor}: the host's aggregates admit {}", some(host.listed("instance_type"), 4))
    },
    lacks: |context| format!("every host with room is reserved for flavors other than {}", context.request.flavor.name),
    ..PLAIN
};
