#!/usr/bin/env python3
"""`openstack server create --wait` at each of the members, while one of the members is killed.

The arguments are those of soak.py. Each command must succeed, or fail because of a 503 or of the death of the very member
that it asked. Then the server is there, or a repeat at another member succeeds. At the end there are exactly the servers
that were asked for, and after their deletion nothing is left.
"""
import os
import re
import subprocess
import sys
import threading
import time

from common import (AMOUNT, CLUSTER, DATA, DICE, FAILED, LIMIT, MEMBERS, PATIENCE, SEED, Api, authenticate, check, cluster, furnish,
                    leads, note, ready, say, until)

SERVERS = "/compute/v2.1/servers"
PASSWORD = re.search(r'password: "(.*)"', open(DATA + "/clouds.yaml").read()).group(1)


def openstack(member, *words):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    environment |= {"OS_AUTH_URL": f"http://{MEMBERS[member]}/identity/v3", "OS_USERNAME": "admin", "OS_PASSWORD": PASSWORD,
                    "OS_PROJECT_NAME": "admin", "OS_USER_DOMAIN_ID": "default", "OS_PROJECT_DOMAIN_ID": "default",
                    "OS_IDENTITY_API_VERSION": "3"}
    done = subprocess.run(["openstack", *words], env=environment, capture_output=True, text=True, timeout=PATIENCE * 2)
    return done.returncode, done.stdout + done.stderr


def listed(path, key):
    return Api(leads()).must("GET", path)[0][key]


def is_there(name):
    return any(server["name"] == name for server in listed(SERVERS, "servers"))


def one_round(nth):
    until("the cluster is whole", ready, PATIENCE * 3 // 2)
    names = list(MEMBERS)
    # Each pair of an asked and a killed member comes once in nine rounds.
    asked, killed = names[nth % 3], names[nth // 3 % 3]
    role = "leader" if leads() == killed else "follower"
    killer = threading.Timer(DICE.uniform(0.5, 4), cluster, ("kill", killed), {"check": False})
    begun, name = time.monotonic(), f"client-{nth}"
    create = ("server", "create", "--wait", "--flavor", "t", "--image", "t", "--network", "n", name)
    killer.start()
    status, text = openstack(asked, *create)
    took = round(time.monotonic() - begun, 1)
    killer.join()
    until("the cluster is whole again", ready, PATIENCE * 3 // 2)
    outcome = "succeeds" if status == 0 else "fails"
    if status != 0:
        allowed = "503" in text or "Service Unavailable" in text or asked == killed
        if not allowed:
            check("a command fails only with 503, or with the member that it asked", False, text[-1500:])
        if not is_there(name):
            status, text = openstack(next(member for member in names if member != killed), *create)
            if status != 0:
                check("a repeat succeeds", False, text[-1500:])
    note(command="openstack server create --wait", asked=asked, killed=killed, role=role, outcome=outcome, seconds=took)
    say("fault", f"{asked} is asked, the {role} {killed} is killed: the command {outcome} after {took} s")


def compare(rounds):
    names = sorted(f"client-{nth}" for nth in range(rounds))
    until("every server is active", lambda: all(one["status"] == "ACTIVE" for one in listed(SERVERS + "/detail", "servers")))
    found = sorted(server["name"] for server in listed(SERVERS, "servers"))
    check(f"there are exactly the {rounds} servers that were asked for", found == names, found)
    for server in listed(SERVERS, "servers"):
        Api(leads()).must("DELETE", f"{SERVERS}/{server['id']}")
    until("all servers are deleted", lambda: not listed(SERVERS, "servers"))
    ports = [port for port in listed("/network/v2.0/ports", "ports") if port.get("device_owner", "").startswith("compute:")]
    check("no port of a server is left", not ports, ports)
    usages = []
    for provider in listed("/placement/resource_providers", "resource_providers"):
        usages += listed(f"/placement/resource_providers/{provider['uuid']}/usages", "usages").values()
    check("Placement has no usage", not any(usages), usages)


def main():
    first = Api(cluster("leader"))
    furnish(first, authenticate(first))
    begun, rounds = time.monotonic(), 0
    try:
        while rounds < AMOUNT and time.monotonic() < begun + LIMIT:
            one_round(rounds)
            rounds += 1
        seconds = round(time.monotonic() - begun)
        compare(rounds)
    except (TimeoutError, RuntimeError, subprocess.TimeoutExpired) as error:
        seconds = round(time.monotonic() - begun)
        check("the cluster comes back after each fault", False, error)
    cluster("down-members")
    epoch, position = (int(cluster("sql", f"SELECT {column} FROM chronova_head")) for column in ("epoch", "position"))
    verified = subprocess.run(["bash", CLUSTER, "operator", "audit", "verify"], capture_output=True, text=True)
    check(f"the log of {position} events is verified", verified.returncode == 0, verified.stdout + verified.stderr)
    note(part="client", seconds=seconds, seed=SEED, lease=int(os.environ.get("CLUSTER_LEASE", 6)), epoch=epoch, events=position,
         program=os.environ.get("CLUSTER_BUILD", ""), counts={}, failed=FAILED)
    sys.exit(1 if FAILED else 0)


main()
