#!/usr/bin/env python3
"""Creates users, roles and a catalogue in a fresh Keystone. Sends HTTP requests itself, because each command of the
client takes seconds.

people.py KEYSTONE USER:PROJECT:ROLE[,ROLE]... TYPE=URL...

Every password is `secret`. Missing projects and roles are created. The administrator is admin, as keystone.sh makes it.
An endpoint has the same address for each interface, in RegionOne.
"""

import json
import sys
import urllib.request

root, *wanted = sys.argv[1:]
root += "/v3"
token = None


def call(method, path, body=None):
    headers = {"Content-Type": "application/json", **({"X-Auth-Token": token} if token else {})}
    request = urllib.request.Request(root + path, json.dumps(body).encode() if body else None, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers, json.loads(answer.read() or "null")


def make(kind, **values):
    return call("POST", f"/{kind}s", {kind: values})[1][kind]["id"]


default = {"id": "default"}
admin = {"methods": ["password"], "password": {"user": {"name": "admin", "domain": default, "password": "secret"}}}
headers, _ = call("POST", "/auth/tokens", {"auth": {"identity": admin, "scope": {"project": {"name": "admin", "domain": default}}}})
token = headers["X-Subject-Token"]
known = {
    kind: {row["name"]: row["id"] for row in call("GET", f"/{kind}s")[1][f"{kind}s"]} for kind in ("role", "project")
}


def named(kind, name):
    more = {"domain_id": "default"} if kind == "project" else {}
    return known[kind].get(name) or known[kind].setdefault(name, make(kind, name=name, **more))


for word in wanted:
    if "=" in word:
        kind, url = word.split("=", 1)
        service = make("service", name=kind, type=kind)
        for interface in "public", "internal", "admin":
            make("endpoint", service_id=service, interface=interface, region_id="RegionOne", url=url)
    else:
        name, project, roles = word.split(":")
        user = make("user", name=name, password="secret", domain_id="default")
        for role in roles.split(","):
            call("PUT", f"/projects/{named('project', project)}/users/{user}/roles/{named('role', role)}")
