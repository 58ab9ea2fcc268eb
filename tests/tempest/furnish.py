"""Creates the resources that tempest expects in a new control plane, and fills in tempest's configuration.

    furnish.py CLOUDS_YAML TEMPLATE RESULT NAME=VALUE...

The resources are two public images, two flavors, a shared network for the servers, an external one for floating
addresses, and a router between the networks. Needs nothing but Python.

PHYSICAL=NETWORK OUTSIDE=CIDR,FIRST,LAST: the external network is flat on that physical network of a real Neutron, and its
floating addresses are FIRST to LAST.
"""

import json
import re
import sys
import urllib.error
import urllib.request


def credentials(path):
    """The only cloud in the clouds.yaml of the control plane."""
    text = open(path).read()
    return {name: re.search(rf"{name}: \"?([^\"\n]+)", text)[1] for name in ("auth_url", "password")}


class House:
    def __init__(self, url, password):
        body = {"auth": {
            "identity": {"methods": ["password"], "password": {"user": {"name": "admin", "password": password, "domain": {"id": "default"}}}},
            "scope": {"project": {"name": "admin", "domain": {"id": "default"}}},
        }}
        self.token = None
        headers, answer = self.ask("POST", url + "/auth/tokens", body)
        self.token = headers["X-Subject-Token"]
        public = lambda service: next(e["url"].rstrip("/") for e in service["endpoints"] if e["interface"] == "public")
        self.services = {service["type"]: public(service) for service in answer["token"]["catalog"]}

    def ask(self, method, url, body=None, kind="application/json"):
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
        if self.token:
            request.add_header("X-Auth-Token", self.token)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.headers, json.loads(text) if text else None

    def image(self, name, file):
        """Creates a public image from a qcow2 file, or from content that does not boot; returns its id."""
        root = self.services["image"].removesuffix("/v2") + "/v2/images"
        kind, content = ("qcow2", open(file, "rb").read()) if file else ("raw", bytes(1 << 20))
        image = {"name": name, "visibility": "public", "disk_format": kind, "container_format": "bare"}
        image = self.ask("POST", root, image)[1]
        self.ask("PUT", f"{root}/{image['id']}/file", content, "application/octet-stream")
        return image["id"]

    def flavor(self, name, ram):
        flavor = {"id": name, "name": name, "ram": ram, "vcpus": 1, "disk": 1}
        self.ask("POST", self.services["compute"] + "/flavors", {"flavor": flavor})

    def network(self, name, cidr, on_subnet=None, **settings):
        root = self.services["network"].removesuffix("/v2.0") + "/v2.0"
        network = self.ask("POST", root + "/networks", {"network": {"name": name, **settings}})[1]["network"]
        subnet = {"network_id": network["id"], "name": name, "cidr": cidr, "ip_version": 4, **(on_subnet or {})}
        subnet = self.ask("POST", root + "/subnets", {"subnet": subnet})[1]["subnet"]
        return network["id"], subnet["id"]

    def router(self, external, subnet):
        root = self.services["network"].removesuffix("/v2.0") + "/v2.0/routers"
        router = {"name": "tempest", "external_gateway_info": {"network_id": external}}
        router = self.ask("POST", root, {"router": router})[1]["router"]
        self.ask("PUT", f"{root}/{router['id']}/add_router_interface", {"subnet_id": subnet})

    def extensions(self):
        root = self.services["network"].removesuffix("/v2.0") + "/v2.0"
        return [extension["alias"] for extension in self.ask("GET", root + "/extensions")[1]["extensions"]]


def main():
    clouds, template, result, *given = sys.argv[1:]
    known = credentials(clouds)
    values = dict(pair.split("=", 1) for pair in given)
    house = House(known["auth_url"], known["password"])
    values["PASSWORD"] = known["password"]
    file, ram = values.get("IMAGE_FILE"), int(values.get("RAM", 64))
    values["IMAGE"], values["IMAGE_ALT"] = house.image("tempest-1", file), house.image("tempest-2", file)
    house.flavor("tempest-1", ram)
    house.flavor("tempest-2", 2 * ram)
    _, inside = house.network("tempest", "10.100.0.0/16", shared=True)
    outside, cidr, on_subnet = {"router:external": True}, "203.0.113.0/24", {}
    if "PHYSICAL" in values:
        outside |= {"provider:network_type": "flat", "provider:physical_network": values["PHYSICAL"]}
        cidr, first, last = values["OUTSIDE"].split(",")
        on_subnet = {"enable_dhcp": False, "allocation_pools": [{"start": first, "end": last}]}
    values["PUBLIC_NET"], _ = house.network("public", cidr, on_subnet, **outside)
    house.router(values["PUBLIC_NET"], inside)
    values["EXTENSIONS"] = ",".join(house.extensions())
    text = re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], open(template).read())
    open(result, "w").write(text)


if __name__ == "__main__":
    main()
