#!/usr/bin/env python3
"""Compares the servers of a control plane with what other services have for them. Prints one line for each difference.

leaks.py COMPUTE PLACEMENT NEUTRON GLANCE, with the administrator's token in $TOKEN

A server that is not in ERROR has the ports that it shows as its interfaces, each with one ACTIVE binding at the server's
host. Neutron has no other port for a server. Placement has one processor in use for each server, and two for a server
that was moved and not confirmed. Glance has no image that is not active.
"""

import json
import os
import sys
import urllib.request

compute, placement, neutron, glance = sys.argv[1:]


def get(url):
    headers = {
        "X-Auth-Token": os.environ["TOKEN"],
        "OpenStack-API-Version": "placement 1.30" if url.startswith(placement) else "compute 2.90",
    }
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
        return json.load(answer)


servers = {row["id"]: row for row in get(f"{compute}/v2.1/servers/detail?all_tenants=1")["servers"]}
plugged = {}
for port in get(f"{neutron}/v2.0/ports")["ports"]:
    if not port["device_owner"].startswith("compute:"):
        continue
    name, server = f"port {port['id']}", servers.get(port["device_id"])
    if not server:
        print(f"{name} is of server {port['device_id']}, which does not exist")
        continue
    plugged.setdefault(server["id"], set()).add(port["id"])
    # A port that is bound to no host has one binding to the host "".
    host = server["OS-EXT-SRV-ATTR:host"] or ""
    bindings = get(f"{neutron}/v2.0/ports/{port['id']}/bindings")["bindings"]
    found = ["%(host)s:%(status)s" % row for row in bindings]
    if found != [f"{host}:ACTIVE"]:
        print(f"{name} of a server on {host} has the bindings {found}")
    if port["status"] != "ACTIVE" and server["status"] == "ACTIVE":
        print(f"{name} of an ACTIVE server is {port['status']}")
    if "migrating_to" in port["binding:profile"]:
        print(f"{name} announces a move to {port['binding:profile']['migrating_to']}")
for server in servers.values():
    state = server["OS-EXT-STS:task_state"]
    if state:
        print(f"server {server['id']} is {state}")
    if server["status"] == "ERROR":
        continue
    ports, shown = plugged.get(server["id"], set()), get(f"{compute}/v2.1/servers/{server['id']}/os-interface")
    shown = {interface["port_id"] for interface in shown["interfaceAttachments"]}
    if ports != shown or not ports:
        print(f"server {server['id']} shows the ports {sorted(shown)}, and Neutron has {sorted(ports)}")
used = 0
for provider in get(f"{placement}/resource_providers")["resource_providers"]:
    used += get(f"{placement}/resource_providers/{provider['uuid']}/usages")["usages"].get("VCPU", 0)
placed = sum(server["OS-EXT-SRV-ATTR:host"] is not None for server in servers.values())
moved = sum(server["status"] == "VERIFY_RESIZE" for server in servers.values())
if used != placed + moved:
    print(f"{used - placed - moved:+d} processors are in use beside those of the servers on hosts")
for image in get(f"{glance}/v2/images?status=queued")["images"] + get(f"{glance}/v2/images?status=saving")["images"]:
    print(f"image {image['id']} is {image['status']}")
