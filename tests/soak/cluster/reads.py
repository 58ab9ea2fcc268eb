#!/usr/bin/env python3
"""Measures reads at the leader and at a follower, and how long a follower takes to show a write.

The arguments are those of soak.py; AMOUNT is the number of requests of each kind. Adds one line of JSON to RESULTS. The
times include those of this client, which are the same for all kinds.
"""
import http.client
import json
import os
import time

from common import AMOUNT, MEMBERS, SEED, Api, authenticate, cluster, furnish, note, until


class Connection:
    """One connection that stays open."""

    def __init__(self, member):
        self.http = http.client.HTTPConnection(MEMBERS[member], timeout=40)
        self.headers = {"X-Auth-Token": Api.token, "Content-Type": "application/json", "OpenStack-API-Version": "compute 2.96"}

    def send(self, method, path, body=None):
        """The answer, and the milliseconds until it was there."""
        begun = time.perf_counter()
        self.http.request(method, path, None if body is None else json.dumps(body), self.headers)
        answer = self.http.getresponse()
        text = answer.read()
        took = (time.perf_counter() - begun) * 1000
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {text}")
        return json.loads(text), took


def figures(times):
    times = sorted(times)
    return {f"p{part}": round(times[min(len(times) - 1, len(times) * part // 100)], 2) for part in (50, 99)}


def main():
    leader = cluster("leader")
    first = Api(leader)
    body = furnish(first, authenticate(first))
    server = first.must("POST", "/compute/v2.1/servers", body("0"))[0]["server"]["id"]
    path = "/compute/v2.1/servers/" + server
    until("the server is active", lambda: first.must("GET", path)[0]["server"]["status"] == "ACTIVE")
    led, followed = Connection(leader), Connection(next(member for member in MEMBERS if member != leader))
    kinds = {"GET at the leader": [], "GET at a follower": [], "PUT at the leader": [], "PUT at a follower": [],
             "GET at a follower right after a PUT at the leader": []}
    for nth in range(AMOUNT):
        kinds["GET at the leader"].append(led.send("GET", path)[1])
        kinds["GET at a follower"].append(followed.send("GET", path)[1])
        kinds["PUT at a follower"].append(followed.send("PUT", path, {"server": {"name": f"a-{nth}"}})[1])
        kinds["PUT at the leader"].append(led.send("PUT", path, {"server": {"name": f"b-{nth}"}})[1])
        answer, took = followed.send("GET", path)
        if answer["server"]["name"] != f"b-{nth}":
            raise RuntimeError(f"a stale read: {answer}")
        kinds["GET at a follower right after a PUT at the leader"].append(took)
    shown = {kind: figures(times) for kind, times in kinds.items()}
    for kind, one in shown.items():
        print(f"{kind}: p50 {one['p50']} ms, p99 {one['p99']} ms", flush=True)
    note(part="reads", seconds=0, seed=SEED, lease=int(os.environ.get("CLUSTER_LEASE", 6)), events=0, milliseconds=shown,
         program=os.environ.get("CLUSTER_BUILD", ""), counts={}, failed=[])


main()
