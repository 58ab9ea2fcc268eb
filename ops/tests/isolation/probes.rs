//! Requests that name another tenant's resources.
//!
//! A request is a template with placeholders such as `<server>`. Each placeholder becomes a resource of the victim, a
//! resource of the attacker, or an unknown resource. At least one placeholder becomes a resource of the victim or a
//! shared network.

use chronova_web::route::{BodySpec, Method, Route};
use chronova_web::service::Service;
use chronova_web::tables;

use super::resources::{SharedResources, TenantResources};
use super::tenant_user::Request;

/// One attack.
pub struct Probe {
    pub op: &'static str,
    /// The request with the victim's resources.
    pub theirs: Request,
    /// The same request with unknown resources instead of the victim's.
    pub unknown: Request,
    /// The values of the placeholders in both requests, longest first.
    pub named: [Vec<String>; 2],
    names_shared_network: bool,
}

impl Probe {
    pub fn writes(&self) -> bool {
        self.theirs.method != "GET"
    }

    /// Whether the answer may reveal that the victim's resource exists: all tenants see shared networks, and some
    /// operations answer 403 or 409 instead of 404.
    pub fn may_differ(&self) -> bool {
        self.names_shared_network || REVEALING.iter().any(|(op, _)| *op == self.op)
    }
}

/// A generator of random numbers (xorshift64*): the same seed gives the same attacks.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16).unwrap() % bound
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    fn word(&mut self, like: &str) -> String {
        let mut random_like = |c: char| match c {
            '0'..='9' => char::from(b'0' + u8::try_from(self.below(10)).unwrap()),
            'a'..='f' => char::from(b'a' + u8::try_from(self.below(6)).unwrap()),
            'g'..='z' => char::from(b'g' + u8::try_from(self.below(20)).unwrap()),
            'A'..='Z' => char::from(b'A' + u8::try_from(self.below(26)).unwrap()),
            other => other,
        };
        match like.parse::<std::net::Ipv4Addr>() {
            // An address in a network that no tenant has.
            Ok(_) => format!("10.73.0.{}", 10 + self.below(200)),
            Err(_) => like.chars().map(&mut random_like).collect(),
        }
    }
}

pub struct Generator {
    random: Random,
    routes: Vec<(Service, &'static Route)>,
}

const SERVICES: [Service; 6] =
    [Service::Compute, Service::Network, Service::Volume, Service::Image, Service::Placement, Service::Chronova];

/// Words in the names of operations that would destroy the attacker's own resources, which later attacks need. The
/// attacker tries such operations only on resources of others.
const DESTRUCTIVE: [&str; 9] =
    ["delete", "remove", "forceDelete", "shelve", "rebuild", "resize", "clear", "detach", "Delete"];

/// Operations that reveal the existence of a foreign resource, as in OpenStack.
const REVEALING: [(&str, &str); 3] = [
    ("server_groups.show", "nova api/openstack/compute/server_groups.py asks the policy after the look-up: 403"),
    ("server_groups.delete", "as server_groups.show"),
    ("ports.create", "neutron db/db_base_plugin_v2.py: 409 DeviceIDNotOwnedByTenant for a router of another project"),
];

/// The routes of the tables, without removed routes.
pub fn routes() -> Vec<(Service, &'static Route)> {
    let tables = SERVICES.iter().flat_map(|service| tables::of(*service).iter().map(move |table| (*service, *table)));
    let all = tables.flat_map(|(service, table)| table.iter().map(move |route| (service, route)));
    all.filter(|(_, route)| route.removed.is_none()).collect()
}

impl Generator {
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), routes: routes() }
    }

    pub fn next(&mut self, theirs: &TenantResources, own: &TenantResources, shared: &SharedResources) -> Probe {
        loop {
            // The bodies of crafted requests pass the schemas, so these requests reach the resources that they name.
            let (op, template) = match self.random.below(4) {
                0 => self.crafted(),
                1 => self.metadata(),
                _ => self.by_route(),
            };
            if let Some(probe) = self.fill(op, &template, theirs, own, shared) {
                return probe;
            }
        }
    }

    /// Makes a request for metadata in one case of eight, and a request to a route otherwise. A request for metadata
    /// comes from the address of the attacker's server, and its headers may name the victim's server and project.
    fn metadata(&mut self) -> (&'static str, Request) {
        if self.random.below(8) > 0 {
            return self.by_route();
        }
        let paths = [
            "/latest/user-data",
            "/openstack/latest/meta_data.json",
            "/latest/meta-data/instance-id",
            "/openstack/latest/user_data",
        ];
        let path = format!("/metadata{}", self.random.pick(&paths));
        let headers = vec![
            ("X-Forwarded-For", "<=own:address>".to_owned()),
            ("X-Instance-ID", "<server>".to_owned()),
            ("X-Tenant-ID", "<project>".to_owned()),
        ];
        ("metadata.get", Request { method: "GET", path, headers, body: None })
    }

    fn by_route(&mut self) -> (&'static str, Request) {
        let (service, route) = *self.random.pick(&self.routes);
        let mut path = path_of(service, route, &mut self.random);
        if route.method == Method::Get {
            path += &self.query();
        }
        let version = self.version(service, route);
        let body = match (route.action, route.body) {
            (Some(key), _) => Some(format!("{{\"{key}\": {}}}", argument(key))),
            (None, BodySpec::Json(_) | BodySpec::AnyJson) => Some(self.body(service, route)),
            (None, BodySpec::None | BodySpec::Raw) => None,
        };
        (
            route.op,
            Request { method: route.method.as_str(), path, headers: vec![("OpenStack-API-Version", version)], body },
        )
    }

    /// Chooses the microversion. A Compute operation gets the last version that has it. If every later version has it,
    /// too, it gets 2.96, 2.88 or 2.60. The other services get one fixed version each.
    fn version(&mut self, service: Service, route: &Route) -> String {
        let newest = route.until.map_or_else(|| "2.96".to_owned(), |version| version.to_string());
        match service {
            Service::Compute if route.until.is_some() => format!("compute {newest}"),
            Service::Compute => {
                (*self.random.pick(&["compute 2.96", "compute 2.96", "compute 2.60", "compute 2.88"])).to_owned()
            }
            Service::Volume => "volume 3.67".to_owned(),
            _ => "placement 1.39".to_owned(),
        }
    }

    fn query(&mut self) -> String {
        const KEYS: [(&str, &str); 28] = [
            ("project_id", "<project>"),
            ("tenant_id", "<project>"),
            ("all_tenants", "1"),
            ("name", "<word>"),
            ("name", "<name>"),
            ("device_id", "<server>"),
            ("network_id", "<network>"),
            ("id", "<port>"),
            ("uuid", "<server>"),
            ("image", "<image>"),
            ("flavor", "<flavor>"),
            ("ip", "<address>"),
            ("fixed_ips", "ip_address=<address>"),
            ("volume_id", "<volume>"),
            ("instance_id", "<server>"),
            ("marker", "<server>"),
            ("marker", "<image>"),
            ("marker", "<volume>"),
            ("marker", "<port>"),
            ("owner", "<project>"),
            ("visibility", "all"),
            ("member_status", "all"),
            ("user_id", "vera"),
            ("security_group_id", "<group>"),
            ("router_id", "<router>"),
            ("tags", "<word>"),
            ("changes-since", "2020-01-01T00:00:00Z"),
            ("mac_address", "<mac>"),
        ];
        let pairs: Vec<String> = (0..self.random.below(3))
            .map(|_| {
                let (key, value) = self.random.pick(&KEYS);
                format!("{key}={value}")
            })
            .collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }

    fn body(&mut self, service: Service, route: &Route) -> String {
        let fits = |line: &&(&str, &str, &str)| service.name() == line.0 && route.op == line.1;
        let bodies: Vec<_> = BODIES.iter().filter(fits).collect();
        if bodies.is_empty() { "{}".to_owned() } else { self.random.pick(&bodies).2.to_owned() }
    }

    /// A request with a body of [`BODIES`] to its operation.
    fn crafted(&mut self) -> (&'static str, Request) {
        let line = *self.random.pick(BODIES);
        let found = self.routes.iter().find(|(service, route)| service.name() == line.0 && route.op == line.1);
        let (service, route) = *found.unwrap_or_else(|| panic!("no operation {} of {}", line.1, line.0));
        let path = path_of(service, route, &mut self.random);
        let version = self.version(service, route);
        let headers = vec![("OpenStack-API-Version", version)];
        (route.op, Request { method: route.method.as_str(), path, headers, body: Some(line.2.to_owned()) })
    }

    /// Chooses a value for each placeholder. Returns `None` if no value belongs to the victim or to a shared network.
    fn fill(
        &mut self,
        op: &'static str,
        template: &Request,
        theirs: &TenantResources,
        own: &TenantResources,
        shared: &SharedResources,
    ) -> Option<Probe> {
        let (mut theirs_filled, mut unknown) = (template.clone(), template.clone());
        let (mut names_victim, mut names_shared_network) = (false, false);
        let mut named = [Vec::new(), Vec::new()];
        let destructive = template.method == "DELETE" || DESTRUCTIVE.iter().any(|word| op.contains(word));
        let mut first = true;
        loop {
            let text = template_text(&theirs_filled);
            let Some(at) = text.find('<') else { break };
            let placeholder = text[at..=at + text[at..].find('>')?].to_owned();
            let name = placeholder.trim_matches(['<', '>']);
            let (value, unknown_value) = match name {
                "=shared_network" | "=shared_subnet" | "=external_network" | "=flavor" | "=image" => {
                    names_shared_network |= name != "=flavor" && name != "=image";
                    names_victim |= names_shared_network;
                    let value = shared_resource(shared, name);
                    (value.clone(), value)
                }
                _ if name.starts_with("=own:") => {
                    let value = own.resources[&name[5..]].clone();
                    (value.clone(), value)
                }
                _ => match self.random.below(if destructive && first { 6 } else { 10 }) {
                    0..6 => {
                        names_victim = true;
                        (theirs.resources[name].clone(), self.random.word(&theirs.resources[name]))
                    }
                    6..9 => (own.resources[name].clone(), own.resources[name].clone()),
                    _ => {
                        let value = self.random.word(&theirs.resources[name]);
                        (value.clone(), value)
                    }
                },
            };
            first = false;
            replace(&mut theirs_filled, &placeholder, &value);
            replace(&mut unknown, &placeholder, &unknown_value);
            named[0].push(value);
            named[1].push(unknown_value);
        }
        for values in &mut named {
            values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        }
        names_victim.then_some(Probe { op, theirs: theirs_filled, unknown, named, names_shared_network })
    }
}

fn shared_resource(shared: &SharedResources, name: &str) -> String {
    match name {
        "=shared_network" => &shared.shared_network,
        "=shared_subnet" => &shared.shared_subnet,
        "=external_network" => &shared.external_network,
        "=flavor" => &shared.flavor,
        _ => &shared.public_image,
    }
    .clone()
}

fn template_text(request: &Request) -> String {
    let headers: String = request.headers.iter().map(|(_, value)| value.as_str()).collect();
    format!("{}{headers}{}", request.path, request.body.as_deref().unwrap_or_default())
}

/// Replaces the first placeholder of this name, wherever it is.
fn replace(request: &mut Request, placeholder: &str, value: &str) {
    let mut parts: Vec<&mut String> = vec![&mut request.path];
    parts.extend(request.headers.iter_mut().map(|(_, value)| value));
    parts.extend(request.body.as_mut());
    if let Some(part) = parts.into_iter().find(|part| part.contains(placeholder)) {
        *part = part.replacen(placeholder, value, 1);
    }
}

pub fn path_of(service: Service, route: &Route, random: &mut Random) -> String {
    let mut path = format!("/{}{}", service.name(), service.api_root());
    // The paths of the volume API contain the project.
    if service == Service::Volume {
        path += ["/evil", "/evil", "/evil", "/<project>"][random.below(4)];
    }
    let mut before = "";
    for segment in route.path.split('/').filter(|segment| !segment.is_empty()) {
        // The value of `{collection}` already contains the member: `networks/<network>`.
        if before == "{collection}" {
            before = segment;
            continue;
        }
        path.push('/');
        match segment.starts_with('{') {
            true => path += parameter(service, before, segment, random),
            false => path += segment,
        }
        before = segment;
    }
    path
}

/// The resource that a path names after this segment.
fn parameter(service: Service, before: &str, name: &str, random: &mut Random) -> &'static str {
    match (before, name) {
        ("servers" | "os-volumes_boot", _) | (_, "{server_id}") => "<server>",
        ("os-interface", _) => one_of(random, &["<nic>", "<port>"]),
        ("os-volume_attachments", _) => one_of(random, &["<attached>", "<volume>"]),
        ("images", _) | (_, "{image_id}") => "<image>",
        ("os-keypairs", _) => "<keypair>",
        ("networks" | "os-networks" | "os-tenant-networks" | "network-ip-availabilities", _) => "<network>",
        ("subnets", _) => "<subnet>",
        ("ports", _) => one_of(random, &["<port>", "<nic>"]),
        ("routers", _) => "<router>",
        ("security-groups" | "os-security-groups", _) => "<group>",
        ("security-group-rules" | "os-security-group-rules", _) => "<rule>",
        ("floatingips" | "os-floating-ips", _) => "<floating>",
        ("volumes" | "os-volumes", _) | (_, "{volume_id}") => one_of(random, &["<volume>", "<attached>"]),
        ("attachments", _) => "<attachment>",
        ("snapshots" | "os-snapshots", _) | (_, "{snapshot_id}") => "<snapshot>",
        ("os-server-groups", _) => "<servers>",
        ("types", _) | (_, "{type_id}") => "<type>",
        ("flavors", _) | (_, "{flavor_id}") => "<flavor>",
        ("resource_providers" | "allocations", _) => "<server>",
        ("os-quota-sets" | "quotas" | "os-simple-tenant-usage" | "members", _) | (_, "{project}") => "<project>",
        ("", "{collection}") => one_of(
            random,
            &["networks/<network>", "ports/<port>", "routers/<router>", "subnets/<subnet>", "security-groups/<group>"],
        ),
        ("metadata" | "{key}", _) => "key",
        ("tags", _) => "mark",
        _ if service == Service::Chronova => "<server>",
        _ => "1",
    }
}

fn one_of(random: &mut Random, names: &[&'static str]) -> &'static str {
    names[random.below(names.len())]
}

/// The body of an action on a server or a volume.
fn argument(key: &str) -> &'static str {
    match key {
        "addSecurityGroup" | "removeSecurityGroup" => "{\"name\": \"<groupname>\"}",
        "addFloatingIp" | "removeFloatingIp" => "{\"address\": \"<address>\"}",
        "addFixedIp" => "{\"networkId\": \"<network>\"}",
        "removeFixedIp" => "{\"address\": \"<address>\"}",
        "rebuild" => "{\"imageRef\": \"<image>\"}",
        "rescue" => "{\"rescue_image_ref\": \"<image>\"}",
        "resize" => "{\"flavorRef\": \"<flavor>\"}",
        "reboot" => "{\"type\": \"SOFT\"}",
        "createImage" => "{\"name\": \"taken\"}",
        "createBackup" => "{\"name\": \"taken\", \"backup_type\": \"daily\", \"rotation\": 1}",
        "changePassword" => "{\"adminPass\": \"taken\"}",
        "os-volume_upload_image" => "{\"image_name\": \"taken\"}",
        "os-attach" => "{\"instance_uuid\": \"<server>\", \"mountpoint\": \"/dev/vdx\"}",
        "os-detach" | "os-force_detach" => "{\"attachment_id\": \"<attachment>\"}",
        "os-retype" => "{\"new_type\": \"<typename>\", \"migration_policy\": \"never\"}",
        "os-extend" => "{\"new_size\": 2}",
        "os-initialize_connection" | "os-terminate_connection" => "{\"connector\": {\"host\": \"h\"}}",
        "os-set_bootable" => "{\"bootable\": true}",
        "os-update_readonly_flag" => "{\"readonly\": true}",
        "addProjectAccess" | "removeProjectAccess" => "{\"project\": \"<project>\"}",
        "addTenantAccess" | "removeTenantAccess" => "{\"tenant\": \"<project>\"}",
        _ => "null",
    }
}

/// Bodies whose fields name other tenants' resources: service, operation, body.
const BODIES: &[(&str, &str, &str)] = &[
    (
        "compute",
        "servers.create",
        r#"{"server": {"name": "a", "flavorRef": "<flavor>", "imageRef": "<image>", "networks": [{"uuid": "<network>"}]}}"#,
    ),
    (
        "compute",
        "servers.create",
        r#"{"server": {"name": "a", "flavorRef": "<=flavor>", "imageRef": "<=image>", "networks": [{"port": "<port>"}]}}"#,
    ),
    (
        "compute",
        "servers.create",
        r#"{"server": {"name": "a", "flavorRef": "<=flavor>", "imageRef": "<=image>", "networks": "none", "key_name": "<keypair>"}}"#,
    ),
    (
        "compute",
        "servers.create",
        r#"{"server": {"name": "a", "flavorRef": "<=flavor>", "imageRef": "<=image>", "networks": "none", "block_device_mapping_v2": [{"uuid": "<volume>", "source_type": "volume", "destination_type": "volume", "boot_index": 0}]}}"#,
    ),
    (
        "compute",
        "servers.create",
        r#"{"server": {"name": "a", "flavorRef": "<=flavor>", "networks": "none", "block_device_mapping_v2": [{"uuid": "<snapshot>", "source_type": "snapshot", "destination_type": "volume", "boot_index": 0}]}}"#,
    ),
    (
        "compute",
        "servers.create",
        r#"{"server": {"name": "a", "flavorRef": "<=flavor>", "imageRef": "<=image>", "networks": [{"uuid": "<=own:network>", "fixed_ip": "<address>"}]}}"#,
    ),
    (
        "compute",
        "servers.create",
        r#"{"server": {"name": "a", "flavorRef": "<=flavor>", "imageRef": "<=image>", "networks": [{"uuid": "<=own:network>"}], "security_groups": [{"name": "<groupname>"}]}}"#,
    ),
    (
        "compute",
        "servers.create",
        r#"{"server": {"name": "a", "flavorRef": "<=flavor>", "imageRef": "<=image>", "networks": "none"}, "os:scheduler_hints": {"group": "<servers>"}}"#,
    ),
    (
        "compute",
        "servers.create",
        r#"{"server": {"name": "a", "flavorRef": "<=flavor>", "imageRef": "<=image>", "networks": [{"uuid": "<=external_network>"}]}}"#,
    ),
    ("compute", "attach_interfaces.create", r#"{"interfaceAttachment": {"port_id": "<port>"}}"#),
    ("compute", "attach_interfaces.create", r#"{"interfaceAttachment": {"net_id": "<network>"}}"#),
    (
        "compute",
        "server_external_events.create",
        r#"{"events": [{"name": "network-vif-plugged", "server_uuid": "<server>", "tag": "<nic>"}]}"#,
    ),
    ("compute", "snapshots.create", r#"{"snapshot": {"volume_id": "<volume>", "display_name": "taken"}}"#),
    ("compute", "snapshots.create", r#"{"snapshot": {"volume_id": "<attached>", "force": true}}"#),
    ("compute", "volumes.create", r#"{"volume": {"size": 1, "snapshot_id": "<snapshot>"}}"#),
    ("compute", "volumes.create", r#"{"volume": {"size": 1, "volume_type": "<typename>"}}"#),
    ("compute", "volumes.create", r#"{"volume": {"size": 1, "volume_type": "<type>"}}"#),
    ("network", "networks.create", r#"{"network": {"name": "a", "tenant_id": "<project>"}}"#),
    ("network", "networks.update", r#"{"network": {"name": "taken"}}"#),
    (
        "network",
        "subnets.create",
        r#"{"subnet": {"network_id": "<network>", "ip_version": 4, "cidr": "10.99.0.0/24"}}"#,
    ),
    (
        "network",
        "subnets.create",
        r#"{"subnet": {"network_id": "<=shared_network>", "ip_version": 4, "cidr": "10.98.0.0/24"}}"#,
    ),
    (
        "network",
        "subnets.create",
        r#"{"subnet": {"network_id": "<=external_network>", "ip_version": 4, "cidr": "10.97.0.0/24"}}"#,
    ),
    ("network", "subnets.update", r#"{"subnet": {"name": "taken", "gateway_ip": null}}"#),
    ("network", "ports.create", r#"{"port": {"network_id": "<network>"}}"#),
    (
        "network",
        "ports.create",
        r#"{"port": {"network_id": "<=own:network>", "device_id": "<server>", "device_owner": "compute:nova"}}"#,
    ),
    (
        "network",
        "ports.create",
        r#"{"port": {"network_id": "<=own:network>", "device_id": "<router>", "device_owner": "network:router_interface"}}"#,
    ),
    ("network", "ports.create", r#"{"port": {"network_id": "<=own:network>", "security_groups": ["<group>"]}}"#),
    (
        "network",
        "ports.create",
        r#"{"port": {"network_id": "<=own:network>", "fixed_ips": [{"subnet_id": "<subnet>"}]}}"#,
    ),
    ("network", "ports.create", r#"{"port": {"network_id": "<=shared_network>", "device_id": "<server>"}}"#),
    ("network", "ports.create", r#"{"port": {"network_id": "<=own:network>", "tenant_id": "<project>"}}"#),
    ("network", "ports.update", r#"{"port": {"device_id": "<server>"}}"#),
    ("network", "ports.update", r#"{"port": {"name": "taken", "security_groups": ["<group>"]}}"#),
    ("network", "ports.update", r#"{"port": {"allowed_address_pairs": [{"ip_address": "<address>"}]}}"#),
    ("network", "routers.create", r#"{"router": {"name": "a", "external_gateway_info": {"network_id": "<network>"}}}"#),
    ("network", "routers.update", r#"{"router": {"name": "taken"}}"#),
    ("network", "routers.add_interface", r#"{"subnet_id": "<subnet>"}"#),
    ("network", "routers.add_interface", r#"{"subnet_id": "<=shared_subnet>"}"#),
    ("network", "routers.add_interface", r#"{"port_id": "<port>"}"#),
    ("network", "routers.remove_interface", r#"{"subnet_id": "<subnet>"}"#),
    ("network", "routers.remove_interface", r#"{"port_id": "<nic>"}"#),
    (
        "network",
        "floating_ips.create",
        r#"{"floatingip": {"floating_network_id": "<=external_network>", "port_id": "<port>"}}"#,
    ),
    ("network", "floating_ips.create", r#"{"floatingip": {"floating_network_id": "<network>"}}"#),
    ("network", "floating_ips.update", r#"{"floatingip": {"port_id": "<nic>"}}"#),
    ("network", "security_groups.update", r#"{"security_group": {"name": "taken"}}"#),
    (
        "network",
        "security_group_rules.create",
        r#"{"security_group_rule": {"security_group_id": "<group>", "direction": "ingress"}}"#,
    ),
    (
        "network",
        "security_group_rules.create",
        r#"{"security_group_rule": {"security_group_id": "<=own:group>", "direction": "ingress", "remote_group_id": "<group>"}}"#,
    ),
    ("network", "tags.replace", r#"{"tags": ["taken"]}"#),
    ("network", "tags.add_all", r#"{"tags": ["taken"]}"#),
    ("network", "quotas.update", r#"{"quota": {"port": 1}}"#),
    ("volume", "volumes.create", r#"{"volume": {"size": 1, "source_volid": "<volume>"}}"#),
    ("volume", "volumes.create", r#"{"volume": {"size": 1, "snapshot_id": "<snapshot>"}}"#),
    ("volume", "volumes.create", r#"{"volume": {"size": 1, "imageRef": "<image>"}}"#),
    ("volume", "volumes.create", r#"{"volume": {"size": 1, "volume_type": "<type>"}}"#),
    ("volume", "volumes.create", r#"{"volume": {"size": 1, "volume_type": "<typename>"}}"#),
    ("volume", "volumes.update", r#"{"volume": {"name": "taken"}}"#),
    ("volume", "snapshots.create", r#"{"snapshot": {"volume_id": "<volume>", "name": "taken"}}"#),
    ("volume", "snapshots.create", r#"{"snapshot": {"volume_id": "<attached>", "force": true}}"#),
    ("volume", "snapshots.update", r#"{"snapshot": {"name": "taken"}}"#),
    ("volume", "attachments.create", r#"{"attachment": {"volume_uuid": "<volume>", "instance_uuid": "<server>"}}"#),
    (
        "volume",
        "attachments.create",
        r#"{"attachment": {"volume_uuid": "<attached>", "instance_uuid": "<=own:server>"}}"#,
    ),
    ("volume", "attachments.update", r#"{"attachment": {"connector": {"host": "h"}}}"#),
    ("volume", "volume_metadata.create", r#"{"metadata": {"key": "taken"}}"#),
    ("volume", "volume_metadata.update_all", r#"{"metadata": {}}"#),
    (
        "image",
        "images.create",
        r#"{"name": "a", "disk_format": "raw", "container_format": "bare", "owner": "<project>"}"#,
    ),
    ("image", "images.create", r#"{"id": "<image>", "name": "a", "disk_format": "raw", "container_format": "bare"}"#),
    ("image", "members.create", r#"{"member": "evil"}"#),
    ("image", "members.update", r#"{"status": "accepted"}"#),
    ("chronova", "erasures.create", r#"{"erasure": {"user_id": "vera"}}"#),
];
