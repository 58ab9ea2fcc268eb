//! The resources of one tenant: one of each kind.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::json;

use super::tenant_user::TenantUser;
use crate::cloud::Cloud;

/// Resources of no project, and shared resources.
pub struct SharedResources {
    pub flavor: String,
    /// A network of the administrator that all tenants may use, and its subnet.
    pub shared_network: String,
    pub shared_subnet: String,
    pub external_network: String,
    /// An image that all tenants see.
    pub public_image: String,
}

/// The resources of a tenant, by the name of their placeholder (`<server>`).
#[derive(Debug)]
pub struct TenantResources {
    pub resources: BTreeMap<&'static str, String>,
    /// The address of the tenant's server.
    pub address: String,
}

pub fn common(cloud: &mut Cloud, admin: &TenantUser) -> SharedResources {
    cloud.wait("all hosts are up", |_| {
        let all = admin.get("/compute/v2.1/os-hypervisors/detail").json();
        all["hypervisors"].as_array().unwrap().iter().filter(|host| host["state"] == "up").count() == 2
    });
    for project in ["victim", "evil", "admin"] {
        let unlimited = json!({"quota": {"network": -1, "subnet": -1, "port": -1, "router": -1, "floatingip": -1,
            "security_group": -1, "security_group_rule": -1}});
        admin.put(&format!("/network/v2.0/quotas/{project}"), &unlimited).expect(&[200]);
        let unlimited = json!({"quota_set": {"volumes": -1, "snapshots": -1, "gigabytes": -1}});
        admin.put(&format!("/volume/v3/admin/os-quota-sets/{project}"), &unlimited).expect(&[200]);
    }
    let flavor = json!({"flavor": {"name": "tiny", "vcpus": 1, "ram": 64, "disk": 1}});
    let flavor = admin.post("/compute/v2.1/flavors", &flavor).expect(&[200]).at("/flavor/id");
    let network = |name: &str, external: bool| {
        let network = json!({"network": {"name": name, "shared": !external, "router:external": external}});
        admin.post("/network/v2.0/networks", &network).expect(&[201]).at("/network/id")
    };
    let (shared_network, external_network) = (network("shared", false), network("outside", true));
    let subnet = |network: &str, cidr: &str| {
        let subnet = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": cidr}});
        admin.post("/network/v2.0/subnets", &subnet).expect(&[201]).at("/subnet/id")
    };
    let shared_subnet = subnet(&shared_network, "10.90.0.0/16");
    subnet(&external_network, "198.18.0.0/16");
    let public_image = image(admin, "public", &json!({"visibility": "public"}));
    SharedResources { flavor, shared_network, shared_subnet, external_network, public_image }
}

fn image(person: &TenantUser, name: &str, more: &serde_json::Value) -> String {
    let mut image = json!({"name": name, "disk_format": "raw", "container_format": "bare"});
    image.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let id = person.post("/image/v2/images", &image).expect(&[201]).at("/id");
    person.upload(&format!("/image/v2/images/{id}/file"), &[7; 4096]);
    id
}

impl TenantResources {
    pub fn build(
        cloud: &mut Cloud,
        admin: &TenantUser,
        owner: &TenantUser,
        shared: &SharedResources,
        word: &str,
    ) -> Self {
        let mut resources = BTreeMap::new();
        let network = "/network/v2.0";
        let volume = format!("/volume/v3/{}", owner.project);
        let compute = "/compute/v2.1";
        let create = |path: &str, body: &serde_json::Value, pointer: &str| {
            owner.post(path, body).expect(&[200, 201, 202]).at(pointer)
        };

        let properties = json!({"secret_property": word, "tags": [word]});
        resources.insert("image", image(owner, &format!("{word}-image"), &properties));
        let net =
            create(&format!("{network}/networks"), &json!({"network": {"name": format!("{word}-net")}}), "/network/id");
        let cidr = if word == "Xanadu" { "10.71.0.0/24" } else { "10.72.0.0/24" };
        let subnet =
            json!({"subnet": {"network_id": net, "ip_version": 4, "cidr": cidr, "name": format!("{word}-subnet")}});
        let subnet = create(&format!("{network}/subnets"), &subnet, "/subnet/id");
        let group = json!({"security_group": {"name": format!("{word}-group"), "description": word}});
        let group = create(&format!("{network}/security-groups"), &group, "/security_group/id");
        let rule = json!({"security_group_rule": {"security_group_id": group, "direction": "ingress", "protocol": "tcp",
            "port_range_min": 22, "port_range_max": 22, "description": word}});
        resources.insert("rule", create(&format!("{network}/security-group-rules"), &rule, "/security_group_rule/id"));
        let port = json!({"port": {"network_id": net, "name": format!("{word}-port"), "security_groups": [group]}});
        resources.insert("port", create(&format!("{network}/ports"), &port, "/port/id"));
        let gateway = json!({"router": {"name": format!("{word}-router"), "external_gateway_info": {"network_id": shared.external_network}}});
        let router = create(&format!("{network}/routers"), &gateway, "/router/id");
        owner
            .put(&format!("{network}/routers/{router}/add_router_interface"), &json!({"subnet_id": subnet}))
            .expect(&[200]);
        let floating = json!({"floatingip": {"floating_network_id": shared.external_network, "description": word}});
        let floating = create(&format!("{network}/floatingips"), &floating, "/floatingip/id");

        let make = |name: &str| {
            let body = json!({"volume": {"size": 1, "name": format!("{word}-{name}"), "description": word, "metadata": {"key": word}}});
            create(&format!("{volume}/volumes"), &body, "/volume/id")
        };
        let (free, attached) = (make("volume"), make("attached"));
        for id in [&free, &attached] {
            cloud.wait("the volumes are there", |_| {
                owner.get(&format!("{volume}/volumes/{id}")).at("/volume/status") == "available"
            });
        }
        let snapshot =
            json!({"snapshot": {"volume_id": free, "name": format!("{word}-snapshot"), "description": word}});
        let snapshot = create(&format!("{volume}/snapshots"), &snapshot, "/snapshot/id");
        let volume_type =
            json!({"volume_type": {"name": format!("{word}-type"), "os-volume-type-access:is_public": false}});
        let volume_type = admin.post("/volume/v3/admin/types", &volume_type).expect(&[200]).at("/volume_type/id");
        let access = json!({"addProjectAccess": {"project": owner.project}});
        admin.post(&format!("/volume/v3/admin/types/{volume_type}/action"), &access).expect(&[202]);
        resources.insert("typename", format!("{word}-type"));
        let flavor = json!({"flavor": {"name": format!("{word}-flavor"), "vcpus": 1, "ram": 64, "disk": 1, "os-flavor-access:is_public": false}});
        let flavor = admin.post(&format!("{compute}/flavors"), &flavor).expect(&[200]).at("/flavor/id");
        let access = json!({"addTenantAccess": {"tenant": owner.project}});
        admin.post(&format!("{compute}/flavors/{flavor}/action"), &access).expect(&[200]);

        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGsr6i3xIGfN1JhmdCL1ViFV1ZmuQ7XfYk7FJJYCxm1r k";
        let key = json!({"keypair": {"name": format!("{word}-key"), "public_key": key, "type": "ssh"}});
        resources.insert("keypair", create(&format!("{compute}/os-keypairs"), &key, "/keypair/name"));
        let group_of_servers =
            json!({"server_group": {"name": format!("{word}-servers"), "policy": "soft-anti-affinity"}});
        let server_group = create(&format!("{compute}/os-server-groups"), &group_of_servers, "/server_group/id");
        let user_data = base64::engine::general_purpose::STANDARD.encode(format!("{word} user data"));
        let server = json!({"server": {"name": format!("{word}-server"), "imageRef": shared.public_image, "flavorRef": shared.flavor,
            "networks": [{"uuid": net}], "metadata": {"key": word}, "user_data": user_data,
            "key_name": format!("{word}-key"), "security_groups": [{"name": format!("{word}-group")}], "tags": [word]},
            "os:scheduler_hints": {"group": server_group}});
        let server = create(&format!("{compute}/servers"), &server, "/server/id");
        cloud.wait("the server runs", |_| {
            owner.get(&format!("{compute}/servers/{server}")).at("/server/status") == "ACTIVE"
        });
        let attach = json!({"volumeAttachment": {"volumeId": attached}});
        owner.post(&format!("{compute}/servers/{server}/os-volume_attachments"), &attach).expect(&[200, 202]);
        cloud.wait("the volume is attached", |_| {
            owner.get(&format!("{volume}/volumes/{attached}")).at("/volume/status") == "in-use"
        });
        let attachment = owner.get(&format!("{volume}/volumes/{attached}")).at("/volume/attachments/0/attachment_id");
        let shown = owner.get(&format!("{compute}/servers/{server}")).json();
        let address = shown["server"]["addresses"][format!("{word}-net")][0]["addr"].as_str().unwrap().to_owned();
        let ports = owner.get(&format!("{network}/ports?device_id={server}"));

        resources.extend([
            ("network", net),
            ("subnet", subnet),
            ("group", group),
            ("router", router),
            ("floating", floating),
            ("volume", free),
            ("attached", attached),
            ("snapshot", snapshot),
            ("type", volume_type),
            ("flavor", flavor),
            ("servers", server_group),
            ("server", server),
            ("attachment", attachment),
            ("nic", ports.at("/ports/0/id")),
            ("mac", ports.at("/ports/0/mac_address")),
            ("address", address.clone()),
            ("project", owner.project.clone()),
            ("word", word.to_owned()),
            ("name", format!("{word}-server")),
            ("groupname", format!("{word}-group")),
        ]);
        Self { resources, address }
    }

    /// Whether the resources that attacks need still exist.
    pub fn is_whole(&self, owner: &TenantUser) -> bool {
        let project = &owner.project;
        let of = |name: &str| &self.resources[name];
        let server = owner.get(&format!("/compute/v2.1/servers/{}", of("server")));
        let paths = [
            format!("/network/v2.0/networks/{}", of("network")),
            format!("/network/v2.0/subnets/{}", of("subnet")),
            format!("/network/v2.0/ports/{}", of("port")),
            format!("/network/v2.0/routers/{}", of("router")),
            format!("/network/v2.0/security-groups/{}", of("group")),
            format!("/volume/v3/{project}/volumes/{}", of("volume")),
            format!("/image/v2/images/{}", of("image")),
        ];
        server.status == 200
            && server.at("/server/status") == "ACTIVE"
            && paths.iter().all(|path| owner.get(path).status == 200)
    }
}
