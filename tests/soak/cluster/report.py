#!/usr/bin/env python3
"""report.py RESULTS: prints the sums and the outages of all runs of tests/soak/cluster.sh whose checks passed."""
import collections
import json
import sys

KILLED, STOPPED = "leader killed", "leader stopped (SIGSTOP)"
FAILOVERS = ("PostgreSQL of the primary killed", "node of the primary killed", "primary cut from the other databases")
AIMS = [
    ("kills of the leader", 500, lambda kind: kind == KILLED),
    ("pauses of the leader", 200, lambda kind: kind == STOPPED),
    ("cuts", 100, lambda kind: kind.startswith("leader cut")),
    ("failovers of the database", 50, lambda kind: kind in FAILOVERS),
    ("kills of the leader, two real hosts", 30, lambda kind: kind.startswith("two real hosts, leader killed")),
    ("pauses of the leader, two real hosts", 10, lambda kind: kind.startswith("two real hosts, leader stopped")),
]


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def lines_of(path):
    faults, runs, commands = collections.defaultdict(list), {}, collections.defaultdict(list)
    for line in open(path):
        line = json.loads(line)
        if "fault" in line:
            faults[line["run"]].append(line)
        elif "command" in line:
            commands[line["run"]].append(line)
        else:
            runs[line["run"]] = line
    return faults, runs, commands


def main():
    faults, runs, commands = lines_of(sys.argv[1])
    passed = [name for name, run in runs.items() if not run["failed"]]
    by_kind = collections.defaultdict(list)
    for name in passed:
        for fault in faults[name]:
            by_kind[fault["fault"]].append(fault)
    counts = collections.Counter()
    for name in passed:
        counts.update(runs[name]["counts"])
    print(f"{len(passed)} runs passed all checks, with {sum(map(len, by_kind.values()))} faults in "
          f"{sum(runs[name]['seconds'] for name in passed)} seconds, and {sum(runs[name]['events'] for name in passed):,} events.")
    print("; ".join(f"{what} {count:,}" for what, count in sorted(counts.items())) + ".\n")
    print("| aim | wanted | reached |\n|---|--:|--:|")
    for what, wanted, counted in AIMS:
        print(f"| {what} | {wanted} | {sum(len(some) for kind, some in by_kind.items() if counted(kind))} |")
    mixed = sum(runs[name]["seconds"] for name in passed if runs[name]["part"] == "mixed")
    print(f"| seconds with mixed faults | 3600 | {mixed} |")
    killed = [fault["write"] for fault in by_kind[KILLED]]
    if killed:
        print(f"| seconds without a write after a kill of the leader, half of the kills | < 1 | {percentile(killed, 0.5):.1f} |")
        print(f"| seconds without a write after a kill of the leader, at most | 3 | {max(killed):.1f} |")
    print()
    print("| fault | times | writes: p50 | p99 | max | reads: p50 | p99 | max | work on hosts: p50 | p99 | max |")
    print("|---" + "|--:" * 10 + "|")
    for kind, some in sorted(item for item in by_kind.items() if item[1]):
        cells = [f"{percentile([one[what] for one in some], part):.1f}" for what in ("write", "read", "work") for part in (0.5, 0.99, 1)]
        print(f"| {kind} | {len(some)} | {' | '.join(cells)} |")
    told = collections.Counter()
    for one in (one for name in passed for one in commands[name]):
        where = "at that member" if one["asked"] == one["killed"] else "at another member"
        told[f"`{one['command']}` {where} while the {one['role']} is killed {one['outcome']}"] += 1
    for what, times in sorted(told.items()):
        print(f"\n{what}: {times} times", end="")
    for name in passed:
        for kind, one in runs[name].get("milliseconds", {}).items():
            print(f"\n{name}: {kind}: p50 {one['p50']} ms, p99 {one['p99']} ms", end="")
    print("\n\n| run | part | faults | seconds | lease | seed | program | failed checks |\n|---|---|--:|--:|--:|--:|---|---|")
    for name, run in sorted(runs.items()):
        print(f"| {name} | {run['part']} | {len(faults[name])} | {run['seconds']} | {run['lease']} | {run['seed']} | "
              f"{run['program']} | {'; '.join(run['failed'])} |")
    for name in sorted(set(faults) - set(runs)):
        print(f"| {name} | | {len(faults[name])} | | | | | the run was ended before its checks |")


main()
