#!/usr/bin/env python3
"""Leaders are killed and stopped while two real hosts build, migrate and evacuate guests.

hosts.py CLUSTER PART AMOUNT LIMIT SEED RESULTS

The arguments are those of soak.py; CHRONOVA_IMAGE is the guest image, and CLUSTER_HOSTS the id of the
hosts' testbed (tests/testbed/hosts.sh). Each round requests one piece of work on the hosts, and strikes the leader up to four seconds
later. The work must then end well. A guest must never run on both hosts. At the end, the members, the hosts and
Placement must agree, and nothing may be left of deleted servers.
"""
import os
import subprocess
import sys
import threading
import time

from common import (AMOUNT, CLUSTER, DICE, FAILED, LIMIT, MEMBERS, PATIENCE, SEED, Api, Clients, Register, authenticate, check, cluster,
                    furnish, kill_leader, leads, note, pause_leader, ready, say, until)

TESTBED = os.environ["CLUSTER_HOSTS"]
HOSTS = ("h1", "h2")
SERVERS = "/compute/v2.1/servers"
# Each fourth fault is a pause: 40 rounds have 30 kills and 10 pauses.
FAULTS = {"killed": kill_leader, "stopped (SIGSTOP)": pause_leader}
UNDER_WAY = ("accepted", "queued", "preparing", "running", "migrating", "finishing", "post-migrating", "pre-migrating")


def host(command, *words):
    script = os.path.join(os.path.dirname(CLUSTER), "hosts.sh")
    environment = {**os.environ, "TESTBED_ID": TESTBED}
    environment.pop("TESTBED_STATE", None)
    done = subprocess.run(["bash", script, command, *words], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"hosts.sh {command}: {done.stdout}{done.stderr}")


def virsh(name, *words):
    """The words that virsh prints. A host without power has no guests."""
    uri = f"qemu+unix:///system?socket=/var/tmp/tb-{TESTBED}/{name}/run/libvirt-sock"
    done = subprocess.run(["virsh", "-q", "-c", uri, *words], capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else []


def running(name):
    return set(virsh(name, "list", "--uuid", "--state-running"))


class Onlooker(threading.Thread):
    """Looks for guests that run on both hosts."""

    def __init__(self):
        super().__init__(daemon=True)
        self.over, self.looks, self.seen, self.twice = threading.Event(), 0, set(), set()

    def run(self):
        while not self.over.wait(0.5):
            # A guest that migrates between two looks is on the first host only once.
            before, other, after = running("h1"), running("h2"), running("h1")
            self.seen |= before | other
            self.twice |= before & other & after
            self.looks += 1


def ask(method, path, body=None):
    """Repeats a request until it is answered. After a lost answer, a refusal can mean that the request was performed."""
    limit, unsure = time.monotonic() + 60, False
    while True:
        status, answer, _ = Api(DICE.choice(list(MEMBERS))).call(method, path, body)
        if status not in (0, -1, 503) or time.monotonic() > limit:
            return 200 if unsure and status in (404, 409) else status, answer
        unsure = unsure or status != 0
        time.sleep(0.5)


def listed(path, key):
    status, answer = ask("GET", path)
    if status != 200 or not answer:
        raise RuntimeError(f"GET {path}: {status} {answer}")
    return answer[key]


def server(one):
    return listed(f"{SERVERS}/{one}", "server")


def settled(some):
    """Whether no work on these servers is under way."""
    for one in map(server, some):
        if one["OS-EXT-STS:task_state"] or one["status"] in ("BUILD", "MIGRATING", "REBUILD"):
            return False
    return not any(one["status"] in UNDER_WAY for one in listed("/compute/v2.1/os-migrations", "migrations"))


def place(one):
    return server(one)["OS-EXT-SRV-ATTR:host"]


def state_is(name, state):
    services = listed("/compute/v2.1/os-services?binary=nova-compute", "services")
    return [one["state"] for one in services if one["host"] == name] == [state]


def act(one, body):
    status, answer = ask("POST", f"{SERVERS}/{one}/action", body)
    check_quietly(f"the request {list(body)} is accepted", status in (200, 202), (status, answer))


def check_quietly(what, holds, why):
    if not holds:
        check(what, False, why)


class Rounds:
    def __init__(self, clients, body):
        self.clients, self.body, self.servers, self.made, self.ends = clients, body, [], 0, {}

    def build(self):
        """Two builds. Two older servers go, so that the hosts do not fill up."""
        for old in self.servers[2:]:
            ask("DELETE", f"{SERVERS}/{old}")
        self.servers = self.servers[:2]
        for _ in range(2):
            self.made += 1
            self.servers.append(self.create(f"guest-{self.made}"))
        return self.servers[-2:]

    def create(self, name):
        """A repeat after a lost answer would make a second server, so the name is looked up before."""
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            status, answer, _ = Api(DICE.choice(list(MEMBERS))).call("POST", SERVERS, self.body(name))
            if status == 202:
                return answer["server"]["id"]
            found = [one["id"] for one in listed(SERVERS, "servers") if one["name"] == name]
            if found:
                return found[0]
        raise TimeoutError("a server is created")

    def migrate(self):
        some = self.servers[:2]
        for one in some:
            act(one, {"os-migrateLive": {"host": None, "block_migration": "auto"}})
        return some

    def evacuate(self):
        away = place(self.servers[0])
        some = [one for one in self.servers if place(one) == away]
        host("crash", away)
        self.away = away
        until(f"{away} is down", lambda: state_is(away, "down"))
        for one in some:
            act(one, {"evacuate": {}})
        return some

    def end_evacuation(self, some):
        for one in some:
            check_quietly("an evacuated server is on the other host", place(one) != self.away, server(one))
        host("boot", self.away)
        until(f"{self.away} is up again", lambda: state_is(self.away, "up"))

    def strike(self, work, fault):
        until("the cluster is whole", ready, PATIENCE * 3 // 2)
        some = getattr(self, work)()
        time.sleep(DICE.uniform(0, 4))
        begun = time.monotonic()
        FAULTS[fault](leads(), None)
        until("the cluster is whole again", ready, PATIENCE * 3 // 2)
        until(f"the {work} ends", lambda: settled(some), 300)
        end = time.monotonic()
        for one in some:
            shown = server(one)
            check_quietly(f"a server is ACTIVE after the {work}", shown["status"] == "ACTIVE", shown)
            at = [name for name in HOSTS if one in running(name)]
            agree = at == [shown["OS-EXT-SRV-ATTR:host"]]
            check_quietly(f"the guest runs where the API shows it after the {work}", agree, (at, shown))
        if work == "evacuate":
            self.end_evacuation(some)
        outages = {what: round(self.clients.outage(what, begun, end), 2) for what in ("write", "read")}
        # The work on hosts is back when what was under way has ended.
        outages["work"] = round(end - begun, 2)
        kind = f"two real hosts, leader {fault}: {work}"
        note(fault=kind, **outages)
        say("fault", f"{kind}: without a write {outages['write']} s, without a read {outages['read']} s; "
            f"ended after {outages['work']} s")


def compare(rounds, onlooker, registers):
    check(f"none of {len(onlooker.seen)} guests ran on both hosts in {onlooker.looks} looks",
          onlooker.seen and not onlooker.twice, onlooker.twice)
    check("each answer was a success or a 503", not rounds.clients.violations, rounds.clients.violations[:10])
    differs = rounds.clients.feed_differs()
    check(f"a feed that was resumed {rounds.clients.counts['feed resumed']} times had each of {len(rounds.clients.followed)} events once",
          rounds.clients.followed and not differs, differs[:5])
    for register in registers:
        number = register.number(Api("m1").must("GET", register.path)[0])
        check(f"a register has the last of {register.next - 1} writes", register.holds(number), (number, register.acknowledged))
    until("the deleted servers are gone", lambda: len(listed(SERVERS, "servers")) == len(rounds.servers))
    shown = {member: sorted(one["id"] for one in Api(member).must("GET", SERVERS)[0]["servers"]) for member in MEMBERS}
    check("all members show the servers of the rounds", all(one == sorted(rounds.servers) for one in shown.values()), shown)
    ended = {one["status"] for one in listed("/compute/v2.1/os-migrations", "migrations")}
    say("", f"the migrations are {', '.join(sorted(ended))}")
    for one in rounds.servers:
        ask("DELETE", f"{SERVERS}/{one}")
    until("all servers are deleted", lambda: not listed(SERVERS, "servers"))
    until("no guest is left on the hosts", lambda: not any(virsh(name, "list", "--all", "--uuid") for name in HOSTS))
    usages = []
    for provider in listed("/placement/resource_providers", "resource_providers"):
        usages += listed(f"/placement/resource_providers/{provider['uuid']}/usages", "usages").values()
    check("Placement has no usage", not any(usages), usages)


def main():
    first = Api(cluster("leader"))
    body = furnish(first, authenticate(first), open(os.environ["CHRONOVA_IMAGE"], "rb").read(), "qcow2", 160)
    registers = []
    for member in MEMBERS:
        flavor = {"flavor": {"name": f"register-{member}", "vcpus": 1, "ram": 64, "disk": 1, "description": "0"}}
        made = first.must("POST", "/compute/v2.1/flavors", flavor)[0]["flavor"]["id"]
        registers.append(Register("flavors/" + made, "flavor", "description"))
    for name in HOSTS:
        until(f"{name} is up", lambda name=name: state_is(name, "up"))
    clients, onlooker = Clients(registers, None), Onlooker()
    onlooker.start()
    rounds, begun = Rounds(clients, body), time.monotonic()
    try:
        rounds.servers = [rounds.create(f"first-{nth}") for nth in range(2)]
        until("the first guests run", lambda: settled(rounds.servers), 300)
        for nth in range(AMOUNT):
            if time.monotonic() > begun + LIMIT:
                break
            rounds.strike(("build", "migrate", "evacuate")[nth % 3], "stopped (SIGSTOP)" if nth % 4 == 3 else "killed")
    except (TimeoutError, RuntimeError) as error:
        check("the work ends well after each fault", False, error)
    clients.end()
    onlooker.over.set()
    seconds = round(time.monotonic() - begun)
    if not FAILED:
        try:
            compare(rounds, onlooker, registers)
        except (TimeoutError, RuntimeError) as error:
            check("all records can be compared", False, error)
    cluster("down-members")
    epoch, position = (int(cluster("sql", f"SELECT {column} FROM chronova_head")) for column in ("epoch", "position"))
    verified = subprocess.run(["bash", CLUSTER, "operator", "audit", "verify"], capture_output=True, text=True)
    check(f"the log of {position} events is verified", verified.returncode == 0, verified.stdout + verified.stderr)
    note(part="hosts", seconds=seconds, seed=SEED, lease=int(os.environ.get("CLUSTER_LEASE", 6)), epoch=epoch, events=position,
         program=os.environ.get("CLUSTER_BUILD", ""), counts=dict(sorted(clients.counts.items())), failed=FAILED)
    sys.exit(1 if FAILED else 0)


main()
