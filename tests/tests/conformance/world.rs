//! A cloud with a resource for every parameter of an operation's path, and a request for each operation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use chronova_tests::compute_api::{ADMIN, Api, IMAGE, read};
use serde_json::{Value, json};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG0bTWZyLQGKlW5yQmNzFq9hJ1mX5x0yQ1V2kT3dYv3x me@home";

/// The owner of the resources that the paths name.
pub(crate) const OWNER: &str = "owner:web";

pub(crate) struct Cloud {
    pub(crate) api: Api,
    pub(crate) server: String,
    contract: PathBuf,
    network: String,
    image: String,
    aggregate: String,
    group: String,
    security_group: String,
    rule: String,
    floating_ip: String,
    host: String,
    hypervisors: Value,
    services: Value,
    samples: BTreeMap<String, Vec<(u32, String)>>,
}

/// An operation of the contract.
pub(crate) struct Operation<'a>(pub(crate) &'a Value);

impl Operation<'_> {
    pub(crate) fn id(&self) -> &str {
        self.0["id"].as_str().unwrap()
    }

    pub(crate) fn method(&self) -> &str {
        self.0["method"].as_str().unwrap()
    }

    pub(crate) fn path(&self) -> &str {
        self.0["path"].as_str().unwrap()
    }

    pub(crate) fn action(&self) -> Option<&str> {
        self.0["action"].as_str()
    }

    /// Whether Nova has removed the operation.
    pub(crate) fn removed(&self) -> bool {
        self.0["removed"] == true
    }

    pub(crate) fn min(&self) -> u32 {
        minor(self.0["min_version"].as_str().unwrap())
    }

    pub(crate) fn max(&self) -> u32 {
        self.0["max_version"].as_str().map_or(104, minor)
    }
}

fn flavor() -> Value {
    json!({"flavor": {"id": "7", "name": "seven", "ram": 1, "vcpus": 1, "disk": 1}})
}

pub(crate) fn minor(version: &str) -> u32 {
    version.strip_prefix("2.").unwrap().parse().unwrap()
}

pub(crate) fn operations(contract: &std::path::Path) -> Vec<Value> {
    let all = read(&contract.join("operations.json"));
    let served = |operation: &&Value| !operation["id"].as_str().unwrap().starts_with("versionsV21");
    all["operations"].as_array().unwrap().iter().filter(served).cloned().collect()
}

impl Cloud {
    pub(crate) async fn start(contract: PathBuf) -> Self {
        let api = Api::start().await;
        let post = async |path: &str, token: &str, body: Value| {
            let made = api.call("POST", path, "2.1", token, Some(body)).await;
            assert!(made.status < 300, "{path}: {:?}", made.body);
            made.body
        };
        let network = json!({"network": {"name": "private", "shared": true}});
        let network = api.ask("POST", "/network/v2.0/networks", "2.1", ADMIN, Some(network)).await;
        let network = network.body["network"]["id"].as_str().unwrap().to_owned();
        post("/flavors", ADMIN, flavor()).await;
        post("/flavors/7/os-extra_specs", ADMIN, json!({"extra_specs": {"hw:numa_nodes": "1"}})).await;
        let private = json!({"flavor": {"id": "9", "name": "private", "ram": 1, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": false}});
        post("/flavors", ADMIN, private).await;
        for token in [OWNER, "other:elsewhere", ADMIN, "nova:services"] {
            post("/os-keypairs", token, json!({"keypair": {"name": "k"}})).await;
        }
        let group = json!({"server_group": {"name": "g", "policies": ["anti-affinity"]}});
        let group = post("/os-server-groups", OWNER, group).await["server_group"]["id"].as_str().unwrap().to_owned();
        let named = json!({"security_group": {"name": "s", "description": "d"}});
        let made = post("/os-security-groups", OWNER, named).await;
        let security_group = made["security_group"]["id"].as_str().unwrap().to_owned();
        let rule = json!({"security_group_rule": {"parent_group_id": security_group, "ip_protocol": "tcp", "from_port": 1, "to_port": 2}});
        let made = post("/os-security-group-rules", OWNER, rule).await;
        let rule = made["security_group_rule"]["id"].as_str().unwrap().to_owned();
        let services = api.get("/os-services?binary=nova-compute", "2.1").await["services"].clone();
        let host = services[0]["host"].as_str().unwrap().to_owned();
        let hypervisors = api.get("/os-hypervisors", "2.1").await["hypervisors"].clone();
        let mut samples: BTreeMap<String, Vec<(u32, String)>> = BTreeMap::new();
        let map = read(&contract.join("api-samples-map.json"));
        for (sample, about) in map["samples"].as_object().unwrap() {
            if let (Some("request"), Some(operation)) = (about["kind"].as_str(), about["operation"].as_str()) {
                let at = minor(about["version"].as_str().unwrap());
                samples.entry(operation.to_owned()).or_default().push((at, sample.clone()));
            }
        }
        for of_operation in samples.values_mut() {
            of_operation.sort();
        }
        let mut cloud = Self {
            api,
            contract,
            network,
            group,
            security_group,
            rule,
            host,
            hypervisors,
            services,
            samples,
            server: String::new(),
            floating_ip: String::new(),
            image: String::new(),
            aggregate: String::new(),
        };
        cloud.lift().await;
        cloud.image().await;
        cloud.aggregate().await;
        cloud.pool().await;
        cloud.floating_ip().await;
        cloud.server = cloud.fresh().await;
        cloud
    }

    /// Lifts the owner's quota, which does not matter here.
    async fn lift(&self) {
        let lift = json!({"quota_set": {"instances": -1, "cores": -1, "ram": -1}});
        self.api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, Some(lift)).await;
    }

    async fn image(&mut self) {
        let image = json!({"name": "i", "visibility": "public", "key": "value"});
        let made = self.api.ask("POST", "/image/v2/images", "2.1", ADMIN, Some(image)).await;
        made.body["id"].as_str().unwrap().clone_into(&mut self.image);
    }

    async fn aggregate(&mut self) {
        let aggregate = json!({"aggregate": {"name": "a", "availability_zone": null}});
        let made = self.api.call("POST", "/os-aggregates", "2.1", ADMIN, Some(aggregate)).await;
        self.aggregate = made.body["aggregate"]["id"].to_string();
    }

    /// Creates the pool from which samples take floating addresses.
    async fn pool(&self) {
        let public = json!({"network": {"name": "public", "router:external": true, "project_id": "operators"}});
        let made = self.api.ask("POST", "/network/v2.0/networks", "2.1", ADMIN, Some(public)).await;
        let subnet = json!({"network_id": made.body["network"]["id"], "cidr": "172.24.4.0/24", "ip_version": 4});
        let made = self.api.ask("POST", "/network/v2.0/subnets", "2.1", ADMIN, Some(json!({"subnet": subnet}))).await;
        assert_eq!(made.status, 201, "{:?}", made.body);
    }

    async fn floating_ip(&mut self) {
        let made = self.api.call("POST", "/os-floating-ips", "2.1", OWNER, Some(json!({"pool": "public"}))).await;
        made.body["floating_ip"]["id"].as_str().unwrap().clone_into(&mut self.floating_ip);
    }

    /// Creates another server of the owner.
    pub(crate) async fn fresh(&self) -> String {
        let mut request = Api::wish("s");
        request["metadata"] = json!({"foo": "bar"});
        request["tags"] = json!(["tag"]);
        self.api.server(OWNER, request).await
    }

    async fn part_of_server(&self, path: &str, list: &str, key: &str) -> String {
        let all = self.api.get(&format!("/servers/{}/{path}", self.server), "2.1").await;
        all[list][0][key].as_str().unwrap().to_owned()
    }

    /// The operation's path with an existing resource for each parameter.
    pub(crate) async fn path(&self, operation: &Operation<'_>, version: u32) -> String {
        let path = operation.path();
        let uuids = version >= 53;
        let id = |of: &Value, key: &str| match &of[0][key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let first = path.split('/').nth(1).unwrap();
        let of_resource = match first {
            "servers" | "os-volumes_boot" => self.server.clone(),
            "flavors" if operation.id().contains("TenantAccess") => "9".to_owned(),
            "flavors" => "7".to_owned(),
            "images" => self.image.clone(),
            "os-aggregates" => self.aggregate.clone(),
            "os-keypairs" => "k".to_owned(),
            "os-networks" | "os-tenant-networks" => self.network.clone(),
            "os-quota-sets" | "os-simple-tenant-usage" => "web".to_owned(),
            "os-quota-class-sets" => "default".to_owned(),
            "os-security-groups" => self.security_group.clone(),
            "os-security-group-rules" => self.rule.clone(),
            "os-server-groups" => self.group.clone(),
            "os-floating-ips" => self.floating_ip.clone(),
            "os-hosts" => self.host.clone(),
            "extensions" => "os-agents".to_owned(),
            "os-instance_usage_audit_log" => "2026-01-01%2000:00:00".to_owned(),
            "os-hypervisors" if operation.id().ends_with("search") || operation.id().ends_with("servers") => {
                "sim".into()
            }
            "os-hypervisors" if uuids => id(&self.api.get("/os-hypervisors", "2.53").await["hypervisors"], "id"),
            "os-hypervisors" => id(&self.hypervisors, "id"),
            // An unknown id, because deleting a real service would remove a host.
            "os-services" if operation.method() == "DELETE" => "00000000-0000-0000-0000-00000000000c".to_owned(),
            "os-services" if uuids => {
                id(&self.api.get("/os-services?binary=nova-compute", "2.53").await["services"], "id")
            }
            // Before UUIDs, the path of a change named an action, such as `enable`.
            "os-services" if operation.method() == "PUT" => "disable".to_owned(),
            "os-services" => id(&self.services, "id"),
            _ => "00000000-0000-0000-0000-00000000000a".to_owned(),
        };
        let of_part = match operation.id().split('.').next().unwrap() {
            "server_metadata" => "foo",
            "server_tags" => "tag",
            "ips" => "private",
            "flavors_extraspecs" => "hw:numa_nodes",
            "image_metadata" => "key",
            "instance_actions" => &self.part_of_server("os-instance-actions", "instanceActions", "request_id").await,
            "attach_interfaces" => &self.part_of_server("os-interface", "interfaceAttachments", "port_id").await,
            _ => "00000000-0000-0000-0000-00000000000b",
        };
        let mut names = 0;
        let part = |part: &str| {
            if !part.starts_with('{') {
                return part.to_owned();
            }
            names += 1;
            if names == 1 { of_resource.clone() } else { of_part.to_owned() }
        };
        path.split('/').map(part).collect::<Vec<_>>().join("/")
    }

    /// The operation's newest version, and a body that its schema accepts at that version.
    pub(crate) fn body(&self, operation: &Operation<'_>) -> (u32, Option<Value>) {
        let newest = operation.max();
        if operation.method() != "POST" && operation.method() != "PUT" {
            return (newest, None);
        }
        let at = |version: u32, body: Value| (version, Some(body));
        let server = |networks: Value| json!({"server": {"name": "n", "imageRef": IMAGE, "flavorRef": "1", "networks": networks}});
        match operation.id() {
            "servers.create" => return at(104, server(json!("none"))),
            "server_metadata.create" => return at(newest, json!({"metadata": {"a": "b"}})),
            "server_tags.update" => return at(newest, Value::Null),
            "security_groups.update" => {
                return at(newest, json!({"security_group": {"name": "s", "description": "d"}}));
            }
            "servers.rebuild" => return at(104, json!({"rebuild": {"imageRef": IMAGE}})),
            "servers.resize" => return at(104, json!({"resize": {"flavorRef": "1"}})),
            "server_external_events.create" => {
                let event = json!({"name": "network-changed", "server_uuid": self.server});
                return at(newest, json!({"events": [event]}));
            }
            "keypairs.create" => {
                let key = json!({"keypair": {"name": "k", "type": "ssh", "public_key": KEY}});
                return at(newest, key);
            }
            "image_metadata.update" => return at(newest, json!({"meta": {"key": "v"}})),
            "services.update" => return at(104, json!({"status": "enabled"})),
            "aggregates.add_host" | "aggregates.remove_host" => {
                let action = operation.action().unwrap();
                return at(newest, json!({action: {"host": self.host}}));
            }
            "security_groups.SecurityGroupRules.create" => {
                return at(
                    newest,
                    json!({"security_group_rule": {"parent_group_id": self.security_group, "ip_protocol": "udp", "from_port": 1, "to_port": 2}}),
                );
            }
            _ => {}
        }
        at(newest, self.sample(operation, newest))
    }

    /// The contract's sample request of that version, or the smallest valid body.
    pub(crate) fn sample(&self, operation: &Operation<'_>, version: u32) -> Value {
        let of_operation = self.samples.get(operation.id()).map_or(&[][..], Vec::as_slice);
        match of_operation.iter().rev().find(|(since, _)| *since <= version) {
            Some((_, sample)) => read(&self.contract.join("api-samples").join(sample)),
            None => operation.action().map_or_else(|| json!({}), |action| json!({action: null})),
        }
    }

    /// Restores the resources after a call that changed them.
    pub(crate) async fn repair(&mut self, operation: &Operation<'_>, status: u16) {
        if status >= 300 || operation.method() == "GET" {
            return;
        }
        self.api.life.settled().await;
        match operation.path().split('/').nth(1).unwrap() {
            "servers" | "os-volumes_boot" if operation.path().contains('{') => {
                let path = format!("/servers/{}/action", self.server);
                self.api.call("POST", &path, "2.1", ADMIN, Some(json!({"forceDelete": null}))).await;
                self.api.life.settled().await;
                self.server = self.fresh().await;
            }
            "os-quota-sets" => self.lift().await,
            "flavors" if operation.method() == "DELETE" => {
                self.api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor())).await;
                let specs = json!({"extra_specs": {"hw:numa_nodes": "1"}});
                self.api.call("POST", "/flavors/7/os-extra_specs", "2.1", ADMIN, Some(specs)).await;
            }
            "images" if operation.path() == "/images/{id}" => self.image().await,
            "os-aggregates" if operation.method() == "DELETE" => self.aggregate().await,
            "os-keypairs" if operation.method() == "DELETE" => {
                for token in [OWNER, "other:elsewhere", ADMIN, "nova:services"] {
                    self.api.call("POST", "/os-keypairs", "2.1", token, Some(json!({"keypair": {"name": "k"}}))).await;
                }
            }
            "os-floating-ips" if operation.method() == "DELETE" => self.floating_ip().await,
            "os-server-groups" if operation.method() == "DELETE" => {
                let group = json!({"server_group": {"name": "g", "policies": ["anti-affinity"]}});
                let made = self.api.call("POST", "/os-server-groups", "2.1", OWNER, Some(group)).await;
                made.body["server_group"]["id"].as_str().unwrap().clone_into(&mut self.group);
            }
            "os-security-groups" if operation.method() == "DELETE" => {
                let named = json!({"security_group": {"name": "s", "description": "d"}});
                let made = self.api.call("POST", "/os-security-groups", "2.1", OWNER, Some(named)).await;
                made.body["security_group"]["id"].as_str().unwrap().clone_into(&mut self.security_group);
            }
            "os-security-group-rules" if operation.method() == "DELETE" => {
                let rule = json!({"security_group_rule": {"parent_group_id": self.security_group, "ip_protocol": "tcp", "from_port": 1, "to_port": 2}});
                let made = self.api.call("POST", "/os-security-group-rules", "2.1", OWNER, Some(rule)).await;
                made.body["security_group_rule"]["id"].as_str().unwrap_or_default().clone_into(&mut self.rule);
            }
            _ => {}
        }
    }
}
