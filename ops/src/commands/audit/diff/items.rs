//! The items that are compared at two moments: servers, hosts, host aggregates and flavors, or users and their roles.

use std::collections::BTreeMap;

use chronova_events::host::KnownHost;
use chronova_events::host_aggregate::HostAggregate;
use chronova_events::identity::{Grant, Identity};
use chronova_events::ids::{InstanceId, UserId};
use chronova_events::instance::{Alive, ImageSnapshot, InstanceDisk, NicInfo, status};
use chronova_projections::servers::ServerRow;
use chronova_projections::views::Views;

use super::super::roles::assignment;

/// Items by kind and id.
pub(super) type ComparedItems = BTreeMap<(&'static str, String), ComparedItem>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ComparedItem {
    pub name: String,
    /// Fields without a value are left out.
    pub fields: BTreeMap<String, String>,
}

impl ComparedItem {
    fn new<F: Into<String>>(name: impl Into<String>, fields: impl IntoIterator<Item = (F, String)>) -> Self {
        let fields = fields.into_iter().map(|(field, value)| (field.into(), value));
        Self { name: name.into(), fields: fields.filter(|(_, value)| !value.is_empty()).collect() }
    }
}

fn yes_or_no(truth: bool) -> String {
    if truth { "yes" } else { "no" }.to_owned()
}

fn maybe<T: ToString>(value: Option<&T>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

fn pairs(pairs: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>) -> String {
    let all: Vec<String> =
        pairs.into_iter().map(|(key, value)| format!("{}={}", key.as_ref(), value.as_ref())).collect();
    all.join(", ")
}

/// The servers that are not deleted, the hosts, the host aggregates and the flavors.
pub(super) fn fleet(views: &Views) -> ComparedItems {
    let mut items = ComparedItems::new();
    views.servers.read(|servers| {
        for row in servers.all() {
            if let Some(server) = row.instance.alive() {
                let item = ComparedItem::new(&server.request.name, brief(row, server));
                items.insert(("server", row.id.to_string()), item);
            }
        }
    });
    views.hosts.read(|hosts| {
        for known in hosts.all() {
            items.insert(("host", known.id.to_string()), ComparedItem::new(&known.hostname, host(known)));
        }
    });
    views.host_aggregates.read(|aggregates| {
        for known in aggregates.all() {
            items.insert(("aggregate", known.number.to_string()), ComparedItem::new(&known.name, aggregate(known)));
        }
    });
    views.flavors.read(|view| {
        for flavor in view.flavors.by_id.values() {
            let definition = &flavor.definition;
            let fields = [
                ("vcpus", definition.vcpus.to_string()),
                ("memory (MiB)", definition.memory_mib.to_string()),
                ("root disk (GiB)", definition.root_gib.to_string()),
                ("public", yes_or_no(definition.public)),
                ("extra specs", pairs(flavor.extra_specs.iter().map(|(key, value)| (key, value)))),
            ];
            items.insert(("flavor", definition.flavor.to_string()), ComparedItem::new(&definition.name, fields));
        }
    });
    items
}

/// The fields of a server that operators look at first.
fn brief(row: &ServerRow, server: &Alive) -> Vec<(&'static str, String)> {
    let shown = status::of(&row.instance);
    let addresses: Vec<&str> =
        server.nics.iter().flat_map(|nic| &nic.fixed_ips).map(|fixed| fixed.address.as_str()).collect();
    vec![
        ("name", server.request.name.clone()),
        ("project", server.request.project.to_string()),
        ("status", shown.map(|shown| shown.status.to_owned()).unwrap_or_default()),
        ("task", shown.and_then(|shown| shown.task_state).unwrap_or_default().to_owned()),
        ("host", server.placement.as_ref().map(|placed| placed.hostname.clone()).unwrap_or_default()),
        ("flavor", server.request.flavor.name.clone()),
        ("addresses", addresses.join(", ")),
    ]
}

/// One server with all its fields. It may be deleted.
pub(super) fn server(views: &Views, id: InstanceId) -> ComparedItems {
    let row = views.servers.read(|servers| servers.get(id).cloned());
    let Some((row, server)) = row.as_deref().and_then(|row| Some((row, row.server()?))) else {
        return ComparedItems::new();
    };
    let request = &server.request;
    let mut fields: Vec<(String, String)> =
        brief(row, server).into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
    let image = |image: &ImageSnapshot| format!("{} ({})", image.name, image.id);
    let lock = server.lock.as_ref().map(|lock| lock.reason.clone().unwrap_or_else(|| "yes".to_owned()));
    for (field, value) in [
        ("user", request.user.to_string()),
        ("hostname", request.hostname.clone()),
        ("description", request.description.clone().unwrap_or_default()),
        ("power", format!("{:?}", server.power())),
        ("zone", server.placement.as_ref().map(|placed| placed.availability_zone.clone()).unwrap_or_default()),
        ("vcpus", request.flavor.vcpus.to_string()),
        ("memory (MiB)", request.flavor.memory_mib.to_string()),
        ("root disk (GiB)", request.flavor.root_gib.to_string()),
        ("extra specs", pairs(request.flavor.extra_specs.iter().map(|(key, value)| (key, value)))),
        ("image", server.root_image().map(image).unwrap_or_default()),
        ("rescue image", server.rescue.as_deref().map(image).unwrap_or_default()),
        ("key", request.key.as_ref().map(|key| key.name.clone()).unwrap_or_default()),
        ("tags", request.tags.join(", ")),
        ("locked", lock.unwrap_or_default()),
        ("fault", server.fault.as_ref().map(|fault| fault.0.message.clone()).unwrap_or_default()),
        ("launched", maybe(server.launched_at.as_ref())),
        ("terminated", maybe(server.terminated_at.as_ref())),
    ] {
        fields.push((field.to_owned(), value));
    }
    fields.extend(request.metadata.iter().map(|(key, value)| (format!("metadata {key}"), value.clone())));
    fields.extend(server.nics.iter().map(|nic| (format!("port {}", nic.port), interface(nic))));
    fields.extend(server.disks.iter().map(|disk| (format!("disk {}", disk.device.id), content(disk))));
    ComparedItems::from([(("server", id.to_string()), ComparedItem::new(&request.name, fields))])
}

fn interface(nic: &NicInfo) -> String {
    let addresses: Vec<&str> = nic.fixed_ips.iter().map(|fixed| fixed.address.as_str()).collect();
    let groups = nic.security_groups.join(", ");
    format!("{} {} on {}, security groups: {groups}", nic.mac, addresses.join(" "), nic.network_label)
}

fn content(disk: &InstanceDisk) -> String {
    let device = &disk.device;
    let name = device.device_name.as_deref().unwrap_or("a disk without a name");
    match device.volume {
        Some(volume) => format!("{name}, volume {volume}"),
        None if device.is_volume() => format!("{name}, a volume that does not exist yet"),
        None => format!("{name}, on the host"),
    }
}

/// The server with this id. Otherwise the servers with this name that are not deleted, or else the deleted ones.
pub(super) fn servers_named(views: &Views, text: &str) -> Vec<InstanceId> {
    views.servers.read(|servers| {
        if let Some(row) = text.parse().ok().and_then(|id| servers.get(id)) {
            return vec![row.id];
        }
        let named = |row: &&std::sync::Arc<ServerRow>| row.server().is_some_and(|server| server.request.name == text);
        let named: Vec<_> = servers.all().filter(named).collect();
        let living: Vec<InstanceId> =
            named.iter().filter(|row| row.instance.alive().is_some()).map(|row| row.id).collect();
        if living.is_empty() { named.iter().map(|row| row.id).collect() } else { living }
    })
}

fn host(host: &KnownHost) -> [(&'static str, String); 7] {
    [
        ("name", host.hostname.clone()),
        ("uri", host.uri.clone()),
        ("up", yes_or_no(host.answers())),
        ("enabled", yes_or_no(host.enabled)),
        ("reason", host.disabled_reason.clone().unwrap_or_default()),
        ("maintenance", yes_or_no(host.maintenance.is_some())),
        ("being drained", yes_or_no(host.draining().is_some())),
    ]
}

fn aggregate(aggregate: &HostAggregate) -> [(&'static str, String); 3] {
    let hosts: Vec<&str> = aggregate.hosts.iter().map(|(_, hostname)| hostname.as_str()).collect();
    [("name", aggregate.name.clone()), ("hosts", hosts.join(", ")), ("metadata", pairs(&aggregate.metadata))]
}

/// Domains, projects, users, roles and assignments of the embedded identity service.
pub(super) fn access(views: &Views) -> ComparedItems {
    views.identities.read(|view| access_of(&view.identity))
}

fn access_of(identity: &Identity) -> ComparedItems {
    let mut items = ComparedItems::new();
    for domain in identity.domains.values() {
        let fields = [("name", domain.name.clone()), ("enabled", yes_or_no(domain.enabled))];
        items.insert(("domain", domain.id.to_string()), ComparedItem::new(&domain.name, fields));
    }
    for project in identity.projects.values() {
        let fields = [
            ("name", project.attributes.name.clone()),
            ("domain", project.domain.to_string()),
            ("parent", maybe(project.parent.as_ref())),
            ("enabled", yes_or_no(project.enabled)),
        ];
        items.insert(("project", project.id.to_string()), ComparedItem::new(&project.attributes.name, fields));
    }
    for user in identity.users.values() {
        let fields = [
            ("name", user.attributes.name.clone()),
            ("domain", user.domain.to_string()),
            ("default project", maybe(user.attributes.default_project.as_ref())),
            ("enabled", yes_or_no(user.enabled)),
        ];
        items.insert(("user", user.id.to_string()), ComparedItem::new(&user.attributes.name, fields));
        for credential in identity.credentials_of(&user.id) {
            let name = format!("{} of {}", credential.name, user.attributes.name);
            let fields = [
                ("project", credential.project.to_string()),
                ("unrestricted", yes_or_no(credential.unrestricted)),
                ("expires at", maybe(credential.expires_at.as_ref())),
            ];
            items.insert(("application credential", credential.id.to_string()), ComparedItem::new(&name, fields));
        }
    }
    for role in identity.roles.values() {
        items.insert(("role", role.id.to_string()), ComparedItem::new(&role.name, [("name", role.name.clone())]));
        for implied in identity.implied.get(&role.id).into_iter().flatten() {
            let name = identity.roles.get(implied).map_or_else(|| implied.to_string(), |role| role.name.clone());
            let name = format!("{} implies {name}", role.name);
            items.insert(("rule", name.clone()), ComparedItem { name, ..ComparedItem::default() });
        }
    }
    for (user, grants) in &identity.grants {
        for grant in grants {
            let (id, name) = (assignment_id(user, grant), assigned(identity, user, grant));
            items.insert(("assignment", id), ComparedItem { name, ..ComparedItem::default() });
        }
    }
    items
}

fn assignment_id(user: &UserId, grant: &Grant) -> String {
    use chronova_events::identity::IdentityScope::{Domain, Project, System};
    let scope = match &grant.scope {
        Project(id) => format!("projects/{id}"),
        Domain(id) => format!("domains/{id}"),
        System => "system".to_owned(),
    };
    let below = if grant.inherited { "/inherited_to_projects" } else { "" };
    format!("{scope}/users/{user}/roles/{}{below}", grant.role)
}

/// `alice: member on project web`.
fn assigned(identity: &Identity, user: &UserId, grant: &Grant) -> String {
    let name = identity.users.get(user).map_or(user.as_str(), |user| user.attributes.name.as_str());
    format!("{name}: {}", assignment(identity, grant))
}
