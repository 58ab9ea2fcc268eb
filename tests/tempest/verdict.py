"""Reads tempest's results, and compares them with the lists of known results.

    verdict.py SUBUNIT RESULT PASSES EXCEPTIONS [part]

SUBUNIT is the stream of a run; RESULT gets one line per test. PASSES lists the tests that must pass, and may only
grow. EXCEPTIONS lists the tests that cannot pass, each with its reason. `part`: the run had only some of the tests, so
missing results are no failure. Exits 1 if a listed test did not pass, or if a test failed without a listed reason.
Prints the tests that pass and are not listed yet, so that they can be added.
"""

import re
import sys

import subunit
import testtools


class Listener(testtools.StreamResult):
    def __init__(self):
        super().__init__()
        self.results, self.started, self.said = {}, set(), {}

    def status(self, test_id=None, test_status=None, file_name=None, file_bytes=None, **_):
        if test_id is None:
            return
        name = re.sub(r"\[.*\]$", "", test_id)
        if file_name in ("reason", "traceback") and file_bytes:
            self.said[name] = self.said.get(name, "") + bytes(file_bytes).decode("utf8", "replace")
        if test_status == "inprogress":
            self.started.add(name)
        elif test_status in ("success", "fail", "skip", "uxsuccess"):
            result = {"success": "PASS", "fail": "FAIL", "skip": "SKIP"}.get(test_status, "FAIL")
            # A test that has several results fails if one of them is a failure.
            self.results[name] = "FAIL" if "FAIL" in (result, self.results.get(name)) else result


def lines(path):
    return [line.strip() for line in open(path) if line.strip() and not line.startswith("#")]


def reason(result, said):
    said = said.strip().split("\n")
    return (said[0] if result == "SKIP" else said[-1]).strip()[:200]


def excused(name, exceptions):
    return any(re.search(pattern, name) for pattern in exceptions)


def main():
    stream, out, passes, exceptions = sys.argv[1:5]
    part = "part" in sys.argv[5:]
    listener = Listener()
    subunit.ByteStreamToStreamResult(open(stream, "rb")).run(listener)
    results = listener.results | {name: "INCOMPLETE" for name in listener.started - set(listener.results)}
    with open(out, "w") as file:
        for name, result in sorted(results.items()):
            why = "" if result == "PASS" else "  # " + reason(result, listener.said.get(name, ""))
            file.write(f"{result} {name}{why}\n")
    listed = set(lines(passes))
    # PATTERN  # reason
    known = {}
    for line in lines(exceptions):
        pattern, _, why = line.partition("  # ")
        if not why:
            sys.exit(f"{exceptions}: {pattern} has no reason")
        known[pattern.strip()] = why
    count = lambda wanted: sum(1 for result in results.values() if result == wanted)
    lost = sorted(name for name in listed if results.get(name, "PASS" if part else "missing") != "PASS")
    failed = sorted(n for n, r in results.items() if r in ("FAIL", "INCOMPLETE") and n not in listed and not excused(n, known))
    gained = sorted(name for name, result in results.items() if result == "PASS" and name not in listed)
    idle = [] if part else sorted(p for p in known if not any(r != "PASS" and re.search(p, n) for n, r in results.items()))
    for title, names in (("listed, and does not pass", lost), ("fails without a known reason", failed)):
        for name in names:
            print(f"{title}: {name}: {results.get(name, 'missing')} {reason('FAIL', listener.said.get(name, ''))}")
    for name in gained:
        print(f"passes and is not listed yet: {name}")
    for pattern in idle:
        print(f"an exception that nothing needs: {pattern}")
    print(f"{count('PASS')} pass ({len(listed)} listed), {count('FAIL')} fail, {count('SKIP')} skipped, {len(lost)} lost, {len(failed)} unexplained")
    sys.exit(bool(lost or failed))


main()
