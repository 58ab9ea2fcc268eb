#!/usr/bin/env python3
"""enlist.py KEYSTONE NAME TYPE URL: a user NAME with the roles of a service, and the service's endpoints, in a Keystone of keystone.sh."""
import json
import sys
import urllib.request

keystone, name, kind, url = sys.argv[1:5]
token = None


def call(method, path, body=None):
    headers = {"Content-Type": "application/json", **({"X-Auth-Token": token} if token else {})}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(keystone + "/v3" + path, method=method, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
        return answer.headers, json.loads(text) if text else None


def ensure(kinds, one, **match):
    """The id of the resource with these attributes, which is made where it is missing."""
    for known in call("GET", "/" + kinds)[1][kinds]:
        if all(known.get(key) == value for key, value in match.items() if key != "password"):
            return known["id"]
    return call("POST", "/" + kinds, {one: match})[1][one]["id"]


default = {"id": "default"}
password = {"user": {"name": "admin", "domain": default, "password": "secret"}}
auth = {"identity": {"methods": ["password"], "password": password}, "scope": {"project": {"name": "admin", "domain": default}}}
token = call("POST", "/auth/tokens", {"auth": auth})[0]["X-Subject-Token"]
project = ensure("projects", "project", name="service", domain_id="default")
user = ensure("users", "user", name=name, domain_id="default", password="secret")
for role in ("admin", "service"):
    call("PUT", "/projects/%s/users/%s/roles/%s" % (project, user, ensure("roles", "role", name=role)))
service = ensure("services", "service", name=name, type=kind)
for interface in ("public", "internal"):
    ensure("endpoints", "endpoint", service_id=service, interface=interface, region_id="RegionOne", url=url)
