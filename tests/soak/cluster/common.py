"""What soak.py, hosts.py and prepare.py share: their arguments, the requests to the members, and the clients with their records.

Records: each writer writes increasing numbers into its own register. A read is stale if it returns an older number than
the last one that was acknowledged before the read began. A request without an answer, or with 503, may have happened or
not; it may not happen twice.
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
DATA = os.environ.get("CLUSTER_DATA") or STATE + "/data"
MEMBERS = {name: f"10.98.0.2{name[1:]}:8774" for name in (os.environ.get("CLUSTER_MEMBERS") or "m1 m2 m3").split()}
# A control plane without a cluster.
if "CLUSTER_ALONE" in os.environ:
    MEMBERS = {"m1": os.environ["CLUSTER_ALONE"]}
DATABASES = "d1,d2,d3"
DICE = random.Random(SEED)
FAILED = []
KINDS = ("write", "read", "work")
BEGUN = time.monotonic()
# The seconds after which something that does not come never will.
PATIENCE = int(os.environ.get("CLUSTER_PATIENCE", 120))


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
        connection = http.client.HTTPConnection(MEMBERS[self.member], timeout=timeout)
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
    password = re.search(r'password: "(.*)"', open(DATA + "/clouds.yaml").read()).group(1)
    user = {"name": "admin", "domain": {"id": "default"}, "password": password}
    auth = {"identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": "admin", "domain": {"id": "default"}}}}
    answer, headers = api.must("POST", "/identity/v3/auth/tokens", {"auth": auth})
    Api.token = next(value for name, value in headers.items() if name.lower() == "x-subject-token")
    return answer["token"]["project"]["id"]


def furnish(api, project, content=b"\7" * 4096, form="raw", ram=64):
    """Creates what servers need. Returns a function that makes the body of a server of that name."""
    image = api.must("POST", "/image/v2/images", {"name": "t", "disk_format": form, "container_format": "bare"})[0]["id"]
    api.must("PUT", f"/image/v2/images/{image}/file", content, "application/octet-stream")
    flavor = {"flavor": {"name": "t", "vcpus": 1, "ram": ram, "disk": 1}}
    flavor = api.must("POST", "/compute/v2.1/flavors", flavor)[0]["flavor"]["id"]
    network = api.must("POST", "/network/v2.0/networks", {"network": {"name": "n"}})[0]["network"]["id"]
    api.must("PUT", "/network/v2.0/quotas/" + project, {"quota": {"port": -1}})
    subnet = {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/16"}}
    api.must("POST", "/network/v2.0/subnets", subnet)
    return lambda name: {"server": {"name": name, "imageRef": image, "flavorRef": flavor, "networks": [{"uuid": network}]}}


class Register:
    """The field of a resource that one writer changes."""

    def __init__(self, path, noun="server", field="name"):
        self.path, self.noun, self.field = "/compute/v2.1/" + path, noun, field
        self.acknowledged, self.unknown, self.next = 0, set(), 1

    def number(self, answer):
        return int(answer[self.noun][self.field])

    def holds(self, number):
        """Whether the register may have this number after all writes."""
        return number == self.acknowledged or number in self.unknown


class Clients:
    """Without a `body` of servers, the clients create none."""

    def __init__(self, registers, body):
        self.registers, self.body, self.over = registers, body, threading.Event()
        self.created, self.asked, self.violations = set(), set(), []
        # The times at which requests succeeded, and at which work on hosts ended: a server became active.
        self.successes = {kind: collections.deque() for kind in KINDS}
        self.building = collections.deque()
        # The member that is being upgraded. A proxy would send it no requests.
        self.away = None
        # The ids of the events that the feed had, by their positions; it began after `followed_from`.
        self.followed, self.followed_from = {}, int(cluster("sql", "SELECT position FROM chronova_head"))
        self.followed_to = self.followed_from
        self.counts = collections.Counter()
        work = [(self.write, member, register) for member, register in zip(MEMBERS, registers)]
        work += [(self.read, member, random.Random(SEED + nth)) for nth, member in enumerate(MEMBERS)]
        work += [(self.follow, None, random.Random(SEED + 11))]
        if body:
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
        body = {register.noun: {register.field: str(number)}}
        register.unknown.add(number)
        status, answer, headers = Api(member).call("PUT", register.path, body)
        if self.outcome("write", f"write at {member}", 200, status, answer, headers):
            register.acknowledged = number
            register.unknown.discard(number)
        elif status == 0:
            register.unknown.discard(number)

    def read(self, member, dice):
        register = dice.choice(self.registers)
        least = register.acknowledged
        status, answer, headers = Api(member).call("GET", register.path)
        if status == 200 and any(name.lower() == "age" for name in headers):
            # With `stale_reads`, a member without a leader says that its answer may be old.
            self.counts["read with an age"] += 1
        elif self.outcome("read", f"read at {member}", 200, status, answer, headers):
            number = register.number(answer)
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

    def follow(self, _, dice):
        """Follows the log at one member for some events, or until the feed ends. The next call goes on at another member."""
        connection = http.client.HTTPConnection(MEMBERS[self.any_member(dice)], timeout=8)
        headers = {"X-Auth-Token": Api.token, "Accept": "text/event-stream", "Last-Event-ID": str(self.followed_to)}
        left, position = dice.randrange(50, 500), None
        try:
            connection.request("GET", "/chronova/v1/events", headers=headers)
            answer = connection.getresponse()
            self.counts["feed resumed" if answer.status == 200 else "feed refused"] += 1
            while answer.status == 200 and left and not self.over.is_set():
                line = answer.readline()
                if not line.endswith(b"\n"):
                    break  # The connection has ended, perhaps within a line.
                if line.startswith(b"id: "):
                    position = int(line[4:])
                elif line.startswith(b"data: "):
                    if position != self.followed_to + 1:
                        self.violations.append(f"the feed has {position} after {self.followed_to}")
                    self.followed[position] = json.loads(line[6:])["id"].replace("-", "")
                    self.followed_to, left = position, left - 1
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()

    def feed_differs(self):
        """The events of the feed that the log does not have, or has otherwise."""
        rows = cluster("sql", f"SELECT position, encode(id, 'hex') FROM chronova_events WHERE position > {self.followed_from}")
        there = dict(row.split("|") for row in rows.splitlines())
        return [position for position, event in self.followed.items() if there.get(str(position)) != event]

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


def until(what, met, seconds=PATIENCE):
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


def kill_leader(leader, _):
    before = holder()
    cluster("kill", leader, check=False)
    until("another process leads", lambda: another_leads(before))


def pause_leader(leader, _):
    before, length = holder(), DICE.choice([0.5, 3, 30])
    cluster("pause", leader)
    if length < 10:
        time.sleep(length)
        cluster("resume", leader, check=False)
        return
    # Nothing resumes the stopped process, because the kernel kills it.
    until("another process leads", lambda: another_leads(before))
