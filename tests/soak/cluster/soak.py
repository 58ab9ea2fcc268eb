#!/usr/bin/env python3
"""Clients of the cluster of tests/testbed/cluster.sh, faults, and the comparison of all records at the end.

soak.py CLUSTER PART AMOUNT LIMIT SEED RESULTS

CLUSTER is the path of cluster.sh. PART is one of PARTS: the kinds of faults. The clients send requests to all members
while one fault after the other strikes. The faults end after AMOUNT faults (`mixed`: AMOUNT seconds), or after LIMIT
seconds. Each fault begins when all members serve and the database is replicated. Prints one line for each fault and each
check. Adds a line of JSON to the file RESULTS for each fault, and one for the run at its end; report.py reads them.
Exits with 1 if a check fails.
"""
import collections
import json
import os
import subprocess
import sys
import time

from common import (AMOUNT, CLUSTER, DATABASES, DICE, FAILED, KINDS, LIMIT, MEMBERS, PART, PATIENCE, SEED, Api, Clients, Register,
                    another_leads, authenticate, check, cluster, furnish, holder, is_primary, kill_leader, leads, note,
                    pause_leader, ready, say, until)


# Each fault strikes, waits until another process or another database leads, and ends.

def kill_follower(leader, _):
    cluster("kill", DICE.choice([member for member in MEMBERS if member != leader]), check=False)
    time.sleep(2)


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
    cluster("cut", primary, ",".join(others(primary)))
    until("another database leads", lambda: is_primary(primary))
    cluster("heal")


def kill_with_other_clocks(leader, _):
    # The certificates of the members are older than half a minute.
    for member in MEMBERS:
        cluster("clock", member, str(DICE.randrange(-30, 91)))
    kill_leader(leader, None)


def fill_disk(_, primary):
    """The disk of the primary's node is full for a while. Whatever ended there is started again afterwards."""
    cluster("fill", primary)
    time.sleep(20)
    cluster("drain", primary)
    cluster("kill", primary, check=False)
    cluster("start", primary)


def others(primary):
    return [node for node in DATABASES.split(",") if node != primary]


def lose_standbys(_, primary):
    """Without a standby, no write may be acknowledged, and members answer reads with their age."""
    aged = CLIENTS.counts["read with an age"]
    for node in others(primary):
        cluster("lose", node)
    lost = time.monotonic()
    time.sleep(15)
    found, late = time.monotonic(), list(CLIENTS.successes["write"])
    late = [at for at in late if lost + 1 < at < found]
    if late:
        check("no write is acknowledged without a standby", False, f"{len(late)} writes")
    if CLIENTS.counts["read with an age"] == aged:
        check("reads are answered with an age while nobody leads", False)
    for node in others(primary):
        cluster("regain", node)


def slow_replication(_, primary):
    for node in others(primary):
        cluster("slow", node)
    time.sleep(20)
    for node in others(primary):
        cluster("fast", node)


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
    "disk of the primary full": (0, fill_disk),
    "leader killed while clocks differ": (0, kill_with_other_clocks),
    "both standbys of the database lost": (0, lose_standbys),
    "replication delayed and lossy": (0, slow_replication),
    "members upgraded to another program": (0, upgrade),
    # `takeover` names the size of the log.
    f"leader killed, {os.environ.get('CLUSTER_SIZE')}": (0, kill_leader),
}
PARTS = {
    "kills": ["leader killed"],
    "pauses": ["leader stopped (SIGSTOP)"],
    "cuts": [kind for kind in FAULTS if kind.startswith("leader cut")],
    "databases": ["PostgreSQL of the primary killed", "node of the primary killed", "primary cut from the other databases"],
    "mixed": [kind for kind, (weight, _) in FAULTS.items() if weight],
    "disks": ["disk of the primary full"],
    "clocks": ["leader killed while clocks differ"],
    "standbys": ["both standbys of the database lost", "replication delayed and lossy"],
    "upgrade": ["members upgraded to another program"],
    "takeover": [kind for kind in FAULTS if kind.startswith("leader killed, ")],
}


def one_fault(clients, kind):
    until("the cluster is whole", ready, PATIENCE * 3 // 2)
    leader, primary = leads(), cluster("primary")
    time.sleep(1)
    begun = time.monotonic()
    FAULTS[kind][1](leader, primary)
    until("the cluster is whole again", ready, PATIENCE * 3 // 2)
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
    differs = clients.feed_differs()
    check(f"a feed that was resumed {clients.counts['feed resumed']} times had each of {len(clients.followed)} events once",
          clients.followed and not differs, differs[:5])
    until("no work is under way", at_rest, PATIENCE * 3 // 2)
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
        number = int(by_id[register.path.rpartition("/")[2]])
        check(f"a register has the last of {register.next - 1} writes", register.holds(number),
              f"{number}, and {register.acknowledged} was acknowledged last")


def main():
    global CLIENTS, STRUCK
    first = Api(cluster("leader"))
    body = furnish(first, authenticate(first))
    made = [first.must("POST", "/compute/v2.1/servers", body("0"))[0]["server"]["id"] for _ in MEMBERS]
    registers = [Register("servers/" + server) for server in made]
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


STRUCK = time.monotonic()
CLIENTS = None
main()
