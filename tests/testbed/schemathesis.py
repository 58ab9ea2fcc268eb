"""Prepares a control plane for Schemathesis: resources to query, the OpenAPI documents, and a configuration.

    schemathesis.py URL PASSWORD FOLDER SERVICE[@VERSION]...

Writes FOLDER/SERVICE[@VERSION].json (the document) and .toml (the configuration: a token, ids of existing resources), and
prints one line for each: name and address of the service. Needs nothing but Python.
"""

import json
import sys
import urllib.request

MEDIA = "application/json"


class House:
    def __init__(self, url, password):
        self.url, self.token = url, None
        user = {"name": "admin", "password": password, "domain": {"id": "default"}}
        scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
        wish = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}
        headers, _ = self.ask("POST", "/identity/v3/auth/tokens", wish)
        self.token = headers["X-Subject-Token"]

    def ask(self, method, path, body=None, kind=MEDIA):
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": kind}, method=method)
        request.add_header("OpenStack-API-Version", "compute latest")
        if self.token:
            request.add_header("X-Auth-Token", self.token)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.headers, json.loads(text) if text else None


def furnish(house):
    """Creates two servers and the resources that they need; returns ids for the parameters of paths."""
    image = {"name": "i", "disk_format": "raw", "container_format": "bare"}
    image = house.ask("POST", "/image/v2/images", image)[1]["id"]
    house.ask("PUT", f"/image/v2/images/{image}/file", bytes(1 << 16), "application/octet-stream")
    house.ask("POST", "/compute/v2.1/flavors", {"flavor": {"id": "1", "name": "f", "ram": 64, "vcpus": 1, "disk": 1}})
    network = house.ask("POST", "/network/v2.0/networks", {"network": {"name": "n"}})[1]["network"]["id"]
    subnet = {"network_id": network, "cidr": "10.0.0.0/16", "ip_version": 4}
    subnet = house.ask("POST", "/network/v2.0/subnets", {"subnet": subnet})[1]["subnet"]["id"]
    ids = ["1", "latest", image, network, subnet]
    wish = {"imageRef": image, "flavorRef": "1", "networks": [{"uuid": network}]}
    for name in ("one", "two"):
        made = house.ask("POST", "/compute/v2.1/servers", {"server": {"name": name, **wish}})[1]
        ids.append(made["server"]["id"])
    for path, key in (("/compute/v2.1/os-hypervisors", "id"), ("/compute/v2.1/os-services", "id"),
                      ("/network/v2.0/ports", "id"), ("/placement/resource_providers", "uuid"),
                      ("/identity/v3/projects", "id"), ("/identity/v3/users", "id")):
        rows = next(v for v in house.ask("GET", path)[1].values() if isinstance(v, list))
        ids += [row[key] for row in rows]
    return ids + ["VCPU", "COMPUTE_NODE", "admin", "default", "sim-0001"]


def settle(document):
    """Removes the content of responses that may be empty, because Schemathesis would expect a body in each."""
    for path in document["paths"].values():
        for operation in path.values():
            answers = operation.get("responses", {}) if isinstance(operation, dict) else {}
            for answer in answers.values():
                if answer.get("x-may-be-empty"):
                    del answer["content"]


def write(house, folder, name, ids):
    service, _, version = name.partition("@")
    query = f"?service={service}" + (f"&version={version}" if version else "")
    document = house.ask("GET", "/openapi.json" + query)[1]
    settle(document)
    with open(f"{folder}/{name}.json", "w") as file:
        json.dump(document, file)
    names = sorted({parameter["name"] for path in document["paths"].values() for parameter in path.get("parameters", [])})
    headers = {"X-Auth-Token": house.token}
    if document["info"]["version"][0].isdigit() and service in ("compute", "placement", "volume"):
        headers["OpenStack-API-Version"] = f"{service} {document['info']['version']}"
    lines = ["[headers]", *(f"{key} = {json.dumps(value)}" for key, value in headers.items()),
             "[dictionaries]", f"ids = {{ values = {json.dumps(sorted(set(ids)))} }}", "[parameters]"]
    lines += [f'"path.{name}" = {{ dictionary = "ids", probability = 0.6 }}' for name in names]
    # Unsupported operations are answered with 501, as in Nova; unavailable ones with 503.
    lines += ["[checks.not_a_server_error]", 'expected-statuses = ["2xx", "3xx", "4xx", 501, 503]']
    with open(f"{folder}/{name}.toml", "w") as file:
        file.write("\n".join(lines) + "\n")
    print(name, house.url + document["servers"][0]["url"])


def main():
    url, password, folder, *names = sys.argv[1:]
    house = House(url, password)
    ids = furnish(house)
    for name in names:
        write(house, folder, name, ids)


main()
