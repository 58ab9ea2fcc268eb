#!/usr/bin/env python3
"""Builds the one server that `chronova-dev copy-servers` copies, on a control plane without a cluster.

The arguments are those of soak.py; AMOUNT is the number of hosts. CLUSTER_ALONE is the address of the control plane, and
CLUSTER_DATA its data folder.
"""
from common import AMOUNT, Api, authenticate, until


def main():
    api = Api("m1")
    authenticate(api)
    hosts = f'\nchronova_hosts{{state="up"}} {AMOUNT}\n'
    until("all hosts are up", lambda: hosts in str(api.call("GET", "/metrics")[1]), 900)
    image = {"name": "pattern", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
    image = api.must("POST", "/image/v2/images", image)[0]["id"]
    api.must("PUT", f"/image/v2/images/{image}/file", b"\7" * 4096, "application/octet-stream")
    flavor = {"flavor": {"name": "pattern", "vcpus": 1, "ram": 64, "disk": 1}}
    flavor = api.must("POST", "/compute/v2.1/flavors", flavor)[0]["flavor"]["id"]
    server = {"server": {"name": "pattern", "imageRef": image, "flavorRef": flavor, "networks": "none"}}
    server = api.must("POST", "/compute/v2.1/servers", server)[0]["server"]["id"]
    shown = f"/compute/v2.1/servers/{server}"
    until("the server is active", lambda: api.must("GET", shown)[0]["server"]["status"] == "ACTIVE")


main()
