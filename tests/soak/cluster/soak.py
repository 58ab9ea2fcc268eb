#!/usr/bin/env python3
"""Clients of the cluster of tests/testbed/cluster.sh, faults, and the comparison of all records at the end.

soak.py CLUSTER PART AMOUNT LIMIT SEED RESULTS

CLUSTER is the path of cluster.sh. PART is one of PARTS: the kinds of faults. The clients send requests to all members
while one fault after the other strikes. The faults end after AMOUNT faults (`mixed`: AMOUNT seconds), or after LIMIT
seconds. Each fault begins when all members serve and the database is replicated. Prints one line for each fault and each
check. Adds a line of JSON to the file RESULTS for each fault, and one for the run at its end; report.py reads them.
Exits with 1 if a check fails.

Records: each writer writes increasing numbers as the name of its own server. A read is stale if it returns an older
number than the last one that was acknowledged before the read began. A request without an answer, or with 503, may have
happened or not; it may not happen twice.
"""
import collections
import http.client
import json
import os
import random
import re
import subprocess
import sys
import threading
import time

CLUSTER, PART, AMOUNT, LIMIT, SEED, RESULTS = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]), sys.argv[6]
RUN = time.strftime("%FT%TZ", time.gmtime())
STATE = os.environ.get("TESTBED_STATE") or "/var/tmp/tb-" + os.environ.get("TESTBED_ID", "cl")
MEMBERS = {"m1": "10.98.0.21", "m2": "10.98.0.22", "m3": "10.98.0.23"}
DATABASES = "d1,d2,d3"
DICE = random.Random(SEED)
FAILED = []
KINDS = ("write", "read", "work")


def cluster(*words, check=True):
    done = subprocess.run(["bash", CLUSTER, *words], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"cluster.sh {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout.strip() if done.returncode == 0 else None


def say(outcome, what):
    print(f"{time.monotonic() - BEGUN:6.0f} s  {outcome:5} {what}", flush=True)


def note(**fields):
    with open(RESULTS, "a") as results:
        results.write(json.dumps({"run": RUN, **fields}) + "\n")


def check(what, holds, why=""):
    say("ok" if holds else "FAIL", what)
    if not holds:
        FAILED.append(what)
        print(f"        {str(why)[:2000]}", flush=True)


class Api:
    """Sends requests to one member. Status 0: no connection, so nothing was sent. Status -1: no answer."""

    token = None

    def __init__(self, member):
        self.member = member

    def call(self, method, path, body=None, kind="application/json", version="2.96", timeout=40):
        connection = http.client.HTTPConnection(MEMBERS[self.member], 8774, timeout=timeout)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Content-Type": kind, "OpenStack-API-Version": "compute " + version}
        if Api.token:
            headers["X-Auth-Token"] = Api.token
        try:
            connection.connect()
        except OSError:
            return 0, None, {}
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
            try:
                return answer.status, json.loads(text or b"null"), dict(answer.getheaders())
            except ValueError:
                return answer.status, text.decode(errors="replace"), dict(answer.getheaders())
        except (OSError, http.client.HTTPException):
            return -1, None, {}
        finally:
            connection.close()

    def must(self, method, path, body=None, kind="application/json"):
        status, answer, headers = self.call(method, path, body, kind)
        if not 200 <= status < 300:
            raise RuntimeError(f"{method} {path}: {status} {answer}")
        return answer, headers


def authenticate(api):
    password = re.search(r'password: "(.*)"', open(STATE + "/data/clouds.yaml").read()).group(1)
    user = {"name": "admin", "domain": {"id": "default"}, "password": password}
    auth = {"identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": "admin", "domain": {"id": "default"}}}}
    answer, headers = api.must("POST", "/identity/v3/auth/tokens", {"auth": auth})
    Api.token = next(value for name, value in headers.items() if name.lower() == "x-subject-token")
    return answer["token"]["project"]["id"]


def furnish(api, project):
    """Creates what servers need. Returns a function that makes the body of a server of that name."""
    image = api.must("POST", "/image/v2/images", {"name": "t", "disk_format": "raw", "container_format": "bare"})[0]["id"]
    api.must("PUT", f"/image/v2/images/{image}/file", b"\7" * 4096, "application/octet-stream")
    flavor = {"flavor": {"name": "t", "vcpus": 1, "ram": 64, "disk": 1}}
    flavor = api.must("POST", "/compute/v2.1/flavors", flavor)[0]["flavor"]["id"]
    network = api.must("POST", "/network/v2.0/networks", {"network": {"name": "n"}})[0]["network"]["id"]
    api.must("PUT", "/network/v2.0/quotas/" + project, {"quota": {"port": -1}})
    subnet = {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/16"}}
    api.must("POST", "/network/v2.0/subnets", subnet)
    return lambda name: {"server": {"name": name, "imageRef": image, "flavorRef": flavor, "networks": [{"uuid": network}]}}


class Register:
    """The server whose name one writer changes."""

    def __init__(self, server):
        self.server, self.acknowledged, self.unknown, self.next = server, 0, set(), 1


class Clients:
    def __init__(self, registers, body):
        self.registers, self.body, self.over = registers, body, threading.Event()
        self.created, self.asked, self.violations = set(), set(), []
        # The times at which requests succeeded, and at which work on hosts ended: a server became active.
        self.successes = {kind: collections.deque() for kind in KINDS}
        self.building = collections.deque()
        # The member that is being upgraded. A proxy would send it no requests.
        self.away = None
        self.counts = collections.Counter()
        work = [(self.write, member, register) for member, register in zip(MEMBERS, registers)]
        work += [(self.read, member, random.Random(SEED + nth)) for nth, member in enumerate(MEMBERS)]
        work += [(self.create, None, random.Random(SEED + 9)), (self.watch, None, random.Random(SEED + 10))]
        self.threads = [threading.Thread(target=self.repeat, args=one) for one in work]
        for thread in self.threads:
            thread.start()

    def repeat(self, work, member, more):
        while not self.over.is_set():
            try:
                if member is None or member != self.away:
                    work(member, more)
            except Exception as error:  # A client that ends unseen would make the run prove nothing.
                self.violations.append(f"{work.__name__}: {error!r}")
            time.sleep(0.05)

    def outcome(self, kind, what, success, status, answer, headers):
        """Whether the request was acknowledged."""
        names = {name.lower() for name in headers}
        if status == success:
            self.counts[kind + " acknowledged"] += 1
            self.successes[kind].append(time.monotonic())
            return True
        if status == 503 and "retry-after" in names:
            self.counts[kind + " 503"] += 1
        elif status in (0, -1):
            self.counts[kind + (" refused connection" if status == 0 else " without answer")] += 1
            time.sleep(0.2)
        else:
            self.violations.append(f"{what}: {status} {answer}")
        return False

    def write(self, member, register):
        number = register.next
        register.next += 1
        path, body = "/compute/v2.1/servers/" + register.server, {"server": {"name": str(number)}}
        register.unknown.add(number)
        status, answer, headers = Api(member).call("PUT", path, body)
        if self.outcome("write", f"write at {member}", 200, status, answer, headers):
            register.acknowledged = number
            register.unknown.discard(number)
        elif status == 0:
            register.unknown.discard(number)

    def read(self, member, dice):
        register = dice.choice(self.registers)
        least = register.acknowledged
        status, answer, headers = Api(member).call("GET", "/compute/v2.1/servers/" + register.server)
        if self.outcome("read", f"read at {member}", 200, status, answer, headers):
            number = int(answer["server"]["name"])
            if number < least and number not in register.unknown:
                self.violations.append(f"stale read at {member}: {number}, and {least} was acknowledged")

    def create(self, _, dice):
        member, name = self.any_member(dice), f"load-{len(self.asked)}"
        self.asked.add(name)
        status, answer, headers = Api(member).call("POST", "/compute/v2.1/servers", self.body(name))
        if self.outcome("write", f"create at {member}", 202, status, answer, headers):
            self.created.add(name)
            self.building.append(answer["server"]["id"])
        time.sleep(0.2)

    def any_member(self, dice):
        return dice.choice([member for member in MEMBERS if member != self.away])

    def watch(self, _, dice):
        """Waits until the next server is active. A member that is stopped or cut off answers late, so another is asked."""
        server = self.building[0] if self.building else None
        if server is None:
            return
        status, answer, _ = Api(self.any_member(dice)).call("GET", "/compute/v2.1/servers/" + server, timeout=1)
        if status == 200 and answer["server"]["status"] != "BUILD":
            self.building.popleft()
            # Another status than ACTIVE is a finding of the comparison at the end.
            if answer["server"]["status"] == "ACTIVE":
                self.successes["work"].append(time.monotonic())

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def outage(self, kind, begin, end):
        """The longest time without a success."""
        inside = [at for at in list(self.successes[kind]) if begin <= at <= end]
        before = max((at for at in list(self.successes[kind]) if at < begin), default=begin)
        times = [before, *sorted(inside), end]
        return max(later - earlier for earlier, later in zip(times, times[1:]))


def until(what, met, seconds=120):
    limit = time.monotonic() + seconds
    while not met():
        if time.monotonic() > limit:
            raise TimeoutError(what)
        time.sleep(0.1)


def leads():
    return cluster("leader", check=False)


def holder():
    """The process that has the lease. It has a new id at each start."""
    return cluster("sql", "SELECT encode(holder, 'hex') FROM chronova_head", check=False)


def another_leads(than):
    """Whether another process than the one with that id leads. It may be of the same member, after a restart."""
    now = holder()
    return bool(now) and now != than and leads()


def is_primary(other_than):
    primary = cluster("primary", check=False)
    return primary if primary and primary != other_than else None


def ready():
    return cluster("serving", check=False) is not None and leads() and cluster("replicated", check=False) is not None


# Each fault strikes, waits until another process or another database leads, and ends.

def kill_leader(leader, _):
    before = holder()
    cluster("kill", leader, check=False)
    until("another process leads", lambda: another_leads(before))


def kill_follower(leader, _):
    cluster("kill", DICE.choice([member for member in MEMBERS if member != leader]), check=False)
    time.sleep(2)


def pause_leader(leader, _):
    before, length = holder(), DICE.choice([0.5, 3, 30])
    cluster("pause", leader)
    if length < 10:
        time.sleep(length)
        cluster("resume", leader, check=False)
        return
    # Nothing resumes the stopped process, because the kernel kills it.
    until("another process leads", lambda: another_leads(before))


def cut(*words):
    def strike(leader, _):
        before = holder()
        cluster("cut", *[word.replace("LEADER", leader).replace("PEERS", ",".join(m for m in MEMBERS if m != leader)) for word in words])
        if "PEERS" in words:
            # The leader still leads. The others cannot serve until the cut is healed.
            time.sleep(DICE.choice([1, 6]))
        else:
            until("another process leads", lambda: another_leads(before))
        cluster("heal")
    return strike


def blink(leader, _):
    """A cut that is shorter than the lease."""
    cluster("cut", leader, DATABASES)
    time.sleep(1)
    cluster("heal")


def switchover(_, primary):
    cluster("switchover")
    until("another database leads", lambda: is_primary(primary))


def kill_postgres(_, primary):
    cluster("kill-postgres", primary)
    until("a database leads", lambda: is_primary(None) and cluster("replicated", check=False) is not None)


def kill_database(_, primary):
    cluster("kill", primary)
    until("another database leads", lambda: is_primary(primary))
    cluster("start", primary)


def isolate_primary(_, primary):
    """The members still reach the old primary, which has no standby any more."""
    cluster("cut", primary, ",".join(node for node in DATABASES.split(",") if node != primary))
    until("another database leads", lambda: is_primary(primary))
    cluster("heal")


def upgrade(leader, _):
    """Gives the members the program CHRONOVA_BIN one after the other, as docs/high-availability.md says."""
    followers = [member for member in MEMBERS if member != leader]
    for member in followers:
        renew(member)
    cluster("operator", "cluster", "switchover", followers[0])
    until("the follower leads", lambda: leads() == followers[0])
    renew(leader)


def renew(member):
    program = os.path.realpath(os.environ["CHRONOVA_BIN"])
    CLIENTS.away = member
    # The requests at this member end.
    time.sleep(1)
    cluster("install", member, program)
    cluster("end", member, check=False)
    until("the newer program serves", lambda: cluster("program", member, check=False) == program and ready())
    CLIENTS.away = None


# The weights of the faults in a mixed part.
FAULTS = {
    "leader killed": (12, kill_leader),
    "leader stopped (SIGSTOP)": (8, pause_leader),
    "follower killed": (2, kill_follower),
    "leader cut from the database, both ways": (3, cut("LEADER", DATABASES)),
    "leader cut from the database, its packets": (2, cut("LEADER", DATABASES, "oneway")),
    "leader cut from the database, the answers": (2, cut(DATABASES, "LEADER", "oneway")),
    "leader cut from the database for 1 s": (1, blink),
    "leader cut from the followers": (3, cut("LEADER", "PEERS")),
    "database switchover": (4, switchover),
    "PostgreSQL of the primary killed": (3, kill_postgres),
    "node of the primary killed": (3, kill_database),
    "primary cut from the other databases": (3, isolate_primary),
    "members upgraded to another program": (0, upgrade),
}
PARTS = {
    "kills": ["leader killed"],
    "pauses": ["leader stopped (SIGSTOP)"],
    "cuts": [kind for kind in FAULTS if kind.startswith("leader cut")],
    "databases": ["PostgreSQL of the primary killed", "node of the primary killed", "primary cut from the other databases"],
    "mixed": [kind for kind, (weight, _) in FAULTS.items() if weight],
    "upgrade": ["members upgraded to another program"],
}


def one_fault(clients, kind):
    until("the cluster is whole", ready, 180)
    leader, primary = leads(), cluster("primary")
    time.sleep(1)
    begun = time.monotonic()
    FAULTS[kind][1](leader, primary)
    until("the cluster is whole again", ready, 180)
    whole = time.monotonic()
    # Work on hosts waits for the end of the former leader's lease.
    until("work on hosts continues", lambda: clients.successes["work"] and clients.successes["work"][-1] > whole)
    time.sleep(1)
    end = time.monotonic()
    outages = {what: round(clients.outage(what, begun, end), 2) for what in KINDS}
    note(fault=kind, **outages)
    say("fault", f"{kind} (leader {leader}, primary {primary}): without a write {outages['write']} s, "
        f"without a read {outages['read']} s, without work on hosts {outages['work']} s")


def faults():
    """Yields kinds of faults: each kind once, in a random order, and then by weight."""
    kinds, struck = PARTS[PART], 0
    order = DICE.sample(kinds, len(kinds))
    while True:
        passed = time.monotonic() - STRUCK
        if passed > LIMIT or (passed >= AMOUNT if PART == "mixed" else struck == AMOUNT):
            return
        struck += 1
        yield order.pop() if order else DICE.choices(kinds, [FAULTS[kind][0] or 1 for kind in kinds])[0]


def names_at(member):
    names, marker = [], ""
    while True:
        page = Api(member).must("GET", f"/compute/v2.1/servers/detail?limit=1000{marker}")[0]["servers"]
        if not page:
            return names
        marker = "&marker=" + page[-1]["id"]
        names += [(server["id"], server["name"], server["status"]) for server in page]


def at_rest():
    status, text, _ = Api(leads()).call("GET", "/metrics") if leads() else (0, "", {})
    return status == 200 and "\nchronova_processes_unfinished 0\n" in text


def compare(clients):
    check("each answer was a success or a 503", not clients.violations, clients.violations[:10])
    until("no work is under way", at_rest, 180)
    shown = {member: names_at(member) for member in MEMBERS}
    check("all members show the same servers", len({json.dumps(sorted(one)) for one in shown.values()}) == 1)
    servers = next(iter(shown.values()))
    counted = collections.Counter(name for _, name, _ in servers if name.startswith("load-"))
    lost = clients.created - set(counted)
    check(f"none of {len(clients.created)} acknowledged servers is lost", not lost, lost)
    check("no server was created twice", max(counted.values(), default=0) <= 1, counted.most_common(3))
    check("no server exists that nobody asked for", not set(counted) - clients.asked)
    failed = [server for server in servers if server[2] != "ACTIVE"]
    check("every server is active", not failed, failed[:5])
    by_id = {server[0]: server[1] for server in servers}
    for register in clients.registers:
        number = int(by_id[register.server])
        check(f"a register has the last of {register.next - 1} writes", number == register.acknowledged or number in register.unknown,
              f"{number}, and {register.acknowledged} was acknowledged last")


def main():
    global CLIENTS, STRUCK
    first = Api(cluster("leader"))
    body = furnish(first, authenticate(first))
    registers = [Register(first.must("POST", "/compute/v2.1/servers", body("0"))[0]["server"]["id"]) for _ in MEMBERS]
    CLIENTS, STRUCK = Clients(registers, body), time.monotonic()
    try:
        for kind in faults():
            one_fault(CLIENTS, kind)
    except (TimeoutError, RuntimeError) as error:
        check("the cluster comes back after each fault", False, error)
    finally:
        cluster("heal", check=False)
        CLIENTS.end()
    seconds = round(time.monotonic() - STRUCK)
    if not FAILED:
        compare(CLIENTS)
    if PART == "upgrade":
        failed = {kind: number for kind, number in CLIENTS.counts.items() if kind in ("read 503", "read without answer")}
        check("no read failed during the upgrade", not failed, failed)
    cluster("down-members")
    epoch, position = (int(cluster("sql", f"SELECT {column} FROM chronova_head")) for column in ("epoch", "position"))
    verified = subprocess.run(["bash", CLUSTER, "operator", "audit", "verify"], capture_output=True, text=True)
    check(f"the log of {position} events is verified", verified.returncode == 0, verified.stdout + verified.stderr)
    note(part=PART, seconds=seconds, seed=SEED, lease=int(os.environ.get("CLUSTER_LEASE", 6)), epoch=epoch, events=position,
         program=os.environ.get("CLUSTER_BUILD", ""), counts=dict(sorted(CLIENTS.counts.items())), failed=FAILED)
    sys.exit(1 if FAILED else 0)


BEGUN = STRUCK = time.monotonic()
CLIENTS = None
main()
