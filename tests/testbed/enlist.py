#!/usr/bin/env python3
"""enlist.py KEYSTONE ENTRY...: creates entries in a Keystone of keystone.sh, unless they exist.

    service=NAME=TYPE=URL     a user NAME with the roles of a service, the service, and its endpoints (none if URL is empty)
    member=NAME=PROJECT=ROLE  a user NAME with a role in a project

The password of every user is `secret`.
"""
import json
import sys
import urllib.request

keystone, entries = sys.argv[1], sys.argv[2:]
token = None


def call(method, path, body=None):
    headers = {"Content-Type": "application/json", **({"X-Auth-Token": token} if token else {})}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(keystone + "/v3" + path, method=method, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
        return answer.headers, json.loads(text) if text else None


def ensure(kinds, one, secret=None, **match):
    """Returns the id of the resource with these attributes. Creates the resource if there is none."""
    for known in call("GET", "/" + kinds)[1][kinds]:
        if all(known.get(key) == value for key, value in match.items()):
            return known["id"]
    body = {**match, "password": secret} if secret else match
    return call("POST", "/" + kinds, {one: body})[1][one]["id"]


def user(name, project, roles):
    project = ensure("projects", "project", name=project, domain_id="default")
    made = ensure("users", "user", secret="secret", name=name, domain_id="default")
    for role in roles:
        call("PUT", "/projects/%s/users/%s/roles/%s" % (project, made, ensure("roles", "role", name=role)))


default = {"id": "default"}
password = {"user": {"name": "admin", "domain": default, "password": "secret"}}
auth = {"identity": {"methods": ["password"], "password": password}, "scope": {"project": {"name": "admin", "domain": default}}}
token = call("POST", "/auth/tokens", {"auth": auth})[0]["X-Subject-Token"]
for kind, name, what, more in (entry.split("=", 3) for entry in entries):
    if kind == "member":
        user(name, what, [more])
        continue
    user(name, "service", ["admin", "service"])
    service = ensure("services", "service", name=name, type=what)
    for interface in ("public", "internal") if more else ():
        ensure("endpoints", "endpoint", service_id=service, interface=interface, region_id="RegionOne", url=more)
