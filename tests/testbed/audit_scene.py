#!/usr/bin/env python3
"""Acts the scenes of tests/real/audit.sh: Alice gets a project, works in it, and tries what she may not do.

audit_scene.py URL ADMIN_PASSWORD STATE begin|end|after

Ids go from scene to scene in the JSON file STATE. The script sends HTTP requests itself, because each command of the
client takes seconds.
"""

import json
import sys
import time
import urllib.error
import urllib.request

URL, PASSWORD, STATE, SCENE = sys.argv[1:]
ALICE = "alices-password"
DEFAULT = {"id": "default"}


def call(token, method, path, body=None, wanted=(200, 201, 202, 204), raw=False):
    headers = {"Content-Type": "application/octet-stream" if raw else "application/json", "User-Agent": "scene/1"}
    if token:
        headers["X-Auth-Token"] = token
    if path.startswith("/compute"):
        headers["OpenStack-API-Version"] = "compute 2.96"
    data = body if raw else json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(URL + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, told, text = answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        status, told, text = error.code, error.headers, error.read()
    if status not in wanted:
        sys.exit(f"{method} {path}: {status} {text.decode()[:300]}")
    return told, json.loads(text) if text[:1] in (b"{", b"[") else None


def token(user, password, project, wanted=(201,)):
    identity = {"methods": ["password"], "password": {"user": {"name": user, "domain": DEFAULT, "password": password}}}
    body = {"auth": {"identity": identity, "scope": {"project": {"name": project, "domain": DEFAULT}}}}
    return call(None, "POST", "/identity/v3/auth/tokens", body, wanted)[0].get("X-Subject-Token")


def role(name):
    return call(admin, "GET", f"/identity/v3/roles?name={name}")[1]["roles"][0]["id"]


def user(name, password):
    wanted = {"name": name, "password": password, "domain_id": "default"}
    return call(admin, "POST", "/identity/v3/users", {"user": wanted})[1]["user"]["id"]


def until(server, status):
    for _ in range(600):
        answer = call(admin, "GET", f"/compute/v2.1/servers/{server}", wanted=(200, 404))[1]
        now = answer.get("server", {}).get("status", "DELETED")
        if now == status:
            return
        time.sleep(0.1)
    sys.exit(f"server {server} does not become {status}: it is {now}")


def begin():
    project = call(admin, "POST", "/identity/v3/projects", {"project": {"name": "web", "domain_id": "default"}})
    project = project[1]["project"]["id"]
    alice = user("alice", ALICE)
    grant = f"/identity/v3/projects/{project}/users/{alice}/roles/{role('member')}"
    call(admin, "PUT", grant)
    image = {"name": "tiny", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
    image = call(admin, "POST", "/image/v2/images", image)[1]["id"]
    call(admin, "PUT", f"/image/v2/images/{image}/file", bytes(4096), raw=True)
    flavor = {"flavor": {"name": "tiny", "vcpus": 1, "ram": 64, "disk": 1}}
    flavor = call(admin, "POST", "/compute/v2.1/flavors", flavor)[1]["flavor"]["id"]
    network = {"network": {"name": "net", "shared": True}}
    network = call(admin, "POST", "/network/v2.0/networks", network)[1]["network"]["id"]
    subnet = {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/24"}}
    call(admin, "POST", "/network/v2.0/subnets", subnet)
    token("alice", "wrong", "web", (401,))
    her = token("alice", ALICE, "web")
    call(her, "GET", "/identity/v3/users", wanted=(403,))
    call(her, "GET", "/compute/v2.1/os-hypervisors", wanted=(403,))
    call(her, "DELETE", f"/image/v2/images/{image}", wanted=(403, 404))
    servers = []
    for name in "web-1", "web-2":
        body = {"name": name, "imageRef": image, "flavorRef": flavor, "networks": [{"uuid": network}]}
        made = call(her, "POST", "/compute/v2.1/servers", {"server": body})[1]["server"]["id"]
        servers.append(made)
        until(made, "ACTIVE")
    return {"project": project, "alice": alice, "grant": grant, "servers": servers}


def end(state):
    her = token("alice", ALICE, "web")
    one, two = state["servers"]
    call(her, "POST", f"/compute/v2.1/servers/{two}/action", {"os-stop": None})
    until(two, "SHUTOFF")
    call(her, "DELETE", f"/compute/v2.1/servers/{one}")
    until(one, "DELETED")
    call(admin, "DELETE", state["grant"])
    state["bob"] = user("bob", "bobs-password")
    call(admin, "PUT", f"/identity/v3/projects/{state['project']}/users/{state['bob']}/roles/{role('reader')}")
    return state


def after(state):
    call(admin, "DELETE", f"/compute/v2.1/servers/{state['servers'][1]}")
    until(state["servers"][1], "DELETED")
    return state


admin = token("admin", PASSWORD, "admin")
if SCENE == "begin":
    result = begin()
else:
    with open(STATE) as file:
        result = {"end": end, "after": after}[SCENE](json.load(file))
with open(STATE, "w") as file:
    json.dump(result, file)
