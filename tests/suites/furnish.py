"""Gives a new control plane the users and resources of a DevStack, which the clients' functional tests expect.

    furnish.py CLOUDS_YAML RESULT

CLOUDS_YAML is the file of the control plane. RESULT is the clouds.yaml for the tests, with DevStack's names of clouds.
Needs nothing but Python.
"""

import json
import os
import secrets
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tempest"))
from furnish import House, credentials  # noqa: E402

# Name, id, MiB, GiB, vCPUs: as DevStack makes them.
FLAVORS = [
    ("m1.tiny", "1", 512, 1, 1), ("m1.small", "2", 2048, 20, 1), ("m1.medium", "3", 4096, 40, 2), ("m1.large", "4", 8192, 80, 4),
    ("m1.xlarge", "5", 16384, 160, 8), ("cirros256", "c1", 256, 1, 1), ("ds512M", "d1", 512, 5, 1), ("ds1G", "d2", 1024, 10, 1),
    ("ds2G", "d3", 2048, 10, 2), ("ds4G", "d4", 4096, 20, 4),
]
IMAGE = "cirros-0.6.3-x86_64-uec"


class DevStack(House):
    def make(self, service, kind, path=None, **values):
        root = self.services[service].rstrip("/")
        version = {"network": "/v2.0", "identity": "/v3"}.get(service, "")
        root = root.removesuffix(version) + version
        return self.ask("POST", f"{root}/{path or kind + 's'}", {kind: values})[1][kind]

    def put(self, path):
        self.ask("PUT", self.services["identity"].rstrip("/").removesuffix("/v3") + "/v3" + path)

    def rows(self, kind):
        root = self.services["identity"].rstrip("/").removesuffix("/v3") + "/v3"
        return {row["name"]: row["id"] for row in self.ask("GET", f"{root}/{kind}s")[1][kind + "s"]}

    def subnet(self, network, name, cidr, **more):
        return self.make("network", "subnet", network_id=network["id"], name=name, cidr=cidr, ip_version=4, **more)["id"]


def main():
    given, result = sys.argv[1:]
    known = credentials(given)
    house = DevStack(known["auth_url"], known["password"])
    roles, admin = house.rows("role"), house.rows("user")["admin"]
    roles["anotherrole"] = house.make("identity", "role", name="anotherrole")["id"]
    projects = {name: house.make("identity", "project", name=name, domain_id="default")["id"] for name in ("demo", "alt_demo")}
    passwords = {name: secrets.token_hex(8) for name in ("demo", "alt_demo", "alt_demo_member", "alt_demo_reader")}
    users = {
        name: house.make("identity", "user", name=name, domain_id="default", password=password)["id"]
        for name, password in passwords.items()
    }
    for project, user, role in (
        ("demo", users["demo"], "member"), ("demo", users["demo"], "anotherrole"), ("demo", admin, "admin"),
        ("alt_demo", users["alt_demo"], "member"), ("alt_demo", users["alt_demo"], "anotherrole"), ("alt_demo", admin, "admin"),
        ("alt_demo", users["alt_demo_member"], "member"), ("alt_demo", users["alt_demo_reader"], "reader"),
    ):
        house.put(f"/projects/{projects[project]}/users/{user}/roles/{roles[role]}")
    house.put(f"/system/users/{admin}/roles/{roles['admin']}")

    for name, id, ram, disk, vcpus in FLAVORS:
        house.make("compute", "flavor", name=name, id=id, ram=ram, disk=disk, vcpus=vcpus)
    house.image(IMAGE, None)
    types = house.services["block-storage"].rstrip("/") + "/types"
    default = house.ask("GET", types + "/default")[1]["volume_type"]
    house.ask("PUT", f"{types}/{default['id']}", {"volume_type": {"name": "lvmdriver-1"}})

    public = house.make("network", "network", name="public", **{"router:external": True})
    house.subnet(public, "public-subnet", "172.24.4.0/24")
    private = house.make("network", "network", name="private", project_id=projects["demo"])
    inside = house.subnet(private, "private-subnet", "10.0.0.0/26", project_id=projects["demo"])
    gateway = {"network_id": public["id"]}
    router = house.make("network", "router", name="router1", project_id=projects["demo"], external_gateway_info=gateway)
    root = house.services["network"].rstrip("/").removesuffix("/v2.0") + "/v2.0"
    house.ask("PUT", f"{root}/routers/{router['id']}/add_router_interface", {"subnet_id": inside})

    passwords["admin"] = known["password"]

    def cloud(user, scope):
        auth = {"auth_url": known["auth_url"], "username": user, "password": passwords[user], "user_domain_id": "default", **scope}
        return {"auth": auth, "region_name": "RegionOne", "identity_api_version": "3", "volume_api_version": "3"}

    def project(user, name):
        return cloud(user, {"project_name": name, "project_domain_id": "default"})

    clouds = {
        "devstack": project("demo", "demo"),
        "devstack-alt": project("alt_demo", "alt_demo"),
        "devstack-alt-member": project("alt_demo_member", "alt_demo"),
        "devstack-alt-reader": project("alt_demo_reader", "alt_demo"),
        "devstack-admin": project("admin", "admin"),
        "devstack-admin-demo": project("admin", "demo"),
        "devstack-system-admin": cloud("admin", {"system_scope": "all"}),
        # novaclient's name for an administrator.
        "functional_admin": project("admin", "admin"),
    }
    with open(result, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        # JSON is YAML.
        json.dump({"clouds": clouds}, file, indent=2)


main()
