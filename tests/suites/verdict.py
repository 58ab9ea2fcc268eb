"""Compares the results of the clients' functional tests with the list of known failures.

    verdict.py RESULT EXCEPTIONS PAGE [part]

RESULT has a line for each test, as run.py writes it. EXCEPTIONS has lines `PATTERN  # reason`; a pattern is a regular
expression of ids. A reason `absent: OPERATIONS` names a heading of PAGE, the page of what the embedded services leave
out. `part`: the run had only some of the tests. Exits 1 if a failed test matches no pattern, if a passed test matches a
pattern, if a reason names no heading, or if no failed test matches a pattern. With `part`, the last of these is no
failure.
"""

import collections
import re
import sys


def exceptions(path):
    for line in open(path):
        if line.strip() and not line.startswith("#"):
            pattern, _, why = line.strip().partition("  # ")
            if not why:
                sys.exit(f"{path}: {pattern} has no reason")
            yield pattern.strip(), why.strip()


def group(name):
    """`openstack network`: the client and the folder of a test."""
    words = name.split(".")
    at = words.index("functional") if "functional" in words else 0
    return f"{words[0]} {words[at + 1]}"


def main():
    result, listed, page, *more = sys.argv[1:]
    results = {}
    for line in open(result):
        outcome, name, *why = line.rstrip("\n").split(" ", 2)
        if results.get(name, ("",))[0] != "FAIL":
            results[name] = (outcome, why[0] if why else "")
    known = list(exceptions(listed))
    headings = {line.lstrip("#").strip() for line in open(page) if line.startswith("#")}
    faults = [f"the page has no heading for: {why}" for _, why in known if why.startswith("absent: ") and why[8:] not in headings]

    counts, reasons, used = collections.defaultdict(collections.Counter), collections.Counter(), set()
    for name, (outcome, why) in sorted(results.items()):
        patterns = [(pattern, because) for pattern, because in known if re.search(pattern, name)]
        counts[group(name)]["listed" if outcome == "FAIL" and patterns else outcome] += 1
        if outcome == "FAIL":
            used.update(pattern for pattern, _ in patterns)
            reasons.update(because for _, because in patterns[:1])
            if not patterns:
                faults.append(f"fails without a known reason: {name} {why}")
        if outcome == "PASS" and patterns:
            faults.append(f"is listed, and passes: {name} ({patterns[0][0]})")
    if not more:
        faults += [f"an exception that nothing needs: {pattern}" for pattern, _ in known if pattern not in used]

    print(f"{'':32}{'passed':>8}{'listed':>8}{'failed':>8}{'skipped':>8}")
    for name, count in sorted(counts.items()):
        print(f"{name:32}{count['PASS']:8}{count['listed']:8}{count['FAIL']:8}{count['SKIP']:8}")
    for why, count in reasons.most_common():
        print(f"{count:4}  {why}")
    print("\n".join(faults))
    sys.exit(bool(faults))


main()
